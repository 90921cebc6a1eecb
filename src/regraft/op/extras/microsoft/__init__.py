"""The operators of the domain ``com.microsoft``, which ONNX Runtime's optimizers and quantizers write.

Each is one function over the array API, declared with `contributed`. Add a new one to the module of its family, or a
new module to the list below. They are loaded when the first of them is looked up, for example by
``is_op("com.microsoft.FusedMatMul")``.
"""

from . import activation as activation
from . import attention as attention
from . import biases as biases
from . import blocked as blocked
from . import decoding as decoding
from . import diffusion as diffusion
from . import elementwise_quantized as elementwise_quantized
from . import experts as experts
from . import grouped as grouped
from . import integers as integers
from . import normalization as normalization
from . import padding as padding
from . import products as products
from . import quantized_attention as quantized_attention
from . import quantized_windows as quantized_windows
from . import recurrent as recurrent
from . import rotary as rotary
from . import stored as stored
from . import streams as streams
from . import various as various
from . import windows as windows

"""The readers of ONNX's operators, by family. Importing this fills `importing.IMPORTERS`."""

from . import convolution as convolution
from . import elementwise as elementwise
from . import experimental as experimental
from . import indexing as indexing
from . import linear_algebra as linear_algebra
from . import loops as loops
from . import machine_learning as machine_learning
from . import normalization as normalization
from . import recurrent as recurrent
from . import reduction as reduction
from . import resize as resize
from . import sequences as sequences
from . import shaping as shaping
from . import signal as signal
from . import stored_products as stored_products
from . import training as training
from . import vision as vision
from .partial_sizes import partial_sizes as partial_sizes
from .size_arithmetic import on_sizes as on_sizes

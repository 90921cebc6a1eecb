"""The handlers of ATen operators, by family. Importing this package fills the table of handlers."""

from . import attention as attention
from . import backward as backward
from . import binary as binary
from . import complex_tensors as complex_tensors
from . import counted as counted
from . import creation as creation
from . import fourier as fourier
from . import indexing as indexing
from . import layers as layers
from . import linear_algebra as linear_algebra
from . import matrices as matrices
from . import pooling as pooling
from . import quantized as quantized
from . import recurrent as recurrent
from . import reduction as reduction
from . import resampling as resampling
from . import scattering as scattering
from . import unary as unary
from . import views as views

"""The lowerings of operators to ONNX, by family; importing this fills `lowering.LOWERINGS`."""

from . import create as create
from . import declared as declared
from . import elementwise as elementwise
from . import linear_algebra as linear_algebra
from . import loops as loops
from . import manipulate as manipulate
from . import nn as nn
from . import quantization as quantization
from . import recurrent as recurrent
from . import reduction as reduction
from . import signal as signal
from . import spatial as spatial
from . import vision as vision

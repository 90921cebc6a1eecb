"""The vocabulary: every operator, declared in one place, in the module of its family.

The families are in `primitive`, `composite` and `extras`. This namespace holds the functions that people call: the
names that the modules list in their ``__all__``. So a new operator is listed in its own module only. The vocabulary
depends on the language only.
"""

# ruff: noqa: F403 - each module lists its public names

from ..ir.op import Op as Op  # a name of ``tvm.ir.op``, too
from ..ir.op_attributes import register_op_attr as register_op_attr
from . import builtin, ccl, grad, image, memory, nn, vision, vm
from .composite import sampling_gradients as sampling_gradients
from .composite.devices import *
from .composite.grouped_products import *
from .composite.matrix import *
from .composite.quantize import *
from .composite.quantized_products import *
from .composite.sampling import *
from .extras import signal
from .extras.machine import call_builtin_with_ctx as call_builtin_with_ctx
from .primitive import conv_gradients as conv_gradients
from .primitive import dist
from .primitive import indexing_gradients as indexing_gradients
from .primitive.binary import *
from .primitive.broadcast import *
from .primitive.comparison import *
from .primitive.create import *
from .primitive.datatype import *
from .primitive.einsum import *
from .primitive.elementary import *
from .primitive.gather import *
from .primitive.indexing import *
from .primitive.join import *
from .primitive.linear_algebra import *
from .primitive.loop import *
from .primitive.manipulate import *
from .primitive.packed import *
from .primitive.reduction import *
from .primitive.reshaping import *
from .primitive.scan import *
from .primitive.scatter import *
from .primitive.search import *
from .primitive.shape import shape_of as shape_of
from .primitive.shape import shape_to_tensor as shape_to_tensor
from .primitive.shape import size as size
from .primitive.shape import tensor_to_shape as tensor_to_shape
from .primitive.ternary import *
from .primitive.unary import *
from .vision import all_class_non_max_suppression as all_class_non_max_suppression
from .vision import get_valid_counts as get_valid_counts
from .vision import multibox_transform_loc as multibox_transform_loc
from .vision import non_max_suppression as non_max_suppression
from .vision import roi_align as roi_align
from .vision import roi_pool as roi_pool

__all__: list[str] = ["builtin", "ccl", "dist", "grad", "image", "memory", "nn", "signal", "vision", "vm"]
__all__ += sorted([name for name, value in globals().items() if callable(value)])  # pyright: ignore[reportUnsupportedDunderAll]

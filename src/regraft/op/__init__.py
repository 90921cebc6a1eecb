"""The vocabulary: every operator, whole, in the module of its family (`primitive`, `composite`, `extras`).

This namespace holds the functions that people call: those that the modules list in their ``__all__``. So an operator
that joins a family is listed in its own module, and nowhere else. The vocabulary knows the language only.
"""

# ruff: noqa: F403 - a module says which of its names are public

from . import builtin, ccl, grad, image, memory, nn, vision, vm
from .composite import devices as _devices
from .composite import grouped_products as _grouped_products
from .composite import loss_gradients as loss_gradients
from .composite import matrix as _matrix
from .composite import quantize as _quantize
from .composite import quantized_products as _quantized_products
from .composite import sampling as _sampling
from .composite import sampling_gradients as sampling_gradients
from .composite.devices import *
from .composite.grouped_products import *
from .composite.matrix import *
from .composite.quantize import *
from .composite.quantized_products import *
from .composite.sampling import *
from .extras import signal
from .extras.machine import call_builtin_with_ctx
from .primitive import binary as _binary
from .primitive import bits as _bits
from .primitive import broadcast as _broadcast
from .primitive import comparison as _comparison
from .primitive import conv_gradients as conv_gradients
from .primitive import create as _create
from .primitive import datatype as _datatype
from .primitive import dist
from .primitive import einsum as _einsum
from .primitive import elementary as _elementary
from .primitive import gather as _gather
from .primitive import indexing as _indexing
from .primitive import indexing_gradients as indexing_gradients
from .primitive import join as _join
from .primitive import linear_algebra as _linear_algebra
from .primitive import logical as _logical
from .primitive import loop as _loop
from .primitive import manipulate as _manipulate
from .primitive import packed as _packed
from .primitive import reduction as _reduction
from .primitive import reshaping as _reshaping
from .primitive import scan as _scan
from .primitive import scatter as _scatter
from .primitive import search as _search
from .primitive import selection_gradients as selection_gradients
from .primitive import sets as _sets
from .primitive import sorting as _sorting
from .primitive import ternary as _ternary
from .primitive import unary as _unary
from .primitive.binary import *
from .primitive.bits import *
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
from .primitive.logical import *
from .primitive.loop import *
from .primitive.manipulate import *
from .primitive.packed import *
from .primitive.reduction import *
from .primitive.reshaping import *
from .primitive.scan import *
from .primitive.scatter import *
from .primitive.search import *
from .primitive.sets import *
from .primitive.shape import shape_of, shape_to_tensor, size, tensor_to_shape
from .primitive.sorting import *
from .primitive.ternary import *
from .primitive.unary import *
from .vision import (
    all_class_non_max_suppression,
    get_valid_counts,
    multibox_transform_loc,
    non_max_suppression,
    roi_align,
    roi_pool,
)

__all__: list[str] = [
    "all_class_non_max_suppression",
    "builtin",
    "call_builtin_with_ctx",
    "ccl",
    "dist",
    "get_valid_counts",
    "grad",
    "image",
    "memory",
    "multibox_transform_loc",
    "nn",
    "non_max_suppression",
    "roi_align",
    "roi_pool",
    "shape_of",
    "shape_to_tensor",
    "signal",
    "size",
    "tensor_to_shape",
    "vision",
    "vm",
]
__all__ += _binary.__all__
__all__ += _bits.__all__
__all__ += _broadcast.__all__
__all__ += _comparison.__all__
__all__ += _create.__all__
__all__ += _datatype.__all__
__all__ += _devices.__all__
__all__ += _einsum.__all__
__all__ += _elementary.__all__
__all__ += _gather.__all__
__all__ += _indexing.__all__
__all__ += _join.__all__
__all__ += _linear_algebra.__all__
__all__ += _logical.__all__
__all__ += _loop.__all__
__all__ += _manipulate.__all__
__all__ += _grouped_products.__all__
__all__ += _matrix.__all__
__all__ += _packed.__all__
__all__ += _quantize.__all__
__all__ += _quantized_products.__all__
__all__ += _reduction.__all__
__all__ += _reshaping.__all__
__all__ += _sampling.__all__
__all__ += _scan.__all__
__all__ += _scatter.__all__
__all__ += _search.__all__
__all__ += _sets.__all__
__all__ += _sorting.__all__
__all__ += _ternary.__all__
__all__ += _unary.__all__

"""The vocabulary: every operator, whole, in the module of its family (`primitive`, `composite`, `extras`).

This namespace holds the functions that people call. It knows the language only. Importing it also tells
Python's operators on expressions what they mean.
"""

from . import builtin, grad, image, nn, vision
from . import operators as operators
from .composite import loss_gradients as loss_gradients
from .composite import sampling_gradients as sampling_gradients
from .composite.matrix import eye, eye_like, tril, triu
from .composite.quantize import dequantize, dynamic_quantize, quantize
from .composite.quantized_products import matmul_blocks, matmul_integer
from .composite.sampling import multinomial_from_uniform
from .extras import signal
from .primitive import conv_gradients as conv_gradients
from .primitive import dist
from .primitive import indexing_gradients as indexing_gradients
from .primitive import selection_gradients as selection_gradients
from .primitive.binary import (
    add,
    atan2,
    divide,
    floor_divide,
    floor_mod,
    log_add_exp,
    maximum,
    minimum,
    mod,
    multiply,
    power,
    subtract,
)
from .primitive.bits import bitcast
from .primitive.broadcast import broadcast_to, collapse_sum_like, collapse_sum_to, repeat, tile
from .primitive.comparison import equal, greater, greater_equal, less, less_equal, not_equal
from .primitive.create import arange, full, full_like, hamming_window, one_hot, ones, ones_like, zeros, zeros_like
from .primitive.datatype import astype, wrap_param
from .primitive.einsum import einsum
from .primitive.elementary import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cos,
    cosh,
    erf,
    exp,
    log,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from .primitive.gather import gather_elements, gather_nd, index_tensor
from .primitive.indexing import dynamic_strided_slice, strided_slice, take
from .primitive.join import concat, meshgrid, split, stack
from .primitive.linear_algebra import linear, matmul, outer
from .primitive.logical import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    left_shift,
    logical_and,
    logical_or,
    logical_xor,
    right_shift,
)
from .primitive.loop import loop
from .primitive.manipulate import flip, layout_transform, permute_dims, reverse_sequence
from .primitive.packed import (
    assert_op,
    call_dps_packed,
    call_inplace_packed,
    call_packed,
    call_pure_packed,
    invoke_closure,
    invoke_pure_closure,
    make_closure,
    null_value,
    print,
)
from .primitive.reduction import max, mean, median, min, prod, std, sum, variance
from .primitive.reshaping import expand_dims, flatten, reshape, squeeze
from .primitive.scan import cumprod, cumsum
from .primitive.scatter import index_put, scatter_elements, scatter_nd, slice_scatter
from .primitive.search import argmax, argmin, bucketize
from .primitive.sets import nonzero, unique
from .primitive.shape import shape_of, shape_to_tensor, size, tensor_to_shape
from .primitive.sorting import argsort, sort, topk
from .primitive.ternary import clip, ewise_fma, masked_fill, where
from .primitive.unary import (
    abs,
    bitwise_not,
    ceil,
    floor,
    isfinite,
    isinf,
    isnan,
    logical_not,
    negative,
    round,
    sign,
    square,
    trunc,
)
from .vision import all_class_non_max_suppression, roi_align, roi_pool

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "all_class_non_max_suppression",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asin",
    "asinh",
    "assert_op",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitcast",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast_to",
    "bucketize",
    "builtin",
    "call_dps_packed",
    "call_inplace_packed",
    "call_packed",
    "call_pure_packed",
    "ceil",
    "clip",
    "collapse_sum_like",
    "collapse_sum_to",
    "concat",
    "cos",
    "cosh",
    "cumprod",
    "cumsum",
    "dequantize",
    "dist",
    "divide",
    "dynamic_quantize",
    "dynamic_strided_slice",
    "einsum",
    "equal",
    "erf",
    "ewise_fma",
    "exp",
    "expand_dims",
    "eye",
    "eye_like",
    "flatten",
    "flip",
    "floor",
    "floor_divide",
    "floor_mod",
    "full",
    "full_like",
    "gather_elements",
    "gather_nd",
    "grad",
    "greater",
    "greater_equal",
    "hamming_window",
    "image",
    "index_put",
    "index_tensor",
    "invoke_closure",
    "invoke_pure_closure",
    "isfinite",
    "isinf",
    "isnan",
    "layout_transform",
    "left_shift",
    "less",
    "less_equal",
    "linear",
    "log",
    "log_add_exp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "loop",
    "make_closure",
    "masked_fill",
    "matmul",
    "matmul_blocks",
    "matmul_integer",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mod",
    "multinomial_from_uniform",
    "multiply",
    "negative",
    "nn",
    "nonzero",
    "not_equal",
    "null_value",
    "one_hot",
    "ones",
    "ones_like",
    "outer",
    "permute_dims",
    "power",
    "print",
    "prod",
    "quantize",
    "repeat",
    "reshape",
    "reverse_sequence",
    "right_shift",
    "roi_align",
    "roi_pool",
    "round",
    "rsqrt",
    "scatter_elements",
    "scatter_nd",
    "shape_of",
    "shape_to_tensor",
    "sigmoid",
    "sign",
    "signal",
    "sin",
    "sinh",
    "size",
    "slice_scatter",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "strided_slice",
    "subtract",
    "sum",
    "take",
    "tan",
    "tanh",
    "tensor_to_shape",
    "tile",
    "topk",
    "tril",
    "triu",
    "trunc",
    "unique",
    "variance",
    "vision",
    "where",
    "wrap_param",
    "zeros",
    "zeros_like",
]

"""Parts of reference semantics that several operators share, over any array API namespace ``xp``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from array_api_compat import device as device_of  # pyright: ignore[reportUnknownVariableType]

from ..ir.attrs import Attrs
from ..ir.dims import Dim
from ..ir.dtypes import is_bool, is_float, is_integer, is_unsigned, itemsize, numpy_dtype
from ..ir.op import Op, Reference

PROGRAM: Final = "program"
"""The name of the namespace whose arrays are expressions; see `program_xp`."""


def truncated_divide(xp: Any, x1: Any, x2: Any) -> Any:
    """The quotient; of integers rounded towards zero, as in C and ONNX."""
    if is_integer(dtype_name(x1.dtype)):
        quotient = xp.floor_divide(x1, x2)
        inexact = xp.not_equal(xp.multiply(quotient, x2), x1)
        return xp.where(xp.logical_and(inexact, xp.less(quotient, 0)), quotient + 1, quotient)
    return xp.divide(x1, x2)


# --- dtypes of arrays


def dtype_name(dtype: Any) -> str:
    """The Relax name of an array's dtype: ``"float32"`` for ``numpy.float32``, ``torch.float32``..."""
    return str(dtype).rpartition(".")[2]


def namespace_dtype(xp: Any, name: str) -> Any:
    """The dtype object of ``xp`` for the Relax name ``name``; the NumPy or ml_dtypes one if ``xp`` has none."""
    found = getattr(xp, name, None)
    return numpy_dtype(name) if found is None else found


def cast(xp: Any, x: Any, name: str) -> Any:
    """``x`` cast to the dtype with the Relax name ``name``; ``x`` itself if it already has that dtype."""
    return x if dtype_name(x.dtype) == name else xp.astype(x, namespace_dtype(xp, name))


def widened(xp: Any, x: Any) -> Any:
    """``x`` in the dtype for sums over it: float32 for narrower floats, else its own.

    Callers compute in this dtype and round once at the end, with a `cast` to the dtype of the result.
    """
    name = dtype_name(x.dtype)
    return cast(xp, x, "float32") if is_float(name) and itemsize(name) < 4 else x


def sort_keys(xp: Any, x: Any) -> Any:
    """``x`` in a dtype that every library can sort and search: bool as integers, narrow floats as float32."""
    return cast(xp, x, "uint8") if dtype_name(x.dtype) == "bool" else widened(xp, x)


def integer_range(name: str) -> tuple[int, int]:
    """The least and the greatest integer of the dtype with the Relax name ``name``."""
    bits = int(name.removeprefix("u").removeprefix("int"))
    return (0, 2**bits - 1) if is_unsigned(name) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


# --- references that are one function


def standard(name: str) -> Reference:
    """The reference that is the array API function ``name``, with the result cast to the first operand's dtype."""

    def reference(xp: Any, x: Any, *others: Any) -> Any:
        return cast(xp, xp.asarray(getattr(xp, name)(x, *others)), dtype_name(x.dtype))

    return reference


def array_function(name: str) -> Reference:
    """The reference that is the array API function ``name``, in the dtype that the function returns."""

    def reference(xp: Any, *operands: Any, **attributes: Any) -> Any:
        return xp.asarray(getattr(xp, name)(*operands, **attributes))

    return reference


def with_attrs(function: Callable[..., Any]) -> Reference:
    """``function(xp, attrs, *operands)`` as a reference: it gets the attributes as one `Attrs`, as type rules do."""

    def reference(xp: Any, *operands: Any, **attributes: Any) -> Any:
        return function(xp, Attrs(attributes), *operands)

    return reference


def rounded_once(function: Reference) -> Reference:
    """``function`` of operands of one floating dtype, computed in float32 or wider and then rounded to that dtype."""

    def reference(xp: Any, x: Any, *others: Any, **attributes: Any) -> Any:
        wide = function(xp, widened(xp, x), *[widened(xp, other) for other in others], **attributes)
        return cast(xp, xp.asarray(wide), dtype_name(x.dtype))

    return reference


def product_in_dtype(xp: Any, product: Callable[..., Any], operands: Sequence[Any], dtype: str) -> Any:
    """``product(*operands)``, a sum of products, as an array of ``dtype``; for bool, the "or" of "and"s.

    The sum is computed in the `accumulator` of the dtypes and rounded once.
    """
    if is_bool(dtype):
        return xp.asarray(product(*[cast(xp, cast(xp, x, "bool"), "float32") for x in operands])) > 0
    work = accumulator(dtype, *(dtype_name(x.dtype) for x in operands))
    return cast(xp, xp.asarray(product(*[cast(xp, x, work) for x in operands])), dtype)


# --- other operators


def apply(xp: Any, op: Op, *operands: Any, **attributes: Any) -> Any:
    """The result of ``op``, for use in another operator's reference; if ``xp`` writes programs, a call of ``op``."""
    if xp.__name__ == PROGRAM:
        return xp.call(op, *operands, **attributes)
    assert op.reference is not None
    return op.reference(xp, *operands, **op.complete_attrs(attributes))


# --- functions that the array API standard lacks


def special_function(xp: Any, name: str) -> Any:
    """The function ``name`` (``erf``, ``gammaln``, ...) for arrays of ``xp``, from the matching library."""
    namespace: str = xp.__name__
    if namespace == PROGRAM:
        return getattr(xp, name)
    if "torch" in namespace:
        return getattr(import_module("torch.special"), name)
    if "jax" in namespace:
        return getattr(import_module("jax.scipy.special"), name)
    return getattr(import_module("scipy.special"), name)


# --- functions that several families build on


def normalized_exponentials(xp: Any, x: Any, axis: int, masked: float = float("nan")) -> Any:
    """``exp(x)`` divided by its sum along ``axis``, computed in the dtype of ``x``, which should be float32 or wider.

    The greatest element is subtracted first, so nothing overflows. A slice that is all -inf becomes ``masked``.
    """
    if x.shape[axis] == 0:
        return x
    peak = xp.max(x, axis=axis, keepdims=True)
    exponentials = xp.exp(x - xp.where(xp.isfinite(peak), peak, xp.zeros_like(peak)))
    total = xp.sum(exponentials, axis=axis, keepdims=True)
    empty = total == 0
    shares = exponentials / xp.where(empty, xp.ones_like(total), total)
    return xp.where(empty, xp.full_like(shares, masked), shares)


def accumulator(result: str, *operands: str) -> str:
    """The dtype in which sums of products are accumulated, for operands and a result of these dtypes.

    float64 or float32 if one of them is floating. Otherwise the dtype of the result, so integer sums wrap around in
    its range.
    """
    names = (result, *operands)
    if not any(is_float(name) for name in names):
        return result
    return "float64" if "float64" in names else "float32"


def filled(xp: Any, shape: Sequence[Dim], value: float, like: Any) -> Any:
    """An array of ``shape`` filled with ``value``, with the dtype and device of ``like``."""
    # a traced JAX array has no attribute `device`; the helper works for all namespaces
    return xp.full(tuple(shape), value, dtype=like.dtype, device=device_of(like))


def positions(xp: Any, count: Dim, like: Any) -> Any:
    """The numbers from 0 to ``count`` - 1 as int64, on the device of ``like``."""
    return xp.arange(count, dtype=xp.int64, device=device_of(like))


def index_array(xp: Any, values: Sequence[Dim], like: Any) -> Any:
    """``values`` as an int64 array of one dimension on the device of ``like``; in programs, they may be symbolic."""
    return xp.asarray(list(values), dtype=xp.int64, device=device_of(like))


def along(xp: Any, values: Any, axis: int, ndim: int) -> Any:
    """``values``, one for each index of ``axis``, reshaped to broadcast with a tensor of ``ndim`` axes."""
    return xp.reshape(values, (-1, *(1,) * (ndim - axis - 1)))


def size_of(xp: Any, x: Any) -> int:
    """The integer in ``x``, an array of one element, for use as the size of an axis.

    In a namespace that writes programs it is a new size variable.
    """
    named = getattr(xp, "size_of", None)
    return int(x) if named is None else named(x)


def pad_constant(xp: Any, x: Any, widths: Sequence[tuple[int, int]], value: float) -> Any:
    """``x`` padded with ``value``: ``widths[axis]`` elements before and after each axis; negative widths crop."""
    for axis, (before, after) in enumerate(widths):
        size = x.shape[axis]
        kept = [slice(None)] * axis + [slice(max(-before, 0), size - max(-after, 0))]
        if before < 0 or after < 0:
            x = x[(*kept, ...)]
        blocks = [x]
        for place, width in ((0, before), (1, after)):
            if width > 0:
                shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
                blocks.insert(place * len(blocks), filled(xp, shape, value, x))
        x = xp.concat(blocks, axis=axis) if len(blocks) > 1 else x
    return x

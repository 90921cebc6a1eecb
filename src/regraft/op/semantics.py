"""Pieces of meaning that several operators share, over any array API namespace ``xp``."""

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
"""The name of the namespace whose arrays are expressions: see `program_xp`."""


def truncated_divide(xp: Any, x1: Any, x2: Any) -> Any:
    """The quotient rounded towards zero, as C and ONNX divide integers; floats divide as they are."""
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
    """The dtype object that ``xp`` has for the Relax name ``name``, or ml_dtypes for NumPy."""
    found = getattr(xp, name, None)
    return numpy_dtype(name) if found is None else found


def cast(xp: Any, x: Any, name: str) -> Any:
    """``x`` with elements of the dtype of that Relax name; ``x`` itself when it has it already."""
    return x if dtype_name(x.dtype) == name else xp.astype(x, namespace_dtype(xp, name))


def widened(xp: Any, x: Any) -> Any:
    """``x`` in the dtype for sums over it: float32 for narrower floats, else its own.

    Callers compute in that dtype and round once, at the end, with `cast` to the dtype of the result.
    """
    name = dtype_name(x.dtype)
    return cast(xp, x, "float32") if is_float(name) and itemsize(name) < 4 else x


def sort_keys(xp: Any, x: Any) -> Any:
    """``x`` in a dtype that every library can sort and search: bool as integers, narrow floats as float32."""
    return cast(xp, x, "uint8") if dtype_name(x.dtype) == "bool" else widened(xp, x)


def integer_range(name: str) -> tuple[int, int]:
    """The least and the greatest integer of the dtype of that Relax name."""
    bits = int(name.removeprefix("u").removeprefix("int"))
    return (0, 2**bits - 1) if is_unsigned(name) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


# --- meanings that are one function


def standard(name: str) -> Reference:
    """The meaning that is the array API function ``name`` of the operands, in the dtype of the first."""

    def reference(xp: Any, x: Any, *others: Any) -> Any:
        return cast(xp, xp.asarray(getattr(xp, name)(x, *others)), dtype_name(x.dtype))

    return reference


def array_function(name: str) -> Reference:
    """The meaning that is the array API function ``name``, in whatever dtype it gives."""

    def reference(xp: Any, *operands: Any, **attributes: Any) -> Any:
        return xp.asarray(getattr(xp, name)(*operands, **attributes))

    return reference


def with_attrs(function: Callable[..., Any]) -> Reference:
    """``function(xp, attrs, *operands)`` as a reference: the attributes are one value, as type rules read them."""

    def reference(xp: Any, *operands: Any, **attributes: Any) -> Any:
        return function(xp, Attrs(attributes), *operands)

    return reference


def rounded_once(function: Reference) -> Reference:
    """``function`` of operands of one floating dtype: worked out in float32 at least, then rounded to it."""

    def reference(xp: Any, x: Any, *others: Any, **attributes: Any) -> Any:
        wide = function(xp, widened(xp, x), *[widened(xp, other) for other in others], **attributes)
        return cast(xp, xp.asarray(wide), dtype_name(x.dtype))

    return reference


def product_in_dtype(xp: Any, product: Callable[..., Any], operands: Sequence[Any], dtype: str) -> Any:
    """``product(*operands)``, a sum of products, as an array of ``dtype``; bool gives "or" of "and"s.

    The work is done in the `accumulator` of the dtypes, and rounded once.
    """
    if is_bool(dtype):
        return xp.asarray(product(*[cast(xp, cast(xp, x, "bool"), "float32") for x in operands])) > 0
    work = accumulator(dtype, *(dtype_name(x.dtype) for x in operands))
    return cast(xp, xp.asarray(product(*[cast(xp, x, work) for x in operands])), dtype)


# --- other operators


def apply(xp: Any, op: Op, *operands: Any, **attributes: Any) -> Any:
    """The meaning of ``op`` as a part of that of another operator: a call of it where ``xp`` writes programs."""
    if xp.__name__ == PROGRAM:
        return xp.call(op, *operands, **attributes)
    assert op.reference is not None
    return op.reference(xp, *operands, **op.complete_attrs(attributes))


# --- functions that the array API standard lacks


def special_function(xp: Any, name: str) -> Any:
    """The function ``name`` (``erf``, ``gammaln``, ...) for arrays of ``xp``, from the library beside it."""
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
    """``exp(x)`` divided by its sum along ``axis``, for floats that are wide enough to sum in.

    The greatest element is subtracted first, so nothing overflows. A slice of -inf only becomes ``masked``.
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
    """The dtype that sums of products are kept in, for operands and a result of these dtypes.

    float32 or wider as soon as one of them is floating; integers sum in the dtype of the result, modulo its
    range.
    """
    names = (result, *operands)
    if not any(is_float(name) for name in names):
        return result
    return "float64" if "float64" in names else "float32"


def filled(xp: Any, shape: Sequence[Dim], value: float, like: Any) -> Any:
    """An array of ``shape`` that holds ``value`` throughout, with the dtype and device of ``like``."""
    # a traced JAX array has no `device` of its own; the helper answers for all namespaces
    return xp.full(tuple(shape), value, dtype=like.dtype, device=device_of(like))


def positions(xp: Any, count: Dim, like: Any) -> Any:
    """0 up to ``count`` - 1 as int64, beside ``like``: on its device."""
    return xp.arange(count, dtype=xp.int64, device=device_of(like))


def index_array(xp: Any, values: Sequence[Dim], like: Any) -> Any:
    """``values``, which are symbolic in programs only, as an int64 array of one dimension on the device of ``like``."""
    return xp.asarray(list(values), dtype=xp.int64, device=device_of(like))


def along(xp: Any, values: Any, axis: int, ndim: int) -> Any:
    """``values``, one for each place on ``axis``, shaped to broadcast with a tensor of ``ndim`` axes."""
    return xp.reshape(values, (-1, *(1,) * (ndim - axis - 1)))


def size_of(xp: Any, x: Any) -> int:
    """The whole number that ``x``, of one element, holds, to be the size of an axis.

    A namespace that writes programs, and so has no numbers, gives a name for it.
    """
    named = getattr(xp, "size_of", None)
    return int(x) if named is None else named(x)


def pad_constant(xp: Any, x: Any, widths: Sequence[tuple[int, int]], value: float) -> Any:
    """``x`` with ``widths[axis]`` elements of ``value`` around each axis; negative widths cut off."""
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

"""Functions on `nn.Tensor`: each adds a call of the operator of the same name, and returns the bound result.

Names and order of arguments are PyTorch's if they differ from the operator's; ``name`` is the name of the variable.
Shapes, dtypes and errors are those of the operators in `regraft.op`.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import op as _op
from ...ir.dims import Dim, SymExpr
from ...ir.expr import Expr, PrimValue, StringImm, as_expr, const
from ...ir.types import ObjectType
from . import layer_functions
from .layer_functions import *  # noqa: F403 - its functions are names of this module, too
from .nested import is_sequence
from .values import Object, Tensor, expression, open_builder, wrap_nested


def _of(value: Any) -> Any:
    """The expression of a tensor or an object.

    Raises `TypeError` for anything else.
    """
    if isinstance(value, Tensor | Object):
        return expression(value)
    raise TypeError(f"{value!r} is no nn.Tensor: make one of a number with nn.Tensor.from_scalar")


def _unary(make: Callable[[Any], Expr], named: str) -> Callable[..., Tensor]:
    def function(x: Tensor, name: str = named) -> Tensor:
        return wrap_nested(make(_of(x)), name)

    function.__name__ = function.__qualname__ = named
    function.__doc__ = f"`regraft.op`'s ``{named}`` of each element."
    return function


def _binary(make: Callable[[Any, Any], Expr], named: str) -> Callable[..., Tensor]:
    def function(a: Tensor, b: Tensor, name: str = named) -> Tensor:
        return wrap_nested(make(_of(a), _of(b)), name)

    function.__name__ = function.__qualname__ = named
    function.__doc__ = f"`regraft.op`'s ``{named}`` of two tensors, which broadcast."
    return function


sqrt = _unary(_op.sqrt, "sqrt")
square = _unary(_op.square, "square")
exp = _unary(_op.exp, "exp")
log = _unary(_op.log, "log")
floor = _unary(_op.floor, "floor")
negative = _unary(_op.negative, "neg")
relu = _unary(_op.nn.relu, "relu")
silu = _unary(_op.nn.silu, "silu")
sigmoid = _unary(_op.sigmoid, "sigmoid")
tanh = _unary(_op.tanh, "tanh")
add = _binary(_op.add, "add")
subtract = _binary(_op.subtract, "subtract")
multiply = _binary(_op.multiply, "mul")
divide = _binary(_op.divide, "divide")
equal = _binary(_op.equal, "equal")
not_equal = _binary(_op.not_equal, "not_equal")
less = _binary(_op.less, "less")
less_equal = _binary(_op.less_equal, "less_equal")
greater = _binary(_op.greater, "greater")
greater_equal = _binary(_op.greater_equal, "greater_equal")


def maximum(x1: Tensor, x2: Tensor, name: str = "maximum") -> Tensor:
    """The elementwise maximum of two tensors."""
    return wrap_nested(_op.maximum(_of(x1), _of(x2)), name)


def minimum(x1: Tensor, x2: Tensor, name: str = "minimum") -> Tensor:
    """The elementwise minimum of two tensors."""
    return wrap_nested(_op.minimum(_of(x1), _of(x2)), name)


# --- activations


def relu6(x: Tensor, name: str = "relu6") -> Tensor:
    """``x`` clipped to the range from 0 to 6."""
    return wrap_nested(_op.clip(_of(x), 0, 6), name)


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """GELU; ``approximate="tanh"`` is the form with ``tanh``.

    Raises `ValueError` for another ``approximate``.
    """
    if approximate not in (None, "none", "tanh"):
        raise ValueError(f"approximate is {approximate!r}: it is 'tanh' or None")
    make = _op.nn.gelu_tanh if approximate == "tanh" else _op.nn.gelu
    return wrap_nested(make(_of(x)), name)


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """Softmax along ``axis``."""
    return wrap_nested(_op.nn.softmax(_of(x), axis), name)


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0, name: str = "softplus") -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, and ``x`` where ``beta * x`` is above ``threshold``."""
    return wrap_nested(_op.nn.softplus(_of(x), beta=beta, threshold=threshold), name)


def prelu(x: Tensor, alpha: Tensor, name: str = "prelu") -> Tensor:
    """``x`` where it is positive; elsewhere ``x`` times the slope of its channel, along axis 1."""
    return wrap_nested(_op.nn.prelu(_of(x), _of(alpha)), name)


# --- reductions, order, products


def _axes(axis: int | Sequence[int] | None) -> list[int] | None:
    return None if axis is None else [axis] if isinstance(axis, int) else list(axis)


def _fold(make: Callable[..., Expr], named: str, says: str):
    def function(x: Tensor, axis: int | list[int] | None = None, keepdims: bool = False, name: str = named) -> Tensor:
        return wrap_nested(make(_of(x), _axes(axis), keepdims), name)

    function.__name__ = function.__qualname__ = named
    function.__doc__ = f"The {says} along ``axis``, all axes by default."
    return function


sum = _fold(_op.sum, "sum", "sum")  # noqa: A001 - the operator's name
max = _fold(_op.max, "max", "largest element")  # noqa: A001 - the operator's name
min = _fold(_op.min, "min", "smallest element")  # noqa: A001 - the operator's name


def cumsum(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None, name: str = "cumsum"
) -> Tensor:
    """Cumulative sums along ``axis``; None flattens the tensor. ``exclusive`` leaves out the element itself."""
    return wrap_nested(_op.cumsum(_of(data), axis, dtype, bool(exclusive)), name)


def sort(x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort") -> Tensor:
    """The elements sorted along ``axis``."""
    return wrap_nested(_op.sort(_of(x), axis, descending), name)


def argsort(
    data: Tensor, axis: int = -1, descending: bool = False, dtype: str = "int32", name: str = "argsort"
) -> Tensor:
    """The indices that sort the elements along ``axis``."""
    return wrap_nested(_op.argsort(_of(data), axis, descending, dtype), name)


def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: Any = "both",
    largest: bool = True,
    dtype: str = "int32",
    name: str = "topk",
) -> Any:
    """The ``k`` largest elements along ``axis`` and their indices, or one of the two ("values", "indices")."""
    return wrap_nested(_op.topk(_of(data), k, axis, ret_type, largest, dtype), name)


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """The product of matrices, or of stacks of them."""
    return wrap_nested(_op.matmul(_of(a), _of(b), out_dtype), name)


def multinomial_from_uniform(
    prob: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
    dtype: str = "int64",
    name: str = "multinomial_from_uniform",
) -> Tensor:
    """Indices drawn with the probabilities in the rows of ``prob``; ``sample_indices`` is the row of each sample.

    Raises `ValueError` if it is left out and the numbers of samples and rows differ or are symbolic.
    """
    rows, samples = prob.shape[0], uniform_sample.shape[0]
    if sample_indices is None:
        if rows != samples or not isinstance(rows, int):
            raise ValueError(f"{samples} samples of {rows} rows: sample_indices says which row each draws from")
        sample_indices = Tensor.from_const(np.arange(rows, dtype="int64").reshape(rows, 1))
    call = _op.multinomial_from_uniform(_of(prob), _of(uniform_sample), _of(sample_indices), dtype)
    return wrap_nested(call, name)


# --- shapes


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """``x`` cast to ``dtype``; ``x`` itself if it has that dtype."""
    return x if x.dtype == dtype else wrap_nested(_op.astype(_of(x), dtype), name)


def reshape(x: Tensor, shape: Sequence[Dim], name: str = "reshape") -> Tensor:
    """``x`` with another shape; one size may be -1 and is then computed."""
    return wrap_nested(_op.reshape(_of(x), shape if isinstance(shape, int) else list(shape)), name)


def broadcast_to(x: Tensor, shape: Sequence[Dim], name: str = "broadcast_to") -> Tensor:
    """``x`` broadcast to ``shape``."""
    return wrap_nested(_op.broadcast_to(_of(x), list(shape)), name)


def permute_dims(x: Tensor, axes: Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """``x`` with its axes in the order ``axes``; by default reversed."""
    return wrap_nested(_op.permute_dims(_of(x), None if axes is None else list(axes)), name or "permute_dims")


def permute(x: Tensor, axes: Sequence[int] | None, name: str = "permute") -> Tensor:
    """`permute_dims`."""
    return permute_dims(x, axes, name)


def unsqueeze(x: Tensor, dim: int, name: str = "unsqueeze") -> Tensor:
    """``x`` with a new axis of size 1."""
    return wrap_nested(_op.expand_dims(_of(x), [dim]), name)


def squeeze(x: Tensor, axis: int = -1, name: str = "squeeze") -> Tensor:
    """``x`` without an axis of size 1."""
    return wrap_nested(_op.squeeze(_of(x), [axis]), name)


def repeat(x: Tensor, repeats: int, axis: int | None = None, name: str = "repeat") -> Tensor:
    """Each element repeated ``repeats`` times along ``axis``, or in the flattened tensor for None."""
    return wrap_nested(_op.repeat(_of(x), repeats, axis), name)


def concat(x: Sequence[Tensor], dim: int, name: str = "concat") -> Tensor:
    """The tensors concatenated along ``dim``."""
    return wrap_nested(_op.concat([_of(one) for one in x], dim), name)


def split(
    ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0, name: str = "split"
) -> tuple[Tensor, ...]:
    """Parts along ``axis``: a number of equal parts, or parts cut at the given indices."""
    where = indices_or_sections if isinstance(indices_or_sections, int) else list(indices_or_sections)
    return wrap_nested(_op.split(_of(ary), where, axis), name)


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> tuple[Tensor, ...]:
    """Parts of equal size along ``dim``."""
    return wrap_nested(_op.split(_of(x), chunks, dim), name)


def pad(x: Tensor, pad: list[int], mode: str = "constant", value: float = 0.0, name: str = "pad") -> Tensor:
    """``x`` padded: ``pad`` holds the widths before and after for each axis, first axis first."""
    return wrap_nested(_op.nn.pad(_of(x), list(pad), mode, value), name)


def take(x: Tensor, indices: Tensor, axis: int | None = None, name: str = "take") -> Tensor:
    """The slices of ``x`` along ``axis`` at ``indices``."""
    return wrap_nested(_op.take(_of(x), _of(indices), axis), name)


def where(condition: Tensor, x1: Tensor, x2: Tensor, name: str = "where") -> Tensor:
    """``x1`` where the condition is true, ``x2`` elsewhere."""
    return wrap_nested(_op.where(_of(astype(condition, "bool")), _of(x1), _of(x2)), name)


def triu(x: Tensor, diagonal: int = 0, name: str = "triu") -> Tensor:
    """The upper triangle from ``diagonal`` on; 0 elsewhere."""
    return wrap_nested(_op.triu(_of(x), diagonal), name)


# --- workers


def ccl_allreduce(x: Tensor, op_type: str = "sum", in_group: bool = True, name: str = "ccl_allreduce") -> Tensor:
    """The ``x`` of all workers reduced to one; see `regraft.op.ccl`."""
    return wrap_nested(_op.ccl.allreduce(_of(x), op_type, in_group), name)


def ccl_allgather(x: Tensor, num_workers: int, name: str = "ccl_allgather") -> Tensor:
    """The ``x`` of all workers concatenated along axis 0; see `regraft.op.ccl`."""
    return wrap_nested(_op.ccl.allgather(_of(x), num_workers), name)


def ccl_broadcast_from_worker0(x: Tensor, name: str = "broadcast_from_worker") -> Tensor:
    """The ``x`` of the first worker, on each worker; see `regraft.op.ccl`."""
    return wrap_nested(_op.ccl.broadcast_from_worker0(_of(x)), name)


# --- new tensors


def full(shape: Sequence[Dim], fill_value: Any, dtype: str = "float32", name: str = "full") -> Tensor:
    """A tensor filled with one value: a number, or a tensor of rank 0."""
    value = const(fill_value, dtype) if isinstance(fill_value, int | float) else _of(fill_value)
    return wrap_nested(_op.full(list(shape), value, dtype), name)


def zeros(shape: Sequence[Dim], dtype: str = "float32", name: str = "zeros") -> Tensor:
    """A tensor of zeros."""
    return wrap_nested(_op.zeros(list(shape), dtype), name)


def ones(shape: Sequence[Dim], dtype: str = "float32", name: str = "ones") -> Tensor:
    """A tensor of ones."""
    return wrap_nested(_op.ones(list(shape), dtype), name)


def empty(shape: Sequence[Dim], dtype: str = "float32", name: str = "empty") -> Tensor:
    """A tensor with undefined values."""
    return wrap_nested(_op.builtin.alloc_tensor(list(shape), dtype, 0), name)


def arange(start: Any, end: Any = None, step: Any = 1, dtype: str | None = "float32", name: str = "arange") -> Tensor:
    """The numbers from ``start`` up to ``end``, excluded; from 0 to ``start`` if ``end`` is None."""
    if end is None:
        start, end = 0, start
    return wrap_nested(_op.arange(start, end, step, dtype), name)


# --- external functions


def _passed(value: Any, float_dtype: str) -> Expr:
    """An argument of an external function; numbers, sizes and strings become expressions."""
    if isinstance(value, Tensor | Object):
        return expression(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, float):
        return PrimValue(value, float_dtype)
    return PrimValue(value) if isinstance(value, int | SymExpr) else as_expr(value)


def extern(name: str, args: Sequence[Any], out: Any) -> Any:
    """Call the external function ``name``, which writes its result into given memory.

    ``args`` are tensors, sizes, numbers or strings; ``out`` is a tensor, or a tuple of them, with the type of the
    result.
    """
    outs = out if is_sequence(out) else [out]
    call = _op.call_dps_packed(name, [_passed(one, "float64") for one in args], [_of(one).ty for one in outs])
    return wrap_nested(call, name)


def debug_func(name: str, *args: Any, _line_info: str | None = None) -> None:
    """Call the external function ``name`` with the place in the source and ``args``, for its side effects.

    Raises `RuntimeError` in a program that is exported without ``debug=True``.
    """
    from .exporter import Exporter

    exporter = Exporter.current()
    if exporter is None or exporter.io_effect is None:
        raise RuntimeError("debug_func and print_ need a program that is exported with debug=True")
    if _line_info is None:
        _line_info = _place(1)
    state = exporter.io_effect.state
    values = [_passed(one, "float32") for one in args]
    call = _op.call_pure_packed(
        "vm.builtin.invoke_debug_func",
        state,
        StringImm(name),
        StringImm(_line_info),
        *values,
        ty_args=[ObjectType()],
    )
    exporter.io_effect.set_state([open_builder().emit(call, state.name_hint)])


def print_(tensor: Tensor) -> None:
    """Print a tensor when the program runs; see `debug_func`."""
    debug_func("vm.builtin.debug_print", tensor, _line_info=_place(1))


def _place(depth: int) -> str:
    """The file and line of the code that is ``depth`` calls above the caller."""
    frame = inspect.currentframe()
    for _ in builtins.range(depth + 1):
        assert frame is not None
        frame = frame.f_back
    assert frame is not None
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


_functions = [name for name, value in globals().items() if getattr(value, "__module__", "") == __name__]
_public = [name for name in _functions if not name.startswith("_")]
__all__: list[str] = sorted([*layer_functions.__all__, *_public])  # pyright: ignore[reportUnsupportedDunderAll]

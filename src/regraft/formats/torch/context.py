"""The interface for handlers of ATen operators: the current operator, PyTorch's facts about its result, and helpers.

A handler is a function ``handler(context, *args, **kwargs)`` that takes an operator's arguments under the names of its
ATen schema, with tensors as expressions and sizes as dims. It returns the expression of the result, or a tuple of
expressions if the operator has several results. `converts` registers it. `converts_by_name` registers a handler that
reads the arguments by their names, and `converts_plainly` functions of the arguments alone.
PyTorch itself decomposes most of its operators (`expansion`). An operator has a handler if its parts are more operators
after `optimize`, if they are less exact in half precision or hold for some sizes only, or if models have so many calls
that tracing each of them, some 10 ms, is too slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, Final, NoReturn, TypeAlias, TypeVar
from typing import cast as cast_to

import numpy as np
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes  # pyright: ignore[reportUnknownVariableType]

from ... import op as R
from ...ir.builder import BlockBuilder
from ...ir.dims import Dim, SymExpr
from ...ir.dtypes import is_float, is_integer, itemsize, numpy_dtype
from ...ir.expr import Constant, Expr, ShapeExpr, const
from ...ir.types import UNKNOWN_NDIM
from ...op.adjoints import fields_of as fields_of
from ...op.adjoints import tensor_type as tensor_type
from .sizes import SizeTable
from .tensors import PARTS, dtype_name, torch_dtype

Handler: TypeAlias = Callable[..., Any]
TorchOperand: TypeAlias = "Expr | Dim | float"
"""A tensor, or a Python number or a size used together with one."""
_Decorated = TypeVar("_Decorated", bound=Handler)

HANDLERS: Final[dict[str, Handler]] = {}
"""The handlers, by the names of ATen overloads: ``aten.add.Tensor``."""


def converts(
    *names: str, namespace: str = "aten", table: dict[str, Handler] = HANDLERS
) -> Callable[[_Decorated], _Decorated]:
    """Register a handler for the overloads ``aten.<name>``. A name without overload means ``.default``."""

    def register(handler: _Decorated) -> _Decorated:
        for name in names:
            full = f"{namespace}.{name}" if "." in name else f"{namespace}.{name}.default"
            assert full not in table, full
            table[full] = handler
        return handler

    return register


def converts_by_name(
    *names: str, namespace: str = "aten", table: dict[str, Handler] = HANDLERS
) -> Callable[[_Decorated], _Decorated]:
    """Like `converts`, for a handler ``handler(context, given)`` that reads each argument as ``given.<name>``.

    Names and defaults are those of the schema of the called operator.
    """

    def register(handler: _Decorated) -> _Decorated:
        def bound(context: Context, *args: Any, **kwargs: Any) -> Any:
            defaults = _defaults(context.node.target)
            return handler(
                context, SimpleNamespace(**{**defaults, **dict(zip(defaults, args, strict=False)), **kwargs})
            )

        converts(*names, namespace=namespace, table=table)(bound)
        return handler

    return register


def converts_plainly(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Register functions, by the names of overloads, that take all arguments in the order of the schema."""
    for name, function in functions.items():

        def handler(_context: Context, given: Any, function: Callable[..., Any] = function) -> Any:
            return function(*arguments_of(given).values())

        converts_by_name(name)(handler)


@cache
def _defaults(operator: Any) -> Mapping[str, Any]:
    """The arguments of an operator in order, with their defaults; None for an argument that every call gives."""
    return {argument.name: argument.default_value for argument in operator._schema.arguments}


class UnsupportedCallError(Exception):
    """A call of an operator that has no counterpart; the message says why."""


class Context:
    """The state of one conversion, as a handler sees it."""

    __slots__ = ("builder", "node", "sizes")
    node: torch.fx.Node
    """The call that is being converted."""

    def __init__(self, builder: BlockBuilder, sizes: SizeTable) -> None:
        self.builder: Final = builder
        self.sizes: Final = sizes

    # --- PyTorch's facts about the result

    def results(self) -> tuple[Any, ...]:
        """The fake tensors for the results of the call, which know shape and dtype."""
        value: Any = self.node.meta.get("val")
        return tuple(cast_to("Sequence[Any]", value)) if isinstance(value, list | tuple) else (value,)

    def output_shape(self, index: int = 0) -> tuple[Dim, ...]:
        """The shape of result ``index``."""
        return self.sizes.shape(self.results()[index])

    def output_dtype(self, index: int = 0) -> str:
        """The dtype of result ``index``; the dtype of its parts if it is complex."""
        name = dtype_name(self.results()[index].dtype)
        return PARTS.get(name, name)

    def uses(self, index: int) -> bool:
        """True if the model uses result ``index``, one of several."""
        return any(user.args[1] == index and user.users for user in self.node.users)

    def is_contiguous(self, index: int) -> bool:
        """True if the tensor in argument ``index`` is contiguous in memory, in row-major order."""
        operand = self.node.args[index]
        return isinstance(operand, torch.fx.Node) and bool(operand.meta["val"].is_contiguous())

    def order_in_memory(self, index: int) -> list[int] | None:
        """The axes of the tensor in argument ``index``, from the largest stride to the smallest.

        None if there are gaps between its elements, or if the order depends on symbolic sizes.
        """
        value = cast_to("torch.fx.Node", self.node.args[index]).meta["val"]
        if value.is_contiguous():
            return list(range(value.ndim))
        steps = value.stride()
        if not all(isinstance(number, int) for number in (*steps, *value.shape)):
            return None
        order = sorted(range(value.ndim), key=lambda axis: (-steps[axis], axis))
        return order if value.permute(order).is_contiguous() else None

    def start_in_memory(self, index: int) -> Dim:
        """The offset in memory of the tensor in argument ``index``, in elements."""
        return self.sizes.dim(cast_to("torch.fx.Node", self.node.args[index]).meta["val"].storage_offset())

    def operator(self) -> str:
        """The name of the ATen operator without its overload: ``clamp``."""
        return str(self.node.target).split(".")[1]

    # --- building

    def emit(self, value: Expr) -> Expr:
        """Bind ``value`` to a variable now, for use in several places."""
        return self.builder.emit(value)

    def unsupported(self, why: str) -> NoReturn:
        """Decline this call: raise `UnsupportedCallError` with the reason ``why``."""
        raise UnsupportedCallError(why)

    def scalar(self, value: TorchOperand, dtype: str) -> Expr:
        """A number, size or tensor as a tensor of ``dtype``; an integer that it cannot hold wraps, as in PyTorch."""
        if isinstance(value, SymExpr):
            sizes = R.shape_to_tensor(ShapeExpr([value]))
            return cast(R.squeeze(sizes, axis=0), dtype)
        if isinstance(value, Expr):
            return cast(value, dtype)
        if isinstance(value, int) and is_integer(dtype):
            return const(np.uint64(value % 2**64).astype(numpy_dtype(dtype)), dtype)
        return const(value, dtype)

    def read_size(self, number: Expr, size: Dim) -> None:
        """Define ``size``, a symbol of the exported program, as the ``number`` that is computed at run time."""
        found = self.emit(R.tensor_to_shape(R.reshape(cast(number, "int64"), [1])))
        self.builder.match_cast(found, ShapeExpr([size]).ty)

    def promoted(self, *operands: TorchOperand) -> tuple[Expr, ...]:
        """Tensors and numbers, cast to the dtype in which PyTorch computes on them."""
        dtype = promoted_dtype(*operands)
        return tuple([self.scalar(operand, dtype) for operand in operands])

    def narrow(self, function: Callable[..., Expr], *operands: TorchOperand) -> Expr:
        """The product or quotient ``function`` in the promoted dtype; half floats with a number compute as in PyTorch.

        There PyTorch keeps the number in float32; in sums, remainders and powers it rounds the number. So if the narrow
        dtype would round it, the result is computed in float32.
        """
        dtype = promoted_dtype(*operands)
        wide = is_float(dtype) and itemsize(dtype) < 4 and any(not _fits(operand, dtype) for operand in operands)
        work = "float32" if wide else dtype
        return cast(function(*[self.scalar(operand, work) for operand in operands]), dtype)


def _fits(value: TorchOperand, dtype: str) -> bool:
    if isinstance(value, Expr | SymExpr):
        return True
    held = const(value, dtype).data.numpy()[()]
    return float(held) == value or value != value


# --- facts about expressions


def shape_of(x: Expr) -> tuple[Dim, ...]:
    """The shape of a tensor, which is always known in an exported program."""
    shape = tensor_type(x).shape
    if shape is None:
        raise UnsupportedCallError("the shape of an operand is not known")
    return shape


def rank(x: Expr) -> int:
    """The number of axes of a tensor."""
    ndim = tensor_type(x).ndim
    if ndim == UNKNOWN_NDIM:
        raise UnsupportedCallError("the rank of an operand is not known")
    return ndim


def like(x: Expr, number: float) -> Expr:
    """``number`` in the dtype of ``x``."""
    return const(number, dtype_of(x))


def dtype_of(x: Expr) -> str:
    """The dtype of a tensor."""
    dtype = tensor_type(x).dtype
    assert dtype is not None
    return dtype


def cast(x: Expr, dtype: str) -> Expr:
    """``x`` in ``dtype``; ``x`` itself if it has that dtype."""
    if isinstance(x, Constant) and x.data.dtype != dtype and not x.data.shape and "complex" not in x.data.dtype:
        return const(x.data.numpy(), dtype)
    return x if dtype_of(x) == dtype else R.astype(x, dtype)


def axis_of(axis: int, ndim: int) -> int:
    """``axis`` counted from the front."""
    return axis % ndim if ndim else 0


def axes_of(axes: int | Sequence[int] | None, ndim: int) -> list[int]:
    """Axes counted from the front. None or no axes mean all of them, as in PyTorch's reductions."""
    if axes is None:
        return list(range(ndim))
    listed = [axes] if isinstance(axes, int) else list(axes)
    return [axis_of(axis, ndim) for axis in listed] if listed else list(range(ndim))


def each_axis(value: int | Sequence[int], count: int) -> list[int]:
    """An argument of a layer as one number for each of ``count`` spatial axes; a single number is for all of them."""
    listed = [value] if isinstance(value, int) else list(value)
    return listed * count if len(listed) == 1 else listed


def arguments_of(given: Any) -> dict[str, Any]:
    """The arguments of a handler of `converts_by_name`, in the order of the schema."""
    return cast_to("dict[str, Any]", vars(given))


def batched(ndim: int, function: Callable[..., Expr], *operands: Expr) -> Expr:
    """``function`` of operands with ``ndim`` axes. In PyTorch, the first of them, the batch, may be missing."""
    if rank(operands[0]) == ndim:
        return function(*operands)
    return R.squeeze(function(*[R.expand_dims(operand, axis=0) for operand in operands]), axis=0)


def expanded(x: Expr, shape: Sequence[Dim]) -> Expr:
    """``x`` broadcast to ``shape``; ``x`` itself if it has that shape."""
    return x if shape_of(x) == tuple(shape) else R.broadcast_to(x, shape)


def permuted(x: Expr, order: Sequence[int]) -> Expr:
    """``x`` with its axes in ``order``; ``x`` itself if that is the same order."""
    return x if list(order) == sorted(order) else R.permute_dims(x, list(order))


def promoted_dtype(*operands: TorchOperand) -> str:
    """The dtype in which PyTorch computes on ``operands``: tensors go before scalars, and scalars before numbers."""
    given = [_stand_in(operand) for operand in operands]
    return dtype_name(elementwise_dtypes(*given, type_promotion_kind=_PLAIN)[1])


_PLAIN: Final = ELEMENTWISE_TYPE_PROMOTION_KIND.NO_OPMATH


def _stand_in(operand: TorchOperand) -> torch.Tensor | float:
    if isinstance(operand, Expr):
        return torch.empty(() if rank(operand) == 0 else (0,), dtype=torch_dtype(dtype_of(operand)))
    return 0 if isinstance(operand, SymExpr) else operand

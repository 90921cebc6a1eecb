"""Python's operators and short methods on tensors; they call the functions of `nn.op`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .nested import is_sequence

if TYPE_CHECKING:
    from .values import Tensor


def _apply(name: str, left: Any, right: Any) -> Any:
    """``nn.op.name`` of two operands. One may be a number, which gets the other's dtype."""
    from . import op
    from .values import Tensor

    operands = [left, right]
    tensor = left if isinstance(left, Tensor) else right
    for index, operand in enumerate(operands):
        if isinstance(operand, int | float):
            operands[index] = Tensor.from_scalar(operand, tensor.dtype)
        elif not isinstance(operand, Tensor):
            return NotImplemented
    return getattr(op, name)(*operands)


def _operator(name: str) -> Callable[[Any, Any], Any]:
    def apply(self: Any, other: Any) -> Any:
        return _apply(name, self, other)

    apply.__doc__ = f"`nn.op.{name}`; a number has the tensor's dtype."
    return apply


class TensorOperators:
    """Python's own operators on a tensor."""

    __add__ = __radd__ = _operator("add")
    __sub__ = _operator("subtract")
    __mul__ = __rmul__ = _operator("multiply")
    __truediv__ = _operator("divide")
    __lt__ = _operator("less")
    __le__ = _operator("less_equal")
    __gt__ = _operator("greater")
    __ge__ = _operator("greater_equal")
    maximum = _operator("maximum")
    minimum = _operator("minimum")

    def __rsub__(self, other: Any) -> Any:
        """`nn.op.subtract` of a number and this tensor."""
        return _apply("subtract", other, self)

    def astype(self: Any, dtype: str) -> Tensor:
        """`nn.op.astype`."""
        from . import op

        return op.astype(self, dtype)

    def reshape(self: Any, *shape: Any) -> Tensor:
        """`nn.op.reshape`; the sizes are arguments, or one list of them."""
        from . import op

        return op.reshape(self, _listed(shape))

    def permute_dims(self: Any, *axes: Any) -> Tensor:
        """`nn.op.permute_dims`; the axes are arguments, or one list of them. Without axes, their order is reversed."""
        from . import op

        return op.permute_dims(self, _listed(axes) or None)

    def repeat(self: Any, repeats: int, axis: int | None = None) -> Tensor:
        """`nn.op.repeat`."""
        from . import op

        return op.repeat(self, repeats, axis)


def _listed(items: tuple[Any, ...]) -> list[Any]:
    first = items[0] if len(items) == 1 else items
    return list(first) if is_sequence(first) else list(items)

"""Complex numbers of a PyTorch model as pairs of real tensors, so that the language needs none.

Models use them for rotary positions and Fourier transforms, between real tensors. Operators with complex operands or
results have handlers of their own, in a separate table. An operator on shapes applies its ordinary handler to each
part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from torch.utils import _pytree as pytree

from ...ir.builder import BlockBuilder
from ...ir.expr import Expr, Var
from ...ir.op import Op
from ...ir.types import TensorType
from .context import HANDLERS, Context, Handler, converts, tensor_type
from .sizes import SizeTable
from .tensors import PARTS

COMPLEX_HANDLERS: Final[dict[str, Handler]] = {}
"""The handlers of calls with complex operands or results, by the names of ATen overloads."""


@dataclass(frozen=True, slots=True)
class ComplexPair:
    """A complex tensor: its real and its imaginary part, of the same shape and dtype."""

    real: Expr
    imag: Expr


def parts_of(name: str, value: Any) -> list[tuple[str, Expr]]:
    """The tensors that represent a tensor of the model, with their names: two for complex numbers."""
    if isinstance(value, ComplexPair):
        return [(f"{name}.real", value.real), (f"{name}.imag", value.imag)]
    return [(name, value)]


def paired(parts: Iterable[Expr], wholes: Iterable[torch.Tensor]) -> tuple[Expr | ComplexPair, ...]:
    """The values that represent ``wholes`` of the model, made of the tensors that `parts_of` gives for them."""
    rest = iter(parts)
    return tuple([ComplexPair(next(rest), next(rest)) if whole.dtype.is_complex else next(rest) for whole in wholes])


def for_each_part(function: Callable[[Expr], Expr], value: Any) -> Any:
    """The result of ``function`` for a tensor; for complex numbers, the pair of its results for both parts."""
    if isinstance(value, ComplexPair):
        return ComplexPair(function(value.real), function(value.imag))
    return function(value)


def converts_complex(*names: str, namespace: str = "aten") -> Callable[[Handler], Handler]:
    """Register a handler for overloads with complex operands or results; names are those of `converts`."""
    return converts(*names, namespace=namespace, table=COMPLEX_HANDLERS)


def handler_of(node: torch.fx.Node) -> Handler | None:
    """The handler for the call of an operator, the complex one for complex operands or results; None without one."""
    table = COMPLEX_HANDLERS if is_complex_call(node) else HANDLERS
    return table.get(str(node.target))


class WholeNumbers:
    """Complex tensors in PyTorch's form, for operators that are carried: made from pairs of real tensors, and back."""

    def __init__(self, builder: BlockBuilder) -> None:
        self._builder: Final = builder
        self._known: Final[dict[tuple[int, int], Expr]] = {}

    def joined(self, value: Any) -> Any:
        """``value`` with a complex tensor in place of each pair, also in lists."""
        return pytree.tree_map(self._whole, value)

    def _whole(self, value: Any) -> Any:
        if not isinstance(value, ComplexPair):
            return value
        found = self._known.get((id(value.real), id(value.imag)))
        if found is None:
            part = tensor_type(value.real)
            whole = part.with_dtype(_WHOLES[part.dtype or ""])
            found = self._builder.emit(Op.foreign(JOIN, "torch", pure=True)(value.real, value.imag, ty_args=[whole]))
            self._known[id(value.real), id(value.imag)] = found
        return found

    def parted(self, value: Expr) -> Any:
        """A complex tensor as a pair; any other value unchanged."""
        ty = value.ty
        if not isinstance(ty, TensorType) or ty.dtype not in PARTS:
            return value
        whole = self._builder.emit(value)
        part = ty.with_dtype(PARTS[ty.dtype])
        sides = [self._builder.emit(Op.foreign(name, "torch", pure=True)(whole, ty_args=[part])) for name in SIDES]
        self._known[id(sides[0]), id(sides[1])] = whole
        return ComplexPair(*sides)


_WHOLES: Final = {part: whole for whole, part in PARTS.items()}
JOIN: Final = "aten::complex"
SIDES: Final = ("aten::real", "aten::imag")
"""PyTorch's operators for the real and the imaginary part; ``JOIN`` makes a complex tensor of these."""


def by_parts(context: Context, *args: Any, **kwargs: Any) -> Any:
    """A handler that applies the ordinary handler of the operator to the real and the imaginary parts."""
    part = HANDLERS[str(context.node.target)]

    def of_side(name: str) -> Any:
        def own(value: Any) -> Any:
            return getattr(value, name) if isinstance(value, ComplexPair) else value

        own_args, own_kwargs = pytree.tree_map(own, (args, kwargs))
        return part(context, *own_args, **own_kwargs)

    sides = of_side("real"), of_side("imag")
    if isinstance(sides[0], tuple):
        return tuple([ComplexPair(*pair) for pair in zip(*sides, strict=True)])
    return ComplexPair(*sides)


def is_complex(value: Any) -> bool:
    """True if a (fake) tensor, or one of several tensors, holds complex numbers."""
    if isinstance(value, list | tuple):
        return any(is_complex(item) for item in cast("Sequence[Any]", value))
    return isinstance(value, torch.Tensor) and value.is_complex()


def is_complex_call(node: torch.fx.Node) -> bool:
    """True if an operator has complex operands or results."""
    operands: Iterable[torch.fx.Node] = node.all_input_nodes
    return is_complex(node.meta.get("val")) or any(is_complex(operand.meta.get("val")) for operand in operands)


def stand_in(fake: Any, sizes: SizeTable) -> Any:
    """A placeholder with the type of the result ``fake``, for a call that cannot be read and is reported later."""
    if isinstance(fake, list | tuple):
        return tuple([stand_in(one, sizes) for one in cast("Sequence[Any]", fake)])
    if not isinstance(fake, torch.Tensor):
        return None
    dummy = Var("unsupported", sizes.stated_type(fake))
    return ComplexPair(dummy, dummy) if fake.is_complex() else dummy

"""Complex numbers of a PyTorch model as pairs of real tensors, so that the language needs none.

Rotary positions and Fourier transforms are where models use them, between real tensors. Operators that have or make
complex numbers have handlers of their own, in a table of their own; an operator of shapes alone does to each part what
its ordinary handler does.
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
"""The handlers of calls that have complex operands or results, by the names of ATen overloads."""


@dataclass(frozen=True, slots=True)
class ComplexPair:
    """A complex tensor: its real and its imaginary part, of one shape and dtype."""

    real: Expr
    imag: Expr


def parts_of(name: str, value: Any) -> list[tuple[str, Expr]]:
    """The tensors that stand for one of the model's, with their names: two for complex numbers."""
    if isinstance(value, ComplexPair):
        return [(f"{name}.real", value.real), (f"{name}.imag", value.imag)]
    return [(name, value)]


def paired(parts: Iterable[Expr], wholes: Iterable[torch.Tensor]) -> tuple[Expr | ComplexPair, ...]:
    """The values that stand for ``wholes`` of the model, of the tensors that `parts_of` gives of them."""
    rest = iter(parts)
    return tuple([ComplexPair(next(rest), next(rest)) if whole.dtype.is_complex else next(rest) for whole in wholes])


def for_each_part(function: Callable[[Expr], Expr], value: Any) -> Any:
    """The result of ``function`` on a tensor, or its results on both parts of complex numbers, as a pair."""
    if isinstance(value, ComplexPair):
        return ComplexPair(function(value.real), function(value.imag))
    return function(value)


def converts_complex(*names: str, namespace: str = "aten") -> Callable[[Handler], Handler]:
    """Register a handler for complex operands or results of overloads, named as `converts` has them."""
    return converts(*names, namespace=namespace, table=COMPLEX_HANDLERS)


def handler_of(node: torch.fx.Node) -> Handler | None:
    """The handler for the call of an operator, by whether complex numbers are about."""
    table = COMPLEX_HANDLERS if is_complex_call(node) else HANDLERS
    return table.get(str(node.target))


class WholeNumbers:
    """Complex tensors as PyTorch has them, for operators that are carried: made of pairs of real ones, and back."""

    def __init__(self, builder: BlockBuilder) -> None:
        self._builder: Final = builder
        self._known: Final[dict[tuple[int, int], Expr]] = {}

    def joined(self, value: Any) -> Any:
        """``value`` with a complex tensor in the place of each pair, in lists too."""
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
        """A complex tensor as a pair; any other value as it is."""
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
"""PyTorch's operators that make a complex tensor of its parts, and that give these."""


def by_parts(context: Context, *args: Any, **kwargs: Any) -> Any:
    """The handler that does to real and imaginary parts what the ordinary handler of the operator does."""
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
    """True if a (fake) tensor, or one of several, holds complex numbers."""
    if isinstance(value, list | tuple):
        return any(is_complex(item) for item in cast("Sequence[Any]", value))
    return isinstance(value, torch.Tensor) and value.is_complex()


def is_complex_call(node: torch.fx.Node) -> bool:
    """True if an operator has complex operands or results."""
    operands: Iterable[torch.fx.Node] = node.all_input_nodes
    return is_complex(node.meta.get("val")) or any(is_complex(operand.meta.get("val")) for operand in operands)


def stand_in(fake: Any, sizes: SizeTable) -> Any:
    """A placeholder of the right type for the result ``fake`` of a call that cannot be read and is reported later."""
    if isinstance(fake, list | tuple):
        return tuple([stand_in(one, sizes) for one in cast("Sequence[Any]", fake)])
    if not isinstance(fake, torch.Tensor):
        return None
    dummy = Var("unsupported", sizes.stated_type(fake))
    return ComplexPair(dummy, dummy) if fake.is_complex() else dummy

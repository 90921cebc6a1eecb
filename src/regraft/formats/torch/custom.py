"""Conversions that a caller gives for operators of its own, or in the place of those that are here.

A conversion is a function ``convert(node, conversion)``: it takes a call of an operator as a `torch.fx.Node`, and gives
the expression that the result becomes, or `NotImplemented` to leave the call to what is here. `Conversion` is what it
works with; its names are those of Relax's importers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast, final

import torch

from ...analysis.tensors import shape_of
from ...ir.builder import BlockBuilder
from ...ir.expr import Expr, ShapeExpr

Converter: TypeAlias = "Callable[[torch.fx.Node, Conversion], Any]"


@final
class Conversion:
    """The model as it is read so far, as a conversion sees it."""

    __slots__ = ("block_builder", "env", "value")
    env: Mapping[torch.fx.Node, Any]
    """The value that each node became: an expression, a size, or a plain Python value."""
    block_builder: BlockBuilder
    """The builder that the program is written with."""

    def __init__(self, env: Mapping[torch.fx.Node, Any], builder: BlockBuilder, value: Callable[[Any], Any]) -> None:
        self.env = env
        self.block_builder = builder
        self.value: Final = value
        """The value that an argument of a node became."""

    def retrieve_args(self, node: torch.fx.Node) -> list[Any]:
        """The values that the positional arguments of ``node`` became."""
        return [self.value(argument) for argument in node.args]

    @staticmethod
    def shape_of(tensor: Expr) -> ShapeExpr:
        """The shape of a tensor, which an exported program always knows."""
        return ShapeExpr(shape_of(tensor))


def converter_of(node: torch.fx.Node, converters: Mapping[str, Converter]) -> Converter | None:
    """The conversion that a caller gave for a call, by the name of its overload: ``add.Tensor``, ``aten.add.Tensor``.

    The operator's name alone, ``add``, stands for all overloads.
    """
    if not converters:
        return None
    full = str(node.target)
    overload = str(getattr(cast(object, node.target), "__name__", full))
    for name in (overload, full, overload.partition(".")[0]):
        if name in converters:
            return converters[name]
    return None

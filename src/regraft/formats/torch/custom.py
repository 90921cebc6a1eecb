"""Conversions that a caller provides for operators of its own, or in place of the built-in ones.

A conversion is a function ``convert(node, conversion)``. It takes a call of an operator as a `torch.fx.Node`, and
returns the expression of the result, or `NotImplemented` to leave the call to the built-in conversion. `Conversion` is
its interface to the program, with the names of Relax's importers.
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
    """The model as it has been read so far, for a conversion."""

    __slots__ = ("block_builder", "env", "value")
    env: Mapping[torch.fx.Node, Any]
    """The value of each node: an expression, a size, or a plain Python value."""
    block_builder: BlockBuilder
    """The builder of the program."""

    def __init__(self, env: Mapping[torch.fx.Node, Any], builder: BlockBuilder, value: Callable[[Any], Any]) -> None:
        self.env = env
        self.block_builder = builder
        self.value: Final = value
        """The value of an argument of a node."""

    def retrieve_args(self, node: torch.fx.Node) -> list[Any]:
        """The values of the positional arguments of ``node``."""
        return [self.value(argument) for argument in node.args]

    @staticmethod
    def shape_of(tensor: Expr) -> ShapeExpr:
        """The shape of a tensor, which is always known in an exported program."""
        return ShapeExpr(shape_of(tensor))


def converter_of(node: torch.fx.Node, converters: Mapping[str, Converter]) -> Converter | None:
    """The caller's conversion of a call, by the name of its overload: ``add.Tensor`` or ``aten.add.Tensor``; or None.

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

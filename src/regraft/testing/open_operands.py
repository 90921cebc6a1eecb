"""Operands of a random call that are not decided yet: values that a pattern leaves open, and what is made of such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..ir.dims import Dim
from ..ir.expr import Expr
from ..ir.types import TensorType
from ..pattern.leaf_patterns import VarPattern
from ..pattern.pattern import ConstrainedPattern


@dataclass(slots=True, eq=False)
class Hole:
    """A value that the pattern leaves open, until the first call that uses it says what fits."""

    conditions: list[ConstrainedPattern] = field(default_factory=list[ConstrainedPattern])
    is_constant: bool = False
    number: float | None = None
    is_single: bool = False
    variable: VarPattern | None = None
    value: Expr | None = None

    def take(self, other: OpenOperand) -> None:
        """Let what is said of another open value hold for this one, too."""
        if isinstance(other, Hole) and other.value is None and self.value is None:
            self.conditions.extend(other.conditions)
            self.is_constant |= other.is_constant
            self.is_single |= other.is_single
            self.number = other.number if self.number is None else self.number

    @property
    def is_open(self) -> bool:
        """True if nothing at all is said of it yet."""
        return self.value is None and not self.conditions and not self.is_constant and not self.is_single


@dataclass(slots=True, eq=False)
class Fields:
    """A tuple some of whose fields may be open."""

    fields: list[OpenOperand]


@dataclass(slots=True, eq=False)
class OpenShape:
    """A shape argument whose sizes may still be open."""

    dims: tuple[Dim, ...]


OpenOperand: TypeAlias = "Expr | Hole | Fields | OpenShape"


def known_type(operand: OpenOperand, trial: Mapping[Hole, Expr]) -> TensorType | None:
    """The type of the tensor that ``operand`` is, or is tried as; None where it is none or not known."""
    value: Any = operand
    if isinstance(operand, Hole):
        value = trial.get(operand) if operand.value is None else operand.value
    return value.ty if isinstance(value, Expr) and isinstance(value.ty, TensorType) else None

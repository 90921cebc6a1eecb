"""Operands of a random call that are not decided yet: open values, and tuples and shapes with open parts."""

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
    """A value that the pattern leaves open. The first call that uses it decides its value."""

    conditions: list[ConstrainedPattern] = field(default_factory=list[ConstrainedPattern])
    is_constant: bool = False
    number: float | None = None
    is_single: bool = False
    variable: VarPattern | None = None
    value: Expr | None = None

    def take(self, other: OpenOperand) -> None:
        """Add the conditions of another open value to this one."""
        if isinstance(other, Hole) and other.value is None and self.value is None:
            self.conditions.extend(other.conditions)
            self.is_constant |= other.is_constant
            self.is_single |= other.is_single
            self.number = other.number if self.number is None else self.number

    @property
    def is_open(self) -> bool:
        """True if the hole has no value and no conditions yet."""
        return self.value is None and not self.conditions and not self.is_constant and not self.is_single


@dataclass(slots=True, eq=False)
class Fields:
    """A tuple whose fields may be open."""

    fields: list[OpenOperand]


@dataclass(slots=True, eq=False)
class OpenShape:
    """A shape argument whose sizes may be open."""

    dims: tuple[Dim, ...]


OpenOperand: TypeAlias = "Expr | Hole | Fields | OpenShape"


def known_type(operand: OpenOperand, trial: Mapping[Hole, Expr]) -> TensorType | None:
    """The tensor type of ``operand``, or of its value in ``trial``. None if it is unknown or no tensor type."""
    value: Any = operand
    if isinstance(operand, Hole):
        value = trial.get(operand) if operand.value is None else operand.value
    return value.ty if isinstance(value, Expr) and isinstance(value.ty, TensorType) else None

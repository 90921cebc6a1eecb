"""Facts that an operator declares about itself: algebraic traits, and its precision in narrow dtypes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from .errors import IRError


class Trait(Enum):
    """Algebraic facts about an operator, each true of every call of it."""

    COMMUTATIVE = "the order of its two operands does not matter"
    ASSOCIATIVE = "op(op(a, b), c) and op(a, op(b, c)) are the same, up to rounding"
    ELEMENTWISE = "each element of the result depends only on the elements at the same position, after broadcasting"
    IDEMPOTENT = "op(op(a)) is op(a); for two operands, op(a, a) is a"
    INVOLUTIVE = "op(op(a)) is a"
    VIEW = "the result holds the same elements as the first operand, in another arrangement"
    MOVES = "each element of the result is an element of an operand, or a constant: nothing is computed"
    REDUCTION = "reduces whole axes of its operand"
    IMPURE = "has effects or is random: a call is never moved, copied, shared or dropped"
    STORED = "describes how numbers are stored: it is not folded, because engines compute with the stored form"
    COLLECTIVE = "depends on the data of other workers: a call of constants is not folded"
    STOPS_GRADIENT = "its result carries no gradient to its operands"


class Precision(Enum):
    """The behaviour of an operator with operands of a narrow dtype, such as float16."""

    LEADS = "sums products: narrow operands do little harm if the sums have a wide dtype"
    FOLLOWS = "returns elements of its operands, or values within one rounding of them: it is as precise as they are"
    KEEPS = "loses more than one rounding in a narrow dtype, or overflows early: its operands stay in float32"


KERNEL_ENGINES: Final = ("numpy", "torch", "xla")
"""The engines whose kernels are Python functions."""


def check_declared(name: str, traits: Iterable[Any], torch: str | None, onnx: str | None) -> None:
    """Raise `IRError` if a declaration of operator ``name`` has invalid traits, or invalid names in PyTorch or ONNX."""
    for trait in traits:
        if not isinstance(trait, Trait):
            raise IRError(
                f"operator {name!r}: {trait!r} is not a trait; give members of rx.Trait, such as rx.Trait.ELEMENTWISE"
            )
    for where, named, form in (("torch", torch, "namespace::name"), ("onnx", onnx, "domain::Name")):
        if named is not None and not all(named.partition("::")):
            raise IRError(f'operator {name!r}: {where}={named!r} names no operator; write "{form}"')


def check_engine(name: str, engine: str) -> None:
    """Raise `IRError` if ``engine`` takes no Python kernels. ``name`` is the operator, for the message."""
    if engine not in KERNEL_ENGINES:
        known = ", ".join(map(repr, KERNEL_ENGINES))
        raise IRError(
            f"operator {name!r}: the engine {engine!r} takes no kernels of Python, those of {known} do; ONNX Runtime "
            "and OpenVINO find kernels by name: declare the operator with onnx='domain::Name'"
        )

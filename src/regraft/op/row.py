"""What a primitive operator declares, all in one place: its row.

About a hundred operators are primitives. Each consumer of programs (engine, writer of files, gradient, cost model) has
a row for every one of them. All other operators are composites: functions over an array namespace, declared as `Op`
with no more than a type rule and that function, which a consumer without a row for them takes as a program of
primitives (`decompose`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..ir.op import CostRule, Op, Precision, Reference, Trait, TypeRule, WrittenOut


def primitive(
    name: str,
    operands: Iterable[str],
    attributes: Mapping[str, Any] | None = None,
    *,
    infer: TypeRule,
    reference: Reference | None = None,
    traits: Iterable[Trait] = (),
    precision: Precision | None = None,
    cost: CostRule | None = None,
    finite: bool | None = None,
    axes_of: int = 0,
    written_out: WrittenOut | None = None,
) -> Op:
    """A primitive operator; the arguments are those of `Op`, and its gradient is declared beside it."""
    return Op(
        name,
        operands,
        attributes,
        infer=infer,
        reference=reference,
        traits=traits,
        primitive=True,
        precision=precision,
        cost=cost,
        finite=finite,
        axes_of=axes_of,
        written_out=written_out,
    )

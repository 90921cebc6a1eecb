"""The row of an operator: all that it declares, in one place.

About a hundred operators are primitives. Each consumer of programs (engine, writer of files, gradient, cost model) has
a row for every one of them. All other operators are composites: functions over an array namespace, declared as `Op`
with no more than a type rule and that function, which a consumer without a row for them takes as a program of
primitives (`decompose`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol, Required, TypedDict, TypeVar, Unpack

from ..ir.expr import Expr
from ..ir.op import Call, CostRule, GradientRule, Op, Precision, Reference, Trait, TypeRule, WrittenOut
from .rules import OfKinds

_F = TypeVar("_F", bound=Callable[..., Call])


class FewFacts(TypedDict, total=False):
    """The facts that most operators leave to their defaults; see `Op`."""

    precision: Precision | None
    cost: CostRule | None
    finite: bool | None
    axes_of: int
    written_out: WrittenOut | None
    gradient: GradientRule | None


class Facts(FewFacts, total=False):
    """The declaration of an operator beside its name, operands and attributes; see `Op`."""

    infer: Required[TypeRule]
    reference: Reference | None
    traits: Iterable[Trait]


def declared(
    name: str,
    operands: Iterable[str],
    attributes: Mapping[str, Any] | None = None,
    *,
    primitive: bool = False,
    **facts: Unpack[Facts],
) -> Op:
    """The operator of these facts; one without a ``gradient`` may get it from another module (`Op.define_gradient`)."""
    given: dict[str, Any] = {**facts}
    gradient = given.pop("gradient", None)
    op = Op(name, operands, attributes, primitive=primitive, **given)
    if gradient is not None:
        op.define_gradient(gradient)
    return op


primitive: Final = partial(declared, primitive=True)


# --- the function that people call, for families of operators that take the same arguments


def published(function: _F, op: Op, doc: str) -> _F:
    """``function`` under the public name of ``op``, ``regraft.op.nn.relu`` for ``relax.nn.relu``, with its text."""
    room, _, name = op.name.replace("relax", "regraft.op", 1).rpartition(".")
    function.__module__, function.__name__, function.__qualname__, function.__doc__ = room, name, name, doc
    return function


class UnaryFunction(Protocol):
    """A call of an operator of one tensor."""

    def __call__(self, x: Expr) -> Call:
        """The operator, called with ``x``; raises `OpTypeError` for an operand that it does not take."""
        ...


Share = Callable[[Expr, Expr, Expr], Expr]
"""``share(adjoint, x, output)``: what comes to the operand ``x`` of an elementwise operator of one tensor."""


def of_one(share: Share) -> GradientRule:
    """The gradient of an operator of one tensor."""
    return lambda call, output, adjoint: [share(adjoint, call.args[0], output)]


def unary(
    name: str,
    infer: TypeRule,
    reference: Reference,
    traits: Iterable[Trait],
    says: str,
    note: str = "",
    *,
    of: str | None = None,
    result: str = "its type",
    follows: str | None = None,
    share: Share | None = None,
    **facts: Unpack[FewFacts],
) -> UnaryFunction:
    """A primitive of one tensor without attributes, and the function that people call.

    Its text is made of ``says`` and ``note``, of what it ``follows`` (by default NumPy's function of that name), of the
    elements that it takes (``of``; by default those of its type rule), and of the type of its ``result``.
    """
    if share is not None:
        facts["gradient"] = of_one(share)
    row = primitive(f"relax.{name}", ("x",), infer=infer, reference=reference, traits=traits, **facts)

    def function(x: Expr) -> Call:
        return row(x)

    kinds = _kinds(infer) if of is None else of
    takes = f"a tensor of {kinds}" if kinds else "any tensor"
    refuses = "Raises `OpTypeError` for other dtypes." if kinds else ""
    operands = f"Operands: ``x``, {takes}. Result: {result}."
    return published(function, row, _text(name, says, follows, operands, note, refuses))


def binary(
    name: str,
    infer: TypeRule,
    reference: Reference,
    traits: Iterable[Trait],
    says: str,
    note: str = "",
    *,
    takes: str | None = None,
    result: str = "that dtype",
    follows: str | None = None,
    primitive: bool = True,
    **facts: Unpack[FewFacts],
):
    """An operator of two tensors without attributes, and the function that people call; its text is made as `unary`'s.

    ``takes``: its operands, where they are no tensors of one dtype.
    """
    names = ("x1", "x2")
    row = declared(
        f"relax.{name}", names, primitive=primitive, infer=infer, reference=reference, traits=traits, **facts
    )

    def function(x1: Expr | float, x2: Expr | float) -> Call:
        return row(x1, x2)

    kinds = _kinds(infer)
    refused = [*(["for other dtypes"] if kinds else []), *(["when dtypes differ"] if takes is None else [])]
    takes = f"{takes or 'tensors of one dtype'}{kinds and f', {kinds}'}"
    operands = f"Operands: {takes}. Result: {result}, the broadcast shape."
    refuses = f"Raises `OpTypeError` {' or '.join([*refused, 'when shapes do not broadcast'])}."
    return published(function, row, _text(name, says, follows, operands, note, refuses))


def _kinds(rule: TypeRule) -> str:
    """The elements that operators of a type rule compute with; nothing for all."""
    return re.split("[;:]", rule.expected)[0] if isinstance(rule, OfKinds) else ""


def _text(name: str, says: str, follows: str | None, *rest: str) -> str:
    """The text of an elementwise operator."""
    return f"{says}; follows {follows or f'``numpy.{name}``'}.\n\n    {' '.join(filter(None, rest))}\n    "

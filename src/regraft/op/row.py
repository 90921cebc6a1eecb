"""The declaration of an operator, in one place.

About a hundred operators are primitives. Each consumer of programs (engine, writer of files, gradient, cost model) has
a row for every one of them. All other operators are composites: functions over an array namespace, declared as `Op`
with only a type rule and that function. A consumer without a row for a composite uses its program of
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
    """The facts for which most operators have the defaults; see `Op`."""

    precision: Precision | None
    cost: CostRule | None
    finite: bool | None
    axes_of: int
    written_out: WrittenOut | None
    gradient: GradientRule | None


class Facts(FewFacts, total=False):
    """The facts of an operator's declaration besides its name, operands and attributes; see `Op`."""

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
    """Declare an operator. Without a ``gradient``, another module may add one (`Op.define_gradient`)."""
    given: dict[str, Any] = {**facts}
    gradient = given.pop("gradient", None)
    op = Op(name, operands, attributes, primitive=primitive, **given)
    if gradient is not None:
        op.define_gradient(gradient)
    return op


primitive: Final = partial(declared, primitive=True)


# --- the public functions of families of operators with the same arguments


def published(function: _F, op: Op, doc: str) -> _F:
    """``function`` with ``doc`` as its docstring, named as ``op``: ``regraft.op.nn.relu`` for ``relax.nn.relu``."""
    room, _, name = op.name.replace("relax", "regraft.op", 1).rpartition(".")
    function.__module__, function.__name__, function.__qualname__, function.__doc__ = room, name, name, doc
    return function


class UnaryFunction(Protocol):
    """The public function of an operator of one tensor."""

    def __call__(self, x: Expr) -> Call:
        """A call of the operator with ``x``. Raises `OpTypeError` for a wrong operand."""
        ...


Share = Callable[[Expr, Expr, Expr], Expr]
"""``share(adjoint, x, output)``: the share of the operand ``x`` in the adjoint of an operator of one tensor."""


def of_one(share: Share) -> GradientRule:
    """The gradient rule of an operator of one tensor."""
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
    """Declare a primitive of one tensor without attributes. Returns its public function.

    The function's docstring is made of ``says``, ``note``, ``follows`` (by default NumPy's function of the same name),
    ``of`` (the accepted elements, by default those of the type rule) and ``result`` (the type of the result).
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
    """Declare an operator of two tensors without attributes. Returns its public function, documented as by `unary`.

    ``takes`` describes its operands, if they are not tensors of one dtype.
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
    """The elements that a type rule accepts, in words; empty if it accepts all."""
    return re.split("[;:]", rule.expected)[0] if isinstance(rule, OfKinds) else ""


def _text(name: str, says: str, follows: str | None, *rest: str) -> str:
    """The docstring of an elementwise operator."""
    return f"{says}; follows {follows or f'``numpy.{name}``'}.\n\n    {' '.join(filter(None, rest))}\n    "

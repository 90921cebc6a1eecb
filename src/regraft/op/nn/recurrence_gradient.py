"""The gradient of a recurrent layer: its steps as expressions, differentiated by the rules of their operators."""

from __future__ import annotations

from ...ir.expr import Expr, Tuple
from ...ir.op import Call, Op
from ...ir.types import TupleType
from ..adjoints import GradientError, fields_of, is_differentiable, known_shape, zeros_of
from ..binary import add
from .recurrence import EXPRESSIONS, Kind, run


def shares(call: Call, adjoint: Expr, kind: Kind) -> list[Expr | None]:
    """What each operand of a layer contributes. Raises `GradientError` where the number of steps is not known.

    Cost: the steps are computed again, and backwards; expressions in proportion to their number.
    """
    given = [None if isinstance(arg.ty, TupleType) and not arg.ty.fields else arg for arg in call.args]
    operands = [*given, *[None] * (kind.operands - len(given))]
    for operand, name in ((call.args[0], "x"), (call.args[2], "recurrence")):
        known_shape(call, operand, name)
    steps, hidden = known_shape(call, call.args[0], "x")[0], known_shape(call, call.args[2], "recurrence")[2]
    if not isinstance(steps, int) or not isinstance(hidden, int):
        raise GradientError(
            f"relax.nn.{kind.name}: the gradient needs numbers for the steps and the size of the state, "
            f"not {steps} and {hidden}; give them values with BindSymbolicVars"
        )
    results = run(EXPRESSIONS, kind, operands, call.attrs, steps)
    wanted = [x for x in given if x is not None and is_differentiable(x.ty)]
    found = differentiated(list(zip(results, fields_of(adjoint), strict=True)), wanted)
    by_operand = {id(x): share for x, share in zip(wanted, found, strict=True)}
    return [None if x is None else by_operand.pop(id(x), None) for x in given]


def differentiated(seeds: list[tuple[Expr, Expr]], wanted: list[Expr]) -> list[Expr]:
    """The adjoints of leaves, by the rules of operators, from pairs of an expression and its adjoint."""
    stop = {id(x) for x in wanted}
    order = _calls_in_order([value for value, _ in seeds], stop)
    adjoints: dict[int, Expr] = {}

    def accumulate(value: Expr, share: Expr) -> None:
        known = adjoints.get(id(value))
        adjoints[id(value)] = share if known is None else add(known, share)

    for value, adjoint in seeds:
        accumulate(value, adjoint)
    for inner in reversed(order):
        adjoint = adjoints.get(id(inner))
        assert isinstance(inner.op, Op)
        if adjoint is None or inner.op.gradient is None:  # zeros to start from depend on nothing
            continue
        for operand, share in zip(inner.args, inner.op.gradient(inner, inner, adjoint), strict=False):
            if share is None or not is_differentiable(operand.ty):
                continue
            if isinstance(operand, Tuple):
                for field, part in zip(operand.fields, fields_of(share), strict=True):
                    accumulate(field, part)
            else:
                accumulate(operand, share)
    found = [adjoints.get(id(x)) for x in wanted]
    return [zeros_of(x) if share is None else share for x, share in zip(wanted, found, strict=True)]


def _calls_in_order(roots: list[Expr], leaves: set[int]) -> list[Call]:
    """The calls below ``roots`` down to ``leaves``, each once and behind its operands."""
    order: list[Call] = []
    seen: set[int] = set()
    pending: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while pending:
        current, is_done = pending.pop()
        if is_done:
            if isinstance(current, Call):
                order.append(current)
            continue
        if id(current) in seen or id(current) in leaves:
            continue
        seen.add(id(current))
        if isinstance(current, Call | Tuple):
            pending.append((current, True))
            operands = current.args if isinstance(current, Call) else current.fields
            pending.extend((operand, False) for operand in reversed(operands))
    return order

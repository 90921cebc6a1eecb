"""The check of one edit by value: the replacement and the replaced value are computed on random inputs.

The values of the match are computed from the values of its wildcards, so that conditions of the pattern (``t`` is
``relu(x)``) hold on the inputs, too. If the two sides disagree, the values are computed again, starting from the
parameters: a rule may know more about its operands than its pattern says. Small weights make small values, for which a
wrong rule may agree by chance (``gelu`` is close to its approximation there). So operands that are small and signed are
made larger for a last comparison. A rule may rely on a relation between several operands: their computation is repeated
from values that do not depend on each other (`verify_larger`). Constants are not changed.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from math import prod
from typing import Any, Final, NamedTuple, cast

import numpy as np

from ..ir.builder import operands_of
from ..ir.expr import Expr, Var
from ..ir.op import Call
from ..ir.types import TensorType, Type
from ..op.evaluate import MOST_ELEMENTS, EvaluationError, Evaluator
from ..pattern.pattern import (
    CallPattern,
    DFPattern,
    FunctionPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
)
from ..reference.trials import NOT_ZERO, WHOLE, DrawnSizes, NoValueError, difference, random_value
from .errors import RewriteValueError
from .rules import Rule
from .verify_larger import independent, made_larger, scale_of

_COMPUTED: Final = (CallPattern, TuplePattern, UnorderedTuplePattern, TupleGetItemPattern, FunctionPattern)


class _Trial(NamedTuple):
    """One choice of inputs: integers in the range ``whole``; sizes with many divisors, if ``divisible``."""

    seed: int
    whole: tuple[int, int] = WHOLE
    divisible: bool = False


_TRIALS: Final = (
    _Trial(0),
    _Trial(1),
    _Trial(2, (0, 1)),
    _Trial(3, (0, 1), divisible=True),
    _Trial(4, (0, 0)),
    _Trial(5, NOT_ZERO),
    _Trial(6, NOT_ZERO),
)
"""Signed inputs first; then inputs for which indices are in range, axes can be split, and integers can divide."""

_ENOUGH: Final = 2

_MOST_SCALES: Final = 3
"""The most times that values are made larger while the operands computed from them stay small."""


def computed_by(matchings: Mapping[DFPattern, Any]) -> tuple[Var, ...]:
    """The variables that a match over a context computes, in contrast to those that its wildcards stand for."""
    found: dict[Var, None] = {}
    for pattern, shown in matchings.items():
        if isinstance(pattern, _COMPUTED):
            values = cast("list[Any]", shown) if isinstance(shown, list) else [shown]
            found.update((value, None) for value in values if isinstance(value, Var))
    return tuple(found)


def check_values(
    rule: Rule,
    old: Mapping[Var, Expr],
    new: Mapping[Var, Expr],
    written: Mapping[Var, Expr],
    definitions: Mapping[Var, Expr],
    computed: Iterable[Var],
) -> str | None:
    """Raise `RewriteValueError` if ``new`` computes other values than ``old`` for the edited variables.

    ``written`` are the replacements as the rule returned them, for the message. ``definitions`` are the bindings before
    the edit, plus those that the edit adds; ``computed`` are the variables that the match computes. Returns None if the
    values agreed, or the reason why they could not be compared. Cost: running the match and the replacement, at most
    twice, over at most some millions of elements; up to five times if the sides disagree.
    """
    inside = {*computed, *old}

    def outside(var: Var, value: Expr) -> bool:
        return var not in inside and isinstance(value, Call)

    check = _EditCheck(old, new, definitions, rule.approximate)
    found = check.run(outside)
    if not isinstance(found, tuple):
        return found
    if check.run(lambda _var, _value: False) is None and not isinstance(check.run_larger(outside), tuple):
        return None
    var, why = found
    raise RewriteValueError(
        f"rule {rule.name!r} replaces {var.name_hint} by a value that is not the same on random inputs\n"
        f"  {why}\n"
        f"  binding: {var.name_hint} = {old[var]!r}\n"
        f"  replacement: {written[var]!r}"
    )


class _EditCheck:
    """Both sides of one edit, to be run on any number of inputs."""

    def __init__(
        self,
        old: Mapping[Var, Expr],
        new: Mapping[Var, Expr],
        definitions: Mapping[Var, Expr],
        approximate: float | None,
    ) -> None:
        self.old, self.new = old, new
        self.approximate = approximate
        self.computed: tuple[dict[Var, Any], dict[Any, int]] | None = None
        bound = cast("MutableMapping[Var, Expr]", definitions)
        self.before = ChainMap(dict(old), bound)
        self.after = ChainMap(dict(new), bound)
        types: list[Type] = [var.ty for var in old]
        types.extend(operand.ty for value in (*old.values(), *new.values()) for operand in operands_of(value))
        self.taken = {d for ty in types if isinstance(ty, TensorType) for d in ty.shape or () if isinstance(d, int)}

    def run(self, is_input: Callable[[Var, Expr], bool]) -> tuple[Var, str] | str | None:
        """None if the sides agree; the variable and the difference; or the reason why they cannot be compared."""
        agreed = 0
        reason = ""
        self.computed = None
        for trial in _TRIALS:
            try:
                found = self._try(trial, is_input)
            except (EvaluationError, NoValueError) as error:
                return str(error)
            except Exception as error:
                # The reference of an operator rejects these inputs, with any error that NumPy raises.
                reason = f"the value that stands there cannot be computed on random inputs: {_told(error)}"
                continue
            if found is not None:
                return found
            agreed += 1
            if agreed == _ENOUGH:
                return None
        return None if agreed else reason

    def run_larger(self, is_input: Callable[[Var, Expr], bool]) -> tuple[Var, str] | None:
        """The difference of the sides for the operands of the last run, enlarged if they were small."""
        if self.computed is None:
            return None
        values, sizes = self.computed
        operands = self._operands(lambda var, value: var in values and is_input(var, value))
        free = independent(operands, self.before)
        scale = 1.0
        for _ in range(_MOST_SCALES):
            before = self._with({**values, **{var: made_larger(values[var], scale) for var in free}}, sizes, set(free))
            try:
                found = self._compare(before, before.is_input)
            except Exception:
                # Larger values may be outside the domain of the program, which says nothing about the rule.
                return None
            more = scale_of(before.values[var] for var in operands if var in before.values)
            if found is not None or more <= 1:
                return found
            scale *= more
        return None

    def _with(self, inputs: Mapping[Var, Any], sizes: Mapping[Any, int], free: set[Var]) -> Evaluator:
        """The evaluator of the old side, with the variables ``free`` as inputs, too."""
        return Evaluator(self.before, inputs.__getitem__, sizes.__getitem__, lambda var, _value: var in free)

    def _operands(self, is_input: Callable[[Var, Expr], bool]) -> list[Var]:
        """The variables that the sides are computed from: inputs of the program, and what ``is_input`` accepts."""
        found: dict[Var, None] = {}
        for start, definitions in ((self.old, self.before), (self.new, self.after)):
            seen: set[Var] = set(start)
            stack = list(start.values())
            while stack:
                expr = stack.pop()
                if not isinstance(expr, Var):
                    stack.extend(operands_of(expr))
                elif expr not in seen:
                    seen.add(expr)
                    bound = definitions.get(expr)
                    if bound is None or is_input(expr, bound):
                        found[expr] = None
                    else:
                        stack.append(bound)
        return list(found)

    def _try(self, trial: _Trial, is_input: Callable[[Var, Expr], bool]) -> tuple[Var, str] | None:
        random = np.random.default_rng(trial.seed)

        def draw(var: Var) -> Any:
            _check_size(var, before)
            return random_value(var.ty, before.size, random, trial.whole)

        draw_size = DrawnSizes(self.taken, trial.seed, divisible=trial.divisible).draw
        before = Evaluator(self.before, draw, draw_size, is_input)
        return self._compare(before)

    def _compare(
        self, before: Evaluator, is_input: Callable[[Var, Expr], bool] = lambda _var, _value: False
    ) -> tuple[Var, str] | None:
        """The difference of the sides on the inputs that ``before`` draws, which both sides get.

        If they agree, the computed values of both are kept. Further values that the replacement needs are computed,
        except those for which ``is_input`` is True.
        """
        draw, inputs = before.draw, dict[Var, Any]()

        def kept(var: Var) -> Any:
            inputs[var] = draw(var)
            return inputs[var]

        before.draw = kept
        expected = {var: before.value(var) for var in self.old}
        after = Evaluator(self.after, kept, before.draw_size, is_input)
        after.values.update(inputs)
        after.sizes = before.sizes
        for var, want in expected.items():
            try:
                got = after.value(var)
            except (EvaluationError, NoValueError):
                raise
            except Exception as error:
                return var, f"the replacement fails where the old value does not: {_told(error)}"
            found = difference(want, got, approximate=self.approximate)
            if found is not None:
                return var, found.text
        self.computed = ({**after.values, **before.values}, before.sizes)
        return None


def _check_size(var: Var, sizes: Evaluator) -> None:
    """Raise `EvaluationError` if a random tensor would have too many elements."""
    if isinstance(var.ty, TensorType):
        elements = prod(sizes.size(dim) for dim in var.ty.shape or ())
        if elements > MOST_ELEMENTS:
            raise EvaluationError(f"{var.name_hint} has {elements} elements")


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

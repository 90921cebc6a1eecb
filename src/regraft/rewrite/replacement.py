"""The replacement for a match of a rule of two functions: ``after``, called with the values of the match."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

from ..ir.errors import IRError, RegraftError
from ..ir.expr import Expr, Var, as_expr
from ..ir.op import attribute_key
from ..ir.types import TensorType, is_subtype
from ..pattern.context import PatternContext
from ..pattern.pattern import CallPattern, DFPattern, all_patterns
from .bindings import Bindings
from .errors import Decline, RewriteError, decline
from .formula_numbers import FormulaNumbers
from .from_program import AgreeingAttributes
from .rule_variables import read_attribute
from .rules import Rule
from .unknown_shapes import outline, rebuilt, shapes_agree


def values_of(result: Any) -> list[Expr]:
    """The values that a function of a rule returns, one or several."""
    several = cast("Sequence[Any]", result) if isinstance(result, tuple | list) else [result]
    return [as_expr(value) for value in several]


def _taken_by(name: str, after: Callable[..., Any], known: Collection[str]) -> Collection[str]:
    """The names of ``before`` that ``after`` takes; with ``**rest``, all of them."""
    parameters = inspect.signature(after).parameters.values()
    for one in parameters:
        if one.kind in (one.VAR_POSITIONAL, one.POSITIONAL_ONLY):
            raise RewriteError(
                f"rule {name!r}: after is called with keyword arguments, which its parameter {one} does not take"
            )
    wanted = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    unknown = [key for key in wanted if key not in known]
    if unknown:
        there = ", ".join(known) or "none"
        raise RewriteError(f"rule {name!r}: after takes {unknown[0]}, which before does not have; it has: {there}")
    return wanted if len(wanted) == len(parameters) else known


class Replacement:
    """Calls ``after`` with the values of a match."""

    def __init__(
        self,
        name: str,
        operands: Mapping[str, DFPattern],
        after: Callable[..., Any],
        attributes: Mapping[str, Sequence[DFPattern]],
        outputs: Sequence[DFPattern],
        numbers: Collection[str] = (),
        variables: Collection[str] = (),
        places: Sequence[tuple[DFPattern, str, Any]] = (),
        agreeing: Sequence[AgreeingAttributes] = (),
        told: FormulaNumbers | None = None,
    ) -> None:
        self.name = name
        self.after = after
        self.outputs = outputs
        self.parts = list(dict.fromkeys(part for output in outputs for part in all_patterns(output)))
        """The patterns of all values that the outputs are computed from."""
        self.places = places
        """Attributes that hold variables: the pattern of the call, the attribute's name, and its form."""
        self.agreeing = agreeing
        self.told = told
        self._known: dict[object, bool] = {}
        """For matches with unknown shapes, by their outlines: True if both sides have the same shapes."""
        wanted = _taken_by(name, after, [*operands, *attributes, *variables])
        self.numbers = [key for key in numbers if key in wanted]
        self.operands = operands
        self.attributes = attributes
        self.taken = [key for key in operands if key in wanted]
        """The operands that ``after`` takes."""
        self.given = [key for key in (*attributes, *variables) if key in wanted]
        """The loose attributes, and variables for attributes, that ``after`` takes."""

    def rule(self, pattern: DFPattern | PatternContext, approximate: float | None, *, exclusive: bool) -> Rule:
        """The rule over ``pattern``, whose roots are the outputs."""
        inside = [part for part in self.parts if isinstance(part, CallPattern) and part not in self.outputs]
        parts = inside if exclusive else []

        def needed(matchings: Mapping[Any, Any], bindings: Bindings, results: Iterable[Expr]) -> Decline | None:
            found = [matchings[part] for part in parts if part in matchings]
            used = bindings.needed_elsewhere([one for one in found if one not in results], results)
            return None if used is None else decline(f"{used.name_hint} is needed elsewhere, too")

        def of_value(expr: Expr, matchings: Mapping[Any, Any], bindings: Bindings) -> Expr | Decline:
            return needed(matchings, bindings, [expr]) or self.rewrite_value(expr, matchings)

        def of_bindings(matchings: Mapping[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
            results = [matchings[output] for output in self.outputs]
            return needed(matchings, bindings, results) or self.rewrite_bindings(matchings, bindings)

        if isinstance(pattern, PatternContext):
            rewriter = of_bindings if exclusive else self.rewrite_bindings
        else:
            rewriter = of_value if exclusive else self.rewrite_value
        return Rule(pattern, rewriter, self.name, approximate=approximate)

    def rewrite_value(self, expr: Expr, matchings: Mapping[Any, Any]) -> Expr | Decline:
        """The rewriter of a rule with one output."""
        built = self._built(matchings, {})
        if isinstance(built, Decline):
            return built
        if len(built) != 1:
            raise RewriteError(
                f"rule {self.name!r}: after gives {len(built)} values for {expr!r}, for which before gives one"
            )
        return self._of_another_shape([(built[0], expr)], matchings, {}) or built[0]

    def rewrite_bindings(self, matchings: Mapping[Any, Any], bindings: Mapping[Any, Expr]) -> dict[Var, Expr] | Decline:
        """The rewriter of a rule with several outputs."""
        targets: list[Var] = [matchings[pattern] for pattern in self.outputs]
        if len(set(targets)) != len(targets):
            return decline("two outputs of the rule are one value here")
        built = self._built(matchings, bindings)
        if isinstance(built, Decline):
            return built
        if len(built) != len(targets):
            raise RewriteError(
                f"rule {self.name!r}: after gives {len(built)} values, for which before gives {len(targets)}"
            )
        pairs = list(zip(built, targets, strict=True))
        return self._of_another_shape(pairs, matchings, bindings) or dict(zip(targets, built, strict=True))

    def _built(self, matchings: Mapping[Any, Any], bindings: Mapping[Any, Expr]) -> list[Expr] | Decline:
        """The result of ``after`` for a match."""
        wrong = None if self.told is None else self.told.wrong_in(matchings)
        if wrong is not None:
            return decline(wrong)
        attributes = self._attributes(matchings, bindings)
        if isinstance(attributes, Decline):
            return attributes
        try:
            return self._over(self._operands(matchings), attributes)
        except RegraftError as error:
            if isinstance(error, RewriteError):
                raise
            return decline(f"the replacement does not type-check here: {error}")

    def _operands(self, matchings: Mapping[Any, Any]) -> dict[str, Any]:
        """The values of the operands; operands in alternatives that did not match are left out."""
        return {key: matchings[pattern] for key, pattern in self.operands.items() if pattern in matchings}

    def _over(self, operands: Mapping[str, Any], attributes: Mapping[str, Any]) -> list[Expr] | Decline:
        """The result of ``after``, called with the operands and attributes that it takes; raises its errors."""
        values = {key: operands[key] for key in self.taken}
        for key in self.numbers:
            values[key] = values[key].data.numpy().reshape(()).item()
        result = self.after(**values, **attributes)
        if isinstance(result, Decline):
            return result
        try:
            return values_of(result)
        except IRError as error:
            told = f"after gives {result!r}; expected an expression, or rx.decline(...) with the reason"
            raise RewriteError(f"rule {self.name!r}: {told}") from error

    def _attributes(self, matchings: Mapping[Any, Any], bindings: Mapping[Any, Expr]) -> dict[str, Any] | Decline:
        """The attributes that ``after`` takes; a decline if calls of a match disagree on them."""

        def attributes_of(pattern: DFPattern) -> Any:
            call: Any = bindings.get(matchings[pattern], matchings[pattern])
            return call.attrs

        agreeing = [
            (places[1][1], [attributes_of(pattern)[key] for pattern, key in places]) for places in self.agreeing
        ]
        of_loose = {
            key: [attributes_of(pattern)[key] for pattern in patterns if pattern in matchings]
            for key, patterns in self.attributes.items()
        }
        for key, held in (*agreeing, *of_loose.items()):
            for one, another in pairwise(held):
                if attribute_key(one) != attribute_key(another):
                    return decline(f"the loose attribute {key} is {one!r} in one call and {another!r} in another")
        found = {key: held[0] for key, held in of_loose.items() if held}
        for pattern, key, form in self.places:
            reason = None if pattern not in matchings else read_attribute(form, attributes_of(pattern)[key], found)
            if reason is not None:
                return decline(reason)
        absent = next((key for key in self.given if key not in found), None)
        return {key: found[key] for key in self.given} if absent is None else decline(f"no call here has {absent}")

    def _of_another_shape(
        self, pairs: Sequence[tuple[Expr, Expr]], matchings: Mapping[Any, Any], bindings: Mapping[Any, Expr]
    ) -> Decline | None:
        """A decline if only the shape of a new value is wrong: a rule without types cannot exclude that in advance.

        ``pairs`` are new and old values.
        """
        is_open = False
        for new, old in pairs:
            if isinstance(new.ty, TensorType) and isinstance(old.ty, TensorType) and new.ty.dtype == old.ty.dtype:
                if is_subtype(new.ty, old.ty) is not True:
                    return decline(f"the replacement is {new.ty!r} here, in the place of {old.ty!r}")
                is_open |= old.ty.shape is None
        if not is_open or self._agree(matchings, bindings):
            return None
        return decline("the shape is not known, and the replacement may have another, as operands broadcast")

    def _agree(self, matchings: Mapping[Any, Any], bindings: Mapping[Any, Expr]) -> bool:
        """True if both sides have the same shapes for all shapes of the operands; tried once for similar matches."""
        key = tuple([outline(bindings.get(found, found)) for found in map(matchings.get, self.parts)])
        if key not in self._known:
            self._known[key] = self._try_shapes(matchings, bindings)
        return self._known[key]

    def _try_shapes(self, matchings: Mapping[Any, Any], bindings: Mapping[Any, Expr]) -> bool:
        attributes = self._attributes(matchings, bindings)
        assert not isinstance(attributes, Decline)

        def value(leaf: Any) -> Any:
            return bindings.get(leaf, leaf)

        def before(operands: Mapping[str, Expr]) -> list[Expr]:
            known = {self.operands[key]: one for key, one in operands.items()}
            return [rebuilt(output, known, matchings, value) for output in self.outputs]

        def after(operands: Mapping[str, Expr]) -> list[Expr] | None:
            found = self._over(operands, attributes)
            return None if isinstance(found, Decline) else found

        return shapes_agree(before, after, self._operands(matchings))

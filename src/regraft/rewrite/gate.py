"""The gate that every edit must pass before it is made.

The replacement must be visible at its place, have a type that can replace the old one, and not depend on itself. The
sequence of edits must not return to an earlier state. A wrong type is the rule's mistake and raises an error. If a
replacement would depend on itself, this is due to the place in this program, and the rule may be right everywhere else:
the match is declined, with the cycle as the reason.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Container, Mapping
from typing import Any, Final, TypeAlias

from ..analysis.purity import contains_impure_call
from ..analysis.values import leaves_of
from ..ir.errors import IRError
from ..ir.expr import Constant, DataflowVar, Expr, Tuple, TupleGetItem, Var, as_expr
from ..ir.op import Call
from ..ir.origin import Origin, Origins, merge_origins
from ..ir.program import Function, If, SeqExpr
from ..ir.types import Type, is_subtype, type_symvars
from .branches import with_sides
from .draft import Draft
from .errors import Decline, RewriteError, RewriteLoopError, RewriteScopeError, RewriteTypeError
from .rule_variables import Alternatives
from .rules import Rule
from .session import EditSession
from .verify import check_values
from .walk import Scope

_STEPS_PER_BINDING: Final = 100
_LEAST_STEPS: Final = 1000
_MOST_LINES: Final = 12
_NOTHING_KNOWN: Final[dict[int, Var]] = {}


_Rewritten: TypeAlias = tuple[str, Var, Expr, Expr]
"""A rewrite that was made: the rule, the variable, its old value and its new one."""


CYCLE: Final = "the replacement would depend on itself"
"""The beginning of the reason for a match that is left alone because of a cycle."""


UNCHANGED: Final = "the replacement is identical to the current value"
"""The reason for a match that is left alone because nothing would change."""

ITSELF: Final = "the rewriter returned the expression itself"
"""The reason for a match that a rewriter leaves alone without giving one."""


def _other_sizes(old: Type, new: Type) -> str:
    """A line about sizes of the new type that have the names of sizes of the old type and are others; "" for none."""
    own = {size.name: size for size in type_symvars(old)}
    others = sorted({size.name for size in type_symvars(new) if own.get(size.name, size) is not size})
    if not others:
        return ""
    return (
        f"the new type has another size named {' and '.join(others)}: the sizes of a replacement are those of "
        "the matched values, such as matchings[x].ty.shape[0]\n"
    )


class Gate:
    """Checks the edits of one session and makes them. ``scope`` holds the variables that are visible before the block.

    A gate that is ``dry`` only checks: it leaves the session as it is.
    """

    def __init__(
        self,
        session: EditSession,
        scope: Scope,
        size: int,
        verify: str | None = None,
        *,
        dry: bool = False,
    ) -> None:
        if verify not in (None, "values"):
            raise RewriteError(f'verify={verify!r} is not known; use "values" or None')
        self.session = session
        self.scope = scope
        self.verify = verify
        self.unverified: str | None = None
        """The reason why the last edit could not be checked by value, if that was requested."""
        self.dry = dry
        self.limit = max(_LEAST_STEPS, _STEPS_PER_BINDING * size)
        self._rule_origins: dict[Rule, Origins] = {}
        self._states: dict[int, int] = {}
        self._steps: list[_Rewritten] = []

    def apply_one(
        self, rule: Rule, var: Var, result: Any, known: Mapping[int, Var], matched: tuple[Var, ...]
    ) -> str | None:
        """Replace ``var`` by ``result``; returns the reason if this match is left alone.

        Raises `RewriteError` when the rule is wrong.
        """
        if type(result) is Decline:
            return result.reason
        if type(result) is Call and self._is_plain(var, result):
            self._replace_plainly(rule, var, result, matched)
            return None
        return self._make(
            rule, {var: self._expression(rule, var, result, matched)}, known, self._origins(rule, matched), matched
        )

    def _is_plain(self, var: Var, value: Call) -> bool:
        """True for a pure call of another operator and the old type, over constants and operands of the old call.

        Such a value is visible, well-typed and different, and cannot depend on itself, so the full checks are not
        needed.
        """
        old = self.session.definitions[var]
        if value.ty is not var.ty or type(old) is not Call or old.op is value.op or not value.is_pure:
            return False
        if self.dry or self.verify is not None:
            return False
        before = old.args
        for arg in value.args:
            if type(arg) is not Constant and (not isinstance(arg, Var) or arg not in before):
                return False
        return True

    def _replace_plainly(self, rule: Rule, var: Var, value: Call, matched: tuple[Var, ...]) -> None:
        session = self.session
        old = session.definitions[var]
        session.merged_origins[var] = self._origins(rule, matched)
        session.replace(var, value)
        self._steps.append((rule.name, var, old, value))
        if session.state is not None or len(self._steps) > self.limit:
            self._check_progress()

    def apply(self, rule: Rule, edits: Any, matched: tuple[Var, ...], computed: tuple[Var, ...] = ()) -> str | None:
        """Make ``edits`` together; returns the reason if this match is left alone. Raises as `apply_one`.

        ``computed`` are the values of ``matched`` whose computation is part of the pattern.
        """
        if isinstance(edits, Decline):
            return edits.reason
        if not isinstance(edits, Mapping):
            raise RewriteError(
                f"rule {rule.name!r} returned {edits!r}; a rule over a PatternContext returns "
                "{variable: expression}, {} or decline(reason)"
            )
        wanted: dict[Var, Expr] = {}
        for var, result in edits.items():  # pyright: ignore[reportUnknownVariableType]
            if isinstance(result, Decline):
                return result.reason
            target = self._target(rule, var)
            wanted[target] = self._expression(rule, target, result, matched)
        if rule.gives_tuple:
            wanted.update(self._written_out(wanted))
        return self._make(rule, wanted, _NOTHING_KNOWN, self._origins(rule, (*matched, *wanted)), computed)

    def _written_out(self, edits: Mapping[Var, Expr]) -> dict[Var, Expr]:
        """For edits that are the fields of one value: that value, for each tuple of all of them in order."""
        session, targets = self.session, tuple(edits)
        first = edits[targets[0]]
        assert isinstance(first, TupleGetItem)
        return {
            user: first.tuple_value
            for user in session.users.get(targets[0], ())
            if isinstance(value := session.definitions.get(user), Tuple) and value.fields == targets
        }

    def _origins(self, rule: Rule, matched: tuple[Var, ...]) -> Origins:
        """The origins of the matched values, followed by the rule."""
        own = self._rule_origins.get(rule)
        if own is None:
            own = self._rule_origins[rule] = (Origin("rule", rule.name),)
        groups = [var.origins for var in matched if var.origins]
        return merge_origins((*groups, own)) if groups else own

    def _target(self, rule: Rule, var: Any) -> Var:
        if not isinstance(var, Var):
            raise RewriteError(f"rule {rule.name!r} replaces {var!r}; the keys of the replacements are bound variables")
        if var not in self.session.definitions or var not in self.session.position:
            raise RewriteError(
                f"rule {rule.name!r} replaces {var.name_hint}, which this block does not bind to an expression"
            )
        return var

    def _expression(self, rule: Rule, var: Any, result: Any, matched: tuple[Var, ...]) -> Expr:
        try:
            expr = result if isinstance(result, Expr) else as_expr(result)
        except IRError:
            raise RewriteError(
                f"rule {rule.name!r} returned {result!r} for {var.name_hint}; expected an expression"
            ) from None
        if isinstance(expr, Function):
            raise RewriteError(
                f"rule {rule.name!r} returned a Function for {var.name_hint}; a replacement is made of calls, tuples, "
                "branches and leaves"
            )
        old, definitions = self.session.definitions[var], self.session.definitions
        if isinstance(expr, SeqExpr) and contains_impure_call(expr) and not _loses_effects(old):
            raise RewriteError(f"rule {rule.name!r} returned bindings with effects for {var.name_hint}: {expr!r}")
        values = [old, *[definitions[one] for one in matched if one in definitions]]
        expr = with_sides(expr, values, lambda value: self.session.local_variable(value, var))
        verdict = expr.ty is var.ty or is_subtype(expr.ty, var.ty)
        if verdict is not True:
            raise RewriteTypeError(self._type_message(rule, var, expr, verdict))
        return expr

    def _type_message(self, rule: Rule, var: Var, expr: Expr, verdict: bool | None) -> str:
        what = "is not compatible with" if verdict is False else "is not known to be as precise as"
        origins = ", ".join(map(str, var.origins))
        where = f" (from {origins})" if origins else ""
        return (
            f"rule {rule.name!r} replaces {var.name_hint}{where} by a value whose type {what} the old one\n"
            f"  old: {var.ty!r}\n  new: {expr.ty!r}\n"
            f"  binding: {var.name_hint} = {self.session.definitions[var]!r}\n"
            f"  replacement: {expr!r}\n"
            f"{_other_sizes(var.ty, expr.ty)}"
            "decline where the types differ, or convert the replacement (R.astype, R.reshape)"
        )

    def _make(
        self,
        rule: Rule,
        edits: Mapping[Var, Expr],
        known: Mapping[int, Var],
        origins: Origins,
        computed: tuple[Var, ...],
    ) -> str | None:
        session = self.session
        if any(_loses_effects(session.definitions[var]) for var in edits):
            return "a side of the branch has effects, which would be lost"
        draft = Draft(session, edits, known, origins)
        flat = draft.flat
        reason = self._check(rule, flat, draft.values)
        if reason is not None or self.dry:
            return reason
        old = {var: session.definitions[var] for var in flat}
        if self.verify is not None:
            definitions = ChainMap(draft.values, session.definitions)
            self.unverified = check_values(rule, old, flat, edits, definitions, computed)
        draft.make()
        # An edited value, or an operand of one, must not be removed because another edit is made first.
        session.replacing = {
            *flat,
            *(leaf for value in flat.values() for leaf in leaves_of(value) if isinstance(leaf, Var)),
        }
        for var, value in flat.items():
            session.merged_origins[var] = origins
            session.replace(var, value, settle=False)
        session.replacing = ()
        session.raise_positions(flat)
        session.drop_unused(draft.values)
        if len(flat) > 1:
            session.drop_unused(flat)
        self._record(rule, old, flat)
        return None

    def _check(self, rule: Rule, flat: Mapping[Var, Expr], added: Mapping[Var, Expr]) -> str | None:
        session = self.session
        if self._is_there_already(flat):
            return UNCHANGED
        for value in (*flat.values(), *added.values()):
            self._check_visible(rule, value, added)
        if added or len(flat) > 1 or not self._only_old_operands(flat):
            cycle = session.find_cycle(flat, added)
            if cycle is not None:
                return f"{CYCLE}: " + " <- ".join(v.name_hint for v in cycle)
        return None

    def _is_there_already(self, flat: Mapping[Var, Expr]) -> bool:
        session = self.session
        for var, value in flat.items():
            old = session.definitions[var]
            if type(old) is not type(value):
                return False
            if type(old) is Call and type(value) is Call and value.op is not old.op:
                return False
            if session.key(old) != session.key(value):
                return False
        return True

    def _only_old_operands(self, flat: Mapping[Var, Expr]) -> bool:
        """True if each edit only uses operands of its old value, so that it cannot form a cycle."""
        for var, value in flat.items():
            before = leaves_of(self.session.definitions[var])
            for leaf in leaves_of(value):
                if leaf not in before and isinstance(leaf, Var):
                    return False
        return True

    def _check_visible(self, rule: Rule, value: Expr, added: Container[Var]) -> None:
        session = self.session
        for leaf in leaves_of(value):
            if isinstance(leaf, Var) and not (leaf in session.position or leaf in added or leaf in self.scope):
                if isinstance(leaf, Alternatives):
                    raise RewriteScopeError(
                        f"rule {rule.name!r} has any_of in its after: {leaf.values!r}; any_of is for matching only, "
                        "so give a single value"
                    )
                why = (
                    "is local to another dataflow block" if isinstance(leaf, DataflowVar) else "is not bound before it"
                )
                raise RewriteScopeError(f"rule {rule.name!r} uses {leaf.name_hint}, which {why}: {value!r}")
        if session.is_dataflow and type(value) is If:
            raise RewriteError(
                f"rule {rule.name!r} puts a branch into a dataflow block, which can hold none: decline there, or write "
                f"R.where: {value!r}"
            )
        if session.is_dataflow and type(value) is Call and not value.is_pure:
            raise RewriteError(f"rule {rule.name!r} puts a call with effects into a dataflow block: {value!r}")

    # --- termination

    def _record(self, rule: Rule, old: Mapping[Var, Expr], new: Mapping[Var, Expr]) -> None:
        for var, value in new.items():
            self._steps.append((rule.name, var, old[var], value))
        self._check_progress()

    def _check_progress(self) -> None:
        """Raise `RewriteLoopError` if the session is in an earlier state, or if there were too many steps."""
        state = self.session.state
        earlier = None if state is None else self._states.get(state)
        if earlier is not None:
            steps = self._lines(_shortest_loop(self._steps[earlier:]))
            raise RewriteLoopError("the rules undo each other: these rewrites lead back to where they started", steps)
        if state is not None:
            self._states[state] = len(self._steps)
        if len(self._steps) > self.limit:
            raise RewriteLoopError(
                f"rewriting did not end after {len(self._steps)} rewrites; the last ones were",
                self._lines(self._steps[-4:]),
            )

    def _lines(self, steps: list[_Rewritten]) -> list[str]:
        return [f"{name}: {var.name_hint} = {old!r}  ->  {new!r}" for name, var, old, new in steps]


def _shortest_loop(steps: list[_Rewritten]) -> list[_Rewritten]:
    """The steps of the variable that was rewritten least often in the loop."""
    by_var: dict[Var, list[_Rewritten]] = {}
    for step in steps:
        by_var.setdefault(step[1], []).append(step)
    return min(by_var.values(), key=len)[:_MOST_LINES]


def _loses_effects(old: Expr) -> bool:
    """True for a branch with effects: a pattern may match it without describing its effects."""
    return type(old) is If and contains_impure_call(old)

"""The step of each pattern: the work of the machine to match one operand against the pattern.

A pattern has one step, even if it stands in several places. Operands are passed to steps as they are written, because a
projection may depend on aliases; a step resolves the value that it binds. The step of a pattern that may be met again
first looks up whether the pattern is already bound.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Sequence

from ...analysis.values import Definitions, definition, projections, resolve, same_value
from ...ir.expr import Expr
from ...ir.op import Call, Op
from ...ir.program import VarBinding
from .. import reasons
from ..chain_pattern import ChainPattern, HolePattern
from ..constrained_patterns import UsersPattern
from ..parts import (
    bindable,
    differ_turned,
    fixed_op,
    inner_first,
    is_decided_last,
    own_parts,
    refuse_two_runs,
    shared_in_runs,
    shared_throughout,
)
from ..pattern import (
    AndPattern,
    CallPattern,
    ConstrainedPattern,
    DFPattern,
    FieldsPattern,
    FunctionPattern,
    IfPattern,
    NotPattern,
    OrPattern,
    PatternError,
    RepeatPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    all_patterns,
)
from ..words import Reason
from .chains import Chain
from .machine import FAILED, Goal, Goals, Late, MatchState, Step
from .rows import AnyOrder, Row, Run
from .users import has_users, users_of


class CompiledPatterns:
    """The steps of all patterns in ``roots``, which are matched together."""

    def __init__(self, roots: Sequence[DFPattern]) -> None:
        self.shared = shared_throughout(roots)
        self.shared_in = shared_in_runs(roots, self.shared)
        self.standing = {part for root in roots for part in bindable(root)}
        self.of: dict[DFPattern, Step] = {}
        self.runs: dict[DFPattern, Run] = {}
        parts = dict.fromkeys(part for root in roots for part in inner_first(root))
        places = Counter(child for part in parts for child in part.children())
        places.update(roots)
        in_runs = {p for part in parts if isinstance(part, RepeatPattern) for p in all_patterns(part.pattern)}
        operators = {p for p in parts if fixed_op(p) is not None}
        self.met_again = {p for p in parts if places[p] > 1} | (in_runs & (self.shared | operators))
        self._rejected = {part: set(all_patterns(part.reject)) for part in parts if isinstance(part, NotPattern)}
        self.is_decided_last = any(map(is_decided_last, parts))
        refuse_two_runs(roots, self.shared_in)
        for part in parts:
            if isinstance(part, RepeatPattern):
                self.runs[part] = Run(part, self.root(part.pattern), own_parts(part, self.shared_in[part]))
                self.of[part] = self.runs[part].step
            else:
                step = self._made(part)
                self.of[part] = _looked_up(step) if part in self.met_again else step

    def root(self, part: DFPattern) -> Step:
        """The step of ``part``. Raises `PatternError` for a repeat, which does not stand for a single value."""
        if isinstance(part, RepeatPattern):
            raise PatternError(
                f"{part!r} stands where a single value is wanted; a repeat is allowed among the fields of a tuple, "
                "among the arguments of a call, or alone in a PatternContext"
            )
        return self.of[part]

    def _made(self, pattern: DFPattern) -> Step:
        steps = [self.of[part] for part in pattern.children()]
        match pattern:
            case CallPattern():
                return self._call(pattern, steps[1:])
            case UnorderedTuplePattern():
                return _opened(pattern, AnyOrder(pattern, steps))
            case TuplePattern():
                return _opened(pattern, Row(pattern, steps))
            case FunctionPattern(body=body):
                return _opened(pattern, Row(pattern, [*steps[:-1], _inside(pattern, self.root(body))]))
            case IfPattern(cond=cond, then=then, otherwise=otherwise):
                bodies = [_inside(pattern, self.root(branch)) for branch in (then, otherwise)]
                return _opened(pattern, Row(pattern, [self.root(cond), *bodies]))
            case TupleGetItemPattern():
                return self._projection(pattern)
            case OrPattern():
                return self._of_same_value(pattern, [0], [1])
            case AndPattern():
                return self._of_same_value(pattern, [0, 1])
            case ConstrainedPattern():
                return self._of_same_value(pattern, [0])
            case NotPattern():
                return self._not(pattern)
            case ChainPattern(links=links, until=until):
                return Chain(pattern, self.runs[links], self.root(until), self).step
            case _:
                return _checked(pattern)

    def _call(self, pattern: CallPattern, args: Sequence[Step]) -> Step:
        callee, op = pattern.op, fixed_op(pattern.op)
        callee_step = self.root(callee)
        row = Row(pattern, args, 1, allow_rest=pattern.varg_default_wildcard)
        commutes = (op is None or op.is_commutative) and (row.most > row.least or differ_turned(pattern.args))

        def run(search: MatchState, goal: Goal) -> Goals:
            definitions = search.definitions
            leaf = resolve(definitions, goal[1])
            call = definitions.get(leaf, leaf)  # As `definition`; no call of it, since most candidates end here.
            if type(call) is not Call or (op is not None and call.op is not op):
                return FAILED
            given = call.args
            if not row.least <= len(given) <= row.most:
                return FAILED
            search.bind(pattern, leaf, call)
            if op is not None and callee not in search.bound:
                search.bind(callee, op, op)
            turns = commutes and len(given) == 2 and given[0] is not given[1]
            if turns and type(call.op) is Op and call.op.is_commutative:
                return search.choose(operands(call, order, goal) for order in (given, given[::-1]))
            return operands(call, given, goal)

        def operands(call: Call, order: Sequence[Expr], goal: Goal) -> Goals:
            goals = row.goals(order, goal[2], goal)
            return goals if op is not None else (callee_step, call.op, goals, goal, 0)

        return Step(pattern, run, _why)

    def _projection(self, pattern: TupleGetItemPattern) -> Step:
        inner, index = self.root(pattern.tuple), pattern.index

        def ways(search: MatchState, goal: Goal) -> Iterator[Goals]:
            leaf = resolve(search.definitions, goal[1])
            for item in projections(search.definitions, goal[1]):
                if index is None or item.index == index:
                    search.bind(pattern, leaf, item)
                    yield (inner, item.tuple_value, goal[2], goal, 0)

        return Step(pattern, lambda search, goal: search.choose(ways(search, goal)), _why)

    def _of_same_value(self, pattern: DFPattern, *ways: Sequence[int]) -> Step:
        """The step of a pattern that stands for the same value as its parts.

        Each of the ``ways`` lists numbers of parts. All parts of one way have to match.
        """
        parts = pattern.children()
        made = [([(at, self.root(parts[at])) for at in way[::-1]], _checked(pattern, parts[way[0]])) for way in ways]

        def goals(goal: Goal) -> Iterator[Goals]:
            for steps, end in made:
                rest: Goal = (end, *goal[1:])
                for at, step in steps:
                    rest = (step, goal[1], rest, goal, at)
                yield rest

        if len(made) == 1:
            return Step(pattern, lambda _, goal: next(goals(goal)))
        return Step(pattern, lambda search, goal: search.choose(goals(goal)))

    def _not(self, pattern: NotPattern) -> Step:
        """The step of ``~p``: decided at once if the patterns that ``p`` shares with the rest are bound, else later."""
        inner, inside = self.root(pattern.reject), all_patterns(pattern.reject)
        around = [bindable(one.reject) for one, parts in self._rejected.items() if pattern in parts]
        standing = self.standing.union(*around)
        awaited = [p for p in inside if p in standing and fixed_op(p) is None]
        is_last = any(
            p.size_variables() or is_decided_last(p) or (isinstance(p, RepeatPattern) and p.extent is not None)
            for p in inside
        )

        def run(search: MatchState, goal: Goal) -> Goals:
            late = Late((decide_step, *goal[1:]), search.definitions, None if is_last else awaited, {})
            if not search.may_hold(late):
                return FAILED
            leaf = resolve(search.definitions, goal[1])
            search.bind(pattern, leaf, leaf)
            return goal[2]

        def decide(search: MatchState, goal: Goal) -> Goals:
            return None if search.trial((inner, goal[1], None, None, 0)) is None else FAILED

        decide_step = Step(pattern, decide, _why)
        return Step(pattern, run, _why)


def _opened(pattern: FieldsPattern | FunctionPattern | IfPattern, row: Row | AnyOrder) -> Step:
    """The step of a pattern with operands: bind the value, then match its operands by ``row``."""

    def run(search: MatchState, goal: Goal) -> Goals:
        leaf = resolve(search.definitions, goal[1])
        value = definition(search.definitions, leaf)
        values = pattern.operands(value)
        if values is None or not row.least <= len(values) <= row.most:
            return FAILED
        search.bind(pattern, leaf, value)
        return row.goals(values, goal[2], goal)

    return Step(pattern, run, _why)


def _inside(owner: DFPattern, result: Step) -> Step:
    """The step for the result of a body inside of ``owner``'s value. The bindings of the body are visible to it."""

    def enter(search: MatchState, goal: Goal) -> Goals:
        body, outer = goal[1], search.definitions
        bindings = (binding for block in body.blocks for binding in block)
        inside: Definitions = {b.var: b.value for b in bindings if isinstance(b, VarBinding)}
        search.change("definitions", ChainMap(inside, outer))  # pyright: ignore[reportArgumentType]
        return (result, body.body, (leave_step, outer, *goal[2:]), *goal[3:])

    def leave(search: MatchState, goal: Goal) -> Goals:
        search.change("definitions", goal[1])
        return goal[2]

    leave_step = Step(owner, leave)
    return Step(owner, enter)


def _checked(pattern: DFPattern, inside: DFPattern | None = None) -> Step:
    """The step that checks the condition of ``pattern`` itself and binds the pattern.

    With ``inside``, a part of the same value that is already matched, ``pattern`` is shown as this part is.
    """
    holds, is_late, is_hole = _condition(pattern), is_decided_last(pattern), isinstance(pattern, HolePattern)

    def run(search: MatchState, goal: Goal) -> Goals:
        leaf = resolve(search.definitions, goal[1])
        if is_late:
            search.may_hold(Late((decide_step, *goal[1:]), search.definitions, None, None))
        elif holds is not None and not holds(search, leaf):
            return FAILED
        shown = leaf if inside is None else search.bound[inside][1]
        search.bind(pattern, leaf, goal[1] if is_hole else shown)
        return goal[2]

    def decide(search: MatchState, goal: Goal) -> Goals:
        return None if holds is None or holds(search, resolve(search.definitions, goal[1])) else FAILED

    decide_step = Step(pattern, decide, _why)
    return Step(pattern, run, _why)


def _condition(pattern: DFPattern) -> Callable[[MatchState, Expr], bool] | None:
    """The check of a resolved leaf by ``pattern`` itself; it binds size variables. None if every leaf passes."""
    if isinstance(pattern, UsersPattern):
        return lambda search, leaf: has_users(search, pattern, leaf)
    if type(pattern).holds is DFPattern.holds:
        return None
    if not pattern.size_variables():
        return lambda search, leaf: pattern.holds(leaf, search.definitions, {})

    def holds(search: MatchState, leaf: Expr) -> bool:
        sizes = dict(search.sizes)
        if not pattern.holds(leaf, search.definitions, sizes):
            return False
        search.change("sizes", sizes)
        return True

    return holds


def _why(search: MatchState, goal: Goal) -> Reason:
    """The reason why the operand of ``goal`` does not meet the pattern's own condition."""
    pattern, leaf = goal[0].pattern, resolve(search.definitions, goal[1])
    if isinstance(pattern, UsersPattern):
        return reasons.user_count(pattern, leaf, users_of(search, pattern, leaf))
    return pattern.mismatch(leaf, search.definitions, search.sizes)


def _looked_up(step: Step) -> Step:
    """The step of a pattern that may be met again. If it is already bound, the operand must have the same value."""
    pattern, first, why_first = step.pattern, step.run, step.why

    def run(search: MatchState, goal: Goal) -> Goals:
        known = search.bound.get(pattern)
        if known is None:
            return first(search, goal)
        leaf = resolve(search.definitions, goal[1])
        is_same = same_value(search.definitions, leaf, known[0]) and _is_written_so(pattern, goal[1], search)
        return goal[2] if is_same else FAILED

    def why(search: MatchState, goal: Goal) -> Reason:
        known = search.bound.get(pattern)
        if known is not None:
            return reasons.shared_value(pattern, known[0], resolve(search.definitions, goal[1]))
        assert why_first is not None
        return why_first(search, goal)

    return Step(pattern, run, why)


def _is_written_so(pattern: DFPattern, operand: Expr, search: MatchState) -> bool:
    """True if ``operand`` is written with the projections that ``pattern`` contains.

    ``pattern`` is already bound to the value of ``operand``.
    """
    definitions, bound = search.definitions, search.bound

    def is_bound_to(part: DFPattern, value: Expr) -> bool:
        return part in bound and same_value(definitions, resolve(definitions, value), bound[part][0])

    match pattern:
        case TupleGetItemPattern():
            items = [one for one in projections(definitions, operand) if pattern.index in (None, one.index)]
            tuples = [one.tuple_value for one in items if is_bound_to(pattern.tuple, one.tuple_value)]
            return any(_is_written_so(pattern.tuple, one, search) for one in tuples)
        case OrPattern():
            sides = [side for side in (pattern.left, pattern.right) if is_bound_to(side, operand)]
            return any(_is_written_so(side, operand, search) for side in sides)
        case AndPattern():
            return all(_is_written_so(side, operand, search) for side in (pattern.left, pattern.right))
        case ConstrainedPattern():
            return _is_written_so(pattern.pattern, operand, search)
        case ChainPattern():
            return bool(bound[pattern.links][0]) or _is_written_so(pattern.until, operand, search)
        case _:
            return True

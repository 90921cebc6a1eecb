"""The instruments of the library: timing, reports of the rewrites, and the search for a wrong rewrite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from time import perf_counter
from typing import Any, NamedTuple, final

from ..analysis.well_formed import WellFormedError, well_formed
from ..ir.module import IRModule
from ..ir.node import Shown
from ..ir.op import Call, Op
from ..ir.program import Function
from ..ir.visitor import iter_bindings
from ..reference.trials import ValueDifference
from .context import PassContext, PassError, PassInstrument, Program, RewriteDecision
from .passes import AsPass, Pass, Sequential, as_pass
from .verification import changed_value


class PassTime(NamedTuple):
    """The time of one run of a pass, in seconds; ``depth`` is the number of sequences around it."""

    name: str
    seconds: float
    depth: int = 0


@final
class PassTimingInstrument(PassInstrument):
    """Measures each pass. ``times`` are the measurements, a sequence before its passes; `render` formats them."""

    def __init__(self) -> None:
        self.times: list[PassTime] = []
        self._started: list[tuple[int, float]] = []

    def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Start the clock."""
        self._started.append((len(self.times), perf_counter()))

    def run_after_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Stop the clock, and record the time."""
        place, start = self._started.pop()
        self.times.insert(place, PassTime(info.name, perf_counter() - start, len(self._started)))

    def render(self) -> str:
        """One line for each pass: milliseconds and name, indented under its sequence."""
        return "\n".join(f"{time.seconds * 1000:10.2f} ms  {'  ' * time.depth}{time.name}" for time in self.times)


@final
class WellFormedInstrument(PassInstrument):
    """Checks that programs are well-formed before and after each pass, except passes that make them well-formed.

    ``check_ty`` is passed to `regraft.analysis.well_formed`. Without ``validate_before_transform`` only results are
    checked. Raises `PassError`, which names the pass and the broken rule.
    """

    sees_sequences = False

    def __init__(self, check_ty: bool = True, validate_before_transform: bool = True) -> None:
        self.check_ty = check_ty
        self.validate_before_transform = validate_before_transform
        self.skip_pass_name = ["Normalize", "NormalizeGlobalVar", "ResolveGlobals"]

    def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Check the program that the pass is given."""
        if self.validate_before_transform:
            self._check(mod, info.name, "before")

    def run_after_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Check the program that the pass has returned."""
        self._check(mod, info.name, "after")

    def _check(self, mod: Function | IRModule, name: str, place: str) -> None:
        if name in self.skip_pass_name:
            return
        try:
            well_formed(mod, self.check_ty)
        except WellFormedError as error:
            raise PassError(f"{place} {name} the program is not well-formed: {error}") from error


def pass_instrument(instrument: type[Any] | None = None) -> Any:
    """Make a class an instrument: its methods are called if `PassInstrument` has methods of these names.

    Used as a decorator, with or without parentheses; the class need not derive from `PassInstrument`.
    """
    if instrument is None:
        return pass_instrument
    if not isinstance(instrument, type):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"pass_instrument makes a class an instrument, and {instrument!r} is no class")
    if issubclass(instrument, PassInstrument):
        return instrument
    bases: tuple[type, ...] = (instrument, PassInstrument)
    return type(instrument.__name__, bases, {"__doc__": instrument.__doc__})


# --- reports


class PassReport(NamedTuple):
    """The record of one run of a pass: its ``steps``, its time in seconds, and the op counts before and after."""

    name: str
    seconds: float
    steps: tuple[RewriteDecision, ...]
    ops_before: Counter[str]
    ops_after: Counter[str]

    @property
    def rewrote(self) -> tuple[RewriteDecision, ...]:
        """The rewrites."""
        return tuple(step for step in self.steps if step.reason is None)

    @property
    def declined(self) -> tuple[RewriteDecision, ...]:
        """The places that were left unchanged, with reasons; each reason once for each place."""
        return tuple(dict.fromkeys(step for step in self.steps if step.reason is not None))

    @property
    def changed_ops(self) -> dict[str, tuple[int, int]]:
        """The number before and after, for each op whose number changed."""
        names = sorted({*self.ops_before, *self.ops_after})
        counts = {name: (self.ops_before[name], self.ops_after[name]) for name in names}
        return {name: pair for name, pair in counts.items() if pair[0] != pair[1]}

    def __str__(self) -> str:
        changes = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in self.changed_ops.items())
        number = len(self.rewrote)
        head = f"{self.name}: {number} rewrite{'' if number == 1 else 's'}, {changes or 'no op count changed'}"
        lines = [f"  left {step.function}.{step.binding} ({step.rule}): {step.reason}" for step in self.declined]
        return "\n".join([head, *lines])


@final
class Recorder(PassInstrument):
    """Keeps a `PassReport` for each pass that runs: ``reports``, in order."""

    sees_sequences = False

    def __init__(self) -> None:
        self.reports: list[PassReport] = []
        self._steps: list[RewriteDecision] = []
        self._started = 0.0
        self._before: Counter[str] = Counter()

    def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Begin a report."""
        self._steps = []
        self._before = op_counts(mod)
        self._started = perf_counter()

    def run_after_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """End the report."""
        seconds = perf_counter() - self._started
        self.reports.append(PassReport(info.name, seconds, tuple(self._steps), self._before, op_counts(mod)))

    def step(self, step: RewriteDecision) -> None:
        """Add a decision to the report."""
        self._steps.append(step)


def _kept(method: str) -> Callable[..., None]:
    """A method of `Tape` that records its arguments, so that ``method`` of a listener can be called with them later."""

    def keep(tape: Tape, *told: Any) -> None:
        tape.told.append((PassContext.current().function, methodcaller(method, *told)))

    return keep


@final
class Tape(PassInstrument):
    """Records all calls of instruments while passes run; `play` repeats them for another instrument later.

    It holds the programs between the passes, which share the parts that did not change.
    """

    sees_sequences = False

    def __init__(self) -> None:
        self.told: list[tuple[str, Callable[[PassInstrument], None]]] = []
        """The recorded calls, each with the name of the function that the running pass worked on."""

    def play(self, listener: PassInstrument) -> None:
        """Repeat all calls for ``listener``, in order; `PassContext.current` names the function as it did then."""
        context = PassContext()
        with context:
            for function, tell in self.told:
                with context.on(function):
                    tell(listener)

    run_before_pass = _kept("run_before_pass")
    run_after_pass = _kept("run_after_pass")
    run_before_rewrite = _kept("run_before_rewrite")
    step = _kept("step")
    rewrote = _kept("rewrote")
    wrote = _kept("wrote")


@dataclass(frozen=True, slots=True)
class Report(Shown):
    """The record of a sequence of passes; ``before`` is the program that they started with, ``program`` the result.

    ``tape`` records what the instruments were told while the passes ran, rewrite by rewrite.
    """

    program: Any  # of the same kind as ``before``, which the caller knows
    passes: tuple[PassReport, ...]
    before: Any
    tape: Tape = field(repr=False, compare=False)

    def __str__(self) -> str:
        return "\n".join(map(str, self.passes))


def report(one: AsPass, program: Program) -> Report:
    """Run ``one`` on ``program`` and report what each pass rewrote, what it left unchanged, and why.

    ``one`` is a pass or a sequence, a rule, a set or list of rules, or a function of a module.
    """
    outer, recorder, tape = PassContext.current(), Recorder(), Tape()
    with PassContext(instruments=[*outer.instruments, recorder, tape], verify=outer.verify):
        result = as_pass(one)(program)
    return Report(result, tuple(recorder.reports), program, tape)


def op_counts(program: Function | IRModule) -> Counter[str]:
    """The number of calls of each operator in ``program``, including branches."""
    values = (binding.value for binding in iter_bindings(program))
    return Counter(value.op.name for value in values if isinstance(value, Call) and isinstance(value.op, Op))


# --- the culprit


class Culprit(NamedTuple):
    """The pass that changed a value. ``rewrite`` is the number of the rewrite, from 1; None if the pass has no rules.

    ``step`` is that rewrite, ``before`` and ``after`` are the programs before and after it.
    """

    pass_name: str
    function: str
    difference: ValueDifference
    rewrite: int | None
    step: RewriteDecision | None
    before: Function | IRModule
    after: Function | IRModule

    def __str__(self) -> str:
        where = "" if self.step is None else f", rewrite {self.rewrite} ({self.step})"
        return f"{self.pass_name}{where} changed what {self.function} computes: {self.difference}"


def first_change(passes: Pass | Sequence[Pass], program: Program) -> Culprit | None:
    """The pass and the rewrite after which ``program`` computes other values on random inputs; None if there is none.

    Cost: each pass and a run of the program before and after it, and the same again for each step of the bisection of
    the culprit's rewrites.
    """
    for one in _leaf_passes(passes):
        after = one(program)
        found = None if after is program or not one.keeps_values else changed_value(program, after)
        if found is not None:
            return _bisect(one, program, after, found)
        program = after
    return None


def _leaf_passes(passes: Pass | Sequence[Pass]) -> list[Pass]:
    rows = passes if isinstance(passes, Sequential) else [passes] if isinstance(passes, Pass) else passes
    found: list[Pass] = []
    for one in rows:
        found.extend(_leaf_passes(one) if isinstance(one, Sequential) else [one])
    return found


def _bisect(one: Pass, program: Program, after: Program, found: tuple[str, ValueDifference]) -> Culprit:
    _, steps = _limited(one, program, None)
    if not steps:
        return Culprit(one.name, *found, None, None, program, after)
    good, bad = 0, len(steps)
    while bad - good > 1:
        middle = (good + bad) // 2
        changed = changed_value(program, _limited(one, program, middle)[0])
        if changed is None:
            good = middle
        else:
            bad, found = middle, changed
    before = _limited(one, program, good)[0]
    result, steps = _limited(one, program, bad)
    if not steps:
        raise PassError(f"{one.name} does not rewrite the same way twice, so its rewrites cannot be told apart")
    return Culprit(one.name, *found, bad, steps[-1], before, result)


def _limited(one: Pass, program: Program, most: int | None) -> tuple[Program, list[RewriteDecision]]:
    """The result of ``one`` for ``program`` with only its first ``most`` rewrites, and these rewrites."""
    recorder = Recorder()
    with PassContext(instruments=[recorder], most_rewrites=most):
        result = one(program)
    return result, [step for told in recorder.reports for step in told.rewrote]

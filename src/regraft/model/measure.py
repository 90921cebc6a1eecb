"""The guard of `optimize`: a rewritten model is kept only if it was measured to be faster and gives the right values.

The original model and the rewritten one run in turns on one engine. If the final result is not faster, the states
between the passes are measured too, and the fastest state with the same values is kept. If none is faster than the
original, the original stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, cast

from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.program import Function
from ..passes import Pass, PassInstrument
from ..run import BuildError
from ..run.originals import RunOriginal, onnx_original, openvino_original
from .comparison import problems_of
from .decisions import NOWHERE, Decision, Decisions, inputs_key, machine_key, number_in, pass_over, program_key, text_in
from .inputs import ExpectedRun
from .models import Model, ModelForm, run_as_it_is, run_exactly
from .timing import CLOCKS, Clock, Deadline, Gain, clock_for, gain, time_in_turns
from .verification import differences_of, run_program

AS_IT_WAS: Final = "as it was"
RESULT: Final = "after all passes"


class Snapshot(NamedTuple):
    """A module on its way through the passes; ``name`` says up to which pass."""

    name: str
    module: IRModule


class Snapshots(PassInstrument):
    """Keeps each module that a pass has changed; modules share their common parts."""

    sees_sequences = False

    def __init__(self) -> None:
        self.found: Final[list[Snapshot]] = []
        self._before: Function | IRModule | None = None

    def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Note the program before the pass."""
        self._before = mod

    def run_after_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Keep the result of the pass, if it is another module."""
        if isinstance(mod, IRModule) and mod is not self._before:
            self.found.append(Snapshot(f"up to {info.name}", mod))


@dataclass(frozen=True, slots=True)
class Measured:
    """One state of a model: its least time in seconds, and its gain over the original model.

    ``problem`` says why it cannot be kept at any speed: it does not run, or it gives other values.
    """

    name: str
    seconds: float | None
    gain: Gain | None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "name": self.name,
            "seconds": self.seconds,
            "times_as_fast": None if self.gain is None else self.gain.ratio,
            "noise": None if self.gain is None else self.gain.noise,
            "problem": self.problem,
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Measured:
        """The object that `to_dict` gave; raises `ValueError` and `KeyError` for anything else."""
        ratio, problem = number_in(facts, "times_as_fast"), facts["problem"]
        found = None if ratio is None else Gain(ratio, number_in(facts, "noise") or 0.0)
        problem = None if problem is None else text_in(facts, "problem")
        return cls(text_in(facts, "name"), number_in(facts, "seconds"), found, problem)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurement of the guard, with its engine and clock; ``kept`` names the state that stays.

    ``before`` is the least time of the original model, None if no other state was measured beside it.
    ``decided_before`` is the file that this was read from, if it was measured in an earlier run.
    """

    engine: str
    clock: Clock
    before: float | None
    states: tuple[Measured, ...]
    kept: str
    decided_before: str | None = None

    @property
    def gain(self) -> Gain | None:
        """The gain of the state that was kept; None if the original model stays."""
        return next((one.gain for one in self.states if one.name == self.kept), None)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "engine": self.engine,
            "clock": self.clock,
            "seconds_before": self.before,
            "states": [one.to_dict() for one in self.states],
            "kept": self.kept,
            "decided_before": self.decided_before,
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any], file: str) -> Measurement:
        """The object that `to_dict` gave, as ``file`` held it; raises `ValueError` and `KeyError` for anything else."""
        states, clock = tuple(map(Measured.from_dict, facts["states"])), text_in(facts, "clock")
        if clock not in CLOCKS:
            raise ValueError(f"clock is {clock!r}; expected {' or '.join(CLOCKS)}")
        before, kept = number_in(facts, "seconds_before"), text_in(facts, "kept")
        return cls(text_in(facts, "engine"), cast("Clock", clock), before, states, kept, file)


@dataclass(frozen=True, slots=True)
class Bench:
    """The terms of a measurement: an engine, its threads, the clock, and seconds of wall time for all of it.

    ``decisions`` holds earlier measurements.
    """

    engine: str = "onnxruntime"
    threads: int | None = None
    clock: Clock | None = None
    budget: float = 30.0
    decisions: Decisions = NOWHERE


def out_of_time(budget: float) -> str:
    """The reason for a candidate that was not tried because the time was over."""
    return f"not tried: the {budget:g} seconds for measuring were over (--budget gives more)"


def engine_of(form: ModelForm) -> str:
    """The engine that runs a model of this form by default: its own one, ONNX Runtime for programs."""
    return {"torch": "torch", "openvino": "openvino"}.get(form, "onnxruntime")


class Originals:
    """The original model, opened once on each engine for everything that is timed beside it or compared with it."""

    def __init__(self, model: Model) -> None:
        self.model: Final = model
        self._runs: Final[dict[tuple[str, int | None], RunOriginal]] = {}

    @cached_property
    def exact(self) -> RunOriginal | None:
        """A run with the right values, if its own engine does not give them (`run_exactly`); else None."""
        return run_exactly(self.model)

    def on(self, bench: Bench) -> RunOriginal:
        """The model on the engine of ``bench``, as `run_on` opens it."""
        key = bench.engine, bench.threads
        if key not in self._runs:
            self._runs[key] = run_on(self.model, bench)
        return self._runs[key]

    def first_on(self, bench: Bench, engines: Sequence[str] = ("openvino",)) -> tuple[str, RunOriginal]:
        """The requested engine, else the first of the form's own engine and ``engines`` that opens the model, with its
        run.

        Raises the first engine's error if none opens it.
        """
        own = engine_of(self.model.form)
        if bench.engine or self.model.form == "torch":
            engine = bench.engine or own
            return engine, self.on(replace(bench, engine=engine))
        problem: BuildError | None = None
        for engine in dict.fromkeys([own, *engines]):
            try:
                return engine, self.on(replace(bench, engine=engine))
            except BuildError as error:
                problem = problem or error
        assert problem is not None
        raise problem


def run_on(model: Model, bench: Bench) -> RunOriginal:
    """``model`` on an engine: as its own file or object if the engine takes that, else as a program.

    OpenVINO runs the program, too, if it does not open the file. Raises the errors of building.
    """
    if model.form == "onnx" and bench.engine == "onnxruntime":
        try:
            return onnx_original(model.source, threads=bench.threads)
        except BuildError as error:
            is_foreign = "is not a registered function/op" in str(error)
            hint = (
                "--custom-ops LIBRARY loads the library that has it" if is_foreign else "--engine openvino may open it"
            )
            raise BuildError(f"{error}; {hint}") from error
    if model.form in ("onnx", "openvino") and bench.engine == "openvino":
        with suppress(BuildError):
            return openvino_original(model.source, threads=bench.threads)
    if model.form == "torch" and bench.engine == "torch":
        found = run_as_it_is(model)
        assert found is not None
        return found
    options: dict[str, Any] = {} if bench.engine in ("numpy", "torch", "xla") else {"threads": bench.threads}
    return run_program(model.module, model.name, bench.engine, **options)


def _exactly(model: Model, run: RunOriginal, engine: str) -> RunOriginal:
    """A run of ``model`` on ``engine`` in which products of bytes do not overflow; ``run`` if there is no other."""
    if engine == "openvino":
        return run_program(model.module, model.name, engine, exact=True)
    return (run_exactly(model) if engine == "onnxruntime" else None) or run


def fastest_state(
    originals: Originals,
    states: Sequence[Snapshot],
    hand_over: Callable[[IRModule], Model],
    inputs: Sequence[Any],
    bench: Bench,
    allowed: float | None = None,
    deadline: Deadline | None = None,
) -> tuple[Snapshot | None, Measurement]:
    """The state of a model to keep, None for the original model; and the measurements.

    Args:
        originals: the original model.
        states: the results of the passes, one after another; the last is the final result.
        hand_over: returns a state in the form in which it would be returned to the user, which is the form that is
            measured.
        inputs: the inputs that both are run on.
        bench: the engine and the time for the measurement.
        allowed: the relative difference of values that is allowed in place of the dtype's own.
        deadline: the end of the measurement, by default after the budget: no state is opened after it, and no turn
            begins. So all of it takes the budget, the model's first run, and at most one state that is opened and run
            twice.

    An earlier decision is not timed again, but its values are compared with the model's again. The final result is
    tried first, and the other states only if it is not faster by more than noise. Raises the errors of the original
    model; a state that fails is skipped, with its error in the measurement. Values are compared without the overflow of
    byte products that some processors have (`run_exactly`); times are those of the unchanged engine.
    """
    clock = clock_for(bench.threads, bench.clock)
    deadline = deadline or Deadline(bench.budget)
    opened, before, exact = originals.model, originals.on(bench), originals.exact
    trial = ExpectedRun(list(inputs), (exact or before)(inputs), True)
    found: list[Measured] = []
    least: list[float] = []

    def run_and_problem(state: Snapshot) -> tuple[RunOriginal, str | None]:
        result = hand_over(state.module)
        after = run_on(result, bench)
        values = after if exact is None else _exactly(result, after, bench.engine)
        return after, problems_of(differences_of(opened, trial, values(inputs), allowed)) or None

    decisions = bench.decisions
    key = _key(opened, states, inputs, bench, allowed) if states and decisions.are_kept else None
    known = None if key is None else decisions.read(key)
    if known is not None:
        decided = _decided(known, states, lambda state: run_and_problem(state)[1])
        if decided is not None:
            return decided

    def tried(name: str, state: Snapshot, share: float) -> Measured:
        if deadline.is_over and found:
            return Measured(name, None, None, out_of_time(bench.budget))
        try:
            after, problem = run_and_problem(state)
        except RegraftError as error:
            problem = str(error)
            after = None
        if problem is not None or after is None:
            return Measured(name, None, None, problem)
        ways = [lambda: before(inputs), lambda: after(inputs)]
        old, new = time_in_turns(ways, clock=clock, budget=min(share, deadline.left), to_beat=1.0)
        least.append(old.least)
        return Measured(name, new.least, gain(old, new))

    chosen: Snapshot | None = None
    if states:
        found.append(tried(RESULT, states[-1], deadline.left / 2))
        if _is_faster(found[0]):
            chosen = states[-1]
        else:
            between = states[-2::-1]
            share = deadline.left / max(1, len(between))
            rows = [tried(one.name, one, share) for one in between]
            rows = [_held_to(row, min(least, default=None)) for row in rows]
            found = [_held_to(found[0], min(least, default=None)), *rows]
            faster = [(row, one) for row, one in zip(rows, between, strict=True) if _is_faster(row)]
            chosen = max(faster, key=lambda pair: _ratio(pair[0]))[1] if faster else None
    kept = AS_IT_WAS if chosen is None else RESULT if chosen is states[-1] else chosen.name
    measurement = Measurement(bench.engine, clock, min(least, default=None), tuple(found), kept)
    is_cut_short = any(one.problem == out_of_time(bench.budget) for one in found)
    if key is not None and (chosen is not None or not is_cut_short):
        decisions.write(key, measurement.to_dict())
    return chosen, measurement


def _key(
    opened: Model, states: Sequence[Snapshot], inputs: Sequence[Any], bench: Bench, allowed: float | None
) -> dict[str, Any]:
    """Everything that a decision depends on."""
    return {
        "what": "states",
        "program": program_key([opened.module, states[-1].module]),
        "function": opened.name,
        "form": opened.form,
        "states": [state.name for state in states],
        "inputs": inputs_key([inputs]),
        "measured": [bench.engine, bench.threads, clock_for(bench.threads, bench.clock), bench.budget, allowed],
        **machine_key(),
    }


def _decided(
    known: Decision, states: Sequence[Snapshot], problem_of: Callable[[Snapshot], str | None]
) -> tuple[Snapshot | None, Measurement] | None:
    """The earlier decision; None if it does not hold any more, or names no state."""
    try:
        measurement = Measurement.from_dict(known.facts, str(known.path))
    except (KeyError, TypeError, ValueError) as error:
        pass_over(known.path, error)
        return None
    if measurement.kept == AS_IT_WAS:
        return None, measurement
    named = (state for state in states[-2::-1] if state.name == measurement.kept)
    state = states[-1] if measurement.kept == RESULT else next(named, None)
    try:
        return None if state is None or problem_of(state) is not None else (state, measurement)
    except RegraftError:
        return None


def _held_to(one: Measured, least: float | None) -> Measured:
    """``one`` with its gain limited to ``least``, the original's least time in any trial, over its own time.

    The gain was measured in one trial, in which other work may have slowed the original in every turn.
    """
    if one.gain is None or one.seconds is None or least is None:
        return one
    return replace(one, gain=one.gain._replace(ratio=min(one.gain.ratio, least / one.seconds)))


def _is_faster(one: Measured) -> bool:
    return one.gain is not None and one.gain.is_faster


def _ratio(one: Measured) -> float:
    return 0.0 if one.gain is None else one.gain.ratio

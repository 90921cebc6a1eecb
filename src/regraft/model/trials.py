"""Trials of a model in few bits: the modules that candidates make, their runs, and their errors.

A trial is a module that a candidate made, run on the inputs of the search and compared with the right outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from ..analysis import constant_bytes
from ..formats.onnx import to_onnx
from ..ir.expr import Expr
from ..ir.module import IRModule
from ..ir.op import is_call_of
from ..ir.program import Function
from ..ir.types import TensorType
from ..ir.visitor import iter_bindings
from ..passes import report as report_passes
from ..run import build
from ..run.originals import RunOriginal, openvino_original, overflows_here, torch_original
from .attempts import Budget, Errors, RunErrors
from .candidates import HALVES, Candidate
from .error_measures import LARGEST, ErrorMeasure
from .in_float32 import stored_in_half
from .inputs import ExpectedRun
from .models import torch_module
from .sensitivity import error_by_steps, rounds_to_steps
from .timing import Deadline
from .verification import flat_arrays

_LAYER_RULES: Final = frozenset(
    {
        "quantize_attention",
        "quantize_convolution",
        "quantize_dynamic",
        "quantize_lstm",
        "quantize_product",
        "quantize_table",
        "quantize_weights",
    }
)

OWN: Final = "its own precision"
"""The name of a model's own precision, if that is not float32 alone."""
JUDGE: Final = "onnxruntime"
"""The engine that measures the errors of single layers: it opens a model in a fraction of the others' time."""
_MOST_IN_MEMORY: Final = 1 << 30
"""The limit of constant bytes up to which a file is made only in memory, to be tried."""


class Made(NamedTuple):
    """A module with all layers of a candidate in few bits, their bindings, and the reason if there are none, as the end
    of a sentence.
    """

    module: IRModule
    layers: Sequence[str]
    why_none: str


class Trial(NamedTuple):
    """A module that a candidate made, its runner, its errors, and True if it computes in the model's own precision."""

    module: IRModule
    run: RunOriginal
    errors: Errors
    is_in_own_precision: bool = False


@dataclass(slots=True)
class Trials:
    """The terms of all trials: the function ``name`` of ``module`` after its passes, inputs, right outputs, the budget.

    A trial that is under way when the ``deadline`` ends goes on.
    """

    module: IRModule
    name: str
    inputs: Sequence[Sequence[Any]]
    expected: Sequence[Sequence[np.ndarray]]
    budget: Budget
    deadline: Deadline
    threads: int | None = None
    measure: ErrorMeasure = LARGEST
    """The measure of the error that the budget limits."""
    others: Sequence[ExpectedRun] = ()
    """Inputs that do not choose anything. The chosen candidate has to be within the budget on all inputs, including
    these.
    """
    is_strict: bool = False
    """True if the caller gave the error of the budget, so that no trial may exceed it, whatever explains the excess."""
    as_onnx: bool = False
    """True if the choice becomes an ONNX file that OpenVINO runs here, so OpenVINO has to open it as it is written."""
    in_float32: IRModule | None = None
    """``module`` in float32, if it computes in half precision: candidates in bytes and in float32 start from it."""
    smoothed: IRModule | None = None
    """The same after `SmoothOutliers`, if there are samples to find outliers."""
    opened: IRModule | None = None
    """``smoothed`` with attention as its products, if there are attention and samples."""
    waiting: int = 1
    """The number of candidates that remain to be tried or narrowed, including this one. They share the time left.

    While whole models are tried, the turns take half of that time.
    """
    is_cut_short: bool = False
    """True if the deadline left something undone, so that with more time the choice could be different."""
    seconds: float = 0.0
    """The seconds for making, opening and running the last trial."""
    _ruled: dict[tuple[int, int], IRModule] = field(default_factory=dict[tuple[int, int], IRModule])
    """The modules that candidates start from, by their rules and the module that the rules read."""
    _by_steps: float | None = None
    """The error that the model's own roundings explain, 0 if it has none; None before it is computed."""

    @property
    def function(self) -> Function:
        """The function that is tried."""
        return self.module[self.name]

    @property
    def share(self) -> float:
        """The seconds left for each of the waiting candidates."""
        return self.deadline.left / self.waiting

    def whole(self, one: Candidate) -> tuple[Made, Trial | None]:
        """The program that ``one`` makes with all of its layers, and its trial; None if the pass finds no layers.

        Raises the errors of building and running.
        """
        left, made = self.deadline.left, self._made(one)
        if one.make is not None and not made.layers:
            return made, None
        found = self._run(one, made.module)
        self.seconds = left - self.deadline.left
        return made, found

    def _made(self, one: Candidate) -> Made:
        start = self.start(one)
        if one.make is None:
            return Made(start, [], "")
        done = report_passes(one.make({}, start), start)
        if one.layers is not None:
            return Made(done.program, one.layers(start[self.name]), "")
        rewrote = [step for each in done.passes for step in each.rewrote if step.rule in _LAYER_RULES]
        declined = [step for each in done.passes for step in each.declined if step.rule in _LAYER_RULES]
        layers = [step.binding for step in rewrote if step.function == self.name]
        reasons = Counter(step.reason for step in declined).most_common(1)
        return Made(done.program, layers, "".join(f": {reason}" for reason, _ in reasons))

    def tried(self, one: Candidate, keep: Mapping[str, str], runs: int | None = None) -> Trial:
        """``one`` with the layers in ``keep`` in the precisions given, run on all inputs, or on the first ``runs``.

        Raises the errors of building and running.
        """
        left, module = self.deadline.left, self.start(one)
        found = self._run(one, module if one.make is None else one.make(keep, module)(module), runs)
        self.seconds = left - self.deadline.left
        return found

    def _run(self, one: Candidate, module: IRModule, runs: int | None = None) -> Trial:
        """``module``, which ``one`` made, run on all inputs, or on the first ``runs``."""
        if self.in_float32 is not None and self._read_by(one) is not self.module:
            module = stored_in_half(module, self.module)
        run = self.runner(module, one)
        errors = Errors.of(self._errors_of(run, self.inputs[:runs], self.expected[:runs]))
        return Trial(module, run, errors, one.keeps_precision and self.in_float32 is None)

    def _errors_of(
        self, run: RunOriginal, inputs: Sequence[Sequence[Any]], expected: Sequence[Sequence[np.ndarray]]
    ) -> list[RunErrors]:
        """The errors of ``run`` on each of ``inputs``."""
        pairs = zip(inputs, expected, strict=True)
        return [self.measure.of_run(right, run(given)[-len(right) :]) for given, right in pairs]

    def judged(self, one: Candidate, keep: Mapping[str, str], runs: int | None = None) -> Trial:
        """As `tried`, on the judge."""
        return self.tried(on_judge(one), keep, runs)

    @property
    def to_check(self) -> tuple[list[Sequence[Any]], list[Sequence[np.ndarray]]]:
        """The inputs to check a choice on, and their right outputs: inputs that chose nothing, if there are any."""
        if not self.others:
            return list(self.inputs), list(self.expected)
        return [one.inputs for one in self.others], [one.outputs for one in self.others]

    def held_to_others(self, tried: Trial) -> Trial:
        """``tried``; if it is within the budget, with its errors on the inputs that did not choose anything as well.

        If these take it beyond the budget, they are among the inputs of the search from then on.
        """
        if not self.others or self.missed(tried) is not None:
            return tried
        inputs, expected = self.to_check
        tried = tried._replace(errors=Errors.of([*tried.errors.runs, *self._errors_of(tried.run, inputs, expected)]))
        if self.missed(tried) is not None:
            self.inputs, self.expected, self.others = [*self.inputs, *inputs], [*self.expected, *expected], ()
        return tried

    def runner(self, module: IRModule, one: Candidate) -> RunOriginal:
        """The runner of ``module``, which ``one`` made, on its engine."""
        if one.engine == "torch":
            return torch_original(torch_module(module, self.name), module[self.name])
        if self._is_opened_as_written(module, one):
            return openvino_original(to_onnx(module, function=self.name), threads=self.threads, **one.options)
        entry = build(module, target=one.engine, threads=self.threads, **one.options)[self.name]
        return lambda inputs: flat_arrays(entry(*inputs))

    def _is_opened_as_written(self, module: IRModule, one: Candidate) -> bool:
        return one.engine == "openvino" and self.as_onnx and constant_bytes(module) < _MOST_IN_MEMORY

    def cause_of_error(self, one: Candidate, tried: Trial) -> str:
        """The cause of the error of ``tried``, which ``one`` made, as the end of a sentence; empty if none is known.

        A file from another tool may have 8-bit weights whose sums overflow on this processor.
        """
        if not one.keeps_precision or not self._is_opened_as_written(tried.module, one):
            return ""
        if any(_is_to_16_bits(binding.value) for binding in iter_bindings(tried.module[self.name])):
            return ": OpenVINO leaves out quantizations to 16 bits, and their limits"
        if overflows_here(to_onnx(tried.module, function=self.name)):
            return ": sums of its bytes overflow on this processor, which has neither VNNI nor AMX"
        return ""

    def start(self, one: Candidate) -> IRModule:
        """The module that ``one`` starts from: its engine's rules applied to the module that `_read_by` names."""
        read = self._read_by(one)
        key = id(one.rules), id(read)
        if key not in self._ruled:
            self._ruled[key] = one.rules(read)
        return self._ruled[key]

    def _read_by(self, one: Candidate) -> IRModule:
        """The module that the rules of ``one`` read; candidates in bytes start after smoothing."""
        if one.opens_attention and self.opened is not None:
            return self.opened
        if self.smoothed is not None and one.name.startswith("int8 "):
            return self.smoothed
        return self.module if self.in_float32 is None or one.name in (*HALVES, OWN) else self.in_float32

    def missed(self, tried: Trial) -> str | None:
        """The reason to refuse ``tried``; None if it is within the budget."""
        return self.missed_by(tried.errors, self.allowed_beyond(tried))

    def missed_by(self, errors: Errors, allowed: float | None = None) -> str | None:
        """The reason to refuse ``errors``, with ``allowed`` in place of the budget's error if given; None if there is
        none.
        """
        return self.budget.up_to(allowed).missed(errors.error, errors.cosine, errors.agreement)

    def allowed_beyond(self, tried: Trial) -> float | None:
        """The error that ``tried`` may have beyond the budget, because the model's own roundings explain it; else None.

        A model that quantizes values rounds them to either of two steps, depending on their last digit. A trial that
        computes it in its own precision may err by as much as that causes, on any engine and in any order of sums,
        unless the caller gave a limit.
        """
        if self.is_strict or not tried.is_in_own_precision or tried.errors.error <= self.budget.error:
            return None
        if self._by_steps is None:
            pairs = zip(self.inputs, self.expected, strict=True)
            trials = [ExpectedRun(list(one), list(right), True) for one, right in pairs]
            is_rounded = rounds_to_steps(self.function)
            self._by_steps = error_by_steps(self.module, self._judge_runs, trials) if is_rounded else 0.0
        return self._by_steps if self._by_steps > self.budget.error else None

    def _judge_runs(self, module: IRModule) -> RunOriginal:
        return self.runner(module, Candidate(OWN, JUDGE, {}))


def _is_to_16_bits(value: Expr) -> bool:
    is_wide = isinstance(value.ty, TensorType) and value.ty.dtype in ("int16", "uint16")
    return is_wide and is_call_of(value, "relax.quantize")


def on_judge(one: Candidate) -> Candidate:
    """``one`` on the engine that opens a model fastest.

    Bytes give the same results on any engine, except for rounding. A candidate for PyTorch is judged on PyTorch.
    """
    return replace(one, engine=judge_of(one), options={})


def judge_of(one: Candidate) -> str:
    """The engine that measures the errors of ``one``."""
    return one.engine if one.engine == "torch" else JUDGE

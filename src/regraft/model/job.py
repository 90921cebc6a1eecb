"""One run of `optimize` over an opened model, stage by stage: rewrite, lower the precision, measure, hand over."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..analysis import constant_bytes
from ..formats.errors import ConvertError
from ..ir.module import IRModule
from ..ir.visitor import iter_bindings
from ..passes import PassContext, Sequential, op_counts
from ..passes.pipeline import ATTENTION, GROWING_CONSTANTS, SPLIT_WEIGHTS, level_number
from ..run.originals import RunOriginal
from .asked_precision import Asked, check_choice, choose
from .chosen_passes import Optimized, optimize_module, passes_for, rules_first
from .describing import node_kinds
from .errors import VerificationError
from .files import sizes_of, sizes_of_files, staged
from .measure import Bench, Measurement, Originals, Snapshots, fastest_state
from .models import Model, as_it_is, as_source, form_of, is_read_again, open_model, write_as_it_is, write_model
from .portability import (
    MOST_GROWN,
    as_portable,
    has_new_attention,
    has_split_weights,
    is_as_it_was,
    is_larger,
    is_newer_for_nothing,
    raised_opset,
)
from .precision import Choice
from .progress import Stages, unseen
from .report import OptimizationReport
from .reports import ReportTo, hand_over_reports
from .rules import Rules
from .samples import TriedOn
from .timing import Deadline
from .verification import Verification, written

_AGGRESSIVE: Final = level_number("aggressive")
_MOST_AGGRESSIVE: Final = 2.0
"""The limit for the number of operators after that level, as a multiple of the number before: the level rewrites even
if that does not pay.
"""
_MOST_CALLS: Final = 1000
_MOST_BYTES: Final = 1 << 24
"""The limits for the calls and the bytes of constants of a model that is optimized again until nothing changes."""
_MOST_TIMES: Final = 4
_MORE_OPERATORS: Final = "the result has more operators"


class _Rewritten(NamedTuple):
    """A model as the passes leave it.

    ``opened_up`` unfolds the calls that were whole meanwhile. ``again`` makes the model once more without further
    forms; it is None unless the result must be no worse than the model. ``held_back`` says that passes were left out.
    """

    done: Optimized
    opened_up: Callable[[IRModule], IRModule]
    again: Callable[[Collection[str]], Optimized] | None = None
    held_back: bool = False


@dataclass(slots=True, eq=False)
class Job:
    """A model on its way through `optimize`. Each stage replaces ``done``; `hand_over` returns the result.

    ``chosen`` are the passes. ``of_level`` says that they are the passes of ``level`` after ``rules``. ``output`` is
    the file to write, if any. ``is_timed`` says that times decide what is kept. ``in_versions`` says that the caller
    asked for versions of the format. ``safetensors`` says that weights are written in that format.
    """

    opened: Model
    chosen: Sequential
    level: int | str
    rules: Rules | None
    output: Path | None
    stages: Stages
    of_level: bool
    is_timed: bool
    in_versions: bool
    safetensors: bool
    done: Optimized = field(init=False)
    choice: Choice | None = field(init=False, default=None)
    measurement: Measurement | None = field(init=False, default=None)
    _states: Snapshots = field(init=False, default_factory=Snapshots)
    _rewritten: _Rewritten = field(init=False)
    _originals: Originals = field(init=False)

    def __post_init__(self) -> None:
        self._originals = Originals(self.opened)

    @property
    def is_guarded(self) -> bool:
        """True if the result must not be worse than the model: the passes are a level's, and the format stays."""
        return self.of_level and self.opened.form in ("onnx", "torch") and self._keeps_form

    @property
    def _keeps_form(self) -> bool:
        return self.output is None or form_of(self.output) == self.opened.form

    @property
    def is_original_kept(self) -> bool:
        """True if no precision is good enough, so that the original model stays."""
        return self.choice is not None and self.choice.report.original_kept

    # --- the stages

    def rewrite(self, *, verify: bool) -> None:
        """Run the passes; with ``verify``, each rewrite is checked by values as it is made.

        If this splits calls of PyTorch operators into more operators, a second run keeps these calls whole.
        """
        context = PassContext.current()
        instruments = [*context.instruments, self.stages, *([self._states] if self.is_timed else [])]
        context = PassContext(instruments=instruments, verify="values" if verify else context.verify)
        self._rewritten = self._rewrite(context, frozenset())
        if self._counts_calls:
            self._put_together(PassContext(verify=context.verify))
        self.done = self._rewritten.done

    @property
    def _counts_calls(self) -> bool:
        """True if a PyTorch operator should stay one call: the passes are a level's, and times do not decide."""
        may_be_torch = self.opened.form == "torch" or (self.opened.form == "relax" and "torch" in sys.modules)
        is_asked_for = not self.of_level or self.rules is not None or level_number(self.level) >= _AGGRESSIVE
        return may_be_torch and self._keeps_form and not is_asked_for and not self.is_timed

    def _put_together(self, context: PassContext) -> None:
        """Rewrite again with the split calls kept whole, and keep the result with the fewest operators."""
        from ..run.torch_taken_apart import has_source_calls, remains_of_calls

        if not has_source_calls(self.opened.module):
            return
        kept: frozenset[Any] = frozenset()
        found = remains_of_calls(self._rewritten.done.module)
        fewest = found.operators
        for _ in range(_MOST_TIMES):
            if not found.taken_apart - kept:
                break
            kept |= found.taken_apart
            rewritten = self._rewrite(context, kept)
            found = remains_of_calls(rewritten.done.module)
            if found.operators < fewest:
                fewest, self._rewritten = found.operators, rewritten

    def _rewrite(self, context: PassContext, kept: Collection[Any]) -> _Rewritten:
        """Run the passes, with the calls of PyTorch operators in ``kept`` as one value each."""
        whole, opened_up = self.opened.module, _unchanged
        if self.is_guarded or kept:
            whole, opened_up = _keeping_calls(self.opened, kept)
        is_small = self.is_guarded and not self.is_timed
        # For a PyTorch model the operators count: a few more bytes may save some operators.
        apart = {GROWING_CONSTANTS} if is_small and self.opened.form != "torch" else set[str]()
        chosen = self._without(apart) if apart else self.chosen
        with context:
            rewritten = _Rewritten(optimize_module(whole, passes=chosen), opened_up)
        if is_small:
            rewritten = self._portable(whole, rewritten, apart)
        done = rewritten.done
        return rewritten._replace(done=done._replace(module=opened_up(done.module)))

    def _without(self, forms: Collection[str]) -> Sequential:
        """The passes of the level, without ``forms``.

        Each constant is checked for growth separately: a model that is optimized again has nothing left to fold.
        """
        return passes_for(self.level, None, self.rules, {*forms})

    def _portable(self, whole: IRModule, rewritten: _Rewritten, apart: Collection[str]) -> _Rewritten:
        """``rewritten``, or a result that stays in the model's opset if a newer opset does not pay.

        A PyTorch weight that would exist in two forms stays a single weight, which training changes as a whole.
        ``apart`` lists the forms that ``rewritten`` does without.
        """
        done, more = rewritten.done, set[str]()
        if self.opened.form == "torch":
            if constant_bytes(done.module) > constant_bytes(whole) + MOST_GROWN:
                more.add(GROWING_CONSTANTS)
            if has_split_weights(done.module):
                more.add(SPLIT_WEIGHTS)

        def again(without: Collection[str]) -> Optimized:
            first = optimize_module(whole, passes=self._without({*apart, *more, *without}))
            if GROWING_CONSTANTS not in more:
                return first
            # Constants may grow now, as if this were the model to optimize, so that a second optimization finds
            # nothing.
            grown = optimize_module(first.module, passes=self._without({*apart, *more, *without} - {GROWING_CONSTANTS}))
            if constant_bytes(grown.module) > constant_bytes(first.module) + MOST_GROWN:
                return first
            return first._replace(module=grown.module, passes=(*first.passes, *grown.passes))

        done = as_portable(self.opened, whole, again(()) if more else done, self.level, again)
        return _Rewritten(done, rewritten.opened_up, again, held_back=bool(more))

    def lower_precision(self, asked: Asked) -> None:
        """Compute in fewer bits if that is good enough and, if times decide, faster.

        If nothing is good enough, the original model stays.
        """
        with self.stages.stage("choosing a precision"):
            done = self._with_whole_weights()
            self.choice = choose(self._originals, done.module, asked, self.output, self.stages.detail)
        if self.is_original_kept:
            why = "no attempt at a lower precision is good enough"
            self.done = self.done._replace(module=self.opened.module, kept=why)
        elif self.choice.module is not None:
            self.done = done._replace(module=self.choice.module)

    def _with_whole_weights(self) -> Optimized:
        """``done`` with weights that the model computes from other weights folded to constants, as only constants can
        be in few bits.

        A guarded result keeps such weights as computations, because they would stand beside the weights they are made
        of. Returns ``done`` itself if the folded weights make the whole model larger.
        """
        if not self.is_guarded or self.is_timed or self.opened.form == "torch":
            return self.done
        whole, opened_up = _keeping_calls(self.opened)
        done = optimize_module(whole, passes=self.chosen)
        if constant_bytes(done.module) > constant_bytes(whole) + MOST_GROWN:
            return self.done
        done = as_portable(
            self.opened, whole, done, self.level, lambda forms: optimize_module(whole, passes=self._without(forms))
        )
        return done._replace(module=opened_up(done.module))

    def measure(self, bench: Bench, tried_on: TriedOn, tolerance: float | None, deadline: Deadline) -> None:
        """Keep the fastest state between the passes that gives the same values; the original model if none is faster.

        Nothing is measured if a lower precision was chosen already.
        """
        if self.is_original_kept or (self.choice is not None and self.choice.module is not None):
            return
        with self.stages.stage("measuring"), tempfile.TemporaryDirectory(prefix="regraft-measure-") as folder:
            engine, run = self._originals.first_on(bench)
            bench, inputs = replace(bench, engine=engine), self._timed_on(tried_on, run)
            del run
            state, self.measurement = fastest_state(
                self._originals,
                self._states.found,
                lambda module: self._handed_over_in(Path(folder), self._rewritten.opened_up(module)),
                inputs,
                bench,
                tolerance,
                deadline,
            )
        if state is not None:
            self.done = self.done._replace(module=self._rewritten.opened_up(state.module))
        else:
            why = "nothing is faster by more than noise" if self.measurement.states else None
            self.done = self.done._replace(module=self.opened.module, kept=why)

    def _timed_on(self, tried_on: TriedOn, run: RunOriginal) -> Sequence[Any]:
        """The inputs to time the states on: the inputs that precisions were timed on, if there was a search."""
        if self.choice is not None and self.choice.inputs:
            return self.choice.inputs[0]
        return tried_on.trials(self.opened.function, run)[0].inputs

    def _handed_over_in(self, folder: Path, module: IRModule) -> Model:
        """The model in the form in which ``module`` would be handed over; its file, if any, goes to ``folder``."""
        if self.output is None:
            return Model(module, self.opened.name, self.opened.form, as_source(self.opened, module))
        path = folder / self.output.name
        write_model(module, self.opened.name, path, examples=self.opened.examples)
        return written(path, self.opened, module)

    # --- the end

    def hand_over(self, verify: Callable[[Model, Model], Verification] | None, reports: list[ReportTo]) -> Any:
        """The verified and reported result: the path of the written file, else a model of the kind that was given."""
        self._originals = Originals(self.opened)  # frees the memory of the timed models
        if self.output is None:
            with self.stages.stage("converting"):
                result = self._result(None)
            self._check(verify, Model(self.done.module, self.opened.name, self.opened.form, result), {}, reports)
            return result
        with staged(self.output) as path:
            with self.stages.stage("writing"):
                self._result(path)
            self._check(verify, written(path, self.opened, self.done.module), sizes_of(path), reports)
        return self.output

    def _result(self, path: Path | None) -> Any:
        """The model in the form in which it was given, or ``path`` if it was written there.

        It is the original model if that is to stay, or if only names would change. With the guard on, it is also the
        original if the result has too many operators, even with attention written out, or if it cannot be written.
        """
        why = None
        if not self._stays_as_it_was:
            result, why = self._written(path)
            again = self._rewritten.again
            if why == _MORE_OPERATORS and again is not None and has_new_attention(self.opened, self.done.module):
                done = again({ATTENTION})
                self.done = done._replace(module=self._rewritten.opened_up(done.module))
                result, why = self._written(path)
            if why is None and self._settle(result):
                result, why = self._written(path)
            if why is None:
                return result
            self.done = self.done._replace(module=self.opened.module, kept=why)
        if path is None:
            return as_it_is(self.opened)
        write_as_it_is(self.opened, path)
        return path

    def _settle(self, result: Any) -> bool:
        """Optimize ``done``, written as ``result``, again until nothing changes; True if something changed.

        A written model may be read back in another form: a call that takes two ONNX nodes comes back as two calls, and
        a constant made from weights is a weight. Only small models are optimized again, and only if their calls differ
        or some passes were held back; so a second run costs little.
        """
        module = self.done.module
        if self._most_operators is None or not self._keeps_form or not is_read_again(self.opened):
            return False
        if len(list(iter_bindings(module))) > _MOST_CALLS or constant_bytes(module) > _MOST_BYTES:
            return False
        message = as_source(self.opened, module) if isinstance(result, Path) else result
        held_back = self._rewritten.held_back
        for _ in range(_MOST_TIMES):
            opened = open_model(message)
            if not held_back and op_counts(opened.module) == op_counts(self.done.module):
                break
            again = replace(self, opened=opened, output=None, stages=Stages(unseen, 0))
            again.rewrite(verify=False)
            found = op_counts(again.done.module)
            if held_back and found == op_counts(opened.module):
                break
            message, why = again._written(None)
            if why is not None:
                break
            # Operators that reading splits, such as two lookups by one mask, are combined once more.
            is_settled, held_back = found == op_counts(self.done.module), again._rewritten.held_back
            self.done = self.done._replace(module=again.done.module, passes=(*self.done.passes, *again.done.passes))
            if is_settled:
                break
        return self.done.module is not module

    @property
    def _stays_as_it_was(self) -> bool:
        unchanged = self.is_original_kept if self.measurement is None else self.measurement.gain is None
        return unchanged and not self.in_versions

    def _written(self, path: Path | None) -> tuple[Any, str | None]:
        """``done`` in the form of the result, and the reason to hand over the original model instead, if any."""
        most = self._most_operators
        may_go_back = (path is None) == (self.opened.path is None) and self._keeps_form
        result: Any = path
        try:
            if path is None:
                result = as_source(self.opened, self.done.module)
            else:
                examples = self.opened.examples
                write_model(self.done.module, self.opened.name, path, safetensors=self.safetensors, examples=examples)
        except ConvertError as error:
            if not may_go_back or most is None:
                raise
            return None, f"the result cannot be written: {error}"
        if may_go_back and is_as_it_was(self.opened, result):
            return None, "nothing in it was rewritten" if self.rules is None else "the result is the same nodes"
        if may_go_back and most is not None:
            if is_newer_for_nothing(self.opened, self.done.module, result):
                return None, "the result is of a newer opset and gains nothing by it"
            if is_larger(self.opened, self.done.module, result, most):
                return None, _MORE_OPERATORS if self.opened.form == "torch" else "the result is larger"
        return result, None

    @property
    def _most_operators(self) -> float | None:
        """The limit for the number of operators of the result, as a multiple of the model's; None if it does not
        matter.
        """
        is_in_few_bits = self.choice is not None and self.choice.module is not None
        is_asked_for = self.rules is not None or is_in_few_bits or self.in_versions
        if not self.is_guarded or is_asked_for or self.is_timed:
            return None
        return _MOST_AGGRESSIVE if level_number(self.level) == _AGGRESSIVE else 1.0

    def _check(
        self,
        verify: Callable[[Model, Model], Verification] | None,
        result: Model,
        sizes: Mapping[str, int],
        reports: list[ReportTo],
    ) -> None:
        """Verify ``result`` and hand over the reports; if the verification fails, hand them over before raising."""
        try:
            verification = self._verification(verify, result)
        except VerificationError as error:
            if error.differences:
                failed = Verification(error.differences, error.against)
                hand_over_reports(reports, self._report(result, failed, {}))
            raise
        hand_over_reports(reports, self._report(result, verification, sizes))

    def _verification(
        self, verify: Callable[[Model, Model], Verification] | None, result: Model
    ) -> Verification | None:
        choice = self.choice
        if choice is not None and choice.module is not None and choice.candidate is not None:
            with self.stages.stage("verifying"):
                return check_choice(self.opened, result, choice)
        if verify is None:
            return None
        with self.stages.stage("verifying"):
            return verify(self.opened, result)

    def _report(self, result: Model, verification: Verification | None, sizes: Mapping[str, int]) -> OptimizationReport:
        opened, done = self.opened, self.done
        nodes = [node_kinds(one) for one in (opened, result)]
        before, after = nodes if None not in nodes else (None, None)
        return OptimizationReport(
            str(opened.path or type(opened.source).__name__),
            op_counts(opened.module),
            op_counts(done.module),
            done.passes,
            verification,
            {**self.stages.seconds, "passes": sum(one.seconds for one in done.passes)},
            sizes,
            before=opened.module,
            program=done.module,
            tape=done.tape,
            bytes_before=sum(sizes_of_files(opened.files)) or constant_bytes(opened.module),
            bytes_after=sum(sizes.values()) or constant_bytes(done.module),
            measurement=self.measurement,
            precision=None if self.choice is None else self.choice.report,
            rules=rules_first(self.chosen, self.rules),
            raised=raised_opset(opened.module, done.module),
            kept=done.kept,
            nodes_before=before,
            nodes_after=after,
        )


def _unchanged(module: IRModule) -> IRModule:
    return module


def _keeping_calls(opened: Model, kept: Collection[Any] = ()) -> tuple[IRModule, Callable[[IRModule], IRModule]]:
    """A module in which operators of the source format without a counterpart here are whole, and a function that
    unfolds them.

    Calls of PyTorch operators in ``kept`` are whole, too. If the source is a module of regraft, only these are.
    """
    from ..formats.whole_calls import fold_calls, unfold_calls

    if opened.form == "onnx":
        from ..formats.onnx.whole_nodes import whole_node_of as whole_of
    else:
        from ..formats.torch.whole_calls import whole_calls_of

        whole_of = whole_calls_of(kept, only_these=opened.form != "torch")
    folded = fold_calls(opened.module, whole_of)
    return folded.module, lambda rewritten: unfold_calls(rewritten, folded.functions)

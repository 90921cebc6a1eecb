"""`optimize`: a model in, the same kind of model out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

from ..analysis import constant_bytes
from ..formats.errors import ConvertError
from ..ir.module import IRModule
from ..passes import Pass, PassContext, PassReport, RulePass, Sequential, Tape, op_counts
from ..passes import report as report_passes
from ..passes.passes import AsPass, UntilStable
from ..passes.pipeline import GROWING_CONSTANTS, SPLIT_WEIGHTS, level_number, named_passes, pipeline, recognizing
from ..rewrite import PatternMatchingRewriter, Rule, RuleSet
from .decisions import Cache, Decisions
from .describing import node_kinds
from .errors import UsageError, VerificationError
from .files import check_output, companions, sizes_of, sizes_of_files, staged, write_text
from .inputs import ValueRange
from .machines import MachineChoice, MachineDescription, machine_of, this_machine
from .measure import Bench, Measurement, Snapshots, fastest_state, opened_on
from .models import Model, as_it_is, as_source, form_of, in_versions, open_model, write_as_it_is, write_model
from .portability import MOST_GROWN, as_portable, has_split_weights, is_as_it_was, is_larger, raised_opset
from .precision import Asked, Choice, check_choice, check_precision, choose
from .progress import Progress, Stages, unseen
from .report import OptimizationReport
from .rules import Rules, Step, rules_of
from .samples import Samples, TriedOn
from .timing import Clock, Deadline
from .verification import Verification, written
from .verification import verify as compare

RULES: Final = "rules"
RULES_AGAIN: Final = "rules, with operators recognized"
"""The names of the two passes that the rules of a caller make."""

Passes: TypeAlias = "str | AsPass | Iterable[AsPass]"
ReportTo: TypeAlias = str | os.PathLike[str] | Callable[[OptimizationReport], None]

_AGGRESSIVE: Final = level_number("aggressive")
_MOST_AGGRESSIVE: Final = 2.0
"""The most operators after that level, as a multiple of those before: it rewrites whether that pays or not."""


class Optimized(NamedTuple):
    """A module after the passes, and what each of them did."""

    module: IRModule
    passes: tuple[PassReport, ...]
    tape: Tape
    kept: str | None = None
    """The reason to keep the model as it was and not the passes' result, if it was kept."""


def optimize_module(
    module: IRModule, *, level: int | str = "default", passes: Passes | None = None, rules: Rules | None = None
) -> Optimized:
    """Run ``rules`` and then the passes of a level, or those given, on a module; see `regraft.passes.pipeline`."""
    done = report_passes(passes_for(level, passes, rules), module)
    assert isinstance(done.program, IRModule)
    return Optimized(done.program, done.passes, done.tape)


def passes_for(
    level: int | str, passes: Passes | None, rules: Rules | None = None, without: Collection[str] = ()
) -> Sequential:
    """The passes to run: those given, by name or as they are, or those of the level; ``rules`` before them.

    Where operators are recognized among the passes, the rules run once more right after that: many files write out
    what a rule names.
    """
    chosen = pipeline(level, without=without) if passes is None else _chosen(level, passes)
    return chosen if rules is None else with_rules(chosen, rules)


def with_rules(chosen: Sequential, rules: Rules) -> Sequential:
    """``chosen``, with ``rules`` before the first pass, and again before what follows the recognition of operators."""
    found = rules_of(rules)
    first = recognizing(chosen)
    rest = [chosen] if isinstance(chosen, UntilStable) else chosen.passes[len(first) :]
    again = [*first, *_in_order(found, RULES_AGAIN)] if first else []
    return Sequential([*_in_order(found, RULES), *again, *rest], name=chosen.name)


def _in_order(steps: Sequence[Step], name: str) -> list[AsPass]:
    """Rules in a row as one pass of that ``name``, and functions of a module between them."""
    found: list[AsPass] = []
    for are_rules, group in groupby(steps, lambda step: isinstance(step, Rule)):
        several = list(group)
        found += [RulePass(RuleSet(cast("list[Rule]", several)), name)] if are_rules else several
    return found or [RulePass(RuleSet([]), name)]


def _chosen(level: int | str, passes: Passes | None) -> Sequential:
    if passes is None:
        return pipeline(level)
    if isinstance(passes, str):
        return named_passes(passes)
    if isinstance(passes, Sequential):
        return passes
    is_one = isinstance(passes, Pass | PatternMatchingRewriter) or not isinstance(passes, Iterable)
    return Sequential(cast("Iterable[AsPass]", [passes] if is_one else passes))


def optimize(
    model: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    level: int | str = "default",
    passes: Passes | None = None,
    rules: Rules | None = None,
    verify: bool = False,
    verify_rewrites: bool = False,
    measure: bool = False,
    engine: str | None = None,
    threads: int | None = None,
    clock: Clock | None = None,
    budget: float = 30.0,
    precision: str = "float32",
    max_error: float | None = None,
    min_cosine: float | None = None,
    min_agreement: float | None = None,
    calibrate: Samples | None = None,
    target: MachineChoice | None = None,
    cache: Cache = True,
    memory: int | None = None,
    report: ReportTo | Sequence[ReportTo] | None = None,
    fix: Mapping[str, int] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    ranges: Mapping[str, ValueRange] | None = None,
    inputs: Samples | None = None,
    tolerance: float | None = None,
    dynamic_shapes: Any = None,
    function: str | None = None,
    pure: Sequence[str] = (),
    opset: int | None = None,
    ir_version: int | None = None,
    safetensors: bool = False,
    progress: Progress = unseen,
) -> Any:
    """Rewrite a model, and give it back in the form that it came in.

    Args:
        model: a path (``.onnx``, ``.pt2``, ``.relax``), an `onnx.ModelProto`, an `ExportedProgram`, a
            `torch.nn.Module` with example inputs, a module or a function.
        args: example inputs, for a `torch.nn.Module`; as `from_torch` takes them.
        kwargs: the same, by name.
        output: where to write the result, in the format of its suffix; the path is returned then. Without it, the
            result is returned: of the kind of ``model``, or of the kind that a file like the one given holds.
        level: 0 to 3 or its name; `regraft.passes.pipeline.pipeline` says what each does and may assume.
        passes: passes in place of the level's: names with commas between, a pass, or several. Rules and functions of
            the whole module are passes as well.
        rules: rules that run before the passes, on the model as it was read, and once more after `RecognizeOperators`
            where that is among the passes: rules and sets of them, functions of the whole module, ``"file.py"`` or
            ``"file.py:one,two"`` (the file is run, as code), or the name under which a package offers some.
        verify: run model and result on the same random inputs first, each as its own framework runs it.
        verify_rewrites: run both sides of each rewrite on random inputs as it is made, and the functions before and
            after each pass: a rule that is wrong is named, even where the model hides it.
        measure: run model and result in turns, and keep what is faster: the result, else the fastest state between its
            passes that gives the same values, else the model as it was.
        engine: for the measurement, what to run on; by default ONNX Runtime, or PyTorch for its own models.
        threads: for the measurement, how many threads to run on; by default all cores.
        clock: for the measurement, ``"cpu"`` or ``"wall"``; by default processor time for one thread, else the wall's.
        budget: for the measurement and the choice of a precision, how many seconds of wall time they may take, however
            busy the machine is: after them nothing is tried and no run begins. What reading, samples and the final
            check take comes on top, and so does the one trial that is under way.
        precision: ``"float32"``: as it is; ``"int8"``, ``"int8-weights"``, ``"int4-weights"``, ``"bfloat16"`` or
            ``"float16"``: compute in that as far as ``max_error`` allows; ``"auto"``: the fastest of all on this
            machine, which takes a measurement. Of a model in few bits an ONNX file or model comes out; what it is best
            run on is in its metadata.
        max_error: the error that a lower precision may cause, as a part of the largest magnitude of each output; by
            default 0.02, and 0.05 for ``"int8"``. Layers that err by more stay in float32, the worst first. If nothing
            stays within it, the model is given back as it was, untouched, and the report has the nearest miss.
        min_cosine: the least cosine of the angle between an output as it was and as it is; by default any.
        min_agreement: the least part of rows whose largest element is the same one as before, for models that choose
            between classes or tokens; by default any.
        calibrate: samples, from which ranges for bytes come and by which errors are measured: `.npz` files with the
            inputs by name, a folder of these, or inputs one after another, each by name or in order.
        target: for a precision, the machine that the model is made for, where that is not this one: a name of
            `regraft.model.machines.PROFILES` such as ``"amx"``, a JSON file that ``regraft targets --save`` wrote, or
            what it holds. What its processor computes in is tried; errors are measured here, and gains are counted.
        cache: where to keep what was measured, so that the same model on the same machine is not timed again: by
            default in the user's folder for caches (or the folder that ``REGRAFT_CACHE`` names), False for nowhere, or
            a folder. Values are checked again in any case.
        memory: for a precision, the bytes that it may take; by default what is free. Where the model beside its other
            form needs more, ``"int8-weights"`` and ``"int4-weights"`` are done layer by layer without running it, with
            the error of each layer alone; other precisions are refused.
        report: where to write what was done as JSON, or what to call with the `OptimizationReport`; or several such.
            One that is both a path and can be called writes itself there, such as `regraft.view.HtmlReport`.
            Reports come before the output takes its place, so that there is no output where one cannot be written.
            They also come where the verification fails, with the differences that it found.
        fix: numbers for symbolic sizes, by name; the result is a model of these sizes only.
        dims: for the verification, sizes of symbolic dims by name.
        seed: for the verification, chooses the inputs.
        ranges: for the verification, the least and the greatest value of inputs by name: ``{"x": (0, 1)}``.
        inputs: for the verification, the measurement and the error of a precision, samples to run on in place of random
            inputs, given like ``calibrate``.
        tolerance: for the verification, the relative difference to allow in place of the dtype's own.
        dynamic_shapes: for a `torch.nn.Module`, as `torch.export` takes it.
        function: the function to work on, in a file or module with several.
        pure: domains of an ONNX model, or operators (``"domain::Name"``), that nobody has declared and that have no
            effects, so that their calls may be shared, moved and left out.
        opset: for ONNX, the version of its operators; by default the lowest that the result needs.
        ir_version: for ONNX, the version of its file format.
        safetensors: for an output that ends in ``.relax``, weights beside it in that form, by name.
        progress: called as each stage begins.

    Files appear whole or not at all, and never over a file that the model is read from. Raises `VerificationError`
    where the result computes something else (nothing is written then), `UsageError`, `OutputError`, and what reading
    and writing the format raise. Cost: linear in the model, and what the verification runs.
    """
    chosen, written_to = passes_for(level, passes, rules), None if output is None else Path(output)
    check_precision(precision, written_to, calibrate, max_error, min_cosine, min_agreement)
    machine = _machine(target, precision, measure=measure)
    bench, tried_on = (
        Bench(engine or "", threads, clock, budget, Decisions.of(cache)),
        _tried_on(seed, dims, ranges, inputs, runs=verify or measure or precision != "float32"),
    )
    stages = Stages(progress, _steps(chosen) + 2 + verify + measure + (precision != "float32"))
    with stages.stage("reading"):
        opened = open_model(model, args, kwargs, dynamic_shapes=dynamic_shapes, function=function, fixed=fix, pure=pure)
    opened = in_versions(opened, opset, ir_version, written_to)
    reports = _reports(report, written_to, opened, safetensors=safetensors)
    keeps = (
        passes is None
        and opened.form in ("onnx", "torch")
        and (written_to is None or form_of(written_to) == opened.form)
    )
    whole, opened_up = _keeping_calls(opened) if keeps else (opened.module, _as_it_is)
    states = Snapshots()
    timed = machine.is_here and (measure or precision == "auto")
    instruments = [*PassContext.current().instruments, stages, *([states] if timed else [])]
    with PassContext(instruments=instruments, verify="values" if verify_rewrites else PassContext.current().verify):
        done = optimize_module(whole, passes=chosen)
    done = _as_portable_and_small(opened, whole, done, level, rules) if keeps and not timed else done
    done = done._replace(module=opened_up(done.module))
    measurement: Measurement | None = None
    lowered: Choice | None = None
    deadline = Deadline(budget)
    if precision != "float32":
        budgets = max_error, min_cosine, min_agreement
        asked = Asked(precision, *budgets, calibrate, bench, deadline, measure, tried_on, machine, memory)
        done, lowered = _in_few_bits(opened, done, asked, written_to, stages)
    missed = lowered is not None and lowered.report.original_kept
    if timed and not missed and (lowered is None or lowered.module is None):
        allowed = min((one for one in (tolerance, max_error) if one is not None), default=None)
        with stages.stage("measuring"):
            done, measurement = _faster(opened, done, states, opened_up, written_to, bench, tried_on, allowed, deadline)
    stays = (missed if measurement is None else measurement.gain is None) and opset is None and ir_version is None

    def compared(result: Model) -> Verification | None:
        if lowered is not None and lowered.module is not None and lowered.candidate is not None:
            with stages.stage("verifying"):
                return check_choice(opened, result, lowered)
        if not verify:
            return None
        with stages.stage("verifying"):
            return compare(opened, result, seed=seed, dims=dims, ranges=ranges, inputs=inputs, allowed=tolerance)

    def made(verification: Verification | None, sizes: Mapping[str, int], result: Model) -> OptimizationReport:
        rules_first = _rules_first(chosen, rules)
        return _made(opened, result, done, measurement, lowered, stages, rules_first, verification, sizes)

    is_asked = rules is not None or precision != "float32" or opset is not None or ir_version is not None
    most = None if not keeps or is_asked or timed else _MOST_AGGRESSIVE if level_number(level) == _AGGRESSIVE else 1.0
    hand_over = partial(_handed_over, opened, stays=stays, most=most, safetensors=safetensors)
    if written_to is None:
        with stages.stage("converting"):
            done, result = hand_over(done, None)
        _check(compared, Model(done.module, opened.name, opened.form, result), {}, made, reports)
        return result
    with staged(written_to) as path:
        with stages.stage("writing"):
            done, _ = hand_over(done, path)
        _check(compared, written(path, opened, done.module), sizes_of(path), made, reports)
    return written_to


def _handed_over(
    opened: Model, done: Optimized, path: Path | None, *, stays: bool, most: float | None, safetensors: bool
) -> tuple[Optimized, Any]:
    """``done``, and the model in the form that it came in or the path that it was written to.

    It is the model as it was if that ``stays``, or if nothing but names would change, or if it would otherwise have
    ``most`` times its operators, or cannot be written. With None for ``most`` these two are taken as they come.
    """
    if not stays:
        why = "the result has more operators" if opened.form == "torch" else "the result is larger"
        is_alike = (path is None) == (opened.path is None) and (path is None or form_of(path) == opened.form)
        result: Any = path
        try:
            if path is None:
                result = as_source(opened, done.module)
            else:
                write_model(done.module, opened.name, path, safetensors=safetensors)
        except ConvertError as error:
            if not is_alike or most is None:
                raise
            why = f"the result cannot be written: {error}"
        else:
            if is_alike and is_as_it_was(opened, result):
                why = "nothing in it was rewritten"
            elif not is_alike or most is None or not is_larger(opened, done.module, result, most):
                return done, result
        done = done._replace(module=opened.module, kept=why)
    if path is None:
        return done, as_it_is(opened)
    write_as_it_is(opened, path)
    return done, path


def _in_few_bits(
    opened: Model, done: Optimized, asked: Asked, target: Path | None, stages: Stages
) -> tuple[Optimized, Choice]:
    """``done`` in the precision that is chosen, and the choice; the model as it was where no precision is good enough.

    ``done`` itself where one is good enough, but not faster.
    """
    with stages.stage("choosing a precision"):
        choice = choose(opened, done.module, asked, target, stages.detail)
    if choice.report.original_kept:
        return done._replace(module=opened.module, kept="no attempt at a lower precision is good enough"), choice
    return (done if choice.module is None else done._replace(module=choice.module)), choice


def _as_portable_and_small(
    opened: Model, whole: IRModule, done: Optimized, level: int | str, rules: Rules | None
) -> Optimized:
    """``done``, or what is no larger than the model was, and stays in its opset where a newer one does not pay.

    A weight of a PyTorch model that would be there in two forms stays one weight, which training changes as a whole.
    """
    apart: set[str] = set()
    if constant_bytes(done.module) > constant_bytes(whole) + MOST_GROWN:
        apart.add(GROWING_CONSTANTS)
    if opened.form == "torch" and has_split_weights(done.module):
        apart.add(SPLIT_WEIGHTS)

    def again(without: Collection[str]) -> Optimized:
        return optimize_module(whole, passes=passes_for(level, None, rules, {*apart, *without}))

    if apart:
        done = again(())
    return as_portable(opened, whole, done, level, again)


def _faster(
    opened: Model,
    done: Optimized,
    states: Snapshots,
    opened_up: Callable[[IRModule], IRModule],
    target: Path | None,
    bench: Bench,
    tried_on: TriedOn,
    tolerance: float | None,
    deadline: Deadline,
) -> tuple[Optimized, Measurement]:
    """The model that is faster than ``opened``, ``opened`` itself if nothing is; and what was measured."""
    engine, run = opened_on(opened, bench)
    bench, inputs = replace(bench, engine=engine), tried_on.trials(opened.function, run)[0].inputs
    del run
    with tempfile.TemporaryDirectory(prefix="regraft-measure-") as folder:

        def hand_over(module: IRModule) -> Model:
            module = opened_up(module)
            if target is None:
                return Model(module, opened.name, opened.form, as_source(opened, module))
            path = Path(folder) / target.name
            write_model(module, opened.name, path)
            return written(path, opened, module)

        state, measurement = fastest_state(opened, states.found, hand_over, inputs, bench, tolerance, deadline)
    if state is None:
        why = "nothing is faster by more than noise" if measurement.states else None
        return done._replace(module=opened.module, kept=why), measurement
    return done._replace(module=opened_up(state.module)), measurement


def _tried_on(
    seed: int,
    dims: Mapping[str, int] | None,
    ranges: Mapping[str, ValueRange] | None,
    inputs: Samples | None,
    *,
    runs: bool,
) -> TriedOn:
    """The inputs of the trial runs. Raises `UsageError` for samples and ranges that nothing would use."""
    if (inputs is not None or ranges) and not runs:
        raise UsageError("inputs and ranges say what the model runs on; ask for a run: verify, measure or a precision")
    if inputs is not None and ranges:
        raise UsageError("ranges are for random inputs, and samples take their place; leave out one of the two")
    return TriedOn(seed, dims, ranges, inputs)


def _machine(target: MachineChoice | None, precision: str, *, measure: bool) -> MachineDescription:
    """The machine that the model is made for; raises `UsageError` where it is not known, or nothing depends on it."""
    if target is None:
        return this_machine()
    if precision == "float32":
        raise UsageError("a target decides between precisions; give one, such as auto, beside it")
    if measure:
        raise UsageError("times are measured on this machine, and the target is another; leave out one of the two")
    return machine_of(target)


def _as_it_is(module: IRModule) -> IRModule:
    return module


def _keeping_calls(opened: Model) -> tuple[IRModule, Callable[[IRModule], IRModule]]:
    """A module with the operators of its source whole that have no like here, and what takes them apart again."""
    from ..formats.whole_calls import fold_calls, unfold_calls

    if opened.form == "torch":
        from ..formats.torch.whole_calls import whole_call_of as whole_of
    else:
        from ..formats.onnx.whole_nodes import whole_node_of as whole_of
    folded = fold_calls(opened.module, whole_of)
    return folded.module, lambda rewritten: unfold_calls(rewritten, folded.functions)


def _reports(
    report: ReportTo | Sequence[ReportTo] | None, output: Path | None, opened: Model, *, safetensors: bool
) -> list[ReportTo]:
    """The reports as a list, where they and the output can be written, each to a place of its own and over no input.

    Raises `UsageError` and `OutputError` where they cannot.
    """
    if safetensors and output is not None and output.suffix != ".relax":
        raise UsageError(f"weights go to safetensors beside a .relax file; {output.name} holds its own")
    if callable(report) or isinstance(report, str | os.PathLike):
        report = [report]
    reports = list(report or ())
    taken: list[Path] = []
    if output is not None:
        check_output(output, opened.files)
        taken += [output, *companions(output)]
    for path in [Path(os.fspath(one)) for one in reports if isinstance(one, str | os.PathLike)]:
        if path.resolve() in [other.resolve() for other in taken]:
            raise UsageError(f"{path} is to hold the report and the output; give the report another name")
        check_output(path, opened.files)
        taken.append(path)
    return reports


def _check(
    compared: Callable[[Model], Verification | None],
    result: Model,
    sizes: Mapping[str, int],
    made: Callable[[Verification | None, Mapping[str, int], Model], OptimizationReport],
    reports: Sequence[ReportTo],
) -> None:
    """Verify ``result`` and hand the reports over, those of a verification that fails as well, before it is raised."""
    try:
        verification = compared(result)
    except VerificationError as error:
        if error.differences:
            _hand_over(reports, made(Verification(error.differences, error.against), {}, result))
        raise
    _hand_over(reports, made(verification, sizes, result))


def _steps(chosen: Sequential) -> int:
    """The passes of ``chosen`` and of the sequences in it, each counted once."""
    return sum(_steps(one) if isinstance(one, Sequential) else 1 for one in chosen)


def _rules_first(chosen: Sequential, rules: Rules | None) -> tuple[str, ...]:
    """The names of the rules that `passes_for` put before the passes."""
    firsts = [one for one in chosen if isinstance(one, RulePass) and one.name == RULES and rules is not None]
    return tuple(rule.name for one in firsts for rule in one.rules.rules())


def _made(
    opened: Model,
    result: Model,
    done: Optimized,
    measurement: Measurement | None,
    lowered: Choice | None,
    stages: Stages,
    rules: tuple[str, ...],
    verification: Verification | None,
    sizes: Mapping[str, int],
) -> OptimizationReport:
    nodes = [node_kinds(one) for one in (opened, result)]
    before, after = nodes if None not in nodes else (None, None)
    return OptimizationReport(
        str(opened.path or type(opened.source).__name__),
        op_counts(opened.module),
        op_counts(done.module),
        done.passes,
        verification,
        {**stages.seconds, "passes": sum(one.seconds for one in done.passes)},
        sizes,
        before=opened.module,
        program=done.module,
        tape=done.tape,
        bytes_before=sum(sizes_of_files(opened.files)) or constant_bytes(opened.module),
        bytes_after=sum(sizes.values()) or constant_bytes(done.module),
        measurement=measurement,
        precision=None if lowered is None else lowered.report,
        rules=rules,
        raised=raised_opset(opened.module, done.module),
        kept=done.kept,
        nodes_before=before,
        nodes_after=after,
    )


def _hand_over(reports: Iterable[ReportTo], made: OptimizationReport) -> None:
    for report in reports:
        if callable(report):
            report(made)
        else:
            write_text(Path(report), made.to_json())

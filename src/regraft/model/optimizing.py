"""`optimize`: a model in, the same kind of model out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..run.torch_threads import torch_threads
from .asked_precision import Asked, check_precision
from .chosen_passes import Passes, passes_for, steps_of
from .decisions import Cache, Decisions
from .error_measures import GivenMeasure
from .errors import UsageError
from .inputs import ValueRange
from .job import Job
from .machines import MachineChoice, MachineDescription, machine_of, this_machine
from .measure import Bench
from .models import in_versions, open_model
from .progress import Progress, Stages, unseen
from .reports import ReportTo, checked_reports
from .rules import Rules
from .samples import Samples, TriedOn
from .timing import Clock, Deadline
from .verification import verify as compare


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
    error_measure: GivenMeasure = "largest",
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
            default 0.02, and 0.05 for ``"int8"``. It is the largest to expect of such inputs, by what samples cause, or
            up to 16 random inputs, as many as run in a thirtieth of ``budget``. Layers that err by more stay in
            float32, the worst first. If nothing stays within it, the model is given back as it was, untouched, and the
            report has the nearest miss.
        min_cosine: the least cosine of the angle between an output as it was and as it is; by default any.
        min_agreement: the least part of rows whose largest element is the same one as before, for models that choose
            between classes or tokens; by default any.
        error_measure: the measure of the error that ``max_error`` limits, where that is not the ``"largest"``
            difference: ``"detections"`` for models that end in a choice of boxes (the part of the scores of all boxes
            that is not found again in the same place with the same label), or a function of two dictionaries of
            outputs by name, those as they were and those as they are, which gives 0 for equal ones.
        calibrate: samples, from which ranges for bytes come and by which errors are measured: `.npz` files with the
            inputs by name, a folder of these, or inputs one after another, each by name or in order. Of four or more
            one half gives ranges, and errors are measured on the other; with ``inputs`` beside them, on those.
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
    chosen, path = passes_for(level, passes, rules), None if output is None else Path(output)
    limits = max_error, min_cosine, min_agreement, error_measure
    check_precision(precision, path, calibrate, *limits, measure=measure)
    lowers = precision != "float32"
    machine = _machine(target, precision, measure=measure)
    bench = Bench(engine or "", threads, clock, budget, Decisions.of(cache))
    tried_on = _tried_on(seed, dims, ranges, inputs, runs=verify or measure or lowers)
    stages = Stages(progress, steps_of(chosen) + 2 + verify + measure + lowers)
    with stages.stage("reading"):
        opened = open_model(model, args, kwargs, dynamic_shapes=dynamic_shapes, function=function, fixed=fix, pure=pure)
    opened = in_versions(opened, opset, ir_version, path)
    reports = checked_reports(report, path, opened, safetensors=safetensors)
    job = Job(
        opened=opened,
        chosen=chosen,
        level=level,
        rules=rules,
        output=path,
        stages=stages,
        of_level=passes is None,
        is_timed=machine.is_here and (measure or precision == "auto"),
        in_versions=opset is not None or ir_version is not None,
        safetensors=safetensors,
    )
    job.rewrite(verify=verify_rewrites)
    deadline = Deadline(budget)
    with torch_threads(threads if "torch" in (opened.form, engine) else None):
        if lowers:
            job.lower_precision(
                Asked(precision, *limits, calibrate, bench, deadline, measure, tried_on, machine, memory)
            )
        if job.is_timed:
            limit = max_error if error_measure == "largest" else None
            allowed = min((one for one in (tolerance, limit) if one is not None), default=None)
            job.measure(bench, tried_on, allowed, deadline)
    comparison = partial(compare, seed=seed, dims=dims, ranges=ranges, inputs=inputs, allowed=tolerance)
    return job.hand_over(comparison if verify else None, reports)


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
        raise UsageError("times are measured on this machine, and the target is another; leave out measure or target")
    return machine_of(target)

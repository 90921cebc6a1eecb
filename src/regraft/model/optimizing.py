"""`optimize`: rewrite a model and return the same kind of model."""

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
    """Rewrite a model, and return it in the form in which it was given.

    Args:
        model: a path (``.onnx``, ``.pt2``, ``.relax``, ``.xml``, or a folder of transformers), an `onnx.ModelProto`, an
            `ExportedProgram`, a `torch.nn.Module` with example inputs, a module or a function.
        args: example inputs for a `torch.nn.Module`, as `from_torch` takes them.
        kwargs: the same, by name.
        output: the file to write the result to, in the format of its suffix; then the path is returned. Without it, the
            result is returned: of the same kind as ``model``, or the object that a file like ``model`` would hold.
        level: 0 to 3, or the level's name; `regraft.passes.pipeline.pipeline` says what each level does and may assume.
        passes: passes that replace the level's: names separated by commas, a pass, or several. Rules and functions of
            the whole module are passes as well.
        rules: rules that run before the passes, on the model as it was read, and once more after `RecognizeOperators`
            if that is among the passes. They are rules and rule sets, functions of the whole module, ``"file.py"`` or
            ``"file.py:one,two"`` (the file is run as code), or the name under which a package offers rules.
        verify: run model and result on the same random inputs before returning, each in its own framework.
        verify_rewrites: run both sides of each rewrite on random inputs as it is made, and the functions before and
            after each pass. This names a wrong rule, even if the model hides its effect.
        measure: run model and result in turns, and keep what is faster: the result, else the fastest state between its
            passes that gives the same values, else the original model.
        engine: the engine to measure on, and to choose a precision for; by default ONNX Runtime, or PyTorch and
            OpenVINO for their own models, and all engines that run the model for a precision.
        threads: the number of threads for measuring; by default all cores.
        clock: the clock for measuring, ``"cpu"`` or ``"wall"``; by default processor time for one thread, else wall
            time.
        budget: the seconds of wall time for the measurement and the choice of a precision, however busy the machine is.
            After them nothing is tried and no run begins. Reading, samples and the final check take extra time, and so
            does a trial that is under way.
        precision: ``"float32"`` keeps the model's own; ``"int8"``, ``"int8-weights"``, ``"int4-weights"``,
            ``"bfloat16"`` and ``"float16"`` compute in that precision as far as ``max_error`` allows; ``"auto"``
            chooses the fastest of all on this machine, by measuring. A model in few bits is returned as an ONNX file or
            model; its metadata names the engine that runs it best.
        max_error: the error that a lower precision may cause, as a fraction of the largest magnitude of each output; by
            default 0.02, 0.05 for ``"int8"`` and ``"int8-weights"``, and 0.2 for ``"int4-weights"``. It is the largest
            error to expect of such inputs, estimated from samples, or from up to 16 random inputs, as many as run in a
            thirtieth of ``budget``. Layers with too much error stay in float32, the worst first. If nothing stays
            within the limit, the original model is returned untouched, and the report has the nearest miss.
        min_cosine: the least cosine of the angle between an output and the original output; by default no limit.
        min_agreement: the least fraction of rows whose largest element stays the same one, for models that choose
            between classes or tokens; by default no limit.
        error_measure: the measure of the error that ``max_error`` limits. ``"largest"`` is the largest difference.
            ``"detections"`` is for models that end in a choice of boxes: the fraction of the scores of all boxes that
            is not found again in the same place with the same label. A function takes two dictionaries of outputs by
            name, the original and the new ones, and returns 0 for equal ones.
        calibrate: samples that give ranges for bytes and on which errors are measured: `.npz` files with the inputs by
            name, a folder of such files, or inputs one after another, each by name or in order. Of four or more
            samples, one half gives ranges, and errors are measured on the other half; with ``inputs`` given, errors are
            measured on ``inputs``.
        target: for a precision, the machine that the model is made for, if it is not this one: a name of
            `regraft.model.machines.PROFILES` such as ``"amx"``, a JSON file written by ``regraft targets --save``, or
            the contents of such a file. Precisions that its processor computes in are tried; errors are measured here,
            and gains are estimated from counts.
        cache: the place to keep measurements, so that the same model on the same machine is not timed again: by default
            the user's cache folder (or the folder that ``REGRAFT_CACHE`` names), False for nowhere, or a folder. Values
            are checked again in any case.
        memory: for a precision, the bytes that it may take; by default the free memory. If the model and its other form
            together need more, ``"int8-weights"`` and ``"int4-weights"`` are done layer by layer without running the
            model, with the error of each layer alone; other precisions are refused.
        report: a path to write a JSON report to, a function to call with the `OptimizationReport`, or several of these.
            An object that is both a path and callable writes itself there, such as `regraft.view.HtmlReport`. Reports
            are made before the output is put in place, so if a report cannot be written, there is no output. They are
            also made if the verification fails, with the differences that it found.
        fix: numbers for symbolic sizes, by name; the result is a model of these sizes only.
        dims: sizes of symbolic dims for random inputs (of the verification, the measurement and the error of a
            precision), by name.
        seed: chooses the random inputs.
        ranges: the smallest and the largest value of random inputs, by name: ``{"x": (0, 1)}``.
        inputs: samples that replace random inputs in the verification, the measurement and the error of a precision,
            given like ``calibrate``.
        tolerance: the relative difference that the verification and ``measure`` allow, in place of the dtype's own;
            ``measure`` allows no more than ``max_error``, if that is given and is the largest difference.
        dynamic_shapes: for a `torch.nn.Module`, as `torch.export` takes it.
        function: the function to work on, in a file or module with several.
        pure: domains of an ONNX model, or operators (``"domain::Name"``), that are not declared and have no effects, so
            that their calls may be shared, moved and removed.
        opset: for ONNX, the version of its operators; by default the lowest that the result needs.
        ir_version: for ONNX, the version of its file format.
        safetensors: for an output that ends in ``.relax``, store the weights beside it in that format, by name.
        progress: called as each stage begins.

    Files are written completely or not at all, and never over a file that the model is read from. Raises
    `VerificationError` if the result computes something else (then nothing is written), `UsageError`, `OutputError`,
    and the errors of reading and writing the format. Cost: linear in the model, plus the runs of the verification.
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
    """The inputs of the trial runs. Raises `UsageError` for samples and ranges that would not be used."""
    if (inputs is not None or ranges) and not runs:
        raise UsageError("inputs and ranges need a run of the model; ask for one: verify, measure or a precision")
    if inputs is not None and ranges:
        raise UsageError("ranges are for random inputs, which samples replace; leave out one of the two")
    return TriedOn(seed, dims, ranges, inputs)


def _machine(target: MachineChoice | None, precision: str, *, measure: bool) -> MachineDescription:
    """The machine that the model is made for; raises `UsageError` if it is unknown, or if nothing depends on it."""
    if target is None:
        return this_machine()
    if precision == "float32":
        raise UsageError("a target needs a precision, such as auto, to decide on")
    if measure:
        raise UsageError("times are measured on this machine, and the target is another; leave out measure or target")
    return machine_of(target)

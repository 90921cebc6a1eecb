"""The commands that write a model: optimize, convert, grad."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from . import console
from .options import (
    ClockName,
    CustomOps,
    DimSizes,
    FixedSizes,
    FunctionName,
    IrVersion,
    ModelPath,
    Opset,
    OutputPath,
    Ranges,
    RuleNames,
    Safetensors,
    Seed,
    Threads,
    parse_ranges,
    parse_sizes,
)

if TYPE_CHECKING:
    from ..model import Measurement, OptimizationReport, PrecisionReport
    from ..model.attempts import Attempt, LayerReport
    from ..passes.instruments import PassReport


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(optimize)
    app.command()(convert)
    app.command()(grad)


def optimize(
    model: ModelPath,
    output: OutputPath,
    level: Annotated[str, typer.Option(help="0 canonical, 1 safe, 2 default, 3 aggressive.")] = "default",
    passes: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Passes to run in place of a level; `regraft passes` lists them."),
    ] = None,
    rules: RuleNames = None,
    verify_rewrites: Annotated[
        bool, typer.Option("--verify-rewrites", help="Run both sides of each rewrite on random inputs as it is made.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run model and result on random inputs; write nothing if they differ.")
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0.0, help="The relative difference that --verify allows; by default the dtype's."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Time model and result in turns; keep what is faster and right.")
    ] = False,
    engine: Annotated[
        str | None,
        typer.Option(help="What --measure runs on: onnxruntime, openvino or torch; else the model's own."),
    ] = None,
    threads: Threads = None,
    clock: ClockName = None,
    budget: Annotated[
        float,
        typer.Option(min=0.0, help="Seconds of wall time for what is timed; only the trial under way goes on after."),
    ] = 30.0,
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16, float16, int8, int8-weights, int4-weights; or auto, the fastest.")
    ] = "float32",
    max_error: Annotated[
        float | None,
        typer.Option(min=0.0, help="The error that a precision may cause, of each output's largest magnitude."),
    ] = None,
    min_cosine: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="The least cosine of each output with what it was.")
    ] = None,
    min_agreement: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="The least part of rows with the same largest element.")
    ] = None,
    calibrate: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Samples for int8: .npz files with inputs by name, or a folder of them."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE.json", help="The machine that --precision is chosen for; `regraft targets` lists some."
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where measured decisions are kept; by default the user's for caches."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="What --precision may take, such as 8GB; by default what is free."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Measure anew, and keep no decision.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write what was done, and left and why, as JSON.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write what was done as a page for a browser, step by step, with why not.")
    ] = None,
    fix: FixedSizes = None,
    dim: DimSizes = None,
    range: Ranges = None,  # noqa: A002 - the option's name
    input: Annotated[  # noqa: A002 - the option's name
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Samples to verify and measure on, instead of random inputs: .npz files by name, or a folder of them.",
        ),
    ] = None,
    seed: Seed = 0,
    function: FunctionName = None,
    pure: Annotated[
        list[str] | None,
        typer.Option(
            "--pure",
            metavar="DOMAIN[::NAME]",
            help="Operators of an ONNX model that nobody has declared and that have no effects; may be repeated.",
        ),
    ] = None,
    custom_ops: CustomOps = None,
    opset: Opset = None,
    ir_version: IrVersion = None,
    safetensors: Safetensors = False,
) -> None:
    """Rewrite a model and write it to OUT: the main job."""
    sizes = parse_sizes(dim)
    from ..model import optimize as run
    from ..model.memory import parse_memory
    from ..run import custom_operators
    from ..view import HtmlReport

    made: list[OptimizationReport] = []
    page = None if html is None else HtmlReport(html)
    reports = [made.append, *(one for one in (report, page) if one is not None)]
    with console.shown_progress(output) as progress, custom_operators(custom_ops or ()):
        run(
            model,
            output=output,
            level=level,
            passes=passes,
            rules=rules,
            verify=verify,
            verify_rewrites=verify_rewrites,
            measure=measure,
            engine=engine,
            threads=threads,
            clock=clock,
            budget=budget,
            precision=precision,
            max_error=max_error,
            min_cosine=min_cosine,
            min_agreement=min_agreement,
            calibrate=calibrate,
            target=target,
            memory=None if memory is None else parse_memory(memory),
            cache=False if no_cache else cache or True,
            report=reports,
            fix=parse_sizes(fix, "--fix"),
            dims=sizes,
            seed=seed,
            ranges=parse_ranges(range),
            inputs=input or None,
            tolerance=tolerance,
            function=function,
            pure=pure or (),
            opset=opset,
            ir_version=ir_version,
            safetensors=safetensors,
            progress=progress,
        )
    _show(made[0])
    console.print_written(output, made[0].files)
    _summarize(made[0])
    if html is not None:
        console.print_line(f"Wrote {html} ({console.bytes_text(html.stat().st_size)}), to be opened in a browser")


def _told_passes(passes: Sequence[PassReport]) -> list[PassReport]:
    """The passes without those that ran once more and changed nothing."""
    seen: set[str] = set()
    told: list[PassReport] = []
    for one in passes:
        if one.name not in seen or one.rewrote or one.changed_ops:
            told.append(one)
        seen.add(one.name)
    return told


_SHAPES_SHOWN: Final = 3
"""The most shapes of one output on several samples that are shown."""
_AS_READ: Final = (
    "in the model as it was read (a model may write an operator out: from level 2 on RecognizeOperators puts it "
    "together, and the rules run again)"
)


def _show(made: OptimizationReport) -> None:
    what, before, after = made.shown_counts
    rows = [(name, str(old), str(new)) for name, (old, new) in made.shown_changes.items()]
    rows.append(("all", str(sum(before.values())), str(sum(after.values()))))
    title = f"{what.capitalize()} whose number changed"
    console.print_table(title, (what.removesuffix("s"), "before", "after"), rows, numbers=2)
    console.print_table(
        "Passes",
        ("pass", "rewrites", "left", "time"),
        [
            (one.name, str(len(one.rewrote)), str(len(one.declined)), console.seconds_text(one.seconds))
            for one in _told_passes(made.passes)
        ],
        numbers=3,
    )
    rewrites = Counter([step.rule for one in made.passes for step in one.rewrote])
    left = Counter([step.rule for one in made.passes for step in one.declined])
    names = dict.fromkeys((*made.rules, *rewrites, *left))
    if names:
        rows = [(name, str(rewrites[name]), str(left[name])) for name in names]
        console.print_table("Rules", ("rule", "rewrites", "left"), rows, numbers=2)
    steps = [step for one in made.passes for step in one.rewrote if step.unverified is not None]
    for (rule, reason), count in Counter([(step.rule, step.unverified) for step in steps]).items():
        times = f"{count} rewrite{'' if count == 1 else 's'}"
        console.print_line(f"--verify-rewrites could not run {times} of {rule!r}: {reason}")
    if made.rules and not any(name in rewrites or name in left for name in made.rules):
        from ..model.optimizing import RULES_AGAIN

        twice = any(one.name == RULES_AGAIN for one in made.passes)
        where = "in the model as it was read, and nothing with its operators recognized" if twice else _AS_READ
        console.print_line(f"The rules found nothing {where}; regraft explain says where they stopped.")
    if made.verification is not None and not made.verification.differences:
        console.print_line(f"Compared with {made.verification.against}")
    elif made.verification is not None:
        console.print_table(
            f"Verified against {made.verification.against}",
            ("output", "dtype", "shape", "largest difference", "relative", "allowed"),
            [
                (
                    one.name,
                    one.dtype,
                    _shapes_text(one.shapes or (one.shape,)),
                    f"{one.absolute:.3g}",
                    f"{one.relative:.3g}",
                    f"{one.tolerance:.3g}",
                )
                for one in made.verification.differences
            ],
            numbers=3,
        )

    if made.precision is not None:
        _show_precision(made.precision)
    if made.measurement is not None:
        _show_measurement(made.measurement)


def _shapes_text(shapes: Sequence[tuple[int, ...]]) -> str:
    more = "" if len(shapes) <= _SHAPES_SHOWN else f" and {len(shapes) - _SHAPES_SHOWN} more"
    return " ".join(map(str, shapes[:_SHAPES_SHOWN])) + more


def _show_precision(done: PrecisionReport) -> None:
    rows: list[tuple[str, ...]] = []
    left: dict[str, list[str]] = {}
    for one in done.attempts:
        if one.error is None and one.problem is not None:
            left.setdefault(one.problem, []).append(f"{one.name} on {one.engine}")
            continue
        few = len(one.layers) - len(one.gone_back)
        rows.append(
            (
                one.name,
                one.engine,
                f"{few} of {len(one.layers)}" if one.layers else "",
                "" if one.error is None else f"{one.error:.2g}",
                "" if one.cosine is None else f"{one.cosine:.5f}",
                "" if one.seconds is None else console.seconds_text(one.seconds),
                _gain_text(one),
                "kept" if one is done.kept else one.problem or "",
            )
        )
    where = "" if done.target is None else f" for {done.target}, not this machine"
    console.print_table(
        f"Precisions within an error of {done.max_error:.3g}{where} ({', '.join(done.features) or 'a processor'})",
        ("precision", "engine", "layers", "error", "cosine", "least time", "times as fast", ""),
        rows,
    )
    for problem, names in left.items():
        console.print_line(f"{', '.join(names)}: {problem}")
    if (kept := done.kept) is not None:
        _show_gone_back(kept)
    if done.original_kept:
        console.print_line(f"The model is written as it was: {_nearest_text(done)}")
    elif done.kept is None:
        console.print_line("Nothing is written in a lower precision: no attempt is faster")
    if done.by_layer:
        console.print_line("The model does not fit into memory to be run: errors are those of each layer alone")
    _say_decided(done.decided_before)


def _show_gone_back(kept: Attempt) -> None:
    for precision, stays in kept.back_by_precision.items():
        alone = f" (the error of each alone in {kept.name})" if any(map(_error_text, stays)) else ""
        names = ", ".join(one.name + _error_text(one) for one in stays)
        console.print_line(f"In {precision} stay {names}{alone}")


def _error_text(layer: LayerReport) -> str:
    return "" if layer.error is None else f" {layer.error:.2g}"


def _nearest_text(done: PrecisionReport) -> str:
    nearest = done.nearest_miss
    if nearest is None:
        return "nothing could be tried"
    return f"no attempt is good enough; the nearest is {nearest.name} on {nearest.engine}, with {nearest.problem}"


def _gain_text(one: Attempt) -> str:
    if one.gain is not None:
        return str(one.gain).removesuffix(" times as fast")
    return "" if one.expected is None else f"{one.expected:.2f} expected"


def _say_decided(file: str | None) -> None:
    if file is not None:
        console.print_line(f"Decided in an earlier run, and not measured again (--no-cache does): {file}")


def _show_measurement(done: Measurement) -> None:
    rows = [("as it was", "" if done.before is None else console.seconds_text(done.before), "", "")]
    for one in done.states:
        seconds = "" if one.seconds is None else console.seconds_text(one.seconds)
        faster = "" if one.gain is None else str(one.gain).removesuffix(" times as fast")
        rows.append((one.name, seconds, faster, "kept" if one.name == done.kept else one.problem or "not kept"))
    if done.gain is None:
        unchanged = "kept: nothing was rewritten" if not done.states else "kept: nothing is faster by more than noise"
        rows[0] = (*rows[0][:3], unchanged)
    console.print_table(
        f"Measured in turns on {done.engine}, by the {done.clock} clock",
        ("model", "least time", "times as fast", ""),
        rows,
    )
    _say_decided(done.decided_before)


def _summarize(made: OptimizationReport) -> None:
    """The main facts on one line."""
    what, *counted = made.shown_counts
    counts = [sum(one.values()) for one in counted]
    sizes = [console.bytes_text(size) for size in (made.bytes_before, made.bytes_after)]
    parts = [
        f"{counts[0]:,} {what} became {counts[1]:,}",
        f"{sizes[0]} became {sizes[1]}",
        f"in {console.seconds_text(made.total_seconds)}",
    ]
    if made.measurement is not None:
        gain = made.measurement.gain
        parts.append("as fast as it was" if gain is None else str(gain))
    if made.kept is not None:
        parts.append(f"the model as it was: {made.kept}")
    if made.raised is not None:
        parts.append(str(made.raised))
    kept = None if made.precision is None else made.precision.kept
    if kept is not None and kept.gain is not None:
        parts.append(f"{kept.gain} in {kept.name} on {kept.engine}")
    console.print_line(", ".join(parts))


def convert(
    model: ModelPath,
    output: OutputPath,
    fix: FixedSizes = None,
    function: FunctionName = None,
    opset: Opset = None,
    ir_version: IrVersion = None,
    safetensors: Safetensors = False,
) -> None:
    """Write a model in another format, as it is."""
    from ..model import check_output, form_of, in_versions, open_model, sizes_of, staged, write_model

    form_of(output)
    sizes = parse_sizes(fix, "--fix")
    with console.shown_progress(output) as progress:
        progress("reading", 0, 2)
        opened = open_model(model, function=function, fixed=sizes)
        opened = in_versions(opened, opset, ir_version, output)
        check_output(output, opened.files)
        progress("writing", 1, 2)
        with staged(output) as path:
            write_model(opened.module, opened.name, path, safetensors=safetensors)
            written = sizes_of(path)
    console.print_written(output, written)


def grad(
    model: ModelPath,
    output: OutputPath,
    wrt: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Inputs or weights to differentiate by; by default all floating inputs."),
    ] = None,
    target: Annotated[int, typer.Option(min=0, help="Which output is differentiated; it has to be one number.")] = 0,
    function: FunctionName = None,
) -> None:
    """Write a model that gives its outputs and then the gradients of one of them."""
    from ..model import check_output, differentiated, form_of, open_model, sizes_of, staged, write_model

    form_of(output)
    with console.shown_progress(output) as progress:
        progress("reading", 0, 3)
        opened = open_model(model, function=function)
        check_output(output, opened.files)
        progress("differentiating", 1, 3)
        names = [name.strip() for name in wrt.split(",")] if wrt is not None else None
        result = differentiated(opened, names, target)
        progress("writing", 2, 3)
        with staged(output) as path:
            write_model(result, "main", path)
            sizes = sizes_of(path)
    console.print_written(output, sizes)

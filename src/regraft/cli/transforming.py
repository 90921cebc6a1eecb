"""The commands that write a model: optimize, convert, grad."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import console, options
from .reported import show, summarize

if TYPE_CHECKING:
    from ..model import OptimizationReport


def optimize(
    model: options.ModelPath,
    output: options.OutputPath,
    level: Annotated[str, typer.Option(help="0 canonical, 1 safe, 2 default, 3 aggressive.")] = "default",
    passes: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Passes to run in place of a level; `regraft passes` lists them."),
    ] = None,
    rules: options.RuleNames = None,
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
    threads: options.Threads = None,
    clock: options.ClockName = None,
    budget: Annotated[
        float,
        typer.Option(min=0.0, help="Seconds of wall time for measurements; only a trial that runs may go on after."),
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
    error_measure: Annotated[
        str,
        typer.Option(metavar="NAME", help="What --max-error limits: largest, or detections where boxes come out."),
    ] = "largest",
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
        typer.Option(metavar="SIZE", help="Memory that --precision may take, such as 8GB; by default the free memory."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Measure anew, and keep no decision.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write what was done, and left and why, as JSON.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write what was done as a page for a browser, step by step, with why not.")
    ] = None,
    fix: options.FixedSizes = None,
    dim: options.DimSizes = None,
    range: options.Ranges = None,  # noqa: A002 - the option's name
    input: Annotated[  # noqa: A002 - the option's name
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Samples to verify and measure on, instead of random inputs: .npz files by name, or a folder of them.",
        ),
    ] = None,
    seed: options.Seed = 0,
    function: options.FunctionName = None,
    pure: Annotated[
        list[str] | None,
        typer.Option(
            "--pure",
            metavar="DOMAIN[::NAME]",
            help="Undeclared operators of an ONNX model that have no effects; may be repeated.",
        ),
    ] = None,
    custom_ops: options.CustomOps = None,
    opset: options.Opset = None,
    ir_version: options.IrVersion = None,
    safetensors: options.Safetensors = False,
) -> None:
    """Optimize a model and write it to OUT. This is the main command."""
    sizes = options.parse_sizes(dim)
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
            error_measure=error_measure,
            calibrate=calibrate,
            target=target,
            memory=None if memory is None else parse_memory(memory),
            cache=False if no_cache else cache or True,
            report=reports,
            fix=options.parse_sizes(fix, "--fix"),
            dims=sizes,
            seed=seed,
            ranges=options.parse_ranges(range),
            inputs=input or None,
            tolerance=tolerance,
            function=function,
            pure=pure or (),
            opset=opset,
            ir_version=ir_version,
            safetensors=safetensors,
            progress=progress,
        )
    show(made[0])
    console.print_written(output, made[0].files)
    summarize(made[0])
    if html is not None:
        console.print_line(f"Wrote {html} ({console.bytes_text(html.stat().st_size)}), to be opened in a browser")


def convert(
    model: options.ModelPath,
    output: options.OutputPath,
    fix: options.FixedSizes = None,
    function: options.FunctionName = None,
    opset: options.Opset = None,
    ir_version: options.IrVersion = None,
    safetensors: options.Safetensors = False,
) -> None:
    """Write a model in another format, without optimizing it."""
    from ..model import check_output, form_of, in_versions, open_model, sizes_of, staged, write_model

    form_of(output)
    sizes = options.parse_sizes(fix, "--fix")
    with console.shown_progress(output) as progress:
        progress("reading", 0, 2)
        opened = open_model(model, function=function, fixed=sizes)
        opened = in_versions(opened, opset, ir_version, output)
        check_output(output, opened.files)
        progress("writing", 1, 2)
        with staged(output) as path:
            write_model(opened.module, opened.name, path, safetensors=safetensors, examples=opened.examples)
            written = sizes_of(path)
    console.print_written(output, written)


def grad(
    model: options.ModelPath,
    output: options.OutputPath,
    wrt: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Inputs or weights to differentiate by; by default all floating inputs."),
    ] = None,
    target: Annotated[int, typer.Option(min=0, help="Which output is differentiated; it has to be one number.")] = 0,
    function: options.FunctionName = None,
) -> None:
    """Write a model that returns its outputs, followed by the gradients of one of them."""
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

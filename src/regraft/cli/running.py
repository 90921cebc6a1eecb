"""The commands that run a model: run, bench."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import console
from .options import DimSizes, FunctionName, InputFiles, ModelPath, Seed, parse_sizes

if TYPE_CHECKING:
    import numpy as np

    from ..model import Model

_SHOWN = 8
"""Outputs of at most so many elements are shown whole."""


def add_to(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(run)
    app.command()(bench)


def run(
    model: ModelPath,
    input: InputFiles = None,  # noqa: A002 - the option's name
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT", help="Write the outputs: an .npz.")
    ] = None,
    engine: Annotated[str, typer.Option(help="What to run it on: onnxruntime, numpy or torch.")] = "onnxruntime",
    dim: DimSizes = None,
    seed: Seed = 0,
    function: FunctionName = None,
) -> None:
    """Run a model on inputs from files, or on random ones, and show what it gives."""
    sizes = parse_sizes(dim)
    import numpy as np

    from ..model import UsageError, check_output, open_model, output_names, staged
    from ..model.verification import run_program

    if output is not None and output.suffix != ".npz":
        raise UsageError(f"{output}: outputs are written to an .npz file")
    with console.shown_progress() as progress:
        progress("reading", 0, 2)
        opened = open_model(model, function=function)
        if output is not None:
            check_output(output, [*opened.files, *(input or ())])
        progress("running", 1, 2)
        _, results = _inputs_and_results(opened, input, run_program(opened.module, opened.name, engine), sizes, seed)
    names = output_names(opened.function)
    named = dict(zip(names, results, strict=True)) if len(names) == len(results) else _numbered(results)
    console.print_table(
        f"{model} on {engine}",
        ("output", "dtype", "shape", "values"),
        [(name, str(array.dtype), str(array.shape), _summary(array)) for name, array in named.items()],
    )
    if output is not None:
        with staged(output) as path, path.open("wb") as file:
            np.savez(file, **named)  # pyright: ignore[reportArgumentType]
        console.print_line(f"Wrote {output}")


def _numbered(results: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"output{index}": array for index, array in enumerate(results)}


def _inputs_and_results(
    opened: Model,
    files: Sequence[Path] | None,
    entry: Callable[[Sequence[Any]], list[np.ndarray]],
    sizes: dict[str, int],
    seed: int,
) -> tuple[list[Any], list[np.ndarray]]:
    from ..model.inputs import first_that_runs, read_inputs

    if files:
        inputs = read_inputs(opened.function, files)
        return inputs, entry(inputs)
    trial = first_that_runs(opened.function, entry, seed, sizes)
    return trial.inputs, trial.outputs


def _summary(array: np.ndarray) -> str:
    """Few values as they are; of many, where they lie."""
    import numpy as np

    if array.size <= _SHOWN:
        return np.array2string(array, precision=6, separator=", ").replace("\n", "")
    if array.dtype.kind in "biuc":
        return f"{array.reshape(-1)[0]}, {array.reshape(-1)[1]}, ... {array.reshape(-1)[-1]}"
    wide = array.astype(np.float64)
    return f"{wide.min():.6g} to {wide.max():.6g}, mean {wide.mean():.6g}"


def bench(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="One model, or several with the same inputs.")
    ],
    engines: Annotated[
        str, typer.Option(metavar="A,B,...", help="What to run on: onnxruntime, numpy, torch.")
    ] = "onnxruntime",
    repeat: Annotated[int, typer.Option(min=1, help="How many runs to time.")] = 10,
    input: InputFiles = None,  # noqa: A002 - the option's name
    threads: Annotated[int | None, typer.Option(min=1, help="Threads for ONNX Runtime; by default all cores.")] = None,
    dim: DimSizes = None,
    seed: Seed = 0,
) -> None:
    """Time models on engines: to build, the first run, and a run after that."""
    sizes = parse_sizes(dim)
    from ..model import open_model, time_engine
    from ..model.verification import run_program

    targets = [name.strip() for name in engines.split(",")]
    rows: list[tuple[str, ...]] = []
    inputs: list[Any] | None = None
    with console.shown_progress() as progress:
        for done, model in enumerate(models):
            opened = open_model(model)
            if inputs is None:
                progress("choosing inputs", 0, len(models) * len(targets))
                inputs, _ = _inputs_and_results(
                    opened, input, run_program(opened.module, opened.name, targets[0]), sizes, seed
                )
            for index, target in enumerate(targets):
                progress(f"{model} on {target}", done * len(targets) + index, len(models) * len(targets))
                options = {"threads": threads} if target == "onnxruntime" else {}
                time = time_engine(opened.module, opened.name, inputs, target, repeat=repeat, **options)
                shown = (time.build, time.first, time.median, time.fastest)
                rows.append((str(model), target, *map(console.seconds_text, shown)))
    console.print_table(
        f"Times, of {repeat} runs", ("model", "engine", "build", "first run", "median", "fastest"), rows, numbers=4
    )

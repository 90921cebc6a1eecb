"""The commands that run a model: run, bench, generate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from . import console, options
from .sharding import MeshSizes, ShardRules, laid

if TYPE_CHECKING:
    import numpy as np

    from ..model import Model
    from ..model.decoding import Generated
    from ..model.samples import TriedOn
    from ..model.timing import Gain, Turns

_LONGEST = 12
"""The number of operators shown of a profile."""
_SHOWN = 8
"""The largest number of elements of an output that is shown whole."""


def run(
    model: options.ModelPath,
    input: options.InputFiles = None,  # noqa: A002 - the option's name
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="OUT", help="Write the outputs: an .npz.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="What to run it on: onnxruntime, openvino, torch, xla or numpy.")
    ] = "onnxruntime",
    mesh: MeshSizes = None,
    shard: ShardRules = None,
    dim: options.DimSizes = None,
    range: options.Ranges = None,  # noqa: A002 - the option's name
    seed: options.Seed = 0,
    function: options.FunctionName = None,
    custom_ops: options.CustomOps = None,
) -> None:
    """Run a model on inputs from files or on random inputs, and show its outputs."""
    sizes = options.parse_sizes(dim)
    import numpy as np

    from ..model import UsageError, check_output, open_model, output_names, staged
    from ..model.samples import TriedOn
    from ..model.verification import run_model
    from ..run import custom_operators

    if output is not None and output.suffix != ".npz":
        raise UsageError(f"{output}: outputs are written to an .npz file")
    with console.shown_progress() as progress, custom_operators(custom_ops or ()):
        progress("reading", 0, 2)
        opened = open_model(model, function=function)
        if output is not None:
            check_output(output, [*opened.files, *(input or ())])
        module, settings, plan = laid(opened.module, opened.name, mesh, shard)
        progress("running", 1, 2)
        entry = run_model(replace(opened, module=module), engine, **settings)
        _, results = _inputs_and_results(opened, input, entry, TriedOn(seed, sizes, options.parse_ranges(range)))
    named = dict(zip(output_names(opened.function, len(results)), results, strict=True))
    console.print_table(
        f"{model} on {engine}",
        ("output", "dtype", "shape", "values"),
        [(name, str(array.dtype), str(array.shape), _summary(array)) for name, array in named.items()],
    )
    for reason in plan.reasons:
        console.print_line(f"Left whole: {reason}")
    if output is not None:
        with staged(output) as path, path.open("wb") as file:
            np.savez(file, **named)  # pyright: ignore[reportArgumentType]
        console.print_line(f"Wrote {output}")


def _inputs_and_results(
    opened: Model,
    files: Sequence[Path] | None,
    entry: Callable[[Sequence[Any]], list[np.ndarray]],
    tried_on: TriedOn,
) -> tuple[list[Any], list[np.ndarray]]:
    from ..model.inputs import read_inputs

    if files:
        inputs = read_inputs(opened.function, files)
        return inputs, entry(inputs)
    [trial] = tried_on.trials(opened.function, entry)
    return trial.inputs, trial.outputs


def _summary(array: np.ndarray) -> str:
    """A short text for an array: all values if they are few, else a few of them or their range and mean."""
    import numpy as np

    if array.size <= _SHOWN:
        return np.array2string(array, precision=6, separator=", ").replace("\n", "")
    if array.dtype.kind in "biuc":
        return f"{array.reshape(-1)[0]}, {array.reshape(-1)[1]}, ... {array.reshape(-1)[-1]}"
    wide = array.astype(np.float64)
    return f"{wide.min():.6g} to {wide.max():.6g}, mean {wide.mean():.6g}"


class Timed(NamedTuple):
    """One model on one engine; times in seconds, ``gain`` over the first one."""

    model: str
    engine: str
    build: float
    first: float
    turns: Turns
    gain: Gain | None

    def row(self) -> tuple[str, ...]:
        """The row of the table."""
        shown = map(console.seconds_text, (self.build, self.first, self.turns.median, self.turns.least))
        ratio = "" if self.gain is None else str(self.gain).removesuffix(" times as fast")
        return (self.model, self.engine, *shown, ratio)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "model": self.model,
            "engine": self.engine,
            "build": self.build,
            "first": self.first,
            "median": self.turns.median,
            "least": self.turns.least,
            "times_as_fast": None if self.gain is None else self.gain.ratio,
            "noise": None if self.gain is None else self.gain.noise,
        }


def bench(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="One model, or several with the same inputs.")
    ],
    engines: Annotated[
        str,
        typer.Option(
            metavar="A,B,...", help="What to run on: onnxruntime, openvino, openvino:bfloat16, torch, xla, numpy."
        ),
    ] = "onnxruntime",
    repeat: Annotated[int, typer.Option(min=1, help="How many times each takes its turn.")] = 10,
    input: options.InputFiles = None,  # noqa: A002 - the option's name
    threads: options.Threads = None,
    clock: options.ClockName = None,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the time of each operator as JSON, for `regraft view --profile`."),
    ] = None,
    dim: options.DimSizes = None,
    range: options.Ranges = None,  # noqa: A002 - the option's name
    seed: options.Seed = 0,
    custom_ops: options.CustomOps = None,
    as_json: options.AsJson = False,
) -> None:
    """Time models on engines, in turns: the build, the first run, later runs, and the speed relative to the first."""
    sizes = options.parse_sizes(dim)
    from ..model import Prepared, UsageError, gain, open_model, prepared, time_in_turns
    from ..model.samples import TriedOn
    from ..model.timing import clock_for
    from ..model.verification import run_model
    from ..run import custom_operators
    from ..run.torch_threads import torch_threads

    chosen_clock = clock_for(threads, clock)
    tried_on = TriedOn(seed, sizes, options.parse_ranges(range))
    targets = [name.strip().partition(":") for name in engines.split(",")]
    if profile is not None and (len(models) > 1 or len(targets) > 1):
        raise UsageError("--profile is of one model on one engine")
    made: list[tuple[str, str, Prepared]] = []
    inputs: list[Any] | None = None
    count = len(models) * len(targets)
    on_torch = torch_threads(threads if any(target == "torch" for target, _, _ in targets) else None)
    with console.shown_progress() as progress, custom_operators(custom_ops or ()), on_torch:
        for model in models:
            opened = open_model(model)
            if inputs is None:
                progress("choosing inputs", 0, count + 1)
                run_first = run_model(opened, targets[0][0])
                inputs, _ = _inputs_and_results(opened, input, run_first, tried_on)
            for target, colon, precision in targets:
                progress(f"{model} on {target}", len(made), count + 1)
                settings: dict[str, Any] = {"threads": threads} if target in ("onnxruntime", "openvino") else {}
                settings |= {"precision": precision} if colon else {}
                ready = prepared(partial(run_model, opened, target, **settings), inputs)
                made.append((str(model), f"{target}{colon}{precision}", ready))
        progress("taking turns", count, count + 1)
        turns = time_in_turns([ready.run for _, _, ready in made], clock=chosen_clock, rounds=repeat)
    timed = [
        Timed(model_name, target, ready.build, ready.first, own, None if own is turns[0] else gain(turns[0], own))
        for (model_name, target, ready), own in zip(made, turns, strict=True)
    ]
    if as_json:
        content = {"turns": repeat, "clock": chosen_clock, "times": [one.to_dict() for one in timed]}
        console.print_json(content)
    else:
        console.print_table(
            f"Times, of {repeat} turns, by the {chosen_clock} clock",
            ("model", "engine", "build", "first run", "median", "fastest", "times as fast"),
            [one.row() for one in timed],
            numbers=5,
        )
    if profile is not None:
        assert inputs is not None
        settings = {"threads": threads} if targets[0][0] == "onnxruntime" else {}
        _write_profile(profile, models[0], inputs, targets[0][0], repeat, settings)


def _write_profile(
    path: Path, model: Path, inputs: Sequence[Any], target: str, runs: int, settings: dict[str, Any]
) -> None:
    import json

    from ..model import check_output, open_model, write_text
    from ..run.profiling import operator_times

    opened = open_model(model)
    check_output(path, opened.files)
    found = operator_times(opened.module, opened.name, inputs, target, runs=runs, **settings)
    times = sorted(found, key=lambda one: one.seconds, reverse=True)
    total = sum(one.seconds for one in times)
    rows = [{"binding": one.binding, "op": one.op, "seconds": one.seconds} for one in times]
    content = {"model": model.name, "engine": target, "runs": runs, "profile": rows}
    write_text(path, json.dumps(content, indent=1) + "\n")
    console.print_table(
        f"The longest of {len(times)} operators on {target}",
        ("binding", "operator", "time", "share"),
        [
            (one.binding, one.op, console.seconds_text(one.seconds), f"{one.seconds / total:.1%}")
            for one in times[:_LONGEST]
        ],
        numbers=2,
    )
    console.print_line(f"Wrote {path}")


def generate(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A folder of transformers, or a file of a decoder with its cache."),
    ],
    prompt_ids: Annotated[
        list[str],
        typer.Option(metavar="ID,ID,...", help="The tokens to go on from, as numbers; once for each of several texts."),
    ],
    tokens: Annotated[int, typer.Option(min=1, help="How many tokens to choose.")] = 32,
    precision: Annotated[
        str, typer.Option(help="What weights are stored in: float32, int8-weights or int4-weights.")
    ] = "float32",
    compare: Annotated[
        bool, typer.Option("--compare", help="Say how many choices are those of the model in float32.")
    ] = False,
    threads: options.Threads = None,
) -> None:
    """Choose tokens after a prompt, one by one, with a decoder in its fast form on ONNX Runtime."""
    from ..model.decoding import generate_texts

    prompts = [_ids(text) for text in prompt_ids]
    with console.shown_progress() as progress:
        texts, others, decoder = generate_texts(
            model, prompts, tokens, precision=precision, compare=compare, threads=threads, progress=progress
        )
    for text in texts:
        console.print_line(",".join(map(str, text.tokens)))
    found, each = texts[0], "" if len(texts) == 1 else f" for each of {len(texts)} texts"
    length = max(map(len, prompts))
    speed = f"{found.tokens_per_second:.1f} tokens a second{each} after a prompt of {length}"
    console.print_line(f"{speed}, which took {console.seconds_text(found.prompt_seconds)}")
    if decoder.half is not None:
        console.print_line(f"The model is in {decoder.half}, and was run in float32")
    if decoder.copies is not None:
        console.print_line(f"The cache is copied in each step: {decoder.copies}")
    if others is not None:
        same = sum(sum(map(eq, *pair)) for pair in zip(_tokens(texts), _tokens(others), strict=True))
        share = f"{same} of {tokens * len(texts)} choices are those of float32 after the same text"
        console.print_line(f"{share}, which makes {others[0].tokens_per_second:.1f} tokens a second{each}")


def _tokens(texts: Sequence[Generated]) -> list[tuple[int, ...]]:
    return [text.tokens for text in texts]


def _ids(text: str) -> list[int]:
    from ..model import UsageError

    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise UsageError(f"--prompt-ids {text!r} are no ids; give whole numbers with commas between, such as 1,15,7")
    return found

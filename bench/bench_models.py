"""Passes on real models: their time, compared with TVM's on the same graph, and the gain of models from each.

The graph of the UNet goes to TVM as the text that regraft prints, which TVM parses. Counts are in docs/models.md.
Takes some four minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import torch

import regraft as rx
from bench import full_width
from bench.model_counts import attentions, groups, matmuls
from bench.models import Model, bert, parallel_heads, stable_diffusion_15, vit
from bench.table import Table
from bench.timing import least_in_turns, seconds
from regraft.ir import BlockBuilder, IRModule, TensorType, Var
from regraft.passes.pipeline import pipeline
from regraft.transform import (
    CanonicalizeBindings,
    CombineParallelMatmul,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FuseAttention,
    Pass,
    RemoveRedundantReshape,
    ReorderPermuteDimsAfterConcat,
    SimplifyTransposes,
)

PASSES: Final[dict[str, Callable[[], Pass]]] = {
    "CanonicalizeBindings": CanonicalizeBindings,
    "EliminateCommonSubexpr": EliminateCommonSubexpr,
    "CombineParallelMatmul": CombineParallelMatmul,
    "ReorderPermuteDimsAfterConcat": ReorderPermuteDimsAfterConcat,
    "FuseAttention": FuseAttention,
    "SimplifyTransposes": SimplifyTransposes,
    "RemoveRedundantReshape": RemoveRedundantReshape,
    "DeadCodeElimination": DeadCodeElimination,
}
"""The passes in the order in which they run, each on the result of the one before."""


def _bindings(program: IRModule) -> int:
    return sum(len(block) for block in program["main"].body.blocks)


def _peer_passes() -> Mapping[str, Any]:
    """TVM's passes of the same names; empty if TVM is not installed."""
    try:
        from tvm import relax
    except ImportError:
        return {}
    return {name: getattr(relax.transform, name)() for name in PASSES if hasattr(relax.transform, name)}


def _in_tvm(program: IRModule) -> Any:
    """The program as TVM reads it from its text, without the attributes, which TVM's parser does not know."""
    import tvm

    return tvm.script.from_source(
        "\n".join(line for line in program.script().splitlines() if "R.func_attr" not in line)
    )


def times() -> Table:
    """The time of each pass on the UNet of Stable Diffusion 1.5."""
    program = full_width.program("Stable Diffusion 1.5 UNet")
    bindings = _bindings(program)
    peers = _peer_passes()
    other = _in_tvm(program) if peers else None
    rows: list[tuple[str | int | float, ...]] = []
    for name, build in PASSES.items():
        one = build()
        ours = seconds(lambda one=one, program=program: one(program), 5)
        theirs: str | float = "–"
        if name in peers:
            theirs = seconds(lambda peer=peers[name], other=other: peer(other), 3)
            other = peers[name](other)
        rows.append((name, ours, theirs))
        program = one(program)
    return Table(
        "Time of passes on the UNet of Stable Diffusion 1.5",
        ("pass", "regraft (s)", "TVM 0.27 (s)"),
        tuple(rows),
        f"CPU seconds, median. {bindings:,} bindings, full depth and width. Both start from the same graph, and "
        "each pass runs on what its own library gave before.",
    )


def transformer(layers: int) -> IRModule:
    """``layers`` layers with written-out attention, whose queries, keys and values are separate matmuls."""
    hidden = Var("x", TensorType((2, 8, 16), "float32"))
    names = [(f"{kind}{layer}", layer) for layer in range(layers) for kind in ("q", "k", "v")]
    weights = {name: Var(name, TensorType((16, 16), "float32")) for name, _ in names}
    builder = BlockBuilder()
    ops = rx.op
    with builder.function("main", [hidden, *weights.values()]):
        with builder.dataflow():
            value: Any = hidden
            for layer in range(layers):
                q, k, v = (
                    builder.emit(ops.matmul(value, builder.emit(ops.permute_dims(weights[f"{kind}{layer}"]))))
                    for kind in ("q", "k", "v")
                )
                heads = [
                    builder.emit(ops.permute_dims(builder.emit(ops.reshape(x, (2, 8, 4, 4))), [0, 2, 1, 3]))
                    for x in (q, k, v)
                ]
                keys = builder.emit(ops.permute_dims(heads[1], [0, 1, 3, 2]))
                scores = builder.emit(ops.multiply(builder.emit(ops.matmul(heads[0], keys)), rx.const(0.5, "float32")))
                mixed = builder.emit(ops.matmul(builder.emit(ops.nn.softmax(scores)), heads[2]))
                back = builder.emit(ops.reshape(builder.emit(ops.permute_dims(mixed, [0, 2, 1, 3])), (2, 8, 16)))
                value = builder.emit(ops.add(value, back))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.finalize()


def growth() -> Table:
    """The time of the passes on growing numbers of layers."""
    chain = ("CombineParallelMatmul", "ReorderPermuteDimsAfterConcat", "FuseAttention")
    rows: list[tuple[str | int | float, ...]] = []
    for layers in (10, 100, 1000):
        program = transformer(layers)
        row: list[str | int | float] = [f"{layers:,}", _bindings(program)]
        for name in chain:
            one = PASSES[name]()
            row.append(seconds(lambda one=one, program=program: one(program), 3) * 1e6 / layers)
            program = one(program)
        rows.append(tuple(row))
    return Table(
        "Time of passes on a transformer, per layer",
        ("layers", "bindings", *(f"{name} (µs)" for name in chain)),
        tuple(rows),
        "CPU microseconds per layer, which stay the same where the cost is linear.",
    )


# --- the gain of models


class Subject(NamedTuple):
    """A model to run, and the reason for its gain from passes, from the profiles of the engines."""

    build: Callable[[], Model]
    why: str


RUN_MODELS: Final[dict[str, Subject]] = {
    "UNet (SD 1.5, width 128 to 512)": Subject(
        lambda: stable_diffusion_15(scale=4),
        "Convolutions take half of the time, linear layers less than a third, and most of those are large enough that "
        "one product takes as long as several. Attention is one operator as exported.",
    ),
    "BERT, width 384, 64 tokens": Subject(
        lambda: bert("eager", width=384, tokens=64),
        "Three quarters of the time are products that take what their arithmetic takes, however they are cut. "
        "Attention in one operator saves passes over its scores.",
    ),
    "ViT, width 384": Subject(lambda: vit("eager", width=384), "As with BERT of this width."),
    "BERT, width 48, 12 heads": Subject(
        lambda: bert("eager"), "Calls take more time than their arithmetic, so fewer calls are less time."
    ),
    "MLP, 32 heads, batch 1": Subject(
        parallel_heads,
        "Calls are all there is. On ONNX Runtime most of a run is handing over 32 outputs, which stay. Until "
        "`FoldConstant` has run, combined weights are joined in every call.",
    ),
}
ENGINES: Final[dict[str, dict[str, Any]]] = {"onnxruntime": {"threads": 1}, "torch": {}}
ROUNDS: Final = 12


class Stage(NamedTuple):
    """A program and the pass that returned it; ``program`` is None if the pass changed nothing."""

    name: str
    program: IRModule | None


def stages(program: IRModule) -> list[Stage]:
    """The program as exported, after each pass of the default level, and after all passes with every group combined."""
    default, highest = pipeline("default"), CombineParallelMatmul()
    found = [Stage("as exported", program)]
    combined = program
    for number, one in enumerate(default, 1):
        result = one(program)
        found.append(Stage(f"{number}. {one.name}", None if result is program else result))
        program = result
        combined = (highest if one.name == highest.name else one)(combined)
    return [*found, Stage("all, every group combined", combined)]


def _described(program: IRModule) -> str:
    split = groups(program).total()
    return f"{matmuls(program)} matmuls, {split} of them split, {attentions(program)} attentions"


def _eager(model: Model) -> float:
    """The seconds that the original model takes in PyTorch."""

    def step() -> None:
        with torch.inference_mode():
            model.module(*model.args, **model.kwargs)

    return least_in_turns([step], ROUNDS)[0]


def run_times(name: str, model: Model, why: str) -> Table:
    """The run time of one model on each engine, after each pass."""
    made = stages(model.program())
    kept = {stage.name: stage.program for stage in made if stage.program is not None}
    inputs = {"onnxruntime": model.inputs(), "torch": [torch.from_numpy(array) for array in model.inputs()]}
    times: dict[str, list[float]] = {}
    for target, options in ENGINES.items():
        ready = [rx.build(program, target=target, **options)["main"] for program in kept.values()]
        given = inputs[target]
        times[target] = least_in_turns([lambda run=run, given=given: run(*given) for run in ready], ROUNDS)
    rows: list[tuple[str | int | float, ...]] = [("nothing", "the model itself, in PyTorch", "", _eager(model) * 1e3)]
    for stage in made:
        if stage.program is None:
            rows.append((stage.name, "nothing to do", *("" for _ in ENGINES)))
        else:
            place = list(kept).index(stage.name)
            found = [times[target][place] * 1e3 for target in ENGINES]
            rows.append((stage.name, _described(stage.program), *found))
    note = (
        f"CPU milliseconds of one run on one thread: the least of {ROUNDS} rounds, in which the programs take turns. "
    )
    return Table(name, ("after", "program", *(f"{target} (ms)" for target in ENGINES)), tuple(rows), note + why)


def run() -> list[Table]:
    """All tables."""
    torch.set_num_threads(1)
    tables = [times(), growth()]
    for name, subject in RUN_MODELS.items():
        torch.manual_seed(0)
        model = subject.build()
        model.module.eval()
        tables.append(run_times(f"Run time: {name}", model, subject.why))
    return tables

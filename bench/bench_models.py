"""Passes on real models: how long they take, beside TVM's on the same graph, and what models gain from them.

The graph of the UNet goes to TVM as the text that regraft prints, which TVM parses. Counts are in docs/models.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import process_time
from typing import Any, Final

import torch

import regraft as rx
from bench.model_counts import PREPARE, attentions, matmuls
from bench.models import Model, bert, make, parallel_heads, stable_diffusion_15, vit
from bench.table import Table
from bench.timing import seconds
from regraft.ir import BlockBuilder, IRModule, TensorType, Var
from regraft.transform import (
    CanonicalizeBindings,
    CombineParallelMatmul,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FoldConstant,
    FuseAttention,
    Pass,
    RemoveRedundantReshape,
    ReorderPermuteDimsAfterConcat,
    Sequential,
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
"""In the order in which they run, each on what the one before gave."""


def _bindings(program: IRModule) -> int:
    return sum(len(block) for block in program["main"].body.blocks)


def _peer_passes() -> Mapping[str, Any]:
    """TVM's passes of the same names; none where TVM is not installed."""
    try:
        from tvm import relax
    except ImportError:
        return {}
    return {name: getattr(relax.transform, name)() for name in PASSES if hasattr(relax.transform, name)}


def _in_tvm(program: IRModule) -> Any:
    """``program`` as TVM reads its text, without the attributes, which TVM's parser does not know."""
    import tvm

    return tvm.script.from_source(
        "\n".join(line for line in program.script().splitlines() if "R.func_attr" not in line)
    )


def times() -> Table:
    """The time of each pass on the UNet of Stable Diffusion 1.5."""
    program = make("Stable Diffusion 1.5 UNet").program(weights=True)
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
        f"CPU seconds, median. {bindings:,} bindings, full depth. Both start from the same graph, and "
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
    """The time of the passes on more and more layers."""
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


STAGES: Final[dict[str, Callable[[], Pass]]] = {
    "combined": lambda: Sequential(
        [CombineParallelMatmul(), ReorderPermuteDimsAfterConcat(), FoldConstant(), DeadCodeElimination()]
    ),
    "attention fused": lambda: Sequential([FuseAttention(), DeadCodeElimination()]),
}
"""Each on what the one before gave; weights are constants, so that joined ones are folded."""


def _run_models() -> dict[str, Callable[[], Model]]:
    return {
        "UNet (SD 1.5, width 128 to 512)": lambda: stable_diffusion_15(scale=4),
        "BERT, width 384, 64 tokens": lambda: bert("eager", width=384, tokens=64),
        "ViT, width 384": lambda: vit("eager", width=384),
        "BERT, width 48, 12 heads": lambda: bert("eager"),
        "MLP, 32 heads, batch 1": parallel_heads,
    }


def run_times(target: str, **options: Any) -> Table:
    """Run time of models on one engine: as exported, and after each stage."""
    rows: list[tuple[str | int | float, ...]] = []
    for name, build in _run_models().items():
        torch.manual_seed(0)
        model = build()
        model.module.eval()
        stages = [Sequential([PREPARE, FoldConstant()])(model.program())]
        for stage in STAGES.values():
            stages.append(stage()(stages[-1]))
        counts = [f"{matmuls(program)}, {attentions(program)}" for program in (stages[0], stages[-1])]
        rows.append((name, *counts, *_milliseconds(stages, model.inputs(), target, options)))
    return Table(
        f"Run time on {target}",
        ("model", "matmuls, attentions", "after", "as exported (ms)", *(f"{stage} (ms)" for stage in STAGES)),
        tuple(rows),
        f"CPU milliseconds of one run on one thread: the least of {ROUNDS} rounds, in which the programs take turns. "
        "Attention is written out as exported, but in the UNet.",
    )


ROUNDS: Final = 12


def _milliseconds(
    programs: Sequence[IRModule], inputs: list[Any], target: str, options: Mapping[str, Any]
) -> list[float]:
    """The time of a run of each program; they take turns, so that what slows the machine down slows all."""
    ready = [rx.build(program, target=target, **options)["main"] for program in programs]
    repeats: list[int] = []
    for function in ready:
        function(*inputs)
        once = seconds(lambda function=function: function(*inputs), 5)
        repeats.append(max(1, min(400, int(0.05 / max(once, 1e-5)))))
    least = [float("inf")] * len(ready)
    for _ in range(ROUNDS):
        for index, (function, count) in enumerate(zip(ready, repeats, strict=True)):
            start = process_time()
            for _ in range(count):
                function(*inputs)
            least[index] = min(least[index], (process_time() - start) * 1e3 / count)
    return least


def run() -> list[Table]:
    """All tables."""
    torch.set_num_threads(1)
    return [times(), growth(), run_times("onnxruntime", threads=1), run_times("torch")]

"""The cost of passes on transformers of growing depth, which must stay the same per binding; compared with TVM's.

One layer is a Llama-style block as converters write it: weights transposed before each product, three projections with
biases, attention written out, and a gated feed-forward part. If TVM is installed, it runs its own
`CombineParallelMatmul` and `ReorderPermuteDimsAfterConcat` on the same program, which it reads from our script.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.table import Table
from bench.timing import seconds, seconds_on
from regraft import BlockBuilder, Expr, IRModule, TensorType, Var, transform
from regraft.script import relax as R

LAYERS = (30, 100, 300, 1_000)
TVM_LAYERS = (10, 30, 100)
"""The depths for TVM, whose combining takes minutes on deeper programs: its cost grows with the square of the depth."""
RUNS = 3
MOST_GROWTH = 2.0
"""The limit for the cost of a binding in the deepest program, relative to 100 layers, with room for a busy machine."""

WIDTH, HEADS, LENGTH, BATCH = 64, 4, 16, 2

STEPS: tuple[tuple[str, Callable[[], transform.Pass]], ...] = (
    ("CanonicalizeBindings", transform.CanonicalizeBindings),
    ("CombineParallelMatmul", transform.CombineParallelMatmul),
    ("ReorderPermuteDimsAfterConcat", transform.ReorderPermuteDimsAfterConcat),
    ("EliminateCommonSubexpr", transform.EliminateCommonSubexpr),
    ("RemoveRedundantReshape", transform.RemoveRedundantReshape),
    ("SimplifyTransposes", transform.SimplifyTransposes),
    ("ExpandMatmulOfSum", transform.ExpandMatmulOfSum),
    ("AdjustMatmulOrder", transform.AdjustMatmulOrder),
    ("ReorderTakeAfterMatmul", transform.ReorderTakeAfterMatmul),
    ("FoldConstant", transform.FoldConstant),
    ("LiftTransformParams", transform.LiftTransformParams),
    ("ToMixedPrecision", transform.ToMixedPrecision),
    ("TopologicalSort", transform.TopologicalSort),
    ("DeadCodeElimination", transform.DeadCodeElimination),
)
"""The steps; each runs on the result of the ones before it."""


class _Writer:
    """Writes layers into a module, with a parameter for each weight."""

    def __init__(self) -> None:
        self.builder = BlockBuilder()
        self.params: list[Var] = []

    def parameter(self, name: str, *shape: int) -> Var:
        self.params.append(Var(name, TensorType(shape, "float32")))
        return self.params[-1]

    def linear(self, x: Expr, name: str, width: int, *, bias: bool = False) -> Var:
        assert isinstance(x.ty, TensorType)
        assert x.ty.shape is not None
        weight = self.parameter(f"w_{name}", width, int(x.ty.shape[-1]))  # type: ignore[arg-type]
        y = self.builder.emit(R.matmul(x, self.builder.emit(R.permute_dims(weight))))
        return self.builder.emit(R.add(y, self.parameter(f"b_{name}", width))) if bias else y

    def attention(self, x: Expr, layer: int) -> Var:
        emit = self.builder.emit
        split = (BATCH, LENGTH, HEADS, WIDTH // HEADS)
        heads = [
            emit(R.permute_dims(emit(R.reshape(self.linear(x, f"{n}{layer}", WIDTH, bias=True), split)), [0, 2, 1, 3]))
            for n in "qkv"
        ]
        scores = emit(R.matmul(heads[0], emit(R.permute_dims(heads[1], [0, 1, 3, 2]))))
        shares = emit(R.nn.softmax(emit(R.multiply(scores, R.const((WIDTH // HEADS) ** -0.5, "float32")))))
        mixed = emit(R.permute_dims(emit(R.matmul(shares, heads[2])), [0, 2, 1, 3]))
        return self.linear(emit(R.reshape(mixed, (BATCH, LENGTH, WIDTH))), f"o{layer}", WIDTH)

    def feed_forward(self, x: Expr, layer: int) -> Var:
        emit = self.builder.emit
        gate, up = (self.linear(x, f"{n}{layer}", 2 * WIDTH) for n in ("gate", "up"))
        return self.linear(emit(R.multiply(emit(R.nn.silu(gate)), up)), f"down{layer}", WIDTH)


def transformer(layers: int) -> IRModule:
    """A transformer with ``layers`` layers; its first parameter is the input, the others are weights."""
    write = _Writer()
    value: Expr = write.parameter("x", BATCH, LENGTH, WIDTH)
    with write.builder.function("main", attrs={"num_input": 1}):
        with write.builder.dataflow():
            for layer in range(layers):
                value = write.builder.emit(R.add(value, write.attention(value, layer)))
                value = write.builder.emit(R.add(value, write.feed_forward(value, layer)))
            result = write.builder.emit_output(R.negative(value))
        write.builder.emit_func_output(result, write.params)
    return write.builder.get()


def _depth_table() -> Table:
    rows: list[tuple[str | int | float, ...]] = []
    missed: list[str] = []
    programs = [transformer(layers) for layers in LAYERS]
    sizes = [len(program["main"].body.blocks[0]) for program in programs]
    for name, make in STEPS:
        one, per_binding = make(), list[float]()
        for index, size in enumerate(sizes):
            program = programs[index]
            results: list[IRModule] = []

            def step(one: transform.Pass = one, program: IRModule = program, kept: list[IRModule] = results) -> None:
                kept[:] = [one(program)]

            per_binding.append(seconds(step, RUNS) / size * 1e6)
            programs[index] = results[0]
        rows.append((name, *per_binding, per_binding[-1] * sizes[-1] / 1e6))
        if per_binding[-1] > MOST_GROWTH * per_binding[1]:
            missed.append(f"{name}: {per_binding[-1]:.1f} µs instead of {per_binding[1]:.1f}")
    table = Table(
        "Time of each pass by depth",
        ("pass", *(f"{n} layers, µs per binding" for n in LAYERS), "s in all at the deepest"),
        tuple(rows),
        f"The programs have {', '.join(f'{size:,}' for size in sizes)} bindings before the first pass; each pass runs "
        "on what those above it made. A flat row is linear time.",
    )
    if missed:
        raise AssertionError(
            f"passes cost more per binding in deep programs: {'; '.join(missed)}\n\n{table.markdown()}"
        )
    return table


def _products(program: IRModule) -> int:
    return transform.op_counts(program)["relax.matmul"]


def _peer_table() -> Table | None:
    try:
        import tvm.relax as peer
        from tvm.script import from_source
    except ImportError:
        return None
    rows: list[tuple[str | int | float, ...]] = []
    for layers in TVM_LAYERS:
        ours = transformer(layers)
        theirs = from_source(ours.script().replace("regraft.script", "tvm.script"))
        for name in ("CombineParallelMatmul", "ReorderPermuteDimsAfterConcat"):
            mine, other = getattr(transform, name)(), getattr(peer.transform, name)()
            taken = [
                seconds_on(mine, lambda ours=ours: ours, RUNS) * 1e3,
                seconds_on(other, lambda theirs=theirs: theirs, 1) * 1e3,
            ]
            ours, theirs = mine(ours), other(theirs)
            left = sum(line.count("R.matmul(") for line in theirs.script().splitlines())
            rows.append((f"{name}, {layers} layers", *taken, taken[1] / taken[0], _products(ours), left))
    return Table(
        "Beside TVM on the same programs",
        ("pass", "regraft ms", "TVM ms", "times faster", "matmuls left", "matmuls left by TVM"),
        tuple(rows),
    )


def run() -> list[Table]:
    """The tables; raises if a pass costs too much more per binding in deep programs."""
    tables: list[Any] = [_depth_table(), _peer_table()]
    return [table for table in tables if table is not None]

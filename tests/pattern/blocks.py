"""Small blocks to match contexts in, and short ways to ask for what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regraft import op
from regraft.dpl import *
from regraft.dpl import DFPattern
from regraft.ir import BlockBuilder, DataflowBlock, Expr, TensorType, Tuple, Var
from regraft.ir.dims import Dim


def tensor(name: str, *shape: Dim) -> Var:
    return Var(name, TensorType(shape or (2, 3), "float32"))


def block_of(params: Sequence[Var], write: Callable[[BlockBuilder], Sequence[Expr]]) -> DataflowBlock:
    """The one block of a function that returns what ``write`` gives."""
    builder = BlockBuilder()
    with builder.function("main", list(params)):
        with builder.dataflow():
            outputs = [builder.emit_output(value) for value in write(builder)]
        builder.emit_func_output(Tuple(outputs))
    block = builder.get()["main"].body.blocks[0]
    assert isinstance(block, DataflowBlock)
    return block


def named(match: dict[DFPattern, Expr] | None, *patterns: DFPattern) -> list[str]:
    """The names of the variables that ``patterns`` stand for."""
    assert match is not None
    return [match[pattern].name_hint for pattern in patterns]  # type: ignore[attr-defined]


def exp_used_by_sin_and_cos() -> DataflowBlock:
    x = tensor("x")

    def write(b: BlockBuilder) -> list[Expr]:
        e = b.emit(op.exp(x), "e")
        s = b.emit(op.sin(e), "s")
        return [b.emit(op.cos(e), "c"), s]

    return block_of([x], write)


def chain() -> DataflowBlock:
    """``e = exp(x); s = sin(e); c = cos(s)``, of which only the last is an output."""
    x = tensor("x")
    return block_of([x], lambda b: [op.cos(b.emit(op.sin(b.emit(op.exp(x), "e")), "s"))])


def calls(*names: str) -> list[DFPattern]:
    return [is_op(f"relax.{name}")(varg_default_wildcard=True) for name in names]


def parallel_matmuls(count: int, *others: Var) -> DataflowBlock:
    x = tensor("x", 2, 3)
    weights = [tensor(f"w{i}", 3, 4) for i in range(count)]
    return block_of(
        [x, *weights, *others],
        lambda b: [
            *(b.emit(op.matmul(other, weights[0])) for other in others),
            *(b.emit(op.matmul(x, w), f"y{i}") for i, w in enumerate(weights)),
        ],
    )

"""Small programs that the tests of the engines share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from regraft import engine, op
from regraft.ir import BlockBuilder, IRModule, SymVar, TensorType, Type, Var

build = partial(engine.build, target="numpy")
"""`regraft.build` for the engine that these tests are of, the reference."""


def tensor(name: str, shape: Sequence[Any] | None, dtype: str | None = "float32", ndim: int = -1) -> Var:
    return Var(name, TensorType(shape, dtype, ndim))


def program(params: Sequence[Var], write: Callable[..., Any], *, dataflow: bool = True, name: str = "main") -> IRModule:
    """A module of one function: ``write(builder, *params)`` emits its body and gives its result."""
    builder = BlockBuilder()
    add_function(builder, name, params, write, dataflow=dataflow)
    return builder.get()


def add_function(
    builder: BlockBuilder,
    name: str,
    params: Sequence[Var],
    write: Callable[..., Any],
    *,
    dataflow: bool = True,
    pure: bool = True,
) -> None:
    with builder.function(name, list(params), pure=pure):
        if dataflow:
            with builder.dataflow():
                result = builder.emit_output(write(builder, *params))
        else:
            result = write(builder, *params)
        builder.emit_func_output(result)


def of_type(name: str, ty: Type) -> Var:
    return Var(name, ty)


def mlp() -> IRModule:
    """A layer with an activation over a batch of any size."""
    n = SymVar("n")
    x, w, b = tensor("x", (n, 8)), tensor("w", (8, 4)), tensor("b", (4,))
    bb = BlockBuilder()
    with bb.function("main", [x, w, b]):
        with bb.dataflow():
            out = bb.emit_output(op.nn.silu(op.add(op.matmul(x, w), b)))
        bb.emit_func_output(out)
    return bb.get()


def mlp_arrays(n: int) -> list[np.ndarray]:
    """Arguments of `mlp` for a batch of ``n``."""
    generator = np.random.default_rng(n)
    return [generator.standard_normal(shape).astype(np.float32) for shape in ((n, 8), (8, 4), (4,))]

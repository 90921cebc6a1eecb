"""Small programs that the tests of the engines share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from regraft import engine
from regraft.ir import BlockBuilder, IRModule, TensorType, Type, Var

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

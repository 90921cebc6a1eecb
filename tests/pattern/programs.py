"""Small programs to match patterns in."""

from __future__ import annotations

from collections.abc import Callable

from regraft.analysis import get_var2val
from regraft.dpl import DFPattern
from regraft.ir import BlockBuilder, Expr, TensorType, Var

MATRIX = TensorType((2, 3), "float32")


def tensor(name: str = "x", shape: tuple[object, ...] = (2, 3), dtype: str = "float32") -> Var:
    return Var(name, TensorType(shape, dtype))  # type: ignore[arg-type]


def program(params: list[Var], write: Callable[[BlockBuilder], Expr]) -> tuple[Expr, dict[Var, Expr]]:
    """The result of a one-block function, and what its variables are bound to."""
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(write(builder))
        builder.emit_func_output(result)
    function = builder.get()["main"]
    return function.body.body, get_var2val(function)


def matches(pattern: DFPattern, result: tuple[Expr, dict[Var, Expr]]) -> bool:
    return pattern.match(*result)

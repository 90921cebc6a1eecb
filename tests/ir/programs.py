"""Small programs that the tests of the language share."""

from __future__ import annotations

from regraft import op
from regraft.ir import (
    BindingBlock,
    BlockBuilder,
    Function,
    If,
    IRModule,
    SeqExpr,
    SymVar,
    TensorType,
    Var,
    VarBinding,
)

MATRIX = TensorType((2, 3), "float32")
TRUTH = TensorType((), "bool")


def matrix(name: str = "x") -> Var:
    return Var(name, MATRIX)


def chain(length: int, name: str = "x", *, odd_one: int | None = None, symbolic: bool = False) -> IRModule:
    """``length`` additions in a row in one dataflow block; number ``odd_one`` adds its own input."""
    x = Var(name, TensorType((SymVar(name), 3), "float32")) if symbolic else matrix(name)
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for i in range(length):
                value = builder.emit(op.add(value, value if i == odd_one else x), f"{name}{i}")
            output = builder.emit_output(op.add(value, value))
        builder.emit_func_output(output)
    return builder.get()


def nested_branches(depth: int) -> Function:
    """``depth`` branches, each inside the last."""
    x, condition = matrix(), Var("c", TRUTH)
    body = SeqExpr([], x)
    for i in range(depth):
        var = Var(f"v{i}", MATRIX)
        body = SeqExpr([BindingBlock([VarBinding(var, If(condition, body, x))])], var)
    return Function([x, condition], body)


def nested_calls(depth: int) -> Function:
    """One expression, ``depth`` additions deep, each using the one below twice."""
    x = matrix()
    expr = op.add(x, x)
    for _ in range(depth):
        expr = op.add(expr, expr)
    return Function([x], expr)

"""Programs to look at: one of two lines, one of layers with modules, one with branches, one whose names are attacks."""

from __future__ import annotations

import numpy as np

import regraft as rx
from regraft.dpl import wildcard
from regraft.ir import BlockBuilder, Origin
from regraft.op import add, matmul, multiply
from regraft.op.nn import relu
from regraft.script import ir as I
from regraft.script import relax as R

x = wildcard()

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(1)>'\"&amp;</script>"


@R.function
def doubled(x: R.Tensor((16, 16), "float32")):
    with R.dataflow():
        x2 = R.add(x, x)
        x4 = R.add(x2, x2)
        R.output(x4)
    return x4


@I.ir_module
class branches:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        a = R.add(x, x)
        if c:
            b = R.multiply(a, a)
            d = R.exp(b)
        else:
            e = R.negative(a)
            d = R.abs(e)
        f = R.sqrt(d)
        return f


def layers(count: int, heads: int = 3) -> rx.IRModule:
    """``count`` modules of ``heads`` parallel products each, which `CombineParallelMatmul` makes one."""
    builder = BlockBuilder()
    data = rx.Var("x", rx.TensorType((4, 8), "float32"))
    random = np.random.default_rng(0)
    with builder.function("main", [data]):
        with builder.dataflow():
            value: rx.Expr = data
            for layer in range(count):
                with builder.origin(Origin("torch", f"encoder.layer.{layer}.attention")):
                    weights = [rx.const(random.standard_normal((8, 8)).astype("float32")) for _ in range(heads)]
                    parts = [
                        builder.emit(matmul(value, weight), f"h{layer}" if not at else f"h{layer}_{at}")
                        for at, weight in enumerate(weights)
                    ]
                with builder.origin(Origin("torch", f"encoder.layer.{layer}.output")):
                    total = parts[0]
                    for part in parts[1:]:
                        total = builder.emit(multiply(total, part), f"p{layer}")
                    value = builder.emit(relu(add(total, total)), f"r{layer}")
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def hostile() -> rx.IRModule:
    """Every name is an attack on a page that would take it for markup."""
    builder = BlockBuilder()
    data = rx.Var(ATTACK, rx.TensorType((4, 8), "float32"))
    weight = rx.Constant(rx.TensorData(np.ones((8, 8), "float32"), ATTACK))
    with builder.function("main", [data]):
        with builder.dataflow():
            value: rx.Expr = data
            for place in range(6):
                with builder.origin(Origin("torch", f"{ATTACK}.{place}.{ATTACK}")):
                    value = builder.emit(matmul(value, weight), f"{ATTACK}{place}")
                    value = builder.emit(relu(value), f"{ATTACK}{place}r")
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def product() -> rx.IRModule:
    """One product with a weight that is worth computing in few bits."""
    weight = rx.const(np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32))
    builder, rows = rx.BlockBuilder(), rx.Var("x", rx.TensorType([64, 256], "float32"))
    with builder.function("main", [rows]):
        builder.emit_func_output(builder.emit(rx.op.matmul(rows, weight)))
    return builder.get()

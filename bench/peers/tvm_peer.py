"""Apache TVM: Relax's `rewrite_call`, and the pass that combines parallel matmuls."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.relax.dpl import is_op, rewrite_call, wildcard

from bench.peers import Job

NAME = f"TVM {tvm.__version__}"


def chain(count: int) -> Job:
    """`rewrite_call` over one function."""
    x = wildcard()
    two = relax.const(2, "float32")

    def fresh() -> Any:
        value = parameter = relax.Var("x", relax.TensorType((count,), "float32"))
        builder = relax.BlockBuilder()
        with builder.function("main", [parameter]):
            with builder.dataflow():
                for index in range(count):
                    call = relax.op.nn.relu(value) if index % 2 else relax.op.add(value, value)
                    value = builder.emit(call)
                result = builder.emit_output(relax.op.negative(value))
            builder.emit_func_output(result)
        return builder.get()["main"]

    pattern = is_op("relax.add")(x, x)

    def rewrite(function: Any) -> Any:
        return rewrite_call(pattern, lambda _, found: relax.op.multiply(found[x], two), function)

    return Job(fresh, rewrite, lambda function: _count(function, "relax.multiply"))


def layers(count: int, make: Any) -> Job:
    """`CombineParallelMatmul` over one function; ``make`` writes the layers with a builder."""

    def fresh() -> Any:
        builder = relax.BlockBuilder()
        params, write = make(
            count,
            lambda name, shape: relax.Var(name, relax.TensorType(shape, "float32")),
            relax.op.matmul,
            relax.op.add,
            relax.op.tanh,
        )
        with builder.function("main", params):
            with builder.dataflow():
                result = builder.emit_output(relax.op.negative(write(builder.emit)))
            builder.emit_func_output(result)
        return builder.get()

    combine = relax.transform.CombineParallelMatmul()
    return Job(fresh, combine, lambda module: _count(module["main"], "relax.matmul"))


def _count(function: Any, name: str) -> int:
    wanted = tvm.ir.Op.get(name)
    values = (binding.value for block in function.body.blocks for binding in block.bindings)
    return sum(1 for value in values if isinstance(value, relax.Call) and value.op == wanted)

"""Storage, tensors in it, views of bytes, and the functions of the machine itself."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft.ir import OpTypeError, TensorType, TupleType, Var
from regraft.op import builtin, call_builtin_with_ctx, memory, vm
from regraft.script import relax as R

X = Var("x", TensorType((16, 16), "float32"))


def test_tensors_are_allocated_of_the_shape_and_the_dtype_that_the_call_says() -> None:
    storage = Var("storage", memory.alloc_storage([64], 0, "global", "float32").ty)
    found = [
        builtin.alloc_tensor([4, 4], "int8", 0),
        memory.alloc_tensor(storage, 0, [4, 4], "int8"),
        vm.alloc_tensor(Var("s", vm.alloc_storage([64], 0, "uint8").ty), R.prim_value(8), R.shape([4, 4]), "int8"),
    ]
    assert {call.ty for call in found} == {TensorType((4, 4), "int8")}


@pytest.mark.parametrize("end", [memory.kill_storage, memory.kill_tensor, vm.kill_object])
def test_the_end_of_a_value_is_an_effect_without_a_result(end) -> None:
    call = end(X)
    assert call.ty == TupleType(())
    assert not call.is_pure


def test_a_view_says_what_shape_and_dtype_its_bytes_have() -> None:
    assert memory.view(X, [256]).ty == TensorType((256,), "float32")
    assert memory.view(X, dtype="int8").ty == TensorType((16, 16), "int8")
    assert memory.view(X, R.tuple(), R.dtype("int8"), R.tuple()).ty == TensorType((16, 16), "int8")
    assert memory.ensure_zero_offset(X).ty == X.ty


@pytest.mark.parametrize("wrong", [{"shape": [257]}, {"dtype": "float64"}, {"shape": [256], "relative_byte_offset": 4}])
def test_a_view_of_more_bytes_than_there_are_is_refused(wrong) -> None:
    with pytest.raises(OpTypeError, match="bytes"):
        memory.view(X, **wrong)


PROGRAM = """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((16, 16), "float32")):
        s = R.memory.alloc_storage(R.shape([256]), 0, "global", "uint8")
        t = R.memory.alloc_tensor(s, 0, R.shape([8, 8]), "float32")
        c = R.memory.view(x, R.shape([8, 8]), dtype="int16", relative_byte_offset=64)
        d = R.memory.ensure_zero_offset(c)
        e = R.call_builtin_with_ctx("tests.op.machine.twice", (d,), ty_args=R.Tensor((8, 8), "int16"))
        R.memory.kill_tensor(t)
        R.memory.kill_storage(s)
        return (e, t)
"""


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_a_program_that_allocates_reads_and_ends_runs(target: str) -> None:
    rx.register_func("tests.op.machine.twice", lambda x: x * 2, override=True)
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    module = rx.parse(PROGRAM)
    doubled, allocated = rx.build(module, target)["main"](x)
    np.testing.assert_array_equal(np.asarray(doubled), x.view(np.int16).reshape(-1)[32:96].reshape(8, 8) * 2)
    assert np.asarray(allocated).shape == (8, 8)
    rx.assert_structural_equal(rx.parse(module.script()), module)


def test_the_context_is_not_among_the_arguments() -> None:
    assert call_builtin_with_ctx("f", (X,)).args[1].fields == (X,)

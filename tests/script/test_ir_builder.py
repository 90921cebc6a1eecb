"""Programs written statement by statement are the programs that their text says."""

from __future__ import annotations

import pytest

import regraft as rx
from regraft import TensorType
from regraft.analysis import well_formed
from regraft.script.ir_builder import IRBuilder
from regraft.script.ir_builder import ir as I
from regraft.script.ir_builder import relax as R


def test_a_function_is_written_with_its_name_attributes_and_result() -> None:
    with IRBuilder() as builder, R.function():
        R.func_name("foo")
        R.func_attr({"level": 1})
        x = R.arg("x", TensorType((2, 3)))
        R.func_ret_type(TensorType(None, "float32", 2))
        y = R.emit(R.add(x, x))
        R.func_ret_value(R.nn.relu(y))
    text = """
@R.function
def foo(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor(dtype="float32", ndim=2):
    R.func_attr({"level": 1})
    y = R.add(x, x)
    z = R.nn.relu(y)
    return z
"""
    well_formed(builder.get())
    rx.assert_structural_equal(builder.get(), rx.parse(text))


def test_a_dataflow_block_has_the_outputs_that_are_named() -> None:
    with IRBuilder() as builder, I.ir_module(), R.function():
        R.func_name("main")
        x = R.arg("x", R.Tensor((2, 3), "float32"))
        with R.dataflow() as block:
            a = R.emit(R.add(x, x))
            b = R.emit(R.multiply(a, a))
            R.output(b)
        (b,) = block.output_vars
        R.func_ret_value(R.emit(R.nn.relu(b)))
    text = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
        with R.dataflow():
            a = R.add(x, x)
            b = R.multiply(a, a)
            R.output(b)
        c = R.nn.relu(b)
        return c
"""
    rx.assert_structural_equal(builder.get(), rx.parse(text))


def test_a_branch_leads_to_what_both_sides_bind_last() -> None:
    with IRBuilder() as builder, R.function():
        R.func_name("main")
        c = R.arg("c", TensorType((), "bool"))
        x = R.arg("x", TensorType((2, 3)))
        with R.If(c) as branch:
            with R.Then():
                R.emit(R.add(x, x))
            with R.Else():
                R.emit(R.multiply(x, x))
        R.func_ret_value(branch.var)
    text = """
@R.function
def main(c: R.Tensor((), dtype="bool"), x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((2, 3), dtype="float32"):
    if c:
        y = R.add(x, x)
    else:
        y = R.multiply(x, x)
    return y
"""
    well_formed(builder.get())
    rx.assert_structural_equal(builder.get(), rx.parse(text))


def test_what_is_missing_is_said() -> None:
    with pytest.raises(ValueError, match="func_ret_value"), IRBuilder(), R.function():
        R.func_name("main")
    with pytest.raises(ValueError, match="nothing was written"):
        IRBuilder().get()
    with pytest.raises(ValueError, match="needs an open frame"):
        R.emit(R.const(1.0))

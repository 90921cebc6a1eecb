"""Checkpoints: values inside are computed again, just once, and the gradient is the same as without them."""

from __future__ import annotations

import numpy as np

from regraft.analysis import well_formed
from regraft.gradient import Gradient
from regraft.ir import IRModule, iter_bindings
from regraft.ir.op import Call
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.script import tir as T
from tests.gradient.checks import run


def again(module: IRModule) -> list[str]:
    """The names of the values that the adjoint computes again."""
    adjoint = Gradient("main")(module)
    well_formed(adjoint)
    return [b.var.name_hint for b in iter_bindings(adjoint["main_adjoint"]) if "_cp" in b.var.name_hint]


def without_markers(module: IRModule) -> IRModule:
    from regraft.ir import ExprMutator

    class Plain(ExprMutator):
        def visit_call_(self, call: Call):
            return call.args[0] if "checkpoint" in call.op.name else call

    return Plain().mutate(module)


def assert_same_gradients(module: IRModule, *arrays: np.ndarray) -> None:
    after, plain = Gradient("main")(module), Gradient("main")(without_markers(module))
    assert "checkpoint" not in after["main_adjoint"].script()
    for got, want in zip(run(after, "main_adjoint", arrays)[1], run(plain, "main_adjoint", arrays)[1], strict=True):
        np.testing.assert_array_equal(got, want)


X, Y = np.linspace(-1, 1, 3), np.linspace(0.5, 2, 3)


def test_values_between_start_and_end_are_computed_again_where_they_are_needed() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float64"), y: R.Tensor((3,), "float64")):
            with R.dataflow():
                s = R.grad.start_checkpoint(x)
                a = R.sin(s)
                b = R.cos(a)
                c = R.exp(b)
                e = R.grad.end_checkpoint(c)
                d = R.tanh(e)
                gv = R.sum(R.multiply(d, y))
                R.output(gv)
            return gv

    assert again(Before) == ["a_cp", "b_cp", "c_cp"]
    assert_same_gradients(Before, X, Y)
    adjoint = Gradient("main")(Before)["main_adjoint"]
    (block,) = adjoint.body.blocks
    order = {binding.var.name_hint: place for place, binding in enumerate(block)}
    assert order["y_adjoint"] < order["a_cp"]


def test_only_what_the_backward_part_needs_is_computed_again() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float64")):
            with R.dataflow():
                s = R.grad.start_checkpoint(x)
                a = R.sin(s)
                b = R.add(a, a)
                c = R.negative(b)
                e = R.grad.end_checkpoint(c)
                gv = R.sum(e)
                R.output(gv)
            return gv

    assert again(Before) == []
    assert_same_gradients(Before, X)


def test_values_outside_of_the_stage_are_kept() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float64"), y: R.Tensor((3,), "float64")):
            with R.dataflow():
                before = R.exp(x)
                s = R.grad.start_checkpoint(before)
                t = R.grad.start_checkpoint(y)
                a = R.multiply(s, t)
                b = R.exp(a)
                e = R.grad.end_checkpoint(b)
                after = R.exp(e)
                gv = R.sum(R.multiply(after, R.exp(before)))
                R.output(gv)
            return gv

    assert again(Before) == ["a_cp", "b_cp"]
    assert_same_gradients(Before, X, Y)


def test_stages_in_a_row_are_computed_again_one_by_one() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float64")):
            with R.dataflow():
                s1 = R.grad.start_checkpoint(x)
                before = R.sin(s1)
                a = R.exp(R.cos(before))
                e1 = R.grad.end_checkpoint(a)
                s2 = R.grad.start_checkpoint(e1)
                b = R.exp(R.sin(s2))
                e2 = R.grad.end_checkpoint(b)
                gv = R.sum(e2)
                R.output(gv)
            return gv

    assert_same_gradients(Before, X)
    values = {b.var.name_hint: b.value for b in iter_bindings(Gradient("main")(Before)["main_adjoint"])}
    assert "a_cp" not in values  # what the second stage starts with is kept
    order = list(values)
    assert order.index("b_cp") < order.index("a_adjoint") < order.index("before_cp")


def test_a_stage_inside_another_is_computed_again_with_it() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float64")):
            with R.dataflow():
                outer = R.grad.start_checkpoint(x)
                a = R.exp(R.sin(outer))
                inner = R.grad.start_checkpoint(a)
                b = R.exp(R.cos(inner))
                inner_end = R.grad.end_checkpoint(b)
                c = R.exp(R.sin(inner_end))
                end = R.grad.end_checkpoint(c)
                gv = R.sum(R.exp(end))
                R.output(gv)
            return gv

    assert {"a_cp", "b_cp", "c_cp"} <= set(again(Before))
    assert_same_gradients(Before, X)


def test_tuples_casts_and_results_inside_a_stage_keep_their_meaning() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float64")):
            n = T.int64()
            with R.dataflow():
                s = R.grad.start_checkpoint(x)
                a = R.match_cast(s, R.Tensor((n,), "float64"))
                parts = (R.exp(a), R.sin(a))
                b = R.multiply(parts[0], parts[1])
                e = R.grad.end_checkpoint(b)
                gv = R.sum(R.exp(e))
                R.output(gv, e)
            return (gv, e)

    assert_same_gradients(Before, X)
    results, _ = run(Gradient("main")(Before), "main_adjoint", [X])
    np.testing.assert_allclose(results[1], np.exp(X) * np.sin(X))


def test_a_long_stage_is_computed_again_without_recursion() -> None:
    from regraft.ir import BlockBuilder, TensorType, Var

    x = Var("x", TensorType((3,), "float64"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = builder.emit(R.grad.start_checkpoint(x))
            for _ in range(3000):
                value = builder.emit(R.tanh(value))
            loss = builder.emit_output(R.sum(R.exp(builder.emit(R.grad.end_checkpoint(value)))))
        builder.emit_func_output(loss)
    assert len(again(builder.get())) == 3000

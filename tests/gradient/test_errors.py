"""The refusals of `Gradient`, and their messages: what, where, and what to do instead."""

from __future__ import annotations

import numpy as np
import pytest

from regraft.gradient import Gradient, GradientError, register_gradient
from regraft.ir import BlockBuilder, IRModule, Op, Origin, TensorType, Trait, Var
from regraft.script import ir as I
from regraft.script import relax as R
from tests.gradient.checks import run


def _module(build, shape=(3,), dtype="float32") -> IRModule:
    x = Var("x", TensorType(shape, dtype))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(build(x), "loss")
        builder.emit_func_output(out)
    return builder.get()


def test_a_target_that_is_no_floating_scalar_is_named_with_the_remedy() -> None:
    with pytest.raises(GradientError, match=r"(?s)the target, loss, is .*3,.*expected a floating scalar.*R.sum"):
        Gradient("main")(_module(R.sin))
    with pytest.raises(GradientError, match=r"the target, loss, is .*int32"):
        Gradient("main")(_module(R.sum, dtype="int32"))


def test_a_target_index_that_is_not_there_says_how_many_results_there_are() -> None:
    with pytest.raises(GradientError, match="target_index=1; the function has 1 result, counted from 0"):
        Gradient("main", target_index=1)(_module(R.sum))
    with pytest.raises(GradientError, match="target_index=-1"):
        Gradient("main", target_index=-1)(_module(R.sum))


def test_a_parameter_that_is_named_twice_or_is_not_there_is_an_error() -> None:
    module = _module(R.sum)
    with pytest.raises(GradientError, match="require_grads has x twice"):
        Gradient("main", ["x", module["main"].params[0]])(module)
    with pytest.raises(GradientError, match="require_grads has w, no parameter; the parameters are: x"):
        Gradient("main", ["w"])(module)


def test_a_function_that_is_not_there_or_was_differentiated_already_is_an_error() -> None:
    module = _module(R.sum)
    with pytest.raises(GradientError, match="the module has no function 'loss'; it has: main"):
        Gradient("loss")(module)
    with pytest.raises(GradientError, match="the module has a function 'main_adjoint' already"):
        Gradient("main")(Gradient("main")(module))
    with pytest.raises(GradientError, match="applied to a Function; expected a module"):
        Gradient("main")(module["main"])


def test_an_operator_without_a_rule_is_named_with_its_binding_its_origin_and_the_remedy() -> None:
    op = Op("test.cube", ("x",), infer=lambda call: call.args[0].ty, reference=lambda xp, x: xp.cbrt(x) ** 9)
    x = Var("x", TensorType((3,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow(), builder.origin(Origin("onnx", "Cube_7")):
            cube = builder.emit(op(x), "cube")
            loss = builder.emit_output(R.sum(cube))
        builder.emit_func_output(loss)
    module = builder.get()
    with pytest.raises(GradientError) as failure:
        Gradient("main")(module)
    for part in (
        "test.cube has no gradient rule",
        "cube = ",
        "onnx:Cube_7",
        'register_gradient("test.cube")',
        "no_grad",
    ):
        assert part in str(failure.value)

    @register_gradient("test.cube")
    def _cube(call, output, adjoint):
        return [adjoint * (call.args[0] * call.args[0] * 3.0)]

    _, (found,) = run(Gradient("main")(module), "main_adjoint", [np.array([1.0, 2.0, -1.0], "f4")])
    assert found.tolist() == [3.0, 12.0, 3.0]

    register_gradient("test.cube")(lambda call, output, adjoint: [R.sum(adjoint)])
    with pytest.raises(GradientError, match=r"rule of test.cube returned a share of type .*operand x, which is .*3,"):
        Gradient("main")(module)
    register_gradient("test.cube")(lambda call, output, adjoint: [])
    with pytest.raises(GradientError, match="returned 0 shares for the 1 operands"):
        Gradient("main")(module)


def test_a_rule_for_an_operator_that_stops_the_gradient_lets_it_through() -> None:
    op = Op(
        "test.steps",
        ("x",),
        infer=lambda call: call.args[0].ty,
        reference=lambda xp, x: xp.round(x),
        traits=(Trait.STOPS_GRADIENT,),
    )
    module = _module(lambda x: R.sum(op(x)))
    arrays = [np.array([0.4, 1.6, -2.0], "f4")]
    assert run(Gradient("main")(module), "main_adjoint", arrays)[1][0].tolist() == [0.0, 0.0, 0.0]
    try:
        register_gradient("test.steps")(lambda call, output, adjoint: [adjoint])
        assert run(Gradient("main")(module), "main_adjoint", arrays)[1][0].tolist() == [1.0, 1.0, 1.0]
    finally:
        op.define_gradient(None)


def test_a_branch_on_the_way_says_what_to_do_instead() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((), "float32"), flag: R.Tensor((), "bool")):
            if flag:
                y = R.sin(x)
            else:
                z = R.cos(x)
                y = R.sin(z)
            return y

    with pytest.raises(GradientError, match=r"(?s)no gradient passes through a branch.*y = if.*R.where"):
        Gradient("main")(Before)


def test_a_call_of_a_function_on_the_way_says_what_to_do_instead() -> None:
    @I.ir_module
    class Before:
        @R.function(private=True)
        def square(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            with R.dataflow():
                gv = R.multiply(x, x)
                R.output(gv)
            return gv

        @R.function
        def main(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
            cls = Before
            with R.dataflow():
                gv = cls.square(x)
                R.output(gv)
            return gv

    with pytest.raises(GradientError, match=r"(?s)a call of the function square.*inline"):
        Gradient("main")(Before)


def test_an_outside_function_on_the_way_is_an_error_even_where_its_type_is_not_known() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((), "float32"):
            with R.dataflow():
                y: R.Object = R.call_pure_packed("elsewhere", x, ty_args=[R.Object])
                z = R.match_cast(y, R.Tensor((3,), "float32"))
                gv = R.sum(z)
                R.output(gv)
            return gv

    with pytest.raises(GradientError, match=r"relax.call_pure_packed has no gradient rule"):
        Gradient("main")(Before)

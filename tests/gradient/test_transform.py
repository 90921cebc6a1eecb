"""`Gradient`: the seed's programs, and everything that a function can look like."""

from __future__ import annotations

import cProfile

import numpy as np
import pytest

import regraft as rx
from regraft.analysis import well_formed
from regraft.gradient import Gradient, GradientError
from regraft.ir import BlockBuilder, IRModule, Origin, TensorType, Var, iter_bindings
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.script import tir as T
from tests.gradient.checks import run
from tests.script.programs import gradient_adjoint, gradient_before


def differences(module: IRModule, arrays: list[np.ndarray], *, result: int | None = None) -> list[np.ndarray]:
    """Central differences of ``main``, or of one of its results, in float32's reach."""
    main = rx.build(module, target="numpy")["main"]

    def value(*inputs: np.ndarray) -> float:
        out = main(*inputs)
        return float(np.asarray(out if result is None else out[result]))

    slopes = []
    for number, array in enumerate(arrays):
        slope = np.zeros(array.shape)
        for place in np.ndindex(array.shape):
            sides = []
            for step in (1e-5, -1e-5):
                moved = array.copy()
                moved[place] += step
                sides.append(value(*arrays[:number], moved, *arrays[number + 1 :]))
            slope[place] = (sides[0] - sides[1]) / 2e-5
        slopes.append(slope)
    return slopes


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).uniform(-1, 1, shape))


def assert_gradients(module: IRModule, *arrays: np.ndarray, target_index: int = 0, result: int | None = None) -> None:
    """The adjoint of ``main`` is well formed and gives the gradients that central differences give."""
    after = Gradient("main", target_index=target_index)(module)
    well_formed(after)
    _, found = run(after, "main_adjoint", arrays)
    for got, want in zip(found, differences(module, list(arrays), result=result), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


# --- the seed


def test_a_product_of_two_transposes_gives_the_adjoint_of_the_seed() -> None:
    After = Gradient("main")(gradient_before)
    well_formed(After)
    rx.assert_structural_equal(After, gradient_adjoint)
    names = [binding.var.name_hint for binding in iter_bindings(After["main_adjoint"])]
    assert names[4:6] == ["gv_adjoint", "lv3_adjoint"]
    assert names[-2:] == ["x_adjoint_out", "y_adjoint_out"]
    assert {"x_adjoint", "y_adjoint"} <= set(names)


def test_products_of_all_four_combinations_of_transposes_agree_with_finite_differences() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 3), "float64"), y: R.Tensor((3, 3), "float64")):
            with R.dataflow():
                lv1 = R.matmul(x, y)
                lv2 = R.permute_dims(x)
                lv3 = R.matmul(lv2, y)
                lv4 = R.permute_dims(y)
                lv5 = R.matmul(x, lv4)
                lv6 = R.permute_dims(x)
                lv7 = R.permute_dims(y)
                lv8 = R.matmul(lv6, lv7)
                lv9 = lv1 + lv3 + lv5 + lv8
                gv = R.sum(lv9)
                R.output(gv)
            return gv

    assert_gradients(Before, numbers(3, 3), numbers(3, 3, seed=1))


# --- what a function can look like


def test_a_value_used_many_times_gets_the_sum_of_its_shares() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float64"), y: R.Tensor((3,), "float64")):
            with R.dataflow():
                a = R.multiply(x, y)
                b = R.add(a, x)
                c = R.multiply(a, b)
                d = R.add(c, a)
                gv = R.sum(d)
                R.output(gv)
            return gv

    assert_gradients(Before, numbers(3), numbers(3, seed=1))
    names = [binding.var.name_hint for binding in iter_bindings(Gradient("main")(Before)["main_adjoint"])]
    assert [name for name in names if name.startswith("a_adjoint")] == ["a_adjoint", "a_adjoint1", "a_adjoint2"]


def test_fields_of_tuples_and_nested_tuples_get_their_own_gradients() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float64"), y: R.Tensor((2,), "float64"), z: R.Tensor((3,), "float64")):
            with R.dataflow():
                parts = R.split(x, 2)
                inner = (parts[0], y)
                outer = (inner, z, inner)
                again = outer[2]
                first = R.multiply(again[0], inner[1])
                joined = R.concat(inner)
                gv = R.sum(first) + R.sum(R.sin(outer[1])) + R.sum(joined * joined)
                R.output(gv)
            return gv

    assert_gradients(Before, numbers(4), numbers(2, seed=1), numbers(3, seed=2))


def test_a_parameter_that_is_a_nested_tuple_has_a_gradient_of_its_type() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tuple(R.Tensor((4,), "float64"), R.Tuple(R.Tensor((2,), "float64"), R.Tensor((3,), "float64"))),
        ):
            with R.dataflow():
                pair = x[1]
                gv = R.sum(x[0] * x[0]) + R.sum(R.sin(pair[1]))
                R.output(gv)
            return gv

    after = Gradient("main")(Before)
    well_formed(after)
    a, b, c = numbers(4), numbers(2, seed=1), numbers(3, seed=2)
    _, (found,) = run(after, "main_adjoint", [(a, (b, c))])
    np.testing.assert_allclose(found[0], 2 * a)
    np.testing.assert_array_equal(found[1][0], 0 * b)
    np.testing.assert_allclose(found[1][1], np.cos(c))


def test_the_gradient_of_an_unused_parameter_is_zeros() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((4,), "float64"),
            unused: R.Tensor(("n", 3), "float64"),
            other: R.Tensor(ndim=2, dtype="float64"),
        ):
            with R.dataflow():
                gv = R.sum(x)
                R.output(gv)
            return gv

    after = Gradient("main")(Before)
    well_formed(after)
    _, found = run(after, "main_adjoint", [numbers(4), numbers(2, 3), numbers(5, 1)])
    np.testing.assert_array_equal(found[1], np.zeros((2, 3)))
    np.testing.assert_array_equal(found[2], np.zeros((5, 1)))


def test_the_gradient_of_an_integer_parameter_is_zeros_unless_parameters_are_named() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), i: R.Tensor((3,), "int64"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                gv = R.sum(R.take(x, i, axis=0) * y)
                R.output(gv)
            return gv

    after = Gradient("main")(Before)
    _, found = run(after, "main_adjoint", [np.arange(4, dtype="f4"), np.array([1, 1, 3]), np.ones(3, "f4")])
    assert [gradient.tolist() for gradient in found] == [[0, 2, 0, 1], [0, 0, 0], [1, 1, 3]]
    assert found[1].dtype == np.int64
    with pytest.raises(GradientError, match=r"require_grads has i, which is .*int64.*expected a tensor of floating"):
        Gradient("main", require_grads=Before["main"].params[1])(Before)


def test_no_gradient_passes_argmax_comparisons_and_no_grad() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float64"), y: R.Tensor((4,), "float64")):
            with R.dataflow():
                best = R.take(x, R.argmax(y), axis=0)
                chosen = R.where(R.less(x, y), x, R.grad.no_grad(y))
                gv = best + R.sum(chosen)
                R.output(gv)
            return gv

    after = Gradient("main")(Before)
    x, y = np.array([1.0, 5.0, 2.0, 0.0]), np.array([2.0, 3.0, 1.0, 1.0])
    _, found = run(after, "main_adjoint", [x, y])
    np.testing.assert_array_equal(found[0], [1.0, 1.0, 0.0, 1.0])
    np.testing.assert_array_equal(found[1], np.zeros(4))
    assert "argmax" not in after["main_adjoint"].script().split("_adjoint:")[-1]


def test_a_parameter_that_is_the_target_has_the_gradient_one() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((), "float32"), y: R.Tensor((2,), "float32")):
            with R.dataflow():
                z = R.sin(y)
                R.output(z)
            return (x, z)

    after = Gradient("main")(Before)
    well_formed(after)
    _, found = run(after, "main_adjoint", [np.float32(3), np.ones(2, "f4")])
    assert float(np.asarray(found[0])) == 1.0
    assert np.asarray(found[1]).tolist() == [0.0, 0.0]


def test_one_of_several_results_is_the_target_while_the_others_are_used_and_returned() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float64")):
            with R.dataflow():
                a = R.sin(x)
                s = R.sum(a)
                t = R.multiply(s, R.sum(x))
                R.output(a, s, t)
            return (a, s, t)

    assert_gradients(Before, numbers(3), target_index=1, result=1)
    assert_gradients(Before, numbers(3), target_index=2, result=2)
    after = Gradient("main", target_index=2)(Before)
    results, _ = run(after, "main_adjoint", [numbers(3)])
    np.testing.assert_allclose(results[0], np.sin(numbers(3)))
    assert len(results) == 3


def test_the_field_of_a_returned_tuple_variable_can_be_the_target() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float64")):
            with R.dataflow():
                gv = (R.sin(x), R.sum(R.cos(x)))
                R.output(gv)
            return gv

    assert_gradients(Before, numbers(3), target_index=1, result=1)


def test_aliases_constants_and_casts_pass_the_gradient_on() -> None:
    table = np.arange(6.0).reshape(2, 3)

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(ndim=2, dtype="float64")):
            n = T.int64()
            with R.dataflow():
                a = R.match_cast(x, R.Tensor((n, 3), "float64"))
                b = a
                c = R.multiply(b, R.const(table, "float64"))
                gv = R.sum(c * b)
                R.output(gv)
            return gv

    assert_gradients(Before, numbers(2, 3))


def test_plain_bindings_and_several_blocks_are_differentiated_where_they_stand() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float64"), y: R.Tensor(("n",), "float64")):
            a = R.sin(x)
            with R.dataflow():
                h = R.multiply(a, y)
                b = R.multiply(h, a)
                R.output(b)
            c = R.multiply(b, b)
            s = R.mean(c)
            return (s, b)

    assert_gradients(Before, numbers(4), numbers(4, seed=1), result=0)


def test_effects_and_branches_off_the_way_stay_where_they_are() -> None:
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float64"), flag: R.Tensor((), "bool")):
            _ = R.print(x, format="x: {}")
            if flag:
                one = R.const(1.0, "float64")
                k = R.add(one, one)
            else:
                three = R.const(3.0, "float64")
                k = R.add(three, three)
            gv = R.sum(R.multiply(R.sin(x), k))
            return gv

    after = Gradient("main")(Before)
    well_formed(after)
    assert "R.print" in after["main_adjoint"].script()
    x = numbers(3)
    for flag, factor in ((True, 2), (False, 6)):
        _, (found, _) = run(after, "main_adjoint", [x, np.asarray(flag)])
        np.testing.assert_allclose(found, factor * np.cos(x))


def test_nothing_is_computed_that_no_required_gradient_needs() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), v: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                p = R.exp(R.matmul(x, w))
                q = R.multiply(p, R.sin(v))
                r = R.sum(q)
                R.output(r)
            return r

    text = Gradient("main", require_grads="v")(Before)["main_adjoint"].script()
    assert "R.cos(v)" in text
    assert text.count("R.matmul") == 1
    assert "x_adjoint" not in text
    assert "p_adjoint" not in text


def test_adjoints_that_are_zero_are_never_written_down_where_fields_are_apart() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            with R.dataflow():
                pair = (R.sin(x), R.cos(y))
                t = R.topk(pair[0], k=2)
                gv = R.sum(t[0]) + R.sum(R.equal(y, y).astype("float32"))
                R.output(gv)
            return gv

    text = Gradient("main", require_grads="x", fields_apart=True)(Before)["main_adjoint"].script()
    assert text.count("R.zeros") == 1  # the tensor that the values of topk are scattered into
    assert "y_adjoint" not in text


def test_the_original_function_and_the_others_stay_as_they_are() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            R.func_attr({"kept": 1})
            with R.dataflow():
                gv = R.sum(x)
                R.output(gv)
            return gv

        @R.function(private=True)
        def helper(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                gv = R.sum(x)
                R.output(gv)
            return gv

    after = Gradient("main")(Before)
    assert list(after) == ["main", "helper", "main_adjoint"]
    assert after["main"] is Before["main"]
    assert after["main_adjoint"].name == "main_adjoint"
    assert after["main_adjoint"].attrs["kept"] == 1
    private = Gradient("helper")(after)
    assert private["helper_adjoint"].name == "helper_adjoint"
    well_formed(private)


def test_required_parameters_come_in_the_order_in_which_they_are_asked_for() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2,), "float64"), y: R.Tensor((2,), "float64")):
            with R.dataflow():
                gv = R.sum(x * y)
                R.output(gv)
            return gv

    x, y = Before["main"].params
    arrays = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    for required, expected in (([y, x], [[1, 2], [3, 4]]), (["y"], [[1, 2]]), (x, [[3, 4]]), ([], [])):
        _, found = run(Gradient("main", required)(Before), "main_adjoint", arrays)
        assert [gradient.tolist() for gradient in found] == expected


def test_adjoints_carry_the_origins_of_their_forward_values() -> None:
    x = Var("x", TensorType((3,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            with builder.origin(Origin("torch", "layer.1")):
                a = builder.emit(R.sin(x), "a")
            with builder.origin(Origin("torch", "layer.2")):
                b = builder.emit(R.exp(a), "b")
            loss = builder.emit_output(R.sum(b))
        builder.emit_func_output(loss)
    adjoint = Gradient("main")(builder.get())["main_adjoint"]
    origins = {binding.var.name_hint: binding.var.origins for binding in iter_bindings(adjoint)}
    assert origins["a_adjoint"] == (Origin("torch", "layer.1"),)
    assert origins["b_adjoint"] == (Origin("torch", "layer.2"),)
    assert origins["x_adjoint"] == (Origin("torch", "layer.1"),)


def test_an_adjoint_can_be_differentiated_again() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float64")):
            with R.dataflow():
                gv = R.sum(R.exp(x))
                R.output(gv)
            return gv

    twice = Gradient("main_adjoint")(Gradient("main")(Before))
    well_formed(twice)
    (loss, (first,)), (again,) = run(twice, "main_adjoint_adjoint", [numbers(3)])
    np.testing.assert_allclose(loss, np.exp(numbers(3)).sum())
    np.testing.assert_allclose(first, np.exp(numbers(3)))
    np.testing.assert_allclose(again, np.exp(numbers(3)))


# --- cost


def chain(length: int) -> IRModule:
    x = Var("x", TensorType((3,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(length):
                value = builder.emit(R.tanh(value))
            loss = builder.emit_output(R.sum(value))
        builder.emit_func_output(loss)
    return builder.get()


def fan(width: int) -> IRModule:
    x = Var("x", TensorType((3,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            total = builder.emit(R.sin(x))
            for _ in range(width):
                total = builder.emit(R.add(total, builder.emit(R.exp(x))))
            loss = builder.emit_output(R.sum(total))
        builder.emit_func_output(loss)
    return builder.get()


@pytest.mark.parametrize("make", [chain, fan])
def test_the_work_of_a_gradient_grows_with_the_program_and_not_with_its_square(make) -> None:
    def calls(count: int) -> int:
        module = make(count)
        profile = cProfile.Profile()
        profile.runcall(Gradient("main"), module)
        return sum(entry.callcount for entry in profile.getstats())

    # Calls of functions, unlike seconds, are the same on every machine; four times the program is four times the work.
    assert calls(1200) < 4.3 * calls(300)


@pytest.mark.parametrize("make", [chain, fan])
def test_a_program_of_thousands_of_bindings_is_differentiated_without_recursion(make) -> None:
    adjoint = Gradient("main")(make(3000))["main_adjoint"]
    assert len(adjoint.body.blocks[0]) > 6000

"""Rules written as two functions: what they match, what they put in its place, and how a mistake is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.rewrite import Event, RewriteError, Rule, rule_from_module
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.script import tir as T
from regraft.testing import check_rule
from tests.kit import assert_close


def run(program: rx.Function, *arrays: np.ndarray) -> Any:
    return rx.build(program, target="numpy")[program.name](*arrays)


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def assert_same(before: rx.Function, after: rx.Function, *arrays: np.ndarray) -> None:
    old, new = run(before, *arrays), run(after, *arrays)
    assert not rx.structural_equal(before, after)
    for x, y in zip(*[(v if isinstance(v, tuple) else (v,)) for v in (old, new)], strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert_close(y, x)


@R.rewriter
class AddSame:
    @R.function
    def pattern(A: R.Tensor):
        B = A + A
        return B

    @R.function
    def replacement(A: R.Tensor):
        B = A * R.const(2.0, "float32")
        return B


@R.rewriter
class CombineTwoMatmuls:
    @R.function
    def pattern(x: R.Tensor, a: R.Tensor(("k", "n")), b: R.Tensor(("k", "n"))):
        p = R.matmul(x, a)
        q = R.matmul(x, b)
        return p, q

    @R.function
    def replacement(x: R.Tensor, a: R.Tensor(("k", "n")), b: R.Tensor(("k", "n"))):
        both = R.split(R.matmul(x, R.concat((a, b), axis=1)), 2, axis=-1)
        return both[0], both[1]


# --- one output


def test_a_rewriter_class_is_a_rule_of_its_name() -> None:
    assert isinstance(AddSame, Rule)
    assert AddSame.name == "AddSame"


def test_types_come_from_the_values_found_and_no_cast_is_inserted() -> None:
    @R.function
    def before(x: R.Tensor((2, "n"), "float32"), y: R.Tensor((2, "n"), "float32")):
        with R.dataflow():
            a = x + x
            r = a + y
            R.output(r)
        return r

    @R.function
    def after(x: R.Tensor((2, "n"), "float32"), y: R.Tensor((2, "n"), "float32")):
        with R.dataflow():
            a = x * R.const(2.0, "float32")
            r = a + y
            R.output(r)
        return r

    rewritten = AddSame(before)
    rx.assert_structural_equal(rewritten, after.with_attr("global_symbol", "before"))
    assert rewritten.ret_ty == before.ret_ty
    assert_same(before, rewritten, array(2, 5), array(2, 5))


def test_origins_name_the_rule() -> None:
    @R.function
    def before(x: R.Tensor((3,), "float32")):
        y = x + x
        return y

    [block] = AddSame(before).body.blocks
    [binding] = block
    assert rx.Origin("rule", "AddSame") in binding.var.origins


def test_a_replacement_that_does_not_type_check_for_the_values_declines_and_says_so() -> None:
    @R.function
    def whole(x: R.Tensor((3,), "int32")):
        y = x + x
        return y

    events: list[Event] = []
    assert AddSame(whole, listener=events.append) is whole
    [event] = events
    assert event.reason is not None
    assert event.reason.startswith("the replacement does not type-check here: ")
    assert "int32" in event.reason


def test_a_typed_parameter_matches_values_of_that_type_only() -> None:
    @R.rewriter
    class HalfOnly:
        @R.function
        def pattern(x: R.Tensor(dtype="float16")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor(dtype="float16")):
            return R.sin(x)

    @R.function
    def single(x: R.Tensor((3,), "float32")):
        y = R.exp(x)
        return y

    @R.function
    def half(x: R.Tensor((3,), "float16")):
        y = R.exp(x)
        return y

    assert HalfOnly(single) is single
    assert "R.sin" in HalfOnly(half).script()


def test_a_parameter_used_twice_stands_for_one_value() -> None:
    @R.function
    def different(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        z = x + y
        return z

    assert AddSame(different) is different


def test_attributes_and_constants_match_exactly() -> None:
    @R.rewriter
    class Sums:
        @R.function
        def pattern(x: R.Tensor(ndim=2)):
            return R.sum(x * R.const(1.0, "float32"), axis=[0])

        @R.function
        def replacement(x: R.Tensor(ndim=2)):
            return R.sum(x, axis=[0])

    @R.function
    def same(x: R.Tensor((2, 3), "float32")):
        y = R.sum(x * R.const(1.0, "float32"), axis=[0])
        return y

    @R.function
    def other_axis(x: R.Tensor((2, 3), "float32")):
        y = R.sum(x * R.const(1.0, "float32"), axis=[1])
        return y

    @R.function
    def other_constant(x: R.Tensor((2, 3), "float32")):
        y = R.sum(x * R.const(1.000005, "float32"), axis=[0])
        return y

    assert Sums(other_axis) is other_axis
    assert Sums(other_constant) is other_constant
    assert_same(same, Sums(same), array(2, 3))


def test_commuted_operands_match_too() -> None:
    @R.rewriter
    class Distribute:
        @R.function
        def pattern(x: R.Tensor, y: R.Tensor, z: R.Tensor):
            return (x + y) * z

        @R.function
        def replacement(x: R.Tensor, y: R.Tensor, z: R.Tensor):
            return x * z + y * z

    @R.function
    def before(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32"), z: R.Tensor((3,), "float32")):
        w = z * (x + y)
        return w

    assert_same(before, Distribute(before), array(2, 3), array(2, 3), array(3))


# --- sizes


def test_size_variables_of_the_pattern_give_the_shapes_of_the_replacement() -> None:
    @R.rewriter
    class FlattenedRelu:
        @R.function
        def pattern(x: R.Tensor(("n", "m"))):
            n = T.int64()
            m = T.int64()
            return R.nn.relu(R.reshape(x, R.shape([n * m])))

        @R.function
        def replacement(x: R.Tensor(("r", "c"))):
            r = T.int64()
            c = T.int64()
            return R.reshape(R.nn.relu(x), R.shape([r * c]))

    @R.function
    def before(x: R.Tensor((4, "k"), "float32")):
        k = T.int64()
        y = R.nn.relu(R.reshape(x, R.shape([k * 4])))
        return y

    after = FlattenedRelu(before)
    assert "R.shape([k * 4])" in after.script().replace("4 * k", "k * 4")
    assert_same(before, after, array(4, 5))


def test_a_shape_that_is_not_the_patterns_is_left_alone() -> None:
    @R.rewriter
    class Flat:
        @R.function
        def pattern(x: R.Tensor(("n", "m"))):
            n = T.int64()
            m = T.int64()
            return R.reshape(x, R.shape([m, n]))

        @R.function
        def replacement(x: R.Tensor(("n", "m"))):
            return R.permute_dims(x, axes=[1, 0])

    @R.function
    def split(x: R.Tensor((4, 6), "float32")):
        y = R.reshape(x, R.shape([8, 3]))
        return y

    assert Flat(split) is split


def test_a_compound_size_is_compared_whatever_comes_first() -> None:
    @R.rewriter
    class Tiled:
        @R.function
        def pattern(y: R.Tensor(("n * 2",)), x: R.Tensor(("n",))):
            return R.add(y, R.concat((x, x), axis=0))

        @R.function
        def replacement(y: R.Tensor(("n * 2",)), x: R.Tensor(("n",))):
            return R.add(R.tile(x, [2]), y)

    @R.function
    def fits(y: R.Tensor((6,), "float32"), x: R.Tensor((3,), "float32")):
        z = R.add(R.concat((x, x), axis=0), y)
        return z

    @R.function
    def broadcasts(y: R.Tensor((1,), "float32"), x: R.Tensor((3,), "float32")):
        z = R.add(y, R.concat((x, x), axis=0))
        return z

    assert_same(fits, Tiled(fits), array(6), array(3))
    events: list[Event] = []
    assert Tiled(broadcasts, listener=events.append) is broadcasts
    assert all(event.reason is not None and "is not known to be" in event.reason for event in events)
    assert events


# --- several outputs


def test_two_outputs_are_replaced_together() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), a: R.Tensor((3, 4), "float32"), b: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            p = R.matmul(x, a)
            q = R.matmul(x, b)
            r = p - q
            R.output(r)
        return r

    after = CombineTwoMatmuls(before)
    assert after.script().count("R.matmul") == 1
    assert after.script().count("R.split") == 1
    assert "match_cast" not in after.script()
    assert_same(before, after, array(2, 3), array(3, 4), array(3, 4) + 1)


def test_a_weight_that_is_bound_between_the_two_comes_first_in_the_result() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), a: R.Tensor((3, 4), "float32"), b: R.Tensor((4, 3), "float32")):
        with R.dataflow():
            p = R.matmul(x, a)
            w = R.permute_dims(b, axes=[1, 0])
            q = R.matmul(x, w)
            r = p - q
            R.output(p, r)
        return p, r

    after = CombineTwoMatmuls(before)
    assert after.script().count("R.matmul") == 1
    assert_same(before, after, array(2, 3), array(3, 4), array(4, 3))


@pytest.mark.parametrize("seed", range(3))
def test_random_programs_with_several_products_keep_their_values(seed: int) -> None:
    report = check_rule(CombineTwoMatmuls, seed=seed)
    assert report.rewrites >= 40


def test_dependent_outputs_make_no_cycle() -> None:
    @R.function
    def before(x: R.Tensor((4, 4), "float32"), a: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            p = R.matmul(x, a)
            b = R.exp(p)
            q = R.matmul(x, b)
            r = R.add(p, q)
            R.output(r)
        return r

    events: list[Event] = []
    assert CombineTwoMatmuls(before, listener=events.append) is before
    assert any("depend on itself" in (event.reason or "") for event in events)


def test_a_dependent_pair_does_not_keep_an_independent_one_from_being_combined() -> None:
    @R.function
    def before(x: R.Tensor((4, 4), "float32"), a: R.Tensor((4, 4), "float32"), c: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            p = R.matmul(x, a)
            b = R.exp(p)
            q = R.matmul(x, b)
            z = R.matmul(x, c)
            r = p + q - z
            R.output(r)
        return r

    after = CombineTwoMatmuls(before)
    assert after.script().count("R.matmul") == 2
    assert_same(before, after, array(4, 4), array(4, 4) / 8, array(4, 4) + 1)


def test_an_output_may_be_computed_from_another_and_used_elsewhere() -> None:
    @R.rewriter
    class ExpAndSquare:
        @R.function
        def pattern(x: R.Tensor):
            e = R.exp(x)
            s = e * e
            return s, e

        @R.function
        def replacement(x: R.Tensor):
            e = R.exp(x)
            s = R.square(e)
            return s, e

    @R.function
    def before(x: R.Tensor((3,), "float32")):
        with R.dataflow():
            e = R.exp(x)
            s = e * e
            n = R.negative(e)
            R.output(e, s, n)
        return e, s, n

    after = ExpAndSquare(before)
    assert after.script().count("R.exp") == 1
    assert "R.square(e)" in after.script()
    assert_same(before, after, array(3))


def test_an_output_of_the_replacement_may_be_a_parameter_or_repeat_another() -> None:
    @R.rewriter
    class Cancel:
        @R.function
        def pattern(x: R.Tensor((3,), "float32")):
            return R.negative(R.negative(x)), R.abs(x), R.abs(R.negative(x))

        @R.function
        def replacement(x: R.Tensor((3,), "float32")):
            size = R.abs(x)
            return x, size, size

    @R.function
    def before(x: R.Tensor((3,), "float32")):
        with R.dataflow():
            m = R.negative(x)
            y = R.negative(m)
            a = R.abs(x)
            b = R.abs(m)
            z = y + a * b
            R.output(z)
        return z

    after = Cancel(before)
    assert after.script().count("R.abs") == 1
    assert "R.negative" not in after.script()
    assert_same(before, after, array(3))


def test_two_outputs_that_are_one_value_decline() -> None:
    @R.rewriter
    class Chained:
        @R.function
        def pattern(x: R.Tensor, y: R.Tensor):
            inner = R.exp(x)
            return R.sin(inner), inner, R.exp(y)

        @R.function
        def replacement(x: R.Tensor, y: R.Tensor):
            inner = R.exp(x)
            return R.cos(inner), inner, R.exp(y)

    @R.function
    def before(x: R.Tensor((3,), "float32")):
        with R.dataflow():
            e = R.exp(x)
            s = R.sin(e)
            R.output(e, s)
        return e, s

    events: list[Event] = []
    assert Chained(before, listener=events.append) is before
    assert {event.reason for event in events} <= {"two outputs of the rule are one value here"}


def test_tuples_projections_and_outside_functions_are_matched() -> None:
    @R.rewriter
    class Halves:
        @R.function
        def pattern(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
            n = T.int64()
            parts = R.split(R.concat((x, y), axis=0), 2, axis=0)
            given = R.call_pure_packed("outside", parts[0], sinfo_args=R.Tensor((n,), "float32"))
            return given + parts[1]

        @R.function
        def replacement(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
            n = T.int64()
            return R.call_pure_packed("outside", x, sinfo_args=R.Tensor((n,), "float32")) + y

    @R.function
    def before(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        with R.dataflow():
            c = R.concat((x, y), axis=0)
            s = R.split(c, 2, axis=0)
            o = R.call_pure_packed("outside", s[0], sinfo_args=R.Tensor((3,), "float32"))
            z = s[1] + o
            R.output(z)
        return z

    after = Halves(before)
    assert "R.split" not in after.script()
    rx.register_func("outside", lambda x: x * 3, override=True)
    assert_same(before, after, array(3), array(3) + 1)


# --- match_cast


@R.rewriter
class KeptAsRows:
    @R.function
    def pattern(x: R.Tensor(("n", "m"), "float32")):
        return R.exp(x)

    @R.function
    def replacement(x: R.Tensor(("n", "m"), "float32")):
        n = T.int64()
        m = T.int64()
        rows: R.Tensor(ndim=2, dtype="float32") = R.call_pure_packed("rows", x, ty_args=R.Tensor(ndim=2))
        known = R.match_cast(rows, R.Tensor((n, m), "float32"))
        return R.sin(known)


def test_a_match_cast_of_a_replacement_states_the_sizes_found() -> None:
    @R.function
    def before(x: R.Tensor(("k", 4), "float32")):
        with R.dataflow():
            y = R.exp(x)
            z = R.add(y, y)
            R.output(z)
        return z

    after = KeptAsRows(before)
    (cast,) = [binding for block in after.body.blocks for binding in block if isinstance(binding, rx.MatchCast)]
    assert cast.ty == before.params[0].ty
    assert rx.structural_equal(rx.parse(after.script()), after)
    assert KeptAsRows(after) is after


def test_a_result_of_a_wider_type_is_cast_to_the_type_of_what_it_replaces() -> None:
    @R.rewriter
    class Tripled:
        @R.function
        def pattern(x: R.Tensor(dtype="float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor(dtype="float32")):
            return R.call_pure_packed("test.tripled", x, ty_args=R.Tensor)

    @R.function
    def before(x: R.Tensor(("k", 4), "float32")):
        with R.dataflow():
            y = R.exp(x)
            z = R.add(y, y)
            R.output(z)
        return z

    rx.register_func("test.tripled", lambda x: x * 3, override=True)
    after = Tripled(before)
    assert after.ret_ty == before.ret_ty
    assert_close(run(after, array(2, 4)), array(2, 4) * 6)
    rx.register_func("test.tripled", lambda x: x[:1], override=True)
    with pytest.raises(rx.RegraftError):
        run(after, array(2, 4))


def test_one_value_takes_the_place_of_the_tuple_that_a_program_makes_of_all_outputs() -> None:
    @R.rewriter
    class Both:
        @R.function
        def pattern(x: R.Tensor(("n",), "float32")):
            return R.exp(x), R.negative(x)

        @R.function
        def replacement(x: R.Tensor(("n",), "float32")):
            return R.split(R.concat((R.add(R.sinh(x), R.cosh(x)), R.subtract(R.const(0.0), x)), axis=0), 2, axis=0)

    @R.function
    def before(x: R.Tensor((4,), "float32")):
        both = (R.exp(x), R.negative(x))
        return both

    @R.function
    def turned(x: R.Tensor((4,), "float32")):
        both = (R.negative(x), R.exp(x))
        return both

    after = Both(before)
    assert isinstance(after.body.blocks[-1].bindings[-1].value, rx.Call)
    assert_same(before, after, array(4))
    assert_same(turned, Both(turned), array(4))


def test_a_match_cast_in_a_pattern_asks_for_a_type() -> None:
    @R.rewriter
    class OfFour:
        @R.function
        def pattern(x: R.Tensor(ndim=1, dtype="float32")):
            y = R.match_cast(x, R.Tensor((4,), "float32"))
            return R.exp(y)

        @R.function
        def replacement(x: R.Tensor(ndim=1, dtype="float32")):
            return R.sin(x)

    @R.function
    def before(x: R.Tensor((4,), "float32"), y: R.Tensor((5,), "float32")):
        a = R.exp(x)
        b = R.exp(y)
        return (a, b)

    a, b = run(OfFour(before), array(4), array(5))
    assert_close(a, np.sin(array(4)))
    assert_close(b, np.exp(array(5)))


def test_the_fields_of_a_result_put_together_again_are_the_result() -> None:
    @R.rewriter
    class Halves:
        @R.function
        def pattern(x: R.Tensor((4,), "float32")):
            return (R.exp(x), R.sin(x))

        @R.function
        def replacement(x: R.Tensor((4,), "float32")):
            return R.split(R.concat([R.exp(x), R.cos(x)]), 2)

    @R.function
    def before(x: R.Tensor((4,), "float32")):
        both = (R.exp(x), R.sin(x))
        return both

    after = Halves(before)
    names = [b.value.op.name for block in after.body.blocks for b in block if isinstance(b.value, rx.Call)]
    assert names == ["relax.exp", "relax.cos", "relax.concat", "relax.split"]
    assert after.body.body.ty == before.body.body.ty


# --- mistakes


def module(pattern: str, replacement: str, body: str = "") -> rx.IRModule:
    text = ["@I.ir_module", "class Module:"]
    for name, function in (("pattern", pattern), ("replacement", replacement)):
        head, *lines = function.split("\n")
        text += ["    @R.function", f"    def {name}({head}):", *[f"        {line}" for line in lines]]
    return rx.parse("\n".join(text) + body)


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        ("x: R.Tensor\nreturn R.exp(x)", "x: R.Tensor, y: R.Tensor\nreturn x + y", r"pattern takes 1 parameters \(x\)"),
        (
            "x: R.Tensor\nreturn R.exp(x)",
            'x: R.Tensor((2,), "float32")\nreturn R.sin(x)',
            r"parameter 0 is x: R.Tensor in pattern, not specific enough for x: R.Tensor\(\(2,\)",
        ),
        ("x: R.Tensor\nreturn R.exp(x), R.sin(x)", "x: R.Tensor\nreturn R.exp(x)", "returns 2 values, replacement 1"),
        (
            'x: R.Tensor((2,), "float32")\nreturn R.exp(x)',
            'x: R.Tensor((2,), "float32")\nreturn R.astype(x, "int32")',
            "output 0 is .*float32.* in pattern, but .*int32.* in replacement",
        ),
        ("x: R.Tensor, y: R.Tensor\nreturn R.exp(x)", "x: R.Tensor, y: R.Tensor\nreturn y", "does not use.* y"),
        (
            "x: R.Tensor\nw = R.sin(x)\nreturn R.exp(x)",
            "x: R.Tensor\nreturn x",
            "computes w, which none of its outputs",
        ),
        ("x: R.Tensor\nreturn x", "x: R.Tensor\nreturn R.exp(x)", "returns x as output 0"),
        ("x: R.Tensor\ny = R.exp(x)\nreturn y, y", "x: R.Tensor\nreturn x, x", "returns y twice"),
        (
            'x: R.Tensor(("n",), "float32")\nreturn R.exp(x)',
            'x: R.Tensor(("n",), "float32")\nm = T.int64()\ny = R.match_cast(x, R.Tensor((m,), "float32"))\nreturn y',
            "the match_cast of .* in replacement has the size m, which no parameter has",
        ),
        (
            'x: R.Tensor, c: R.Tensor((), "bool")\nif c:\n    y = R.exp(x)\nelse:\n    y = R.sin(x)\nreturn y',
            'x: R.Tensor, c: R.Tensor((), "bool")\nreturn x',
            "has an if, bound to y",
        ),
    ],
)
def test_two_functions_that_make_no_rule_are_refused(pattern: str, replacement: str, message: str) -> None:
    with pytest.raises(RewriteError, match=message):
        rule_from_module(module(pattern, replacement))


def test_a_pattern_with_effects_is_refused() -> None:
    @I.ir_module
    class Printing:
        @R.function(pure=False)
        def pattern(x: R.Tensor):
            R.print(x, format="x")
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor):
            return R.exp(x)

    with pytest.raises(RewriteError, match="pattern has effects"):
        rule_from_module(Printing)


def test_a_module_without_the_two_functions_is_refused() -> None:
    @I.ir_module
    class Module:
        @R.function
        def pattern(x: R.Tensor):
            return R.exp(x)

    with pytest.raises(RewriteError, match="this module has: pattern"):
        rx.PatternMatchingRewriter.from_module(Module)


def test_a_rewriter_stands_on_a_class() -> None:
    with pytest.raises(rx.RegraftError, match=r"@R\.rewriter stands on a class"):
        R.rewriter(AddSame)


def test_a_wrong_attribute_in_either_function_points_at_its_line() -> None:
    with pytest.raises(rx.ParseError, match=r"(?s)test_from_module.py.*R.permute_dims"):

        @R.rewriter
        class Transposed:
            @R.function
            def pattern(x: R.Tensor(ndim=2)):
                return R.permute_dims(x, axes=[0, 5])

            @R.function
            def replacement(x: R.Tensor(ndim=2)):
                return x


def test_a_rewriter_class_says_how_far_values_may_change() -> None:
    @R.rewriter(approximate=1e-2)
    class AsTanh:
        @R.function
        def pattern(x: R.Tensor):
            return R.nn.gelu(x)

        @R.function
        def replacement(x: R.Tensor):
            return R.nn.gelu_tanh(x)

    assert (AsTanh.name, AsTanh.approximate) == ("AsTanh", 1e-2)
    assert check_rule(AsTanh, examples=5, near_misses=3).rewrites
    exact = Rule(AsTanh.pattern, AsTanh.rewriter, "exact")
    with pytest.raises(AssertionError, match="rule 'exact' is wrong"):
        check_rule(exact, examples=10, near_misses=3)
    with pytest.raises(RewriteError, match=r"approximate=-1\.0; expected a bound for the change of values"):

        @R.rewriter(approximate=-1.0)
        class Closer:
            @R.function
            def pattern(x: R.Tensor):
                return R.nn.gelu(x)

            @R.function
            def replacement(x: R.Tensor):
                return R.nn.gelu_tanh(x)


@R.rewriter
class ByNegative:
    @R.function
    def pattern(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        return R.add(x, y)

    @R.function
    def replacement(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        z = ByNegative.helper(y, x)
        return z

    @R.function(private=True)
    def helper(a: R.Tensor(("k",), "float32"), b: R.Tensor(("k",), "float32")):
        k = T.int64()
        c = R.broadcast_to(R.negative(a), R.shape([k]))
        return R.subtract(b, c)


@R.function
def two_rows(x: R.Tensor((3,), "float32")):
    y = R.exp(x)
    return R.add(x, y)


def test_a_private_function_of_a_rule_is_written_out_for_the_sizes_found() -> None:
    after = ByNegative(two_rows)
    rx.analysis.well_formed(after)
    assert "helper" not in after.script()
    assert after.script().count("negative") == 1
    assert_same(two_rows, after, array(3))


def test_a_rule_with_a_public_function_beside_its_two_is_refused() -> None:
    module = rx.IRModule({"pattern": two_rows, "replacement": two_rows, "other": two_rows})
    with pytest.raises(ValueError, match="this module has: pattern, replacement, other"):
        rule_from_module(module)

"""FuseOpsByPattern and MergeCompositeFunctions, for backends; ToMixedPrecision."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings

from regraft import BlockBuilder, const, op
from regraft.analysis import well_formed
from regraft.dpl import is_op, make_fused_bias_activation_pattern, wildcard
from regraft.ir import Call, Constant, Function, IRModule, TensorType, Var, iter_bindings
from regraft.ir.tensor_data import TensorData
from regraft.script.text import parse
from regraft.testing import assert_same_values, programs, random_inputs
from regraft.transform import (
    FuseOpsByPattern,
    FusionPattern,
    MergeCompositeFunctions,
    PassError,
    PatternCheckContext,
    Sequential,
    ToMixedPrecision,
    report,
)
from tests.passes.harness import counts, program, run

SIGNATURE = 'x: R.Tensor((2, 3), "float32"), a: R.Tensor((3, 4), "float32"), b: R.Tensor((4, 5), "float32")'
TWO_LAYERS = "p = R.matmul(x, a)\nq = R.nn.relu(p)\ns = R.matmul(q, b)\nr = R.nn.relu(s)"


def _matmul_relu() -> FusionPattern:
    left = wildcard()
    return FusionPattern("my.mm_relu", is_op("relax.nn.relu")(is_op("relax.matmul")(left, wildcard())), {"lhs": left})


def _module(body: str = TWO_LAYERS, results: str = "r", signature: str = SIGNATURE) -> IRModule:
    return IRModule.from_expr(program(signature, body, results))


def test_each_match_becomes_a_private_composite_function() -> None:
    before = _module()
    one = FuseOpsByPattern([_matmul_relu()])
    after = one(before)
    well_formed(after)
    assert list(after) == ["fused_relax_matmul_relax_nn_relu", "fused_relax_matmul_relax_nn_relu1", "main"]
    fused = after["fused_relax_matmul_relax_nn_relu"]
    assert fused.is_private
    assert fused.attrs["Composite"] == "my.mm_relu"
    assert fused.attrs["Primitive"] is True
    assert counts(fused) == {"matmul": 1, "nn.relu": 1}
    assert counts(after["main"]) == {}
    assert_same_values(before, after, rtol=0.0, atol=0.0)
    assert one(after) is after


def test_codegen_functions_define_the_composite_one_inside() -> None:
    before = _module()
    after = FuseOpsByPattern([("my.mm_relu", _matmul_relu().pattern)], annotate_codegen=True)(before)
    well_formed(after)
    outer = after["fused_relax_matmul_relax_nn_relu_my"]
    assert outer.attrs["Codegen"] == "my"
    [inner] = [b.value for b in iter_bindings(outer) if isinstance(b.value, Function)]
    assert inner.attrs["Composite"] == "my.mm_relu"
    assert_same_values(before, after, rtol=0.0, atol=0.0)


def test_an_earlier_pattern_takes_what_a_later_one_would_match() -> None:
    smaller = FusionPattern("my.mm", is_op("relax.matmul")(wildcard(), wildcard()))
    before = _module("p = R.matmul(x, a)\nq = R.nn.relu(p)\nr = R.matmul(q, b)")
    after = FuseOpsByPattern([_matmul_relu(), smaller])(before)
    well_formed(after)
    assert sorted(f.attrs["Composite"] for f in after.functions.values() if "Composite" in f.attrs) == [
        "my.mm",
        "my.mm_relu",
    ]
    assert_same_values(before, after, rtol=0.0, atol=0.0)


@pytest.mark.parametrize(
    ("body", "results"),
    [
        ("p = R.matmul(x, a)\nr = R.nn.relu(p)\ns = R.exp(p)", "r, s"),
        ("p = R.matmul(x, a)\nr = R.nn.relu(p)", "p, r"),
    ],
)
def test_a_value_inside_a_match_that_is_used_outside_is_a_result_of_its_function_too(body: str, results: str) -> None:
    before = _module(body, results)
    after = FuseOpsByPattern([_matmul_relu()])(before)
    well_formed(after)
    assert counts(after["main"])["matmul"] == 0
    [fused] = [function for _, function in after.items() if "Composite" in function.attrs]
    assert counts(fused) == {"matmul": 1, "nn.relu": 1}
    assert_same_values(before, after)
    assert FuseOpsByPattern([_matmul_relu()])(after) is after
    merged = MergeCompositeFunctions()(after)
    well_formed(merged)
    assert_same_values(before, merged)


def test_a_match_whose_input_is_computed_from_a_value_inside_is_left() -> None:
    product = is_op("relax.matmul")(wildcard(), wildcard())
    pattern = FusionPattern("my.mm_add", is_op("relax.add")(product, wildcard()))
    before = _module("p = R.matmul(x, a)\ne = R.exp(p)\nf = R.sin(e)\nr = R.add(p, f)", "r")
    assert FuseOpsByPattern([pattern])(before) is before
    assert "its input f is computed from a value inside it" in str(report(FuseOpsByPattern([pattern]), before))


def test_the_check_sees_the_match_and_can_decline_it() -> None:
    seen: list[PatternCheckContext] = []

    def check(context: PatternCheckContext) -> bool:
        seen.append(context)
        return isinstance(context.annotated_expr["lhs"], Var)

    pattern = _matmul_relu()
    after = FuseOpsByPattern([(pattern.name, pattern.pattern, pattern.annotation_patterns, check)])(_module())
    assert counts(after["main"]) == {"matmul": 1, "nn.relu": 1}
    first, second = seen  # in the order of the block
    assert isinstance(first.annotated_expr["lhs"], Var)
    assert isinstance(second.annotated_expr["lhs"], Call)
    assert [var.name_hint for var in first.matched_bindings] == ["p", "q"]
    assert first.value_to_bound_var[first.matched_expr].name_hint == "q"


def test_constants_go_inside_or_become_arguments() -> None:
    body = 'p = R.add(x, R.const(2.0, "float32"))\nr = R.nn.relu(p)'
    pattern = ("my.add_relu", is_op("relax.nn.relu")(is_op("relax.add")(wildcard(), wildcard())))
    inside = FuseOpsByPattern([pattern])(_module(body))
    outside = FuseOpsByPattern([pattern], bind_constants=False)(_module(body))
    assert len(inside["fused_relax_add_relax_nn_relu"].params) == 1
    assert len(outside["fused_relax_add_relax_nn_relu"].params) == 2
    [call] = [b.value for b in iter_bindings(outside["main"])]
    assert isinstance(call, Call)
    assert isinstance(call.args[1], Constant)
    for after in (inside, outside):
        well_formed(after)
        assert_same_values(_module(body), after, rtol=0.0, atol=0.0)


def test_neighbours_of_one_backend_are_merged_into_one_function() -> None:
    before = _module()
    passes = Sequential([FuseOpsByPattern([_matmul_relu()]), MergeCompositeFunctions()])
    after = passes(before)
    well_formed(after)
    assert len(after) == 2
    [merged] = [function for function in after.functions.values() if "Codegen" in function.attrs]
    assert merged.attrs["Codegen"] == "my"
    assert sum(isinstance(b.value, Function) for b in iter_bindings(merged)) == 2
    assert_same_values(before, after, rtol=0.0, atol=0.0)
    assert MergeCompositeFunctions()(after) is after


def test_functions_are_not_merged_around_a_value_that_would_make_a_cycle() -> None:
    body = "p = R.nn.relu(R.matmul(x, a))\ne = R.exp(p)\nq = R.nn.relu(R.matmul(p, b))\n" + (
        "f = R.nn.relu(R.matmul(e, b))\nr = R.add(q, f)"
    )
    before = _module(body, "r")
    after = Sequential([FuseOpsByPattern([_matmul_relu()]), MergeCompositeFunctions()])(before)
    well_formed(after)
    assert sum("Codegen" in function.attrs for function in after.functions.values()) == 2
    assert_same_values(before, after, rtol=0.0, atol=0.0)


def test_a_merged_function_gives_every_value_that_is_used_outside() -> None:
    body = "p = R.nn.relu(R.matmul(x, a))\nq = R.nn.relu(R.matmul(p, b))\ns = R.sum(p)"
    before = _module(body, "q, s")
    after = Sequential([FuseOpsByPattern([_matmul_relu()]), MergeCompositeFunctions()])(before)
    well_formed(after)
    assert sum("Codegen" in function.attrs for function in after.functions.values()) == 1
    assert_same_values(before, after, rtol=0.0, atol=0.0)


def test_a_match_over_another_name_of_a_value_reads_the_value_that_is_fused() -> None:
    body = "p = R.matmul(x, a)\nq = p\nr = R.nn.relu(q)\ns = r"
    before = _module(body, "q, r, s")
    after = FuseOpsByPattern([_matmul_relu()])(before)
    well_formed(after)
    assert any("Composite" in function.attrs for function in after.functions.values())
    assert_same_values(before, after, rtol=0.0, atol=0.0)


@settings(max_examples=25)
@given(before=programs(most=30))
def test_fused_and_merged_random_programs_keep_their_values(before: IRModule) -> None:
    x, y = wildcard(), wildcard()
    patterns = [
        make_fused_bias_activation_pattern("relax.add", activation="relax.nn.relu"),
        is_op("relax.multiply")(is_op("relax.add")(x, y), wildcard()),
        is_op("relax.add")(wildcard(), wildcard()),
        is_op("relax.permute_dims")(wildcard()),
        is_op("relax.matmul")(wildcard(), wildcard()),
    ]
    fused = FuseOpsByPattern([(f"b{i % 2}.op{i}", pattern) for i, pattern in enumerate(patterns)])(before)
    well_formed(fused)
    assert_same_values(before, fused, rtol=0.0, atol=0.0, seeds=[0])
    merged = MergeCompositeFunctions()(fused)
    well_formed(merged)
    assert_same_values(before, merged, rtol=0.0, atol=0.0, seeds=[0])


# --- ToMixedPrecision


def test_products_are_computed_in_half_precision_and_softmax_is_not() -> None:
    before = program(
        SIGNATURE,
        "p = R.matmul(x, a)\nq = R.nn.softmax(p)\nr = R.matmul(q, b)",
        "r",
    )
    after = ToMixedPrecision()(before)
    well_formed(after)
    calls = {b.var.name_hint: b.value for b in iter_bindings(after) if isinstance(b.value, Call)}
    assert isinstance(calls["q"].args[0].ty, TensorType)
    assert calls["q"].args[0].ty.dtype == "float32"
    products = [call for call in calls.values() if "out_dtype" in call.attrs]
    assert {arg.ty.dtype for call in products for arg in call.args if isinstance(arg.ty, TensorType)} == {"float16"}
    assert {call.attrs.out_dtype for call in products} == {"float32"}
    inputs = random_inputs(before)
    expected, got = run(before, inputs), run(after, inputs)
    assert got.dtype == np.float32
    np.testing.assert_allclose(expected, got, rtol=2e-2, atol=2e-2)


def test_the_narrow_dtype_may_be_bfloat16_whose_range_is_that_of_float32() -> None:
    before = program(SIGNATURE, "p = R.matmul(x, a)\nq = R.nn.softmax(p)\nr = R.matmul(q, b)", "r")
    after = ToMixedPrecision(dtype="bfloat16")(before)
    well_formed(after)
    calls = [b.value for b in iter_bindings(after) if isinstance(b.value, Call) and "out_dtype" in b.value.attrs]
    assert {arg.ty.dtype for call in calls for arg in call.args if isinstance(arg.ty, TensorType)} == {"bfloat16"}
    inputs = random_inputs(before)
    np.testing.assert_allclose(run(before, inputs), run(after, inputs), rtol=5e-2, atol=5e-2)
    large = [inputs[0] * np.float32(1e6), *inputs[1:]]
    assert np.isfinite(run(after, large)).all()
    with pytest.raises(PassError, match='expected "float16" or "bfloat16"'):
        ToMixedPrecision(dtype="float8")


@pytest.mark.parametrize("sensitive", ["R.exp(p)", "R.rsqrt(p)", "R.power(p, R.const(2.0))"])
def test_norms_and_exponentials_read_float32_without_the_policy_of_relax(sensitive: str) -> None:
    before = program(SIGNATURE, f"p = R.abs(R.matmul(x, a))\nq = {sensitive}\nr = R.matmul(q, b)", "r")
    read: list[str | None] = []
    for after in (ToMixedPrecision("float16")(before), ToMixedPrecision("float16", relax_policy=False)(before)):
        well_formed(after)
        [call] = [b.value for b in iter_bindings(after) if b.var.name_hint == "q"]
        assert isinstance(call, Call)
        assert isinstance(call.args[0].ty, TensorType)
        read.append(call.args[0].ty.dtype)
    assert read == ["float16", "float32"]


def test_what_only_moves_numbers_stays_in_half_precision() -> None:
    before = program(
        SIGNATURE, "p = R.matmul(x, a)\nq = R.reshape(p, (4, 2))\nt = R.permute_dims(q)\nr = R.matmul(t, b)", "r"
    )
    after = ToMixedPrecision("float16")(before)
    well_formed(after)
    # Three inputs down, the result up, and nothing in between.
    assert counts(after) == {"astype": 4, "matmul": 2, "reshape": 1, "permute_dims": 1}
    assert after.ret_ty == before.ret_ty


def test_fields_of_a_combined_product_stay_in_half_precision() -> None:
    before = program(
        SIGNATURE, "p = R.matmul(x, a)\ns = R.split(p, 2, axis=1)\nq = R.add(s[0], s[1])\nr = R.exp(q)", "r, q"
    )
    after = ToMixedPrecision("float16")(before)
    well_formed(after)
    inputs = random_inputs(before)
    for want, got in zip(run(before, inputs), run(after, inputs), strict=True):
        assert want.dtype == got.dtype
        np.testing.assert_allclose(want, got, rtol=2e-2, atol=2e-2)


def test_named_parameters_are_given_in_half_precision() -> None:
    before = program(SIGNATURE, "p = R.matmul(x, a)\nr = R.sum(x, axis=[1])", "p, r")
    after = ToMixedPrecision(fp16_input_names=["x"])(before)
    well_formed(after)
    assert [p.ty.dtype for p in after.params if isinstance(p.ty, TensorType)] == ["float16", "float32", "float32"]
    inputs = random_inputs(before)
    inputs[0] = inputs[0].astype(np.float16)
    got = run(after, inputs)
    np.testing.assert_allclose(got[1], inputs[0].astype(np.float32).sum(axis=1), rtol=1e-6)


def test_other_dtypes_are_left() -> None:
    before = program(
        'x: R.Tensor((2, 3), "float64"), a: R.Tensor((3, 4), "float64")', "p = R.matmul(x, a)\nr = R.exp(p)", "r"
    )
    assert ToMixedPrecision()(before) is before


@settings(max_examples=40)
@given(before=programs(most=30))
def test_random_programs_keep_their_dtypes_and_stay_well_formed(before: IRModule) -> None:
    after = ToMixedPrecision()(before)
    well_formed(after)
    assert ToMixedPrecision()(after) is after
    for name, function in before.items():
        assert after[name].ret_ty == function.ret_ty
    inputs = random_inputs(before["main"])
    expected, got = run(before, inputs), run(after, inputs)

    def kinds(value: object) -> object:
        return [kinds(v) for v in value] if isinstance(value, tuple) else np.asarray(value).dtype

    assert kinds(expected) == kinds(got)


def test_dataflow_blocks_in_branches_are_computed_in_half_precision_too() -> None:
    text = """
from regraft.script import relax as R

@R.function
def main(x: R.Tensor((2, 3), "float32"), a: R.Tensor((3, 4), "float32"), c: R.Tensor((), "bool")):
    if c:
        with R.dataflow():
            p = R.matmul(x, a)
            q = R.nn.softmax(p)
            R.output(q)
        r = q
    else:
        r = R.matmul(x, a)
    return r
"""
    before = parse(text)
    assert isinstance(before, Function)
    after = ToMixedPrecision()(before)
    well_formed(after)
    assert counts(after)["astype"] == 4  # two operands, the product, and the softmax's operand again
    assert ToMixedPrecision()(after) is after
    assert after.ret_ty == before.ret_ty
    inputs = random_inputs(before)[:2]
    for branch in (True, False):
        expected, got = (run(one, [*inputs, np.asarray(branch)]) for one in (before, after))
        np.testing.assert_allclose(expected, got, rtol=2e-2, atol=2e-2)


def test_constants_beside_narrow_values_are_read_once_and_without_copies() -> None:
    random = np.random.default_rng(0)
    beside, reads = random.standard_normal((1000, 2000)).astype(np.float32), list[int]()

    def load() -> np.ndarray:
        reads.append(1)
        return beside

    builder, x = BlockBuilder(), Var("x", TensorType((1000, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            product = builder.emit(op.matmul(x, const(random.standard_normal((8, 2000)).astype(np.float32))))
            lazily = Constant(TensorData.lazy(beside.shape, "float32", load))
            out = builder.emit_output(op.matmul(builder.emit(op.add(product, lazily)), const(np.ones((2000, 1), "f4"))))
        builder.emit_func_output(out)
    module = builder.get()
    tracemalloc.start()
    result = ToMixedPrecision()(module)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts(result)["astype"] > counts(module)["astype"]
    assert len(reads) == 1
    assert peak < beside.nbytes / 2

"""Attention in the forms in which it is written out, and what only looks like it; both sides are run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regraft import op as R
from regraft.ir import BlockBuilder, Call, Function, SymVar, TensorType, Var, const, iter_bindings
from regraft.ir.dims import Dim
from regraft.transform import BindParams, FuseAttention, op_counts, report
from tests.kit import assert_close, python_calls
from tests.passes.harness import checked, counts, program, run

# All sizes differ, so that an exchanged axis shows.
B, H, SQ, SK, D, DV = 2, 3, 5, 7, 4, 6
INF = float("inf")
LOWEST = float(np.finfo(np.float32).min)


def _tensors(dtype: str = "float32", **shapes: tuple[int, ...]) -> str:
    return ", ".join(f'{name}: R.Tensor({shape}, "{dtype}")' for name, shape in shapes.items())


HEADS_FIRST = _tensors(q=(B, H, SQ, D), k=(B, H, SK, D), v=(B, H, SK, DV))


def _body(scores: str, *, weights: str = "w = R.nn.softmax(s, axis=-1)") -> str:
    """Attention over (batch, heads, sequence, size) whose scores ``s`` come from ``scores``."""
    return f"kt = R.permute_dims(k, axes=[0, 1, 3, 2])\n{scores}\n{weights}\no = R.matmul(w, v)"


def _attention(function: Function) -> Call:
    """The one call of attention, where nothing of the written-out form is left."""
    found = [b.value for b in iter_bindings(function) if isinstance(b.value, Call)]
    left = counts(function)
    assert left["matmul"] == left["nn.softmax"] == 0
    [call] = [c for c in found if getattr(c.op, "name", "").startswith("relax.nn.attention")]
    return call


def _fused(before: Function, one: Any = None, inputs: Any = None) -> Call:
    return _attention(checked(one or FuseAttention(), before, inputs=inputs))


def _left(before: Function, why: str) -> None:
    """The pass leaves ``before``, and gives a reason with these words."""
    assert FuseAttention()(before) is before
    assert why in str(report(FuseAttention(), before))


def _masked(mask: np.ndarray[Any, Any], step: str, signature: str = HEADS_FIRST) -> Function:
    """Attention with a constant ``mask``, named ``m`` in ``step``."""
    kind = f'm: R.Tensor({mask.shape}, "{mask.dtype}")'
    made = program(f"{signature}, {kind}", _body(f"p = R.matmul(q, kt)\n{step}"), "o")
    return BindParams("main", {"m": mask})(made)


def _with_more(begin: int, end: int, sinks: str = "t") -> Function:
    """Attention whose softmax is over the scores and ``sinks`` (t: one number for each head), some weights cut off."""
    weights = f"""t = R.broadcast_to(a, R.shape([{B}, {H}, {SQ}, 1]))
j = R.concat((s, {sinks}), axis=-1)
f = R.nn.softmax(j, axis=-1)
w = R.strided_slice(f, (3,), ({begin},), ({end},), (1,))"""
    given = f"{HEADS_FIRST}, {_tensors(a=(1, H, 1, 1), b=(B, H, SQ, 1))}"
    return program(given, _body("s = R.matmul(q, kt)", weights=weights), "o")


# --- layouts


SEED = """
q1 = R.reshape(R.permute_dims(q, axes=[0, 2, 1, 3]), R.shape([6, 5, 4]))
k1 = R.reshape(R.permute_dims(k, axes=[0, 2, 1, 3]), R.shape([6, 7, 4]))
v1 = R.reshape(R.permute_dims(v, axes=[0, 2, 1, 3]), R.shape([6, 7, 6]))
kt = R.permute_dims(k1, axes=[{keys}])
s = R.multiply(R.matmul(q1, kt), R.const(0.15811388194561005, "float32"))
w = R.nn.softmax(s, axis=-1)
o = R.matmul(w, v1)
h = R.reshape(o, R.shape([2, 3, 5, 6]))
r = R.permute_dims(h, axes=[0, 2, 1, 3])
"""
HEADS_LAST = _tensors(q=(B, SQ, H, D), k=(B, SK, H, D), v=(B, SK, H, DV))


def test_a_sink_is_named_where_there_is_one_for_each_head() -> None:
    _left(_with_more(0, -1), "a sink takes a part of the weights")
    _left(_with_more(0, SK), "a sink takes a part of the weights")
    _left(
        _with_more(1, SK + 1),
        "joined to something other than a sink for each head, or the weights of the sinks are kept",
    )
    _left(_with_more(0, -1, "b"), "the sinks are not one number for each head")


def test_a_sink_that_is_a_constant_for_every_query_is_one_number_for_each_head() -> None:
    weights = """j = R.concat((s, t), axis=-1)
f = R.nn.softmax(j, axis={axis})
w = R.strided_slice(f, (3,), (0,), (-1,), (1,))"""
    signature = f"{HEADS_FIRST}, {_tensors(t=(B, H, SQ, 1))}"
    before = program(signature, _body("s = R.matmul(q, kt)", weights=weights.format(axis=-1)), "o")
    sinks = np.broadcast_to(np.arange(H, dtype="float32")[:, None, None], (B, H, SQ, 1))
    _left(BindParams("main", {"t": sinks})(before), "a sink takes a part of the weights")
    other = np.arange(B * H * SQ, dtype="float32").reshape(B, H, SQ, 1)
    _left(BindParams("main", {"t": other})(before), "the sinks are not one number for each head")
    along_queries = program(signature, _body("s = R.matmul(q, kt)", weights=weights.format(axis=2)), "o")
    _left(along_queries, "joined to something other than a sink")


def test_a_weight_that_is_cut_off_between_others_is_no_sink() -> None:
    signature = _tensors(q=(B, H, SQ, D), k=(B, H, 2, D), v=(B, H, 2, DV), t=(B, H, SQ, 1))
    weights = """j = R.concat((s, t), axis=-1)
f = R.nn.softmax(j, axis=-1)
w = R.strided_slice(f, (3,), (0,), (3,), (2,))"""
    before = program(signature, _body("s = R.matmul(q, kt)", weights=weights), "o")
    _left(before, "joined to something other than a sink for each head, or the weights of the sinks are kept")


def test_attention_over_three_axes_is_fused_with_nothing_left_around_it() -> None:
    before = program(HEADS_LAST, SEED.format(keys="0, 2, 1"), "r")
    after = checked(FuseAttention(), before)
    assert counts(after) == {"nn.attention": 1}
    [call] = [binding.value for binding in iter_bindings(after)]
    assert isinstance(call, Call)
    assert [arg.name_hint for arg in call.args] == ["q", "k", "v"]  # type: ignore[attr-defined]
    assert call.attrs.scale == 0.15811388194561005


def test_fused_attention_is_what_pytorch_computes() -> None:
    before = program(HEADS_LAST, SEED.format(keys="0, 2, 1"), "r")
    random = np.random.default_rng(0)
    q, k, v = (random.normal(size=s).astype("float32") for s in ((B, SQ, H, D), (B, SK, H, D), (B, SK, H, DV)))
    operands = [torch.from_numpy(x).transpose(1, 2) for x in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*operands, scale=0.15811388194561005)
    assert_close(run(FuseAttention()(before), [q, k, v]), expected.transpose(1, 2).numpy())


def test_a_head_size_that_is_not_the_sequence_still_needs_the_right_axes() -> None:
    square = _tensors(q=(2, 4, 3, 4), k=(2, 4, 3, 4), v=(2, 4, 3, 6))
    body = SEED.replace("6, 5, 4", "6, 4, 4").replace("6, 7, 4", "6, 4, 4").replace("6, 7, 6", "6, 4, 6")
    body = body.replace("2, 3, 5, 6", "2, 3, 4, 6")
    _left(program(square, body.format(keys="0, 1, 2"), "r"), "the keys are permuted by [0, 1, 2]")
    _fused(program(square, body.format(keys="0, -1, 1"), "r"))


@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 1, 0), (0, 1, 2), (2, 0, 1)])
def test_keys_of_three_axes_permuted_by_other_axes_are_left(axes: tuple[int, ...]) -> None:
    # With every size the same, all permutations give something that can be multiplied.
    signature = _tensors(q=(4, 4, 4), k=(4, 4, 4), v=(4, 4, 4))
    body = f"kt = R.permute_dims(k, axes={list(axes)})\nw = R.nn.softmax(R.matmul(q, kt))\no = R.matmul(w, v)"
    _left(program(signature, body, "o"), f"permuted by {list(axes)}")


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 3, 2, 1), (0, 2, 1, 3), (3, 1, 0, 2), (0, 3, 1, 2)])
def test_keys_of_four_axes_permuted_by_other_axes_are_left(axes: tuple[int, ...]) -> None:
    signature = _tensors(q=(4, 4, 4, 4), k=(4, 4, 4, 4), v=(4, 4, 4, 4))
    body = f"kt = R.permute_dims(k, axes={list(axes)})\nw = R.nn.softmax(R.matmul(q, kt))\no = R.matmul(w, v)"
    _left(program(signature, body, "o"), f"permuted by {list(axes)}")


def test_keys_with_heads_before_the_batch_are_permuted_for_what_they_are() -> None:
    signature = _tensors(q=(B, H, SQ, D), k=(H, B, SK, D), v=(B, H, SK, DV))
    body = "w = R.nn.softmax(R.matmul(q, R.permute_dims(k, axes=[1, 0, 3, 2])))\no = R.matmul(w, v)"
    _fused(program(signature, body, "o"))


def test_keys_with_the_sequence_first_are_turned_to_rows() -> None:
    signature = _tensors(q=(SQ, 6, D), k=(SK, 6, D), v=(SK, 6, DV))
    body = """
q1 = R.permute_dims(q, axes=[1, 0, 2])
kt = R.permute_dims(k, axes=[1, 2, 0])
o = R.matmul(R.nn.softmax(R.matmul(q1, kt)), R.permute_dims(v, axes=[1, 0, 2]))
"""
    _fused(program(signature, body, "o"))


def test_queries_and_values_permuted_by_other_axes_keep_their_permutations() -> None:
    signature = _tensors(q=(SQ, B, H, D), k=(B, H, SK, D), v=(B, DV, SK, H))
    body = """
q1 = R.permute_dims(q, axes=[1, 2, 0, 3])
v1 = R.permute_dims(v, axes=[0, 3, 2, 1])
w = R.nn.softmax(R.matmul(q1, R.permute_dims(k, axes=[0, 1, 3, 2])))
o = R.matmul(w, v1)
"""
    _fused(program(signature, body, "o"))


def test_keys_that_were_never_transposed_are_left() -> None:
    signature = _tensors(q=(B, H, SQ, D), k=(B, H, D, SK), v=(B, H, SK, DV))
    _left(program(signature, "w = R.nn.softmax(R.matmul(q, k))\no = R.matmul(w, v)", "o"), "not transposed")


def test_attention_over_four_axes_is_fused_between_permutations() -> None:
    call = _fused(program(HEADS_FIRST, _body("s = R.matmul(q, kt)"), "o"))
    assert call.attrs.scale == 1.0


def test_permutations_that_bring_heads_forward_and_back_are_gone() -> None:
    body = """
q1 = R.permute_dims(q, axes=[0, 2, 1, 3])
kt = R.permute_dims(k, axes=[0, 2, 3, 1])
v1 = R.permute_dims(v, axes=[0, 2, 1, 3])
o = R.matmul(R.nn.softmax(R.matmul(q1, kt)), v1)
r = R.permute_dims(o, axes=[0, 2, 1, 3])
"""
    assert counts(checked(FuseAttention(), program(HEADS_LAST, body, "r"))) == {"nn.attention": 1}


def test_a_result_that_is_seen_in_two_layouts_stays_in_both() -> None:
    body = _body("s = R.matmul(q, kt)") + "\nr = R.permute_dims(o, axes=[0, 2, 1, 3])\ne = R.exp(o)"
    before = program(HEADS_FIRST, body, "o, r, e")
    _fused(before)
    body = SEED.format(keys="0, 2, 1") + "e = R.exp(h)\nf = R.exp(o)"
    _fused(program(HEADS_LAST, body, "r, e, f, o"))


def test_three_axes_that_were_never_four_are_a_batch_of_one_head_each() -> None:
    signature = _tensors(q=(6, SQ, D), k=(6, SK, D), v=(6, SK, DV)) + f', m: R.Tensor((6, {SQ}, {SK}), "int32")'
    body = """
kt = R.permute_dims(k, axes=[0, 2, 1])
s = R.add(R.matmul(q, kt), R.astype(m, "float32"))
o = R.matmul(R.nn.softmax(s), v)
"""
    call = _fused(program(signature, body, "o"))
    assert call.ty.shape == (6, SQ, 1, DV)  # type: ignore[attr-defined]


def test_a_mask_of_three_axes_is_split_into_batch_and_heads_as_the_scores_are() -> None:
    signature = HEADS_LAST + f', m: R.Tensor((6, {SQ}, {SK}), "int32"), n: R.Tensor((1, 1, {SK}), "int32")'
    body = SEED.format(keys="0, 2, 1").replace(
        "w = R.nn.softmax(s, axis=-1)",
        's2 = R.add(R.add(s, R.astype(m, "float32")), R.astype(n, "float32"))\nw = R.nn.softmax(s2, axis=2)',
    )
    _fused(program(signature, body, "r"))


def test_batch_and_heads_that_were_made_one_axis_in_two_ways_are_left() -> None:
    signature = _tensors(q=(2, SQ, 3, D), k=(3, SK, 2, D), v=(2, SK, 3, DV))
    body = """
q1 = R.reshape(R.permute_dims(q, axes=[0, 2, 1, 3]), R.shape([6, 5, 4]))
kt = R.reshape(R.permute_dims(k, axes=[0, 2, 3, 1]), R.shape([6, 4, 7]))
v1 = R.reshape(R.permute_dims(v, axes=[0, 2, 1, 3]), R.shape([6, 7, 6]))
o = R.matmul(R.nn.softmax(R.matmul(q1, kt)), v1)
"""
    _left(program(signature, body, "o"), "split into batch and heads differently")


def test_keys_that_are_one_axis_less_while_they_are_transposed_are_read() -> None:
    body = """
k1 = R.reshape(k, R.shape([6, 7, 4]))
kt = R.reshape(R.permute_dims(k1, axes=[0, 2, 1]), R.shape([2, 3, 4, 7]))
half = R.const(0.7, "float32")
s = R.matmul(R.multiply(q, half), R.multiply(kt, half))
o = R.matmul(R.nn.softmax(s), v)
"""
    call = _fused(program(HEADS_FIRST, body, "o"))
    assert call.attrs.scale == float(np.float32(0.7)) ** 2


def test_a_reshape_that_is_no_split_of_heads_stays() -> None:
    # 6 * 5 * 4 elements either way, but the rows are not those of the heads.
    signature = _tensors(q=(2, 3, 10, 2), k=(2, 3, SK, D), v=(2, 3, SK, DV))
    body = """
q1 = R.reshape(q, R.shape([6, 5, 4]))
k1 = R.reshape(k, R.shape([6, 7, 4]))
v1 = R.reshape(v, R.shape([6, 7, 6]))
o = R.matmul(R.nn.softmax(R.matmul(q1, R.permute_dims(k1, axes=[0, 2, 1]))), v1)
"""
    _fused(program(signature, body, "o"))


def test_repeated_keys_and_values_stay_repeated() -> None:
    signature = _tensors(q=(B, 6, SQ, D), k=(B, 2, SK, D), v=(B, 2, SK, DV))
    body = f"""
k1 = R.reshape(R.broadcast_to(R.expand_dims(k, 2), R.shape([{B}, 2, 3, {SK}, {D}])), R.shape([{B}, 6, {SK}, {D}]))
v1 = R.repeat(v, 3, 1)
kt = R.permute_dims(k1, axes=[0, 1, 3, 2])
o = R.matmul(R.nn.softmax(R.matmul(q, kt)), v1)
"""
    _fused(program(signature, body, "o"))


def test_one_head_of_keys_and_values_is_shared_by_all() -> None:
    call = _fused(
        program(_tensors(q=(B, H, SQ, D), k=(B, 1, SK, D), v=(B, 1, SK, DV)), _body("s = R.matmul(q, kt)"), "o")
    )
    assert call.args[1].ty.shape[2] == 1  # type: ignore[attr-defined]


def test_keys_that_broadcast_over_the_batch_are_left() -> None:
    signature = _tensors(q=(B, H, SQ, D), k=(1, H, SK, D), v=(B, H, SK, DV))
    _left(program(signature, _body("s = R.matmul(q, kt)"), "o"), "batch or heads")


def test_symbolic_batch_and_lengths_are_fused() -> None:
    signature = ", ".join(
        f'{name}: R.Tensor(("b", 3, "{length}", {size}), "float32")'
        for name, length, size in (("q", "n", D), ("k", "m", D), ("v", "m", DV))
    )
    random = np.random.default_rng(1)
    inputs = [random.normal(size=s).astype("float32") for s in ((B, H, SQ, D), (B, H, SK, D), (B, H, SK, DV))]
    _fused(program(signature, _body("s = R.matmul(q, kt)"), "o"), inputs=inputs)


# --- scale

SCALES = {
    "none": ("s = R.matmul(q, kt)", 1.0),
    "times after": ('s = R.multiply(R.matmul(q, kt), R.const(0.3, "float32"))', float(np.float32(0.3))),
    "number on the left": ('s = R.multiply(R.const(0.3, "float32"), R.matmul(q, kt))', float(np.float32(0.3))),
    "divided after": ('s = R.divide(R.matmul(q, kt), R.const(3.0, "float32"))', 1 / 3),
    "queries before": ('s = R.matmul(R.multiply(q, R.const(0.3, "float32")), kt)', float(np.float32(0.3))),
    "keys before": ('s = R.matmul(q, R.divide(kt, R.const(4.0, "float32")))', 0.25),
    "both before": (
        's = R.matmul(R.multiply(q, R.const(0.5, "float32")), R.multiply(kt, R.const(0.5, "float32")))',
        0.25,
    ),
    "one element": ('s = R.multiply(R.matmul(q, kt), R.const([[0.25]], "float32"))', 0.25),
    "negative": ('s = R.multiply(R.matmul(q, kt), R.const(-0.5, "float32"))', -0.5),
}


@pytest.mark.parametrize("name", SCALES)
def test_a_constant_scale_is_passed_on_exactly(name: str) -> None:
    scores, expected = SCALES[name]
    assert _fused(program(HEADS_FIRST, _body(scores), "o")).attrs.scale == expected


def test_keys_that_were_scaled_before_they_were_transposed_are_read() -> None:
    body = """
kt = R.permute_dims(R.multiply(k, R.const(0.5, "float32")), axes=[0, 1, 3, 2])
o = R.matmul(R.nn.softmax(R.matmul(q, kt)), v)
"""
    assert _fused(program(HEADS_FIRST, body, "o")).attrs.scale == 0.5


@pytest.mark.parametrize("factor", ["R.const([[[1.0]], [[2.0]], [[3.0]]], 'float32')", "R.const(0.0, 'float32')"])
def test_a_scale_that_is_no_one_number_or_zero_is_on_the_queries(factor: str) -> None:
    scores = f"s = R.multiply(R.matmul(q, kt), {factor})"
    assert _fused(program(HEADS_FIRST, _body(scores), "o")).attrs.scale == 1.0


def test_a_scale_that_is_divided_by_is_left_unless_it_is_constant() -> None:
    signature = HEADS_FIRST + ', t: R.Tensor((), "float32")'
    _left(program(signature, _body("s = R.divide(R.matmul(q, kt), t)"), "o"), "neither a product")


# --- softmax


@pytest.mark.parametrize("axis", [0, 1, 2, -2, -4])
def test_a_softmax_along_another_axis_is_left(axis: int) -> None:
    body = _body("s = R.matmul(q, kt)", weights=f"w = R.nn.softmax(s, axis={axis})")
    _left(program(HEADS_FIRST, body, "o"), f"along axis {axis}")


def test_the_last_axis_counted_from_the_front_is_the_last() -> None:
    _fused(program(HEADS_FIRST, _body("s = R.matmul(q, kt)", weights="w = R.nn.softmax(s, axis=3)"), "o"))


def test_dropout_that_drops_nothing_is_gone() -> None:
    weights = "w0 = R.nn.softmax(s)\nw1 = R.nn.dropout(w0, 0.1)\nw = w1[0]"
    _fused(program(HEADS_FIRST, _body("s = R.matmul(q, kt)", weights=weights), "o"))


def test_half_precision_with_a_softmax_in_float32_is_fused() -> None:
    signature = _tensors("float16", q=(B, H, SQ, D), k=(B, H, SK, D), v=(B, H, SK, DV))
    weights = 'w0 = R.nn.softmax(R.astype(s, "float32"))\nw = R.astype(w0, "float16")'
    _fused(program(signature, _body("s = R.matmul(q, kt)", weights=weights), "o"))


def test_casts_that_change_nothing_are_gone() -> None:
    weights = 'w0 = R.nn.softmax(s)\nw1 = R.astype(w0, "float32")\nw = R.astype(w1, "float32")'
    _fused(program(HEADS_FIRST, _body("s = R.matmul(q, kt)", weights=weights), "o"))


def test_weights_that_are_rounded_in_between_are_left() -> None:
    weights = 'w0 = R.nn.softmax(s)\nw1 = R.astype(w0, "float16")\nw = R.astype(w1, "float32")'
    _left(program(HEADS_FIRST, _body("s = R.matmul(q, kt)", weights=weights), "o"), "rounded to another dtype")
    scores = 's = R.astype(R.astype(R.matmul(q, kt), "float16"), "float32")'
    _left(program(HEADS_FIRST, _body(scores), "o"), "neither a product")


def test_a_result_in_another_dtype_than_the_operands_is_left() -> None:
    signature = _tensors("float16", q=(B, H, SQ, D), k=(B, H, SK, D), v=(B, H, SK, DV))
    body = _body("s = R.matmul(q, kt)").replace("R.matmul(w, v)", 'R.matmul(w, v, out_dtype="float32")')
    _left(program(signature, body, "o"), "another dtype")


@pytest.mark.parametrize("extra", ["kt", "p", "s", "w"])
def test_only_an_intermediate_that_would_go_may_not_be_an_output(extra: str) -> None:
    body = _body('p = R.matmul(q, kt)\ns = R.multiply(p, R.const(0.5, "float32"))')
    before = program(HEADS_FIRST, body, f"o, {extra}")
    if extra == "kt":
        _fused(before)
    else:
        _left(before, f"{extra} is needed elsewhere")


@pytest.mark.parametrize("extra", ["p", "s", "w"])
def test_an_intermediate_with_another_user_is_left(extra: str) -> None:
    body = _body('p = R.matmul(q, kt)\ns = R.multiply(p, R.const(0.5, "float32"))') + f"\ne = R.exp({extra})"
    _left(program(HEADS_FIRST, body, "o, e"), f"{extra} is needed elsewhere")


def test_scores_that_are_no_product_are_left() -> None:
    body = "w = R.nn.softmax(R.exp(s))\no = R.matmul(w, v)"
    signature = _tensors(s=(B, H, SQ, SK), v=(B, H, SK, DV))
    _left(program(signature, body, "o"), "neither a product")
    _left(program(signature, "w = R.nn.softmax(s)\no = R.matmul(w, v)", "o"), "no product of queries and keys")


def test_six_axes_are_left() -> None:
    signature = _tensors(q=(B, 1, H, 2, SQ, D), k=(B, 1, H, 2, SK, D), v=(B, 1, H, 2, SK, DV))
    body = _body("s = R.matmul(q, kt)").replace("[0, 1, 3, 2]", "[0, 1, 2, 3, 5, 4]")
    _left(program(signature, body, "o"), "three to five axes")


# --- five axes: groups of heads, or a batch of two axes

GROUPED = _tensors(q=(B, H, 4, SQ, D), k=(B, H, 1, SK, D), v=(B, H, 1, SK, DV))


def _grouped(scores: str, signature: str = GROUPED) -> Function:
    return program(signature, _body(scores).replace("[0, 1, 3, 2]", "[0, 1, 2, 4, 3]"), "o")


def test_groups_of_heads_share_their_keys() -> None:
    call = _fused(_grouped("s = R.matmul(q, kt)"))
    assert [arg.ty.shape[2] for arg in call.args] == [4 * H, H, H]  # type: ignore[attr-defined]


def test_five_axes_without_shared_keys_are_a_batch_of_two_axes() -> None:
    signature = _tensors(q=(B, H, 4, SQ, D), k=(B, H, 4, SK, D), v=(B, H, 4, SK, DV))
    call = _fused(_grouped("s = R.matmul(q, kt)", signature))
    assert [arg.ty.shape[0] for arg in call.args] == [B * H] * 3  # type: ignore[attr-defined]


def test_keys_shared_by_heads_that_do_not_follow_each_other_are_left() -> None:
    signature = _tensors(q=(B, H, 4, SQ, D), k=(B, 1, 4, SK, D), v=(B, 1, 4, SK, DV))
    _left(_grouped("s = R.matmul(q, kt)", signature), "batch or heads")


@pytest.mark.parametrize(
    "shape", [(SQ, SK), (4, 1, SK), (H, 1, SQ, SK), (B, 1, 1, 1, SK), (B, H, 4, SQ, SK), (1, 1, 4, SQ, 1)]
)
@pytest.mark.parametrize("shared", [1, 4])
def test_a_mask_on_scores_of_five_axes_gets_the_axes_of_a_bias(shape: tuple[int, ...], shared: int) -> None:
    signature = _tensors(q=(B, H, 4, SQ, D), k=(B, H, shared, SK, D), v=(B, H, shared, SK, DV))
    scores = 's = R.add(R.matmul(q, kt), R.astype(m, "float32"))'
    _fused(_grouped(scores, f'{signature}, m: R.Tensor({shape}, "int32")'))


def test_permutations_around_groups_of_heads_are_gone() -> None:
    signature = _tensors(q=(B, SQ, H, 4, D), k=(B, SK, H, D), v=(B, SK, H, DV))
    body = f"""
q1 = R.permute_dims(q, axes=[0, 2, 3, 1, 4])
k1 = R.expand_dims(R.permute_dims(k, axes=[0, 2, 3, 1]), 2)
v1 = R.expand_dims(R.permute_dims(v, axes=[0, 2, 1, 3]), 2)
o = R.matmul(R.nn.softmax(R.matmul(q1, k1)), v1)
r = R.reshape(R.permute_dims(o, axes=[0, 3, 1, 2, 4]), R.shape([{B}, {SQ}, {4 * H * DV}]))
"""
    after = checked(FuseAttention(), program(signature, body, "r"))
    assert counts(after)["nn.attention"] == 1


# --- masks that are added


@pytest.mark.parametrize("shape", [(B, H, SQ, SK), (B, 1, 1, SK), (1, H, SQ, SK), (SQ, SK), (SK,), (H, 1, 1), (1,), ()])
def test_a_finite_mask_of_any_shape_that_broadcasts_is_a_bias(shape: tuple[int, ...]) -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor({shape}, "int32")'
    scores = """
b = R.multiply(R.subtract(R.const(1.0, "float32"), R.astype(m, "float32")), R.const(0.25, "float32"))
s = R.add(R.multiply(R.matmul(q, kt), R.const(0.5, "float32")), b)
"""
    call = _fused(program(signature, _body(scores.strip()), "o"))
    assert len(call.args) == 4


def test_a_mask_that_is_added_before_the_scale_is_scaled_too() -> None:
    mask = np.linspace(-3, 3, SQ * SK, dtype="float32").reshape(SQ, SK)
    _fused(_masked(mask, 's = R.multiply(R.add(p, m), R.const(0.25, "float32"))'))
    _fused(_masked(mask, 's = R.divide(R.subtract(p, m), R.const(-3.0, "float32"))'))


def test_a_mask_that_widens_the_scores_is_left() -> None:
    signature = _tensors(q=(B, 1, SQ, D), k=(B, 1, SK, D), v=(B, H, SK, DV))
    _left(_masked(np.ones((B, H, SQ, SK), "float32"), "s = R.add(p, m)", signature), "broadcast by a mask")


def test_a_mask_of_four_axes_on_scores_of_three_is_left() -> None:
    signature = _tensors(q=(6, SQ, D), k=(6, SK, D), v=(2, 6, SK, DV)) + ', m: R.Tensor((2, 1, 1, 1), "int32")'
    body = """
p = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))
o = R.matmul(R.nn.softmax(R.add(p, R.astype(m, "float32"))), v)
"""
    _left(program(signature, body, "o"), "broadcast by a mask")


def test_constant_masks_that_hide_and_add_nothing_are_gone() -> None:
    assert len(_fused(_masked(np.zeros((1, 1, SQ, SK), "float32"), "s = R.add(p, m)")).args) == 3
    assert len(_fused(_masked(np.ones((SK,), bool), 's = R.where(m, p, R.const(-1e999, "float32"))')).args) == 3


def test_two_finite_masks_are_added_up() -> None:
    mask = np.linspace(-3, 3, SK, dtype="float32")
    _fused(_masked(mask, 's = R.add(R.multiply(R.add(p, m), R.const(0.5, "float32")), m)'))


def test_a_sum_of_two_products_has_the_first_as_scores() -> None:
    signature = HEADS_FIRST + ", " + _tensors(r=(B, H, SK, D))
    scores = """
rt = R.permute_dims(r, axes=[0, 1, 3, 2])
s = R.add(R.matmul(q, kt), R.matmul(q, rt))
"""
    before = program(signature, _body(scores.strip()), "o")
    _left(before, "may be -inf")
    assert counts(checked(FuseAttention(every_query_sees_a_key=True), before))["nn.attention_bias"] == 1


def test_scores_added_to_themselves_are_left() -> None:
    _left(program(HEADS_FIRST, _body("p = R.matmul(q, kt)\ns = R.add(p, p)"), "o"), "neither a product")


def test_a_mask_that_is_a_weight_is_taken_to_be_finite() -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor((1, {H}, {SQ}, {SK}), "float32")'
    before = program(signature, _body("s = R.add(R.matmul(q, kt), m)"), "o")
    _left(before, "the mask m may be -inf")
    _fused(before.with_attr("num_input", 3))


# --- queries that see no key


def _hiding_a_row() -> np.ndarray[Any, Any]:
    mask = np.zeros((SQ, SK), "float32")
    mask[2] = -INF
    mask[3, 1:4] = -INF
    return mask


def test_a_constant_mask_that_hides_a_whole_row_is_left() -> None:
    _left(_masked(_hiding_a_row(), "s = R.add(p, m)"), "hides all keys from a query")
    _left(_masked(_hiding_a_row() == 0, 's = R.where(m, p, R.const(-1e999, "float32"))'), "hides all keys")


def test_a_constant_mask_that_leaves_every_query_a_key_is_fused() -> None:
    mask = _hiding_a_row()
    mask[2, 5] = 0.5
    _fused(_masked(mask, "s = R.add(p, m)"))
    _fused(_masked(mask > -1, 's = R.where(m, p, R.const(-1e999, "float32"))'))


def test_a_boolean_mask_with_infinite_numbers_needs_a_promise() -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor(({B}, 1, 1, {SK}), "bool")'
    before = program(signature, _body('s = R.where(m, R.matmul(q, kt), R.const(-1e999, "float32"))'), "o")
    _left(before, "every_query_sees_a_key=True")
    random = np.random.default_rng(3)
    inputs: list[Any] = [
        random.normal(size=s).astype("float32") for s in ((B, H, SQ, D), (B, H, SK, D), (B, H, SK, DV))
    ]
    mask = np.ones((B, 1, 1, SK), bool)
    mask[0, 0, 0, 4:] = False
    _fused(before, FuseAttention(every_query_sees_a_key=True), [*inputs, mask])


def test_a_boolean_mask_with_the_lowest_number_needs_no_promise() -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor(({B}, 1, {SQ}, {SK}), "bool")'
    before = program(signature, _body(f's = R.where(m, R.const({LOWEST!r}, "float32"), R.matmul(q, kt))'), "o")
    random = np.random.default_rng(4)
    inputs: list[Any] = [
        random.normal(size=s).astype("float32") for s in ((B, H, SQ, D), (B, H, SK, D), (B, H, SK, DV))
    ]
    mask = random.random((B, 1, SQ, SK)) < 0.5
    mask[1, 0, 2] = True  # nothing is visible: all keys count the same, before and after
    _fused(before, inputs=[*inputs, mask])


def test_numbers_that_do_not_hide_are_left() -> None:
    _left(_masked(np.tri(SQ, SK) > 0, 's = R.where(m, p, R.const(-3.0, "float32"))'), "does not hide them")


def test_hidden_rows_that_are_made_zero_need_no_promise() -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor(({B}, 1, {SQ}, {SK}), "bool")'
    weights = 'w0 = R.nn.softmax(s)\nw = R.where(R.isnan(w0), R.const({number}, "float32"), w0)'
    scores = 's = R.where(m, R.matmul(q, kt), R.const(-1e999, "float32"))'
    before = program(signature, _body(scores, weights=weights.format(number=0.0)), "o")
    random = np.random.default_rng(5)
    inputs: list[Any] = [
        random.normal(size=s).astype("float32") for s in ((B, H, SQ, D), (B, H, SK, D), (B, H, SK, DV))
    ]
    mask = random.random((B, 1, SQ, SK)) < 0.5
    mask[1, 0, 2] = False
    _fused(before, inputs=[*inputs, mask])
    _left(program(signature, _body(scores, weights=weights.format(number=1.0)), "o"), "a result other than 0")


def _guarded(number: float, more: str = "") -> Function:
    signature = f'{HEADS_FIRST}, m: R.Tensor(({B}, 1, {SQ}, {SK}), "bool")'
    body = _body('s = R.where(m, R.matmul(q, kt), R.const(-1e999, "float32"))')
    guard = f'g = R.where(R.isnan(o), R.const({number}, "float32"), o)\nr = R.add(g, {more or "g"})'
    return program(signature, f"{body}\n{guard}", "r")


def test_a_result_that_is_made_zero_where_it_is_nan_needs_no_promise() -> None:
    random = np.random.default_rng(6)
    inputs: list[Any] = [
        random.normal(size=s).astype("float32") for s in ((B, H, SQ, D), (B, H, SK, D), (B, H, SK, DV))
    ]
    mask = random.random((B, 1, SQ, SK)) < 0.5
    mask[1, 0, 2] = False
    after = checked(FuseAttention(), _guarded(0.0), inputs=[*inputs, mask])
    assert _attention(after).op.name == "relax.nn.attention_bias"  # type: ignore[union-attr]
    assert counts(after)["isnan"] == 0
    _left(_guarded(1.0), "which gives NaN here and 0 by nn.attention")
    _left(_guarded(0.0, more="o"), "which gives NaN here and 0 by nn.attention")


@pytest.mark.parametrize("fill", [-INF, LOWEST])
def test_a_constant_bias_of_attention_is_the_mask_that_it_is(fill: float) -> None:
    size = 5
    signature = (
        f'{_tensors(q=(B, size, H, D), k=(B, size, H, D), v=(B, size, H, DV))}, m: R.Tensor((1, 1, 5, 5), "float32")'
    )
    made = program(signature, "o = R.nn.attention_bias(q, k, v, m, scale=0.25)", "o")

    def after(mask: np.ndarray[Any, Any]) -> Call:
        before = BindParams("main", {"m": mask.astype("float32")[None, None]})(made)
        [call] = [b.value for b in iter_bindings(checked(FuseAttention(), before))]
        assert isinstance(call, Call)
        return call

    lower = np.tri(size, dtype=bool)
    triangle, nothing = after(np.where(lower, 0, fill)), after(np.zeros((size, size)))
    assert (len(triangle.args), triangle.attrs.causal_mask) == (3, "TopLeft")
    assert (len(nothing.args), nothing.attrs.causal_mask) == (3, None)
    for other in (np.where(lower.T, 0, fill), np.where(lower, 0, -2.0), np.where(lower, 0.5, fill)):
        assert len(after(other).args) == 4


@pytest.mark.parametrize(("least", "kept"), [(0, "nn.attention"), (1, "nn.attention_bias")])
@pytest.mark.parametrize("keys", [1100, SymVar("n")])
def test_a_mask_of_places_that_hides_nothing_is_left_out(keys: Dim, least: int, kept: str) -> None:
    q, k, v = (Var(name, TensorType((1, keys, 2, 4), "float32")) for name in "qkv")
    builder = BlockBuilder()
    with builder.function("main", [q, k, v]):
        with builder.dataflow():
            places = builder.emit(R.expand_dims(R.arange(0, keys, 1, "int64"), [0, 1, 3]))
            seen = builder.emit(R.broadcast_to(R.greater_equal(places, const(least, "int64")), (1, 1, keys, keys)))
            mask = builder.emit(R.where(seen, const(0.0, "float32"), const(-INF, "float32")))
            out = builder.emit_output(R.nn.attention_bias(q, k, v, mask))
        builder.emit_func_output(out)
    assert counts(FuseAttention()(builder.finalize()))[kept] == 1


def test_a_number_that_a_later_scale_makes_small_does_not_hide() -> None:
    step = 't = R.where(m, p, R.const(-1e6, "float32"))\ns = R.multiply(t, R.const({0}, "float32"))'
    _fused(_masked(np.tri(SQ, SK, 1) > 0, step.format(0.5)))
    _left(_masked(np.tri(SQ, SK, 1) > 0, step.format(1e-6)), "does not hide them")


def test_scores_turned_around_after_a_mask_are_left() -> None:
    step = 's = R.multiply(R.where(m, p, R.const(-1e999, "float32")), R.const(-1.0, "float32"))'
    _left(_masked(np.tri(SQ, SK, dtype=bool), step), "transposed after")


# --- causal masks


@pytest.mark.parametrize("fill", [-INF, LOWEST])
@pytest.mark.parametrize("form", ["added", "chosen", "chosen otherwise"])
@pytest.mark.parametrize(("offset", "kind"), [(0, "TopLeft"), (SK - SQ, "BottomRight")])
def test_a_constant_triangle_is_a_causal_mask(offset: int, kind: str, form: str, fill: float) -> None:
    visible = np.tri(SQ, SK, offset, dtype=bool)
    number = f'R.const({"-1e999" if fill == -INF else fill}, "float32")'
    if form == "added":
        before = _masked(np.where(visible, 0, fill).astype("float32")[None, None], "s = R.add(p, m)")
    elif form == "chosen":
        before = _masked(visible, f"s = R.where(m, p, {number})")
    else:
        before = _masked(~visible, f"s = R.where(m, {number}, p)")
    call = _fused(before)
    assert call.attrs.causal_mask == kind
    assert len(call.args) == 3


@pytest.mark.parametrize("change", ["one more", "one less", "shifted", "transposed", "not so low"])
def test_what_is_nearly_a_triangle_is_a_bias(change: str) -> None:
    mask = np.where(np.tri(SQ, SK, dtype=bool), 0, -INF).astype("float32")
    if change == "one more":
        mask[1, 2] = 0
    elif change == "one less":
        mask[3, 0] = -INF
    elif change == "shifted":
        mask = np.where(np.tri(SQ, SK, 1, dtype=bool), 0, -INF).astype("float32")
    elif change == "transposed":
        mask = np.where(np.tri(SK, SQ, SK - SQ, dtype=bool).T, 0, -INF).astype("float32")
    else:
        mask[mask < 0] = -9.0
    call = _fused(_masked(mask, "s = R.add(p, m)"))
    assert call.attrs.causal_mask is None
    assert len(call.args) == 4


def test_masks_that_differ_between_heads_are_no_causal_mask() -> None:
    mask = np.zeros((1, H, SQ, SK), "float32")
    mask[0, 0] = np.where(np.tri(SQ, SK, dtype=bool), 0, -INF)
    assert _fused(_masked(mask, "s = R.add(p, m)")).attrs.causal_mask is None


def test_a_triangle_that_leaves_the_first_queries_without_keys_is_not_fused() -> None:
    signature = _tensors(q=(B, H, SK, D), k=(B, H, SQ, D), v=(B, H, SQ, DV))
    visible = np.tri(SK, SQ, SQ - SK, dtype=bool)
    _left(_masked(np.where(visible, 0, -INF).astype("float32"), "s = R.add(p, m)", signature), "hides all keys")
    finite = _masked(np.where(visible, 0, LOWEST).astype("float32"), "s = R.add(p, m)", signature)
    assert _fused(finite).attrs.causal_mask is None


def test_a_causal_mask_beside_a_finite_bias_keeps_both() -> None:
    signature = f'{HEADS_FIRST}, n: R.Tensor((1, {H}, {SQ}, {SK}), "int32")'
    step = 's = R.add(R.where(m, p, R.const(-1e999, "float32")), R.astype(n, "float32"))'
    call = _fused(_masked(np.tri(SQ, SK, dtype=bool), step, signature))
    assert call.attrs.causal_mask == "TopLeft"
    assert len(call.args) == 4


# --- many


def test_every_layer_is_fused_and_the_cost_stays_linear() -> None:
    def layers(count: int) -> Function:
        body = ["y0 = q"]
        for i in range(count):
            body += [
                f"t{i} = R.permute_dims(y{i}, axes=[0, 1, 3, 2])",
                f'p{i} = R.multiply(R.matmul(y{i}, t{i}), R.const(0.5, "float32"))',
                f"w{i} = R.nn.softmax(R.add(p{i}, b))",
                f"y{i + 1} = R.add(R.matmul(w{i}, y{i}), y{i})",
            ]
        signature = _tensors(q=(B, H, SQ, D)) + f', m: R.Tensor((1, 1, 1, {SQ}), "int32")'
        made = ["b0 = R.astype(m, 'float32')", f"b = R.broadcast_to(b0, R.shape([1, 1, {SQ}, {SQ}]))", *body]
        return program(signature, "\n".join(made), f"y{count}")

    def work(count: int) -> int:
        before = layers(count)
        assert op_counts(FuseAttention()(before))["relax.nn.attention_bias"] == count
        return python_calls(lambda: FuseAttention()(before))

    work(4)
    few, many = work(20), work(80)
    assert many < 4 * few * 1.2

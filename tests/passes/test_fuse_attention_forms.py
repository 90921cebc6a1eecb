"""Further forms of written-out attention: einsum, repeated heads, reshapes on the way, floors; both sides are run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regraft.ir import Call, Function, Op, iter_bindings
from regraft.transform import BindParams, FuseAttention
from tests.passes.harness import checked, counts, program
from tests.passes.test_fuse_attention import (
    DV,
    HEADS_FIRST,
    HEADS_LAST,
    LOWEST,
    SK,
    SQ,
    B,
    D,
    H,
    _body,
    _fused,
    _left,
    _tensors,
)


def _inputs(*masks: Any) -> list[Any]:
    random = np.random.default_rng(7)
    shapes = ((B, H, SQ, D), (B, H, SK, D), (B, H, SK, DV))
    return [*(random.normal(size=shape).astype("float32") for shape in shapes), *masks]


def _calls(function: Function) -> list[Call]:
    """The calls of attention."""
    values = [binding.value for binding in iter_bindings(function) if isinstance(binding.value, Call)]
    return [call for call in values if isinstance(call.op, Op) and call.op.name.startswith("relax.nn.attention")]


def _heads(call: Call) -> list[int]:
    return [arg.ty.shape[2] for arg in call.args[:3]]  # type: ignore[attr-defined]


# --- einsum

EINSUMS = {
    "heads first": (HEADS_FIRST, "bhqd,bhkd->bhqk", "bhqk,bhkv->bhqv"),
    "heads last": (HEADS_LAST, "bqhd,bkhd->bhqk", "bhqk,bkhv->bqhv"),
    "keys first": (HEADS_LAST, "bqhd,bkhd->bhqk", "bhqk,bkhv->bhqv"),
    "result turned": (HEADS_LAST, "bqhd,bkhd->bhqk", "bhqk,bkhv->vbhq"),
    "sequence first": (
        _tensors(q=(SQ, B, H, D), k=(SK, B, H, D), v=(SK, B, H, DV)),
        "ibnd,jbnd->bnij",
        "bnij,jbnd->ibnd",
    ),
    "dots": (HEADS_LAST, "...qhd,...khd->...hqk", "...hqk,...khd->...qhd"),
    "one head of keys": (_tensors(q=(B, H, SQ, D), k=(B, SK, D), v=(B, SK, DV)), "bhqd,bkd->bhqk", "bhqk,bkv->bhqv"),
    "groups of heads": (
        _tensors(q=(B, SQ, H, 4, D), k=(B, SK, H, D), v=(B, SK, H, DV)),
        "bqgrd,bkgd->bgrqk",
        "bgrqk,bkgv->bqgrv",
    ),
    "no heads": (_tensors(q=(B, SQ, D), k=(B, SK, D), v=(B, SK, DV)), "bqd,bkd->bqk", "bqk,bkv->bqv"),
}


def _einsum(name: str, scores: str = 'R.multiply(p, R.const(0.3, "float32"))') -> Function:
    signature, first, second = EINSUMS[name]
    body = f"""
p = R.einsum((q, k), subscripts="{first}")
w = R.nn.softmax({scores}, axis=-1)
o = R.einsum((w, v), subscripts="{second}")
"""
    return program(signature, body, "o")


@pytest.mark.parametrize("name", EINSUMS)
def test_products_that_are_written_as_einsum_are_read_by_their_letters(name: str) -> None:
    before = _einsum(name)
    after = checked(FuseAttention(), before)
    assert counts(after)["einsum"] == counts(after)["nn.softmax"] == 0
    [call] = _calls(after)
    assert call.attrs.scale == float(np.float32(0.3))


def test_einsum_over_heads_last_leaves_nothing_around_attention() -> None:
    assert counts(checked(FuseAttention(), _einsum("heads last"))) == {"nn.attention": 1}


def test_operands_of_einsum_may_stand_in_either_order() -> None:
    body = """
p = R.einsum((k, q), subscripts="bkhd,bqhd->bhqk")
w = R.nn.softmax(p, axis=-1)
o = R.einsum((v, w), subscripts="bkhv,bhqk->bqhv")
"""
    assert counts(checked(FuseAttention(), program(HEADS_LAST, body, "o"))) == {"nn.attention": 1}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("bhqd,bhkd->bhkq", "bhqk,bhkv->bhqv"),  # the softmax is then along the queries
        ("bhqd,bhkd->hbqk", "bhqk,bhkv->bhqv"),
        ("bhqd,hbkd->bhqk", "bhqk,bhkv->bhqv"),
        ("bhqd,bhkd->bhqk", "bhqk,hbkv->bhqv"),
        ("bhqd,bhkd->bhqk", "bhqk,bhkv->hbqv"),
        ("bhqd,bhkd->bhqk", "bhqk,bhqv->bhkv"),
    ],
)
def test_einsum_letters_decide_which_axis_is_which_where_all_sizes_are_the_same(first: str, second: str) -> None:
    signature = _tensors(q=(3, 3, 3, 3), k=(3, 3, 3, 3), v=(3, 3, 3, 3))
    body = f"""
p = R.einsum((q, k), subscripts="{first}")
w = R.nn.softmax(p, axis=-1)
o = R.einsum((w, v), subscripts="{second}")
"""
    checked(FuseAttention(), program(signature, body, "o"))


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ("bhqd,bhkd->bhqk", "bhqk,bhkv->bhv", "not summed along the keys"),
        ("bhqd,bhkd->bhqk", "bhqk,bhqv->bhkv", "not summed along the keys"),
        ("bhqd,bhkc->bhqk", "bhqk,bhkv->bhqv", "summed along more than the head size"),
        ("bhqd,bhkk->bhqk", "bhqk,bhkv->bhqv", "summed along more than the head size"),
    ],
)
def test_other_sums_are_left(first: str, second: str, why: str) -> None:
    signature = _tensors(q=(2, 3, 4, 4), k=(2, 3, 4, 4), v=(2, 3, 4, 4))
    body = f"""
p = R.einsum((q, k), subscripts="{first}")
w = R.nn.softmax(p, axis=-1)
o = R.einsum((w, v), subscripts="{second}")
"""
    _left(program(signature, body, "o"), why)


# --- repeated heads

REPEATED = _tensors(q=(B, 6, SQ, D), k=(B, 2, SK, D), v=(B, 2, SK, DV))
REPEATS = {
    "repeat": ("R.repeat(k, 3, 1)", "R.repeat(v, 3, 1)"),
    "expand": tuple(
        f"R.reshape(R.broadcast_to(R.expand_dims({x}, 2), R.shape([2, 2, 3, 7, {n}])), R.shape([2, 6, 7, {n}]))"
        for x, n in (("k", D), ("v", DV))
    ),
    "reshape and expand": tuple(
        f"R.reshape(R.broadcast_to(R.reshape({x}, R.shape([2, 2, 1, 7, {n}])), R.shape([2, 2, 3, 7, {n}])), "
        f"R.shape([2, 6, 7, {n}]))"
        for x, n in (("k", D), ("v", DV))
    ),
}
ATTEND = """
k1 = {k}
v1 = {v}
kt = R.permute_dims(k1, axes=[0, 1, 3, 2])
o = R.matmul(R.nn.softmax(R.matmul(q, kt)), v1)
"""


@pytest.mark.parametrize("name", REPEATS)
def test_repeated_heads_of_keys_and_values_are_shared_instead(name: str) -> None:
    keys, values = REPEATS[name]
    after = checked(FuseAttention(), program(REPEATED, ATTEND.format(k=keys, v=values), "o"))
    assert counts(after) == {"nn.attention": 1, "permute_dims": 4}
    [call] = _calls(after)
    assert _heads(call) == [6, 2, 2]


def test_heads_that_are_tiled_rather_than_repeated_stay_tiled() -> None:
    # Head i of the queries has key i % 2 then, not key i // 3.
    body = ATTEND.format(k="R.tile(k, [1, 3, 1, 1])", v="R.tile(v, [1, 3, 1, 1])")
    after = checked(FuseAttention(), program(REPEATED, body, "o"))
    assert counts(after)["tile"] == 2
    other = "R.reshape(R.broadcast_to(R.expand_dims({0}, 1), R.shape([2, 3, 2, 7, {1}])), R.shape([2, 6, 7, {1}]))"
    body = ATTEND.format(k=other.format("k", D), v=other.format("v", DV))
    assert counts(checked(FuseAttention(), program(REPEATED, body, "o")))["broadcast_to"] == 2


def test_keys_that_are_repeated_without_their_values_stay_repeated() -> None:
    signature = _tensors(q=(B, 6, SQ, D), k=(B, 2, SK, D), v=(B, 6, SK, DV))
    after = checked(FuseAttention(), program(signature, ATTEND.format(k="R.repeat(k, 3, 1)", v="v"), "o"))
    assert counts(after)["repeat"] == 1


def test_a_sequence_that_is_repeated_is_no_head() -> None:
    body = ATTEND.format(k="R.repeat(k, 3, 2)", v="R.repeat(v, 3, 2)")
    signature = _tensors(q=(B, 2, SQ, D), k=(B, 2, SK, D), v=(B, 2, SK, DV))
    assert counts(checked(FuseAttention(), program(signature, body, "o")))["repeat"] == 2


# --- axes that are joined and split between products and softmax

JOINED = """
q1 = R.reshape(q, R.shape([6, 5, 4]))
k1 = R.reshape(k, R.shape([6, 7, 4]))
v1 = R.reshape(v, R.shape([6, 7, 6]))
p = R.matmul(q1, R.permute_dims(k1, axes=[0, 2, 1]))
{scores}
o1 = R.matmul(R.reshape(w, R.shape([6, 5, 7])), v1)
o = R.reshape(o1, R.shape([2, 3, 5, 6]))
"""


def test_masks_before_and_after_heads_are_split_off_are_one_bias() -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor((6, 1, {SK}), "int32"), n: R.Tensor(({B}, 1, {SQ}, {SK}), "int32")'
    scores = """s = R.add(p, R.astype(m, "float32"))
t = R.multiply(R.reshape(s, R.shape([2, 3, 5, 7])), R.const(0.4, "float32"))
w = R.nn.softmax(R.add(t, R.astype(n, "float32")))"""
    call = _fused(program(signature, JOINED.format(scores=scores), "o"))
    assert call.args[3].ty.shape == (B, H, SQ, SK)  # type: ignore[attr-defined]


def test_weights_that_are_regrouped_by_other_sizes_are_left() -> None:
    body = """
w = R.nn.softmax(R.matmul(q, R.permute_dims(k, axes=[0, 1, 3, 2])))
w1 = R.reshape(w, R.shape([2, 3, 4, 8]))
o = R.matmul(w1, v)
"""
    signature = _tensors(q=(2, 3, 8, 5), k=(2, 3, 4, 5), v=(2, 3, 8, 6))
    _left(program(signature, body, "o"), "reshaped to other queries and keys")


def test_scores_that_are_reshaped_across_queries_are_left() -> None:
    signature = _tensors(q=(2, 3, 8, 5), k=(2, 3, 4, 5), v=(2, 3, 8, 6))
    scores = "s = R.reshape(R.matmul(q, kt), R.shape([2, 3, 4, 8]))"
    _left(program(signature, _body(scores), "o"), "neither a product")


# --- floors, caps and masks by comparison


def _mask() -> np.ndarray[Any, Any]:
    mask = np.zeros((B, 1, SQ, SK), "float32")
    mask[0, 0, :, 4:] = -np.inf
    mask[1, 0, 2] = -np.inf  # a query that sees no key
    return mask


@pytest.mark.parametrize(
    "floor", [f"R.maximum(t, R.const({LOWEST!r}, 'float32'))", f"R.clip(t, {LOWEST!r}, {-LOWEST!r})"]
)
def test_a_floor_under_masked_scores_lifts_queries_that_see_no_key(floor: str) -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor(({B}, 1, {SQ}, {SK}), "float32")'
    before = program(signature, _body(f"t = R.add(R.matmul(q, kt), m)\ns = {floor}"), "o")
    # Such a query has the mean of all values, and no NaN; with a bias of -inf it would get zeros.
    _fused(before, inputs=_inputs(_mask()))


def test_a_floor_that_scores_may_fall_below_is_left() -> None:
    for floor in ("R.maximum(t, R.const(-5.0, 'float32'))", f"R.clip(t, {LOWEST!r}, 30.0)"):
        _left(program(HEADS_FIRST, _body(f"t = R.matmul(q, kt)\ns = {floor}"), "o"), "neither a product")


def test_a_floor_of_minus_infinity_lifts_nothing() -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor(({B}, 1, {SQ}, {SK}), "float32")'
    floor = 't = R.add(R.matmul(q, kt), m)\ns = R.maximum(t, R.const(-1e999, "float32"))'
    _left(program(signature, _body(floor), "o"), "may be -inf")


def test_two_masks_over_a_floor_are_a_bias_over_it() -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor(({B}, 1, 1, {SK}), "float32")'
    triangle = np.tri(SQ, SK, dtype=bool)
    made = program(
        f"{signature}, c: R.Tensor({triangle.shape}, 'bool')",
        _body(
            f"""
t = R.add(R.where(c, R.matmul(q, kt), R.const(-1e999, "float32")), m)
s = R.maximum(t, R.const({LOWEST!r}, "float32"))
""".strip()
        ),
        "o",
    )
    mask = np.zeros((B, 1, 1, SK), "float32")
    mask[1, 0, 0, 0] = -np.inf  # with the triangle, the first query sees no key
    call = _fused(BindParams("main", {"c": triangle})(made), inputs=_inputs(mask))
    assert call.attrs.causal_mask is None


def test_scores_that_are_capped_by_a_tanh_are_left() -> None:
    scores = """
t = R.multiply(R.matmul(q, kt), R.const(0.02, "float32"))
s = R.multiply(R.tanh(t), R.const(50.0, "float32"))
"""
    reason = "the scores are capped at 50 by tanh, which nn.attention does not do"
    _left(program(HEADS_FIRST, _body(scores.strip()), "o"), reason)


@pytest.mark.parametrize("shape", [(H, 1, 1), (B, H, SQ, 1), (SQ, 1), (B, 1, 1, 1), (1,)])
def test_scores_times_a_tensor_of_other_axes_than_the_keys_are_those_of_other_queries(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(3)
    factor, mask = (random.normal(size=s).astype("float32") for s in (shape, (B, H, SQ, SK)))
    signature = f"{HEADS_FIRST}, {_tensors(t=shape, m=mask.shape)}"
    scores = 'p = R.multiply(R.matmul(q, kt), R.const(0.5, "float32"))\ns = R.add(R.multiply(p, t), m)'
    _fused(program(signature, _body(scores), "o"), FuseAttention(True), inputs=_inputs(factor, mask))


@pytest.mark.parametrize(
    ("shape", "scores", "why"),
    [
        ((SK,), "s = R.multiply(R.matmul(q, kt), t)", "differs from key to key"),
        ((H, SQ, SK), "s = R.multiply(t, R.matmul(q, kt))", "differs from key to key"),
        ((H, 1, 1), "s = R.multiply(R.add(R.matmul(q, kt), t), t)", "masked or capped are multiplied by a tensor"),
    ],
)
def test_scores_times_a_tensor_that_is_not_of_the_queries_are_left(shape: Any, scores: str, why: str) -> None:
    _left(program(f"{HEADS_FIRST}, {_tensors(t=shape)}", _body(scores), "o"), why)


def test_a_tanh_of_scores_that_are_masked_before_is_no_cap() -> None:
    masked = """
a = R.add(R.matmul(q, kt), R.const(1.0, "float32"))
s = R.tanh(a)
"""
    reason = "is a tanh of scores that are masked, or capped, before"
    _left(program(HEADS_FIRST, _body(masked.strip()), "o"), reason)
    _left(program(HEADS_FIRST, _body("s = R.tanh(R.tanh(R.matmul(q, kt)))"), "o"), reason)


def test_slopes_by_distance_are_a_bias() -> None:
    signature = f'{HEADS_FIRST}, n: R.Tensor(({B}, {SK}), "int64")'
    slopes = ", ".join(f"[[{2.0**-i}]]" for i in range(1, H + 1))
    scores = f"""
d = R.divide(R.astype(R.cumsum(n, 1), "float32"), R.const(2.0, "float32"))
a = R.multiply(R.const([{slopes}], "float32"), R.reshape(d, R.shape([{B}, 1, 1, {SK}])))
s = R.add(R.multiply(R.matmul(q, kt), R.const(0.5, "float32")), a)
"""
    call = _fused(program(signature, _body(scores.strip()), "o"))
    assert call.args[3].ty.shape == (B, H, 1, SK)  # type: ignore[attr-defined]


def test_a_bias_that_is_computed_from_the_queries_is_as_finite_as_they_are() -> None:
    signature = HEADS_FIRST + ", " + _tensors(r=(D, SK))
    scores = """
q1 = R.multiply(q, R.const(0.5, "float32"))
s = R.add(R.matmul(q1, kt), R.matmul(q, r))
"""
    before = program(signature, _body(scores.strip()), "o")
    _left(before, "may be -inf")  # r may be any input
    after = checked(FuseAttention(), before.with_attr("num_input", 3))
    assert counts(after)["nn.attention_bias"] == 1


def test_division_by_what_may_be_zero_is_not_known_to_be_finite() -> None:
    signature = f'{HEADS_FIRST}, n: R.Tensor(({SK},), "int64")'
    scores = """
d = R.divide(R.const(-1.0, "float32"), R.astype(n, "float32"))
s = R.add(R.matmul(q, kt), d)
"""
    _left(program(signature, _body(scores.strip()), "o"), "may be -inf")


def test_a_fill_that_is_written_out_for_every_score_is_one_number() -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor(({B}, 1, {SQ}, {SK}), "bool")'
    scores = f's = R.where(m, R.matmul(q, kt), R.full(R.shape([{B}, {H}, {SQ}, {SK}]), R.const({LOWEST!r}, "float32")))'
    mask = np.random.default_rng(3).random((B, 1, SQ, SK)) < 0.6
    _fused(program(signature, _body(scores), "o"), inputs=_inputs(mask))


def test_half_precision_that_is_scaled_in_float32_is_scaled() -> None:
    signature = _tensors("float16", q=(B, H, SQ, D), k=(B, H, SK, D), v=(B, H, SK, DV))
    scores = """
p = R.astype(R.matmul(q, kt), "float32")
s = R.astype(R.astype(R.divide(p, R.const(2.0, "float32")), "float16"), "float32")
"""
    weights = 'w = R.astype(R.nn.softmax(s), "float16")'
    call = _fused(program(signature, _body(scores.strip(), weights=weights), "o"))
    assert call.attrs.scale == 0.5


@pytest.mark.parametrize("rows", ["q", "k, v"])
def test_a_sequence_that_is_broadcast_stays_broadcast(rows: str) -> None:
    sizes = {"q": (SQ, D), "k": (SK, D), "v": (SK, DV)}
    signature = _tensors(**{x: (B, H, 1 if x in rows else n, size) for x, (n, size) in sizes.items()})
    lines = [f"{x} = R.broadcast_to({x}, R.shape([{B}, {H}, {sizes[x][0]}, {sizes[x][1]}]))" for x in rows.split(", ")]
    scores = 's = R.add(R.matmul(q, kt), R.astype(m, "float32"))'
    body = "\n".join([*lines, _body(scores)])
    after = checked(FuseAttention(), program(f'{signature}, m: R.Tensor(({SQ}, {SK}), "int32")', body, "o"))
    assert counts(after)["nn.attention_bias"] == 1


def test_operands_of_different_dtypes_are_left() -> None:
    signature = _tensors("float16", q=(B, H, SQ, D), k=(B, H, SK, D), v=(B, H, SK, DV))
    scores = 's = R.astype(R.multiply(R.matmul(q, kt), R.const(0.5, "float16")), "float32")'
    wide = _body(scores, weights="w = R.nn.softmax(s)").replace("R.matmul(w, v)", 'R.matmul(w, R.astype(v, "float32"))')
    before = program(signature, wide, "o")
    _left(before, "queries, keys and values have different dtypes")


# --- scores and weights on other axes

TURNED = {
    "keys times queries, turned back": """
s = R.permute_dims(R.matmul(k, R.permute_dims(q, axes=[0, 1, 3, 2])), axes=[0, 1, 3, 2])
o = R.matmul(R.nn.softmax(R.add(s, b)), v)""",
    "a softmax along the first of the last two axes": """
s = R.add(R.matmul(k, R.permute_dims(q, axes=[0, 1, 3, 2])), R.permute_dims(b, axes=[0, 1, 3, 2]))
o = R.matmul(R.permute_dims(R.nn.softmax(s, axis=2), axes=[0, 1, 3, 2]), v)""",
    "values times weights": """
s = R.add(R.matmul(k, R.permute_dims(q, axes=[0, 1, 3, 2])), R.permute_dims(b, axes=[0, 1, 3, 2]))
o = R.matmul(R.permute_dims(v, axes=[0, 1, 3, 2]), R.nn.softmax(s, axis=-2))""",
    "heads last in the scores": """
s = R.add(R.einsum((q, k), subscripts="bhqd,bhkd->bqkh"), R.permute_dims(b, axes=[0, 2, 3, 1]))
o = R.einsum((R.nn.softmax(s, axis=2), v), subscripts="bqkh,bhkv->bhqv")""",
    "keys first in the scores": """
s = R.add(R.einsum((k, q), subscripts="bhkd,bhqd->kbhq"), R.permute_dims(b, axes=[3, 0, 1, 2]))
o = R.einsum((v, R.nn.softmax(s, axis=0)), subscripts="bhkv,kbhq->bqhv")""",
    "queries and keys in two axes for a bias": f"""
p = R.reshape(R.matmul(q, R.permute_dims(k, axes=[0, 1, 3, 2])), R.shape([{B}, {H}, 2, 3, 4, 2]))
s = R.reshape(R.add(p, n), R.shape([{B}, {H}, 6, 8]))
o = R.matmul(R.nn.softmax(s), v)""",
}


@pytest.mark.parametrize("name", TURNED)
def test_scores_may_have_their_axes_in_any_order(name: str) -> None:
    queries, keys = (6, 8) if "two axes" in name else (SQ, SK)
    operands = _tensors(q=(B, H, queries, D), k=(B, H, keys, D), v=(B, H, keys, DV))
    masks = f'm: R.Tensor((1, {H}, {queries}, {keys}), "int32"), w: R.Tensor(({B}, {H}, 2, 3, 4, 1), "int32")'
    body = f'b = R.astype(m, "float32")\nn = R.astype(w, "float32"){TURNED[name]}'
    _fused(program(f"{operands}, {masks}", body, "o"))


def test_one_head_of_keys_may_be_read_by_the_queries_of_all_heads_in_one_product() -> None:
    signature = (
        _tensors(q=(B, H * SQ, D), k=(B, SK, D), v=(B, SK, DV)) + f', m: R.Tensor(({B}, 1, {SQ}, {SK}), "int32")'
    )
    body = f"""
p = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))
s = R.add(R.reshape(p, R.shape([{B}, {H}, {SQ}, {SK}])), R.astype(m, "float32"))
o = R.matmul(R.reshape(R.nn.softmax(s), R.shape([{B}, {H * SQ}, {SK}])), v)
"""
    assert _heads(_fused(program(signature, body, "o"))) == [H, 1, 1]


def test_a_constant_triangle_under_turned_scores_is_a_causal_mask() -> None:
    scores = 's = R.where(m, R.matmul(k, R.permute_dims(q, axes=[0, 1, 3, 2])), R.const(-1e999, "float32"))'
    body = f"{scores}\no = R.matmul(R.permute_dims(R.nn.softmax(s, axis=2), axes=[0, 1, 3, 2]), v)"
    signature = f'{HEADS_FIRST}, m: R.Tensor(({SK}, {SQ}), "bool")'
    before = BindParams("main", {"m": np.tri(SQ, SK, dtype=bool).T})(program(signature, body, "o"))
    assert _fused(before).attrs.causal_mask == "TopLeft"


# --- queries that see no key, where the mask is a finite number

INFINITE, LOW, LEAST = (f'R.const({number}, "float32")' for number in ("-1e999", "-1e9", repr(LOWEST)))
NOT_SEEING = {
    "one mask": f"s = R.where(m, p, {LOW})",
    "scaled after it": f's = R.multiply(R.where(m, p, {LOW}), R.const(0.5, "float32"))',
    "a triangle before it": f"s = R.where(m, R.where(c, p, {INFINITE}), {LOW})",
    "a triangle after it": f"s = R.where(c, R.where(m, p, {LOW}), {INFINITE})",
    "the lowest number": f"s = R.where(m, R.where(c, p, {INFINITE}), {LEAST})",
    "a floor": f"s = R.maximum(R.where(c, R.where(m, p, {LEAST}), {INFINITE}), {LEAST})",
}


@pytest.mark.parametrize("name", NOT_SEEING)
def test_queries_that_see_no_key_under_a_finite_mask_have_the_mean_that_they_had(name: str) -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor(({B}, 1, {SQ}, {SK}), "bool"), c: R.Tensor(({SQ}, {SK}), "bool")'
    before = BindParams("main", {"c": np.tri(SQ, SK, dtype=bool)})(
        program(signature, _body(f"p = R.matmul(q, kt)\n{NOT_SEEING[name]}"), "o")
    )
    mask = np.random.default_rng(5).random((B, 1, SQ, SK)) < 0.5
    mask[..., 0] = True
    mask[1, 0, 2] = False
    _fused(before, inputs=_inputs(mask))


def test_the_reason_says_what_a_finite_mask_gives() -> None:
    signature = f'{HEADS_FIRST}, m: R.Tensor(({B}, 1, {SQ}, {SK}), "bool"), n: R.Tensor(({SK},), "int32")'
    scores = 's = R.add(R.where(m, R.matmul(q, kt), R.const(-1e9, "float32")), R.astype(n, "float32"))'
    _left(program(signature, _body(scores), "o"), "which gives a mean of all values here and another one")
    scores = scores.replace("-1e9", "-1e999")
    _left(program(signature, _body(scores), "o"), "which gives NaN here and 0 by nn.attention")

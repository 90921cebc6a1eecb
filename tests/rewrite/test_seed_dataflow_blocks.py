"""Rewriting several bindings of a dataflow block together: the query, key and value projections, and their general
form, any number of matmuls that share a left side.

Each rewrite is checked by value, with all sizes different.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from regraft import BlockBuilder, TensorType, Var
from regraft.dpl import *
from regraft.ir import Function
from regraft.rewrite import Bindings
from regraft.script import relax as R
from tests.rewrite.harness import assert_rewritten, bound_names, op_counts


@R.function
def qkv(
    x1: R.Tensor((2, 11, 7), "float32"),
    w0: R.Tensor((7, 3), "float32"),
    w1: R.Tensor((7, 4), "float32"),
    w2: R.Tensor((7, 5), "float32"),
):
    with R.dataflow():
        lv0 = R.matmul(x1, w0)
        lv1 = R.matmul(x1, w1)
        lv2 = R.matmul(x1, w2)
        out = (lv0, lv1, lv2)
        R.output(out)
    return out


def _qkv_rule():
    """The rewriter of the document: slices of one matmul take the place of three."""
    with PatternContext() as ctx:
        inp_pat = wildcard()
        Q_weight_pat = wildcard()
        K_weight_pat = wildcard()
        V_weight_pat = wildcard()
        matmul1 = is_op("relax.matmul")(inp_pat, Q_weight_pat)
        matmul2 = is_op("relax.matmul")(inp_pat, K_weight_pat)
        matmul3 = is_op("relax.matmul")(inp_pat, V_weight_pat)

    def qkv_proj_rewriter(matchings, _):
        inp = matchings[inp_pat]
        weights = [matchings[pattern] for pattern in (Q_weight_pat, K_weight_pat, V_weight_pat)]
        matmul = R.matmul(inp, R.concat(weights, axis=1))
        ends = np.cumsum([weight.ty.shape[1] for weight in weights]).tolist()
        axis = inp.ty.ndim - 1
        Q = R.strided_slice(matmul, axes=[axis], begin=[0], end=[ends[0]])
        K = R.strided_slice(matmul, axes=[axis], begin=[ends[0]], end=[ends[1]])
        V = R.strided_slice(matmul, axes=[axis], begin=[ends[1]], end=[ends[2]])
        return {matchings[matmul1]: Q, matchings[matmul2]: K, matchings[matmul3]: V}

    return ctx, qkv_proj_rewriter


def test_query_key_and_value_become_slices_of_one_matmul() -> None:
    after = rewrite_bindings(*_qkv_rule(), qkv)
    assert op_counts(after) == {"relax.concat": 1, "relax.matmul": 1, "relax.strided_slice": 3}
    assert_rewritten(qkv, after)


def test_replaced_bindings_keep_their_names_and_the_new_values_come_before_them() -> None:
    names = bound_names(rewrite_bindings(*_qkv_rule(), qkv))
    assert [name for name in names if name in ("lv0", "lv1", "lv2", "out")] == ["lv0", "lv1", "lv2", "out"]
    assert names.index("lv0") == 2


def test_a_rewriter_sees_what_each_variable_is_bound_to() -> None:
    ctx, rule = _qkv_rule()
    seen: list[list[str]] = []

    def rewriter(matchings, bindings):
        seen.append([binding.op.name for var, binding in bindings.items() if var.name_hint.startswith("lv")])
        return rule(matchings, bindings)

    rewrite_bindings(ctx, rewriter, qkv)
    assert seen == [["relax.matmul"] * 3]


def test_weights_that_are_transposed_between_the_matmuls_come_before_their_concat() -> None:
    @R.function
    def contrived(
        x1: R.Tensor((2, 11, 7), "float32"),
        w0: R.Tensor((3, 7), "float32"),
        w1: R.Tensor((7, 4), "float32"),
        w2: R.Tensor((5, 7), "float32"),
    ):
        with R.dataflow():
            w0_t = R.permute_dims(w0, axes=None)
            lv0 = R.matmul(x1, w0_t)
            w1_t = R.permute_dims(w1, axes=None)
            w1_t_t = R.permute_dims(w1_t, axes=None)
            lv1 = R.matmul(x1, w1_t_t)
            w2_t = R.permute_dims(w2, axes=None)
            lv2 = R.matmul(x1, w2_t)
            out = (lv0, lv1, lv2)
            R.output(out)
        return out

    after = rewrite_bindings(*_qkv_rule(), contrived)
    assert op_counts(after)["relax.matmul"] == 1
    names = bound_names(after)
    assert max(names.index(name) for name in ("w0_t", "w1_t", "w1_t_t", "w2_t")) < names.index("lv0")
    assert_rewritten(contrived, after)


def _layers(widths: list[tuple[int, ...]], left: int = 7) -> Function:
    """One block of layers; each multiplies its own left side, of ``left`` columns, by weights of these widths."""
    batch = Var("x", TensorType((11, left), "float32"))
    weights = [
        [Var(f"w{layer}_{i}", TensorType((left, width), "float32")) for i, width in enumerate(row)]
        for layer, row in enumerate(widths)
    ]
    backs = [Var(f"back{i}", TensorType((sum(row), left), "float32")) for i, row in enumerate(widths)]
    builder = BlockBuilder()
    with builder.function("main", [batch, *(w for row in weights for w in row), *backs]):
        with builder.dataflow():
            value = batch
            for row, back in zip(weights, backs, strict=True):
                products = [builder.emit(R.nn.relu(builder.emit(R.matmul(value, w)))) for w in row]
                joined = builder.emit(R.concat(products, axis=1))
                value = builder.emit(R.tanh(builder.emit(R.matmul(joined, back))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()["main"]


def test_the_same_pattern_many_times_in_one_block_is_rewritten_everywhere() -> None:
    before = _layers([(2, 3, 4), (3, 5, 1), (2, 6, 4), (1, 2, 3), (5, 4, 3)])
    after = rewrite_bindings(*_qkv_rule(), before)
    assert op_counts(after)["relax.matmul"] == 5 + 5
    assert op_counts(after)["relax.strided_slice"] == 15
    assert_rewritten(before, after)


def _join(inp, weights):
    """One matmul, and the split that gives the parts."""
    product = R.matmul(inp, R.concat(weights, axis=1))
    ends = np.cumsum([weight.ty.shape[1] for weight in weights])[:-1].tolist()
    return R.split(product, ends, axis=inp.ty.ndim - 1)


def _explicit(count: int):
    """The generic pattern of the document: ``count`` matmuls with one left side, each a pattern of its own."""
    with PatternContext() as ctx:
        inp_pat = wildcard()
        weight_pats = [wildcard() for _ in range(count)]
        matmul_pats = [is_op("relax.matmul")(inp_pat, weight_pat) for weight_pat in weight_pats]

    def rewriter(matchings, _):
        parts = _join(matchings[inp_pat], [matchings[w] for w in weight_pats])
        return {matchings[pat]: parts[i] for i, pat in enumerate(matmul_pats)}

    return ctx, rewriter


def _repeated(_count: int = 0):
    """The same with `repeat`: as many matmuls as there are."""
    with PatternContext() as ctx:
        inp_pat = wildcard()
        weight_pat = wildcard()
        matmul_pat = is_op("relax.matmul")(inp_pat, weight_pat)
        repeat(matmul_pat, min=2, shared=[inp_pat])

    def rewriter(matchings, _):
        parts = _join(matchings[inp_pat], matchings[weight_pat])
        return {var: parts[i] for i, var in enumerate(matchings[matmul_pat])}

    return ctx, rewriter


def _parallel(count: int) -> Function:
    """``count`` matmuls of one left side and weights of widths 1, 2, 3, 1, 2, 3 ..., all returned."""
    x = Var("x", TensorType((5, 7), "float32"))
    weights = [Var(f"w{i}", TensorType((7, i % 3 + 1), "float32")) for i in range(count)]
    builder = BlockBuilder()
    with builder.function("main", [x, *weights]):
        with builder.dataflow():
            result = builder.emit_output([builder.emit(R.matmul(x, weight)) for weight in weights])
        builder.emit_func_output(result)
    return builder.get()["main"]


@pytest.mark.parametrize("count", [2, 3, 12, 32, 200])
@pytest.mark.parametrize("make_rule", [_explicit, _repeated])
def test_any_number_of_parallel_matmuls_becomes_one(count: int, make_rule: Callable[[int], tuple]) -> None:
    before = _parallel(count)
    after = rewrite_bindings(*make_rule(count), before)
    assert op_counts(after) == {"relax.concat": 1, "relax.matmul": 1, "relax.split": 1}
    assert_rewritten(before, after)


def test_explicit_patterns_are_applied_until_fewer_matmuls_are_left_than_they_are() -> None:
    before = _parallel(8)
    after = rewrite_bindings(*_explicit(3), before)
    # Each round makes one matmul of three, and that one may be taken again: 8, 6, 4, 2.
    assert op_counts(after)["relax.matmul"] == 2
    assert_rewritten(before, after)


def test_explicit_patterns_do_not_match_fewer_matmuls_than_they_are() -> None:
    before = _parallel(3)
    assert rewrite_bindings(*_explicit(4), before) is before


def test_a_repeat_needs_the_number_that_its_minimum_says() -> None:
    before = _parallel(1)
    assert rewrite_bindings(*_repeated(), before) is before


def test_a_repeat_combines_groups_of_different_sizes_each_by_its_own_left_side() -> None:
    before = _layers([(2, 3), (4, 1, 2, 5), (3, 2, 1), (6,)])
    after = rewrite_bindings(*_repeated(), before)
    # Three groups, a single matmul, and the four that join each layer.
    assert op_counts(after)["relax.matmul"] == 3 + 1 + 4
    assert_rewritten(before, after)


def test_the_second_weight_may_depend_on_the_first_result_and_is_then_left_alone() -> None:
    @R.function
    def dependent(x: R.Tensor((5, 7), "float32"), w1: R.Tensor((7, 3), "float32"), w3: R.Tensor((7, 2), "float32")):
        with R.dataflow():
            y1 = R.matmul(x, w1)
            w2 = R.nn.relu(R.matmul(R.permute_dims(x), y1))
            y2 = R.matmul(x, w2)
            y3 = R.matmul(x, w3)
            out = (y1, y2, y3)
            R.output(out)
        return out

    declined: list[str | None] = []
    ctx, rewriter = _explicit(2)
    rule = PatternMatchingRewriter.from_pattern(ctx, rewriter)
    after = rule(dependent, listener=lambda event: declined.append(event.reason))
    assert declined[0] is not None
    assert declined[0].startswith("the replacement would depend on itself: ")
    assert op_counts(after)["relax.matmul"] == 3
    assert_rewritten(dependent, after)


def test_a_rewriter_can_leave_out_what_depends_on_the_rest_and_combine_the_others() -> None:
    @R.function
    def dependent(x: R.Tensor((5, 7), "float32"), w1: R.Tensor((7, 3), "float32"), w3: R.Tensor((7, 2), "float32")):
        with R.dataflow():
            y1 = R.matmul(x, w1)
            w2 = R.nn.relu(R.matmul(R.permute_dims(x), y1))
            y2 = R.matmul(x, w2)
            y3 = R.matmul(x, w3)
            out = (y1, y2, y3)
            R.output(out)
        return out

    with PatternContext() as ctx:
        left, right = wildcard(), wildcard()
        product = is_op("relax.matmul")(left, right)
        repeat(product, min=2, shared=[left])

    def rewriter(matchings, bindings: Bindings):
        taken: dict[Var, object] = {}
        for var, weight in zip(matchings[product], matchings[right], strict=True):
            if not bindings.depends_on(weight, taken):
                taken[var] = weight
        if len(taken) < 2:
            return {}
        parts = _join(matchings[left], list(taken.values()))
        return {var: parts[i] for i, var in enumerate(taken)}

    after = rewrite_bindings(ctx, rewriter, dependent)
    assert op_counts(after)["relax.matmul"] == 3
    assert_rewritten(dependent, after)

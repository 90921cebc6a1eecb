"""The tutorial on rewriting with the pattern language: its programs and patterns, with only the imports changed.

What each example prints there is written here as the expected program. Where it is cheap to run, both sides are run;
the attention block is also run in a small size of which no two sizes are equal.
"""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft.dpl import *
from regraft.ir import Function, assert_structural_equal
from regraft.script import relax as R
from tests.rewrite.harness import assert_rewritten, run
from tests.script.programs import attention

INPUTS = [np.linspace(-2.0, 2.0, 1024, dtype="float32") + shift for shift in (0.0, 0.25, 1.5)]


@R.function
def doubled_twice(x: R.Tensor((16, 16), "float32")) -> R.Tensor((16, 16), "float32"):
    with R.dataflow():
        x2 = R.add(x, x)
        x4 = R.add(x2, x2)
        R.output(x4)
    return x4


def _named_main(function: Function) -> Function:
    """The tutorial calls each of its programs ``main`` (or nothing, if private); here they need names of their own."""
    return function.with_attr("global_symbol", "main")


def test_a_value_added_to_itself_becomes_twice_the_value() -> None:
    x = wildcard()
    pattern = is_op("relax.add")(x, x)

    def rewriter(_, matchings):
        return R.multiply(matchings[x], R.const(2, "float32"))

    rewritten = rewrite_call(pattern, rewriter, _named_main(doubled_twice))

    @R.function
    def main(x: R.Tensor((16, 16), dtype="float32")) -> R.Tensor((16, 16), dtype="float32"):
        with R.dataflow():
            x2: R.Tensor((16, 16), dtype="float32") = R.multiply(x, R.const(2.0, "float32"))
            x4: R.Tensor((16, 16), dtype="float32") = R.multiply(x2, R.const(2.0, "float32"))
            R.output(x4)
        return x4

    assert_structural_equal(rewritten, main)
    assert_rewritten(doubled_twice, rewritten, exact=True)


def _chain_pattern():
    x = wildcard()
    add1 = is_op("relax.add")(x, x)
    return x, is_op("relax.add")(add1, add1)


def test_a_chain_of_two_additions_becomes_four_times_the_value() -> None:
    x, pattern = _chain_pattern()

    def rewriter(_, matchings):
        return R.multiply(matchings[x], R.const(4, "float32"))

    rewritten = rewrite_call(pattern, rewriter, _named_main(doubled_twice))

    @R.function
    def main(x: R.Tensor((16, 16), dtype="float32")) -> R.Tensor((16, 16), dtype="float32"):
        with R.dataflow():
            x4: R.Tensor((16, 16), dtype="float32") = R.multiply(x, R.const(4.0, "float32"))
            R.output(x4)
        return x4

    assert_structural_equal(rewritten, main)
    assert_rewritten(doubled_twice, rewritten, exact=True)


def test_a_rewriter_that_returns_the_original_leaves_the_program_as_it_is() -> None:
    _, pattern = _chain_pattern()
    seen = []

    def rewriter(orig, _):
        seen.append(orig)
        return orig

    rewritten = rewrite_call(pattern, rewriter, doubled_twice)
    assert rewritten is doubled_twice
    assert len(seen) == 1


@R.function
def small_attention_block(
    Q: R.Tensor((2, 7, 3, 4), "float32"), K: R.Tensor((2, 5, 3, 4), "float32"), V: R.Tensor((2, 5, 3, 4), "float32")
):
    with R.dataflow():
        lv58 = R.permute_dims(Q, axes=[0, 2, 1, 3])
        lv59 = R.reshape(lv58, R.shape([6, 7, 4]))
        lv61 = R.permute_dims(K, axes=[0, 2, 1, 3])
        lv62 = R.reshape(lv61, R.shape([6, 5, 4]))
        lv64 = R.permute_dims(V, axes=[0, 2, 1, 3])
        lv65 = R.reshape(lv64, R.shape([6, 5, 4]))
        lv62_transposed = R.permute_dims(lv62, axes=[0, 2, 1])
        lv3_1 = R.matmul(lv59, lv62_transposed)
        lv68 = R.multiply(lv3_1, R.const(0.5, "float32"))
        lv69 = R.nn.softmax(lv68, axis=-1)
        lv_3 = R.matmul(lv69, lv65)
        lv71 = R.reshape(lv_3, R.shape([2, 3, 7, 4]))
        lv72 = R.permute_dims(lv71, axes=[0, 2, 1, 3])
        R.output(lv72)
    return lv72


def _attention_pattern():
    """The tutorial's pattern. What it calls V is permuted and multiplied first: it stands for the program's K."""

    def BSNH_to_BSH(tensor):
        return is_op("relax.reshape")(is_op("relax.permute_dims")(tensor), wildcard())

    def BSH_to_BSNH(tensor):
        return is_op("relax.permute_dims")(is_op("relax.reshape")(tensor, wildcard()))

    Q = wildcard()
    K = wildcard()
    V = wildcard()

    Q_3D = BSNH_to_BSH(Q)
    V_3D = BSNH_to_BSH(V)
    K_3D = BSNH_to_BSH(K)

    matmul1 = is_op("relax.matmul")(Q_3D, is_op("relax.permute_dims")(V_3D))
    multiply = is_op("relax.multiply")(matmul1, is_const())
    softmax = is_op("relax.nn.softmax")(multiply)
    matmul2 = is_op("relax.matmul")(softmax, K_3D)
    return Q, K, V, BSH_to_BSNH(matmul2)


def test_the_attention_block_becomes_one_call() -> None:
    Q, K, V, pattern = _attention_pattern()

    def rewriter(_, matchings):
        return R.nn.attention(matchings[Q], matchings[K], matchings[V])

    rewritten = rewrite_call(pattern, rewriter, _named_main(attention))

    @R.function
    def main(
        Q: R.Tensor((2, 4096, 8, 40), dtype="float32"),
        K: R.Tensor((2, 4096, 8, 40), dtype="float32"),
        V: R.Tensor((2, 4096, 8, 40), dtype="float32"),
    ) -> R.Tensor((2, 4096, 8, 40), dtype="float32"):
        with R.dataflow():
            lv72: R.Tensor((2, 4096, 8, 40), dtype="float32") = R.nn.attention(
                Q, V, K, scale=None, causal_mask=None, window_size=None
            )
            R.output(lv72)
        return lv72

    assert_structural_equal(rewritten, main)


def test_the_attention_block_keeps_its_value_when_the_names_are_put_right() -> None:
    Q, K, V, pattern = _attention_pattern()

    def rewriter(_, matchings):
        return R.nn.attention(matchings[Q], matchings[V], matchings[K])

    rewritten = rewrite_call(pattern, rewriter, small_attention_block)
    assert [b.value.op.name for b in rewritten.body.blocks[0]] == ["relax.nn.attention"]
    assert_rewritten(small_attention_block, rewritten)


@pytest.mark.parametrize("const_first", [True, False])
def test_a_commutative_operator_matches_its_constant_on_either_side(const_first: bool) -> None:
    @R.function(private=True)
    def const_left(
        x: R.Tensor((1024,)),
    ):
        with R.dataflow():
            y = R.add(x, x)
            out = R.add(R.const(1.0), y)
            R.output(out)
        return out

    @R.function(private=True)
    def const_right(x: R.Tensor((1024,))):
        with R.dataflow():
            y = R.add(x, x)
            out = R.add(y, R.const(1.0))
            R.output(out)
        return out

    pattern_add = is_op("relax.add")
    pattern_mul = is_op("relax.multiply")
    pattern_op = pattern_add | pattern_mul
    pattern_arg = wildcard()
    pattern_const = is_const()

    pattern = pattern_op(pattern_arg, pattern_const)

    def rewriter(expr, matches):
        op = matches[pattern_op]
        arg = matches[pattern_arg]
        const = matches[pattern_const].data.numpy()
        if const.shape == () and const[()] == 1.0:
            return rx.Call(op, [arg, rx.const(2.0)])
        return expr

    after = rewrite_call(pattern, rewriter, const_left if const_first else const_right)

    @R.function(private=True)
    def expected(x: R.Tensor((1024,))) -> R.Tensor((1024,)):
        with R.dataflow():
            y: R.Tensor((1024,)) = R.add(x, x)
            out: R.Tensor((1024,)) = R.add(y, R.const(2.0, "float32"))
            R.output(out)
        return out

    assert_structural_equal(after, expected)
    np.testing.assert_array_equal(run(after, INPUTS[:1])[0], INPUTS[0] * 2 + 2)


def test_a_product_is_distributed_over_sums_until_nothing_is_left_to_do() -> None:
    @R.function(private=True)
    def before(
        x: R.Tensor((1024,)),
        y: R.Tensor((1024,)),
        z: R.Tensor((1024,)),
    ):
        with R.dataflow():
            a = R.add(x, y)
            b = R.add(a, z)
            out = R.multiply(b, R.const(5.0))
            R.output(out)
        return out

    pattern_add_lhs = wildcard()
    pattern_add_rhs = wildcard()
    pattern_add = is_op("relax.add")(pattern_add_lhs, pattern_add_rhs)

    mul_const = is_const()
    pattern_mul = is_op("relax.multiply")(pattern_add, mul_const)

    pattern = pattern_mul

    def rewriter(_expr, matches):
        const = matches[mul_const]
        return (matches[pattern_add_lhs] * const) + (matches[pattern_add_rhs] * const)

    after = rewrite_call(pattern, rewriter, before)

    @R.function(private=True)
    def expected(x: R.Tensor((1024,)), y: R.Tensor((1024,)), z: R.Tensor((1024,))) -> R.Tensor((1024,)):
        with R.dataflow():
            lv3: R.Tensor((1024,)) = R.multiply(x, R.const(5.0, "float32"))
            lv4: R.Tensor((1024,)) = R.multiply(y, R.const(5.0, "float32"))
            lv1: R.Tensor((1024,)) = R.add(lv3, lv4)
            lv2: R.Tensor((1024,)) = R.multiply(z, R.const(5.0, "float32"))
            out: R.Tensor((1024,)) = R.add(lv1, lv2)
            R.output(out)
        return out

    assert_structural_equal(after, expected)
    assert_rewritten(before, after, inputs=INPUTS)

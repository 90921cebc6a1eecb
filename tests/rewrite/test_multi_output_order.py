"""A rule with several outputs may name them in any order."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.analysis import well_formed
from regraft.dpl import PatternContext, is_op, wildcard
from regraft.rewrite import rewrite_bindings
from regraft.script import relax as R


@R.function
def chain(x: R.Tensor((2, 3), "float32"), w: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    with R.dataflow():
        s = R.add(x, w)
        n = R.nn.relu(s)
        t = R.exp(n)
        R.output(t)
    return t


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_values_that_only_each_other_use_are_replaced_in_any_order(order: tuple[int, ...]) -> None:
    with PatternContext() as context:
        left, right = wildcard(), wildcard()
        total = is_op("relax.add")(left, right)
        positive = is_op("relax.nn.relu")(total)
        last = is_op("relax.exp")(positive)

    def rewriter(matchings: Mapping[Any, Any], _bindings: Mapping[Any, Any]) -> dict[Any, Any]:
        first = R.subtract(matchings[left], matchings[right])
        second = R.nn.gelu(first)
        rows = [
            (matchings[total], first),
            (matchings[positive], second),
            (matchings[last], R.tanh(second)),
        ]
        return dict(rows[place] for place in order)

    after = rewrite_bindings(context, rewriter, chain)
    well_formed(after)
    rows = [binding.value.op.name for block in after.body.blocks for binding in block]
    assert rows == ["relax.subtract", "relax.nn.gelu", "relax.tanh"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_an_operand_that_only_a_replaced_value_used_stays_for_another_replacement(order: tuple[int, ...]) -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32")) -> R.Tensor((6,), "float32"):
        with R.dataflow():
            s = R.negative(x)
            a = R.exp(s)
            t = R.permute_dims(a)
            v = R.reshape(t, R.shape([6]))
            y = R.abs(v)
            R.output(y)
        return y

    with PatternContext() as context:
        data = wildcard()
        root = is_op("relax.exp")(data)

    def rewriter(matchings: Mapping[Any, Any], bindings: Any) -> dict[Any, Any]:
        [turned] = bindings.users_of(matchings[root])
        [flat] = bindings.users_of(turned)
        rows = [
            (matchings[root], R.permute_dims(turned)),
            (turned, R.tanh(R.permute_dims(matchings[data]))),
            (flat, R.reshape(turned, [6])),
        ]
        return dict(rows[place] for place in order)

    after = rewrite_bindings(context, rewriter, before)
    well_formed(after)
    rows = [binding.value.op.name for block in after.body.blocks for binding in block]
    assert rows == ["relax.negative", "relax.permute_dims", "relax.tanh", "relax.reshape", "relax.abs"]


@pytest.mark.parametrize("later_first", [False, True])
def test_a_rewriter_class_may_return_the_later_value_first(later_first: bool) -> None:
    @R.rewriter
    class Forward:
        @R.function
        def pattern(a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32")):
            s = R.add(a, b)
            n = R.nn.relu(s)
            return s, n

        @R.function
        def replacement(a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32")):
            s = R.subtract(a, b)
            n = R.nn.gelu(s)
            return s, n

    @R.rewriter
    class Backward:
        @R.function
        def pattern(a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32")):
            s = R.add(a, b)
            n = R.nn.relu(s)
            return n, s

        @R.function
        def replacement(a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32")):
            s = R.subtract(a, b)
            n = R.nn.gelu(s)
            return n, s

    after = (Backward if later_first else Forward)(chain)
    well_formed(after)
    x, w = np.random.default_rng(1).normal(size=(2, 2, 3)).astype("float32")
    run = rx.build(rx.IRModule({"f": after}), target="numpy")
    want = rx.build(rx.IRModule({"f": _expected}), target="numpy")
    np.testing.assert_array_equal(run["f"](x, w), want["f"](x, w))


@R.function
def _expected(x: R.Tensor((2, 3), "float32"), w: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
    with R.dataflow():
        s = R.subtract(x, w)
        n = R.nn.gelu(s)
        t = R.exp(n)
        R.output(t)
    return t

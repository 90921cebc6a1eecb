"""Rules over branches: what stands in a side may stand in the replacement, with what computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.analysis import well_formed
from regraft.dpl import Matchings, is_const, is_if, is_op, wildcard
from regraft.rewrite import RewriteError
from regraft.script import relax as R

NESTED = """
@R.function
def main(c: R.Tensor((), "bool"), d: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    h = R.cos(x)
    if c:
        u = R.tanh(h)
        if d:
            v = R.sin(u)
            inner = R.add(u, v)
        else:
            inner = R.exp(h)
        y = R.multiply(inner, u)
    else:
        y = R.exp(h)
    z = R.negative(y)
    return z
"""


def same_on_all_sides(before: rx.Function, after: rx.Function) -> None:
    assert after is not before
    module = rx.IRModule({"main": after})
    assert well_formed(module)
    rx.assert_structural_equal(rx.parse(after.script()), after)
    x = np.linspace(-1, 2, 3, dtype="float32")
    for target in ("numpy", "torch", "onnxruntime"):
        for sides in ((True, True), (True, False), (False, True), (False, False)):
            given = [np.array(side) for side in sides]
            wanted = np.asarray(rx.build(before, "numpy")["main"](*given, x))
            np.testing.assert_allclose(np.asarray(rx.build(module, target)["main"](*given, x)), wanted, rtol=1e-6)


def test_values_of_a_side_stand_in_a_branch_of_the_replacement() -> None:
    c, d, first, second, other, factor = (wildcard() for _ in range(6))
    pattern = is_if(c, is_op("relax.multiply")(is_if(d, first, second), factor), other)

    def apart(expr: rx.Expr, found: Matchings):
        either = rx.If(found[d], found[first] * found[factor], found[second] * found[factor])
        return rx.If(found[c], either, R.negative(R.negative(found[other])))

    before = rx.parse(NESTED)
    same_on_all_sides(before, rx.Rule(pattern, apart, "factor into the sides")(before, verify="values"))


def test_values_of_both_sides_stand_outside_of_a_branch() -> None:
    c, first, other = wildcard(), wildcard(), wildcard()
    pattern = is_if(c, is_op("relax.multiply")(first, wildcard()), is_op("relax.exp")(other))
    x = wildcard()
    rule = rx.Rule(
        is_op("relax.negative")(is_if(c, x, is_op("relax.exp")(other))),
        lambda expr, found: rx.If(found[c], R.negative(found[x]), R.negative(R.exp(found[other]))),
        "negate in the sides",
    )
    before = rx.parse(NESTED)
    same_on_all_sides(before, rule(before, verify="values"))
    to_where = rx.Rule(
        pattern,
        lambda expr, found: R.where(found[c], found[pattern.then], R.exp(found[other])),
        "where",
    )
    same_on_all_sides(before, to_where(before, verify="values"))


@pytest.mark.parametrize("side", [True, False])
def test_a_side_is_taken_whole(side: bool) -> None:
    decided = is_const().has_dtype("bool")

    def take(expr: Any, found: Matchings):
        return expr.true_branch if found[decided].data.numpy() else expr.false_branch

    rule = rx.Rule(is_if(decided, wildcard(), wildcard()), take, "decided")
    before = rx.parse(NESTED.replace("if c:", f'if R.const({side}, "bool"):'))
    after = rule(before, verify="values")
    assert ("if d" in after.script()) == side
    same_on_all_sides(before, after)
    all_of_it = rx.parse(
        NESTED.replace("if c:", 'if R.const(True, "bool"):').replace("if d:", 'if R.const(True, "bool"):')
    )
    assert "if" not in rule(all_of_it).script().split("def main")[1]


def test_a_branch_of_long_sides_is_taken_without_recursion() -> None:
    steps = "\n".join(f"        x{i + 1} = R.add(x{i}, x{i})" for i in range(3000))
    before = rx.parse(f"""
@R.function
def main(x0: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    if R.const(True, "bool"):
{steps}
        y = R.negative(x3000)
    else:
        y = x0
    return y
""")
    after = rx.Rule(is_if(is_const(), wildcard(), wildcard()), lambda expr, _: expr.true_branch, "first")(before)
    assert sum(len(block) for block in after.body.blocks) == 3001


def test_effects_of_a_side_are_never_lost() -> None:
    before = rx.parse("""
@R.function(pure=False)
def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    if c:
        told = R.print(x, format="x")
        y = R.exp(x)
    else:
        y = R.exp(x)
    return y
""")
    value = is_op("relax.exp")(wildcard())
    for make in (lambda expr, _: expr.true_branch, lambda expr, _: expr.false_branch):
        rule = rx.Rule(is_if(wildcard(), value.dup(), value.dup()), make, "take")
        assert rule(before) is before
        assert "has effects, which would be lost" in str(rx.explain(rule, before))


def test_a_dataflow_block_takes_no_branch() -> None:
    before = rx.parse("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
    with R.dataflow():
        y = R.where(c, x, x)
        R.output(y)
    return y
""")
    c, x = wildcard(), wildcard()
    rule = rx.Rule(is_op("relax.where")(c, x, x), lambda _, found: rx.If(found[c], found[x], R.exp(found[x])), "branch")
    with pytest.raises(RewriteError, match="'branch' puts a branch into a dataflow block"):
        rule(before)

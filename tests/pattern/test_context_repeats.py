"""Repeats as roots of a context: the largest sets of bindings that match and agree."""

from __future__ import annotations

import pytest

from regraft import op
from regraft.analysis.values import BlockView
from regraft.dpl import *
from regraft.dpl import Extent, PatternContext, PatternError
from regraft.ir import BlockBuilder, DataflowBlock, Expr
from regraft.pattern.matcher.context_match import compiled_context
from tests.pattern.blocks import block_of, calls, chain, named, parallel_matmuls, tensor


def test_a_repeat_takes_all_bindings_that_match_and_agree() -> None:
    with PatternContext() as ctx:
        x, weight = wildcard(), wildcard()
        product = is_op("relax.matmul")(x, weight)
        products = repeat(product, shared=[x], min=2)
    match = ctx.match_dfb(parallel_matmuls(5, tensor("other", 2, 3)))
    assert match is not None
    assert [var.name_hint for var in match[products]] == [f"y{i}" for i in range(5)]
    assert match[product] == match[products]
    assert [var.name_hint for var in match[weight]] == [f"w{i}" for i in range(5)]
    assert named(match, x) == ["x"]


def test_each_group_of_a_repeat_is_offered_once() -> None:
    other = tensor("other", 2, 3)
    for least, groups in ((1, [1, 4]), (2, [4]), (5, [])):
        with PatternContext() as ctx:
            x = wildcard()
            products = repeat(is_op("relax.matmul")(x, wildcard()), shared=[x], min=least)
        view = BlockView(parallel_matmuls(4, other))
        assert [len(match[products]) for match in compiled_context(ctx).search(view)] == groups


def test_a_repeat_takes_the_first_of_too_many() -> None:
    with PatternContext() as ctx:
        x = is_var("x")
        products = repeat(is_op("relax.matmul")(x, wildcard()), shared=[x], max=3)
    match = ctx.match_dfb(parallel_matmuls(5))
    assert match is not None
    assert [var.name_hint for var in match[products]] == ["y0", "y1", "y2"]


def exps_and_sins(exps: int, sins: int) -> DataflowBlock:
    params = [tensor(f"x{i}") for i in range(exps + sins)]
    return block_of(params, lambda b: [*(op.exp(x) for x in params[:exps]), *(op.sin(x) for x in params[exps:])])


def test_repeats_of_one_extent_match_sets_of_one_size_and_others_are_independent() -> None:
    one = Extent()
    for first, second, exps, sins, found in (
        (one, one, 3, 3, True),
        (one, one, 3, 2, False),
        (Extent(), Extent(), 3, 2, True),
        (None, None, 3, 2, True),
    ):
        with PatternContext() as ctx:
            repeat(is_op("relax.exp")(wildcard()), extent=first)
            repeat(is_op("relax.sin")(wildcard()), extent=second)
        assert (ctx.match_dfb(exps_and_sins(exps, sins)) is not None) == found


def test_a_repeat_that_may_be_empty_does_not_stop_the_others() -> None:
    with PatternContext() as ctx:
        none = repeat(is_op("relax.tanh")(wildcard()), min=0)
        e = is_op("relax.exp")(wildcard())
    match = ctx.match_dfb(chain())
    assert match is not None
    assert match[none] == []
    assert named(match, e) == ["e"]


def test_a_context_that_nothing_would_match_is_refused() -> None:
    with PatternContext() as ctx:
        repeat(is_op("relax.exp")(wildcard()), min=0)
    with pytest.raises(PatternError, match="every root of the context is a repeat with min=0"):
        ctx.match_dfb(chain())
    with pytest.raises(PatternError, match="the context has no pattern"):
        PatternContext().match_dfb(chain())


def test_a_constraint_on_one_of_many_is_refused_and_on_a_shared_one_it_holds() -> None:
    with PatternContext() as ctx:
        x = wildcard()
        product = is_op("relax.matmul")(x, wildcard())
        repeat(product, shared=[x])
        product ^ calls("exp")[0]
    with pytest.raises(PatternError, match=r"stands for many values and cannot be in a constraint"):
        ctx.match_dfb(parallel_matmuls(2))

    x_var, weights = tensor("x"), [tensor("a", 3, 4), tensor("b", 3, 4)]

    def write(b: BlockBuilder) -> list[Expr]:
        sine = b.emit(op.sin(x_var), "s")
        return [*(op.matmul(sine, w) for w in weights), *(op.matmul(x_var, w) for w in weights), op.exp(sine)]

    with PatternContext() as ctx:
        left = wildcard()
        products = repeat(is_op("relax.matmul")(left, wildcard()), shared=[left])
        left ^ calls("exp")[0]
    match = ctx.match_dfb(block_of([x_var, *weights], write))
    assert named(match, left) == ["s"]
    assert match is not None
    assert len(match[products]) == 2


def test_a_repeat_leaves_alone_what_other_roots_stand_for() -> None:
    with PatternContext() as ctx:
        rest = repeat(is_op("relax.matmul")(wildcard(), wildcard()))
        first = is_op("relax.matmul")(wildcard(), is_var("w1"))
    match = ctx.match_dfb(parallel_matmuls(3))
    assert named(match, first) == ["y1"]
    assert match is not None
    assert [var.name_hint for var in match[rest]] == ["y0", "y2"]


def test_groups_around_a_commuted_operand_have_their_own_members() -> None:
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    block = block_of([x, y, z], lambda b: [op.add(x, y), op.add(y, z), op.add(z, x)])
    with PatternContext() as ctx:
        common, rest = wildcard(), wildcard()
        repeat(is_op("relax.add")(common, rest), shared=[common], min=2)
    groups = {
        (match[common].name_hint, *sorted(var.name_hint for var in match[rest]))
        for match in compiled_context(ctx).search(BlockView(block))
    }
    assert groups == {("x", "y", "z"), ("y", "x", "z"), ("z", "x", "y")}


@pytest.mark.parametrize(("others", "found"), [(0, True), (1, False)])
def test_elements_may_share_a_value_that_nothing_but_they_use(others: int, found: bool) -> None:
    params = [tensor(f"x{i}") for i in range(4)]

    def write(builder: BlockBuilder) -> list[Expr]:
        value = builder.emit(op.exp(params[0]))
        return [*(op.add(value, other) for other in params[1:]), *(op.negative(value) for _ in range(others))]

    with PatternContext() as ctx:
        value = is_op("relax.exp")(wildcard()).only_used_by()
        sums = repeat(is_op("relax.add")(value, wildcard()), shared=[value])
    match = ctx.match_dfb(block_of(params, write))
    assert (match is not None and len(match[sums]) == 3) == found

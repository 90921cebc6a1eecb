"""Patterns over a whole block: roots, constraints between them, alike roots, nesting."""

from __future__ import annotations

import pytest

from regraft import op
from regraft.analysis.values import BlockView
from regraft.dpl import *
from regraft.dpl import DFPattern, PatternContext, PatternError, PatternSeq
from regraft.ir import BlockBuilder, DataflowBlock, Expr, SymVar, Tuple, Var, const
from regraft.pattern.matcher.context_match import compiled_context
from tests.pattern.blocks import block_of, calls, chain, exp_used_by_sin_and_cos, named, parallel_matmuls, tensor

# --- use constraints


def test_a_match_gives_variables_for_all_patterns() -> None:
    x = tensor("x")
    with PatternContext() as ctx:
        operand = wildcard()
        e = is_op("relax.exp")(operand)
        s = is_op("relax.sin")(e)
    match = ctx.match_dfb(block_of([x], lambda b: [op.sin(b.emit(op.exp(x), "e"))]))
    assert named(match, e, operand) == ["e", "x"]
    assert match is not None
    assert isinstance(match[s], Var)


def test_a_context_without_a_match_gives_none() -> None:
    with PatternContext() as ctx:
        is_op("relax.tanh")(wildcard())
    assert ctx.match_dfb(chain()) is None


def test_a_value_may_have_other_users_under_used_by_but_not_under_only_used_by() -> None:
    for constrain, in_chain, in_fork in ((DFPattern.used_by, True, True), (DFPattern.only_used_by, True, False)):
        with PatternContext() as ctx:
            e, s = calls("exp", "sin")
            constrain(e, s)
        assert (ctx.match_dfb(chain()) is not None) == in_chain
        assert (ctx.match_dfb(exp_used_by_sin_and_cos()) is not None) == in_fork


def test_an_output_of_the_block_has_a_user_outside() -> None:
    x = tensor("x")

    def write(b: BlockBuilder) -> list[Expr]:
        e = b.emit(op.exp(x), "e")
        return [op.sin(e), e]

    for constrain, found in ((DFPattern.used_by, True), (DFPattern.only_used_by, False)):
        with PatternContext() as ctx:
            e, s = calls("exp", "sin")
            constrain(e, s)
        assert (ctx.match_dfb(block_of([x], write)) is not None) == found


@pytest.mark.parametrize("only", [False, True])
def test_a_constraint_may_ask_for_the_number_of_the_operand(only: bool) -> None:
    x, y = tensor("x"), tensor("y")
    block = block_of([x, y], lambda b: [op.subtract(y, b.emit(op.exp(x)))])
    for index, found in ((0, False), (1, True), (-1, True), (2, False)):
        with PatternContext() as ctx:
            e, s = calls("exp", "subtract")
            (e.only_used_by if only else e.used_by)(s, index)
        assert (ctx.match_dfb(block) is not None) == found, index


def test_a_value_in_a_tuple_is_used_by_what_takes_the_tuple() -> None:
    x, y = tensor("x"), tensor("y")

    def write(b: BlockBuilder) -> list[Expr]:
        pair = b.emit(Tuple([b.emit(op.exp(x), "e"), b.emit(op.sin(y), "s")]))
        return [op.concat(pair, axis=0)]

    for inner, index, found in (("exp", 0, True), ("sin", 0, True), ("exp", 1, False)):
        with PatternContext() as ctx:
            source, user = calls(inner, "concat")
            source.only_used_by(user, index)
        assert (ctx.match_dfb(block_of([x, y], write)) is not None) == found


def test_a_leaf_is_found_below_a_tuple_that_has_a_name() -> None:
    x, y = tensor("x"), tensor("y")
    block = block_of([x, y], lambda b: [op.concat(b.emit(Tuple([x, y])), axis=0)])
    with PatternContext() as ctx:
        y_pattern = is_var("y")
        user = calls("concat")[0]
        y_pattern.used_by(user)
    assert named(ctx.match_dfb(block), y_pattern) == ["y"]


def test_a_projection_uses_the_tuple_that_it_takes_a_field_of() -> None:
    x = tensor("x", 2, 6)

    def one(b: BlockBuilder) -> list[Expr]:
        return [op.exp(b.emit(b.emit(op.split(x, 2, axis=1))[0], "half"))]

    def both(b: BlockBuilder) -> list[Expr]:
        halves = b.emit(op.split(x, 2, axis=1))
        return [op.exp(b.emit(halves[0], "half")), op.sin(b.emit(halves[1], "other"))]

    for write, constrain, found in (
        (one, DFPattern.used_by, True),
        (one, DFPattern.only_used_by, True),
        (both, DFPattern.used_by, True),
        (both, DFPattern.only_used_by, False),
    ):
        with PatternContext() as ctx:
            split = calls("split")[0]
            half = is_tuple_get_item(wildcard(), 0)
            constrain(split, half)
        match = ctx.match_dfb(block_of([x], write))
        assert (match is not None) == found
        if found:
            assert named(match, half) == ["half"]


def test_an_unrelated_field_of_a_shared_tuple_is_no_extra_user() -> None:
    x, y = tensor("x"), tensor("y")

    def write(b: BlockBuilder) -> list[Expr]:
        e, s = b.emit(op.exp(x), "e"), b.emit(op.sin(y), "s")
        pair = b.emit(Tuple([e, s]))
        return [op.tanh(e), op.cos(b.emit(pair[1]))]

    with PatternContext() as ctx:
        e, t = calls("exp", "tanh")
        e >> t
    assert ctx.match_dfb(block_of([x, y], write)) is not None


def test_a_field_taken_back_out_of_the_user_is_an_extra_use() -> None:
    x, y = tensor("x"), tensor("y")

    def write(b: BlockBuilder) -> list[Expr]:
        pair = b.emit(Tuple([b.emit(op.exp(x), "e"), y]))
        return [op.concat(pair, axis=0), op.tanh(b.emit(pair[0]))]

    for constrain, found in ((DFPattern.used_by, True), (DFPattern.only_used_by, False)):
        with PatternContext() as ctx:
            e = calls("exp")[0]
            pair = is_tuple([wildcard(), wildcard()])
            constrain(e, pair)
        assert (ctx.match_dfb(block_of([x, y], write)) is not None) == found


def test_a_parameter_may_stand_for_a_root_that_is_tied() -> None:
    x = tensor("x")
    with PatternContext() as ctx:
        source, user = wildcard(), wildcard()
        source ^ user
    match = ctx.match_dfb(block_of([x], lambda b: [b.emit(op.exp(x), "e")]))
    assert named(match, source) == ["x"]


def test_a_constraint_may_name_a_part_of_a_root() -> None:
    x, y = tensor("x"), tensor("y")

    def write(b: BlockBuilder) -> list[Expr]:
        e = b.emit(op.exp(x), "e")
        return [op.sin(e), op.cos(e), op.sin(b.emit(op.exp(y), "other"))]

    with PatternContext() as ctx:
        inner = is_op("relax.exp")(wildcard())
        is_op("relax.sin")(inner)
        cosine = calls("cos")[0]
        inner ^ cosine
    assert named(ctx.match_dfb(block_of([x, y], write)), inner) == ["e"]


def test_a_constraint_on_an_alternative_holds_where_that_alternative_is_taken() -> None:
    x, y = tensor("x"), tensor("y")

    def write(b: BlockBuilder) -> list[Expr]:
        return [op.tanh(b.emit(op.exp(x), "e")), op.tanh(b.emit(op.sin(y), "s"))]

    with PatternContext() as ctx:
        exponential, sine = calls("exp", "sin")
        root = is_op("relax.tanh")(exponential | sine)
        cosine = calls("cos")[0]
        exponential ^ cosine

    def with_cosine(b: BlockBuilder) -> list[Expr]:
        return [*write(b), op.cos(y)]

    match = ctx.match_dfb(block_of([x, y], with_cosine))
    assert match is not None
    assert exponential not in match
    assert sine in match
    assert root in match


def test_a_constraint_on_what_is_only_rejected_is_refused() -> None:
    with PatternContext() as ctx:
        exponential, cosine = calls("exp", "cos")
        is_op("relax.tanh")(~exponential)
        exponential ^ cosine
    with pytest.raises(PatternError, match="occurs only under ~"):
        ctx.match_dfb(chain())


def test_fork_to_wants_all_of_its_users() -> None:
    for names, found in ((("sin", "cos"), True), (("sin", "tanh"), False)):
        with PatternContext() as ctx:
            e, first, second = calls("exp", *names)
            e.fork_to(first, second)
        assert (ctx.match_dfb(exp_used_by_sin_and_cos()) is not None) == found


def test_same_shape_is_wanted_for_certain() -> None:
    n = SymVar("n")
    for shape, found in (((2, 3), True), ((2, 4), False), ((n, 3), False)):
        x, y = tensor("x", 2, 3), tensor("y", *shape)
        with PatternContext() as ctx:
            e, s = calls("exp", "sin")
            e.same_shape_as(s)
        assert (ctx.match_dfb(block_of([x, y], lambda b: [op.exp(x), op.sin(y)])) is not None) == found  # noqa: B023


# --- sequences


def test_a_sequence_ties_each_pattern_to_the_next() -> None:
    with PatternContext() as ctx:
        e, s, c = calls("exp", "sin", "cos")
        sequence = e ^ s ^ c
    assert isinstance(sequence, PatternSeq)
    assert (sequence[0], sequence[1], sequence[-1], len(sequence)) == (e, s, c, 3)
    assert named(ctx.match_dfb(chain()), e, s) == ["e", "s"]
    assert ctx.match_dfb(exp_used_by_sin_and_cos()) is None


def test_a_sequence_may_mix_both_kinds_of_use() -> None:
    with PatternContext() as ctx:
        e, s, c = calls("exp", "sin", "cos")
        (e >> s) ^ c
    assert ctx.match_dfb(chain()) is not None
    with PatternContext() as ctx:
        e, s = calls("exp", "sin")
        PatternSeq([e, s], only_use=True)
    assert ctx.match_dfb(chain()) is not None
    assert ctx.match_dfb(exp_used_by_sin_and_cos()) is None


def test_sequences_are_joined_end_to_start_and_tied_by_operand_number() -> None:
    x, y = tensor("x"), tensor("y")
    block = block_of([x, y], lambda b: [op.cos(b.emit(op.subtract(y, b.emit(op.sin(b.emit(op.exp(x)))))))])
    for index, found in ((0, False), (1, True)):
        with PatternContext() as ctx:
            e, s, d, c = calls("exp", "sin", "subtract", "cos")
            joined = (e ^ s).used_by(d ^ c, index)
        assert len(joined) == 4
        assert (ctx.match_dfb(block) is not None) == found


def test_a_duplicate_of_a_sequence_has_the_same_constraints_between_other_patterns() -> None:
    x, y = tensor("x"), tensor("y")

    def write(b: BlockBuilder) -> list[Expr]:
        return [op.sin(b.emit(op.exp(x), "first")), op.sin(b.emit(op.exp(y), "second"))]

    with PatternContext() as ctx:
        e, s = calls("exp", "sin")
        sequence = e >> s
        copy = sequence.dup()
    assert copy[0] is not e
    assert [(use.only, use.index) for use in ctx.uses] == [(True, -1), (True, -1)]
    match = ctx.match_dfb(block_of([x, y], write))
    assert sorted(named(match, e, copy[0])) == ["first", "second"]
    assert ctx.match_dfb(chain()) is None


# --- roots


def test_two_roots_never_stand_for_one_binding() -> None:
    x = tensor("x")
    with PatternContext() as ctx:
        is_op("relax.exp")(wildcard())
        is_op("relax.exp")(wildcard())
    assert ctx.match_dfb(block_of([x], lambda b: [op.exp(x)])) is None
    assert ctx.match_dfb(block_of([x], lambda b: [op.exp(x), op.exp(b.emit(op.sin(x)))])) is not None


def test_an_alias_is_no_binding_of_its_own() -> None:
    x = tensor("x")
    with PatternContext() as ctx:
        is_tuple([wildcard(), wildcard()])
        is_tuple([wildcard(), wildcard()])

    def write(b: BlockBuilder) -> list[Expr]:
        pair = b.emit(Tuple([x, x]))
        return [b.emit(pair)]

    assert ctx.match_dfb(block_of([x], write)) is None


def test_roots_that_share_a_value_must_agree_also_when_no_other_root_knows_it() -> None:
    x, y, w = tensor("x"), tensor("y"), tensor("w", 3, 4)

    def write(b: BlockBuilder) -> list[Expr]:
        return [op.exp(w), op.matmul(x, w), op.matmul(y, w)]

    with PatternContext() as ctx:
        left = wildcard()
        is_op("relax.exp")(wildcard())
        products = [is_op("relax.matmul")(left, wildcard()) for _ in range(2)]
    assert ctx.match_dfb(block_of([x, y, w], write)) is None

    def more(b: BlockBuilder) -> list[Expr]:
        return [*write(b), b.emit(op.matmul(y, b.emit(op.sin(w))), "last")]

    match = ctx.match_dfb(block_of([x, y, w], more))
    assert match is not None
    assert match[left] is y
    assert len({match[product] for product in products}) == 2


def test_a_root_may_be_a_tuple_or_a_projection_above_a_shared_value() -> None:
    x = tensor("x", 2, 6)

    def write(b: BlockBuilder) -> list[Expr]:
        halves = b.emit(op.split(x, 2, axis=1))
        half = b.emit(halves[1], "half")
        return [op.exp(x), b.emit(Tuple([b.emit(op.sin(x)), half]))]

    with PatternContext() as ctx:
        shared = wildcard()
        is_op("relax.exp")(shared)
        half = is_tuple_get_item(is_op("relax.split")(shared), 1)
        pair = is_tuple([is_op("relax.sin")(shared), wildcard()])
    match = ctx.match_dfb(block_of([x], write))
    assert named(match, half) == ["half"]
    assert match is not None
    assert pair in match


def test_a_root_with_an_alternative_that_leaves_out_the_shared_value_is_sought_everywhere() -> None:
    x, y = tensor("x"), tensor("y")
    block = block_of([x, y], lambda b: [op.exp(x), op.cos(y)])
    with PatternContext() as ctx:
        shared = wildcard()
        is_op("relax.exp")(shared)
        either = is_op("relax.sin")(shared) | is_op("relax.cos")(wildcard())
    match = ctx.match_dfb(block)
    assert match is not None
    assert either in match


@pytest.mark.parametrize("count", [2, 3, 32, 200])
def test_any_number_of_alike_roots_match_in_block_order(count: int) -> None:
    with PatternContext() as ctx:
        x = is_var("x")
        products = [is_op("relax.matmul")(x, wildcard()) for _ in range(count)]
    match = ctx.match_dfb(parallel_matmuls(count, tensor("other", 2, 3)))
    assert named(match, *products) == [f"y{i}" for i in range(count)]


@pytest.mark.parametrize("count", [2, 32, 200])
def test_too_few_candidates_for_alike_roots_are_told_without_trying_all_orders(count: int) -> None:
    with PatternContext() as ctx:
        x = wildcard()
        for _ in range(count):
            is_op("relax.matmul")(x, wildcard())
    assert ctx.match_dfb(parallel_matmuls(count - 1)) is None


def test_alike_roots_are_offered_once_in_each_combination() -> None:
    with PatternContext() as ctx:
        x = wildcard()
        products = [is_op("relax.matmul")(x, wildcard()) for _ in range(2)]
    view = BlockView(parallel_matmuls(3))
    found = [named(match, *products) for match in compiled_context(ctx).search(view)]
    assert found == [["y0", "y1"], ["y0", "y2"], ["y1", "y2"]]


def test_alike_roots_that_bind_sizes_agree_on_them() -> None:
    n = SymVar("n")
    x, weights = tensor("x", 2, 3), [tensor("a", 3, 4), tensor("b", 3, 5), tensor("c", 3, 5)]
    block = block_of([x, *weights], lambda b: [op.matmul(x, w) for w in weights])
    with PatternContext() as ctx:
        left = wildcard()
        rights = [wildcard().has_shape([3, n]) for _ in range(2)]
        for right in rights:
            is_op("relax.matmul")(left, right)
    match = ctx.match_dfb(block)
    assert sorted(named(match, *rights)) == ["b", "c"]
    assert match is not None
    assert match[n] == 5  # type: ignore[index]


def test_a_rejection_in_one_root_sees_what_another_root_stands_for() -> None:
    x, y = tensor("x"), tensor("y")
    for expr, found in ((lambda: op.sin(x), False), (lambda: op.sin(y), True)):
        with PatternContext() as ctx:
            value = wildcard()
            is_op("relax.sin")(~value)
            is_op("relax.exp")(value)
        assert (ctx.match_dfb(block_of([x, y], lambda b: [expr(), op.exp(x)])) is not None) == found  # noqa: B023


# --- nesting


def test_an_incremental_context_adds_to_the_outer_one_for_its_own_scope() -> None:
    with PatternContext() as outer:
        e, s = calls("exp", "sin")
        e ^ s
        with PatternContext(incremental=True) as inner:
            c = calls("cos")[0]
            s ^ c
        with PatternContext(incremental=True) as other:
            t = calls("tanh")[0]
            s ^ t
            with PatternContext(incremental=True) as innermost:
                calls("cos")
    assert outer.match_dfb(chain()) is not None
    assert outer.match_dfb(exp_used_by_sin_and_cos()) is not None
    assert named(inner.match_dfb(chain()), e, s) == ["e", "s"]
    assert inner.match_dfb(exp_used_by_sin_and_cos()) is None
    assert other.match_dfb(chain()) is None
    assert innermost.match_dfb(chain()) is None


def test_a_plain_context_inside_another_starts_empty() -> None:
    with PatternContext() as outer:
        e = calls("exp")[0]
        with PatternContext() as inner:
            assert PatternContext.current() is inner
            s = calls("sin")[0]
        assert PatternContext.current() is outer
    assert PatternContext.current() is None
    assert inner.roots() == [s]
    assert outer.roots() == [e]


def test_a_context_may_be_matched_extended_and_matched_again() -> None:
    with PatternContext() as ctx:
        e = calls("exp")[0]
        assert ctx.match_dfb(chain()) is not None
        e ^ calls("cos")[0]
        assert ctx.match_dfb(chain()) is None
        assert ctx.match_dfb(exp_used_by_sin_and_cos()) is not None


def test_patterns_that_are_made_outside_are_noted_when_a_constraint_names_them() -> None:
    e, s = calls("exp", "sin")
    with PatternContext() as ctx:
        e ^ s
    assert named(ctx.match_dfb(chain()), e, s) == ["e", "s"]


def test_a_constant_may_be_a_part_of_a_root() -> None:
    x = tensor("x")
    with PatternContext() as ctx:
        scale = is_const()
        is_op("relax.multiply")(is_op("relax.exp")(wildcard()), scale)
    match = ctx.match_dfb(block_of([x], lambda b: [op.multiply(const(2.0), b.emit(op.exp(x)))]))
    assert match is not None
    assert match[scale].data.numpy() == 2.0


def test_alike_roots_may_all_use_a_value_that_nothing_else_uses() -> None:
    with PatternContext() as ctx:
        for _ in range(3):
            is_op("relax.add")(is_op("relax.exp")(wildcard()).only_used_by(), wildcard())
    assert ctx.match_dfb(_sums_of_one_value(3)) is not None
    assert ctx.match_dfb(_sums_of_one_value(4)) is None


def _sums_of_one_value(count: int) -> DataflowBlock:
    x, *others = [tensor(f"x{i}") for i in range(count + 1)]

    def write(builder: BlockBuilder) -> list[Expr]:
        value = builder.emit(op.exp(x))
        return [op.add(value, other) for other in others]

    return block_of([x, *others], write)

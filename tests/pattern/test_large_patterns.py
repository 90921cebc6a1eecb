"""Patterns whose alternatives share parts many levels deep, and rows of many repeats: linear, and exact."""

from __future__ import annotations

from typing import Any

import pytest

from regraft import explain, op
from regraft.dpl import *
from regraft.dpl import DFPattern, PatternContext
from regraft.ir import BlockBuilder, Expr, Tuple, Var
from regraft.ir.program import DataflowBlock
from regraft.pattern.matcher.context_match import compiled_context
from regraft.pattern.matcher.goals import CompiledPatterns
from regraft.pattern.matcher.match import compiled
from tests.kit import python_calls, python_steps
from tests.pattern.programs import program, tensor


def either_of_two(depth: int) -> tuple[DFPattern, DFPattern]:
    """``depth`` calls, each of either operator, around a wildcard that comes with it: 2 ** depth forms."""
    inner = pattern = wildcard()
    for _ in range(depth):
        pattern = is_op("relax.exp")(pattern) | is_op("relax.negative")(pattern)
    return pattern, inner


def chain(depth: int, last: Any = op.exp) -> tuple[Expr, dict[Var, Expr]]:
    def write(builder: BlockBuilder) -> Expr:
        value: Expr = builder.emit(last(tensor("x")))
        for index in range(1, depth):
            value = builder.emit((op.exp if index % 3 else op.negative)(value))
        return value

    return program([], write)


@pytest.mark.parametrize("depth", [3, 20, 60])
def test_alternatives_that_share_their_parts_match_at_any_depth(depth: int) -> None:
    pattern, inner = either_of_two(depth)
    result, definitions = chain(depth)
    found = pattern.extract_matched_expr(result, definitions)
    assert found is not None
    assert found[inner].name_hint == "x"
    assert not pattern.match(*chain(depth, op.sin))
    assert not pattern.match(*chain(depth - 1))


def test_a_pattern_has_as_many_steps_as_parts_however_deep_alternatives_share_them() -> None:
    steps = [len(CompiledPatterns([either_of_two(depth)[0]]).of) for depth in (50, 100)]
    assert steps[1] < 2.1 * steps[0]


def test_matching_alternatives_that_share_their_parts_costs_their_depth() -> None:
    def work(depth: int) -> int:
        pattern, _ = either_of_two(depth)
        result, definitions = chain(depth, op.sin)
        compiled(pattern)
        return python_calls(lambda: pattern.match(result, definitions))

    assert work(80) < 2.2 * work(40)


def test_a_part_that_is_shared_goes_back_to_the_place_that_it_was_tried_from() -> None:
    # Each level may swap its arguments; the last one decides, so every level is resumed after others have run.
    depth = 12
    left, right = wildcard(), wildcard()
    pattern: DFPattern = is_op("relax.subtract")(left, right)
    for _ in range(depth):
        pattern = is_op("relax.add")(pattern, wildcard()) | is_op("relax.multiply")(pattern, wildcard())
    ends = is_op("relax.divide")(pattern, right)
    a, b, c = tensor("a"), tensor("b"), tensor("c")

    def write(builder: BlockBuilder) -> Expr:
        value = builder.emit(op.subtract(a, b))
        for index in range(depth):
            other = builder.emit(op.subtract(c, c))
            value = builder.emit((op.add if index % 2 else op.multiply)(other, value))
        return op.divide(value, b)

    result, definitions = program([a, b, c], write)
    found = ends.extract_matched_expr(result, definitions)
    assert found is not None
    assert (found[left].name_hint, found[right].name_hint) == ("a", "b")


def test_nested_rejections_share_their_parts_too() -> None:
    pattern: DFPattern = is_op("relax.sin")(wildcard())
    for _ in range(30):
        pattern = ~(is_op("relax.exp")(pattern) | is_op("relax.negative")(pattern))
    result, definitions = chain(3)
    assert pattern.match(result, definitions) is not (~pattern).match(result, definitions)


def test_a_context_of_alternatives_that_share_their_parts_is_planned_and_found() -> None:
    with PatternContext() as context:
        pattern, inner = either_of_two(24)
        total = is_op("relax.add")(wildcard(), wildcard())
        pattern.used_by(total)
    x = tensor("x")
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value: Expr = x
            for index in range(24):
                value = builder.emit((op.exp if index % 5 else op.negative)(value))
            out = builder.emit_output(op.add(x, value))
        builder.emit_func_output(out)
    block = builder.get()["main"].body.blocks[0]
    assert isinstance(block, DataflowBlock)
    found = context.match_dfb(block)
    assert found is not None
    assert found[inner] is x
    assert compiled_context(context).anchor_ops is not None


def test_why_a_large_pattern_does_not_match_is_still_said() -> None:
    pattern, _ = either_of_two(20)
    builder = BlockBuilder()
    x = tensor("x")
    with builder.function("main", [x]):
        with builder.dataflow():
            value = builder.emit(op.sin(x))
            for _ in range(19):
                value = builder.emit(op.exp(value))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    assert "but lv = sin(x)" in str(explain(pattern, builder.get()["main"]))


# --- many repeats in a row


def test_many_unconstrained_repeats_in_one_row_fail_without_trying_every_split() -> None:
    def work(count: int) -> int:
        fields = [tensor(f"x{i}") for i in range(count)]
        parts = [repeat(wildcard().has_dtype("float32")) for _ in range(5)]
        pattern = is_tuple([*parts[:4], is_const(), parts[4]])
        value = Tuple(fields)
        compiled(pattern)
        assert not pattern.match(Tuple(fields[:6]))
        return python_calls(lambda: pattern.match(value))

    # 40 elements have 82,251 ways to be shared out between four runs and a fifth one behind an element.
    assert work(80) < 3 * work(40)


def test_many_repeats_whose_elements_differ_below_their_operator_are_told_apart() -> None:
    kinds = [op.exp, op.sin, op.cos, op.negative]
    fields = [op.add(kind(tensor(f"x{i}")), tensor("y")) for kind in kinds for i in range(12)]
    values = [wildcard() for _ in kinds]
    runs = [
        repeat(is_op("relax.add")(is_op(f"relax.{kind.__name__}")(value), wildcard()))
        for kind, value in zip(kinds, values, strict=True)
    ]
    pattern = is_tuple(runs)
    result, definitions = program([], lambda builder: Tuple([builder.emit(field) for field in fields]))
    found = pattern.extract_matched_expr(result, definitions)
    assert found is not None
    assert [len(found[run]) for run in runs] == [12, 12, 12, 12]
    assert python_calls(lambda: pattern.match(result, definitions)) < 20_000


def test_the_first_split_is_the_one_with_the_longest_runs_first() -> None:
    runs = [repeat(wildcard()), repeat(wildcard(), max=2), repeat(wildcard(), min=2)]
    found = is_tuple(runs).extract_matched_expr(Tuple([tensor(name) for name in "abcdefg"]))
    assert found is not None
    assert [len(found[run]) for run in runs] == [4, 1, 2]
    splits = [
        tuple(len(search.shown()[run]) for run in runs)
        for search in compiled(is_tuple(runs)).searches({}, Tuple([tensor(name) for name in "abcde"]))
    ]
    assert splits == [(2, 1, 2), (1, 2, 2), (1, 1, 3)]


def test_a_rejection_by_a_neighbour_is_not_decided_before_the_neighbour_is_known() -> None:
    first = wildcard()
    runs = [repeat(~first), repeat(wildcard()), repeat(wildcard())]
    x, y = tensor("x"), tensor("y")
    pattern = is_tuple([first, *runs])
    assert pattern.match(Tuple([x, y, y, y]))
    assert not pattern.match(Tuple([x, x, y, y]))


def test_why_a_long_row_of_many_repeats_does_not_match_is_said_in_time() -> None:
    builder = BlockBuilder()
    params = [tensor(f"x{i}") for i in range(60)]
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(op.concat(params, axis=0))
        builder.emit_func_output(out)
    runs = [repeat(wildcard()) for _ in range(4)]
    pattern = is_op("relax.concat")(is_tuple([*runs, is_const()]))
    assert "a constant is wanted, but here is x59" in str(explain(pattern, builder.get()["main"]))


def test_a_pattern_many_calls_deep_is_prepared_and_matched_in_time_linear_in_its_depth() -> None:
    def work(depth: int) -> int:
        pattern: DFPattern = wildcard()
        for _ in range(depth):
            pattern = is_op("relax.exp")(pattern)
        result, definitions = program([], lambda builder: _nested(builder, depth))
        return python_calls(lambda: pattern.match(result, definitions))

    assert work(800) < 2.2 * work(400)


def _nested(builder: BlockBuilder, depth: int) -> Expr:
    value: Expr = tensor("x")
    for _ in range(depth):
        value = builder.emit(op.exp(value))
    return value


def test_a_run_between_many_single_parts_costs_their_number() -> None:
    def work(singles: int) -> int:
        before, after = ([wildcard() for _ in range(singles)] for _ in range(2))
        run = repeat(wildcard())
        pattern = is_tuple([*before, run, *after])
        value = Tuple([tensor(f"x{i}") for i in range(10 * singles)])
        compiled(pattern)
        found = pattern.extract_matched_expr(value)
        assert found is not None
        assert len(found[run]) == 8 * singles
        assert found[before[-1]].name_hint == f"x{singles - 1}"
        assert found[after[0]].name_hint == f"x{9 * singles}"
        return python_steps(lambda: pattern.match(value))

    assert work(400) < 2.2 * work(200)

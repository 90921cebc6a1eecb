"""Repeats in tuples and argument lists: how long runs are, what they share, and what a match says of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from regraft import op
from regraft.dpl import *
from regraft.dpl import DFPattern, Extent, PatternError, RepeatPattern
from regraft.ir import Expr, SymVar, Tuple, Var, const
from regraft.pattern.matcher.match import compiled
from regraft.script import relax as R
from tests.pattern.programs import MATRIX, matches, program, tensor


def concat_of(count: int, other: int = 0) -> tuple[Expr, dict[Var, Expr]]:
    """The concat of ``count`` permuted values and then ``other`` plain ones."""
    params = [tensor(f"x{i}") for i in range(count)] + [tensor(f"y{i}", (3, 2)) for i in range(other)]
    return program(
        params,
        lambda b: op.concat([*(b.emit(op.permute_dims(x)) for x in params[:count]), *params[count:]]),
    )


@pytest.mark.parametrize("count", [1, 2, 3, 12, 13, 200, 10_000])
def test_a_repeat_takes_any_number_of_fields_and_gives_lists_in_order(count: int) -> None:
    result, definitions = concat_of(count)
    value = wildcard()
    permuted = is_op("relax.permute_dims")(value)
    run = repeat(permuted)
    found = is_op("relax.concat")(is_tuple([run])).extract_matched_expr(result, definitions)
    assert found is not None
    assert [var.name_hint for var in found[value]] == [f"x{i}" for i in range(count)]
    assert [definitions[var] for var in found[run]] == found[permuted]


def test_a_repeat_matches_only_if_all_of_its_elements_do() -> None:
    run = repeat(is_op("relax.permute_dims")(wildcard()))
    result = concat_of(3, other=1)
    assert not matches(is_op("relax.concat")(is_tuple([run])), result)
    assert matches(is_op("relax.concat")(is_tuple([run, wildcard()])), result)
    assert matches(is_op("relax.concat")(is_tuple([run, repeat(is_var())])), result)


def test_a_repeat_keeps_within_its_bounds() -> None:
    value = Tuple([tensor("a"), tensor("b"), tensor("c")])
    assert is_tuple([repeat(wildcard(), min=3, max=3)]).match(value)
    assert not is_tuple([repeat(wildcard(), min=4)]).match(value)
    assert not is_tuple([repeat(wildcard(), max=2)]).match(value)
    assert not is_tuple([repeat(wildcard())]).match(Tuple([]))
    assert is_tuple([repeat(wildcard(), min=0)]).match(Tuple([]))
    assert not is_tuple([repeat(wildcard(), max=2), is_var("d")]).match(value)
    assert is_tuple([repeat(wildcard(), max=2), is_var("c")]).match(value)


def test_a_run_is_as_long_as_the_rest_allows() -> None:
    a, b, c = tensor("a"), tensor("b"), tensor("c")
    first, second = wildcard(), wildcard()
    found = is_tuple([repeat(first), repeat(second)]).extract_matched_expr(Tuple([a, b, c]))
    assert found is not None
    assert (found[first], found[second]) == ([a, b], [c])


def test_a_shared_pattern_is_one_value_in_all_elements() -> None:
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    left, right = wildcard(), wildcard()
    pattern = is_tuple([repeat(is_op("relax.subtract")(left, right), shared=[left])])
    found = pattern.extract_matched_expr(Tuple([op.subtract(x, y), op.subtract(x, z)]))
    assert found is not None
    assert found[left] is x
    assert found[right] == [y, z]
    assert not pattern.match(Tuple([op.subtract(x, y), op.subtract(z, y)]))


def test_a_pattern_that_also_stands_outside_of_the_repeat_is_shared() -> None:
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    left = wildcard()
    for fields in ([repeat(is_op("relax.subtract")(left, wildcard())), left],):
        assert is_tuple(fields).match(Tuple([op.subtract(x, y), op.subtract(x, z), x]))
        assert not is_tuple(fields).match(Tuple([op.subtract(x, y), op.subtract(x, z), y]))
        assert not is_tuple(fields).match(Tuple([op.subtract(x, y), op.subtract(y, z), x]))


def test_elements_of_a_run_are_tried_again_when_a_shared_value_differs() -> None:
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    common, rest = wildcard(), wildcard()
    pattern = is_tuple([repeat(is_op("relax.add")(common, rest), shared=[common])])
    found = pattern.extract_matched_expr(Tuple([op.add(x, y), op.add(z, y), op.add(y, x)]))
    assert found is not None
    assert found[common] is y
    assert found[rest] == [x, z, x]


def test_each_way_of_an_element_is_found_with_its_own_values() -> None:
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    outer, p, q = wildcard(), wildcard(), wildcard()
    body = is_op("relax.subtract")(outer, is_op("relax.add")(p, q))
    value = Tuple([op.subtract(x, op.add(y, z)), op.subtract(y, op.add(z, x))])
    matches = [search.shown() for search in compiled(is_tuple([repeat(body)])).searches({}, value)]
    found = [(m[outer], m[p], m[q]) for m in matches]
    assert found == [
        ([x, y], [y, z], [z, x]),
        ([x, y], [y, x], [z, z]),
        ([x, y], [z, z], [y, x]),
        ([x, y], [z, x], [y, z]),
    ]


def test_elements_that_took_another_alternative_have_none_in_the_list() -> None:
    x, y = tensor("x"), tensor("y")
    sine = is_op("relax.sin")(wildcard())
    value = Tuple([x, op.sin(y)])
    found = is_tuple([repeat(is_var() | sine)]).extract_matched_expr(value)
    assert found is not None
    assert found[sine] == [None, value.fields[1]]


def test_an_operator_may_stand_in_two_repeats_but_other_patterns_may_not() -> None:
    x, y = tensor("x"), tensor("y")
    exponential = is_op("relax.exp")
    value = Tuple([op.exp(x), const(1.0), op.exp(y), op.exp(x)])
    first, second = wildcard(), wildcard()
    found = is_tuple([repeat(exponential(first)), is_const(), repeat(exponential(second))]).extract_matched_expr(value)
    assert found is not None
    assert (found[first], found[second]) == ([x], [y, x])
    assert found[exponential].name == "relax.exp"
    with pytest.raises(PatternError, match=r"is part of two repeats.*give the second repeat a pattern of its own"):
        is_tuple([repeat(exponential(first)), is_const(), repeat(first)]).match(value)


def test_repeats_of_one_extent_have_one_length() -> None:
    a, b = tensor("a"), tensor("b")
    extent = Extent("n")

    def rows(first: int, second: int) -> Tuple:
        return Tuple([Tuple([op.exp(a)] * first), Tuple([op.sin(b)] * second)])

    def pattern(one: Extent | None, two: Extent | None) -> DFPattern:
        left = repeat(is_op("relax.exp")(wildcard()), extent=one)
        right = repeat(is_op("relax.sin")(wildcard()), extent=two)
        return is_tuple([is_tuple([left]), is_tuple([right])])

    assert pattern(extent, extent).match(rows(3, 3))
    assert not pattern(extent, extent).match(rows(3, 2))
    assert pattern(Extent(), Extent()).match(rows(3, 2))
    assert pattern(None, None).match(rows(3, 2))


def test_an_extent_shares_out_one_row_evenly_and_is_new_in_each_match() -> None:
    extent = Extent()
    first, second = wildcard(), wildcard()
    pattern = is_tuple([repeat(first, extent=extent), repeat(second, extent=extent)])
    for half in (1, 3):
        found = pattern.extract_matched_expr(Tuple([tensor(f"x{i}") for i in range(2 * half)]))
        assert found is not None
        assert (len(found[first]), len(found[second])) == (half, half)
    assert not pattern.match(Tuple([tensor("a"), tensor("b"), tensor("c")]))


def test_an_extent_that_a_failed_alternative_fixed_is_open_again() -> None:
    extent = Extent()
    row = is_tuple([repeat(is_op("relax.exp")(wildcard()), extent=extent)])
    other = is_tuple([repeat(is_op("relax.sin")(wildcard()), extent=extent)])
    value = Tuple([Tuple([op.exp(tensor("a"))] * 3), Tuple([op.sin(tensor("b"))] * 2)])
    assert not is_tuple([row, other]).match(value)
    assert is_tuple([row | wildcard(), other]).match(value)


def test_two_long_runs_of_different_operators_are_told_apart_at_once() -> None:
    count = 5000
    value = Tuple([*(op.exp(tensor(f"x{i}")) for i in range(count)), *(op.sin(tensor(f"y{i}")) for i in range(count))])
    first, second = wildcard(), wildcard()
    found = is_tuple([repeat(is_op("relax.exp")(first)), repeat(is_op("relax.sin")(second))]).extract_matched_expr(
        value
    )
    assert found is not None
    assert (len(found[first]), len(found[second])) == (count, count)


def test_a_repeat_stands_among_the_arguments_of_a_call() -> None:
    x, y = tensor("x"), tensor("y")
    rest = wildcard()
    found = is_call_packed("my.func", [is_var("x"), repeat(rest)]).extract_matched_expr(
        R.call_packed("my.func", x, y, y, sinfo_args=MATRIX)
    )
    assert found is not None
    assert found[rest] == [y, y]


def test_a_rejection_in_a_repeat_is_decided_by_what_stands_before_or_after_the_repeat() -> None:
    value = wildcard()
    a, b, c = tensor("a"), tensor("b"), tensor("c")
    after = is_tuple([repeat(wildcard() & ~value), value])
    assert after.match(Tuple([a, c, b]))
    assert not after.match(Tuple([a, b, b]))
    before = is_tuple([value, repeat(wildcard() & ~value)])
    assert before.match(Tuple([a, b, b]))
    assert not before.match(Tuple([a, b, a]))


def test_a_rejection_in_a_repeat_by_what_its_own_element_binds_is_decided_for_each_element() -> None:
    first, second = wildcard(), wildcard()
    distinct = is_op("relax.subtract")(first & ~second, second)
    x, y, z = tensor("x"), tensor("y"), tensor("z")
    pattern = is_tuple([repeat(distinct)])
    assert pattern.match(Tuple([op.subtract(x, y), op.subtract(y, x)]))
    assert not pattern.match(Tuple([op.subtract(x, y), op.subtract(z, z)]))


def test_a_rejection_of_an_element_waits_for_the_sizes_that_the_rest_of_the_pattern_binds() -> None:
    size = SymVar("n")
    sized = wildcard().has_shape([size, 3])
    pattern = is_tuple([repeat(~wildcard().has_shape([size, 3])), sized])
    assert pattern.match(Tuple([tensor("a", (2, 3)), tensor("b", (5, 3))]))
    assert not pattern.match(Tuple([tensor("a", (5, 3)), tensor("b", (5, 3))]))


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("single", [is_const, wildcard, lambda: is_var("x1")], ids=["const", "wildcard", "var"])
def test_a_row_is_shared_out_if_any_lengths_of_its_runs_fit(count: int, single: Callable[[], DFPattern]) -> None:
    names = [f"x{i}" for i in range(count)]
    value = Tuple([tensor(name) for name in names])
    for most, runs, place in product((None, 0, 1, 2), (1, 2), (0, 1, 2)):
        parts: list[DFPattern] = [repeat(is_var(), min=0, max=most) for _ in range(runs)]
        parts.insert(place, single())
        alone = parts.index(next(part for part in parts if not isinstance(part, RepeatPattern)))
        fits = [
            sum(lengths) + 1 == count and single().match(value.fields[sum(lengths[:alone])])
            for lengths in product(range(3 if most is None else most + 1), repeat=runs)
        ]
        assert is_tuple(parts).match(value) == any(fits), (most, runs, place)

"""A concat of any number of permuted tensors, as one pattern without a limit; and lengths that two runs share or not.

Every size differs from every other, and results are compared to the bit: moving data changes no value.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from regraft import BlockBuilder, TensorType, Var
from regraft.dpl import *
from regraft.ir import Function, TupleType
from regraft.rewrite import decline
from regraft.script import relax as R
from tests.rewrite.harness import assert_rewritten, op_counts


def _concat_of_permuted(count: int, axes: tuple[int, ...] | None = None, axis: int = 1) -> Function:
    """``concat([permute_dims(x0), permute_dims(x1), ...], axis)``; only the size along the joined axis changes."""
    rank = 2 if axes is None else len(axes)
    order = axes or tuple(reversed(range(rank)))
    joined = order[axis]
    builder = BlockBuilder()
    shapes = [[i % 3 + 1 if dim == joined else 5 + 2 * dim for dim in range(rank)] for i in range(count)]
    params = [Var(f"x{i}", TensorType(shape, "float32")) for i, shape in enumerate(shapes)]
    with builder.function("main", params):
        with builder.dataflow():
            permuted = [builder.emit(R.permute_dims(param, axes)) for param in params]
            result = builder.emit_output(R.concat(permuted, axis=axis))
        builder.emit_func_output(result)
    return builder.get()["main"]


def _reorder():
    """concat of permuted tensors -> permuted concat; one pattern, however many there are."""
    tensor = wildcard()
    permuted = is_op("relax.permute_dims")(tensor)
    pattern = is_op("relax.concat")(TuplePattern([repeat(permuted, min=2)]))

    def rewriter(concat, matchings):
        rank = concat.ty.ndim
        orders = {
            tuple(range(rank))[::-1]
            if call.attrs["axes"] is None
            else tuple(axis % rank for axis in call.attrs["axes"])
            for call in matchings[permuted]
        }
        if len(orders) > 1:
            return decline(f"the axes differ: {sorted(orders)}")
        (order,) = orders
        joined = R.concat(matchings[tensor], axis=order[concat.attrs["axis"] % rank])
        return R.permute_dims(joined, axes=list(order))

    return pattern, rewriter


@pytest.mark.parametrize("count", [2, 3, 12, 13, 200])
def test_a_concat_of_any_number_of_permuted_tensors_is_permuted_once(count: int) -> None:
    before = _concat_of_permuted(count)
    after = rewrite_call(*_reorder(), before)
    assert op_counts(after) == {"relax.concat": 1, "relax.permute_dims": 1}
    assert_rewritten(before, after, exact=True)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("axes", list(permutations(range(3))))
def test_the_joined_axis_follows_the_permutation_at_rank_3(axes: tuple[int, ...], axis: int) -> None:
    before = _concat_of_permuted(3, axes, axis)
    after = rewrite_call(*_reorder(), before)
    assert op_counts(after) == {"relax.concat": 1, "relax.permute_dims": 1}
    assert_rewritten(before, after, exact=True)


def test_one_tensor_that_is_not_permuted_stops_the_match() -> None:
    @R.function
    def main(x: R.Tensor((5, 3), "float32"), y: R.Tensor((3, 7), "float32")):
        with R.dataflow():
            a = R.permute_dims(x)
            out = R.concat([a, y], axis=1)
            R.output(out)
        return out

    assert rewrite_call(*_reorder(), main) is main


def test_axes_that_differ_are_declined_with_the_reason() -> None:
    @R.function
    def main(x: R.Tensor((5, 3, 7), "float32"), y: R.Tensor((3, 5, 7), "float32")):
        with R.dataflow():
            a = R.permute_dims(x, axes=[1, 0, 2])
            b = R.permute_dims(y, axes=[0, 1, 2])
            out = R.concat([a, b], axis=1)
            R.output(out)
        return out

    reasons: list[str | None] = []
    rule = PatternMatchingRewriter.from_pattern(*_reorder())
    assert rule(main, listener=lambda event: reasons.append(event.reason)) is main
    assert reasons == ["the axes differ: [(0, 1, 2), (1, 0, 2)]"]


def test_the_same_tensor_twice_and_a_permuted_value_with_another_user() -> None:
    @R.function
    def main(x: R.Tensor((5, 3), "float32"), y: R.Tensor((7, 3), "float32")):
        with R.dataflow():
            a = R.permute_dims(x)
            b = R.permute_dims(y, axes=[-1, -2])
            joined = R.concat([a, b, a], axis=-1)
            kept = R.exp(b)
            out = (joined, kept)
            R.output(out)
        return out

    after = rewrite_call(*_reorder(), main)
    assert op_counts(after) == {"relax.concat": 1, "relax.permute_dims": 2, "relax.exp": 1}
    assert_rewritten(main, after, exact=True)


def _two_tuples(left: int, right: int) -> Function:
    """``add(concat of `left` exponentials, concat of `right` sines)``, both along an axis of one size in all."""
    total = left * right
    builder = BlockBuilder()
    x = Var("x", TensorType((right, 5), "float32"))
    y = Var("y", TensorType((left, 5), "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            exponentials = [builder.emit(R.exp(builder.emit(R.add(x, R.const(float(i)))))) for i in range(left)]
            sines = [builder.emit(R.sin(builder.emit(R.add(y, R.const(float(i)))))) for i in range(right)]
            first = builder.emit(R.concat(exponentials, axis=0))
            second = builder.emit(R.concat(sines, axis=0))
            result = builder.emit_output(R.add(first, second))
        builder.emit_func_output(result)
    main = builder.get()["main"]
    assert main.ret_ty.shape == (total, 5)
    return main


def _sum_of_concats(left: Extent, right: Extent):
    """add(concat(exp(a) ...), concat(sin(b) ...)) -> add(exp(concat(a ...)), sin(concat(b ...)))."""
    a, b = wildcard(), wildcard()
    exponential, sine = is_op("relax.exp")(a), is_op("relax.sin")(b)
    first = is_op("relax.concat")(TuplePattern([repeat(exponential, extent=left)]))
    second = is_op("relax.concat")(TuplePattern([repeat(sine, extent=right)]))

    def rewriter(_, matchings):
        lefts, rights = matchings[a], matchings[b]
        assert len(matchings[exponential]) == len(lefts)
        assert len(matchings[sine]) == len(rights)
        return R.add(R.exp(R.concat(lefts, axis=0)), R.sin(R.concat(rights, axis=0)))

    return is_op("relax.add")(first, second), rewriter


@pytest.mark.parametrize("count", [1, 2, 3, 13])
def test_two_runs_that_share_an_extent_match_when_they_are_equally_long(count: int) -> None:
    extent = Extent("n")
    before = _two_tuples(count, count)
    after = rewrite_call(*_sum_of_concats(extent, extent), before)
    assert op_counts(after)["relax.exp"] == op_counts(after)["relax.sin"] == 1
    assert_rewritten(before, after)


@pytest.mark.parametrize(("left", "right"), [(2, 3), (3, 2), (1, 4)])
def test_two_runs_that_share_an_extent_do_not_match_when_one_is_longer(left: int, right: int) -> None:
    extent = Extent("n")
    before = _two_tuples(left, right)
    assert rewrite_call(*_sum_of_concats(extent, extent), before) is before


@pytest.mark.parametrize(("left", "right"), [(2, 3), (3, 2), (1, 4), (4, 4)])
def test_two_runs_with_extents_of_their_own_match_whatever_their_lengths_are(left: int, right: int) -> None:
    before = _two_tuples(left, right)
    after = rewrite_call(*_sum_of_concats(Extent(), Extent()), before)
    assert op_counts(after)["relax.exp"] == op_counts(after)["relax.sin"] == 1
    assert_rewritten(before, after)


def _fields(count: int) -> tuple[BlockBuilder, list[Var]]:
    return BlockBuilder(), [Var(f"x{i}", TensorType((2, 3 + i), "float32")) for i in range(count)]


@pytest.mark.parametrize(("sines", "cosines"), [(1, 1), (3, 3), (4, 4), (2, 3), (5, 1)])
def test_an_extent_divides_one_tuple_into_two_runs_of_one_length(sines: int, cosines: int) -> None:
    builder, params = _fields(sines + cosines)
    with builder.function("main", params):
        with builder.dataflow():
            made = [builder.emit(R.sin(p)) for p in params[:sines]] + [builder.emit(R.cos(p)) for p in params[sines:]]
            result = builder.emit_output(R.concat(made, axis=1))
        builder.emit_func_output(result)
    before = builder.get()["main"]
    half = Extent()
    s, c = wildcard(), wildcard()
    runs = [repeat(is_op("relax.sin")(s), extent=half), repeat(is_op("relax.cos")(c), extent=half)]
    pattern = is_op("relax.concat")(TuplePattern(runs))

    def rewriter(_, matchings):
        return (
            R.concat([R.sin(R.concat(matchings[s], axis=1)), R.cos(R.concat(matchings[c], axis=1))], axis=1)
            if len(matchings[s]) > 1
            else None
        )

    after = rewrite_call(pattern, rewriter, before)
    if sines == cosines and sines > 1:
        assert op_counts(after) == {"relax.sin": 1, "relax.cos": 1, "relax.concat": 3}
        assert_rewritten(before, after, exact=True)
    else:
        assert after is before


def test_a_run_may_stand_between_fixed_fields_and_gives_back_what_the_rest_needs() -> None:
    builder, params = _fields(6)
    with builder.function("main", params):
        with builder.dataflow():
            made = [builder.emit(R.sin(p)) for p in params]
            result = builder.emit_output(R.concat(made, axis=1))
        builder.emit_func_output(result)
    before = builder.get()["main"]
    inner, last = wildcard(), wildcard()
    sines = repeat(is_op("relax.sin")(inner))
    pattern = is_op("relax.concat")(TuplePattern([wildcard(), sines, is_op("relax.sin")(last)]))
    lengths: list[int] = []

    def rewriter(expr, matchings):
        lengths.append(len(matchings[inner]))
        assert matchings[last] is params[-1]
        return expr

    assert rewrite_call(pattern, rewriter, before) is before
    assert lengths == [4]
    assert isinstance(before.body.blocks[0].bindings[-1].value.args[0].ty, TupleType)

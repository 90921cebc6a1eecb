"""RemoveRedundantReshape and SimplifyTransposes, and views of views in fewer calls."""

from __future__ import annotations

import pytest

from regraft.passes.layout import SHORTER_VIEWS
from regraft.passes.passes import Pass, RulePass
from regraft.transform import RemoveRedundantReshape, SimplifyTransposes
from tests.kit import python_calls
from tests.passes.harness import checked, counts, program

X = 'x: R.Tensor((2, 3, 4), "float32")'


def test_reshapes_in_a_row_are_one() -> None:
    before = program(X, "a = R.reshape(x, (6, 4))\nb = R.reshape(a, (24,))\nc = R.reshape(b, (4, 6))", "c")
    assert counts(checked(RemoveRedundantReshape(), before, exact=True)) == {"reshape": 1}


def test_a_reshape_to_the_shape_that_is_there_goes() -> None:
    before = program(X, "a = R.reshape(x, (2, 3, 4))\nb = R.exp(a)", "b")
    assert counts(checked(RemoveRedundantReshape(), before, exact=True)) == {"exp": 1}
    before = program(X, "a = R.reshape(x, (24,))\nb = R.reshape(a, (2, 3, 4))\nc = R.exp(b)", "c")
    assert counts(checked(RemoveRedundantReshape(), before, exact=True)) == {"exp": 1}


@pytest.mark.parametrize("inner", ["R.flatten(x)", "R.expand_dims(x, [0, 2])", "R.squeeze(R.expand_dims(x, 1), 1)"])
def test_what_keeps_the_order_of_elements_is_one_reshape_with_what_follows(inner: str) -> None:
    before = program(X, f"a = {inner}\nb = R.reshape(a, (4, 6))", "b")
    assert counts(checked(RemoveRedundantReshape(), before, exact=True)) == {"reshape": 1}


def test_a_reshape_in_between_that_has_other_users_stays() -> None:
    before = program(X, "a = R.reshape(x, (6, 4))\nb = R.reshape(a, (24,))\nc = R.exp(a)", "b, c")
    assert counts(checked(RemoveRedundantReshape(), before, exact=True)) == {"reshape": 2, "exp": 1}


def test_symbolic_reshapes_stay_as_precise_as_they_were() -> None:
    before = program(
        'x: R.Tensor(("n", 4), "float32")',
        "a = R.reshape(x, (n * 4,))\nb = R.reshape(a, (4, n))\nc = R.reshape(x, (n, 4))\nd = R.exp(c)",
        "b, d",
        "n = T.int64()",
    )
    assert counts(checked(RemoveRedundantReshape(), before, exact=True)) == {"reshape": 1, "exp": 1}


def test_a_permute_dims_between_reshapes_is_no_reshape() -> None:
    before = program(X, "a = R.reshape(x, (6, 4))\nb = R.permute_dims(a)\nc = R.reshape(b, (6, 4))", "c")
    assert RemoveRedundantReshape()(before) is before


@pytest.mark.parametrize("axes", ["[0, 1, 2]", "[-3, -2, -1]", "[0, -2, 2]"])
def test_the_identity_permutation_goes(axes: str) -> None:
    before = program(X, f"a = R.permute_dims(x, {axes})\nb = R.exp(a)", "b")
    assert counts(checked(SimplifyTransposes(), before, exact=True)) == {"exp": 1}


def test_a_transpose_of_a_transpose_is_what_was_there() -> None:
    before = program(X, "a = R.permute_dims(x)\nb = R.permute_dims(a)\nc = R.exp(b)", "c")
    assert counts(checked(SimplifyTransposes(), before, exact=True)) == {"exp": 1}


@pytest.mark.parametrize("first", [[1, 2, 0], [2, 0, 1], [0, 2, 1], [-1, 0, 1]])
@pytest.mark.parametrize("second", [[1, 2, 0], [2, 0, 1], [2, 1, 0], [-2, -1, -3]])
def test_two_permutations_are_their_composition(first: list[int], second: list[int]) -> None:
    before = program(X, f"a = R.permute_dims(x, {first})\nb = R.permute_dims(a, {second})\nc = R.exp(b)", "c")
    assert counts(checked(SimplifyTransposes(), before, exact=True))["permute_dims"] <= 1


def test_axes_none_is_no_identity_at_rank_one_only_by_chance() -> None:
    before = program('x: R.Tensor((5,), "float32")', "a = R.permute_dims(x)\nb = R.exp(a)", "b")
    assert counts(checked(SimplifyTransposes(), before, exact=True)) == {"exp": 1}
    before = program('x: R.Tensor((3, 3), "float32")', "a = R.permute_dims(x)\nb = R.exp(a)", "b")
    assert SimplifyTransposes()(before) is before


def test_permutations_of_unknown_rank_are_left() -> None:
    before = program('x: R.Tensor(dtype="float32")', "a = R.permute_dims(x)\nb = R.permute_dims(a)", "b")
    assert SimplifyTransposes()(before) is before


# --- there and back, around what is done to each element

XY = 'x: R.Tensor((2, 3, 4), "float32"), y: R.Tensor((2, 3, 4), "float32")'


def test_permutations_around_elementwise_operators_go_in_pairs() -> None:
    body = """
a = R.permute_dims(x, [1, 2, 0])
b = R.multiply(R.exp(a), R.const(0.5, "float32"))
c = R.permute_dims(y, [1, 2, 0])
d = R.where(R.greater(b, c), b, R.negative(c))
e = R.permute_dims(d, [2, 0, 1])
"""
    after = checked(SimplifyTransposes(), program(XY, body, "e"), exact=True)
    assert counts(after)["permute_dims"] == 0


@pytest.mark.parametrize(
    ("step", "results"),
    [
        ("b = R.exp(a)\nc = R.permute_dims(b, [1, 2, 0])", "c"),  # not the way back
        ("b = R.nn.softmax(a, axis=1)\nc = R.permute_dims(b, [2, 0, 1])", "c"),  # not element by element
        ("b = R.exp(a)\nc = R.permute_dims(b, [2, 0, 1])", "c, b"),  # what is between is needed
        ("b = R.exp(a)\nc = R.permute_dims(b, [2, 0, 1])\nd = R.sin(b)", "c, d"),
        ("b = R.add(a, w)\nc = R.permute_dims(b, [2, 0, 1])", "c"),  # the other tensor was not permuted
        ("b = R.add(a, v)\nc = R.permute_dims(b, [2, 0, 1])", "c"),
    ],
)
def test_permutations_around_anything_else_stay(step: str, results: str) -> None:
    signature = f'{X}, w: R.Tensor((3, 4, 2), "float32"), v: R.Tensor((2,), "float32")'
    before = program(signature, f"a = R.permute_dims(x, [1, 2, 0])\n{step}", results)
    assert SimplifyTransposes()(before) is before


def test_tensors_that_broadcast_are_permuted_back_alike() -> None:
    signature = 'x: R.Tensor((2, 3, 4), "float32"), y: R.Tensor((1, 3, 1), "float32")'
    body = """
a = R.permute_dims(x, [0, 2, 1])
b = R.permute_dims(y, [0, 2, 1])
c = R.permute_dims(R.add(a, b), [0, 2, 1])
"""
    assert counts(checked(SimplifyTransposes(), program(signature, body, "c"), exact=True)) == {"add": 1}


def test_a_permuted_tensor_that_is_needed_elsewhere_stays_for_that() -> None:
    before = program(X, "a = R.permute_dims(x)\nb = R.permute_dims(R.exp(a))", "a, b")
    after = checked(SimplifyTransposes(), before, exact=True)
    assert counts(after) == {"permute_dims": 1, "exp": 1}


def test_reshapes_around_elementwise_operators_go_in_pairs() -> None:
    body = """
a = R.reshape(x, (6, 4))
b = R.flatten(y)
c = R.reshape(R.add(R.exp(a), R.const(1.0, "float32")), (2, 3, 4))
d = R.reshape(R.sin(b), (2, 3, 4))
"""
    after = checked(RemoveRedundantReshape(), program(XY, body, "c, d"), exact=True)
    assert counts(after)["reshape"] == counts(after)["flatten"] == 0


def test_reshapes_around_a_tensor_that_broadcasts_stay() -> None:
    signature = f'{X}, w: R.Tensor((4,), "float32"), u: R.Tensor((1, 4), "float32")'
    for other in ("w", "u"):
        body = f"a = R.reshape(x, (6, 4))\nb = R.add(a, {other})\nc = R.reshape(b, (2, 3, 4))"
        before = program(signature, body, "c")
        assert RemoveRedundantReshape()(before) is before


def test_values_in_between_that_are_used_many_times_are_computed_once() -> None:
    steps = "\n".join(f"v{i} = R.add(v{i - 1}, v{i - 1})" for i in range(1, 60))
    before = program(X, f"v0 = R.exp(R.permute_dims(x))\n{steps}\nc = R.permute_dims(v59)", "c")
    assert counts(checked(SimplifyTransposes(), before, exact=True)) == {"exp": 1, "add": 59}


def test_a_long_chain_between_a_permutation_there_and_back_is_no_stack() -> None:
    steps = "\n".join(f"v{i} = R.exp(v{i - 1})" for i in range(1, 5000))
    before = program(X, f"v0 = R.permute_dims(x)\n{steps}\nc = R.permute_dims(v4999)", "c")
    assert counts(SimplifyTransposes()(before)) == {"exp": 4999}


def test_values_that_many_permutations_look_at_cost_no_more_each() -> None:
    def work(count: int) -> int:
        steps = "\n".join(
            f"v{i} = R.exp(v{i - 1})\nw{i} = R.sin(v{i})\np{i} = R.permute_dims(w{i})" for i in range(1, count)
        )
        before = program(X, f"v0 = R.permute_dims(x)\n{steps}", ", ".join(f"p{i}" for i in range(1, count)))
        return python_calls(lambda: SimplifyTransposes()(before))

    assert work(200) < 4 * work(50) * 1.2


# --- views of views

HEADS = """
a = R.permute_dims(x, axes=[0, 2, 1, 3])
b = R.reshape(a, R.shape([8, 3, 5]))
c = R.permute_dims(b, axes=[1, 0, 2])
d = R.reshape(c, R.shape([3, 2, 20]))
"""


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("d", {"permute_dims": 1, "reshape": 1}),
        ("b, d", {"permute_dims": 2, "reshape": 2}),
        ("a, d", {"permute_dims": 2, "reshape": 1}),
    ],
)
def test_permutations_and_reshapes_in_turn_take_fewer_calls_where_others_go(
    outputs: str, expected: dict[str, int]
) -> None:
    before = program('x: R.Tensor((2, 3, 4, 5), "float32")', HEADS, outputs)
    assert counts(checked(RulePass(SHORTER_VIEWS, "ShorterViews"), before, exact=True)) == expected


SPLIT_BEHIND = """
a = R.reshape(x, R.shape([s, b * 4, 8]))
c = R.permute_dims(a, axes=[1, 0, 2])
d = R.reshape(c, R.shape([b, 4, s, 8]))
"""


@pytest.mark.parametrize("passes", [RulePass(SHORTER_VIEWS, "ShorterViews"), SimplifyTransposes()])
def test_heads_that_are_split_behind_a_permutation_are_split_before_it(passes: Pass) -> None:
    signature, sizes = 'x: R.Tensor(("s", "b", 32), "float32")', "s = T.int64()\nb = T.int64()"
    before = program(signature, SPLIT_BEHIND, "d", sizes)
    assert counts(checked(passes, before, exact=True)) == {"permute_dims": 1, "reshape": 1}


def test_axes_of_size_1_that_are_moved_and_dropped_are_a_permutation() -> None:
    moved = "a = R.expand_dims(x, [0])\nb = R.permute_dims(a, [3, 1, 2, 0, 4])\nc = R.squeeze(b, [3])"
    before = program('x: R.Tensor((5, 2, 3, 4), "float32")', moved, "c")
    assert counts(checked(SimplifyTransposes(), before, exact=True)) == {"permute_dims": 1}


def test_a_move_of_one_axis_stays_one_that_engines_have_a_kernel_for() -> None:
    apart = "a = R.reshape(x, (6, 20))\nb = R.permute_dims(a, [1, 0])\nc = R.reshape(b, (4, 5, 2, 3))"
    before = program('x: R.Tensor((2, 3, 4, 5), "float32")', apart, "c")
    assert SimplifyTransposes()(before) is before


def test_a_long_chain_of_views_costs_no_more_for_each() -> None:
    def work(count: int) -> int:
        steps = "\n".join(
            f"a{i} = R.permute_dims(b{i - 1}, [1, 0])\nb{i} = R.reshape(a{i}, (4, 6))" for i in range(1, count)
        )
        before = program('b0: R.Tensor((4, 6), "float32")', steps, f"b{count - 1}")
        return python_calls(lambda: SimplifyTransposes()(before))

    assert work(200) < 4 * work(50) * 1.2


def test_a_reshape_across_axes_is_no_view_of_them() -> None:
    before = program(X, "a = R.permute_dims(x, [1, 0, 2])\nb = R.reshape(a, (4, 6))\nc = R.permute_dims(b)", "c")
    assert RulePass(SHORTER_VIEWS, "ShorterViews")(before) is before

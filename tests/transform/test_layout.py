"""RemoveRedundantReshape and SimplifyTransposes."""

from __future__ import annotations

import pytest

from regraft.transform import RemoveRedundantReshape, SimplifyTransposes
from tests.transform.harness import checked, counts, program

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

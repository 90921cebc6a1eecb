"""ReorderPermuteDimsAfterConcat: any number, any permutation, and the traps of axes."""

from __future__ import annotations

import numpy as np
import pytest

from regraft.ir import Call, Function, is_call_of, iter_bindings
from regraft.testing import assert_same_values
from regraft.transform import (
    CombineParallelMatmul,
    DeadCodeElimination,
    ReorderPermuteDimsAfterConcat,
    Sequential,
    report,
)
from tests.passes.harness import checked, counts, program


def _tensor(name: str, *shape: int) -> str:
    return f'{name}: R.Tensor({shape}, "float32")'


def _only(function: Function, op: str) -> Call:
    [call] = [b.value for b in iter_bindings(function) if is_call_of(b.value, f"relax.{op}")]
    assert isinstance(call, Call)
    return call


def test_transposed_weights_side_by_side_become_one_transpose_of_stacked_weights() -> None:
    before = program(
        f"{_tensor('a', 4, 3)}, {_tensor('b', 5, 3)}",
        "p = R.permute_dims(a)\nq = R.permute_dims(b)\nr = R.concat([p, q], axis=1)",
        "r",
    )
    after = checked(ReorderPermuteDimsAfterConcat(), before, exact=True)
    assert counts(after) == {"concat": 1, "permute_dims": 1}
    assert _only(after, "concat").attrs.axis == 0
    assert _only(after, "permute_dims").attrs.axes is None


@pytest.mark.parametrize("number", [1, 2, 12, 40])
def test_any_number_of_tensors_is_reordered(number: int) -> None:
    names = [f"w{i}" for i in range(number)]
    before = program(
        ", ".join(_tensor(name, 2 + i % 7, 3) for i, name in enumerate(names)),
        "\n".join(f"t{i} = R.permute_dims({name})" for i, name in enumerate(names))
        + f"\nr = R.concat([{', '.join(f't{i}' for i in range(number))}], axis=1)",
        "r",
    )
    assert counts(checked(ReorderPermuteDimsAfterConcat(), before, exact=True))["permute_dims"] == 1


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize(
    ("first", "second"), [("None", "[1, 0]"), ("[-1, -2]", "[1, 0]"), ("[-1, 0]", "None"), ("[1, 0]", "[1, -2]")]
)
def test_one_permutation_written_in_two_ways_is_one(first: str, second: str, axis: int) -> None:
    before = program(
        f"{_tensor('a', 4, 3)}, {_tensor('b', 5, 3)}",
        f"p = R.permute_dims(a, {first})\nq = R.permute_dims(b, {second})\nr = R.concat([p, q], axis={axis})",
        "r",
    )
    assert counts(checked(ReorderPermuteDimsAfterConcat(), before, exact=True))["permute_dims"] == 1


@pytest.mark.parametrize("axes", [(1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0), (-1, 0, 1)])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_the_new_axis_is_where_the_permutation_takes_it_from(axes: tuple[int, ...], axis: int) -> None:
    shape = [4, 5, 6]
    other = list(shape)
    other[axes[axis % 3] % 3] = 7
    before = program(
        f"{_tensor('a', *shape)}, {_tensor('b', *other)}",
        f"p = R.permute_dims(a, {list(axes)})\nq = R.permute_dims(b, {list(axes)})\n"
        f"r = R.concat([p, q, p], axis={axis})",
        "r",
    )
    after = checked(ReorderPermuteDimsAfterConcat(), before, exact=True)
    assert counts(after)["permute_dims"] == 1
    assert _only(after, "concat").attrs.axis == axes[axis % 3] % 3


def test_the_same_tensor_twice_is_joined_twice() -> None:
    before = program(_tensor("a", 4, 3), "p = R.permute_dims(a)\nr = R.concat([p, p], axis=0)", "r")
    assert counts(checked(ReorderPermuteDimsAfterConcat(), before, exact=True)) == {"concat": 1, "permute_dims": 1}


def test_a_permuted_value_with_other_users_stays_for_them() -> None:
    before = program(
        f"{_tensor('a', 4, 3)}, {_tensor('b', 5, 3)}",
        "p = R.permute_dims(a)\nq = R.permute_dims(b)\nr = R.concat([p, q], axis=1)\ns = R.exp(p)",
        "r, s",
    )
    after = checked(ReorderPermuteDimsAfterConcat(), before, exact=True)
    assert counts(after) == {"concat": 1, "permute_dims": 2, "exp": 1}


def test_different_permutations_are_left_with_a_reason() -> None:
    before = program(
        f"{_tensor('a', 4, 3, 5)}, {_tensor('b', 3, 5, 4)}",
        "p = R.permute_dims(a, [1, 2, 0])\nq = R.permute_dims(b, [0, 1, 2])\nr = R.concat([p, q], axis=1)",
        "r",
    )
    assert ReorderPermuteDimsAfterConcat()(before) is before
    told = str(report(ReorderPermuteDimsAfterConcat(), before))
    assert "the tensors are permuted differently: (1, 2, 0), (0, 1, 2)" in told


def test_a_tensor_that_is_not_permuted_leaves_the_concat() -> None:
    before = program(
        f"{_tensor('a', 4, 3)}, {_tensor('b', 3, 5)}", "p = R.permute_dims(a)\nr = R.concat([p, b], axis=1)", "r"
    )
    assert ReorderPermuteDimsAfterConcat()(before) is before


def test_unknown_rank_with_axes_none_is_left_with_a_reason() -> None:
    before = program(
        'a: R.Tensor(dtype="float32"), b: R.Tensor(dtype="float32")',
        "p = R.permute_dims(a)\nq = R.permute_dims(b)\nr = R.concat([p, q], axis=1)",
        "r",
    )
    assert ReorderPermuteDimsAfterConcat()(before) is before
    assert "the rank of a permuted tensor is not known" in str(report(ReorderPermuteDimsAfterConcat(), before))


def test_unknown_rank_with_explicit_axes_keeps_its_values() -> None:
    before = program(
        'a: R.Tensor(dtype="float32"), b: R.Tensor(dtype="float32")',
        "p = R.permute_dims(a, [1, 0])\nq = R.permute_dims(b, [1, 0])\nr = R.concat([p, q], axis=-1)",
        "r",
    )
    rng = np.random.default_rng(0)
    inputs = [rng.random(shape, dtype=np.float32) for shape in ((4, 3), (5, 3))]
    checked(ReorderPermuteDimsAfterConcat(), before, inputs=inputs)


def test_a_concat_of_flattened_tensors_is_left() -> None:
    before = program(
        f"{_tensor('a', 4, 3)}, {_tensor('b', 5, 2)}",
        "p = R.permute_dims(a)\nq = R.permute_dims(b)\nr = R.concat([p, q], axis=None)",
        "r",
    )
    assert ReorderPermuteDimsAfterConcat()(before) is before


def test_linear_layers_are_there_again_after_their_matmuls_were_combined() -> None:
    names = "qkv"
    before = program(
        ", ".join([_tensor("x", 2, 7, 3), *(_tensor(f"w{n}", 4 + i, 3) for i, n in enumerate(names))]),
        "\n".join(f"{n} = R.matmul(x, R.permute_dims(w{n}))" for n in names),
        "q, k, v",
    )
    passes = Sequential([CombineParallelMatmul(), ReorderPermuteDimsAfterConcat(), DeadCodeElimination()])
    after = passes(before)
    assert counts(after) == {"concat": 1, "permute_dims": 1, "matmul": 1, "split": 1}
    [permuted] = [b.var for b in iter_bindings(after) if is_call_of(b.value, "relax.permute_dims")]
    assert _only(after, "matmul").args[1] is permuted
    assert _only(after, "concat").attrs.axis == 0
    assert_same_values(before, after)

"""ReorderTakeAfterMatmul, ExpandMatmulOfSum, AdjustMatmulOrder: what they do, and where they must not."""

from __future__ import annotations

import numpy as np
import pytest

from regraft.ir import Function
from regraft.transform import AdjustMatmulOrder, ExpandMatmulOfSum, ReorderTakeAfterMatmul, report
from tests.passes.harness import checked, counts, program, signature


def _ops_in_order(function: Function) -> list[str]:
    from regraft.ir import Call, Op, iter_bindings

    values = [b.value for b in iter_bindings(function)]
    return [v.op.name.removeprefix("relax.") for v in values if isinstance(v, Call) and isinstance(v.op, Op)]


# --- take


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("x", [(3,), (2, 3), (5, 2, 3)])
def test_columns_are_taken_after_the_product(x: tuple[int, ...], axis: int) -> None:
    before = program(
        f'{signature(x=x, w=(3, 7))}, i: R.Tensor((4,), "int64")', f"r = R.matmul(x, R.take(w, i, axis={axis}))", "r"
    )
    rng = np.random.default_rng(0)
    inputs = [rng.random(s, dtype=np.float32) for s in (x, (3, 7))] + [np.array([6, 0, 0, 2])]
    assert _ops_in_order(checked(ReorderTakeAfterMatmul(), before, inputs=inputs)) == ["matmul", "take"]


@pytest.mark.parametrize("mode", ["wrap", "clip", "nan"])
def test_indices_out_of_range_mean_the_same_after_the_product(mode: str) -> None:
    before = program(
        f'{signature(x=(2, 3), w=(3, 7))}, i: R.Tensor((4,), "int64")',
        f'r = R.matmul(x, R.take(w, i, axis=1, mode="{mode}"))',
        "r",
    )
    rng = np.random.default_rng(0)
    inputs = [rng.random(s, dtype=np.float32) for s in ((2, 3), (3, 7))] + [np.array([-1, 9, 3, 7])]
    checked(ReorderTakeAfterMatmul(), before, inputs=inputs)


def test_one_column_that_is_taken_by_a_scalar_is_a_vector_after_the_product() -> None:
    before = program(
        f'{signature(x=(2, 3), w=(3, 7))}, i: R.Tensor((), "int64")', "r = R.matmul(x, R.take(w, i, axis=1))", "r"
    )
    rng = np.random.default_rng(0)
    inputs = [rng.random(s, dtype=np.float32) for s in ((2, 3), (3, 7))] + [np.array(5)]
    assert _ops_in_order(checked(ReorderTakeAfterMatmul(), before, inputs=inputs)) == ["matmul", "take"]


@pytest.mark.parametrize(("indices", "axis", "w"), [((3,), 0, (7, 4)), ((3, 5), 1, (3, 7)), ((), 2, (3, 3, 7))])
def test_rows_and_indices_of_other_ranks_are_left(indices: tuple[int, ...], axis: int, w: tuple[int, ...]) -> None:
    before = program(
        f'{signature(x=(2, 3), w=w)}, i: R.Tensor({indices}, "int64")',
        f"t = R.take(w, i, axis={axis})\nr = R.matmul(x, t)" if axis != 1 else "t = R.take(w, i, axis=1)\nr = R.sum(t)",
        "r",
    )
    assert ReorderTakeAfterMatmul()(before) is before


# --- sums


def test_a_product_of_a_sum_is_a_sum_of_products() -> None:
    before = program(signature(x=(2, 3), a=(3, 7), b=(3, 7)), "r = R.matmul(x, a + b)", "r")
    assert _ops_in_order(checked(ExpandMatmulOfSum(), before)) == ["matmul", "matmul", "add"]


def test_a_sum_that_broadcasts_is_left() -> None:
    before = program(signature(x=(2, 3), a=(3, 7), b=(7,)), "r = R.matmul(x, a + b)", "r")
    assert ExpandMatmulOfSum()(before) is before
    assert "one may be broadcast" in str(report(ExpandMatmulOfSum(), before))


def test_a_sum_of_weights_is_left_since_it_is_known_before_the_inputs() -> None:
    before = program(signature(x=(2, 3), a=(3, 7), b=(3, 7)), "r = R.matmul(x, a + b)", "r")
    assert ExpandMatmulOfSum()(before.with_attr("num_input", 1)) is not None
    weights = before.with_attr("num_input", 1)
    assert ExpandMatmulOfSum()(weights) is weights
    assert ExpandMatmulOfSum()(before.with_attr("num_input", 2)) is not before.with_attr("num_input", 2)


def test_a_narrow_integer_sum_multiplied_into_a_wide_dtype_is_left() -> None:
    before = program(signature("int8", x=(2, 3), a=(3, 7), b=(3, 7)), 'r = R.matmul(x, a + b, out_dtype="int32")', "r")
    assert ExpandMatmulOfSum()(before) is before


def test_integers_stay_exact_where_they_overflow() -> None:
    before = program(signature("int8", x=(2, 3), a=(3, 7), b=(3, 7)), "r = R.matmul(x, a + b)", "r")
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, size=s).astype(np.int8) for s in ((2, 3), (3, 7), (3, 7))]
    assert counts(checked(ExpandMatmulOfSum(), before, inputs=inputs))["matmul"] == 2


# --- order


@pytest.mark.parametrize(
    ("a", "b", "c", "right"),
    [
        ((64, 3), (3, 70), (70, 2), True),
        ((2, 3), (3, 70), (70, 64), False),
        ((5, 7, 3), (3, 40), (40, 2), True),
        ((40,), (40, 3), (3, 50), False),
        ((30, 40), (40, 50), (50,), True),
    ],
)
@pytest.mark.parametrize("written_right", [False, True])
def test_the_cheaper_order_is_taken(
    a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...], right: bool, written_right: bool
) -> None:
    text = "r = R.matmul(a, R.matmul(b, c))" if written_right else "r = R.matmul(R.matmul(a, b), c)"
    before = program(signature(a=a, b=b, c=c), text, "r")
    after = checked(AdjustMatmulOrder(), before)
    assert (after is before) == (right == written_right)


def test_a_transposed_product_on_the_right_is_taken_apart() -> None:
    before = program(signature(x=(2, 30), a=(40, 3), b=(3, 30)), "r = R.matmul(x, R.permute_dims(R.matmul(a, b)))", "r")
    after = checked(AdjustMatmulOrder(), before)
    assert counts(after) == {"matmul": 2, "permute_dims": 2}


def test_a_transposed_product_on_the_left_is_taken_apart() -> None:
    before = program(signature(x=(30, 2), a=(30, 3), b=(3, 40)), "r = R.matmul(R.permute_dims(R.matmul(a, b)), x)", "r")
    after = checked(AdjustMatmulOrder(), before)
    assert _ops_in_order(after) == ["permute_dims", "permute_dims", "matmul", "matmul"]


def test_products_of_weights_are_free() -> None:
    before = program(signature(x=(2, 30), a=(30, 3), b=(3, 40)), "r = R.matmul(R.matmul(x, a), b)", "r")
    assert AdjustMatmulOrder()(before) is before
    weights = before.with_attr("num_input", 1)
    assert AdjustMatmulOrder()(weights) is weights, "two thin products are fewer multiplications than a thick one"
    wide = program(signature(x=(20, 30), a=(30, 35), b=(35, 40)), "r = R.matmul(R.matmul(x, a), b)", "r")
    assert AdjustMatmulOrder()(wide) is wide
    assert AdjustMatmulOrder()(wide.with_attr("num_input", 1)) is not wide


def test_symbolic_sizes_are_reordered_only_if_that_is_cheaper_for_all_of_them() -> None:
    header = "n = T.int64()"
    lora = program(signature(x=("n", 30), a=(30, 3), b=(3, 40)), "r = R.matmul(x, R.matmul(a, b))", "r", header)
    assert counts(checked(AdjustMatmulOrder(), lora))["matmul"] == 2
    assert AdjustMatmulOrder()(lora) is not lora
    other = program(signature(x=("n", 30), a=(30, 20), b=(20, 40)), "r = R.matmul(R.matmul(x, a), b)", "r", header)
    assert AdjustMatmulOrder()(other) is other
    assert "is not known to be cheaper for all sizes" in str(report(AdjustMatmulOrder(), other))


def test_an_inner_product_that_is_used_elsewhere_is_left() -> None:
    before = program(signature(a=(64, 3), b=(3, 70), c=(70, 2)), "p = R.matmul(a, b)\nr = R.matmul(p, c)", "p, r")
    assert AdjustMatmulOrder()(before) is before


def test_a_product_that_is_rounded_to_another_dtype_in_between_is_left() -> None:
    before = program(
        signature("int8", a=(64, 3), b=(3, 70), c=(70, 2)),
        'p = R.matmul(a, b, out_dtype="int32")\nd = R.astype(c, "int32")\nr = R.matmul(p, d)',
        "r",
    )
    assert AdjustMatmulOrder()(before) is before


def test_stacks_of_matrices_are_multiplied_in_the_cheaper_order() -> None:
    before = program(signature(a=(64, 3), b=(5, 3, 70), c=(5, 70, 2)), "r = R.matmul(R.matmul(a, b), c)", "r")
    after = checked(AdjustMatmulOrder(), before)
    assert after.body.blocks[0].bindings[0].value.ty.shape == (5, 3, 2)


def test_a_vector_beside_a_stack_is_left() -> None:
    before = program(signature(a=(64, 3), b=(5, 3, 70), c=(70,)), "r = R.matmul(R.matmul(a, b), c)", "r")
    assert AdjustMatmulOrder()(before) is before
    assert "only matrices, stacks of them and vectors beside a matrix" in str(report(AdjustMatmulOrder(), before))


def test_sizes_of_a_known_most_are_counted_at_their_most() -> None:
    header = "n = T.int64()\nr = T.int64()"
    text = "o = R.matmul(x, R.matmul(a, b))"
    before = program(signature(x=("n", 16), a=(16, "r"), b=("r", 32)), text, "o", header)
    assert AdjustMatmulOrder()(before) is before
    bounded = before.with_attr("tir_var_upper_bound", {"r": 4})
    after = checked(AdjustMatmulOrder(), bounded)
    assert after.body.blocks[0].bindings[0].value.args[0] is after.params[0]

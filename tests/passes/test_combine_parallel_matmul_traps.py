"""Programs on which tools that combine matmuls have given wrong answers or crashed; both sides are run."""

from __future__ import annotations

import numpy as np
import pytest

from regraft.analysis import well_formed
from regraft.ir import Call, Function, TensorType, iter_bindings
from regraft.transform import CombineParallelMatmul, report
from tests.passes.harness import checked, counts, program, signature


def _matmuls_after(before: Function, **options: object) -> int:
    return counts(checked(CombineParallelMatmul(), before, **options))["matmul"]  # type: ignore[arg-type]


# --- dependence


def test_a_right_side_that_depends_on_another_result_is_left() -> None:
    before = program(
        signature(x=(2, 3), w=(3, 4), u=(2, 3)),
        "y1 = R.matmul(x, w)\nw2 = R.matmul(R.permute_dims(u), y1)\ny2 = R.matmul(x, w2)",
        "y1, y2",
    )
    assert CombineParallelMatmul()(before) is before
    assert "y2 is computed from y1" in str(report(CombineParallelMatmul(), before))


@pytest.mark.parametrize(
    ("right", "reason"),
    [
        ("R.reshape(u, (1, 3, 4))", "the right sides of y1 and y2 have 2 and 3 axes"),
        ("u, out_dtype='float64'", "y1 and y2 are float32 and float64"),
        ("R.exp(R.matmul(u, R.matmul(x, w)))", "y2 is computed from y1"),
    ],
)
def test_what_keeps_two_products_apart_is_told(right: str, reason: str) -> None:
    shape = (3, 4) if "matmul" not in right else (3, 2)
    before = program(
        signature(x=(2, 3), w=(3, 4), u=shape), f"y1 = R.matmul(x, w)\ny2 = R.matmul(x, {right})", "y1, y2"
    )
    assert reason in str(report(CombineParallelMatmul(), before))


def test_a_dependence_through_a_cast_is_seen() -> None:
    before = program(
        signature(x=(2, 3), w=(3, 4), u=(2, 3)),
        """
y1 = R.matmul(x, w)
w2 = R.matmul(R.permute_dims(u), y1)
w3 = R.match_cast(w2, R.Tensor((3, 4), "float32"))
y2 = R.matmul(x, w3)
""",
        "y1, y2",
    )
    after = CombineParallelMatmul()(before)
    well_formed(after)
    assert after is before


def test_what_is_independent_is_combined_beside_what_is_not() -> None:
    before = program(
        signature(x=(2, 3), w=(3, 4), v=(3, 5), u=(2, 3)),
        """
y1 = R.matmul(x, w)
w2 = R.matmul(R.permute_dims(u), y1)
y2 = R.matmul(x, w2)
y3 = R.matmul(x, v)
w4 = R.tanh(w2)
y4 = R.matmul(x, w4)
""",
        "y1, y2, y3, y4",
    )
    after = checked(CombineParallelMatmul(), before)
    # y1 with y3, and y2 with y4; the matmul that makes w2 is the third.
    assert counts(after)["matmul"] == 3


def test_two_groups_that_depend_on_each_other_crosswise_make_no_cycle() -> None:
    before = program(
        signature(x=(3, 3), a=(3, 3), b=(2, 3, 3)),
        """
a1 = R.matmul(x, a)
b2 = R.matmul(x, b)
b1 = R.matmul(x, R.add(b, a1))
a2 = R.matmul(x, R.sum(b2, axis=[0]))
""",
        "a1, b2, b1, a2",
    )
    checked(CombineParallelMatmul(), before)


def test_a_bias_that_depends_on_another_branch_is_added_behind_the_split() -> None:
    before = program(
        signature(x=(2, 3), w=(3, 4), v=(3, 4), b=(4,)),
        "y1 = R.matmul(x, w) + b\nc = R.sum(y1, axis=[0])\ny2 = R.matmul(x, v) + c",
        "y1, y2",
    )
    after = checked(CombineParallelMatmul(), before)
    assert counts(after) == {"matmul": 1, "add": 2, "concat": 1, "split": 1, "sum": 1}


def test_the_sum_of_two_branches_is_no_bias() -> None:
    before = program(signature(x=(2, 3), w=(3, 4), v=(3, 4)), "y = R.matmul(x, w) + R.matmul(x, v)", "y")
    assert _matmuls_after(before) == 1
    before = program(
        signature(x=(2, 3), w=(3, 4), v=(3, 4)),
        "a = R.matmul(x, w)\nb = R.matmul(x, v)\ny = a + a\nz = b + b",
        "y, z",
    )
    assert _matmuls_after(before) == 1


# --- biases of every shape


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5, 8, 4), (5, 8, 4)),  # raises the rank of the product
        ((), ()),
        ((1,), (1,)),
        ((8, 1), (8, 1)),
        ((1, 4), (2, 1, 4)),
        ((4,), (1, 4)),
        ((8, 4), (8, 4)),
        ((8, 4), (4,)),
        ((1,), (4,)),
    ],
)
def test_a_bias_of_any_shape_gives_the_same_values(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    before = program(
        signature(x=(8, 3), w=(3, 4), v=(3, 4), b=left, c=right),
        "p = R.matmul(x, w) + b\nq = c + R.matmul(x, v)",
        "p, q",
    )
    after = checked(CombineParallelMatmul(), before)
    fused = left == right and left in ((4,), (1, 4), (8, 4))
    assert counts(after)["matmul"] == 1
    assert counts(after)["add"] == (1 if fused else 2)


def test_biases_of_unlike_leading_sizes_stay_apart() -> None:
    before = program(
        signature(x=(2, 3), w=(3, 4), v=(3, 5), b=(1, 4), c=(2, 5)),
        "p = R.matmul(x, w) + b\nq = R.matmul(x, v) + c",
        "p, q",
    )
    assert counts(checked(CombineParallelMatmul(), before)) == {"matmul": 1, "add": 2, "concat": 1, "split": 1}


def test_a_bias_that_broadcasts_a_product_of_one_column_is_no_bias_of_it() -> None:
    before = program(
        signature(x=(2, 3), w=(3, 1), v=(3, 1), b=(6,), c=(7,)),
        "p = R.matmul(x, w) + b\nq = R.matmul(x, v) + c",
        "p, q",
    )
    assert counts(checked(CombineParallelMatmul(), before))["add"] == 2


def test_a_bias_that_broadcasts_a_product_of_one_row_is_no_bias_of_it() -> None:
    before = program(
        signature(x=(1, 3), w=(3, 4), v=(3, 5), b=(6, 4), c=(6, 5)),
        "p = R.matmul(x, w) + b\nq = R.matmul(x, v) + c",
        "p, q",
    )
    assert counts(checked(CombineParallelMatmul(), before))["add"] == 2


def test_a_shared_bias_is_taken_for_each_branch() -> None:
    before = program(
        signature(x=(2, 3), w=(3, 4), v=(3, 4), b=(4,)), "p = R.matmul(x, w) + b\nq = b + R.matmul(x, v)", "p, q"
    )
    assert counts(checked(CombineParallelMatmul(), before)) == {"matmul": 1, "add": 1, "concat": 2, "split": 1}


def test_a_product_whose_unbiased_value_is_used_too_keeps_it() -> None:
    before = program(
        signature(x=(2, 3), w=(3, 4), v=(3, 5), b=(4,), c=(5,)),
        "m = R.matmul(x, w)\np = m + b\nq = R.matmul(x, v) + c\nr = R.exp(m)",
        "p, q, r",
    )
    assert counts(checked(CombineParallelMatmul(), before))["matmul"] == 1


def test_a_product_that_is_itself_an_output_keeps_it() -> None:
    before = program(
        signature(x=(2, 3), w=(3, 4), v=(3, 5), b=(4,), c=(5,)),
        "m = R.matmul(x, w)\np = m + b\nq = R.matmul(x, v) + c",
        "m, p, q",
    )
    assert _matmuls_after(before) == 1


# --- eligibility group by group


def test_a_first_group_that_cannot_be_combined_does_not_stop_the_later_ones() -> None:
    before = program(
        signature(x=(3,), y=(5, 3), a=(3,), b=(3,), c=(3, 4), d=(3, 7)),
        "p = R.matmul(x, a)\nq = R.matmul(x, b)\nr = R.matmul(y, c)\ns = R.matmul(y, d)",
        "p, q, r, s",
    )
    assert _matmuls_after(before) == 3


def test_a_first_group_that_the_check_declines_does_not_stop_the_later_ones() -> None:
    before = program(
        signature(x=(2, 3), y=(5, 3), a=(3, 4), b=(3, 7), c=(3, 6)),
        "p = R.matmul(x, a)\nq = R.matmul(x, b)\nr = R.matmul(y, a)\ns = R.matmul(y, b)\nt = R.matmul(y, c)",
        "p, q, r, s, t",
    )
    after = checked(CombineParallelMatmul(lambda _left, right, *_: len(right) == 3), before)
    assert counts(after)["matmul"] == 3


# --- dtypes


@pytest.mark.parametrize("said", [("None", '"float32"'), ('"float32"', "None")])
def test_out_dtype_said_by_some_branches_only_is_kept(said: tuple[str, str]) -> None:
    before = program(
        signature(x=(2, 3), w=(3, 4), v=(3, 5)),
        f"p = R.matmul(x, w, out_dtype={said[0]})\nq = R.matmul(x, v, out_dtype={said[1]})",
        "p, q",
    )
    after = checked(CombineParallelMatmul(), before)
    [product] = [b.value for b in iter_bindings(after) if isinstance(b.value, Call) and "out_dtype" in b.value.attrs]
    assert product.attrs.out_dtype == "float32"


@pytest.mark.parametrize("said", [("None", '"float32"'), ('"float32"', "None")])
def test_results_of_different_dtypes_are_not_combined(said: tuple[str, str]) -> None:
    before = program(
        signature("float16", x=(2, 3), w=(3, 4), v=(3, 5), u=(3, 6)),
        f"p = R.matmul(x, w, out_dtype={said[0]})\nq = R.matmul(x, v, out_dtype={said[1]})\n"
        f"r = R.matmul(x, u, out_dtype={said[1]})",
        "p, q, r",
    )
    after = checked(CombineParallelMatmul(), before)
    products = [b.value for b in iter_bindings(after) if isinstance(b.value, Call) and "out_dtype" in b.value.attrs]
    assert len(products) == 2
    assert {p.ty.dtype for p in products if isinstance(p.ty, TensorType)} == {"float16", "float32"}


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "float16", "bfloat16", "float64"])
def test_every_dtype_gives_the_same_values(dtype: str) -> None:
    before = program(
        signature(dtype, x=(2, 3), w=(3, 4), v=(3, 5), b=(4,), c=(5,)),
        "p = R.matmul(x, w) + b\nq = R.matmul(x, v) + c",
        "p, q",
    )
    assert _matmuls_after(before) == 1


def test_integers_multiplied_into_a_wider_dtype_keep_it() -> None:
    before = program(
        signature("int8", x=(2, 3), w=(3, 4), v=(3, 5)),
        'p = R.matmul(x, w, out_dtype="int32")\nq = R.matmul(x, v, out_dtype="int32")',
        "p, q",
    )
    assert _matmuls_after(before, exact=True) == 1


def test_right_sides_of_different_dtypes_are_not_combined() -> None:
    parameters = f"{signature('int8', x=(2, 3), w=(3, 4))}, {signature('uint8', v=(3, 5))}"
    before = program(parameters, 'p = R.matmul(x, w, out_dtype="int32")\nq = R.matmul(x, v, out_dtype="int32")', "p, q")
    assert CombineParallelMatmul()(before) is before


# --- ranks


def test_a_left_side_of_one_axis_is_combined() -> None:
    before = program(
        signature(x=(3,), w=(3, 4), v=(3, 5), b=(4,), c=(5,)),
        "p = R.matmul(x, w) + b\nq = R.matmul(x, v) + c",
        "p, q",
    )
    assert _matmuls_after(before) == 1


def test_right_sides_of_one_axis_are_left() -> None:
    before = program(signature(x=(2, 3), w=(3,), v=(3,)), "p = R.matmul(x, w)\nq = R.matmul(x, v)", "p, q")
    assert CombineParallelMatmul()(before) is before
    assert "is a vector" in str(report(CombineParallelMatmul(), before))


def test_of_three_batched_right_sides_the_two_that_agree_are_combined() -> None:
    before = program(
        signature(x=(2, 3), w=(5, 3, 4), v=(7, 3, 6), u=(5, 3, 8)),
        "p = R.matmul(x, w)\nq = R.matmul(x, v)\nr = R.matmul(x, u)",
        "p, q, r",
    )
    assert counts(checked(CombineParallelMatmul(), before)) == {"matmul": 2, "concat": 1, "split": 1}


def test_right_sides_of_different_ranks_are_combined_rank_by_rank() -> None:
    before = program(
        signature(x=(2, 3), a=(3, 4), b=(5, 3, 6), c=(3, 7), d=(5, 3, 8)),
        "p = R.matmul(x, a)\nq = R.matmul(x, b)\nr = R.matmul(x, c)\ns = R.matmul(x, d)",
        "p, q, r, s",
    )
    assert _matmuls_after(before) == 2


def test_a_batched_left_side_that_broadcasts_is_combined() -> None:
    before = program(
        signature(x=(6, 1, 2, 3), w=(5, 3, 4), v=(5, 3, 7), b=(7,), c=(4,)),
        "p = R.matmul(x, w) + c\nq = R.matmul(x, v) + b",
        "p, q",
    )
    assert _matmuls_after(before) == 1


def test_a_left_side_of_unknown_rank_is_combined() -> None:
    before = program(
        f'x: R.Tensor(dtype="float32"), {signature(w=(3, 4), v=(3, 5))}',
        "p = R.matmul(x, w)\nq = R.matmul(x, v)",
        "p, q",
    )
    rng = np.random.default_rng(0)
    for shape in ((2, 3), (6, 2, 3), (3,)):
        inputs = [rng.random(s, dtype=np.float32) for s in (shape, (3, 4), (3, 5))]
        assert _matmuls_after(before, inputs=inputs) == 1


def test_right_sides_of_unknown_shape_are_left_with_a_reason() -> None:
    before = program(
        f'{signature(x=(2, 3))}, w: R.Tensor(ndim=2, dtype="float32"), v: R.Tensor(dtype="float32")',
        "p = R.matmul(x, w)\nq = R.matmul(x, v)",
        "p, q",
    )
    assert CombineParallelMatmul()(before) is before
    assert "the shape or dtype of its right side is not known" in str(report(CombineParallelMatmul(), before))


# --- symbolic sizes


@pytest.mark.parametrize("widths", [("n", 5, 7), (5, "n", 7), ("n", "k", 5), ("n", "n", "n"), ("n", "k", "j")])
def test_symbolic_widths_are_split_where_they_end(widths: tuple[object, ...]) -> None:
    a, b, c = widths
    header = "\n".join(f"{s} = T.int64()" for s in dict.fromkeys(("m", *widths)) if isinstance(s, str))
    before = program(
        signature(x=("m", 3), w=(3, a), v=(3, b), u=(3, c), p=(a,), q=(b,), r=(c,)),
        "d = R.nn.relu(R.matmul(x, w) + p)\ne = R.nn.relu(R.matmul(x, v) + q)\nf = R.nn.relu(r + R.matmul(x, u))",
        "d, e, f",
        header,
    )
    after = checked(CombineParallelMatmul(), before)
    assert counts(after) == {"matmul": 1, "add": 1, "nn.relu": 1, "concat": 2, "split": 1}


def test_a_width_of_zero_is_no_trap() -> None:
    before = program(
        signature(x=("m", 3), w=(3, "n"), v=(3, 5)),
        "p = R.matmul(x, w)\nq = R.matmul(x, v)",
        "p, q",
        "m = T.int64()\nn = T.int64()",
    )
    rng = np.random.default_rng(0)
    inputs = [rng.random(shape, dtype=np.float32) for shape in ((2, 3), (3, 0), (3, 5))]
    assert _matmuls_after(before, inputs=inputs) == 1


def test_widths_that_a_cast_defines_are_known_where_the_split_stands() -> None:
    before = program(
        f'{signature(x=(2, 3), v=(3, 5))}, w: R.Tensor(ndim=2, dtype="float32")',
        """
q = R.matmul(x, v)
n = T.int64()
w2 = R.match_cast(w, R.Tensor((3, n), "float32"))
p = R.matmul(x, w2)
""",
        "p, q",
    )
    rng = np.random.default_rng(0)
    inputs = [rng.random(shape, dtype=np.float32) for shape in ((2, 3), (3, 5), (3, 4))]
    assert _matmuls_after(before, inputs=inputs) == 1


def test_sizes_to_sum_over_that_are_not_known_to_agree_are_not_joined() -> None:
    before = program(
        signature(x=(2, 3), w=("k", 4), v=(3, 5)), "p = R.matmul(x, w)\nq = R.matmul(x, v)", "p, q", "k = T.int64()"
    )
    assert CombineParallelMatmul()(before) is before


# --- names of one value


def test_left_sides_under_several_names_are_one() -> None:
    before = program(
        f"{signature(x=(2, 3), w=(3, 4), v=(3, 5), u=(3, 6))}, "
        't: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((7, 3), "float32"))',
        """
a = x
s = (x, w)
b = s[0]
p = R.matmul(a, w)
q = R.matmul(b, v)
r = R.matmul(x, u)
""",
        "p, q, r",
    )
    assert _matmuls_after(before) == 1


def test_fields_of_a_tuple_that_is_a_parameter_are_one_value_each() -> None:
    before = program(
        't: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((7, 3), "float32")), '
        + signature(w=(3, 4), v=(3, 5), u=(3, 6)),
        """
a = t[0]
b = t[0]
c = t[1]
p = R.matmul(a, w)
q = R.matmul(b, v)
r = R.matmul(c, u)
""",
        "p, q, r",
    )
    assert counts(checked(CombineParallelMatmul(), before)) == {"matmul": 2, "concat": 1, "split": 1}


def test_a_left_side_may_be_a_constant() -> None:
    before = program(
        signature(w=(2, 4), v=(2, 5)),
        'c = R.const([[1.5, -2.0], [0.25, 3.0], [4.0, 7.0]], "float32")\np = R.matmul(c, w)\nq = R.matmul(c, v)',
        "p, q",
    )
    assert _matmuls_after(before) == 1


def test_a_left_side_may_be_an_output_of_the_block() -> None:
    before = program(
        signature(x=(2, 3), w=(3, 4), v=(3, 5)), "y = R.exp(x)\np = R.matmul(y, w)\nq = R.matmul(y, v)", "y, p, q"
    )
    assert _matmuls_after(before) == 1


def test_the_same_weight_twice_gives_both_results() -> None:
    before = program(
        signature(x=(2, 3), w=(3, 4), b=(4,), c=(4,)), "p = R.matmul(x, w) + b\nq = R.matmul(x, w) + c", "p, q"
    )
    assert _matmuls_after(before) == 1
    before = program(signature(x=(2, 3), w=(3, 4)), "p = R.matmul(x, w)\nq = R.matmul(x, w)", "p, q")
    assert _matmuls_after(before) == 1


def test_a_left_side_that_is_a_right_side_as_well_is_combined() -> None:
    before = program(signature(x=(3, 3), w=(3, 4)), "p = R.matmul(x, x)\nq = R.matmul(x, w)", "p, q")
    assert _matmuls_after(before) == 1

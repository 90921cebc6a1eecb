"""RemoveNoOps: what goes, what nearly is nothing and stays, and that the numbers do not change."""

from __future__ import annotations

import numpy as np
import pytest

from regraft.transform import RemoveNoOps, report
from tests.passes.harness import checked, counts, program

X = 'x: R.Tensor((2, 3, 4), "float32")'
IMAGE = 'x: R.Tensor((2, 3, 7, 6), "float32"), w: R.Tensor((5, 3, 3, 2), "float32")'


@pytest.mark.parametrize(
    "line",
    [
        'a = x * R.const(1.0, "float32")',
        'a = R.const([[1.0]], "float32") * x',
        'a = x / R.const(1.0, "float32")',
        "a = R.nn.pad(x, [0, 0, 0, 0, 0, 0])",
        "a = R.strided_slice(x, [1, 2], [0, -9], [3, 99])",
        "a = R.strided_slice(x, [0], [0], [2], [1])",
        "a = R.broadcast_to(x, (2, 3, 4))",
        "a = R.concat((x,), axis=1)",
        'a = R.astype(x, "float32")',
        'a = R.astype(R.astype(x, "float64"), "float32")',
        "a = R.negative(R.negative(x))",
        'a = R.where(R.const([[True]], "bool"), x, x * R.const(2.0, "float32"))',
        'a = R.where(R.const(False, "bool"), R.const("nan", "float32"), x)',
    ],
)
def test_what_gives_its_operand_back_goes(line: str) -> None:
    before = program(X, f"{line}\nb = R.exp(a)", "b")
    assert counts(checked(RemoveNoOps(), before, exact=True)) == {"exp": 1}


@pytest.mark.parametrize(
    "line",
    [
        'a = x * R.const(1.0000001, "float32")',
        'a = R.const(1.0, "float32") / x',
        'a = x * R.const([[[1.0]], [[1.0]]], "float32")\nc = x + R.const(0.0, "float32")',
        "a = R.nn.pad(x, [0, 0, 0, 0, 0, 1])",
        "a = R.strided_slice(x, [1], [0], [2])",
        "a = R.strided_slice(x, [1], [2], [-9], [-1])",
        'a = R.astype(x, "float16")',
        'a = R.astype(R.astype(x, "float16"), "float32")',
        'a = R.astype(R.astype(x, "int64"), "float32")',
        'a = R.where(R.const([[[True], [False], [True]]], "bool"), x, R.const(2.0, "float32"))',
    ],
)
def test_what_changes_something_stays(line: str) -> None:
    before = program(X, f"{line}\nb = R.exp(a)", "b" if "c =" not in line else "b, c")
    after = RemoveNoOps()(before)
    if "c =" in line:
        assert counts(after) == {"exp": 1, "add": 1}  # -0 + 0 is 0
    else:
        assert after is before


def test_a_choice_of_a_smaller_side_stays() -> None:
    before = program(X, 'a = R.where(R.const(True, "bool"), R.const(2.0, "float32"), x)', "a")
    assert counts(checked(RemoveNoOps(), before, exact=True)) == {"where": 1}


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("a = R.sum(x, axis=[2])\nb = R.reshape(a, (2, 3, 1))", {"sum": 1}),
        ("a = R.mean(x, axis=[0, 1])\nb = R.expand_dims(a, [0, 1])", {"mean": 1}),
        ("a = R.max(x)\nb = R.reshape(a, (1, 1, 1))", {"max": 1}),
        ("a = R.argmax(x, axis=1, keepdims=True)\nb = R.squeeze(a, [1])", {"argmax": 1}),
        ("a = R.sum(x, axis=[2], keepdims=True)\nb = R.reshape(a, (2, 3))", {"sum": 1}),
        ("a = R.sum(x, axis=[2])\nb = R.reshape(a, (2, 1, 3))", {"sum": 1, "reshape": 1}),
        ("a = R.sum(x, axis=[2])\nb = R.expand_dims(a, [2])\nc = b + R.reshape(R.exp(a), (2, 3, 1))", None),
    ],
)
def test_a_reduction_keeps_or_drops_its_axes_by_itself(lines: str, left: dict[str, int] | None) -> None:
    before = program(X, lines, "b" if left else "b, c")
    after = checked(RemoveNoOps(), before, exact=True)
    assert counts(after) == left if left else after is before


def test_what_is_turned_twice_is_itself() -> None:
    before = program('x: R.Tensor((4,), "bool")', "a = R.logical_not(R.logical_not(x))\nb = R.logical_not(a)", "b")
    assert counts(checked(RemoveNoOps(), before, exact=True)) == {"logical_not": 1}


@pytest.mark.parametrize("ends", ["[n - 1], [n]", "[n - 3], [n]", "[0], [n - 1]"])
def test_a_slice_whose_length_is_not_known_stays(ends: str) -> None:
    lines = f"n = T.int64()\na = R.strided_slice(x, [0], {ends})\nb = R.exp(a)"
    before = program('x: R.Tensor(("n", 4), "float32")', lines, "b")
    after = checked(RemoveNoOps(), before, exact=True, inputs=[np.ones((5, 4), np.float32)])
    assert counts(after) == {"strided_slice": 1, "exp": 1}


@pytest.mark.parametrize(
    "line",
    [
        "a = R.broadcast_to(y, s)",
        "a = R.image.resize2d(y, s)",
        'a = R.const([[[[1.0, 1.0, 1.0]]]], "float32") * R.reshape(y, s)',
    ],
)
def test_a_change_to_a_shape_that_is_not_known_stays(line: str) -> None:
    given = 's: R.Shape(ndim=2), y: R.Tensor((1, 1, 7, 6), "float32")'
    if "image" not in line:
        given = given.replace("ndim=2", "ndim=4")
    before = program(given, f"{line}\nb = R.exp(a)", "b")
    assert RemoveNoOps()(before) is before


@pytest.mark.parametrize(
    "line", ['a = R.astype(x, "float32")', 'a = x * R.const(1.0, "float32")', "a = R.nn.pad(x, [0, 0, 0, 0])"]
)
def test_what_keeps_any_shape_goes_where_the_shape_is_not_known(line: str) -> None:
    before = program('x: R.Tensor(dtype="float32", ndim=2)', f"{line}\nb = R.exp(a)", "b")
    assert counts(RemoveNoOps()(before)) == {"exp": 1}


MODES = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
def test_a_resize_to_the_same_size_goes_where_it_moves_nothing(method: str, mode: str) -> None:
    given = f'method="{method}", coordinate_transformation_mode="{mode}", roi=[0.0, 0.0, 0.5, 0.5]'
    before = program(
        'x: R.Tensor((2, 3, 7, 1), "float32")', f"a = R.image.resize2d(x, (7, 1), {given})\nb = R.exp(a)", "b"
    )
    if mode.startswith("tf"):
        assert RemoveNoOps()(before) is before
        assert "elements are moved" in str(report(RemoveNoOps(), before))
    else:
        assert counts(checked(RemoveNoOps(), before, exact=method != "cubic")) == {"exp": 1}


def test_a_resize_to_a_size_that_may_be_another_stays() -> None:
    before = program('x: R.Tensor((2, 3, "h", 6), "float32")', "a = R.image.resize2d(x, (7, 6))", "a")
    assert RemoveNoOps()(before) is before


def test_one_that_broadcasts_stays() -> None:
    before = program('x: R.Tensor((4,), "float32")', 'a = x * R.const([[1.0], [1.0]], "float32")', "a")
    assert RemoveNoOps()(before) is before


def test_zeros_around_the_input_go_into_the_convolution() -> None:
    lines = "a = R.nn.pad(x, [0, 0, 0, 0, 1, 0, 2, 3])\ny = R.nn.conv2d(a, w, strides=[2, 1], padding=[0, 1, 1, 0])"
    after = checked(RemoveNoOps(), program(IMAGE, lines, "y"))
    assert counts(after) == {"nn.conv2d": 1}


def test_zeros_go_into_convolutions_of_any_layout() -> None:
    params = 'x: R.Tensor((2, 7, 6, 3), "float32"), w: R.Tensor((5, 3, 3, 2), "float32")'
    lines = 'a = R.nn.pad(x, [0, 0, 1, 2, 3, 0, 0, 0])\ny = R.nn.conv2d(a, w, data_layout="NHWC")'
    assert counts(checked(RemoveNoOps(), program(params, lines, "y"))) == {"nn.conv2d": 1}
    params = 'x: R.Tensor((2, 3, 7), "float32"), w: R.Tensor((5, 3, 3), "float32")'
    lines = "a = R.nn.pad(x, [0, 0, 0, 0, 1, 2])\ny = R.nn.conv1d(a, w)"
    assert counts(checked(RemoveNoOps(), program(params, lines, "y"))) == {"nn.conv1d": 1}


@pytest.mark.parametrize(
    ("pad", "reason"),
    [
        ('R.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], "constant", 0.5)', "the padding is not with zeros"),
        ('R.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], "reflect")', "the padding is not with zeros"),
        ("R.nn.pad(x, [0, 0, 0, 0, -1, 1, 1, 1])", "it cuts, or pads channels or the batch"),
        ("R.nn.pad(x, [1, 0, 0, 0, 1, 1, 1, 1])", "it cuts, or pads channels or the batch"),
    ],
)
def test_other_padding_stays(pad: str, reason: str) -> None:
    before = program(IMAGE, f"a = {pad}\ny = R.nn.conv2d(a, w)", "y")
    assert RemoveNoOps()(before) is before
    assert reason in str(report(RemoveNoOps(), before))


ROWS = 'x: R.Tensor((2, 3, 4), "float32"), w: R.Tensor((4, 5), "float32"), b: R.Tensor((5,), "float32")'


@pytest.mark.parametrize(("bias", "names"), [("", {}), ("p = b + p", {"add": 1}), ("p = p + b", {"add": 1})])
def test_rows_that_are_put_together_and_apart_stay_apart(bias: str, names: dict[str, int]) -> None:
    lines = f"r = R.reshape(x, (6, 4))\np = R.matmul(r, w)\n{bias}\ny = R.reshape(p, (2, 3, 5))"
    after = checked(RemoveNoOps(), program(ROWS, lines, "y"))
    assert counts(after) == {"matmul": 1, **names}


def test_rows_that_come_from_another_shape_are_reshaped_once() -> None:
    lines = "r = R.reshape(x, (6, 4))\np = R.matmul(r, w)\ny = R.reshape(p, (2, 3, 5))"
    before = program(ROWS.replace("(2, 3, 4)", "(2, 3, 2, 2)"), lines, "y")
    assert counts(checked(RemoveNoOps(), before)) == {"matmul": 1, "reshape": 1}


def test_rows_of_symbolic_sizes_stay_apart() -> None:
    lines = "r = R.reshape(x, (n * m, 4))\np = R.matmul(r, w)\ny = R.reshape(p, (n, m, 5))"
    before = program(ROWS.replace("(2, 3, 4)", '("n", "m", 4)'), lines, "y", "n = T.int64()\nm = T.int64()")
    assert counts(checked(RemoveNoOps(), before)) == {"matmul": 1}


@pytest.mark.parametrize(
    ("lines", "results", "reason"),
    [
        ("y = R.reshape(p, (2, 3, 5))", "y, p", "the product is also used as a matrix"),
        ("y = R.reshape(p, (3, 10))", "y", "the reshape changes the columns, too"),
        ("q = p + z\ny = R.reshape(q, (2, 3, 5))", "y", "the summand is not one number for each column"),
    ],
)
def test_rows_that_are_needed_together_stay_together(lines: str, results: str, reason: str) -> None:
    params = ROWS + ', z: R.Tensor((6, 5), "float32")'
    before = program(params, f"r = R.reshape(x, (6, 4))\np = R.matmul(r, w)\n{lines}", results)
    assert RemoveNoOps()(before) is before
    assert reason in str(report(RemoveNoOps(), before))


UNKNOWN = 'x: R.Tensor("float32")'


@pytest.mark.parametrize("line", ['a = x * R.const([[1.0]], "float32")', "a = R.broadcast_to(x, R.shape([2, 3]))"])
def test_what_may_give_more_axes_to_a_tensor_of_unknown_rank_stays(line: str) -> None:
    before = program(UNKNOWN, f"{line}\nb = R.exp(a)", "b")
    assert RemoveNoOps()(before) is before


@pytest.mark.parametrize("line", ['a = x * R.const(1.0, "float32")', 'a = R.astype(x, "float32")'])
def test_what_keeps_any_shape_goes_also_where_the_rank_is_unknown(line: str) -> None:
    before = program(UNKNOWN, f"{line}\nb = R.exp(a)", "b")
    assert counts(RemoveNoOps()(before)) == {"exp": 1}


@pytest.mark.parametrize("scaled", ["x / r", "R.rsqrt(v) * x", 'x * (R.const(1.0, "float32") / r)'])
def test_the_factor_of_a_norm_stays_since_runtimes_know_a_norm_by_it(scaled: str) -> None:
    lines = f"v = R.mean(x * x, axis=[-1], keepdims=True)\nr = R.sqrt(v)\nn = {scaled}\n"
    before = program(X, f'{lines}y = n * R.const([1.0, 1.0, 1.0, 1.0], "float32")', "y, r")
    assert counts(RemoveNoOps()(before)) == counts(before)
    assert "it is the factor of a norm, by which runtimes recognize the norm" in str(report(RemoveNoOps(), before))
    single = program(X, f'{lines}y = n * R.const(1.0, "float32")', "y, r")
    assert counts(checked(RemoveNoOps(), single))["multiply"] == counts(single)["multiply"] - 1


def test_a_product_with_a_vector_needs_no_turned_matrix() -> None:
    inputs = 'x: R.Tensor((2, 3, 4), "float32"), v: R.Tensor((3,), "float32"), w: R.Tensor((4,), "float32")'
    before = program(inputs, "t = R.permute_dims(x, [0, 2, 1])\na = R.matmul(t, v)\nb = R.matmul(w, t)", "a, b, t")
    after = checked(RemoveNoOps(), before)
    assert "R.matmul(v, x," in str(after)
    assert "R.matmul(x, w," in str(after)
    other = program(inputs, "t = R.permute_dims(x, [2, 1, 0])\na = R.matmul(w, R.permute_dims(t, [1, 0, 2]))", "a")
    assert counts(RemoveNoOps()(other)) == counts(other)


def coded_again(codes: str, scale: str, again: str, decoded: str = "float32", *, axes: str = "0, 0") -> str:
    first, second = axes.split(", ")
    zero = f'R.const(3, "{codes}")'
    return (
        f'a = R.quantize(x, {scale}, {zero}, axis={first}, out_dtype="{codes}")\n'
        f'b = R.dequantize(a, {scale}, {zero}, axis={first}, out_dtype="{decoded}")\n'
        f'c = R.quantize(b, {again}, {zero}, axis={second}, out_dtype="{codes}")'
    )


SCALE, SCALES = 'R.const(0.0123, "float32")', 'R.const([0.01, 0.3, 7.0], "float32")'


@pytest.mark.parametrize(
    "lines",
    [
        coded_again("int8", SCALE, SCALE),
        coded_again("uint16", SCALE, SCALE),
        coded_again("uint8", SCALES, SCALES, axes="1, -2"),
        coded_again("int8", *['R.const(0.0123, "float16")'] * 2, "float16"),
    ],
)
def test_what_was_dequantized_by_the_same_scale_is_not_quantized_again(lines: str) -> None:
    after = checked(RemoveNoOps(), program(X, lines, "c"), exact=True)
    assert counts(after) == {"quantize": 1}


@pytest.mark.parametrize(
    "lines",
    [
        coded_again("int8", SCALE, 'R.const(0.0124, "float32")'),
        coded_again("int8", *['R.const(1e37, "float32")'] * 2),  # 127 of them are infinite
        coded_again("int8", *['R.const(0.0, "float32")'] * 2),
        coded_again("int8", *['R.const(1e-40, "float32")'] * 2),  # which some processors take for 0
        coded_again("int8", *['R.const("nan", "float32")'] * 2),
        coded_again("int8", SCALE, SCALE, "bfloat16"),  # 125 and 126 of them are one number
        coded_again("int32", SCALE, SCALE),
        coded_again("int8", SCALE, SCALE).replace('R.const(3, "int8")', 'R.const(1.5, "float32")'),
    ],
)
def test_what_was_dequantized_by_another_scale_or_inexactly_is_quantized_again(lines: str) -> None:
    before = program(X, lines, "c")
    assert RemoveNoOps()(before) is before

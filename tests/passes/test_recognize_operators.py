"""RecognizeOperators: each formula in its writings, its near misses, and that the numbers stay."""

from __future__ import annotations

from math import pi

import pytest

from regraft.transform import RecognizeOperators, report
from tests.passes.harness import checked, counts, program

X = 'x: R.Tensor((2, 3, 8), "float32")'
VECTORS = ', g: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")'
IMAGE = 'x: R.Tensor((2, 6, 5, 3), "float32"), g: R.Tensor((6, 1, 1), "float32"), b: R.Tensor((1, 6, 1, 1), "float32")'


def _c(number: float) -> str:
    return f'R.const({number!r}, "float32")'


ERF = f"d = x / {_c(2**0.5)}\ne = R.erf(d)\ns = e + {_c(1.0)}\n"
TANH = (
    f"p = R.power(x, {_c(3.0)})\nq = p * {_c(0.044715)}\nr = x + q\n"
    f"t = R.tanh(r * {_c((2 / pi) ** 0.5)})\ns = {_c(1.0)} + t\n"
)
SQUARES = ["R.square(x)", f"R.power(x, {_c(2.0)})", "x * x"]


@pytest.mark.parametrize(("formula", "name"), [(ERF, "nn.gelu"), (TANH, "nn.gelu_tanh")])
@pytest.mark.parametrize(
    "product", [f"h = x * {_c(0.5)}\ny = h * s", f"h = s * x\ny = {_c(0.5)} * h", f"h = s * {_c(0.5)}\ny = x * h"]
)
def test_gelu_is_recognized_whatever_the_order_of_its_factors(formula: str, name: str, product: str) -> None:
    before = program(X, formula + product, "y")
    assert counts(checked(RecognizeOperators(), before)) == {name: 1}


def test_gelu_with_the_inverse_of_the_root_and_with_a_written_out_cube_is_recognized() -> None:
    inverse = ERF.replace("x / " + _c(2**0.5), "x * " + _c(2**-0.5))
    before = program(X, f"{inverse}h = x * {_c(0.5)}\ny = h * s", "y")
    assert counts(checked(RecognizeOperators(), before)) == {"nn.gelu": 1}
    cube = TANH.replace(f"R.power(x, {_c(3.0)})", "x * x * x")
    before = program(X, f"{cube}h = x * {_c(0.5)}\ny = h * s", "y")
    assert counts(checked(RecognizeOperators(), before)) == {"nn.gelu_tanh": 1}


@pytest.mark.parametrize(("right", "wrong"), [(0.044715, 0.0447), (3.0, 3.000001), (1.0, 1.001)])
def test_gelu_of_other_numbers_is_left(right: float, wrong: float) -> None:
    before = program(X, (TANH + f"h = x * {_c(0.5)}\ny = h * s").replace(_c(right), _c(wrong)), "y")
    assert RecognizeOperators()(before) is before
    assert f"where the formula has {right}" in str(report(RecognizeOperators(), before))


def test_a_formula_of_which_a_part_is_needed_elsewhere_is_left() -> None:
    before = program(X, f"{ERF}h = x * {_c(0.5)}\ny = h * s", "y, e")
    assert RecognizeOperators()(before) is before
    assert "e is needed elsewhere, too" in str(report(RecognizeOperators(), before))


def test_silu_is_recognized_and_a_gate_of_another_value_is_left() -> None:
    before = program(X, "s = R.sigmoid(x)\ny = s * x", "y")
    assert counts(checked(RecognizeOperators(), before)) == {"nn.silu": 1}
    before = program(X, f"a = x * {_c(1.702)}\ns = R.sigmoid(a)\ny = x * s", "y")
    assert RecognizeOperators()(before) is before


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ('s = R.sum(x, axis=[1], keepdims=True)\ny = s / R.const(8.0, "float32")', {"mean": 1}),
        ('s = R.sum(x)\ny = R.const(0.03125, "float32") * s', {"mean": 1}),
        ('s = R.sum(x, axis=[-1])\ny = s / R.const(4.0, "float32")', {"sum": 1, "divide": 1}),
        ('s = R.sum(x, axis=[-1])\ny = s / R.const([8.0, 8.0, 8.0, 8.0], "float32")', {"sum": 1, "divide": 1}),
        ('h = R.astype(x, "float16")\ns = R.sum(h, axis=[1])\ny = s / R.const(8.0, "float16")', None),
    ],
)
def test_a_sum_divided_by_the_number_of_its_terms_is_their_mean(lines: str, found: dict[str, int] | None) -> None:
    after = checked(RecognizeOperators(), program('x: R.Tensor((4, 8), "float32")', lines, "y"))
    # In float16 a sum may overflow where the mean does not.
    assert counts(after) == (found or {"astype": 1, "sum": 1, "divide": 1})


def test_the_highest_number_need_not_be_subtracted_before_a_softmax() -> None:
    lines = "y = R.nn.softmax(R.subtract(x, R.max(x, axis=[{axis}], keepdims=True)), axis=1)"
    for axis, reason in (("1", None), ("0", "along another axis"), ("0, 1", "along another axis")):
        before = program(X, lines.format(axis=axis), "y")
        if reason is None:
            assert counts(checked(RecognizeOperators(), before)) == {"nn.softmax": 1}
        else:
            assert RecognizeOperators()(before) is before
            assert reason in str(report(RecognizeOperators(), before))


@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize(
    "quotient",
    ["r = R.rsqrt(v)\nn = x * r", "r = R.sqrt(v)\nn = x / r", f"q = R.sqrt(v)\nr = {_c(1.0)} / q\nn = r * x"],
)
def test_rms_norm_is_recognized(square: str, quotient: str) -> None:
    lines = f"s = {square}\nm = R.mean(s, [-1], True)\nv = m + {_c(1e-6)}\n{quotient}\ny = g * n"
    before = program(X + VECTORS, lines, "y")
    assert counts(checked(RecognizeOperators(), before)) == {"nn.rms_norm": 1}


@pytest.mark.parametrize(
    ("mean", "factor", "reason"),
    [
        ("R.mean(s, [1], True)", "g", "the mean is not over the last axes"),
        ("R.mean(s, [-1], True)", "x2", "the factor does not have the sizes of the normalized axes"),
    ],
)
def test_a_norm_over_other_axes_or_with_another_factor_is_left(mean: str, factor: str, reason: str) -> None:
    lines = f"s = x * x\nm = {mean}\nv = m + {_c(1e-6)}\nr = R.rsqrt(v)\nn = x * r\ny = {factor} * n"
    before = program(X + VECTORS + ', x2: R.Tensor((3, 8), "float32")', lines, "y")
    assert RecognizeOperators()(before) is before
    assert reason in str(report(RecognizeOperators(), before))


def test_a_root_of_something_else_is_no_norm() -> None:
    lines = f"s = R.power(x, {_c(4.0)})\nm = R.mean(s, [-1], True)\nv = m + {_c(1e-6)}\n"
    lines += "r = R.rsqrt(v)\nn = x * r\ny = g * n"
    before = program(X + VECTORS, lines, "y")
    assert RecognizeOperators()(before) is before
    assert "a constant is 4.0, where the formula has 2.0" in str(report(RecognizeOperators(), before))


@pytest.mark.parametrize("square", ["d * d", f"R.power(d, {_c(2.0)})"])
@pytest.mark.parametrize("quotient", ["r = R.sqrt(v)\nn = d / r", "r = R.rsqrt(v)\nn = d * r"])
def test_layer_norm_is_recognized(square: str, quotient: str) -> None:
    lines = (
        f"a = R.mean(x, [2], True)\nd = x - a\ns = {square}\nm = R.mean(s, [-1], True)\nv = m + {_c(1e-5)}\n"
        f"{quotient}\nw = n * g\ny = w + b"
    )
    before = program(X + VECTORS, lines, "y")
    assert counts(checked(RecognizeOperators(), before)) == {"nn.layer_norm": 1}


_FLAX = (
    f"a = R.mean(x, [2], True)\ns = R.mean(x * x, [2], True)\nq = s - a * a\nv = R.maximum(q, {_c(0.0)}) + {_c(1e-6)}\n"
)


@pytest.mark.parametrize(
    "lines",
    [
        f"{_FLAX}d = x - a\nr = R.rsqrt(v)\nk = r * g\nn = d * k\ny = n + b",
        f"{_FLAX}d = x - a\nr = R.sqrt(v)\nn = d / r\ny = n + b",
        f"{_FLAX}d = x - a\nr = R.sqrt(v)\nn = d / r\ny = n * g",
        f"{_FLAX}d = x - a\nr = R.sqrt(v)\ny = d / r",
        f"{_FLAX}r = R.rsqrt(v)\nk = r * g\nl = x * k\nm = a * k\nh = b - m\ny = l + h".replace(
            "R.maximum(q, ", "(q + "
        ),
        f"a = R.mean(x, [2], True)\nd = x - a\ns = R.mean(d * d, [2], True)\nv = s + {_c(1e-6)}\n"
        "r = R.rsqrt(v)\nk = r * g\nl = x * k\nm = a * k\nh = b - m\ny = l + h",
    ],
)
def test_layer_norms_of_other_frameworks_are_recognized(lines: str) -> None:
    after = checked(RecognizeOperators(), program(X + VECTORS, lines, "y"))
    assert counts(after).get("nn.layer_norm", 0) == ("(q + " not in lines)


def test_a_variance_with_another_bound_is_no_layer_norm() -> None:
    lines = f"{_FLAX}d = x - a\nr = R.sqrt(v)\ny = d / r".replace(_c(0.0), _c(0.5))
    before = program(X + VECTORS, lines, "y")
    assert RecognizeOperators()(before) is before
    assert "a constant is 0.5, where the formula has 0.0" in str(report(RecognizeOperators(), before))


def test_a_variance_around_another_mean_is_no_layer_norm() -> None:
    lines = (
        f"a = R.mean(x, [1, 2], True)\nd = x - a\ns = d * d\nm = R.mean(s, [-1], True)\nv = m + {_c(1e-5)}\n"
        "r = R.sqrt(v)\nn = d / r\nw = n * g\ny = w + b"
    )
    after = RecognizeOperators()(program(X + VECTORS, lines, "y"))
    assert "nn.layer_norm" not in counts(after)


def _groups(ones: str = "[1.0, 1.0]", zeros: str = "[0.0, 0.0]", shape: str = "(2, 2, 45)", gamma: str = "g") -> str:
    return (
        f'r = R.reshape(x, {shape})\no = R.const({ones}, "float32")\nz0 = R.const({zeros}, "float32")\n'
        f"i = R.nn.instance_norm(r, o, z0, 1, [2])\nk = R.reshape(i, (2, 6, 5, 3))\nm = k * {gamma}\ny = m + b"
    )


def test_group_norm_is_recognized_as_onnx_exporters_write_it() -> None:
    after = checked(RecognizeOperators(), program(IMAGE, _groups(), "y"))
    assert counts(after) == {"nn.group_norm": 1, "reshape": 2}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (_groups(ones="[1.0, 2.0]"), "each group has a factor or summand of its own"),
        (_groups(zeros="[0.0, 0.5]"), "each group has a factor or summand of its own"),
        (_groups(gamma="z"), "factor or summand are not one number for each channel"),
    ],
)
def test_what_only_resembles_group_norm_is_left(lines: str, reason: str) -> None:
    before = program(IMAGE + ', z: R.Tensor((5, 3), "float32")', lines, "y")
    assert RecognizeOperators()(before) is before
    assert reason in str(report(RecognizeOperators(), before))


def test_groups_of_a_symbolic_batch_are_recognized() -> None:
    params = IMAGE.replace("(2, 6, 5, 3)", '("n", 6, 5, 3)')
    lines = _groups(shape="(n, 2, 45)").replace("(2, 6, 5, 3)", "(n, 6, 5, 3)")
    after = checked(RecognizeOperators(), program(params, lines, "y", "n = T.int64()"))
    assert counts(after) == {"nn.group_norm": 1, "reshape": 2}


def test_a_formula_on_a_tensor_of_unknown_rank_is_left_where_its_numbers_have_axes() -> None:
    lines = f"{ERF}h = x * {_c(0.5)}\ny = h * s"
    before = program('x: R.Tensor("float32")', lines.replace(_c(1.0), 'R.const([[1.0]], "float32")'), "y")
    assert RecognizeOperators()(before) is before
    assert "the shape is not known, and the replacement may have another" in str(report(RecognizeOperators(), before))
    assert counts(RecognizeOperators()(program('x: R.Tensor("float32")', lines, "y"))) == {"nn.gelu": 1}


SHIFTED = f"a = x + {_c(3.0)}\n"
TO_SIX = [
    "l = R.clip(a, 0.0, 6.0)",
    "l = R.nn.relu6(a)",
    f"r = R.nn.relu(a)\nl = R.minimum(r, {_c(6.0)})",
    f"r = R.minimum({_c(6.0)}, a)\nl = R.maximum({_c(0.0)}, r)",
    f"r = R.maximum(a, {_c(0.0)})\nl = R.minimum(r, {_c(6.0)})",
    f"r = R.minimum(a, {_c(6.0)})\nl = R.nn.relu(r)",
]


@pytest.mark.parametrize("limits", TO_SIX[:4])
@pytest.mark.parametrize(
    "product",
    [
        f"g = l / {_c(6.0)}\ny = x * g",
        f"g = l * {_c(1 / 6)}\ny = g * x",
        f"h = x * l\ny = h / {_c(6.0)}",
        f"h = {_c(1 / 6)} * x\ny = h * l",
    ],
)
def test_a_hardswish_is_recognized_in_its_writings(limits: str, product: str) -> None:
    before = program(X, f"{SHIFTED}{limits}\n{product}", "y")
    assert counts(checked(RecognizeOperators(), before)) == {"nn.hardswish": 1}


@pytest.mark.parametrize("limits", TO_SIX)
def test_a_hardsigmoid_is_recognized_by_any_limits(limits: str) -> None:
    before = program(X, f"{SHIFTED}{limits}\ny = l / {_c(6.0)}", "y")
    assert counts(checked(RecognizeOperators(), before)) == {"nn.hardsigmoid": 1}


def test_a_hardsigmoid_of_another_slope_keeps_it() -> None:
    before = program(X, f"a = x * {_c(0.2)}\nb = a + {_c(0.5)}\ny = R.clip(b, 0.0, 1.0)", "y")
    after = checked(RecognizeOperators(), before)
    assert counts(after) == {"nn.hardsigmoid": 1}
    assert "alpha=0.2" in str(after)
    before = program(X, f"a = x * {_c(1 / 6)}\nb = a + {_c(0.5)}\nc = R.clip(b, 0.0, 1.0)\ny = c * x", "y")
    assert counts(checked(RecognizeOperators(), before)) == {"nn.hardswish": 1}


@pytest.mark.parametrize(
    ("right", "wrong", "reason"),
    [
        ("R.clip(a, 0.0, 6.0)", "R.clip(a, 0.0, 6.5)", "a bound is 6.5, where the formula has 6.0"),
        ("R.clip(a, 0.0, 6.0)", "R.clip(a, -1.0, 6.0)", "a bound is -1.0, where the formula has 0.0"),
        (_c(3.0), _c(2.0), "a constant is 2.0, where the formula has 3.0"),
        (_c(6.0), _c(5.0), "a constant is 5.0, where the formula has 6.0"),
    ],
)
def test_a_line_with_other_numbers_is_no_hardsigmoid(right: str, wrong: str, reason: str) -> None:
    text = f"{SHIFTED}{TO_SIX[0]}\ny = l / {_c(6.0)}"
    before = program(X, text.replace(right, wrong), "y")
    assert RecognizeOperators()(before) is before
    assert reason in str(report(RecognizeOperators(), before))


def test_a_hardsigmoid_in_half_precision_is_left() -> None:
    text = f"{SHIFTED}{TO_SIX[0]}\ny = l / {_c(6.0)}".replace("float32", "float16")
    before = program(X.replace("float32", "float16"), text, "y")
    assert RecognizeOperators()(before) is before


def test_mish_is_recognized() -> None:
    before = program(X, "s = R.nn.softplus(x)\nt = R.tanh(s)\ny = x * t", "y")
    assert counts(checked(RecognizeOperators(), before)) == {"nn.mish": 1}
    before = program(X, "s = R.nn.softplus(x, beta=2.0)\nt = R.tanh(s)\ny = x * t", "y")
    assert RecognizeOperators()(before) is before

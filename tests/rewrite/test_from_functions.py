"""Rules from two Python functions: what one builds is looked for, what the other builds takes its place."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import regraft as rx
from regraft.dpl import is_const, wildcard
from regraft.script import relax as R
from regraft.testing import assert_rewrites, check_rule


@R.function
def program(x: R.Tensor(("n", 4), "float16"), w: R.Tensor((4, 4), "float16")):
    with R.dataflow():
        e = R.exp(x)
        a = e * e
        b = R.nn.softmax(R.matmul(a, w) * R.const(0.5, "float16"), axis=1)
        c = R.power(b, R.const(2.0, "float16"))
        R.output(c)
    return c


def test_values_that_are_used_twice_are_one_value() -> None:
    def before(x: Any) -> Any:
        e = R.exp(x)
        return e * e

    squares = rx.rule(before, lambda x: R.exp(x + x), name="exp twice")
    assert check_rule(squares).rewrites > 0
    text = squares(program, verify="values").script()
    assert text.count("R.exp") == 1
    assert squares.name == "exp twice"


def test_numbers_match_in_any_dtype_and_are_made_in_that_of_the_operand() -> None:
    square = rx.rule(lambda x: R.power(x, 2.0), lambda x: R.square(x))
    assert "R.square" in square(program).script()
    half = rx.rule(lambda x: x * 0.5, lambda x: x / 2.0)
    assert 'R.const(2.0, "float16")' in half(program, verify="values").script()


def test_loose_attributes_and_constants_reach_the_replacement() -> None:
    taken: list[Any] = []

    def after(x: Any, scale: Any, axis: int) -> Any:
        taken.append((float(scale.data.numpy()), axis))
        return rx.decline("looked only")

    any_number = is_const()
    looking = rx.rule(lambda x, scale=any_number: R.nn.softmax(x * scale, axis=-1), after, loose=["axis"])
    assert looking(program) is program
    assert taken[0] == (0.5, 1)
    exact = rx.rule(lambda x: R.nn.softmax(x, axis=0), lambda x: x)
    assert exact(program) is program


def test_several_values_are_replaced_together() -> None:
    @R.function
    def both(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.subtract(x, y)
            R.output(a, b)
        return a, b

    @R.function
    def swapped(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        with R.dataflow():
            n = R.negative(y)
            a = R.subtract(x, n)
            b = R.add(x, n)
            R.output(a, b)
        return a, b

    done: list[int] = []

    def after(x: Any, y: Any) -> Any:
        if done:
            return rx.decline("once")
        done.append(1)
        return R.subtract(x, R.negative(y)), R.add(x, R.negative(y))

    assert_rewrites(both, rx.rule(lambda x, y: (R.add(x, y), R.subtract(x, y)), after), swapped)


def test_a_type_or_a_pattern_as_default_narrows_a_parameter_down() -> None:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.exp(y)
            R.output(a, b)
        return a, b

    row = R.Tensor((3,), "float32")
    of_rows = rx.rule(lambda x=row: R.exp(x), lambda x: R.sqrt(x))
    assert of_rows(main).script().count("R.sqrt") == 1


def test_parameters_with_one_pattern_as_default_stand_for_different_values() -> None:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            out = R.multiply(R.exp(x), R.exp(y))
            R.output(out)
        return out

    matrix = wildcard().has_dtype("float32")
    products = rx.rule(lambda x=matrix, y=matrix: R.exp(x) * R.exp(y), lambda x, y: R.exp(x + y))
    assert products(main).script().count("R.exp") == 1


def test_a_replacement_that_does_not_type_check_is_a_no() -> None:
    reasons: list[str | None] = []
    wrong = rx.rule(lambda x: R.exp(x), lambda x: R.matmul(x, R.const(1.0)))
    assert wrong(program, listener=lambda event: reasons.append(event.reason)) is program
    assert reasons[0] is not None
    assert "does not type-check here: relax.matmul" in reasons[0]


@pytest.mark.parametrize(("shape", "count"), [((), 0), ((1,), 0), ((1, 1), 1)])
def test_a_replacement_is_left_out_where_operands_broadcast_to_another_shape(
    shape: tuple[int, ...], count: int
) -> None:
    @R.function
    def scaled(x: R.Tensor((3,), "float32")):
        with R.dataflow():
            y = x * R.const(np.ones(shape, "float32"))
            R.output(y)
        return y

    reasons: list[str | None] = []
    after = rx.rule(lambda x: x * 1, lambda x: x)(scaled, listener=lambda event: reasons.append(event.reason))
    assert after.script().count("R.multiply") == count
    told = [
        'the replacement is R.Tensor((3,), dtype="float32") here, in the place of R.Tensor((1, 3), dtype="float32")'
    ]
    assert reasons == (told if count else [None])


def test_of_several_outputs_none_is_replaced_where_one_has_another_shape() -> None:
    @R.function
    def sums(x: R.Tensor((1,), "float32"), y: R.Tensor((4, 3), "float32")):
        with R.dataflow():
            a = x + y
            b = a - y
            c = R.exp(a)
            R.output(b, c)
        return b, c

    def before(x: Any, y: Any) -> Any:
        a = x + y
        return a - y, R.exp(a)

    assert rx.rule(before, lambda x, y: (x, R.exp(y + x)), name="back")(sums) is sums


def test_a_replacement_takes_whatever_there_is_by_name() -> None:
    taken: list[list[str]] = []

    def after(x: Any, **others: Any) -> Any:
        taken.append(sorted(others))
        return R.sqrt(x)

    assert "R.sqrt" in rx.rule(lambda x, y: x * y, after)(program).script()
    assert taken[0] == ["y"]


SLOPE, AXIS, FIRST, NUMBER = (
    rx.any_attribute(0.1, 0.2),
    rx.any_attribute(1, 2),
    rx.any_attribute(0, -1),
    rx.any_number(),
)
SAME_AXIS = rx.any_attribute(1, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rx.rule(lambda x, y: R.exp(x), lambda x: x), "before does not use its parameter y"),
        (lambda: rx.rule(lambda x: R.exp(x), lambda z: z), r"after takes z, which before does not have; it has: x"),
        (lambda: rx.rule(lambda x: R.exp(x), lambda z, **_: z), r"after takes z, which before does not have"),
        (
            lambda: rx.rule(lambda x: R.exp(x), lambda *x: x[0]),
            r"keyword arguments, which its parameter \*x does not take",
        ),
        (lambda: rx.rule(lambda x: R.exp(x), cast("Any", lambda x, /: x)), "which its parameter x does not take"),
        (lambda: rx.rule(lambda x: x, lambda x: x), "before returns its parameter"),
        (lambda: rx.rule(lambda x=3: R.exp(x), lambda x: x), "no pattern and no type as its default"),
        (lambda: rx.rule(lambda *x: R.exp(x[0]), lambda x: x), "name each parameter"),
        (lambda: rx.rule(lambda x: R.exp(x), lambda x: x, loose=["axis"]), "has the attribute axis"),
        (
            lambda: rx.rule(lambda x, a=AXIS, b=SAME_AXIS: R.flip(R.flip(x, a), b), lambda x: x),
            "the parameters a and b have the same two examples, which do not say where each of them stands",
        ),
    ],
)
def test_functions_that_make_no_rule_are_refused(make: Any, message: str) -> None:
    with pytest.raises(rx.RewriteError, match=message):
        make()


# --- attributes and numbers as variables


def test_an_attribute_variable_is_read_from_the_match_and_written_into_another_attribute() -> None:
    leaky = rx.rule(
        lambda x, slope=SLOPE: R.nn.leakyrelu(x, slope),
        lambda x, slope: R.nn.prelu(x, R.const([slope], x.ty.dtype), axis=0),
        name="leaky",
    )
    assert check_rule(leaky).rewrites > 0

    @R.function
    def before(x: R.Tensor((4,), "float32")):
        y = R.nn.leakyrelu(x, 0.3)
        return y

    assert "0.3" in leaky(before, verify="values").script()
    assert "leakyrelu" not in leaky(before).script()


def test_an_attribute_variable_in_two_places_is_one_value_and_may_be_an_element() -> None:
    twice = rx.rule(
        lambda x, axis=AXIS: R.squeeze(R.expand_dims(x, [0, axis]), [0, axis]),
        lambda x: x,
        name="there and back",
    )

    @R.function
    def before(x: R.Tensor((1, 3), "float32")):
        with R.dataflow():
            same = R.squeeze(R.expand_dims(x, [0, 3]), [0, 3])
            other = R.squeeze(R.expand_dims(R.exp(x), [0, 2]), [0, 1])
            fewer = R.squeeze(R.expand_dims(R.exp(x), [0]), [0])
            R.output(same, other, fewer)
        return same, other, fewer

    seen: list[str | None] = []
    text = twice(before, listener=lambda event: seen.append(event.reason)).script()
    assert text.count("R.squeeze") == 2
    assert "axis is 2 in one place and 1 in another" in seen
    assert any(reason is not None and "is not of the form" in reason for reason in seen)


def test_a_number_of_the_program_becomes_an_attribute() -> None:
    def scores(q: Any, k: Any, v: Any, scale: Any = NUMBER) -> Any:
        heads_first = [R.permute_dims(one, [0, 2, 1, 3]) for one in (q, k, v)]
        turned = R.permute_dims(heads_first[1], [0, 1, 3, 2])
        weights = R.nn.softmax(R.matmul(heads_first[0], turned) * scale, axis=3)
        return R.permute_dims(R.matmul(weights, heads_first[2]), [0, 2, 1, 3])

    taken: list[Any] = []

    def attention(q: Any, k: Any, v: Any, scale: float) -> Any:
        taken.append(scale)
        return R.nn.attention(q, k, v, scale=scale)

    fuse = rx.rule(scores, attention)
    x = R.Tensor((1, 5, 2, 4), "float32")

    @R.function
    def program(q: x, k: x, v: x):
        a = R.permute_dims(q, [0, 2, 1, 3])
        b = R.permute_dims(R.permute_dims(k, [0, 2, 1, 3]), [0, 1, 3, 2])
        w = R.nn.softmax(R.const([[0.3]]) * R.matmul(a, b), axis=-1)
        y = R.permute_dims(R.matmul(w, R.permute_dims(v, [0, 2, 1, 3])), [0, 2, 1, 3])
        return y

    after = fuse(program, verify="values")
    assert taken == [pytest.approx(0.3)]
    assert "R.nn.attention" in after.script()


def test_variables_are_checked_when_a_rule_is_made() -> None:
    with pytest.raises(rx.RewriteError, match="two examples that differ"):
        rx.any_attribute(1, 1)
    with pytest.raises(rx.RewriteError, match="no attribute in the result of before is its parameter slope"):
        rx.rule(lambda x, slope=SLOPE: R.exp(x), lambda x: x)
    with pytest.raises(rx.RewriteError, match="pass the variable on unchanged, and compute in after"):
        rx.rule(lambda x, slope=SLOPE: R.nn.leakyrelu(x, slope * 2), lambda x: x)
    with pytest.raises(rx.RewriteError, match="an attribute variable may stand for attributes only"):
        rx.rule(lambda x, slope=SLOPE: x * slope, lambda x: x)
    with pytest.raises(rx.RewriteError, match="after takes other, which before does not have; it has: x, slope"):
        rx.rule(lambda x, slope=SLOPE: R.nn.leakyrelu(x, slope), lambda other: other)


def test_an_attribute_variable_goes_through_several_outputs() -> None:
    def before(x: Any, axis: Any = FIRST) -> Any:
        return R.std(x, axis), R.variance(x, axis)

    def after(x: Any, axis: int) -> Any:
        spread = R.variance(x, axis)
        return R.sqrt(spread), spread

    both = rx.rule(before, after)

    @R.function
    def program(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.std(x, [1])
            b = R.variance(x, [1])
            R.output(a, b)
        return a, b

    assert "R.std" not in both(program, verify="values").script()


def test_a_loose_attribute_of_two_calls_stands_for_one_value() -> None:
    twice = rx.rule(
        lambda v: R.nn.softmax(R.nn.softmax(v, axis=0), axis=0),
        lambda v, axis: R.nn.log_softmax(v, axis=axis),
        name="twice",
        loose=["axis"],
    )
    x = rx.Var("x", rx.TensorType((3, 4), "float32"))

    def program(first: int, second: int) -> rx.Function:
        builder = rx.BlockBuilder()
        with builder.function("main", [x]):
            builder.emit_func_output(builder.emit(R.nn.softmax(builder.emit(R.nn.softmax(x, first)), second)))
        return builder.get()["main"]

    assert "R.nn.log_softmax(x, axis=1)" in twice(program(1, 1)).script()
    reasons: list[str | None] = []
    unchanged = program(0, 1)
    assert twice(unchanged, listener=lambda event: reasons.append(event.reason)) is unchanged
    assert reasons == ["the loose attribute axis is 0 in one call and 1 in another"]


def test_how_far_values_may_change_is_a_number() -> None:
    with pytest.raises(
        rx.RewriteError, match="approximate='much'; expected a bound for the change of values, such as 1e-3"
    ):
        rx.rule(lambda v: R.exp(v), lambda v: R.exp(v), approximate="much")  # pyright: ignore[reportArgumentType]


# --- alternatives, inner values, other numbers


def _half(v: Any) -> Any:
    return rx.any_of(v / 2.0, v * 0.5)


@pytest.mark.parametrize("half", ["R.divide(x, R.const(2.0))", "R.multiply(x, R.const(0.5))"])
def test_a_value_may_be_computed_in_one_of_several_ways(half: str) -> None:
    doubled = rx.rule(lambda v: _half(v) * 3.0, lambda v: v * 1.5, name="one factor")
    assert check_rule(doubled).rewrites > 0
    main = _of_lines('x: R.Tensor((3, 4), "float32")', f"h = {half}", "y = R.multiply(h, R.const(3.0))", "y")
    text = doubled(main, verify="values").script()
    assert "R.const(1.5" in text
    assert text.count("R.multiply") == 1


def test_what_stands_in_one_alternative_only_cannot_be_taken() -> None:
    def before(v: Any, w: Any) -> Any:
        return R.exp(rx.any_of(R.negative(R.negative(v)), R.minimum(v, R.maximum(v, w))))

    with pytest.raises(rx.RewriteError, match="w occurs in one alternative only"):
        rx.rule(before, lambda v, w: v + w, name="bad")
    assert check_rule(rx.rule(before, lambda v: R.exp(v), name="of v").assuming_finite()).rewrites > 0
    some: Any = rx.any_attribute(0, 1)
    axis = rx.rule(
        lambda v, axis=some: rx.any_of(R.sum(R.exp(v), axis), R.log(R.sum(v, axis))),
        lambda v, axis: R.max(v, axis),
        name="an axis",
    )
    main = _of_lines('x: R.Tensor((3, 4), "float32")', "s = R.sum(x, axis=[1])", "y = R.log(s)", "y")
    assert "R.max(x, axis=[1]" in axis(main).script()


def test_the_replacement_is_one_value_and_no_alternatives() -> None:
    main = _of_lines('x: R.Tensor((4,), "float32")', "y = R.exp(x)", "y")
    for after in (lambda v: _half(v), lambda v: R.exp(_half(v))):
        with pytest.raises(rx.RewriteError, match=r"any_of in its after: .*so give a single value"):
            rx.rule(lambda v: R.exp(v), after, name="two ways")(main)


def test_an_exclusive_rule_leaves_what_is_read_by_others() -> None:
    swish = rx.rule(lambda v: v * R.sigmoid(v), lambda v: R.nn.silu(v), name="swish", exclusive=True)
    lines = "g = R.sigmoid(x)", "y = R.multiply(x, g)"
    alone = _of_lines('x: R.Tensor((3, 4), "float32")', *lines, "y")
    assert "R.nn.silu" in swish(alone, verify="values").script()
    both = _of_lines('x: R.Tensor((3, 4), "float32")', *lines, "(y, g)")
    reasons: list[str | None] = []
    assert swish(both, listener=lambda event: reasons.append(event.reason)) is both
    assert reasons == ["g is needed elsewhere, too"]

    def before(v: Any) -> Any:
        e = R.exp(v)
        return e + 1.0, e * 2.0

    two = rx.rule(before, lambda v: (R.exp(v) - (-1.0), R.exp(v) / 0.5), name="two", exclusive=True)
    lines = "e = R.exp(x)", "a = R.add(e, R.const(1.0))", "b = R.multiply(e, R.const(2.0))"
    assert "R.subtract" in two(_of_lines('x: R.Tensor((4,), "float32")', *lines, "(a, b)")).script()
    kept = _of_lines('x: R.Tensor((4,), "float32")', *lines, "(a, b, e)")
    assert two(kept) is kept


def test_other_numbers_are_told_where_that_is_asked_for() -> None:
    options: list[dict[str, Any]] = [{}, {"tells_numbers": True}]
    main = _of_lines('x: R.Tensor((3, 4), "float32")', "h = R.multiply(x, R.const(0.4))", "y = R.clip(h, 0, 6)", "y")
    told = []
    for own in options:
        reasons: list[str | None] = []
        half = rx.rule(lambda v: R.clip(v * 0.5, 0.0, 6.0), lambda v: R.nn.relu6(v / 2.0), name="half", **own)
        assert half(main, listener=lambda event, reasons=reasons: reasons.append(event.reason)) is main
        told.append(reasons)
    assert told == [[], ["a constant is 0.4000000059604645, where the formula has 0.5"]]


def test_numbers_are_those_of_python_in_double_precision() -> None:
    tenth = rx.rule(lambda v: v * 0.1 + 1.0, lambda v: v / 10.0 + 1.0, name="a tenth")
    for dtype in ("float64", "float32", "float16"):
        lines = f'h = R.multiply(x, R.const(0.1, "{dtype}"))', f'y = R.add(h, R.const(1.0, "{dtype}"))'
        main = _of_lines(f'x: R.Tensor((3,), "{dtype}")', *lines, "y")
        assert "R.divide" in tenth(main).script(), dtype


# --- shapes that are not known


@pytest.mark.parametrize(
    ("annotation", "one", "is_left"),
    [
        ('R.Tensor("float32")', "R.const([[1.0]])", True),
        ('R.Tensor("float32")', "R.const(1.0)", False),
        ('R.Tensor("float32", ndim=1)', "R.const([1.0])", False),
        ('R.Tensor("float32", ndim=2)', "R.const([[1.0]])", False),
    ],
)
def test_a_factor_of_one_with_axes_is_left_where_it_may_add_some(annotation: str, one: str, is_left: bool) -> None:
    by_one = rx.rule(lambda v: v * 1.0, lambda v: v, name="by one")
    main = _of_lines(f"x: {annotation}", f"m = R.multiply(x, {one})", "y = R.exp(m)", "y")
    assert (by_one(main) is main) == is_left


@pytest.mark.parametrize("ndim", [-1, 2])
def test_a_replacement_that_drops_an_operand_is_left_where_that_may_broadcast(ndim: int) -> None:
    back = rx.rule(lambda v, w: v + w - w, lambda v: v, name="there and back")
    kept = rx.rule(lambda v, w: R.exp(v) * R.exp(w), lambda v, w: R.exp(v + w), name="of a sum")
    matrices = rx.rule(
        lambda v, w: R.matmul(R.negative(v), w), lambda v, w: R.negative(R.matmul(v, w)), name="negative last"
    )
    annotation = f'R.Tensor("float32", ndim={ndim})' if ndim >= 0 else 'R.Tensor("float32")'
    parameters = f"x: {annotation}, z: {annotation}"
    reasons: list[str | None] = []
    main = _of_lines(parameters, "a = R.add(x, z)", "y = R.subtract(a, z)", "y")
    assert back(main, listener=lambda event: reasons.append(event.reason)) is main
    assert reasons == ["the shape is not known, and the replacement may have another, as operands broadcast"]
    assert kept(_of_lines(parameters, "a = R.exp(x)", "b = R.exp(z)", "y = R.multiply(a, b)", "y")) is not None
    product = _of_lines(parameters, "a = R.negative(x)", "y = R.matmul(a, z)", "y")
    assert matrices(product).script().index("R.matmul") < matrices(product).script().index("R.negative")


def _of_lines(parameters: str, *lines: str) -> Any:
    """A function of these bindings, of which the last line gives the outputs."""
    *bindings, outputs = lines
    block = [*bindings, f"R.output({outputs.strip('()')})"]
    text = "\n".join(f"        {line}" for line in block)
    return rx.parse(
        "from regraft.script import relax as R\n\n@R.function\n"
        f"def main({parameters}):\n    with R.dataflow():\n{text}\n    return {outputs}\n"
    )

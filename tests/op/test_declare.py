"""Operators of anyone's: declared by their meaning, and then printed, parsed, pickled, matched, verified and run."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.dpl import is_op, wildcard
from regraft.ir.dtypes import numpy_dtype
from regraft.ir.op import REQUIRED, Call
from regraft.script import relax as R


@rx.operator("declared.bent", traits=(rx.Trait.ELEMENTWISE,))
def bent(xp: Any, x: Any, *, slope: float = 0.5) -> Any:
    """``x``, with what is below zero times ``slope``."""
    return xp.where(x < 0, x * slope, x)


@rx.operator("declared.statistics")
def statistics(xp: Any, x: Any, weights: Any = None, offset: Any = None, *, axis: int) -> Any:
    """The weighted sum and the greatest element along an axis."""
    weighed = x if weights is None else x * weights
    total = xp.sum(weighed, axis=axis)
    return (total if offset is None else total + offset), xp.max(x, axis=axis)


@R.function
def program(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4,), "float32")):
    with R.dataflow():
        a = R.declared.bent(x, slope=0.25)
        b = statistics(a, None, 2.0, axis=1)
        c = R.declared.statistics(a, w, axis=-1)
        out = b[0] + c[1]
        R.output(out)
    return out


INPUTS = (np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4), np.arange(4, dtype="float32"))


def expected() -> np.ndarray:
    x, _ = INPUTS
    a = np.where(x < 0, x * np.float32(0.25), x)
    return a.sum(axis=1) + 2 + a.max(axis=1)


def test_the_type_of_a_result_is_that_of_its_meaning() -> None:
    assert repr(program.ret_ty) == 'R.Tensor((n,), dtype="float32")'
    unknown = rx.Var("x", rx.TensorType())

    @rx.operator("declared.rows")
    def rows(xp: Any, x: Any) -> Any:
        return xp.reshape(x, (x.shape[0], -1))

    with pytest.raises(
        rx.OpTypeError, match=r"declared.rows: .* the type of the result: .* declare the operator with infer="
    ):
        rows(unknown)


def test_a_call_prints_parses_and_pickles() -> None:
    text = program.script()
    assert "R.declared.bent(x, slope=0.25)" in text
    assert 'R.declared.statistics(a, R.tuple(), R.const(2.0, "float32"), axis=1)' in text
    rx.assert_structural_equal(rx.parse(text), program)
    rx.assert_structural_equal(pickle.loads(pickle.dumps(program)), program)
    with pytest.raises(rx.ParseError, match=r"no operator 'declared.bend'.*did you mean declared.bent"):
        rx.parse(text.replace("declared.bent", "declared.bend"))


@pytest.mark.parametrize("target", ["numpy", "torch", "onnxruntime"])
def test_its_meaning_runs_on_every_engine(target: str) -> None:
    found = rx.build(program, target)["program"](*INPUTS)
    np.testing.assert_allclose(np.asarray(found), expected(), rtol=1e-6)


def test_a_kernel_of_an_engine_runs_in_place_of_the_meaning() -> None:
    seen: list[Any] = []

    @rx.operator("declared.with_kernel")
    def with_kernel(xp: Any, x: Any, y: Any = None, z: Any = None) -> Any:
        return x + (x if z is None else z)

    @with_kernel.define_kernel("numpy")
    def kernel(x: np.ndarray, y: Any, z: Any) -> np.ndarray:
        seen.append((y, z))
        return x + z

    x = rx.Var("x", rx.TensorType((2,), "float32"))
    function = rx.Function([x], rx.SeqExpr([], with_kernel(x, None, x)))
    for target in ("numpy", "onnxruntime"):
        found = rx.build(function, target)["main"](np.ones(2, "float32"))
        np.testing.assert_array_equal(found, np.full(2, 2, "float32"))
    assert [y for y, _ in seen] == [None]


def test_an_operator_without_meaning_or_kernel_says_what_to_add() -> None:
    nothing = rx.Op("declared.nothing", ("x",), infer=lambda call: call.args[0].ty)
    x = rx.Var("x", rx.TensorType((2,), "float32"))
    function = rx.Function([x], rx.SeqExpr([], nothing(x)))
    with pytest.raises(rx.RegraftError, match=r"neither a reference nor a kernel there; add one with define_kernel"):
        rx.build(function, "numpy")
    with pytest.raises(rx.RegraftError, match=r"declare it with onnx='domain::Name', if a runtime has it, or with a"):
        rx.to_onnx(function)


def three(_call: Any) -> Any:
    return 3


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: bent.define_kernel("tensorrt"),
            r"the engine 'tensorrt' takes no kernels of Python, those of 'numpy', ",
        ),
        (lambda: bent.define_kernel("onnxruntime"), r"find kernels by name: declare the operator with onnx='domain::N"),
        (
            lambda: rx.operator("declared.odd", onnx="Odd")(lambda xp, x: x),
            r"onnx='Odd' names no operator; write \"dom",
        ),
        (
            lambda: rx.operator("declared.odd", torch="odd::")(lambda xp, x: x),
            r"torch='odd::' names no operator; write",
        ),
        (
            lambda: rx.Op("declared.three", ("x",), infer=three)(R.const(1.0)),
            r"declared\.three: its type rule gives 3; expected a type",
        ),
    ],
)
def test_what_a_declaration_cannot_mean_is_an_error(declare: Callable[[], Any], message: str) -> None:
    with pytest.raises(rx.RegraftError, match=message):
        declare()


def test_patterns_and_verified_rules_know_the_operator() -> None:
    x = wildcard()

    def spelled_out(expr: Call, found: dict[Any, Any]) -> Any:
        return R.where(found[x] < 0.0, found[x] * expr.attrs.slope, found[x])

    good = rx.Rule(is_op("declared.bent")(x), spelled_out, "bent, spelled out")
    assert "R.where" in good(program, verify="values").script()
    wrong = rx.Rule(is_op("declared.bent")(x), lambda _, found: R.nn.relu(found[x]), "bent is relu")
    with pytest.raises(rx.RewriteError, match="not the same on random inputs"):
        wrong(program, verify="values")


@rx.operator("declared.top")
def top(xp: Any, x: Any, *, k: int = 2) -> Any:
    """The ``k`` greatest elements of each row, and where they stand."""
    order = xp.argsort(x, axis=-1, descending=True)[..., :k]
    return xp.take_along_axis(x, order, axis=-1), order


@rx.operator("declared.windows")
def windows(xp: Any, x: Any, *, size: int, step: int = 1) -> Any:
    """Windows of each row, one above the other: the attributes say the shape."""
    return xp.stack([x[..., i : i + size] for i in range(0, x.shape[-1] - size + 1, step)], axis=-2)


@R.function
def several_results(x: R.Tensor(("n", 6), "float32")):
    with R.dataflow():
        best = R.declared.top(x, k=3)
        seen = R.declared.windows(best[0], size=2)
        place = best[1]
        R.output(seen, place)
    return seen, place


@pytest.mark.parametrize("target", ["numpy", "torch", "onnxruntime"])
def test_attributes_may_say_the_shape_and_results_be_several(target: str) -> None:
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    order = np.argsort(-x, axis=-1)[:, :3]
    best = np.take_along_axis(x, order, axis=-1)
    found, place = rx.build(several_results, target)["several_results"](x)
    np.testing.assert_array_equal(np.asarray(found), np.stack([best[:, :2], best[:, 1:]], axis=1))
    np.testing.assert_array_equal(np.asarray(place), order)


def declare_twice(change: str) -> rx.Op:
    factor = 3.0 if change == "captured" else 2.0
    if change == "code":

        @rx.operator("declared.again")
        def again(xp: Any, x: Any) -> Any:
            return x + factor
    elif change == "attributes":

        @rx.operator("declared.again")
        def again(xp: Any, x: Any, *, axis: int = 0) -> Any:
            return x * factor
    else:

        @rx.operator("declared.again")
        def again(xp: Any, x: Any) -> Any:
            return x * factor

    return again


def test_the_same_declaration_may_be_made_again_and_no_other() -> None:
    first = declare_twice("")
    assert declare_twice("") is first
    for change, what in (("code", "reference"), ("attributes", "attributes"), ("captured", "reference")):
        with pytest.raises(rx.IRError, match=rf"'declared.again' is declared already, with another value of {what}"):
            declare_twice(change)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("acme::f", "identifiers joined by dots"),
        ("acme.2x", "identifiers joined by dots"),
        ("relax.add", "declared already"),
    ],
)
def test_a_name_must_be_one_that_programs_can_show(name: str, message: str) -> None:
    with pytest.raises(rx.IRError, match=message):

        @rx.operator(name)
        def f(xp: Any, x: Any) -> Any:
            return x


def test_the_parameters_of_a_meaning_say_what_is_an_operand() -> None:
    with pytest.raises(rx.IRError, match=r"put attributes after a \*"):

        @rx.operator("declared.mistaken")
        def mistaken(xp: Any, x: Any, scale: float = 1.0) -> Any:
            return x * scale

    with pytest.raises(rx.IRError, match=r"first parameter is the array namespace"):
        rx.operator("declared.mistaken")(lambda: 0)


def test_operators_may_share_attributes_that_their_meanings_take_together() -> None:
    shared = {"scale": REQUIRED, "offset": 0.0}

    @rx.operator("declared.shifted", shared=shared)
    def shifted(xp: Any, x: Any, *, sign: int = 1, **how: Any) -> Any:
        return x * (sign * how["scale"]) + how["offset"]

    assert dict(shifted.attributes) == {"sign": 1, **shared}
    x = rx.Var("x", rx.TensorType((3,), "float32"))
    main = rx.build(rx.Function([x], rx.SeqExpr([], shifted(x, scale=2.0))), "numpy")["main"]
    np.testing.assert_array_equal(main(np.arange(3, dtype=np.float32)), [0, 2, 4])


def test_a_changed_docstring_is_no_other_declaration() -> None:
    def declared(text: str) -> rx.Op:
        def negated(xp: Any, x: Any) -> Any:
            return -x

        negated.__code__ = negated.__code__.replace(co_consts=(text, *negated.__code__.co_consts[1:]))
        negated.__doc__ = text
        return rx.operator("declared.negated")(negated)

    assert declared("The opposite.") is declared("What is as far from zero, on the other side.")


def test_traits_and_names_of_a_declaration_are_checked() -> None:
    with pytest.raises(rx.IRError, match=r"'elementwise' is not a trait; give members of rx.Trait"):
        rx.operator("declared.wrong", traits=["elementwise"])(lambda xp, x: x)  # type: ignore[list-item]
    with pytest.raises(rx.IRError, match=r"torch='gelu' names no operator; write \"namespace::name\""):
        rx.operator("declared.wrong", torch="gelu")(lambda xp, x: x)


def test_what_was_pickled_elsewhere_says_which_operator_to_declare() -> None:
    text = pickle.dumps(program).replace(b"declared.bent", b"declared.bend")
    with pytest.raises(rx.IRError, match=r"no operator 'declared.bend'"):
        pickle.loads(text)


@rx.operator("declared.made")
def made(xp: Any, x: Any, *, half: float = 0.5) -> Any:
    """Sums of ``x`` with arrays that are made without a dtype; the last but one result is of whole numbers."""
    return (
        x + xp.zeros(x.shape) + xp.ones((3,)) * xp.full((3,), half),
        x @ xp.eye(3) + xp.linspace(0, 1, 3),
        x * xp.asarray([0.5, 1, 2]) + xp.arange(0.0, 3.0) + xp.asarray(half),
        xp.full((2,), 7),
        xp.zeros((2,), dtype=xp.float64),
    )


@R.function
def making(x: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        out = R.declared.made(x)
        R.output(out)
    return out


@pytest.mark.parametrize("target", ["numpy", "torch", "onnxruntime", "xla"])
def test_floats_that_a_meaning_makes_are_float32_unless_it_says_otherwise(target: str) -> None:
    dtypes = ["float32", "float32", "float32", "int64", "float64"]
    result: Any = making.ret_ty
    assert [field.dtype for field in result.fields] == dtypes
    x = INPUTS[0].reshape(4, 3)[:2]
    found = [np.asarray(one) for one in rx.build(making, target)["making"](x)]
    assert [str(one.dtype) for one in found] == dtypes
    np.testing.assert_allclose(found[0], x + 0.5, rtol=1e-6)
    np.testing.assert_allclose(found[1], x + np.linspace(0, 1, 3), rtol=1e-6)
    np.testing.assert_allclose(found[2], x * [0.5, 1, 2] + np.arange(3) + 0.5, rtol=1e-6)


def test_tables_and_not_a_numbers_that_a_meaning_closes_over_may_be_declared_again() -> None:
    def declared(table: np.ndarray, fill: float, steps: list[Any]) -> rx.Op:
        @rx.operator("declared.looked_up")
        def looked_up(xp: Any, x: Any) -> Any:
            return steps[0](xp.asarray(table, dtype=x.dtype) * x + fill)

        return looked_up

    def step() -> list[Any]:
        return [lambda x: x + 1]

    table = np.arange(3.0)
    first = declared(table, np.nan, step())
    assert declared(table.copy(), float("nan"), step()) is first
    for changed in ((table + 1, np.nan, step()), (table, 0.0, step()), (table, np.nan, [lambda x: x + 2])):
        with pytest.raises(rx.IRError, match=r"'declared.looked_up' is declared already"):
            declared(*changed)


def test_a_declaration_of_another_module_is_the_same_where_it_reads_the_same_there() -> None:
    text = """
def scaled(x):
    return x * FACTOR

def meaning(xp, x):
    return scaled(x)
"""

    def declared(factor: float) -> rx.Op:
        space: dict[str, Any] = {"FACTOR": factor}
        exec(text, space)
        return rx.operator("declared.of_another_module")(space["meaning"])

    first = declared(2.0)
    assert declared(2.0) is first
    with pytest.raises(rx.IRError, match=r"is declared already, with another value of reference"):
        declared(3.0)


def test_a_call_of_a_foreign_operator_says_what_type_to_state() -> None:
    whiten = R.foreign("com.elsewhere::Whiten")
    x = rx.Var("x", rx.TensorType((2, 3), "float32"))
    assert whiten(x, ty_args=x.ty).ty == whiten(x, ty_args=[x.ty]).ty == x.ty
    with pytest.raises(rx.OpTypeError, match=r"is R.Any; expected a tensor.*state it .* ty_args=\[R.Tensor\("):
        R.nn.relu(whiten(x))
    with pytest.raises(rx.OpTypeError, match=r"Whiten: ty_args=\(2, 3\); expected the types of its results: "):
        whiten(x, ty_args=(2, 3))


def test_lists_as_attributes_are_held_as_tuples_and_arrays_are_refused() -> None:
    @rx.operator("declared.listed")
    def listed(xp: Any, x: Any, *, axes: Any = [0], groups: Any = ([0, 1],)) -> Any:  # noqa: B006
        return xp.sum(x, axis=tuple(axes), keepdims=True) * len(groups)

    x = rx.Var("x", rx.TensorType((3, 4), "float32"))
    by_default, given = listed(x), listed(x, axes=[0], groups=([0, 1],))
    assert by_default.attrs == given.attrs
    assert hash(given.attrs) == hash(by_default.attrs)
    assert given.attrs.groups == ((0, 1),)
    y = rx.Var("y", rx.TensorType((3, 1), "float32"))
    block = rx.BindingBlock([rx.VarBinding(y, listed(x, axes=[1]))])
    function = rx.Function([x], rx.SeqExpr([block], y))
    rx.assert_structural_equal(rx.parse(function.script()), function)
    module = rx.IRModule({"main": function})
    for target in ("numpy", "onnxruntime"):
        np.testing.assert_allclose(
            rx.build(module, target)["main"](INPUTS[0].reshape(3, 4)),
            INPUTS[0].reshape(3, 4).sum(1, keepdims=True),
            rtol=1e-5,
        )
    with pytest.raises(rx.OpTypeError, match=r"axes=array\(\[0\]\).* as a list of numbers"):
        listed(x, axes=np.array([0]))


@pytest.mark.parametrize("target", ["numpy", "torch", "onnxruntime"])
def test_any_number_of_operands_may_follow_one_that_is_left_out(target: str) -> None:
    @rx.operator("declared.added_up")
    def added_up(xp: Any, x: Any, bias: Any = None, *rest: Any) -> Any:
        total = x if bias is None else x + bias
        for one in rest:
            total = total + one
        return total, xp.sum(total, axis=0)

    program = rx.parse("""
@R.function
def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3,), "float32")):
    with R.dataflow():
        alone = R.declared.added_up(x)
        a = alone[1]
        two = R.declared.added_up(x, y)
        b = two[0]
        four = R.declared.added_up(x, y, x, y)
        c = four[0]
        R.output(a, b, c)
    return a, b, c
""")
    rx.assert_structural_equal(rx.parse(program.script()), program)
    x, y = np.arange(6, dtype="float32").reshape(2, 3), np.ones(3, "float32")
    for made in (program, rx.from_onnx(rx.to_onnx(program))):
        found = rx.build(made, target)["main"](x, y)
        for one, expected in zip(found, (x.sum(axis=0), x + y, 2 * x + 2 * y), strict=True):
            np.testing.assert_allclose(np.asarray(one), expected)


@rx.operator("acme.half_of_narrow")
def half_of_narrow(xp: Any, x: Any, y: Any = None, *, by: float = 0.5) -> Any:
    total = x * by if y is None else x * by + y
    return total, xp.sum(total, axis=-1) * 2.0


@pytest.mark.parametrize("target", ["numpy", "torch", "onnxruntime"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_numbers_of_python_keep_the_dtype_of_what_a_meaning_takes(target: str, dtype: str) -> None:
    program = rx.parse(f"""
@R.function
def main(x: R.Tensor((2, 3), "{dtype}")):
    both = R.acme.half_of_narrow(x)
    y = both[0]
    z = both[1]
    return (y, z)
""")
    given = np.arange(6).reshape(2, 3).astype(numpy_dtype(dtype))
    found = rx.build(program, target)["main"](given)
    assert [str(one.dtype).removeprefix("torch.") for one in found] == [dtype, dtype]
    for one, expected in zip(found, (given / 2, given.sum(-1)), strict=True):
        np.testing.assert_array_equal([float(item) for item in one.reshape(-1)], expected.astype("float32").reshape(-1))

"""The reference engine computes what NumPy computes when the same program is written by hand."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest

import regraft.op as R
from regraft.engine import BuildError
from regraft.ir import (
    BlockBuilder,
    Call,
    Constant,
    Function,
    IRModule,
    Op,
    PrimType,
    PrimValue,
    ShapeExpr,
    ShapeType,
    SymVar,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    const,
)
from regraft.ir.dims import dim_max, dim_min
from regraft.ir.types import OBJECT
from tests.run.programs import build, of_type, program, tensor


def _numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def test_a_chain_of_calls_gives_what_numpy_gives() -> None:
    x, w = tensor("x", (3, 4)), tensor("w", (4, 5))
    mod = program([x, w], lambda bb, x, w: R.add(R.matmul(x, w), R.multiply(R.matmul(x, w), const(0.5))))
    a, b = _numbers(3, 4), _numbers(4, 5, seed=1)
    np.testing.assert_allclose(build(mod)["main"](a, b), a @ b * np.float32(1.5), rtol=1e-6)


def test_the_attention_block_of_stable_diffusion_gives_what_numpy_gives() -> None:
    batch, length, heads, width = 2, 6, 4, 5
    q, k, v = (tensor(n, (batch, length, heads, width)) for n in "QKV")

    def heads_first(bb: BlockBuilder, value: Var) -> Var:
        moved = bb.emit(R.permute_dims(value, axes=[0, 2, 1, 3]))
        return bb.emit(R.reshape(moved, R_shape(batch * heads, length, width)))

    def block(bb: BlockBuilder, q: Var, k: Var, v: Var) -> Call:
        queries, keys, values = (heads_first(bb, value) for value in (q, k, v))
        scores = bb.emit(R.matmul(queries, bb.emit(R.permute_dims(keys, axes=[0, 2, 1]))))
        scaled = bb.emit(R.multiply(scores, const(width**-0.5)))
        weights = bb.emit(softmax(bb, scaled))
        mixed = bb.emit(R.matmul(weights, values))
        return R.permute_dims(bb.emit(R.reshape(mixed, R_shape(batch, heads, length, width))), axes=[0, 2, 1, 3])

    arrays = [_numbers(batch, length, heads, width, seed=i) for i in range(3)]
    a, b, c = (array.transpose(0, 2, 1, 3).astype("float64") for array in arrays)
    scores = a @ b.swapaxes(-1, -2) / np.sqrt(width)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = (weights / weights.sum(-1, keepdims=True) @ c).transpose(0, 2, 1, 3)
    actual = build(program([q, k, v], block))["main"](*arrays)
    assert actual.shape == (batch, length, heads, width)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def R_shape(*sizes: int) -> ShapeExpr:
    return ShapeExpr(sizes)


def softmax(bb: BlockBuilder, x: Var) -> Call:
    exps = bb.emit(R.exp(R.subtract(x, R.max(x, axis=[-1], keepdims=True))))
    return R.divide(exps, R.sum(exps, axis=[-1], keepdims=True))


def test_the_forward_program_of_the_gradient_test_gives_what_numpy_gives() -> None:
    x, y = tensor("x", (3, 3)), tensor("y", (3, 3))

    def forward(bb: BlockBuilder, x: Var, y: Var) -> Call:
        products = [
            bb.emit(R.matmul(x, y)),
            bb.emit(R.matmul(R.permute_dims(x), y)),
            bb.emit(R.matmul(x, R.permute_dims(y))),
            bb.emit(R.matmul(R.permute_dims(x), R.permute_dims(y))),
        ]
        total = products[0] + products[1] + products[2] + products[3]
        return R.sum(total)

    a, b = _numbers(3, 3), _numbers(3, 3, seed=1)
    actual = build(program([x, y], forward))["main"](a, b)
    assert isinstance(actual, np.ndarray)
    assert actual.shape == ()
    expected = (a @ b + a.T @ b + a @ b.T + a.T @ b.T).sum()
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_tuples_are_built_taken_apart_and_returned() -> None:
    x = tensor("x", (2, 6))

    def write(bb: BlockBuilder, x: Var) -> Tuple:
        parts = bb.emit(R.split(x, 3, axis=1))
        pair = bb.emit(Tuple([TupleGetItem(parts, 2), Tuple([x])]))
        return Tuple([TupleGetItem(parts, 0), pair, Tuple([])])

    a = _numbers(2, 6)
    first, (third, (whole,)), nothing = build(program([x], write))["main"](a)
    np.testing.assert_array_equal(first, a[:, :2])
    np.testing.assert_array_equal(third, a[:, 4:])
    assert whole is a
    assert nothing == ()


def test_sizes_are_read_off_the_arguments_and_computed_with() -> None:
    n, m = SymVar("n"), SymVar("m")
    x, y = tensor("x", (n, m)), tensor("y", (n * 2, 3))

    def write(bb: BlockBuilder, x: Var, y: Var) -> Tuple:
        flat = bb.emit(R.reshape(x, ShapeExpr([n * m])))
        half = ShapeExpr([n // 2, m % 2, dim_min(n, m), dim_max(n + 1, m), n * m - 1])
        return Tuple([flat, half, PrimValue(n + m)])

    exe = build(program([x, y], write))
    flat, sizes, total = exe["main"](_numbers(5, 3), _numbers(10, 3))
    assert flat.shape == (15,)
    assert sizes == (2, 1, 3, 6, 14)
    assert total == 8
    assert exe["main"](_numbers(0, 3), _numbers(0, 3))[1] == (0, 1, 0, 3, -1)


def test_a_size_that_stands_only_in_an_expression_is_solved_for() -> None:
    n, m = SymVar("n"), SymVar("m")
    x, y = tensor("x", (n * 2 + 1,)), tensor("y", (n + m,))
    exe = build(program([x, y], lambda bb, x, y: ShapeExpr([n, m])))
    assert exe["main"](_numbers(7), _numbers(10)) == (3, 7)


def test_two_sizes_of_the_same_name_are_two_sizes() -> None:
    first, second = SymVar("n"), SymVar("n")
    x, y = tensor("x", (first,)), tensor("y", (second,))
    exe = build(program([x, y], lambda bb, x, y: ShapeExpr([first, second, first - second])))
    assert exe["main"](_numbers(5), _numbers(2)) == (5, 2, 3)


def test_shapes_and_scalars_are_arguments_and_carry_sizes() -> None:
    n, m = SymVar("n"), SymVar("m")
    params = [
        of_type("s", ShapeType([n, 4])),
        of_type("k", PrimType("int64", m)),
        of_type("f", PrimType("float32")),
    ]
    exe = build(program(params, lambda bb, s, k, f: Tuple([ShapeExpr([n + m]), s, k, f])))
    assert exe["main"]([3, 4], 2, 1) == ((5,), (3, 4), 2, 1.0)
    assert exe["main"](np.array([3, 4]), np.int64(2), 1.5) == ((5,), (3, 4), 2, 1.5)


def test_match_cast_binds_the_sizes_it_introduces() -> None:
    n = SymVar("n")
    x = tensor("x", None, None, -1)

    def write(bb: BlockBuilder, x: Var) -> Tuple:
        cast = bb.match_cast(x, TensorType((n, 2), "float32"))
        return Tuple([cast, ShapeExpr([n * 3])])

    a = _numbers(4, 2)
    same, sizes = build(program([x], write))["main"](a)
    assert same is a
    assert sizes == (12,)


def test_zero_size_tensors_run() -> None:
    n = SymVar("n")
    x = tensor("x", (n, 3))
    mod = program([x], lambda bb, x: R.matmul(x, const(np.ones((3, 2), "float32"))))
    assert build(mod)["main"](np.zeros((0, 3), "float32")).shape == (0, 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint64", "bool"])
def test_every_dtype_goes_in_and_comes_out(dtype: str) -> None:
    x = tensor("x", (2,), dtype)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    values = np.array([1, 0]).astype(kind)
    result = build(program([x], lambda bb, x: R.add(x, x)))["main"](values)
    assert result.dtype == kind
    np.testing.assert_array_equal(result, values + values)


def test_arithmetic_follows_ieee_754_without_a_warning() -> None:
    x, i = tensor("x", (3,)), tensor("i", (), "int32")
    mod = program([x, i], lambda bb, x, i: Tuple([R.divide(x, R.subtract(x, x)), R.add(i, i)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quotient, wrapped = build(mod)["main"](np.array([1, -1, 0], "float32"), np.array(2**31 - 1, "int32"))
    np.testing.assert_array_equal(quotient, np.array([np.inf, -np.inf, np.nan], "float32"))
    assert wrapped == -2


def test_a_result_of_rank_0_is_an_array() -> None:
    x = tensor("x", ())
    result = build(program([x], lambda bb, x: R.add(x, x)))["main"](2)
    assert type(result) is np.ndarray
    assert (result.dtype, result.shape, float(result)) == (np.float32, (), 4.0)


def test_nested_calls_in_a_function_made_by_hand_are_run() -> None:
    x = tensor("x", (2,))
    function = Function([x], R.add(R.add(x, x), R.multiply(x, x)))
    np.testing.assert_array_equal(build(function)["main"](np.array([1, 3], "float32")), [3, 15])


def test_names_that_python_or_the_engine_takes_are_no_trouble() -> None:
    names = ["lambda", "add", "const0", "T", "1a", "a b", "main", "check_main", "inf", "é", "const", "del"]
    params = [tensor(name, ()) for name in names]

    def write(bb: BlockBuilder, *params: Var) -> Var:
        total = params[0]
        for param in params[1:]:
            total = bb.emit(R.add(total, param), name_hint="add")
        return bb.emit(R.add(total, const(0.5)))

    assert float(build(program(params, write))["main"](*range(12))) == 66.5


def test_functions_that_share_variables_are_kept_apart() -> None:
    x, y = tensor("x", ()), tensor("x", ())
    sum_of_both = Function([x, y], R.subtract(x, y))
    swapped = Function([y, x], R.subtract(x, y))
    other = Function([tensor("x", ()), x], R.negative(x))
    exe = build(IRModule({"a b": sum_of_both, "swapped": swapped, "again": sum_of_both, "other": other}))
    results = [float(exe[name](5.0, 3.0)) for name in exe]
    assert results == [2.0, -2.0, 2.0, -3.0]


def test_constants_are_shared_with_the_program_and_named_once() -> None:
    weight = np.arange(6, dtype="float32").reshape(2, 3)
    shared = const(weight)
    x = tensor("x", (2, 3))
    exe = build(program([x], lambda bb, x: Tuple([R.add(R.add(x, shared), shared), shared])))
    _, same = exe["main"](np.zeros((2, 3), "float32"))
    assert np.shares_memory(same, weight)
    assert "# const0: float32 (2, 3), 24 bytes" in exe.source
    assert "const1" not in exe.source


def test_a_lazy_constant_is_loaded_when_the_module_is_built() -> None:
    from regraft.ir import TensorData

    data = TensorData.lazy((2,), "float32", lambda: np.array([1, 2], "float32"))
    x = tensor("x", (2,))
    exe = build(program([x], lambda bb, x: R.add(x, Constant(data))))
    np.testing.assert_array_equal(exe["main"]([1, 1]), [2, 3])


def test_the_source_reads_as_one_line_a_binding() -> None:
    n = SymVar("n")
    x = tensor("x", (n, 4))
    exe = build(program([x], lambda bb, x: R.permute_dims(bb.emit(R.add(x, const(2.0))), axes=[1, 0])))
    assert exe.source == (
        "# const0: float32 2.0\n"
        "\n"
        "def main(x):\n"
        "    (n,) = check_main(x)\n"
        "    lv = add(x, const0)\n"
        "    del x\n"
        "    gv = permute_dims(lv, axes=(1, 0))\n"
        "    del lv\n"
        "    return gv\n"
    )


def test_attributes_that_have_no_text_are_globals() -> None:
    class Marker:
        def __repr__(self) -> str:
            raise AssertionError("an attribute without a text of its own is not printed")

    op = Op.get("relax.add")
    probe = _probe_op()
    x = tensor("x", (2,))
    marker = Marker()
    exe = build(Function([x], probe(x, thing=(marker, float("inf"), float("nan"), None, True, "é"))))
    seen = exe["main"]([0, 0])
    assert seen[0] is marker
    assert seen[1] == float("inf")
    assert seen[2] != seen[2]
    assert seen[3:] == (None, True, "é")
    assert op.reference is not None


_PROBE: list[Op] = []


def _probe_op() -> Op:
    if not _PROBE:
        _PROBE.append(
            Op(
                "test.probe",
                ("x",),
                {"thing": None},
                infer=lambda call: OBJECT,
                reference=lambda xp, x, thing: thing,
            )
        )
    return _PROBE[0]


def test_a_size_that_nothing_determines_is_an_error_when_built() -> None:
    n, m = SymVar("n"), SymVar("m")
    x = tensor("x", (n * m,))
    with pytest.raises(BuildError, match="main: the size n is used, but nothing before it defines it"):
        build(program([x], lambda bb, x: ShapeExpr([n])))


def test_verify_types_finds_an_operator_whose_rule_and_meaning_disagree() -> None:
    from regraft.engine import ExecutionError

    wrong = _wrong_op()
    x = tensor("x", (2, 3))
    mod = program([x], lambda bb, x: R.add(wrong(x), wrong(x)))
    with pytest.raises(ExecutionError, match=r"main: lv = test_wrong\(x\): axis 0 is 3; expected 2"):
        build(mod, verify_types=True)["main"](_numbers(2, 3))


def test_an_operand_that_is_left_out_is_none_to_the_reference() -> None:
    optional = _optional_op()
    x = tensor("x", ())
    assert build(Function([x], optional(x)))["main"](1.0) == (True, True)
    assert build(Function([x], optional(x, x)))["main"](1.0) == (False, True)


_OPTIONAL: list[Op] = []


def _optional_op() -> Op:
    if not _OPTIONAL:
        _OPTIONAL.append(
            Op(
                "test.optional",
                ("x", "y?", "z?"),
                infer=lambda call: OBJECT,
                reference=lambda xp, x, y, z: (y is None, z is None),
            )
        )
    return _OPTIONAL[0]


_WRONG: list[Op] = []


def _wrong_op() -> Op:
    if not _WRONG:
        _WRONG.append(Op("test.wrong", ("x",), infer=lambda call: call.args[0].ty, reference=lambda xp, x: x.T))
    return _WRONG[0]


def test_verify_types_accepts_programs_that_are_right() -> None:
    n = SymVar("n")
    x = tensor("x", (n, 4))
    mod = program([x], lambda bb, x: R.sum(R.add(x, R.multiply(x, const(2.0))), axis=[0]))
    a = _numbers(3, 4)
    np.testing.assert_allclose(build(mod, verify_types=True)["main"](a), (a * 3).sum(0), rtol=1e-5)


def test_an_empty_module_builds() -> None:
    exe = build(IRModule())
    assert exe.function_names == ()
    assert exe.source == ""


def test_tuple_parameters_come_as_tuples_or_lists() -> None:
    t = of_type("t", TupleType([TensorType((2,), "float32"), TupleType([TensorType((2,), "float32")])]))

    def write(bb: BlockBuilder, t: Var) -> Call:
        inner = bb.emit(TupleGetItem(t, 1))
        return R.add(bb.emit(TupleGetItem(t, 0)), bb.emit(TupleGetItem(inner, 0)))

    np.testing.assert_array_equal(build(program([t], write))["main"]([[1, 2], ([3, 4],)]), [4, 6])

"""Printed programs read back as equal ones: every construct, every kind of constant, any name."""

from __future__ import annotations

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regraft as rx
from regraft import assert_structural_equal
from regraft.ir import (
    Attrs,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    Expr,
    ExternFunc,
    Function,
    FuncType,
    If,
    IRModule,
    MatchCast,
    ObjectType,
    PrimType,
    PrimValue,
    RegraftError,
    SeqExpr,
    ShapeExpr,
    ShapeType,
    StringImm,
    SymVar,
    TensorData,
    TensorType,
    Tuple,
    TupleType,
    Type,
    Var,
    VarBinding,
)
from regraft.ir.dims import dim_max, dim_min
from regraft.ir.dtypes import numpy_dtype
from regraft.script import relax as R
from regraft.testing.random_programs import programs
from tests.kit import python_steps
from tests.script.programs import attention

F32 = TensorType((2, 3), "float32")


def assert_round_trip(program: Function | IRModule) -> str:
    text = program.script()
    again = rx.parse(text)
    assert_structural_equal(again, program)
    assert again.script() == text
    return text


def function_of(params: list[Var], *values: Expr, **options: object) -> Function:
    """A function that binds each value and returns all of them."""
    bindings = [VarBinding(Var(f"v{i}", value.ty), value) for i, value in enumerate(values)]
    body = SeqExpr([BindingBlock(bindings)], Tuple([binding.var for binding in bindings]))
    return Function(params, body, attrs={"global_symbol": "main"}, **options)


n, m = SymVar("n"), SymVar("m")


@pytest.mark.parametrize(
    "ty",
    [
        TensorType(dtype=None),
        TensorType(None, "float32"),
        TensorType(None, "bfloat16", 3),
        TensorType(None, None, 0),
        TensorType((), "bool"),
        TensorType((1,), "int8"),
        TensorType((n, 4), "float8_e4m3fn"),
        TensorType((n * 2 + 1, m // 2, n * m % 3, dim_max(n, m), dim_min(n - 1, m), n - m * 3 + 4), None),
        TensorType(((n + m) * (n - 1) // (m + 2),), None),
        TupleType([]),
        TupleType([F32]),
        TupleType([F32, TupleType([ObjectType(), TupleType([])])]),
        ShapeType(),
        ShapeType([]),
        ShapeType(None, 2),
        ShapeType([n, 3]),
        PrimType("int64"),
        PrimType("bool"),
        PrimType("float32", 2.5),
        PrimType("float64", math.inf),
        PrimType("int64", 3),
        PrimType("int64", n * 2),
        ObjectType(),
        FuncType(None, ObjectType(), False),
        FuncType(None, ObjectType(), True),
        FuncType(None, F32, False),
        FuncType([], F32),
        FuncType([F32], F32, True),
        FuncType([F32, TensorType((n,), None)], TupleType([F32]), False),
    ],
    ids=repr,
)
def test_a_type_reads_back(ty: Type) -> None:
    anchor = Var("a", TensorType((n, m), None))
    x = Var("x", ty)
    assert_round_trip(Function([anchor, x], SeqExpr([BindingBlock([VarBinding(Var("y", ty), x)])], x), ty))


def test_every_kind_of_leaf_reads_back() -> None:
    x = Var("x", TensorType((n, 3), "float32"))
    values: list[Expr] = [
        Tuple([]),
        Tuple([x]),
        Tuple([x, Tuple([x, Tuple([])])]),
        ShapeExpr([]),
        ShapeExpr([n, n * 2 + 1, 4]),
        PrimValue(3),
        PrimValue(-3),
        PrimValue(True),
        PrimValue(2.5),
        PrimValue(2.5, "float64"),
        PrimValue(math.nan, "float64"),
        PrimValue(-math.inf),
        PrimValue(7, "int32"),
        PrimValue(n * 2),
        StringImm('a "b" \\ \n\t é \u2028 \x00'),
        rx.DataTypeImm("bfloat16"),
        ExternFunc("my.func"),
        x,
    ]
    assert_round_trip(function_of([x], *values))


def test_every_kind_of_call_reads_back() -> None:
    x = Var("x", F32)
    f = Var("f", FuncType([F32], F32))
    g = Var("g", ObjectType())
    values: list[Expr] = [
        Call(f, [x]),
        Call(g, [x]),
        Call(ExternFunc("my.func"), [x]),
        Call(ExternFunc("my.func"), [x], None, [F32]),
        Call(ExternFunc("my.func"), [x], {"a": 1, "b": "s", "c": (1, 2)}, [TupleType([F32, ObjectType()])]),
        R.call_dps_packed("my.func", [x, x], F32),
        R.call_dps_packed("my.func", x, [F32, TensorType((4,), "int32")]),
        R.call_pure_packed("my.func", x, ty_args=F32),
        R.permute_dims(x),
        R.permute_dims(x, [1, 0]),
        R.nn.softmax(x, axis=-1),
        R.concat([x, x], axis=1),
        R.reshape(x, (3, 2)),
        R.split(x, 3, axis=1),
    ]
    assert_round_trip(function_of([x, f, g], *values, is_pure=False))


def test_attributes_of_functions_and_modules_read_back() -> None:
    x = Var("x", F32)
    attrs = {
        "global_symbol": "other",
        "int": 3,
        "float": 0.1,
        "inf": -math.inf,
        "flag": True,
        "none": None,
        "text": 'q"\\\n',
        "list": (1, (2.0, "x")),
        "table": Attrs({"k": "v", "deep": Attrs({"a": 1})}),
    }
    module = IRModule({"main": Function([x], x, attrs=attrs)}, {"version": 2, "names": ("a", "b")})
    assert_round_trip(module)


def test_empty_modules_read_back_and_empty_dataflow_blocks_are_left_out() -> None:
    x = Var("x", F32)
    written = IRModule({"main": Function([x], SeqExpr([DataflowBlock([])], x))}).script()
    assert_structural_equal(rx.parse(written), IRModule({"main": Function([x], SeqExpr([], x))}))
    assert_round_trip(IRModule())


def test_blocks_branches_and_match_casts_nest() -> None:
    c, x = Var("c", TensorType((), "bool")), Var("x", TensorType(None, "float32", 2))
    cast = Var("y", TensorType((n, m), "float32"))
    inner = If(c, SeqExpr([], x), SeqExpr([], R.const([1.0, 2.0])))
    chosen = Var("z", inner.ty)
    outer = If(c, SeqExpr([BindingBlock([VarBinding(chosen, inner)])], chosen), SeqExpr([], x))
    result = Var("z", outer.ty)
    blocks = [DataflowBlock([MatchCast(cast, x, cast.ty)]), BindingBlock([VarBinding(result, outer)])]
    assert_round_trip(Function([c, x], SeqExpr(blocks, Tuple([result, cast]))))


def test_a_function_inside_a_function_reads_back() -> None:
    x, y = Var("x", TensorType((n,), "float32")), Var("y", TensorType((n,), "float32"))
    inner = Function([y], SeqExpr([], Tuple([y, x])))
    f, r = Var("f", inner.ty), Var("r", TupleType([x.ty, x.ty]))
    block = BindingBlock([VarBinding(f, inner), VarBinding(r, Call(f, [x]))])
    assert_round_trip(Function([x], SeqExpr([block], r)))


@pytest.mark.parametrize(
    "names",
    [
        ("x", "x"),
        ("for", "1a"),
        ("a.b", "a_b"),
        ("", "_"),
        ("R", "T"),
        ("cls", "metadata"),
        ("n", "n"),
        ("é", "变量"),
        ("x1", "x"),
        ("match", "Module"),
        ("None", "True"),
        ("__import__", "__class__"),
        ("x y\n", "x\ty"),
    ],
)
def test_any_name_becomes_an_identifier_that_is_used_once(names: tuple[str, str]) -> None:
    size = SymVar("n")
    first, second = (Var(name, TensorType((size, 3), "float32")) for name in names)
    call = R.add(first, second)
    bound = Var(names[0], call.ty)
    function = Function([first, second], SeqExpr([DataflowBlock([VarBinding(bound, call)])], bound))
    assert_round_trip(IRModule({names[0]: function, f"{names[0]}.2": function, "main": function}))


_SCALARS = [
    *[np.float32(v) for v in (0.1, 2.0, -0.0, 1e-45, 3.4028235e38, math.inf, -math.inf, math.nan)],
    *[np.float64(v) for v in (0.1, 1e300, 5e-324, -0.0, math.nan)],
    *[np.float16(v) for v in (0.1, 65504, math.inf, math.nan)],
    *[ml_dtypes.bfloat16(v) for v in (0.1, 3e38, math.inf, -0.0, math.nan)],
    *[ml_dtypes.float8_e4m3fn(v) for v in (0.1, 448, math.nan)],
    *[ml_dtypes.float8_e5m2(v) for v in (0.1, -math.inf)],
    np.frombuffer(b"\x01\x00\xc0\x7f", "float32")[0],
    np.frombuffer(b"\x00\x00\xc0\xff", "float32")[0],
    *[np.int64(v) for v in (-(2**63), 2**63 - 1)],
    *[np.uint64(v) for v in (0, 2**64 - 1)],
    np.int8(-128),
    np.uint8(255),
    np.bool_(True),
    np.bool_(False),
    ml_dtypes.int4(-8),
    np.complex64(1 - 2j),
    np.complex128(complex(-0.0, math.inf)),
]


@pytest.mark.parametrize("value", _SCALARS, ids=lambda value: f"{value.dtype}:{value}")
def test_a_scalar_constant_reads_back_bit_by_bit(value: np.generic) -> None:
    for array in (np.asarray(value), np.asarray([value, value])):
        constant = Constant(array)
        function = Function([], constant)
        (again,) = [rx.parse(function.script()).body.body]
        assert again.ty == constant.ty
        assert again.data.numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 2), (3,), (2, 3), (2, 1, 3), (100,), (5, 7)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "float16", "int4", "complex64"])
def test_an_array_constant_reads_back_bit_by_bit(shape: tuple[int, ...], dtype: str) -> None:
    numbers = np.random.default_rng(0).integers(-8, 8, shape).astype(rx.ir.dtypes.numpy_dtype(dtype))
    constant = Constant(np.asfortranarray(numbers))
    text = assert_round_trip(function_of([], constant, constant))
    again = rx.parse(text).body.blocks[0].bindings[0].value
    assert again.data.numpy().shape == shape
    np.testing.assert_array_equal(again.data.numpy(), numbers)
    assert text.count('", [') <= 1


def test_show_leaves_the_numbers_of_large_constants_out(capsys: pytest.CaptureFixture[str]) -> None:
    function = function_of([], Constant(np.zeros(1000, dtype="float32")))
    function.show()
    shown = capsys.readouterr().out
    assert 'metadata["constants"][0]' in shown
    assert "numbers of 1 constant is left out" in shown
    assert len(shown) < 400


_NAMES = st.text(max_size=6)


@given(st.lists(_NAMES, min_size=1, max_size=6), st.lists(st.floats(width=32), max_size=4), _NAMES)
def test_programs_of_any_names_numbers_and_texts_read_back(names: list[str], numbers: list[float], text: str) -> None:
    size = SymVar(names[0])
    params = [Var(name, TensorType((size, size * 2), "float32")) for name in names]
    total: Expr = params[0]
    bindings: list[VarBinding] = []
    for param, number in zip(params, [*numbers, 1.0], strict=False):
        value = R.add(total, Constant(np.asarray(number, "float32")))
        total = Var(param.name_hint, value.ty)
        bindings.append(VarBinding(total, value))
    body = SeqExpr([DataflowBlock(bindings)], Tuple([total, StringImm(text)]))
    assert_round_trip(Function(params, body, attrs={"global_symbol": text, "note": text}))


@given(programs(most=40, helpers=2))
def test_random_programs_read_back(program: IRModule) -> None:
    assert_round_trip(program)


def test_saved_programs_load_with_their_weights_lazily(tmp_path: Path) -> None:
    arrays = [np.random.default_rng(i).normal(size=(10 + i, 7)).astype("float32") for i in range(3)]
    program = IRModule({"main": function_of([], *[Constant(array) for array in arrays])})
    path = tmp_path / "model.relax"
    rx.save_script(program, path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.relax", "model.relax.weights"]
    assert path.stat().st_size < 2000
    loaded = rx.load_script(path)
    values = [binding.value for binding in loaded["main"].body.blocks[0]]
    assert [value.data.is_loaded for value in values] == [False] * 3
    for value, array in zip(values, arrays, strict=True):
        np.testing.assert_array_equal(value.data.numpy(), array)
    rx.save_script(loaded, path)
    assert_structural_equal(rx.load_script(path), program)


@pytest.mark.parametrize("written_before", [False, True])
@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4", "float4_e2m1fn"])
def test_elements_of_few_bits_lie_several_to_a_byte(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, written_before: bool
) -> None:
    """Files of before have a byte for each element, and are read as well."""
    bits, random = int(dtype.strip("uintfloa")[0]), np.random.default_rng(0)
    numbers = random.integers(-8, 8, (333, 7)) / (2 if "float" in dtype else 1)
    if "float" not in dtype:
        numbers = numbers % 2**bits - (0 if dtype.startswith("u") else 2 ** (bits - 1))
    arrays = [numbers.astype(numpy_dtype(dtype)), random.normal(size=(20, 7)), np.zeros((0, 3), numpy_dtype(dtype))]
    program, path = function_of([], *map(Constant, arrays)), tmp_path / "model.relax"
    with monkeypatch.context() as patch:
        if written_before:
            patch.setattr("regraft.script.files.SUB_BYTE", {})
        rx.save_script(program, path)
    of_codes = arrays[0].size if written_before else -(-arrays[0].size * bits // 8)
    assert abs((tmp_path / "model.relax.weights").stat().st_size - 64 - 20 * 7 * 8 - of_codes) <= 128
    loaded = rx.load_script(path)
    assert_structural_equal(loaded, program)
    values = [binding.value for binding in loaded.body.blocks[0]]
    for value, array in zip(values, arrays, strict=True):
        np.testing.assert_array_equal(value.data.numpy().view(np.uint8), array.view(np.uint8))


def test_a_small_program_needs_no_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.relax"
    rx.save_script(attention, path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.relax"]
    assert_structural_equal(rx.load_script(path), attention)


def test_weights_of_another_program_are_refused(tmp_path: Path) -> None:
    for name, number in (("a", 1.0), ("b", 2.0)):
        rx.save_script(function_of([], Constant(np.full(100, number))), tmp_path / name)
    (tmp_path / "a.weights").write_bytes((tmp_path / "b.weights").read_bytes())
    with pytest.raises(RegraftError, match=r"does not hold the weights of"):
        rx.load_script(tmp_path / "a")
    (tmp_path / "a.weights").unlink()
    with pytest.raises(RegraftError, match=r"needs its file of weights"):
        rx.load_script(tmp_path / "a")
    text = (tmp_path / "b").read_text(encoding="utf-8").replace('"b.weights"', '"../b.weights"')
    (tmp_path / "b").write_text(text, encoding="utf-8")
    with pytest.raises(RegraftError, match=r"must be in the folder of the text"):
        rx.load_script(tmp_path / "b")


def test_a_failed_save_leaves_the_old_files_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.relax"
    rx.save_script(function_of([], Constant(np.ones(100))), path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def broken() -> np.ndarray:
        raise OSError("the disk is gone")

    lost = Constant(TensorData.lazy((100,), "float64", broken))
    with pytest.raises(OSError, match="the disk is gone"):
        rx.save_script(function_of([], Constant(np.zeros(100)), lost), path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def chain(length: int) -> IRModule:
    x = Var("x", F32)
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value: Expr = x
            for _ in range(length):
                value = builder.emit(R.add(value, x))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    return builder.get()


def test_bindings_print_and_read_in_linear_time() -> None:
    def work(length: int) -> int:
        module = chain(length)
        return python_steps(lambda: rx.parse(module.script()))

    work(100)
    assert work(4_000) < 2.2 * work(2_000)


def test_a_hundred_thousand_bindings_are_printed_and_read() -> None:
    module = chain(100_000)
    assert_structural_equal(rx.parse(module.script()), module)

"""The ONNX Runtime engine: values in and out, errors, options. Each operator is held against it in tests/op."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import regraft.op as R
from regraft.engine import BuildError, ExecutionError, TypeCheckError, build
from regraft.ir import (
    BlockBuilder,
    Call,
    ExternFunc,
    Function,
    IRModule,
    PrimType,
    PrimValue,
    ShapeExpr,
    ShapeType,
    SymVar,
    TensorType,
    Tuple,
    TupleType,
    Var,
    const,
)
from tests.kit import assert_close
from tests.run.programs import mlp, mlp_arrays

TARGET = "onnxruntime"


def _tensor(name: str, *shape: Any, dtype: str = "float32") -> Var:
    return Var(name, TensorType(shape, dtype))


def test_the_same_numbers_as_the_reference_at_any_size() -> None:
    module = mlp()
    fast, reference = build(module, target=TARGET)["main"], build(module, target="numpy")["main"]
    for n in (1, 3, 7):
        arrays = mlp_arrays(n)
        assert_close(fast(*arrays), reference(*arrays))


@pytest.mark.parametrize("given", [0, 1])
def test_arguments_are_checked_as_the_reference_checks_them(given: int) -> None:
    module = mlp()
    wrong = [np.zeros((3, 5), np.float32), np.zeros((3, 8), np.float64)][given]
    arrays = [wrong, *mlp_arrays(3)[1:]]
    messages: list[str] = []
    for target in (TARGET, "numpy"):
        with pytest.raises(TypeCheckError) as caught:
            build(module, target=target)["main"](*arrays)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_wrong_number_of_arguments_is_an_error_with_the_signature() -> None:
    with pytest.raises(ExecutionError, match=r"main\(x, w, b\) takes 3 arguments, but got 1"):
        build(mlp(), target=TARGET)["main"](np.zeros((3, 8), np.float32))


def test_arrays_in_any_memory_order_and_numbers_are_taken() -> None:
    x, y = _tensor("x", 3, 4), _tensor("y")
    exe = build(Function([x, y], R.multiply(x, y)), target=TARGET)
    array = np.arange(12, dtype=np.float32).reshape(4, 3).T
    np.testing.assert_array_equal(exe["main"](array, 2.0), array * 2)
    np.testing.assert_array_equal(exe["main"](array[::1, ::-1], 2.0), array[:, ::-1] * 2)


def test_results_share_no_memory_that_is_freed() -> None:
    x = _tensor("x", 1000)
    call = build(Function([x], R.add(x, x)), target=TARGET)["main"]
    first = call(np.ones(1000, np.float32))
    for _ in range(5):
        call(np.full(1000, 7, np.float32))
    np.testing.assert_array_equal(first, np.full(1000, 2, np.float32))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2], ids=str)
def test_narrow_floats_go_in_and_out(dtype: Any) -> None:
    name = np.dtype(dtype).name
    x = _tensor("x", 3, dtype=name)
    bb = BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(R.astype(R.multiply(R.astype(x, "float32"), const(2.0, "float32")), name)))
    found = build(bb.get(), target=TARGET)["main"](np.array([0.5, 1, -2], dtype))
    assert found.dtype == dtype
    assert found.astype(np.float32).tolist() == [1, 2, -4]


def test_tuples_shapes_and_scalars_go_in_and_out() -> None:
    n = SymVar("n")
    pair = Var("pair", TupleType([TensorType((n,), "float32"), TensorType((), "int64")]))
    size, count = Var("size", ShapeType([n, 2])), Var("count", PrimType("int64", n))
    function = Function([pair, size, count], Tuple([Tuple([pair]), ShapeExpr([n * 3]), PrimValue(n + 1)]))
    found = build(function, target=TARGET)["main"]((np.ones(4, np.float32), 5), (4, 2), 4)
    ((array, number),), sizes, scalar = found
    assert (array.tolist(), int(number), sizes, scalar) == ([1, 1, 1, 1], 5, (12,), 5)


def test_sizes_that_disagree_between_arguments_are_refused() -> None:
    n = SymVar("n")
    x, y = _tensor("x", n), _tensor("y", n)
    with pytest.raises(TypeCheckError, match=r"parameter y: axis 0 is 3; expected n = 2"):
        build(Function([x, y], R.add(x, y)), target=TARGET)["main"](np.zeros(2, "f4"), np.zeros(3, "f4"))


def test_an_outside_function_that_nobody_registered_is_named_when_it_is_called() -> None:
    x = _tensor("x", 2)
    call = Call(ExternFunc("my.kernel"), [x], None, [TensorType((2,), "float32")])
    executable = build(Function([x], call), target=TARGET)
    with pytest.raises(ExecutionError, match=r"no function 'my\.kernel' is registered"):
        executable["main"](np.zeros(2, "f4"))


def test_what_onnxruntime_has_no_kernel_for_is_refused_when_built() -> None:
    x = _tensor("x", 2, dtype="complex64")
    with pytest.raises(BuildError, match=r'ONNX Runtime .* cannot run this program.*Add.*target="numpy"'):
        build(Function([x], R.add(x, x)), target=TARGET)


@pytest.mark.parametrize("given", [True, False])
def test_packed_integers_are_refused_at_the_border(given: bool) -> None:
    x = _tensor("x", 2, dtype="int4" if given else "int8")
    with pytest.raises(BuildError, match="int4, which ONNX Runtime takes packed only"):
        build(Function([x], R.astype(x, "int8" if given else "int4")), target=TARGET)


def test_private_functions_are_made_ready_when_first_called() -> None:
    x, z = _tensor("x", 2), _tensor("z", 2, dtype="complex64")
    module = IRModule(
        {
            "main": Function([x], R.add(x, x), attrs={"global_symbol": "main"}),
            "helper": Function([_tensor("y", 2)], const([1.0, 2.0])),
            "complex": Function([z], R.add(z, z)),
        }
    )
    exe = build(module, target=TARGET)
    assert exe["main"]([1, 2]).tolist() == [2, 4]
    assert exe["helper"]([1, 2]).tolist() == [1, 2]
    with pytest.raises(BuildError, match=r"ONNX Runtime .* cannot run this program"):
        exe["complex"](np.zeros(2, "c8"))


@pytest.mark.parametrize("optimization", ["none", "basic", "extended", "all"])
def test_options_do_not_change_results(optimization: str) -> None:
    arrays = mlp_arrays(5)
    exe = build(mlp(), target=TARGET, threads=1, optimization=optimization)
    assert_close(exe["main"](*arrays), build(mlp(), target="numpy")["main"](*arrays))


def test_an_unknown_level_of_optimization_is_named() -> None:
    with pytest.raises(BuildError, match="optimization='most'; expected one of none, basic, extended, all"):
        build(mlp(), target=TARGET, optimization="most")


def test_the_source_shows_the_model() -> None:
    assert "MatMul" in build(mlp(), target=TARGET).source


def test_large_constants_are_shared_not_copied() -> None:
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    x = _tensor("x", 2, 64)
    exe = build(Function([x], R.add(x, R.matmul(x, const(weights)))), target=TARGET, optimization="none")
    array = np.ones((2, 64), np.float32)
    assert_close(exe["main"](array), array + array @ weights)


def test_division_by_zero_does_not_end_the_process() -> None:
    x, y = _tensor("x", 4, dtype="int64"), _tensor("y", 4, dtype="int64")
    least = np.iinfo(np.int64).min
    left, right = np.array([7, -7, least, 0]), np.array([0, 0, -1, 0])
    for function in (R.divide, R.floor_divide, R.mod, R.floor_mod):
        module = Function([x, y], function(x, y))
        found = build(module, target=TARGET)["main"](left, right)
        np.testing.assert_array_equal(found, build(module, target="numpy")["main"](left, right))


@pytest.mark.parametrize("shape", [(1, 2, 9), (1, 2, 9, 7), (1, 2, 5, 9, 7)])
def test_zeros_padded_before_a_max_pool_are_no_padding_of_its_own(shape: tuple[int, ...]) -> None:
    x = _tensor("x", *shape)
    spatial = len(shape) - 2
    pool = (R.nn.max_pool1d, R.nn.max_pool2d, R.nn.max_pool3d)[spatial - 1]
    padded = R.nn.pad(x, [0, 0, 0, 0, *[1, 2] * spatial], "constant", 0.0)
    module = Function([x], pool(padded, pool_size=[2] * spatial, strides=[2] * spatial))
    below = -np.ones(shape, np.float32)
    expected = build(module, target="numpy")["main"](below)
    assert expected.max() == 0
    np.testing.assert_array_equal(build(module, target=TARGET)["main"](below), expected)


def test_a_long_list_of_sizes_is_at_hand_when_the_model_is_read() -> None:
    x = _tensor("x", 2, 200)
    module = Function([x], R.split(x, 200, axis=1)[150])
    array = np.arange(400, dtype=np.float32).reshape(2, 200)
    np.testing.assert_array_equal(build(module, target=TARGET)["main"](array), array[:, 150:151])


@pytest.mark.parametrize("fill", [np.finfo(np.float32).min, -1e30, -np.inf])
@pytest.mark.parametrize("heads", [1, 2])
def test_a_row_of_scores_that_is_masked_throughout_is_what_it_is_elsewhere(fill: float, heads: int) -> None:
    operands = [_tensor(name, 1, 5, 2, 4) for name in "qkv"] + [_tensor("bias", 1, heads, 5, 5)]
    module = Function(operands, R.nn.attention(*operands, None, None))
    arrays = [np.random.default_rng(i).standard_normal((1, 5, 2, 4)).astype(np.float32) for i in range(3)]
    bias = np.zeros((1, heads, 5, 5), np.float32)
    bias[:, :, 4], bias[:, :, 1, 2:] = fill, fill
    expected = build(module, target="numpy")["main"](*arrays, bias)
    assert_close(build(module, target=TARGET)["main"](*arrays, bias), expected)

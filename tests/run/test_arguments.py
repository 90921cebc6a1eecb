"""The arguments and results of an executable, and its messages about arguments that do not fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import regraft.op as R
from regraft.engine import Executable, ExecutionError, TypeCheckError
from regraft.ir import (
    FuncType,
    ObjectType,
    PrimType,
    ShapeExpr,
    ShapeType,
    SymVar,
    TensorType,
    Tuple,
    TupleType,
    Type,
    const,
)
from tests.run.programs import build, of_type, program, tensor


def _double(shape: Any, dtype: str | None = "float32") -> Executable:
    return build(program([tensor("x", shape, dtype)], lambda bb, x: R.add(x, x)))


def _identity(ty: Type) -> Callable[[Any], Any]:
    return build(program([of_type("x", ty)], lambda bb, x: x))["main"]


class _OnlyDLPack:
    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class _OnlyArray:
    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._array


@pytest.mark.parametrize(
    "wrap",
    [
        np.asarray,
        np.ndarray.tolist,
        lambda a: tuple(map(tuple, a.tolist())),
        torch.from_numpy,
        lambda a: torch.from_numpy(a).requires_grad_(),
        jnp.asarray,
        _OnlyDLPack,
        _OnlyArray,
        const,
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    ],
    ids=[
        "numpy",
        "list",
        "tuple",
        "torch",
        "torch that requires grad",
        "jax",
        "dlpack",
        "__array__",
        "constant",
        "columns first",
        "strided",
    ],
)
def test_anything_that_is_an_array_goes_in(wrap: Callable[[np.ndarray], Any]) -> None:
    values = np.arange(6, dtype="float32").reshape(2, 3)
    result = _double((2, 3))["main"](wrap(values))
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, values * 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_a_torch_dtype_that_numpy_lacks_goes_in_bit_by_bit(dtype: torch.dtype) -> None:
    values = torch.tensor([1.5, -0.25, 3.0]).to(dtype)
    name = str(dtype).removeprefix("torch.")
    result = _identity(TensorType((3,), name))(values)
    assert result.dtype == np.dtype(getattr(ml_dtypes, name))
    np.testing.assert_array_equal(result.astype("float32"), values.to(torch.float32).numpy())


def test_a_jax_bfloat16_array_goes_in() -> None:
    result = _double((2,), "bfloat16")["main"](jnp.asarray([1.5, 2.0], dtype=jnp.bfloat16))
    assert result.astype("float32").tolist() == [3.0, 4.0]


def test_arrays_are_shared_and_not_copied() -> None:
    values = np.ones((2, 3), "float32")
    assert _identity(TensorType((2, 3), "float32"))(values) is values
    tensor_in = torch.ones(2, 3)
    assert np.shares_memory(_identity(TensorType((2, 3), "float32"))(tensor_in), tensor_in.numpy())


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float32", 2),
        ("float32", 2.5),
        ("int8", -7),
        ("bool", True),
        ("float16", 1.5),
        ("complex64", 1j),
        ("int4", 7),
    ],
)
def test_a_python_number_takes_the_dtype_of_its_parameter(dtype: str, value: Any) -> None:
    result = _identity(TensorType((), dtype))(value)
    assert result.dtype == np.dtype(getattr(ml_dtypes, dtype, dtype))
    assert result[()] == value


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", 2.5),
        ("int32", 2.0),
        ("int8", 300),
        ("uint8", -1),
        ("bool", 1),
        ("float32", True),
        ("int4", 8),
    ],
)
def test_a_python_number_that_its_parameter_cannot_hold_is_refused(dtype: str, value: Any) -> None:
    message = f"main: parameter x is {value!r}, which {dtype} cannot hold; convert it first"
    with pytest.raises(TypeCheckError, match=re.escape(message)):
        _identity(TensorType((), dtype))(value)


def test_numbers_for_a_parameter_of_unknown_dtype_follow_relax() -> None:
    assert _identity(TensorType(None, None))([1.0, 2.0]).dtype == np.float32
    assert _identity(TensorType(None, None))([1, 2]).dtype == np.int32
    assert _identity(TensorType(None, None))(True).dtype == np.bool_


def test_an_empty_list_is_an_empty_tensor_of_any_dtype() -> None:
    assert _identity(TensorType((0,), "int32"))([]).dtype == np.int32


@pytest.mark.parametrize(
    ("ty", "value", "message"),
    [
        (TensorType((2,), "float32"), np.zeros(2), "has dtype float64; expected float32; convert it first"),
        (TensorType((2,), "float32"), torch.zeros(2, dtype=torch.int64), "has dtype int64; expected float32"),
        (TensorType((2,), "float32"), np.zeros((1, 2), "f4"), "has 2 dimensions, shape (1, 2); expected 1"),
        (TensorType(None, "float32", 2), np.zeros(2, "f4"), "has 1 dimensions, shape (2,); expected 2"),
        (TensorType((2, 3), "float32"), np.zeros((2, 4), "f4"), ": axis 1 is 4; expected 3"),
        (
            TensorType((2,), "float32"),
            "text",
            "is a str; expected an array (NumPy, __array__ or DLPack) or numbers",
        ),
        (TensorType((2,), "float32"), [[1], [2, 3]], ": these lists form no tensor"),
        (TensorType((2,), "float32"), ["a", "b"], "is ['a', 'b']; expected numbers"),
        (TensorType((2,), "float32"), None, "is a NoneType; expected an array"),
        (TensorType((2,), "float32"), np.ma.masked_array([1.0, 2.0], [0, 1]), "is a masked array"),
        (TensorType((2,), "float32"), np.array(["a"]), "has dtype <U1; expected float32"),
        (TensorType((2,), "float32"), torch.zeros(2, device="meta"), "it is on meta; move it first: x.cpu()"),
        (TupleType([TensorType((), None)]), np.zeros(1), "is a ndarray; expected a tuple or list of 1 fields"),
        (TupleType([TensorType((), None)]), (1, 2), "has 2 fields; expected 1"),
        (TupleType([TensorType((2,), "float32")]), (np.zeros(3, "f4"),), "x[0]: axis 0 is 3; expected 2"),
        (ShapeType([2, 3]), (2, 4), ": value 1 is 4; expected 3"),
        (ShapeType(ndim=2), (1, 2, 3), "is (1, 2, 3); expected 2 sizes"),
        (ShapeType(), (1.5,), "is (1.5,); expected a shape, a sequence of ints"),
        (ShapeType(), (-1,), "is (-1,); expected sizes that are 0 or more"),
        (PrimType("int64"), 1.5, "is 1.5; expected a Python number of int64"),
        (PrimType("int64", 3), 4, "is 4; expected 3"),
        (PrimType("int64", SymVar("n")), -1, "is -1; expected a size, which is 0 or more"),
        (PrimType("bool"), 1, "is 1; expected a Python number of bool"),
        (FuncType(None, ObjectType()), 1, "is a int; expected a function"),
    ],
)
def test_an_argument_that_does_not_fit_is_named_with_what_was_expected(ty: Type, value: Any, message: str) -> None:
    with pytest.raises(TypeCheckError) as caught:
        _identity(ty)(value)
    text = str(caught.value)
    assert text.startswith("main: parameter x")
    assert message in text
    assert "\n" not in text


def test_sizes_that_disagree_name_both_places() -> None:
    n = SymVar("n")
    x, w = tensor("x", (n, 4)), tensor("w", (4, n))
    exe = build(program([x, w], lambda bb, x, w: R.matmul(w, x)))
    message = "main: parameter w: axis 1 is 5; expected n = 3 (axis 0 of parameter x)"
    with pytest.raises(TypeCheckError, match=re.escape(message)):
        exe["main"](np.zeros((3, 4), "f4"), np.zeros((4, 5), "f4"))


def test_a_size_expression_that_does_not_hold_says_what_it_came_to() -> None:
    n = SymVar("n")
    x, y = tensor("x", (n,)), tensor("y", (n * 2,))
    exe = build(program([x, y], lambda bb, x, y: y))
    with pytest.raises(TypeCheckError, match=re.escape("parameter y: axis 0 is 5; expected n * 2 = 6, where n = 3")):
        exe["main"](np.zeros(3, "f4"), np.zeros(5, "f4"))


def test_a_size_expression_that_never_holds_is_refused() -> None:
    n = SymVar("n")
    exe = build(program([tensor("x", (n * 2,))], lambda bb, x: x))
    with pytest.raises(TypeCheckError, match=re.escape("parameter x: axis 0 is 5; expected n * 2, whatever")):
        exe["main"](np.zeros(5, "f4"))


def test_a_failed_match_cast_names_the_binding() -> None:
    x = tensor("x", None, None)
    exe = build(program([x], lambda bb, x: bb.match_cast(x, TensorType((2,), "float32"), "y")))
    with pytest.raises(TypeCheckError, match="main: match_cast y = x: axis 0 is 3; expected 2"):
        exe["main"](np.zeros(3, "f4"))


def test_the_wrong_number_of_arguments_shows_the_parameters() -> None:
    exe = build(program([tensor("x", ()), tensor("y", ())], lambda bb, x, y: x))
    with pytest.raises(ExecutionError, match=re.escape("main(x, y) takes 2 arguments, but got 1")):
        exe["main"](1)


def test_a_function_that_does_not_exist_is_an_error_that_lists_the_others() -> None:
    with pytest.raises(ExecutionError, match="there is no function 'mian'; there are: main"):
        _double(())["mian"]


def test_an_error_in_an_operator_names_it_with_line_operands_and_origin() -> None:
    from regraft.ir import BlockBuilder
    from regraft.ir.origin import Origin

    x, y = tensor("x", None, "float32", 1), tensor("y", None, "float32", 1)
    bb = BlockBuilder()
    with bb.function("main", [x, y]):
        with bb.origin(Origin("onnx", "Add_7")):
            total = bb.emit(R.add(x, y), "total")
        bb.emit_func_output(total)
    with pytest.raises(ExecutionError) as caught:
        build(bb.get())["main"](np.zeros(2, "f4"), np.zeros(3, "f4"))
    first, *rest = str(caught.value).splitlines()
    assert first.startswith("main: relax.add failed: ValueError: ")
    assert rest == [
        "  at: total = add(x, y)",
        "  operands: x: float32 (2,), y: float32 (3,)",
        "  from: onnx:Add_7",
    ]
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_error_deep_in_called_functions_is_placed_in_the_innermost() -> None:
    from regraft.ir import BlockBuilder

    bb = BlockBuilder()
    x = tensor("x", None, "float32", 1)
    with bb.function("inner", [x], private=True):
        bb.emit_func_output(bb.emit(R.add(x, const([1.0, 2.0]))))
    y = tensor("y", None, "float32", 1)
    with bb.function("main", [y]):
        bb.emit_func_output(bb.emit(bb.get().get_global_var("inner")(y)))
    with pytest.raises(ExecutionError, match=r"^inner: relax\.add failed"):
        build(bb.get())["main"](np.zeros(3, "f4"))


def test_a_result_that_breaks_the_promised_type_is_an_error() -> None:
    from regraft.ir import Function

    x = tensor("x", None, "float32", 1)
    function = Function([x], R.add(x, x), TensorType((4,), "float32"), attrs={"global_symbol": "my main"})
    exe = build(function)
    assert exe["my main"](np.zeros(4, "f4")).shape == (4,)
    with pytest.raises(TypeCheckError, match="my main: the result: axis 0 is 3; expected 4"):
        exe["my main"](np.zeros(3, "f4"))


def test_an_executable_lists_its_functions() -> None:
    exe = _double(())
    assert (exe.function_names, list(exe), "main" in exe, "x" in exe, len(exe)) == (
        ("main",),
        ["main"],
        True,
        False,
        1,
    )
    assert repr(exe) == "Executable(target='numpy', functions=[main])"
    assert exe["main"].__name__ == "main"


def test_an_object_parameter_takes_anything() -> None:
    thing = object()
    assert _identity(ObjectType())(thing) is thing


def test_a_shape_result_is_a_tuple_of_ints() -> None:
    n = SymVar("n")
    exe = build(program([tensor("x", (n,))], lambda bb, x: Tuple([ShapeExpr([n, 2]), ShapeExpr([])])))
    assert exe["main"](np.zeros(3, "f4")) == ((3, 2), ())

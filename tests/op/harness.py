"""Checking one operator against an oracle: its type rule and its meaning, on NumPy and through PyTorch's arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat.torch as torch_namespace
import ml_dtypes
import numpy as np
import pytest
import torch

from regraft.engine import BuildError
from regraft.engine import build as build_program
from regraft.ir import (
    Call,
    Constant,
    Expr,
    Function,
    IRModule,
    Op,
    PrimValue,
    ShapeExpr,
    TensorType,
    Tuple,
    TupleType,
    Var,
)
from regraft.ir.dtypes import as_dtype
from regraft.ir.visitor import iter_bindings
from regraft.transform import Legalize
from tests.kit import assert_close as assert_close
from tests.op import on_xla


def variable(array: np.ndarray, name: str = "x") -> Var:
    """A variable of exactly the type of ``array``."""
    return Var(name, TensorType(array.shape, as_dtype(array.dtype)))


def evaluate(expr: Expr, values: dict[Var, Any], xp: Any = np) -> Any:
    """The value of a nested expression over the reference semantics, with arrays of ``xp``."""
    match expr:
        case Var():
            return values[expr]
        case Constant():
            data = expr.data.numpy()
            return data if xp is np else _to_torch(data)
        case ShapeExpr():
            return tuple(expr.values)
        case PrimValue():
            return expr.value
        case Tuple():
            return tuple(evaluate(field, values, xp) for field in expr.fields)
        case Call(op=Op() as op):
            assert op.reference is not None, f"{op.name} has no reference semantics"
            operands = [evaluate(arg, values, xp) for arg in expr.args]
            operands += [None] * (len(op.operands) - len(operands) if not op.variadic else 0)
            return op.reference(xp, *operands, **expr.attrs)
        case _:
            raise AssertionError(f"cannot evaluate {type(expr).__name__}")


def _assert_typed(ty: Any, value: Any) -> None:
    if isinstance(ty, TupleType):
        assert isinstance(value, tuple | list), f"{type(value)} for a tuple type"
        for field, item in zip(ty.fields, value, strict=True):
            _assert_typed(field, item)
        return
    if not isinstance(ty, TensorType):
        return
    value = np.asarray(value)
    assert ty.ndim in (-1, value.ndim), f"inferred ndim {ty.ndim}, computed {value.ndim}"
    assert ty.dtype in (None, as_dtype(value.dtype)), f"inferred {ty.dtype}, computed {value.dtype}"
    if ty.shape is not None and all(isinstance(d, int) for d in ty.shape):
        assert ty.shape == value.shape, f"inferred shape {ty.shape}, computed {value.shape}"


def check(
    build: Callable[..., Call],
    arrays: Sequence[Any],
    expected: Any,
    *,
    tolerance: float | None = None,
    torch_too: bool = True,
    kernels_too: bool = True,
    onnx_too: bool = True,
    decomposed_too: bool = True,
    openvino_too: bool = True,
) -> None:
    """``build(*variables)`` has the type and the value of ``expected``, the oracle's answer for ``arrays``.

    An item of ``arrays`` that is a tuple is one tuple operand. The same reference text also runs on PyTorch's arrays,
    and the torch engine with PyTorch's own kernels, unless ``torch_too`` or ``kernels_too`` is False (say why at the
    call) or PyTorch lacks a dtype. ONNX Runtime computes the call too, unless ``onnx_too`` is False (say why at the
    call) or it has no arithmetic for a dtype (`check_on_onnxruntime`). XLA computes the first calls of each operator in
    the test's module together, when that ends (`on_xla`). A composite's decomposition has the same value, unless
    ``decomposed_too`` is False (say why at the call). OpenVINO computes the first calls of each operator, unless
    ``openvino_too`` is False (say why at the call).
    """
    variables: list[Expr] = []
    values: dict[Var, Any] = {}
    for i, item in enumerate(arrays):
        if isinstance(item, tuple):
            fields = [variable(np.asarray(a), f"x{i}_{j}") for j, a in enumerate(item)]
            values.update(zip(fields, map(np.asarray, item), strict=True))
            variables.append(Tuple(fields))
        else:
            var = variable(np.asarray(item), f"x{i}")
            values[var] = np.asarray(item)
            variables.append(var)
    call = build(*variables)
    actual = evaluate(call, values)
    _assert_typed(call.ty, actual)
    assert_close(actual, expected, tolerance)
    if decomposed_too and not call.op.is_primitive:
        check_decomposed(call, values, expected, tolerance)
    if onnx_too:
        check_on_onnxruntime(call, values, expected, tolerance)
        if openvino_too:
            check_on_openvino(call, values, expected, tolerance)
    on_xla.later(call, values, lambda found: assert_close(to_numpy(found), expected, tolerance))
    if not torch_too or any(is_foreign_to_torch(value.dtype) for value in values.values()):
        return
    tensors = {var: _to_torch(value) for var, value in values.items()}
    on_torch = evaluate(call, tensors, torch_namespace)
    assert_close(to_numpy(on_torch), expected, tolerance)
    if kernels_too:
        with_kernels = build_program(Function(list(tensors), call), target="torch")["main"]
        assert_close(to_numpy(with_kernels(*tensors.values())), expected, tolerance)


def check_decomposed(call: Call, values: dict[Var, Any], expected: Any, tolerance: float | None) -> None:
    """The program of primitives that ``call`` is decomposed into gives what is expected."""
    program = Legalize()(IRModule.from_expr(Function(list(values), call)))
    called = {binding.value.op for binding in iter_bindings(program) if isinstance(binding.value, Call)}
    assert all(isinstance(op, Op) and op.is_primitive for op in called), called
    assert_close(build_program(program, target="numpy")["main"](*values.values()), expected, tolerance)


_PACKED = {"int2", "uint2", "int4", "uint4", "float4_e2m1fn"}


def is_foreign_to_onnxruntime(dtypes: set[str]) -> bool:
    """True if ONNX Runtime computes nothing of the kind: complex numbers and packed integers."""
    return any(dtype.startswith("complex") for dtype in dtypes) or bool(dtypes & _PACKED)


def check_on_onnxruntime(call: Call, values: dict[Var, Any], expected: Any, tolerance: float | None) -> None:
    """ONNX Runtime gives what is expected, or the program is refused when it is built."""
    module = IRModule.from_expr(Function(list(values), call))
    dtypes = {as_dtype(value.dtype) for value in values.values()}
    dtypes |= {dtype for dtype in (call.attrs.get("dtype"), call.attrs.get("out_dtype")) if dtype is not None}
    if is_foreign_to_onnxruntime(dtypes):
        with pytest.raises(BuildError):
            build_program(module, target="onnxruntime")
        return
    found = build_program(module, target="onnxruntime", threads=1)["main"](*values.values())
    assert_close(found, expected, tolerance)


_ENOUGH_ON_OPENVINO = 2
"""Calls of each operator that OpenVINO computes too; compiling each of some thousand would take minutes."""

_seen_by_openvino: Counter[str] = Counter()


def check_on_openvino(call: Call, values: dict[Var, Any], expected: Any, tolerance: float | None) -> None:
    """OpenVINO gives what is expected, or the program is refused when it is built."""
    assert isinstance(call.op, Op)
    narrow = any(as_dtype(value.dtype) not in ("float32", "int64", "int32", "bool") for value in values.values())
    has_nan = any(value.dtype.kind == "f" and not np.isfinite(value).all() for value in values.values())
    # It computes integers in 32 bits, and refuses larger ones when it runs.
    is_wide = any(value.dtype == np.int64 and (value != value.astype(np.int32)).any() for value in values.values())
    if narrow or has_nan or is_wide or _seen_by_openvino[call.op.name] == _ENOUGH_ON_OPENVINO:
        return
    _seen_by_openvino[call.op.name] += 1
    try:
        program = build_program(IRModule.from_expr(Function(list(values), call)), target="openvino", threads=1)
    except BuildError:
        return
    assert_close(program["main"](*values.values()), expected, tolerance)


def is_foreign_to_torch(dtype: np.dtype) -> bool:
    """True if PyTorch has no arrays of that dtype that compute: all of ml_dtypes but bfloat16."""
    return dtype.type.__module__ == ml_dtypes.__name__ and dtype != ml_dtypes.bfloat16


def _to_torch(value: np.ndarray) -> torch.Tensor:
    if value.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(np.array(value).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(value))


def to_numpy(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(to_numpy(v) for v in value)
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    if value.dtype == torch.bfloat16:
        return value.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy()

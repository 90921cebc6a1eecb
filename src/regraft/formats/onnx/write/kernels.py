"""The element types for which ONNX Runtime computes an operator on a CPU.

ONNX allows many operators for more element types than ONNX Runtime has kernels for. If a kernel is missing, the
writer computes in the nearest type that has one (`carrier`). The table is taken from the registry of kernels of ONNX
Runtime 1.31 for opset 26; a test compares it with the installed one. An operator that is not listed takes all types.
Half precision counts as present if single precision is: ONNX Runtime converts it by itself.
`takes_on_cpu` names the forms of ONNX Runtime's own operators that its CPU kernels do not support or compute wrongly.
"""

from __future__ import annotations

from typing import Final

from ....ir.dtypes import is_bool, is_float, is_integer, is_unsigned, itemsize
from ....ir.op import Call
from ....ir.types import TensorType

_LONG: Final = {"bool": "bool", "bf16": "bfloat16"} | {
    f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("float", "int", "uint") for bits in (8, 16, 32, 64)
}
"""The dtypes by their short names in the table."""

_OPERATORS: Final = {
    "i8 i16 i32 i64 u8 u16 u32 u64 f32 f64": "Abs Add Div Greater GreaterOrEqual Less LessOrEqual Mul Sub",
    "f32": (
        "Acos Acosh Asin Asinh Atan Atanh AveragePool Conv ConvTranspose Cosh Elu Erf Gelu HardSigmoid "
        "InstanceNormalization LeakyRelu MaxUnpool PRelu Selu Sinh Softplus Tan"
    ),
    "i8 i32 i64 u8 f32 f64": "ArgMax ArgMin",
    "f16 f32": "Attention",
    "f32 f64": (
        "BatchNormalization Ceil Cos Exp Floor Gemm GridSample Log LogSoftmax Reciprocal Sigmoid Sin Softmax Sqrt Tanh"
    ),
    "u8 u32 u64": "BitShift",
    "i8 i16 i32 i64 u8 u16 u32 u64": "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor",
    "i8 i32 i64 u8 u32 u64 f16 f32 f64": "Clip Max Min",
    "i32 i64 u32 u64 f32 f64": "CumProd MatMul",
    "i32 i64 f32 f64": "CumSum Einsum Pow ReduceMean ReduceProd ReduceSum",
    "i8 u8 f32 f64": "DepthToSpace MaxPool",
    "bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64": "Equal Size Tile",
    "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64": "Expand",
    "f16 bf16 f32 f64": "IsInf IsNaN LayerNormalization",
    "i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64": "Mod",
    "i8 i16 i32 i64 f32 f64": "Neg",
    "bool i32 i64 u8 f32": "NonZero",
    "bool i8 i32 i64 u8 u32 u64 f32 f64": "Pad",
    "f16 f32 f64": "RMSNormalization Round",
    "i16 i32 i64 f32 f64": "Range",
    "bool i8 i32 i64 u8 f32 f64": "ReduceMax ReduceMin",
    "i8 i32 f32 f64": "Relu",
    "i8 i32 u8 f32": "Resize",
    "i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64": "Sign",
    "i8 i16 i32 i64 u8 f32 f64": "TopK",
    "bool i32 i64 f32 f64": "Trilu",
    "i8 i64 f32 f64": "Unique",
    "i8 i32 i64 u8 u32 f32 f64": "Where",
}
"""The operators that have kernels for exactly these types."""

KERNELS: Final[dict[str, frozenset[str]]] = {
    op_type: frozenset(_LONG[short] for short in types.split())
    for types, op_types in _OPERATORS.items()
    for op_type in op_types.split()
}
"""For each operator, the types of its main operand that have a kernel."""


def has_kernel(op_type: str, dtype: str) -> bool:
    """True if ONNX Runtime computes ``op_type`` on ``dtype``, if necessary by converting half precision."""
    types = KERNELS.get(op_type)
    return types is None or dtype in types or (dtype == "float16" and "float32" in types)


def single_at_least(dtype: str) -> str:
    """The type in which to sum and scatter ``dtype``: single precision for narrower floats."""
    return "float32" if is_float(dtype) and itemsize(dtype) < 4 else dtype


def carrier(op_type: str, dtype: str, allowed: frozenset[str] | None = None) -> str:
    """The type in which to compute ``op_type`` for operands of ``dtype``: ``dtype`` itself if there is a kernel.

    Otherwise a type that holds all values of ``dtype``. For uint64 this is int64, in which sums, products and
    differences wrap in the same way. Double precision is never narrowed: without a wider kernel, ``dtype`` is returned.
    ``allowed`` are the types for which an older opset has the operator.
    """
    types = KERNELS.get(op_type)
    if allowed is not None:
        types = allowed if types is None else types & allowed
        if dtype in types:
            return dtype
    elif types is None or has_kernel(op_type, dtype):
        return dtype
    if is_float(dtype):
        wider = ("float32", "float64") if itemsize(dtype) < 4 else ("float64",)
    elif is_bool(dtype):
        wider = ("uint8", "int8", "int32", "int64", "float32")
    elif is_integer(dtype):
        signed = ("int16", "int32", "int64")
        unsigned = ("uint16", "uint32", "uint64") if is_unsigned(dtype) else ()
        wider = tuple(name for name in (*signed, *unsigned) if itemsize(name) > itemsize(dtype))
        wider = (
            (*wider, *(("float32",) if itemsize(dtype) < 4 else ()), "float64") if itemsize(dtype) < 8 else ("int64",)
        )
    else:
        wider = ()
    return next((name for name in wider if name in types), dtype)


def takes_on_cpu(call: Call) -> bool:
    """False for a call of ONNX Runtime's own operators in a form that its CPU kernel does not compute.

    These are attention whose queries, keys and values, or keys and values, are packed into one tensor of five axes; and
    products with block-quantized weights whose rows name their block, unless they have 4 bits and no zero points.
    """
    match str(getattr(call.op, "onnx", None)):
        case "com.microsoft::MultiHeadAttention":
            return all(not isinstance(arg.ty, TensorType) or arg.ty.ndim != 5 for arg in call.args[:2])
        case "com.microsoft::MatMulNBits":
            zeros, groups = (any(isinstance(arg.ty, TensorType) for arg in call.args[at : at + 1]) for at in (3, 4))
            return not groups or (call.attrs["bits"] == 4 and not zeros)
        case _:
            return True

"""Products of bytes against NumPy in int64, and weights in blocks against the matrix that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from regraft.ir import Call, OpTypeError, SymVar, TensorType, Var
from regraft.op import matmul_blocks, matmul_integer
from regraft.passes.quantize.weights import in_blocks
from tests.op.harness import check


def whole(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize(("left", "right"), [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
def test_products_of_bytes_are_exact(left: str, right: str) -> None:
    rng = np.random.default_rng(0)
    for a_shape, b_shape in (((3, 5), (5, 4)), ((2, 3, 5), (5, 4)), ((2, 3, 5), (2, 5, 4))):
        a, b = whole(rng, left, *a_shape), whole(rng, right, *b_shape)
        for first, second in ((whole(rng, left), whole(rng, right)), (whole(rng, left), whole(rng, right, 4))):
            expected = (a.astype(np.int64) - first) @ (b.astype(np.int64) - second)
            # OpenVINO is not asked for zero points of each column.
            check(matmul_integer, [a, b, first, second], expected.astype(np.int32), openvino_too=not second.ndim)


def test_a_zero_point_for_each_row() -> None:
    rng = np.random.default_rng(1)
    a, b, rows = whole(rng, "uint8", 3, 5), whole(rng, "int8", 5, 4), whole(rng, "uint8", 3)
    expected = (a.astype(np.int64) - rows[:, None]) @ b.astype(np.int64)
    # ONNX Runtime refuses zero points of rows.
    check(matmul_integer, [a, b, rows, np.array(0, np.int8)], expected.astype(np.int32), onnx_too=False)


def unpacked(codes: np.ndarray, scales: np.ndarray, bits: int, rows: int) -> np.ndarray:
    """The matrix, number by number."""
    columns = codes.shape[0]
    size = codes.shape[2] * 8 // bits
    matrix = np.zeros((rows, columns))
    for column in range(columns):
        for row in range(rows):
            block, place = divmod(row, size)
            byte = int(codes[column, block, place * bits // 8])
            code = byte if bits == 8 else (byte >> 4 if place % 2 else byte & 15)
            matrix[row, column] = (code - 2 ** (bits - 1)) * float(scales[column, block])
    return matrix


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("rows", [32, 40])
def test_weights_in_blocks_stand_for_their_matrix(bits: int, rows: int) -> None:
    rng = np.random.default_rng(2)
    packed = in_blocks(rng.standard_normal((rows, 6)).astype(np.float32), bits, 16)
    data = rng.standard_normal((2, 3, rows)).astype(np.float32)
    expected = (data @ unpacked(packed.codes, packed.scales, bits, rows)).astype(np.float32)

    def build(*operands: Any) -> Call:
        return matmul_blocks(*operands, bits=bits, block_size=16)

    # ONNX Runtime and OpenVINO round the other side to bytes, too: that is held in tests/passes/test_quantize.py.
    check(build, [data, packed.codes, packed.scales], expected, onnx_too=False)


@pytest.mark.parametrize(("bits", "most"), [(4, 0.1), (8, 0.01)])
def test_blocks_are_near_the_weights_and_a_search_is_no_worse(bits: int, most: float) -> None:
    weights = np.random.default_rng(3).standard_normal((70, 9)).astype(np.float32)
    errors: list[float] = []
    for searched in (False, True):
        packed = in_blocks(weights, bits, 32, searched=searched)
        assert packed.codes.shape == (9, 3, 32 * bits // 8)
        errors.append(float(np.square(unpacked(packed.codes, packed.scales, bits, 70) - weights).mean()))
    assert errors[1] <= errors[0]
    assert errors[1] ** 0.5 < most


def test_types_keep_the_sizes_of_the_data() -> None:
    n = SymVar("n")
    data, codes = Var("data", TensorType((n, 64), "float32")), Var("codes", TensorType((7, 2, 16), "uint8"))
    scales = Var("scales", TensorType((7, 2), "float32"))
    assert matmul_blocks(data, codes, scales).ty == TensorType((n, 7), "float32")
    a, b = Var("a", TensorType((n, 5), "uint8")), Var("b", TensorType((5, 4), "int8"))
    zeros = Var("p", TensorType((), "uint8")), Var("q", TensorType((), "int8"))
    assert matmul_integer(a, b, *zeros).ty == TensorType((n, 4), "int32")


def _x(dtype: str, *shape: int) -> Var:
    return Var("x", TensorType(shape, dtype))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: matmul_integer(*[_x("int32", 3, 3)] * 2, *[_x("int8")] * 2), "a tensor of int8 or uint8"),
        (lambda: matmul_integer(*[_x("int8", 3, 3)] * 2, _x("uint8"), _x("int8")), "the dtype of operand"),
        (lambda: matmul_integer(*[_x("int8", 3, 3)] * 2, *[_x("int8", 1, 1)] * 2), "a scalar, or a tensor of 1"),
        (
            lambda: matmul_integer(*[_x("int8", 3, 4)] * 2, _x("int8", 0), _x("int8")),
            "one for each row of operand 0, 3",
        ),
        (
            lambda: matmul_integer(*[_x("int8", 4, 4)] * 2, _x("int8"), _x("int8", 3)),
            "one for each column of operand 1",
        ),
        (lambda: matmul_integer(*[_x("int8", 4)] * 2, _x("int8", 4), _x("int8")), "one for each row of operand 0, 1"),
        (lambda: matmul_blocks(_x("float32", 2, 32), _x("uint8", 3, 1, 8), _x("float32", 3, 1)), "16 bytes"),
        (lambda: matmul_blocks(_x("float32", 2, 32), _x("uint8", 3, 2, 16), _x("float32", 3, 2)), "one block"),
        (
            lambda: matmul_blocks(_x("float32", 2, 32), _x("uint8", 3, 1, 16), _x("float32", 4, 1)),
            "the 3 columns and 1 b",
        ),
        (
            lambda: matmul_blocks(_x("float32", 2, 32), _x("uint8", 3, 1, 16), _x("float32", 3, 2)),
            "the 3 columns and 1 b",
        ),
        (lambda: matmul_blocks(*[_x("float32", 2, 32)] * 3, bits=3), "4 or 8"),
        (lambda: matmul_blocks(*[_x("float32", 2, 32)] * 3, block_size=24), "a power of 2"),
    ],
)
def test_wrong_operands_are_named_with_what_was_expected(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()

"""Weights of few bits on PyTorch: products with weights in blocks, and constants that lie several in a byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regraft as rx
from regraft import BlockBuilder, build
from regraft.ir import SymVar
from regraft.op import matmul_blocks
from regraft.run.torch_kernels import blocks
from regraft.script import relax as R
from tests.run.programs import program, tensor

RNG = np.random.default_rng(0)


def codes_of(stored: np.ndarray, bits: int) -> np.ndarray:
    """The codes in the bytes of each row, byte by byte."""
    found = [[(int(byte) >> shift) % 2**bits for byte in row for shift in range(0, 8, bits)] for row in stored]
    return np.array(found, np.float64)


def stored(columns: int, rows: int, bits: int, size: int, *, zeros: bool) -> tuple[list[np.ndarray], np.ndarray]:
    """The operands of a product with weights in blocks, and the matrix that they stand for, in float64."""
    count = -(-rows // size)
    weights = RNG.integers(0, 256, (columns, count, size * bits // 8)).astype(np.uint8)
    scales = (RNG.random((columns, count)) + 0.1).astype(np.float32)
    points = RNG.integers(0, 256, (columns, -(-count * bits // 8))).astype(np.uint8)
    middle = codes_of(points, bits)[:, :count, None] if zeros else 2.0 ** (bits - 1)
    codes = codes_of(weights.reshape(columns, -1), bits).reshape(columns, count, size)
    matrix = ((codes - middle) * scales[..., None]).reshape(columns, -1)[:, :rows].T
    return [weights, scales, *([points] if zeros else [])], matrix


def module_of(rows: int, operands: list[np.ndarray], bits: int, size: int) -> rx.IRModule:
    held = [rx.const(each) for each in operands]
    return program(
        [tensor("x", (SymVar("n"), rows))], lambda bb, x: matmul_blocks(x, *held, bits=bits, block_size=size)
    )


def error(found: Any, wanted: np.ndarray) -> float:
    return float(np.abs(np.asarray(found) - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("columns", "rows", "size"), [(48, 128, 32), (37, 100, 64), (5, 70, 16)])
def test_products_with_weights_in_blocks(bits: int, columns: int, rows: int, size: int, zeros: bool) -> None:
    operands, matrix = stored(columns, rows, bits, size, zeros=zeros)
    module = module_of(rows, operands, bits, size)
    ways = build(module, target="torch")["main"], rx.to_torch(module)
    # The kernel takes few rows, in bfloat16; more rows, and gradients, are computed in float32.
    for count, most in ((3, 0.01), (70, 1e-6)):
        x = RNG.standard_normal((count, rows)).astype(np.float32)
        for run in ways:
            assert error(run(torch.from_numpy(x)), x @ matrix) < most
    x = torch.from_numpy(RNG.standard_normal((3, rows)).astype(np.float32)).requires_grad_()
    found = ways[0](x)
    assert error(found.detach(), x.detach().numpy() @ matrix) < 1e-6
    found.sum().backward()
    assert x.grad is not None
    assert error(x.grad, np.broadcast_to(matrix.sum(axis=1), (3, rows))) < 1e-6


def test_exported_and_compiled_products_compute_in_float32() -> None:
    operands, matrix = stored(32, 64, 4, 32, zeros=False)
    module = rx.to_torch(module_of(64, operands, 4, 32))
    x = torch.from_numpy(RNG.standard_normal((3, 64)).astype(np.float32))
    sizes = {"x": {0: torch.export.Dim("n")}}
    exported = torch.export.export(module, (x,), dynamic_shapes=sizes).module()
    for run in (exported, torch.compile(module, backend="eager", dynamic=True)):
        assert error(run(x), x.numpy() @ matrix) < 1e-6


def test_weights_are_put_in_order_once_and_again_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    operands, matrix = stored(32, 64, 4, 32, zeros=False)
    weights, scales = (rx.const(each) for each in operands)

    def body(bb: BlockBuilder, x: Any) -> Any:
        # The scales are a new view in each run, as files hold them flat.
        flat = rx.const(scales.data.numpy().reshape(-1))
        return matmul_blocks(x, weights, bb.emit(R.reshape(flat, (32, 2))), bits=4, block_size=32)

    module = rx.to_torch(program([tensor("x", (1, 64))], body))
    made: list[Any] = []
    own = blocks._in_kernel_order  # type: ignore[reportPrivateUsage]
    monkeypatch.setattr(blocks, "_in_kernel_order", lambda *given: made.append(given) or own(*given))
    x = torch.from_numpy(RNG.standard_normal((1, 64)).astype(np.float32))
    for _ in range(3):
        assert error(module(x), x.numpy() @ matrix) < 0.01
    assert len(made) <= 1  # there is no kernel on other processors
    before = len(made)
    held = next(each for each in module.buffers() if each.dtype == torch.uint8)
    held.copy_(torch.full_like(held, 0x88))
    assert not module(x).any()
    assert len(made) == 2 * before


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_constants_of_few_bits_lie_several_in_a_byte(dtype: str) -> None:
    bits = int(dtype[-1])
    codes = RNG.integers(0, 2**bits, (33, 97)).astype(np.int8)
    codes = codes - (0 if dtype[0] == "u" else 2 ** (bits - 1))
    scales = RNG.random(33).astype(np.float32)

    def body(bb: BlockBuilder, x: Any) -> Any:
        weights = rx.const(codes.astype(rx.ir.dtypes.numpy_dtype(dtype)), dtype)
        zero = rx.const(np.int8(0).astype(rx.ir.dtypes.numpy_dtype(dtype)), dtype)
        floats = bb.emit(R.dequantize(weights, rx.const(scales), zero, axis=0))
        return R.tuple(floats, bb.emit(R.astype(weights, "float32")))

    module = program([tensor("x", (1,))], body)
    whole = rx.to_torch(module)
    assert sum(each.nbytes for each in whole.state_dict().values()) <= codes.size * bits // 8 + 33 * 4 + 8
    wanted = codes.astype(np.float32) * scales[:, None], codes.astype(np.float32)
    for found in (whole(torch.ones(1)), build(module, target="torch")["main"](torch.ones(1))):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(one), other)


@pytest.mark.parametrize("blocks_too", [False, True])
def test_bytes_are_dequantized_as_the_reference_does(blocks_too: bool) -> None:
    """More numbers than are computed together."""
    codes = RNG.integers(-128, 128, (520, 512)).astype(np.int8)
    sizes = (520, 16) if blocks_too else (520,)
    scales, zeros = RNG.random(sizes).astype(np.float32), RNG.integers(-128, 128, sizes).astype(np.int8)

    def body(bb: BlockBuilder, x: Any) -> Any:
        axis = 1 if blocks_too else 0
        return R.dequantize(x, rx.const(scales), rx.const(zeros), axis=axis)

    module = program([tensor("x", codes.shape, "int8")], body)
    each = [np.repeat(part, 32, axis=1) if blocks_too else part[:, None] for part in (scales, zeros)]
    wanted = (codes.astype(np.float32) - each[1]) * each[0]
    np.testing.assert_array_equal(np.asarray(build(module, target="torch")["main"](codes)), wanted)
    np.testing.assert_array_equal(np.asarray(rx.to_torch(module)(torch.from_numpy(codes))), wanted)

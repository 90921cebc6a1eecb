"""Pixel shuffle and batch flatten against PyTorch; dropout, which changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import torch

from regraft.ir import Call, OpTypeError, SymVar, TensorType, TupleType, Var
from regraft.op import nn
from tests.op.harness import check


@pytest.mark.parametrize("shape", [(12, 3, 5), (2, 18, 3, 4), (2, 3, 36, 1, 2), (0, 36, 2, 3)])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_pixel_shuffle_agrees_with_pytorch(shape: tuple[int, ...], factor: int) -> None:
    if shape[-3] % factor**2:
        shape = (*shape[:-3], shape[-3] * factor, *shape[-2:])
    if shape[-3] % factor**2:
        shape = (*shape[:-3], shape[-3] * factor, *shape[-2:])
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    check(lambda x: nn.pixel_shuffle(x, factor), [x], torch.pixel_shuffle(torch.from_numpy(x), factor).numpy())


def test_batch_flatten_keeps_the_first_axis() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)
    check(nn.batch_flatten, [x], x.reshape(4, 6))
    check(nn.batch_flatten, [np.zeros((0, 3, 2), np.int8)], np.zeros((0, 6), np.int8))


def test_dropout_drops_nothing_once_training_is_over() -> None:
    for dtype in (np.float32, np.int32, ml_dtypes.bfloat16):
        x = np.arange(6).reshape(2, 3).astype(dtype)
        check(lambda x: nn.dropout(x, 0.3), [x], (x, np.ones_like(x)))
    x = Var("x", TensorType(None, "float32"))
    assert nn.dropout(x).ty == TupleType([x.ty, x.ty])


def test_the_sizes_of_rearranged_data_follow_symbolic_ones() -> None:
    n = SymVar("n")
    assert nn.pixel_shuffle(Var("x", TensorType((1, n * 4, n, 3), "int8")), 2).ty == TensorType(
        (1, n, n * 2, 6), "int8"
    )
    assert nn.pixel_shuffle(Var("x", TensorType((1, n, n, 3), "int8")), 2).ty == TensorType(None, "int8", 4)
    assert nn.pixel_shuffle(Var("x", TensorType(None, "int8")), 2).ty == TensorType(None, "int8")
    assert nn.batch_flatten(Var("x", TensorType((n, 3, n), None))).ty == TensorType((n, n * 3), None)
    assert nn.batch_flatten(Var("x", TensorType(dtype=None))).ty == TensorType(None, None, 2)


def var(*shape: int) -> Var:
    return Var("x", TensorType(shape, "float32"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nn.pixel_shuffle(var(4, 4), 2), r"argument data .* at least 3 dimensions"),
        (lambda: nn.pixel_shuffle(var(6, 4, 4), 2), r"upscale_factor² = 4 divides, not 6"),
        (lambda: nn.pixel_shuffle(var(6, 4, 4), 0), r"upscale_factor=0; expected an int of at least 1"),
        (lambda: nn.batch_flatten(var(6)), r"argument data .* at least 2 dimensions"),
        (lambda: nn.dropout(var(6), 1.0), r"rate=1\.0; expected a share"),
    ],
)
def test_a_wrong_rearrangement_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()

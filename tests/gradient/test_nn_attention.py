"""The gradients of attention: shared heads, scales, biases, masks, windows, packed sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regraft.ir import SymVar, TensorType
from regraft.script import relax as R
from tests.gradient.checks import check_gradient, check_second_order, gradients, loss_module, numbers

QUERIES, KEYS, SIZE, COLUMNS = 5, 7, 3, 4


def operands(heads: int = 2, groups: int = 2, queries: int = QUERIES, keys: int = KEYS) -> list[np.ndarray]:
    """Query, key and value, all of whose sizes are different."""
    shapes = [(2, queries, heads, SIZE), (2, keys, groups, SIZE), (2, keys, groups, COLUMNS)]
    return [numbers(*shape, seed=number) for number, shape in enumerate(shapes)]


def reference(*operands: Any, visible: Any = None, scale: float | None = None) -> Any:
    """PyTorch's attention, whose heads come before the sequence."""
    q, k, v, *bias = operands
    q, k, v = [x.transpose(1, 2) for x in (q, k, v)]
    mask = bias[0] if bias else None
    if visible is not None:
        mask = torch.where(visible, 0.0 if mask is None else mask, float("-inf"))
    found = F.scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    return found.transpose(1, 2)


@pytest.mark.parametrize(("heads", "groups"), [(2, 2), (4, 2), (3, 1)])
def test_attention_has_the_gradient_of_both_oracles(heads: int, groups: int) -> None:
    check_gradient(R.nn.attention, *operands(heads, groups), reference=reference)


def test_a_scale_goes_into_the_gradient() -> None:
    check_gradient(lambda *x: R.nn.attention(*x, scale=0.7), *operands(), reference=lambda *x: reference(*x, scale=0.7))


@pytest.mark.parametrize("shape", [(2, 4, QUERIES, KEYS), (1, 4, 1, KEYS), (2, 1, QUERIES, KEYS), (1, 1, 1, KEYS)])
def test_a_bias_has_the_gradient_of_its_own_shape(shape: tuple[int, ...]) -> None:
    check_gradient(R.nn.attention, *operands(4, 2), numbers(*shape, seed=3), reference=reference)


def causal(queries: int, keys: int, corner: str, window: int | None) -> torch.Tensor:
    distance = torch.arange(queries)[:, None] - torch.arange(keys) + (keys - queries if corner == "BottomRight" else 0)
    return (distance >= 0) & (distance < (window or keys + queries))


@pytest.mark.parametrize("corner", ["TopLeft", "BottomRight"])
@pytest.mark.parametrize(("queries", "keys"), [(5, 7), (7, 5), (6, 6)])
@pytest.mark.parametrize("window", [None, 1, 3])
def test_a_causal_mask_has_the_gradient_of_finite_differences(
    corner: str, queries: int, keys: int, window: int | None
) -> None:
    arrays = operands(2, 1, queries, keys)
    visible = causal(queries, keys, corner, window)
    check_gradient(
        lambda *x: R.nn.attention(*x, causal_mask=corner, window_size=window),
        *arrays,
        # Where a query sees no key, PyTorch's gradient is NaN; zeros are right.
        reference=(lambda *x: reference(*x, visible=visible)) if visible.any(1).all() else None,
        differences=window != 1,
    )


def test_a_query_that_a_bias_hides_everything_from_gets_no_gradient() -> None:
    bias = numbers(1, 1, QUERIES, KEYS, seed=3)
    bias[..., 2, :] = -np.inf
    arrays = [*operands(), bias]
    found = gradients(loss_module(R.nn.attention, arrays), arrays)
    assert all(np.isfinite(gradient).all() for gradient in found)
    assert not found[0][:, 2].any()
    assert not found[3][..., 2, :].any()
    check_gradient(lambda *x: R.nn.attention(*x, R.const(bias)), *operands())


def test_attention_can_be_differentiated_twice() -> None:
    arrays = [x[:, :3] for x in operands(2, 1)]
    check_second_order(R.nn.attention, *arrays, reference=reference, differences=False)
    check_second_order(
        lambda *x: R.nn.attention(*x, causal_mask="BottomRight"), *arrays[:1], *[x[:, :2] for x in arrays[1:]]
    )


def test_attention_over_symbolic_lengths_has_the_gradient_of_finite_differences() -> None:
    n, m, batch = SymVar("n"), SymVar("m"), SymVar("batch")
    shapes = [(batch, n, 2, SIZE), (batch, m, 1, SIZE), (batch, m, 1, COLUMNS)]
    types = [TensorType(shape, "float64") for shape in shapes]
    for corner in (None, "TopLeft", "BottomRight"):
        check_gradient(lambda *x, c=corner: R.nn.attention(*x, causal_mask=c), *operands(2, 1), types=types)


@pytest.mark.parametrize("mask", [{}, {"causal_mask": "TopLeft"}, {"causal_mask": "BottomRight", "window_size": 2}])
def test_packed_sequences_have_the_gradient_of_finite_differences(mask: dict[str, Any]) -> None:
    q, k, v = [x[:1] for x in operands(4, 2)]
    starts_q, starts_k = np.array([0, 2, 4], "int32"), np.array([0, 3, 7], "int32")
    longest = np.array(4, "int32")

    def build(q, k, v, starts_q, longest_q, starts_k, longest_k):
        return R.nn.attention_var_len(q, k, v, starts_q, longest_q, starts_k, longest_k, **mask)

    arrays = [q, k, v, starts_q, longest, starts_k, longest]
    check_gradient(build, *arrays)
    parts = []
    for number in range(2):
        of_q, of_k = [slice(starts[number], starts[number + 1]) for starts in (starts_q, starts_k)]
        parts.append(([q[:, of_q], k[:, of_k], v[:, of_k]], (of_q, of_k, of_k)))
    found = gradients(loss_module(lambda *x: R.sum(R.square(build(*x))), arrays), arrays)
    for own, places in parts:
        module = loss_module(lambda *x: R.sum(R.square(R.nn.attention(*x, **mask))), own)
        for got, want, place in zip(found, gradients(module, own), places, strict=True):
            np.testing.assert_allclose(got[:, place], want, rtol=1e-9, atol=1e-12)
    assert not found[0][:, 4:].any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_operands_are_worked_out_in_single(dtype: str) -> None:
    wide = operands(4, 2)

    def build(*x):
        narrow = [R.astype(R.astype(value, dtype), dtype) for value in x]
        return R.astype(R.nn.attention(*narrow), "float64")

    expected = gradients(loss_module(R.nn.attention, wide), wide)
    for got, want in zip(gradients(loss_module(build, wide), wide), expected, strict=True):
        np.testing.assert_allclose(got, want, atol=4e-3 if dtype == "float16" else 3e-2)

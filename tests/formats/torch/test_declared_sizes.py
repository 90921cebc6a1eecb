"""Sizes that people declare dynamic for the export: their names, and messages where the model does not allow them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import regraft as rx
from tests.torch_kit import Of


def test_sizes_of_nested_inputs_have_their_names() -> None:
    rows, columns = Dim("rows"), Dim("columns")
    given = {"x": torch.rand(3, 4), "more": (torch.rand(3), [torch.rand(4)])}
    shapes: Any = ({"x": {0: rows, 1: columns}, "more": ({0: rows}, [{0: columns}])},)
    module = Of(lambda given: given["x"] * given["more"][1][0] + given["more"][0][:, None])
    program = rx.from_torch(module, (given,), dynamic_shapes=(shapes,))
    assert [str(param.ty.shape) for param in program["main"].params] == [
        "R.shape([rows, columns])",
        "R.shape([rows])",
        "R.shape([columns])",
    ]
    by_name = rx.from_torch(module, (given,), dynamic_shapes={"args": shapes})
    assert [str(param.ty.shape) for param in by_name["main"].params] == [
        "R.shape([rows, columns])",
        "R.shape([rows])",
        "R.shape([columns])",
    ]


def _reversed(x: torch.Tensor) -> torch.Tensor:
    return x[list(range(x.shape[0]))[::-1]]


def _written(x: torch.Tensor) -> torch.Tensor:
    y = x[:, None] * torch.ones(3)
    y[1:, 1:].mul_(2)
    return y


@pytest.mark.parametrize(
    ("function", "size", "dim", "message"),
    [
        (
            torch.relu,
            1,
            Dim("n"),
            r"n was declared dynamic, but is 1 in the example inputs.*give example inputs of 2 or",
        ),
        (
            torch.relu,
            1,
            Dim.DYNAMIC,
            r"axis 0 of inputs\['args'\]\[0\] was declared dynamic, but is 1 in the example inputs",
        ),
        (
            _reversed,
            5,
            Dim("n"),
            r"fixes it at 5, at \S*test_declared_sizes.py:\d+ in _reversed; compute with the size",
        ),
        (lambda x: x + x[: x.shape[0] // 2].repeat(2), 6, Dim("n"), r"not as free as declared.*n = 2\*"),
        (lambda x: x[1:].squeeze(0), 5, Dim("n", min=2), r"not as free as declared.*n = Dim\('n', min=3\)"),
        (_written, 5, Dim("n", min=2, max=9), r"Not all values of n .*give torch.export.Dim a min or max"),
    ],
)
def test_a_message_says_why_a_size_is_not_dynamic(
    function: Callable[..., Any], size: int, dim: Any, message: str
) -> None:
    with pytest.raises(rx.convert.ConvertError, match=message):
        rx.from_torch(Of(function), (torch.rand(size),), dynamic_shapes=(({0: dim},),))


def test_likeness_of_vectors_in_batches_of_any_size_runs_everywhere() -> None:
    class Contrast(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cosine_similarity(x[:, None], y, dim=-1).amax(1) + F.cosine_similarity(x, y)

    n = Dim("n", min=2)
    program = rx.from_torch(Contrast(), (torch.rand(3, 4), torch.rand(3, 4)), dynamic_shapes=({0: n}, {0: n}))
    x, y = torch.randn(7, 4), torch.randn(7, 4)
    wanted = Contrast()(x, y)
    for engine in ("numpy", "onnxruntime", "torch"):
        found = np.asarray(rx.build(program, target=engine)["main"](x.numpy(), y.numpy()))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)

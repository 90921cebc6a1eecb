"""Padding, pooling and windows over axes of dynamic size give PyTorch's values on ONNX Runtime, and come back whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import regraft as rx
from regraft.formats.torch.nodes import all_nodes, is_operator
from tests.torch_kit import Of

ROWS, COLUMNS, EVEN, QUARTER = Dim("rows", min=7, max=40), Dim("columns", min=6), 2 * Dim("half"), 4 * Dim("quarter")


def image(height: int, width: int) -> torch.Tensor:
    torch.manual_seed(height)
    return torch.randn(2, 3, height, width)


def small(x: torch.Tensor) -> torch.Tensor:
    """A quarter of an image."""
    return x[:, :, ::4, ::4]


def spread(x: torch.Tensor) -> torch.Tensor:
    """Each element at the first of four places."""
    height, width = x.shape[-2:]
    places = torch.arange(height)[:, None] * (4 * width) + torch.arange(width) * 2
    return F.max_unpool2d(x, places.expand_as(x), 2)


IMAGES = image(9, 8), image(12, 13)
TALL, EVEN_ROWS = (image(9, 8), image(12, 8)), (image(6, 8), image(10, 8))
CASES: dict[str, tuple[Callable[..., torch.Tensor], dict[int, Any], tuple[torch.Tensor, ...]]] = {
    "zeros up to a multiple": (lambda x: F.pad(x, (0, 0, 0, (8 - x.shape[2] % 8) % 8)), {2: ROWS}, TALL),
    "a number up to a size": (lambda x: F.pad(x, (1, 0, 0, 40 - x.shape[2]), value=-1.5), {2: ROWS}, TALL),
    "zeros, or less": (lambda x: F.pad(x, (0, 0, x.shape[2] - 10, 2)), {2: ROWS}, TALL),
    "mirrored by a size": (lambda x: F.pad(x, (2, 1, x.shape[2] - 1, 1), mode="reflect"), {2: ROWS}, TALL),
    "the edge by a size": (lambda x: F.pad(x, (0, 0, x.shape[2] // 2, 0), mode="replicate"), {2: ROWS}, TALL),
    "means": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), {2: ROWS, 3: COLUMNS}, IMAGES),
    "means of whole parts": (lambda x: F.adaptive_avg_pool2d(x, (2, 4)), {2: EVEN}, EVEN_ROWS),
    "means of one axis": (lambda x: F.adaptive_avg_pool2d(x, (None, 1)), {2: ROWS, 3: COLUMNS}, IMAGES),
    "means of lines": (lambda x: F.adaptive_avg_pool1d(x[0], 4), {2: ROWS, 3: COLUMNS}, IMAGES),
    "means as many as of another": (
        lambda x: F.adaptive_avg_pool2d(x, small(x).shape[-2:]) + small(x),
        {2: QUARTER, 3: 4 * Dim("across")},
        (image(8, 12), image(16, 8)),
    ),
    "maxima": (lambda x: F.adaptive_max_pool2d(x, (3, 5)), {2: ROWS, 3: COLUMNS}, IMAGES),
    "maxima at their places": (spread, {2: ROWS, 3: COLUMNS}, IMAGES),
    "diagonals": (lambda x: x.diagonal(1, 2, 3), {2: ROWS, 3: COLUMNS}, IMAGES),
    "diagonals put": (lambda x: x.diagonal_scatter(x.diagonal(0, 2, 1) * 2, 0, 2, 1), {2: ROWS}, TALL),
    "columns": (lambda x: F.unfold(x, 2, padding=1, stride=2, dilation=2), {2: ROWS, 3: COLUMNS}, IMAGES),
    "columns and back": (lambda x: F.fold(F.unfold(x, 2, stride=2), x.shape[-2:], 2, stride=2), {2: EVEN}, EVEN_ROWS),
    "windows that overlap": (lambda x: x.unfold(2, 4, 3).mean(-1), {2: ROWS}, TALL),
    "patches": (lambda x: x.unfold(2, 2, 2).unfold(3, 2, 2).amax(-1), {2: EVEN}, EVEN_ROWS),
    "turned": (lambda x: x.roll((2, -1), (2, 3)).roll(-x.shape[3] // 3, 3), {2: ROWS, 3: COLUMNS}, IMAGES),
    "turned by more than a size": (lambda x: x.roll((50, -60), (2, 3)), {2: ROWS, 3: COLUMNS}, IMAGES),
}


@pytest.mark.parametrize("name", CASES)
def test_windows_of_dynamic_sizes(name: str) -> None:
    function, dynamic, examples = CASES[name]
    program = torch.export.export(Of(function).eval(), (examples[0],), dynamic_shapes=((dynamic,),))
    module = rx.from_torch(program)
    run = rx.build(module, target="onnxruntime")["main"]
    after = rx.optimize(program)
    for x in examples:
        expected = function(x).numpy()
        np.testing.assert_allclose(np.asarray(run(x.numpy())), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(after.module()(x).numpy(), expected, rtol=1e-5, atol=1e-6)
    assert _operators(after) <= _operators(program)


def _operators(program: torch.export.ExportedProgram) -> int:
    return sum(is_operator(node.target) for node in all_nodes(program.graph_module))

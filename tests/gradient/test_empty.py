"""Tensors without elements: gradients have their shapes, are zeros where nothing was summed, and run on all engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import regraft as rx
from regraft.gradient import Gradient
from regraft.script import relax as R
from tests.gradient.checks import check_gradient, loss_module, numbers

NONE = np.zeros((0,), "int64")

CASES: dict[str, tuple[Any, list[tuple[int, ...]], Any]] = {
    "sum": (lambda x: R.sum(x, -2), [(0, 3, 4)], lambda x: x.sum(-2)),
    "mean": (lambda x: R.mean(x, -1), [(0, 3)], lambda x: x.mean(-1)),
    "max": (lambda x: R.max(x, -1), [(0, 3)], lambda x: x.amax(-1)),
    "prod": (lambda x: R.prod(x, 0), [(0, 3)], lambda x: x.prod(0)),
    "variance": (lambda x: R.variance(x, -1), [(0, 3)], lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1)),
    "cumsum": (lambda x: R.cumsum(x, -1), [(3, 0)], lambda x: x.cumsum(-1)),
    "cumprod": (lambda x: R.cumprod(x, -2), [(0, 3)], lambda x: x.cumprod(-2)),
    "matmul over nothing": (R.matmul, [(2, 0), (0, 3)], torch.matmul),
    "matmul of no rows": (R.matmul, [(0, 2), (2, 3)], torch.matmul),
    "matmul of no batch": (R.matmul, [(0, 5, 2), (2, 3)], torch.matmul),
    "einsum": (
        lambda a, b: R.einsum((a, b), "ij,jk->ki"),
        [(0, 5), (5, 3)],
        lambda a, b: torch.einsum("ij,jk->ki", a, b),
    ),
    "broadcast": (lambda a, b: a * b, [(0, 1), (1, 3)], torch.mul),
    "softmax": (lambda x: R.nn.softmax(x, -2), [(3, 0)], lambda x: x.softmax(-2)),
    "layer_norm": (
        lambda x, g, b: R.nn.layer_norm(x, g, b, [-1]),
        [(0, 4), (4,), (4,)],
        lambda x, g, b: F.layer_norm(x, (4,), g, b),
    ),
    "take nothing": (lambda x: R.take(x, R.const(NONE), -1), [(5, 3)], lambda x: x[:, []]),
    "take of rows without elements": (lambda x: R.take(x, R.const([0, 2]), 0), [(5, 0)], lambda x: x[[0, 2]]),
    "concat": (lambda x, y: R.concat([x, y], -2), [(2, 0, 3), (2, 4, 3)], lambda x, y: torch.cat([x, y], -2)),
    "split": (lambda x: R.split(x, [0, 3], -1), [(2, 5)], lambda x: tuple(x.split([0, 3, 2], -1))),
    "flip": (lambda x: R.flip(x, -1), [(0, 5)], lambda x: x.flip(-1)),
    "sort": (lambda x: R.sort(x, -1), [(3, 0)], lambda x: x.sort(-1)[0]),
    "scatter_elements": (
        lambda x, u: R.scatter_elements(x, R.const(np.zeros((0, 3), "int64")), u, 0, "add"),
        [(4, 3), (0, 3)],
        lambda x, u: x.scatter_add(0, torch.zeros((0, 3), dtype=torch.int64), u),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_tensor_without_elements_has_the_gradient_of_both_oracles(name: str) -> None:
    build, shapes, reference = CASES[name]
    check_gradient(build, *[numbers(*shape) for shape in shapes], reference=reference)


@pytest.mark.parametrize("target", ["onnxruntime", "torch"])
@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_a_tensor_without_elements_runs_on_every_engine(name: str, target: str) -> None:
    build, shapes, _ = CASES[name]
    arrays = [numbers(*shape) for shape in shapes]
    module = Gradient("main")(loss_module(build, arrays))
    _, expected = rx.build(module, target="numpy")["main_adjoint"](*arrays)
    _, found = rx.build(module, target=target)["main_adjoint"](*arrays)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12, strict=True)

"""Each ATen operator gives, on the NumPy engine, what PyTorch gives."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import regraft as rx
from regraft.transform import Gradient
from tests.formats.torch.cases import FAMILIES, Case
from tests.formats.torch.rare_cases import RARE_FAMILIES
from tests.op.harness import assert_close, to_numpy

_ALL = FAMILIES | RARE_FAMILIES


class _Family(torch.nn.Module):
    """All calls of a family in one module, so that they are exported together."""

    def __init__(self, cases: dict[str, Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, inputs: dict[str, tuple[torch.Tensor, ...]]) -> dict[str, Any]:
        return {name: case.function(*inputs[name]) for name, case in self.cases.items()}


@cache
def _results(family: str) -> dict[str, tuple[Any, Any]]:
    """For each case of a family what the converted program gives, and what PyTorch gives."""
    cases = _ALL[family]
    module = _Family(cases)
    inputs = {name: case.inputs for name, case in cases.items()}
    program = rx.from_torch(module, (inputs,))
    expected = module(inputs)
    flat = pytree.tree_leaves(inputs)
    actual = rx.build(program, target="numpy")["main"](*flat)
    leaves, spec = pytree.tree_flatten(expected)
    assert len(leaves) == len(actual)
    return {name: (value, expected[name]) for name, value in pytree.tree_unflatten(list(actual), spec).items()}


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, cases in _ALL.items() for name in cases])
def test_a_call_gives_what_pytorch_gives(family: str, name: str) -> None:
    actual, expected = _results(family)[name]
    for got, want in zip(pytree.tree_leaves(actual), pytree.tree_leaves(expected), strict=True):
        assert_close(np.asarray(got), to_numpy(want))


@pytest.mark.parametrize("function", [torch.log1p, torch.expm1])
def test_what_is_exact_near_zero_is_so_everywhere_and_has_a_slope_there(function: Any) -> None:
    x = torch.tensor([0.0, 1e-9, -1e-9, -0.5, 2.0, 3e38 if function is torch.log1p else 30.0])
    program = rx.from_torch(_Summed(function), (x,))
    adjoint = Gradient("main")(program)["main_adjoint"]
    wanted = x.clone().requires_grad_()
    function(wanted).sum().backward()
    (found,) = rx.build(rx.IRModule({"main": adjoint}), target="numpy")["main"](x.numpy())[1]
    assert_close(found, to_numpy(wanted.grad))
    special = torch.tensor([float("inf"), float("-inf"), float("nan"), -1.0])
    values = rx.build(rx.from_torch(_Summed(function, whole=False), (special,)), target="numpy")["main"](
        special.numpy()
    )
    assert_close(values, to_numpy(function(special)))


@pytest.mark.parametrize("function", [torch.inverse, torch.logdet, torch.det, torch.linalg.cholesky])
def test_what_is_computed_of_a_small_matrix_has_the_gradient_that_pytorch_gives_it(function: Any) -> None:
    root = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0))
    x = root @ root.mT + torch.eye(3)
    adjoint = Gradient("main")(rx.from_torch(_Summed(lambda x: function(x) ** 2), (x,)))["main_adjoint"]
    wanted = x.clone().requires_grad_()
    (function(wanted) ** 2).sum().backward()
    (found,) = rx.build(rx.IRModule({"main": adjoint}), target="numpy")["main"](x.numpy())[1]
    np.testing.assert_allclose(found, to_numpy(wanted.grad), rtol=1e-3, atol=1e-4)


class _Summed(torch.nn.Module):
    def __init__(self, function: Any, *, whole: bool = True) -> None:
        super().__init__()
        self.function, self.whole = function, whole

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.function(x)
        return found.sum() if self.whole else found

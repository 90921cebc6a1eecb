"""Weights that are tensors of other tensors, as optimum-quanto and torchao make them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import regraft as rx
from tests.kit import assert_close


class Codes(torch.Tensor):
    """Floats that are kept as whole numbers and one scale."""

    codes: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def __new__(cls, codes: torch.Tensor, scale: torch.Tensor) -> Any:
        made: Any = torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype)
        made.codes, made.scale = codes, scale
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["codes", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, *_: Any) -> Codes:
        return Codes(inner["codes"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return Codes(args[0].codes, args[0].scale)
        args, kwargs = pytree.tree_map_only(Codes, lambda one: one.codes * one.scale, (args, kwargs or {}))
        return func(*args, **kwargs)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        codes = Codes(torch.randint(-128, 128, (5, 8), dtype=torch.int8), torch.tensor(0.02))
        self.weight = torch.nn.Parameter(codes, requires_grad=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight)


def test_a_weight_of_whole_numbers_that_asks_for_a_gradient_is_read() -> None:
    """PyTorch asked the whole numbers for gradients, which have none: a model of optimum-quanto was refused."""
    model, x = Layer(), torch.randn(3, 8)
    exported = torch.export.export(model, (x,))
    found = rx.build(rx.from_torch(exported), target="numpy")["main"](x.numpy())
    assert_close(np.asarray(found), model(x).detach().numpy())
    assert exported.state_dict["weight"].requires_grad

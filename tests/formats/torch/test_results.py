"""Results of PyTorch models that are nested, named, or more than the language holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch.utils import _pytree as pytree

import regraft as rx
from tests.kit import assert_close
from tests.torch_kit import Of


class Pair(NamedTuple):
    """Two results by name."""

    sum: torch.Tensor
    product: torch.Tensor


def _model(function: Callable[..., Any]) -> nn.Module:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return function(x)

    return Model().eval()


def test_a_named_tuple_comes_back_as_one() -> None:
    x = torch.rand(3)
    result = rx.to_torch(rx.from_torch(_model(lambda x: {"both": Pair(x + 1, x * 2)}), (x,)))(x)
    assert isinstance(result["both"], Pair)
    torch.testing.assert_close(result["both"].product, x * 2)


@dataclass
class Found:
    """A result of a class that PyTorch is told of without a name."""

    last: torch.Tensor
    all: tuple[torch.Tensor, ...]
    loss: torch.Tensor | None = None


def test_a_data_class_comes_back_as_one() -> None:
    torch.export.register_dataclass(Found)
    x = torch.rand(3)
    result = rx.to_torch(rx.from_torch(_model(lambda x: Found(x + 1, (x, x * 2))), (x,)))(x)
    assert isinstance(result, Found)
    assert result.loss is None
    torch.testing.assert_close(result.all[1], x * 2)


def test_named_tuples_of_operators_come_back_as_they_are_and_plain_in_a_file(tmp_path: Path) -> None:
    def found(x: torch.Tensor) -> Any:
        return {"greatest": torch.max(x, 1), "others": [torch.sort(x), (torch.topk(x, 2),)]}

    x = torch.rand(3, 4)
    module = rx.to_torch(rx.from_torch(_model(found), (x,)))
    for result in (module, rx.optimize(torch.export.export(_model(found), (x,))).module()):
        given: Any = result(x)
        assert isinstance(given["greatest"], torch.return_types.max)
        assert isinstance(given["others"][1][0], torch.return_types.topk)
        torch.testing.assert_close(given["others"][0].values, torch.sort(x).values)
    rx.save_torch(module, tmp_path / "model.pt2")
    assert isinstance(torch.export.load(tmp_path / "model.pt2").module()(x)["others"][1], tuple)
    assert isinstance(module(x)["greatest"], torch.return_types.max)


def test_an_operator_with_a_list_among_its_results_is_carried() -> None:
    x = torch.rand(10, 2)
    program = torch.export.export(_model(lambda x: torch.histogramdd(x, [3, 3])), (x,))
    found, expected = (one.module()(x) for one in (rx.optimize(program), program))
    for got, want in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(got, want)


def test_vmap_inside_a_program_is_read_as_what_it_computes() -> None:
    x = torch.rand(3, 2)
    model = _model(lambda x: associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic"))
    found = rx.build(rx.from_torch(model, (x,)), target="numpy")["main"](x.numpy())
    assert_close(found, torch.cumsum(x, 0).numpy())


def test_what_replaces_the_levels_of_vmap_is_not_more_than_they_were() -> None:
    rows = {0: torch.export.Dim("rows", min=2, max=8)}
    model = Of(lambda x, y: torch.vmap(lambda a, b: torch.dot(a, b) * a)(x, y))
    program = torch.export.export(model, (torch.rand(3, 4), torch.rand(3, 4)), dynamic_shapes={"args": (rows, rows)})
    x, y = torch.rand(5, 4), torch.rand(5, 4)
    result = rx.optimize(program)
    assert not any("functorch" in str(node.target) for node in result.graph.nodes)
    torch.testing.assert_close(result.module()(x, y), program.module()(x, y))


def test_a_trilinear_resize_by_a_factor_that_is_no_ratio_of_sizes_is_read() -> None:
    x = torch.rand(1, 2, 4, 5, 6)
    model = _model(lambda x: nn.functional.interpolate(x, scale_factor=(1.3, 0.7, 2.1), mode="trilinear"))
    found = rx.build(rx.from_torch(model, (x,)), target="numpy")["main"](x.numpy())
    assert_close(found, model(x).numpy())


def test_a_derivative_has_no_product_with_what_does_not_change() -> None:
    inner = nn.Linear(4, 4)
    model = Of(lambda x, direction: torch.func.jvp(lambda x: torch.sin(inner(x)), (x,), (direction,)))
    model.inner = inner
    x, direction = torch.rand(3, 4), torch.rand(3, 4)
    program = torch.export.export(model, (x, direction))
    result = rx.optimize(program)
    products = [str(node.target) for node in result.graph.nodes if str(node.target) != "aten.mul.Tensor"]
    assert sum("mm" in name or "linear" in name or "mul" in name for name in products) == 2
    torch.testing.assert_close(result.module()(x, direction), program.module()(x, direction))

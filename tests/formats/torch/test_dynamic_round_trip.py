"""Programs with dynamic sizes come back with the same sizes dynamic, whatever their layers make of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import regraft as rx
from regraft.formats.errors import ConvertError
from tests.torch_kit import Of


def _speech() -> torch.nn.Module:
    """Strided convolutions over samples, then rows split into heads: sizes that are divisions of divisions."""
    from transformers import HubertConfig, HubertModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 8}
    convolutions = {"conv_dim": (8,) * 7, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
    return HubertModel(HubertConfig(**sizes, **convolutions))


class Flagged(torch.nn.Module):
    """Arguments that are part of the program beside one of dynamic size."""

    def forward(self, x: torch.Tensor, scale: float = 1.0, negate: bool = False, name: str | None = None) -> Any:
        y = x * scale
        return {"out": -y if negate else y, "sum": y.sum()}


class Fractions(torch.nn.Module):
    """Fractions and choices that are made of sizes."""

    def forward(self, x: torch.Tensor) -> Any:
        rows = x.shape[0]
        scaled = x / rows**0.5 + x * (1.0 / rows), (x > 0).long() * (rows / 3)
        return *scaled, torch.cond(rows > 4, lambda y: y + 1, lambda y: y * 2, (x,)), rows * 2


class Filled(torch.nn.Module):
    """As many rows as a tensor says."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> Any:
        rows = count.item()
        torch._check(rows >= 1)
        return torch.zeros(rows, 8) + x[:1], torch.arange(rows)


BATCH, LENGTH, HEIGHT = Dim("batch", max=64), Dim("length", min=800, max=20000), Dim("height", min=2, max=9)
X = torch.randn(5, 8)
CASES: list[tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Any, tuple[Any, ...]]] = [
    (_speech(), (torch.randn(2, 1600),), {}, {"input_values": {0: BATCH, 1: LENGTH}}, (torch.randn(3, 2411),)),
    (
        Flagged(),
        (torch.randn(3, 8),),
        {"scale": 2.0, "negate": True, "name": None},
        {"x": {1: 4 * HEIGHT}, "scale": None, "negate": None, "name": None},
        (torch.randn(3, 20),),
    ),
    (Fractions(), (torch.randn(3, 8),), {}, {"x": {0: BATCH}}, (torch.randn(7, 8),)),
    (Filled(), (torch.randn(3, 8), torch.tensor(4)), {}, {"x": {0: BATCH}, "count": None}, (X, torch.tensor(9))),
]


def _near(x: torch.Tensor) -> torch.Tensor:
    """Attention of one head whose bias is looked up by distance."""
    steps = torch.arange(x.shape[1])
    bias = torch.linspace(-1, 1, 17)[(steps[None] - steps[:, None]).clamp(-8, 8) + 8]
    return (x @ x.mT + bias).softmax(-1) @ x


def _across(x: torch.Tensor) -> torch.Tensor:
    """Attention that is fewer operators written out than in one, which needs other axes."""
    return torch.einsum("bnd,bmd->bnm", x * 2, x.sin()).softmax(-1) @ x.sin()


def _places(x: torch.Tensor) -> torch.Tensor:
    return x[torch.argwhere(x > 0).unbind(1)] * 2


CASES += [(Of(fn), (X[None],), {}, {"args": ({1: BATCH},)}, (torch.randn(1, 9, 8),)) for fn in (_near, _across)]
CASES += [(Of(_places), (X,), {}, {"args": ({0: BATCH},)}, (torch.randn(9, 8),))]
NAMES = ["Speech", "Flagged", "Fractions", "Filled", "Near", "Across", "Places"]


@pytest.mark.parametrize(("model", "args", "kwargs", "shapes", "others"), CASES, ids=NAMES)
def test_dynamic_sizes_come_back_with_their_bounds(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any, others: tuple[Any, ...]
) -> None:
    program = torch.export.export(model.eval(), args, kwargs, dynamic_shapes=shapes)
    result = _rewritten(program)
    for given in (args, others):
        torch.testing.assert_close(result.module()(*given, **kwargs), program.module()(*given, **kwargs))
    assert _bounds(result) == _bounds(program)


def _rewritten(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program that came of the round trip, and not the one that went in, handed back because it is better."""
    kept: list[str | None] = []
    result = rx.optimize(program, report=lambda made: kept.append(made.kept))
    assert kept == [None]
    return result


def _bounds(program: torch.export.ExportedProgram) -> list[tuple[int, int]]:
    """The limits of the sizes of inputs; those that tensors hold are called u0, u1 ..."""
    limits = program.range_constraints.items()
    return sorted((int(v.lower), int(v.upper)) for name, v in limits if not str(name).startswith("u"))


def test_a_multiple_of_a_size_may_be_the_multiple_of_one_again() -> None:
    model = torch.nn.Sequential(torch.nn.Conv1d(1, 3, 3, stride=2, padding=1, bias=False), torch.nn.BatchNorm1d(3))
    width = 8 * torch.export.Dim("width", min=1, max=6)
    program = torch.export.export(model.eval(), (torch.randn(2, 1, 16),), dynamic_shapes=({2: width},))
    result = _rewritten(program)
    assert _bounds(result) == _bounds(program)
    assert (8, 48) in _bounds(result)
    for size in (8, 24):
        x = torch.randn(2, 1, size)
        torch.testing.assert_close(result.module()(x), program.module()(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factor", [0.5, 1.5, 1 / 3, 0.7])
def test_sizes_that_are_fractions_of_dynamic_ones_stay_dynamic(factor: float) -> None:
    def resize(x: torch.Tensor) -> Any:
        small = torch.nn.functional.interpolate(x, scale_factor=factor, mode="bilinear")
        return small, torch.nn.functional.interpolate(small, size=x.shape[2:], mode="nearest")

    sides = {2: Dim("height", min=6, max=64), 3: Dim("width", min=6, max=64)}
    program = torch.export.export(Of(resize), (torch.randn(1, 2, 10, 12),), dynamic_shapes={"args": (sides,)})
    result = _rewritten(program)
    for height, width in ((10, 12), (13, 63), (60, 7)):
        x = torch.randn(1, 2, height, width)
        for found, wanted in zip(result.module()(x), program.module()(x), strict=True):
            torch.testing.assert_close(found, wanted)
    names = [[str(n.target) for n in p.graph.nodes if "upsample" in str(n.target)] for p in (program, result)]
    assert names[0] == names[1]


def test_a_size_that_depends_on_how_floats_are_rounded_is_refused() -> None:
    assert int(0.7 * 90) == 62
    model = Of(lambda x: torch.nn.functional.interpolate(x, scale_factor=0.7))
    sides = {2: Dim("height", min=6, max=100)}
    with pytest.raises(ConvertError, match=r"depends on the rounding of floats.* write it as n \* 7 // 10"):
        rx.from_torch(model, (torch.randn(1, 2, 20, 12),), dynamic_shapes={"args": (sides,)})


def test_a_branch_on_how_sizes_compare_computes_with_no_tensors() -> None:
    def choose(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(2 * x.shape[0] < x.shape[1] + 3, torch.sin, lambda y: y * 2, (x,))

    sizes = {0: Dim("rows", min=2, max=64), 1: Dim("columns", min=2, max=64)}
    program = torch.export.export(Of(choose), (torch.randn(4, 8),), dynamic_shapes={"args": (sizes,)})
    result = _rewritten(program)
    for x in (torch.randn(4, 8), torch.randn(7, 8)):
        torch.testing.assert_close(result.module()(x), program.module()(x))
    names = [str(node.target) for node in result.graph.nodes if node.users]
    assert [name for name in names if name.startswith("aten.")] == ["aten.sym_size.int"] * 2


def test_halves_of_an_axis_of_dynamic_size_are_computed_on_every_engine() -> None:
    sizes = {1: 2 * Dim("half", min=1, max=32)}
    gated = Of(lambda x: torch.nn.functional.glu(x, 1))
    program = rx.from_torch(gated, (torch.randn(3, 8),), dynamic_shapes={"args": (sizes,)})
    for width in (8, 14):
        x = torch.randn(3, width)
        for target in ("numpy", "onnxruntime"):
            torch.testing.assert_close(torch.as_tensor(rx.build(program, target=target)["main"](x)), gated(x))


def test_parts_of_an_axis_of_dynamic_size_are_written_to_on_every_engine() -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        y = x.new_zeros(x.shape[0] + 2, 8)
        y[1:-1] = x
        y[-1] = x[-1]
        y[::2, :4] *= 3
        y[2:, 1] += y[:-2, 2]
        return y

    program = rx.from_torch(Of(written), (X,), dynamic_shapes={"args": ({0: BATCH},)})
    for rows in (4, 7):
        x = torch.randn(rows, 8)
        for target in ("numpy", "onnxruntime", "torch"):
            torch.testing.assert_close(torch.as_tensor(rx.build(program, target=target)["main"](x)), written(x))


class Step(torch.nn.Module):
    """Attention to what is kept of a text and to one token more."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> Any:
        query, key, value = [layer(x).unflatten(-1, (2, 4)).transpose(1, 2) for layer in self.layers]
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        result = torch.nn.functional.scaled_dot_product_attention(query, keys, values)
        return result.transpose(1, 2).flatten(-2), keys, values


def test_keys_and_values_whose_sizes_have_different_names_are_tried_at_equal_ones() -> None:
    auto: Any = Dim.AUTO
    args = (torch.randn(2, 1, 8), torch.randn(2, 2, 5, 4), torch.randn(2, 2, 5, 4))
    program = torch.export.export(Step(), args, dynamic_shapes=(None, {2: auto}, {2: auto}))
    reports: list[Any] = []
    done = rx.optimize(program, report=reports.append)
    assert reports[0].kept is None
    longer = (args[0], torch.randn(2, 2, 9, 4), torch.randn(2, 2, 9, 4))
    torch.testing.assert_close(done.module()(*longer), program.module()(*longer))


def test_a_slice_of_an_axis_of_symbolic_size_leaves_that_size_dynamic(tmp_path: Path) -> None:
    rows = {0: Dim("rows", min=2, max=9)}
    program = torch.export.export(
        Of(lambda x: (x[0] * x[1], x[-1:])), (torch.ones(3, 4),), dynamic_shapes={"args": (rows,)}
    )
    rx.save_torch(rx.parse(rx.from_torch(program).script()), tmp_path / "again.pt2")  # the text knows no ATen calls
    x = torch.arange(20.0).reshape(5, 4)
    torch.testing.assert_close(torch.export.load(tmp_path / "again.pt2").module()(x), program.module()(x))

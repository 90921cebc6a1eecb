"""Models of PyTorch in, models of PyTorch out, with their weights' own names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regraft.model
from regraft import optimize, parse, save_torch
from regraft.formats import ConvertError
from regraft.ir import IRModule
from regraft.model import OptimizationReport, open_model, output_names
from regraft.model import measure as guard
from regraft.model.differentiating import differentiated
from tests.cli.harness import invoke
from tests.model.clock import turns_of

torch = pytest.importorskip("torch")


class Network(torch.nn.Module):
    """A convolution with a batch norm, two projections of one value, and a layer after them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 8, 3, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.query, self.key = torch.nn.Linear(8, 6), torch.nn.Linear(8, 6)
        self.out = torch.nn.Linear(12, 5)
        with torch.no_grad():
            self.norm.running_mean.uniform_()
            self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        pooled = self.norm(self.conv(image)).relu().mean((2, 3))
        return {"logits": self.out(torch.cat([self.query(pooled), self.key(pooled)], -1).relu())}


@pytest.fixture
def model() -> torch.nn.Module:
    return Network().eval()


IMAGE = torch.randn(2, 3, 9, 7)


def test_a_module_becomes_a_module_that_gives_the_same(model: torch.nn.Module) -> None:
    reports: list[OptimizationReport] = []
    result = optimize(model, (IMAGE,), level=3, verify=True, report=reports.append)
    assert isinstance(result, torch.nn.Module)
    torch.testing.assert_close(result(IMAGE)["logits"], model(IMAGE)["logits"], rtol=1e-5, atol=1e-6)
    assert reports[0].changed_ops["relax.matmul"] == (3, 2)
    assert reports[0].changed_ops["relax.nn.batch_norm"] == (1, 0)
    assert reports[0].verification is not None
    assert reports[0].verification.against == "the model itself, on PyTorch"


def test_weights_that_were_not_combined_keep_their_names(model: torch.nn.Module) -> None:
    result = optimize(model, (IMAGE,), level=3)
    assert {"out.weight", "out.bias"} <= set(dict(result.named_parameters()))
    assert not {"query.weight", "norm.weight", "conv.weight"} & set(result.state_dict())
    torch.testing.assert_close(result.state_dict()["out.weight"], model.state_dict()["out.weight"], rtol=0, atol=0)


def test_an_exported_program_becomes_one_with_its_dynamic_sizes(model: torch.nn.Module) -> None:
    dynamic = {"image": {0: torch.export.Dim("batch", min=2, max=64)}}
    exported = torch.export.export(model, (IMAGE,), dynamic_shapes=dynamic)
    result = optimize(exported, verify=True)
    assert isinstance(result, torch.export.ExportedProgram)
    for count in (2, 5):
        image = torch.randn(count, 3, 9, 7)
        torch.testing.assert_close(result.module()(image)["logits"], model(image)["logits"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("suffix", [".pt2", ".onnx", ".relax"])
def test_a_pt2_file_goes_to_every_format(model: torch.nn.Module, tmp_path: Path, suffix: str) -> None:
    source, output = tmp_path / "model.pt2", tmp_path / f"out{suffix}"
    torch.export.save(torch.export.export(model, (IMAGE,)), source)
    optimize(source, output=output, verify=True)
    assert len(output_names(open_model(output).function)) == 1


class _NarrowKeys(torch.nn.Module):
    """Attention by hand; ``wide`` numbers for each value, eight for each key."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.wide = wide
        self.into = torch.nn.Linear(32, 4 * (16 + wide))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.into(x).unflatten(-1, (4, -1)).transpose(1, 2)
        query, key, value = parts.split([8, 8, self.wide], -1)
        return ((query @ key.transpose(-2, -1)) * 0.3).softmax(-1) @ value


@pytest.mark.parametrize(("wide", "fused"), [(8, 1), (16, 0)])
def test_attention_is_one_operator_of_pytorch_where_that_is_its_fast_one(wide: int, fused: int) -> None:
    model, x = _NarrowKeys(wide).eval(), torch.randn(2, 6, 32)
    program = torch.export.export(model, (x,))
    result = optimize(program)
    names = [str(node.target) for node in result.graph.nodes]
    assert sum("scaled_dot_product_attention" in name for name in names) == fused
    torch.testing.assert_close(result.module()(x), model(x))


class _GivesItsWeight(torch.nn.Module):
    """A weight is among the results, and what is computed from it alone."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.weight, self.weight * 2 + x.relu() * 1


def test_a_weight_among_the_results_stays_one_weight() -> None:
    result = optimize(torch.export.export(_GivesItsWeight().eval(), (torch.ones(4),)))
    module = result.module()
    first, second = module(torch.ones(4))
    (first.sum() + second.sum()).backward()
    assert torch.equal(module.get_parameter("weight").grad, torch.full((4,), 3.0))  # pyright: ignore[reportArgumentType]


class Counting(torch.nn.Module):
    """A loss beside what it is made of, and a buffer that counts the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.calls += 1
        y = self.layer(x)
        return {"loss": y.square().mean(), "y": y, "more": y + 1}


def test_the_gradient_of_a_model_with_named_results_and_a_buffer_is_a_model_of_plain_results(tmp_path: Path) -> None:
    model, x = Counting().eval(), torch.ones(4, 3)
    exported = torch.export.export(model, (x,))
    path = tmp_path / "gradient.pt2"
    save_torch(differentiated(open_model(exported), ["layer.weight"]), path)
    (calls, loss, y, _), (gradient,) = torch.export.load(path).module()(x)
    expected = model(x)
    expected["loss"].backward()
    assert calls == 1
    torch.testing.assert_close(loss, expected["loss"])
    torch.testing.assert_close(y, expected["y"])
    torch.testing.assert_close(gradient, model.layer.weight.grad)


def test_a_tensor_of_more_axes_than_pytorch_takes_is_refused_at_once(tmp_path: Path) -> None:
    shape = ", ".join(["1"] * 65)
    text = f"""
@R.function
def main(x: R.Tensor((4,), "float32")):
    y = R.reshape(x, ({shape}, 4))
    return y
"""
    with pytest.raises(ConvertError, match="66 axes; programs of PyTorch have at most 64"):
        save_torch(IRModule({"main": parse(text)}), tmp_path / "wide.pt2")


def test_the_example_call_of_an_exported_program_is_that_of_the_result(model: torch.nn.Module, tmp_path: Path) -> None:
    dynamic = ({0: torch.export.Dim("batch", min=2)},)
    exported = torch.export.export(model, (IMAGE,), dynamic_shapes=dynamic)
    torch.export.save(exported, tmp_path / "model.pt2")
    optimize(tmp_path / "model.pt2", output=tmp_path / "result.pt2", level=3)
    for result in (optimize(exported, level=3), torch.export.load(tmp_path / "result.pt2")):
        (image,), keywords = result.example_inputs
        assert torch.equal(image, IMAGE)
        assert keywords == {}
    assert (tmp_path / "result.pt2").stat().st_size < (tmp_path / "model.pt2").stat().st_size


def test_a_result_of_fixed_sizes_has_an_example_call_of_those_sizes(model: torch.nn.Module) -> None:
    exported = torch.export.export(model, (IMAGE,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
    (batch,) = open_model(exported).function.params[0].ty.shape[:1]  # pyright: ignore[reportAttributeAccessIssue]
    result = optimize(exported, fix={batch.name: 4})
    assert result.example_inputs[0][0].shape[0] == 4


class PixelAttention(torch.nn.Module):
    """Attention between the pixels of an image, written out, of what a convolution made."""

    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Conv2d(4, 3 * 8, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        channels = self.project(image).chunk(3, 1)
        query, key, value = [part.reshape(2, 2, 4, 9).permute(0, 1, 3, 2) for part in channels]
        scores = torch.einsum("bhid,bhjd->bhij", query * 0.5, key).softmax(-1)
        return torch.einsum("bhij,bhjd->bhid", scores, value)


def test_attention_whose_operands_are_permuted_stays_written_out_in_a_program_of_pytorch() -> None:
    exported = torch.export.export(PixelAttention().eval(), (torch.randn(2, 4, 3, 3),))
    for level, is_one in ((2, False), (3, True)):
        targets = [str(node.target) for node in optimize(exported, level=level).graph.nodes]
        assert ("aten.scaled_dot_product_attention.default" in targets) is is_one
        assert ("aten.softmax.int" in targets) is (not is_one)


class Steps(torch.nn.Module):
    """Three steps of a recurrence, each with two projections of one value, which the steps share."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.gate, self.back = torch.nn.Linear(3, 5), torch.nn.Linear(3, 5), torch.nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = self.back(self.value(x).tanh() * self.gate(x).sigmoid())
        return x


def test_combined_weights_that_the_steps_of_a_recurrence_share_are_one_parameter() -> None:
    exported = torch.export.export(Steps(), (torch.ones(2, 3),))
    result = optimize(exported, level=3)
    assert sorted(result.state_dict) == ["back.bias", "back.weight", "value_gate.bias", "value_gate.weight"]
    torch.testing.assert_close(result.module()(torch.ones(2, 3)), exported.module()(torch.ones(2, 3)))


def test_the_bias_of_a_norm_that_is_folded_into_a_shared_convolution_is_one_tensor() -> None:
    conv, norm = torch.nn.Conv2d(2, 2, 3, padding=1, bias=False), torch.nn.BatchNorm2d(2)
    layers = torch.nn.Sequential(conv, norm, torch.nn.ReLU(), conv, norm).eval()
    result = optimize(torch.export.export(layers, (torch.ones(1, 2, 4, 4),)))
    assert len(result.state_dict) + len(result.constants) == 2


class Decay(torch.nn.Module):
    """Two steps of a recurrence, each of which makes the same factor of a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = torch.nn.Parameter(torch.linspace(0.1, 0.7, 7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = (x * torch.exp(-torch.nn.functional.softplus(self.rate))).tanh()
        return x


def test_what_each_step_makes_of_one_weight_is_one_folded_weight() -> None:
    exported = torch.export.export(Decay(), (torch.ones(2, 7),))
    result = optimize(exported)
    assert list(result.state_dict) == ["rate_folded"]
    torch.testing.assert_close(result.module()(torch.ones(2, 7)), exported.module()(torch.ones(2, 7)))


def test_times_are_of_the_threads_that_were_asked_for(
    model: torch.nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch ran on all cores, and the processor time of all of them stood beside that of one on another engine."""
    before, seen = torch.get_num_threads(), list[int]()
    asked = before + 1

    def seeing(turns: Callable[..., Any]) -> Callable[..., Any]:
        def seen_turns(*ways: Any, **options: Any) -> Any:
            seen.append(torch.get_num_threads())
            return turns(*ways, **options)

        return seen_turns

    monkeypatch.setattr(guard, "time_in_turns", seeing(turns_of([1.0] * 9)))
    monkeypatch.setattr(regraft.model, "time_in_turns", seeing(regraft.model.time_in_turns))
    exported, file = torch.export.export(model, (IMAGE,)), tmp_path / "model.pt2"
    optimize(exported, measure=True, threads=asked, cache=False)
    torch.export.save(exported, file)
    assert invoke("bench", file, "--engines", "torch", "--repeat", 1, "--threads", asked).exit_code == 0
    assert len(seen) >= 2
    assert set(seen) == {asked}
    assert torch.get_num_threads() == before

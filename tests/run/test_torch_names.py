"""The names of tensors in modules made of rewritten programs, and that PyTorch takes such modules as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regraft as rx
from regraft.ir import Constant, IRModule, walk
from regraft.run.torch_state import _joined

_LEVEL = "aggressive"


class Attention(nn.Module):
    """Three projections of one input, tied weights, a buffer that is saved and one that is not, and a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(6, 8) for _ in range(3))
        self.output = nn.Linear(8, 6, bias=False)
        self.tied = nn.Linear(6, 8, bias=False)
        self.tied.weight = nn.Parameter(self.query.weight)
        self.query.weight = self.tied.weight
        self.register_buffer("scale", torch.tensor(0.25))
        self.register_buffer("offset", torch.randn(6), persistent=False)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.calls.add_(1)
        q, k, v = (project(x) for project in (self.query, self.key, self.value))
        scores = torch.softmax(q @ k.transpose(-1, -2) * self.scale, -1)
        return {"y": self.output(scores @ v) + self.offset, "tied": self.tied(x)}


def _model() -> Attention:
    torch.manual_seed(0)
    return Attention().eval()


def _program() -> IRModule:
    return rx.from_torch(_model(), (torch.randn(2, 5, 6),))


def _names(program: IRModule) -> list[str | None]:
    return [found.data.name for found in walk(program["main"]) if isinstance(found, Constant)]


def _assert_same(module: nn.Module, x: torch.Tensor) -> None:
    expected, found = _model()(x), module(x)
    assert list(found) == ["y", "tied"]
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("optimized", [False, True])
def test_the_written_form_keeps_the_names_of_tensors(optimized: bool, tmp_path: Path) -> None:
    program = rx.optimize(_program(), level=_LEVEL) if optimized else _program()
    rx.save_script(program, tmp_path / "model.relax")
    for read in (rx.parse(program.script()), rx.load_script(tmp_path / "model.relax")):
        assert isinstance(read, IRModule)
        assert _names(read) == _names(program)
        before, after = rx.to_torch(program), rx.to_torch(read)
        assert list(after.state_dict()) == list(before.state_dict())
        assert [name for name, _ in after.named_parameters()] == [name for name, _ in before.named_parameters()]
        after.load_state_dict(before.state_dict())
        _assert_same(after, torch.randn(3, 5, 6)[:2])


def test_a_small_constant_without_a_name_stays_where_it_is_used() -> None:
    assert "metadata" not in rx.parse(_SMALL).script()


_SMALL = """
from regraft.script import relax as R

@R.function
def main(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        y = R.add(x, R.const([1.0, 2.0], "float32"))
        R.output(y)
    return y
"""


@pytest.mark.parametrize("told", ["3", "[1, 2]", '"a", "b"'])
def test_what_is_no_name_behind_a_constant_is_refused(told: str) -> None:
    text = _SMALL.replace('R.const([1.0, 2.0], "float32")', 'metadata["constants"][0]')
    with pytest.raises(rx.ParseError, match="comes its name, or a list of names"):
        rx.parse(f'{text}\nmetadata = {{"constants": [("float32", [2], "AACAPwAAAEA=", {told})]}}\n')


def test_weights_that_were_joined_are_named_after_their_parts_and_train() -> None:
    module = rx.to_torch(rx.optimize(_program(), level=_LEVEL))
    parameters = dict(module.named_parameters())
    assert "query_key_value.weight" in parameters
    assert "query.weight" not in parameters
    assert not any(name.startswith("constant") for name in module.state_dict())
    module(torch.randn(2, 5, 6))["y"].sum().backward()
    assert all(value.grad is not None for name, value in parameters.items() if "tied" not in name)


def test_a_tensor_that_was_computed_is_named_after_the_first_that_it_was_made_of() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)).eval()
    x = torch.randn(2, 3, 5, 6)
    module = rx.to_torch(rx.optimize(rx.from_torch(model, (x,))))
    assert sorted(module.state_dict()) != sorted(model.state_dict())
    assert "0.weight_folded" in dict(module.named_parameters())
    torch.testing.assert_close(module(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("sources", "name"),
    [
        (["a.query.weight", "a.key.weight"], "a.query_key.weight"),
        (["a.0.weight", "a.1.weight"], "a.0_1.weight"),
        (["a.0.x.weight", "b.1.x.weight"], "a_0_b_1.x.weight"),
        ([f"part{i}.w" for i in range(30)], "part0_and_29_more.w"),
        (["conv.weight", "norm.bias"], "conv.weight_folded"),
        (["w", "v"], "w_folded"),
        (["w"], "w_folded"),
        ([], None),
    ],
)
def test_the_name_of_what_was_made_of_tensors(sources: list[str], name: str | None) -> None:
    assert _joined(sources) == name


def test_what_is_no_tensor_of_the_model_is_not_saved() -> None:
    module = rx.to_torch(rx.optimize(_program(), level=_LEVEL))
    buffers = dict(module.named_buffers())
    assert {"offset", "calls"} <= buffers.keys()
    assert "offset" not in module.state_dict()
    assert "calls" in module.state_dict()


def test_tied_weights_stay_one_tensor() -> None:
    module = rx.to_torch(_program())
    assert module.get_parameter("tied.weight") is module.get_parameter("query.weight")


def test_a_buffer_that_the_model_changes_is_changed() -> None:
    module = rx.to_torch(rx.optimize(_program(), level=_LEVEL))
    for _ in range(3):
        module(torch.randn(2, 5, 6))
    assert int(module.get_buffer("calls")) == 3


def test_an_optimized_module_moves_trains_compiles_and_exports() -> None:
    x = torch.randn(2, 5, 6)
    module = rx.to_torch(rx.optimize(_program(), level=_LEVEL))
    _assert_same(module, x)
    _assert_same(torch.compile(module, backend="aot_eager", fullgraph=True), x)
    exported = torch.export.export(module, (x,))
    _assert_same(exported.module(), x)
    moved = rx.to_torch(rx.optimize(_program(), level=_LEVEL)).to("meta")
    assert moved(x.to("meta"))["y"].device.type == "meta"
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses: list[float] = []
    for _ in range(3):
        loss = module(x)["y"].square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[2] < losses[0]


def test_what_was_saved_of_one_module_is_loaded_by_another(tmp_path: Path) -> None:
    first, second = (rx.to_torch(rx.optimize(_program(), level=_LEVEL)) for _ in range(2))
    with torch.no_grad():
        for value in first.parameters():
            value.add_(0.1)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(second(x), first(x), rtol=0, atol=0)


@pytest.mark.parametrize("level", [_LEVEL, 3, "3"])
def test_a_file_of_pytorch_goes_through_optimize_and_back_under_its_names(tmp_path: Path, level: int | str) -> None:
    source, output = tmp_path / "in.pt2", tmp_path / "out.pt2"
    x = torch.randn(2, 5, 6)
    torch.export.save(torch.export.export(_model(), (x,)), source)
    rx.optimize(source, output=output, level=level, verify=True)
    loaded: Any = torch.export.load(output)
    _assert_same(loaded.module(), x)
    assert any("query_key_value" in name for name in loaded.state_dict)


def test_a_function_alone_becomes_a_module_whatever_its_name_is() -> None:
    program = rx.parse("""
@R.function
def doubled(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        y = R.add(x, x)
        R.output(y)
    return y
""")
    assert rx.to_torch(program)(torch.ones(2)).tolist() == [2.0, 2.0]

"""Complex weights and buffers: one tensor each in PyTorch, two real ones here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regraft as rx
from regraft.frontend import detach_params
from regraft.frontend.torch import from_exported_program, from_fx, relax_dynamo
from tests.torch_kit import Of


def _complex(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.complex64)


class Filter(torch.nn.Module):
    """A filter in the space of frequencies, as a table of rotations, with layers that share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(5, 5, bias=False, dtype=torch.complex64)
        self.second = torch.nn.Linear(5, 5, dtype=torch.complex64)
        self.second.weight = self.first.weight
        self.register_buffer("turns", torch.polar(torch.ones(16, 5), torch.randn(16, 5)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = self.second(self.first(torch.fft.rfft(x)))
        return torch.fft.irfft(spectrum * self.turns[: x.shape[0]].conj(), n=8)


class Changing(torch.nn.Module):
    """A buffer of complex numbers that each call changes; ``read`` gives a result that may be what it held before."""

    def __init__(self, read: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.register_buffer("state", _complex(3))
        self.read = read

    def forward(self, x: torch.Tensor) -> Any:
        result = self.read(self.state)
        self.state.mul_(0.5).add_(x.mean(0))
        return result, (x * self.state).abs()


def _operators(program: torch.export.ExportedProgram) -> int:
    return sum(node.op == "call_function" for node in program.graph.nodes)


def test_a_complex_weight_comes_back_as_one_tensor_of_its_own_name() -> None:
    torch.manual_seed(0)
    model, x = Filter().eval(), torch.randn(4, 8)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=16)},))
    module = rx.from_torch(program)
    again = rx.to_torch(module)
    assert sorted(again.state_dict()) == sorted(model.state_dict())
    again.load_state_dict(model.state_dict())
    reports: list[rx.OptimizationReport] = []
    result = rx.optimize(program, report=reports.append)
    assert reports[0].kept in (None, "nothing in it was rewritten")
    assert _operators(result) <= _operators(program)
    for rows in (4, 7):
        x = torch.randn(rows, 8)
        for one in (again, copy.deepcopy(again), result.module(), rx.to_torch(rx.parse(module.script()))):
            torch.testing.assert_close(one(x), model(x), atol=1e-5, rtol=1e-4)
        found = rx.build(module, target="onnxruntime")["main"](x.numpy())
        torch.testing.assert_close(torch.as_tensor(found), model(x).detach(), atol=1e-5, rtol=1e-4)


def test_a_weight_of_which_one_part_is_read_alone_is_that_part() -> None:
    class Real(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(_complex(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight.real

    model, x = Real(), torch.randn(2, 3)
    again = rx.to_torch(rx.from_torch(model, (x,)))
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(x), model(x))


def test_a_weight_that_is_used_in_two_ways_stays_one_weight_in_training() -> None:
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(_complex(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.view_as_real(x @ self.weight + x @ self.weight.conj()) + self.weight.abs().sum()

    torch.manual_seed(0)
    x = _complex(4, 3)
    program = torch.export.export(Both(), (x,))
    found: list[torch.Tensor | None] = []
    for one in (program.module(), rx.optimize(program).module()):
        one(x).square().sum().backward()
        (weight,) = one.parameters()
        found.append(weight.grad)
        weight.grad = None
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    "read",
    [
        lambda state: state.abs(),
        lambda state: state.clone(),
        lambda state: (state.clone()[1:], state.clone().conj()),
        lambda state: state.real.clone(),
        lambda state: torch.complex(state.imag, state.real) + state,
    ],
)
def test_a_complex_buffer_that_changes_is_one_tensor(read: Callable[[torch.Tensor], Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    program = torch.export.export(Changing(read), (_complex(4, 3),))
    rx.save_torch(rx.from_torch(program), tmp_path / "model.pt2")
    copies = [
        program.module(),
        rx.to_torch(rx.from_torch(program)),
        rx.optimize(program).module(),
        torch.export.load(tmp_path / "model.pt2").module(),
    ]
    for _ in range(2):
        x = _complex(4, 3)
        wanted, *found = [one(x) for one in copies]
        for result in found:
            torch.testing.assert_close(result, wanted)
        for one in copies:
            assert list(one.state_dict()) == ["state"]
            torch.testing.assert_close(one.state_dict()["state"], copies[0].state_dict()["state"])


def test_relaxs_backend_computes_with_complex_numbers_that_are_written_in_place() -> None:
    class Spectrum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            spectrum = torch.fft.rfft(x)
            out = torch.zeros_like(spectrum)
            out[:, :3] = spectrum[:, :3] * 2
            return torch.fft.irfft(out, n=x.shape[-1])

    model, x = Spectrum().eval(), torch.randn(2, 8)
    torch.compiler.reset()
    compiled: Any = torch.compile(model, backend=relax_dynamo())
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


class Turning(torch.nn.Module):
    """Complex numbers that a parameter and a buffer, both complex, turn: given as they are, or as real ones."""

    def __init__(self, read: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(_complex(5, 5))
        self.register_buffer("shift", _complex(5))
        self.read = read

    def forward(self, x: torch.Tensor) -> Any:
        return self.read(torch.fft.rfft(x) @ self.weight + self.shift)


_READ: dict[str, Callable[[torch.Tensor], Any]] = {
    "real numbers": torch.abs,
    "complex numbers": lambda x: x,
    "both": lambda x: (x.abs(), x * 2),
}


@pytest.mark.parametrize("read", _READ.values(), ids=_READ)
def test_relaxs_importers_give_all_results_of_a_model_with_complex_weights(read: Callable[[torch.Tensor], Any]) -> None:
    model, x = Turning(read).eval(), torch.randn(3, 8)
    with torch.no_grad():
        wanted = [torch.view_as_real(one) if one.is_complex() else one for one in _tensors(model(x))]
    for keep in (False, True):
        read_models = [
            from_exported_program(torch.export.export(model, (x,)), keep_params_as_input=keep),
            from_fx(torch.fx.symbolic_trace(model), [((3, 8), "float32")], keep_params_as_input=keep),
        ]
        for module in read_models:
            module, weights = detach_params(module)
            given = [one.numpy() for one in weights.get("main", [])]
            assert len(given) == (2 if keep else 0)
            results = rx.build(module, "numpy")["main"](x.numpy(), *given)
            parts = iter(results if isinstance(results, tuple) else (results,))
            for one in wanted:
                found = next(parts) if one.ndim == 2 else np.stack([next(parts), next(parts)], -1)
                np.testing.assert_allclose(found, one.numpy(), rtol=1e-4, atol=1e-4)
            assert next(parts, None) is None


@pytest.mark.parametrize("read", _READ.values(), ids=_READ)
def test_relaxs_backend_takes_and_gives_complex_numbers(read: Callable[[torch.Tensor], Any]) -> None:
    model = torch.nn.Sequential(Turning(lambda x: x), Of(lambda x: read(x * x.conj()))).eval()
    torch.compiler.reset()
    compiled: Any = torch.compile(model, backend=relax_dynamo())
    for x in (torch.randn(3, 8), torch.randn(7, 8)):
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))


def _tensors(results: Any) -> tuple[torch.Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)

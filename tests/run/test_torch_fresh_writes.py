"""Tensors that a model of PyTorch makes and then fills come back written in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim, ExportedProgram

import regraft as rx
from regraft.formats.torch.nodes import all_nodes, is_operator
from regraft.run.torch_fresh_writes import write_fresh_in_place
from tests.kit import python_calls
from tests.torch_kit import Of


class Filling(nn.Module):
    """A function of a weight of six numbers and of an input of rows of six."""

    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.linspace(-1.0, 2.0, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, self.weight)


def count(program: ExportedProgram) -> int:
    return sum(is_operator(node.target) for node in all_nodes(program.graph_module))


def calls(program: ExportedProgram) -> list[str]:
    return [str(node.target) for node in all_nodes(program.graph_module) if node.op == "call_function"]


def writing(program: ExportedProgram) -> int:
    return sum(name.split(".")[1].endswith("_") for name in calls(program) if "." in name)


def gradients(program: ExportedProgram, x: torch.Tensor) -> list[Any]:
    module, given = program.module(), x.clone().requires_grad_()
    result = module(given)
    weights = torch.cos(torch.arange(result.numel()) * 0.4).reshape(result.shape)
    (result * weights).sum().backward()
    return [given.grad, *[each.grad for each in module.parameters()]]


def viewed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * w
    y.view(-1)[1] += 3
    y.unsqueeze(1)[:, 0, 2:].mul_(0.5)
    return y


def narrowed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * w
    y.narrow(1, 1, 3).mul_(w[1:4])
    return y


def unflattened(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * w
    y.unflatten(1, (2, 3))[:, 0] = 0
    return y


def expanded(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = w.expand(x.shape[0], 6).clone()
    y[:, ::2] += x[:, ::2]
    y[:, 1] = 4
    return y


def real_parts(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    z = torch.complex(x, x * w)
    z.real.mul_(2)
    return torch.view_as_real(z)


def filled_by_parts(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    z = torch.zeros(x.shape[0], 6, dtype=torch.complex64)
    z.real.copy_(x)
    torch.view_as_real(z)[..., 1] = w
    return z.abs()


def spectrum(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    z = torch.fft.rfft(x * w)
    z.imag.zero_()
    return torch.fft.irfft(z, n=6)


def complex_numbers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    z = torch.fft.fft(x * w)
    z[:, :4] = 0
    z[:, 5] = 2 - 3j
    z[:, 4].mul_(2)
    z = torch.where(w > 1.9, torch.complex(w, x), z)
    z = z.masked_fill(x > 1, 1j).index_fill(1, torch.tensor([0]), 4)
    return torch.view_as_real(z + torch.full_like(z, 1 + 1j))


def diagonal(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x[:, :, None] * w
    y.diagonal(0, 1, 2).add_(x)
    y.transpose(1, 2)[:, 0].mul_(w)
    return y


def through_aliases(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * w
    flat = y.view(-1)
    y[:, 0] = 1
    flat[3:5] *= 2
    y.t()[2] += 1
    return flat + 1


def in_a_loop(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(x.shape[0], 6, 6)
    for i in range(1, 4):
        y[:, i, i] = x[:, i]
        y[:, i, :i] += w[:i]
    return y @ y.mT


def in_branches(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    def number(y: torch.Tensor) -> torch.Tensor:
        z = y.clone()
        z[:, 0] = 3
        return z

    def part(y: torch.Tensor) -> torch.Tensor:
        z = y * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        z[:, 1] += 2
        return z.relu_()

    return torch.cond(x.sum() > 0, number, part, (x * w,))


def in_steps(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    def step(number: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = y * 1.1
        z[:, 1] = 5
        z[:, 0] += 1
        return number + 1, z

    def is_next(number: torch.Tensor, _y: torch.Tensor) -> torch.Tensor:
        return number < 4

    return while_loop(is_next, step, (torch.tensor(0), x * w))[1]


MODELS = [
    viewed,
    narrowed,
    unflattened,
    expanded,
    real_parts,
    filled_by_parts,
    spectrum,
    complex_numbers,
    diagonal,
    through_aliases,
    in_a_loop,
    in_branches,
    in_steps,
]


@pytest.mark.parametrize("function", MODELS)
def test_a_tensor_that_is_filled_is_written_in_place(function: Callable[..., torch.Tensor]) -> None:
    dynamic = ({0: Dim("n", min=2, max=32)},)
    program = torch.export.export(Filling(function), (torch.randn(3, 6),), dynamic_shapes=dynamic)
    reports: list[Any] = []
    done = rx.optimize(program, report=reports.append)
    assert reports[0].kept is None
    assert count(done) <= count(program)
    assert writing(done) > 0
    for rows in (3, 5):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(done.module()(x), program.module()(x))
        turned = torch.randn(6, rows).t()  # lies in another order than the example
        torch.testing.assert_close(done.module()(turned), done.module()(turned.contiguous()))
    if function is not in_steps:  # PyTorch has no gradient of a loop
        for got, want in zip(gradients(done, x), gradients(program, x), strict=True):
            torch.testing.assert_close(got, want)
    assert calls(rx.optimize(done)) == calls(done)


class Layers(nn.Module):
    """Layers that change what the layer before them gave, and a recurrent one of which one result is read."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(6, 8, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose1d(8, 6, 3, padding=1),
            nn.LeakyReLU(0.1, inplace=True),
            nn.GroupNorm(2, 6),
            nn.Hardswish(inplace=True),
        )
        self.recurrent = nn.LSTM(6, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        y += x
        result: torch.Tensor = self.recurrent(y.mT)[0]
        return result


def test_layers_that_change_their_operand_do_so_again() -> None:
    dynamic = ({0: Dim("n", min=2, max=32)},)
    program = torch.export.export(Layers().eval(), (torch.randn(3, 6, 4),), dynamic_shapes=dynamic)
    done = rx.optimize(program)
    assert writing(done) == writing(program) == 4
    x = torch.randn(5, 6, 4)
    torch.testing.assert_close(done.module()(x), program.module()(x))
    for got, want in zip(gradients(done, x), gradients(program, x), strict=True):
        torch.testing.assert_close(got, want)
    assert calls(rx.optimize(done)) == calls(done)


def kept_operand(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * w
    sine = y.sin()  # its gradient needs y
    return torch.cat([sine, torch.slice_scatter(y, w.expand(x.shape[0], 6)[:, :2], 1, 0, 2)])


def kept_result(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (x * w).exp()  # its gradient needs y
    return torch.select_scatter(y, w[0].expand(x.shape[0]), 1, 2)


def read_later(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * w
    return torch.cat([torch.select_scatter(y, w[0].expand(x.shape[0]), 1, 2), y])


def given_back(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x * w
    return torch.select_scatter(y, w[0].expand(x.shape[0]), 1, 2), y


def from_part_to_part(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * w
    return torch.slice_scatter(y, y[:, 1:4], 1, 0, 3)


def from_the_input(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.select_scatter(x, w[0].expand(x.shape[0]), 1, 2)


def of_what_may_be_the_input(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.select_scatter(torch.dropout(x, 0.5, False), w[0].expand(x.shape[0]), 1, 2)


@pytest.mark.parametrize(
    "function",
    [
        kept_operand,
        kept_result,
        read_later,
        given_back,
        from_part_to_part,
        from_the_input,
        of_what_may_be_the_input,
    ],
)
def test_a_tensor_that_is_needed_as_it_was_is_not_written_to(function: Callable[..., Any]) -> None:
    program = torch.export.export(Filling(function), (torch.randn(3, 6),))
    write_fresh_in_place(program)
    assert writing(program) == 0


def test_a_part_of_a_part_is_not_mistaken_for_a_part_of_the_whole() -> None:
    def nested(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x * w
        inner = torch.select_scatter(y[:, 3:], w[0].expand(x.shape[0]), 1, 0)
        whole = torch.slice_scatter(y, inner, 1, 3, 6)
        return torch.select_scatter(whole, inner[:, 0], 1, 0)

    program = torch.export.export(Filling(nested), (torch.randn(3, 6),))
    x = torch.randn(3, 6)
    want = program.module()(x)
    write_fresh_in_place(program)
    torch.testing.assert_close(program.module()(x), want)


def test_the_cost_of_many_writes_to_one_tensor_is_linear() -> None:
    def work(writes: int) -> int:
        def filled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            y = x * w
            for i in range(writes):
                y = torch.select_scatter(y, w[i % 6].expand(x.shape[0]), 1, i % 6)
            return y

        program = torch.export.export(Filling(filled), (torch.randn(3, 6),))
        return python_calls(lambda: write_fresh_in_place(program))

    work(10)
    assert work(240) < 4.4 * work(60)


def test_sizes_that_only_a_run_tells_are_not_compared_beside_a_write() -> None:
    def sums(x: torch.Tensor) -> torch.Tensor:
        rows = x[x > 0].sin()
        grid = rows[:, None] + rows
        return grid.relu_() * 2

    x = torch.randn(3, 6)
    program = torch.export.export(Of(sums), (x,))
    done = rx.optimize(program)
    for given in (x, torch.ones(3, 6), -torch.ones(3, 6)):
        torch.testing.assert_close(done.module()(given), program.module()(given))


def _filled_spectra(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Two complex tensors of zeros, of which parts are filled, as neural operators do."""
    waves = torch.fft.rfft(x * w)
    for factor in (2.0, 3.0):
        kept = torch.zeros(*waves.shape, dtype=torch.complex64)
        kept[1:][:, :2] = waves[1:, :2] * factor
        waves = kept
    return torch.fft.irfft(waves, n=6)


def _changed_copy(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    waves = torch.fft.rfft(x)
    changed = waves.clone()
    changed[:, :2] = torch.complex(w[:2], w[2:4])
    return (waves * changed).abs()


@pytest.mark.parametrize("function", [_filled_spectra, _changed_copy])
def test_complex_tensors_that_are_filled_train_as_they_did(function: Callable[..., torch.Tensor]) -> None:
    x = torch.cos(torch.arange(18.0)).reshape(3, 6)
    program = torch.export.export(Filling(function), (x,))
    result = rx.optimize(program)
    assert count(result) <= count(program)
    torch.testing.assert_close(result.module()(x), program.module()(x))
    for found, wanted in zip(gradients(result, x), gradients(program, x), strict=True):
        torch.testing.assert_close(found, wanted)
    assert rx.optimize(result).graph_module.code == result.graph_module.code

"""Operators that `torch.library` has registered: read as calls, declared or foreign, and handed back as they came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import regraft as rx
from regraft.convert import ConvertError, UnsupportedOperatorError
from regraft.ir import Op, assert_structural_equal
from regraft.script.text import parse
from tests.torch_kit import Of


@torch.library.custom_op("regraft_outside::weigh", mutates_args=())
def weigh(x: torch.Tensor, others: list[torch.Tensor], bias: torch.Tensor | None, factors: list[float]) -> torch.Tensor:
    total = x * factors[0] + sum(others)
    return total if bias is None else total + bias


@weigh.register_fake
def _(x: torch.Tensor, others: Any, bias: Any, factors: Any) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("regraft_outside::halves", mutates_args=())
def halves(x: torch.Tensor, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    size = x.shape[-1] // 2
    return (x[..., :size] * scale).clone(), x[..., size:].clone()


@halves.register_fake
def _(x: torch.Tensor, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty(*x.shape[:-1], x.shape[-1] // 2), x.new_empty(*x.shape[:-1], x.shape[-1] // 2)


@rx.operator("outside.halves", torch="regraft_outside::halves")
def declared_halves(xp: Any, x: Any, *, scale: float = 1.0) -> Any:
    """The first and the second half of the last axis."""
    size = x.shape[-1] // 2
    return x[..., :size] * scale, x[..., size:]


@torch.library.custom_op("regraft_outside::moved", mutates_args=())
def moved(x: torch.Tensor, shift: float = 0.0) -> torch.Tensor:
    return x * 2 + shift


@moved.register_fake
def _(x: torch.Tensor, shift: float = 0.0) -> torch.Tensor:
    return torch.empty_like(x)


@rx.operator("outside.moved", torch="regraft_outside::moved")
def declared_moved(xp: Any, x: Any) -> Any:
    """Twice ``x``: the declaration knows no shift."""
    return x * 2


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.regraft_outside.weigh(torch.relu(x), [x, x], None, [2.0, 3.0])
        first, second = torch.ops.regraft_outside.halves(y, 3.0)
        return first + second


X = torch.linspace(-1, 1, 12).reshape(3, 4)


def exported() -> torch.export.ExportedProgram:
    return torch.export.export(Model(), (X,), dynamic_shapes=({0: torch.export.Dim("n")},))


def targets(program: Any) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if "regraft_outside" in str(node.target)]


def test_a_foreign_operator_keeps_its_arguments_and_a_declared_one_is_a_call_of_it() -> None:
    module = rx.from_torch(exported())
    text = module.script()
    assert 'R.foreign("regraft_outside::weigh", source="torch", pure=True)(relu, (x, x), factors=[2.0, 3.0]' in text
    assert "R.outside.halves(weigh, scale=3.0)" in text
    rx.assert_structural_equal(rx.parse(text), module)


def test_it_goes_back_to_pytorch_as_it_came(tmp_path: Path) -> None:
    module = rx.optimize(rx.from_torch(exported()))
    back = rx.to_torch(module)
    torch.testing.assert_close(back(X), Model()(X))
    rx.save_torch(module, tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2")
    assert targets(again) == ["regraft_outside.weigh.default", "regraft_outside.halves.default"]
    torch.testing.assert_close(again.module()(X), Model()(X))


def test_elsewhere_a_declared_operator_runs_by_its_meaning_and_a_foreign_one_says_so() -> None:
    class Halves(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = torch.ops.regraft_outside.halves(x, 3.0)
            return first + second

    module = rx.from_torch(torch.export.export(Halves(), (X,)))
    for target in ("numpy", "onnxruntime"):
        found = rx.build(module, target)["main"](X.numpy())
        torch.testing.assert_close(torch.from_numpy(found), Halves()(X))
    with pytest.raises(rx.RegraftError, match=r"regraft_outside::weigh .*declare it with rx.operator"):
        rx.build(rx.from_torch(exported()), "numpy")
    with pytest.raises(rx.RegraftError, match=r"regraft_outside::weigh is an operator of PyTorch, which ONNX does not"):
        rx.to_onnx(rx.from_torch(exported()))


@torch.library.custom_op("regraft_outside::nested", mutates_args=())
def nested(x: torch.Tensor, parts: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return x * 2, [x + part for part in parts]


@nested.register_fake
def _(x: torch.Tensor, parts: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return torch.empty_like(x), [torch.empty_like(x) for _ in parts]


def test_results_in_lists_among_results_are_read_and_go_back() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, (second, third) = torch.ops.regraft_outside.nested(x, [x * 3, x - 1])
        return first + 1, third, second * 2

    module = rx.optimize(rx.from_torch(Of(model), (X,)))
    back = rx.to_torch(module)
    for one in (back(X), rx.build(module, "torch")["main"](X)):
        for found, wanted in zip(one, model(X), strict=True):
            torch.testing.assert_close(torch.as_tensor(found), wanted)


def test_an_argument_that_a_declaration_does_not_name_is_not_lost() -> None:
    found = rx.from_torch(Of(lambda x: torch.ops.regraft_outside.moved(x, 0.0)), (X,))
    assert "R.outside.moved(" in found.script()
    with pytest.raises(UnsupportedOperatorError, match=r"its declaration as outside\.moved has no shift"):
        rx.from_torch(Of(lambda x: torch.ops.regraft_outside.moved(x, 3.0)), (X,))


def test_dropout_inside_of_attention_stays_where_operators_of_pytorch_are_declared() -> None:
    assert Op.get("aten.scaled_dot_product_attention").torch is not None
    attention = Of(lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5))
    x = torch.randn(1, 2, 3, 4)
    program = torch.export.export(attention, (x,))
    torch.manual_seed(0)
    wanted = attention(x)
    torch.manual_seed(0)
    torch.testing.assert_close(rx.optimize(program).module()(x), wanted)


class Carried(torch.nn.Module):
    """Operators of ATen without a counterpart, some with several results, some of sizes that only the data tells."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q, r = torch.linalg.qr(x.T @ x + torch.eye(4))
        values, places = torch.unique((x > 0).long(), return_inverse=True)
        wide = torch.nn.functional.interpolate(x[None, None], (2 * x.shape[0], 7), mode="bicubic", antialias=True)
        return q @ r, values + 1, places, torch.special.bessel_j0(x), wide, torch.cummax(x, 0).values


def test_an_operator_of_pytorch_without_a_counterpart_is_carried_through() -> None:
    program = torch.export.export(Carried(), (X,), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=90)},))
    result = rx.optimize(program)
    for x in (X, torch.randn(5, 4)):
        for found, wanted in zip(result.module()(x), program.module()(x), strict=True):
            torch.testing.assert_close(found, wanted)
    names = [{str(node.target) for node in p.graph.nodes} for p in (program, result)]
    for name in ("aten.linalg_qr.default", "aten._unique2.default", "aten.special_bessel_j0.default"):
        assert name in names[0] & names[1]
    with pytest.raises(rx.RegraftError, match=r"aten::linalg_qr is an operator of PyTorch, which ONNX does not"):
        rx.to_onnx(rx.from_torch(program))


class Noisy(torch.nn.Module):
    """Layers in training, and random numbers of several kinds, one of them in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 4, 2, dropout=0.5)
        self.layer = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.5)

    def forward(self, x: torch.Tensor) -> Any:
        noise = torch.rand(x.shape[0], 1, dtype=torch.float64) + torch.randn_like(x) - 2 * torch.randn_like(x)
        y = self.layer(self.lstm(x[None])[0][0])
        either = torch.cond(x.sum() > 0, lambda x: torch.nn.functional.dropout(x, 0.3), lambda x: x * 2, (x,))
        return y + noise, either, y.clone().uniform_(-1, 2), x[torch.randperm(2)]


def test_random_numbers_are_drawn_in_the_order_of_the_model() -> None:
    rows = torch.export.Dim("n", min=2, max=90)
    program = torch.export.export(Noisy(), (X,), dynamic_shapes=({0: rows},))
    module = rx.from_torch(program)
    assert_structural_equal(parse(module.script()), module)
    result = rx.optimize(program, verify=True)
    for x in (X, torch.randn(5, 4)):
        runs = []
        for model in (program.module(), result.module()):
            torch.manual_seed(0)
            runs.append(model(x))
        for found, wanted in zip(*reversed(runs), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(rx.RegraftError, match=r"aten::\w+ is an operator of PyTorch.*random numbers: export"):
        rx.to_onnx(module)


def test_random_numbers_in_a_loop_are_refused_with_what_to_do() -> None:
    from torch._higher_order_ops import scan

    def noisy(x: torch.Tensor) -> Any:
        return scan(lambda a, row: (a + torch.rand_like(row), row * 2), torch.zeros(4), x)

    with pytest.raises(UnsupportedOperatorError, match=r"random numbers; draw them before the loop"):
        rx.from_torch(Of(noisy), (X,))


def test_operators_of_complex_numbers_without_a_counterpart_are_carried_too() -> None:
    def spectral(x: torch.Tensor) -> Any:
        waves = torch.fft.rfft(x, dim=1)
        return (torch.fft.irfft(waves, n=x.shape[1], dim=1),)

    def solved(x: torch.Tensor) -> Any:
        values, vectors = torch.linalg.eig(x.real)
        return torch.linalg.inv(x) @ x, values, vectors * 2, x.acosh().abs()

    axes = {0: torch.export.Dim("batch", min=2, max=32), 1: torch.export.Dim("rows", min=2, max=64)}
    square = torch.randn(3, 3, dtype=torch.complex64) + 3 * torch.eye(3)
    cases = [
        (spectral, torch.randn(2, 6, 8), torch.randn(3, 11, 8), {"args": (axes,)}),
        (solved, square, square + 1j, None),
    ]
    for function, x, other, shapes in cases:
        program = torch.export.export(Of(function), (x,), dynamic_shapes=shapes)
        result = rx.optimize(program)
        for value in (x, other):
            for found, wanted in zip(result.module()(value), program.module()(value), strict=True):
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_an_operator_that_says_nothing_of_its_result_is_refused_with_what_to_add() -> None:
    @torch.library.custom_op("regraft_outside::silent", mutates_args=())
    def silent(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    library = torch.library.Library("regraft_outside_defined", "DEF")
    library.define("silent(Tensor x) -> Tensor")
    library.impl("silent", lambda x: x * 2, "CPU")
    for call in (silent, torch.ops.regraft_outside_defined.silent):
        with pytest.raises(ConvertError, match=r"silent.*@torch.library.register_fake\("):
            rx.from_torch(Of(call), (torch.zeros(3),))

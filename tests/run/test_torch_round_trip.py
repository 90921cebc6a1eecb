"""Programs from PyTorch and back: operators that nothing rewrote are the same, and dynamic sizes stay dynamic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

import regraft as rx
from tests.formats.onnx.writing import onnx_model


class Of(nn.Module):
    """A function as a model, with layers of its own."""

    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self, *inputs)


def operators(program: ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if hasattr(node.target, "_schema")]


def assert_same(got: Any, want: Any) -> None:
    for one, other in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        torch.testing.assert_close(one, other)


def _spectrogram(_: Any, x: torch.Tensor) -> torch.Tensor:
    window = torch.hamming_window(32)
    waves = torch.stft(x, 32, 8, window=window, return_complex=True, center=False)
    return torch.istft(waves * 2, 32, 8, window=window, center=False, length=64) + waves.abs().sum()


def _bands(_: Any, x: torch.Tensor) -> torch.Tensor:
    """A spectrum as real channels and back, in whatever order they lie in memory."""
    channels = torch.view_as_real(torch.fft.rfft(x)).permute(0, 2, 1) * 2
    waves = torch.view_as_complex(channels.permute(0, 2, 1).contiguous())
    return torch.fft.irfft(torch.nn.functional.pad(waves, (0, 2)))


def _updates(_: Any, x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    added = torch.zeros(6, 4).index_add(0, rows, x)
    return added, torch.zeros(6, 4).scatter_reduce(0, rows[:, None].expand(-1, 4), x, "amax")


WHOLE: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], list[str]]] = {
    "layers": (
        Of(
            lambda self, x: torch.nn.functional.relu6(self.norm(self.out(self.prelu(x)))),
            prelu=nn.PReLU(4),
            out=nn.Linear(4, 3),
            norm=nn.LayerNorm(3),
        ),
        (torch.randn(2, 4),),
        ["aten.prelu", "aten.linear", "aten.layer_norm", "aten.relu6"],
    ),
    "recurrent": (Of(lambda self, x: self.lstm(x)[0], lstm=nn.LSTM(4, 3, 2)), (torch.randn(5, 2, 4),), ["aten.lstm"]),
    "spectrogram": (Of(_spectrogram), (torch.randn(2, 64),), ["aten.stft", "aten.istft"]),
    "bands": (Of(_bands), (torch.randn(3, 8),), ["aten.view_as_complex", "aten.pad", "aten.fft_irfft"]),
    "updates": (
        Of(_updates),
        (torch.randn(5, 4), torch.tensor([0, 2, 2, 5, 1])),
        ["aten.index_add", "aten.scatter_re"],
    ),
    "bags": (
        Of(lambda self, x: self.bag(x), bag=nn.EmbeddingBag(10, 4, mode="mean")),
        (torch.tensor([[1, 2, 3], [4, 5, 9]]),),
        ["aten.embedding_bag"],
    ),
    "fourier": (Of(lambda _, x: torch.fft.irfft(torch.fft.rfft(x) * 2)), (torch.randn(3, 8),), ["aten.fft_irfft"]),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("level", [None, "safe", "default"])
def test_operators_that_nothing_rewrote_come_back_as_they_were(name: str, level: str | None) -> None:
    torch.manual_seed(0)
    model, inputs, expected = WHOLE[name]
    program = torch.export.export(model.eval(), inputs)
    if level is None:
        again: Any = rx.to_torch(rx.from_torch(program))
        result = torch.export.export(again, inputs)
    else:
        result = rx.optimize(program, level=level)
    found = operators(result)
    for operator in expected:
        assert any(one.startswith(operator) for one in found), found
    assert len(found) <= len(operators(program)) + 2
    assert_same(result.module()(*inputs), model(*inputs))


def test_complex_inputs_and_results_are_not_taken_apart() -> None:
    waves = torch.randn(3, 8, dtype=torch.complex64)
    model = Of(lambda _, x: (torch.fft.ifft(torch.fft.fft(x) * x, dim=0), x.abs()))
    program = torch.export.export(model, (waves,))
    result = rx.optimize(program)
    assert_same(result.module()(waves), model(waves))
    assert {"aten.fft_fft.default", "aten.fft_ifft.default"} <= set(operators(result))
    assert len(operators(result)) == len(operators(program))


def test_an_operator_that_a_rule_rewrote_does_not_come_back() -> None:
    program = torch.export.export(Of(lambda _, x: torch.relu(torch.sinh(x))), (torch.randn(3),))
    from regraft.dpl import is_op, rewrite_call, wildcard

    x = wildcard()
    module = rx.from_torch(program)
    main = rewrite_call(is_op("relax.sinh")(x), lambda _, matchings: rx.op.cosh(matchings[x]), module["main"])
    result = rx.to_torch(main)
    assert "cosh" in result.source
    assert "aten_sinh" not in result.source
    value = torch.randn(3)
    assert_same(result(value), torch.relu(torch.cosh(value)))


def test_fixed_sizes_take_the_place_of_symbolic_ones_in_operators_that_stay() -> None:
    model = Of(lambda _, x: x.view(x.shape[0] * 2, -1))
    program = torch.export.export(model, (torch.randn(3, 4),), dynamic_shapes={"inputs": ({0: Dim("rows")},)})
    sizes = [name for name in rx.from_torch(program)["main"].params[0].ty.shape if not isinstance(name, int)]
    fixed = rx.optimize(program, fix={str(sizes[0]): 5})
    value = torch.randn(5, 4)
    assert_same(fixed.module()(value), value.view(10, -1))


class _Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros(1, dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.second(torch.relu(self.first(x))) * self.calls


def test_buffers_that_a_model_changes_go_on_from_what_they_were() -> None:
    torch.manual_seed(0)
    model, x = _Counting().train(), torch.randn(5, 4)
    result = rx.optimize(torch.export.export(model, (x,)), verify=True)
    assert operators(result).count("aten.batch_norm.default") == 2
    again = result.module()
    for _ in range(3):
        assert_same(again(x), model(x))
    assert_same(dict(again.named_buffers())["second.running_mean"], model.second.running_mean)


class _Choice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,))


def test_a_branch_comes_back_as_a_branch() -> None:
    result = rx.optimize(torch.export.export(_Choice(), (torch.ones(3),)))
    assert any(node.target is torch.ops.higher_order.cond for node in result.graph.nodes)
    for x in (torch.ones(3), -torch.ones(3)):
        assert_same(result.module()(x), _Choice()(x))


class _Scanned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(4, 4)

    def forward(self, state: torch.Tensor, rows: torch.Tensor) -> Any:
        from torch._higher_order_ops import scan

        def combine(state: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            new = torch.tanh(self.step(state) + row)
            return new, new * 2

        return scan(combine, state, rows)


def test_a_scan_is_read_as_a_loop_and_comes_back_as_a_scan() -> None:
    torch.manual_seed(0)
    model, inputs = _Scanned().eval(), (torch.randn(4), torch.randn(6, 4))
    program = torch.export.export(model, inputs)
    module = rx.from_torch(program)
    for got, want in zip(rx.build(module, target="numpy")["main"](*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), want)
    result = rx.optimize(program)
    assert any(node.target is torch.ops.higher_order.scan for node in result.graph.nodes)
    assert_same(result.module()(*inputs), model(*inputs))


def test_a_number_that_is_learned_is_multiplied_in_whatever_its_shape() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(0.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale.reshape(1, 1)

    x = torch.randn(3, 4)
    assert_same(rx.optimize(torch.export.export(Scaled(), (x,))).module()(x), x * 0.5)


# --- dynamic sizes


class _Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 32, 8))
        self.project = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.project(x) + self.table[:, : x.shape[1]]


class _Strided(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(4, 1, 2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(self.down(x)) + x


class _Step(nn.Module):
    """One step of attention over what came before."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        query, key, value = self.project(x).view(x.shape[0], 1, 3, 2, 4).permute(2, 0, 3, 1, 4)
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        return nn.functional.scaled_dot_product_attention(query, keys, values), keys, values


def _chosen(_: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    places = torch.nonzero(x > 0)
    return places, x[places[:, 0]]


_ROWS, _LONG = Dim("rows", max=64), Dim("long", min=2, max=32)
_HIGH, _WIDE = Dim("high", min=1, max=4), Dim("wide", min=1, max=4)


def _shifted(_: Any, scores: torch.Tensor) -> torch.Tensor:
    """Scores of relative positions, shifted as relative attention does: ``(n, 2n)`` read as ``(2n, n)``."""
    count, rows = scores.shape[0], scores.shape[1]
    wide = torch.stack([torch.cat([scores, scores.flip(-1)], -1)] * 2, 1).reshape(count, 2, 2 * rows, rows)
    return torch.softmax(wide[:, :, 1:].reshape(count, 2, rows, 2 * rows - 1)[..., :rows], -1)


DYNAMIC: dict[str, tuple[Callable[[], nn.Module], Callable[[int, int], tuple[Any, ...]], Any]] = {
    "table": (_Table, lambda a, b: (torch.randn(a, b, 8),), ({0: _ROWS, 1: _LONG},)),
    "multiples": (_Strided, lambda a, b: (torch.randn(1, 1, 8 * a, 8 * b),), ({2: 8 * _HIGH, 3: 8 * _WIDE},)),
    "step": (
        _Step,
        lambda a, b: (torch.randn(a, 1, 8), torch.randn(a, 2, b, 4), torch.randn(a, 2, b, 4)),
        ({0: _ROWS}, {0: _ROWS, 2: _LONG}, {0: _ROWS, 2: _LONG}),
    ),
    "shift": (
        lambda: Of(_shifted),
        lambda a, b: (torch.randn(a, b, b),),
        {"inputs": ({0: Dim.AUTO, 1: Dim.AUTO, 2: Dim.AUTO},)},
    ),
    "nonzero": (lambda: Of(_chosen), lambda a, b: (torch.randn(a, b),), {"inputs": ({0: _ROWS, 1: _LONG},)}),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_sizes_come_back_dynamic_with_their_limits(name: str) -> None:
    torch.manual_seed(0)
    build, inputs_of, shapes = DYNAMIC[name]
    model = build().eval()
    program = torch.export.export(model, inputs_of(3, 4), dynamic_shapes=shapes)
    result = rx.optimize(program)
    assert result is not program  # as it is where nothing can be written

    def limits(of: ExportedProgram) -> list[tuple[int, str]]:
        names = ((str(symbol), values) for symbol, values in of.range_constraints.items())
        return sorted((int(values.lower), str(values.upper)) for name, values in names if name.isidentifier())

    assert limits(result) == limits(program)
    for sizes in ((2, 2), (3, 4), (4, 3)):
        inputs = inputs_of(*sizes)
        with torch.no_grad():
            assert_same(result.module()(*inputs), model(*inputs))


def test_bounds_of_slices_may_be_numbers_out_of_tensors_that_count_from_either_end() -> None:
    def span(_: Any, x: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
        return x[:, bounds[0] : bounds[1]] * 2

    x = torch.randn(3, 9)
    program = torch.export.export(Of(span), (x, torch.tensor([2, 7])))
    read = rx.build(rx.from_torch(program), "numpy")
    for first, last in ((2, 7), (-5, 8), (-20, -2), (4, 40)):
        want = x[:, first:last] * 2
        torch.testing.assert_close(torch.tensor(read["main"](x.numpy(), np.array([first, last]))), want)
        torch.testing.assert_close(rx.optimize(program).module()(x, torch.tensor([first, last])), want)


def test_a_size_beyond_its_limit_is_refused_as_by_the_source() -> None:
    model = _Table().eval()
    program = torch.export.export(model, (torch.randn(2, 5, 8),), dynamic_shapes=({1: _LONG},))
    result = rx.optimize(program)
    for one in (program, result):
        with pytest.raises((RuntimeError, AssertionError)):
            one.module()(torch.randn(2, 40, 8))


def test_experts_on_any_number_of_rows_are_one_product_in_groups() -> None:
    weights = nn.Module()
    weights.stack = nn.Parameter(torch.randn(3, 16, 8))

    def experts(self: Any, x: torch.Tensor) -> torch.Tensor:
        ends = (x[:, :1] > torch.tensor([0.5, 0.0, -torch.inf])).sum(0).int()
        return torch._grouped_mm(x.bfloat16(), self.weights.stack.bfloat16(), ends).float()

    inputs = (torch.randn(9, 16),)
    shapes = {"inputs": ({0: Dim("rows", max=64)},)}
    program = torch.export.export(Of(experts, weights=weights), inputs, dynamic_shapes=shapes)
    done = rx.optimize(program)
    assert "aten._grouped_mm.default" in operators(done)
    for given in (inputs, (torch.randn(5, 16),)):
        assert_same(done.module()(*given), program.module()(*given))


@pytest.mark.parametrize(
    "function",
    [
        lambda _, x: x * x.shape[1] ** -0.5,
        lambda _, x: x.sum(1) / x.shape[1] + x.shape[0] / x.shape[1],
        lambda _, x: torch.full((x.shape[0], 4), x.shape[1] * 1.5),
        lambda _, x: torch.clamp(x, max=1 - 1 / x.shape[1]),
    ],
)
def test_fractions_made_of_sizes_stay_numbers(function: Callable[..., Any]) -> None:
    shapes = {"inputs": ({0: Dim("rows", max=64), 1: Dim("columns", max=64)},)}
    program = torch.export.export(Of(function), (torch.randn(3, 12),), dynamic_shapes=shapes)
    done = rx.optimize(program)
    assert sorted(operators(done)) == sorted(operators(program))
    for given in (torch.randn(3, 12), torch.randn(5, 7)):
        assert_same(done.module()(given), program.module()(given))


def test_a_fraction_that_a_rule_moved_is_computed_as_the_program_says() -> None:
    shapes = {"inputs": ({0: Dim("rows", max=64)},)}
    program = torch.export.export(
        Of(lambda _, x: (x * x.shape[0] ** 0.5) * (x.shape[0] / 3) * 2.0 * 3.0),
        (torch.randn(9),),
        dynamic_shapes=shapes,
    )
    done = rx.optimize(program)
    for given in (torch.randn(9), torch.randn(5)):
        assert_same(done.module()(given), program.module()(given))


def test_a_complex_buffer_that_the_model_changes_is_changed_in_every_call() -> None:
    class Turns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("phase", torch.randn(6, dtype=torch.complex64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.phase.mul_(0.5 + 1j)
            return (self.phase * x).real

    program = torch.export.export(Turns(), (torch.randn(4, 6),))
    before, after = program.module(), rx.optimize(program).module()
    for given in (torch.randn(4, 6), torch.randn(4, 6)):
        assert_same(after(given), before(given))


def _gradients(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    module.zero_grad()
    given = x.clone().requires_grad_()
    result = module(given)
    result.sum().backward()
    learned = dict(module.named_parameters())
    grads = [given.grad, *[learned[name].grad for name in sorted(learned)]]
    return [result, *[torch.zeros(()) if grad is None else grad for grad in grads]]


def _target(self: Any, x: torch.Tensor) -> torch.Tensor:
    hidden = self.first(x)
    with torch.no_grad():
        wanted = torch.softmax(self.second(hidden), -1)
    return self.second(hidden.detach()) * hidden + wanted * hidden


def _phases(self: Any, x: torch.Tensor) -> torch.Tensor:
    waves = torch.fft.rfft(self.first(x))
    return torch.fft.irfft(waves * waves.detach().conj()) + self.second(x).detach()


def _straight_through(self: Any, x: torch.Tensor) -> torch.Tensor:
    soft = torch.softmax(self.first(x), -1)
    hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
    return self.second(hard - soft.detach() + soft)


@pytest.mark.parametrize("function", [_target, _phases, _straight_through])
def test_gradients_stop_where_they_did(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    program = torch.export.export(Of(function, first=nn.Linear(4, 4), second=nn.Linear(4, 4)), (torch.randn(3, 4),))
    x = torch.randn(3, 4)
    want = _gradients(program.module(), x)
    assert_same(_gradients(rx.optimize(program).module(), x), want)
    for one, other in zip(_gradients(rx.to_torch(rx.from_torch(program)), x), want, strict=True):
        torch.testing.assert_close(one, other)


def test_transforms_of_functions_that_stayed_in_a_program_are_read() -> None:
    def batched(self: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: row.sin() @ self.inner.weight + row.sum())(x)

    def derivative(_: Any, x: torch.Tensor) -> Any:
        return torch.func.jvp(lambda value: value.sin() * 2, (x,), (x.cos(),))

    rows = {0: Dim("n")}
    many = torch.export.export(Of(batched, inner=nn.Linear(4, 4)), (torch.randn(6, 3, 4),), dynamic_shapes=((rows,),))
    x = torch.randn(9, 3, 4)
    assert_same(rx.optimize(many).module()(x), many.module()(x))
    slope = torch.export.export(Of(derivative), (torch.randn(3, 4),))
    assert_same(rx.optimize(slope).module()(x[0]), slope.module()(x[0]))


class _Moved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.table[:2].copy_(self.table[2:])
        self.table.as_strided((2, 2), (3, 1)).add_(x[:2])
        return self.table * 2


def test_a_program_that_would_have_more_operators_comes_back_as_it_was(tmp_path: Path) -> None:
    program = torch.export.export(_Moved(), (torch.randn(4),))
    reports: list[Any] = []
    done = rx.optimize(program, report=reports.append)
    assert operators(done) == operators(program)
    assert reports[0].to_dict()["kept"] == "the result has more operators"
    before, after = program.module(), done.module()
    for x in (torch.randn(4), torch.randn(4)):
        assert_same(after(x), before(x))  # each has buffers of its own
    torch.export.save(program, tmp_path / "before.pt2")
    rx.optimize(tmp_path / "before.pt2", output=tmp_path / "after.pt2")
    assert (tmp_path / "after.pt2").read_bytes() == (tmp_path / "before.pt2").read_bytes()


class WithoutGradients(nn.Module):
    """A region of `torch.no_grad` of which the results are results of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.register_buffer("total", torch.zeros(6))

    def forward(self, x: torch.Tensor) -> Any:
        with torch.no_grad():
            scores = self.layer(x).relu_()
            self.total.add_(scores.sum(0))
            values, places = scores.topk(2)
        return self.layer(x * scores), scores, values, places


def test_results_of_a_region_without_gradients_are_results_of_the_model() -> None:
    rows = ({0: torch.export.Dim("rows", min=2, max=32)},)
    program = torch.export.export(WithoutGradients(), (torch.randn(3, 6),), dynamic_shapes=rows)
    reports: list[Any] = []
    done = rx.optimize(program, report=reports.append)
    assert reports[0].kept is None
    before, after = program.module(), done.module()
    for count in (3, 5):
        x = torch.randn(count, 6)
        results = after(x)
        torch.testing.assert_close(results, before(x))
        assert [result.requires_grad for result in results] == [True, False, False, False]
    torch.testing.assert_close(after.get_buffer("total"), before.get_buffer("total"))


class _CapturesBySteps(nn.Module):
    """A scan that was called as no model should: its body reads a tensor that it was not given."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        scan: Any = torch.ops.higher_order.scan
        return scan(lambda state, row: (state @ w + row, state + 1), [x[0]], [x], ())[0]


def test_a_body_with_a_tensor_that_has_no_numbers_is_refused_with_what_to_do() -> None:
    program = torch.export.export(_CapturesBySteps(), (torch.ones(7, 4), torch.ones(4, 4)))
    with pytest.raises(rx.RegraftError, match=r"has no values.*let the body take it as an operand"):
        rx.optimize(program)


def test_statistics_of_a_batch_norm_from_onnx_are_buffers_so_that_gradients_flow() -> None:
    norm = nn.BatchNorm1d(3).eval()
    for tensor in (norm.weight.data, norm.bias.data, norm.running_mean):
        tensor.normal_()
    names = {"scale": norm.weight, "bias": norm.bias, "mean": norm.running_mean, "var": norm.running_var}
    arrays = {name: tensor.detach().numpy() for name, tensor in names.items()}
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("BatchNormalization", ["r", *names], ["y"])]
    module = rx.to_torch(rx.from_onnx(onnx_model(nodes, {"x": [2, 3, 4]}, ["y"], arrays)))
    assert set(dict(module.named_buffers())) == {"mean", "var"}
    x = torch.randn(2, 3, 4, requires_grad=True)
    found, expected = module(x), norm(x.relu())
    assert_same(found, expected)
    assert_same(torch.autograd.grad(found.sin().sum(), x), torch.autograd.grad(expected.sin().sum(), x))

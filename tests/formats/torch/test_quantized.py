"""Quantized programs of PyTorch: PT2E's operators and products of whole numbers give what PyTorch gives."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # declares the operators

import regraft as rx
from regraft.formats.errors import ConvertError
from regraft.script import relax as R
from tests.kit import assert_close
from tests.torch_kit import Of

Q = torch.ops.quantized_decomposed


class Quantized(torch.nn.Module):
    """A linear layer as PT2E writes it: weights in int8, one scale for each row, activations in uint8."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.randn(5, 8)
        self.register_buffer("scales", weight.abs().amax(1) / 127)
        self.register_buffer("zeros", torch.zeros(5, dtype=torch.int64))
        self.register_buffer("weight", torch.round(weight / self.scales[:, None]).to(torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = Q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        q = Q.quantize_per_tensor(x, 0.03, 7, 0, 255, torch.uint8)
        x = Q.dequantize_per_tensor(q, 0.03, 7, 0, 255, torch.uint8)
        again = Q.quantize_per_channel(weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        return torch.nn.functional.linear(x, weight) + again.sum()


class Whole(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (32, 24), dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._int_mm((x * 40).to(torch.int8), self.weight) * 0.01


class Dynamic(torch.nn.Module):
    """A linear layer whose activations get the scale that fits them, as PT2E writes it; ``symmetric``: around 0."""

    def __init__(self, symmetric: bool = False) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 5)
        self.symmetric = symmetric

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        choose = Q.choose_qparams_symmetric.tensor if self.symmetric else Q.choose_qparams.tensor
        limits = (-127, 127, torch.int8) if self.symmetric else (0, 255, torch.uint8)
        scale, zero_point = choose(x, *limits[:2], 1e-5, limits[2])
        q = Q.quantize_per_tensor.tensor(x, scale, zero_point, *limits)
        return self.linear(Q.dequantize_per_tensor.tensor(q, scale, zero_point, *limits))


class Rows(torch.nn.Module):
    """Activations quantized row by row, by operators that have no meaning here but PyTorch's own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scales, zero_points = Q.choose_qparams_per_token_asymmetric(x, torch.int8)
        q = Q.quantize_per_token(x, scales, zero_points, -128, 127, torch.int8)
        return Q.dequantize_per_token(q, scales, zero_points, -128, 127, torch.int8, torch.float32)


def _symmetric() -> Dynamic:
    return Dynamic(symmetric=True)


@pytest.mark.parametrize(
    ("build", "shape"),
    [(Quantized, (4, 8)), (Whole, (32, 32)), (Dynamic, (4, 8)), (_symmetric, (4, 8)), (Rows, (4, 8))],
)
def test_a_quantized_layer_is_read_and_comes_back(build: Callable[[], torch.nn.Module], shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    model, x = build().eval(), torch.randn(shape)
    program = torch.export.export(model, (x,))
    module = rx.from_torch(program)
    wanted = model(x).detach()
    for target in ("numpy", "torch", "onnxruntime"):
        found = torch.as_tensor(rx.build(module, target=target)["main"](x)).detach()
        assert_close(found, wanted)
    result = rx.optimize(program)
    torch.testing.assert_close(result.module()(x), model(x))
    before, after = ([str(n.target) for n in p.graph.nodes if n.op == "call_function"] for p in (program, result))
    assert [name for name in after if "quant" in name or "_int_mm" in name] == [
        name for name in before if "quant" in name or "_int_mm" in name
    ]


def _wide(name: str, *given: object) -> Callable[[torch.Tensor], torch.Tensor]:
    """An operator of PT2E as a function of its first operand, its result as float64."""

    def run(x: torch.Tensor) -> torch.Tensor:
        result = getattr(Q, name)(x, *given)
        return (result[0] if isinstance(result, tuple) else result).to(torch.float64)

    return run


def _drawn() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    whole = torch.randint(-128, 128, (6, 64), dtype=torch.int8)
    groups = torch.rand(6, 4) * 0.1 + 0.01
    return {"x": torch.randn(6, 64), "whole": whole, "groups": groups, "offsets": torch.randint(-5, 5, (6, 4)).int()}


D = _drawn()
GROUPS, OFFSETS, ROWS = D["groups"], D["offsets"], D["groups"][:, 0]
LIMITS = (torch.tensor(0.03), torch.tensor(3), torch.tensor(-128), torch.tensor(127))


@pytest.mark.parametrize(
    ("run", "given"),
    [
        (_wide("quantize_per_channel_group", GROUPS, OFFSETS, -8, 7, torch.int8, 16), "x"),
        (_wide("dequantize_per_channel_group", GROUPS, OFFSETS, -8, 7, torch.int8, 16, torch.float32), "whole"),
        (_wide("dequantize_per_channel_group", GROUPS, None, -8, 7, torch.int8, 16, torch.bfloat16), "whole"),
        (_wide("dequantize_per_channel_group", GROUPS[:, :1], None, -8, 7, torch.int8, 128, torch.float32), "whole"),
        (_wide("dequantize_per_channel", ROWS, OFFSETS[:, 0] + 0.5, 0, -128, 127, torch.int8), "whole"),
        (_wide("fake_quant_per_channel", ROWS, OFFSETS[:, 0], 0, -128, 127), "x"),
        (_wide("quantize_per_tensor", *LIMITS, torch.int8), "x"),
        (_wide("dequantize_per_tensor", *LIMITS, torch.int8), "whole"),
        (_wide("choose_qparams_per_token", torch.int8), "x"),
        (_wide("convert_element_type", torch.float16), "x"),
    ],
)
def test_operators_of_pt2e_give_what_pytorch_gives(run: Callable[[torch.Tensor], torch.Tensor], given: str) -> None:
    module, x = rx.from_torch(torch.export.export(Of(run), (D[given],))), D[given]
    for target in ("numpy", "onnxruntime"):
        assert_close(torch.as_tensor(rx.build(module, target=target)["main"](x.numpy())), run(x))


def test_the_largest_of_a_row_between_two_steps_takes_the_one_that_pytorch_takes_on_onnx_runtime() -> None:
    """It lies at 127.5 steps, nearly; divided at once it would be another side of that in a fifth of the rows."""

    def run(x: torch.Tensor) -> torch.Tensor:
        return torch.round(x * (1 / (x.abs().amax(-1, keepdim=True) / 127.5)))

    x = torch.randn(200, 7, generator=torch.Generator().manual_seed(1))
    model = rx.to_onnx(rx.from_torch(torch.export.export(Of(run), (x,))))
    assert [node.op_type for node in model.graph.node].count("Reciprocal") == 1
    found = rx.build(rx.from_torch(torch.export.export(Of(run), (x,))), target="onnxruntime")["main"](x.numpy())
    assert torch.equal(torch.as_tensor(found), run(x))


class Shared(torch.nn.Module):
    """Two layers whose weights are int8, with zero points in int64, on the same activations in uint8."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Quantized(), Quantized()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = Q.quantize_per_tensor(x, 0.03, 7, 0, 255, torch.uint8)
        parts: list[torch.Tensor] = []
        for layer in (self.first, self.second):
            weight = Q.dequantize_per_channel(layer.weight, layer.scales, layer.zeros, 0, -127, 127, torch.int8)
            parts.append(torch.nn.functional.linear(Q.dequantize_per_tensor(q, 0.03, 7, 0, 255, torch.uint8), weight))
        return parts[0] + parts[1]


def test_what_optimizing_leaves_of_a_quantized_program_is_its_own_operators() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    program = torch.export.export(Shared().eval(), (x,))
    reports: list[rx.OptimizationReport] = []
    result = rx.optimize(program, report=reports.append)
    assert reports[0].kept is None
    assert torch.equal(result.module()(x), program.module()(x))
    calls = Counter(str(n.target).split(".")[1] for n in result.graph.nodes if n.op == "call_function")
    assert calls == {
        "dequantize_per_channel": 2,
        "quantize_per_tensor": 1,
        "dequantize_per_tensor": 1,
        "linear": 2,
        "add": 1,
    }
    assert {name: value.dtype for name, value in result.state_dict.items() if "weight" in name} == {
        "first.weight": torch.int8,
        "second.weight": torch.int8,
    }


@R.function
def quantized(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 5), "int8"), s: R.Tensor((5,), "float32")):
    with R.dataflow():
        q = R.quantize(x, R.const(0.25, "float32"), R.const(3, "uint8"), out_dtype="uint8")
        d = R.dequantize(q, R.const(0.25, "float32"), R.const(3, "uint8"))
        y = R.matmul(d, R.dequantize(w, s, R.const([0, 1, 2, 3, 4], "int8"), axis=1))
        R.output(y)
    return y


def test_quantized_programs_go_out_in_the_operators_of_pt2e() -> None:
    from regraft.run.torch_export import export_torch

    x, w, s = torch.randn(6, 8), torch.randint(-128, 128, (8, 5), dtype=torch.int8), torch.rand(5)
    program = export_torch(rx.to_torch(quantized, "quantized"))
    names = [str(node.target) for node in program.graph.nodes if "quantized" in str(node.target)]
    assert names == [
        "quantized_decomposed.quantize_per_tensor.tensor",
        "quantized_decomposed.dequantize_per_tensor.tensor",
        "quantized_decomposed.dequantize_per_channel.default",
    ]
    wanted = rx.build(quantized, target="numpy")["quantized"](x.numpy(), w.numpy(), s.numpy())
    # A quarter is exact, so that dividing by it and multiplying by 4 is the same.
    assert_close(program.module()(x, w, s), np.asarray(wanted))


class Imitated(torch.nn.Module):
    """A layer whose weight and inputs go through 8 bits, as in quantization-aware training; scales are powers of 2."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 5)
        self.register_buffer("scales", 2.0 ** -torch.arange(5, 10))
        self.register_buffer("zeros", torch.zeros(5, dtype=torch.int32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.fake_quantize_per_channel_affine(self.linear.weight, self.scales, self.zeros, 0, -127, 127)
        one = torch.fake_quantize_per_tensor_affine(x, 2.0**-6, 7, 0, 255)
        other = torch.fake_quantize_per_tensor_affine(x[:, :5], 2.0**-2, -3, -8, 7)
        return torch.nn.functional.linear(one, weight, self.linear.bias) + other


def test_quantization_in_training_trains_and_is_nodes_of_quantization_in_onnx() -> None:
    torch.manual_seed(0)
    model, x = Imitated(), torch.randn(3, 8) * 3
    program = torch.export.export(model, (x,))
    again = rx.optimize(program).module()
    results = []
    for one in (model, again):
        given = x.clone().requires_grad_()
        y = one(given)
        y.square().sum().backward()
        results.append([y, given.grad, *[weight.grad for _, weight in sorted(one.named_parameters())]])
    torch.testing.assert_close(results[1], results[0])
    module = rx.from_torch(program)
    kinds = Counter(node.op_type for node in rx.to_onnx(module).graph.node)
    assert kinds["QuantizeLinear"] == kinds["DequantizeLinear"] == 3
    assert_close(rx.build(module, "onnxruntime")["main"](x.numpy()), model(x).detach().numpy())
    loss = rx.from_torch(Of(lambda x: model(x).square().sum()), (x,))
    _, (found,) = rx.build(rx.transform.Gradient("main")(loss), "numpy")["main_adjoint"](x.numpy())
    assert_close(found, np.asarray(results[0][1]))


def test_packed_weights_of_eager_quantization_are_refused_with_what_to_do() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(8, 4)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        packed = torch.ao.quantization.quantize_dynamic(layer, {torch.nn.Linear}, dtype=torch.qint8)
    with pytest.raises(ConvertError, match="quantize the model with PT2E or torchao"):
        rx.from_torch(packed, (torch.randn(2, 8),))


class Packing(torch.nn.Module):
    """A layer that reads its weight as packed ones of other libraries are read: as a state beside it, or by NumPy."""

    def __init__(self, by_numpy: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4))
        self.by_numpy = by_numpy

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (torch.from_numpy(self.weight.detach().numpy()) if self.by_numpy else self.weight.CB)


@pytest.mark.parametrize(
    ("by_numpy", "told"), [(True, "it computes in NumPy.*run the model before"), (False, "bitsandbytes.*dequantize")]
)
def test_packed_weights_of_other_libraries_are_refused_with_what_to_do(by_numpy: bool, told: str) -> None:
    with pytest.raises(ConvertError, match=told):
        rx.from_torch(Packing(by_numpy), (torch.randn(2, 4),))


def test_quantized_tensors_are_refused_with_what_to_do() -> None:
    class Rounded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.dequantize(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8))

    class Held(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.quantize_per_tensor(torch.ones(4, 8), 0.1, 0, torch.qint8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight.dequantize().T

    for model in (Rounded(), Held()):
        with pytest.raises(ConvertError, match="quantize the model with PT2E or torchao"):
            rx.from_torch(model, (torch.randn(2, 8),))

"""The errors of layers that one backward pass expects, beside those that are measured layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import regraft as rx
import regraft.op as R
from regraft.gradient import GradientError
from regraft.ir import BlockBuilder, Expr, IRModule, SymVar, TensorType, Var, const
from regraft.ir.dims import Dim
from regraft.model.expected_errors import ExpectedErrors
from regraft.model.models import torch_module
from regraft.model.timing import Deadline
from regraft.passes.quantize import QuantizeDynamic
from regraft.run import build
from regraft.run.originals import RunOriginal, torch_original

LAYERS = 10


def _runner(module: IRModule) -> RunOriginal:
    entry = build(module, target="numpy")["main"]

    def run(inputs: Any) -> list[np.ndarray]:
        found = entry(*inputs)
        return [np.asarray(one) for one in (found if isinstance(found, list | tuple) else [found])]

    return run


def _net(rows: Dim) -> IRModule:
    """Layers with a sum around each, whose results are of very different sizes."""
    random, builder = np.random.default_rng(3), BlockBuilder()
    x = Var("x", TensorType((rows, 32), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value: Expr = x
            for place in range(LAYERS):
                weight = random.standard_normal((32, 32)) * 10.0 ** random.uniform(-2, 0)
                layer = builder.emit(R.matmul(value, const(weight.astype("float32"))), f"layer{place}")
                value = builder.emit(R.add(value, R.tanh(layer)))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def _error(run: RunOriginal, inputs: list[np.ndarray], right: np.ndarray) -> float:
    return float(np.abs(run(inputs)[0] - right).max() / np.abs(right).max())


def _in_few_bits(names: Callable[[str], bool]) -> Callable[[IRModule], IRModule]:
    keep = [f"layer{place}" for place in range(LAYERS) if not names(f"layer{place}")]
    return QuantizeDynamic(keep, least=1)


@pytest.mark.parametrize("rows", [64, SymVar("rows")], ids=["fixed", "symbolic"])
def test_the_expected_errors_are_near_those_of_each_layer_alone(rows: Dim) -> None:
    module, inputs = _net(rows), [np.random.default_rng(0).standard_normal((64, 32)).astype("float32")]
    [right] = _runner(module)(inputs)
    measured = {
        name: _error(_runner(_in_few_bits(name.__eq__)(module)), inputs, right)
        for name in (f"layer{place}" for place in range(LAYERS))
    }
    whole = _error(_runner(_in_few_bits(lambda _: True)(module)), inputs, right)
    found = ExpectedErrors(module, "main", measured, inputs, [right], _runner).of(
        _in_few_bits(lambda _: False), whole, Deadline(60)
    )
    assert sum(one * one for one in found.values()) ** 0.5 == pytest.approx(whole)
    assert max(measured.values()) > 20 * min(measured.values())
    for name, error in measured.items():
        assert 0.4 < found[name] / error < 2.5, name


def test_noise_that_all_rows_share_counts_more_than_chance_tells() -> None:
    """Behind a mean of all rows, the noise of the layer `shared` is one row's, and it adds up in all."""
    random, builder = np.random.default_rng(3), BlockBuilder()
    x = Var("x", TensorType((64, 32), "float32"))
    weights = [const(random.standard_normal((32, 32)).astype("float32")) for _ in range(2)]
    with builder.function("main", [x]):
        with builder.dataflow():
            own = builder.emit(R.matmul(x, weights[0]), "own")
            every_row = builder.emit(R.broadcast_to(R.mean(x, 0, keepdims=True), (64, 32)))
            shared = builder.emit(R.matmul(every_row, weights[1]), "shared")
            mean = builder.emit(R.mean(R.add(own, shared), 0))
            result = builder.emit_output(mean)
        builder.emit_func_output(result)
    module, inputs = builder.get(), [random.standard_normal((64, 32)).astype("float32")]
    [right] = _runner(module)(inputs)
    alone = [QuantizeDynamic([other], least=1)(module) for other in ("shared", "own")]
    measured = [float(np.square(_runner(one)(inputs)[0] - right).sum() ** 0.5) for one in alone]
    found = ExpectedErrors(module, "main", ["own", "shared"], inputs, [right], _runner)
    errors = found.of(QuantizeDynamic(["own", "shared"], least=1), 1.0, Deadline(60))
    assert 0.4 < (errors["own"] / errors["shared"]) / (measured[0] / measured[1]) < 2.5


def test_several_results_count_by_the_largest_of_each() -> None:
    builder, x = BlockBuilder(), Var("x", TensorType((8, 16), "float32"))
    weight = np.random.default_rng(1).standard_normal((16, 16)).astype("float32")
    with builder.function("main", [x]):
        with builder.dataflow():
            layers = [builder.emit(R.matmul(x, const(weight)), f"layer{place}") for place in range(2)]
            large = builder.emit_output(R.multiply(layers[1], const(np.float32(1e6))))
            counted = builder.emit_output(R.astype(large, "int32"))
            small = builder.emit_output(layers[0])
        builder.emit_func_output([small, large, counted])
    module, inputs = builder.get(), [np.random.default_rng(0).standard_normal((8, 16)).astype("float32")]
    right = _runner(module)(inputs)
    found = ExpectedErrors(module, "main", ["layer0", "layer1"], inputs, right, _runner)
    errors = found.of(_in_few_bits(lambda _: False), 0.1, Deadline(60))
    assert errors["layer0"] == pytest.approx(errors["layer1"], rel=0.3)


def test_pytorch_expects_what_numpy_does() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)]).eval()
    module = rx.from_torch(torch.export.export(net, (torch.ones(8, 16),)))
    layers = [one.var.name_hint for block in module["main"].body.blocks for one in block if "matmul" in str(one.value)]
    inputs = [np.random.default_rng(0).standard_normal((8, 16)).astype("float32")]

    def on_torch(made: IRModule) -> RunOriginal:
        return torch_original(torch_module(made, "main"), made["main"])

    found = [
        ExpectedErrors(module, "main", layers, inputs, _runner(module)(inputs), runner).of(
            QuantizeDynamic(layers, least=1), 0.1, Deadline(60)
        )
        for runner in (_runner, on_torch)
    ]
    assert found[1] == pytest.approx(found[0], rel=0.1)


def test_a_layer_that_was_not_made_in_few_bits_errs_as_the_others_do() -> None:
    module, inputs = _net(8), [np.ones((8, 32), "float32")]
    found = ExpectedErrors(module, "main", ["layer0", "layer1", "layer2"], inputs, _runner(module)(inputs), _runner)
    keep = ["layer1_again", *(f"layer{place}" for place in range(LAYERS))]
    errors = found.of(QuantizeDynamic(keep, least=1), 0.3, Deadline(60))
    others = errors["layer0"] ** 2 + errors["layer2"] ** 2
    assert errors["layer1"] ** 2 == pytest.approx(others / 2)


def test_what_cannot_be_told_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module, inputs = _net(8), [np.ones((8, 32), "float32")]
    right = _runner(module)(inputs)
    with pytest.raises(GradientError, match="no call that the body itself binds"):
        ExpectedErrors(module, "main", ["layer0", "nowhere"], inputs, right, _runner)
    found = ExpectedErrors(module, "main", ["layer0", "layer1"], inputs, right, _runner)
    with pytest.raises(GradientError, match="no finite change"):
        found.of(lambda doubled: doubled, 0.3, Deadline(60))
    monkeypatch.setattr("regraft.model.expected_errors.free_memory", lambda: 1000)
    with pytest.raises(GradientError, match="where 1 KB is free"):
        ExpectedErrors(module, "main", ["layer0"], inputs, right, _runner)

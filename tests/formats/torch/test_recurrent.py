"""PyTorch's recurrent modules: read as one operator a layer, run on every engine, and differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

import regraft as rx
from regraft import op as ops
from regraft.ir import Call, Function, IRModule, SymVar, TensorType, Var
from regraft.op import nn
from regraft.transform import BindSymbolicVars, Gradient
from tests.op.harness import assert_close, to_numpy

SIZE, HIDDEN, STEPS, BATCH = 4, 3, 5, 2

MODULES: dict[str, tuple[type[torch.nn.Module], dict[str, Any]]] = {
    "lstm": (torch.nn.LSTM, {}),
    "lstm_two_layers_both_ways_batch_first": (
        torch.nn.LSTM,
        {"num_layers": 2, "bidirectional": True, "batch_first": True},
    ),
    "gru_two_layers": (torch.nn.GRU, {"num_layers": 2}),
    "gru_both_ways_no_bias": (torch.nn.GRU, {"bidirectional": True, "bias": False}),
    "rnn_relu": (torch.nn.RNN, {"nonlinearity": "relu"}),
    "rnn_tanh_both_ways": (torch.nn.RNN, {"bidirectional": True}),
}


def made(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    build, options = MODULES[name]
    return build(SIZE, HIDDEN, **options).eval()


def leaves(result: Any) -> list[np.ndarray]:
    return [to_numpy(part.detach()) for part in pytree.tree_leaves(result)]


def operators(program: IRModule) -> list[str]:
    calls = [binding.value for block in program["main"].body.blocks for binding in block]
    return [call.op.name for call in calls if isinstance(call, Call)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("target", ["numpy", "onnxruntime", "torch"])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_gives_what_pytorch_gives(name: str, target: str) -> None:
    module, x = made(name), torch.randn(BATCH, STEPS, SIZE)
    program = rx.from_torch(module, (x,))
    expected = leaves(module(x))
    found = [to_numpy(part) for part in rx.build(program, target=target)["main"](x.numpy())]
    assert_close(found, expected)
    layers = MODULES[name][1].get("num_layers", 1)
    assert len([op for op in operators(program) if op in ("relax.nn.lstm", "relax.nn.gru", "relax.nn.rnn")]) == layers


@pytest.mark.parametrize("target", ["numpy", "onnxruntime", "torch"])
@pytest.mark.parametrize("kind", [torch.nn.LSTMCell, torch.nn.GRUCell, torch.nn.RNNCell])
@pytest.mark.parametrize("bias", [True, False])
def test_a_cell_is_a_layer_of_one_step(kind: type[torch.nn.RNNCellBase], bias: bool, target: str) -> None:
    torch.manual_seed(0)
    cell, x, state = kind(SIZE, HIDDEN, bias=bias), torch.randn(BATCH, SIZE), torch.randn(BATCH, HIDDEN)
    given: Any = (state, state.cos()) if kind is torch.nn.LSTMCell else state
    program = torch.export.export(cell, (x, given), dynamic_shapes=None)
    main = rx.build(rx.from_torch(program), target=target)["main"]
    found = main(*[part.numpy() for part in pytree.tree_leaves((x, given))])
    assert_close([to_numpy(part) for part in pytree.tree_leaves(found)], leaves(cell(x, given)))
    names = [str(node.target) for node in rx.optimize(program).graph.nodes]
    assert sum("_cell" in name for name in names) == 1


def test_the_batch_may_be_dynamic() -> None:
    module = made("lstm_two_layers_both_ways_batch_first")
    program = rx.from_torch(module, (torch.randn(BATCH, STEPS, SIZE),), dynamic_shapes=({0: Dim("batch")},))
    for target in ("numpy", "onnxruntime", "torch"):
        run = rx.build(program, target=target)["main"]
        for batch in (3, 2):
            x = torch.randn(batch, STEPS, SIZE)
            assert_close([to_numpy(part) for part in run(x.numpy())], leaves(module(x)))


class Loss(torch.nn.Module):
    """The sum of a layer's results, each weighted differently."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sequence, last = self.layer(x)
        leaves = last if isinstance(last, tuple) else (last,)
        total = (sequence * torch.arange(sequence.shape[0], dtype=x.dtype).reshape(-1, 1, 1)).sum()
        return total + sum((leaf * (2 + place)).sum() for place, leaf in enumerate(leaves))


@pytest.mark.parametrize("name", ["lstm", "gru_two_layers", "rnn_tanh_both_ways"])
@pytest.mark.parametrize("target", ["numpy", "onnxruntime"])
def test_the_gradient_is_that_of_pytorch(name: str, target: str) -> None:
    module = Loss(made(name)).double()
    x = torch.randn(STEPS, BATCH, SIZE, dtype=torch.float64, requires_grad=True)
    program = rx.from_torch(module, (x.detach(),), keep_params_as_input=True)
    params = program["main"].params
    adjoint = Gradient("main")(program)
    module(x).backward()
    state = dict(module.named_parameters())
    wanted = [x.grad, *[state[name].grad for name in state]]
    assert len(params) == len(wanted)
    values = [x.detach().numpy(), *[state[name].detach().numpy() for name in state]]
    assert [param.ty for param in params] == [TensorType(value.shape, "float64") for value in values]
    _, found = rx.build(adjoint, target=target)["main_adjoint"](*values)
    assert_close([np.asarray(part) for part in found], [to_numpy(part) for part in wanted])


def test_the_gradient_over_steps_that_are_not_known_says_what_to_do() -> None:
    x = Var("x", TensorType((SymVar("steps"), BATCH, SIZE), "float64"))
    weights = [Var(name, TensorType((1, 4 * HIDDEN, size), "float64")) for name, size in (("w", SIZE), ("r", HIDDEN))]
    program = IRModule({"main": Function([x, *weights], ops.sum(nn.lstm(x, *weights)[0]))})
    with pytest.raises(rx.RegraftError, match=r"steps is a symbolic size .*BindSymbolicVars"):
        Gradient("main")(program)
    assert "main_adjoint" in Gradient("main")(BindSymbolicVars({"steps": 6})(program))

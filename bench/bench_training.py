"""A step of training beside PyTorch, what taking a gradient costs beside TVM, and what checkpoints save.

Steps are forward, backward and SGD on one batch, with weights that stay in place from step to step; PyTorch runs
eagerly. Times are the process's own, of all threads (`bench.timing`), so they compare work rather than how much of the
machine was free.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from bench.table import Table
from bench.timing import seconds
from regraft import BlockBuilder, IRModule, TensorType, Var, build
from regraft.convert.torch import from_torch
from regraft.gradient import Gradient
from regraft.script import relax as R
from regraft.training import SGD

RUNS = 7
RATE = 0.01
CHAIN = (1_000, 10_000)
MOST_GROWTH = 1.8
"""How much more a binding of the longer chain may cost: the gradient is linear."""
STAGES = (4, 16)
ELEMENTS = 250_000
MOST_KEPT = 0.5
"""The share of the peak that checkpoints may leave, of many stages."""


class Perceptron(nn.Module):
    """Three layers over flat images."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, x: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.layers(x), answers)


class Encoder(nn.Module):
    """Two layers of a transformer at BERT's full width, and a classifier of the first token."""

    def __init__(self, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(2)])
        self.out = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.up = nn.ModuleList([nn.Linear(width, 4 * width) for _ in range(2)])
        self.down = nn.ModuleList([nn.Linear(4 * width, width) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(4)])
        self.classifier = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        for layer in range(2):
            parts = self.qkv[layer](x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            q, k, v = parts.unbind(0)
            mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
            x = self.norms[2 * layer](x + self.out[layer](mixed))
            x = self.norms[2 * layer + 1](x + self.down[layer](F.gelu(self.up[layer](x))))
        return F.cross_entropy(self.classifier(x[:, 0]), answers)


class ResNet(nn.Module):
    """A stem and four residual blocks on images of 32 x 32, with fixed statistics of the batch norms."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.convs = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(8)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(width) for _ in range(9)])
        self.classifier = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norms[8](self.stem(x))), 2, 2)
        for first in range(0, 8, 2):
            y = F.relu(self.norms[first](self.convs[first](x)))
            x = F.relu(x + self.norms[first + 1](self.convs[first + 1](y)))
        return F.cross_entropy(self.classifier(F.adaptive_avg_pool2d(x, 1).flatten(1)), answers)


class Case(NamedTuple):
    """A model and one batch for it."""

    name: str
    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    classes: int


CASES = (
    Case("perceptron, 64 images", Perceptron, (64, 784), 10),
    Case("BERT of 2 layers, 4 x 64 tokens", Encoder, (4, 64, 768), 3),
    Case("ResNet, 16 images", ResNet, (16, 3, 32, 32), 10),
)

Step = Callable[[], float]


def _torch_step(model: nn.Module, inputs: Sequence[torch.Tensor]) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), RATE)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(*inputs)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _our_step(model: nn.Module, inputs: Sequence[torch.Tensor], target: str) -> Step:
    module = from_torch(model, tuple(inputs), keep_params_as_input=True)
    main = module["main"]
    given = main.params[main.attrs["num_input"] :]
    state = {name.replace(".", "_"): value for name, value in model.state_dict(keep_vars=True).items()}
    tensors = [_state_value(state, param.name_hint) for param in given]
    trained = [i for i, tensor in enumerate(tensors) if tensor.requires_grad]
    required = [given[i] for i in trained]
    optimizer = SGD(RATE).init(required)
    module = Gradient("main", required)(module).with_function("SGD", optimizer.get_function())
    built = build(module, target=target, **({"threads": 1} if target == "onnxruntime" else {}))
    arrays: list[Any] = [tensor.detach().numpy().copy() for tensor in tensors]
    batch = [tensor.numpy() for tensor in inputs]
    states: Any = optimizer.state

    def step() -> float:
        nonlocal states
        result, gradients = built["main_adjoint"](*batch, *arrays)
        new, states = built["SGD"](tuple(arrays[i] for i in trained), tuple(gradients), tuple(states))
        for i, value in zip(trained, new, strict=True):
            arrays[i] = value
        return float(np.asarray(result))

    return step


def _state_value(state: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    plain = name.replace(".", "_")
    return state[plain] if plain in state else state[plain.removeprefix("p_").removeprefix("b_")]


def _steps_table() -> Table:
    rows: list[tuple[str | int | float, ...]] = []
    for case in CASES:
        torch.manual_seed(0)
        model = case.model().eval()
        inputs = (torch.randn(case.shape), torch.randint(0, case.classes, case.shape[:1]))
        ours = {target: _our_step(model, inputs, target) for target in ("onnxruntime", "numpy")}
        theirs = _torch_step(model, inputs)
        losses = {name: [step() for _ in range(3)] for name, step in {**ours, "torch": theirs}.items()}
        for name, found in losses.items():
            np.testing.assert_allclose(found, losses["torch"], rtol=1e-3, err_msg=f"{case.name} on {name}")
        times = [1e3 * seconds(step, RUNS) for step in (ours["onnxruntime"], ours["numpy"], theirs)]
        rows.append((case.name, *times, times[0] / times[2]))
    return Table(
        "A step of training: forward, backward, SGD",
        ("model", "ONNX Runtime, ms", "NumPy, ms", "PyTorch, ms", "ONNX Runtime / PyTorch"),
        tuple(rows),
        "Milliseconds of CPU time of all threads, median. The first three losses agree with PyTorch's to 0.1%.",
    )


def _chain(count: int) -> IRModule:
    x = Var("x", TensorType((16,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value: Any = x
            for index in range(count):
                value = builder.emit(R.tanh(value) if index % 2 else R.add(value, x))
            loss = builder.emit_output(R.sum(value))
        builder.emit_func_output(loss)
    return builder.get()


def _tvm_chain(count: int) -> Callable[[], Any]:
    from tvm import relax

    x = relax.Var("x", relax.TensorType((16,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for index in range(count):
                value = builder.emit(relax.op.tanh(value) if index % 2 else relax.op.add(value, x))
            loss = builder.emit_output(relax.op.sum(value))
        builder.emit_func_output(loss)
    module = builder.get()
    return lambda: relax.transform.Gradient("main")(module)


def _gradient_table() -> Table:
    rows: list[tuple[str | int | float, ...]] = []
    for count in CHAIN:
        module = _chain(count)
        own = seconds(lambda module=module: Gradient("main")(module), 3)
        peer: str | float = "not installed"
        if find_spec("tvm") is not None:
            peer = 1e6 * seconds(_tvm_chain(count), 1) / count
        rows.append((count, 1e6 * own / count, peer))
    growth = float(rows[-1][1]) / float(rows[0][1])
    assert growth < MOST_GROWTH, f"a binding of {CHAIN[-1]} costs {growth:.2f} times one of {CHAIN[0]}"
    return Table(
        "Taking the gradient of a chain",
        ("bindings", "regraft, µs a binding", "TVM, µs a binding"),
        tuple(rows),
        "The whole pass: reverse mode, simplification, and removal of what nothing uses.",
    )


def _stages(stages: int, *, checkpoints: bool) -> IRModule:
    """Stages of six operators each; with ``checkpoints`` only what is between them is kept."""
    x = Var("x", TensorType((ELEMENTS,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value: Any = x
            for _ in range(stages):
                value = builder.emit(R.grad.start_checkpoint(value)) if checkpoints else value
                for _ in range(6):
                    value = builder.emit(R.tanh(value))
                value = builder.emit(R.grad.end_checkpoint(value)) if checkpoints else value
            loss = builder.emit_output(R.sum(value))
        builder.emit_func_output(loss)
    return builder.get()


def _peak(module: IRModule) -> tuple[float, np.ndarray]:
    """The most memory that a run of the gradient holds at a time, in MB, and the gradient."""
    backward = build(Gradient("main")(module), target="numpy")["main_adjoint"]
    x = np.linspace(-1, 1, ELEMENTS, dtype="float32")
    tracemalloc.start()
    try:
        _, (gradient,) = backward(x)
        return tracemalloc.get_traced_memory()[1] / 1e6, np.asarray(gradient)
    finally:
        tracemalloc.stop()


def _checkpoint_table() -> Table:
    rows: list[tuple[str | int | float, ...]] = []
    for stages in STAGES:
        (whole, expected), (marked, found) = [_peak(_stages(stages, checkpoints=given)) for given in (False, True)]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
        rows.append((stages, whole, marked, marked / whole))
    share = float(rows[-1][3])
    assert share < MOST_KEPT, f"checkpoints leave {share:.0%} of the peak at {STAGES[-1]} stages"
    return Table(
        "Peak memory of a gradient, with checkpoints and without",
        ("stages of 6 operators", "without, MB", "with, MB", "with / without"),
        tuple(rows),
        f"Arrays of {ELEMENTS * 4 / 1e6:.0f} MB on the NumPy engine, which frees each value after its last use.",
    )


def run() -> list[Table]:
    """The tables, with our gates: gradients are linear, steps agree with PyTorch's, checkpoints save memory."""
    return [_steps_table(), _gradient_table(), _checkpoint_table()]

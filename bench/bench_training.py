"""Training steps compared with PyTorch and TVM, the cost of gradients, and the savings by the simplifier and
checkpoints.

A step is forward, backward and SGD on one batch, with weights that stay in place from step to step. PyTorch runs
eagerly and compiled, and every library uses one thread. Times are processor times (`bench.timing`), so they do not
depend on other work on the machine.
"""

from __future__ import annotations

import os

os.environ.setdefault("TVM_NUM_THREADS", "1")  # read when TVM starts

import copy
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from bench import models
from bench.table import Table
from bench.timing import least_in_turns, seconds
from bench.training_models import CASES, Case, Encoder, Judged, MeanSquare, Perceptron, ResNet
from regraft import BlockBuilder, IRModule, TensorType, Var, build
from regraft.formats.torch import from_torch
from regraft.gradient import Gradient
from regraft.ir import Expr, Function, Tuple, TupleGetItem, TupleType
from regraft.ir.op import is_call_of
from regraft.passes import FoldBatchnormToConv2D
from regraft.script import relax as R
from regraft.training import SGD

ROUNDS = 7
RATE = 0.01
CHAIN = (1_000, 10_000)
MOST_GROWTH = 1.8
"""The limit for the cost of a binding in the longer chain, relative to the shorter: the gradient is linear."""
STAGES = (4, 16)
ELEMENTS = 250_000
MOST_KEPT = 0.5
"""The limit for the peak with checkpoints, relative to the peak without, for many stages."""


Step = Callable[[], float]


def _torch_step(model: nn.Module, inputs: Sequence[torch.Tensor], *, compiled: bool = False) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    call: Any = torch.compile(model) if compiled else model

    def step() -> float:
        optimizer.zero_grad()
        loss = call(*inputs)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def _program(
    model: nn.Module, inputs: Sequence[Any], options: Mapping[str, Any] | None = None
) -> tuple[IRModule, dict[Var, torch.Tensor | None]]:
    """A model as a program with its weights as parameters, and the value of each; constants have none."""
    module = from_torch(model, tuple(inputs), dict(options or {}), keep_params_as_input=True)
    main = module["main"]
    named = (*model.named_parameters(), *model.named_buffers())
    values = {name.replace(".", "_").lower(): value for name, value in named}
    given = main.params[main.attrs["num_input"] :]
    return module, {param: values.get(param.name_hint[len("p_") :].lower()) for param in given}


def _trained(weights: Mapping[Var, torch.Tensor | None]) -> list[Var]:
    return [param for param, value in weights.items() if value is not None and value.requires_grad]


def _our_step(model: nn.Module, inputs: Sequence[torch.Tensor], target: str) -> Step:
    """A step as one function of the batch, untrained arrays, and weights, which compiled programs update in place."""
    module, weights = _program(model, inputs)
    module = FoldBatchnormToConv2D()(module)
    required = _trained(weights)
    optimizer = SGD(RATE).init(required)
    module = Gradient("main", required)(module).with_function("SGD", optimizer.get_function())
    is_trained = [param in required for param in weights]
    engine, _, is_compiled = target.partition(", ")
    options: dict[str, Any] = {"threads": 1} if engine == "onnxruntime" else {}
    if is_compiled:
        options = {"compile": True, "donate": ("weights", "states")}
    step_of = build(_with_step(module, len(inputs), is_trained), target=engine, **options)["step"]
    arrays = [value.detach().numpy().copy() for value in weights.values() if value is not None]
    batch = [tensor.numpy() for tensor in inputs]
    kept = [array for array, trained in zip(arrays, is_trained, strict=True) if not trained]
    state: Any = tuple(array for array, trained in zip(arrays, is_trained, strict=True) if trained), optimizer.state

    def step() -> float:
        nonlocal state
        result, *state = step_of(*batch, *kept, *state)
        return float(np.asarray(result))

    return step


def _with_step(module: IRModule, inputs: int, is_trained: Sequence[bool]) -> IRModule:
    """The module with ``step(batch, untrained arrays, weights, states)``, which returns loss, weights and states."""
    adjoint, optimizer = module["main_adjoint"], module["SGD"]
    given = [Var(param.name_hint, param.ty) for param in adjoint.params]
    values: list[Expr] = [*given]
    places = [inputs + place for place, trained in enumerate(is_trained) if trained]
    weights = Var("weights", TupleType([given[place].ty for place in places]))
    states = Var("states", optimizer.params[2].ty)
    builder = BlockBuilder()
    with builder.function("step", [*[one for i, one in enumerate(given) if i not in places], weights, states]):
        for number, place in enumerate(places):
            values[place] = builder.emit(TupleGetItem(weights, number))
        found = builder.emit(module.get_global_var("main_adjoint")(*values))
        loss, gradients = (builder.emit(TupleGetItem(found, place)) for place in range(2))
        updated = builder.emit(module.get_global_var("SGD")(weights, gradients, states))
        builder.emit_func_output(Tuple([loss, *[builder.emit(TupleGetItem(updated, place)) for place in range(2)]]))
    return module.with_function("step", builder.get()["step"])


def _tvm_step(model: nn.Module, x: torch.Tensor, answers: torch.Tensor) -> Step | str:
    """The step, or the text for the table if there is none."""
    if find_spec("tvm") is None:
        return "not installed"
    from bench.peers.tvm_training_peer import NoGradientError, training_step

    try:
        return training_step(model, x, answers, RATE)
    except NoGradientError as error:
        return f"no gradient: {error}"


def _step_row(case: Case) -> tuple[str | float, ...]:
    model, x, answers = case.made()
    judged = Judged(model)
    steps: dict[str, Step | str] = {
        "onnxruntime": _our_step(judged, (x, answers), "onnxruntime"),
        "torch, compiled": _our_step(judged, (x, answers), "torch, compiled"),
        "numpy": _our_step(judged, (x, answers), "numpy"),
        "tvm": _tvm_step(model, x, answers),
        "compiled": _torch_step(copy.deepcopy(judged), (x, answers), compiled=True),
        "torch": _torch_step(judged, (x, answers)),
    }
    running = {name: step for name, step in steps.items() if not isinstance(step, str)}
    losses = {name: [step() for _ in range(3)] for name, step in running.items()}
    for name, found in losses.items():
        np.testing.assert_allclose(found, losses["torch"], rtol=1e-3, err_msg=f"{case.name} on {name}")
    times = dict(zip(running, least_in_turns(list(running.values()), ROUNDS), strict=True))
    shown = [1e3 * times[name] if name in times else str(steps[name]) for name in steps]
    best = min(times["onnxruntime"], times["torch, compiled"])
    return (case.name, *shown, best / times["torch"], best / times["compiled"])


def _steps_table() -> Table:
    return Table(
        "A step of training: forward, backward, SGD",
        (
            "model",
            "on ONNX Runtime, ms",
            "on PyTorch, compiled, ms",
            "on NumPy, ms",
            "TVM, ms",
            "PyTorch compiled, ms",
            "PyTorch, ms",
            "ours / PyTorch",
            "ours / PyTorch compiled",
        ),
        tuple(_step_row(case) for case in CASES),
        f"Milliseconds of CPU time on one thread: the least of {ROUNDS} rounds, in which the libraries take turns. "
        "The first three losses of all agree with PyTorch's to 0.1%. Ours fold batch norms, whose statistics are kept, "
        "into convolutions before they take the gradient (`FoldBatchnormToConv2D`). The ratios are of the best of our "
        "engines. TVM imports the model, differentiates it and compiles it by itself, with the schedules of its "
        "default pipeline, untuned; where it lacks a gradient the operator is named.",
    )


# --- the savings by the simplifier


def _published(name: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    model = models.make(name)
    return MeanSquare(model.module), model.args, model.kwargs


def _own(model: Callable[[], nn.Module], *shape: int) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(0)
    return MeanSquare(model().eval()), (torch.randn(shape),), {}


SIMPLIFIED: Final[dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]]] = {
    "MLP": lambda: _own(Perceptron, 64, 784),
    "BERT base": lambda: _published("BERT base"),
    "BERT of 2 layers, one matrix for Q, K, V": lambda: _own(Encoder, 4, 64, 768),
    "GPT-Neo 125M (GPT-2, separate QKV)": lambda: _published("GPT-Neo 125M (GPT-2, separate QKV)"),
    "Llama 3.2 1B": lambda: _published("Llama 3.2 1B"),
    "ResNet": lambda: _own(ResNet, 16, 3, 32, 32),
    "Stable Diffusion 1.5 UNet": lambda: _published("Stable Diffusion 1.5 UNet"),
}


def _counts(function: Function) -> tuple[int, int]:
    """The number of transposes in ``function``, and the number of its bindings."""
    values = [binding.value for block in function.body.blocks for binding in block.bindings]
    return sum(is_call_of(value, "relax.permute_dims") for value in values), len(values)


def _simplifier_table() -> Table:
    rows: list[tuple[str | int, ...]] = []
    for name, make in SIMPLIFIED.items():
        model, inputs, options = make()
        module, weights = _program(model, inputs, options)
        required = _trained(weights)
        forward = _counts(module["main"])
        plain, tidy = (
            _counts(Gradient("main", required, simplify=simplify)(module)["main_adjoint"]) for simplify in (False, True)
        )
        saved = [before - after for before, after in zip(plain, tidy, strict=True)]
        rows.append((name, forward[0], plain[0], tidy[0], saved[0], plain[1], tidy[1], saved[1]))
    return Table(
        "What the simplifier takes away",
        (
            "model",
            "transposes of the model",
            "with its gradient",
            "simplified",
            "removed",
            "bindings with its gradient",
            "simplified",
            "removed",
        ),
        tuple(rows),
        "The model, forward and backward, with the gradient of every weight; full depth, and the mean square of the "
        "first output as the loss.",
    )


# --- the cost of a gradient


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


# --- the savings by checkpoints


def _stages(stages: int, *, checkpoints: bool) -> IRModule:
    """A program of stages of six operators each; with ``checkpoints``, only the values between stages are kept."""
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
    """The peak memory of a run of the gradient in MB, and the gradient."""
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
    torch.set_num_threads(1)
    return [_steps_table(), _simplifier_table(), _gradient_table(), _checkpoint_table()]

"""From the same start, every optimizer takes the steps that PyTorch's takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regraft import training
from tests.training.models import LABELS, LOGITS, MODELS, batches, digits

STEPS = 50

OPTIMIZERS: dict[str, tuple[Any, Any]] = {
    "SGD": (lambda: training.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "SGD with decay": (
        lambda: training.SGD(0.1, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01),
    ),
    "MomentumSGD": (
        lambda: training.MomentumSGD(0.05, 0.9, weight_decay=0.001),
        lambda p: torch.optim.SGD(p, 0.05, 0.9, weight_decay=0.001),
    ),
    "MomentumSGD with Nesterov": (
        lambda: training.MomentumSGD(0.05, 0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.05, 0.9, nesterov=True),
    ),
    "Adam": (lambda: training.Adam(0.003), lambda p: torch.optim.Adam(p, 0.003)),
    "Adam with decay": (
        lambda: training.Adam(0.003, (0.8, 0.99), 1e-6, 0.01),
        lambda p: torch.optim.Adam(p, 0.003, (0.8, 0.99), 1e-6, 0.01),
    ),
    "AdamW": (lambda: training.AdamW(0.003), lambda p: torch.optim.AdamW(p, 0.003)),
}


def torch_losses(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: list[Any]) -> list[float]:
    losses: list[float] = []
    for images, labels in steps:
        loss = torch.nn.functional.cross_entropy(model(torch.from_numpy(images)), torch.from_numpy(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("target", ["numpy", "onnxruntime"])
def test_the_loss_of_each_of_the_first_steps_is_that_of_pytorch(optimizer: str, target: str) -> None:
    ours, theirs = OPTIMIZERS[optimizer]
    images, labels, *_ = digits()
    steps = batches(images, labels, 32) * 2
    torch.manual_seed(0)
    model = MODELS["perceptron"].torch()
    setup = training.SetupTrainer(training.CrossEntropyLoss(), ours(), [LOGITS, LABELS])
    trainer = training.Trainer(setup(MODELS["perceptron"].module), target=target)
    trainer.load_params(model.arrays())
    found = trainer.train(steps[:STEPS])
    expected = torch_losses(model, theirs(model.parameters()), steps[:STEPS])
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
    assert found[-1] < 0.9 * found[0]
    for got, want in zip(trainer.export_params().values(), model.arrays(), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("target", ["numpy", "onnxruntime"])
def test_a_convolutional_net_takes_the_steps_of_pytorch(target: str) -> None:
    images, labels, *_ = digits()
    steps = (batches(images, labels, 32) * 2)[:STEPS]
    torch.manual_seed(0)
    model = MODELS["convolutional"].torch()
    setup = training.SetupTrainer(training.CrossEntropyLoss(), training.MomentumSGD(0.02, 0.9), [LOGITS, LABELS])
    trainer = training.Trainer(setup(MODELS["convolutional"].module), target=target)
    trainer.load_params(model.arrays())
    trainer.load_states([np.zeros(8, "float32"), np.ones(8, "float32")])
    found = trainer.train(steps)
    expected = torch_losses(model, torch.optim.SGD(model.parameters(), 0.02, 0.9), steps)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)
    states = trainer.export_states()
    np.testing.assert_allclose(states["mean"], model.norm.running_mean.numpy(), rtol=1e-3, atol=1e-5)

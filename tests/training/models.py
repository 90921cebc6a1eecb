"""Models that the tests of training share, each as a program and as the same in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from regraft.ir import IRModule, SymVar, TensorType
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.script import tir as T

BATCH = SymVar("batch")
LOGITS = TensorType((BATCH, 10), "float32")
LABELS = TensorType((BATCH,), "int64")


@I.ir_module
class Perceptron:
    I.module_attrs({"param_num": 4, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor(("n", 64), "float32"),
        w1: R.Tensor((64, 48), "float32"),
        b1: R.Tensor((48,), "float32"),
        w2: R.Tensor((48, 10), "float32"),
        b2: R.Tensor((10,), "float32"),
    ):
        with R.dataflow():
            hidden = R.nn.relu(R.matmul(x, w1) + b1)
            logits = R.matmul(hidden, w2) + b2
            R.output(logits)
        return logits


@I.ir_module
class ConvolutionalNet:
    I.module_attrs({"param_num": 8, "state_num": 2})

    @R.function
    def backbone(
        x: R.Tensor(("n", 64), "float32"),
        k1: R.Tensor((8, 1, 3, 3), "float32"),
        gamma: R.Tensor((8,), "float32"),
        beta: R.Tensor((8,), "float32"),
        k2: R.Tensor((16, 8, 3, 3), "float32"),
        w1: R.Tensor((64, 32), "float32"),
        b1: R.Tensor((32,), "float32"),
        w2: R.Tensor((32, 10), "float32"),
        b2: R.Tensor((10,), "float32"),
        mean: R.Tensor((8,), "float32"),
        variance: R.Tensor((8,), "float32"),
    ):
        n = T.int64()
        with R.dataflow():
            image = R.reshape(x, (n, 1, 8, 8))
            first = R.nn.batch_norm(R.nn.conv2d(image, k1, padding=1), gamma, beta, mean, variance, axis=1)
            pooled = R.nn.max_pool2d(R.nn.relu(first[0]), 2, 2)
            second = R.nn.avg_pool2d(R.nn.relu(R.nn.conv2d(pooled, k2, padding=1)), 2, 2)
            hidden = R.nn.relu(R.matmul(R.reshape(second, (n, 64)), w1) + b1)
            logits = R.matmul(hidden, w2) + b2
            new_mean = first[1]
            new_variance = first[2]
            R.output(logits, new_mean, new_variance)
        return logits, new_mean, new_variance


class TorchPerceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 48), nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))

    def arrays(self) -> list[np.ndarray]:
        """The parameters, as the program has them."""
        layers = (self.first, self.second)
        return [a.detach().numpy().copy() for layer in layers for a in (layer.weight.T, layer.bias)]


class TorchConvolutionalNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.third, self.fourth = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x.reshape(-1, 1, 8, 8))))
        x = torch.nn.functional.max_pool2d(x, 2, 2)
        x = torch.nn.functional.avg_pool2d(torch.relu(self.second(x)), 2, 2)
        return self.fourth(torch.relu(self.third(x.flatten(1))))

    def arrays(self) -> list[np.ndarray]:
        """The parameters, as the program has them."""
        third, fourth = self.third, self.fourth
        given = [self.first.weight, self.norm.weight, self.norm.bias, self.second.weight]
        given += [third.weight.T, third.bias, fourth.weight.T, fourth.bias]
        return [array.detach().numpy().copy() for array in given]


class Model(NamedTuple):
    """A program, and the same in PyTorch."""

    module: IRModule
    torch: Callable[[], nn.Module]


MODELS = {
    "perceptron": Model(Perceptron, TorchPerceptron),
    "convolutional": Model(ConvolutionalNet, TorchConvolutionalNet),
}


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scikit-learn's handwritten digits: images (n, 64) and labels to train on, and those to test with."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = (images[order] / 16.0).astype("float32"), labels[order].astype("int64")
    return images[:1400], labels[:1400], images[1400:], labels[1400:]


def batches(images: np.ndarray, labels: np.ndarray, size: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """All of them in batches of ``size``, in an order of their own."""
    order = np.random.default_rng(seed).permutation(len(images))
    parts = [order[start : start + size] for start in range(0, len(images) - size + 1, size)]
    return [(images[part], labels[part]) for part in parts]

"""The models whose training is timed: they compute logits, and `Judged` adds the loss.

They have no dropout, and their batch norms have fixed statistics, so that every library takes the same steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F


class Perceptron(nn.Module):
    """Three layers over flat images."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


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

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        for layer in range(2):
            parts = self.qkv[layer](x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            q, k, v = parts.unbind(0)
            mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
            x = self.norms[2 * layer](x + self.out[layer](mixed))
            x = self.norms[2 * layer + 1](x + self.down[layer](F.gelu(self.up[layer](x))))
        return self.classifier(x[:, 0])


class ResNet(nn.Module):
    """A stem and four residual blocks on images of 32 x 32."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.convs = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(8)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(width) for _ in range(9)])
        self.classifier = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norms[8](self.stem(x))), 2, 2)
        for first in range(0, 8, 2):
            y = F.relu(self.norms[first](self.convs[first](x)))
            x = F.relu(x + self.norms[first + 1](self.convs[first + 1](y)))
        return self.classifier(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Judged(nn.Module):
    """A model and the cross entropy of its logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.model(x), answers)


class MeanSquare(nn.Module):
    """A model and the mean square of its first output, which serves as a loss for models without one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Any, **options: Any) -> torch.Tensor:
        result = self.model(*inputs, **options)
        first = result if isinstance(result, torch.Tensor) else result[0]
        return first.square().mean()


class Case(NamedTuple):
    """A model and one batch for it."""

    name: str
    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    classes: int

    def made(self) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
        """The model, a batch of inputs, and their classes; the same each time."""
        torch.manual_seed(0)
        model = self.model().eval()
        return model, torch.randn(self.shape), torch.randint(0, self.classes, self.shape[:1])


CASES: Final = (
    Case("perceptron, 64 images", Perceptron, (64, 784), 10),
    Case("BERT of 2 layers, 4 x 64 tokens", Encoder, (4, 64, 768), 3),
    Case("ResNet, 16 images", ResNet, (16, 3, 32, 32), 10),
)

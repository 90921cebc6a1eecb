"""Whole models in PyTorch, each of which computes its own loss: what real gradients are held against."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Gpt2Block(nn.Module):
    """Embeddings, one block with causal attention, and the loss of the next token, as in GPT-2."""

    def __init__(self, vocabulary: int = 31, width: int = 24, heads: int = 3) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(16, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, tokens: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        batch, length = tokens.shape
        x = self.tokens(tokens) + self.places(torch.arange(length))
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        x = x + self.down(F.gelu(self.up(self.norms[1](x)), approximate="tanh"))
        logits = self.norms[2](x) @ self.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1), answers.flatten())

    @staticmethod
    def inputs() -> tuple[torch.Tensor, ...]:
        return torch.randint(0, 31, (2, 7)), torch.randint(0, 31, (2, 7))


class LlamaBlock(nn.Module):
    """A block with RMS norms, rotary positions, heads that share keys, and a gated network, as in Llama."""

    def __init__(self, width: int = 24, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        size = width // heads
        self.heads, self.groups, self.size = heads, groups, size
        self.norms = nn.ParameterList([nn.Parameter(torch.rand(width) + 0.5) for _ in range(2)])
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = [nn.Linear(width, groups * size, bias=False) for _ in range(2)]
        self.gate, self.up = [nn.Linear(width, 40, bias=False) for _ in range(2)]
        self.down = nn.Linear(40, width, bias=False)

    def rotated(self, x: torch.Tensor) -> torch.Tensor:
        rates = 1.0 / (10000.0 ** (torch.arange(0, self.size, 2, dtype=x.dtype) / self.size))
        angles = torch.outer(torch.arange(x.shape[2], dtype=x.dtype), rates)
        angles = torch.cat([angles, angles], -1)
        left, right = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-right, left], -1) * angles.sin()

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape

        def split(values: torch.Tensor, heads: int) -> torch.Tensor:
            return values.view(batch, length, heads, self.size).transpose(1, 2)

        normal = self.normalized(x, self.norms[0])
        q, k = [
            self.rotated(split(*pair)) for pair in ((self.query(normal), self.heads), (self.key(normal), self.groups))
        ]
        v = split(self.value(normal), self.groups)
        k, v = [values.repeat_interleave(self.heads // self.groups, 1) for values in (k, v)]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        normal = self.normalized(x, self.norms[1])
        x = x + self.down(F.silu(self.gate(normal)) * self.up(normal))
        return F.mse_loss(x, target)

    @staticmethod
    def normalized(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    @staticmethod
    def inputs() -> tuple[torch.Tensor, ...]:
        return torch.randn(2, 5, 24), torch.randn(2, 5, 24)


class BertLayer(nn.Module):
    """Attention and a network, each followed by a layer norm, with attention written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = [nn.Linear(width, width) for _ in range(4)]
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.heads = heads

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape

        def split(layer: nn.Module) -> torch.Tensor:
            return layer(x).view(batch, length, self.heads, -1).transpose(1, 2)

        scores = split(self.query) @ split(self.key).transpose(-1, -2) / (width // self.heads) ** 0.5 + mask
        mixed = (F.softmax(scores, -1) @ split(self.value)).transpose(1, 2).reshape(batch, length, width)
        x = self.first(x + F.dropout(self.out(mixed), 0.1, self.training))
        return self.second(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Two layers of BERT at full width, a padding mask, and a classifier of the first token."""

    def __init__(self, vocabulary: int = 50, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.words, self.places, self.kinds = [nn.Embedding(n, width) for n in (vocabulary, 12, 2)]
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList([BertLayer(width, heads) for _ in range(2)])
        self.pooler, self.classifier = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, tokens: torch.Tensor, kinds: torch.Tensor, mask: torch.Tensor, answer: torch.Tensor) -> Any:
        x = self.norm(self.words(tokens) + self.places(torch.arange(tokens.shape[1])) + self.kinds(kinds))
        hidden = (1.0 - mask)[:, None, None, :] * -1e9
        for layer in self.layers:
            x = layer(x, hidden)
        return F.cross_entropy(self.classifier(torch.tanh(self.pooler(x[:, 0]))), answer)

    @staticmethod
    def inputs() -> tuple[torch.Tensor, ...]:
        mask = torch.ones(2, 9)
        mask[1, 6:] = 0
        return torch.randint(0, 50, (2, 9)), torch.randint(0, 2, (2, 9)), mask, torch.randint(0, 3, (2,))


class ResidualBlock(nn.Module):
    """Two convolutions with batch norms around a shortcut."""

    def __init__(self, channels: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs) for _ in range(3)])
        self.shortcut = nn.Conv2d(channels, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(y + self.norms[2](self.shortcut(x)))


class ResNet(nn.Module):
    """A stem with max pooling, two stages of blocks, mean pooling and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 6, 7, 2, 3, bias=False), nn.BatchNorm2d(6)
        self.blocks = nn.Sequential(ResidualBlock(6, 6, 1), ResidualBlock(6, 10, 2), ResidualBlock(10, 10, 1))
        self.classifier = nn.Linear(10, 5)

    def forward(self, x: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        x = F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1)
        return F.cross_entropy(self.classifier(x), answers)

    @staticmethod
    def inputs() -> tuple[torch.Tensor, ...]:
        return torch.randn(2, 3, 23, 26), torch.randint(0, 5, (2,))


class UNet(nn.Module):
    """Down, across and up again with group norms, a transposed convolution, resizing, and shortcuts across."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.across = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 8, 3, 2, 1)
        self.middle, self.grow = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2), nn.ConvTranspose2d(8, 6, 2, 2)
        self.join, self.leave = nn.Conv2d(12, 6, 3, padding=1), nn.Conv2d(12, 2, 1)
        self.norms = nn.ModuleList([nn.GroupNorm(2, n) for n in (6, 8, 8, 6)])

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        top = F.silu(self.norms[0](self.enter(x)))
        low = F.silu(self.norms[1](self.across(top)))
        low = low + F.silu(self.norms[2](self.middle(low)))
        joined = F.silu(self.norms[3](self.join(torch.cat([self.grow(low), top], 1))))
        wide = F.interpolate(F.avg_pool2d(joined, 2), scale_factor=2, mode="bilinear", align_corners=False)
        near = F.interpolate(top[:, :, ::2, ::2], scale_factor=2, mode="nearest")
        return F.mse_loss(self.leave(torch.cat([wide, near], 1)), target)

    @staticmethod
    def inputs() -> tuple[torch.Tensor, ...]:
        return torch.randn(2, 2, 8, 12), torch.randn(2, 2, 8, 12)


MODELS: dict[str, Any] = {
    "GPT-2 block": Gpt2Block,
    "Llama block": LlamaBlock,
    "BERT of 2 layers": Bert,
    "ResNet": ResNet,
    "UNet": UNet,
}

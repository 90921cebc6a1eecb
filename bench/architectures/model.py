"""One architecture: the construction of a small model of it, and the inputs that it is tried with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("DIFFUSERS_VERBOSITY", "error")

import torch
from torch import nn
from torch.utils import _pytree as pytree

VOCABULARY: Final = 60
"""The number of words that a model knows."""


@dataclass(frozen=True, slots=True)
class Example:
    """A module in eval mode and inputs for it."""

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def tensors(self) -> list[torch.Tensor]:
        """The inputs in the order in which a program takes them."""
        return tensors_of((self.args, dict(self.kwargs)))

    def results(self) -> list[torch.Tensor]:
        """The results of the module itself."""
        with torch.no_grad():
            return tensors_of(self.module(*self.args, **self.kwargs))


@dataclass(frozen=True, slots=True)
class Architecture:
    """A published architecture at a small size: all kinds of its layers, few of each, random weights."""

    name: str
    build: Callable[[], Example]

    def example(self) -> Example:
        """The model and its inputs, the same each time; every part of the model has an effect.

        A new model has zeros and ones in its vectors, zeros in some matrices, and small numbers in the others.
        """
        torch.manual_seed(0)
        made = self.build()
        with torch.no_grad():
            for parameter in made.module.parameters():
                if parameter.ndim == 1:
                    parameter.add_(torch.randn_like(parameter) * 0.1)
                elif parameter.ndim > 1:
                    parameter.normal_(std=parameter[0].numel() ** -0.5)
        made.module.eval()
        return made


def tensors_of(values: Any) -> list[torch.Tensor]:
    """The tensors of nested values, in PyTorch's order."""
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


class Method(nn.Module):
    """A module whose ``forward`` is a given function of another module and the inputs."""

    def __init__(self, inner: nn.Module, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.inner = inner
        self._forward = forward

    def forward(self, *args: torch.Tensor) -> Any:
        return self._forward(self.inner, *args)


def words(batch: int = 2, length: int = 8) -> torch.Tensor:
    """Random words without special ones."""
    return torch.randint(5, VOCABULARY, (batch, length))


def text(batch: int = 2, length: int = 8) -> dict[str, torch.Tensor]:
    """Two sentences, the first of them shorter."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, -2:] = 0
    return {"input_ids": words(batch, length), "attention_mask": mask}


def image(size: int = 32, batch: int = 1) -> dict[str, torch.Tensor]:
    """A square picture in three colours."""
    return {"pixel_values": torch.randn(batch, 3, size, size)}


def from_transformers(model: str, config: Any, inputs: Callable[[], Mapping[str, Any]]) -> Callable[[], Example]:
    """A class of transformers, made from the arguments of its configuration (or from a whole configuration)."""

    def build() -> Example:
        import transformers

        kind: Any = getattr(transformers, model)
        made = kind.config_class(**config) if isinstance(config, dict) else config()
        if hasattr(made, "use_cache"):
            made.use_cache = False
        return Example(kind(made), kwargs=inputs())

    return build


def from_diffusers(model: str, config: dict[str, Any], inputs: Callable[[], Any]) -> Callable[[], Example]:
    """A class of diffusers, made from the arguments of its constructor."""

    def build() -> Example:
        import diffusers

        given = inputs()
        module = getattr(diffusers, model)(**config)
        return Example(module, kwargs=given) if isinstance(given, dict) else Example(module, given)

    return build

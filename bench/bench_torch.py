"""Models in PyTorch itself: the originals, and the results of `to_torch` after `optimize`, eager and compiled.

"Compiled" is `torch.compile` with its default backend, if there is a C++ compiler for it. Takes some four minutes,
mostly for compiling.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch
from torch import nn
from torch.utils import _pytree as pytree

import regraft as rx
from bench.models import Model, bert, stable_diffusion_15, vit
from bench.table import Table
from bench.timing import least_in_turns

MODELS: Final[dict[str, Callable[[], Model]]] = {
    "Stable Diffusion 1.5 UNet, a tenth of the width": stable_diffusion_15,
    "BERT base, 384 wide, 2 x 64 words": lambda: bert(width=384, tokens=64),
    "ViT base, 384 wide, 2 x 17 patches": lambda: vit(width=384),
}
_ROUNDS: Final = 7
_TOLERANCE: Final = 1e-3
"""The largest allowed difference from the model, relative to the largest element, for compiled code as well."""


def run() -> list[Table]:
    """Time forward passes; raise an error if one of the forms gives another result."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: list[tuple[str | int | float, ...]] = []
    compiles = any(shutil.which(name) for name in ("c++", "g++", "clang++"))
    for name, build in MODELS.items():
        torch.manual_seed(0)
        model = build()
        model.module.eval()
        program = model.program()
        optimized = rx.optimize(program)
        ways: dict[str, nn.Module] = {
            "eager": model.module,
            "back": rx.to_torch(program, share_memory=True),
            "optimized": rx.to_torch(optimized, share_memory=True),
        }
        if compiles:
            torch._dynamo.reset()
            ways["compiled"] = torch.compile(model.module)
            ways["optimized, compiled"] = torch.compile(ways["optimized"])
        times = _least(ways, model)
        rows.append((name, *[times.get(way, "–") for way in _COLUMNS]))
    return [
        Table(
            "A forward pass in PyTorch, in milliseconds",
            ("model", *_COLUMNS.values()),
            tuple(rows),
            f"CPU time of one thread, the least of {_ROUNDS} rounds in turns, float32, without gradients. PyTorch "
            f"{torch.__version__.partition('+')[0]}. “Back” is read and given back without rewriting, “optimized” "
            "at the default level.",
        )
    ]


_COLUMNS: Final = {
    "eager": "eager",
    "back": "back, eager",
    "optimized": "optimized, eager",
    "compiled": "torch.compile",
    "optimized, compiled": "optimized, torch.compile",
}


def _least(ways: Mapping[str, nn.Module], model: Model) -> dict[str, float]:
    """The milliseconds of a run of each form."""
    expected = _results(model.module, model)
    for name, module in ways.items():
        for got, want in zip(_results(module, model), expected, strict=True):
            difference = float((got - want).abs().max() / want.abs().max())
            if not difference <= _TOLERANCE:
                raise AssertionError(f"{name}: differs by {difference:g}")
    times = least_in_turns([partial(_results, module, model) for module in ways.values()], _ROUNDS)
    return {name: time * 1000 for name, time in zip(ways, times, strict=True)}


def _results(module: nn.Module, model: Model) -> list[torch.Tensor]:
    with torch.no_grad():
        found: Any = module(*model.args, **model.kwargs)
    return [leaf for leaf in pytree.tree_leaves(found) if isinstance(leaf, torch.Tensor)]

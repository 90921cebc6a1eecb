"""Activations that ONNX Runtime's optimizers write, some with a bias that is added first.

They follow ONNX Runtime's documentation of its contributed operators; the tests compare them with its CPU kernels.
"""

from __future__ import annotations

from typing import Any

from ....ir.op import Trait
from ...declare import meaning_of
from ...rules import same_float_type
from ...semantics import cast, dtype_name, widened
from .declaring import contributed


@contributed("Gelu", same_float_type, traits=(Trait.ELEMENTWISE,))
def gelu(xp: Any, x: Any) -> Any:
    """The Gaussian error linear unit, computed with the error function."""
    return meaning_of("relax.nn.gelu", xp, x)


@contributed("BiasGelu", same_float_type)
def bias_gelu(xp: Any, a: Any, b: Any) -> Any:
    """The `gelu` of ``a + b``; ``b`` has one element for each index of the last axis."""
    return meaning_of("relax.nn.gelu", xp, a + b)


@contributed("FastGelu", same_float_type)
def fast_gelu(xp: Any, x: Any, bias: Any = None) -> Any:
    """The tanh approximation of `gelu`, of ``x + bias``."""
    return meaning_of("relax.nn.gelu_tanh", xp, x if bias is None else x + bias)


@contributed("QuickGelu", same_float_type, traits=(Trait.ELEMENTWISE,))
def quick_gelu(xp: Any, x: Any, *, alpha: float = 1.702) -> Any:
    """``x * sigmoid(alpha * x)``."""
    wide = widened(xp, x)
    return cast(xp, wide / (xp.exp(wide * -alpha) + 1.0), dtype_name(x.dtype))

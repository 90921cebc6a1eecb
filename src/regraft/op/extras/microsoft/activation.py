"""Activations that ONNX Runtime's optimizers write, some with a bias that is added first.

The meanings are those of ONNX Runtime's documentation of its contributed operators; the tests hold them against its
CPU kernels.
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
    """Gaussian error linear unit, by the error function."""
    return meaning_of("relax.nn.gelu", xp, x)


@contributed("BiasGelu", same_float_type)
def bias_gelu(xp: Any, a: Any, b: Any) -> Any:
    """`gelu` of the sum of ``a`` and ``b``, which has one element for each of the last axis."""
    return meaning_of("relax.nn.gelu", xp, a + b)


@contributed("FastGelu", same_float_type)
def fast_gelu(xp: Any, x: Any, bias: Any = None) -> Any:
    """`gelu` by the hyperbolic tangent, of the sum of ``x`` and ``bias``."""
    return meaning_of("relax.nn.gelu_tanh", xp, x if bias is None else x + bias)


@contributed("QuickGelu", same_float_type, traits=(Trait.ELEMENTWISE,))
def quick_gelu(xp: Any, x: Any, *, alpha: float = 1.702) -> Any:
    """``x * sigmoid(alpha * x)``."""
    wide = widened(xp, x)
    return cast(xp, wide / (xp.exp(wide * -alpha) + 1.0), dtype_name(x.dtype))

"""The layers that are quantized: products with constant weights, found by one pattern.

All passes of this package find layers here, so that they name and count the same ones.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

import numpy as np

from ...analysis.values import call_of
from ...ir.expr import Constant, Expr, Var
from ...ir.op import Call
from ...ir.program import Function
from ...ir.types import TensorType
from ...pattern import PatternContext, is_const, is_op, wildcard
from ...rewrite import Bindings, Decline, decline

CONVOLUTIONS: Final[tuple[str, ...]] = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
TRANSPOSED: Final[tuple[str, ...]] = tuple(f"{name}_transpose" for name in CONVOLUTIONS)
ACTIVATIONS: Final = ("relax.nn.relu", "relax.nn.relu6", "relax.clip")
"""The activations that a convolution's kernel can compute together with it."""

KEPT: Final = "it keeps its precision, as requested"
"""The reason why a layer in ``keep`` is left unchanged."""

with PatternContext() as PRODUCT:
    _data, _weights = wildcard(), is_const()
    _turned = is_op("relax.permute_dims")(_weights)
    _matmul = is_op("relax.matmul")(_data, _weights | _turned)


class Product(NamedTuple):
    """``data @ weights``, bound to ``var``; ``constant`` is the weights, or their transpose if ``is_turned``."""

    var: Var
    data: Expr
    constant: Constant
    is_turned: bool

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the source model's tensors that the weights are, or are computed from."""
        return sources_of(self.constant)

    def weights(self) -> np.ndarray:
        """The weights, of shape (k, m). If they are read from a file, the numbers are not kept in memory."""
        array = self.constant.data.read()
        return array.T if self.is_turned else array


def product_of(matchings: dict[Any, Any], bindings: Bindings, keep: Collection[str], least: int) -> Product | Decline:
    """The layer that `PRODUCT` matched, or the reason not to use it: it is to be kept, too small, or not float32."""
    var = matchings[_matmul]
    call = call_of(bindings, var)
    if var.name_hint in keep:
        return decline(KEPT)
    constant = matchings[_weights]
    assert isinstance(constant, Constant)
    if constant.data.dtype != "float32" or not is_float32(matchings[_data]) or not is_float32(call):
        return decline("only float32 products are quantized")
    if len(constant.data.shape) != 2:
        return decline("its weights do not have two axes")
    if constant.data.size < least:
        return decline(f"weights of fewer than {least} numbers gain nothing")
    return Product(
        var, matchings[_data], constant, _turned in matchings and _turns(call_of(bindings, matchings[_turned]))
    )


def _turns(permuted: Call) -> bool:
    axes = permuted.attrs.axes
    return axes is None or [axis % 2 for axis in axes] == [1, 0]


def measurable(function: Function) -> frozenset[Var]:
    """The values that every run computes: parameters and bindings of the body, but no bindings of branches."""
    return frozenset([*function.params, *(binding.var for block in function.body.blocks for binding in block)])


def is_float32(expr: Expr) -> bool:
    """True if ``expr`` is a float32 tensor."""
    return isinstance(expr.ty, TensorType) and expr.ty.dtype == "float32"


def sources_of(constant: Constant) -> tuple[str, ...]:
    """The names of the source model's tensors that a constant is, or is computed from."""
    data = constant.data
    return data.sources if data.name is None else (data.name,)

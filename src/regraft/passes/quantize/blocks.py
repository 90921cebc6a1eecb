"""QuantizeWeights: store weights in 8 or 4 bits, in blocks with one scale each; nothing else changes."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping, MutableSet
from typing import Any, Final, NamedTuple

import numpy as np

from ... import op as ops
from ...analysis.values import call_of
from ...ir.expr import Constant, Expr, Var, const
from ...ir.module import IRModule
from ...ir.op import Call, Op
from ...ir.program import Function
from ...ir.tensor_data import TensorData, packed
from ...ir.types import TensorType
from ...pattern import PatternContext, is_const, is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, RuleSet, decline
from ..context import PassContext, PassError
from ..passes import FunctionPass, Pass
from .layers import KEPT, PRODUCT, Product, product_of, sources_of
from .weights import block_error, in_asymmetric_blocks, in_blocks

with PatternContext() as _LOOKUP:
    _table, _places = is_const(), wildcard()
    _taken = is_op("relax.take")(_table, _places)


class _Stored(NamedTuple):
    """Weights as they are stored: codes (columns, blocks, bytes of a block), scales and zeros (columns, blocks)."""

    codes: Constant
    scales: Constant
    zeros: np.ndarray | None
    bits: int


class _BlockQuantization:
    """The state of one run of the pass, and the rewriters of its rules.

    A tensor with several uses is stored once, such as an embedding table that the last product reads transposed.
    """

    def __init__(
        self,
        bits: int,
        block: int,
        keep: frozenset[str],
        least: int,
        most_error: float | None,
        errors: MutableMapping[str, float],
        wide: MutableSet[str],
        *,
        asymmetric: bool,
        one_lookup: bool,
    ) -> None:
        self._most_error: Final = most_error
        self._errors: Final = errors
        self._wide: Final = wide
        self._asymmetric: Final = asymmetric
        self._one_lookup: Final = one_lookup and not asymmetric
        self._bits: Final = bits
        self._block: Final = block
        self._keep: Final = keep
        self._least: Final = least
        self._stored: Final[dict[tuple[int, bool, int], _Stored]] = {}

    def rules(self) -> RuleSet:
        """The rules: products first, then look-ups in tables."""
        return RuleSet(
            [Rule(PRODUCT, self._product, "quantize_weights"), Rule(_LOOKUP, self._lookup, "quantize_table")]
        )

    def _store(self, var: Var, constant: Constant, *, is_turned: bool, weights: np.ndarray) -> _Stored | Decline:
        """``weights`` (rows, columns) of the layer ``var``, stored; ``constant`` is the weights or their transpose.

        If 4 bits err too much, 8 bits are used; if these err too much as well, the weights are not stored.
        """
        widths = (8,) if var.name_hint in self._wide else (self._bits, 8) if self._most_error else (self._bits,)
        problem: Decline | None = None
        for bits in dict.fromkeys(widths):
            key = id(constant.data), is_turned, bits
            if key not in self._stored:
                make = in_asymmetric_blocks if self._asymmetric else in_blocks
                found = make(weights, bits, self._block)
                codes = Constant(TensorData(found.codes, None, sources_of(constant)))
                self._stored[key] = _Stored(codes, const(found.scales), found.zeros, bits)
            problem = self._too_far(var, weights, self._stored[key])
            if problem is None:
                if bits != self._bits:
                    self._wide.add(var.name_hint)
                return self._stored[key]
            self._stored.pop(key)
        assert problem is not None
        return problem

    def _product(self, matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        layer = product_of(matchings, bindings, self._keep, self._least)
        if not isinstance(layer, Product):
            return layer
        stored = self._store(layer.var, layer.constant, is_turned=layer.is_turned, weights=layer.weights())
        if isinstance(stored, Decline):
            return stored
        zeros = None if stored.zeros is None else const(packed(stored.zeros, stored.bits))
        operands = layer.data, stored.codes, stored.scales, zeros
        return {layer.var: ops.matmul_blocks(*operands, bits=stored.bits, block_size=self._block)}

    def _too_far(self, var: Var, weights: np.ndarray, stored: _Stored) -> Decline | None:
        """The reason to leave the layer, if its own error is to be checked and is too large; None otherwise."""
        if self._most_error is None:
            return None
        error = block_error(weights, stored.codes.data.numpy(), stored.scales.data.numpy(), stored.zeros, stored.bits)
        self._errors[var.name_hint] = error
        if error <= self._most_error:
            return None
        return decline(f"alone it has an error of {error:.3g}, where {self._most_error:.3g} is allowed")

    def _lookup(self, matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        var, table, places = matchings[_taken], matchings[_table], matchings[_places]
        call, ty = call_of(bindings, var), places.ty
        if var.name_hint in self._keep:
            return decline(KEPT)
        if table.data.dtype != "float32" or len(table.data.shape) != 2 or call.attrs.axis not in (0, -2):
            return decline("only float32 tables whose rows are looked up are quantized")
        if any(table.data is stored.scales.data for stored in self._stored.values()):
            return decline("these are scales of blocks")
        if table.data.size < self._least:
            return decline(f"weights of fewer than {self._least} numbers gain nothing")
        if not isinstance(ty, TensorType) or ty.shape is None:
            return decline("the sizes of the table are not known")
        stored = self._store(var, table, is_turned=True, weights=table.data.read().T)
        if isinstance(stored, Decline):
            return stored
        whole = self._whole_rows(stored, places, call, ty)
        width = table.data.shape[1]
        if width == stored.codes.data.shape[1] * self._block:
            return {var: whole}
        return {var: ops.strided_slice(whole, [len(ty.shape)], [0], [width])}

    def _whole_rows(self, stored: _Stored, places: Expr, call: Call, ty: TensorType) -> Expr:
        """The rows of a table at ``places``, of type ``ty``, with the last block padded."""
        assert ty.shape is not None
        sizes = [*ty.shape, stored.codes.data.shape[1] * self._block]
        if self._one_lookup:
            # These are the codes that the last product reads, so a shared table is in memory once.
            scales = ops.reshape(stored.scales, [*stored.scales.data.shape, 1])
            axes = {"bits": stored.bits, "block_size": self._block, "gather_axis": 0, "quantize_axis": 2}
            found = Op.get("com.microsoft.GatherBlockQuantized")(stored.codes, places, scales, **axes)
            return ops.reshape(found, sizes)
        rows = Call(call.op, (stored.codes, places), call.attrs)
        scales = Call(call.op, (stored.scales, places), call.attrs)
        codes: Expr = ops.astype(rows, "int32")
        if stored.bits == 4:
            sixteen = const(np.int32(16))
            codes = ops.stack([ops.floor_mod(codes, sixteen), ops.floor_divide(codes, sixteen)], axis=-1)
        codes = ops.reshape(codes, [*ty.shape, stored.codes.data.shape[1], self._block])
        middle: Expr = const(np.int32(2 ** (stored.bits - 1)))
        if stored.zeros is not None:
            own = Call(call.op, (const(stored.zeros.astype(np.int32)), places), call.attrs)
            middle = ops.expand_dims(own, [-1])
        signed = ops.astype(ops.subtract(codes, middle), "float32")
        scaled = ops.multiply(signed, ops.expand_dims(scales, [-1]))
        return ops.reshape(scaled, sizes)


def QuantizeWeights(
    bits: int = 8,
    block: int = 32,
    keep: Collection[str] = (),
    least: int = 4096,
    *,
    asymmetric: bool = False,
    one_lookup: bool = False,
    most_error: float | None = None,
    errors: MutableMapping[str, float] | None = None,
    wide: MutableSet[str] | None = None,
) -> Pass:
    """Store the weights of float32 products, and tables whose rows are looked up, in ``bits`` bits, 8 or 4.

    They are stored in blocks of ``block`` numbers of a column, with one scale each. ``x @ w`` becomes
    ``matmul_blocks``; a ``take`` of rows takes their codes and scales. A table that is also the last product's weights,
    transposed, is stored once for both. With 4 bits each block gets the scale, out of a few, with the smallest error.
    ``keep`` names bindings that stay as they are. Weights with fewer than ``least`` numbers stay, too.

    ``asymmetric``: each block has its own code for 0, so that weights of mostly one sign use all codes.
    ``one_lookup``: a ``take`` of rows becomes ONNX Runtime's ``GatherBlockQuantized`` on the same codes, one operator
    instead of eight; OpenVINO does not have it. It has no codes for 0, so it is not used with ``asymmetric``.
    ``most_error``: a product stays if the error of its result, for a random left operand, is larger than this part of
    its largest magnitude. ``errors`` receives the errors by the names of bindings. This judges a model that cannot be
    run. With 4 bits, a product whose error is too large gets 8 bits if these suffice.
    ``wide``: names of bindings whose weights take 8 bits; those that ``most_error`` gives 8 bits are added to it.

    This is for models that are limited by memory bandwidth: a decoder that produces one token after another. On many
    rows it gains little. ONNX Runtime and OpenVINO run it fast. Needs: weights as constants. Guarantees: the same
    dtypes and shapes. Values change by less than 1 % (8 bits) or some percent (4 bits). Cost: linear in the weights,
    each of which is read once.
    """
    if bits not in (4, 8):
        raise PassError(f"QuantizeWeights: bits={bits}; expected 8 or 4")
    if block < 16 or block & (block - 1):
        raise PassError(f"QuantizeWeights: block={block}; expected a power of 2, of 16 or more")
    kept = frozenset(keep)
    found: MutableMapping[str, float] = {} if errors is None else errors
    widened: MutableSet[str] = set() if wide is None else wide

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        state = _BlockQuantization(
            bits, block, kept, least, most_error, found, widened, asymmetric=asymmetric, one_lookup=one_lookup
        )
        return context.rewrite(function, state.rules())

    return FunctionPass(transform, "QuantizeWeights", keeps_values=False)

"""Results of convolutions in bytes, for a runtime whose convolution on bytes can only return bytes.

ONNX Runtime computes a convolution of quantized values on bytes if its result is quantized, too. Otherwise the operands
are dequantized first, and the convolution takes as long as in float32.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, cast

from ...analysis.compile_time import known_before_inputs
from ...analysis.uses import users_of
from ...ir.expr import Constant, Expr, Var
from ...ir.op import is_call_of
from ...ir.program import Binding, Function
from ...ir.visitor import iter_bindings
from ...pattern import PatternContext, is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, decline
from ..no_ops import CODED_ONCE
from .codes import Ranges, in_bytes
from .layers import ACTIVATIONS, CONVOLUTIONS

with PatternContext() as _ENDS:
    _result = (
        is_op("relax.add", *CONVOLUTIONS)(wildcard(), wildcard())
        | is_op("relax.nn.relu", "relax.nn.relu6")(wildcard())
        | is_op("relax.clip")(wildcard(), wildcard(), wildcard())
    )


def results_in_bytes(function: Function, ranges: Ranges) -> list[Rule]:
    """The rules for ``function``, whose convolutions already read bytes; ``ranges`` are those of `Quantize`."""
    results = _results(function)

    def rewrite(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        var = matchings[_result]
        if var not in results:
            return decline("it is not the result of an 8-bit convolution, or all of its users quantize it")
        found = in_bytes(bindings[var], ranges.get(var.name_hint))
        return found if isinstance(found, Decline) else {var: found}

    return [Rule(_ENDS, rewrite, "quantize_results"), CODED_ONCE]


def _results(function: Function) -> frozenset[Var]:
    """The results of convolutions on bytes, after bias and activation, that are read in float32."""
    users, known, found = users_of(function), known_before_inputs(function), set[Var]()
    made = {binding.var: binding.value for binding in iter_bindings(function)}
    for var, value in made.items():
        if not is_call_of(value, *CONVOLUTIONS):
            continue
        if is_call_of(made.get(cast("Var", value.args[0])), "relax.dequantize"):
            end = var
            while len(own := users.get(end, ())) == 1 and _continues(own[0], end, known):
                end = own[0].var
            if not own or not all(is_call_of(user.value, "relax.quantize") for user in own):
                found.add(end)
    return frozenset(found)


def _continues(user: Binding, operand: Var, known: Container[Expr]) -> bool:
    """True for an activation or a bias that a convolution's kernel computes together with it."""
    value = user.value
    if is_call_of(value, "relax.add"):
        return all(arg is operand or isinstance(arg, Constant) or arg in known for arg in value.args)
    return is_call_of(value, *ACTIVATIONS)

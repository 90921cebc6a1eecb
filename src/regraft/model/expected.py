"""The expected time of a program on a machine: counted, not measured.

A call takes the time of its operations at the rate of their dtype, or the time of its bytes at the rate of memory,
whichever is longer. Starting a run, and each call, take extra time, which dominates in small models. The estimate is
good for the ratio of two programs that compute the same, on a machine that is not at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..analysis.cost import call_cost
from ..ir.dtypes import HALF
from ..ir.errors import RegraftError
from ..ir.expr import Constant, Expr, Var
from ..ir.module import IRModule
from ..ir.op import Call, is_call_of
from ..ir.program import Function
from ..ir.types import TensorType
from ..ir.visitor import iter_bindings
from ..passes import BindSymbolicVars
from .machines import MachineDescription
from .trial_sizes import sizes_of

_BYTES: Final = ("int8", "uint8")
_CACHED: Final = 2**20
"""The largest size in bytes of a call whose data is assumed to lie in caches."""
_CACHES: Final = 4.0
"""The speed of caches as a multiple of the speed of memory."""
_OF_A_RUN: Final[Mapping[str, float]] = {"onnxruntime": 45e-6, "openvino": 55e-6, "torch": 20e-6}
"""Seconds that a run takes around its calls, by engine: one operator on 8 x 8 numbers from Python, least of 12."""
_OF_A_CALL: Final = 0.4e-6
"""Seconds that a call takes beside its work: a hundred such operators in a row took 0.2 to 0.7 µs each, on either
engine.

It is the same for all machines: a quarter of it, or four times as much, did not change the order of all candidates for
seven small models.
"""


class ComputedIn(NamedTuple):
    """The precision of an operator's arithmetic, and the size of its data as a fraction of its size in float32."""

    dtype: str
    share: float


_FLOAT32: Final = ComputedIn("float32", 1.0)
_WIDER_FORMS: Final[Mapping[str, ComputedIn]] = {
    "float32": _FLOAT32,
    **dict.fromkeys(HALF, ComputedIn("bfloat16", 0.5)),
    "int8 weights": ComputedIn("int8", 0.25),
}
"""The arithmetic of layers that went back to more bits, by precision."""


def expected_seconds(
    module: IRModule,
    name: str,
    inputs: Sequence[Any],
    machine: MachineDescription,
    *,
    engine: str = "onnxruntime",
    precision: str = "float32",
    threads: int | None = None,
    forms: Mapping[str, ComputedIn] | None = None,
) -> float:
    """The seconds that ``engine`` is expected to take for a run of a function on ``inputs`` on ``machine``.

    ``precision`` is the precision in which the engine computes float32. Calls between a dequantize and its reader are
    assumed to compute in bytes, as engines do. ``forms`` names the arithmetic of calls with a constant, by operator,
    for a pass that would write them so. Calls of unknown size count as nothing. Cost: linear.
    """
    function = _of_these_sizes(module, name, inputs)
    in_bytes: set[Expr] = set()
    taken = _OF_A_RUN[engine]
    for binding in iter_bindings(function):
        call = binding.value
        if not isinstance(call, Call):
            continue
        if is_call_of(call, "relax.dequantize"):
            in_bytes.add(binding.var)
            continue
        given = (forms or {}).get(getattr(call.op, "name", ""))
        is_layer = given is not None and any(isinstance(arg, Constant) for arg in call.args)
        form = given if given and is_layer else _computed_in(call, in_bytes, precision)
        taken += _seconds_of(call, form, machine, threads) or 0.0
    return taken


def expected_seconds_of_layers(
    module: IRModule,
    name: str,
    inputs: Sequence[Any],
    machine: MachineDescription,
    layers: Mapping[str, str | None],
    forms: Mapping[str, ComputedIn],
    threads: int | None = None,
) -> dict[str, float]:
    """The seconds that the calls bound to ``layers`` are expected to take, by these names, counted as in a run.

    Each is computed in the precision given for it; if that is None, in the arithmetic that ``forms`` has for its
    operator. Calls of unknown size are left out. Cost: linear.
    """
    found: dict[str, float] = {}
    for binding in iter_bindings(_of_these_sizes(module, name, inputs)):
        call, layer = binding.value, binding.var.name_hint
        if layer in layers and isinstance(call, Call):
            form = _WIDER_FORMS.get(layers[layer] or "") or forms.get(getattr(call.op, "name", ""), _FLOAT32)
            seconds = _seconds_of(call, form, machine, threads)
            if seconds is not None:
                found[layer] = seconds
    return found


def _seconds_of(call: Call, form: ComputedIn, machine: MachineDescription, threads: int | None) -> float | None:
    """The seconds of one call; None if its sizes are unknown."""
    cost = call_cost(call)
    if not isinstance(cost.operations, int) or not isinstance(cost.bytes, int):
        return None
    moved = cost.bytes * form.share
    moved /= _CACHES if moved <= _CACHED else 1
    return _OF_A_CALL + max(
        cost.operations / machine.rate(form.dtype, threads), moved / machine.rate("memory", threads)
    )


def _computed_in(call: Call, in_bytes: set[Expr], precision: str) -> ComputedIn:
    read = [arg for arg in call.args if isinstance(arg, Var | Constant) and isinstance(arg.ty, TensorType)]
    dtypes = [arg.ty.dtype for arg in read if isinstance(arg.ty, TensorType)]
    if dtypes and dtypes[0] in _BYTES:
        return ComputedIn("int8", 1.0)
    if dtypes and dtypes[0] in HALF:
        return ComputedIn("bfloat16", 1.0)
    values = [arg for arg in read if isinstance(arg, Var)]
    if values and all(arg in in_bytes for arg in values):
        return ComputedIn("int8", 0.25)
    if is_call_of(call, "relax.matmul_blocks"):
        return ComputedIn("int8", 1.0)
    return _WIDER_FORMS[precision] if precision in HALF else _FLOAT32


def _of_these_sizes(module: IRModule, name: str, inputs: Sequence[Any]) -> Function:
    function = module[name]
    sizes = sizes_of(function, inputs)
    return _bound(module, name, sizes) if sizes else function


def _bound(module: IRModule, name: str, sizes: Mapping[Any, int]) -> Function:
    try:
        return BindSymbolicVars(sizes, name)(module)[name]
    except RegraftError:
        return module[name]

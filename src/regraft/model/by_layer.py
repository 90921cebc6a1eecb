"""Weights in few bits for a model that does not fit into memory: layer by layer, without running the model.

Each layer's weights are read once, put into blocks and released again. The layer's error is measured in isolation, on a
random left operand. Layers whose error exceeds the limit keep their weights.
"""

from __future__ import annotations

from typing import Final

from ..analysis import constant_bytes
from ..ir.module import IRModule
from ..passes.quantize import QuantizeWeights
from .attempts import Attempt, LayerReport, PrecisionReport
from .errors import UsageError
from .machines import MachineDescription
from .memory import in_gigabytes

BITS: Final = {"int8-weights": 8, "int4-weights": 4}
"""The precisions that need no run of the model, and their bits."""


def refuse_or_stream(precision: str, needed: int, allowed: int) -> None:
    """Raise `UsageError` for a precision that needs a run of the model, because memory does not suffice for one."""
    if precision not in BITS:
        raise UsageError(
            f"comparing the model in {precision} with itself takes about {in_gigabytes(needed)} of memory, and "
            f"{in_gigabytes(allowed)} are available; {' and '.join(BITS)} are chosen by layer without a run, or "
            "allow more (--memory)"
        )


def weights_by_layer(
    module: IRModule, precision: str, most_error: float, machine: MachineDescription
) -> tuple[IRModule | None, PrecisionReport]:
    """``module`` with block-quantized weights in the layers whose own error is at most ``most_error``; None if there
    are none.

    A layer with a larger error in 4 bits gets 8 bits, if its error in 8 bits is within the limit.

    The report's error is the largest error of a single layer, measured at the layer, not at the outputs. Cost: linear
    in the weights. Memory: the codes of all layers and the weights of one.
    """
    errors: dict[str, float] = {}
    bits = BITS[precision]
    wide = set[str]()
    done = QuantizeWeights(bits, most_error=most_error, errors=errors, wide=wide)(module)
    layers = tuple(
        LayerReport(layer, _kept_in(8 if layer in wide else bits, error, most_error), error)
        for layer, error in errors.items()
    )
    within = [error for error in errors.values() if error <= most_error]
    problem = None if within else _problem(errors, most_error)
    row = Attempt(f"int{bits} weights", "onnxruntime", max(within, default=None), layers=layers, problem=problem)
    if problem is None:
        row = Attempt(row.name, row.engine, row.error, weights=constant_bytes(done), layers=layers)
    kept = row if problem is None else None
    report = PrecisionReport(most_error, machine.features, (row,), kept, by_layer=True, original_kept=kept is None)
    return (None if kept is None else done), report


def _kept_in(bits: int, error: float, most_error: float) -> str:
    return f"int{bits} weights" if error <= most_error else "float32"


def _problem(errors: dict[str, float], most_error: float) -> str:
    if not errors:
        return "it can compute no layer in few bits"
    return f"each layer alone errs by {min(errors.values()):.3g} or more, where {most_error:.3g} is allowed"

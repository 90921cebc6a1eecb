"""Reading recurrent layers, each as one operator."""

from __future__ import annotations

from typing import Any, Final

from .... import op as ops
from ....ir.expr import Expr
from ....op.composite.recurrence import ACTIVATIONS
from .importing import Imported, NodeImporter, reads

_FUNCTIONS: Final[dict[str, Any]] = {"RNN": ops.nn.rnn, "GRU": ops.nn.gru, "LSTM": ops.nn.lstm}
_BATCH_FIRST: Final = [1, 0, 2]


def _turned(node: NodeImporter, x: Expr | None, axes: list[int]) -> Expr | None:
    return None if x is None else node.emit(ops.permute_dims(x, axes))


@reads("RNN", "GRU", "LSTM")
def _recurrent(node: NodeImporter) -> tuple[Imported | None, ...]:
    given = [node.optional(index) for index in range(8 if node.op_type == "LSTM" else 6)]
    x, weight, recurrence, bias, lengths, *states = given
    by_batch = bool(node.attr("layout", 0))
    if by_batch:
        x = _turned(node, x, _BATCH_FIRST)
        states[:2] = [_turned(node, state, _BATCH_FIRST) for state in states[:2]]
    own: dict[str, Any] = {"direction": node.attr("direction", "forward").lower(), "clip": node.attr("clip")}
    names = node.attr("activations")
    if names:
        unknown = [name for name in names if name.lower() not in ACTIVATIONS]
        if unknown or node.attr("activation_alpha") or node.attr("activation_beta"):
            raise node.refuse(f"the activation {(unknown or names)[0]}, or a parameter of one, is not supported")
        own["activations"] = names
    if node.op_type == "GRU":
        own["linear_before_reset"] = bool(node.attr("linear_before_reset", 0))
    if node.op_type == "LSTM":
        own["input_forget"] = bool(node.attr("input_forget", 0))
        own["peephole"] = states.pop()
    found = node.emit(_FUNCTIONS[node.op_type](x, weight, recurrence, bias, *states, lengths, **own))
    sequence, *lasts = [node.emit(found[index]) for index in range(1 + len(states))]
    if not by_batch:
        return sequence, *lasts
    return node.emit(ops.permute_dims(sequence, [2, 0, 1, 3])), *[_turned(node, last, _BATCH_FIRST) for last in lasts]

"""Recurrent layers as ONNX's recurrent operators."""

from __future__ import annotations

from typing import Any, Final

import onnx_ir as ir

from ....ir.expr import Expr
from ....ir.op import Call, Op
from ....ir.types import TupleType
from ....op.composite.recurrent import GRU, GRU_KIND, LSTM, LSTM_KIND, RNN, RNN_KIND
from .elementwise import operand_dtype
from .graph import dtype_of
from .lowering import Lowered, Lowering, lowers, size_at

_KINDS: Final = {RNN: RNN_KIND, GRU: GRU_KIND, LSTM: LSTM_KIND}
_NAMES: Final = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "softplus": "Softplus"}


@lowers("nn.rnn", "nn.gru", "nn.lstm", because="1 node in place of dozens for each step, 2 to 5 times as fast")
def _recurrent(lowering: Lowering, call: Call) -> Lowered | None:
    graph, attrs = lowering.graph, call.attrs
    dtype, hidden, steps = operand_dtype(call), size_at(call.args[2], 2), size_at(call.args[0], 0)
    if dtype == "float64" or not isinstance(hidden, int) or steps == 0:
        # ONNX Runtime computes these layers in single precision only, and needs at least one step.
        return None
    assert isinstance(call.op, Op)
    kind = _KINDS[call.op]

    def operand(index: int | None, work: str = "float32") -> ir.Value | None:
        arg: Expr | None = call.args[index] if index is not None and index < len(call.args) else None
        return None if arg is None or isinstance(arg.ty, TupleType) else graph.cast(lowering.tensor(arg), work)

    own: dict[str, Any] = {
        "hidden_size": hidden,
        "direction": attrs["direction"],
        "activations": [_NAMES[name] for name in attrs["activations"]],
        "clip": attrs["clip"],
        **{name: int(attrs[name]) for name in ("linear_before_reset", "input_forget") if name in attrs},
    }
    first, lengths = [operand(index) for index in range(4)], operand(kind.lengths, "int32")
    later = [operand(index) for index in (*kind.states, kind.peephole)]
    found = graph.ops(
        kind.name.upper(),
        [*first, lengths, *later],
        1 + len(kind.states),
        **{name: value for name, value in own.items() if value is not None},
    )
    assert dtype_of(found[0]) == "float32"
    return tuple([graph.cast(part, dtype) for part in found])

"""Recurrent layers: a state that is updated along a sequence, one step for each element.

Shapes, gate orders and options are those of ONNX's RNN, GRU and LSTM. The steps are implemented in `recurrence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...ir.dims import Dim, dims_equal
from ...ir.dtypes import HALF, is_integer
from ...ir.errors import OpTypeError
from ...ir.expr import Expr
from ...ir.op import Call, Op, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, TupleType, Type
from ..rules import common_dtype, require_float, tensor_operand
from ..semantics import cast, dtype_name
from .recurrence import ACTIVATIONS, LayerKind, run

__all__ = ["gru", "lstm", "rnn"]

DIRECTIONS: Final = ("forward", "reverse", "bidirectional")

_WEIGHTS: Final = ("x", "weight", "recurrence", "bias?")


def _given(call: Call, index: int) -> TensorType | None:
    """The type of an optional operand; None if it is omitted, at the end or by an empty tuple."""
    if index >= len(call.args):
        return None
    ty = call.args[index].ty
    if isinstance(ty, TupleType) and not ty.fields:
        return None
    if not isinstance(ty, TensorType):
        raise wrong_operand(call, index, "a tensor, or an empty tuple where it is left out")
    return ty


def _require(call: Call, index: int, expected: Sequence[Dim | None], what: str) -> None:
    """Raise `OpTypeError` if operand ``index`` cannot have the shape ``expected``, in which None is any size."""
    ty = _given(call, index)
    if ty is None or ty.ndim == UNKNOWN_NDIM:
        return
    sizes = ty.shape if ty.shape is not None else (None,) * ty.ndim
    if len(sizes) != len(expected) or any(
        size is not None and wanted is not None and dims_equal(size, wanted) is False
        for size, wanted in zip(sizes, expected, strict=False)
    ):
        raise wrong_operand(call, index, what)


def _sizes(call: Call, index: int) -> tuple[Dim | None, ...]:
    """The sizes of an operand of three axes; None for each unknown size."""
    shape = tensor_operand(call, index).shape
    return shape if shape is not None and len(shape) == 3 else (None,) * 3


def _infer(call: Call, kind: LayerKind) -> Type:
    for index in range(3):
        require_float(call, index)
    attrs = call.attrs
    if attrs.direction not in DIRECTIONS:
        raise wrong_attribute(call, "direction", f"one of {', '.join(DIRECTIONS)}")
    ways = 2 if attrs.direction == "bidirectional" else 1
    unknown = [name for name in attrs.activations if name not in ACTIVATIONS]
    if unknown or len(attrs.activations) != ways * len(kind.activations):
        raise wrong_attribute(
            call, "activations", f"{len(kind.activations)} names for each direction, of {', '.join(ACTIVATIONS)}"
        )
    if attrs.clip is not None and not attrs.clip > 0:
        raise wrong_attribute(call, "clip", "a bound above 0, or None")
    steps, batch, width = _sizes(call, 0)
    hidden = _sizes(call, 2)[2]
    rows = None if hidden is None else hidden * kind.gates
    _require(call, 0, (None, None, None), "a tensor (steps, batch, size)")
    _require(call, 1, (ways, rows, width), f"weights ({ways}, {kind.gates} * hidden, size of x)")
    _require(call, 2, (ways, rows, hidden), f"weights ({ways}, {kind.gates} * hidden, hidden)")
    _require(call, 3, (ways, None if rows is None else rows * 2), f"biases ({ways}, {2 * kind.gates} * hidden)")
    for index in kind.states:
        _require(call, index, (ways, batch, hidden), f"a state ({ways}, batch, hidden)")
    lengths = _given(call, kind.lengths)
    if lengths is not None and lengths.dtype is not None and not is_integer(lengths.dtype):
        raise wrong_operand(call, kind.lengths, "integers: the length of each sequence")
    _require(call, kind.lengths, (batch,), "one length for each sequence of the batch")
    if kind.peephole is not None:
        _require(call, kind.peephole, (ways, None if hidden is None else hidden * 3), f"weights ({ways}, 3 * hidden)")
    floats = [i for i in range(len(call.args)) if i != kind.lengths and _given(call, i) is not None]
    dtype = common_dtype(call, floats)
    if batch is None or hidden is None:
        return TupleType([TensorType(None, dtype, 4), *[TensorType(None, dtype, 3) for _ in kind.states]])
    sequence = TensorType(None, dtype, 4) if steps is None else TensorType((steps, ways, batch, hidden), dtype)
    return TupleType([sequence, *[TensorType((ways, batch, hidden), dtype) for _ in kind.states]])


def _reference(kind: LayerKind) -> Any:
    def reference(xp: Any, *operands: Any, **attrs: Any) -> Any:
        given: list[Any] = [None if isinstance(operand, tuple) else operand for operand in operands]
        given += [None] * (kind.operands - len(given))
        dtype = dtype_name(given[0].dtype)
        # Narrow floats are computed in float32 and rounded once.
        work = "float32" if dtype in HALF else dtype
        wide = [x if x is None or i == kind.lengths else cast(xp, x, work) for i, x in enumerate(given)]
        found = run(xp, kind, wide, attrs)
        return tuple([cast(xp, part, dtype) for part in found])

    return reference


def _declare(kind: LayerKind, attributes: dict[str, Any]) -> Op:
    names = [*_WEIGHTS, "initial_hidden?", *(["initial_cell?"] if len(kind.states) > 1 else []), "sequence_lengths?"]
    return Op(
        f"relax.nn.{kind.name}",
        (*names, *(["peephole?"] if kind.peephole is not None else [])),
        {"direction": "forward", "activations": kind.activations, "clip": None, **attributes},
        infer=lambda call: _infer(call, kind),
        reference=_reference(kind),
    )


RNN_KIND: Final = LayerKind("rnn", 1, ("tanh",), (4,), 5)
GRU_KIND: Final = LayerKind("gru", 3, ("sigmoid", "tanh"), (4,), 5)
LSTM_KIND: Final = LayerKind("lstm", 4, ("sigmoid", "tanh", "tanh"), (4, 5), 6, 7)

RNN: Final = _declare(RNN_KIND, {})
GRU: Final = _declare(GRU_KIND, {"linear_before_reset": False})
LSTM: Final = _declare(LSTM_KIND, {"input_forget": False})


def _call(
    op: Op, kind: LayerKind, operands: Sequence[Expr | None], activations: Sequence[str] | None, **attrs: Any
) -> Call:
    """A call of ``op``; the default activations are those of the layer, for each direction."""
    ways = 2 if attrs["direction"] == "bidirectional" else 1
    names = kind.activations * ways if activations is None else tuple(str(name).lower() for name in activations)
    if attrs["clip"] is not None:
        attrs["clip"] = float(attrs["clip"])
    if not all(name in ACTIVATIONS for name in names):
        raise OpTypeError(f"{op.name}: activations={tuple(names)!r}; expected names of {', '.join(ACTIVATIONS)}")
    return op(*operands, activations=names, **attrs)


def rnn(
    x: Expr,
    weight: Expr,
    recurrence: Expr,
    bias: Expr | None = None,
    initial_hidden: Expr | None = None,
    sequence_lengths: Expr | None = None,
    *,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    clip: float | None = None,
) -> Call:
    """A layer of simple recurrent cells, ``h = tanh(x W' + h R' + b)`` at each step; follows ONNX ``RNN``.

    Operands, all of one floating dtype: ``x`` (steps, batch, size); ``weight`` (ways, hidden, size); ``recurrence``
    (ways, hidden, hidden); ``bias`` (ways, 2 * hidden), for ``x`` and then for ``h``; ``initial_hidden`` (ways,
    batch, hidden), by default zeros; ``sequence_lengths`` (batch,), integers: past its length, a sequence gives
    zeros. Attributes: ``direction``, "forward", "reverse" or "bidirectional"; ways, the number of directions, is 2 for
    the last one and else 1; ``activations``, a name for each direction; ``clip``, the bound to which the input of a
    gate is clipped. Result: a tuple of all states (steps, ways, batch, hidden) and the last one (ways, batch, hidden).
    The gradient needs a known number of steps.
    Cost: that of the products, times the steps. Raises `OpTypeError` for shapes that do not agree.
    """
    operands = (x, weight, recurrence, bias, initial_hidden, sequence_lengths)
    return _call(RNN, RNN_KIND, operands, activations, direction=direction, clip=clip)


def gru(
    x: Expr,
    weight: Expr,
    recurrence: Expr,
    bias: Expr | None = None,
    initial_hidden: Expr | None = None,
    sequence_lengths: Expr | None = None,
    *,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    linear_before_reset: bool = False,
) -> Call:
    """A layer of gated recurrent units; follows ONNX ``GRU``.

    Operands, attributes and result are those of `rnn`, with three gates (update, reset, new) concatenated
    along the second axis of ``weight`` and ``recurrence`` (3 * hidden) and in ``bias`` (6 * hidden), and two
    activations per direction. ``linear_before_reset`` applies the reset gate after the product with the state, as in
    PyTorch, not before it.
    """
    operands = (x, weight, recurrence, bias, initial_hidden, sequence_lengths)
    own = {"direction": direction, "clip": clip, "linear_before_reset": bool(linear_before_reset)}
    return _call(GRU, GRU_KIND, operands, activations, **own)


def lstm(
    x: Expr,
    weight: Expr,
    recurrence: Expr,
    bias: Expr | None = None,
    initial_hidden: Expr | None = None,
    initial_cell: Expr | None = None,
    sequence_lengths: Expr | None = None,
    peephole: Expr | None = None,
    *,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    input_forget: bool = False,
) -> Call:
    """A layer of long short-term memory; follows ONNX ``LSTM``.

    Operands, attributes and result are those of `rnn`, with four gates (input, output, forget, cell) concatenated
    along the second axis of ``weight`` and ``recurrence`` (4 * hidden) and in ``bias`` (8 * hidden), and three
    activations per direction. There is a second state, ``initial_cell``, whose last value is a third result.
    ``peephole`` (ways, 3 * hidden) holds the weights of the cell in the input, output and forget gates.
    ``input_forget`` couples the gates: the forget gate is 1 minus the input gate.
    """
    operands = (x, weight, recurrence, bias, initial_hidden, initial_cell, sequence_lengths, peephole)
    own = {"direction": direction, "clip": clip, "input_forget": bool(input_forget)}
    return _call(LSTM, LSTM_KIND, operands, activations, **own)

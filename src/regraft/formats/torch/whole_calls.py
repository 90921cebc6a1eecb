"""Operators of PyTorch that are kept whole while a program is rewritten: those without an equivalent here."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ...ir.op import Op
from ...ir.program import Binding
from ..whole_calls import Whole, WholeOf
from .source_calls import SourceCall

_MOST_STEPS: Final = 5
_OPEN: Final = frozenset(
    f"relax.{name}"
    for name in (
        *("add", "subtract", "multiply", "divide", "power", "sqrt", "rsqrt", "exp", "tanh", "sigmoid", "erf"),
        *("matmul", "permute_dims", "reshape", "expand_dims", "squeeze", "broadcast_to", "astype", "mean", "variance"),
        *("concat", "split", "strided_slice", "take", "nn.softmax", "nn.attention", "nn.pad", "nn.batch_norm"),
        *("nn.conv1d", "nn.conv2d", "nn.conv3d", "zeros"),
    )
)
"""The operators, of `linear`, convolutions, attention and similar calls, on which the passes of a level work, and the
zeros that PyTorch's own batch norm returns besides its first result. An operator of several bindings is kept whole if
it has any others, or more than `_MOST_STEPS`. An operator of a few bindings that reads a size from its data, such as
the rows that a mask selects, is not kept whole: two of the same values are merged only if their steps are visible.
"""


_ARRANGEMENTS: Final = frozenset({"relax.reshape", "relax.permute_dims", "relax.strided_slice"})
"""Several of these in a row are one operator of PyTorch, such as `channel_shuffle` or `unfold`."""


def whole_calls_of(kept: Collection[SourceCall] = (), *, only_these: bool = False) -> WholeOf:
    """A function from a binding to the call of PyTorch that it is a step of; None if that is not kept whole.

    Kept whole are the calls in ``kept`` and, unless ``only_these`` is set, all others without an equivalent here.
    """

    def whole_of(binding: Binding) -> Whole | None:
        call = _call_of(binding)
        if call is None or (call not in kept and (only_these or _is_open(call))):
            return None
        return Whole(id(call), call.target, len(call.steps))

    return whole_of


def _is_open(call: SourceCall) -> bool:
    heads = [step.head for step in call.steps]
    if len(heads) > 1 and all(isinstance(head, Op) and head.name in _ARRANGEMENTS for head in heads):
        return False
    known = None in heads or all(not isinstance(head, Op) or head.name in _OPEN for head in heads)
    return len(heads) == 1 or (known and len(heads) <= _MOST_STEPS)


def _call_of(binding: Binding) -> SourceCall | None:
    calls = [origin.call for origin in binding.var.origins if isinstance(origin.call, SourceCall)]
    return calls[0] if len(calls) == 1 and calls[0].steps else None

"""The portability of an optimized ONNX model: its size, and its opset if a newer one does not pay.

Recognized attention, norms and activations are operators of newer opsets than their formulas. Runtimes fuse the
formulas of norms and activations by themselves, so only attention can be worth a newer opset.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from ..analysis.axes import is_last_axis_apart
from ..analysis.machine import call_seconds
from ..analysis.tensors import shape_of, stated_shape
from ..ir.binding_values import bind_sizes, sizes_of
from ..ir.dims import dims_equal
from ..ir.errors import RegraftError
from ..ir.expr import Constant
from ..ir.module import IRModule
from ..ir.op import Call, is_call_of
from ..ir.visitor import iter_bindings, walk
from ..passes import op_counts
from ..passes.pipeline import ATTENTION, level_number
from .models import Model

_FORMS: Final[Mapping[str, tuple[str, str]]] = {
    "relax.nn.attention": (ATTENTION, "Attention"),
    "relax.nn.attention_bias": (ATTENTION, "Attention"),
    "relax.nn.gelu": ("gelu", "Gelu"),
    "relax.nn.gelu_tanh": ("gelu_tanh", "Gelu"),
    "relax.nn.layer_norm": ("layer_norm", "LayerNormalization"),
    "relax.nn.mish": ("mish", "Mish"),
    "relax.nn.rms_norm": ("rms_norm", "RMSNormalization"),
}
"""The form that recognizes an operator, and the ONNX operator that it becomes, by the operator's name."""
_ATTENTION: Final = ("relax.nn.attention", "relax.nn.attention_bias")
_OLDEST: Final = 13
_FREE: Final = ("relax.reshape", "relax.flatten", "relax.expand_dims", "relax.squeeze")
"""Operators that count as free in the estimate: the same bytes in another shape."""
_SIZE: Final = 64
"""The number that replaces every unknown size."""
MOST_GROWN: Final = 256
"""The number of bytes by which a model, or its constants, may grow."""
_PAYS: Final = 0.9
"""The limit for the time of a model of a newer opset, or with a few more bytes, as a fraction of the time before."""


class Raised(NamedTuple):
    """The opset that a model had and the one that it needs now, because of ONNX's ``operators``."""

    before: int
    after: int
    operators: tuple[str, ...]

    def __str__(self) -> str:
        return f"opset {self.before} became {self.after} for {', '.join(self.operators)}"


def raised_opset(before: IRModule, after: IRModule) -> Raised | None:
    """The opset that recognized operators need, if it is higher than the model's; else None."""
    opset = _opset_of(before)
    new = _newer(before, after, max(opset, _OLDEST)) if opset else {}
    return Raised(opset, max(new.values()), tuple(sorted(new))) if new else None


class _Done(Protocol):
    """The result of optimizing."""

    @property
    def module(self) -> IRModule:
        """The optimized module."""
        ...


_Result = TypeVar("_Result", bound=_Done)


def as_portable(
    opened: Model, before: IRModule, done: _Result, level: int | str, again: Callable[[Collection[str]], _Result]
) -> _Result:
    """``done``, or a result in the model's opset if the newer opset of ``done`` is not expected to pay.

    A PyTorch program keeps attention written out if PyTorch's operator would use its slow path. ``before`` is the
    module that was optimized; ``again`` optimizes it without recognizing the given forms. Level 3 accepts any opset and
    form, and so does a caller who names an opset. Cost: up to three more runs of the passes.
    """
    from ..formats.onnx.write.model_facts import versions_of

    if opened.form == "torch" and level_number(level) < 3 and _slow(done.module) > _slow(before):
        return again({ATTENTION})
    if opened.form != "onnx" or level_number(level) >= 3 or versions_of(opened.module)[0] is not None:
        return done
    left_out: set[str] = set()
    while forms := _forms(raised_opset(before, done.module)) - left_out:
        # Leave out attention first: runtimes fuse the other forms by themselves, so they are as fast written out.
        left_out |= {ATTENTION} if ATTENTION in forms else forms
        apart = again(left_out)
        if left_out == {ATTENTION} and _seconds(done.module) <= _PAYS * _seconds(apart.module):
            return done
        done = apart
    return done


def has_new_attention(opened: Model, after: IRModule) -> bool:
    """True if ``after`` has more single-operator attentions than the model that was opened."""
    before = op_counts(opened.module)
    found = op_counts(after)
    return sum(found[name] for name in _ATTENTION) > sum(before[name] for name in _ATTENTION)


def _slow(module: IRModule) -> int:
    """The number of attention calls without a fast kernel in PyTorch.

    Their keys and values have different sizes, or the last axis of an operand is not the innermost one in memory.
    """
    definitions = {binding.var: binding.value for binding in iter_bindings(module)}
    count = 0
    for call in definitions.values():
        if is_call_of(call, *_ATTENTION):
            operands = call.args[:3]
            if any(stated_shape(operand) is None for operand in operands):
                continue
            key, value = shape_of(operands[1]), shape_of(operands[2])
            differ = dims_equal(key[-1], value[-1]) is False
            count += differ or any(is_last_axis_apart(operand, definitions) for operand in operands)
    return count


def is_as_it_was(opened: Model, result: Any) -> bool:
    """True if ``result``, a file or an object, is the ONNX model that was opened, except for the names inside it.

    Cost: linear. The constants of files are compared last.
    """
    if opened.is_changed or opened.form != "onnx":
        return False
    from ..formats.onnx.same_graph import is_same_graph

    return is_same_graph(opened.source, result)


def is_larger(opened: Model, after: IRModule, result: Any, most: float = 1.0) -> bool:
    """True if ``result``, a file or an object, is larger than the model that was opened, in the terms of its format.

    ``after`` is the module that ``result`` was written from. A PyTorch program is larger if it has more than ``most``
    times the operators, as happens if it writes in place. With ``most`` over 1, an ONNX model is larger if it has more
    bytes and more than ``most`` times the nodes, or if it grew by more than `MOST_GROWN` bytes and is not expected to
    pay. Otherwise it is larger if it has more bytes or more nodes and is not expected to pay, and always if it grew by
    more than `MOST_GROWN` bytes. Functions count as written out at each call, and the bodies of loops and branches
    count. Cost: models in files are read again, once each.
    """
    if opened.is_changed:
        return False
    if opened.form == "torch":
        from ..formats.torch.source_facts import has_more_operators

        return has_more_operators(opened.loaded or opened.source, result, most)
    from ..formats.onnx.described import message_of, size_in_one_file, written_out_count

    messages = message_of(opened.source), message_of(result)
    sizes = [size_in_one_file(message) for message in messages]
    if most > 1.0:
        if sizes[1] > sizes[0] and written_out_count(messages[1]) > most * written_out_count(messages[0]):
            return True
        return sizes[1] > sizes[0] + MOST_GROWN and not _pays(opened.module, after)
    if sizes[1] <= sizes[0]:
        return written_out_count(messages[1]) > written_out_count(messages[0]) and not _pays(opened.module, after)
    return sizes[1] > sizes[0] + MOST_GROWN or not _pays(opened.module, after)


def has_split_weights(module: IRModule) -> bool:
    """True if a PyTorch program has a trained weight and also a constant that was computed from it.

    Also true if several constants were computed from one trained weight alone, like its slices.
    """
    from ..formats.torch.signature import CallingConvention

    for function in module.functions.values():
        signature = CallingConvention.of(function)
        tensors = signature.tensors if signature is not None else ()
        trained = {name for name, kind in tensors if kind == "parameter"}
        held = [expr.data for expr in walk(function) if isinstance(expr, Constant)] if trained else []
        named = {data.name for data in held} & trained
        made = {id(data): data.sources for data in held if data.name is None}
        if any(source in named for sources in made.values() for source in sources):
            return True
        alone = [sources[0] for sources in made.values() if len(sources) == 1 and sources[0] in trained]
        if len(alone) > len(set(alone)):
            return True
    return False


def is_newer_for_nothing(opened: Model, after: IRModule, result: Any) -> bool:
    """True if ``result``, a file or an object, left the opset of a model before opset 13 and gained nothing by it.

    Then it has no fewer nodes, and is not expected to pay. ``after`` is the module that it was written from.
    """
    if opened.is_changed or opened.form != "onnx":
        return False
    from ..formats.onnx.described import node_count, opset_of

    opset = opset_of(opened.source)
    if opset >= _OLDEST or opset_of(result) <= opset or node_count(result) < node_count(opened.source):
        return False
    return not _pays(opened.module, after)


def _pays(before: IRModule, after: IRModule) -> bool:
    """True if ``after`` is expected to take so much less time that a few more nodes or bytes are worth it."""
    seconds = _seconds(before)
    return seconds > 0.0 and _seconds(after) <= _PAYS * seconds


def _forms(raised: Raised | None) -> set[str]:
    """The forms of the operators that need a newer opset."""
    return set() if raised is None else {form for form, operator in _FORMS.values() if operator in raised.operators}


def _opset_of(module: IRModule) -> int:
    from ..formats.onnx.write.model_facts import ModelFacts

    return ModelFacts.of(module).opset


def _newer(before: IRModule, after: IRModule, opset: int) -> dict[str, int]:
    """The ONNX operators newer than ``opset`` that ``after`` has more of, each with the opset that introduced it."""
    from ..formats.onnx.write.opsets import first_of

    counts = op_counts(before), op_counts(after)
    more = [operator for name, (_, operator) in _FORMS.items() if counts[1].get(name, 0) > counts[0].get(name, 0)]
    return {operator: first_of(operator) for operator in more if first_of(operator) > opset}


def _seconds(module: IRModule) -> float:
    """The expected time of all calls of a module, with `_SIZE` for unknown sizes; NaN if the module cannot have that
    size.
    """
    taken = 0.0
    for function in module.functions.values():
        try:
            bound = bind_sizes(function, dict.fromkeys(sizes_of(function), _SIZE))
        except RegraftError:
            return math.nan
        calls = [binding.value for binding in iter_bindings(bound) if isinstance(binding.value, Call)]
        timed = (call for call in calls if not is_call_of(call, *_FREE))
        taken += sum(call_seconds(call) or 0.0 for call in timed)
    return taken

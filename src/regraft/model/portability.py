"""The portability of an optimized ONNX model: its size, and its opset where a newer one does not pay.

Attention, norms and activations that are recognized are operators of newer opsets than their formulas. Runtimes fuse
the formulas of norms and activations by themselves, so only attention can be worth it.
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
"""For each operator that is recognized, the form that it is recognized by, and the operator of ONNX."""
_ATTENTION: Final = ("relax.nn.attention", "relax.nn.attention_bias")
_OLDEST: Final = 13
_FREE: Final = ("relax.reshape", "relax.flatten", "relax.expand_dims", "relax.squeeze")
"""Operators that take no time of the estimate: the same bytes in another shape."""
_SIZE: Final = 64
"""The number that stands for every size that is not known."""
MOST_GROWN: Final = 256
"""The most bytes by which a model, or the constants of one, may grow."""
_PAYS: Final = 0.9
"""The most of the time before that a model of a newer opset, or of a few more bytes, may take."""


class Raised(NamedTuple):
    """The opset that a model had and the one that it needs now, for ``operators`` of ONNX."""

    before: int
    after: int
    operators: tuple[str, ...]

    def __str__(self) -> str:
        return f"opset {self.before} became {self.after} for {', '.join(self.operators)}"


def raised_opset(before: IRModule, after: IRModule) -> Raised | None:
    """The opset that recognized operators need, where it is higher than the model's; else None."""
    opset = _opset_of(before)
    new = _newer(before, after, max(opset, _OLDEST)) if opset else {}
    return Raised(opset, max(new.values()), tuple(sorted(new))) if new else None


class _Done(Protocol):
    """The result of optimizing."""

    @property
    def module(self) -> IRModule:
        """The module that came of it."""
        ...


_Result = TypeVar("_Result", bound=_Done)


def as_portable(
    opened: Model, before: IRModule, done: _Result, level: int | str, again: Callable[[Collection[str]], _Result]
) -> _Result:
    """``done``, or what stays in the opset of the model where the newer one of ``done`` is not expected to pay.

    A program of PyTorch keeps attention written out where PyTorch's operator takes its slow way. ``before`` is the
    module that was optimized; ``again`` optimizes it without recognizing the forms that it is told. Level 3 takes any
    opset and form, and so does a caller who names an opset. Cost: up to three more runs of the passes.
    """
    from ..formats.onnx.write.model_facts import versions_of

    if opened.form == "torch" and level_number(level) < 3 and _slow(done.module) > _slow(before):
        return again({ATTENTION})
    if opened.form != "onnx" or level_number(level) >= 3 or versions_of(opened.module)[0] is not None:
        return done
    left_out: set[str] = set()
    while forms := _forms(raised_opset(before, done.module)) - left_out:
        # Without attention first: the other forms are as fast written out, where a runtime fuses them by itself.
        left_out |= {ATTENTION} if ATTENTION in forms else forms
        apart = again(left_out)
        if left_out == {ATTENTION} and _seconds(done.module) <= _PAYS * _seconds(apart.module):
            return done
        done = apart
    return done


def has_new_attention(opened: Model, after: IRModule) -> bool:
    """True if ``after`` has more attention in one operator each than the model that was opened."""
    before = op_counts(opened.module)
    found = op_counts(after)
    return sum(found[name] for name in _ATTENTION) > sum(before[name] for name in _ATTENTION)


def _slow(module: IRModule) -> int:
    """The number of calls of attention without a fast kernel in PyTorch.

    These have keys and values of different sizes, or an operand whose last axis is not the innermost one in memory.
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
    """True if ``result``, a file or an object, is the ONNX model that was opened, but for the names inside it.

    Cost: linear; of files the constants are compared last.
    """
    if opened.is_changed or opened.form != "onnx":
        return False
    from ..formats.onnx.same_graph import is_same_graph

    return is_same_graph(opened.source, result)


def is_larger(opened: Model, after: IRModule, result: Any, most: float = 1.0) -> bool:
    """True if ``result``, a file or an object, is larger than the model that was opened, in the terms of its format.

    ``after`` is the module that ``result`` was written from. A program of PyTorch has more than ``most`` times the
    operators, as happens to one that writes in place. An ONNX model of a level that rewrites whether that pays or not,
    with ``most`` over 1, has more bytes and more than that many times the nodes, or it has more bytes than `MOST_GROWN`
    and is not expected to pay. One of the other levels has a single byte more, or more nodes, and is not expected to
    pay; more bytes than `MOST_GROWN` never do. Nodes count with functions written out wherever they are called, and
    with the bodies of loops and branches. Cost: models in files are read again, once each.
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
    """True if a program of PyTorch has a weight that is trained, and beside it a constant that was made of it.

    So it is if several constants were made of one such weight alone, as its slices are.
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
    """True if ``result``, a file or an object, left the opset of a model of before opset 13 and gained nothing by it.

    It has no fewer nodes then, and is not expected to pay. ``after`` is the module that it was written from.
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
    """The forms of the operators that a newer opset is needed for."""
    return set() if raised is None else {form for form, operator in _FORMS.values() if operator in raised.operators}


def _opset_of(module: IRModule) -> int:
    from ..formats.onnx.write.model_facts import ModelFacts

    return ModelFacts.of(module).opset


def _newer(before: IRModule, after: IRModule, opset: int) -> dict[str, int]:
    """The operators of ONNX that ``after`` has more of and that came after ``opset``, each with the one it came in."""
    from ..formats.onnx.write.opsets import first_of

    counts = op_counts(before), op_counts(after)
    more = [operator for name, (_, operator) in _FORMS.items() if counts[1].get(name, 0) > counts[0].get(name, 0)]
    return {operator: first_of(operator) for operator in more if first_of(operator) > opset}


def _seconds(module: IRModule) -> float:
    """The expected time of all calls of a module, at sizes as `_SIZE` says; NaN for one that has other sizes only."""
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

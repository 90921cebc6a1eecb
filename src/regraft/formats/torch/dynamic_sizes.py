"""Sizes that users declare dynamic: their names, and the reasons why `torch.export` fixes one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from ..quiet import quiet

_LOGGER: Final = logging.getLogger("torch.fx.experimental.symbolic_shapes")
_FIXED: Final = re.compile(r"You marked (.+?) as dynamic but your code specialized it to be a constant \((\d+)\)")
_TOO_SMALL: Final = re.compile(r"0/1 specialized due to hint of (\d+) for dimension (\S+)\.shape\[(\d+)\]")
_UNMET: Final = re.compile(r"- (Not all values of .+)")
_FIXED_AT: Final = re.compile(r"eval Eq\(\w+, (\d+)\) \[guard added\] \((\S+:\d+) in (\w+)\)")


def reason_of_sizes(text: str, export_again: Callable[[], object]) -> str | None:
    """The reason why PyTorch, with the message ``text``, cannot make a size dynamic, and what to do; else None.

    ``export_again`` repeats the export, if that can find the line of the model.
    """
    too_small = _TOO_SMALL.search(text)
    if too_small is not None:
        return _example_of(too_small[1], f"axis {too_small[3]} of {too_small[2]}")
    if "Constraints violated" not in text:
        return None
    fixed = _FIXED.search(text)
    if fixed is None:
        return _other_limits(text)
    name, size = fixed[1], fixed[2]
    if size in ("0", "1"):
        return _example_of(size, name)
    place = _place_that_fixes(size, export_again)
    where = f", at {place}" if place else ""
    return (
        f"{name} was declared dynamic, but the model fixes it at {size}{where}; compute with the size itself there "
        "(a list over it or int(...) makes it a number of Python), or leave it out of dynamic_shapes"
    )


def _other_limits(text: str) -> str | None:
    """The message that sizes are less free than declared: PyTorch's suggestion, or the condition that it found.

    None if PyTorch's message has neither.
    """
    wanted = [line.strip() for line in text.partition("Suggested fixes:")[2].strip().split("\n\n")[0].splitlines()]
    if wanted:
        return f"the sizes are not as free as declared; declare in dynamic_shapes: {', '.join(wanted)}"
    unmet = _UNMET.search(text)
    return unmet and f"{unmet[1].rstrip('.')}; give torch.export.Dim a min or max that leaves out the others"


def _example_of(size: str, what: str) -> str:
    return (
        f"{what} was declared dynamic, but is {size} in the example inputs, and torch.export takes sizes of 0 and 1 as "
        "fixed; give example inputs of 2 or more there"
    )


def _place_that_fixes(size: str, export_again: Callable[[], object]) -> str | None:
    """The line of the model that compares a size with ``size``, from PyTorch's log of another export.

    None if the log has no such line.
    """
    found: list[str] = []
    with quiet(), _messages_to(found), suppress(Exception):  # the same failure again
        export_again()
    for message in found:
        place = _FIXED_AT.match(message)
        if place is not None and place[1] == size and not place[2].startswith("_export/"):
            return f"{place[2]} in {place[3]}"
    return None


@contextmanager
def _messages_to(found: list[str]) -> Generator[None]:
    """A context in which PyTorch's messages about sizes are added to ``found`` only."""

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    handler, level, propagates, disabled = Collecting(), _LOGGER.level, _LOGGER.propagate, _LOGGER.disabled
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = _LOGGER.disabled = False
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)
        _LOGGER.setLevel(level)
        _LOGGER.propagate, _LOGGER.disabled = propagates, disabled


def dim_names(program: ExportedProgram, dynamic_shapes: Any, arguments: Sequence[str]) -> dict[str, str]:
    """The names that users gave to sizes with `torch.export.Dim`, by PyTorch's own symbols.

    ``arguments`` are the names of the model's arguments.
    """
    spec = program.call_spec.in_spec
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    inputs = nodes[len(nodes) - len(program.graph_signature.user_inputs) :]
    if not dynamic_shapes or spec is None or spec.num_leaves != len(inputs):
        return {}
    args, kwargs = pytree.tree_unflatten([node.meta.get("val") for node in inputs], spec)
    shapes = list(dynamic_shapes)
    if isinstance(dynamic_shapes, Mapping):
        by_name = cast("Mapping[str, Any]", dynamic_shapes)
        shapes = [by_name.get(name) for name in arguments] if {*by_name} <= {*arguments} else list(by_name.values())
    in_order = len(shapes) - len(kwargs)
    # The shapes of ``*args`` are a single entry, a sequence.
    given = (
        [*args[: in_order - 1], args[in_order - 1 :], *kwargs.values()] if _has_rest(shapes, args, in_order) else None
    )
    found: dict[str, str] = {}
    for value, axes in _tensors_with_axes(given or [*args, *kwargs.values()], shapes):
        named = cast("Mapping[int, Any]", axes if isinstance(axes, Mapping) else dict(enumerate(axes or ())))
        for axis, size in named.items():
            symbol: Any = value.shape[axis]
            if isinstance(symbol, torch.SymInt) and isinstance(size, torch.export.Dim):
                expression = cast(Any, symbol).node.expr
                if expression.is_Symbol:
                    found[str(expression.name)] = size.__name__
    return found


def _has_rest(shapes: Sequence[Any], args: Sequence[Any], in_order: int) -> bool:
    """True if the last positional arguments share one entry of ``shapes``."""
    if not 0 < in_order <= len(args):
        return False
    last = shapes[in_order - 1]
    if not isinstance(last, list | tuple) or len(cast("Sequence[Any]", last)) != len(args) - in_order + 1:
        return False
    if in_order < len(args) or isinstance(args[-1], Mapping):
        return True
    return isinstance(args[-1], torch.Tensor) and isinstance(last[0], Mapping | list | tuple)


def _tensors_with_axes(value: Any, axes: Any) -> Iterator[tuple[torch.Tensor, Any]]:
    """The tensors of nested arguments, each with the entry for its axes."""
    if axes is None:
        return
    if isinstance(value, torch.Tensor):
        yield value, axes
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[Any, Any]", value).items():
            yield from _tensors_with_axes(item, axes.get(key))
    elif isinstance(value, list | tuple):
        for item, own in zip(cast("Sequence[Any]", value), axes, strict=False):
            yield from _tensors_with_axes(item, own)

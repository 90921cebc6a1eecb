"""From a module to a graph without side effects.

The graph is taken as it was exported, with `linear`, attention and the like whole. Only where there are in-place
operators or regions (`no_grad`, autocast) is it made functional.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import torch
from torch.export import ExportedProgram

from ..errors import ConvertError
from .quiet import quiet

_REGIONS: Final = ("wrap_with_set_grad_enabled", "wrap_with_autocast")
IGNORED: Final = dict.fromkeys(
    (
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default",
    )
)
"""Checks of what was promised to the exporter; the types of the program say the same."""


def export(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> ExportedProgram:
    """``module`` exported for the given example inputs; PyTorch's failures become `ConvertError`."""
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(module, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    except Exception as error:
        raise ConvertError(f"torch.export cannot export {type(module).__name__}: {_reason(error)}") from error


_HINTS: Final = {
    "GuardOnDataDependent": "control flow depends on the values of tensors; write it with torch.cond or torch.where, "
    "or promise a bound with torch._check",
    "data-dependent": "control flow depends on the values of tensors; write it with torch.cond or torch.where, or "
    "promise a bound with torch._check",
    "Constraints violated": "a size was declared dynamic, but the model needs it fixed; leave it out of dynamic_shapes",
}
_RAISED_AT: Final = re.compile(r'following call raised this error:\n\s*File "([^"]+)", line (\d+)')


def _reason(error: Exception) -> str:
    """The first line of PyTorch's message, the line of the model, and what to do where that is known."""
    text = str(error).strip()
    first = text.splitlines()[0] if text else type(error).__name__
    place = _RAISED_AT.search(text)
    where = f", at {place[1]}:{place[2]}" if place else ""
    hint = next((hint for sign, hint in _HINTS.items() if sign in f"{type(error).__name__} {text}"), None)
    return f"{first}{where}{f' ({hint})' if hint else ''}"


def prepared(program: ExportedProgram) -> ExportedProgram:
    """``program`` without in-place operators and regions."""
    if not isinstance(program, ExportedProgram):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConvertError(f"expected a torch.nn.Module or an ExportedProgram, not a {type(program).__name__}")
    if any(_has_effect(node) for node in program.graph.nodes):
        try:
            with torch.no_grad(), quiet():
                return cast(Any, program).run_decompositions({})
        except Exception as error:
            raise ConvertError(f"PyTorch cannot make the program functional: {_reason(error)}") from error
    return program


def _has_effect(node: torch.fx.Node) -> bool:
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    if getattr(schema, "is_mutable", False):
        return True
    return getattr(node.target, "__name__", "") in _REGIONS


def is_operator(target: Any) -> bool:
    """Whether what a node calls is one of PyTorch's operators, rather than Python's or a region."""
    return hasattr(target, "_schema") and hasattr(target, "overloadpacket")

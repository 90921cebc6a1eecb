"""Inlining of the functions of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from onnx_ir.passes import common as passes

from ...errors import ConvertError
from ...quiet import quiet
from ..write.opsets import span_of
from .opening import READER, reason_of


@quiet(READER)
def inline_functions(model: ir.Model) -> None:
    """Inline the functions of a model, in place. Raises `ConvertError`. Cost: linear in the resulting nodes."""
    for function in model.functions.values():
        _bring_to_opsets(function, model)
    try:
        _NewNamesEachTime()(model)
    except Exception as error:  # onnx-ir raises errors of many kinds
        raise ConvertError(f"the functions of the model cannot be inlined: {reason_of(error)}") from error


def _bring_to_opsets(function: ir.Function, model: ir.Model) -> None:
    """Set the opsets of a function to those of its model, if its nodes mean the same there."""
    for domain, version in tuple(function.opset_imports.items()):
        wanted = model.opset_imports.setdefault(domain, version)
        nodes = [node for node in ir.traversal.RecursiveGraphIterator(function) if node.domain == domain]
        spans = [span_of(node, version) for node in nodes]
        if wanted != version and all(span is not None and wanted in span for span in spans):
            function.opset_imports[domain] = wanted


class _NewNamesEachTime(passes.InlinePass):
    """onnx-ir's pass, with names inside a function that are new at each call.

    For a name that is taken, the pass itself would try all numbers from 2 on, again at each call.
    """

    def __init__(self) -> None:
        super().__init__()
        self._own_names: dict[ir.Node, list[str]] = {}
        self._last_numbers: dict[str, int] = {}

    def _instantiate_call(self, node: ir.Node, call_site_id: str) -> tuple[Sequence[ir.Node], Sequence[Any]]:
        for inner in ir.traversal.RecursiveGraphIterator(self._functions[node.op_identifier()]):
            own = self._own_names.setdefault(
                inner, [inner.name or "node", *[output.name or "val" for output in inner.outputs]]
            )
            inner.name = self._free_name(own[0], self._used_node_names)
            for output, name in zip(inner.outputs, own[1:], strict=True):
                output.name = self._free_name(name, self._used_value_names)
        return super()._instantiate_call(node, call_site_id)

    def _free_name(self, name: str, used: set[str]) -> str:
        """``name`` if it is unused, else ``name`` with the smallest number after it that makes it unused."""
        if name not in used:
            return name
        number = self._last_numbers.get(name, 1)
        while (found := f"{name}_{number + 1}") in used:
            number += 1
        self._last_numbers[name] = number
        return found

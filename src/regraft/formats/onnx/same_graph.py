"""Comparison of two models: a test if they are the same graph, apart from the names inside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from .external_data import read_proto

_STANDARD: Final = ("", "ai.onnx")


class _GraphScope(NamedTuple):
    """A graph around a node: the pairs of names that are known to be equal, and the constants of both sides."""

    names: dict[str, str]
    mine: dict[str, onnx.TensorProto]
    theirs: dict[str, onnx.TensorProto]


def is_same_graph(before: Path | onnx.ModelProto, after: Path | onnx.ModelProto) -> bool:
    """True if ``after`` is ``before``: the same nodes on the same constants, in the same versions.

    These may differ: the order of independent nodes, names of nodes and of inner values, types of values, and the
    origins of nodes. Cost: linear. Constants of equal size are compared; those in files are not copied.
    """
    first, second = (read_proto(str(one)) if isinstance(one, Path) else one for one in (before, after))
    if _around(first) != _around(second):
        return False
    folders = [one.parent if isinstance(one, Path) else None for one in (before, after)]
    return _Comparison(folders).graphs(first.graph, second.graph)


def _around(model: onnx.ModelProto) -> tuple[object, ...]:
    opsets = {"" if one.domain in _STANDARD else one.domain: one.version for one in model.opset_import}
    facts = sorted((one.key, one.value) for one in model.metadata_props)
    graph = model.graph
    functions = [one.SerializeToString(deterministic=True) for one in model.functions]
    return opsets, model.ir_version, facts, functions, len(graph.node), len(graph.initializer)


class _Comparison:
    def __init__(self, folders: Sequence[Path | None]) -> None:
        self._folders = folders
        self._scopes: list[_GraphScope] = []

    def graphs(self, mine: onnx.GraphProto, theirs: onnx.GraphProto) -> bool:
        """True if two graphs are the same, inside the graphs that are being compared."""
        if _counts(mine) != _counts(theirs) or mine.sparse_initializer or theirs.sparse_initializer:
            return False
        ends = [[one.name for one in (*graph.input, *graph.output)] for graph in (mine, theirs)]
        if not self._scopes and ends[0] != ends[1]:
            return False
        names = {one.name: other.name for one, other in zip(mine.input, theirs.input, strict=True)}
        scope = _GraphScope(names, *({one.name: one for one in graph.initializer} for graph in (mine, theirs)))
        self._scopes.append(scope)
        try:
            outputs = zip(mine.output, theirs.output, strict=True)
            return (
                all(self._nodes(one, other) for one, other in zip(*map(_as_needed, (mine, theirs)), strict=True))
                and all(self._values(one.name, other.name) for one, other in outputs)
                and scope.mine.keys() <= names.keys()
            )
        finally:
            self._scopes.pop()

    def _nodes(self, mine: onnx.NodeProto, theirs: onnx.NodeProto) -> bool:
        if mine.op_type != theirs.op_type or mine.domain != theirs.domain or mine.overload != theirs.overload:
            return False
        sizes = len(mine.input), len(mine.output), len(mine.attribute)
        if sizes != (len(theirs.input), len(theirs.output), len(theirs.attribute)):
            return False
        inputs = zip(mine.input, theirs.input, strict=True)
        if not all(self._values(one, other) for one, other in inputs):
            return False
        others = {attribute.name: attribute for attribute in theirs.attribute}
        for attribute in mine.attribute:
            other = others.get(attribute.name)
            if other is None or not self._attributes(attribute, other):
                return False
        self._scopes[-1].names.update(zip(mine.output, theirs.output, strict=True))
        return all(bool(one) == bool(other) for one, other in zip(mine.output, theirs.output, strict=True))

    def _attributes(self, mine: onnx.AttributeProto, theirs: onnx.AttributeProto) -> bool:
        if mine.HasField("g") and theirs.HasField("g"):
            return self.graphs(mine.g, theirs.g)
        if mine.HasField("t") and theirs.HasField("t"):
            return self._tensors(mine.t, theirs.t)
        plain = [onnx.AttributeProto(), onnx.AttributeProto()]
        for copy, attribute in zip(plain, (mine, theirs), strict=True):
            copy.CopyFrom(attribute)
            copy.doc_string = ""
        return plain[0] == plain[1]

    def _values(self, mine: str, theirs: str) -> bool:
        """True if two names stand for the same value. Constants are compared when their first name is met."""
        if not mine or not theirs:
            return mine == theirs
        for scope in reversed(self._scopes):
            if mine in scope.names:
                return scope.names[mine] == theirs
            if mine in scope.mine:
                other = scope.theirs.get(theirs)
                scope.names[mine] = theirs
                return other is not None and self._tensors(scope.mine[mine], other)
        return False

    def _tensors(self, mine: onnx.TensorProto, theirs: onnx.TensorProto) -> bool:
        if mine.data_type != theirs.data_type or list(mine.dims) != list(theirs.dims):
            return False
        if mine.data_type == onnx.TensorProto.STRING:
            return list(mine.string_data) == list(theirs.string_data)
        numbers = [_numbers(one, folder) for one, folder in zip((mine, theirs), self._folders, strict=True)]
        return numbers[0] is not None and numbers[1] is not None and np.array_equal(numbers[0], numbers[1])


def _as_needed(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes of a graph in an order that depends only on their dependencies: each before its first reader."""
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    needed = [makers[one.name] for one in graph.output if one.name in makers]
    placed: dict[int, None] = {}
    stack = [(place, False) for place in reversed([*needed, *range(len(graph.node))])]
    opened: set[int] = set()
    while stack:
        place, is_open = stack.pop()
        if is_open:
            placed[place] = None
        elif place not in opened:
            opened.add(place)
            before = [makers[name] for name in _read_by(graph.node[place]) if name in makers]
            stack += [(place, True), *[(each, False) for each in reversed(before)]]
    return [graph.node[place] for place in placed]


def _read_by(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node and its bodies read."""
    yield from node.input
    for graph in (graph for attribute in node.attribute for graph in (attribute.g, *attribute.graphs)):
        for inner in graph.node:
            yield from _read_by(inner)
        yield from (one.name for one in graph.output)


def _counts(graph: onnx.GraphProto) -> tuple[int, ...]:
    return len(graph.input), len(graph.output), len(graph.node), len(graph.initializer)


def _numbers(tensor: onnx.TensorProto, folder: Path | None) -> np.ndarray | None:
    """The bytes of a tensor; None if they are in a file of an unknown folder."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        if folder is None:
            return None
        place = {entry.key: entry.value for entry in tensor.external_data}
        path, offset = folder / place.get("location", ""), int(place.get("offset", "0"))
        length = int(place.get("length", str(os.path.getsize(path) - offset)))
        return np.memmap(path, np.uint8, "r", offset, (length,)) if length else np.empty(0, np.uint8)
    if tensor.HasField("raw_data"):
        return np.frombuffer(tensor.raw_data, np.uint8)
    to_array: Callable[..., Any] = numpy_helper.to_array
    return np.frombuffer(np.ascontiguousarray(to_array(tensor)).tobytes(), np.uint8)

"""ONNX models from files and messages, opened for the reader: checked, sorted, and in a supported opset."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import onnx
import onnx_ir as ir

from ...errors import ConvertError
from ...quiet import quiet
from ..attributes import bodies_of
from ..carried import without_ends
from ..external_data import IN_OTHER_FILES, check_external_data, read_proto
from .soundness import check_message
from .sparse import with_dense_constants

STANDARD: Final = ("", "ai.onnx")
"""The domain of ONNX's own operators, under its two names."""

_OLDEST_WRITTEN: Final = 13
READER: Final = "onnx_ir"
"""The package that reads messages, and logs each damaged part of them. Here, one error reports the damage."""
_LONGEST_REASON: Final = 300
_FIRST_WITH_OPSETS: Final = 3
"""The first version of the file format in which a model states its opset."""
_FIRST_WITH_DEFAULTS: Final = 4
"""The first version of the file format in which initializers need not be inputs."""
_LISTED: Final = 10
"""If so many initializers or more are all inputs, the exporter lists every initializer as an input."""


def default_inputs(model: ir.Model) -> frozenset[str]:
    """The inputs whose initializers are defaults; see `from_onnx`."""
    inputs = {value.name for value in model.graph.inputs}
    found = [name for name in model.graph.initializers if name in inputs]
    listed = len(found) == len(model.graph.initializers) and len(found) >= _LISTED
    if model.ir_version < _FIRST_WITH_DEFAULTS or listed:
        return frozenset()
    constants = {name: model.graph.initializers[name].const_value for name in found}
    return frozenset(
        name for name, tensor in constants.items() if tensor is not None and tensor.dtype.is_floating_point()
    )


def open_file(path: str, with_sequences: bool = False, inside: bool = False) -> tuple[ir.Model, str | None]:
    """The model in a file, and its ends; see `deserialized`. Weights stay in the file. Raises `ConvertError`."""
    if not os.path.isfile(path):
        raise ConvertError(f"{path}: there is no such file")
    try:
        proto = read_proto(path)
    except ConvertError:
        raise
    except OSError as error:
        raise ConvertError(f"{path}: {error.strerror or error}") from error
    except Exception as error:  # protobuf's errors share no other base
        raise ConvertError(f"{path}: this is no ONNX model, or it is damaged: {error}") from error
    opened, carried = deserialized(proto, path, with_sequences, inside)
    opened.meta[IN_OTHER_FILES] = check_external_data(opened.graph, path)
    return opened, carried


@quiet(READER)
def deserialized(
    proto: onnx.ModelProto, where: str = "the model", with_sequences: bool = False, inside: bool = False
) -> tuple[ir.Model, str | None]:
    """The model in a message, with its nodes sorted, and its ends if they are carried. Raises `ConvertError`.

    ``with_sequences`` and ``inside`` are those of `without_ends`.
    """
    if not proto.HasField("graph") or not (proto.opset_import or proto.ir_version):
        raise ConvertError(f"{where}: this is no ONNX model, or it is damaged: it has no graph")
    check_message(proto, where)
    proto, carried = without_ends(proto, with_sequences, inside)
    try:
        opened = ir.from_proto(with_dense_constants(proto))
        if not _is_in_order(opened.graph):
            opened.graph.sort()
        return opened, carried
    except ConvertError:
        raise
    except Exception as error:  # onnx-ir raises errors of many kinds
        raise ConvertError(f"{where}: the model is damaged, or has unsupported content: {reason_of(error)}") from error


def reason_of(error: BaseException) -> str:
    """The first line of the innermost error. The errors around it show the whole model."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().split("\n")[0][:_LONGEST_REASON] or type(error).__name__


def _is_in_order(graph: ir.Graph) -> bool:
    """True if each node comes after those that make its inputs. The standard requires it; runtimes take any order."""
    seen: set[ir.Node] = set()
    for node in graph:
        if not all(_is_in_order(body) for body in bodies_of(node)):
            return False
        producers = [value.producer() for value in _values_used(node) if value is not None]
        if any(producer is not None and producer.graph is graph and producer not in seen for producer in producers):
            return False
        seen.add(node)
    return True


def _values_used(node: ir.Node) -> Iterator[ir.Value | None]:
    """The values that a node and the nodes of its bodies read."""
    yield from node.inputs
    for body in bodies_of(node):
        for inner in body:
            yield from _values_used(inner)


def opset_of(model: ir.Model) -> int:
    """The opset of ONNX's own operators.

    If the model states none, this is the newest opset, or the oldest that is written if the model has none of these
    operators. It is 1 for a file format that cannot state one. Raises `ConvertError` for an opset that is newer than
    the installed onnx.
    """
    opset = max((model.opset_imports.get(domain, 0) for domain in STANDARD), default=0)
    if not opset and model.ir_version < _FIRST_WITH_OPSETS:
        return 1
    newest = onnx.defs.onnx_opset_version()
    if opset > newest:
        raise ConvertError(
            f"the model is of opset {opset}; onnx {onnx.__version__} knows up to {newest}: pip install -U onnx"
        )
    is_own = any(node.domain in STANDARD for node in ir.traversal.RecursiveGraphIterator(model.graph))
    return opset or (newest if is_own else _OLDEST_WRITTEN)

"""The description of a model before it is run: signature, weights, operators and arithmetic."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..analysis import estimate_cost
from ..formats.source import SourceFacts, StoredTensor
from ..ir.expr import Constant
from ..ir.tensor_data import TensorData
from ..ir.types import type_symvars
from ..ir.visitor import walk
from ..passes import op_counts
from .models import Model, output_names, output_types, type_text

_OF_SIZES: Final = ("int64", "int32", "bool")
"""The dtypes of sizes, axes and flags. Tensors of these dtypes are weights only if the program computes with them."""


@dataclass(frozen=True, slots=True)
class Description:
    """The result of `describe_model`.

    ``inputs`` and ``outputs`` are names and types, ``dims`` the names of symbolic sizes. ``source_ops`` counts the
    operators by their names in the file, ``ops`` by the names of the operators that they were read as. ``operations``
    is the arithmetic of one run and ``traffic`` the bytes that it reads and writes; they are texts if they depend on
    ``dims``. ``uncounted`` is the number of calls in neither of them. A weight without a name has an empty name.
    """

    format: str
    versions: Mapping[str, int | str]
    producer: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    dims: tuple[str, ...]
    weights: tuple[StoredTensor, ...]
    source_ops: Mapping[str, int]
    ops: Mapping[str, int]
    operations: int | str
    traffic: int | str
    uncounted: int
    metadata: Mapping[str, str]

    @property
    def weight_elements(self) -> int:
        """The number of elements in all weights."""
        return sum(_elements(one.shape) for one in self.weights)

    @property
    def weight_bytes(self) -> int:
        """The bytes of all weights."""
        return sum(one.bytes for one in self.weights)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {
            "format": self.format,
            "versions": dict(self.versions),
            "producer": self.producer,
            "inputs": [{"name": name, "type": ty} for name, ty in self.inputs],
            "outputs": [{"name": name, "type": ty} for name, ty in self.outputs],
            "dims": list(self.dims),
            "weights": [{**one._asdict(), "shape": list(one.shape)} for one in self.weights],
            "weight_elements": self.weight_elements,
            "weight_bytes": self.weight_bytes,
            "operators": dict(self.source_ops),
            "relax_operators": dict(self.ops),
            "operations": self.operations,
            "traffic": self.traffic,
            "uncounted": self.uncounted,
            "metadata": dict(self.metadata),
        }


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def describe_model(model: Model) -> Description:
    """The description of a model before it is run. Cost: linear; weights are not read."""
    from ..formats.onnx.write.model_facts import metadata_of

    function = model.function
    tensors = {id(node.data): node.data for node in walk(function) if isinstance(node, Constant) and node.data.size > 1}
    dims = {symvar.name: None for param in function.params for symvar in type_symvars(param.ty)}
    ops = op_counts(function)
    facts = _source_facts(model, ops)
    cost = estimate_cost(function)
    return Description(
        facts.format,
        facts.versions,
        facts.producer,
        tuple((param.name_hint, type_text(param.ty)) for param in function.params),
        tuple((name, type_text(ty)) for name, ty in zip(output_names(function), output_types(function), strict=True)),
        tuple(dims),
        _weights(facts.stored, list(tensors.values())),
        facts.operators,
        ops,
        cost.operations if isinstance(cost.operations, int) else str(cost.operations),
        cost.bytes if isinstance(cost.bytes, int) else str(cost.bytes),
        cost.unknown,
        metadata_of(model.module),
    )


def _weights(stored: Sequence[StoredTensor], read: Sequence[TensorData]) -> tuple[StoredTensor, ...]:
    """The tensors of a model: the tensors that its file lists, and further ones that the program was ``read`` with.

    Integers in the file that are read as sizes and axes are left out. A tensor that was computed while reading has no
    name.
    """
    names = {data.name for data in read}
    found = {
        one.name: one
        for one in stored
        if math.prod(one.shape) > 1 and (one.dtype not in _OF_SIZES or one.name in names)
    }
    others = [data for data in read if data.name not in found and (data.name or not stored)]
    return (*found.values(), *(StoredTensor(one.name or "", one.dtype, one.shape, one.nbytes) for one in others))


def _source_facts(model: Model, ops: Counter[str]) -> SourceFacts:
    """The source of a model, in the terms of its format."""
    if model.form == "onnx":
        from ..formats.onnx.source_facts import onnx_facts

        return onnx_facts(model.source)
    if model.form == "torch":
        from ..formats.torch.source_facts import torch_facts

        program = model.source if model.loaded is None else model.loaded
        if isinstance(program, sys.modules["torch"].export.ExportedProgram):
            return torch_facts(program)
        return SourceFacts("PyTorch", {}, own_names(ops))
    return SourceFacts("OpenVINO" if model.form == "openvino" else "Relax", {}, own_names(ops))


def node_kinds(model: Model) -> Mapping[str, int] | None:
    """The number of nodes of each kind in the file or message of an ONNX model; None for other models. Cost: linear."""
    if model.form != "onnx":
        return None
    from ..formats.onnx.source_facts import onnx_operators

    return onnx_operators(model.source)


def own_names(ops: Mapping[str, int]) -> dict[str, int]:
    """The number of calls of each operator, by its name without the prefix ``relax.``."""
    return {name.removeprefix("relax."): count for name, count in ops.items()}

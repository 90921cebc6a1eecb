"""The facts of a model besides its graph: its producer, versions and purpose."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any, Final, NamedTuple, cast

import onnx
import onnx_ir as ir

from ....ir.module import IRModule
from ....ir.program import Function
from ...errors import ConvertError, reading_attribute
from ..described import description_size
from ..external_data import IN_OTHER_FILES

FACTS: Final = "onnx_model"
"""The attribute of a module with the facts of its source model, as pairs of name and value."""

METADATA: Final = "metadata"
"""The attribute of a module that holds the metadata of a source model, as pairs of key and value."""
INPUT_NAMES: Final = "input_names"
OUTPUT_NAMES: Final = "output_names"
"""The attributes of a function with the names that its inputs and outputs had in a source model."""
DEFAULT_INPUTS: Final = "default_inputs"
"""The attribute of a function with the names of constants that are also inputs of the model, with these numbers as
their defaults. Each stands behind `no_grad`, which no pass looks through, so that another value can take its place."""

_NEWEST_IR_VERSION: Final = 11
_LEAST_IR_VERSION: Final = 8
"""The lowest version for files that were not ONNX before: that of opset 13, which all current runtimes read."""


_HOW_TO_RUN: Final = "regraft.run."
"""The prefix of function attributes that hold numbers for the runtime. Files keep these attributes."""
_MOST_DIGITS: Final = 18

VERSIONS: Final = "onnx_versions"
"""The module attribute with the opset and the format version to write; 0 stands for any."""


def with_versions(module: IRModule, opset: int | None, ir_version: int | None) -> IRModule:
    """``module``, to be written as ONNX in these versions. None keeps the default."""
    return module if opset is None and ir_version is None else module.with_attr(VERSIONS, (opset or 0, ir_version or 0))


def versions_of(module: IRModule) -> tuple[int | None, int | None]:
    """The opset and the version of the format that `with_versions` asked for; None for the default."""
    with reading_attribute(VERSIONS):
        opset, ir_version = map(index, module.attrs.get(VERSIONS, (0, 0)))
    return opset or None, ir_version or None


def metadata_of(module: IRModule) -> dict[str, str]:
    """The metadata of the model that ``module`` was read from."""
    with reading_attribute(METADATA):
        return {str(key): str(value) for key, value in dict(module.attrs.get(METADATA, ())).items()}


def names_under(function: Function, attribute: str) -> tuple[str, ...]:
    """The names that a function has under `INPUT_NAMES`, `OUTPUT_NAMES` or `DEFAULT_INPUTS`; none without it."""
    names = function.attrs.get(attribute, ())
    with reading_attribute(attribute):
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in cast("list[Any]", names)):
            raise TypeError(f"these are no names: {names!r}")
    return tuple(cast("list[str]", names))


def how_to_run(function: Function) -> dict[str, str]:
    """The attributes of ``function`` for the runtime, as metadata of a model."""
    return {key: str(value) for key, value in function.attrs.items() if key.startswith(_HOW_TO_RUN)}


def without_how_to_run(metadata: Mapping[str, str]) -> tuple[tuple[tuple[str, str], ...], dict[str, int]]:
    """``metadata``, sorted by key, without the entries that `how_to_run` made of attributes, and these attributes.

    An entry with such a name whose value is not a number stays metadata.
    """
    said = {key for key, text in metadata.items() if key.startswith(_HOW_TO_RUN) and _is_number(text)}
    rest = tuple(sorted((key, text) for key, text in metadata.items() if key not in said))
    return rest, {key: int(metadata[key]) for key in sorted(said)}


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


class ModelFacts(NamedTuple):
    """The facts of an ONNX model; ``opset`` and ``ir_version`` are 0 if there was no model.

    ``states_types`` is True if the model states the types of at least half of the inner values of its graph, which a
    reader can infer as well. ``names_nodes`` is True if its nodes have names. ``packs_integers`` is True if constants
    of int64 are stored as integers of variable length, not as arrays. ``described`` is the `description_size` of its
    graph in bytes; 0 if there was no ONNX model. ``unsized`` are the outputs without sizes. ``in_other_files`` is True
    if constants are in other files than the model's own, which runtimes map into memory.
    """

    opset: int = 0
    ir_version: int = 0
    producer_name: str = "regraft"
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc_string: str = ""
    graph_name: str = ""
    graph_doc_string: str = ""
    states_types: bool = True
    names_nodes: bool = True
    packs_integers: bool = False
    described: int = 0
    unsized: tuple[str, ...] = ()
    in_other_files: bool = False

    @classmethod
    def of(cls, module: IRModule) -> ModelFacts:
        """The facts of the model that ``module`` was read from."""
        with reading_attribute(FACTS):
            given: dict[str, Any] = dict(module.attrs.get(FACTS, ()))
            known = {name: value for name, value in given.items() if name in cls._fields}
            for name, value in known.items():
                if type(value) is not type(cls._field_defaults[name]):
                    raise TypeError(f"{name} is {value!r}")
        return cls(**known)

    @classmethod
    def read_from(cls, model: ir.Model, opset: int) -> ModelFacts:
        """The facts of a model."""
        return cls(
            opset,
            model.ir_version,
            model.producer_name or "",
            model.producer_version or "",
            model.domain or "",
            model.model_version or 0,
            model.doc_string or "",
            model.graph.name or "",
            model.graph.doc_string or "",
            _states_types(model.graph),
            any(node.name for node in model.graph),
            any(map(_is_packed, model.graph.initializers.values())),
            description_size(model.graph),
            tuple(value.name or "" for value in model.graph.outputs if not _states_sizes(value)),
            _is_in_other_files(model),
        )

    def as_pairs(self) -> tuple[tuple[str, Any], ...]:
        """The facts that differ from those of a program without a model, as pairs for `FACTS`."""
        plain = ModelFacts()
        return tuple((name, value) for name, value in self._asdict().items() if value != getattr(plain, name))

    def write_to(self, model: ir.Model, ir_version: int | None = None) -> None:
        """State the facts in a model, and the version of the format: ``ir_version``, or one that fits its opset.

        Raises `ConvertError` for a version that is too old for the opset, or newer than the installed ONNX.
        """
        needed = _needed_ir_version(model)
        if ir_version is not None and not needed <= ir_version <= onnx.IR_VERSION:
            raise ConvertError(f"ir_version={ir_version}; expected {needed} to {onnx.IR_VERSION} for this model")
        least = max(needed, self.ir_version or _LEAST_IR_VERSION)
        model.ir_version = min(least, _NEWEST_IR_VERSION) if ir_version is None else ir_version
        model.producer_name, model.producer_version = self.producer_name, self.producer_version or None
        model.domain, model.model_version = self.domain or None, self.model_version or None
        model.doc_string = self.doc_string or None
        model.graph.name = self.graph_name or model.graph.name
        model.graph.doc_string = self.graph_doc_string or None


def _is_in_other_files(model: Any) -> bool:
    return bool(model.meta.get(IN_OTHER_FILES))


def _states_types(graph: ir.Graph) -> bool:
    inner = [value for node in graph for value in node.outputs if value.uses() and not value.is_graph_output()]
    stated = sum(value.type is not None for value in inner)
    return stated > 0 and 2 * stated >= len(inner)


def _is_packed(value: ir.Value) -> bool:
    tensor = value.const_value
    return isinstance(tensor, ir.TensorProtoTensor) and len(tensor.raw.int64_data) > 0


def _needed_ir_version(model: ir.Model) -> int:
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in model.graph.opset_imports.items()]
    return onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True)


def _states_sizes(value: ir.Value) -> bool:
    """True if a value has a shape with at least one stated size, or of rank 0."""
    shape = value.shape
    return shape is not None and (not len(shape) or any(isinstance(dim, int) or dim.value is not None for dim in shape))

"""`from_onnx` with Relax's arguments; `regraft.formats.onnx` reads the models."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from ..formats import ConvertError
from ..formats.onnx import from_onnx as _from_onnx
from ..formats.onnx.element_types import to_onnx_dtype
from ..formats.onnx.write.model_facts import FACTS
from ..ir.dims import SymExpr
from ..ir.expr import Constant, Tuple, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.program import Function
from ..ir.visitor import walk
from ..run.lifted_constants import with_weights_as_parameters
from .returned import returning_a_tuple

_NO_IDENTIFIER = re.compile(r"\W")


def from_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    shape_dict: Mapping[str, Sequence[Any]] | None = None,
    dtype_dict: str | Mapping[str, str] | None = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> IRModule:
    """An ONNX model as a module with one function, ``main``.

    Args:
        model: A path, or the model itself.
        shape_dict: Shapes for inputs by name, which replace the model's own: ints, names of sizes, or size variables,
            which are identified by their names.
        dtype_dict: Dtypes for inputs by name, which replace the model's own. A single dtype for all is accepted, as in
            Relax, and ignored.
        opset: The version of the standard to read the model by, in place of the model's own.
        keep_params_in_input: True if the model's weights become parameters of ``main`` after its inputs. The attribute
            ``num_input`` then counts the inputs, and ``params`` holds the weights; see `detach_params`.
        sanitize_input_names: True if names of inputs that are not identifiers are changed into identifiers.

    Raises the errors of `regraft.from_onnx`, and `ConvertError` for an input that the model does not have.
    """
    dtypes: Mapping[str, str] = dtype_dict if isinstance(dtype_dict, Mapping) else {}
    if shape_dict or dtypes or opset is not None:
        model = _changed(model, shape_dict or {}, dtypes, opset)
    # Relax does not record the file's facts and names of values; `regraft.from_onnx` does, for writing the model back.
    module = _from_onnx(model).without_attr(FACTS)
    function = module["main"].without_attr("input_names").without_attr("output_names")
    function = function.with_attr("num_input", len(function.params))
    if isinstance(function.body.body, Tuple):
        function = returning_a_tuple(function, bound=True)
    if keep_params_in_input:
        constants = [node.data for node in walk(function) if isinstance(node, Constant)]
        weights = {data.name: data for data in constants if data.name is not None}
        function = with_weights_as_parameters(function, weights).with_attr("params", tuple(weights.values()))
    if sanitize_input_names:
        function = _with_plain_names(function)
    return module.with_function("main", function)


def _changed(
    model: str | os.PathLike[str] | onnx.ModelProto,
    shapes: Mapping[str, Sequence[Any]],
    dtypes: Mapping[str, str],
    opset: int | None,
) -> onnx.ModelProto:
    changed = onnx.ModelProto()
    given = model if isinstance(model, onnx.ModelProto) else onnx.load(os.fspath(model))  # pyright: ignore[reportUnknownMemberType]
    changed.CopyFrom(given)
    inputs = {value.name: value for value in changed.graph.input}
    for argument, table in (("shape_dict", shapes), ("dtype_dict", dtypes)):
        if unknown := [name for name in table if name not in inputs]:
            raise ConvertError(f"{argument} names {unknown[0]!r}, but the inputs are: {', '.join(inputs) or 'none'}")
    for name, dtype in dtypes.items():
        inputs[name].type.tensor_type.elem_type = int(to_onnx_dtype(dtype))
    for name, shape in shapes.items():
        stated = inputs[name].type.tensor_type.shape
        del stated.dim[:]
        for size in shape:
            dim = stated.dim.add()
            if isinstance(size, str | SymExpr):
                dim.dim_param = str(size)
            else:
                dim.dim_value = int(size)
    if shapes or dtypes:
        del changed.graph.value_info[:]  # they were inferred for the old types
    if opset is not None:
        for domain in changed.opset_import:
            if domain.domain in ("", "ai.onnx"):
                domain.version = opset
    return changed


def _with_plain_names(function: Function) -> Function:
    names: dict[Var, str] = {}
    taken = {param.name_hint for param in function.params}
    for param in function.params:
        if param.name_hint.isidentifier():
            continue
        name = _NO_IDENTIFIER.sub("_", param.name_hint)
        name = name if param.name_hint[:1].isalpha() or param.name_hint[:1] == "_" else f"input_{name}"
        while name in taken:
            name = f"{name}_"
        taken.add(name)
        names[param] = name
    if not names:
        return function
    renaming = ExprMutator()
    params: list[Var] = []
    for param in function.params:
        params.append(Var(names[param], param.ty, param.origins) if param in names else param)
        renaming.remap(param, params[-1])
    body = renaming.mutate(Function([], function.body, function.ret_ty, function.is_pure)).body
    return Function(params, body, function.ret_ty, function.is_pure, function.attrs)


__all__ = ["from_onnx"]

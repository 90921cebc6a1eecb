"""An ONNX model as a module: `from_onnx` opens it, and `GraphImporter` reads its graph."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import onnx
import onnx_ir as ir

from ....ir.collection import collection_paused
from ....ir.module import IRModule
from ....ir.op import Op
from ...errors import ConvertError, UnsupportedOperatorError
from ..carried import CARRIED
from ..external_data import check_external_data
from . import declared
from .graph_importer import GraphImporter
from .inlining import inline_functions
from .opening import default_inputs, deserialized, open_file, opset_of


@collection_paused()
def from_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    *,
    constants: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    pure: Iterable[str] = (),
    carry: bool = False,
) -> IRModule:
    """An ONNX model as a module with one function, ``main``.

    Weights stay in their files until they are read. Names of inputs, outputs and symbolic sizes are kept, and so is the
    model's metadata. Every variable knows the node that it came from. Functions of the model are inlined.
    Nodes at the ends of the model that work on strings or maps are carried unchanged, and so are nodes on sequences
    that no program can hold. The function is the part between them, and `to_onnx` puts them back.
    An input with an initializer of its name is optional: the initializer is its default. If that is a tensor of floats,
    and the program can be read without its numbers, it becomes a constant behind ``R.grad.no_grad``, so that no pass
    computes with it, and `to_onnx` writes it as such an input again. Others become constants. So do all in files before
    IR version 4, which had to list every initializer, and in files that list ten or more and leave none out.

    Args:
        model: A path, or the model itself.
        constants: Values for inputs by name, which are then no parameters of ``main``. An operator whose rank
            depends on the value of an input can only be read if the value is known.
        dims: Numbers for symbolic sizes of the inputs, by name. A size without a name is called ``input_axis``, such
            as ``x_0``. A model whose ranks depend on sizes can only be read if these are known.
        pure: The undeclared operators that have no effects: ``"domain"`` or ``"domain::Name"``. Calls of other
            undeclared operators stay in their place, and are never shared or removed.
        carry: True to read ONNX nodes that cannot be read otherwise as calls of foreign operators, ``ai.onnx::Name``,
            which `to_onnx` writes as the original nodes, including bodies. Such a program has a form in ONNX only.

    A node that needs sizes or numbers of the run becomes a foreign call, too: the run on NumPy reads it, and `to_onnx`
    writes it unchanged. Its rank must be known.
    Operators of other domains become calls of the operators declared for them (`regraft.operator`), or foreign calls
    with their attributes and the types that the model states, which are written unchanged. Raises `ConvertError` for a
    file that is no model or refers to files outside its folder, and `UnsupportedOperatorError` with all operators that
    cannot be read. Cost: linear in the nodes, some 100 µs each; weights are not read.
    """
    try:
        first = _opened(model, False)
        if carry and any(isinstance(value.type, ir.SequenceType | ir.OptionalType) for value in first[0].graph.outputs):
            first = _opened(model, True)  # a program would return the parts one by one, which changes the signature
        return _read(*first, constants or {}, dims or {}, pure)
    except UnsupportedOperatorError as error:
        ways = ((True, False, False), (False, False, True), (True, False, True), (True, True, True))
        for with_sequences, inside, carries in ways:
            if carries and not carry:
                break
            opened, carried = _opened(model, with_sequences, inside)
            if with_sequences and carried is None:
                continue
            with suppress(ConvertError):
                return _read(opened, carried, constants or {}, dims or {}, pure, carries)
        raise error


def from_message(proto: onnx.ModelProto, path: str, *, dims: Mapping[str, int]) -> IRModule:
    """A model whose larger constants are in files beside ``path``; otherwise as `from_onnx`.

    Raises `ConvertError`, also for constants that are missing or outside of that folder.
    """
    opened, carried = deserialized(proto, path)
    check_external_data(opened.graph, path)
    return _read(opened, carried, {}, dims, ())


def from_run(proto: onnx.ModelProto) -> IRModule:
    """A node that waited for the run, as a model whose inputs have the sizes of the run; otherwise as `from_onnx`."""
    return _read(*deserialized(proto), {}, {}, (), is_of_run=True)


def _opened(
    model: str | os.PathLike[str] | onnx.ModelProto, with_sequences: bool, inside: bool = False
) -> tuple[ir.Model, str | None]:
    """The model, and its ends. With ``with_sequences``, nodes that make or take sequences are carried, too.

    ``inside`` also carries them if the sequences are neither inputs nor outputs.
    """
    if isinstance(model, onnx.ModelProto):
        return deserialized(model, with_sequences=with_sequences, inside=inside)
    return open_file(os.fspath(model), with_sequences, inside)


def _read(
    opened: ir.Model,
    carried: str | None,
    constants: Mapping[str, Any],
    dims: Mapping[str, int],
    pure: Iterable[str],
    carries: bool = False,
    is_of_run: bool = False,
) -> IRModule:
    opset = opset_of(opened)
    for key, function in tuple(opened.functions.items()):
        if Op.of_onnx(function.domain, function.name) is not None:
            del opened.functions[key]  # the declaration defines it
    if opened.functions:
        inline_functions(opened)

    def read(defaults: frozenset[str]) -> IRModule:
        importer = GraphImporter(
            opset, dict(opened.opset_imports), declared.pure_names(pure), defaults, carries, is_of_run
        )
        module = importer.module(opened, constants, dims)
        return module if carried is None else module.with_attr(CARRIED, carried)

    defaults = default_inputs(opened).difference(constants)
    if defaults:
        try:
            return read(defaults)
        except ConvertError:
            pass  # an operator needs their numbers to be read
    return read(frozenset())

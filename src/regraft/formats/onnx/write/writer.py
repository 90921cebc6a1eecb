"""A module as an ONNX model, and a model as a file.

`to_onnx` is the public function. `lower_function` is shared with the ONNX Runtime engine: it makes the same graph,
but leaves constants in the memory where they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from ....analysis.unused import remove_all_unused
from ....ir.builder import NameSupply
from ....ir.collection import collection_paused
from ....ir.expr import Constant, Var
from ....ir.leaf_types import leaf_types
from ....ir.module import IRModule
from ....ir.op import is_call_of
from ....ir.program import Function
from ....ir.tensor_data import TensorData
from ....ir.types import PrimType, ShapeType, TensorType, TupleType, Type
from ....ir.visitor import iter_bindings
from ....op.program_xp import DecomposeError
from ....op.settle import settled
from ...errors import ConvertError
from ..attributes import bodies_of
from ..carried import CARRIED, with_ends
from ..described import description_size
from ..element_types import to_onnx_dtype
from ..external_data import as_checked, write_model
from ..source_nodes import ORIGIN_KEY, SourceNode
from ..sparse_attributes import as_message
from .graph import GraphWriter
from .lowering import LOWERINGS, Lowered, Lowering, OutsideOperators, flat
from .model_facts import (
    DEFAULT_INPUTS,
    INPUT_NAMES,
    OUTPUT_NAMES,
    ModelFacts,
    how_to_run,
    metadata_of,
    names_under,
    versions_of,
)
from .opsets import OLDEST, first_opset, span_of, write_down
from .size_nodes import put_sizes_late
from .tidy import tidy

__all__ = ["DEFAULT_OPSET", "LOWERINGS", "GraphPort", "LoweredFunction", "as_model", "lower_function", "to_onnx"]

OPSETS: Final = range(13, 27)
"""The opsets that can be written; the last is the newest that ONNX Runtime 1.31 supports in full."""

DEFAULT_OPSET: Final = min(OPSETS[-1], onnx.defs.onnx_opset_version())


class GraphPort(NamedTuple):
    """A tensor at the border of a graph: its value, and its type in the program."""

    value: ir.Value
    ty: Type


class LoweredFunction(NamedTuple):
    """A function as an ONNX graph."""

    graph: ir.Graph
    inputs: tuple[GraphPort, ...]
    outputs: tuple[GraphPort, ...]
    functions: dict[tuple[str, str, str], ir.Function]


@collection_paused()
def to_onnx(
    module: IRModule | Function,
    path: str | os.PathLike[str] | None = None,
    *,
    function: str | None = None,
    opset: int | None = None,
    ir_version: int | None = None,
    external_data: bool | str = "auto",
) -> onnx.ModelProto:
    """``module`` as an ONNX model. With ``path``, it is written to a file; the returned model is what the file holds.

    Tuples are flattened into tensors, in order. Shapes become vectors of int64, and scalars tensors of rank 0. Called
    functions are inlined. A ``match_cast`` is trusted: ONNX checks nothing at run time. Inputs and outputs keep the
    names that they had in the source model, and the metadata of each node lists under ``regraft.origin`` the nodes of
    that model from which it came.

    Args:
        module: A module, or a function alone.
        path: The file to write. It is written completely or not at all.
        function: The function to write; by default ``main``, or the only public one.
        opset: The version of ONNX's operators, 13 to 26. By default the lowest that the nodes need, and at least that
            of the source model. Operators that the version lacks are written as others.
        ir_version: The version of the file format. By default the lowest that the opset needs, and at least that of the
            source model.
        external_data: True to write large constants to a second file, ``<name>.data``, beside the model. ``"auto"``
            does so if those of the source model are in such files, or if the model would exceed 2 GB, the most that
            one file can hold. The returned model then refers to that file.

    Raises `ConvertError` for a program that ONNX cannot hold. Cost: linear in the bindings, some 100 µs each, and
    writing the weights. Memory: that of the program and of the largest constant, if they go to a second file.
    """
    if isinstance(module, Function):
        module = IRModule.from_expr(module)
    asked = versions_of(module)
    opset, ir_version = asked[0] if opset is None else opset, asked[1] if ir_version is None else ir_version
    if opset is not None and opset not in OPSETS:
        raise ConvertError(f"opset={opset}; expected {OPSETS[0]} to {OPSETS[-1]}")
    name = _chosen(module, function)
    facts = ModelFacts.of(module)
    lowered = lower_to_file(settled(module), name, facts, opset)
    model = as_model(lowered, metadata_of(module) | how_to_run(module[name]))
    facts.write_to(model, ir_version)
    carried = module.attrs.get(CARRIED)
    if path is not None:
        outside = external_data if external_data != "auto" else facts.in_other_files or "auto"
        return write_model(model, Path(path), outside, carried)
    proto = _as_proto(model) if carried is None else with_ends(_as_proto(model), carried)
    _check(proto)
    return proto


def _chosen(module: IRModule, function: str | None) -> str:
    if function is not None:
        if function not in module:
            raise ConvertError(f"there is no function {function!r}; there are: {', '.join(module) or 'none'}")
        return function
    if "main" in module:
        return "main"
    public = [name for name, candidate in module.items() if not candidate.is_private]
    if len(public) != 1:
        raise ConvertError(
            f"an ONNX model holds one function; say which: function=... of {', '.join(module) or 'none'}"
        )
    return public[0]


def as_model(lowered: LoweredFunction, metadata: dict[str, str] | None = None) -> ir.Model:
    """The model of one function."""
    return ir.Model(
        lowered.graph,
        ir_version=11,
        producer_name="regraft",
        functions=tuple(lowered.functions.values()),
        metadata_props=metadata,
    )


def _as_proto(model: ir.Model) -> onnx.ModelProto:
    try:
        return as_message(model)
    except (ValueError, MemoryError, ir.serde.SerdeError) as error:
        raise ConvertError(f"the model does not fit into one message: {error}; write it to a path") from error


def _check(proto: onnx.ModelProto) -> None:
    if proto.ByteSize() < 2**31 - 1:
        try:
            onnx.checker.check_model(as_checked(proto))  # pyright: ignore[reportUnknownMemberType]
        except onnx.checker.ValidationError as error:
            raise ConvertError(f"the model that was written is not valid ONNX: {error}") from error


def lower_function(
    module: IRModule,
    name: str,
    opset: int = DEFAULT_OPSET,
    outside: OutsideOperators | None = None,
    *,
    heads_first: bool = False,
) -> LoweredFunction:
    """The function ``name`` as an ONNX graph to be run; constants share their memory. Raises `ConvertError`.

    With ``heads_first``, every attention takes (batch, heads, sequence, size), not rows of all heads.
    If the function cannot be written with new nodes, for instance because a size is unknown, nodes that no rewrite
    changed are written as they were read.
    """

    lost: set[int] = set()

    def written(is_kept: Callable[[SourceNode], bool]) -> LoweredFunction | None:
        graph = GraphWriter(opset, heads_first=heads_first)
        inputs, outputs = _lowered(module, name, graph, is_kept, None, outside)
        kept = [(node, own) for node, own in graph.kept.items() if node not in graph.fixed]
        gone = {graph.kept_from[node] for node, own in kept if not _holds(node, own, opset)}
        lost.update(gone)
        return None if gone else _as_graph(name, graph, opset, inputs, outputs)

    def is_kept(source: SourceNode) -> bool:
        return not source.node.domain and id(source) not in lost

    try:
        found = written(lambda _node: False)
    except ConvertError as error:
        try:
            found = written(is_kept) or written(is_kept)
        except ConvertError:
            raise error from None
    assert found is not None, "a node that does not hold is not kept again"
    return found


def lower_to_file(module: IRModule, name: str, facts: ModelFacts, opset: int | None = None) -> LoweredFunction:
    """The function ``name`` as an ONNX graph to be written, in ``opset`` or the lowest one that its nodes need.

    Nodes that no rewrite changed are written as they were read, unless they mean something else in that opset.
    Constants that are loaded or computed are not kept in memory after they are written. Raises `ConvertError`.
    """
    least = min(max(OLDEST, facts.opset), OPSETS[-1]) if opset is None else opset
    # A new file may use new operators; a model that was read keeps its older opset if older forms allow it.
    oldest = least if facts.opset or opset is not None else OPSETS[-1]
    having = DEFAULT_OPSET
    lost: set[int] = set()

    def is_kept(node: SourceNode) -> bool:
        return id(node) not in lost

    while True:
        graph = GraphWriter(having, written_for=DEFAULT_OPSET, keep_constants=False, keeps_width=True)
        inputs, outputs = _lowered(module, name, graph, is_kept, defaults := {})
        made = [node for node in _all_nodes(graph.nodes) if node not in graph.kept]
        needed = {node: first_opset(node, DEFAULT_OPSET, oldest) for node in made}
        # The bodies of functions have the opset of the model.
        target = max([having if graph.functions else least, *needed.values()])
        if opset is not None and target > opset:
            if having == opset:
                node = next(node for node in made if needed[node] > opset)
                raise ConvertError(f"{node.op_type} (node {node.name}) is needed, which opset {opset} does not have")
            having = opset  # now with the operators of this opset
            continue
        stuck = [node for node in graph.fixed if node in graph.kept and not _holds(node, graph.kept[node], target)]
        if stuck:
            own = graph.kept[stuck[0]]
            raise ConvertError(
                f"{stuck[0].op_type} (node {stuck[0].name}) is carried as it was in opset {own}, and is another "
                f"operator in opset {target}, which other nodes need; write the model with opset={own}"
            )
        gone = {graph.kept_from[node] for node, own in graph.kept.items() if not _holds(node, own, target)}
        if not gone:
            break
        lost |= gone
    write_down(graph, target, DEFAULT_OPSET)
    put_sizes_late(graph, [port.value for port in outputs])
    for value, tensor in defaults.items():
        value.const_value = tensor
        graph.initializers[value.name or ""] = value
    lowered = _as_graph(name, graph, target, inputs, outputs)
    lowered.graph.inputs.extend(value for value in defaults if value in lowered.graph.initializers.values())
    if facts.packs_integers:
        _pack_integers(lowered.graph)
    _name_nodes(lowered.graph, graph.kept)
    _leave_out_what_is_known(lowered.graph, graph.kept, facts)
    return lowered


def _pack_integers(graph: ir.Graph) -> None:
    """Store small integers with variable length if that takes fewer bytes than an array."""
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype != ir.DataType.INT64:
            continue
        proto = onnx.TensorProto(int64_data=tensor.numpy().ravel().tolist())
        if proto.ByteSize() < onnx.TensorProto(raw_data=tensor.tobytes()).ByteSize():
            proto.MergeFrom(onnx.TensorProto(name=name, dims=tensor.shape.numpy(), data_type=onnx.TensorProto.INT64))
            value.const_value = ir.serde.TensorProtoTensor(proto)


def _name_nodes(graph: ir.Graph, kept: Collection[ir.Node]) -> None:
    """Name new nodes after their first output, so that they get the same names when the file is read again."""
    nodes = list(_all_nodes(list(graph)))
    names = NameSupply(node.name or "" for node in nodes if node in kept)
    for node in nodes:
        if node not in kept:
            first = next((value.name for value in node.outputs if value.name), "")
            node.name = names.fresh(first if first.endswith(f"/{node.op_type}") else f"{first}/{node.op_type}")


def _leave_out_what_is_known(graph: ir.Graph, kept: Collection[ir.Node], facts: ModelFacts) -> None:
    """Remove what a file need not state.

    This is: types of constants; types of all inner values if the source stated few; node names if the source had none;
    and origins that equal the name of the node, or an origin of the node around it or after it. If a model would get a
    longer description than before, all origins are removed. If it is still longer, the names of new nodes are removed,
    and then the sizes of outputs that had no shape.
    """
    ports = {*graph.inputs, *graph.outputs}
    nodes = list(_all_nodes(list(graph)))
    inner = [] if facts.states_types else [value for node in nodes for value in node.outputs]
    for value in (*graph.initializers.values(), *inner):
        if value not in ports and not value.is_graph_output():
            value.type = value.shape = None

    def told(node: ir.Node) -> tuple[str, str]:
        """The origin that the name of a node implies, and the origin in its metadata."""
        name = node.name if facts.names_nodes else ""
        first = node.outputs[0].name if node.outputs else ""
        return f"onnx:{name or f'{node.op_type}:{first}'}", node.metadata_props.get(ORIGIN_KEY, "")

    around: dict[ir.Graph | None, tuple[str, str]] = {body: told(node) for node in nodes for body in bodies_of(node)}
    after = ""
    for node in reversed(nodes):
        named, own = told(node)
        if own in (after, named, *around.get(node.graph, ())):
            node.metadata_props.pop(ORIGIN_KEY, None)
        node.name, after = node.name if facts.names_nodes else "", own
    if facts.described and description_size(graph) > facts.described:
        for node in nodes:
            node.metadata_props.pop(ORIGIN_KEY, None)
    if facts.described and description_size(graph) > facts.described:
        for node in nodes:
            node.name = node.name if node in kept else ""
    if facts.described and description_size(graph) > facts.described:
        for value in graph.outputs:
            if value.name in facts.unsized and value.shape is not None:
                value.shape = ir.Shape([None] * len(value.shape))


def _holds(node: ir.Node, opset: int, target: int) -> bool:
    span = span_of(node, opset)
    return span is not None and target in span


def _lowered(
    module: IRModule,
    name: str,
    graph: GraphWriter,
    is_kept: Callable[[SourceNode], bool],
    defaults: dict[ir.Value, Any] | None,
    outside: OutsideOperators | None = None,
) -> tuple[tuple[GraphPort, ...], tuple[GraphPort, ...]]:
    """Write the nodes of a function; returns its inputs and outputs.

    ``defaults`` receives the inputs that have a default, with their numbers, which the nodes must not use. Without it,
    these inputs are constants.
    """
    function = remove_all_unused(module[name])  # an unused step of a node would take the node apart
    lowering = Lowering(graph, module, is_from_onnx=INPUT_NAMES in function.attrs, is_kept=is_kept, outside=outside)
    inputs = _inputs(lowering, function)
    if defaults is not None:
        _take_defaults(lowering, function, defaults)
    try:
        result = lowering.body(function.body)
        results = flat(result)
        replaced = tidy(graph, results)
        results = [replaced.get(value, value) for value in results]
        return inputs, _outputs(lowering, function, results, {id(port.value) for port in inputs})
    except (ConvertError, DecomposeError) as error:
        where = f"{name}: at {graph.hint}" if graph.hint != "value" else name
        origin = f" (from {', '.join(map(str, graph.origins))})" if graph.origins else ""
        kind = ConvertError if isinstance(error, DecomposeError) else type(error)
        raise kind(f"{where}{origin}: {error}") from error


def _as_graph(
    name: str, graph: GraphWriter, opset: int, inputs: tuple[GraphPort, ...], outputs: tuple[GraphPort, ...]
) -> LoweredFunction:
    read = [value for node in _all_nodes(graph.nodes) for value in node.inputs if value is not None]
    used = dict.fromkeys([value.name or "" for value in (*read, *[port.value for port in outputs])])
    constants = [graph.initializers[name] for name in used if name in graph.initializers]
    written = ir.Graph(
        [port.value for port in inputs],
        [port.value for port in outputs],
        nodes=graph.nodes,
        initializers=constants,
        opset_imports={"": opset, **_other_domains(graph)},
        name=name,
    )
    return LoweredFunction(written, inputs, outputs, graph.functions)


def _other_domains(graph: GraphWriter) -> dict[str, int]:
    """The versions of the domains other than the standard one: as they were read, else 1."""
    read = {node.domain: graph.kept.get(node, 1) for node in _all_nodes(graph.nodes) if node.domain}
    return {**read, **graph.domains}


def _all_nodes(nodes: Sequence[ir.Node]) -> Iterator[ir.Node]:
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        yield node
        for body in bodies_of(node):
            stack.extend(body)


def _inputs(lowering: Lowering, function: Function) -> tuple[GraphPort, ...]:
    ports: list[GraphPort] = []
    for param in function.params:
        lowering.values[param] = _input(lowering, param.name_hint, param.ty, ports, f"parameter {param.name_hint}")
    names = names_under(function, INPUT_NAMES)
    if len(names) == len(ports):
        for port, name in zip(ports, names, strict=True):
            port.value.name = name
            lowering.graph.names.reserve(name)
    for param in function.params:
        lowering.define_sizes(param.ty, lowering.values[param])
    return tuple(ports)


def _take_defaults(lowering: Lowering, function: Function, defaults: dict[ir.Value, Any]) -> None:
    names = names_under(function, DEFAULT_INPUTS)
    taken: dict[int, ir.Value] = {}
    made: dict[str, tuple[ir.Value, Any]] = {}
    for binding in iter_bindings(function) if names else ():
        value = binding.value
        constant = value.args[0] if is_call_of(value, "relax.grad.no_grad") else None
        if not isinstance(constant, Constant) or constant.data.name not in names:
            continue
        data = constant.data
        if id(data) not in taken:
            known = lowering.graph.constant_data(data, binding.var.name_hint, is_own=True)
            taken[id(data)] = ir.Value(name=known.name, type=known.type, shape=known.shape)
            made[data.name or ""] = taken[id(data)], known.const_value
        lowering.values[binding.var] = taken[id(data)]
    defaults.update(made[name] for name in names if name in made)


def _input(lowering: Lowering, name: str, ty: Type, ports: list[GraphPort], place: str) -> Lowered:
    if isinstance(ty, TupleType):
        fields = enumerate(ty.fields)
        return tuple([_input(lowering, f"{name}_{i}", field, ports, f"{place}[{i}]") for i, field in fields])
    value = lowering.graph.value("float32", name)
    value.type, value.shape = _border_type(lowering, ty, place)
    ports.append(GraphPort(value, ty))
    return value


def _border_type(lowering: Lowering, ty: Type, place: str) -> tuple[ir.TensorType, ir.Shape | None]:
    """The type of a tensor at the border of a graph."""
    match ty:
        case TensorType():
            if ty.dtype is None:
                raise ConvertError(f"{place} is {ty!r}; an ONNX model needs its dtype")
            shape = ty.shape
            if shape is None:
                return ir.TensorType(to_onnx_dtype(ty.dtype)), None if ty.ndim < 0 else ir.Shape([None] * ty.ndim)
            return ir.TensorType(to_onnx_dtype(ty.dtype)), lowering.shape(shape)
        case ShapeType():
            return ir.TensorType(ir.DataType.INT64), ir.Shape([ty.ndim if ty.ndim >= 0 else None])
        case PrimType():
            return ir.TensorType(to_onnx_dtype(ty.dtype)), ir.Shape([])
        case _:
            raise ConvertError(f"{place} is {ty!r}; an ONNX model takes and gives tensors, shapes and scalars")


_SMALL: Final = 1024
"""Constants of at most so many bytes are written again for another output."""


_Constants: TypeAlias = dict[tuple[str, tuple[int, ...]], list[tuple[memoryview, ir.Value]]]
"""The constants that are outputs, with their bytes, by dtype and shape."""


def _outputs(
    lowering: Lowering, function: Function, values: Sequence[ir.Value], inputs: set[int]
) -> tuple[GraphPort, ...]:
    graph = lowering.graph
    types = [*leaf_types(function.body.ty)]
    if len(types) != len(values):
        raise ConvertError(f"the result is {function.body.ty!r}; an ONNX model gives tensors, shapes and scalars")
    names = names_under(function, OUTPUT_NAMES)
    body = function.body.body
    hint = body.name_hint if isinstance(body, Var) else "output"
    graph.hint, graph.origins = hint, ()
    ports: list[GraphPort] = []
    seen: set[int] = set()
    produced = {id(value) for node in graph.nodes for value in node.outputs}
    inner: dict[str | None, list[ir.Value]] | None = None
    constants: _Constants = {}
    for index, (value, ty) in enumerate(zip(values, types, strict=True)):
        is_named = len(names) == len(values)
        if is_named and graph.data_of(value) is not None and id(value) not in inputs:
            value = _constant_output(graph, value, names[index], constants)
        is_itself = is_named and (value.name == names[index] or graph.is_unnamed(value))
        # An output is the output of a node, an input or a constant under its own name, or a constant that takes the
        # name. No value is two outputs.
        if id(value) in seen or (id(value) not in produced and not is_itself):
            value = graph.op("Identity", value)
        seen.add(id(value))
        if id(value) in inputs:
            ports.append(GraphPort(value, ty))
            continue
        tensor, shape = _border_type(lowering, ty, f"output {index}")
        value.shape = shape if shape is not None else value.shape
        if value.dtype is None:  # the result of an operator that is not declared
            value.type = tensor
        assert tensor.dtype == value.dtype, f"{function.name}: output {index} is {value.dtype}, expected {tensor.dtype}"
        if is_named and value.name != names[index]:
            inner = _values_by_name(graph) if inner is None else inner
            _rename(graph, value, names[index], inner)
        ports.append(GraphPort(value, ty))
    return tuple(ports)


def _constant_output(graph: GraphWriter, value: ir.Value, name: str, known: _Constants) -> ir.Value:
    """The constant for an output. It is the same one when the file is read and written again.

    If an earlier output equals it, a small constant gets a copy of its own, and a large one is shared.
    """
    data = graph.data_of(value)
    assert data is not None
    content = np.ascontiguousarray(data.numpy()).reshape(-1).view(np.uint8).data
    alike = known.setdefault((data.dtype, data.shape), [])
    same = next((other for before, other in alike if before == content), None)
    if same is None:
        alike.append((content, value))
    if same is None or value.name == name:
        return value
    if content.nbytes > _SMALL:
        return same
    return graph.constant_data(TensorData(data.numpy()), name, is_own=True)


def _values_by_name(graph: GraphWriter) -> dict[str | None, list[ir.Value]]:
    found: dict[str | None, list[ir.Value]] = {}
    for node in _all_nodes(graph.nodes):
        for value in node.outputs:
            found.setdefault(value.name, []).append(value)
    return found


def _rename(graph: GraphWriter, value: ir.Value, name: str, inner: dict[str | None, list[ir.Value]]) -> None:
    """Give ``value`` the ``name`` of an output; an inner value that has this name gets another.

    ``inner`` are the values of all nodes by their names before any renaming.
    """
    for other in inner.get(name, ()):
        if other.name == name and other is not value:
            other.name = graph.names.fresh(f"{name}_inner")
    if name in graph.initializers:
        other = graph.initializers.pop(name)
        other.name = graph.names.fresh(f"{name}_inner")
        graph.initializers[other.name] = other
    if value.name in graph.initializers and graph.initializers[value.name] is value:
        graph.initializers[name] = graph.initializers.pop(value.name)
    value.name = name
    graph.names.reserve(name)

"""The graph of an ONNX model as a program.

`GraphImporter` walks over the nodes in order and looks up the expression of each in `importing.IMPORTERS`, the table by
operator that `read` fills. An operator that is not in the table is read through the function that defines it in
ONNX, if there is one.
Sizes are followed through the arithmetic of models on shapes, so that a reshape to computed sizes has a shape with
names in it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from ....ir.builder import BlockBuilder
from ....ir.dims import Dim, SymExpr, SymVar, dims_equal
from ....ir.expr import Constant, DataflowVar, Expr, Tuple, Var
from ....ir.module import IRModule
from ....ir.program import SeqExpr
from ....ir.tensor_data import TensorData
from ....ir.types import TensorType
from ....op.folding import with_known_parts
from ....op.grad import no_grad
from ...errors import ConvertError, UnsupportedOperatorError
from .. import read as importers
from ..element_types import from_onnx_dtype
from ..source_nodes import ORIGIN_KEY, SourceOrigin, source_of
from ..write.model_facts import (
    DEFAULT_INPUTS,
    FACTS,
    INPUT_NAMES,
    METADATA,
    OUTPUT_NAMES,
    ModelFacts,
    without_how_to_run,
)
from . import declared, whole
from .function_bodies import function_body, type_text
from .importing import (
    IMPORTERS,
    MOST_KEPT,
    Imported,
    NodeImporter,
    ReadNode,
    UndecidedNodeError,
    UnsupportedNodeError,
    constant_for,
    constant_of,
)
from .opening import STANDARD
from .refused import REFUSED
from .sizes import Sizes, is_size_name
from .unreadable import first_name, place_of, unreadable
from .untold import untold_dtypes

_WITH_BODIES: Final = ("If", "Loop", "Scan")
"""Nodes that are read as bodies of their own. They cannot be in dataflow blocks."""
_MOST_STEPS: Final = 20_000
"""The most operators for one node: otherwise a number in a small file could cause any amount of work."""


def _refused(lines: Iterable[str]) -> UnsupportedOperatorError:
    listed = "\n".join(f"  {line}" for line in lines)
    return UnsupportedOperatorError(f"the model has nodes that cannot be read:\n{listed}")


class GraphImporter:
    """The state of reading one model: the program so far, and the expression of each value."""

    def __init__(
        self,
        opset: int,
        opset_imports: dict[str, int],
        pure: frozenset[str] = frozenset(),
        defaults: frozenset[str] = frozenset(),
        carries: bool = False,
        is_of_run: bool = False,
    ) -> None:
        """``carries`` is True if a node that cannot be read becomes a call that is carried as it is.

        ``is_of_run`` is True if this is the run, so that no node waits for facts of the run.
        """
        self.opset: Final = opset
        self.carries: Final = carries
        self._is_of_run: Final = is_of_run
        self._defaults: Final = defaults
        self._pure: Final = pure
        self.opset_imports: Final = opset_imports
        self.builder: Final = BlockBuilder()
        self.values: dict[str, Imported] = {}
        self.sizes_of_tensors: Final[set[Dim]] = set()
        self._tensors: dict[Sizes, Expr] = {}
        self._known: Final[dict[Var, Constant]] = {}
        self._dims: dict[str, SymVar] = {}
        self._fixed: Mapping[str, int] = {}
        self._labels: dict[str, None] = {}
        self._outputs: frozenset[str] = frozenset()
        self._is_within_function = False
        self._made = 0
        self._graph: ir.Graph | None = None
        self._untold_dtypes: dict[ir.Value, ir.DataType] | None = None
        self._untold: Final[set[str]] = set()
        """The names of values of unknown dtype or shape, made by foreign nodes or by nodes that read such values."""

    # --- the whole

    def module(self, model: ir.Model, constants: Mapping[str, Any], dims: Mapping[str, int]) -> IRModule:
        """The module of a model. Raises `UnsupportedOperatorError` and `ConvertError`."""
        graph = self._graph = model.graph
        self._fixed = dims
        inputs = {known.name: known for known in graph.inputs}
        for name, value in constants.items():
            if name not in inputs:
                raise ConvertError(f"there is no input {name!r} to take a constant")
            self.values[name] = constant_for(inputs[name], np.asarray(value))
        fixed = {*graph.initializers, *constants}
        given = [value for value in graph.inputs if value.name not in fixed]
        params = [self._parameter(value) for value in given]
        unknown = [name for name in dims if name not in self._labels]
        if unknown:
            known = ", ".join(self._labels) or "none"
            raise ConvertError(f"there is no symbolic size {unknown[0]!r} to fix; the inputs have: {known}")
        lines = unreadable(graph, self.opset, self.opset_imports, self.carries)
        if lines:
            raise _refused(lines)
        metadata, how = without_how_to_run(model.metadata_props)
        attrs: dict[str, Any] = {
            INPUT_NAMES: tuple(value.name or "" for value in given),
            OUTPUT_NAMES: tuple(value.name or "" for value in graph.outputs),
        } | how
        if self._defaults:
            attrs[DEFAULT_INPUTS] = tuple(value.name for value in graph.inputs if value.name in self._defaults)
        self._constants(graph)
        self._outputs = frozenset(value.name or "" for value in graph.outputs)
        builder = self.builder
        has_effects = any(self._has_effects(node) for node in graph.all_nodes())
        is_dataflow = not has_effects and not any(node.op_type in _WITH_BODIES for node in graph.all_nodes())
        with builder.function("main", params, attrs, pure=not has_effects):
            with builder.dataflow() if is_dataflow else nullcontext():
                self._bind_defaults(graph)
                self._nodes(graph)
                outputs = [self._output(value) if is_dataflow else self.expression(value) for value in graph.outputs]
            builder.emit_func_output(outputs[0] if len(outputs) == 1 else Tuple(outputs))
        module = builder.get()
        module = module.with_attr(FACTS, ModelFacts.read_from(model, self.opset).as_pairs())
        return module.with_attr(METADATA, metadata) if metadata else module

    def _parameter(self, value: ir.Value) -> Var:
        name = value.name or "input"
        if value.type is not None and not isinstance(value.type, ir.TensorType):
            raise UnsupportedOperatorError(
                f"input {name}: sequences, maps and optionals are not supported, only tensors"
            )
        dtype = None if value.dtype is None else from_onnx_dtype(value.dtype, f"input {name}")
        if value.shape is None:
            ty = TensorType(None, dtype)
        else:
            ty = TensorType([self._dim(dim, name, axis) for axis, dim in enumerate(value.shape)], dtype)
        var = Var(name, ty)
        self.values[name] = var
        return var

    def _dim(self, dim: int | ir.SymbolicDim, name: str, axis: int) -> Dim:
        if isinstance(dim, int) and dim >= 0:
            return dim
        # Some exporters write -1, "?" or "None" for a size that is known at run time only: all of these are different.
        stated = None if isinstance(dim, int) else dim.value
        is_named = stated is not None and is_size_name(stated)
        label = stated if is_named and stated is not None else f"{name}_{axis}"
        self._labels[label] = None
        fixed = self._fixed.get(label)
        if fixed is None:
            return self._dims.setdefault(label, SymVar(label)) if is_named else SymVar(label)
        if fixed < 0:
            raise ConvertError(f"{label}={fixed}: a size cannot be negative")
        return fixed

    def _constants(self, graph: ir.Graph) -> None:
        for name, value in graph.initializers.items():
            if value.const_value is not None and name not in self._defaults and name not in self.values:
                self.values[name] = constant_of(value.const_value, name, is_stored=True)

    def _bind_defaults(self, graph: ir.Graph) -> None:
        for name, value in graph.initializers.items():
            if name in self._defaults:
                data = constant_of(value.const_value, name).data
                named = Constant(TensorData.lazy(data.shape, data.dtype, data.numpy, name))
                self.values[name] = self.builder.emit(no_grad(named), name)

    def _output(self, value: ir.Value) -> Expr:
        expr = self.expression(value)
        if isinstance(expr, Var) and type(expr) is not DataflowVar:
            return expr
        # An output of the block needs a variable that is visible outside of it.
        return self.builder.emit_output(expr, value.name or "")

    def is_size_of_input(self, name: str) -> bool:
        """True if an input has a size of that name."""
        return name in self._labels

    def hint_to_fix(self, size: Dim) -> str:
        """The advice to fix a size when the model is read, for messages; empty for a size that no input has."""
        label = next((label for label, known in self._dims.items() if known == size), None)
        return "" if label is None else f"; fix it, as in dims={{{label!r}: 1}}"

    # --- nodes

    def _nodes(self, nodes: ir.Graph | list[ir.Node]) -> None:
        for node in nodes:
            try:
                self.node(node)
            except UnsupportedNodeError as error:
                raise _refused([f"{place_of(node)}: {error}"]) from error

    def node(self, node: ir.Node) -> None:
        """Read one node: bind its results to the names of its outputs."""
        if self._is_within_function:
            self._read(node)
            return
        self._made = 0
        origin = SourceOrigin("onnx", node.name or f"{node.op_type}:{first_name(node)}")
        origin.told = node.metadata_props.get(ORIGIN_KEY, "")
        first = len(self.builder.emitted())
        inputs = [self._found(value) for value in node.inputs]
        with self.builder.origin(origin):
            self._read(node)
        if any(attribute.type == ir.AttributeType.GRAPH for attribute in node.attributes.values()):
            return  # its steps belong to the nodes inside
        outputs = [self._found(value) for value in node.outputs]
        made = self.builder.emitted()[first:]
        opset = self.version_of(node.domain)
        operands = [self._as_expression(found) for found in inputs]
        results = [found.expression() if isinstance(found, Sizes) else found for found in outputs]
        if not self._has_effects(node) and not declared.is_function(node):
            origin.source = source_of(node, opset, operands, results, made)

    def _found(self, value: ir.Value | None) -> Imported | None:
        """The form that a value was read as; None if it is left out or not read."""
        return self.values.get(value.name) if value is not None and value.name else None

    def version_of(self, domain: str) -> int:
        """The version of the operators of ``domain``; 1 for another domain that the model does not import."""
        return self.opset_imports.get(domain, self.opset if domain in STANDARD else 1)

    def _as_expression(self, found: Imported | None) -> Expr | None:
        """An input of a node as an expression. Sizes become the tensor that was made of them, if there is one."""
        if not isinstance(found, Sizes):
            return found
        made = self._tensors.get(found)
        return found.expression() if made is None else made

    def _read(self, node: ir.Node) -> None:
        domain = "" if node.domain in STANDARD else node.domain
        read = IMPORTERS.get((domain, node.op_type))
        if read is None and (declared.has_declaration(node) or declared.is_outside(node)):
            read = self._read_outside
        importer = NodeImporter(self, node)
        try:
            if read is None:
                self._take(node, self.by_function(node))
                return
            found = importers.on_sizes(importer) or self._first_reading(read, importer)
        except UnsupportedNodeError as error:
            found = self._carried(importer, error)
        except ConvertError:
            raise
        except Exception as error:
            refused = UnsupportedNodeError(str(error))
            if not self._is_vague(node):
                raise ConvertError(f"{place_of(node)}: {error}") from error
            is_estimator = node.domain == declared.LEARNING
            found = self._read_outside(importer) if is_estimator else self._carried(importer, refused)
        results = found if isinstance(found, tuple) else (found,)
        for value, result in zip(node.outputs, results, strict=False):
            if value.name and result is not None:
                self.values[value.name] = named = self._named(importer, result, value)
                ty = named.ty
                is_open = isinstance(ty, TensorType) and (ty.dtype is None or ty.shape is None)
                if is_open and (declared.is_outside(node) or self._reads_untold(node)):
                    self._untold.add(value.name)
        missing = [value.name for value in node.outputs[len(results) :] if value.name and list(value.uses())]
        if missing:
            raise UnsupportedNodeError(f"its output {missing[0]} is not computed here")

    def _carried(self, node: NodeImporter, error: UnsupportedNodeError) -> tuple[Expr | None, ...]:
        """The results of a node that cannot be read, carried as it is. Raises ``error`` if it is not to be carried.

        A node that waits for facts of the run must have results of known rank and dtype. The types may be unknown if
        ``carries`` is set, or if an operand comes from a foreign node and its type is not fully known.
        """
        carries = self.carries or self._reads_untold(node.node)
        waits = isinstance(error, UndecidedNodeError) and not self._is_of_run
        if self._is_within_function or not (waits or carries):
            raise error
        found = whole.read_whole(node, error)
        types = [result.ty for result in found if result is not None]
        if not carries and any(isinstance(ty, TensorType) and (ty.ndim < 0 or ty.dtype is None) for ty in types):
            raise error  # the nodes after it could not be read
        return found

    def _reads_untold(self, node: ir.Node) -> bool:
        return any(value is not None and value.name in self._untold for value in node.inputs)

    def _is_vague(self, node: ir.Node) -> bool:
        """True if unknown types of its inputs may be the reason that a node could not be read."""
        types = [found.ty for value in node.inputs if (found := self._found(value)) is not None]
        return any(isinstance(ty, TensorType) and (ty.dtype is None or ty.ndim < 0) for ty in types)

    def _first_reading(self, read: ReadNode, node: NodeImporter) -> Imported | tuple[Imported | None, ...]:
        """The result of ``read``. If it declines a node of another domain, the node is read as it is."""
        try:
            return read(node)
        except UnsupportedNodeError:
            if not declared.is_outside(node.node):
                raise
            return self._read_outside(node)

    def _read_outside(self, node: NodeImporter) -> tuple[Expr | None, ...]:
        return declared.read_outside(node, declared.is_pure(node.node, self._pure))

    def _has_effects(self, node: ir.Node) -> bool:
        """True if a node's operator may have effects, as far as is known."""
        if self.carries and whole.is_random(node):
            return True
        if not declared.is_outside(node) or (node.domain, node.op_type) in IMPORTERS:
            return False
        return not declared.is_pure(node, self._pure)

    def _named(self, node: NodeImporter, result: Imported, value: ir.Value) -> Imported:
        if isinstance(result, Sizes):
            return result.constant() if result.is_known else result
        is_told = value.shape is None or not isinstance(result.ty, TensorType) or result.ty.shape is not None
        if isinstance(result, Constant | Tuple) or (isinstance(result, Var) and is_told):
            return result
        found = self.emit(result, value.name or "")
        ty = found.ty
        if not isinstance(ty, TensorType):
            return found
        dims = self._named_sizes(node, result, ty, value) if ty.shape is None else self._restated(ty.shape, value)
        dtype = ty.dtype or self.stated_dtype(value)
        if dims is None and dtype == ty.dtype:
            return found
        stated = TensorType(ty.shape, dtype, ty.ndim) if dims is None else TensorType(dims, dtype)
        return self.builder.match_cast(found, stated, value.name or "")

    def stated_dtype(self, value: ir.Value) -> str | None:
        """The dtype that the model states for a value, or that its nodes imply; else None."""
        element = value.dtype
        if element is None and self._graph is not None:
            if self._untold_dtypes is None:
                self._untold_dtypes = untold_dtypes(self._graph, self.opset, self.opset_imports)
            element = self._untold_dtypes.get(value)
        return None if element is None else from_onnx_dtype(element, value.name or "a value")

    def stated_sizes(self, value: ir.Value) -> list[Dim | None]:
        """The sizes that the model states for a value, None for names that no input has; empty if it states none."""
        return [
            dim if isinstance(dim, int) else self._fixed.get(dim.value or "", self._dims.get(dim.value or ""))
            for dim in value.shape or ()
        ]

    def _named_sizes(self, node: NodeImporter, expr: Expr, ty: TensorType, value: ir.Value) -> list[Dim] | None:
        """The sizes of a value of unknown shape: known ones, and new names for others. None if the rank is unknown."""
        rank = ty.ndim if ty.ndim >= 0 or value.shape is None else len(value.shape)
        if rank < 0:
            return None
        stated = self.stated_sizes(value) if value.shape is not None and len(value.shape) == rank else [None] * rank
        rows = zip(importers.partial_sizes(expr, rank), stated, strict=True)
        known = [own if own is not None else other for own, other in rows]
        return [node.fresh_size(axis) if size is None else size for axis, size in enumerate(known)]

    def _restated(self, shape: tuple[Dim, ...], value: ir.Value) -> list[Dim] | None:
        """The sizes that the model states, if computed sizes may or may not be equal to them; else None."""
        dims = [dim for dim in self.stated_sizes(value) if dim is not None]
        if len(dims) != len(shape):
            return None
        pairs = zip(shape, dims, strict=True)
        is_open = any(not isinstance(own, int | SymVar) and dims_equal(own, dim) is None for own, dim in pairs)
        return dims if is_open else None

    def emit(self, expr: Expr, name: str = "") -> Expr:
        """``expr`` bound to a variable, or the small constant that it is equal to."""
        known = with_known_parts(expr, MOST_KEPT, known=self._known)
        if isinstance(known, Constant) and (known.data.size <= MOST_KEPT or known.ty != expr.ty):
            return known
        if known is not expr:
            expr = with_known_parts(expr, MOST_KEPT, MOST_KEPT)
        if isinstance(expr, Var | Constant):
            return expr
        self._made += 1
        if self._made > _MOST_STEPS:
            raise UnsupportedNodeError(f"it needs more than {_MOST_STEPS:,} operators here")
        is_output = name in self._outputs and self.builder.current_block_is_dataflow()
        var = self.builder.emit_output(expr, name) if is_output else self.builder.emit(expr, name)
        if isinstance(known, Constant):
            self._known[var] = known
        return var

    def known(self, found: Imported | None) -> Constant | None:
        """The constant that an operand is, or would be after computing it; None for others."""
        if isinstance(found, Var):
            return self._known.get(found)
        return found if isinstance(found, Constant) else None

    def imported(self, value: ir.Value) -> Imported:
        """The expression or the sizes that a value was read as."""
        found = self.values.get(value.name or "")
        if found is None:
            raise ConvertError(f"the value {value.name!r} is used before it is computed")
        return found

    def expression(self, value: ir.Value) -> Expr:
        """The expression that a value was read as."""
        found = self.imported(value)
        if isinstance(found, Sizes):
            tensor = self._tensors.get(found)
            if tensor is None:
                tensor = self._tensors[found] = self.emit(found.expression(), value.name or "")
            return tensor
        return found

    def body(self, graph: ir.Graph, operands: Sequence[Var] = (), given: Sequence[Imported] = ()) -> SeqExpr:
        """The body of a branch or a loop, in blocks of its own: a tuple of its outputs, or a branch's only output.

        ``operands`` are new variables for the last inputs of ``graph``; ``given`` are the values of those before them.
        """
        outer, tensors = dict(self.values), dict(self._tensors)
        self.builder.begin_scope(operands)
        outcome: Expr = Tuple(())
        try:
            self._constants(graph)
            for formal, value in zip(graph.inputs, (*given, *operands), strict=True):
                self.values[formal.name or ""] = value
            self._nodes(graph)
            outputs = [self.expression(value) for value in graph.outputs]
            if given:
                first = 1 + len(operands)
                outputs[first:] = map(self._in_stated_sizes, outputs[first:], graph.outputs[first:])
            is_branch = not graph.inputs
            outcome = outputs[0] if is_branch and len(outputs) == 1 else Tuple(outputs)
        finally:
            body = self.builder.end_scope(outcome)
            self.values, self._tensors = outer, tensors
        return body

    def _in_stated_sizes(self, found: Expr, value: ir.Value) -> Expr:
        """The stacked result of a `Loop` in the sizes that the model states: it has these even after no steps."""
        ty, stated = found.ty, self.stated_sizes(value)
        if not isinstance(ty, TensorType) or ty.shape is None or len(ty.shape) != len(stated):
            return found
        dims = [one if isinstance(one, int) else own for own, one in zip(ty.shape, stated, strict=True)]
        is_open = any(
            isinstance(own, SymExpr) and isinstance(one, int) for own, one in zip(ty.shape, dims, strict=True)
        )
        return self.builder.match_cast(found, TensorType(dims, ty.dtype), value.name or "") if is_open else found

    @contextmanager
    def inlining(self, graph: ir.Graph) -> Generator[None, None, None]:
        """A context at whose end everything that `inline` read of ``graph`` is forgotten, except its results."""
        outer, self.values = self.values, dict(self.values)
        self._constants(graph)
        try:
            yield
        finally:
            self.values = outer

    def inline(self, graph: ir.Graph, operands: Sequence[Imported]) -> tuple[Imported, ...]:
        """The results of the nodes of a body for ``operands``, read into the open block, inside `inlining`."""
        for formal, operand in zip(graph.inputs, operands, strict=True):
            self.values[formal.name or ""] = operand
        self._nodes(graph)
        return tuple([self.imported(value) for value in graph.outputs])

    # --- operators that ONNX defines by others

    def by_function(self, node: ir.Node) -> tuple[Imported | None, ...]:
        """The results of a node, by the function that defines its operator in ONNX."""
        found = function_body(node, self.opset_imports, self.input_types(node))
        if found is None:
            reason = REFUSED.get(("" if node.domain in STANDARD else node.domain, node.op_type))
            raise UnsupportedNodeError(reason or "the operator is not supported")
        body, names = found
        inner: dict[str, Imported] = {}
        for formal, actual in zip(body.inputs, node.inputs, strict=False):
            if actual is not None and actual.name:
                inner[formal.name or ""] = self.values[actual.name]
        outer, self.values = self.values, inner
        is_outermost, self._is_within_function = not self._is_within_function, True
        try:
            for step in body:
                step.name = node.name
                self.node(step)
            return tuple([self.values.get(name) for name in names])
        except UnsupportedNodeError as error:
            raise type(error)(f"{error} (in the function that defines {node.op_type})") from error
        finally:
            self.values = outer
            self._is_within_function = not is_outermost

    def _take(self, node: ir.Node, results: tuple[Imported | None, ...]) -> None:
        for value, result in zip(node.outputs, results, strict=False):
            if value.name and result is not None:
                self.values[value.name] = result

    def input_types(self, node: ir.Node) -> list[bytes]:
        """The known types of a node's inputs, as ONNX reads them."""
        return [type_text(self._found(value)) for value in node.inputs]

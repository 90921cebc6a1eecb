"""Writing the nodes of an ONNX graph: names, constants, sizes, and element types that ONNX Runtime computes in.

A lowering writes to a `GraphWriter`. Each of its values knows its element type, so a node is described by its
operator and operands alone. This module knows ONNX's operator schemas, but not the operators of this vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir

from ....ir.builder import NameSupply
from ....ir.dims import Condition, Dim, FloorDiv, FloorMod, Max, Min, Operation, Select, SymExpr, SymVar, dim_at_least
from ....ir.dtypes import is_float, itemsize, numpy_dtype
from ....ir.origin import Origins
from ....ir.tensor_data import TensorData
from ...errors import ConvertError
from ..element_types import dtype_of_text, from_onnx_dtype, to_onnx_dtype
from ..source_nodes import ORIGIN_KEY, origins_text
from .kernels import carrier
from .schemas import allowed_dtypes, signature_of

_COMPARISONS: Final = {"==": "Equal", "<": "Less", "<=": "LessOrEqual", ">": "Greater", ">=": "GreaterOrEqual"}
"""The operator of each comparison of sizes."""

_MADE_BY_A_RUNTIME: Final = re.compile(r"gemm_(in|out)put_shape|(?!kept_).*_token_\d+")
"""Names that ONNX Runtime gives to constants when it rewrites a graph; it cannot open a file that has them already."""

_MOST_SHARED: Final = 4096
"""Equal constants of at most so many elements are written once."""
_MOST_PARTED: Final = 16
"""The most sizes of a shape whose parts are all remembered, so that other shapes can use them."""


_SIZES_BESIDE_SCALES: Final = range(11, 13)
"""The opsets in which a `Resize` to sizes has empty scales before the sizes."""
_CANNOT: Final = 1_000_000
"""The cost of a row that no single node can make."""
_SHORT: Final = 8
"""All ways to join a shape of at most so many sizes are tried. In a longer shape, a part has at most so many sizes, or
as many as the longest known row."""


class _Row(NamedTuple):
    """Sizes that are a part of the shape of ``value``, from axis ``first`` up to ``last``."""

    value: ir.Value
    first: int
    last: int | None


class _Block(NamedTuple):
    """A block of nodes, its sizes, and the values from which sizes are read."""

    nodes: list[ir.Node]
    sizes: dict[SymExpr, ir.Value]
    readers: dict[SymVar, Callable[[], ir.Value]]
    rows: dict[tuple[Dim, ...], _Row]
    read_rows: dict[tuple[Dim, ...], ir.Value]


class NoSuchOperatorError(ConvertError):
    """An operator that the opset of the model does not have."""


def maker(value: ir.Value | None, *op_types: str) -> ir.Node | None:
    """The node that makes ``value``, if it is one of the standard operators ``op_types``; else None."""
    node = None if value is None else value.producer()
    return node if node is not None and not node.domain and node.op_type in op_types else None


def order_of(transpose: ir.Node, rank: int) -> tuple[int, ...]:
    """The axis of the operand for each axis of the result of a transpose of ``rank`` axes."""
    perm = transpose.attributes.get("perm")
    return tuple(reversed(range(rank))) if perm is None else tuple(perm.as_ints())


def before_transpose(value: ir.Value, order: Sequence[int]) -> ir.Value | None:
    """The operand of the transpose with this ``order`` that makes ``value``; None if there is no such node."""
    transpose = maker(value, "Transpose")
    return transpose.inputs[0] if transpose is not None and order_of(transpose, len(order)) == tuple(order) else None


def dtype_of(value: ir.Value) -> str:
    """The element type of a value of a `GraphWriter`. Raises `ConvertError` if it is not known."""
    if value.dtype is None:
        raise ConvertError(
            f"the dtype of {value.name or 'a value'}, the result of an operator that is not declared, is not known; "
            "state its type with a match_cast, or in the model that is read"
        )
    return from_onnx_dtype(value.dtype, value.name or "a value")


class GraphWriter:
    """A graph under construction.

    `op` adds a node and returns its output. If ONNX Runtime has no kernel for the element type of the operands, they
    are cast to a type that has one, and the output is cast back. ``hint`` names the values that follow, and
    ``origins`` goes into the metadata of the nodes that follow. ``domains`` has the versions of the operators of other
    domains. ``functions`` are those that the model defines, by domain, name and overload; ``overloads`` has the
    overload for each kind of call. ``effects`` are nodes that stay even if nothing reads them. ``keep_constants`` keeps
    loaded or computed constants in memory for the run; without it they are made anew each time. Operators are those
    of ``opset``; their inputs and attributes are those of ``written_for``, which is the same or newer. With
    ``keeps_width``, a result that is computed in single precision because bfloat16 has no kernel is passed to the
    next such operator as it is, and rounded only for other users.
    """

    def __init__(
        self,
        opset: int,
        *,
        written_for: int | None = None,
        keep_constants: bool = True,
        keeps_width: bool = False,
        heads_first: bool = False,
    ) -> None:
        self.opset: Final = opset
        self.heads_first: Final = heads_first
        """True if attention takes (batch, heads, sequence, size), and not rows of all heads."""
        self.written_for: Final = written_for or opset
        self._keep_constants: Final = keep_constants
        self._keeps_width: Final = keeps_width
        self._wide: Final[dict[ir.Value, ir.Value]] = {}
        self.kept: Final[dict[ir.Node, int]] = {}
        """The nodes that were read, each with the opset of its domain for which it was read."""
        self.kept_from: Final[dict[ir.Node, int]] = {}
        """For each kept node, the identity of the node that was read."""
        self.fixed: Final[set[ir.Node]] = set()
        """The kept nodes that can be written in no other form."""
        self.initializers: dict[str, ir.Value] = {}
        self.domains: Final[dict[str, int]] = {}
        self.functions: Final[dict[tuple[str, str, str], ir.Function]] = {}
        self.overloads: Final[dict[tuple[object, ...], str]] = {}
        self.effects: Final[set[ir.Node]] = set()
        self.given: Final[set[ir.Value]] = set()
        """Results that a node always names, even if nothing reads them."""
        self.names: Final = NameSupply()
        self.node_names: Final = NameSupply()
        self.hint = "value"
        self.origins: Origins = ()
        self._shared: dict[tuple[str, tuple[int, ...], bytes] | int, ir.Value] = {}
        self._data: dict[ir.Value, TensorData] = {}
        self._block = _Block([], {}, {}, {}, {})
        self._around: list[_Block] = []
        self.dims: Final[dict[ir.Value, SymExpr]] = {}
        """The sizes that values hold."""
        self._counts: Final[dict[tuple[Dim, ...], Dim]] = {}
        """The product of each row."""

    # --- nodes

    @property
    def nodes(self) -> list[ir.Node]:
        """The nodes of the current block."""
        return self._block.nodes

    def op(
        self, op_type: str, *inputs: ir.Value | None, dtype: str | None = None, domain: str = "", **attributes: Any
    ) -> ir.Value:
        """The only output of a new node; ``dtype`` is its element type if the operands do not determine it."""
        return self.ops(op_type, inputs, 1, dtype=dtype, domain=domain, **attributes)[0]

    def ops(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        outputs: int,
        *,
        dtype: str | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> tuple[ir.Value, ...]:
        """The outputs of a new node; ``dtype`` is the element type of outputs that the operands do not determine."""
        is_older = self.opset < self.written_for and not domain
        if is_older and not onnx.defs.has(op_type, self.opset):
            raise NoSuchOperatorError(f"{op_type} is no operator of opset {self.opset}")
        signature = signature_of(op_type, self.written_for, domain)
        operands = list(inputs)
        while operands and operands[-1] is None:  # some of these end the process of ONNX Runtime 1.31
            operands.pop()
        taken, given = signature.inputs_of(len(operands)), signature.outputs_of(outputs)
        bound: dict[str, str] = dict(signature.fixed)
        for parameter, operand in zip(taken, operands, strict=True):
            if operand is not None and operand.dtype is not None and dtype_of_text(parameter) is None:
                bound.setdefault(parameter, dtype_of(operand))
        main = signature.main
        own = bound.get(main)
        allowed = allowed_dtypes(op_type, self.opset, main) if is_older else None
        work = None if own is None else carrier(op_type, own, allowed)
        if work != own and work is not None:
            for index, operand in enumerate(operands):
                if operand is not None and taken[index] == main:
                    operands[index] = self.widened(operand, work)
        results: list[ir.Value] = []
        for parameter in given:
            told = work if parameter == main and work is not None else bound.get(parameter, parameter)
            element = dtype_of_text(told) or (dtype if told == parameter else told)
            results.append(self.value(element, f"{self.hint}/{op_type}"))
        self.add(op_type, operands, results, domain=domain, **attributes)
        if work == own or own is None:
            return tuple(results)
        pairs = zip(given, results, strict=True)
        return tuple([self.narrowed(value, own) if parameter == main else value for parameter, value in pairs])

    def narrowed(self, value: ir.Value, dtype: str) -> ir.Value:
        """``value``, which was computed in a wider type because there is no kernel for ``dtype``, cast to ``dtype``."""
        found = self.cast(value, dtype)
        if dtype == "bfloat16" and found is not value and self._keeps_width:
            self._wide[found] = value
        return found

    def widened(self, operand: ir.Value, dtype: str) -> ir.Value:
        """``operand`` in ``dtype``, which has a kernel: the value before `narrowed` if it has that type, or a cast."""
        wide = self._wide.get(operand)
        return wide if wide is not None and dtype_of(wide) == dtype else self.cast(operand, dtype)

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        outputs: Sequence[ir.Value],
        *,
        domain: str = "",
        **attributes: Any,
    ) -> ir.Node:
        """Append a node; its operands are not cast."""
        metadata = {ORIGIN_KEY: origins_text(self.origins)} if self.origins else None
        node = ir.node(
            op_type,
            inputs,
            {name: value for name, value in attributes.items() if value is not None},
            domain=domain,
            outputs=outputs,
            name=self.node_names.fresh(f"{self.hint}/{op_type}"),
            metadata_props=metadata,
        )
        self.nodes.append(node)
        return node

    def keep(
        self,
        source: ir.Node,
        opset: int,
        inputs: Sequence[ir.Value | None],
        outputs: Sequence[ir.Value],
        identity: int,
    ) -> None:
        """Append a node with the operator, attributes and name of ``source``, which was read for ``opset``."""
        if opset in _SIZES_BESIDE_SCALES and source.op_type == "Resize" and not source.domain:
            inputs, opset = self._without_empty_scales(inputs, opset)
        metadata = dict(source.metadata_props)
        if self.origins:
            metadata.setdefault(ORIGIN_KEY, origins_text(self.origins))
        node = ir.Node(
            source.domain,
            source.op_type,
            inputs,
            source.attributes.values(),
            overload=source.overload,
            outputs=outputs,
            name=self.node_names.fresh(source.name) if source.name else "",
            doc_string=source.doc_string,
            metadata_props=metadata,
        )
        self.nodes.append(node)
        self.kept[node], self.kept_from[node] = opset, identity

    def _without_empty_scales(
        self, inputs: Sequence[ir.Value | None], opset: int
    ) -> tuple[Sequence[ir.Value | None], int]:
        """The inputs of a `Resize` to sizes in the form of opset 13, without empty scales, and the opset for them."""
        scales = self.data_of(inputs[2]) if len(inputs) > 3 else None
        if inputs[-1] is None or scales is None or scales.size:
            return inputs, opset
        return [*inputs[:2], None, *inputs[3:]], _SIZES_BESIDE_SCALES.stop

    def value(self, dtype: str | None, hint: str | None = None) -> ir.Value:
        """A new value of that element type, or of an unknown one; no node produces it yet."""
        element = None if dtype is None else ir.TensorType(to_onnx_dtype(dtype))
        return ir.Value(name=self.names.fresh(hint or self.hint), type=element)

    def cast(self, value: ir.Value, dtype: str) -> ir.Value:
        """``value`` cast to ``dtype`` as in NumPy; ``value`` itself if it has that dtype.

        A number that an 8-bit float cannot hold becomes NaN or infinity, not the largest float.
        """
        if value.dtype is not None and dtype_of(value) == dtype:
            return value
        result = self.value(dtype, f"{self.hint}/Cast")
        saturate = 0 if is_float(dtype) and itemsize(dtype) == 1 else None
        self.add("Cast", [value], [result], to=int(to_onnx_dtype(dtype)), saturate=saturate)
        return result

    @contextmanager
    def block(self, *, repeats: bool = False) -> Generator[list[ir.Node], None, None]:
        """A context whose nodes go to a list of their own: the body of a branch, or of a loop if it ``repeats``.

        The body of a loop uses sizes that are known outside the loop.
        """
        here = self._block
        own = _Block([], dict(here.sizes), dict(here.readers), dict(here.rows), dict(here.read_rows))
        with self._inside(own, [*self._around, here] if repeats else []):
            yield own.nodes

    @contextmanager
    def _inside(self, block: _Block, around: list[_Block]) -> Generator[None]:
        """A context whose nodes go to ``block``, inside the blocks of the loops ``around`` it."""
        here = self._block, self._around
        self._block, self._around = block, around
        try:
            yield
        finally:
            self._block, self._around = here

    def _from_around(self, dims: Sequence[Dim]) -> ir.Value | None:
        """A shape that is computed before the current loop; None if it depends on the loop."""
        sizes = [size for dim in dims if isinstance(dim, SymExpr) for size in dim.free_symvars]
        outer = self._around[-1] if self._around else None
        if outer is None or not sizes:
            return None
        readers = self._block.readers
        if any(size not in outer.readers or outer.readers[size] is not readers.get(size) for size in sizes):
            return None
        with self._inside(outer, self._around[:-1]):
            return self.shape(dims)

    def branch(
        self, condition: ir.Value, then: Callable[[], Sequence[ir.Value]], otherwise: Callable[[], Sequence[ir.Value]]
    ) -> tuple[ir.Value, ...]:
        """The results of an If node: the values of ``then`` if ``condition``, a scalar, is true, else ``otherwise``."""
        hint = self.hint
        bodies: list[ir.Graph] = []
        for label, write in (("then", then), ("else", otherwise)):
            with self.block() as nodes:
                self.hint = f"{hint}_{label}"
                # A value from outside cannot be an output of a branch, nor can one value be two outputs.
                outputs = self.own_outputs(write(), nodes)
            bodies.append(ir.Graph([], outputs, nodes=nodes, opset_imports={}, name=f"{hint}_{label}"))
        self.hint = hint
        dtypes = [None if value.dtype is None else dtype_of(value) for value in bodies[0].outputs]
        results = tuple([self.value(dtype, f"{hint}/If") for dtype in dtypes])
        self.add("If", [condition], results, then_branch=bodies[0], else_branch=bodies[1])
        return results

    def own_outputs(
        self, values: Sequence[ir.Value], nodes: Sequence[ir.Node], handed_on: Collection[int] = ()
    ) -> list[ir.Value]:
        """``values`` as outputs of a body of ``nodes``: copies of those that are made elsewhere or occur twice.

        At the positions ``handed_on``, an input of the body may be an output without a copy.
        """
        own = {value for node in nodes for value in node.outputs}
        outputs: list[ir.Value] = []
        for place, value in enumerate(values):
            is_own = value in own or place in handed_on
            outputs.append(value if is_own and value not in outputs else self.op("Identity", value))
        return outputs

    # --- constants

    def constant(self, value: Any, dtype: str | None = None) -> ir.Value:
        """A constant of numbers or an array; equal small ones are shared. ``dtype`` defaults to the array's."""
        array = np.asarray(value) if dtype is None else np.asarray(value, dtype=numpy_dtype(dtype))
        return self.constant_data(TensorData(array), "constant")

    def integers(self, values: Sequence[int]) -> ir.Value:
        """A constant vector of int64: axes, sizes, indices."""
        return self.constant(np.asarray(list(values), dtype=np.int64))

    def constant_data(self, data: TensorData, hint: str, *, is_own: bool = False) -> ir.Value:
        """A constant that shares the memory of ``data``, under its name if it has one.

        One handle is one constant, whatever the number of its readers. Equal small constants are shared too, unless
        they are floats with a name, or ``is_own`` asks for a constant of its own.
        """
        key: tuple[str, tuple[int, ...], bytes] | int = id(data)
        may_be_shared = data.is_loaded if data.name is None else not is_float(data.dtype)
        if may_be_shared and not is_own and data.size <= _MOST_SHARED:
            array = data.numpy() if data.is_loaded else data.read()
            key = (data.dtype, data.shape, np.ascontiguousarray(array).tobytes())
        known = self._shared.get(key)
        if known is not None:
            return known
        given = data.name or hint
        name = self.names.fresh(f"kept_{given}" if _MADE_BY_A_RUNTIME.fullmatch(given) else given)
        element = to_onnx_dtype(data.dtype)
        shape = ir.Shape(data.shape)
        tensor: Any
        if data.is_loaded:
            tensor = ir.Tensor(data.numpy(), dtype=element, name=name)
        else:
            read = data.numpy if self._keep_constants else data.read
            tensor = ir.LazyTensor(lambda: ir.Tensor(read(), dtype=element), element, shape, name=name)
        value = ir.Value(name=name, type=ir.TensorType(element), shape=shape, const_value=tensor)
        self.initializers[name] = self._shared[key] = value
        self._data[value] = data
        return value

    def is_unnamed(self, value: ir.Value) -> bool:
        """True for a constant whose source has no name, so that it may take any name."""
        data = self._data.get(value)
        return data is not None and data.name is None and self.initializers.get(value.name or "") is value

    def data_of(self, value: ir.Value | None) -> TensorData | None:
        """The source of a constant; None if ``value`` is not a constant or None."""
        return None if value is None else self._data.get(value)

    # --- sizes: tensors of int64 with one element, from which shapes are joined

    def define_size(self, variable: SymVar, read: Callable[[], ir.Value]) -> None:
        """Register ``read()`` as the value of ``variable``: int64 of shape (1,). It is called when first needed."""
        self._block.readers[variable] = read

    def define_shape(self, dims: Sequence[Dim], value: ir.Value) -> None:
        """Register ``value``, of shape ``dims``, as a source of any row of consecutive sizes in it.

        A shape of many sizes is registered as a whole only, since the number of its parts is quadratic.
        """
        if len(dims) > _MOST_PARTED:
            self.define_whole_shape(dims, value)
            return
        for first in range(len(dims)):
            for last in range(first + 2, len(dims) + 1):
                row = tuple(dims[first:last])
                if any(isinstance(dim, SymExpr) for dim in row):
                    self._block.rows.setdefault(row, _Row(value, first, None if last == len(dims) else last))

    def define_whole_shape(self, dims: Sequence[Dim], value: ir.Value) -> None:
        """Register ``value`` as a source of the whole shape ``dims``, which it has, unless there is one already."""
        if len(dims) > 1 and any(isinstance(dim, SymExpr) for dim in dims):
            self._block.rows.setdefault(tuple(dims), _Row(value, 0, None))

    def knows_size(self, variable: SymVar) -> bool:
        """True if a value for ``variable`` can be computed."""
        return variable in self._block.readers

    def has_size(self, variable: SymVar) -> bool:
        """True if the value of ``variable`` has been computed, in this block or in one around it."""
        return variable in self._block.sizes

    def size(self, dim: Dim) -> ir.Value:
        """A size as a tensor of shape (1,) and int64. Raises `ConvertError` if one of its variables is unknown."""
        if isinstance(dim, int):
            return self.integers([dim])
        known = self._block.sizes.get(dim)
        if known is None:
            known = self._block.sizes[dim] = self._from_around([dim]) or self._compute_size(dim)
            self.dims[known] = dim
        return known

    def _row_of(self, product: SymExpr) -> tuple[Dim, ...] | None:
        """Consecutive sizes of a shape with this product, preferably a whole shape; None if there are none."""
        if isinstance(product, SymVar | Operation) or len(product.terms) != 1:
            return None
        found: tuple[Dim, ...] | None = None
        for row, (_, first, last) in self._block.rows.items():
            if row not in self._counts:
                self._counts[row] = prod(row)
            if self._counts[row] == product:
                found = row
                if first == 0 and last is None:
                    break
        return found

    def is_size(self, value: ir.Value) -> bool:
        """True if ``value`` is the product of a row of sizes, which a node can give as a scalar at no more cost."""
        dim = self.dims.get(value)
        return dim is not None and self._row_of(dim) is not None

    def _compute_size(self, dim: SymExpr) -> ir.Value:
        if isinstance(dim, SymVar):
            read = self._block.readers.get(dim)
            if read is not None:
                return read()
            raise ConvertError(f"the size {dim} is used, but no input and no earlier value defines it")
        if isinstance(dim, Operation):
            operands = [self.size(operand) for operand in dim.operands]
            match dim:
                case Condition():
                    return self._condition(dim, operands)
                case Select():
                    return self.op("Where", self.cast(operands[0], "bool"), *operands[1:])
                case Min() | Max():
                    return self.op("Min" if isinstance(dim, Min) else "Max", *operands)
                case FloorMod():
                    return self.op("Mod", *operands)
                case FloorDiv() if all(dim_at_least(operand, 0) for operand in dim.operands):
                    return self.op("Div", *operands)
                case FloorDiv():
                    # ONNX rounds integer division towards zero: take the remainder away first.
                    whole = self.op("Sub", operands[0], self.op("Mod", *operands))
                    return self.op("Div", whole, operands[1])
                case _:
                    raise AssertionError(type(dim))
        row = self._row_of(dim)
        if row is not None and sum(isinstance(size, SymExpr) for size in row) > 1:
            return self.op("ReduceProd", self._part(row), keepdims=1)
        total: ir.Value | None = None
        for atoms, coefficient in dim.terms:
            factors = [self.size(atom) for atom in atoms]
            if coefficient != 1 or not factors:
                factors.append(self.integers([coefficient]))
            term = factors[0]
            for factor in factors[1:]:
                term = self.op("Mul", term, factor)
            total = term if total is None else self.op("Add", total, term)
        assert total is not None
        return total

    def _condition(self, dim: Condition, operands: Sequence[ir.Value]) -> ir.Value:
        """A condition as an int64 of 0 or 1; every size is an int64."""
        match dim.sign:
            case "and":
                return self.op("Min", *operands)
            case "or":
                return self.op("Max", *operands)
            case "not":
                return self.op("Sub", self.integers([1]), *operands)
            case "!=":
                return self.op("Sub", self.integers([1]), self._truth("Equal", *operands))
            case sign:
                return self._truth(_COMPARISONS[sign], *operands)

    def _truth(self, op_type: str, *operands: ir.Value) -> ir.Value:
        return self.cast(self.op(op_type, *operands, dtype="bool"), "int64")

    def shape(self, dims: Sequence[Dim]) -> ir.Value:
        """A shape as a vector of int64; a constant if it contains no size variable."""
        known = self._from_around(dims)
        if known is not None:
            return known
        parts = [self._part(row) for row in self._parts(tuple(dims))]
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def _part(self, row: tuple[Dim, ...]) -> ir.Value:
        known = [dim for dim in row if isinstance(dim, int)]
        if len(known) == len(row):
            return self.integers(known)
        if len(row) == 1:
            return self.size(row[0])
        if row not in self._block.read_rows:
            value, first, last = self._block.rows[row]
            self._block.read_rows[row] = self.op("Shape", value, start=first or None, end=last)
        return self._block.read_rows[row]

    def _parts(self, dims: tuple[Dim, ...]) -> list[tuple[Dim, ...]]:
        """The rows from which a shape is joined, chosen for the fewest nodes. Each can be read at once."""
        if all(isinstance(dim, int) for dim in dims):
            return [dims]
        reach = max([_SHORT, *map(len, self._block.rows)])
        best: list[tuple[int, list[tuple[Dim, ...]]]] = [(0, [])]
        for end in range(1, len(dims) + 1):
            ways = [
                (best[begin][0] + self._cost(dims[begin:end]), [*best[begin][1], dims[begin:end]])
                for begin in range(max(0, end - reach), end)
            ]
            best.append(min(ways, key=lambda way: (way[0] + (len(way[1]) > 1), len(way[1]))))
        found: list[tuple[Dim, ...]] = []
        for row in best[-1][1]:
            if found and all(isinstance(dim, int) for dim in (*found[-1], *row)):
                row = found.pop() + row  # of any length
            found.append(row)
        return found

    def _cost(self, row: tuple[Dim, ...]) -> int:
        """The number of nodes that make ``row`` one value; ``_CANNOT`` if this is not possible."""
        if all(isinstance(dim, int) for dim in row) or row in self._block.read_rows:
            return 0
        if len(row) == 1:
            return 0 if row[0] in self._block.sizes else 1 if isinstance(row[0], SymVar) else 2
        return 1 if row in self._block.rows else _CANNOT

    def scalar(self, value: ir.Value) -> ir.Value:
        """A tensor of one element as a scalar (rank 0)."""
        dim = self.dims.get(value)
        row = None if dim is None else self._row_of(dim)
        if row is not None:
            whole, first, last = self._block.rows[row]
            is_all = first == 0 and last is None
            return self.op("Size", whole) if is_all else self.op("ReduceProd", self._part(row), keepdims=0)
        return self.op("Squeeze", value, None if dim is None else self.integers([0]))

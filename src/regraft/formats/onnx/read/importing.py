"""The interface for readers of single operators: a node's operands, attributes, and known sizes.

`IMPORTERS` is the table by domain and operator; `reads` enters a function into it. A reader returns an expression, or
several, or `Sizes`: a small tensor of integers whose elements are known as numbers or as names of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import onnx_ir as ir

from .... import op as ops
from ....ir.dims import Dim, SymVar
from ....ir.dtypes import as_dtype, is_float, is_integer, numpy_dtype
from ....ir.expr import Constant, Expr, ShapeExpr, const
from ....ir.tensor_data import TensorData
from ....ir.types import ShapeType, TensorType
from ...errors import ConvertError
from ..element_types import from_onnx_dtype
from .sizes import Sizes, is_size_name

if TYPE_CHECKING:
    from .graph_importer import GraphImporter


class UnsupportedNodeError(Exception):
    """A node that cannot be read; the message says why. The importer adds the place."""


class UndecidedNodeError(UnsupportedNodeError):
    """A node whose form depends on sizes or numbers that are known at run time only. It is carried, to be read then."""


Imported: TypeAlias = Expr | Sizes
ReadNode: TypeAlias = "Callable[[NodeImporter], Imported | tuple[Imported | None, ...]]"

IMPORTERS: Final[dict[tuple[str, str], ReadNode]] = {}
"""The function that reads a node, by domain and operator."""

MOST_KEPT: Final = 16
"""The most elements of a constant in place of the node that computes it: a shape, axes, factors. A pass computes larger
ones, because it knows the other readers of their operands."""
_MOST_SIZES: Final = 64


def reads(*names: str, domain: str = "") -> Callable[[ReadNode], ReadNode]:
    """Enter a function into `IMPORTERS` under the names of operators."""

    def enter(function: ReadNode) -> ReadNode:
        for name in names:
            assert (domain, name) not in IMPORTERS, name
            IMPORTERS[domain, name] = function
        return function

    return enter


def reads_as(readers: Mapping[str, Callable[[NodeImporter], Imported]]) -> None:
    """Enter readers of ONNX's own operators, each a single expression, under their names."""
    IMPORTERS.update({("", op_type): read for op_type, read in readers.items()})


def in_dtype(x: Expr, dtype: str) -> Expr:
    """``x`` cast to ``dtype``; ``x`` itself if it has it, so that a node has no step that a pass would remove."""
    return x if isinstance(x.ty, TensorType) and x.ty.dtype == dtype else ops.astype(x, dtype)


class NodeImporter:
    """A node that is being read."""

    __slots__ = ("graph", "node")

    def __init__(self, graph: GraphImporter, node: ir.Node) -> None:
        self.graph = graph
        self.node = node

    @property
    def op_type(self) -> str:
        """The operator's name."""
        return self.node.op_type

    @property
    def opset(self) -> int:
        """The version of the operators of the node's domain."""
        return self.graph.version_of(self.node.domain)

    # --- operands

    def has(self, index: int) -> bool:
        """True if operand ``index`` is given."""
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        return value is not None and bool(value.name)

    def _value(self, index: int) -> ir.Value:
        value = self.node.inputs[index] if self.has(index) else None
        if value is None:
            raise UnsupportedNodeError(f"input {index} is missing")
        return value

    def operand(self, index: int) -> Expr:
        """Operand ``index``. Raises `UnsupportedNodeError` if it is left out."""
        return self.graph.expression(self._value(index))

    def imported(self, index: int) -> Imported:
        """Operand ``index`` as it was read: an expression, or sizes."""
        return self.graph.imported(self._value(index))

    def optional(self, index: int) -> Expr | None:
        """Operand ``index``, or None if it is left out."""
        return self.operand(index) if self.has(index) else None

    def operands(self) -> list[Expr]:
        """All operands."""
        return [self.operand(index) for index in range(len(self.node.inputs))]

    def ty(self, index: int) -> TensorType:
        """The type of operand ``index``."""
        ty = self.imported(index).ty
        assert isinstance(ty, TensorType)
        return ty

    def dtype(self, index: int = 0) -> str:
        """The dtype of operand ``index``."""
        dtype = self.ty(index).dtype
        if dtype is None:
            raise UnsupportedNodeError(f"the dtype of input {index} is not known")
        return dtype

    def rank(self, index: int = 0) -> int:
        """The rank of operand ``index``. Raises `UnsupportedNodeError` if it is not known."""
        rank = self.ty(index).ndim
        if rank < 0:
            raise UnsupportedNodeError(
                f"the rank of input {index} is not known; if it depends on a size of the inputs, fix that size: dims="
            )
        return rank

    def give_rank(self, rank: int) -> None:
        """Give operand 0 the ``rank`` that the rest of the node implies, if its own is unknown."""
        ty, value = self.ty(0), self._value(0)
        if ty.ndim < 0 and rank >= 0:
            sizes = [SymVar(f"{value.name or 'size'}_{axis}") for axis in range(rank)]
            named = self.graph.builder.match_cast(self.operand(0), TensorType(sizes, ty.dtype), value.name or "")
            self.graph.values[value.name or ""] = named

    def shape(self, index: int = 0) -> tuple[Dim, ...]:
        """The shape of operand ``index``. Raises `UnsupportedNodeError` if it is not known."""
        shape = self.ty(index).shape
        if shape is None:
            raise UnsupportedNodeError(f"the shape of input {index} is not known")
        return shape

    def known_shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of operand ``index`` in numbers. Raises `UnsupportedNodeError` if it depends on the run."""
        sizes = [size for size in self.shape(index) if isinstance(size, int)]
        if len(sizes) != len(self.shape(index)):
            raise UndecidedNodeError(f"input {index} has sizes that are known at run time only")
        return tuple(sizes)

    # --- known contents

    def is_of_sizes(self) -> bool:
        """True if an operand is a tensor of sizes, some of which are known by name only."""
        values = self.graph.values
        return any(isinstance(values.get(value.name or ""), Sizes) for value in self.node.inputs if value is not None)

    def sizes(self, index: int) -> Sizes | None:
        """The elements of operand ``index``, if it is a small known tensor of integers; else None."""
        if not self.has(index):
            return None
        found = self.imported(index)
        if isinstance(found, Sizes):
            return found
        found = self.graph.known(found)
        if found is not None and is_integer(found.data.dtype) and len(found.data.shape) <= 1:
            if found.data.size > _MOST_SIZES:
                return None
            array = found.data.numpy()
            return Sizes(tuple(int(value) for value in array.reshape(-1)), array.shape, found.data.dtype)
        return None

    def array(self, index: int) -> np.ndarray | None:
        """The numbers of operand ``index``, if it is a constant; else None."""
        if not self.has(index):
            return None
        found = self.imported(index)
        if isinstance(found, Sizes):
            return found.constant().data.numpy() if found.is_known else None
        known = self.graph.known(found)
        return None if known is None else known.data.numpy()

    def integers(self, index: int, what: str) -> list[int] | None:
        """The integers of operand ``index``; None if it is left out. Raises `UnsupportedNodeError` if unknown."""
        found = self.known_integers(index)
        if found is None and self.has(index):
            raise UndecidedNodeError(f"{what} (input {index}) are computed at run time")
        return found

    def known_integers(self, index: int) -> list[int] | None:
        """The integers of operand ``index``; None if it is left out or computed at run time."""
        array = self.array(index)
        return None if array is None else [int(value) for value in np.asarray(array).reshape(-1)]

    def number(self, index: int, what: str) -> Any:
        """The number of operand ``index``; None if it is left out. Raises `UnsupportedNodeError` if it is unknown."""
        array = self.array(index)
        if array is not None:
            return np.asarray(array).reshape(-1)[0].item()
        if self.has(index):
            raise UndecidedNodeError(f"{what} (input {index}) is computed at run time")
        return None

    def axes(self, index: int = 1, name: str = "axes") -> list[int] | None:
        """Axes, which are an input in newer opsets and an attribute in older ones; None if they are left out."""
        given = self.attr(name)
        return list(given) if given is not None else self.integers(index, name)

    def shape_operand(self, index: int) -> Expr:
        """Operand ``index``, a tensor of sizes, as a shape. Sizes that are computed at run time get names."""
        found = self.sizes(index)
        if found is not None:
            return ShapeExpr(found.values)
        return self.named_shape(self.operand(index))

    def named_shape(self, tensor: Expr) -> Expr:
        """A tensor of sizes as a shape, with a name for each size if their number is known."""
        ty = tensor.ty
        length = ty.shape[0] if isinstance(ty, TensorType) and ty.shape else None
        if not isinstance(length, int):
            return self.graph.builder.emit(ops.tensor_to_shape(tensor))
        return ShapeExpr(self.call_sizes(tensor, [self.fresh_size(axis) for axis in range(length)]))

    def named_sizes(self, tensor: Expr, count: int) -> list[Dim]:
        """The ``count`` elements of a tensor of sizes: names for them, or numbers if the tensor is a constant."""
        if isinstance(tensor, Constant):
            return [int(size) for size in tensor.data.numpy().reshape(-1)]
        return self.call_sizes(tensor, [self.fresh_size(axis) for axis in range(count)])

    def call_sizes(self, tensor: Expr, names: Sequence[Dim]) -> list[Dim]:
        """Give the elements of a tensor of sizes the names ``names``; a name of a known size is checked at run time."""
        builder = self.graph.builder
        builder.match_cast(builder.emit(ops.tensor_to_shape(tensor)), ShapeType(names))
        return list(names)

    def fresh_size(self, axis: int) -> SymVar:
        """A size of the node's result that is known at run time only, under the name that the model has for it."""
        result = self.node.outputs[0]
        stated = result.shape[axis] if result.shape is not None and axis < len(result.shape) else None
        named = stated.value if isinstance(stated, ir.SymbolicDim) else None
        if named is None or not is_size_name(named) or self.graph.is_size_of_input(named):
            named = f"{result.name or 'size'}_{axis}"
        return SymVar(named)

    # --- attributes

    def attr(self, name: str, default: Any = None) -> Any:
        """The value of an attribute: a number, a string, a tuple of these, a tensor or a graph."""
        attribute = self.node.attributes.get(name)
        if attribute is None:
            return default
        assert isinstance(attribute, ir.Attr)
        value: Any = attribute.value
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, list | tuple):
            items = cast("Iterable[Any]", value)
            return tuple([item.decode() if isinstance(item, bytes) else item for item in items])
        return value

    def flag(self, name: str, default: int = 0) -> bool:
        """True if a flag attribute is 1: runtimes treat any other number as 0."""
        return self.attr(name, default) == 1

    def dtype_attr(self, name: str, default: str | None = None) -> str | None:
        """The dtype in an attribute, or ``default`` if that is missing. Raises `UnsupportedNodeError` for strings.

        The attribute holds ONNX's number for the dtype, or in opsets before 6 its name.
        """
        value = self.attr(name)
        if isinstance(value, str):  # the name of an element type, in opsets before 6
            value = ir.DataType[value]
        if value == ir.DataType.STRING:
            raise self.refuse("tensors of string are not supported")
        return default if value is None else from_onnx_dtype(value, f"attribute {name}")

    # --- results

    def emit(self, expr: Expr) -> Expr:
        """An intermediate result, bound to a variable."""
        name = next((output.name for output in self.node.outputs if output.name), "value")
        return self.graph.emit(expr, f"{name.removesuffix('_part')}_part")

    def like(self, number: float, index: int = 0) -> Constant:
        """``number`` as a constant in the dtype of operand ``index``."""
        return const(np.asarray(number), self.dtype(index))

    def refuse(self, why: str) -> UnsupportedNodeError:
        """The error for a form of the operator that cannot be read."""
        return UnsupportedNodeError(why)

    def undecided(self, why: str) -> UndecidedNodeError:
        """The error for a node that can be read at run time only."""
        return UndecidedNodeError(why)


def constant_of(tensor: Any, name: str, *, is_stored: bool = False) -> Constant:
    """A constant. Numbers that are not in the message of the model are read from their file when they are first needed.

    ``is_stored`` is True if the model stores it under its name, like weights. Floats of rank 1 or more keep the name.
    """
    dtype = as_dtype(from_onnx_dtype(tensor.dtype, f"constant {name}"))
    shape = tuple(int(size) for size in tensor.shape)
    own = name if is_stored and shape and is_float(dtype) else None

    def numbers(of: Any) -> np.ndarray:
        return of.numpy().astype(numpy_dtype(dtype), copy=False).reshape(shape)

    def load() -> np.ndarray:
        if tensor.size == 0 or tensor.dtype.bitwidth < 8:
            return numbers(copy(tensor))  # a tensor that was read keeps its file mapped; the copy is dropped
        stored = np.dtype(tensor.dtype.numpy()).newbyteorder("<")
        return np.asarray(np.memmap(tensor.path, stored, "r", tensor.offset or 0, shape)).astype(
            numpy_dtype(dtype), copy=False
        )

    def part(region: tuple[slice, ...]) -> np.ndarray:
        return np.require(numbers(tensor)[region], requirements=["ALIGNED"])

    if isinstance(tensor, ir.ExternalTensor):
        return Constant(TensorData.lazy(shape, dtype, load, own, part=part))
    return Constant(TensorData(np.require(numbers(tensor), requirements=["ALIGNED"]), own))


def constant_for(port: ir.Value, array: np.ndarray) -> Constant:
    """The user's array for an input, in the input's dtype. Raises `ConvertError` if that cannot hold the numbers."""
    if port.dtype is None:
        return const(array)
    dtype = from_onnx_dtype(port.dtype, f"input {port.name}")
    held = array.astype(numpy_dtype(dtype))
    if is_integer(dtype) and not np.array_equal(held, array):
        raise ConvertError(f"input {port.name} is of {dtype}, which cannot hold {array}")
    return const(held, dtype)

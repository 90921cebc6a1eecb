"""Programs as JSON: `save_json` and `load_json`, as in Relax.

The text is a table of nodes that refer to each other by number. So shared nodes stay shared, and all uses of a
variable are the same object. A node has the same fields as in a pickle. Arrays are stored as base64. Reading never
runs code. The form for people is in `script`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, cast, get_args, get_type_hints

import numpy as np

from .dims import Operation, SymExpr, SymVar, add_all, conditions, dim_product, symbolic
from .dtypes import as_dtype, as_optional_dtype, is_integer, numpy_dtype
from .errors import IRError
from .expr import (
    Constant,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    GlobalVar,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from .module import IRModule
from .node import Node, init_field, slots_of
from .op import Attrs, Call, Op
from .origin import Origin
from .program import BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from .tensor_data import TensorData
from .types import FuncType, ObjectType, PrimType, Shape, ShapeType, StringType, TensorType, TupleType, as_dim
from .vdevice import DummyGlobalInfo, VDevice

_FORMAT: Final = "regraft program 1"

_NODES: Final[dict[str, type[Node]]] = {
    kind.__name__: kind
    for kind in (
        *(BindingBlock, Call, Constant, DataTypeImm, DataflowBlock, DataflowVar, DummyGlobalInfo, ExternFunc),
        *(FuncType, Function, GlobalVar, If, MatchCast, ObjectType, PrimType, PrimValue, SeqExpr, ShapeExpr),
        *(ShapeType, StringImm, StringType, TensorType, Tuple, TupleGetItem, TupleType, Var, VarBinding),
    )
}
_OPERATIONS: Final[dict[str, type[Operation]]] = {
    kind.__name__: kind
    for home in (symbolic, conditions)
    for kind in vars(home).values()
    if isinstance(kind, type) and issubclass(kind, Operation)
}


def save_json(node: Node | Shape) -> str:
    """A module, function, expression, binding, block or type as JSON text.

    `load_json` returns a structurally equal program. Cost: linear in its size, constants included.
    """
    writer = _JsonWriter()
    root = writer.value(ShapeExpr(node) if isinstance(node, Shape) else node)
    return json.dumps({"format": _FORMAT, "root": root, "nodes": writer.table})


def load_json(json_str: str) -> Any:
    """The program in a text that `save_json` wrote, as new objects. Raises `IRError` for any other text."""
    try:
        content = json.loads(json_str)
    except (ValueError, RecursionError) as error:
        raise IRError(f"this is no JSON: {error}") from None
    if not isinstance(content, dict) or cast("dict[str, Any]", content).get("format") != _FORMAT:
        raise IRError("this JSON holds no program of regraft: save_json writes one")
    try:
        reader = _JsonReader(cast("dict[str, Any]", content)["nodes"])
        return reader.value(content["root"])
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        told = str(error) if isinstance(error, IRError) else repr(error)
        raise IRError(f"the JSON of this program is damaged: {told}") from None


_OF_SCALARS: Final[dict[type[Node], Mapping[str, Any]]] = {
    PrimType: {"dtype": str, "value": int | float | SymExpr | None},
    PrimValue: {"ty": PrimType, "value": int | float | SymExpr},
}


@cache
def _fields_of(kind: type[Node]) -> Mapping[str, Any]:
    """The kinds of values that each field of a kind of node may have."""
    return _OF_SCALARS.get(kind) or get_type_hints(kind)


def _fits(value: Any, held: Any) -> bool:
    """True if a field that holds ``held`` may have ``value``: a class, a union of some, or a tuple of some."""
    if isinstance(held, type):
        return isinstance(value, held) and (held is not int or not isinstance(value, bool))
    if isinstance(held, UnionType):
        return any(_fits(value, one) for one in get_args(held))
    parts = get_args(held)
    if not isinstance(value, tuple):
        return False
    items = cast("tuple[Any, ...]", value)
    if parts[-1] is Ellipsis:
        return all(_fits(item, parts[0]) for item in items)
    return len(items) == len(parts) and all(map(_fits, items, parts))


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise IRError(f"{value!r} is no name")
    return value


class _JsonWriter:
    """Fills the table of nodes, operands before users."""

    def __init__(self) -> None:
        self.table: list[Any] = []
        self._places: dict[int, int] = {}
        self._alive: list[object] = []

    def value(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, Origin):
            return {"origin": list(value)}
        if isinstance(value, tuple | list):
            return {"list": [self.value(item) for item in cast("tuple[Any, ...]", value)]}
        place = self._places.get(id(value))
        if place is None:
            entry = self._entry(value)
            place = self._places[id(value)] = len(self.table)
            self._alive.append(value)
            self.table.append(entry)
        return {"node": place}

    def _entry(self, value: Any) -> Any:
        match value:
            case IRModule():
                functions = [[self.value(v), self.value(f)] for v, f in value.functions.items()]
                return {"kind": "IRModule", "functions": functions, "attrs": self.value(value.attrs)}
            case Op():
                return {"kind": "Op", "name": value.name}
            case Node() if type(value).__name__ in _NODES or isinstance(value, VDevice):
                fields = {slot: self.value(getattr(value, slot)) for slot in slots_of(type(value))}
                return {"kind": type(value).__name__, "fields": fields}
            case SymVar():
                return {"kind": "SymVar", "name": value.name, "dtype": value.dtype, "least": value.least}
            case Operation():
                return {"kind": type(value).__name__, "operands": [self.value(operand) for operand in value.operands]}
            case SymExpr():
                return {"kind": "sum", "terms": [[c, [self.value(a) for a in atoms]] for atoms, c in value.terms]}
            case TensorData():
                return self._tensor(value)
            case Mapping():
                table = cast("Mapping[str, Any]", value)
                return {"kind": "Attrs", "items": [[key, self.value(item)] for key, item in table.items()]}
            case _:
                raise IRError(f"{value!r} of type {type(value).__name__} has no form in JSON")

    def _tensor(self, data: TensorData) -> Any:
        array = np.ascontiguousarray(data.read())
        content = base64.b64encode(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()).decode("ascii")
        named = {"name": data.name, "sources": list(data.sources)}
        return {"kind": "TensorData", "dtype": data.dtype, "shape": list(data.shape), "bytes": content, **named}


class _JsonReader:
    """Builds nodes from the table, each once, in order. Operands come before users."""

    def __init__(self, table: list[Any]) -> None:
        self._made: list[Any] = []
        for entry in table:
            self._made.append(self._node(entry))

    def value(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        pairs = list(cast("dict[str, Any]", value).items())
        if len(pairs) != 1:
            raise IRError(f"a value has one form, and not {[form for form, _ in pairs]}")
        [(form, content)] = pairs
        match form:
            case "node":
                if type(content) is not int or not 0 <= content < len(self._made):
                    raise IRError(f"there is no node {content!r} before the one that names it")
                return self._made[content]
            case "float":
                return float.fromhex(content)
            case "origin":
                return Origin(*content)
            case "list":
                return tuple([self.value(item) for item in content])
            case _:
                raise IRError(f"{form!r} is no form of a value")

    def _node(self, entry: Any) -> Any:
        kind = entry["kind"]
        match kind:
            case "IRModule":
                functions = {self.value(v): self.value(f) for v, f in entry["functions"]}
                return IRModule(functions, self.value(entry["attrs"]))
            case "Op":
                return Op.get(entry["name"])
            case "SymVar":
                return self._size(entry)
            case "sum":
                return add_all(dim_product([c, *map(self.value, atoms)]) for c, atoms in entry["terms"])
            case "TensorData":
                return self._tensor(entry)
            case "VDevice":
                return self._device(entry["fields"])
            case "Attrs":
                return Attrs({_name(key): self.value(item) for key, item in entry["items"]})
            case _:
                if kind in _OPERATIONS:
                    return _OPERATIONS[kind].build(*[self.value(operand) for operand in entry["operands"]])
                return self._plain(_NODES[kind], entry["fields"])

    def _plain(self, kind: type[Node], fields: dict[str, Any]) -> Node:
        """A node with its stored fields, types included: nothing is inferred again."""
        node, held = kind.__new__(kind), _fields_of(kind)
        for slot in slots_of(kind):
            value: Any = None if slot == "vdevice" and slot not in fields else self.value(fields[slot])
            if slot in ("shape", "values") and value is not None:
                sizes = [as_dim(size) for size in value]
                value = Shape(sizes) if slot == "shape" else tuple(sizes)
            elif slot == "dtype":
                value = as_optional_dtype(value)
            if slot in held and not _fits(value, held[slot]):
                raise IRError(f"the {slot} of a {kind.__name__} is {value!r:.200}")
            init_field(node, slot, value)
        if isinstance(node, TensorType) and node.shape is not None and len(node.shape) != node.ndim:
            raise IRError(f"a tensor of shape {node.shape} has ndim {len(node.shape)}, not {node.ndim}")
        return node

    def _device(self, fields: dict[str, Any]) -> VDevice:
        target, options, number = fields["target"], self.value(fields["options"]), fields["vdevice_id"]
        return VDevice({"kind": target, **dict(options)} if options else target, number, fields["memory_scope"])

    def _size(self, entry: Any) -> SymVar:
        name, dtype, least = _name(entry["name"]), as_dtype(entry["dtype"]), entry["least"]
        if type(least) not in (int, NoneType) or not is_integer(dtype):
            raise IRError(f"the size {name} is of {dtype} and at least {least!r}")
        return SymVar(name, dtype, least=least)

    def _tensor(self, entry: Any) -> TensorData:
        element = numpy_dtype(entry["dtype"])
        content = base64.b64decode(entry["bytes"], validate=True)
        array = np.frombuffer(content, dtype=element.newbyteorder("<")).reshape(entry["shape"])
        return TensorData(array.astype(element, copy=False), entry["name"], entry["sources"])

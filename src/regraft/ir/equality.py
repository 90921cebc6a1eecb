"""When two programs are the same: whatever their variables are called, and wherever they came from.

Variables and size variables are renamed one to one; constants are compared byte by byte; names of functions,
attributes, types and the order of bindings count; name hints and origins do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from .collection import collection_paused
from .dims import Dim, SymExpr, SymVar, free_symvars, substitute
from .expr import (
    Constant,
    DataTypeImm,
    Expr,
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
from .node import Node
from .op import Call, Op, attribute_key
from .program import BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding
from .tensor_data import TensorData
from .types import FuncType, PrimType, Shape, ShapeType, TensorType, TupleType, Type, type_symvars


class _Path(NamedTuple):
    """Where in the program something stands: a linked path, put into words only when asked for.

    ``kind`` is "name" for a function, "row" for a block, binding or branch, "field" for a part of an
    expression.
    """

    parent: _Path | None
    label: str
    kind: Literal["name", "row", "field"] = "field"

    def __str__(self) -> str:
        text, place = self.label, self
        while place.parent is not None:
            before = place.parent
            if place.kind == "row":
                joint = ": " if before.kind == "name" else ", "
            else:
                joint = "." if before.kind == "field" else ": "
            text, place = before.label + joint + text, before
        return text


class Difference(NamedTuple):
    """The first place where two programs differ, and what each has there."""

    path: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.path}: {self.left} on the left, {self.right} on the right"


_Pair: TypeAlias = "tuple[Any, Any, _Path | None]"


class _Definition(NamedTuple):
    """Work for the comparer: the variables of two bindings, to be made one once their values are the same."""

    binding: VarBinding | MatchCast


class _Count(NamedTuple):
    """Work for the comparer: how many of something there are."""

    number: int
    noun: str


class Comparer:
    """Walks two programs side by side with its own stack, building the one-to-one maps of their variables.

    After `run` says no, ``difference`` is the first one, and ``names`` what the left side calls the variables
    of the right side that were met before it.
    """

    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.difference: Difference | None = None
        self.names: dict[Var | SymVar, str] = {}
        self._vars: dict[Var, Var] = {}
        self._vars_back: dict[Var, Var] = {}
        self._sizes: dict[SymVar, SymVar] = {}
        self._sizes_back: dict[SymVar, SymVar] = {}
        self._same: set[tuple[int, int]] = set()
        self._stack: list[_Pair] = []

    def run(self, left: Any, right: Any, place: _Path | None = None) -> bool:
        """True if the two are the same; ``place`` is where they stand in a larger whole."""
        self._stack.append((left, right, place))
        while self._stack:
            if not self._step(*self._stack.pop()):
                return False
        return True

    # --- saying no

    def _differ(self, a: Any, b: Any, place: _Path | None) -> bool:
        self.difference = Difference("the root" if place is None else str(place), _describe(a), _describe(b))
        return False

    def _require(self, same: bool, a: Any, b: Any, place: _Path | None, label: str) -> bool:
        return same or self._differ(a, b, _Path(place, label))

    # --- one pair

    def _step(self, a: Any, b: Any, place: _Path | None) -> bool:
        if type(a) is not type(b):
            return self._differ(a, b, place)
        match a:
            case Var():
                return self._use(a, b, place)
            case Call() | Tuple() | TupleGetItem():
                return self._compound(a, b, place)
            case Constant():
                return (self._types(a.ty, b.ty) and same_tensor(a.data, b.data)) or self._differ(a, b, place)
            case _Definition():
                return self._define_binding(a.binding, b.binding, place)
            case VarBinding() | MatchCast():
                rows: list[_Pair] = [(_Definition(a), _Definition(b), place), (a.value, b.value, place)]
                # A function that is defined inside another may call itself: its name comes before its body.
                self._stack.extend(reversed(rows) if isinstance(a.value, Function) else rows)
                return True
            case BindingBlock():
                return self._block(a, b, place)
            case SeqExpr():
                self._stack.append((a.body, b.body, _Path(place, "result")))
                self._sequence(a.blocks, b.blocks, place, "block", "row")
                return True
            case If():
                self._stack.append((a.false_branch, b.false_branch, _Path(place, "false_branch", "row")))
                self._stack.append((a.true_branch, b.true_branch, _Path(place, "true_branch", "row")))
                self._stack.append((a.cond, b.cond, _Path(place, "cond")))
                return True
            case Function():
                return self._function(a, b, place)
            case IRModule():
                return self._module(a, b)
            case Type():
                return self._types(a, b) or self._differ(a, b, place)
            case _:
                return self._value(a, b, place)

    def _value(self, a: Any, b: Any, place: _Path | None) -> bool:
        """Leaves without variables of the program, attribute values, and the comparer's own counts."""
        match a:
            case Op():
                same = a is b
            case GlobalVar():
                same = a.name_hint == b.name_hint
            case ExternFunc():
                same = a.global_symbol == b.global_symbol
            case StringImm() | DataTypeImm():
                same = a.value == b.value
            case PrimValue():
                return self._types(a.ty, b.ty) or self._differ(a, b, place)
            case ShapeExpr():
                same = self._dims(a.values, b.values)
            case SymExpr():
                same = self._dims((a,), (b,))
            case _Count():
                return a == b or self._differ(f"{a.number} {a.noun}", f"{b.number} {b.noun}", place)
            case Mapping():
                return self._mapping(a, b, place)  # pyright: ignore[reportUnknownArgumentType]
            case tuple() | list():
                self._sequence(a, b, place, "")  # pyright: ignore[reportUnknownArgumentType]
                return True
            case np.ndarray():
                same = same_tensor(TensorData(a), TensorData(b))  # pyright: ignore[reportUnknownArgumentType]
            case TensorData():
                same = same_tensor(a, b)
            case _:
                same = attribute_key(a) == attribute_key(b)
        return same or self._differ(a, b, place)

    def _sequence(
        self,
        a: Sequence[Any],
        b: Sequence[Any],
        place: _Path | None,
        label: str,
        kind: Literal["row", "field"] = "field",
    ) -> None:
        """Compare item by item, then the lengths, so that the first item that differs is what is told."""
        noun = label + "s" if label else "items"
        self._stack.append((_Count(len(a), noun), _Count(len(b), noun), place))
        form = "{}[{}]" if kind == "field" else "{} {}"
        self._stack.extend(
            [
                (x, y, _Path(place, form.format(label, i), kind))
                for i, (x, y) in reversed(list(enumerate(zip(a, b, strict=False))))
            ]
        )

    def _mapping(self, a: Mapping[str, Any], b: Mapping[str, Any], place: _Path | None) -> bool:
        if a.keys() != b.keys():
            return self._differ(dict(a), dict(b), place)
        self._stack.extend([(a[key], b[key], _Path(place, key)) for key in reversed(list(a))])
        return True

    # --- expressions

    def _compound(self, a: Call | Tuple | TupleGetItem, b: Any, place: _Path | None) -> bool:
        key = (id(a), id(b))
        if key in self._same:
            return True
        # Recorded before it is known: an answer of "different" ends the comparison anyway.
        self._same.add(key)
        if isinstance(a, Tuple):
            self._sequence(a.fields, b.fields, place, "fields")
            return True
        if isinstance(a, TupleGetItem):
            self._stack.append((a.tuple_value, b.tuple_value, _Path(place, "tuple_value")))
            return self._require(a.index == b.index, a.index, b.index, place, "index")
        if a.op is not b.op and (isinstance(a.op, Op) or isinstance(b.op, Op)):
            return self._differ(a.op, b.op, _Path(place, "op"))
        if a.ty_args or b.ty_args:
            self._sequence(a.ty_args, b.ty_args, place, "ty_args")
        if a.attrs is not b.attrs:
            self._stack.append((a.attrs, b.attrs, _Path(place, "attrs")))
        mapped: Callable[[Any], Var | None] = cast("dict[Any, Var]", self._vars).get
        if len(a.args) != len(b.args) or any(mapped(x) is not y for x, y in zip(a.args, b.args, strict=True)):
            self._sequence(a.args, b.args, place, "args")
        if not isinstance(a.op, Op):
            self._stack.append((a.op, b.op, _Path(place, "op")))
        return True

    def _use(self, a: Var, b: Var, place: _Path | None) -> bool:
        if self._vars.get(a) is b:
            return True
        if a not in self._vars and b not in self._vars_back:
            if a is b and not self.map_free_vars:
                return True
            if self.map_free_vars:
                if not self._types(a.ty, b.ty, free=True):
                    return self._differ(a.ty, b.ty, _Path(place, "ty"))
                self._vars[a], self._vars_back[b] = b, a
                return True
        return self._differ(a, b, place)

    def _define(self, a: Var, b: Var, place: _Path | None) -> bool:
        if type(a) is not type(b):
            return self._differ(type(a).__name__, type(b).__name__, place)
        if not self._types(a.ty, b.ty):
            return self._differ(a.ty, b.ty, _Path(place, "ty"))
        # A function that stands in two places defines its variables twice: the last one holds.
        self._vars.pop(self._vars_back.pop(b, a), None)
        self._vars_back.pop(self._vars.pop(a, b), None)
        self._vars[a], self._vars_back[b] = b, a
        self.names[b] = a.name_hint
        return True

    # --- bindings, functions, modules

    def _define_binding(self, a: VarBinding | MatchCast, b: Any, place: _Path | None) -> bool:
        if isinstance(a, MatchCast):
            self._define_sizes((a.ty,), (b.ty,))
            if not self._types(a.ty, b.ty):
                return self._differ(a.ty, b.ty, _Path(place, "ty"))
        elif (
            isinstance(a.value, Function)
            and isinstance(b.value, Function)
            and len(a.value.params) == len(b.value.params)
        ):
            # The type of its variable mentions the sizes that its parameters define.
            self._define_sizes([p.ty for p in a.value.params], [p.ty for p in b.value.params])
        return self._define(a.var, b.var, place)

    def _block(self, a: BindingBlock, b: BindingBlock, place: _Path | None) -> bool:
        self._stack.append((_Count(len(a), "bindings"), _Count(len(b), "bindings"), place))
        pairs = list(zip(a.bindings, b.bindings, strict=False))
        self._stack.extend(
            [
                (x, y, _Path(place, f"binding {i} ({x.var.name_hint})", "row"))
                for i, (x, y) in zip(reversed(range(len(pairs))), reversed(pairs), strict=True)
            ]
        )
        return True

    def _function(self, a: Function, b: Function, place: _Path | None) -> bool:
        place = place or _Path(None, a.name or "function", "name")
        if len(a.params) != len(b.params):
            return self._differ(f"{len(a.params)} parameters", f"{len(b.params)} parameters", place)
        self._define_sizes([p.ty for p in a.params], [p.ty for p in b.params])
        for i, (p, q) in enumerate(zip(a.params, b.params, strict=True)):
            if not self._define(p, q, _Path(place, f"params[{i}] ({p.name_hint})", "row")):
                return False
        if not self._types(a.ret_ty, b.ret_ty):
            return self._differ(a.ret_ty, b.ret_ty, _Path(place, "ret_ty"))
        self._stack.append((a.body, b.body, place))
        self._stack.append((a.attrs, b.attrs, _Path(place, "attrs")))
        return self._require(a.is_pure == b.is_pure, a.is_pure, b.is_pure, place, "is_pure")

    def _module(self, a: IRModule, b: IRModule) -> bool:
        for name, function in a.items():
            if name not in b:
                return self._differ(f"a function {name!r}", "none of that name", _Path(None, "module", "name"))
            inner = Comparer(self.map_free_vars)
            inner.names = self.names
            if not inner.run(function, b[name], _Path(None, name, "name")):
                self.difference = inner.difference
                return False
        extra = [name for name in b if name not in a]
        if extra:
            return self._differ("none of that name", f"a function {extra[0]!r}", _Path(None, "module", "name"))
        self._stack.append((a.attrs, b.attrs, _Path(_Path(None, "module", "name"), "attrs")))
        return True

    # --- types and sizes

    def _define_sizes(self, left: Sequence[Type], right: Sequence[Type]) -> None:
        """Make the sizes that stand alone in the same places one; misfits show as types that differ."""
        for a, b in zip(left, right, strict=True):
            for x, y in zip(defining_symvars(a), defining_symvars(b), strict=False):
                if x is None or y is None or x in self._sizes or y in self._sizes_back or x.dtype != y.dtype:
                    continue
                self._sizes[x], self._sizes_back[y] = y, x
                self.names[y] = x.name

    def _types(self, a: Type, b: Type, *, free: bool = False) -> bool:
        if free and self.map_free_vars:
            self._define_sizes((a,), (b,))
        sized = type_symvars(a)
        if not sized:
            return a == b
        if a is b and not any(v in self._sizes or v in self._sizes_back for v in sized):
            return True
        stack: list[tuple[Any, Any]] = [(a, b)]
        while stack:
            x, y = stack.pop()
            if type(x) is not type(y):
                return False
            match x:
                case TensorType():
                    same = (x.dtype, x.ndim, x.vdevice) == (y.dtype, y.ndim, y.vdevice)
                    same = same and self._dims(x.shape, y.shape)
                case ShapeType():
                    same = x.ndim == y.ndim and self._dims(x.values, y.values)
                case PrimType(value=SymExpr() as value):
                    same = x.dtype == y.dtype and isinstance(y.value, SymExpr) and self._dims((value,), (y.value,))
                case TupleType():
                    same = len(x.fields) == len(y.fields)
                    stack.extend(zip(x.fields, y.fields, strict=False))
                case FuncType(params=None):
                    same = y.params is None and x.purity == y.purity
                    stack.append((x.ret, y.ret))
                case FuncType(params=tuple(params)):
                    same = y.params is not None and len(params) == len(y.params) and x.purity == y.purity
                    stack.append((x.ret, y.ret))
                    stack.extend(zip(params, y.params or (), strict=False))
                case _:
                    same = x == y
            if not same:
                return False
        return True

    def _dims(self, a: Sequence[Dim] | None, b: Sequence[Dim] | None) -> bool:
        if a is None or b is None:
            return a is b
        return len(a) == len(b) and all(self._dim(x, y) for x, y in zip(a, b, strict=True))

    def _dim(self, a: Dim, b: Dim) -> bool:
        if isinstance(a, int) or isinstance(b, int):
            return type(a) is type(b) and a == b
        for variable in free_symvars(a):
            if variable in self._sizes:
                continue
            if self.map_free_vars and variable is a and isinstance(b, SymVar) and b not in self._sizes_back:
                if variable.dtype == b.dtype:
                    self._sizes[variable], self._sizes_back[b] = b, variable
            elif variable in self._sizes_back:
                return False
        return substitute(a, self._sizes) == b


def defining_symvars(ty: Type) -> list[SymVar | None]:
    """For each size in ``ty``, in order: the variable, if it is one, and so can be defined; else None."""
    found: list[SymVar | None] = []
    stack: list[Type] = [ty]
    while stack:
        match stack.pop():
            case TensorType(shape=tuple(dims)) | ShapeType(values=tuple(dims)):
                found.extend([d if isinstance(d, SymVar) else None for d in dims])
            case PrimType(value=SymVar() as value):
                found.append(value)
            case TupleType(fields=fields):
                stack.extend(reversed(fields))
            case _:
                pass
    return found


def same_tensor(a: TensorData, b: TensorData) -> bool:
    """True if two tensors agree in shape, dtype and every bit: NaN is NaN, and -0.0 is not 0.0."""
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return a.numpy() is b.numpy() or np.array_equal(tensor_bytes(a), tensor_bytes(b))


def tensor_bytes(data: TensorData) -> np.ndarray:
    """The bytes of a tensor in row-major order; copies only what is not stored so."""
    return np.ascontiguousarray(data.numpy()).reshape(-1).view(np.uint8)


_LONGEST: Final = 200


def _describe(value: Any) -> str:
    match value:
        case Op():
            return value.name
        case Var():
            return f"{type(value).__name__} {value.name_hint}"
        case GlobalVar():
            return f"GlobalVar {value.name_hint}"
        case Constant():
            numbers = np.array2string(value.data.numpy().reshape(-1), threshold=8, edgeitems=3, separator=", ")
            return f"constant {value.data.dtype}{list(value.data.shape)} {numbers}"
        case Expr() if type(value) in (If, Function, SeqExpr):
            return type(value).__name__
        case Node():
            text = repr(value).strip()
        case str():
            text = value
        case _:
            text = repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def as_node(value: Any) -> Any:
    """``value``, and for a tensor's shape the expression that it reads as."""
    return ShapeExpr(value) if isinstance(value, Shape) else value


def first_difference(a: Node, b: Node, map_free_vars: bool = False) -> Difference | None:
    """The first place where two pieces of program differ, or None where they are the same. Cost: linear."""
    comparer = Comparer(map_free_vars)
    return None if comparer.run(as_node(a), as_node(b)) else comparer.difference


def structural_equal(a: Node, b: Node, map_free_vars: bool = False) -> bool:
    """True if two expressions, types, blocks, functions or modules are the same up to names of variables.

    Variables (of the program and of sizes) correspond one to one; those that neither side defines must be the
    same objects, unless ``map_free_vars``. Constants must agree in every bit, attributes in type and value,
    functions of a module in name; `DataflowVar` is not `Var`. Name hints and origins do not count. Cost:
    linear.
    """
    if a is b:
        return True
    with collection_paused():
        return Comparer(map_free_vars).run(as_node(a), as_node(b))

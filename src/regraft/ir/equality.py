"""Structural equality of programs: names of variables and origins do not count.

Variables and size variables are renamed one to one. Constants are compared byte by byte. Names of functions,
attributes, types and the order of bindings count.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np

from .collection import collection_paused
from .dims import SymVar
from .expr import Constant, Expr, GlobalVar, Var
from .module import IRModule
from .node import Node
from .op import Call, Op
from .program import Function, If, SeqExpr
from .reading import SHARED, Definition, Label, Parts, Reading, as_node
from .tensor_data import TensorData


class _Path(NamedTuple):
    """A place in the program, as a linked path. Its text is made only when it is needed."""

    parent: _Path | None
    label: Label

    def __str__(self) -> str:
        labels, place = [self.label], self.parent
        while place is not None:
            labels.append(place.label)
            place = place.parent
        text, before = "", ""
        for label in reversed(labels):
            if isinstance(label, int):
                text += f"[{label}]"
            elif label is not None:
                kind, words = _in_words(label)
                text += ("" if not before else _JOINTS.get((before, kind), ": ")) + words
                before = kind
        return text


_JOINTS: Final = {("row", "row"): ", ", ("field", "row"): ", ", ("field", "field"): "."}


def _in_words(label: str | tuple[str, int, str]) -> tuple[str, str]:
    """The kind of a place (a field of an expression, a row of a block, the name of a function), and its text."""
    match label:
        case str():
            return "field", label
        case ("", _, name):
            return "name", name
        case ("params", number, name):
            return "row", f"params[{number}] ({name})"
        case (noun, number, name):
            return "row", noun + (f" {number}" if number >= 0 else "") + (f" ({name})" if name else "")


class Difference(NamedTuple):
    """The first place where two programs differ, and the text of each program there."""

    path: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.path}: {self.left} on the left, {self.right} on the right"


class _Count(NamedTuple):
    """Work for the comparer: the number of parts, compared after the parts themselves."""

    number: int
    noun: str | None


_Pair: TypeAlias = "tuple[Any, Any, _Path | None]"


class Comparer:
    """Reads two programs side by side, with an explicit stack, and finds the first place where they differ.

    After `run` has returned False, ``difference`` is the first difference. ``names`` maps the variables of the right
    side that were read before it to the names of the corresponding variables of the left side.
    """

    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.difference: Difference | None = None
        self.names: dict[Var | SymVar, str] = {}
        self._left = Reading(map_free_vars)
        self._right = Reading(map_free_vars)
        self._same: set[tuple[int, int]] = set()
        self._stack: list[_Pair] = []

    def run(self, left: Any, right: Any, place: _Path | None = None) -> bool:
        """True if ``left`` and ``right``, which stand at ``place``, are the same."""
        self._stack.append((left, right, place))
        same = True
        while same and self._stack:
            same = self._step(*self._stack.pop())
        if not same:
            pairs = zip(self._left.defined, self._right.defined, strict=False)
            self.names.update({b: a.name if isinstance(a, SymVar) else a.name_hint for a, b in pairs})
        return same

    def _differ(self, a: Any, b: Any, place: _Path | None) -> bool:
        self.difference = Difference(str(place or "") or "the root", _describe(a), _describe(b))
        return False

    def _step(self, a: Any, b: Any, place: _Path | None) -> bool:
        kind = cast("type[object]", type(a))
        if kind is not type(b):
            kinds = {kind, cast("type[object]", type(b))}
            shared = next((one for one in (tuple, int) if all(issubclass(each, one) for each in kinds)), None)
            if shared is None or bool in kinds:
                return self._differ(a, b, place)
            kind = shared  # named tuples compare as tuples, and known sizes as ints
        if kind in SHARED:
            if kind is Call and self._plainly_same(a, b):
                return True
            key = (id(a), id(b))
            if key in self._same:
                return True
            # Recorded before the parts are compared: the first difference ends the comparison anyway.
            self._same.add(key)
        elif kind is _Count:
            return a == b or self._differ(a, b, place)
        elif kind is IRModule:
            return self._module(a, b)
        elif kind is Function and place is None:
            place = _Path(None, ("", -1, a.name or "function"))
        opened = Reading.opener(kind)
        value, parts, noun = opened(self._left, a)
        other, others, _ = opened(self._right, b)
        if value is not other and not _same_value(value, other):
            return self._differ(a, b, place)
        if len(parts) != len(others):
            if noun is None:
                return self._differ(a, b, place)
            # Pushed first, so that the first part that differs is reported before their number.
            self._stack.append((_Count(len(parts), noun), _Count(len(others), noun), place))
        if parts:
            self._push(parts, others, place)
        return True

    def _plainly_same(self, a: Call, b: Call) -> bool:
        """True if both are calls of one operator on corresponding variables: the common case, without opening them."""
        if a.op is not b.op or a.attrs or b.attrs or a.ty_args or b.ty_args or len(a.args) != len(b.args):
            return False
        left, right = cast("dict[Any, int]", self._left.numbers).get, cast("dict[Any, int]", self._right.numbers).get
        for x, y in zip(a.args, b.args, strict=True):
            number = left(x)
            if number is None or number != right(y) or type(x) is not type(y):
                return False
        return isinstance(a.op, Op)

    def _push(self, parts: Parts, others: Parts, place: _Path | None) -> None:
        shared = min(len(parts), len(others))
        for i in range(shared - 1, -1, -1):
            label, a = parts[i]
            b = others[i][1]
            self._stack.append((a, b, place if label is None else _Path(place, label)))

    def _module(self, a: IRModule, b: IRModule) -> bool:
        for name, function in a.items():
            if name not in b:
                return self._differ(f"a function {name!r}", "none of that name", _Path(None, ("", -1, "module")))
            inner = Comparer(self.map_free_vars)
            inner.names = self.names
            if not inner.run(function, b[name], _Path(None, ("", -1, name))):
                self.difference = inner.difference
                return False
        extra = [name for name in b if name not in a]
        if extra:
            return self._differ("none of that name", f"a function {extra[0]!r}", _Path(None, ("", -1, "module")))
        self._stack.append((a.attrs, b.attrs, _Path(_Path(None, ("", -1, "module")), "attrs")))
        return True


def _same_value(a: object, b: object) -> bool:
    """True if the values that two readings give for a node are the same."""
    if isinstance(a, TensorData):
        return isinstance(b, TensorData) and same_tensor(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        pairs = cast("tuple[object, ...]", a), cast("tuple[object, ...]", b)
        return pairs[0] == pairs[1] or (len(pairs[0]) == len(pairs[1]) and all(map(_same_value, *pairs)))
    return bool(a == b)


def same_tensor(a: TensorData, b: TensorData) -> bool:
    """True if two tensors agree in shape, dtype and every bit: NaN is NaN, and -0.0 is not 0.0."""
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return a.numpy() is b.numpy() or np.array_equal(tensor_bytes(a), tensor_bytes(b))


def tensor_bytes(data: TensorData) -> np.ndarray:
    """The bytes of a tensor in row-major order. Copies only if the tensor is not stored in this order."""
    return np.ascontiguousarray(data.numpy()).reshape(-1).view(np.uint8)


_LONGEST: Final = 200


def _describe(value: Any) -> str:
    match value:
        case Op():
            return value.name
        case Definition():
            return type(value.variable).__name__
        case _Count():
            return f"{value.number} {value.noun}"
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


def first_difference(a: Node, b: Node, map_free_vars: bool = False) -> Difference | None:
    """The first place where two pieces of program differ, or None if they are the same. Cost: linear."""
    comparer = Comparer(map_free_vars)
    return None if comparer.run(as_node(a), as_node(b)) else comparer.difference


def structural_equal(a: Node, b: Node, map_free_vars: bool = False) -> bool:
    """True if two expressions, types, blocks, functions or modules are the same up to names of variables.

    Variables (of the program and of sizes) correspond one to one. Variables that neither side defines must be the
    same objects, unless ``map_free_vars`` is set. Constants must agree in every bit, attributes in type and value,
    functions of a module in name. A `DataflowVar` differs from a `Var`. Name hints and origins do not count.
    Cost: linear.
    """
    if a is b:
        return True
    with collection_paused():
        return Comparer(map_free_vars).run(as_node(a), as_node(b))

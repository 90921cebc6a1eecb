"""A hash that is the same for programs that are `structural_equal`.

It uses the same `Reading` as `equality`. Free variables count by identity, so their hash is valid within one process
only. If they may be renamed, they count by the order of their first use.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .dims import SymExpr, SymVar
from .equality import tensor_bytes
from .expr import Var
from .module import IRModule
from .node import Node
from .op import Op
from .reading import SHARED, Reading, as_node
from .tensor_data import TensorData
from .types import Type, type_symvars


class _Close(NamedTuple):
    """Work for the hasher: replace the words since ``start``, which belong to one expression, by a digest."""

    expression: int
    start: int


class _Hasher:
    """Reads a program in order of evaluation, with an explicit stack, and collects the words to hash."""

    def __init__(self, map_free_vars: bool) -> None:
        self._map_free_vars = map_free_vars
        self._reading = Reading(map_free_vars)
        self._shared: dict[int, str] = {}
        self._fixed_types: dict[Type, str] = {}
        self._words: list[str] = []

    def run(self, root: Any) -> str:
        stack: list[Any] = [root]
        words, shared, opener = self._words, self._shared, Reading.opener
        while stack:
            node: object = stack.pop()
            kind = type(node)
            if kind in SHARED:
                if id(node) in shared:
                    words.append(shared[id(node)])
                    continue
                stack.append(_Close(id(node), len(words)))
            elif isinstance(node, _Close):
                self._close(node)
                continue
            elif isinstance(node, IRModule):
                for name in sorted(node):
                    words += (name, _Hasher(self._map_free_vars).run(node[name]))
                node, kind = node.attrs, type(node.attrs)
            value, parts, _ = opener(kind)(self._reading, node)
            word = value if isinstance(value, int) else self._word(value)
            words.append(f"{kind.__name__} {word}")
            if parts:
                words.append(str(len(parts)))
                stack.extend([part for _, part in reversed(parts)])
        return _hexdigest("\0".join(words).encode(), 8)

    def _close(self, done: _Close) -> None:
        """Replace the words of an expression by a digest: shared and copied ones read the same, in linear time."""
        digest = _hexdigest("\0".join(self._words[done.start :]).encode(), 8)
        self._words[done.start :] = [digest]
        self._shared[done.expression] = digest

    def _word(self, value: object) -> str:
        match value:
            case int() | None:
                return str(value)
            case Var():
                return f"free {id(value)}"
            case Op():
                return value.name
            case TensorData():
                return f"{value.dtype} {value.shape} {_hexdigest(tensor_bytes(value).data, 16)}"
            case Type():
                return self._type(value)
            case SymVar():
                return value.name
            case SymExpr():
                # Only the names of its variables, since renaming may reorder a sum.
                return f"of {sorted(variable.name for variable in value.free_symvars)}"
            case tuple():
                return f"({', '.join(map(self._word, value))})"  # pyright: ignore[reportUnknownArgumentType]
            case Node():
                return type(value).__name__
            case _:
                return str(value)

    def _type(self, ty: Type) -> str:
        found = self._fixed_types.get(ty)
        if found is None:
            found = f"{type(ty).__name__}{self._word(ty.contents)}"
            if not type_symvars(ty):
                self._fixed_types[ty] = found
        return found


def _hexdigest(content: bytes | memoryview, size: int) -> str:
    from hashlib import blake2b  # here, so that importing regraft stays quick

    return blake2b(content, digest_size=size).hexdigest()


def structural_hash(node: Node, map_free_vars: bool = False) -> int:
    """A 64-bit number, equal for programs that are `structural_equal` with the same ``map_free_vars``.

    It is the same in every process if the program has no free variables or ``map_free_vars`` is set. Cost: linear.
    """
    return int(_Hasher(map_free_vars).run(as_node(node)), 16)

"""A number that is the same for programs that are `structural_equal`, in every process.

The same reading of a program as `equality`: variables count by where they are defined, not by what they are
called. Free variables have no such place, so they count by identity, within one process, or, where they may
be renamed, by the order of their first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from .dims import Dim, SymExpr, SymVar, free_symvars
from .equality import as_node, defining_symvars, tensor_bytes
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
from .types import FuncType, PrimType, ShapeType, TensorType, TupleType, Type, type_symvars
from .visitor import parts_of


class _Define:
    """Work for the hasher: a binding whose value has been read, and whose variable is defined next."""

    __slots__ = ("binding",)

    def __init__(self, binding: VarBinding | MatchCast) -> None:
        self.binding: Final = binding


class _Hasher:
    """Reads a program in order of evaluation with its own stack, and writes down what counts."""

    def __init__(self, map_free_vars: bool) -> None:
        self._map_free_vars = map_free_vars
        self._defined = 0
        self._numbers: dict[Var | SymVar, int] = {}
        self._compounds: dict[int, str] = {}
        self._fixed_types: dict[Type, str] = {}
        self._words: list[str] = []
        self._stack: list[Any] = []

    def run(self, root: Any) -> str:
        self._stack.append(root)
        while self._stack:
            self._step(self._stack.pop())
        return _digest(self._words)

    def _say(self, *words: object) -> None:
        self._words.extend(map(str, words))

    def _later(self, *parts: Any) -> None:
        self._stack.extend(reversed(parts))

    # --- variables

    def _define(self, variable: Var | SymVar) -> None:
        self._numbers[variable] = self._defined
        self._defined += 1

    def _define_sizes(self, types: Iterable[Type]) -> None:
        for ty in types:
            for size in defining_symvars(ty):
                if size is not None and size not in self._numbers:
                    self._define(size)

    def _number(self, variable: Var | SymVar) -> str:
        if variable not in self._numbers:
            if not self._map_free_vars:
                return f"free{id(variable)}"
            self._define(variable)
        return str(self._numbers[variable])

    # --- whole programs

    def _step(self, node: Any) -> None:
        kind = type(node).__name__
        match node:
            case Call() | Tuple() | TupleGetItem():
                self._say(self._compound(node))
            case _Define():
                self._define_binding(node.binding)
            case VarBinding() | MatchCast():
                self._say(kind)
                parts = (node.value, _Define(node))
                self._later(*(reversed(parts) if isinstance(node.value, Function) else parts))
            case BindingBlock():
                self._say(kind, len(node))
                self._later(*node.bindings)
            case SeqExpr():
                self._say(kind, len(node.blocks))
                self._later(*node.blocks, node.body)
            case If():
                self._say(kind)
                self._later(node.cond, node.true_branch, node.false_branch)
            case Function():
                self._function(node, kind)
            case IRModule():
                for name in sorted(node):
                    self._say(name, _Hasher(self._map_free_vars).run(node[name]))
                self._say(self._attribute(node.attrs))
            case Type():
                self._say(self._type(node))
            case _:
                self._say(self._leaf(node))

    def _define_binding(self, binding: VarBinding | MatchCast) -> None:
        if isinstance(binding, MatchCast):
            self._define_sizes((binding.ty,))
            self._say(self._type(binding.ty))
        elif isinstance(binding.value, Function):
            self._define_sizes(param.ty for param in binding.value.params)
        self._say(type(binding.var).__name__, self._type(binding.var.ty))
        self._define(binding.var)

    def _function(self, function: Function, kind: str) -> None:
        self._say(kind, len(function.params), function.is_pure)
        self._define_sizes(param.ty for param in function.params)
        for param in function.params:
            self._say(type(param).__name__, self._type(param.ty))
            self._define(param)
        self._say(self._type(function.ret_ty), self._attribute(function.attrs))
        self._later(function.body)

    # --- expressions

    def _compound(self, root: Expr) -> str:
        """A digest of calls and tuples, each shared one read once: sharing and copies read the same."""
        done = self._compounds
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            if id(node) in done:
                continue
            parts = parts_of(node)
            if not leaving:
                stack.append((node, True))
                stack.extend([(p, False) for p in reversed(parts) if isinstance(p, Call | Tuple | TupleGetItem)])
                continue
            words = [type(node).__name__, *[done.get(id(part)) or self._leaf(part) for part in parts]]
            if isinstance(node, Call):
                words.append(self._attribute(node.attrs))
                words.extend(map(self._type, node.ty_args))
            elif isinstance(node, TupleGetItem):
                words.append(str(node.index))
            done[id(node)] = _digest(words)
        return done[id(root)]

    def _leaf(self, node: Any) -> str:
        match node:
            case Var():
                if node not in self._numbers and self._map_free_vars:
                    self._define_sizes((node.ty,))
                return f"{type(node).__name__} {self._number(node)}"
            case Constant():
                return f"{self._type(node.ty)} {_tensor(node.data)}"
            case Op():
                return node.name
            case GlobalVar():
                return f"global {node.name_hint}"
            case ExternFunc():
                return f"extern {node.global_symbol}"
            case StringImm() | DataTypeImm():
                return f"{type(node).__name__} {node.value}"
            case PrimValue():
                return self._type(node.ty)
            case ShapeExpr():
                return f"shape {self._dims(node.values)}"
            case If() | Function() | SeqExpr():
                return type(node).__name__  # an operand only outside of A-normal form: told apart no further
            case _:
                return self._attribute(node)

    def _attribute(self, value: Any) -> str:
        match value:
            case Mapping():
                pairs = sorted(value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                return "{" + ", ".join(f"{name}: {self._attribute(item)}" for name, item in pairs) + "}"  # pyright: ignore[reportUnknownVariableType]
            case tuple() | list():
                kind = type(value).__name__  # pyright: ignore[reportUnknownArgumentType]
                return f"{kind}({', '.join(map(self._attribute, value))})"  # pyright: ignore[reportUnknownArgumentType]
            case SymExpr():
                return self._dim(value)
            case np.ndarray():
                return _tensor(TensorData(value))  # pyright: ignore[reportUnknownArgumentType]
            case TensorData():
                return _tensor(value)
            case Node():
                return type(value).__name__
            case _:
                return str(attribute_key(value))

    # --- types and sizes

    def _type(self, ty: Type) -> str:
        found = self._fixed_types.get(ty)
        if found is not None:
            return found
        words: list[str] = []
        stack: list[Type] = [ty]
        while stack:
            current = stack.pop()
            words.append(type(current).__name__)
            match current:
                case TensorType():
                    words.append(f"{current.dtype} {current.ndim} {self._dims(current.shape)}{current.vdevice or ''}")
                case ShapeType():
                    words.append(f"{current.ndim} {self._dims(current.values)}")
                case PrimType():
                    words.append(f"{current.dtype} {self._attribute(current.value)}")
                case TupleType():
                    words.append(str(len(current.fields)))
                    stack.extend(reversed(current.fields))
                case FuncType():
                    words.append(f"{None if current.params is None else len(current.params)} {current.purity}")
                    stack.extend((current.ret, *reversed(current.params or ())))
                case _:
                    pass
        text = " ".join(words)
        if not type_symvars(ty):
            self._fixed_types[ty] = text
        return text

    def _dims(self, dims: Iterable[Dim] | None) -> str:
        return "unknown" if dims is None else f"[{', '.join(map(self._dim, dims))}]"

    def _dim(self, dim: Dim) -> str:
        """A size: which variables are in it, not how they combine, since renaming may reorder a sum."""
        if isinstance(dim, int):
            return str(dim)
        if isinstance(dim, SymVar):
            return f"size {self._number(dim)}"
        known = self._numbers if self._map_free_vars else None
        return f"of {sorted(self._number(v) for v in free_symvars(dim) if known is None or v in known)}"


def _digest(words: Iterable[str]) -> str:
    return _hexdigest("\0".join(words).encode(), 8)


def _hexdigest(content: bytes | memoryview, size: int) -> str:
    from hashlib import blake2b  # here, so that importing regraft stays quick

    return blake2b(content, digest_size=size).hexdigest()


def _tensor(data: TensorData) -> str:
    return f"{data.dtype} {data.shape} {_hexdigest(tensor_bytes(data).data, 16)}"


def structural_hash(node: Node, map_free_vars: bool = False) -> int:
    """A 64-bit number, equal for what is `structural_equal` with the same ``map_free_vars``.

    The same in every process where the program has no free variables, or they may be renamed. Cost: linear.
    """
    return int(_Hasher(map_free_vars).run(as_node(node)), 16)

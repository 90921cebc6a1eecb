"""The reading of a program that `equality` and `hashing` share.

A `Reading` opens one node at a time. It returns the node's own value and the parts to read next. Variables
of the program and of sizes count by the place of their definition. Names of variables and origins are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, cast

import numpy as np

from .dims import Dim, SymExpr, SymVar, free_symvars, substitute
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
from .leaf_types import leaf_types
from .op import Call, Op, attribute_key
from .program import BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from .tensor_data import TensorData
from .types import FuncType, Shape, TensorType, Type, dims_of, substitute_type, type_symvars

Label: TypeAlias = "str | int | tuple[str, int, str] | None"
"""The place of a part: a field, an item's number, a row (noun, number, name), or None for the node's own place."""

Parts: TypeAlias = "Sequence[tuple[Label, Any]]"
"""The parts of a node to read next, with the place of each."""

Opened: TypeAlias = "tuple[object, Parts, str | None]"
"""The reading of a node: its own value, its parts in reading order, and a noun.

The noun names the parts in the message about two nodes with different numbers of parts.
"""


class Definition:
    """A part that defines ``variable`` for the parts after it; ``sizes`` are types that may define size variables."""

    __slots__ = ("sizes", "variable")

    def __init__(self, variable: Var, sizes: Sequence[Type] = ()) -> None:
        self.variable: Final = variable
        self.sizes: Final = sizes


class InlineItems(NamedTuple):
    """A part: items whose place is that of their node."""

    items: Sequence[tuple[Label, Any]]
    noun: str


SHARED: Final = frozenset({Call, Tuple, TupleGetItem})
"""The kinds of expression that may occur in several places of a program and are read once."""

_ARGUMENTS: Final = tuple(f"args[{i}]" for i in range(64))


class Reading:
    """Opens the nodes of one program, in order, and numbers the variables that it defines.

    Free variables count by identity, or with ``map_free_vars`` by the order of their first use.
    """

    def __init__(self, map_free_vars: bool) -> None:
        self.numbers: Final[dict[Var, int]] = {}
        self.defined: Final[list[Var | SymVar]] = []
        self._map_free_vars = map_free_vars
        self._sizes: dict[SymVar, SymVar] = {}

    # --- expressions

    def _var(self, variable: Var) -> Opened:
        number = self.numbers.get(variable)
        if number is not None:
            return number, (), None
        if not self._map_free_vars:
            return variable, (), None
        ty = self._sized(variable.ty)
        self._number(variable)
        return ty, (), None

    def _call(self, call: Call) -> Opened:
        parts: list[tuple[Label, Any]] = [("op", call.op)]
        parts.extend(zip(_ARGUMENTS, call.args, strict=False))
        if len(call.args) > len(_ARGUMENTS):
            parts.append(("args", call.args))
        if call.attrs:
            parts.append(("attrs", call.attrs))
        if call.ty_args:
            parts.append(("ty_args", call.ty_args))
        return len(call.args), parts, None

    # --- blocks and functions

    def _binding(self, binding: VarBinding) -> Opened:
        value = binding.value
        if type(value) is Function:
            # It may call itself, so its name comes first. The name's type uses the sizes that its parameters define.
            own = Definition(binding.var, [param.ty for param in value.params])
            return None, ((None, own), (None, value)), None
        return None, ((None, value), (None, Definition(binding.var))), None

    def _block(self, block: BindingBlock) -> Opened:
        rows = [(("binding", i, binding.var.name_hint), binding) for i, binding in enumerate(block.bindings)]
        return None, rows, "bindings"

    def _seq(self, seq: SeqExpr) -> Opened:
        blocks = InlineItems([(("block", i, ""), block) for i, block in enumerate(seq.blocks)], "blocks")
        return None, [(None, blocks), ("result", seq.body)], None

    def _if(self, branch: If) -> Opened:
        first, second = ("true_branch", -1, ""), ("false_branch", -1, "")
        return None, [("cond", branch.cond), (first, branch.true_branch), (second, branch.false_branch)], None

    def _function(self, function: Function) -> Opened:
        self._define_sizes([param.ty for param in function.params])
        for param in function.params:
            self._number_sizes(type_symvars(param.ty))  # sizes that the parameters mention but do not define
        params = [(("params", i, p.name_hint), Definition(p)) for i, p in enumerate(function.params)]
        return (
            function.is_pure,
            [
                (None, InlineItems(params, "parameters")),
                ("ret_ty", function.ret_ty),
                ("attrs", function.attrs),
                (None, function.body),
            ],
            None,
        )

    def _definition(self, definition: Definition) -> Opened:
        variable = definition.variable
        self._define_sizes(definition.sizes)
        self._number(variable)
        return (type(variable).__name__, self._sized(variable.ty)), (), None

    def _number(self, variable: Var) -> None:
        self.numbers[variable] = len(self.defined)
        self.defined.append(variable)

    # --- types and sizes

    def _type(self, ty: Type) -> Opened:
        return self._sized(ty), (), None

    def _func_type(self, ty: FuncType) -> Opened:
        self._define_sizes(ty.params or ())
        return self._type(ty)

    def _sized(self, ty: Type) -> Type:
        if not (self._sizes or self._map_free_vars) or not type_symvars(ty):
            return ty
        if self._map_free_vars:
            self._number_sizes(type_symvars(ty))
        return substitute_type(ty, self._sizes)

    def _dim(self, dim: Dim) -> Dim:
        if self._map_free_vars and isinstance(dim, SymExpr):
            self._number_sizes(free_symvars(dim))
        return substitute(dim, self._sizes)

    def _define_sizes(self, types: Iterable[Type]) -> None:
        for ty in types:
            self._number_sizes(defining_symvars(ty))

    def _number_sizes(self, sizes: Iterable[SymVar]) -> None:
        for size in sizes:
            if size not in self._sizes:
                self._sizes[size] = _numbered_size(len(self.defined), size.dtype)
                self.defined.append(size)

    # --- names and the values of attributes

    def _other(self, node: Any) -> Opened:
        match node:
            case Op():
                return node, (), None
            case GlobalVar():
                return node.name_hint, (), None
            case ExternFunc():
                return node.global_symbol, (), None
            case StringImm() | DataTypeImm():
                return node.value, (), None
            case Type():
                return self._type(node)
            case SymExpr():
                return self._dim(node), (), None
            case Mapping():
                names: list[str] = sorted(node)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                attributes = cast("Mapping[str, Any]", node)
                return tuple(names), [(name, attributes[name]) for name in names], None
            case tuple() | list():
                return None, list(enumerate(node)), "items"  # pyright: ignore[reportUnknownArgumentType]
            case np.ndarray():
                return TensorData(node), (), None  # pyright: ignore[reportUnknownArgumentType]
            case TensorData():
                return node, (), None
            case _:
                return attribute_key(node), (), None

    _methods: ClassVar[dict[type, Callable[[Reading, Any], Opened]]] = {
        Var: _var,
        DataflowVar: _var,
        Call: _call,
        Tuple: lambda _, node: (None, [("fields", node.fields)], None),
        TupleGetItem: lambda _, node: (node.index, [("tuple_value", node.tuple_value)], None),
        Constant: lambda _, node: ((node.ty, node.data), (), None),
        ShapeExpr: lambda self, node: (tuple(map(self._dim, node.values)), (), None),
        PrimValue: lambda self, node: (self._sized(node.ty), (), None),
        VarBinding: _binding,
        MatchCast: lambda _, cast: (
            None,
            [(None, cast.value), (None, Definition(cast.var, (cast.ty,))), ("ty", cast.ty)],
            None,
        ),
        BindingBlock: _block,
        DataflowBlock: _block,
        SeqExpr: _seq,
        If: _if,
        Function: _function,
        InlineItems: lambda _, row: (None, row.items, row.noun),
        Definition: _definition,
        FuncType: _func_type,
        TensorType: _type,
    }

    @staticmethod
    def opener(kind: type) -> Callable[[Reading, Any], Opened]:
        """The function that opens nodes of one kind.

        The caller must open each part, and its own parts, before the next part.
        """
        return Reading._methods.get(kind, Reading._other)


@cache
def _numbered_size(number: int, dtype: str) -> SymVar:
    """The size variable that every reading substitutes for the size variable with this number."""
    return SymVar(f"size{number}", dtype, least=None)


def defining_symvars(ty: Type) -> list[SymVar]:
    """The size variables that are whole sizes in ``ty``, in order. A parameter or cast of that type defines them."""
    return [dim for leaf in leaf_types(ty) for dim in dims_of(leaf) if isinstance(dim, SymVar)]


def as_node(value: Any) -> Any:
    """``value``, with a tensor's shape replaced by a `ShapeExpr`, and a list by a tuple."""
    if type(value) is Shape:
        return ShapeExpr(value)
    return tuple(map(as_node, value)) if type(value) in (list, tuple) else value

"""Programs as rows for the page: the value, the operands and the origins of each binding, in each of its states.

A *node* is one variable through all versions of a program. Passes make new variables of the same name for the values
that they edit; old and new are one node, so that versions can be compared. A *record* is one state of a node; equal
states share one record. Knows the language, the vocabulary's traits and the cost model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..analysis.cost import call_cost
from ..ir.expr import Constant, Expr, ExternFunc, GlobalVar, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.op import Call, Op, Trait
from ..ir.origin import Origins
from ..ir.program import Binding, Function, If, MatchCast, SeqExpr, VarBinding
from ..ir.types import Type
from ..model.models import output_names, output_types, type_text

SEPARATOR: Final = "\x1f"
"""The separator of the modules in a path. No module name on the page contains it."""
_LONGEST_TEXT: Final = 600
_LONGEST_NAME: Final = 2000
_DEEPEST: Final = 24
"""The largest depth of nested modules that is distinguished."""
_MOST_ORIGINS: Final = 60
_MOST_WEIGHTS: Final = 60

RowOfRecord = list[Any]
"""A record in the page's data: see `RecordRow` in the page's sources."""


class Records:
    """The strings, nodes and records of a page, in order of first appearance."""

    def __init__(self) -> None:
        self.strings: list[str] = [""]
        self.rows: list[RowOfRecord] = []
        self._string_index: dict[str, int] = {"": 0}
        self._row_index: dict[str, int] = {}
        self._nodes: dict[Var, int] = {}
        self._paths: dict[int, tuple[str, ...]] = {}
        self._outputs: dict[tuple[str, int], int] = {}
        self._current: dict[str, dict[Var, None]] = {}
        self.count = 0

    # --- nodes

    def node(self, var: Var) -> int:
        """The node of ``var``. A variable that is not known gets a new node."""
        found = self._nodes.get(var)
        if found is None:
            found = self._nodes[var] = self._fresh()
        return found

    def known(self, var: Var | None) -> int:
        """The node of ``var``; -1 if it has none."""
        return -1 if var is None else self._nodes.get(var, -1)

    def _fresh(self) -> int:
        self.count += 1
        return self.count - 1

    def rename(self, old: Var, new: Var) -> None:
        """Give ``new`` the node of ``old``, if it has one."""
        node = self._nodes.get(old)
        if node is not None:
            self._nodes.setdefault(new, node)

    def meet(self, module: IRModule) -> None:
        """Give the variables of ``module`` nodes. A new variable takes the node of a vanished one of the same name."""
        for name, function in module.items():
            now = dict.fromkeys([*function.params, *(entry.var for entry in entries(function) if entry.is_node)])
            before = self._current.get(name, {})
            gone: dict[str, list[Var]] = {}
            for var in before:
                if var not in now:
                    gone.setdefault(var.name_hint, []).append(var)
            for names in gone.values():
                names.reverse()
            for var in now:
                if var not in self._nodes:
                    old = gone.get(var.name_hint)
                    self._nodes[var] = self._nodes[old.pop()] if old else self._fresh()
            self._current[name] = now

    # --- records

    def string(self, text: str) -> int:
        """The index of ``text`` in the table of strings. A very long text is cut."""
        text = text[:_LONGEST_NAME]
        found = self._string_index.get(text)
        if found is None:
            found = self._string_index[text] = len(self.strings)
            self.strings.append(text)
        return found

    def version(self, module: IRModule, *, apart: bool = False) -> list[int]:
        """The records of a module, in the order of its text. `meet` decides which variables are the same node.

        If there are several functions, each is a group; with ``apart``, a single function is one, too.
        """
        self.meet(module)
        found: list[int] = []
        for name, function in module.items():
            inside = (name,) if apart or len(module) > 1 else ()
            found += [self._record(param, None, inside) for param in function.params]
            found += [self._record(one.var, one.value, one.inside) for one in entries(function, inside) if one.is_node]
            found += self._results(name, function, inside)
        return found

    def edited(self, edit: Mapping[Var, Expr | None]) -> list[int]:
        """The changes of a rewrite as data for the page: records, and ``-1 - node`` for a removed node.

        A new value is placed in the modules that the rewritten values have in common.
        """
        old = [self._paths[node] for var in edit if (node := self._nodes.get(var, -1)) in self._paths]
        for var, value in edit.items():
            if value is not None and var not in self._nodes and old:
                self._paths[self.node(var)] = shared_path(old)
        return [
            -1 - self.node(var) if value is None else self._record(var, value, (), self._alias(value))
            for var, value in edit.items()
        ]

    def written(self, binding: Binding) -> int:
        """The record of a binding in a program, in which an alias counts as a value."""
        return self._record(binding.var, binding if isinstance(binding, MatchCast) else binding.value, ())

    def _alias(self, value: Expr) -> int:
        return self.node(value) if isinstance(value, Var) else -1

    def _results(self, name: str, function: Function, inside: tuple[str, ...]) -> Iterator[int]:
        result = function.body.body
        fields = result.fields if isinstance(result, Tuple) else (result,)
        names, types = output_names(function), output_types(function)
        if len(fields) != len(names):
            names, types = ("result",), (function.ret_ty,)
            fields = (result,)
        for place, (field, label, ty) in enumerate(zip(fields, names, types, strict=True)):
            node = self._outputs.get((name, place))
            if node is None:
                node = self._outputs[name, place] = self._fresh()
            reads, weights = _operands((field,))
            yield self._row(node, label, "output", "output", "port", ty, "", inside, (), reads, weights, None, -1)

    def _record(self, var: Var, value: Expr | MatchCast | None, inside: tuple[str, ...], alias: int = -1) -> int:
        node = self.node(var)
        if value is None:
            path = inside
            return self._row(
                node, var.name_hint, "input", "input", "port", var.ty, "", path, var.origins, (), (), None, -1
            )
        text = repr(value)
        if isinstance(value, MatchCast):
            value, op, kind, family = value.value, "match_cast", "cast", "layout"
        else:
            op, kind, family = _described(value)
        reads, weights = _operands(_read_by(value))
        if alias >= 0:
            reads = (alias,)  # pyright: ignore[reportAssignmentType]
        # A node keeps its first path: rewrites merge origins, including the origins of a value's operands.
        path = self._paths.get(node)
        if path is None:
            path = self._paths[node] = (*inside, *module_path(var.origins))
        cost = call_cost(value) if isinstance(value, Call) else None
        return self._row(
            node, var.name_hint, op, kind, family, var.ty, text, path, var.origins, reads, weights, cost, alias
        )

    def _row(
        self,
        node: int,
        name: str,
        op: str,
        kind: str,
        family: str,
        ty: Type,
        text: str,
        path: Iterable[str],
        origins: Origins,
        reads: Iterable[Var] | Iterable[int],
        weights: Iterable[str],
        cost: Any,
        alias: int,
    ) -> int:
        operations = bytes_ = None
        if cost is not None and not cost.unknown and isinstance(cost.operations, int) and isinstance(cost.bytes, int):
            operations, bytes_ = cost.operations, cost.bytes
        row: RowOfRecord = [
            node,
            self.string(name),
            self.string(op),
            kind,
            self.string(family),
            self.string(type_text(ty)),
            self.string(_clipped(text)),
            self.string(SEPARATOR.join(path)),
            [self.string(str(origin)) for origin in origins[:_MOST_ORIGINS]],
            [read if isinstance(read, int) else self.node(read) for read in reads],
            [self.string(weight) for weight in weights],
            operations,
            bytes_,
            alias,
        ]
        key = repr(row)
        found = self._row_index.get(key)
        if found is None:
            found = self._row_index[key] = len(self.rows)
            self.rows.append(row)
        return found


def _clipped(text: str) -> str:
    text = text.replace("\n", " ")
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


# --- the bindings of a function, in the order of its text


class BindingRecord(NamedTuple):
    """A binding. ``has_line`` is True if the text has a line for it, ``is_node`` if it has a node of its own."""

    var: Var
    value: Expr | MatchCast
    inside: tuple[str, ...]
    has_line: bool = True
    is_node: bool = True


def entries(function: Function, inside: tuple[str, ...] = ()) -> Iterator[BindingRecord]:
    """The bindings of a function in the order of its text, including branches and local functions.

    The path of a binding is ``inside``, followed by the branches around the binding. Cost: linear, without recursion.
    """
    pending: list[BindingRecord | tuple[Binding | SeqExpr, Var, tuple[str, ...]]] = []

    def add(sequence: SeqExpr, path: tuple[str, ...]) -> None:
        bindings = [binding for block in sequence.blocks for binding in block]
        pending.extend((binding, binding.var, path) for binding in reversed(bindings))

    add(function.body, inside)
    while pending:
        item = pending.pop()
        if isinstance(item, BindingRecord):
            yield item
            continue
        what, var, path = item
        value = what if isinstance(what, MatchCast) else what.value if isinstance(what, VarBinding) else what.body
        if isinstance(what, SeqExpr):
            # The end of a branch: one more line that binds the variable of the whole `If`.
            if not isinstance(value, If):
                pending.append(BindingRecord(var, value, path, is_node=False))
        elif isinstance(value, If | Function):
            pending.append(BindingRecord(var, value, path, has_line=False))
        else:
            pending.append(BindingRecord(var, value, path))
        if isinstance(value, If):
            pending.append((value.false_branch, var, (*path, f"{var.name_hint} else")))
            pending.append((value.true_branch, var, (*path, f"{var.name_hint} then")))
        elif isinstance(value, Function):
            add(value.body, (*path, var.name_hint))
        if isinstance(what, SeqExpr):
            add(what, path)
        elif isinstance(value, SeqExpr):
            add(value, path)


def lines_of(module: IRModule, text: str, records: Records) -> list[tuple[int, int]]:
    """The node of each binding and its line in ``text``, counted from 0. ``text`` is the script of ``module``."""
    places: list[tuple[int, int]] = []
    lines = enumerate(text.split("\n"))
    for function in module.functions.values():
        for number, line in lines:
            if line.lstrip().startswith("def "):
                places += [(records.node(param), number) for param in function.params]
                break
        for entry in entries(function):
            if not entry.has_line:
                continue
            number = next((number for number, line in lines if _BINDING.match(line)), None)
            if number is None:
                return places
            if entry.is_node:
                places.append((records.node(entry.var), number))
    return places


_BINDING: Final = re.compile(r"\s*[^\W\d]\w*: ")


# --- the description of a value


def _described(value: Expr) -> tuple[str, str, str]:
    """The name of a value's operation, its kind, and its family, which decides its color."""
    match value:
        case Call(op=Op() as op):
            first = value.args[0] if value.args else None
            name = op.name.removeprefix("relax.")
            if isinstance(first, ExternFunc):
                return f"{name} {first.global_symbol}", "call", "other"
            return name, "call", family_of(op)
        case Call(op=GlobalVar() as callee):
            return f"call {callee.name_hint}", "call", "other"
        case Call():
            return "call", "call", "other"
        case TupleGetItem():
            return f"item {value.index}", "item", "layout"
        case Tuple():
            return "tuple", "tuple", "layout"
        case If():
            return "if", "branch", "other"
        case Function():
            return "function", "value", "other"
        case Constant():
            return "constant", "value", "port"
        case _:
            return "=", "value", "layout"


def family_of(op: Op) -> str:
    """The family of an operator, from its traits, or from its name if the traits do not decide."""
    name = op.name.removeprefix("relax.")
    if "attention" in name:
        return "attention"
    if any(part in name for part in ("matmul", "conv", "linear", "einsum", "outer")):
        return "compute"
    if Trait.VIEW in op.traits:
        return "layout"
    if Trait.REDUCTION in op.traits or "norm" in name or "softmax" in name or "pool" in name:
        return "norm"
    if Trait.ELEMENTWISE in op.traits:
        return "elementwise"
    return "data"


def _read_by(value: Expr) -> Iterable[Expr]:
    match value:
        case Call():
            return (value.op, *value.args)
        case Tuple():
            return value.fields
        case TupleGetItem():
            return (value.tuple_value,)
        case If():
            return (value.cond, value.true_branch.body, value.false_branch.body)
        case SeqExpr():
            return (value.body,)
        case Function():
            return ()
        case _:
            return (value,)


def _operands(values: Iterable[Expr]) -> tuple[list[Var], list[str]]:
    """The variables that are read, in order, and a text for each of the first constant tensors among the operands."""
    reads: list[Var] = []
    weights: list[str] = []
    pending = list(reversed(list(values)))
    while pending:
        value = pending.pop()
        if isinstance(value, Var):
            reads.append(value)
        elif isinstance(value, Constant):
            if value.data.size > 1 and len(weights) < _MOST_WEIGHTS:
                weights.append(f"{value.data.name or 'constant'}: {type_text(value.ty)}")
        elif isinstance(value, Tuple):
            pending.extend(reversed(value.fields))
        elif isinstance(value, TupleGetItem):
            pending.append(value.tuple_value)
    return reads, weights


# --- the place of a value in the source


def module_path(origins: Origins) -> tuple[str, ...]:
    """The source modules that contain all ``origins``, outermost first: ``("encoder", "layer.3", "output")``."""
    paths = [_path_of(origin.kind, origin.name) for origin in origins if origin.kind != "rule"]
    return shared_path(paths) if paths else ()


def shared_path(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The common prefix of ``paths``. It is ``("several modules",)`` if non-empty paths have no common module."""
    shared = paths[0]
    for path in paths[1:]:
        same = next((at for at, (one, other) in enumerate(zip(shared, path, strict=False)) if one != other), None)
        shared = shared[: min(len(shared), len(path)) if same is None else same]
    return shared or (("several modules",) if all(paths) and len(paths) > 1 else ())


def _path_of(kind: str, name: str) -> tuple[str, ...]:
    """The modules in an origin's name: all parts of a torch module path, all but the last of an ONNX node's name."""
    if kind == "torch":
        return _numbered(name.split("."))
    if kind == "onnx" and "/" in name:
        return _numbered([part for part in name.split("/")[:-1] if part])
    return ()


def _numbered(parts: Iterable[str]) -> tuple[str, ...]:
    """Parts of a name, with each number joined to the part before it: ``layer``, ``3`` becomes ``layer.3``."""
    found: list[str] = []
    for part in parts:
        text = part.replace(SEPARATOR, " ")
        if text.isdecimal() and found:
            found[-1] = f"{found[-1]}.{text}"
        elif text:
            found.append(text)
    return tuple(found[:_DEEPEST])

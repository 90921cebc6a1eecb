"""Nodes of a model that was read, and the places where they still stand in the program.

The steps of a node are the bindings that it was read as. They carry the node as their origin. A node stands if its
steps are unchanged, except for their operands. It is then written to ONNX as the same node, with its attributes and
name, and not as the nodes of its steps. Only the structure decides. If a rewrite changed or removed a step, the other
steps are written one by one. If other bindings use an inner step, that step is written besides the node if it is
arithmetic on a few integers, such as bounds and sizes. Otherwise the node no longer stands.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

import onnx_ir as ir

from ...analysis import free_vars
from ...analysis.variables import own_symvars
from ...ir.dims import SymVar
from ...ir.dtypes import is_integer
from ...ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ...ir.op import Call
from ...ir.origin import Origin, Origins
from ...ir.program import Binding, MatchCast
from ...ir.types import PrimType, ShapeType, TensorType, Type, type_symvars
from ...ir.visitor import walk

ORIGIN_KEY: Final = "regraft.origin"
"""The key of a node's metadata that lists the nodes of the source model from which it came."""

_DEEPEST: Final = 4
"""The longest chain of nodes that is written again to compute an operand."""
_FEW: Final = 64
"""Tensors of at most so many integers count as arithmetic on sizes, bounds and indices."""
_MOST_COMPARED: Final = 4096
"""Constants of more elements are equal only if they are the same object."""


class SourceNode(NamedTuple):
    """A node as it was read for ``opset``: its input and output expressions, and the bindings between them (its steps).

    ``node`` holds only the operator, attributes and name, without values.
    """

    node: ir.Node
    names: tuple[tuple[str, ...], tuple[str, ...]]
    opset: int
    inputs: tuple[Expr | None, ...]
    outputs: tuple[Var | None, ...]
    steps: Mapping[Var, Binding]


class SourceOrigin(Origin):
    """The origin of the steps of a node. A pickled copy keeps only the name.

    ``told`` holds the origins listed in the node's metadata, if regraft wrote the file.
    """

    source: SourceNode | None = None
    told: str = ""

    def __reduce__(self) -> tuple[type[Origin], tuple[str, str]]:  # type: ignore[override]
        return Origin, (self.kind, self.name)


def origins_text(origins: Origins) -> str:
    """Origins as text for the metadata of a node. A node that regraft wrote is replaced by the origins it lists."""
    return " ".join([(isinstance(origin, SourceOrigin) and origin.told) or str(origin) for origin in origins])


class Standing(NamedTuple):
    """A node that still stands: its current operands, outputs and steps in the program.

    ``first`` are nodes to write before it. They compute operands of few integers that a rewrite removed.
    """

    source: SourceNode
    operands: tuple[Expr | None, ...]
    outputs: tuple[Var | None, ...]
    steps: tuple[Binding, ...]
    first: tuple[Standing, ...] = ()


# --- reading


def source_of(
    node: ir.Node,
    opset: int,
    inputs: Sequence[Expr | None],
    outputs: Sequence[Expr | None],
    bindings: Iterable[Binding],
) -> SourceNode | None:
    """The record of a node; None if its steps cannot be separated from the steps of other nodes.

    ``bindings`` were made while the node was read. Later nodes may share some of them.
    """
    made = {binding.var: binding for binding in bindings}
    given = {operand for operand in inputs if isinstance(operand, Var)}
    results: list[Var | None] = []
    for output in outputs:
        if output is not None and not (isinstance(output, Var) and output in made):
            return None
        results.append(output)
    steps: dict[Var, Binding] = {}
    pending = [output for output in results if output is not None]
    while pending:
        var = pending.pop()
        if var in given or var in steps:
            continue
        if var not in made:
            return None
        binding = steps[var] = made[var]
        pending.extend(_variables(binding.value))
    names = (
        tuple([value.name or "" if value else "" for value in node.inputs]),
        tuple([value.name or "" for value in node.outputs]),
    )
    return SourceNode(_alone(node), names, opset, tuple(inputs), tuple(results), steps) if steps else None


def _alone(node: ir.Node) -> ir.Node:
    """A copy of a node without its graph, inputs and outputs."""
    return ir.Node(
        node.domain,
        node.op_type,
        (),
        node.attributes.values(),
        overload=node.overload,
        num_outputs=0,
        name=node.name,
        doc_string=node.doc_string,
        metadata_props=dict(node.metadata_props),
    )


def _variables(expr: Expr) -> Iterable[Var]:
    """The variables among the leaves of an expression in A-normal form."""
    if isinstance(expr, Var):
        return (expr,)
    if isinstance(expr, Call):
        return (var for arg in expr.args for var in _variables(arg))
    if isinstance(expr, Tuple):
        return (var for field in expr.fields for var in _variables(field))
    return _variables(expr.tuple_value) if isinstance(expr, TupleGetItem) else ()


# --- writing


class StandingNodes:
    """The nodes that still stand in a list of bindings, each at the binding where it is to be written."""

    __slots__ = (
        "_bindings",
        "_by_name",
        "_is_known",
        "_is_wanted",
        "_operands",
        "_places",
        "_shown",
        "_users",
        "at",
        "within",
    )
    at: dict[Var, Standing]
    """The nodes that stand, by the first of their outputs."""
    within: set[Var]
    """The variables of the bindings that are steps of these nodes and need not be written separately."""

    def __init__(
        self,
        bindings: Sequence[Binding],
        result: Expr,
        is_wanted: Callable[[SourceNode], bool],
        is_known: Callable[[Var], bool],
    ) -> None:
        """``is_known`` says if a variable that none of ``bindings`` defines is visible to them."""
        self._bindings = {binding.var: binding for binding in bindings}
        self._places = {binding.var: place for place, binding in enumerate(bindings)}
        self._is_known = is_known
        self._is_wanted = is_wanted
        self._users: dict[Var, list[Var | None]] = {}
        self._by_name: dict[str, list[Var]] = {}
        self.at = {}
        self.within = set()
        self._shown: set[Var] = set()
        self._operands: set[Var] = set()
        sources = self._from_nodes(bindings)
        if not sources:  # the program was not read from ONNX
            return
        for binding in bindings:
            self._by_name.setdefault(binding.var.name_hint, []).append(binding.var)
            for var in free_vars(binding.value):
                self._users.setdefault(var, []).append(binding.var)
        for var in _variables(result):
            self._users.setdefault(var, []).append(None)
        for source, by_name in sources:
            self._place(source, by_name)
        self.within -= self._needed_besides(result)

    def _from_nodes(self, bindings: Sequence[Binding]) -> list[tuple[SourceNode, Mapping[str, Var]]]:
        """The wanted nodes in the order of their first variable, each with the variables that come from it, by name.

        If equal nodes were merged, a variable has the origins of all of them. Many variables may share one set of
        origins; they are gathered once.
        """
        sharing: dict[int, dict[str, Var]] = {}
        found: dict[int, tuple[SourceNode, list[dict[str, Var]]]] = {}
        for var in (binding.var for binding in bindings):
            if id(var.origins) in sharing:
                sharing[id(var.origins)][var.name_hint] = var
                continue
            own = sharing[id(var.origins)] = {var.name_hint: var}
            for source in _source_nodes_of(var):
                if self._is_wanted(source):
                    found.setdefault(id(source), (source, []))[1].append(own)
        return [
            (source, parts[0] if len(parts) == 1 else ChainMap(*reversed(parts))) for source, parts in found.values()
        ]

    def _place(self, source: SourceNode, by_name: Mapping[str, Var]) -> None:
        outputs = _outputs_now(source, by_name, self._bindings)
        pairs = zip(source.outputs, outputs, strict=True)
        found = [(then, now) for then, now in pairs if then is not None and now is not None]
        match = _NodeMatch(source, self._bindings)
        if not found or not all(match.equates(then, now) for then, now in found):
            return
        shown = {now for _, now in found}
        if not self._shown.isdisjoint(shown):
            return
        first = min(self._places[var] for var in shown)
        inner = [var for var in match.steps if var not in shown]
        if any(not _is_cheap(var.ty) and not match.steps.issuperset(self._users.get(var, ())) for var in inner):
            return
        operands = tuple([self._now(operand) for operand in match.operands()])
        again: dict[Var, Standing] = {}
        if not self._are_before(first, operands, again):
            return
        taken = [*operands, *[operand for one in again.values() for operand in one.operands]]
        needed = [var for operand in taken if operand is not None for var in _variables(operand) if var not in again]
        self.within.update(match.steps)
        self._shown.update(shown)
        self._operands.update(needed)
        steps = sorted(match.steps, key=self._places.__getitem__)
        bindings = tuple(self._bindings[var] for var in steps)
        standing = Standing(source, operands, outputs, bindings, tuple(again.values()))
        self.at[min(shown, key=self._places.__getitem__)] = standing

    def _needed_besides(self, result: Expr) -> set[Var]:
        """The steps of standing nodes that something else needs, for their values or for sizes that they define."""
        outside = [binding for var, binding in self._bindings.items() if var not in self.within]
        pending = [*self._operands, *_variables(result)]
        sizes: set[SymVar] = set()
        for binding in outside:
            pending.extend(free_vars(binding.value))
            sizes.update(_sizes_in(binding.value))
        for standing in self.at.values():
            sizes.update(size for operand in standing.operands if operand is not None for size in _sizes_in(operand))
        defining = [self._bindings[var] for var in self.within if isinstance(self._bindings[var], MatchCast)]
        shown = {size for var in self._shown for size in _plain_sizes(var.ty)}
        found: set[Var] = set()
        while pending:
            while pending:
                var = pending.pop()
                if var in self.within and var not in self._shown and var not in found:
                    found.add(var)
                    value = self._bindings[var].value
                    pending.extend(_variables(value))
                    sizes.update(_sizes_in(value))
            for binding in defining:
                assert isinstance(binding, MatchCast)
                if sizes.intersection(type_symvars(binding.ty)) - shown:
                    pending.append(binding.var)
            pending = [var for var in pending if var not in found and var not in self._shown]
        return found

    def _now(self, operand: Expr | None) -> Expr | None:
        """The current variable of an operand that no step reads, such as one used for its sizes; else ``operand``."""
        if not isinstance(operand, Var) or operand in self._places or self._is_known(operand):
            return operand
        named = self._by_name.get(operand.name_hint, ())
        same = [var for var in named if set(operand.origins) <= set(var.origins) and _fits(var.ty, operand.ty)]
        return same[0] if len(same) == len(named) == 1 else operand

    def _are_before(
        self, place: int, operands: Iterable[Expr | None], again: dict[Var, Standing], depth: int = _DEEPEST
    ) -> bool:
        """True if ``operands`` are available before ``place``. Adds the nodes to write for them to ``again``."""
        for operand in operands:
            for var in _variables(operand) if operand is not None else ():
                if self._is_before(place, var) or var in again:
                    continue
                source = source_node_of(var)
                is_gone = var not in self._places and source is not None and self._is_wanted(source)
                if not is_gone or not depth or source is None or not _is_cheap(var.ty) or source.outputs != (var,):
                    return False
                inputs = tuple([self._now(each) for each in source.inputs])
                if not self._are_before(place, inputs, again, depth - 1):
                    return False
                again[var] = Standing(source, inputs, source.outputs, ())
        return True

    def _is_before(self, place: int, var: Var) -> bool:
        own = self._places.get(var)
        return self._is_known(var) if own is None else own < place


def _is_cheap(ty: Type) -> bool:
    """True for a value that costs next to nothing to compute again: a shape, a size, a few integers."""
    if isinstance(ty, ShapeType | PrimType):
        return True
    if not isinstance(ty, TensorType) or ty.shape is None or not (ty.dtype == "bool" or is_integer(ty.dtype or "")):
        return False
    sizes = [size for size in ty.shape if isinstance(size, int)]
    return len(sizes) == len(ty.shape) and prod(sizes) <= _FEW


def _sizes_in(expr: Expr) -> Iterable[SymVar]:
    """The size variables that an expression computes with, including its bodies."""
    return (size for part in walk(expr) for size in own_symvars(part))


def _plain_sizes(ty: Type) -> Iterable[SymVar]:
    """The size variables that are themselves dimensions of type ``ty``."""
    dims = ty.shape if isinstance(ty, TensorType) else ty.values if isinstance(ty, ShapeType) else None
    return (dim for dim in dims or () if isinstance(dim, SymVar))


def _outputs_now(
    source: SourceNode, by_name: Mapping[str, Var], bindings: Mapping[Var, Binding]
) -> tuple[Var | None, ...]:
    """The current outputs of a node, among the variables that come from it. Some may have been renamed."""
    found = [None if var is None else by_name.get(var.name_hint) for var in source.outputs]
    if all(var is None or now is not None for var, now in zip(source.outputs, found, strict=True)):
        return tuple(found)
    names = {step.name_hint for step in source.steps}
    renamed = [var for name, var in by_name.items() if name not in names]
    missing = {place: then for place, then in enumerate(source.outputs) if then is not None and found[place] is None}
    if len(missing) == len(renamed) == 1:
        return tuple([renamed[0] if place in missing else now for place, now in enumerate(found)])
    # Several may be renamed, in any order, and some may be gone: take unchanged ones first, then any of a fitting type.
    matches: list[Callable[[Var, Var], bool]] = [
        lambda then, now: _NodeMatch(source, bindings).equates(then, now),
        lambda then, now: _fits(now.ty, then.ty),
    ]
    for is_match in matches:
        for place, then in missing.items():
            now = next((var for var in renamed if found[place] is None and is_match(then, var)), None)
            if now is not None:
                renamed.remove(now)
                found[place] = now
    return tuple(found)


def source_node_of(var: Var) -> SourceNode | None:
    """The source node of ``var``, if that is its only origin; else None."""
    return next(iter(_source_nodes_of(var)), None) if len(var.origins) == 1 else None


def _source_nodes_of(var: Var) -> list[SourceNode]:
    sources = [origin.source for origin in var.origins if isinstance(origin, SourceOrigin)]
    return [source for source in sources if source is not None]


class _NodeMatch:
    """Compares the steps of a node with the bindings of a program."""

    __slots__ = ("_bindings", "_known", "_source", "steps")

    def __init__(self, source: SourceNode, bindings: Mapping[Var, Binding]) -> None:
        self._source = source
        self._bindings = bindings
        self._known: dict[int, Expr] = {}
        self.steps: set[Var] = set()

    def equates(self, then: Expr, now: Expr) -> bool:
        """True if ``now`` equals ``then``, except for the operands of the node."""
        pending = [(then, now)]
        while pending:
            mine, theirs = pending.pop()
            known = self._known.get(id(mine))
            if known is not None:
                if known is not theirs:
                    return False
            elif isinstance(mine, Var) and mine in self._source.steps:
                parts = self._same_step(self._source.steps[mine], theirs)
                if parts is None:
                    return False
                self._known[id(mine)] = theirs
                pending.append(parts)
            elif isinstance(mine, Var) or (isinstance(mine, Constant) and self._is_operand(mine)):
                if not isinstance(theirs, Var | Constant) or not _may_replace(mine, theirs):
                    return False
                self._known[id(mine)] = theirs
            else:
                inner = _parts(mine, theirs)
                if inner is None:
                    return False
                pending.extend(inner)
        return True

    def _is_operand(self, constant: Constant) -> bool:
        return any(operand is constant for operand in self._source.inputs)

    def _same_step(self, step: Binding, now: Expr) -> tuple[Expr, Expr] | None:
        """The values of ``step`` and of the binding of ``now``; None if the two bindings cannot be the same step."""
        binding = self._bindings.get(now) if isinstance(now, Var) else None
        if binding is None or type(binding) is not type(step):
            return None
        if isinstance(step, MatchCast) and (not isinstance(binding, MatchCast) or step.ty != binding.ty):
            return None
        self.steps.add(binding.var)
        return step.value, binding.value

    def operands(self) -> tuple[Expr | None, ...]:
        """The current inputs of the node."""
        known = self._known
        return tuple([None if operand is None else known.get(id(operand), operand) for operand in self._source.inputs])


def _parts(then: Expr, now: Expr) -> list[tuple[Expr, Expr]] | None:
    """The pairs of parts to compare, of two expressions that are the same at the top; None if they are not."""
    match then, now:
        case Call(), Call():
            if then.op != now.op or len(then.args) != len(now.args):
                return None
            if then.attrs != now.attrs or then.ty_args != now.ty_args:
                return None
            return list(zip(then.args, now.args, strict=True))
        case Tuple(), Tuple() if len(then.fields) == len(now.fields):
            return list(zip(then.fields, now.fields, strict=True))
        case TupleGetItem(), TupleGetItem() if then.index == now.index:
            return [(then.tuple_value, now.tuple_value)]
        case ShapeExpr(), ShapeExpr():
            return [] if then.values == now.values else None
        case PrimValue(), PrimValue():
            return [] if then.value == now.value and then.ty == now.ty else None
        case Constant(), Constant():
            return [] if _is_same_constant(then, now) else None
        case _:
            return None


def _is_same_constant(then: Constant, now: Constant) -> bool:
    mine, theirs = then.data, now.data
    if mine is theirs:
        return True
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype or mine.size > _MOST_COMPARED:
        return False
    return mine.is_loaded and theirs.is_loaded and mine.numpy().tobytes() == theirs.numpy().tobytes()


def _may_replace(then: Expr, now: Expr) -> bool:
    """True if ``now`` may replace an operand. Constant integers must be equal: they may be axes, sizes or counts."""
    if not _fits(now.ty, then.ty):
        return False
    if not isinstance(then, Constant) or not is_integer(then.data.dtype) or then.data.size > _MOST_COMPARED:
        return True
    return isinstance(now, Constant) and _is_same_constant(then, now)


def _fits(now: Type, then: Type) -> bool:
    """True if an operand of type ``now`` may replace one of type ``then``."""
    if not isinstance(now, TensorType) or not isinstance(then, TensorType):
        return now == then
    if now.dtype != then.dtype or now.ndim != then.ndim:
        return False
    if now.shape is None or then.shape is None:
        return then.shape is None
    return all(not isinstance(old, int) or old == new for old, new in zip(then.shape, now.shape, strict=True))

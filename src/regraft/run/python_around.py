"""Programs that a graph runtime runs except for parts that need Python: external functions, closures, recursion,
printing.

A function with such parts is split. The parts that a runtime can run become separate functions, as few as the order
allows, and each is a graph that the runtime opens. The rest calls these, and runs as in the NumPy engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ..analysis import detect_recursion, free_symbolic_vars, used_vars
from ..analysis.uses import variables_of
from ..analysis.variables import own_symvars
from ..ir.builder import NameSupply
from ..ir.dims import SymVar
from ..ir.expr import Expr, ExternFunc, GlobalVar, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir.kernels import kernels_of, with_kernels
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, Op
from ..ir.program import Binding, BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..ir.types import PrimType, ShapeType, TensorType, TupleType, Type, type_symvars
from ..ir.visitor import iter_bindings, walk
from ..op.primitive.packed import call_pure_packed
from . import numpy_engine
from .executable import Executable
from .liveness import Statement, statements_of
from .packed import LOWERINGS as OF_PYTHON


def needing_python(module: IRModule) -> frozenset[str]:
    """The functions of ``module`` that need Python, or that call one that does. Cost: linear."""
    callers: dict[str, set[str]] = {}
    found: set[str] = set()
    for name, function in module.items():
        answers_nothing = function.ret_ty == TupleType([]) and len(module) > 1  # alone, it cannot be built
        if answers_nothing or not _is_data(function.ret_ty):
            found.add(name)
        called: list[Expr] = []
        for expr in walk(function):
            if isinstance(expr, GlobalVar):
                callers.setdefault(expr.name_hint, set()).add(name)
            elif _is_only_in_python(expr):
                found.add(name)
            elif isinstance(expr, Call) and not isinstance(expr.op, Op | GlobalVar):
                called.append(expr.op)
        if called and not _are_written_inside(called, function):
            found.add(name)
    if callers:
        found.update(recursive.name_hint for group in detect_recursion(module) for recursive in group)
    pending = list(found)
    while pending:
        for caller in callers.get(pending.pop(), ()):
            if caller not in found:
                found.add(caller)
                pending.append(caller)
    return frozenset(found)


def compile_parted(
    target: str, module: IRModule, parted: frozenset[str], compile_graphs: Callable[[IRModule], Executable]
) -> Executable:
    """``module`` with the functions in ``parted`` run by Python, and everything else by the result of
    ``compile_graphs``.

    Cost: linear in the bindings, plus opening the graphs.
    """
    parts = _Parts(module, parted)
    around = {name: parts.around(name, function) for name, function in module.items() if name in parted}
    graphs = compile_graphs(IRModule({**_others(module, parted), **parts.graphs}, module.attrs))
    kernels = {name: graphs[name] for name in parts.graphs}
    program = numpy_engine.compile_module(with_kernels(module.with_functions(around), kernels))
    entries = {name: program[name] if name in parted else graphs[name] for name in module}
    return Executable(target, entries, f"{program.source}\n{graphs.source}")


def _others(module: IRModule, parted: frozenset[str]) -> dict[str, Function]:
    return {name: function for name, function in module.items() if name not in parted}


class _Parts:
    """Splits functions, and collects the parts for graphs under names of their own."""

    def __init__(self, module: IRModule, parted: frozenset[str]) -> None:
        self.graphs: Final[dict[str, Function]] = {}
        self._parted = parted
        self._names = NameSupply((*module, *kernels_of(module)))
        self._name = ""

    def around(self, name: str, function: Function) -> Function:
        """``function`` with calls in place of the parts that became graphs."""
        self._name = name
        return function.with_body(self._body(function.body))

    def _body(self, body: SeqExpr) -> SeqExpr:
        statements, outcome = statements_of(body)
        rows = _Rows()
        for statement in statements:
            rows.add(statement, fits=self._fits(statement))
        read_outside = rows.read_outside(outcome)
        bindings: list[Binding] = []
        for level in range(-1, rows.count):
            part = rows.in_graph.get(level)
            if part:
                bindings.extend(self._part(part, [s.var for s in part if s.var in read_outside]))
            for var, value, cast in rows.in_python.get(level, ()):
                if cast is not None:
                    bindings.append(MatchCast(var, value, cast))
                else:
                    bindings.append(VarBinding(var, self._with_parts_inside(value)))
        return SeqExpr([BindingBlock(bindings)] if bindings else [], outcome)

    def _with_parts_inside(self, value: Expr) -> Expr:
        if isinstance(value, If):
            return If(value.cond, self._body(value.true_branch), self._body(value.false_branch))
        return self._body(value) if isinstance(value, SeqExpr) else value

    def _fits(self, statement: Statement) -> bool:
        """True if a graph can hold the statement."""
        value = statement.value
        if statement.cast is not None or isinstance(value, Function) or not _is_data(statement.var.ty):
            return False
        if not all(_is_data(var.ty) for var in variables_of(value)):
            return False
        for expr in walk(value):
            if _is_only_in_python(expr) or (isinstance(expr, GlobalVar) and expr.name_hint in self._parted):
                return False
        return True

    def _part(self, part: Sequence[Statement], results: Sequence[Var]) -> list[Binding]:
        """Make a graph of a part; returns the bindings that call it and extract ``results``."""
        if not results:
            return []
        inside = {statement.var for statement in part}
        renaming = ExprMutator()
        arguments: dict[Var, Var] = {}
        bindings: list[Binding] = []
        for var, value, _ in part:
            for read in variables_of(value):
                if read not in inside and read not in arguments:
                    arguments[read] = Var(read.name_hint, read.ty, read.origins)
                    renaming.remap(read, arguments[read])
            local = Var(var.name_hint, var.ty, var.origins)
            bindings.append(VarBinding(local, renaming.mutate(value)))
            renaming.remap(var, local)
        given = [renaming.mutate(var) for var in results]
        body = SeqExpr([BindingBlock(bindings)], given[0] if len(given) == 1 else Tuple(given))
        name = self._names.fresh(f"{self._name}_part")
        params = list(arguments.values())
        operands: list[Expr] = list(arguments)
        attrs = {"global_symbol": name}
        sizes = free_symbolic_vars(Function(params, body, None, True, attrs))
        if sizes:
            params.append(Var("sizes", ShapeType(sizes)))
            operands.append(ShapeExpr(sizes))
        self.graphs[name] = Function(params, body, None, True, attrs)
        if len(results) == 1:
            return [VarBinding(results[0], call_pure_packed(name, *operands, ty_args=results[0].ty))]
        whole = Var("part", TupleType([var.ty for var in results]))
        taken = [VarBinding(var, TupleGetItem(whole, index)) for index, var in enumerate(results)]
        return [VarBinding(whole, call_pure_packed(name, *operands, ty_args=whole.ty)), *taken]


class _Rows:
    """The statements of a body by level: at each level first those of a graph, then those that Python runs after it.

    Python's statements keep their order. A statement of a graph goes to the lowest level at which its operands are
    known, so that there are few graphs.
    """

    def __init__(self) -> None:
        self.in_graph: Final[dict[int, list[Statement]]] = {}
        self.in_python: Final[dict[int, list[Statement]]] = {}
        self.count = 0
        self._graph_of: Final[dict[Var, int]] = {}
        self._known_after: Final[dict[Var | SymVar, int]] = {}
        self._last = -1

    def add(self, statement: Statement, *, fits: bool) -> None:
        """Find the level of one more statement; ``fits`` says that a graph can hold it."""
        reads: list[Var | SymVar] = [*variables_of(statement.value)]
        reads += [size for expr in walk(statement.value) for size in own_symvars(expr)]
        graphs = [self._graph_of[read] for read in reads if isinstance(read, Var) and read in self._graph_of]
        after = [self._known_after.get(read, -1) for read in reads if read not in self._graph_of]
        level = max([0, *graphs, *(known + 1 for known in after)])
        is_work = isinstance(statement.value, Call | If | SeqExpr)
        if fits and (is_work or level in graphs):
            self._graph_of[statement.var] = level
            self.in_graph.setdefault(level, []).append(statement)
            self.count = max(self.count, level + 1)
            return
        level = max([-1, *graphs, *after])
        if is_work or statement.cast is not None:
            level = self._last = max(level, self._last)
        self._known_after[statement.var] = level
        if statement.cast is not None:
            self._known_after.update(dict.fromkeys(type_symvars(statement.cast), level))
        self.in_python.setdefault(level, []).append(statement)

    def read_outside(self, outcome: Expr) -> set[Var]:
        """The values of graphs that other graphs, Python, or ``outcome`` read."""
        found = {var for var in variables_of(outcome) if var in self._graph_of}
        for rows, is_graph in ((self.in_graph, True), (self.in_python, False)):
            for level, row in rows.items():
                for statement in row:
                    for var in variables_of(statement.value):
                        if var in self._graph_of and not (is_graph and self._graph_of[var] == level):
                            found.add(var)
        return found


def _is_only_in_python(expr: Expr) -> bool:
    """True if ``expr`` is an external function, or an operator that only Python can compute."""
    return isinstance(expr, ExternFunc) or (isinstance(expr, Op) and expr.reference is None and expr.name in OF_PYTHON)


def _are_written_inside(called: Sequence[Expr], function: Function) -> bool:
    """True if all of ``called`` are functions defined inside ``function``, none of which calls itself."""
    local: dict[Expr, Function] = {}
    for binding in iter_bindings(function):
        value = binding.value
        found = value if isinstance(value, Function) else local.get(value)
        if found is not None:
            local[binding.var] = found
    return all(op in local and op not in used_vars(local[op]) for op in called)


def _is_data(ty: Type) -> bool:
    """True if a graph can take and return a value of type ``ty``."""
    if isinstance(ty, TupleType):
        return all(map(_is_data, ty.fields))
    return isinstance(ty, ShapeType | PrimType) or (isinstance(ty, TensorType) and ty.dtype is not None)

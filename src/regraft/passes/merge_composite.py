"""MergeCompositeFunctions: neighbouring operations of one backend become one function of that backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..analysis import all_global_vars
from ..ir.binding_values import with_new_variables
from ..ir.expr import Expr, GlobalVar, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call
from ..ir.program import Binding, BindingBlock, Function, SeqExpr, VarBinding
from ..pattern.matcher.view import leaves_of
from ..rewrite.session import EditSession
from .blocks import SessionWalk
from .context import PassContext
from .fuse_by_pattern import NewFunctions
from .passes import ModulePass, Pass


class _Place(NamedTuple):
    """What keeps merging free of cycles: values that leave a group and come back stand on a higher level."""

    target: str
    level: int


class _Merging(SessionWalk):
    """Merges calls of composite functions in the dataflow blocks of one function."""

    def __init__(self, function: Function, module: IRModule, new: NewFunctions, context: PassContext) -> None:
        super().__init__(function)
        self._module = module
        self._new = new
        self._context = context

    def edit(self, session: EditSession, scope: Mapping[Var, None]) -> bool:
        if not session.is_dataflow:
            return False
        groups = self._groups(session)
        for place, members in groups:
            self._merge(session, place.target, members)
        return bool(groups)

    def _composite(self, value: Expr | None) -> Function | None:
        """The composite function that ``value`` calls, if it calls one."""
        if not isinstance(value, Call) or not isinstance(value.op, GlobalVar) or value.op not in self._module:
            return None
        function = self._module[value.op]
        return function if "Composite" in function.attrs else None

    def _groups(self, session: EditSession) -> list[tuple[_Place, list[Var]]]:
        """Connected calls of one backend on one level, in block order."""
        levels: dict[Expr, int] = {}
        places: dict[Expr, _Place] = {}
        owner: dict[Var, Var] = {}
        members: dict[Var, list[Var]] = {}
        for var in session.original:
            value = session.definitions.get(var)
            composite = self._composite(value)
            target = "" if composite is None else composite.attrs["Composite"].partition(".")[0]
            operands = leaves_of(session.value_of(var) if var in session.pinned else session.definitions[var])
            level = 0
            for operand in operands:
                inside = places.get(operand)
                leaves = inside is not None and inside.target != target
                level = max(level, levels.get(operand, 0) + leaves)
            levels[var] = level
            if composite is None:
                continue
            place = places[var] = _Place(target, level)
            owner[var] = var
            members[var] = [var]
            for operand in operands:
                if isinstance(operand, Var) and places.get(operand) == place:
                    _join(owner, members, operand, var)
        return [(places[root], sorted(row, key=session.rank)) for root, row in members.items()]

    def _merge(self, session: EditSession, target: str, members: Sequence[Var]) -> None:
        inside = set(members)
        table: dict[Var, Var] = {}
        renaming = ExprMutator()
        arguments: dict[Var, Var] = {}
        outputs: list[Var] = []
        bindings: list[Binding] = []
        names: list[str] = []
        for var in members:
            call = session.definitions[var]
            composite = self._composite(call)
            assert isinstance(call, Call)
            assert composite is not None
            for leaf in leaves_of(call):
                if isinstance(leaf, Var) and leaf not in inside and leaf not in arguments:
                    arguments[leaf] = Var(leaf.name_hint, leaf.ty, leaf.origins)
                    renaming.remap(leaf, arguments[leaf])
            composite = with_new_variables(composite)  # the same function may stand in the group several times
            inner = Var(f"{var.name_hint}_func", composite.ty)
            result = Var(var.name_hint, var.ty, var.origins)
            arguments_now = [renaming.mutate(arg) for arg in call.args]
            bindings.append(VarBinding(inner, composite.without_attr("Primitive")))
            bindings.append(VarBinding(result, Call(inner, arguments_now)))
            table[var] = result
            renaming.remap(var, result)
            assert isinstance(call.op, GlobalVar)
            names.append(call.op.name_hint)
            if var in session.outputs or any(user not in inside for user in session.users.get(var, ())):
                outputs.append(var)
        results = [table[var] for var in outputs]
        body = SeqExpr([BindingBlock(bindings)], results[0] if len(results) == 1 else Tuple(results))
        name = self._new.fresh(f"{'_'.join(names)}_{target}")
        attrs = {"global_symbol": name, "Codegen": target}
        function = Function(list(arguments.values()), body, None, True, attrs)
        call = Call(self._new.add(name, function), list(arguments))
        self._context.tell("merge_composite_functions", outputs[0].name_hint, None)
        if len(outputs) == 1:
            session.replace(outputs[0], call)
            return
        whole = session.add_value(call, outputs[0].name_hint, outputs[0].origins)
        for index, var in enumerate(outputs):
            session.replace(var, TupleGetItem(whole, index))


def _join(owner: dict[Var, Var], members: dict[Var, list[Var]], first: Var, second: Var) -> None:
    """Make the groups of two values one; the smaller moves, so that all moves together cost n log n."""
    a, b = owner[first], owner[second]
    if a is b:
        return
    if len(members[a]) < len(members[b]):
        a, b = b, a
    for var in members[b]:
        owner[var] = a
    members[a].extend(members.pop(b))


def MergeCompositeFunctions() -> Pass:
    """Make connected calls of composite functions of one backend one function with the attribute ``Codegen``.

    The backend is the part of ``Composite`` before the dot. Functions are merged as far as that makes no cycle with
    what stands between them. The merged function defines the composite ones inside; those that nothing else calls go.

    Needs: `FuseOpsByPattern` before it. Guarantees: the same values to the bit. Cost: linear, but for n log n where
    groups grow together.
    """

    def transform(module: IRModule, context: PassContext) -> IRModule:
        new = NewFunctions(module)
        changed: dict[str, Function] = {}
        for name, function in module.items():
            if "Composite" in function.attrs or "Codegen" in function.attrs:
                continue
            with context.on(name):
                changed[name] = _Merging(function, module, new, context).transformed()
        if not new.functions:
            return module
        result = IRModule({**new.functions, **module.with_functions(changed).functions}, module.attrs)
        called = {v.name_hint for function in result.functions.values() for v in all_global_vars(function)}
        unused = {
            name
            for name, function in result.items()
            if function.is_private and "Composite" in function.attrs and name not in called
        }
        return result.without_functions(unused) if unused else result

    return ModulePass(transform, "MergeCompositeFunctions")

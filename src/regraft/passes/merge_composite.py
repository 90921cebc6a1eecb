"""MergeCompositeFunctions: neighbouring operations of one backend become one function of that backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..analysis import called_names, remove_all_unused
from ..analysis.values import leaves_of
from ..ir.expr import Expr, GlobalVar, Tuple, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator, NewVariables
from ..ir.op import Call
from ..ir.program import Binding, BindingBlock, Function, SeqExpr, VarBinding
from ..rewrite.session import EditSession
from ..rewrite.walk import Scope
from .context import PassContext
from .fuse_by_pattern import NewFunctions, WalkWithNewFunctions, outputs_in_order, with_new_functions
from .passes import ModulePass, Pass


@dataclass(eq=False, slots=True)
class _Group:
    """Calls that become one function of the backend ``target``."""

    target: str
    members: list[Var]


class _Merging(WalkWithNewFunctions):
    """Merges calls of composite functions in the dataflow blocks of one function."""

    def __init__(self, function: Function, module: IRModule, new: NewFunctions, context: PassContext) -> None:
        super().__init__(function, new, context)
        self._module = module

    def edit(self, session: EditSession, scope: Scope) -> bool:
        if not session.is_dataflow:
            return False
        groups = self._groups(session)
        for target, members in groups:
            self._merge(session, target, members)
        return bool(groups)

    def _composite(self, value: Expr | None) -> Function | None:
        """The composite function that ``value`` calls; None if it calls none."""
        if not isinstance(value, Call) or not isinstance(value.op, GlobalVar) or value.op not in self._module:
            return None
        function = self._module[value.op]
        return function if "Composite" in function.attrs else None

    def _groups(self, session: EditSession) -> list[tuple[str, list[Var]]]:
        """The groups of calls that become one function, each in block order, with the backend of each."""
        groups: dict[Expr, _Group] = {}
        for var in session.original:
            composite = self._composite(session.definitions.get(var))
            if composite is None:
                continue
            target = composite.attrs["Composite"].partition(".")[0]
            operands = [leaf for leaf in leaves_of(session.definitions[var]) if isinstance(leaf, Var)]
            own = _Group(target, [var])
            for group in dict.fromkeys(group for leaf in operands if (group := groups.get(leaf)) is not None):
                if group.target != target or self._would_cycle(session, groups, own, group):
                    continue
                small, own = sorted((own, group), key=lambda one: len(one.members))
                own.members.extend(small.members)
                groups.update(dict.fromkeys(small.members, own))
            groups[var] = own
        return [(group.target, sorted(group.members, key=session.rank)) for group in dict.fromkeys(groups.values())]

    def _would_cycle(self, session: EditSession, groups: Mapping[Expr, _Group], user: _Group, operand: _Group) -> bool:
        """True if ``user`` also depends on ``operand`` through a value outside both."""
        read = (leaf for member in user.members for leaf in leaves_of(session.definitions[member]))
        start = [leaf for leaf in read if isinstance(leaf, Var) and groups.get(leaf) not in (user, operand)]
        return bool(start) and _reaches(session, groups, start, operand)

    def _merge(self, session: EditSession, target: str, members: Sequence[Var]) -> None:
        inside = set(members)
        table: dict[Var, Var] = {}
        renaming = ExprMutator()
        arguments: dict[Var, Var] = {}
        bindings: list[Binding] = []
        names: list[str] = []
        local: dict[GlobalVar, Var] = {}
        for var in members:
            call = session.definitions[var]
            composite = self._composite(call)
            assert isinstance(call, Call)
            assert isinstance(call.op, GlobalVar)
            assert composite is not None
            for leaf in leaves_of(call):
                if isinstance(leaf, Var) and leaf not in inside and leaf not in arguments:
                    arguments[leaf] = Var(leaf.name_hint, leaf.ty, leaf.origins)
                    renaming.remap(leaf, arguments[leaf])
            if call.op not in local:
                composite = NewVariables().mutate(composite)  # other groups contain it, too
                local[call.op] = Var(f"{var.name_hint}_func", composite.ty)
                bindings.append(VarBinding(local[call.op], composite.without_attr("Primitive")))
            result = Var(var.name_hint, var.ty, var.origins)
            bindings.append(VarBinding(result, Call(local[call.op], [renaming.mutate(arg) for arg in call.args])))
            table[var] = result
            renaming.remap(var, result)
            names.append(call.op.name_hint.removeprefix("fused_"))
        outputs = outputs_in_order(session, members)
        if not outputs:
            return
        results = [table[var] for var in outputs]
        body = SeqExpr([BindingBlock(bindings)], results[0] if len(results) == 1 else Tuple(results))
        function = remove_all_unused(Function(list(arguments.values()), body, None, True, {"Codegen": target}))
        variable = self._new.same_or_added("_".join(["fused", *names]), function, target)
        call = Call(variable, list(arguments))
        self._context.tell("merge_composite_functions", outputs[0].name_hint, None)
        self.replace_by_call(session, outputs, call, outputs[0])


def _reaches(session: EditSession, groups: Mapping[Expr, _Group], start: Sequence[Var], goal: _Group) -> bool:
    """True if one of ``start`` depends on ``goal``, counting each group as one value."""
    first = min(map(session.rank, goal.members))
    seen: set[object] = set()
    pending = [*start]
    while pending:
        var = pending.pop()
        group = groups.get(var)
        node = var if group is None else group
        if group is goal:
            return True
        if node in seen or not session.is_bound_here(var):
            continue
        seen.add(node)
        members = (var,) if group is None else group.members
        if max(map(session.rank, members)) < first:
            continue
        for member in members:
            pending.extend(leaf for leaf in leaves_of(session.value_of(member)) if isinstance(leaf, Var))
    return False


def MergeCompositeFunctions() -> Pass:
    """Merge connected calls of composite functions of one backend into one function with the attribute ``Codegen``.

    The backend is the part of ``Composite`` before the dot. Functions are merged unless this would make a cycle through
    values between them. The merged function defines the composite functions inside. Composite functions that nothing
    else calls are removed, and so are values that nothing needs.

    Needs: `FuseOpsByPattern` before it. Guarantees: the same values to the bit. Cost: linear; if one of two neighbours
    has further operands, also the bindings between the two, once for each such pair.
    """

    def transform(module: IRModule, context: PassContext) -> IRModule:
        new = NewFunctions(module)
        result = with_new_functions(
            module, new, context, lambda function: _Merging(function, module, new, context), among=list(module)
        )
        result = result.with_each(lambda _name, function: remove_all_unused(function))
        if result is module:
            return module
        called = called_names(result)
        unused = {
            name
            for name, function in result.items()
            if function.is_private and "Composite" in function.attrs and name not in called
        }
        return result.without_functions(unused) if unused else result

    return ModulePass(transform, "MergeCompositeFunctions")

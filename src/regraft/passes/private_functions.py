"""Passes over private functions: RemoveUnusedParameters, RemoveUnusedOutputs, InlinePrivateFunctions, InlineKnownCalls.

These passes change calls together with the called function, so they work on a whole module. A private function whose
name is used other than in a call is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from ..analysis import called_names, free_symbolic_vars, get_var2val, remove_all_unused, used_vars
from ..analysis.recursion import callees_first
from ..analysis.values import definition, leaves_of, resolve
from ..ir.binding_values import called_name, inline_functions
from ..ir.dims import Dim, SymVar
from ..ir.expr import Constant, DataflowVar, Expr, GlobalVar, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call
from ..ir.program import BindingBlock, Function, SeqExpr, VarBinding
from ..ir.types import ShapeType, TupleType, bind_type
from ..ir.visitor import walk
from ..rewrite.session import EditSession
from ..rewrite.walk import Scope
from .blocks import SessionWalk
from .canonicalize_bindings import canonical
from .context import PassContext
from .dead_code import reachable
from .fold_constant import MOST_GROWN, folds_whole
from .passes import ModulePass, Pass

_KEPT_WHOLE = ("Primitive", "Composite", "Codegen")
"""Attributes of functions that stand for one operation of a backend; such functions are not inlined."""


def only_called(module: IRModule) -> dict[str, Function]:
    """The private functions whose names are used only in calls."""
    private = {name: function for name, function in module.items() if function.is_private}
    for expr in walk(module):
        operands: Iterable[Expr] = expr.args if isinstance(expr, Call) else leaves_of(expr)
        if isinstance(expr, SeqExpr):
            operands = (*operands, expr.body)
        for operand in operands:
            if isinstance(operand, GlobalVar):
                private.pop(operand.name_hint, None)
    return private


class _Calls(ExprMutator):
    """Replaces each call of the functions in ``variables`` by ``change(variable, call)``."""

    def __init__(self, variables: Mapping[str, GlobalVar], change: Callable[[GlobalVar, Call], Expr]) -> None:
        super().__init__()
        self._variables = variables
        self._change = change

    def visit_call_(self, call: Call) -> Expr:
        variable = self._variables.get(called_name(call))
        return call if variable is None else self._change(variable, call)


def _retyped(
    module: IRModule, functions: Mapping[str, Function]
) -> tuple[dict[GlobalVar, Function], dict[str, GlobalVar]]:
    """The functions of ``module``, with ``functions`` of other types replacing the old, and their new variables."""
    table: dict[GlobalVar, Function] = {}
    variables: dict[str, GlobalVar] = {}
    for variable, function in module.functions.items():
        name = variable.name_hint
        if name in functions:
            variables[name] = variable = GlobalVar(name, functions[name].ty)
        table[variable] = functions.get(name, function)
    return table, variables


def renewed(module: IRModule, functions: Mapping[str, Function], change: Callable[[GlobalVar, Call], Expr]) -> IRModule:
    """``module`` with ``functions`` of other types, under global variables of these types; calls are adapted."""
    table, variables = _retyped(module, functions)
    again = {variable: _Calls(variables, change).mutate(function) for variable, function in table.items()}
    return IRModule(again, module.attrs)


# --- parameters


class _Params(NamedTuple):
    """The positions of the parameters that stay, and the sizes that only removed parameters define."""

    kept: list[int]
    sizes: list[SymVar]


def _used_parameters(function: Function) -> _Params | None:
    """The parameters that a function needs; None if no parameter can be removed."""
    used = set(used_vars(function.body))
    kept = [index for index, param in enumerate(function.params) if param in used]
    if len(kept) == len(function.params):
        return None
    params = [function.params[place] for place in kept]
    lost = free_symbolic_vars(Function(params, function.body, function.ret_ty, function.is_pure))
    sizes = list(reversed(lost))
    if [param.ty for index, param in enumerate(function.params) if index not in kept] == list(map(_alone, sizes)):
        return None
    return _Params(kept, sizes)


def _alone(size: SymVar) -> ShapeType:
    return ShapeType([size])


def _sizes_at(function: Function, call: Call, sizes: Sequence[SymVar]) -> list[Expr] | None:
    """The sizes, found in the arguments of ``call``, each as a shape; None if the arguments do not define them."""
    found: dict[SymVar, Dim] = {}
    for param, arg in zip(function.params, call.args, strict=True):
        bind_type(param.ty, arg.ty, found)
    return [ShapeExpr([found[size]]) for size in sizes] if all(size in found for size in sizes) else None


def _tell_sizes(module: IRModule, kept: Mapping[str, _Params]) -> set[str]:
    """The functions of ``kept`` all of whose calls define the sizes that they need."""
    silent: set[str] = set()
    for call in (expr for expr in walk(module) if isinstance(expr, Call)):
        name = called_name(call)
        if name in kept and _sizes_at(module[name], call, kept[name].sizes) is None:
            silent.add(name)
    return kept.keys() - silent


def _until_same(step: Callable[[IRModule, PassContext], IRModule]) -> Callable[[IRModule, PassContext], IRModule]:
    """``step`` repeated until nothing changes: a shorter function may need less of the functions it calls."""

    def run(module: IRModule, context: PassContext) -> IRModule:
        while (result := step(module, context)) is not module:
            module = result
        return module

    return run


def RemoveUnusedParameters() -> Pass:
    """Remove parameters of private functions that their bodies do not use, and the arguments for them.

    A size that only such a parameter defines becomes a parameter of its own, a shape called ``param_<size>``, after the
    others. In dataflow blocks, values that only a removed argument needed are removed, too.

    Needs: calls whose arguments define the sizes; functions with other calls stay as they are. Guarantees: public
    functions keep their parameters. Cost: linear, and again for each level of calls that becomes shorter.
    """

    def transform(module: IRModule, context: PassContext) -> IRModule:
        candidates = {name: _used_parameters(function) for name, function in only_called(module).items()}
        kept = {name: params for name, params in candidates.items() if params is not None}
        told = _tell_sizes(module, kept)
        kept = {name: params for name, params in kept.items() if name in told}
        if not kept:
            return module
        for name in kept:
            context.tell("remove_unused_parameters", name, None)
        shorter = {name: remove_all_unused(_with_parameters(module[name], params)) for name, params in kept.items()}

        def change(variable: GlobalVar, call: Call) -> Expr:
            params = kept[variable.name_hint]
            sizes = _sizes_at(module[variable], call, params.sizes)
            args = [call.args[place] for place in params.kept]
            return Call(variable, [*args, *(sizes or ())], call.attrs, call.ty_args)

        return _without_unused_in_callers(renewed(module, shorter, change), kept.keys())

    return ModulePass(_until_same(transform), "RemoveUnusedParameters")


def _with_parameters(function: Function, params: _Params) -> Function:
    row = [function.params[place] for place in params.kept]
    row += [Var(f"param_{size.name}", _alone(size)) for size in params.sizes]
    return Function(row, function.body, function.ret_ty, function.is_pure, function.attrs)


# --- outputs


def _used_fields(module: IRModule, candidates: Mapping[str, Function]) -> dict[str, list[int]]:
    """For each candidate that returns a tuple, the fields that callers use, if they use the result in no other way."""
    fields: dict[str, dict[int, None]] = {
        name: {}
        for name, function in candidates.items()
        if function.is_pure and isinstance(function.ret_ty, TupleType) and isinstance(function.body.body.ty, TupleType)
    }
    for body in (expr for expr in walk(module) if isinstance(expr, SeqExpr)):
        results: dict[Expr, str] = {}
        for block in body.blocks:
            here: dict[Expr, str] = {b.var: name for b in block if (name := called_name(b.value)) in fields}
            for binding in block:
                value = binding.value
                if isinstance(value, TupleGetItem) and value.tuple_value in here and isinstance(binding, VarBinding):
                    fields[here[value.tuple_value]][value.index] = None
                    continue
                for leaf in leaves_of(value):
                    for table in (here, results):
                        fields.pop(table.get(leaf, ""), None)
                        here = {var: name for var, name in here.items() if name in fields}
            results.update(here)
        for leaf in leaves_of(body.body):
            fields.pop(results.get(leaf, ""), None)
    return {name: sorted(taken) for name, taken in fields.items()}


def _with_fields(function: Function, kept: Sequence[int]) -> Function:
    """``function``, returning only the fields ``kept``; the field itself if there is just one."""
    definitions = get_var2val(function)
    result = function.body.body
    known = definition(definitions, resolve(definitions, result))
    blocks = list(function.body.blocks)
    bound = {b.var for block in blocks for b in block if not isinstance(b.var, DataflowVar)} | set(function.params)
    fields: list[Expr] = []
    if isinstance(known, Tuple) and all(not isinstance(f, Var) or f in bound for f in known.fields):
        fields = [known.fields[index] for index in kept]
    else:
        taken = [Var("gv", item.ty) for item in (TupleGetItem(result, index) for index in kept)]
        pairs = zip(taken, kept, strict=True)
        blocks.append(BindingBlock([VarBinding(var, TupleGetItem(result, index)) for var, index in pairs]))
        fields = [*taken]
    assert isinstance(function.ret_ty, TupleType)
    types = [function.ret_ty.fields[index] for index in kept]
    new_result, ret_ty = (fields[0], types[0]) if len(kept) == 1 else (Tuple(fields), TupleType(types))
    new = Function(function.params, SeqExpr(blocks, new_result), ret_ty, function.is_pure, function.attrs)
    return remove_all_unused(new)


class _Retaking(SessionWalk):
    """Calls the shorter functions, and takes the fields from their new positions."""

    shares = False

    def __init__(
        self, function: Function, variables: Mapping[str, GlobalVar], kept: Mapping[str, Sequence[int]]
    ) -> None:
        super().__init__(function)
        self._variables = variables
        self._kept = kept

    def edit(self, session: EditSession, scope: Scope) -> bool:
        changed = False
        for var in session.original:
            value = session.definitions.get(var)
            name = "" if value is None else called_name(value)
            if name not in self._kept or not isinstance(value, Call):
                continue
            kept = list(self._kept[name])
            call = Call(self._variables[name], value.args, value.attrs, value.ty_args)
            result = session.add_value(call, var.name_hint, var.origins)
            for user in list(session.users.get(var, ())):
                item = session.definitions[user]
                assert isinstance(item, TupleGetItem)
                place = kept.index(item.index)
                session.replace(user, result if len(kept) == 1 else TupleGetItem(result, place))
            session.outputs.pop(var, None)
            changed = True
        return changed


def RemoveUnusedOutputs() -> Pass:
    """Remove fields of the tuples that private functions return, if no caller uses them.

    A function with a single used field returns that field itself. Unused calls of a function with no used field are
    removed, and so is the function. All functions are left canonical and without dead values, as in Relax.

    Needs: callers that take fields by number and do nothing else with the result. Guarantees: public functions return
    the same values. Cost: linear, and again for each level of calls that becomes shorter.
    """

    def transform(module: IRModule, context: PassContext) -> IRModule:
        used = _used_fields(module, only_called(module))
        module = _without_unused_calls(module, {name for name, places in used.items() if not places})
        kept: dict[str, list[int]] = {}
        for name, places in used.items():
            if name not in module:
                continue
            ret_ty = module[name].ret_ty
            if places and isinstance(ret_ty, TupleType) and len(places) < len(ret_ty.fields):
                kept[name] = places
                context.tell("remove_unused_outputs", name, None)
        if not kept:
            return module.with_each(lambda _name, function: remove_all_unused(canonical(function)))
        shorter = {name: _with_fields(module[name], places) for name, places in kept.items()}
        table, variables = _retyped(module, shorter)
        again: dict[GlobalVar, Function] = {}
        for variable, function in table.items():
            new = _Retaking(function, variables, kept).transformed()
            changed = new is not function or variable.name_hint in kept
            again[variable] = remove_all_unused(canonical(new)) if changed else new
        return IRModule(again, module.attrs)

    return ModulePass(_until_same(transform), "RemoveUnusedOutputs")


def _without_unused_calls(module: IRModule, names: set[str]) -> IRModule:
    """``module`` without unused calls of the functions ``names``, and without those that are no longer called."""
    if not names:
        return module
    result = _without_unused_in_callers(module, names)
    return result.without_functions(names - called_names(result).keys())


def _without_unused_in_callers(module: IRModule, names: Set[str]) -> IRModule:
    """``module`` without dead values in the functions that mention one of ``names``."""
    return module.with_each(
        lambda _name, function: function if names.isdisjoint(called_names(function)) else remove_all_unused(function)
    )


# --- inlining


def _inlinable(module: IRModule) -> dict[str, Function]:
    """The private functions that can be inlined: functions that do not call themselves, directly or through others."""
    return {
        name: function
        for name, function in only_called(module).items()
        if name not in reachable(module, called_names(function))
        and not any(kind in function.attrs for kind in _KEPT_WHOLE)
    }


def InlinePrivateFunctions() -> Pass:
    """Inline private functions where they are called, and remove functions that are no longer called.

    Recursive functions stay, and so do functions of backends (attributes ``Composite``, ``Codegen``, ``Primitive``). A
    dataflow block absorbs the bindings that may stand in one; it is split in two if the inlined body has branches.
    Changed functions are left canonical and without dead values, as in Relax.

    Needs: nothing. Guarantees: the same values to the bit, effects in the same order. A body called n times is written
    n times. Cost: linear in the result.
    """

    return ModulePass(lambda module, context: _inlined(module, _inlinable(module), context), "InlinePrivateFunctions")


def InlineKnownCalls(most_grown: int = MOST_GROWN) -> Pass:
    """Inline private functions whose calls have only constant arguments, so that their results can be folded.

    A function is not inlined if `FoldConstant` with ``most_grown`` would leave a part of it, such as a function that
    dequantizes a weight: the remaining operators would be more than the call.

    Needs: nothing. Guarantees: the same values to the bit, effects in the same order; functions that
    `InlinePrivateFunctions` keeps are kept. Cost: linear in the result.
    """

    def transform(module: IRModule, context: PassContext) -> IRModule:
        inlinable = _inlinable(module) if len(module) > 1 else {}
        every = walk(module) if inlinable else ()
        calls = [(called_name(expr), expr.args) for expr in every if isinstance(expr, Call)]
        stay = {
            name
            for name, args in calls
            if name in inlinable and not (all(map(_is_known, args)) and folds_whole(inlinable[name], args, most_grown))
        }
        known = {name: inlinable[name] for name, _ in calls if name in inlinable and name not in stay}
        return _inlined(module, known, context) if known else module

    return ModulePass(transform, "InlineKnownCalls")


def _is_known(operand: Expr) -> bool:
    if isinstance(operand, ShapeExpr):
        return all(isinstance(dim, int) for dim in operand.values)
    fields = operand.fields if isinstance(operand, Tuple) else (operand,)
    return all(isinstance(field, Constant) for field in fields)


def _inlined(module: IRModule, inlinable: Mapping[str, Function], context: PassContext) -> IRModule:
    """``module`` with the calls of ``inlinable`` functions replaced by their bodies."""
    done: dict[str, Function] = {}
    for name in callees_first(module):
        function = module[name]
        table: dict[str | GlobalVar, Function] = {n: done[n] for n in inlinable if n in done}
        done[name] = inline_functions(function, table, keeps_own=True)
        if done[name] is not function:
            context.tell("inline_private_functions", name, None)
    result = module.with_each(
        lambda name, function: function if done[name] is function else remove_all_unused(canonical(done[name]))
    )
    unused = inlinable.keys() - called_names(result)
    return result.without_functions(unused) if unused else result

"""LambdaLift: functions that are defined inside others become functions of the module.

The variables that such a function uses of its surrounding function become further parameters. If there are none, calls
use the new function by its name. Otherwise a closure over these variables takes its place.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain, count
from typing import cast

from ..analysis import free_symbolic_vars, free_vars
from ..analysis.values import leaves_of
from ..ir.expr import Expr, GlobalVar, Tuple, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, Op, is_call_of
from ..ir.program import Binding, Function, VarBinding
from ..ir.types import OBJECT, FuncType, Type, is_subtype
from ..ir.visitor import iter_bindings
from .context import PassContext
from .passes import ModulePass, Pass


class _FunctionLifting(ExprMutator):
    """Moves the local functions out of one function of the module."""

    def __init__(
        self,
        name: str,
        taken: set[str],
        lifted: dict[GlobalVar, Function],
        bodies: Collection[Expr],
        makers: set[Expr],
    ) -> None:
        """``makers``: the functions of the module that are known to return closures; lifted ones are added to it."""
        super().__init__()
        self._makers = makers
        self._bodies = bodies
        self._name = name
        self._taken = taken
        self._lifted = lifted
        self._closures: dict[Var, FuncType] = {}
        """For each variable that holds a closure, the type of the function that the closure was made from."""
        self._refined: set[Expr] = set()
        """The lifted functions, and the variables whose types follow theirs."""
        self._stated: Type = OBJECT
        """The type of the variable that is being bound, before functions became closures."""

    def visit_var_def_(self, var: Var) -> Var:
        self._stated = var.ty
        return var

    def _free_name(self, name: str) -> str:
        """``name``, or ``name_0``, ``name_1``, ... if the module has it, as Relax numbers them."""
        numbered = (f"{name}_{number}" for number in count())
        free = next(each for each in chain([name], numbered) if each not in self._taken)
        self._taken.add(free)
        return free

    def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
        function = binding.value
        if isinstance(function, Call) and function.op in self._makers and isinstance(self._stated, FuncType):
            self._closures[binding.var] = self._stated
        if isinstance(function, Var) and function in self._closures:  # another name of a closure
            self._closures[binding.var] = self._closures[function]
        if isinstance(function, Call) and not self._refined.isdisjoint([function.op, *leaves_of(function)]):
            refined = _as_precise_as_the_value(self, binding)
            self._refined.add(refined.var)
            return refined
        if not isinstance(function, Function) or free_symbolic_vars(function):
            return binding
        captured = [var for var in free_vars(function) if var is not binding.var]
        if captured and binding.var in self._bodies:
            return binding
        own_type = function.ty
        assert isinstance(own_type, FuncType)
        params = [Var(var.name_hint, var.ty, var.origins) for var in captured]
        row = [*function.params, *params]
        whole = FuncType([param.ty for param in row], function.ret_ty, function.is_pure)
        variable = GlobalVar(self._free_name(f"{self._name}_{binding.var.name_hint}"), whole)
        inside = _Inside(binding.var, variable, captured, params)
        body = inside.mutate(Function([], function.body, function.ret_ty, function.is_pure)).body
        attrs = {key: value for key, value in function.attrs.items() if key != "global_symbol"}
        made = Function(row, body, function.ret_ty, function.is_pure, attrs)
        if binding.var not in free_vars(function):  # the type by which a function calls itself stays
            made = _more_precise(made, Function(row, body, None, function.is_pure, attrs))
            variable = GlobalVar(variable.name_hint, made.ty)
        self._lifted[variable] = made
        self._refined.add(variable)
        if _gives_closure(made):
            self._makers.add(variable)
        if not captured:
            self.remap(binding.var, variable)
            return None
        closure = Call(Op.get("relax.make_closure"), [variable, Tuple(captured)])
        var = type(binding.var)(binding.var.name_hint, closure.ty, binding.var.origins)
        self.remap(binding.var, var)
        self._closures[var] = own_type
        return VarBinding(var, closure)

    def visit_call_(self, call: Call) -> Expr:
        own_type = self._closures.get(call.op) if isinstance(call.op, Var) else None
        if own_type is None:
            return call
        name = "relax.invoke_pure_closure" if own_type.purity else "relax.invoke_closure"
        return Call(Op.get(name), [call.op, Tuple(call.args)], {}, [own_type.ret])


def _as_precise_as_the_value(mutator: ExprMutator, binding: VarBinding) -> VarBinding:
    """``binding``, with the type of its value for the variable, if this type is more precise than the stated one."""
    old, value = binding.var, binding.value
    if value.ty == old.ty or is_subtype(value.ty, old.ty) is not True:
        return binding
    var = type(old)(old.name_hint, value.ty, old.origins)
    mutator.remap(old, var)
    return VarBinding(var, value)


def _more_precise(stated: Function, derived: Function) -> Function:
    """The function with the more precise result type, of two with one body; ``stated`` if that is not known."""
    return derived if is_subtype(derived.ret_ty, stated.ret_ty) is True else stated


class _Inside(ExprMutator):
    """The body of a local function alone: captured variables are parameters, and it calls itself by its global name.

    Variables get the types of their values, as in Relax.
    """

    def __init__(self, own: Var, variable: GlobalVar, captured: list[Var], params: list[Var]) -> None:
        super().__init__()
        self._variable = variable
        self._params = params
        self._own = own
        for var, param in zip(captured, params, strict=True):
            self.remap(var, param)
        if not captured:
            self.remap(own, variable)

    def visit_var_binding_(self, binding: VarBinding) -> Binding:
        return _as_precise_as_the_value(self, binding)

    def visit_call_(self, call: Call) -> Expr:
        if call.op is self._own and self._params:
            return Call(self._variable, [*call.args, *self._params], call.attrs, call.ty_args)
        return call


def _bodies_of_loops(function: Function) -> set[Expr]:
    values = [binding.value for binding in iter_bindings(function)]
    return {value.args[0] for value in values if is_call_of(value, "relax.loop")}


def _gives_closure(function: Function) -> bool:
    """True if the result of ``function`` is a closure that it makes."""
    values = {binding.var: binding.value for binding in iter_bindings(function)}
    return is_call_of(values.get(cast(Var, function.body.body)), "relax.make_closure")


def LambdaLift() -> Pass:
    """Turn functions that are defined inside others into functions of the module, named ``<outer>_<inner>``.

    If the function uses variables of its surrounding function, they become further parameters, and a closure
    (``R.make_closure``) takes its place. Calls of it become ``R.invoke_pure_closure``, or ``R.invoke_closure`` if it
    has effects. A function stays in place if it mentions sizes that only the outer function defines. The body of a loop
    stays, too, if it uses variables from outside: a loop takes no closure.

    Needs: nothing. Guarantees: the same values to the bit, effects in the same order. Cost: linear for each level of
    nested functions.
    """

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        taken = {variable.name_hint for variable in module.functions}
        pending = list(module.functions.items())
        table: dict[GlobalVar, Function] = {}
        makers: set[Expr] = set()
        while pending:
            variable, function = pending.pop(0)
            if any(isinstance(binding.value, Function) for binding in iter_bindings(function)):
                lifted: dict[GlobalVar, Function] = {}
                new = _FunctionLifting(variable.name_hint, taken, lifted, _bodies_of_loops(function), makers).mutate(
                    function
                )
                # The closure's type says less than the function's. Keep the stated type if it is the more precise
                # one.
                function = _more_precise(Function(new.params, new.body, function.ret_ty, new.is_pure, new.attrs), new)
                pending[:0] = lifted.items()
            elif makers:
                function = _FunctionLifting(variable.name_hint, taken, {}, set(), makers).mutate(function)
            if _gives_closure(function):
                makers.add(variable)
            table[variable] = function
        same = len(table) == len(module) and all(module.functions[v] is f for v, f in table.items())
        return module if same else IRModule(table, module.attrs)

    return ModulePass(transform, "LambdaLift", opt_level=1)

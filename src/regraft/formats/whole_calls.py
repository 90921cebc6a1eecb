"""Operators of a source model that have no counterpart here, kept whole while a program is rewritten.

Such an operator is read as several bindings. It is written as itself again only if none of them is rewritten.
`fold_calls` moves the bindings of each operator into a private function, so that passes see one call. `unfold_calls`
inlines these functions again, in their original form. The converter of the model says which operators these are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias, TypeGuard

from ..analysis import free_symbolic_vars
from ..analysis.uses import variables_of
from ..ir.expr import Constant, Expr, ShapeExpr, Tuple, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, MatchCast, SeqExpr, VarBinding
from ..ir.types import ShapeType
from ..ir.visitor import walk
from ..passes import CanonicalizeBindings, DeadCodeElimination, InlinePrivateFunctions, Sequential
from ..passes.dead_code import reachable
from ..rewrite.walk import FunctionWalk


class Whole(NamedTuple):
    """A call that was read as several bindings: a key that identifies it, a name, and the number of its bindings."""

    key: object
    name: str
    steps: int


WholeOf: TypeAlias = Callable[[Binding], Whole | None]
"""The operator that a binding is a step of; None if the binding need not be kept whole."""


class WholeCalls(NamedTuple):
    """A module in which operators are calls of private functions, and these functions by name."""

    module: IRModule
    functions: Mapping[str, Function]


def fold_calls(module: IRModule, whole_of: WholeOf) -> WholeCalls:
    """``module`` with a private function for each operator that ``whole_of`` keeps whole. Cost: linear."""
    outlined = _Outlined(module)
    changed: dict[str, Function] = {}
    for name, function in module.items():
        new = _Outlining(function, whole_of, outlined).run()
        if new is not function:
            changed[name] = new
    return WholeCalls(outlined.module.with_functions(changed), outlined.functions)


def unfold_calls(module: IRModule, functions: Mapping[str, Function]) -> IRModule:
    """``module`` with the original bodies of ``functions`` in place of their calls, whatever a pass made of them."""
    reached = reachable(module.with_functions(functions), [name for name in functions if name in module])
    called = {name: functions[name] for name in functions if name in reached}
    if not called:
        return module
    return Sequential([InlinePrivateFunctions(), CanonicalizeBindings(), DeadCodeElimination()])(
        module.with_functions(called)
    )


class _Outlined:
    """The module with the functions that have been made so far."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.functions: Final[dict[str, Function]] = {}


class _Outlining(FunctionWalk):
    """Makes the functions, and the blocks that call them, including the blocks of branches and loops."""

    def __init__(self, function: Function, whole_of: WholeOf, outlined: _Outlined) -> None:
        super().__init__(function)
        self._whole_of = whole_of
        self._outlined = outlined

    def block(
        self, block: BindingBlock, outer: dict[Var, Expr], scope: Mapping[Var, None], later: Mapping[Var, None]
    ) -> BindingBlock:
        """``block`` with calls of functions. ``later`` has the variables that are used after it."""
        runs = [(whole, list(run)) for whole, run in groupby(block.bindings, self._whole_of)]
        used = _used_elsewhere(runs, later)
        bindings: list[Binding] = []
        for whole, run in runs:
            is_there = whole is not None and len(run) >= whole.steps
            folded = self._folded(whole, run, used) if whole is not None and is_there else None
            bindings.extend(run if folded is None else folded)
        return block if len(bindings) == len(block.bindings) else type(block)(bindings)

    def _folded(self, whole: Whole, run: Sequence[Binding], used: set[Var]) -> list[Binding] | None:
        """A call of a new function that holds ``run``, and its results; None if no result of ``run`` is used."""
        own = {binding.var for binding in run}
        variables = dict.fromkeys(var for binding in run for var in variables_of(binding.value) if var not in own)
        # Weights are operands, so that passes that look at the calling function see every reader of a weight.
        weights = {id(one.data): one for binding in run for one in walk(binding.value) if _is_weight(one)}
        operands: list[Var | Constant] = [*variables, *weights.values()]
        outputs = [binding.var for binding in run if binding.var in used]
        if not outputs:
            return None
        function = _function(run, operands, outputs)
        sizes = free_symbolic_vars(function)
        if sizes:  # sizes that no operand states, such as n if an operand has the size (n + 1) // 2
            given = Var("sizes", ShapeType(sizes))
            function = Function([*function.params, given], function.body)
        outlined = self._outlined
        name = _free_name(outlined.module, whole.name.replace(".", "_"))
        outlined.module = outlined.module.with_function(name, function)
        outlined.functions[name] = function
        value = Call(outlined.module.get_global_var(name), [*operands, ShapeExpr(sizes)] if sizes else operands)
        if len(outputs) == 1:
            return [_bound(outputs[0], value)]
        parts = type(run[0].var)(name, value.ty, outputs[0].origins)
        return [VarBinding(parts, value), *[_bound(var, parts[index]) for index, var in enumerate(outputs)]]


def _bound(var: Var, value: Expr) -> Binding:
    """A binding of ``value`` to ``var``; a `MatchCast` if ``var`` has sizes that the function computes at run time."""
    return VarBinding(var, value) if value.ty == var.ty else MatchCast(var, value, var.ty)


def _is_weight(expr: Expr) -> TypeGuard[Constant]:
    return isinstance(expr, Constant) and expr.data.name is not None


def _used_elsewhere(runs: Sequence[tuple[Whole | None, list[Binding]]], returned: Iterable[Var]) -> set[Var]:
    """The variables that are used outside of the run that binds them."""
    found = set(returned)
    for _, run in runs:
        own = {binding.var for binding in run}
        found.update(var for binding in run for var in variables_of(binding.value) if var not in own)
    return found


def _function(run: Sequence[Binding], operands: Sequence[Var | Constant], outputs: Sequence[Var]) -> Function:
    """A private function of ``operands`` that returns ``outputs``. Its parameters are variables of its own."""
    given = [Var(_name(operand), operand.ty) for operand in operands]
    results = [Var(var.name_hint, var.ty, var.origins) for var in outputs]
    body = [*run, *[VarBinding(result, var) for result, var in zip(results, outputs, strict=True)]]
    seq = SeqExpr([DataflowBlock(body)], results[0] if len(results) == 1 else Tuple(results))
    return Function(given, _OnOperands(operands, given).mutate(seq))


def _name(operand: Var | Constant) -> str:
    return operand.name_hint if isinstance(operand, Var) else "weight"


class _OnOperands(ExprMutator):
    """Replaces the operands of a function by its parameters."""

    def __init__(self, operands: Sequence[Var | Constant], given: Sequence[Var]) -> None:
        super().__init__()
        self._weights: Final[dict[int, Var]] = {}
        for operand, param in zip(operands, given, strict=True):
            if isinstance(operand, Var):
                self.remap(operand, param)
            else:
                self._weights[id(operand.data)] = param

    def visit_constant_(self, constant: Constant) -> Expr:
        """The parameter of a weight; any other constant is kept."""
        return self._weights.get(id(constant.data), constant)


def _free_name(module: IRModule, stem: str) -> str:
    name, count = stem, 0
    while name in module:
        count += 1
        name = f"{stem}_{count}"
    return name

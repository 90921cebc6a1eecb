"""LiftTransformParams: values computed from weights alone are computed once, by a separate function.

A function whose attribute ``num_input`` is n has n inputs, followed by weights. The values that depend on weights only
move to ``<name>_transform_params(model_params)``. The remaining function takes these values instead of the weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from ..analysis import defined_symbolic_vars, free_symbolic_vars, remove_all_unused
from ..analysis.compile_time import known_before_inputs, weights_of
from ..analysis.values import leaves_of
from ..analysis.variables import own_symvars
from ..ir.builder import NameSupply
from ..ir.dims import SymVar
from ..ir.expr import Constant, Expr, ShapeExpr, Tuple, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator, NewVariables
from ..ir.op import Call, is_call_of
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, MatchCast, SeqExpr, VarBinding, merge_blocks
from ..ir.reading import defining_symvars
from ..ir.types import ShapeType, type_symvars
from ..ir.visitor import iter_bindings
from ..rewrite.session import computation_key
from .argument_interface import bundled
from .canonicalize_bindings import PARTS_LEVEL, canonical
from .context import PassContext, PassError
from .passes import ModulePass, Pass

_Number: TypeAlias = int
_STOP: Final = "relax.builtin.stop_lift_params"


class _Numbering:
    """Numbers for values. The same computation on the same weights has the same number in several functions.

    Within one function, equal values have different numbers: each is lifted.
    """

    def __init__(self) -> None:
        self._numbers: dict[object, _Number] = {}

    def weight(self, index: int) -> _Number:
        """The number of a weight."""
        return self._numbers.setdefault(("weight", index), len(self._numbers))

    def value(self, binding: Binding, numbers: Mapping[Var, _Number], seen: Counter[object]) -> _Number:
        """The number of a bound value of a function; ``seen`` counts the equal values computed before it."""
        cast = binding.ty if isinstance(binding, MatchCast) else None
        key = (cast, computation_key(binding.value, numbers.__getitem__))
        seen[key] += 1
        return self._numbers.setdefault((key, seen[key]), len(self._numbers))


class _Liftable(NamedTuple):
    """The part of a function that can be lifted: its bindings in order, and the numbers of all values it may use."""

    function: Function
    bindings: dict[Var, Binding]
    numbers: dict[Var, _Number]
    from_weights: dict[Var, None]
    """The bindings that depend on a weight.

    Values that depend on no weight are cheap, and computed where they are used.
    """


def _liftable(function: Function, numbering: _Numbering) -> _Liftable:
    """The values of dataflow blocks that depend on no input and on no size of an input."""
    known = known_before_inputs(function, casts=True)
    sizes = {size for weight in weights_of(function) for size in defining_symvars(weight.ty)}
    numbers = {weight: numbering.weight(index) for index, weight in enumerate(weights_of(function))}
    part = _Liftable(function, {}, numbers, {})
    seen: Counter[object] = Counter()
    for block in function.body.blocks:
        for binding in block if isinstance(block, DataflowBlock) else ():
            value, var = binding.value, binding.var
            if var not in known or is_call_of(value, _STOP):
                continue
            leaves = leaves_of(value)
            variables = [leaf for leaf in leaves if isinstance(leaf, Var)]
            if not all(leaf in numbers for leaf in variables):
                continue
            mentioned = {*type_symvars(var.ty), *type_symvars(value.ty), *own_symvars(value)}
            for leaf in leaves:
                mentioned.update(own_symvars(leaf))
            if mentioned <= sizes:
                numbers[var] = numbering.value(binding, numbers, seen)
                part.bindings[var] = binding
                if any(leaf in part.from_weights or leaf not in part.bindings for leaf in variables):
                    part.from_weights[var] = None
    return part


class _Kept(ExprMutator):
    """Drops the bindings that were lifted, and the markers that kept others from being lifted."""

    def __init__(self, lifted: Mapping[Var, object]) -> None:
        super().__init__()
        self._lifted = lifted

    def visit_call_(self, call: Call) -> Expr:
        return call.args[0] if is_call_of(call, _STOP) else call

    def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
        return None if binding.var in self._lifted else binding

    def visit_match_cast_(self, binding: MatchCast) -> Binding | None:
        return None if binding.var in self._lifted else binding


def _boundary(part: _Liftable, lifted: Mapping[Var, object]) -> dict[Var, None]:
    """The weights and lifted values that the rest of the function uses."""
    function = part.function
    reach = {**dict.fromkeys(weights_of(function)), **dict.fromkeys(lifted)}
    values = [binding.value for binding in iter_bindings(function) if binding.var not in lifted]
    used = {leaf for value in (*values, function.body.body) for leaf in leaves_of(value)}
    return {var: None for var in reach if var in used}


def _runtime(
    part: _Liftable, lifted: Mapping[Var, object], received: Mapping[_Number, None], sizes: Sequence[SymVar]
) -> Function:
    """The remaining function: after its inputs it takes ``sizes``, then the values with the numbers ``received``."""
    function = part.function
    inputs = function.params[: len(function.params) - len(weights_of(function))]
    params: dict[_Number, Var] = {}
    kept = _Kept(lifted)
    for var, number in part.numbers.items():
        if number not in received or (var not in lifted and var in part.bindings):
            continue
        if number not in params:
            params[number] = Var(var.name_hint, var.ty, var.origins)
        kept.remap(var, params[number])
    body = kept.mutate(Function([], function.body, function.ret_ty, function.is_pure))
    shape = [Var("vars_from_compile_time_params", ShapeType(sizes))] if sizes else []
    row = [*inputs, *shape, *(params[number] for number in received)]
    return Function(row, _with_bound_result(body), function.ret_ty, function.is_pure, function.attrs)


def _with_bound_result(function: Function) -> SeqExpr:
    """The body of ``function``. If the result is a tuple or another expression, it is bound to a variable."""
    seq = function.body
    if isinstance(seq.body, Var | Constant):
        return seq
    result = Var(NameSupply.beside(function).fresh("gv"), seq.body.ty)
    return SeqExpr(merge_blocks([*seq.blocks, BindingBlock([VarBinding(result, seq.body)])]), result)


def _transform(part: _Liftable, outputs: Sequence[Var], sizes: Sequence[SymVar], name: str) -> Function:
    """The function of all weights that returns ``outputs``, after the sizes of weights as a shape if there are any."""
    fields = [*([ShapeExpr(sizes)] if sizes else []), *outputs]
    attrs = {"global_symbol": name, "num_input": 0}
    result: Expr = Tuple(fields)
    bindings: list[Binding] = [*part.bindings.values()]
    if fields:
        output = Var("output_tuple", result.ty)
        bindings.append(VarBinding(output, result))
        result = output
    body = SeqExpr([DataflowBlock(bindings)] if fields and bindings else [], result)
    whole = Function(weights_of(part.function), body, None, True, attrs)
    return remove_all_unused(canonical(bundled(NewVariables().mutate(whole), "model_params")))


def _lost_sizes(
    parts: Sequence[_Liftable], lifted: Sequence[Mapping[Var, Binding]], outputs: dict[_Number, None]
) -> list[SymVar]:
    """The sizes of weights that a remaining function mentions, and that none of its parameters defines."""
    lost: dict[SymVar, None] = {}
    for part, own in zip(parts, lifted, strict=True):
        missing = set(free_symbolic_vars(_runtime(part, own, outputs, ())))
        for weight in weights_of(part.function) if missing else ():
            lost.update((size, None) for size in defining_symvars(weight.ty) if size in missing)
    return list(lost)


def _lift(module: IRModule, names: Sequence[str], transform_name: str) -> IRModule:
    """``module`` with one new function that computes what all functions of ``names`` compute from the weights."""
    numbering = _Numbering()
    parts = [_liftable(module[name], numbering) for name in names]
    common = {parts[0].numbers[var] for var in parts[0].from_weights}
    for part in parts[1:]:
        common &= {part.numbers[var] for var in part.from_weights}
    if transform_name in module:
        if not common:
            return module
        raise PassError(f"LiftTransformParams: the module has a function {transform_name!r} already; rename it first")
    lifted = [{var: part.bindings[var] for var in part.from_weights if part.numbers[var] in common} for part in parts]
    used = {part.numbers[var] for part, own in zip(parts, lifted, strict=True) for var in _boundary(part, own)}
    outputs = {number: None for number in parts[0].numbers.values() if number in used}
    sizes = _lost_sizes(parts, lifted, outputs)
    variables = {number: var for var, number in parts[0].numbers.items()}
    made = _transform(parts[0], [variables[number] for number in outputs], sizes, transform_name)
    table = {transform_name: made, **dict(module.items())}
    for name, part, own in zip(names, parts, lifted, strict=True):
        table[name] = canonical(_runtime(part, own, outputs, sizes))
    return IRModule(table, module.attrs)


def _with_sizes_of(first: Function, function: Function) -> Function:
    """``function`` with the sizes of its weights renamed to those of ``first``, in order of occurrence."""
    theirs, own = (
        dict.fromkeys(size for weight in weights_of(f) for size in type_symvars(weight.ty)) for f in (first, function)
    )
    renamed: dict[str | SymVar, SymVar] = {a: b for a, b in zip(own, theirs, strict=False) if a is not b}
    there = {*defined_symbolic_vars(function), *own}
    return function.bind_symbolic_vars(renamed) if renamed and there.isdisjoint(renamed.values()) else function


def LiftTransformParams(shared_transform: bool | Sequence[str] = False) -> Pass:
    """Move computations on weights into ``<name>_transform_params``, to be run once, before the first call.

    The weights are the parameters after the first ``num_input``, an attribute of the function; functions without it are
    left alone. Values of dataflow blocks move if they depend on no input and no ``stop_lift_params`` keeps them. Values
    that do not depend on weights either are computed on both sides. The new function takes all weights as one tuple. It
    returns, as one tuple, what the remaining function takes instead of the weights: the sizes of weights that nothing
    else defines, as one shape; the weights that it uses unchanged; and the values computed from weights. With
    ``shared_transform`` (True, or the names of functions) there is one ``transform_params`` for all of them, with the
    computations that they share.

    Needs: the attribute ``num_input``; for a shared transform, the same order of weights in each function. Guarantees:
    ``f(*inputs, *f_transform_params(weights))`` returns what ``f(*inputs, *weights)`` returned. Raises `PassError` for
    a name that is taken or does not exist, and if functions that share a transform have different weights. Cost:
    linear.
    """

    def transform(module: IRModule, context: PassContext) -> IRModule:
        if context.opt_level < PARTS_LEVEL:
            return module
        # Functions of weights alone are the results of this pass.
        told = [(n, f) for n, f in module.items() if "num_input" in f.attrs]
        with_inputs = [n for n, f in told if len(weights_of(f)) < len(f.params) or not f.params]
        if shared_transform is False:
            for name in with_inputs:
                module = _lift(module, [name], f"{name}_transform_params")
            return module
        names = with_inputs if shared_transform is True else list(shared_transform)
        for name in names:
            if name not in with_inputs:
                raise PassError(
                    f"LiftTransformParams: {name!r} does not say which of its parameters are inputs; set num_input"
                )
        if not names:
            return module
        for name in names[1:]:
            module = module.with_functions({name: _with_sizes_of(module[names[0]], module[name])})
            first, own = ([weight.ty for weight in weights_of(module[shared])] for shared in (names[0], name))
            if own != first:
                raise PassError(
                    f"LiftTransformParams: {name} and {names[0]} cannot share a transform: their weights differ, "
                    f"{own} and {first}"
                )
        return _lift(module, names, "transform_params")

    return ModulePass(transform, "LiftTransformParams", keeps_values=False)

"""LiftTransformParams: what is made of weights alone is computed once, by a function of its own.

A function whose attribute ``num_input`` is n has n inputs, and weights after them. The values that depend on weights
only move to ``<name>_transform_params(model_params)``; what is left takes them in the place of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ..analysis import free_symbolic_vars
from ..analysis.variables import own_symvars
from ..ir.equality import defining_symvars
from ..ir.expr import Constant, DataflowVar, Expr, PrimValue, ShapeExpr, StringImm, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, attribute_key
from ..ir.program import Binding, DataflowBlock, Function, SeqExpr, VarBinding
from ..ir.types import TensorType, TupleType, Type, type_symvars
from ..ir.visitor import iter_bindings
from ..pattern.matcher.view import leaves_of
from .compile_time import known_before_inputs, weights_of
from .context import PassContext, PassError
from .passes import ModulePass, Pass

_Number: TypeAlias = int


class _Numbering:
    """Numbers for values, the same for the same computation on the same weights, also across functions."""

    def __init__(self) -> None:
        self._numbers: dict[object, _Number] = {}

    def weight(self, index: int) -> _Number:
        """The number of a weight."""
        return self._numbers.setdefault(("weight", index), len(self._numbers))

    def value(self, value: Expr, numbers: Mapping[Var, _Number]) -> _Number:
        """The number of a bound value."""
        return self._numbers.setdefault(self._key(value, numbers), len(self._numbers))

    def _key(self, value: Expr, numbers: Mapping[Var, _Number]) -> object:
        match value:
            case Call():
                args = tuple([self._key(arg, numbers) for arg in value.args])
                return ("call", value.op, args, value.attrs, value.ty_args)
            case TupleGetItem():
                return ("field", self._key(value.tuple_value, numbers), value.index)
            case Tuple():
                return ("tuple", *[self._key(field, numbers) for field in value.fields])
            case Var():
                return numbers[value]
            case Constant():
                return ("constant", id(value.data))
            case ShapeExpr():
                return ("shape", value.values)
            case PrimValue():
                return ("prim", value.ty, attribute_key(value.value))
            case StringImm():
                return ("string", value.value)
            case _:
                return value


class _Part(NamedTuple):
    """What could be lifted out of one function: its bindings in order, and the numbers of all values in reach."""

    function: Function
    bindings: dict[Var, VarBinding]
    numbers: dict[Var, _Number]


def _liftable(function: Function, numbering: _Numbering) -> _Part:
    """The values of ``function`` that weights alone decide, tensors or tuples of them, with no size of an input."""
    known = known_before_inputs(function)
    sizes = {size for weight in weights_of(function) for size in type_symvars(weight.ty)}
    numbers = {weight: numbering.weight(index) for index, weight in enumerate(weights_of(function))}
    bindings: dict[Var, VarBinding] = {}
    for block in function.body.blocks:
        for binding in block:
            if binding.var not in known or not isinstance(binding, VarBinding):
                continue
            leaves = [leaf for leaf in leaves_of(binding.value) if isinstance(leaf, Var)]
            if not leaves or not all(leaf in numbers for leaf in leaves) or not _is_data(binding.var.ty):
                continue
            mentioned = {*type_symvars(binding.value.ty), *own_symvars(binding.value)}
            for leaf in leaves_of(binding.value):
                mentioned.update(own_symvars(leaf))
            if mentioned <= sizes:
                numbers[binding.var] = numbering.value(binding.value, numbers)
                bindings[binding.var] = binding
    return _Part(function, bindings, numbers)


def _is_data(ty: Type) -> bool:
    if isinstance(ty, TupleType):
        return all(_is_data(field) for field in ty.fields)
    return isinstance(ty, TensorType)


class _Kept(ExprMutator):
    """Drops the bindings that were lifted."""

    def __init__(self, lifted: Mapping[Var, object]) -> None:
        super().__init__()
        self._lifted = lifted

    def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
        return None if binding.var in self._lifted else binding


def _boundary(part: _Part, lifted: Mapping[Var, object]) -> dict[Var, None]:
    """The weights and lifted values that the rest of the function uses, and weights that define sizes it needs."""
    function = part.function
    reach = {**dict.fromkeys(weights_of(function)), **dict.fromkeys(lifted)}
    used: dict[Var, None] = {}
    for binding in iter_bindings(function):
        if binding.var not in lifted:
            used.update((leaf, None) for leaf in leaves_of(binding.value) if leaf in reach and isinstance(leaf, Var))
    used.update((leaf, None) for leaf in leaves_of(function.body.body) if leaf in reach and isinstance(leaf, Var))
    return {var: None for var in reach if var in used}


def _runtime(part: _Part, lifted: Mapping[Var, object], received: Mapping[_Number, None]) -> Function:
    """What is left of the function, which takes the values of those numbers after its inputs."""
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
    row = [*inputs, *(params[number] for number in received)]
    return Function(row, body.body, function.ret_ty, function.is_pure, function.attrs)


def _transform(part: _Part, lifted: Mapping[Var, VarBinding], outputs: Sequence[Var], name: str) -> Function:
    """The function of all weights that computes ``outputs``."""
    weights = weights_of(part.function)
    model_params = Var("model_params", TupleType([weight.ty for weight in weights]))
    bindings: list[Binding] = []
    table: dict[Var, Expr] = {}
    renaming = ExprMutator()
    needed = _needed(outputs, lifted)
    for index, weight in enumerate(weights):
        if weight in needed:
            table[weight] = local = DataflowVar(weight.name_hint, weight.ty, weight.origins)
            renaming.remap(weight, local)
            bindings.append(VarBinding(local, TupleGetItem(model_params, index)))
    for var, binding in lifted.items():
        if var in needed:
            table[var] = local = DataflowVar(var.name_hint, var.ty, var.origins)
            bindings.append(VarBinding(local, renaming.mutate(binding.value)))
            renaming.remap(var, local)
    result = Tuple([table[var] for var in outputs])
    output = Var("output_tuple", result.ty)
    bindings.append(VarBinding(output, result))
    attrs = {"global_symbol": name, "num_input": 0}
    return Function([model_params], SeqExpr([DataflowBlock(bindings)], output), None, True, attrs)


def _needed(outputs: Sequence[Var], lifted: Mapping[Var, VarBinding]) -> set[Expr]:
    found: set[Expr] = set()
    pending: list[Expr] = list(outputs)
    while pending:
        var = pending.pop()
        if var not in found:
            found.add(var)
            if var in lifted:
                pending.extend(leaves_of(lifted[var].value))  # pyright: ignore[reportArgumentType]
    return found


def _with_sizes(
    parts: Sequence[_Part], lifted: Sequence[Mapping[Var, VarBinding]], outputs: dict[_Number, None]
) -> dict[_Number, None]:
    """``outputs`` after the weights that define sizes which what is left of a function still mentions."""
    definers: dict[_Number, None] = {}
    for part, own in zip(parts, lifted, strict=True):
        missing = set(free_symbolic_vars(_runtime(part, own, outputs)))
        for weight in weights_of(part.function) if missing else ():
            defined = missing.intersection(size for size in defining_symvars(weight.ty) if size is not None)
            if defined:
                missing -= defined
                definers[part.numbers[weight]] = None
    return {**definers, **outputs}


def _lift(module: IRModule, names: Sequence[str], transform_name: str) -> IRModule:
    """``module`` with what all functions of ``names`` make of the weights computed by one new function."""
    numbering = _Numbering()
    parts = [_liftable(module[name], numbering) for name in names]
    common = {parts[0].numbers[var] for var in parts[0].bindings}
    for part in parts[1:]:
        common &= {part.numbers[var] for var in part.bindings}
    if not common:
        return module
    if transform_name in module:
        raise PassError(f"LiftTransformParams: the module has a function {transform_name!r} already; rename it first")
    lifted = [{var: one for var, one in part.bindings.items() if part.numbers[var] in common} for part in parts]
    used = {part.numbers[var] for part, own in zip(parts, lifted, strict=True) for var in _boundary(part, own)}
    in_order = {number: None for number in parts[0].numbers.values() if number in used}
    outputs = _with_sizes(parts, lifted, in_order)
    first: dict[_Number, Var] = {}
    for var, number in parts[0].numbers.items():
        first.setdefault(number, var)
    made = _transform(parts[0], lifted[0], [first[number] for number in outputs], transform_name)
    table = {transform_name: made, **dict(module.items())}
    for name, part, own in zip(names, parts, lifted, strict=True):
        table[name] = _runtime(part, own, outputs)
    return IRModule(table, module.attrs)


def LiftTransformParams(shared_transform: bool | Sequence[str] = False) -> Pass:
    """Move what depends on weights only into ``<name>_transform_params``, to be run once, before the first call.

    Weights are the parameters after the first ``num_input``, an attribute of the function; functions without it are
    left alone. The new function takes all weights as one tuple and gives, as one tuple, what the function takes in
    their place: weights that it uses as they are, then what was made of them. With ``shared_transform`` (True, or the
    names of functions) there is one ``transform_params`` for all of them, which does what they all do.

    Needs: the attribute ``num_input``; weights of a shared transform in the same order in each function. Guarantees:
    ``f(*inputs, *f_transform_params(weights))`` gives what ``f(*inputs, *weights)`` gave. A function that does nothing
    with its weights alone stays as it is, without a new one. Raises `PassError` for a name that is taken or not there,
    and where functions that share a transform have different weights. Cost: linear.
    """

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        # A function of weights alone is what this pass makes.
        with_weights = [n for n, f in module.items() if 0 < len(weights_of(f)) < len(f.params)]
        if shared_transform is False:
            for name in with_weights:
                module = _lift(module, [name], f"{name}_transform_params")
            return module
        names = with_weights if shared_transform is True else list(shared_transform)
        for name in names:
            if name not in with_weights:
                raise PassError(
                    f"LiftTransformParams: {name!r} has no weights beside inputs; its attribute num_input tells them"
                )
        if not names:
            return module
        types = {name: [weight.ty for weight in weights_of(module[name])] for name in names}
        for name in names[1:]:
            if types[name] != types[names[0]]:
                raise PassError(
                    f"LiftTransformParams: {name} and {names[0]} cannot share a transform: their weights differ, "
                    f"{types[name]} and {types[names[0]]}"
                )
        return _lift(module, names, "transform_params")

    return ModulePass(transform, "LiftTransformParams", keeps_values=False)

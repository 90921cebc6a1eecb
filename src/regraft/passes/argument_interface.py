"""Passes that change how a function receives its weights and returns its results.

BundleModelParams takes the weights as one tuple. LazyGetInput calls a function for each weight when it is needed.
LazySetOutput passes each result to a function as soon as it is computed. LazyTransformParams does both in the function
that prepares the weights. The weights are the parameters after the first ``num_input``, an attribute of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..analysis import called_names, free_symbolic_vars, free_vars, remove_all_unused
from ..analysis.values import leaves_of
from ..ir.builder import NameSupply
from ..ir.dims import SymVar
from ..ir.expr import DataflowVar, Expr, ExternFunc, PrimValue, StringImm, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, MatchCast, SeqExpr, VarBinding
from ..ir.reading import defining_symvars
from ..ir.types import OBJECT, FuncType, PrimType, ShapeType, TupleType, Type, erase_unbound, type_symvars
from ..ir.visitor import iter_bindings
from ..op.vm import kill_object
from .context import PassContext
from .normalize import to_plain_blocks
from .parameter_types import OpenedTuples
from .passes import FunctionPass, ModulePass, Pass

_INDEX = PrimType("int64")
_UNIT = TupleType(())


def _count_inputs(function: Function) -> int | None:
    count = function.attrs.get("num_input")
    return count if isinstance(count, int) else None


# --- one tuple


class _Bundling(ExprMutator):
    """Replaces each use of a weight by its field of the tuple."""

    def __init__(self, bundle: Var, weights: Sequence[Var]) -> None:
        super().__init__()
        self._bundle = bundle
        self._places = {weight: index for index, weight in enumerate(weights)}

    def visit_var_(self, var: Var) -> Expr:
        place = self._places.get(var)
        return var if place is None else self.emit(TupleGetItem(self._bundle, place), var.name_hint)


def bundled(function: Function, name: str) -> Function:
    """``function`` with its weights taken as one tuple called ``name``; unchanged without ``num_input``."""
    count = _count_inputs(function)
    if count is None:
        return function
    weights = function.params[count:]
    bundle = Var(name, TupleType([weight.ty for weight in weights]))
    body = Function([], function.body, function.ret_ty, function.is_pure)
    new = _Bundling(bundle, weights).mutate(body)
    return Function([*function.params[:count], bundle], new.body, function.ret_ty, function.is_pure, function.attrs)


def BundleModelParams(param_tuple_name: str | None = None) -> Pass:
    """Take the weights of each function as one tuple, after its inputs, called ``param_tuple_name``.

    The default name is ``model_params``. Functions without the attribute ``num_input`` stay as they are.

    Needs: nothing. Guarantees: ``f(*inputs, weights)`` returns what ``f(*inputs, *weights)`` returned. Cost: linear.
    """
    return FunctionPass(
        lambda function, _module, _context: bundled(function, param_tuple_name or "model_params"),
        "BundleModelParams",
        keeps_values=False,
        opt_level=1,
    )


# --- values that are fetched when they are needed


class _Fetching:
    """Binds each weight to a fetched value, just before the first binding that needs the weight."""

    def __init__(
        self, function: Function, weights: Sequence[Var], fetch: Callable[[int, Var, Callable[[str], str]], list[Any]]
    ) -> None:
        self._function = function
        self._places = {weight: index for index, weight in enumerate(weights)}
        self._fetch = fetch
        self._fetched: dict[Var, Var] = {}
        self._names = NameSupply.beside(function)
        inputs = [param for param in function.params if param not in self._places]
        self._sizes = {size for param in inputs for size in defining_symvars(param.ty)}
        self._definers: dict[SymVar, Var] = {}
        for weight in weights:
            for size in defining_symvars(weight.ty):
                if size not in self._sizes:
                    self._definers.setdefault(size, weight)

    def run(self) -> SeqExpr:
        """The body, with bindings that fetch the weights."""
        body = self._function.body
        used_in = self._last_blocks(body)
        blocks: list[BindingBlock] = []
        for number, block in enumerate(body.blocks):
            bindings: list[Binding] = []
            for binding in block.bindings:
                types = (binding.var.ty, binding.ty) if isinstance(binding, MatchCast) else (binding.var.ty,)
                for weight in self._missing(binding.value, types):
                    local = isinstance(block, DataflowBlock) and used_in.get(weight, number) == number
                    self._add(weight, bindings, DataflowVar if local else Var)
                bindings.append(binding)
            blocks.append(block if len(bindings) == len(block) else type(block)(bindings))
        last: list[Binding] = []
        for weight in self._missing(body.body, ()):
            self._add(weight, last, Var)
        if last:
            blocks.append(BindingBlock(last))
        renaming = ExprMutator()
        for weight, value in self._fetched.items():
            renaming.remap(weight, value)
        return renaming.mutate(SeqExpr(blocks, body.body))

    def _missing(self, value: Expr, types: Sequence[Type]) -> list[Var]:
        """The weights to fetch before ``value`` is bound: those it uses, and those whose types define its sizes."""
        used = [value] if isinstance(value, Var) else free_vars(value)
        pending = [var for var in used if var in self._places and var not in self._fetched]
        told = {size for weight in pending for size in defining_symvars(weight.ty)}
        mentioned = [*free_symbolic_vars(value), *(size for ty in types for size in type_symvars(ty))]
        mentioned.extend(size for weight in pending for size in type_symvars(weight.ty))
        first: dict[Var, None] = {}
        later: dict[Var, None] = {}
        for size in mentioned:
            if size in self._sizes or size in told or size not in self._definers:
                continue
            needs_it = any(size in type_symvars(weight.ty) for weight in pending)
            (first if needs_it else later)[self._definers[size]] = None
        return list(dict.fromkeys((*first, *pending, *later)))

    def _last_blocks(self, body: SeqExpr) -> dict[Var, int]:
        """The number of the last block that uses each weight; the number of blocks if the result uses it."""
        last: dict[Var, int] = {}
        for number, block in enumerate(body.blocks):
            for var in free_vars(SeqExpr([block], Tuple([]))):
                last[var] = number
        result = [body.body] if isinstance(body.body, Var) else free_vars(body.body)
        last.update((var, len(body.blocks)) for var in result)
        return last

    def _add(self, weight: Var, bindings: list[Binding], kind: type[Var]) -> None:
        steps = self._fetch(self._places[weight], weight, self._names.fresh)
        untyped = kind(steps[0], OBJECT)
        bindings.append(VarBinding(untyped, steps[1]))
        typed = kind(weight.name_hint, weight.ty, weight.origins)
        bindings.append(MatchCast(typed, untyped, weight.ty))
        self._fetched[weight] = typed
        self._sizes.update(defining_symvars(weight.ty))


def LazyGetInput() -> Pass:
    """Call a function for each weight when it is first needed, instead of taking all weights as arguments.

    The new parameter ``fget_param``, after the inputs, is called with a weight's number and name and returns its value.
    Without the attribute ``num_input`` all parameters are weights. Private functions without this attribute stay as
    they are, and so do functions without it that others call.

    Needs: nothing. Guarantees: the same values, if ``fget_param`` returns the weights. Cost: linear in the module.
    """

    def transform(function: Function, module: IRModule, _context: PassContext) -> Function:
        count = _count_inputs(function)
        if count is None:
            if function.is_private or function.name in called_names(module):
                return function
            count = 0
        getter = Var("fget_param", FuncType([_INDEX, OBJECT], OBJECT, True))

        def fetch(index: int, weight: Var, fresh: Callable[[str], str]) -> list[Any]:
            call = Call(getter, [PrimValue(index), StringImm(weight.name_hint)])
            return [fresh(f"{weight.name_hint}_untyped"), call]

        body = _Fetching(function, function.params[count:], fetch).run()
        attrs = {**function.attrs, "num_input": count + 1}
        inputs = function.params[:count]
        sizes = {size for param in inputs for size in type_symvars(param.ty)}
        ret_ty = erase_unbound(function.ret_ty, sizes.__contains__)
        return remove_all_unused(Function([*inputs, getter], body, ret_ty, function.is_pure, attrs))

    return FunctionPass(transform, "LazyGetInput", keeps_values=False)


# --- values that are handed on when they are there


def _handed_on(function: Function, hand_on: Callable[[int, Expr], Binding]) -> SeqExpr:
    """The body with ``hand_on(index, value)`` as soon as all operands of a result are bound; it returns an empty tuple.

    If the body returns a tuple that is written out, each field is a result. A tuple variable is one result.
    """
    plain = to_plain_blocks(function)
    result = plain.body.body
    wanted: dict[Expr, list[int]] = {}
    for index, value in enumerate(result.fields if isinstance(result, Tuple) else [result]):
        wanted.setdefault(value, []).append(index)
    steps = [binding for block in plain.body.blocks for binding in block.bindings]
    places = {binding.var: place for place, binding in enumerate(steps, 1)}
    ready: list[list[Binding]] = [[] for _ in range(len(steps) + 1)]
    for value, indices in wanted.items():
        place = max((places.get(leaf, 0) for leaf in leaves_of(value) if isinstance(leaf, Var)), default=0)
        ready[place].extend(hand_on(index, value) for index in indices)
    bindings = [*ready[0], *(new for step, after in zip(steps, ready[1:], strict=True) for new in (step, *after))]
    return SeqExpr([BindingBlock(bindings)] if bindings else [], Tuple([]))


def _written_out(function: Function) -> Expr:
    """The result of the function. If it is a variable that is bound to a tuple expression, this tuple."""
    result = function.body.body
    for block in function.body.blocks:
        for binding in block.bindings:
            if binding.var is result and isinstance(binding, VarBinding) and isinstance(binding.value, Tuple):
                return binding.value
    return result


def LazySetOutput() -> Pass:
    """Pass each result to a function as soon as it is computed, instead of returning all results at the end.

    The new parameter ``fset_output``, after the inputs, is called with a result's number and value. Dataflow blocks
    become plain blocks, since the call is an effect. Private functions, and functions that others call, stay as they
    are.

    Needs: nothing. Guarantees: each result is passed on once; the function returns an empty tuple. Cost: linear.
    """

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        called = called_names(module)
        return module.with_each(
            lambda name, function: function if function.is_private or name in called else _handing_on(function)
        )

    return ModulePass(transform, "LazySetOutput", keeps_values=False)


def _handing_on(function: Function) -> Function:
    """``function`` with a new parameter: the function that receives its results."""
    count = _count_inputs(function)
    setter = Var("fset_output", FuncType([_INDEX, OBJECT], _UNIT, False))

    def hand_on(index: int, value: Expr) -> Binding:
        return VarBinding(Var("_", _UNIT), Call(setter, [PrimValue(index), value]))

    body = _handed_on(function, hand_on)
    place = len(function.params) if count is None else count
    params = [*function.params[:place], setter, *function.params[place:]]
    attrs = function.attrs if count is None else {**function.attrs, "num_input": count + 1}
    return Function(params, body, _UNIT, False, attrs)


def LazyTransformParams(
    fget_item: str | None = "get_item",
    fset_item: str | None = "set_item",
    extra_get_item_params: Sequence[Var] | None = None,
    extra_set_item_params: Sequence[Var] | None = None,
) -> Pass:
    """Let functions that prepare weights (``..._transform_params``) fetch each weight when they need it.

    ``fget_item(*extra_get_item_params, number)`` returns a weight; ``fset_item(*extra_set_item_params, number, value)``
    receives a result. Both are registered functions from outside the module. The extra parameters become parameters of
    the functions. A result is passed on after the last binding that uses it, and a fetched field of the weights' tuple
    is freed there (``R.vm.kill_object``). With ``fset_item=None`` results are returned as before, and nothing is freed.
    With ``fget_item=None`` the weights stay parameters, and no field is freed. The weights are either one tuple or one
    parameter each. Shapes and numbers among them stay parameters if types of weights define sizes.

    Needs: nothing. Guarantees: the same values, if ``fget_item`` returns the weights. Cost: linear.
    """
    before = list(extra_get_item_params or ())
    behind = list(extra_set_item_params or ())

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        def change(name: str, function: Function) -> Function:
            if not name.endswith("transform_params"):
                return function
            return _lazy_transform(function, fget_item, fset_item, before, behind)

        return module.with_each(change)

    return ModulePass(transform, "LazyTransformParams", keeps_values=False)


def _lazy_transform(
    function: Function, getter: str | None, setter: str | None, before: Sequence[Var], behind: Sequence[Var]
) -> Function:
    function = to_plain_blocks(function).without_attr("relax.force_pure")
    count = _count_inputs(function) or 0
    inputs, weights = function.params[:count], function.params[count:]
    body = function.body
    if setter is not None:

        def hand_on(index: int, value: Expr) -> Binding:
            call = Call(ExternFunc(setter), [*behind, PrimValue(index), value], {}, [OBJECT])
            return VarBinding(Var("_", OBJECT), call)

        body = _handed_on_and_freed(function, weights if getter is not None else (), hand_on)
    params = [*inputs, *weights]
    holders: list[Var] = []
    if getter is not None:
        params, holders = [*inputs, *before], _size_holders(weights)
        body = _fetched_fields(body, [*inputs, *holders], weights, getter, before)
    if setter is not None:
        params += [param for param in behind if param not in params]
    params += holders
    return Function(params, body, None, False, function.attrs)


def _handed_on_and_freed(
    function: Function, weights: Sequence[Var], hand_on: Callable[[int, Expr], Binding]
) -> SeqExpr:
    """The body in which, after the last use, each result is passed on and each field of ``weights`` is freed.

    Results that no binding defines or uses are passed on at the end. The result of the body is an empty tuple.
    """
    result = _written_out(function)
    wanted: dict[Expr, list[int]] = {}
    for index, value in enumerate(result.fields if isinstance(result, Tuple) else [result]):
        wanted.setdefault(value, []).append(index)
    written = function.body.body if isinstance(result, Tuple) else None
    bindings = [binding for block in function.body.blocks for binding in block if binding.var is not written]
    fields = {
        binding.var
        for binding in bindings
        if isinstance(binding.value, TupleGetItem) and binding.value.tuple_value in weights
    }
    seen: set[Var] = set()
    ended: list[list[Var]] = []
    for binding in reversed(bindings):
        used = [binding.value] if isinstance(binding.value, Var) else free_vars(binding.value)
        ended.append([var for var in dict.fromkeys((*used, binding.var)) if var not in seen])
        seen.update(ended[-1])
    steps: list[Binding] = []
    for binding, last_used in zip(bindings, reversed(ended), strict=True):
        steps.append(binding)
        for var in last_used:
            steps.extend(hand_on(index, var) for index in wanted.pop(var, ()))
            if var in fields:
                freed = kill_object(var)
                steps.append(VarBinding(Var("_", freed.ty), freed))
    steps.append(VarBinding(Var("gv", _UNIT), Tuple([])))
    steps.extend(hand_on(index, value) for value, indices in wanted.items() for index in indices)
    return SeqExpr([BindingBlock(steps)], Tuple([]))


def _size_holders(weights: Sequence[Var]) -> list[Var]:
    """A new parameter for each shape or number among the weights, if the types of weights define sizes."""
    if not any(defining_symvars(weight.ty) for weight in weights):
        return []
    types = [
        ty
        for weight in weights
        for ty in (weight.ty.fields if isinstance(weight.ty, TupleType) else (weight.ty,))
        if isinstance(ty, PrimType | ShapeType)
    ]
    return [Var("symbolic_var_holder", ty) for ty in types]


def _fetched_fields(
    body: SeqExpr, inputs: Sequence[Var], weights: Sequence[Var], getter: str, before: Sequence[Var]
) -> SeqExpr:
    """``body`` with each weight, or each field of the weights' tuple, fetched by number just before its first use."""
    bundle = weights[0] if len(weights) == 1 else None
    if bundle is not None and isinstance(bundle.ty, TupleType):
        names: Mapping[int, str] = {
            binding.value.index: binding.var.name_hint
            for binding in iter_bindings(body)
            if isinstance(binding.value, TupleGetItem) and binding.value.tuple_value is bundle
        }
        weights = [Var(names.get(i, f"{bundle.name_hint}_{i}"), ty) for i, ty in enumerate(bundle.ty.fields)]
        body = OpenedTuples({bundle: Tuple(weights)}).mutate(Function([], body, None, False)).body

    def fetch(index: int, _weight: Var, fresh: Callable[[str], str]) -> list[Any]:
        return [fresh("gv"), Call(ExternFunc(getter), [*before, PrimValue(index)], {}, [OBJECT])]

    return _Fetching(Function([*inputs, *weights], body, None, False), weights, fetch).run()

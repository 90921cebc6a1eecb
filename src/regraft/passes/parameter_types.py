"""UpdateParamType and ExpandTupleArguments: change the form in which functions take their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..analysis import called_names, remove_all_unused
from ..ir.expr import DataflowVar, Expr, GlobalVar, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator, NewDefinitions
from ..ir.op import Call
from ..ir.program import Binding, Function, VarBinding
from ..ir.types import TupleType, Type
from .canonicalize_bindings import canonical
from .context import PassContext
from .passes import FunctionPass, ModulePass, Pass
from .private_functions import only_called, renewed

# --- other types


def UpdateParamType(ty_func: Callable[[Var], Type | None]) -> Pass:
    """Change the types of parameters: ``ty_func`` is called with each and returns its new type, or None to keep it.

    The types inside, and the return type, are inferred again.

    Needs: types for which the operators of the body are defined. Guarantees: the same operations. Raises `OpTypeError`
    for a call that does not accept a new type. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, _context: PassContext) -> Function:
        changed: dict[Var, Var] = {}
        for param in function.params:
            ty = ty_func(param)
            if ty is not None and ty != param.ty:
                changed[param] = Var(param.name_hint, ty, param.origins)
        if not changed:
            return function
        new = NewDefinitions(changed).mutate(function)
        return Function(new.params, new.body, None, new.is_pure, new.attrs)

    return FunctionPass(transform, "UpdateParamType", keeps_values=False, opt_level=1)


# --- fields of tuples, one by one


class OpenedTuples(ExprMutator):
    """Replaces variables by tuples that are written out, and projections of them by the fields."""

    def __init__(self, tuples: Mapping[Var, Tuple]) -> None:
        super().__init__()
        for variable, fields in tuples.items():
            self.remap(variable, fields)

    def visit_tuple_getitem_(self, projection: TupleGetItem) -> Expr:
        """The field itself."""
        owner = projection.tuple_value
        return owner.fields[projection.index] if isinstance(owner, Tuple) else projection


class _OpenedParameters(OpenedTuples):
    """Also removes bindings that would only name a field."""

    def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
        value = binding.value
        leaves_block = isinstance(value, DataflowVar) and not isinstance(binding.var, DataflowVar)
        if not isinstance(value, Var) or leaves_block:
            return binding  # an output of a dataflow block cannot be replaced by a value that only the block sees
        self.remap(binding.var, value)
        return None


def _opened(param: Var) -> tuple[list[Var], Expr]:
    """The variables that replace a parameter, and the parameter as an expression over them."""
    variables: list[Var] = []

    def open_type(name: str, ty: Type) -> Expr:
        if isinstance(ty, TupleType):
            return Tuple([open_type(f"{name}_{index}", field) for index, field in enumerate(ty.fields)])
        variables.append(Var(name, ty, param.origins))
        return variables[-1]

    return variables, open_type(param.name_hint, param.ty)


def _fields(value: Expr, definitions: Mapping[Expr, Expr]) -> Iterator[Expr]:
    """The fields of a value of tuple type, including the fields of inner tuples one by one."""
    if not isinstance(value.ty, TupleType):
        yield value
        return
    known = definitions.get(value, value)
    for index in range(len(value.ty.fields)):
        yield from _fields(known.fields[index] if isinstance(known, Tuple) else TupleGetItem(value, index), definitions)


def ExpandTupleArguments() -> Pass:
    """Let private functions take the fields of a tuple one by one (``t_0``, ``t_1`` ...) instead of the tuple.

    Functions whose name is used other than in a call stay as they are. Functions that change are left canonical and
    without dead values, as in Relax.

    Needs: nothing. Guarantees: the same values to the bit. Cost: linear.
    """

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        changed: dict[str, Function] = {}
        for name, function in only_called(module).items():
            if any(isinstance(param.ty, TupleType) for param in function.params):
                changed[name] = _expanded(function)
        if not changed:
            return module

        def change(variable: GlobalVar, call: Call) -> Expr:
            return Call(variable, [field for arg in call.args for field in _fields(arg, {})], {}, call.ty_args)

        result = renewed(module, changed, change)
        return result.with_each(
            lambda name, function: (
                function
                if changed.keys().isdisjoint(called_names(module[name]))
                else remove_all_unused(canonical(function))
            )
        )

    return ModulePass(transform, "ExpandTupleArguments")


def _expanded(function: Function) -> Function:
    params: list[Var] = []
    tuples: dict[Var, Tuple] = {}
    for param in function.params:
        variables, value = _opened(param)
        if isinstance(value, Tuple):
            params.extend(variables)
            tuples[param] = value
        else:
            params.append(param)
    body = _OpenedParameters(tuples).mutate(Function([], function.body, function.ret_ty, function.is_pure))
    new = Function(params, body.body, function.ret_ty, function.is_pure, function.attrs)
    return remove_all_unused(canonical(new))

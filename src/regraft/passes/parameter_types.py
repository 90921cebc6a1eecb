"""UpdateParamType and ExpandTupleArguments: functions that take what they took in another form."""

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
    """Give parameters other types: ``ty_func`` gets each and returns its new type, or None to leave it.

    Types inside, and the return type, follow.

    Needs: types for which the operators of the body have results. Guarantees: the same operations. Raises `OpTypeError`
    for a call that does not take a new type. Cost: linear.
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
    """Puts a tuple that is written out in the place of a variable, and its fields in the place of projections."""

    def __init__(self, tuples: Mapping[Var, Tuple]) -> None:
        super().__init__()
        for variable, fields in tuples.items():
            self.remap(variable, fields)

    def visit_tuple_getitem_(self, projection: TupleGetItem) -> Expr:
        """The field itself."""
        owner = projection.tuple_value
        return owner.fields[projection.index] if isinstance(owner, Tuple) else projection


class _OpenedParameters(OpenedTuples):
    """Leaves out bindings, too, that would only name a field."""

    def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
        value = binding.value
        leaves_block = isinstance(value, DataflowVar) and not isinstance(binding.var, DataflowVar)
        if not isinstance(value, Var) or leaves_block:
            return binding  # an output of a dataflow block cannot give way to a value that only the block sees
        self.remap(binding.var, value)
        return None


def _opened(param: Var) -> tuple[list[Var], Expr]:
    """The variables that take the place of a parameter, and the expression over them that it was."""
    variables: list[Var] = []

    def open_type(name: str, ty: Type) -> Expr:
        if isinstance(ty, TupleType):
            return Tuple([open_type(f"{name}_{index}", field) for index, field in enumerate(ty.fields)])
        variables.append(Var(name, ty, param.origins))
        return variables[-1]

    return variables, open_type(param.name_hint, param.ty)


def _fields(value: Expr, definitions: Mapping[Expr, Expr]) -> Iterator[Expr]:
    """The fields of a value of tuple type, those of inner tuples one by one."""
    if not isinstance(value.ty, TupleType):
        yield value
        return
    known = definitions.get(value, value)
    for index in range(len(value.ty.fields)):
        yield from _fields(known.fields[index] if isinstance(known, Tuple) else TupleGetItem(value, index), definitions)


def ExpandTupleArguments() -> Pass:
    """Let private functions take the fields of a tuple one by one, ``t_0``, ``t_1`` ..., where they took the tuple.

    Functions whose name is used for anything but calling it stay as they are. Functions that change are left canonical
    and without dead values, as Relax's are.

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

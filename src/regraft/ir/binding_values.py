"""Replacing a function's parameters and sizes by values, its calls by bodies, and its results by others.

Implements `Function.bind_params`, `bind_symbolic_vars` and `inline_functions`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from .builder import NameSupply, in_normal_form
from .dims import Dim, SymExpr, SymVar
from .dims import substitute as substitute_dim
from .errors import IRError
from .expr import Constant, DataflowVar, Expr, GlobalVar, PrimValue, ShapeExpr, Tuple, Var, const
from .mutator import ExprMutator, NewDefinitions, NewVariables, same_items
from .near_names import hint
from .op import Call
from .program import Binding, BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding, merge_blocks
from .reading import defining_symvars
from .steps import Steps, run_steps
from .types import PrimType, Type, as_dim, bind_type, is_subtype, substitute_type, type_symvars
from .visitor import iter_bindings, walk

_Key = TypeVar("_Key", Var, SymVar)


class SizeBinder(ExprMutator):
    """Replaces size variables wherever a program mentions them."""

    def __init__(self, sizes: Mapping[SymVar, Dim]) -> None:
        super().__init__()
        self._sizes = sizes

    def visit_type(self, ty: Type) -> Type:
        """``ty`` with the size variables replaced."""
        return substitute_type(ty, self._sizes) if self._mentions(ty) else ty

    def visit_shape_expr_(self, shape: ShapeExpr) -> Expr:
        """The shape with the size variables replaced."""
        if not self._mentions(shape.ty):
            return shape
        return ShapeExpr([substitute_dim(dim, self._sizes) for dim in shape.values])

    def visit_prim_value_(self, value: PrimValue) -> Expr:
        """The scalar with the size variables replaced, in the same dtype."""
        if not isinstance(value.value, SymExpr):
            return value
        new = substitute_dim(value.value, self._sizes)
        assert isinstance(value.ty, PrimType)
        return value if new is value.value else PrimValue(new, value.ty.dtype)

    def visit_call_(self, call: Call) -> Expr:
        """The call with the size variables in its attributes replaced."""
        attrs = {name: self._attribute(value) for name, value in call.attrs.items()}
        if all(attrs[name] is value for name, value in call.attrs.items()):
            return call
        return Call(call.op, call.args, attrs, call.ty_args)

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, SymExpr):
            return substitute_dim(value, self._sizes)
        if not isinstance(value, tuple):
            return value
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        new = tuple([self._attribute(item) for item in items])
        return items if same_items(new, items) else new

    def _mentions(self, ty: Type) -> bool:
        return any(size in self._sizes for size in type_symvars(ty))


def bind_sizes(function: Function, sizes: Mapping[SymVar, Dim]) -> Function:
    """``function`` with size variables replaced, in types too; itself if it mentions none of them. Cost: linear."""
    return SizeBinder(sizes).mutate(function) if sizes else function


def sizes_of(function: Function) -> dict[SymVar, None]:
    """The size variables that ``function`` mentions in the types of its parameters and bindings."""
    found = {size: None for param in function.params for size in type_symvars(param.ty)}
    for binding in iter_bindings(function):
        found.update(dict.fromkeys(type_symvars(binding.var.ty)))
    return found


def named(what: str, name: str, values: Mapping[_Key, None], names: Mapping[_Key, str]) -> _Key:
    """The one of ``values`` that is called ``name``. Raises `IRError` if there is none, or more than one."""
    found = [value for value in values if names[value] == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise IRError(f"{what} {name!r} is ambiguous: {len(found)} have that name; give the variable itself")
    raise IRError(f"there is no {what} {name!r}; {hint(name, names.values(), 3)}")


def bind_params(function: Function, params: Mapping[str | Var, Any]) -> Function:
    """``function`` with some parameters replaced by values; see `Function.bind_params`."""
    own = dict.fromkeys(function.params)
    names = {param: param.name_hint for param in own}
    values: dict[Var, Expr] = {}
    sizes: dict[SymVar, Dim] = {}
    for key, value in params.items():
        param = key if isinstance(key, Var) else named("parameter", key, own, names)
        if param not in own:
            raise IRError(f"{param.name_hint} is no parameter of {function.name or 'the function'}")
        bound = value if isinstance(value, Expr) else const(value)
        if bind_type(param.ty, bound.ty, sizes) is False:
            raise IRError(f"parameter {param.name_hint} is {param.ty!r}, but its value is {bound.ty!r}")
        values[param] = bound
    if not values:
        return function
    count = function.attrs.get("num_input")
    attrs = dict(function.attrs)
    if isinstance(count, int):
        attrs["num_input"] = count - sum(param in values for param in function.params[:count])
    binder = SizeBinder(sizes)
    for param, bound in values.items():
        binder.remap(param, bound)
    body = Function([], function.body, function.ret_ty, function.is_pure)
    kept = [param for param in function.params if param not in values]
    renamed: dict[Var, Var] = {}
    for param in kept:
        renamed[param] = Var(param.name_hint, binder.visit_type(param.ty), param.origins)
        binder.remap(param, renamed[param])
    new = binder.mutate(body)
    return Function(list(renamed.values()), new.body, new.ret_ty, function.is_pure, attrs)


def bind_symbolic_vars(function: Function, binding_map: Mapping[str | SymVar, Any]) -> Function:
    """``function`` with size variables replaced by sizes; see `Function.bind_symbolic_vars`."""
    own = sizes_of(function)
    names = {size: size.name for size in own}
    sizes: dict[SymVar, Dim] = {}
    for key, value in binding_map.items():
        size = key if isinstance(key, SymVar) else named("size", key, own, names)
        if size not in own:
            raise IRError(f"{function.name or 'the function'} mentions no size {size}")
        if size in sizes:
            raise IRError(f"the size {size} is given twice, by its name and as a variable")
        sizes[size] = size_value(value, f"the size {key}")
    return bind_sizes(function, sizes)


def size_value(value: Any, where: str) -> Dim:
    """A number, a scalar or a constant as a size."""
    return as_dim(value.data.numpy().item() if isinstance(value, Constant) else value, where)


# --- replacing calls by bodies


class _BodyCopy(NewVariables):
    """Copies a body with a new variable for each bound variable; variables in ``local`` become `DataflowVar`s.

    Variables in ``given`` are replaced by the variable that it lists.
    """

    def __init__(self, local: Container[Var], given: Mapping[Expr, Var]) -> None:
        super().__init__()
        self._local = local
        self._given = given

    def visit_var_def_(self, var: Var) -> Var:
        if var in self._given:
            return self._given[var]
        return DataflowVar(var.name_hint, var.ty, var.origins) if var in self._local else super().visit_var_def_(var)


def inline_functions(
    function: Function, function_map: Mapping[str | GlobalVar, Function], *, keeps_own: bool = False
) -> Function:
    """``function`` with its calls replaced by the bodies in ``function_map``; see `Function.inline_functions`.

    The variable of a call is bound to the body's result, and all sizes that the body defines are new. With
    ``keeps_own``, the body's result keeps its own variable, the call's variable becomes an alias of it, and the body
    keeps its sizes; only a second copy of the same sizes gets new ones.
    """
    table = {key if isinstance(key, str) else key.name_hint: value for key, value in function_map.items()}
    return function.with_body(run_steps(_Inlining(table, keeps_own).run(function.body, ())))


class _Inlining:
    """Replaces the calls of the functions in ``table`` by their bodies."""

    def __init__(self, table: Mapping[str, Function], keeps_own: bool) -> None:
        self._table = table
        self._kept: set[SymVar] | None = set() if keeps_own else None

    def run(self, seq: SeqExpr, inside: tuple[str, ...]) -> Steps[SeqExpr]:
        """``seq`` with its calls replaced; itself if there are none. ``inside`` names the functions around it."""
        blocks: list[BindingBlock] = []
        changed = False
        for block in seq.blocks:
            row: list[Binding] = []
            for binding in block.bindings:
                value = binding.value
                if isinstance(value, If):
                    yes = yield self.run(value.true_branch, inside)
                    no = yield self.run(value.false_branch, inside)
                    if yes is not value.true_branch or no is not value.false_branch:
                        binding = VarBinding(binding.var, If(value.cond, yes, no))
                        changed = True
                elif isinstance(value, Function):
                    own = yield self.run(value.body, inside)
                    if own is not value.body:
                        binding = VarBinding(binding.var, value.with_body(own))
                        changed = True
                name = called_name(value)
                if name not in self._table or not isinstance(value, Call):
                    row.append(binding)
                    continue
                if name in inside:
                    raise IRError(f"{name!r} calls itself, by way of {' and '.join(inside)}, so it cannot be inlined")
                changed = True
                body = yield self.run(self._table[name].body, (*inside, name))
                blocks.append(type(block)(row))
                blocks += self._written_out(self._table[name].with_body(body), value, binding, type(block))
                row = []
            blocks.append(type(block)(row))
        return with_outputs(SeqExpr(merge_blocks(blocks), seq.body)) if changed else seq

    def _written_out(
        self, function: Function, call: Call, binding: Binding, around: type[BindingBlock]
    ) -> list[BindingBlock]:
        """The blocks of ``function`` for the arguments of ``call``, to be placed in a block of the kind ``around``."""
        flows = issubclass(around, DataflowBlock)
        result = binding.var if self._kept is None and isinstance(binding, VarBinding) else None
        body = body_of_call(function, call.args, local=flows, result=result, kept=self._kept)
        keeps_own = self._kept is not None
        parts = [around(block.bindings) if flows and _joins(block, keeps_own) else block for block in body.blocks]
        if body.body is binding.var:
            return parts
        if isinstance(binding, MatchCast) or is_subtype(body.body.ty, binding.var.ty) is not True:
            ty = binding.ty if isinstance(binding, MatchCast) else binding.var.ty
            return [*parts, around([MatchCast(binding.var, body.body, ty)])]
        return [*parts, around([VarBinding(binding.var, body.body)])]


def _joins(block: BindingBlock, keeps_own: bool) -> bool:
    """True if the bindings of ``block`` may join the dataflow block of a call.

    With ``keeps_own``, only a dataflow block may; otherwise, any block without effects and branches.
    """
    return isinstance(block, DataflowBlock) if keeps_own else all(map(may_flow, block))


def may_flow(binding: Binding) -> bool:
    """True if ``binding`` may stand in a dataflow block: no effects and no branches."""
    value = binding.value
    return not isinstance(value, If) and not (isinstance(value, Call) and not value.is_pure)


def with_outputs(seq: SeqExpr) -> SeqExpr:
    """``seq`` with each `DataflowVar` that other blocks use made a `Var`; itself if there is none. Cost: linear."""
    home = {binding.var: number for number, block in enumerate(seq.blocks) for binding in block.bindings}
    seen: dict[Var, Var] = {}
    for number, block in enumerate(seq.blocks):
        for var in (var for binding in block.bindings for var in walk(binding.value)):
            if isinstance(var, DataflowVar) and home.get(var, number) != number:
                seen[var] = Var(var.name_hint, var.ty, var.origins)
    return NewDefinitions(seen).mutate(seq) if seen else seq


def giving(
    function: Function,
    results: Iterable[Expr],
    *,
    blocks: Sequence[BindingBlock] | None = None,
    params: Sequence[Var] | None = None,
) -> Function:
    """``function`` changed to return a tuple of ``results``, expressions over its values.

    ``blocks`` and ``params``, if given, replace its own. The result has no attributes, since those describe how the
    old function is called. Cost: linear in the bindings.
    """
    names = NameSupply.beside(function)
    last = [VarBinding(Var(names.fresh("result"), value.ty), value) for value in results]
    blocks = function.body.blocks if blocks is None else blocks
    body = SeqExpr([*blocks, DataflowBlock(last)], Tuple([one.var for one in last]))
    params = function.params if params is None else params
    return in_normal_form(Function(params, with_outputs(body), None, function.is_pure))


def called_name(value: Expr) -> str:
    """The name of the module's function that ``value`` calls; the empty string if it calls none."""
    return value.op.name_hint if isinstance(value, Call) and isinstance(value.op, GlobalVar) else ""


def body_of_call(
    function: Function,
    args: Iterable[Expr],
    *,
    local: bool = False,
    result: Var | None = None,
    kept: set[SymVar] | None = None,
) -> SeqExpr:
    """The body of ``function`` for the arguments ``args``, with new variables and sizes.

    An argument that is not known to fit its parameter's type is first cast by a `MatchCast`. With ``local``, variables
    bound in blocks without effects and branches become dataflow variables. ``result`` is bound to the returned value,
    if the body computes a value of its type. With ``kept``, the body keeps the sizes that it defines, except those in
    ``kept``, and all of them are added to ``kept``; only variables bound in dataflow blocks then become dataflow
    variables. Cost: linear in the body.
    """
    sizes: dict[SymVar, Dim] = {}
    arguments = dict(zip(function.params, args, strict=True))
    unsure = [param for param, arg in arguments.items() if bind_type(param.ty, arg.ty, sizes) is not True]
    inner = [size for size in sizes_of(function) if size not in sizes]
    taken = [size for size in inner if kept is None or size in kept]
    binder = SizeBinder({**sizes, **{size: SymVar(size.name, size.dtype, least=size.least) for size in taken}})
    if kept is not None:
        kept.update(inner)
    casts: list[Binding] = []
    for param, arg in arguments.items():
        if param in unsure:
            ty = binder.visit_type(param.ty)
            casts.append(MatchCast((DataflowVar if local else Var)(param.name_hint, ty, param.origins), arg, ty))
            arg = casts[-1].var
        binder.remap(param, arg)
    bound = binder.mutate(function.body)
    keeps_own = kept is not None
    flowing = {b.var for block in bound.blocks if local and _joins(block, keeps_own) for b in block.bindings}
    may_stand = result is not None and (bound.body in flowing or not isinstance(result, DataflowVar))
    given = {bound.body: result} if result is not None and may_stand and bound.body.ty == result.ty else {}
    body = _BodyCopy(flowing, given).mutate(bound)
    first = [(DataflowBlock if local else BindingBlock)(casts)] if casts else []
    return SeqExpr([*first, *body.blocks], body.body)


def copy_with_new_vars(func: Function) -> Function:
    """A copy of ``func`` with new variables and size variables of the same names; none is shared. Cost: linear."""
    sizes: dict[SymVar, Dim] = {
        size: SymVar(size.name, size.dtype, least=size.least)
        for param in func.params
        for size in defining_symvars(param.ty)
    }
    return _Renewing(sizes).mutate(func)


class _Renewing(SizeBinder):
    def visit_var_def_(self, var: Var) -> Var:
        return type(var)(var.name_hint, self.visit_type(var.ty), var.origins)

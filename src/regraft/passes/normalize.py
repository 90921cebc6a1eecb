"""The plain form of a program: Normalize, NormalizeGlobalVar, AttachGlobalSymbol, ToNonDataflow, RemovePurityChecking.

Programs made by a `BlockBuilder`, the parser or a pass of this library are already in normal form. These passes are for
programs that were built by hand, and for the requirements of other tools.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..ir.builder import BlockBuilder, NameSupply, operands_of, with_operands
from ..ir.expr import DataflowVar, Expr, GlobalVar, Tuple, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator, NewGlobals
from ..ir.op import Call, Op
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding, is_leaf
from ..ir.types import TupleType
from ..ir.walks import inner_first
from .context import PassContext, PassError
from .passes import FunctionPass, ModulePass, Pass

_Program = TypeVar("_Program", Function, SeqExpr)


class _Stated(ExprMutator):
    """Gives variables without a type the type of their value, and replaces uses of an empty tuple by the tuple."""

    def visit_var_binding_(self, binding: VarBinding) -> Binding:
        old, value = binding.var, binding.value
        if not old.ty.is_missing() or value.ty.is_missing():
            return binding
        var = type(old)(old.name_hint, value.ty, old.origins)
        self.remap(old, var)
        return VarBinding(var, value)

    def visit_var_(self, var: Var) -> Expr:
        return Tuple(()) if isinstance(var.ty, TupleType) and not var.ty.fields else var

    def visit_dataflow_var_(self, var: DataflowVar) -> Expr:
        return self.visit_var_(var)


def _with_leaves(value: Expr, bind: Callable[[Expr], Expr]) -> Expr:
    """``value`` with leaves as operands; ``bind`` gives a variable for each operand that is not a leaf.

    The operands of a call are bound together, after the operands of each of them: this is Relax's order. Uses its own
    stack. Cost: linear in the expressions.
    """
    flat: dict[int, Expr] = {}
    leaves: dict[int, Expr] = {}

    def leaf(operand: Expr) -> Expr:
        if is_leaf(flat[id(operand)]):
            return flat[id(operand)]
        if id(operand) not in leaves:
            leaves[id(operand)] = bind(flat[id(operand)])
        return leaves[id(operand)]

    for current in inner_first(value, lambda one: () if is_leaf(one) else operands_of(one)):
        operands = () if is_leaf(current) else operands_of(current)
        flat[id(current)] = with_operands(current, [leaf(one) for one in operands]) if operands else current
    return flat[id(value)]


class _Normalizer(BlockBuilder):
    def normalize(self, expr: Expr) -> Expr:
        is_body = isinstance(expr, Function | SeqExpr)
        return super().normalize(expr if is_body else _with_leaves(expr, self.emit))

    def normalize_argument(self, expr: Expr) -> Expr:
        return super().normalize_argument(_with_leaves(expr, self.emit))


def _normal(function: Function) -> Function:
    normal = _Normalizer().normalize(function)
    assert isinstance(normal, Function)
    return _Stated().mutate(normal)


def Normalize() -> Pass:
    """Bring each function into A-normal form: operands are leaves, and bodies are blocks followed by a leaf.

    Variables without a type get the type of their values, consecutive blocks of one kind are merged, and uses of a
    variable for the empty tuple are replaced by the empty tuple.

    Needs: nothing. Guarantees: the same values to the bit; a program in that form stays the same object. Cost: linear.
    """
    return FunctionPass(lambda function, _module, _context: _normal(function), "Normalize", opt_level=1)


def NormalizeGlobalVar() -> Pass:
    """Name each public function by its ``global_symbol`` in the module, and private functions by free names.

    Needs: public names that are unique. Guarantees: the same functions; calls follow the new names. Raises `PassError`
    if two functions have one public name. Cost: linear.
    """

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        names: dict[str, str] = {}
        public: dict[str, str] = {}
        for name, function in module.items():
            if function.name is None:
                continue
            if function.name in public:
                raise PassError(
                    f"NormalizeGlobalVar: {public[function.name]!r} and {name!r} have the same public name, "
                    f"{function.name!r}; give one of them another global_symbol"
                )
            names[name] = function.name
            public[function.name] = name
        supply = NameSupply(public)
        for name in module:
            if name not in names:
                names[name] = supply.fresh(name)
        if all(name == new for name, new in names.items()):
            return module
        variables = {name: GlobalVar(new, module[name].ty) for name, new in names.items()}
        table = {variables[name]: NewGlobals(variables).mutate(function) for name, function in module.items()}
        return IRModule(table, module.attrs)

    return ModulePass(transform, "NormalizeGlobalVar")


def AttachGlobalSymbol() -> Pass:
    """Make every function public under its name in the module, except functions that live outside (`ExternFunc`).

    Needs: nothing. Guarantees: the same bodies. Cost: the number of functions.
    """

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        return module.with_functions(
            {
                name: function.with_attr("global_symbol", name)
                for name, function in module.items()
                if function.name != name
            }
        )

    return ModulePass(transform, "AttachGlobalSymbol")


class _Plain(ExprMutator):
    """Turns dataflow blocks into plain blocks, and their variables into plain variables."""

    def visit_var_def_(self, var: Var) -> Var:
        return Var(var.name_hint, var.ty, var.origins) if isinstance(var, DataflowVar) else var

    def visit_block_(self, block: BindingBlock) -> BindingBlock:
        return BindingBlock(block.bindings) if isinstance(block, DataflowBlock) else block


def to_plain_blocks(program: _Program) -> _Program:
    """A function or a body with plain blocks in place of its dataflow blocks, also in branches."""
    return _Plain().mutate(program)


def ToNonDataflow() -> Pass:
    """Turn all dataflow blocks into plain blocks, and their variables into plain variables.

    Needs: nothing. Guarantees: the same values to the bit. Cost: linear.
    """
    return FunctionPass(lambda function, _module, _context: to_plain_blocks(function), "ToNonDataflow")


class _Unwrapped(ExprMutator):
    """Replaces calls that claim to be pure by plain calls."""

    def visit_call_(self, call: Call) -> Expr:
        if not isinstance(call.op, Op):
            return call
        if call.op.name in ("relax.call_pure_packed", "relax.call_inplace_packed"):
            return Call(call.args[0], call.args[1:], {}, call.ty_args)
        if call.op.name == "relax.invoke_pure_closure":
            return Call(Op.get("relax.invoke_closure"), call.args, {}, call.ty_args)
        return call

    def visit_function_(self, function: Function) -> Expr:
        return function.with_attr("relax.force_pure", True) if function.is_pure else function


def RemovePurityChecking() -> Pass:
    """Mark pure functions to be taken as pure without a check, by the attribute ``relax.force_pure``.

    Functions inside them are marked, too. ``call_pure_packed`` becomes ``call_packed``, and ``invoke_pure_closure``
    becomes ``invoke_closure``.

    Needs: nothing. Guarantees: the same values to the bit. Cost: linear.
    """
    return FunctionPass(lambda function, _module, _context: _Unwrapped().mutate(function), "RemovePurityChecking")

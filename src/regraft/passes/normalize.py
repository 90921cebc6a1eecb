"""The plain form of a program: Normalize, NormalizeGlobalVar, AttachGlobalSymbol, ToNonDataflow, RemovePurityChecking.

Programs that a `BlockBuilder`, the parser or a pass of this library makes are in normal form already. These passes are
for programs that were put together by hand, and for what other tools expect of one.
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
    """Gives variables that were made without a type that of their values; writes the empty tuple where it is read."""

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
    """``value`` with every operand a leaf; ``bind`` names what is none.

    The operands of a call are bound together, after those of each of them: this is Relax's order. Uses its own stack.
    Cost: linear in the expressions.
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
    """Bring each function into A-normal form: operands are leaves, and bodies are blocks that lead to a leaf.

    Variables that were made without a type get that of their values, blocks of one kind that follow each other become
    one, and nothing reads a variable that stands for the empty tuple.

    Needs: nothing. Guarantees: the same values to the bit; a program in that form stays the same object. Cost: linear.
    """
    return FunctionPass(lambda function, _module, _context: _normal(function), "Normalize", opt_level=1)


def NormalizeGlobalVar() -> Pass:
    """Let each public function bear its ``global_symbol`` in the module, and private ones names that are free.

    Needs: public names that are used once. Guarantees: the same functions; calls follow the new names. Raises
    `PassError` where two functions have one public name. Cost: linear.
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
    """Make each function public under the name that it has in the module, but for those of other parts of a program.

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
    """Makes plain blocks of dataflow blocks, and plain variables of theirs."""

    def visit_var_def_(self, var: Var) -> Var:
        return Var(var.name_hint, var.ty, var.origins) if isinstance(var, DataflowVar) else var

    def visit_block_(self, block: BindingBlock) -> BindingBlock:
        return BindingBlock(block.bindings) if isinstance(block, DataflowBlock) else block


def to_plain_blocks(program: _Program) -> _Program:
    """A function or a body with plain blocks in the place of its dataflow blocks, those of branches included."""
    return _Plain().mutate(program)


def ToNonDataflow() -> Pass:
    """Make plain blocks of all dataflow blocks, and plain variables of theirs.

    Needs: nothing. Guarantees: the same values to the bit. Cost: linear.
    """
    return FunctionPass(lambda function, _module, _context: to_plain_blocks(function), "ToNonDataflow")


class _Unwrapped(ExprMutator):
    """Calls what claimed to be pure as what it is."""

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
    """Say of pure functions that they are to be taken as pure unchecked, by the attribute ``relax.force_pure``.

    Functions inside of it are, too. ``call_pure_packed`` becomes ``call_packed``, ``invoke_pure_closure`` becomes
    ``invoke_closure``.

    Needs: nothing. Guarantees: the same values to the bit. Cost: linear.
    """
    return FunctionPass(lambda function, _module, _context: _Unwrapped().mutate(function), "RemovePurityChecking")

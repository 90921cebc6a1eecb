"""Visitors and mutators that go on by themselves, as classes written for Relax do.

`PyExprVisitor` and `PyExprMutator` call one method per kind of node, and each method goes on to the parts of its node,
so that one that is overridden decides whether, when and in what order they are visited. `ExprVisitor` and
`ExprMutator` do not recurse and are what this library itself is written with; these two recurse along nested
expressions and branches, never along a row of bindings.
"""

from __future__ import annotations

from typing import Any, Final, Self, TypeVar, cast

from .builder import BlockBuilder, flatten
from .dims import Dim, SymVar, substitute, uses_of_symvars
from .errors import IRError
from .expr import (
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from .module import IRModule
from .mutator import same_items
from .op import Call, Op
from .program import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
    as_seq,
    is_leaf,
    merge_blocks,
)
from .types import TensorType, TupleType, Type, as_dim, is_subtype
from .visitor import METHODS, iter_bindings

_Class = TypeVar("_Class", bound=type)


class ExprFunctor:
    """Calls the method for the kind of an expression, binding or block; base of the two classes below."""

    def visit_expr(self, expr: Expr | SymVar) -> Any:
        """Call the method for the kind of ``expr``."""
        return getattr(self, _method_of(expr))(expr)

    def visit_binding(self, binding: Binding) -> Any:
        """Call `visit_var_binding_` or `visit_match_cast_`."""
        method: Any = self.visit_match_cast_ if isinstance(binding, MatchCast) else self.visit_var_binding_
        return method(binding)

    def visit_binding_block(self, block: BindingBlock) -> Any:
        """Call `visit_dataflow_block_` or `visit_binding_block_`."""
        method: Any = self.visit_dataflow_block_ if isinstance(block, DataflowBlock) else self.visit_binding_block_
        return method(block)

    def visit_var_def(self, var: Var) -> Any:
        """Call `visit_dataflow_var_def_` or `visit_var_def_`."""
        method: Any = self.visit_dataflow_var_def_ if isinstance(var, DataflowVar) else self.visit_var_def_
        return method(var)

    def visit_expr_fallback_(self, expr: Expr) -> Any:
        """An expression whose kind has no method of its own here."""
        raise IRError(f"{type(self).__name__} has no method for a {type(expr).__name__}")

    def visit_constant_(self, op: Constant) -> Any:
        """A constant; by default as `visit_generic_const_`, its newer name."""
        return self.visit_generic_const_(op)

    def visit_generic_const_(self, op: Constant) -> Any:
        """A constant."""
        return self.visit_expr_fallback_(op)

    def visit_tuple_(self, op: Tuple) -> Any:
        """A tuple."""
        return self.visit_expr_fallback_(op)

    def visit_var_(self, op: Var) -> Any:
        """A use of a variable that is no `DataflowVar`, or of a size variable."""
        return self.visit_expr_fallback_(op)

    def visit_dataflow_var_(self, op: DataflowVar) -> Any:
        """A use of a variable of a dataflow block."""
        return self.visit_expr_fallback_(op)

    def visit_shape_expr_(self, op: ShapeExpr) -> Any:
        """A shape written out."""
        return self.visit_expr_fallback_(op)

    def visit_extern_func_(self, op: ExternFunc) -> Any:
        """A function that lives outside."""
        return self.visit_expr_fallback_(op)

    def visit_global_var_(self, op: GlobalVar) -> Any:
        """A use of a function of the module."""
        return self.visit_expr_fallback_(op)

    def visit_function_(self, op: Function) -> Any:
        """A function."""
        return self.visit_expr_fallback_(op)

    def visit_call_(self, op: Call) -> Any:
        """A call."""
        return self.visit_expr_fallback_(op)

    def visit_seq_expr_(self, op: SeqExpr) -> Any:
        """A body: blocks, and the expression they lead to."""
        return self.visit_expr_fallback_(op)

    def visit_if_(self, op: If) -> Any:
        """A branch."""
        return self.visit_expr_fallback_(op)

    def visit_op_(self, op: Op) -> Any:
        """An operator, where it is called."""
        return self.visit_expr_fallback_(op)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Any:
        """A field of a tuple."""
        return self.visit_expr_fallback_(op)

    def visit_prim_value_(self, op: PrimValue) -> Any:
        """A scalar that is no tensor."""
        return self.visit_expr_fallback_(op)

    def visit_string_imm_(self, op: StringImm) -> Any:
        """A string."""
        return self.visit_expr_fallback_(op)

    def visit_data_type_imm_(self, op: DataTypeImm) -> Any:
        """A dtype."""
        return self.visit_expr_fallback_(op)

    def visit_var_binding_(self, binding: VarBinding) -> Any:
        """``var = value``."""
        raise NotImplementedError

    def visit_match_cast_(self, binding: MatchCast) -> Any:
        """``var = match_cast(value, ty)``."""
        raise NotImplementedError

    def visit_binding_block_(self, block: BindingBlock) -> Any:
        """A plain block."""
        raise NotImplementedError

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        """A dataflow block."""
        raise NotImplementedError

    def visit_var_def_(self, var: Var) -> Any:
        """The definition of a variable: a parameter, or the left side of a binding."""
        raise NotImplementedError

    def visit_dataflow_var_def_(self, var: DataflowVar) -> Any:
        """The definition of a variable of a dataflow block."""
        raise NotImplementedError

    def visit_span(self, span: Any) -> Any:
        """A place in a source text; nodes here have origins instead, and this is never called."""
        return span


class PyExprVisitor(ExprFunctor):
    """A visitor of a program; each method visits the parts of its node, unless it is overridden.

    ``visit_expr(function)`` starts it. The order is that of evaluation, an operator before its arguments. After an
    expression, the sizes of its type are visited, as a `ShapeExpr`; by default, that visits the variables in them.
    """

    _in_program = False

    def visit_binding(self, binding: Binding) -> None:
        """Call `visit_var_binding_` or `visit_match_cast_`."""
        around, self._in_program = self._in_program, True
        super().visit_binding(binding)
        self._in_program = around

    def visit_expr_fallback_(self, expr: Expr) -> None:
        """A leaf: there is nothing to go on to."""

    def visit_type_(self, ty: Type) -> None:
        """The sizes of a type: those of a tensor, and of the fields of a tuple."""
        if isinstance(ty, TensorType) and ty.shape is not None:
            self.visit_expr(ShapeExpr(ty.shape))
        elif isinstance(ty, TupleType):
            for field in ty.fields:
                self.visit_type_(field)

    def visit_var_(self, op: Expr) -> None:
        """A constant or a use of a variable: its type."""
        self.visit_type_(op.ty)

    visit_dataflow_var_ = visit_generic_const_ = visit_var_

    def visit_shape_expr_(self, op: ShapeExpr) -> None:
        """A shape written out: its size variables, each time one is used."""
        for dim in op.values:
            for size in uses_of_symvars(dim):
                self.visit_expr(size)

    def visit_tuple_(self, op: Tuple) -> None:
        """A tuple: its fields, then its type."""
        for field in op.fields:
            self.visit_expr(field)
        self.visit_type_(op.ty)

    def visit_function_(self, op: Function) -> None:
        """A function: its parameters, then its body."""
        around, self._in_program = self._in_program, True
        for param in op.params:
            self.visit_var_def(param)
        self.visit_expr(op.body)
        self._in_program = around

    def visit_call_(self, op: Call) -> None:
        """A call: what is called, the types it is called with, the arguments, then its type in a program."""
        self.visit_expr(op.op)
        for ty in op.ty_args:
            self.visit_type_(ty)
        for arg in op.args:
            self.visit_expr(arg)
        if self._in_program:  # in Relax a call by itself has no type yet
            self.visit_type_(op.ty)

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        """A body: its blocks, then its result, and its type in a program."""
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)
        if self._in_program or op.blocks:
            self.visit_type_(op.ty)

    def visit_if_(self, op: If) -> None:
        """A branch: the condition, both sides, then its type in a program."""
        self.visit_expr(op.cond)
        self.visit_expr(op.true_branch)
        self.visit_expr(op.false_branch)
        if self._in_program:
            self.visit_type_(op.ty)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> None:
        """A field of a tuple: the tuple, then its type."""
        self.visit_expr(op.tuple_value)
        self.visit_type_(op.ty)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """A binding: its value, then its variable."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """A checked binding: its value, the type that it is checked for, then its variable."""
        self.visit_expr(binding.value)
        self.visit_type_(binding.ty)
        self.visit_var_def(binding.var)

    def visit_binding_block_(self, block: BindingBlock) -> None:
        """A block, plain or dataflow: its bindings."""
        for binding in block.bindings:
            self.visit_binding(binding)

    visit_dataflow_block_ = visit_binding_block_

    def visit_var_def_(self, var: Var) -> None:
        """The definition of a variable."""

    def visit_dataflow_var_def_(self, var: DataflowVar) -> None:
        """The definition of a variable of a dataflow block."""


class PyExprMutator(ExprFunctor):
    """Rewrites a program; each method rewrites the parts of its node and returns what takes its place.

    ``visit_expr(function)`` gives the new function. ``builder_`` writes it: what a method emits there stands before the
    binding that is being rewritten, calls that a method returns nested are bound to variables, and
    ``builder_.get()`` is the module given at the start with the functions that were added or updated.
    """

    builder_: BlockBuilder
    _remap: dict[Any, Any]
    _sees_shapes = False

    def __init_subclass__(cls) -> None:
        """A class that rewrites shapes or their variables is given those of types, too."""
        super().__init_subclass__()
        names = "visit_shape_expr_", "visit_var_", "visit_expr"
        cls._sees_shapes = any(getattr(cls, name) is not getattr(PyExprMutator, name) for name in names)

    def __new__(cls, *_args: Any, **_keywords: Any) -> Self:
        """A mutator over an empty module; ``__init__`` puts another in its place."""
        self = super().__new__(cls)
        self.builder_ = BlockBuilder()
        self._remap = {}
        return self

    def __init__(self, mod: IRModule | None = None) -> None:
        self.builder_ = BlockBuilder(mod)

    # --- what methods use

    def visit_expr(self, expr: Expr | SymVar) -> Any:
        """``expr`` rewritten by the method for its kind, with its inner calls bound."""
        new = super().visit_expr(expr)
        return self._flat(new) if isinstance(new, Expr) else new

    def visit_expr_post_order(self, expr: Expr | SymVar) -> Expr:
        """``expr`` with its parts rewritten, as the default method for its kind does it."""
        name = "visit_generic_const_" if isinstance(expr, Constant) else _method_of(expr)
        return getattr(PyExprMutator, name)(self, expr)

    def visit_with_new_scope(self, expr: Expr) -> SeqExpr:
        """The body of a branch or function rewritten, with bindings of its own."""
        return self._with_scope(expr)

    def set_var_remap(self, old_var: Var, new_var: Var) -> None:
        """From here on, ``new_var`` stands where ``old_var`` is used."""
        self._remap[old_var] = new_var

    def get_var_remap(self, var: Var) -> Var:
        """The expression that replaces ``var``: itself where nothing else was set."""
        return self._remap.get(var, var)

    def lookup_binding(self, var: Var) -> Expr | None:
        """The value that ``var`` was bound to in the new program, if any."""
        return self.builder_.lookup_binding(var)

    def with_type(self, var: Var, ty: Type) -> Var:
        """``var``, or a new variable of its name where it is of another type."""
        return var if var.ty == ty else type(var)(var.name_hint, ty, var.origins)

    # --- expressions

    def visit_expr_fallback_(self, expr: Expr) -> Expr:
        """A leaf stays as it is."""
        return expr

    def visit_var_(self, op: Var) -> Expr:
        """A use of a variable: what was set for it."""
        return self._remap.get(op, op)

    visit_dataflow_var_ = visit_var_

    def visit_shape_expr_(self, op: ShapeExpr) -> Expr:
        """A shape written out, of what its size variables become."""
        table: dict[SymVar, Dim] = {}
        for dim in op.values:
            for size in uses_of_symvars(dim):
                new = self.visit_expr(size)
                if new is not size:
                    table[size] = as_dim(new)
        return ShapeExpr([substitute(dim, table) for dim in op.values]) if table else op

    def visit_tuple_(self, op: Tuple) -> Expr:
        """A tuple of the rewritten fields."""
        fields = [self.visit_expr(field) for field in op.fields]
        return op if same_items(fields, op.fields) else Tuple(fields)

    def visit_call_(self, op: Call) -> Expr:
        """A call of the rewritten arguments, typed anew."""
        callee = self.visit_expr(op.op)
        ty_args = [self.visit_type_(ty) for ty in op.ty_args]
        args = [self.visit_expr(arg) for arg in op.args]
        if callee is op.op and same_items(args, op.args) and same_items(ty_args, op.ty_args):
            # As in Relax, the type of a bound call is visited where nothing else changes; it follows the arguments.
            if self.builder_.has_open_block:
                self.visit_type_(op.ty)
            return op
        return Call(callee, args, op.attrs, ty_args)

    def visit_type_(self, ty: Type) -> Type:
        """A type whose sizes are rewritten, each shape as a `ShapeExpr`; visited where a subclass sees shapes."""
        if not self._sees_shapes:
            return ty
        if isinstance(ty, TensorType) and ty.shape is not None:
            shape = ShapeExpr(ty.shape)
            new = self.visit_expr(shape)
            changed = type(ty) is TensorType and isinstance(new, ShapeExpr) and new is not shape
            return TensorType(new.values, ty.dtype) if changed else ty
        if isinstance(ty, TupleType):
            fields = [self.visit_type_(field) for field in ty.fields]
            return ty if same_items(fields, ty.fields) else TupleType(fields)
        return ty

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Expr:
        """A field of the rewritten tuple."""
        value = self.visit_expr(op.tuple_value)
        return op if value is op.tuple_value else TupleGetItem(value, op.index)

    def visit_if_(self, op: If) -> Expr:
        """A branch of the rewritten condition and sides."""
        cond = self.visit_expr(op.cond)
        sides = self._with_scope(op.true_branch), self._with_scope(op.false_branch)
        if cond is op.cond and sides[0] is op.true_branch and sides[1] is op.false_branch:
            return op
        return If(cond, *sides)

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        """A body of the rewritten blocks and result."""
        blocks: list[BindingBlock] = []
        for block in op.blocks:
            new = self.visit_binding_block(block)
            if new.bindings:
                blocks.append(new)
        self.builder_.begin_block(dataflow=False)
        body = self.builder_.normalize_argument(self.visit_expr(op.body))
        trailing = self.builder_.end_block()
        if trailing.bindings:
            blocks.append(trailing)
        if body is op.body and same_items(blocks, op.blocks):
            return op
        new = SeqExpr(merge_blocks(blocks), body)
        binds_bodies = any(isinstance(binding.value, SeqExpr) for block in blocks for binding in block.bindings)
        return self.builder_.normalize(new) if binds_bodies else new

    def visit_function_(self, op: Function) -> Expr:
        """A function of the rewritten parameters and body; it promises the same type where that still holds."""
        for binding in iter_bindings(op):
            self.builder_.reserve_name(binding.var.name_hint)
        params: list[Var] = []
        for param in op.params:
            new = self.visit_var_def(param)
            if new is not param:
                self.set_var_remap(param, new)
            params.append(new)
        body = self._with_scope(op.body)
        if body is op.body and same_items(params, op.params):
            return op
        ret_ty = op.ret_ty if is_subtype(body.ty, op.ret_ty) is True else None
        return Function(params, body, ret_ty, op.is_pure, op.attrs)

    # --- bindings and blocks

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Emit the binding of the rewritten value; the variable follows its type."""
        value = self._written_out(self.visit_expr(binding.value))
        var = self.visit_var_def(binding.var)
        if value is binding.value and var is binding.var:
            self.builder_.emit_normalized(binding)
            return
        if value.ty != var.ty and (binding.var.ty == binding.value.ty or is_subtype(value.ty, var.ty) is not True):
            var = self.with_type(var, value.ty)
        self.set_var_remap(binding.var, var)
        self.builder_.emit_normalized(VarBinding(var, value))

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Emit the checked binding of the rewritten value."""
        value = self.builder_.normalize_argument(self.visit_expr(binding.value))
        var = self.visit_var_def(binding.var)
        if value is not binding.value or var is not binding.var:
            self.set_var_remap(binding.var, var)
            binding = MatchCast(var, value, binding.ty)
        self.builder_.emit_normalized(binding)

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        """A plain block of what its bindings become."""
        return self._block(block, dataflow=False)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """A dataflow block of what its bindings become."""
        return self._block(block, dataflow=True)

    def visit_var_def_(self, var: Var) -> Var:
        """The replacement of a parameter or bound variable: itself, of a type whose sizes are rewritten."""
        return self.with_type(var, self.visit_type_(var.ty))

    visit_dataflow_var_def_ = visit_var_def_

    def _block(self, block: BindingBlock, *, dataflow: bool) -> BindingBlock:
        self.builder_.begin_block(dataflow=dataflow)
        for binding in block.bindings:
            self.visit_binding(binding)
        new = self.builder_.end_block()
        return block if same_items(new.bindings, block.bindings) else new

    def _with_scope(self, expr: Expr) -> SeqExpr:
        return as_seq(cast("Expr", self.visit_expr(as_seq(expr))))

    def _written_out(self, value: Expr) -> Expr:
        """``value`` for a binding, with the condition of a branch bound before it."""
        if isinstance(value, If) and not is_leaf(value.cond):
            return self.builder_.normalize(value)
        return value

    def _flat(self, expr: Expr) -> Expr:
        """``expr`` with its inner calls bound, where a block is open to take them."""
        if is_leaf(expr) or isinstance(expr, Function | SeqExpr | If) or not self.builder_.has_open_block:
            return expr
        return flatten(expr, self.builder_.emit)


def visitor(visitor_cls: _Class) -> _Class:
    """Mark a class as a visitor, as in Relax; it must derive from `PyExprVisitor`."""
    return _marked(visitor_cls, PyExprVisitor)


def mutator(mutator_cls: _Class) -> _Class:
    """Mark a class as a mutator, as in Relax; it must derive from `PyExprMutator`."""
    return _marked(mutator_cls, PyExprMutator)


def _marked(decorated: _Class, base: type) -> _Class:
    if not issubclass(decorated, base):
        raise IRError(f"{decorated.__name__} must derive from {base.__name__}")
    setattr(decorated, "_cls", decorated)  # noqa: B010 - the name by which Relax's subclasses reach a marked class
    return decorated


def _method_of(expr: Expr | SymVar) -> str:
    """The method for the kind of ``expr``; a size variable is a variable."""
    name = "visit_var_" if isinstance(expr, SymVar) else METHODS.get(type(expr))
    if name is None:
        raise IRError(f"a {type(expr).__name__} is no expression that can be visited")
    return name


__all__: Final = ["ExprFunctor", "PyExprMutator", "PyExprVisitor", "mutator", "visitor"]

"""Relax's visitors and mutators, whose methods visit the parts of their nodes themselves.

`PyExprVisitor` and `PyExprMutator` call one method per kind of node, and each method visits the parts of its node.
So an overriding method decides if, when and in what order the parts are visited. These classes recurse along nested
expressions and branches, but not along a block's bindings. This library itself uses `walk` and `mutator.ExprMutator`,
which do not recurse.
"""

from __future__ import annotations

from typing import Any, Final, Self, TypeVar, cast

from .builder import BlockBuilder, flatten
from .dims import Dim, SymVar, substitute, uses_of_symvars
from .errors import IRError
from .expr import (
    Constant,
    DataflowVar,
    Expr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from .module import IRModule
from .mutator import same_items
from .op import Call
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
    """Base of the two classes below: calls the method for the kind of an expression, binding or block."""

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
        """Visit an expression whose kind has no method of its own; by default raises `IRError`."""
        raise IRError(f"{type(self).__name__} has no method for a {type(expr).__name__}")

    def visit_constant_(self, op: Constant) -> Any:
        """Visit a constant; by default calls `visit_generic_const_`, its newer name."""
        return self.visit_generic_const_(op)

    def visit_op_(self, op: Any) -> Any:
        """Visit an operator that is called; like all kinds of expressions, by default with `visit_expr_fallback_`."""
        return self.visit_expr_fallback_(op)

    visit_generic_const_ = visit_prim_value_ = visit_string_imm_ = visit_data_type_imm_ = visit_shape_expr_ = visit_op_
    visit_var_ = visit_dataflow_var_ = visit_global_var_ = visit_extern_func_ = visit_tuple_ = visit_op_
    visit_function_ = visit_call_ = visit_seq_expr_ = visit_if_ = visit_tuple_getitem_ = visit_op_

    def visit_var_binding_(self, binding: VarBinding) -> Any:
        """Visit ``var = value``."""
        raise NotImplementedError

    def visit_match_cast_(self, binding: MatchCast) -> Any:
        """Visit ``var = match_cast(value, ty)``."""
        raise NotImplementedError

    def visit_binding_block_(self, block: BindingBlock) -> Any:
        """Visit a plain block."""
        raise NotImplementedError

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        """Visit a dataflow block."""
        raise NotImplementedError

    def visit_var_def_(self, var: Var) -> Any:
        """Visit the definition of a variable: a parameter, or the left side of a binding."""
        raise NotImplementedError

    def visit_dataflow_var_def_(self, var: DataflowVar) -> Any:
        """Visit the definition of a dataflow variable."""
        raise NotImplementedError

    def visit_span(self, span: Any) -> Any:
        """Visit a place in a source text. Never called: nodes here have origins instead."""
        return span


class PyExprVisitor(ExprFunctor):
    """A visitor of a program; each method visits the parts of its node, unless it is overridden.

    ``visit_expr(function)`` starts it. Parts are visited in order of evaluation, an operator before its arguments.
    After an expression, the sizes of its type are visited, as a `ShapeExpr`; by default this visits their variables.
    """

    _in_program = False

    def visit_binding(self, binding: Binding) -> None:
        """Call `visit_var_binding_` or `visit_match_cast_`."""
        around, self._in_program = self._in_program, True
        super().visit_binding(binding)
        self._in_program = around

    def visit_expr_fallback_(self, expr: Expr) -> None:
        """Visit a leaf, which has no parts: nothing to do."""

    def visit_type_(self, ty: Type) -> None:
        """Visit the sizes of a type: the shape of a tensor, and the fields of a tuple."""
        if isinstance(ty, TensorType) and ty.shape is not None:
            self.visit_expr(ShapeExpr(ty.shape))
        elif isinstance(ty, TupleType):
            for field in ty.fields:
                self.visit_type_(field)

    def visit_var_(self, op: Expr) -> None:
        """Visit the type of a constant or of a variable in use."""
        self.visit_type_(op.ty)

    visit_dataflow_var_ = visit_generic_const_ = visit_var_

    def visit_shape_expr_(self, op: ShapeExpr) -> None:
        """Visit the size variables of a shape, once for each use."""
        for dim in op.values:
            for size in uses_of_symvars(dim):
                self.visit_expr(size)

    def visit_tuple_(self, op: Tuple) -> None:
        """Visit the fields of a tuple, then its type."""
        for field in op.fields:
            self.visit_expr(field)
        self.visit_type_(op.ty)

    def visit_function_(self, op: Function) -> None:
        """Visit the parameters of a function, then its body."""
        around, self._in_program = self._in_program, True
        for param in op.params:
            self.visit_var_def(param)
        self.visit_expr(op.body)
        self._in_program = around

    def visit_call_(self, op: Call) -> None:
        """Visit the callee, the ``ty_args`` and the arguments of a call; inside a program, its type too."""
        self.visit_expr(op.op)
        for ty in op.ty_args:
            self.visit_type_(ty)
        for arg in op.args:
            self.visit_expr(arg)
        if self._in_program:  # in Relax, a call outside of a program has no type yet
            self.visit_type_(op.ty)

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        """Visit the blocks of a body and its result; inside a program, or if it has blocks, its type too."""
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)
        if self._in_program or op.blocks:
            self.visit_type_(op.ty)

    def visit_if_(self, op: If) -> None:
        """Visit the condition and both sides of a branch; inside a program, its type too."""
        self.visit_expr(op.cond)
        self.visit_expr(op.true_branch)
        self.visit_expr(op.false_branch)
        if self._in_program:
            self.visit_type_(op.ty)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> None:
        """Visit the tuple of a projection, then the projection's type."""
        self.visit_expr(op.tuple_value)
        self.visit_type_(op.ty)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Visit the value of a binding, then its variable."""
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        """Visit the value of a checked binding, the type it is checked for, then its variable."""
        self.visit_expr(binding.value)
        self.visit_type_(binding.ty)
        self.visit_var_def(binding.var)

    def visit_binding_block_(self, block: BindingBlock) -> None:
        """Visit the bindings of a block, plain or dataflow."""
        for binding in block.bindings:
            self.visit_binding(binding)

    visit_dataflow_block_ = visit_binding_block_

    def visit_var_def_(self, var: Var) -> None:
        """Visit the definition of a variable: nothing to do."""

    def visit_dataflow_var_def_(self, var: DataflowVar) -> None:
        """Visit the definition of a dataflow variable: nothing to do."""


class PyExprMutator(ExprFunctor):
    """Rewrites a program; each method rewrites the parts of its node and returns the replacement of the node.

    ``visit_expr(function)`` returns the new function, which ``builder_`` writes. Bindings that a method emits there
    stand before the binding that is being rewritten, and nested calls that a method returns are bound to variables.
    ``builder_.get()`` is the module given at the start, with the functions that were added or updated.
    """

    builder_: BlockBuilder
    _remap: dict[Any, Any]
    _sees_shapes = False

    def __init_subclass__(cls) -> None:
        """Visit the shapes in types too, if the class overrides a method for shapes, variables or all expressions."""
        super().__init_subclass__()
        names = "visit_shape_expr_", "visit_var_", "visit_expr"
        cls._sees_shapes = any(getattr(cls, name) is not getattr(PyExprMutator, name) for name in names)

    def __new__(cls, *_args: Any, **_keywords: Any) -> Self:
        """A mutator over an empty module, which ``__init__`` may replace."""
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
        """``expr`` with its parts rewritten, by the default method for its kind."""
        name = "visit_generic_const_" if isinstance(expr, Constant) else _method_of(expr)
        return getattr(PyExprMutator, name)(self, expr)

    def visit_with_new_scope(self, expr: Expr) -> SeqExpr:
        """The body of a branch or function, rewritten in a scope of its own."""
        return self._with_scope(expr)

    def set_var_remap(self, old_var: Var, new_var: Var) -> None:
        """Replace all later uses of ``old_var`` by ``new_var``."""
        self._remap[old_var] = new_var

    def get_var_remap(self, var: Var) -> Var:
        """The replacement of ``var``: itself if none is set."""
        return self._remap.get(var, var)

    def lookup_binding(self, var: Var) -> Expr | None:
        """The value that ``var`` is bound to in the new program; None if it is not bound there."""
        return self.builder_.lookup_binding(var)

    def with_type(self, var: Var, ty: Type) -> Var:
        """``var`` if it has the type ``ty``; otherwise a new variable of the same name with that type."""
        return var if var.ty == ty else type(var)(var.name_hint, ty, var.origins)

    # --- expressions

    def visit_expr_fallback_(self, expr: Expr) -> Expr:
        """A leaf, unchanged."""
        return expr

    def visit_var_(self, op: Var) -> Expr:
        """The replacement of a variable in use, as `set_var_remap` sets it."""
        return self._remap.get(op, op)

    visit_dataflow_var_ = visit_var_

    def visit_shape_expr_(self, op: ShapeExpr) -> Expr:
        """A shape with its size variables rewritten."""
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
        """A call with the rewritten callee, types and arguments, typed again."""
        callee = self.visit_expr(op.op)
        ty_args = [self.visit_type_(ty) for ty in op.ty_args]
        args = [self.visit_expr(arg) for arg in op.args]
        if callee is op.op and same_items(args, op.args) and same_items(ty_args, op.ty_args):
            # As in Relax, the type of a bound call is visited if nothing else changes. The type follows the arguments.
            if self.builder_.has_open_block:
                self.visit_type_(op.ty)
            return op
        return Call(callee, args, op.attrs, ty_args)

    def visit_type_(self, ty: Type) -> Type:
        """A type with its shapes rewritten, each as a `ShapeExpr`; unchanged unless the subclass rewrites shapes."""
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
        """A branch with the rewritten condition and sides."""
        cond = self.visit_expr(op.cond)
        sides = self._with_scope(op.true_branch), self._with_scope(op.false_branch)
        if cond is op.cond and sides[0] is op.true_branch and sides[1] is op.false_branch:
            return op
        return If(cond, *sides)

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        """A body with the rewritten blocks and result."""
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
        """A function with the rewritten parameters and body. It keeps its return type if the new body still has it."""
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
        """Emit the binding with the rewritten value. A new type of the value becomes the variable's type.

        A declared type of the variable stays if the new value still has it.
        """
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
        """Emit the checked binding with the rewritten value."""
        value = self.builder_.normalize_argument(self.visit_expr(binding.value))
        var = self.visit_var_def(binding.var)
        if value is not binding.value or var is not binding.var:
            self.set_var_remap(binding.var, var)
            binding = MatchCast(var, value, binding.ty)
        self.builder_.emit_normalized(binding)

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        """A plain block with the rewritten bindings."""
        return self._block(block, dataflow=False)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """A dataflow block with the rewritten bindings."""
        return self._block(block, dataflow=True)

    def visit_var_def_(self, var: Var) -> Var:
        """The replacement of a parameter or bound variable: a variable of the rewritten type, or itself."""
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
        """``expr`` with its inner calls bound, if a block is open for them."""
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

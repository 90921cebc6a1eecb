"""Rewriting programs node by node: `ExprMutator` rebuilds a program from the results of its methods.

Unchanged parts are shared; if nothing changes, the result is the same object. Types are inferred
again. A variable whose value has a new type is replaced at every use by a variable of that type, with the same name
and origins. The traversal keeps an explicit stack, as in `visitor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast, final

from .builder import NameSupply, flatten, with_parts
from .errors import IRError
from .expr import DataflowVar, Expr, GlobalVar, Var
from .module import IRModule
from .op import Call
from .origin import Origins
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
from .steps import Steps, run_steps
from .types import Type, erase_unbound, is_subtype, type_symvars
from .visitor import COMPOUND, METHODS, parts_of

_T = TypeVar("_T")


class ExprMutator:
    """Rewrites programs; override the methods for the nodes that change.

    A subclass has a method for each kind of expression that it changes, under its name in `METHODS`
    (``visit_call_(call)``, ``visit_function_(function)``). The method gets the expression with its parts already
    rewritten and returns the replacement. Nested calls in the replacement are bound to new variables just before it.
    `emit` adds a binding before the one that is being rewritten. Cost: linear, plus the cost of the methods.
    """

    def __init__(self) -> None:
        self._remap: dict[Var, Expr] = {}
        self._scopes: list[tuple[list[Binding], bool]] = []
        self._names: NameSupply | None = None
        self._root: Any = None
        self._origins: Origins = ()
        own = type(self)
        self._kept = _kept_kinds(own)
        self._methods: dict[type, Callable[[Any], Expr]] = {
            kind: _itself if kind in self._kept else getattr(self, name) for kind, name in METHODS.items()
        }
        self._keeps_definitions = (own.visit_type, own.visit_var_def_) == (
            ExprMutator.visit_type,
            ExprMutator.visit_var_def_,
        )

    # --- what callers and methods use

    def mutate(self, node: _T) -> _T:
        """``node`` (a function, a module, or an expression) rewritten; the same object if nothing changed."""
        self._root = node
        self._names = None
        if isinstance(node, IRModule):
            return cast(_T, self._module(node))
        if not isinstance(node, Expr):
            raise IRError(f"cannot rewrite {type(node).__name__}; give an expression, a function or a module")
        return cast(_T, run_steps(self._nested(node)))

    def emit(self, expr: Expr, name_hint: str = "") -> Var:
        """Bind ``expr`` to a new variable before the binding that is being rewritten, and return it.

        The new variable has the origins of the variable of that binding. In a dataflow block it is a `DataflowVar`.
        Raises `IRError` outside of a function's body.
        """
        if not self._scopes:
            raise IRError("nothing can be emitted outside of a function's body")
        value = flatten(expr, self.emit)
        var = self._new_variable(value.ty, name_hint)
        self._scopes[-1][0].append(VarBinding(var, value))
        return var

    def emit_match_cast(self, expr: Expr, ty: Type) -> Var:
        """Bind ``expr`` as `emit` does, with a run-time check that it is of type ``ty``."""
        leaf = flatten(expr, self.emit, keep_root=False)
        var = self._new_variable(ty)
        self._scopes[-1][0].append(MatchCast(var, leaf, ty))
        return var

    def remap(self, var: Var, expr: Expr) -> None:
        """Replace all later uses of ``var`` by ``expr``, which must be a leaf."""
        if not is_leaf(expr):
            raise IRError(
                f"{var.name_hint} can only be replaced by a leaf, not by {type(expr).__name__}; emit it first"
            )
        self._remap[var] = expr

    def _new_variable(self, ty: Type, name_hint: str = "") -> Var:
        if self._names is None:
            self._names = NameSupply.beside(self._root)
        make, prefix = (DataflowVar, "lv") if self._scopes[-1][1] else (Var, "gv")
        return make(self._names.fresh(name_hint or prefix), ty, self._origins)

    # --- methods to override

    def visit_type(self, ty: Type) -> Type:
        """The replacement of a type that the program states: of a variable, `MatchCast` or result, or in `ty_args`."""
        return ty

    def visit_var_def_(self, var: Var) -> Var:
        """The replacement of a parameter or bound variable; by default of the type that `visit_type` returns."""
        return _retyped(var, self.visit_type(var.ty))

    def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
        """The replacement of a binding; None drops it."""
        return binding

    def visit_match_cast_(self, binding: MatchCast) -> Binding | None:
        """The replacement of a checked binding; None drops it."""
        return binding

    def visit_block_(self, block: BindingBlock) -> BindingBlock:
        """The replacement of a block. A block without bindings is dropped."""
        return block

    # --- programs

    def _module(self, module: IRModule) -> IRModule:
        def change(name: str, function: Function) -> Function:
            rewritten = run_steps(self._nested(function))
            if not isinstance(rewritten, Function):
                raise IRError(f"{name} became {type(rewritten).__name__}; a function of a module must stay a function")
            return rewritten

        return module.with_each(change)

    def _function(self, function: Function) -> Steps[Expr]:
        params = tuple([self._define(param) for param in function.params])
        body = cast(SeqExpr, (yield self._seq(function.body)))
        ret_ty = self.visit_type(function.ret_ty)
        if body is function.body and ret_ty is function.ret_ty and same_items(params, function.params):
            return self._methods[Function](function)
        sizes = {size for param in function.params for size in type_symvars(param.ty)}
        stated = function.ret_ty != erase_unbound(function.body.ty, sizes.__contains__)
        keep = stated and is_subtype(body.ty, ret_ty) is not False
        new = Function(params, body, ret_ty if keep else None, function.is_pure, function.attrs)
        return self._methods[Function](new)

    def _seq(self, seq: SeqExpr) -> Steps[SeqExpr]:
        blocks: list[BindingBlock] = []
        for block in seq.blocks:
            rewritten: BindingBlock = yield self._block(block)
            blocks.append(rewritten)
        self._scopes.append(([], False))
        body = yield self._nested(seq.body)
        result = flatten(body, self.emit, keep_root=False)
        trailing, _ = self._scopes.pop()
        if trailing:
            blocks.append(BindingBlock(trailing))
        if result is not seq.body or not same_items(blocks, seq.blocks):
            seq = SeqExpr(merge_blocks(blocks), result)
        return as_seq(self._methods[SeqExpr](seq))

    def _block(self, block: BindingBlock) -> Steps[BindingBlock]:
        bindings: list[Binding] = []
        self._scopes.append((bindings, isinstance(block, DataflowBlock)))
        for binding in block.bindings:
            self._origins = binding.var.origins
            value = binding.value
            shallow = self._shallow(value)
            if shallow is None:
                shallow = yield self._nested(value)
                self._origins = binding.var.origins
            kept = self._binding(binding, shallow)
            if kept is not None:
                bindings.append(kept)
        self._scopes.pop()
        if not same_items(bindings, block.bindings):
            block = type(block)(bindings)
        return self.visit_block_(block)

    def _binding(self, binding: Binding, value: Expr) -> Binding | None:
        if isinstance(binding, MatchCast):
            return self._match_cast(binding, value)
        if value is binding.value and self._keeps_definitions:
            return self.visit_var_binding_(binding)
        if value is not binding.value:
            value = flatten(value, self.emit)
        var = self.visit_var_def_(binding.var)
        if value is not binding.value:
            exact = binding.var.ty == binding.value.ty
            if value.ty != var.ty and (exact or is_subtype(value.ty, var.ty) is not True):
                var = _retyped(var, value.ty)
        old = binding.var
        if value is not binding.value or var is not old:
            binding = VarBinding(var, value)
        kept = self.visit_var_binding_(binding)
        if var is not old:
            # The method may have remapped the variable of the new type.
            self._remap[old] = self._remap.get(var, var)
        return kept

    def _match_cast(self, binding: MatchCast, value: Expr) -> Binding | None:
        value = flatten(value, self.emit, keep_root=False)
        ty = self.visit_type(binding.ty)
        var = self._define(binding.var)
        if value is not binding.value or ty is not binding.ty or var is not binding.var:
            binding = MatchCast(var, value, ty)
        return self.visit_match_cast_(binding)

    def _define(self, var: Var) -> Var:
        new = self.visit_var_def_(var)
        if new is not var:
            self._remap[var] = new
        return new

    # --- expressions

    def _leaf(self, expr: Expr) -> Expr:
        if isinstance(expr, Var):
            expr = self._remap.get(expr, expr)
        return self._methods[type(expr)](expr)

    def _shallow(self, expr: Expr) -> Expr | None:
        """``expr`` rewritten, if it is a leaf, or a call, tuple or projection of leaves; None otherwise."""
        kind = type(expr)
        if kind not in COMPOUND:
            return self._leaf(expr)
        if kind is If or kind is SeqExpr or kind is Function:
            return None
        parts = cast(Sequence[Expr], parts_of(expr))
        for part in parts:
            if type(part) in COMPOUND:
                return None
        remap, kept = self._remap, self._kept
        leaves: list[Expr] = []
        is_same = True
        for part in parts:
            leaf = remap.get(part, part) if isinstance(part, Var) else part
            if type(leaf) not in kept:
                leaf = self._methods[type(leaf)](leaf)
            is_same = is_same and leaf is part
            leaves.append(leaf)
        if not is_same or (type(expr) is Call and expr.ty_args):
            expr = self._with_parts(expr, parts, leaves)
        return expr if kind in kept else self._methods[kind](expr)

    def _nested(self, root: Expr) -> Steps[Expr]:
        """``root``, which may be any expression, rewritten; each shared part is rewritten once."""
        done: dict[int, Expr] = {}
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            kind = type(node)
            if id(node) in done:
                continue
            if kind not in COMPOUND:
                done[id(node)] = self._leaf(node)
            elif isinstance(node, Function):
                done[id(node)] = yield self._function(node)
            elif isinstance(node, SeqExpr):
                done[id(node)] = yield self._seq(node)
            elif isinstance(node, If) and leaving:
                true_branch = yield self._seq(node.true_branch)
                false_branch = yield self._seq(node.false_branch)
                cond = done[id(node.cond)]
                if not same_items((cond, true_branch, false_branch), (node.cond, node.true_branch, node.false_branch)):
                    node_now = If(flatten(cond, self.emit, keep_root=False), true_branch, false_branch)
                else:
                    node_now = node
                done[id(node)] = self._methods[If](node_now)
            elif leaving:
                parts = cast(Sequence[Expr], parts_of(node))
                new = self._with_parts(node, parts, [done[id(part)] for part in parts])
                done[id(node)] = self._methods[kind](new)
            else:
                stack.append((node, True))
                parts = (node.cond,) if isinstance(node, If) else cast(Sequence[Expr], parts_of(node))
                stack.extend([(part, False) for part in reversed(parts)])
        return done[id(root)]

    @final
    def _with_parts(self, expr: Expr, old: Sequence[Expr], new: Sequence[Expr]) -> Expr:
        if isinstance(expr, Call) and expr.ty_args:
            ty_args = tuple([self.visit_type(ty) for ty in expr.ty_args])
            if not same_items(ty_args, expr.ty_args):
                return Call(new[0], new[1:], expr.attrs, ty_args)
        return expr if same_items(new, old) else with_parts(expr, new)


class NewVariables(ExprMutator):
    """Copies a program with new variables, so that one body can stand in several places."""

    def visit_var_def_(self, var: Var) -> Var:
        """A new variable of the same kind, name and type."""
        return type(var)(var.name_hint, var.ty, var.origins)


class NewDefinitions(ExprMutator):
    """Replaces variables by a table, both where they are bound and where they are used."""

    def __init__(self, table: Mapping[Var, Var]) -> None:
        super().__init__()
        self._table = table

    def visit_var_def_(self, var: Var) -> Var:
        """The replacement of ``var`` in the table; ``var`` itself if it is not in the table."""
        return self._table.get(var, var)


class NewGlobals(ExprMutator):
    """Replaces global variables by others of the same names."""

    def __init__(self, variables: Mapping[str, GlobalVar]) -> None:
        super().__init__()
        self._variables = variables

    def visit_global_var_(self, var: GlobalVar) -> Expr:
        """The replacement for the variable's name; ``var`` itself if there is none."""
        return self._variables.get(var.name_hint, var)


@cache
def _kept_kinds(mutator: type[ExprMutator]) -> frozenset[type]:
    """The kinds of expression that ``mutator`` leaves unchanged, since it has no method for them."""
    return frozenset(kind for kind, name in METHODS.items() if not hasattr(mutator, name))


def _itself(expr: Expr) -> Expr:
    return expr


def same_items(new: Sequence[object], old: Sequence[object]) -> bool:
    """True if two sequences hold the same objects."""
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))


def _retyped(var: Var, ty: Type) -> Var:
    return var if ty is var.ty else type(var)(var.name_hint, ty, var.origins)

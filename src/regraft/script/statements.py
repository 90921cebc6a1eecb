"""Statements of a function: from a syntax tree to blocks of bindings in A-normal form.

Each statement is read once, in order; the cost of a function is linear in its text. Only nested branches and blocks use
the stack, and Python limits these to a hundred levels; a sequence of bindings uses none.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast, final

from ..ir.builder import BodyBlocks, flatten
from ..ir.dims import SymVar
from ..ir.expr import DataflowVar, Expr, Tuple, TupleGetItem, Var
from ..ir.op import Call
from ..ir.origin import Origin, Origins
from ..ir.program import DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding, is_leaf, merge_blocks
from ..ir.types import PrimType, TupleType, Type, common_supertype, is_subtype, without_numbers
from . import intrinsics
from .annotations import as_type
from .environment import Environment
from .evaluate import ScriptEvaluator, as_value
from .macros import Macro
from .source import SourceText, parse_expression

_NO_NAMES: Final[frozenset[str]] = frozenset()


class _Merge(NamedTuple):
    """The last binding of a branch: the name, the value, and the annotated type of the name."""

    name: str
    value: Expr
    annotation: Type | None


def _is_plain_list(value: object) -> bool:
    """True if ``value`` is a Python list without values of the program; its name is then a Python name."""
    return isinstance(value, list) and not any(isinstance(item, Expr) for item in cast("list[object]", value))


@final
class FunctionReader:
    """Reads the statements of one function; ``local`` reads a function defined inside it."""

    def __init__(
        self,
        source: SourceText,
        environment: Environment,
        python: Mapping[str, Any] | None,
        local: Callable[[ast.FunctionDef, Environment, Callable[[Type], None]], Function],
    ) -> None:
        self.source = source
        self.environment = environment
        self.evaluator = ScriptEvaluator(source, environment, python, self._expanded)
        self.local = local
        self.made = {"lv": 0, "gv": 0}
        self.attrs: dict[str, Any] = {}
        self.name: str | None = None
        self.in_dataflow = False
        self._outputs = _NO_NAMES
        self._returning: tuple[ast.stmt, ast.stmt] | None = None
        self._body = BodyBlocks()

    def read(self, node: ast.FunctionDef) -> SeqExpr:
        """The body of a function, whose last statement is its only return."""
        *statements, last = _with_return_last(node.body)
        if last is not node.body[-1]:
            self._returning = (statements[-1], last)
        if not isinstance(last, ast.Return):
            raise self.source.error(last, f"function {node.name!r} must end with a return statement")
        for statement in statements:
            self._statement(statement)
        value: Any = () if last.value is None else self.evaluator.evaluate(last.value)
        result = self._leaf(last, self.evaluator.guarded(last, as_value, value))
        self._body.close_block()
        return SeqExpr(merge_blocks(self._body.blocks), result)

    # --- statements

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[target], value=value):
                self._assign(node, target, value)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                self._bind_value(node, target, value, self.annotation(node.annotation))
            case ast.Expr(value=ast.Call() as call):
                self._call_statement(node, call)
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                pass
            case ast.With():
                self._dataflow(node)
            case ast.If():
                self._if(node)
            case ast.AugAssign(target=ast.Name() as target):
                before = self.evaluator.evaluate(ast.copy_location(ast.Name(target.id, ast.Load()), target))
                operand = self.evaluator.evaluate(node.value)
                self._bind_name(node, target, self.evaluator.binary(node, type(node.op), before, operand))
            case ast.FunctionDef():
                self._local(node)
            case ast.Return():
                raise self.source.error(node, "return must be the last statement of a function, outside of branches")
            case ast.Assign():
                raise self.source.error(node, "bind one name at a time: a = b = ... is not a statement of the language")
            case ast.AnnAssign():
                raise self.source.error(node, "an annotation needs a single name that is bound to a value")
            case _:
                what = type(node).__name__.lower()
                raise self.source.error(node, f"{what!r} is not a statement of a program")

    def _local(self, node: ast.FunctionDef) -> None:
        """Read a function that is defined here; it sees its own name if its return type is written."""
        own: list[Var] = []

        def declare(ty: Type) -> None:
            own.append(self._variable(node, node.name, ty))
            self.environment.bind(node.name, own[0])

        function = self.local(node, self.environment, declare)
        if own and own[0].ty == function.ty:
            self._body.bindings.append(VarBinding(own[0], function))
        else:
            self._emit(node, node.name, function)

    def _assign(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._bind_value(node, target, value, None)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(node, target.elts, self.evaluator.evaluate(value))
        else:
            raise self.source.error(target, "only a name, or a tuple of names, can be bound")

    def _unpack(self, node: ast.stmt, targets: Sequence[ast.expr], value: Any) -> None:
        if isinstance(value, Expr):
            value = self._fields(node, value)
        if not isinstance(value, tuple | list):
            raise self.source.error(node, f"{value!r} cannot be unpacked; it is not a tuple")
        items = cast("Sequence[Any]", value)
        if len(items) != len(targets):
            raise self.source.error(node, f"a tuple of {len(items)} fields is unpacked into {len(targets)} names")
        for target, item in zip(targets, items, strict=True):
            if isinstance(target, ast.Tuple | ast.List):
                self._unpack(node, target.elts, item)
            elif isinstance(target, ast.Name):
                self._bind_name(node, target, item)
            else:
                raise self.source.error(target, "only a name, or a tuple of names, can be bound")

    def _fields(self, node: ast.stmt, value: Expr) -> Sequence[Expr]:
        if not isinstance(value.ty, TupleType):
            raise self.source.error(node, f"a value of type {value.ty!r} cannot be unpacked; it is not a tuple")
        owner = self._leaf(node, value)
        return [TupleGetItem(owner, i) for i in range(len(value.ty.fields))]

    def _bind_value(self, node: ast.stmt, target: ast.Name, value: ast.expr, annotation: Type | None) -> None:
        if isinstance(value, ast.Call):
            callee = self.evaluator.evaluate(value.func)
            if callee is intrinsics.match_cast:
                self._match_cast(node, target.id, value, annotation)
                return
            result = self.evaluator.call(value, callee)
        else:
            result = self.evaluator.evaluate(value)
        self._bind_name(node, target, result, annotation)

    def _bind_name(self, node: ast.stmt, target: ast.Name, value: Any, annotation: Type | None = None) -> None:
        name = target.id
        if isinstance(value, SymVar) and annotation is None:
            self._declare_size(name, value)
        elif annotation is None and (self._is_outer_name(value) or _is_plain_list(value)):
            self.environment.bind(name, value)
        else:
            self._emit(node, name, self.evaluator.guarded(node, as_value, value), annotation)

    def _is_outer_name(self, value: object) -> bool:
        """True if ``value`` is the meaning of a module's own name, as in ``cls = Module``."""
        return value is not None and value is self.environment.get("cls", None)

    def _declare_size(self, name: str, value: SymVar) -> None:
        if self.environment.get(name, None) is not value:
            if value.name == "":
                value = self.environment.sizes.variable(name)
            self.environment.bind(name, value)
            self.environment.sizes.adopt(name, value)

    def _match_cast(self, node: ast.stmt, name: str, call: ast.Call, annotation: Type | None) -> None:
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        if len(arguments) != 2:
            raise self.source.error(call, "R.match_cast takes a value and a type")
        value = self.evaluator.guarded(call, as_value, self.evaluator.evaluate(arguments[0]))
        ty = self.annotation(arguments[1])
        leaf = self._leaf(node, value)
        declared = self._check_annotation(node, ty, annotation)
        var = self._variable(node, name, declared)
        self._body.bindings.append(MatchCast(var, leaf, ty))
        self.environment.bind(name, var)

    def _call_statement(self, node: ast.Expr, call: ast.Call) -> None:
        callee = self.evaluator.evaluate(call.func)
        if callee is intrinsics.func_attr or callee is intrinsics.func_name:
            arguments = [self.evaluator.evaluate(argument) for argument in call.args]
            if len(arguments) != 1 or not isinstance(arguments[0], dict if callee is intrinsics.func_attr else str):
                raise self.source.error(call, 'write R.func_attr({"name": value}), R.func_name("name")')
            if callee is intrinsics.func_name:
                self.name = cast(str, arguments[0])
            else:
                given = intrinsics.freeze(arguments[0])
                for key in given:
                    if key in self.attrs:
                        raise self.source.error(call, f"R.func_attr gives {key!r} a second time")
                self.attrs.update(given)
        elif callee is intrinsics.output:
            raise self.source.error(node, "R.output(...) is the last statement of a dataflow block")
        elif callee is intrinsics.match_cast:
            self._match_cast(node, "_", call, None)
        else:
            value = self.evaluator.guarded(node, as_value, self.evaluator.call(call, callee))
            if value.ty != TupleType(()):
                raise self.source.error(node, f"a value of type {value.ty!r} is lost here; bind it to a name: _ = ...")
            self._emit(node, "_", value)

    # --- macros

    def _expanded(self, node: ast.Call, macro: Macro, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The result of a macro; its statements are read in place of the call."""
        values = self.evaluator.guarded(node, macro.bound, args, keywords)
        outer = self.source, self.environment, self.evaluator
        scope = macro.scope if macro.hygienic else ChainMap(dict(self.environment.items()), dict(macro.scope))
        around = Environment(scope if not macro.hygienic else {}, self.environment.sizes)
        self.source, self.environment = macro.source, around
        self.evaluator = ScriptEvaluator(macro.source, around, macro.scope, self._expanded, self.evaluator.depth)
        for name, value in values.items():
            around.bind(name, value)
        try:
            *statements, last = macro.node.body
            if not isinstance(last, ast.Return):
                statements, last = macro.node.body, None
            for statement in statements:
                self._statement(statement)
            return () if last is None or last.value is None else self.evaluator.evaluate(last.value)
        finally:
            self.source, self.environment, self.evaluator = outer

    # --- bindings

    def annotation(self, node: ast.expr) -> Type:
        """A type annotation; raises `ParseError` if it is not a type."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parsed = self.evaluator.guarded(node, parse_expression, node.value)
            for inner in ast.walk(parsed):
                ast.copy_location(inner, node)
            node = parsed
        value = self.evaluator.evaluate(node)
        return self.evaluator.guarded(node, as_type, value, "the annotation")

    def _check_annotation(self, node: ast.stmt, inferred: Type, annotation: Type | None) -> Type:
        """The type of a variable.

        The annotated type if the value may have it, otherwise the inferred type.
        """
        if annotation is None or annotation == inferred:
            return inferred
        if is_subtype(inferred, annotation) is False:
            raise self.source.error(node, f"the annotation is {annotation!r}, but the value is {inferred!r}")
        if isinstance(annotation, PrimType | TupleType) and annotation == without_numbers(inferred):
            return inferred  # the inferred type has the numbers, so that the name may stand for a size
        return annotation

    def _emit(self, node: ast.stmt, name: str, value: Expr, annotation: Type | None = None) -> Var:
        """Bind ``name`` to ``value``; inner calls of it are bound first."""
        if not is_leaf(value):
            value = flatten(value, lambda inner: self._temporary(node, inner))
        ty = self._check_annotation(node, value.ty, annotation)
        if ty is annotation and not isinstance(value, Call | If) and is_subtype(value.ty, ty):
            ty = value.ty  # as in Relax, only a result may be given a less precise type
        var = self._variable(node, name, ty)
        self._body.bindings.append(VarBinding(var, value))
        self.environment.bind(name, var)
        return var

    def _variable(self, node: ast.AST, name: str | None, ty: Type) -> Var:
        """A variable of that name; without a name, it is numbered among the variables of its kind of block."""
        kind = "lv" if self.in_dataflow else "gv"
        number = self.made[kind]
        self.made[kind] = number + 1
        if name is None:
            name = f"{kind}{number}" if number else kind
            return (DataflowVar if self.in_dataflow else Var)(name, ty, self._origins(node))
        if self.in_dataflow and name not in self._outputs:
            return DataflowVar(name, ty, self._origins(node))
        return Var(name, ty, self._origins(node))

    def _origins(self, node: ast.AST) -> Origins:
        return (Origin("source", self.source.place(node)),)

    def _temporary(self, node: ast.AST, value: Expr) -> Var:
        var = self._variable(node, None, value.ty)
        self._body.bindings.append(VarBinding(var, value))
        return var

    def _leaf(self, node: ast.AST, value: Expr) -> Expr:
        return flatten(value, lambda inner: self._temporary(node, inner), keep_root=False)

    # --- blocks

    def _dataflow(self, node: ast.With) -> None:
        opened = node.items[0].context_expr
        is_dataflow = isinstance(opened, ast.Call) and self.evaluator.evaluate(opened.func) is intrinsics.dataflow
        if not is_dataflow or len(node.items) > 1 or node.items[0].optional_vars is not None:
            raise self.source.error(node, "the only block of a program is `with R.dataflow():`")
        if self.in_dataflow:
            raise self.source.error(node, "a dataflow block cannot be nested in another")
        statements, outputs = self._split_output(node)
        last = self._last_bindings(statements, outputs)
        self._body.close_block()
        self.environment.open()
        self.in_dataflow = True
        for i, statement in enumerate(statements):
            if isinstance(statement, ast.If):
                raise self.source.error(
                    statement, "an `if` is not allowed in a dataflow block; end the block before it"
                )
            self._outputs = last.get(i, _NO_NAMES)
            self._statement(statement)
        kept = {name: self.environment.get(name, None) for name in outputs}
        self.in_dataflow = False
        self._outputs = _NO_NAMES
        self._body.blocks.append(DataflowBlock(self._body.bindings))
        self._body.bindings = []
        self.environment.close(
            f"it is bound in the dataflow block at line {node.lineno}, but missing in its R.output(...)"
        )
        for name, value in kept.items():
            self.environment.bind(name, value)

    def _split_output(self, node: ast.With) -> tuple[list[ast.stmt], list[str]]:
        """The statements of a dataflow block before its R.output, and the names that it lists.

        If a block has no R.output and ends with the return of the function, its outputs are the returned names.
        """
        match node.body[-1]:
            case ast.Expr(value=ast.Call() as call) if self.evaluator.evaluate(call.func) is intrinsics.output:
                names: list[str] = []
                for argument in call.args:
                    if not isinstance(argument, ast.Name):
                        raise self.source.error(argument, "R.output takes names that the block binds")
                    names.append(argument.id)
                bound = {name for statement in node.body for name in bound_names(statement)}
                for argument, name in zip(call.args, names, strict=True):
                    if name not in bound:
                        raise self.source.error(argument, f"R.output({name}): the block does not bind {name!r}")
                return node.body[:-1], names
            case _ if self._returning is not None and node is self._returning[0]:
                returned = {name.id for name in ast.walk(self._returning[1]) if isinstance(name, ast.Name)}
                bound_here = dict.fromkeys(name for statement in node.body for name in bound_names(statement))
                return node.body, [name for name in bound_here if name in returned]
            case _:
                return node.body, []

    def _last_bindings(self, statements: Sequence[ast.stmt], outputs: Sequence[str]) -> dict[int, frozenset[str]]:
        """For each statement, the outputs that it is the last one to bind."""
        place: dict[str, int] = {}
        for i, statement in enumerate(statements):
            for name in bound_names(statement):
                place[name] = i
        last: dict[int, frozenset[str]] = {}
        for name in outputs:
            last[place[name]] = last.get(place[name], _NO_NAMES) | {name}
        return last

    # --- branches

    def _if(self, node: ast.If) -> None:
        if self.in_dataflow:
            raise self.source.error(node, "an `if` is not allowed in a dataflow block; end the block before it")
        merged = self._merge(node)
        self._emit(node, merged.name, merged.value, merged.annotation)

    def _merge(self, node: ast.If) -> _Merge:
        if not node.orelse:
            raise self.source.error(node, "an `if` needs an `else` that binds the same name last")
        condition = self._leaf(
            node.test, self.evaluator.guarded(node.test, as_value, self.evaluator.evaluate(node.test))
        )
        then, then_body = self._branch(node.body, "then")
        other, other_body = self._branch(node.orelse, "else")
        if then.name != other.name:
            raise self.source.error(
                node,
                f"the branches bind different names last, {then.name!r} and {other.name!r}; bind one name in both",
            )
        value = self.evaluator.guarded(node, If, condition, then_body, other_body)
        annotations = [a for a in (then.annotation, other.annotation) if a is not None]
        annotation = common_supertype(annotations[0], annotations[-1]) if annotations else None
        return _Merge(then.name, value, annotation)

    def _branch(self, statements: Sequence[ast.stmt], which: str) -> tuple[_Merge, SeqExpr]:
        outer, self._body = self._body, BodyBlocks()
        self.environment.open()
        for statement in statements[:-1]:
            self._statement(statement)
        merge = self._last_of_branch(statements[-1], which)
        self._body.close_block()
        body = SeqExpr(merge_blocks(self._body.blocks), merge.value)
        self._body = outer
        self.environment.close("it is bound inside a branch of the `if` before it; bind it last in both branches")
        return merge, body

    def _last_of_branch(self, node: ast.stmt, which: str) -> _Merge:
        """The name that a branch binds last.

        Its value becomes the result of the branch, bound to a name if it is not a leaf.
        """
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                annotation = None
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                annotation = self.annotation(node.annotation)
            case ast.If():
                inner = self._merge(node)
                name = f"{inner.name}_{which}"
                return _Merge(inner.name, self._emit(node, name, inner.value, inner.annotation), None)
            case ast.Expr(value=ast.Call() as call):
                effect = self.evaluator.guarded(node, as_value, self.evaluator.evaluate(call))
                done = self._emit(node, "_", effect)
                return _Merge("_", Tuple(()) if done.ty == TupleType(()) else done, None)
            case ast.With():
                self._dataflow(node)
                _, outputs = self._split_output(node)
                if len(outputs) != 1:
                    raise self.source.error(
                        node, "a dataflow block that ends a branch has one output, the branch's result"
                    )
                return _Merge(outputs[0], self.environment.get(outputs[0], None), None)
            case _:
                raise self.source.error(node, "a branch must end by binding a name, the same name in both branches")
        if isinstance(value, ast.Call) and self.evaluator.evaluate(value.func) is intrinsics.match_cast:
            self._match_cast(node, f"{name}_{which}", value, annotation)
            return _Merge(name, self.environment.get(f"{name}_{which}", None), None)
        result = self.evaluator.guarded(node, as_value, self.evaluator.evaluate(value))
        self._check_annotation(node, result.ty, annotation)
        if not is_leaf(result):
            result = self._emit(node, f"{name}_{which}", result, annotation)
        if result.ty == TupleType(()):
            result = Tuple(())
        stated = annotation is not None and not is_subtype(result.ty, annotation)
        return _Merge(name, result, annotation if stated else None)


def _with_return_last(statements: list[ast.stmt]) -> list[ast.stmt]:
    """``statements`` with a return at the end of the last dataflow block moved after that block."""
    match statements[-1]:
        case ast.With(items=items, body=[_, *_, ast.Return() as last]) as block:
            inner = ast.copy_location(ast.With(items, block.body[:-1]), block)
            return [*statements[:-1], inner, last]
        case _:
            return statements


def bound_names(statement: ast.stmt) -> list[str]:
    """The names that a statement binds itself; statements inside it are not included."""
    match statement:
        case ast.Assign(targets=targets):
            return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            return [name]
        case ast.FunctionDef(name=name):
            return [name]
        case _:
            return []

"""Expressions of a script: from a syntax tree to values of the language.

One evaluator serves both kinds of source. In a text, names have the meanings that the text and the closed namespaces
define, only the forms listed here are allowed, and Python evaluates nothing. In a decorated function, the names of its
Python scope are available, too, and Python evaluates forms that are not part of the language (a comprehension, an
f-string ...).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from inspect import Parameter, Signature
from typing import Any, Final, TypeVar, cast, final

from ..ir.dims import SymExpr, SymVar, both, either, negation, select
from ..ir.errors import IRError, RegraftError
from ..ir.expr import Expr, ExternFunc, GlobalVar, PrimValue, Var, convert_to_expr
from ..ir.op import Call, Op
from .annotations import TypeConstructor
from .environment import Environment
from .errors import ParseError
from .macros import Macro
from .names import Namespace, OperatorPath
from .sizes import ARITHMETIC, COMPARISONS, checked_number, compare_sizes, size_arithmetic, sizes_among
from .source import SourceText

MOST_NESTED: Final = 100
"""The greatest depth of nested operands of one expression in the source."""

_UNKNOWN: Final = object()
_PLAIN: Final = frozenset({int, float, bool, str, type(None)})


def as_value(value: Any) -> Expr:
    """The expression that a name is bound to or a function returns; numbers and sizes are scalars, not tensors."""
    try:
        return convert_to_expr(value)
    except IRError:
        told = f"{value!r} is not a value of the language; expected an expression, such as a call of R.add"
        raise IRError(told) from None


def as_operand(value: Any) -> Any:
    """The operand that is passed to a call of an operator; numbers stay numbers, and the operator gives them a type."""
    return value if isinstance(value, bool | int | float) else as_value(value)


def _plain(value: Any, *, numbers: bool = True) -> Any:
    """``value`` with bare names of types as types and, if ``numbers``, scalars as plain numbers, also inside lists."""
    if isinstance(value, TypeConstructor):
        return value.default()
    if numbers and isinstance(value, PrimValue):
        return value.value
    if isinstance(value, list | tuple):
        items = [_plain(item, numbers=numbers) for item in cast("Sequence[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    return value


@final
class TextFunction:
    """A lambda of a text, such as a layout's ``lambda n, c: (c, n)``: its names, and the form that they fill.

    What calls it is an operator that takes a function of indices; a text itself calls none.
    """

    __slots__ = ("__signature__", "_evaluator", "_node")

    def __init__(self, evaluator: ScriptEvaluator, node: ast.Lambda) -> None:
        names = node.args
        if names.vararg or names.kwonlyargs or names.kwarg or names.defaults:
            raise evaluator.source.error(node, "a lambda in a text takes plain names, such as lambda i, j: (j, i)")
        plain = [Parameter(name.arg, Parameter.POSITIONAL_OR_KEYWORD) for name in (*names.posonlyargs, *names.args)]
        self.__signature__ = Signature(plain)
        self._evaluator = evaluator
        self._node = node

    def __call__(self, *values: Any) -> Any:
        """The value of the form where each name stands for one of ``values``."""
        environment = self._evaluator.environment
        environment.open()
        for name, value in zip(self.__signature__.parameters, values, strict=True):
            environment.bind(name, value)
        found = self._evaluator.evaluate(self._node.body)
        environment.close("it is a name of a lambda")
        return found

    def __repr__(self) -> str:
        return f"a lambda ({ast.unparse(self._node)})"


@final
class ScriptEvaluator:
    """Evaluates the expressions of one function.

    ``python`` is the Python scope of a decorated function; None for a text, which cannot reach Python.
    """

    __slots__ = ("_expand", "depth", "environment", "python", "source")

    def __init__(
        self,
        source: SourceText,
        environment: Environment,
        python: Mapping[str, Any] | None,
        expand: Callable[[ast.Call, Macro, Sequence[Any], Mapping[str, Any]], Any] | None = None,
        depth: int = 0,
    ) -> None:
        self._expand = expand
        self.source = source
        self.environment = environment
        self.python = python
        self.depth = depth

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression: a value of the language, a type, a size, or a Python value.

        Raises `ParseError`.
        """
        kind = type(node)
        if kind is ast.Name:
            return self._name(cast(ast.Name, node))
        if kind is ast.Constant:
            return self._literal(cast(ast.Constant, node))
        form = _FORMS.get(kind)
        if form is None:
            return self._foreign(node)
        self.depth += 1
        if self.depth > MOST_NESTED:
            self.depth = 0
            raise self.source.error(
                node, f"an expression is nested more than {MOST_NESTED} deep; bind its parts to names"
            )
        value = form(self, node)
        self.depth -= 1
        return value

    def guarded(self, node: ast.AST, action: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """The result of ``action(*args, **keywords)``; its errors become errors at ``node``."""
        try:
            return action(*args, **keywords)
        except ParseError:
            raise
        except RegraftError as error:
            raise self.source.error(node, str(error)) from error
        except Exception as error:
            # In a decorated function, errors of the user's own helpers are passed on.
            if self.python is not None and not isinstance(error, TypeError | ValueError):
                raise
            raise self.source.error(node, f"{type(error).__name__}: {error}") from error

    # --- forms

    def _name(self, node: ast.Name) -> Any:
        name = node.id
        found = self.environment.get(name, _UNKNOWN)
        if found is _UNKNOWN and self.python is not None:
            found = self.python.get(name, _UNKNOWN)
            if type(found) is SymVar and not found.name:
                return self.environment.sizes.variable(name)
        if found is _UNKNOWN:
            raise self.source.error(node, self.environment.why_unknown(name))
        return self.environment.sizes.variable(found.__name__) if type(found) is TypeVar else found

    def _literal(self, node: ast.Constant) -> Any:
        value = node.value
        if value is Ellipsis or isinstance(value, bytes):
            return self._foreign(node)
        return self.guarded(node, checked_number, value) if type(value) is int else value

    def _items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        items: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                if self.python is None:
                    raise self.source.error(
                        node, "a starred value is not allowed in a program text; write the values out"
                    )
                items.extend(self.evaluate(node.value))
            else:
                items.append(self.evaluate(node))
        return items

    def _dict(self, node: ast.Dict) -> Any:
        table: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                raise self.source.error(key or value, "the keys of a dictionary are plain strings")
            table[key.value] = self.evaluate(value)
        return table

    def _attribute(self, node: ast.Attribute) -> Any:
        owner = self.evaluate(node.value)
        if isinstance(owner, Namespace | OperatorPath):
            return self.guarded(node, owner.lookup, node.attr)
        if self.python is None:
            raise self.source.error(
                node, f"{ast.unparse(node)}: a program text can use attributes of R, I, T and cls only"
            )
        return self.guarded(node, getattr, owner, node.attr)

    def _subscript(self, node: ast.Subscript) -> Any:
        value: Any = self.evaluate(node.value)
        index: Any = self.evaluate(node.slice)
        if isinstance(value, Expr) and (type(index) is not int):
            raise self.source.error(node.slice, "a tuple's field is chosen by a plain int: t[0]")
        if self.python is None and not isinstance(value, Expr | Mapping | Sequence):
            raise self.source.error(node, f"{ast.unparse(node.value)} is no tuple")
        try:
            return cast(Any, value)[index]
        except (KeyError, IndexError):
            raise self.source.error(node, f"there is no {index!r} in {ast.unparse(node.value)}") from None
        except (RegraftError, TypeError) as error:
            raise self.source.error(node, str(error)) from error

    def _binary(self, node: ast.BinOp) -> Any:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        return self.binary(node, type(node.op), left, right)

    def binary(self, node: ast.AST, kind: type[ast.operator], left: Any, right: Any) -> Any:
        """``left kind right``: a call if either is an expression, else arithmetic on sizes and numbers."""
        if isinstance(left, Expr) or isinstance(right, Expr):
            if kind not in ARITHMETIC:
                raise self.source.error(
                    node, f"{kind.__name__} is not an operator of the language; call the R function"
                )
            return self.guarded(node, ARITHMETIC[kind][1], left, right)
        is_size = isinstance(left, SymExpr) or isinstance(right, SymExpr)
        if self.python is None or is_size or kind not in ARITHMETIC:
            if self.python is not None and not is_size:
                return self._foreign(cast(ast.expr, node))
            return self.guarded(node, size_arithmetic, kind, left, right)
        return self.guarded(node, ARITHMETIC[kind][1], left, right)

    def _joined(self, node: ast.BoolOp) -> Any:
        operands = [self.evaluate(value) for value in node.values]
        sizes = sizes_among(operands)
        if sizes is None:
            return self._foreign(node)
        return reduce(both if isinstance(node.op, ast.And) else either, sizes)

    def _chosen(self, node: ast.IfExp) -> Any:
        condition = sizes_among([self.evaluate(node.test)])
        if condition is None:
            return self._foreign(node)
        sides = sizes_among([condition[0], self.evaluate(node.body), self.evaluate(node.orelse)])
        if sides is None:
            raise self.source.error(node, "a choice by a condition on sizes needs two values that are sizes or ints")
        return select(*sides)

    def _unary(self, node: ast.UnaryOp) -> Any:
        operand = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            condition = sizes_among([operand])
            if condition is not None:
                return negation(condition[0])
        is_number = isinstance(operand, int | float | complex) and not isinstance(operand, bool)
        if isinstance(node.op, ast.USub) and (is_number or isinstance(operand, Expr | SymExpr)):
            return self.guarded(node, lambda: -operand)
        if isinstance(node.op, ast.UAdd) and (is_number or isinstance(operand, SymExpr)):
            return operand
        if isinstance(operand, Expr):
            raise self.source.error(
                node, "this operator is not part of the language; call R.logical_not or R.bitwise_not"
            )
        return self._foreign(node)

    def _compare(self, node: ast.Compare) -> Any:
        operands = [self.evaluate(node.left), *map(self.evaluate, node.comparators)]
        sizes = sizes_among(operands)
        if sizes is not None and all(type(op) in COMPARISONS for op in node.ops):
            return self.guarded(node, compare_sizes, [COMPARISONS[type(op)][0] for op in node.ops], sizes)
        if not any(isinstance(operand, Expr) for operand in operands):
            return self._foreign(node)
        kind = type(node.ops[0])
        if len(node.ops) > 1:
            raise self.source.error(node, "compare two values at a time; join the results with R.logical_and")
        if kind not in COMPARISONS or kind in (ast.Eq, ast.NotEq):
            if self.python is not None and kind in (ast.Is, ast.IsNot):
                return self._foreign(node)
            raise self.source.error(node, "== and != compare identity in Python; call R.equal or R.not_equal")
        return self.guarded(node, COMPARISONS[kind][1], *operands)

    # --- calls

    def call(self, node: ast.Call, callee: Any) -> Any:
        """The value of a call whose function is already evaluated."""
        args = self._items(node.args)
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is not None:
                keywords[keyword.arg] = self.evaluate(keyword.value)
            elif self.python is not None:
                keywords.update(self.evaluate(keyword.value))
            else:
                raise self.source.error(keyword.value, "** is not allowed in a program text; write the attributes out")
        if isinstance(callee, Macro) and self._expand is not None:
            return self._expand(node, callee, args, keywords)
        if isinstance(callee, TypeConstructor):
            callee = callee.within(self.environment.sizes)
        elif isinstance(callee, Op):
            return self._call_operator(node, callee, args, keywords)
        elif isinstance(callee, Expr):
            return self._call_value(node, callee, args, keywords)
        elif not callable(callee) or isinstance(callee, TextFunction):
            raise self.source.error(node.func, f"{ast.unparse(node.func)} is no function")
        elif keywords:
            keywords = self.guarded(node, self._plain_attributes, node.func, keywords)
        return self.guarded(node, callee, *args, **keywords)

    def _call_value(self, node: ast.Call, callee: Expr, args: list[Any], keywords: dict[str, Any]) -> Any:
        """A call of a function of the program: of the module, of a parameter, or of an outside function."""
        if keywords:
            raise self.source.error(node, "a function of the program takes its arguments by position")
        if not isinstance(callee, GlobalVar | Var | ExternFunc):
            raise self.source.error(node.func, f"{ast.unparse(node.func)} is no function")
        values = [self.guarded(node, as_value, arg) for arg in args]
        return self.guarded(node, Call, callee, values)

    def _call_operator(self, node: ast.Call, op: Op, args: list[Any], keywords: dict[str, Any]) -> Any:
        """A call of an operator by its declaration: operands in order, attributes by name."""
        operands = [value if value is None else self.guarded(node, as_operand, value) for value in args]
        if "ty_args" in keywords:
            stated = _plain(keywords["ty_args"], numbers=False)
            keywords["ty_args"] = stated if isinstance(stated, list | tuple) else (stated,)
        attributes = {name: _plain(value) for name, value in keywords.items()}
        return self.guarded(node, op, *operands, **attributes)

    def _plain_attributes(self, function: ast.expr, keywords: dict[str, Any]) -> dict[str, Any]:
        """Keywords in the form that operators take.

        Bare names of types become types, ``T.float32(0.5)`` becomes a plain number.
        """
        if all(type(value) in _PLAIN for value in keywords.values()):
            return keywords
        path = ast.unparse(function).partition(".")[2]
        try:
            attributes = Op.get(f"relax.{path}").attributes
        except IRError:
            attributes = {}
        return {name: _plain(value, numbers=name in attributes) for name, value in keywords.items()}

    # --- Python's part

    def _lambda(self, node: ast.Lambda) -> Any:
        return TextFunction(self, node) if self.python is None else self._foreign(node)

    def _foreign(self, node: ast.expr) -> Any:
        if self.python is None:
            what = _NAMES_OF_FORMS.get(type(node), type(node).__name__)
            raise self.source.error(node, f"{what} is not allowed in a program text, which Python does not run")
        scope: dict[str, Any] = {"__builtins__": builtins}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                found = self.environment.get(inner.id, _UNKNOWN)
                if found is _UNKNOWN:
                    found = self.python.get(inner.id, _UNKNOWN)
                if found is not _UNKNOWN:
                    scope[inner.id] = found
        code = compile(ast.Expression(node), self.source.name, "eval")
        return self.guarded(node, eval, code, scope)


_FORMS: Final[Mapping[type[ast.expr], Callable[[ScriptEvaluator, Any], Any]]] = {
    ast.Tuple: lambda self, node: tuple(self._items(node.elts)),  # pyright: ignore[reportPrivateUsage]
    ast.List: lambda self, node: self._items(node.elts),  # pyright: ignore[reportPrivateUsage]
    ast.Dict: ScriptEvaluator._dict,  # pyright: ignore[reportPrivateUsage]
    ast.Attribute: ScriptEvaluator._attribute,  # pyright: ignore[reportPrivateUsage]
    ast.Subscript: ScriptEvaluator._subscript,  # pyright: ignore[reportPrivateUsage]
    ast.BinOp: ScriptEvaluator._binary,  # pyright: ignore[reportPrivateUsage]
    ast.UnaryOp: ScriptEvaluator._unary,  # pyright: ignore[reportPrivateUsage]
    ast.Compare: ScriptEvaluator._compare,  # pyright: ignore[reportPrivateUsage]
    ast.BoolOp: ScriptEvaluator._joined,  # pyright: ignore[reportPrivateUsage]
    ast.IfExp: ScriptEvaluator._chosen,  # pyright: ignore[reportPrivateUsage]
    ast.Lambda: ScriptEvaluator._lambda,  # pyright: ignore[reportPrivateUsage]
    ast.Call: lambda self, node: self.call(node, self.evaluate(node.func)),
}

_NAMES_OF_FORMS: Final[Mapping[type[ast.expr], str]] = {
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.JoinedStr: "an f-string",
    ast.NamedExpr: "an assignment inside an expression",
    ast.IfExp: "a conditional expression",
    ast.BoolOp: "'and' or 'or' (call R.logical_and, R.logical_or)",
    ast.Compare: "a comparison of plain numbers",
    ast.UnaryOp: "this operator on a plain value",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Set: "a set",
    ast.Slice: "a slice",
    ast.Starred: "a starred value",
    ast.Constant: "a bytes literal or '...'",
}

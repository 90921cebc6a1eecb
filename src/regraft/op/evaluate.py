"""The value of an expression on given inputs, by the reference semantics of its operators over NumPy.

For checks that need a few values of a program. Nothing is compiled. Calls of functions, branches and
effects raise an error. Whole programs run on an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final, NoReturn

import numpy as np

from ..ir.builder import operands_of
from ..ir.dims import Condition, Dim, SymExpr, SymVar, evaluate, free_symvars
from ..ir.errors import OpTypeError, RegraftError
from ..ir.expr import Constant, DataTypeImm, Expr, PrimValue, ShapeExpr, StringImm, Tuple, TupleGetItem, Var
from ..ir.op import Call, Op
from ..ir.types import TensorType
from ..ir.walks import needs_first
from .open_namespace import on_numpy
from .settle import is_settled, strict

MOST_ELEMENTS: Final = 1 << 22
"""The default limit of the elements of a value; larger values are not computed."""


class EvaluationError(RegraftError):
    """A value that cannot be computed here; the message says which one and why."""


def _no_value(var: Var) -> NoReturn:
    raise EvaluationError(f"the value of {var.name_hint} is not known")


def _no_size(size: SymVar) -> NoReturn:
    raise EvaluationError(f"the size {size} is not known")


class Evaluator:
    """Computes values of one program on one choice of inputs and sizes, each once.

    ``definitions`` map variables to the values they are bound to. A variable without a definition, or for which
    ``is_input`` is true, gets its value from ``draw``, and a size variable from ``draw_size``. By default these raise
    `EvaluationError`. ``values`` and ``sizes`` hold the values that are already known.
    At most ``most`` values of at most ``most_elements`` elements are computed. Cost: that of the operators. Does not
    recurse along bindings.
    """

    __slots__ = ("definitions", "draw", "draw_size", "is_input", "left", "most_elements", "sizes", "values")

    def __init__(
        self,
        definitions: Mapping[Var, Expr],
        draw: Callable[[Var], Any] = _no_value,
        draw_size: Callable[[SymVar], int] = _no_size,
        is_input: Callable[[Var, Expr], bool] = lambda _var, _value: False,
        most: int = 1000,
        most_elements: int = MOST_ELEMENTS,
    ) -> None:
        self.definitions = definitions
        self.draw = draw
        self.draw_size = draw_size
        self.is_input = is_input
        self.left = most
        self.most_elements = most_elements
        self.values: dict[Var, Any] = {}
        self.sizes: dict[SymVar, int] = {}

    def value(self, expr: Expr) -> Any:
        """The value of ``expr``: an array, a tuple, a shape as a tuple of ints, or a Python scalar.

        Raises `EvaluationError` for an expression without reference semantics or with too many elements. Exceptions of
        a reference for operands outside of its domain pass through. So does NumPy's `FloatingPointError` for an integer
        division by 0, for which engines give different numbers or end the process.
        """
        for var in needs_first(_variables(expr), self._needs, self.values):
            bound = self._bound(var)
            if bound is None:
                self.values[var] = self.draw(var)
                continue
            self.left -= 1
            if self.left < 0:
                raise EvaluationError(f"{var.name_hint} depends on too many values")
            self.values[var] = self._compute(bound)
        return self._compute(expr)

    def _bound(self, var: Var) -> Expr | None:
        """The value to compute for ``var``; None for an input."""
        bound = self.definitions.get(var)
        return None if bound is None or self.is_input(var, bound) else bound

    def _needs(self, var: Var) -> list[Var]:
        bound = self._bound(var)
        return [] if bound is None else _variables(bound)

    def size(self, dim: Dim) -> int:
        """The value of a size."""
        for variable in free_symvars(dim):
            if variable not in self.sizes:
                self.sizes[variable] = self.draw_size(variable)
        return evaluate(dim, self.sizes)

    def _compute(self, expr: Expr) -> Any:
        match expr:
            case Var():
                return self.values[expr]
            case Call():
                return self._call(expr)
            case Tuple():
                return tuple([self._compute(field) for field in expr.fields])
            case TupleGetItem():
                return self._compute(expr.tuple_value)[expr.index]
            case Constant():
                return expr.data.numpy()
            case ShapeExpr():
                return tuple([self.size(dim) for dim in expr.values])
            case PrimValue() | StringImm() | DataTypeImm():
                return self._plain(expr.value)
            case _:
                raise EvaluationError(f"a {type(expr).__name__} has no value outside of a program")

    def _call(self, call: Call) -> Any:
        op = call.op
        if not isinstance(op, Op) or op.reference is None or not op.is_pure:
            name = op.name if isinstance(op, Op) else repr(op)
            raise EvaluationError(f"a call of {name} cannot be computed outside of an engine")
        try:
            if not is_settled(call):
                return self._compute(strict(call))
        except OpTypeError as error:
            raise EvaluationError(str(error)) from error
        if isinstance(call.ty, TensorType) and call.ty.shape is not None:
            elements = prod(self.size(dim) for dim in call.ty.shape)
            if elements > self.most_elements:
                raise EvaluationError(f"the result of {op.name} has {elements} elements")
        operands: list[Any] = [self._compute(arg) for arg in call.args]
        if not op.variadic:
            operands += [None] * (len(op.operands) - len(operands))
        attributes = {name: self._plain(value) for name, value in call.attrs.items()}
        whole = not any(np.asarray(one).dtype.kind not in "iub" for one in operands if hasattr(one, "dtype"))
        with np.errstate(all="ignore", divide="raise" if whole else "ignore"):
            return on_numpy(op)(*operands, **attributes)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, tuple):
            items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
            return tuple([self._plain(item) for item in items])
        if isinstance(value, Condition):
            return bool(self.size(value))
        return self.size(value) if isinstance(value, SymExpr) else value


def _variables(value: Expr) -> list[Var]:
    """The variables that ``value`` is computed from."""
    found: list[Var] = []
    stack = [value]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Var):
            found.append(expr)
        else:
            stack.extend(reversed(operands_of(expr)))
    return found

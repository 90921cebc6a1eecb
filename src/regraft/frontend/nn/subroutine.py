"""Modules whose methods become separate functions, which are called where the module is called."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

from ...analysis import free_symbolic_vars
from ...ir.builder import BlockBuilder
from ...ir.dims import SymExpr
from ...ir.expr import Expr, GlobalVar, Var, as_expr
from ...ir.op import Call
from ...ir.program import Function
from ...ir.types import PrimType
from .nested import is_mapping, is_sequence


def _snake(name: str) -> str:
    """``name`` in snake case: ``LlamaMLPLayer`` becomes ``llama_mlp_layer``."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


class SubroutineMixin:
    """If a class sets ``define_subroutine = True``, its ``forward`` becomes a private function of the program.

    The function takes the arguments, then the parameters of the module. Modules whose functions are structurally equal
    share one. A module that owns effects is inlined into its caller.
    """

    define_subroutine: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        forward = cls.__dict__.get("forward")
        if forward is not None:
            cls.forward = _dispatching(forward)  # pyright: ignore[reportAttributeAccessIssue] - made here


def _dispatching(forward: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(forward)
    def dispatch(self: Any, *args: Any, **kwargs: Any) -> Any:
        builder = BlockBuilder.current()
        if builder is None or not self.define_subroutine or any(True for _ in self.named_effects()):
            return forward(self, *args, **kwargs)
        return _called(self, builder, forward, args, kwargs)

    return dispatch


def _called(
    module: Any, builder: BlockBuilder, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    from .values import expression, wrap_nested

    given = inspect.signature(forward).bind(module, *args, **kwargs)
    passed: list[tuple[str, Expr]] = []
    _collect(given.arguments, "", passed)
    passed += [
        (weight.name_hint if isinstance(weight, Var) else path.replace(".", "_"), weight)
        for path, weight in ((path, expression(one)) for path, one in module.named_parameters())
    ]
    params = [Var(name, PrimType(expr.ty.dtype) if isinstance(expr.ty, PrimType) else expr.ty) for name, expr in passed]
    inner = BlockBuilder(builder.get())
    written = _write(module, inner, forward, _snake(type(module).__name__), given, params)
    for name, function in inner.get().items():
        if name != written.name_hint and name not in builder.get():
            builder.add_func(function, name)
    function = _with_sizes(inner.get()[written], [expr for _, expr in passed])
    known = builder.add_func(function, written.name_hint)
    result = builder.emit(Call(known, [expr for _, expr in passed]), f"{known.name_hint}_output")
    return wrap_nested(result, result.name_hint)


def _collect(value: Any, name: str, found: list[tuple[str, Expr]]) -> None:
    """Collect the expressions in an argument, with names, in order; `_replaced` visits them in the same order."""
    from .values import Object, Tensor, expression

    if isinstance(value, Tensor | Object):
        found.append((name, expression(value)))
    elif isinstance(value, SymExpr):
        found.append((name, as_expr(value)))
    elif is_mapping(value):
        for key, one in value.items():
            _collect(one, key, found)
    elif is_sequence(value):
        for index, one in enumerate(value):
            _collect(one, f"{name}_{index}", found)


def _replaced(value: Any, params: list[Var]) -> Any:
    """An argument with each of its expressions replaced by the next of ``params``."""
    from .values import Object, Tensor

    if isinstance(value, Tensor):
        return Tensor(_expr=params.pop(0))
    if isinstance(value, Object):
        return Object(_expr=params.pop(0), _name="object")
    if isinstance(value, SymExpr):
        params.pop(0)
        return value
    if is_mapping(value):
        return {key: _replaced(one, params) for key, one in value.items()}
    if is_sequence(value):
        items = [_replaced(one, params) for one in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _write(
    module: Any,
    builder: BlockBuilder,
    forward: Callable[..., Any],
    name: str,
    given: inspect.BoundArguments,
    params: list[Var],
) -> GlobalVar:
    from .exporter import unwrapped
    from .values import expression

    rest = list(params)
    given.arguments = _replaced(given.arguments, rest)
    weights = [parameter for _, parameter in module.named_parameters()]
    before = [expression(weight) for weight in weights]
    try:
        for weight, param in zip(weights, rest, strict=True):
            weight.stand_for(param)
        with builder.function(name, params, private=True):
            with builder.dataflow():
                output = builder.emit_output(unwrapped(forward(*given.args, **given.kwargs)))
            return builder.emit_func_output(output)
    finally:
        for weight, expr in zip(weights, before, strict=True):
            weight.stand_for(expr)


def _with_sizes(function: Function, passed: list[Expr]) -> Function:
    """``function`` with its free symbolic sizes as the values of the scalar parameters that pass them."""
    free = free_symbolic_vars(function)
    if not free:
        return function
    params = [
        Var(param.name_hint, expr.ty) if isinstance(expr.ty, PrimType) and expr.ty.value in free else param
        for param, expr in zip(function.params, passed, strict=True)
    ]
    return Function(params, function.body, function.ret_ty, function.is_pure, function.attrs)

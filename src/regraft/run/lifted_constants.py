"""The constants of a program as parameters of its functions, so that the module that owns them can pass them.

A function takes the constants that it reads, and those of the functions that it calls, after its own parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from ..ir.builder import NameSupply
from ..ir.expr import Constant, Expr, GlobalVar, Tuple, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, is_call_of
from ..ir.program import Function
from ..ir.tensor_data import TensorData
from ..ir.types import FuncType, TensorType, Type
from ..ir.visitor import walk
from .errors import BuildError

CompiledKey: TypeAlias = "tuple[object, ...]"


def constant_key(data: TensorData) -> CompiledKey:
    """A key that is equal for two constants if they are the same tensor: the same handle, or equal unnamed numbers of
    rank 0.
    """
    if data.shape or data.name is not None:
        return (id(data),)
    return (data.dtype, data.numpy().tobytes())


@dataclass(frozen=True, slots=True)
class Lifted:
    """A module whose functions have no constants, and the constants that each function takes after its parameters."""

    module: IRModule
    taken: Mapping[str, tuple[TensorData, ...]]


def lift_constants(
    module: IRModule,
    keeps: Callable[[TensorData], bool] = lambda data: False,
    held_as: Mapping[str, str] = MappingProxyType({}),
) -> Lifted:
    """``module`` with every constant as a parameter, except the constants for which ``keeps`` returns True.

    ``held_as`` has the dtypes of parameters for constants of dtypes that the owner has no tensors of. Cost: linear in
    the program, times its depth of calls.
    """
    own: dict[str, dict[CompiledKey, TensorData]] = {}
    callees: dict[str, dict[str, None]] = {}
    for name, function in module.items():
        found, called = own.setdefault(name, {}), callees.setdefault(name, {})
        for expr in walk(function):
            if isinstance(expr, Constant) and not keeps(expr.data):
                found.setdefault(constant_key(expr.data), expr.data)
            elif isinstance(expr, GlobalVar):
                called[expr.name_hint] = None
    needed = _with_callees(own, callees)
    types = {name: [_held(data, held_as) for data in constants.values()] for name, constants in needed.items()}
    variables = {name: _globals(name, function, types[name]) for name, function in module.items()}
    functions = {
        variables[name]: _ConstantLifting(variables, needed).function(name, function, types[name])
        for name, function in module.items()
    }
    lifted = IRModule(functions, module.attrs)
    return Lifted(lifted, {name: tuple(constants.values()) for name, constants in needed.items()})


def _with_callees(
    own: Mapping[str, dict[CompiledKey, TensorData]], callees: Mapping[str, Iterable[str]]
) -> dict[str, dict[CompiledKey, TensorData]]:
    """The constants of each function and of all functions that it may call, directly or not."""
    needed = {name: dict(constants) for name, constants in own.items()}
    changed = True
    while changed:
        changed = False
        for name, called in callees.items():
            before = len(needed[name])
            for callee in called:
                for key, data in needed.get(callee, {}).items():
                    needed[name].setdefault(key, data)
            changed = changed or len(needed[name]) > before
    return needed


def _held(data: TensorData, held_as: Mapping[str, str]) -> TensorType:
    ty = Constant(data).ty
    assert isinstance(ty, TensorType)
    return ty.with_dtype(held_as.get(data.dtype, data.dtype))


def _globals(name: str, function: Function, constants: Sequence[Type]) -> GlobalVar:
    params = [*[param.ty for param in function.params], *constants]
    return GlobalVar(name, FuncType(params, function.ret_ty, function.is_pure))


class ConstantsAsParameters(ExprMutator):
    """Replaces constants by the variables in ``params``, by the keys of `constant_key`."""

    def __init__(self, params: Mapping[CompiledKey, Var]) -> None:
        super().__init__()
        self._params: Final = params

    def visit_constant_(self, constant: Constant) -> Expr:
        """The parameter for a constant, or the constant itself."""
        return self._params.get(constant_key(constant.data), constant)


def with_weights_as_parameters(function: Function, weights: Mapping[str, TensorData]) -> Function:
    """``function`` with further parameters, of these names, in the place of constants."""
    params = {constant_key(data): Var(name, Constant(data).ty) for name, data in weights.items()}
    new = ConstantsAsParameters(params).mutate(function)
    return Function([*new.params, *params.values()], new.body, new.ret_ty, new.is_pure, new.attrs)


class _ConstantLifting(ConstantsAsParameters):
    """Replaces the constants of one function, and passes the variables on to the functions that it calls."""

    def __init__(
        self, variables: Mapping[str, GlobalVar], needed: Mapping[str, Mapping[CompiledKey, TensorData]]
    ) -> None:
        self._weights: Final[dict[CompiledKey, Var]] = {}
        super().__init__(self._weights)
        self._globals: Final = variables
        self._needed: Final = needed

    def function(self, name: str, function: Function, types: Sequence[Type]) -> Function:
        """``function`` with its constants as further parameters of these types."""
        supply = NameSupply(param.name_hint for param in function.params)
        for (key, data), ty in zip(self._needed[name].items(), types, strict=True):
            hint = "weight" if data.name is None else data.name
            self._weights[key] = Var(supply.fresh(hint), ty)
        inner = self.mutate(function)
        params = [*inner.params, *self._weights.values()]
        return Function(params, inner.body, function.ret_ty, function.is_pure, function.attrs)

    def visit_call_(self, call: Call) -> Expr:
        if isinstance(call.op, GlobalVar):
            return Call(self._globals[call.op.name_hint], [*call.args, *self._extra(call.op)], call.attrs, call.ty_args)
        functions = [arg for arg in call.args if isinstance(arg, GlobalVar) and self._extra(arg)]
        if not functions:
            return call
        captured = call.args[1] if len(call.args) > 1 else None
        if not is_call_of(call, "relax.make_closure") or not isinstance(captured, Tuple):
            raise BuildError(
                f"{functions[0].name_hint} has constants and is used as a value; call it, or make a closure of it"
            )
        fields = [*captured.fields, *self._extra(functions[0])]
        return Call(call.op, [self._globals[functions[0].name_hint], Tuple(fields)], call.attrs, call.ty_args)

    def _extra(self, function: GlobalVar) -> list[Var]:
        return [self._weights[key] for key in self._needed.get(function.name_hint, {})]

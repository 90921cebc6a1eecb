"""The export of modules as programs: one function for each exported method.

A function takes the inputs of its method, then the state of the effects, then the parameters. Its attribute
``num_input`` is the number of arguments before the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ...analysis import well_formed
from ...ir.builder import BlockBuilder
from ...ir.dims import SymVar
from ...ir.expr import Expr, Tuple, TupleGetItem, Var
from ...ir.module import IRModule
from ...ir.types import ObjectType, ShapeType, TensorType, TupleType, Type
from . import spec as _spec
from .modules import IOEffect
from .nested import is_sequence
from .values import Effect, Object, Parameter, Tensor, expression, sizes_of

if TYPE_CHECKING:
    from .extern import ExternModule

NamedParameters = list[tuple[str, Parameter]]


class Exporter:
    """Writes the methods of one module. `current` is the innermost exporter that is running.

    With ``debug`` there is an effect for printing, `io_effect`.
    """

    _open: ClassVar[list[Exporter]] = []

    def __init__(self, debug: bool) -> None:
        self.io_effect = IOEffect() if debug else None
        self.outside_modules: list[ExternModule] = []
        self._sizes_of_parameters: dict[str, SymVar] = {}

    @staticmethod
    def current() -> Exporter | None:
        """The running exporter; None if there is none."""
        return Exporter._open[-1] if Exporter._open else None

    def build(self, spec: _spec.ModuleSpec) -> tuple[IRModule, NamedParameters]:
        """The program of the methods that ``spec`` names, and the parameters in the order in which functions take them.

        Raises the errors of the methods, and `WellFormedError` for a method that uses values of another one.
        """
        parameters = list(spec.module.named_parameters())
        effects: list[tuple[str, Effect]] = [] if self.io_effect is None else [("", self.io_effect)]
        effects += spec.module.named_effects()
        builder = BlockBuilder()
        Exporter._open.append(self)
        try:
            if effects:
                with builder.function("_initialize_effect", []):
                    _emit_first_states(builder, effects)
            for name, method in zip(spec.method_names, spec.method_specs, strict=True):
                self._emit_method(builder, name, method, parameters, effects)
        finally:
            Exporter._open.pop()
        module = builder.get()
        well_formed(module)
        return module, parameters

    def _emit_method(
        self,
        builder: BlockBuilder,
        name: str,
        method: _spec.MethodSpec,
        parameters: NamedParameters,
        effects: Sequence[tuple[str, Effect]],
    ) -> None:
        named: dict[str, SymVar] = {}
        inputs = [
            _input(argument, spec, named) for argument, spec in zip(method.arg_names, method.arg_specs, strict=True)
        ]
        states = [(one, one.create(path.replace(".", "_"))) for path, one in effects]
        if method.effect_mode == "none":
            states = []
        state_vars = _taken("packed_effects", method.effect_mode, [var for _, made in states for var in made])
        weights = [
            (one, one.exported_variable(path.replace(".", "_"), self._sizes_of_parameters)) for path, one in parameters
        ]
        weight_vars = _taken("packed_params", method.param_mode, [var for _, var in weights])
        params = [*inputs, *state_vars, *weight_vars]
        before = [(one, expression(one)) for one, _ in weights]
        attrs = {"num_input": len(inputs) + len(state_vars)}
        try:
            with builder.function(name, params, attrs=attrs):
                with builder.dataflow():
                    state_values = _given(builder, method.effect_mode, state_vars)
                    for effect, made in states:
                        effect.set_state([state_values.pop(0) for _ in made])
                    if method.param_mode != "none":
                        weight_values = _given(builder, method.param_mode, weight_vars, weights)
                        for (one, _), value in zip(weights, weight_values, strict=True):
                            one.stand_for(value)
                    values = [
                        _argument(builder, spec, var, var.name_hint)
                        for spec, var in zip(method.arg_specs, inputs, strict=True)
                    ]
                    result = unwrapped(method.method(**dict(zip(method.arg_names, values, strict=True))))
                    if states:
                        last = [var for effect, _ in states for var in effect.finalize()]
                        result = Tuple([result, Tuple(last)])
                    result = builder.emit_output(result)
                builder.emit_func_output(result)
        finally:
            for one, expr in before:
                one.stand_for(expr)


def _emit_first_states(builder: BlockBuilder, effects: Sequence[tuple[str, Effect]]) -> None:
    with builder.dataflow():
        states = [state for path, effect in effects for state in effect.emit_init(path.replace(".", "_"), builder)]
        output = builder.emit_output(builder.emit(Tuple(states)))
    builder.emit_func_output(output)


def _taken(name: str, mode: str, variables: list[Var]) -> list[Var]:
    """The parameters of the function for ``variables``."""
    if mode == "packed":
        return [Var(name, TupleType([var.ty for var in variables]))]
    return variables if mode == "plain" else []


def _given(
    builder: BlockBuilder, mode: str, taken: list[Var], weights: Sequence[tuple[Parameter, Var]] = ()
) -> list[Var]:
    """The variables that the parameters from `_taken` represent, in the open function; fields of a tuple are bound."""
    if mode != "packed":
        return list(taken)
    ty = taken[0].ty
    assert isinstance(ty, TupleType)
    names = [var.name_hint for _, var in weights] or ["state"] * len(ty.fields)
    return [builder.emit(TupleGetItem(taken[0], index), name) for index, name in enumerate(names)]


def _input(name: str, spec: Any, named: dict[str, SymVar]) -> Var:
    return Var(name, _type(name, spec, named))


def _type(name: str, spec: Any, named: dict[str, SymVar]) -> Type:
    match spec:
        case _spec.Int():
            return ShapeType(sizes_of([name], named))
        case _spec.Tensor():
            return TensorType(sizes_of(spec.shape, named), spec.dtype)
        case _spec.Tuple():
            return TupleType([_type(f"{name}_{index}", one, named) for index, one in enumerate(spec.elements)])
        case _:
            return ObjectType()


def _argument(builder: BlockBuilder, spec: Any, value: Expr, name: str) -> Any:
    """The argument of the method for the input ``value``."""
    match spec:
        case _spec.Int():
            ty = value.ty
            assert isinstance(ty, ShapeType)
            assert ty.values is not None
            return ty.values[0]
        case _spec.Tensor():
            return Tensor(_expr=value)
        case _spec.Tuple():
            fields = [
                _argument(builder, one, builder.emit(TupleGetItem(value, index), f"{name}_{index}"), f"{name}_{index}")
                for index, one in enumerate(spec.elements)
            ]
            return fields if isinstance(spec.elements, list) else tuple(fields)
        case _:
            return spec.object_type(_expr=value, _name=name)


def unwrapped(value: Any) -> Expr:
    """The expression of a method's result.

    Raises `TypeError` for a result that is not a tensor, an object, or a tuple or list of them.
    """
    if isinstance(value, Tensor | Object):
        return expression(value)
    if is_sequence(value):
        return Tuple([unwrapped(item) for item in value])
    raise TypeError(f"a method returns {type(value).__name__}: give nn.Tensor, nn.Object, or tuples or lists of these")

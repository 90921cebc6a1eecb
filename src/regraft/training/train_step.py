"""One training step as one function, for engines that compile: loss, gradients and the optimizer's update.

Compiled as one program, gradients stay inside it, and parameters and the optimizer's states can be updated in place.
On a mesh, each new parameter has the sharding of the old one, and so do the optimizer's states for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from .. import op as ops
from ..ir.builder import BlockBuilder
from ..ir.expr import Expr, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.program import Function
from ..ir.types import TensorType, TupleType
from ..run import Executable, build
from ..run.mesh import CutAxes, Mesh, placement_text
from ..run.sharding_gate import ShardedTensor, resolved
from .first_states import state_function
from .setup_trainer import ADJOINT, OPTIM_STATE, OPTIMIZER

STEP: Final = "train_step"
FIRST: Final = "optimizer_state"
PARAMS: Final = "step_params"
STATES: Final = "step_states"
OPTIMIZER_STATES: Final = "step_optimizer_states"
DONATED: Final = (PARAMS, STATES, OPTIMIZER_STATES)
"""The parameters of the step whose memory is reused for the results."""


class ModelVars(NamedTuple):
    """The parameters of a model with its loss: the inputs, the model's parameters and states, and the targets."""

    inputs: Sequence[Var]
    params: Sequence[Var]
    states: Sequence[Var]
    targets: Sequence[Var]

    @staticmethod
    def of(module: IRModule) -> ModelVars:
        """The parameters in a module that `SetupTrainer` made."""
        own = iter(module[ADJOINT].params)
        counts = [module.attrs[name] for name in ("input_num", "param_num", "state_num")]
        inputs, params, states = [tuple(islice(own, count)) for count in counts]
        return ModelVars(inputs, params, states, tuple(own))


def parameter_specs(params: Sequence[Var], shardings: Mapping[str, Any] | None, mesh: Mesh) -> dict[str, CutAxes]:
    """The spec of each parameter of the model, by name. Raises `BuildError` for shardings that do not fit."""
    return resolved("shardings", shardings, [_placed(param.name_hint, param.ty) for param in params], mesh)


def with_train_step(module: IRModule, mesh: Mesh | None, specs: Mapping[str, CutAxes]) -> IRModule:
    """``module``, made by `SetupTrainer`, with a function ``train_step``.

    ``train_step(inputs..., targets..., parameters, states, optimizer's states)`` takes a step. It returns the loss, and
    tuples of the new parameters, states and optimizer states. Another function, ``optimizer_state``, returns the
    optimizer's initial states on the engine's devices.
    """
    inputs, params, states, targets = ModelVars.of(module)
    kept = module[OPTIMIZER].params[2].ty
    assert isinstance(kept, TupleType)
    given = [Var(var.name_hint, var.ty) for var in (*inputs, *targets)]
    param_tuple = Var(PARAMS, TupleType([var.ty for var in params]))
    state_tuple = Var(STATES, TupleType([var.ty for var in states]))
    kept_tuple = Var(OPTIMIZER_STATES, kept)
    all_specs = [specs.get(param.name_hint, ()) for param in params]
    kept_specs = [() if i is None else all_specs[i] for i in owners(params, kept.fields)]
    builder = BlockBuilder()
    with builder.function(STEP, [*given, param_tuple, state_tuple, kept_tuple]):
        fields = [TupleGetItem(param_tuple, i) for i in range(len(params))]
        fields += [TupleGetItem(state_tuple, i) for i in range(len(states))]
        arguments = [*given[: len(inputs)], *[builder.emit(field) for field in fields], *given[len(inputs) :]]
        found = builder.emit(module.get_global_var(ADJOINT)(*arguments))
        judged, gradients = builder.emit(TupleGetItem(found, 0)), builder.emit(TupleGetItem(found, 1))
        loss = builder.emit(TupleGetItem(judged, 0)) if states else judged
        new_states = [builder.emit(TupleGetItem(judged, i + 1)) for i in range(len(states))]
        updated = builder.emit(module.get_global_var(OPTIMIZER)(param_tuple, gradients, kept_tuple))
        new_params = _laid(builder, builder.emit(TupleGetItem(updated, 0)), all_specs, mesh)
        new_kept = _laid(builder, builder.emit(TupleGetItem(updated, 1)), kept_specs, mesh)
        result = Tuple([loss, Tuple(new_params), Tuple(new_states), Tuple(new_kept)])
        builder.emit_func_output(result)
    step: Function = builder.get()[STEP]
    return module.with_functions({STEP: step, FIRST: state_function(FIRST, module.attrs[OPTIM_STATE])})


def owners(params: Sequence[Var], states: Sequence[Any]) -> list[int | None]:
    """For each state of an optimizer, the index of the parameter that it belongs to. None if it belongs to the step.

    An optimizer's states begin with those of the step. One or more groups follow, with one state for each parameter,
    of the parameter's type.
    """
    count = len(params)
    for shared in range(len(states)):
        rest = states[shared:]
        if len(rest) % count == 0 and all(ty == params[i % count].ty for i, ty in enumerate(rest)):
            return [*[None] * shared, *[i % count for i in range(len(rest))]]
    return [None] * len(states)


def step_inputs(module: IRModule, specs: Mapping[str, CutAxes], inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The specs of the parameters of ``train_step``: as given for inputs and targets, and by field for tuples."""
    params = ModelVars.of(module).params
    kept = module[OPTIMIZER].params[2].ty
    assert isinstance(kept, TupleType)
    laid: dict[str, Any] = dict(inputs or {})
    for index, param in enumerate(params):
        if param.name_hint in specs:
            laid[f"{PARAMS}[{index}]"] = specs[param.name_hint]
    for index, owner in enumerate(owners(params, kept.fields)):
        if owner is not None and params[owner].name_hint in specs:
            laid[f"{OPTIMIZER_STATES}[{index}]"] = specs[params[owner].name_hint]
    return laid


def _laid(builder: BlockBuilder, values: Var, specs: Iterable[CutAxes], mesh: Mesh | None) -> list[Expr]:
    """The fields of ``values``, each annotated with its spec if there is a mesh."""
    fields: list[Expr] = []
    for index, spec in enumerate(specs):
        field: Expr = builder.emit(TupleGetItem(values, index))
        if mesh is not None and isinstance(field.ty, TensorType):
            field = builder.emit(ops.dist.annotate_sharding(field, tuple(mesh.values()), placement_text(spec, mesh)))
        fields.append(field)
    return fields


def _placed(name: str, ty: Any) -> ShardedTensor:
    return ShardedTensor(name, ty.shape if isinstance(ty, TensorType) else None, getattr(ty, "dtype", None))


def is_one_program(target: str | None, options: Mapping[str, Any] | None) -> bool:
    """True if an engine with these options compiles a step as one program."""
    return target == "xla" or (target == "torch" and bool((options or {}).get("compile")))


def build_step(
    module: IRModule,
    target: str,
    mesh: Mesh | None,
    shardings: Mapping[str, Any] | None,
    inputs: Mapping[str, Any] | None,
    options: Mapping[str, Any] | None,
) -> Executable:
    """``module`` with its ``train_step``, built for an engine that compiles it. Raises `BuildError` as `regraft.build`.

    Only XLA updates in place. With PyTorch, an interrupted in-place step would leave some parameters updated.
    """
    specs = parameter_specs(ModelVars.of(module).params, shardings, mesh) if mesh is not None else {}
    stepping = with_train_step(module, mesh, specs)
    if target != "xla":
        return build(stepping, target=target, **(options or {}))
    laid = step_inputs(module, specs, inputs) if mesh is not None else inputs
    return build(stepping, target="xla", mesh=mesh, shardings=shardings, inputs=laid, donate=DONATED, **(options or {}))

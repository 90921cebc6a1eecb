"""The trainer: it runs a module made by `SetupTrainer`, and keeps its parameters and states between steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np

from ..analysis.tensors import is_static
from ..ir.dtypes import numpy_dtype
from ..ir.expr import Var
from ..ir.module import IRModule
from ..ir.types import TensorType
from ..run import Executable, Mesh, VirtualMachine, build
from ..run.arrays import as_argument
from ..run.relax_values import as_relax_value
from ..run.targets import DEFAULT_TARGET
from .errors import NotSetError, TrainingError
from .first_states import arrays_of, sizes_of
from .progress import StepProgress
from .saved_state import ArrayKind, is_gone, kind_of, load_state, misfit, save_state
from .setup_trainer import ADJOINT, BACKBONE, OPTIM_STATE, OPTIMIZER
from .state_file import read_arrays, write_arrays
from .train_step import FIRST, STEP, ModelVars, build_step, is_one_program

ParameterValues: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""Arrays for parameters or states, in the order of these or by name."""


class Trainer:
    """Trains a module made by `SetupTrainer`, on any engine. Names follow Relax.

    ``vm`` is the built module: an `Executable` or a `VirtualMachine`. If it is None, the module is built for
    ``target``, or for the default target. ``device`` is accepted because Relax has it, and has no effect. ``options``
    are passed to the engine.

    On target ``"xla"``, and on ``"torch"`` with ``options={"compile": True}``, a step is one compiled program. On
    ``"xla"`` it updates parameters and states in place, so their arrays from before the step can no longer be used.
    ``mesh``, ``shardings`` (by parameter name) and ``inputs`` (by the name of an input or target) are as for
    `regraft.build`. The optimizer's states for a parameter have the parameter's sharding. Parameters and states start
    as zeros. With ``zero_init_param_state=False`` they are not set, and must be set before anything runs.

    Parameters, states and the optimizer's state change together, at the end of a step. A step that fails or is
    interrupted changes nothing. The exception is a step on ``"xla"`` that fails while it runs: the values that it
    updates in place are lost, and every use of them raises `TrainingError` until `load_checkpoint` or `load` restores
    them.
    """

    def __init__(
        self,
        train_mod: IRModule,
        vm: Executable | VirtualMachine | None = None,
        device: object = None,
        zero_init_param_state: bool = True,
        *,
        target: str | None = None,
        mesh: Mesh | None = None,
        shardings: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        del device
        missing = [name for name in (BACKBONE, ADJOINT, OPTIMIZER) if name not in train_mod]
        missing += [name for name in ("input_num", OPTIM_STATE) if name not in train_mod.attrs]
        if missing:
            raise TrainingError(f"Trainer: the module has no {', '.join(missing)}; use SetupTrainer first")
        if vm is not None and target is not None:
            raise TrainingError(f"Trainer: target={target!r} and a module that is built already; give one of them")
        self.mod: Final = train_mod
        if target != "xla" and (mesh is not None or shardings or inputs):
            raise TrainingError(
                "Trainer: mesh, shardings and inputs are for target='xla'; other engines have one device"
            )
        if target is not None and is_one_program(target, options):
            self.vm: Executable | VirtualMachine = build_step(train_mod, target, mesh, shardings, inputs, options)
        else:
            self.vm = vm or build(train_mod, target=target or DEFAULT_TARGET, **(options or {}))
        model = ModelVars.of(train_mod)
        self._input_num: Final = len(model.inputs)
        self._params: Final = _Store("parameter", "load_params", model.params)
        self._states: Final = _Store("state", "load_states", model.states)
        self._target_num: Final = len(model.targets)
        made = self.vm[FIRST]() if target == "xla" else arrays_of(train_mod.attrs[OPTIM_STATE])
        self._optimizer_state: tuple[Any, ...] = tuple(made)
        if zero_init_param_state:
            self.zero_init_params()
            self.zero_init_states()

    # --- parameters and states

    def zero_init_params(self) -> None:
        """Set all parameters to zeros."""
        self._params.set_zeros()

    def zero_init_states(self) -> None:
        """Set all states of the model to zeros."""
        self._states.set_zeros()

    def xavier_uniform_init_params(self, seed: int | None = None) -> None:
        """Set all parameters to random values by the Xavier (Glorot) initialization: Glorot and Bengio (2010).

        The values of a parameter of shape (m, n, ...) are uniform between plus and minus ``sqrt(6 / ((m + n) * product
        of the other sizes))``. Parameters with fewer than two axes are set to zeros. The same ``seed`` gives the same
        values.
        """
        random = np.random.default_rng(seed)
        values: dict[str, np.ndarray] = {}
        for name, (dtype, shape) in self._params.kinds().items():
            if len(shape) > 1:
                limit = float(np.sqrt(6 / max(1, (shape[0] + shape[1]) * int(np.prod(shape[2:])))))
                values[name] = random.uniform(-limit, limit, shape).astype(numpy_dtype(dtype))
        self._params.set_zeros()
        self._params.set(values)

    xaiver_uniform_init_params = xavier_uniform_init_params
    """`xavier_uniform_init_params` in Relax's spelling."""

    def load_params(self, params: ParameterValues) -> None:
        """Set all parameters in order, or some by name. If one does not fit, raise `TrainingError` and set none."""
        self._params.set(params)

    def load_states(self, states: ParameterValues) -> None:
        """Set all states of the model in order, or some by name, as `load_params` does for parameters."""
        self._states.set(states)

    def export_params(self) -> dict[str, np.ndarray]:
        """Copies of the parameters, by name. Each is a NumPy array that also has Relax's method ``numpy()``."""
        self._check_whole()
        return {name: as_relax_value(array) for name, array in self._params.arrays().items()}

    def export_states(self) -> dict[str, np.ndarray]:
        """Copies of the states of the model, by name, in the same form as in `export_params`."""
        self._check_whole()
        return {name: as_relax_value(array) for name, array in self._states.arrays().items()}

    @property
    def num_steps(self) -> int:
        """The number of steps that have been taken."""
        self._check_whole()
        return int(np.asarray(self._optimizer_state[0]))

    # --- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters, states and the optimizer's state to ``path``. `load` continues from this file.

        The file is written atomically: if this is interrupted, an existing file stays as it was.
        """
        self._check_whole()
        write_arrays(path, {name: _as_array(value) for name, value in self._named_state().items()})

    def load(self, path: str | os.PathLike[str]) -> None:
        """Continue from a file of `save`. Raises `TrainingError`, and changes nothing, if the file does not fit."""
        arrays = read_arrays(path)
        wrong = misfit({name: kind_of(array) for name, array in arrays.items()}, self._kinds())
        if wrong is not None:
            raise TrainingError(f"{os.fspath(path)} was saved with another optimizer, or for another model: {wrong}")
        self._set_named_state(arrays)

    def save_checkpoint(self, path: str | os.PathLike[str], keep: int = 2) -> None:
        """Save the state as a step of the checkpoint directory ``path``. `load_checkpoint` continues from it.

        Each process writes the parts on its devices. The step is written atomically, and the ``keep`` latest steps are
        kept. Raises `TrainingError` if the step cannot be written. See `checkpoint`.
        """
        self._check_whole()
        save_state(path, self.num_steps, self._named_state(), keep)

    def load_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Continue from the latest step in ``path``, which `save_checkpoint` wrote on the same mesh, another, or none.

        Raises `TrainingError`, and changes nothing, for a damaged checkpoint and for one of another model or optimizer.
        """
        self._set_named_state(load_state(path, self._kinds(), self.vm))

    def _names(self) -> list[str]:
        """The names in a file of all saved values: parameters, states and the optimizer's states."""
        kept = [f"optimizer/{index}" for index in range(len(self._optimizer_state))]
        return [*[f"param/{name}" for name in self._params.values], *[f"state/{n}" for n in self._states.values], *kept]

    def _named_state(self) -> dict[str, Any]:
        values = (*self._params.in_order(), *self._states.in_order(), *self._optimizer_state)
        return dict(zip(self._names(), values, strict=True))

    def _kinds(self) -> dict[str, ArrayKind]:
        kinds = (*self._params.kinds().values(), *self._states.kinds().values(), *map(kind_of, self._optimizer_state))
        return dict(zip(self._names(), kinds, strict=True))

    def _set_named_state(self, named: Mapping[str, Any]) -> None:
        values = [named[name] for name in self._names()]
        params, states = len(self._params.values), len(self._states.values)
        self._params.replace(values[:params])
        self._states.replace(values[params : params + states])
        self._optimizer_state = tuple(values[params + states :])

    # --- running

    def predict(self, *input_instances: Any) -> Any:
        """The predictions of the backbone for these inputs, as the engine returns them; its new states are dropped."""
        self._check_count("inputs", len(input_instances), self._input_num)
        self._check_whole()
        result = self.vm[BACKBONE](*input_instances, *self._params.in_order(), *self._states.in_order())
        count = len(self._states.values)
        if count:
            result = result[:-count]
            return result[0] if len(result) == 1 else result
        return result

    def update(self, input_instances: Any, targets: Any) -> Any:
        """Take one step on a batch. Returns the loss before the step, a scalar array of the engine.

        A list or tuple stands for several inputs or targets.
        """
        inputs, goals = _as_list(input_instances), _as_list(targets)
        self._check_count("inputs", len(inputs), self._input_num)
        self._check_count("targets", len(goals), self._target_num)
        self._check_whole()
        params = tuple(self._params.in_order())
        if isinstance(self.vm, Executable) and STEP in self.vm:
            whole = params, tuple(self._states.in_order()), self._optimizer_state
            try:
                loss, new_params, new_states, new_state = self.vm[STEP](*inputs, *goals, *whole)
            except Exception as error:
                self._check_whole(error)
                raise
        else:
            result, gradients = self.vm[ADJOINT](*inputs, *params, *self._states.in_order(), *goals)
            new_params, new_state = self.vm[OPTIMIZER](params, tuple(gradients), self._optimizer_state)
            loss, new_states = (result[0], result[1:]) if self._states.values else (result, ())
        self._params.replace(new_params)
        self._states.replace(new_states)
        self._optimizer_state = tuple(new_state)
        return loss

    def train(
        self,
        batches: Iterable[tuple[Any, Any]],
        epochs: int = 1,
        *,
        progress: bool = False,
        on_step: Callable[[int, float], None] | None = None,
        save_to: str | os.PathLike[str] | None = None,
        save_every: int = 0,
    ) -> list[float]:
        """Take a step on each of ``batches``, which are pairs of inputs and targets. Returns the losses.

        ``batches`` is iterated once per epoch. For several epochs it must be a list or the like; an iterator raises
        `TrainingError`. ``progress`` shows a bar with the latest loss. ``on_step(step, loss)`` is called after
        each step; steps count from 1. With ``save_to``, the state is saved there every ``save_every`` steps, and at the
        end: after the last batch, when a step fails, and when the user interrupts. `load` then continues from the last
        complete step.
        """
        if iter(batches) is batches and epochs > 1:
            raise TrainingError("Trainer.train: batches is an iterator, which gives one epoch only; give a list")
        losses: list[float] = []
        try:
            with StepProgress(batches, epochs, shown=progress) as steps:
                for inputs, targets in steps:
                    loss = float(_as_array(self.update(inputs, targets)))
                    losses.append(loss)
                    steps.report(loss)
                    if on_step is not None:
                        on_step(len(losses), loss)
                    if save_to is not None and save_every and len(losses) % save_every == 0:
                        self.save(save_to)
        finally:
            if save_to is not None and not self._is_lost():
                self.save(save_to)
        return losses

    def _is_lost(self) -> bool:
        """True if a step failed after it had begun to update parameters and states in place."""
        values = (*self._params.values.values(), *self._states.values.values(), *self._optimizer_state)
        return any(is_gone(value) for value in values)

    def _check_whole(self, cause: Exception | None = None) -> None:
        """Raise `TrainingError`, from ``cause``, if a failed step lost parameters and states."""
        if self._is_lost():
            first = (str(cause).splitlines() or [""])[0] if cause is not None else ""
            raise TrainingError(
                f"Trainer: a step failed{f' ({first})' if first else ''} while it updated parameters and states in "
                "place, so they are gone; go on from the last saved ones, with load_checkpoint or load"
            ) from cause

    def _check_count(self, what: str, count: int, expected: int) -> None:
        if count != expected:
            raise TrainingError(f"Trainer: {count} {what} given; the model takes {expected}")


class _Store:
    """Named values, each of the type of its variable."""

    __slots__ = ("_kind", "_setter", "_vars", "values")

    def __init__(self, kind: str, setter: str, variables: Sequence[Var]) -> None:
        self._kind = kind
        self._setter = setter
        self._vars = {var.name_hint: var for var in variables}
        if len(self._vars) < len(variables):
            raise TrainingError(f"Trainer: two {kind}s have one name: {[var.name_hint for var in variables]}")
        self.values: dict[str, Any] = dict.fromkeys(self._vars)

    def kinds(self) -> dict[str, ArrayKind]:
        """The dtype and the sizes of each value. Raises `TrainingError` if they are not known."""
        found: dict[str, ArrayKind] = {}
        for name, var in self._vars.items():
            ty = var.ty
            if not isinstance(ty, TensorType) or ty.dtype is None or not is_static(ty):
                raise TrainingError(
                    f"Trainer: {self._kind} {name} is {ty!r}; expected a tensor of known sizes and dtype"
                )
            found[name] = ty.dtype, sizes_of(ty)
        return found

    def set(self, given: ParameterValues) -> None:
        """Set all values in order, or some by name. If one does not fit, raise `TrainingError` and set none."""
        names, kinds = list(self._vars), self.kinds()
        if not isinstance(given, Mapping):
            if len(given) != len(names):
                raise TrainingError(f"Trainer: {len(given)} {self._kind}s given; there are {len(names)}")
            given = dict(zip(names, given, strict=True))
        found: dict[str, np.ndarray] = {}
        for name, value in given.items():
            if name not in kinds:
                known = ", ".join(names) or "none"
                raise TrainingError(f"Trainer: there is no {self._kind} {name!r}; the {self._kind}s are: {known}")
            array, (dtype, shape) = _as_array(value, self._vars[name].ty), kinds[name]
            if kind_of(array) != (dtype, shape):
                raise TrainingError(
                    f"Trainer: {self._kind} {name} is {array.dtype} {array.shape}; expected {dtype} {shape}"
                )
            found[name] = array.copy()
        self.values.update(found)

    def set_zeros(self) -> None:
        """Set all values to zeros."""
        self.values = {name: np.zeros(shape, numpy_dtype(dtype)) for name, (dtype, shape) in self.kinds().items()}

    def replace(self, values: Sequence[Any]) -> None:
        """Set all values, in order, to arrays from an engine."""
        self.values = dict(zip(self._vars, values, strict=True))

    def in_order(self) -> list[Any]:
        """All values in order. Raises `NotSetError` if one is not set."""
        for name, value in self.values.items():
            if value is None:
                raise NotSetError(f"Trainer: {self._kind} {name} is not set; set it first, as with {self._setter}")
        return list(self.values.values())

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all values."""
        return {name: np.array(_as_array(value)) for name, value in zip(self._vars, self.in_order(), strict=True)}


def _as_list(values: Any) -> list[Any]:
    return list(cast("Sequence[Any]", values)) if isinstance(values, list | tuple) else [values]


def _as_array(value: Any, ty: TensorType | Any = None) -> np.ndarray:
    """An array of an engine or of a user, as a NumPy array."""
    moved = value.cpu() if hasattr(value, "cpu") else value
    dtype = ty.dtype if isinstance(ty, TensorType) else None
    return np.asarray(as_argument(moved, TensorType(None, dtype), "value"))

"""Running a module that `SetupTrainer` made: steps, predictions, and the state between them."""

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
from .train_step import FIRST, STEP, build_step, is_one_program

ParameterValues: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""Arrays in the order of the parameters (or states) that they are for, or by name."""


class Trainer:
    """Trains a module that `SetupTrainer` made, on any engine; with Relax's names.

    ``vm`` is the module, built: an `Executable` or a `VirtualMachine`. None builds it, for ``target`` (by default the
    default one). ``device`` is Relax's and has no effect. ``options`` are the engine's own.

    On target ``"xla"``, and on ``"torch"`` with ``options={"compile": True}``, a step is one compiled program. On
    ``"xla"`` it updates parameters in place: arrays that `update` was given or returned for them before are gone then.
    ``mesh``, ``shardings`` (by the names of parameters) and ``inputs`` (by those of inputs and targets) are those of
    `regraft.build`; what the optimizer keeps of a parameter is laid as it is. Parameters and states start as zeros, or,
    with ``zero_init_param_state=False``, as nothing: then they must be set before anything runs.

    Parameters, states and the optimizer's state change together, at the end of a step: a step that fails or is
    interrupted changes nothing. The exception is a step on ``"xla"`` that fails while it runs, and not before: what it
    updates in place is gone, every use of it raises `TrainingError`, and `load_checkpoint` or `load` brings it back.
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
        counts = _counts(train_mod)
        if target != "xla" and (mesh is not None or shardings or inputs):
            raise TrainingError(
                "Trainer: mesh, shardings and inputs are for target='xla'; other engines have one device"
            )
        if target is not None and is_one_program(target, options):
            self.vm: Executable | VirtualMachine = build_step(
                train_mod, target, counts, mesh, shardings, inputs, options
            )
        else:
            self.vm = vm or build(train_mod, target=target or DEFAULT_TARGET, **(options or {}))
        input_num, params, states = counts
        own = train_mod[ADJOINT].params
        self._input_num: Final[int] = input_num
        self._params: Final = _Store("parameter", "load_params", own[input_num : input_num + params])
        self._states: Final = _Store("state", "load_states", own[input_num + params : input_num + params + states])
        self._target_num: Final = len(own) - input_num - params - states
        made = self.vm[FIRST]() if target == "xla" else arrays_of(train_mod.attrs[OPTIM_STATE])
        self._optimizer_state: tuple[Any, ...] = tuple(made)
        if zero_init_param_state:
            self.zero_init_params()
            self.zero_init_states()

    # --- what the model holds

    def zero_init_params(self) -> None:
        """Set all parameters to zeros."""
        self._params.set_zeros()

    def zero_init_states(self) -> None:
        """Set all states of the model to zeros."""
        self._states.set_zeros()

    def xavier_uniform_init_params(self, seed: int | None = None) -> None:
        """Set all parameters at random, such that signals keep their size: Glorot and Bengio (2010).

        A parameter of two dimensions or more, (m, n, ...), gets numbers up to ``sqrt(6 / ((m + n) * size of the
        rest))``; others get zeros. ``seed`` makes the numbers the same each time.
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
    """`xavier_uniform_init_params`, as Relax spells it."""

    def load_params(self, params: ParameterValues) -> None:
        """Set parameters: all of them in order, or some by name. Raises `TrainingError` for what does not fit."""
        self._params.set(params)

    def load_states(self, states: ParameterValues) -> None:
        """Set states of the model, as `load_params` does parameters."""
        self._states.set(states)

    def export_params(self) -> dict[str, np.ndarray]:
        """The parameters by name, as copies; each also answers to ``numpy()``."""
        self._check_whole()
        return {name: as_relax_value(array) for name, array in self._params.arrays().items()}

    def export_states(self) -> dict[str, np.ndarray]:
        """The states of the model by name, as `export_params` gives parameters."""
        self._check_whole()
        return {name: as_relax_value(array) for name, array in self._states.arrays().items()}

    @property
    def num_steps(self) -> int:
        """The number of steps that have been taken."""
        self._check_whole()
        return int(np.asarray(self._optimizer_state[0]))

    # --- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters, states and the optimizer's state to ``path``: all that `load` needs to go on as before.

        The file appears whole or not at all: interrupted at any moment, what was there before is still there.
        """
        self._check_whole()
        write_arrays(path, {name: _as_array(value) for name, value in self._named_state().items()})

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from what `save` wrote. Raises `TrainingError`, and changes nothing, where it does not fit."""
        arrays = read_arrays(path)
        wrong = misfit({name: kind_of(array) for name, array in arrays.items()}, self._kinds())
        if wrong is not None:
            raise TrainingError(f"{os.fspath(path)} was saved with another optimizer, or for another model: {wrong}")
        self._set_named_state(arrays)

    def save_checkpoint(self, path: str | os.PathLike[str], keep: int = 2) -> None:
        """Save all that `load_checkpoint` needs as a step of the checkpoint directory ``path``; see `checkpoint`.

        Each process writes the parts that lie on its devices. The step appears whole or not at all, and the ``keep``
        latest ones stay. Raises `TrainingError` where it cannot be written.
        """
        self._check_whole()
        save_state(path, self.num_steps, self._named_state(), keep)

    def load_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Go on from the latest step that `save_checkpoint` wrote to ``path``, on this or on another mesh, or on none.

        Raises `TrainingError`, and changes nothing, for a damaged checkpoint and for one of another model or optimizer.
        """
        self._set_named_state(load_state(path, self._kinds(), self.vm))

    def _names(self) -> list[str]:
        """The names in a file of everything that changes in training: parameters, states, the optimizer's state."""
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
        """The results of the backbone for these inputs, without its new states, in the engine's own form."""
        self._check_count("inputs", len(input_instances), self._input_num)
        self._check_whole()
        result = self.vm[BACKBONE](*input_instances, *self._params.in_order(), *self._states.in_order())
        count = len(self._states.values)
        if count:
            result = result[:-count]
            return result[0] if len(result) == 1 else result
        return result

    def update(self, input_instances: Any, targets: Any) -> Any:
        """Take one step, on a batch; returns the loss before it, a scalar in the engine's own form.

        A list (or tuple) stands for several inputs, or targets.
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
        """Take a step on each of ``batches``, pairs of inputs and targets; returns the losses.

        ``batches`` is gone through once per epoch, so for several it must be one that starts anew, such as a list.
        ``progress`` shows a bar with the latest loss. ``on_step(step, loss)`` is called after each step, steps counted
        from 1. With ``save_to`` the state is saved there every ``save_every`` steps, and in any case at the end: when
        the last batch is done, when a step fails, and when the user interrupts. Then `load` goes on from the last
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
        """Raise `TrainingError`, because of ``cause``, where parameters and states were lost in a step."""
        if self._is_lost():
            first = (str(cause).splitlines() or [""])[0] if cause is not None else ""
            raise TrainingError(
                f"Trainer: a step failed{f' ({first})' if first else ''} while it updated parameters and states in "
                "place, so they are gone; go on from the last saved ones, with load_checkpoint or load"
            ) from cause

    def _check_count(self, what: str, count: int, expected: int) -> None:
        if count != expected:
            raise TrainingError(f"Trainer: {count} {what} given; the model takes {expected}")


def _counts(module: IRModule) -> tuple[int, int, int]:
    """The numbers of inputs, parameters and states of the model."""
    inputs, params, states = [module.attrs[name] for name in ("input_num", "param_num", "state_num")]
    return inputs, params, states


class _Store:
    """Values by name, each of the type of its variable."""

    __slots__ = ("_kind", "_setter", "_vars", "values")

    def __init__(self, kind: str, setter: str, variables: Sequence[Var]) -> None:
        self._kind = kind
        self._setter = setter
        self._vars = {var.name_hint: var for var in variables}
        if len(self._vars) < len(variables):
            raise TrainingError(f"Trainer: two {kind}s have one name: {[var.name_hint for var in variables]}")
        self.values: dict[str, Any] = dict.fromkeys(self._vars)

    def kinds(self) -> dict[str, ArrayKind]:
        """Dtype and sizes of each value."""
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
        """Set some values, or, given in order, all; all fit or none is set."""
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
        """Set all values, in order, to what an engine gave."""
        self.values = dict(zip(self._vars, values, strict=True))

    def in_order(self) -> list[Any]:
        """All values; raises `TrainingError` when one is not set."""
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
    """An array that an engine gave, or a user gives, as NumPy's."""
    moved = value.cpu() if hasattr(value, "cpu") else value
    dtype = ty.dtype if isinstance(ty, TensorType) else None
    return np.asarray(as_argument(moved, TensorType(None, dtype), "value"))

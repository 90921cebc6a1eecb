"""The state of a training run as a checkpoint: arrays of any engine are saved, and loaded onto the engine's devices."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..ir.dtypes import as_dtype
from ..run import Executable, VirtualMachine
from .checkpoint import Checkpoint, SavedPiece, SavedTensor, whole, write_checkpoint
from .errors import TrainingError
from .train_step import OPTIMIZER_STATES, PARAMS, STATES

ArrayKind: TypeAlias = tuple[str, tuple[int, ...]]
"""The dtype and the sizes of an array."""


def save_state(path: str | os.PathLike[str], step: int, values: Mapping[str, Any], keep: int) -> None:
    """Write ``values`` as ``step``. If there are several processes, each writes the parts that it holds."""
    jax: Any = sys.modules.get("jax")
    if jax is None or not any(isinstance(value, jax.Array) for value in values.values()):
        write_checkpoint(path, step, {name: whole(_numpy(value)) for name, value in values.items()}, keep=keep)
        return
    from ..run.xla_processes import barrier, process_count, process_index

    process = process_index()
    tensors = {name: _parts(value, jax, process) for name, value in values.items()}
    write_checkpoint(path, step, tensors, keep=keep, process=process, processes=process_count(), barrier=barrier)


def load_state(
    path: str | os.PathLike[str], kinds: Mapping[str, ArrayKind], vm: Executable | VirtualMachine
) -> dict[str, Any]:
    """The values of the latest step in ``path``, placed on the devices that the engine needs.

    Raises `TrainingError` if names, dtypes or sizes differ from ``kinds``.
    """
    saved = Checkpoint(path)
    wrong = misfit(saved.types(), kinds)
    if wrong is not None:
        raise TrainingError(f"{saved.path} is of another model or optimizer: {wrong}")
    if not isinstance(vm, Executable) or vm.target != "xla":
        return {name: saved.read(name) for name in kinds}
    executable: Any = vm
    places = _places(kinds)
    return {
        name: executable.place(places[name], shape, partial(saved.read, name)) for name, (_, shape) in kinds.items()
    }


def misfit(have: Mapping[str, ArrayKind], need: Mapping[str, ArrayKind]) -> str | None:
    """The first difference between the saved arrays and the needed ones, as text. None if there is none."""
    for name, kind in need.items():
        found = have.get(name)
        if found != kind:
            state = "does not have it" if found is None else f"has it as {found[0]} {found[1]}"
            return f"{name.replace('/', ' ', 1)} is {kind[0]} {kind[1]}; it {state}"
    unknown = next((name for name in have if name not in need), None)
    return None if unknown is None else f"it has {unknown}, which is not here"


def is_gone(value: Any) -> bool:
    """True if ``value`` is a JAX array whose memory was donated to a computation."""
    return hasattr(value, "is_deleted") and value.is_deleted()


def kind_of(value: Any) -> ArrayKind:
    """The kind of an array of any engine. The values of a JAX array are not read: they may be donated or elsewhere."""
    array = value if hasattr(value, "is_deleted") else _numpy(value)
    return as_dtype(array.dtype), tuple(array.shape)


def _places(names: Mapping[str, Any]) -> dict[str, str]:
    """For each tensor of a checkpoint, the parameter of ``train_step`` that takes it."""
    counts = {"param": 0, "state": 0, "optimizer": 0}
    tuples = {"param": PARAMS, "state": STATES, "optimizer": OPTIMIZER_STATES}
    places: dict[str, str] = {}
    for name in names:
        kind = name.partition("/")[0]
        places[name] = f"{tuples[kind]}[{counts[kind]}]"
        counts[kind] += 1
    return places


def _parts(value: Any, jax: Any, process: int) -> SavedTensor:
    """The parts of ``value`` that this process has to write. If a part has copies, only the first one is written."""
    if not isinstance(value, jax.Array):
        return whole(_numpy(value)) if process == 0 else whole(_numpy(value))._replace(parts=())
    parts: list[SavedPiece] = []
    for shard in value.addressable_shards:
        if shard.replica_id == 0:
            start = tuple([axis.indices(size)[0] for axis, size in zip(shard.index, value.shape, strict=True)])
            parts.append(SavedPiece(start, np.asarray(shard.data)))
    return SavedTensor(as_dtype(value.dtype), tuple(value.shape), tuple(parts))


def _numpy(value: Any) -> np.ndarray:
    return np.asarray(value.cpu() if hasattr(value, "cpu") else value)

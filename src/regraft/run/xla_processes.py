"""Several processes as one program: connecting them, and agreeing on what is compiled before anything runs.

Every process runs the same script; a mesh then reaches over the devices of all. What one process compiles the others
must compile too, or collectives would wait for each other for ever, so the texts are compared first.
"""

from __future__ import annotations

import hashlib
import itertools
from importlib import import_module
from typing import Any, Final

from .errors import BuildError, ExecutionError
from .xla_library import jax

WAIT_SECONDS: Final = 120
"""How long a process waits for the others where all have to come, before it says that one is missing."""

_numbers: Final = itertools.count()


def connect(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    *,
    heartbeat_seconds: int = 10,
) -> None:
    """Make this process one of several; call it before anything else uses JAX.

    Args:
        coordinator: address and port of process 0, such as ``"10.0.0.1:1234"``. None, like the other two: what JAX
        finds
            out from the cluster's own environment (Slurm, Kubernetes, TPU pods).
        processes: how many there are.
        process: the number of this one.
        heartbeat_seconds: after how long without a sign of life a process counts as dead, which ends the others.

    Raises `BuildError` when they do not come together.
    """
    try:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            heartbeat_timeout_seconds=heartbeat_seconds,
            initialization_timeout=WAIT_SECONDS,
        )
    except (RuntimeError, ValueError) as error:
        where = f" at {coordinator}" if coordinator else ""
        raise BuildError(f"the processes{where} do not come together: {str(error).splitlines()[0]}") from error


def process_count() -> int:
    """How many processes there are."""
    return jax.process_count()


def process_index() -> int:
    """The number of this process."""
    return jax.process_index()


def barrier(name: str) -> None:
    """Returns when all processes have come here. Raises `ExecutionError` when one does not come in time."""
    if process_count() == 1:
        return
    try:
        _client().wait_at_barrier(f"regraft-{name}-{next(_numbers)}", WAIT_SECONDS * 1000)
    except Exception as error:
        raise ExecutionError(f"a process did not come to {name!r} within {WAIT_SECONDS} s; it may have died") from error


def agree(what: str, text: str) -> None:
    """Raise `BuildError` on every process unless all of them give the same text."""
    if process_count() == 1:
        return
    digest, number = hashlib.sha256(text.encode()).hexdigest(), next(_numbers)
    client = _client()
    client.key_value_set(f"regraft/{number}/{process_index()}", f"{what} {digest}")
    for other in range(process_count()):
        try:
            said = client.blocking_key_value_get(f"regraft/{number}/{other}", WAIT_SECONDS * 1000)
        except Exception as error:
            raise BuildError(
                f"process {other} has not come to compile {what} within {WAIT_SECONDS} s; it may run another "
                f"program, or have died"
            ) from error
        if said != f"{what} {digest}":
            theirs = said.partition(" ")[0]
            how = "another program" if theirs == what else f"{theirs}"
            raise BuildError(
                f"process {other} compiles {how}, where process {process_index()} compiles {what}: every process must "
                f"build the same program, with the same sizes, in the same order"
            )


def _client() -> Any:
    return import_module("jax._src.distributed").global_state.client

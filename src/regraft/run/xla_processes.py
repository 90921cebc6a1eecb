"""Several processes as one program: connecting them, and agreeing on what is compiled before anything runs.

Every process runs the same script, and a mesh covers the devices of all. All processes must compile the same programs,
or collectives would wait for each other forever, so the texts are compared first.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import time
import warnings
from importlib import import_module
from typing import Any, Final

from .errors import BuildError, ExecutionError
from .process_watch import GRACE_SECONDS, ProcessWatch
from .xla_library import jax

WAIT_SECONDS: Final = 120
"""The seconds that a process waits for all others at a barrier before it reports that one is missing."""

_WATCH: Final = "regraft/watch"
_WATCH_SECONDS: Final = 20
"""The seconds for which a process tries to connect to the first one for the watch; runs work without the watch."""
_JAX_WAITS: Final = 6
"""JAX waits this many times as long as the watch before it aborts the remaining processes."""

_numbers: Final = itertools.count()
_watches: Final[list[ProcessWatch]] = []
"""The watch of this process, if it is one of several."""


def connect(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    *,
    heartbeat_seconds: int = 10,
) -> None:
    """Make this process one of several; call this before anything else uses JAX.

    Args:
        coordinator: address and port of process 0, such as ``"10.0.0.1:1234"``. If this and the next two are None, JAX
            finds them in the cluster's environment (Slurm, Kubernetes, TPU pods).
        processes: the number of processes.
        process: the number of this process.
        heartbeat_seconds: the seconds after which a machine that does not answer counts as gone.

    From then on the end of one process ends all. If one dies, or stops with an error, the others print that on standard
    error and exit with code 75: at once, or after ``heartbeat_seconds`` if a whole machine is gone. The process that
    failed exits with code 1. Raises `BuildError` if the processes cannot connect.
    """
    try:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            heartbeat_timeout_seconds=_JAX_WAITS * heartbeat_seconds,
            initialization_timeout=WAIT_SECONDS,
        )
        if _state().num_processes > 1:
            _watches.append(_watch(heartbeat_seconds))
    except (RuntimeError, ValueError) as error:
        where = f" at {coordinator}" if coordinator else ""
        raise BuildError(f"the processes{where} cannot connect: {str(error).splitlines()[0]}") from error


def _watch(heartbeat_seconds: int) -> ProcessWatch:
    """Connect to the other processes, which find process 0 where JAX does; warn if process 0 cannot be reached."""
    state = _state()
    watch = ProcessWatch(state.process_id, state.num_processes, heartbeat_seconds)
    if state.process_id == 0:
        key = secrets.token_hex(16)
        _client().key_value_set(_WATCH, f"{watch.listen(key)} {key}")
    else:
        port, key = _client().blocking_key_value_get(_WATCH, WAIT_SECONDS * 1000).split()
        host = str(state.coordinator_address).rpartition(":")[0].strip("[]")
        try:
            watch.join(host, int(port), key, _WATCH_SECONDS)
        except OSError as error:
            warnings.warn(
                f"process {state.process_id} cannot reach process 0 at {host}:{port} ({error}), so the end of a "
                f"process shows only when JAX notices it, after {_JAX_WAITS * heartbeat_seconds} s",
                stacklevel=3,
            )
    watch.report_own_end()
    return watch


def await_the_end() -> None:
    """Wait, after an error that the end of another process may have caused, until the watch has had time to end this
    one.
    """
    if _watches:
        time.sleep(GRACE_SECONDS)


def process_count() -> int:
    """The number of processes."""
    return jax.process_count()


def process_index() -> int:
    """The number of this process."""
    return jax.process_index()


def barrier(name: str) -> None:
    """Wait until all processes have called this. Raises `ExecutionError` if one does not in time."""
    if process_count() == 1:
        return
    try:
        _client().wait_at_barrier(f"regraft-{name}-{next(_numbers)}", WAIT_SECONDS * 1000)
    except Exception as error:
        raise ExecutionError(f"a process did not come to {name!r} within {WAIT_SECONDS} s; it may have died") from error


def agree(what: str, text: str) -> None:
    """Raise `BuildError` on every process unless all processes pass the same text."""
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


def _state() -> Any:
    return import_module("jax._src.distributed").global_state


def _client() -> Any:
    return _state().client

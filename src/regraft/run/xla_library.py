"""JAX, in the form that the modules of this engine import it.

Its annotations are partly unknown to a strict type checker, so only this module imports its names, and makes them
untyped.
"""

from __future__ import annotations

import os
from typing import Any, Final, TypeAlias

# JAX's callbacks copy their operands on the threads that run the program; there are as many threads as cores. A single
# thread would wait for itself forever. JAX reads this variable when it is first used in a process.
if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) == 1:
    os.environ.setdefault("PJRT_NPROC", "2")

import jax as _jax
import jax.numpy as _jnp
from jax import lax as _lax
from jax.experimental import io_callback as _io_callback
from jax.experimental import mesh_utils as _mesh_utils
from jax.experimental.compilation_cache import compilation_cache as _compilation_cache
from jax.extend.core import Primitive as _Primitive
from jax.interpreters import mlir as _mlir

jax: Final[Any] = _jax
jnp: Final[Any] = _jnp
lax: Final[Any] = _lax
io_callback: Final[Any] = _io_callback
Primitive: Final[Any] = _Primitive
mlir: Final[Any] = _mlir
create_device_mesh: Final[Any] = _mesh_utils.create_device_mesh
compilation_cache: Final[Any] = _compilation_cache

JaxArray: TypeAlias = Any
"""A JAX array, concrete or traced."""
JaxDevice: TypeAlias = Any
Sharding: TypeAlias = Any
"""The layout of a JAX array on devices."""

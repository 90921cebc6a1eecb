"""JAX, as the modules of this engine use it.

Its annotations are partly unknown to a strict type checker, so its names are handed on untyped, from here alone.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import jax as _jax
import jax.numpy as _jnp
from jax import lax as _lax
from jax.experimental import io_callback as _io_callback
from jax.experimental import mesh_utils as _mesh_utils
from jax.experimental.compilation_cache import compilation_cache as _compilation_cache

jax: Final[Any] = _jax
jnp: Final[Any] = _jnp
lax: Final[Any] = _lax
io_callback: Final[Any] = _io_callback
create_device_mesh: Final[Any] = _mesh_utils.create_device_mesh
compilation_cache: Final[Any] = _compilation_cache

JaxArray: TypeAlias = Any
"""An array of JAX, with numbers or traced."""
JaxDevice: TypeAlias = Any
Sharding: TypeAlias = Any
"""The layout of an array of JAX on devices."""

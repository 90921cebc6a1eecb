"""The bits of bools as bytes, and of bytes as bools: JAX does not count bools among the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..xla_library import jnp


def _bitcast(x: Any, *, dtype: str) -> Any:
    if x.dtype == jnp.bool_ and dtype in ("int8", "uint8"):
        return x.astype(dtype)
    if dtype == "bool" and x.dtype in (jnp.int8, jnp.uint8):
        return x != 0
    return NotImplemented


KERNELS: Final[dict[str, Callable[..., Any]]] = {"relax.bitcast": _bitcast}

"""Maximum and mean over sliding windows as one operation, over 1, 2 and 3 spatial axes, in any layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...ir.attrs import Attrs
from ...ir.dtypes import is_float
from ...op.composite.pooling import PoolWindows
from ...op.layouts import data_letters, from_canonical, to_canonical
from ...op.semantics import cast, dtype_name, widened
from ..xla_library import jnp, lax


def _over_windows(x: Any, pool: PoolWindows, start: Any, combine: Callable[[Any, Any], Any]) -> Any:
    return lax.reduce_window(
        x,
        start,
        combine,
        (1, 1, *pool.kernel),
        (1, 1, *pool.strides),
        ((0, 0), (0, 0), *pool.margins),
        window_dilation=(1, 1, *pool.dilation),
    )


def _max_pool(data: Any, **attributes: Any) -> Any:
    letters = data_letters(len(attributes["pool_size"]))
    x = widened(jnp, to_canonical(jnp, data, attributes["layout"], letters))
    if 0 in x.shape:
        return NotImplemented
    least = -jnp.inf if is_float(dtype_name(x.dtype)) else jnp.iinfo(x.dtype).min
    greatest = _over_windows(
        x, PoolWindows.of(x.shape[2:], Attrs(attributes)), jnp.asarray(least, x.dtype)[()], lax.max
    )
    return from_canonical(jnp, cast(jnp, greatest, dtype_name(data.dtype)), attributes["out_layout"], letters)


KERNELS: Final[dict[str, Callable[..., Any]]] = {f"relax.nn.max_pool{rank}d": _max_pool for rank in (1, 2, 3)}

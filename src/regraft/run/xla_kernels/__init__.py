"""XLA's own operations for operators that it has as one: what runs in place of reference semantics.

A kernel takes the operands and attributes of its operator as the reference does, without ``xp``, and gives
`NotImplemented` for a case that XLA's operation does not cover, which the reference then computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ...ir.op import Op
from ..xla_library import jnp
from . import bits, convolution, pooling, sizes

Kernel: TypeAlias = Callable[..., Any]


def _with_reference(name: str, kernel: Kernel) -> Kernel:
    reference = Op.get(name).reference
    assert reference is not None

    def run(*operands: Any, **attributes: Any) -> Any:
        result = kernel(*operands, **attributes)
        return reference(jnp, *operands, **attributes) if result is NotImplemented else result

    run.__name__ = run.__qualname__ = name
    return run


KERNELS: Final[dict[str, Kernel]] = {
    name: _with_reference(name, kernel)
    for family in (bits, convolution, pooling, sizes)
    for name, kernel in family.KERNELS.items()
}
"""The kernels, by the names of their operators."""

"""The table of an engine's own kernels; each falls back to the reference semantics of its operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ..ir.op import Op

Kernel: TypeAlias = Callable[..., Any]


def with_references(families: Iterable[Mapping[str, Kernel]], xp: Any) -> dict[str, Kernel]:
    """The kernels of ``families``, by the names of their operators.

    A kernel takes the operands and attributes of its operator as the reference does, without ``xp``. If it returns
    `NotImplemented`, the reference computes the result in the namespace ``xp``.
    """
    return {name: _with_reference(name, kernel, xp) for family in families for name, kernel in family.items()}


def _with_reference(name: str, kernel: Kernel, xp: Any) -> Kernel:
    reference = Op.get(name).reference
    assert reference is not None

    def run(*operands: Any, **attributes: Any) -> Any:
        result = kernel(*operands, **attributes)
        return reference(xp, *operands, **attributes) if result is NotImplemented else result

    run.__name__ = run.__qualname__ = name
    return run

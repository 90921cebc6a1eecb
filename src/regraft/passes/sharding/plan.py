"""A plan: specs by the names of tensors, and the reasons for tensors without a spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, final

Spec: TypeAlias = "tuple[str | tuple[str, ...] | None, ...]"
"""For each axis of a tensor: the mesh axis that splits it, a tuple of several, or None."""


@final
class ShardingPlan(dict[str, Spec]):
    """Specs by name, to read, to change and to pass to `regraft.build`: ``plan["*embedding*"] = ("model", None)``.

    ``reasons`` has an entry for each place where a rule matched and was not followed. ``a | b`` holds the specs of
    both; the specs of ``b`` take precedence.
    """

    def __init__(self, specs: Mapping[str, Spec] | None = None, reasons: Iterable[str] = ()) -> None:
        super().__init__(specs or {})
        self.reasons: list[str] = list(dict.fromkeys(reasons))

    def __or__(self, other: Mapping[str, Spec]) -> ShardingPlan:  # type: ignore[override]
        more = other.reasons if isinstance(other, ShardingPlan) else []
        return ShardingPlan({**self, **other}, [*self.reasons, *more])

    def __str__(self) -> str:
        width = max([len(name) for name in self], default=0)
        lines = [f"{name:{width}}  {_spec_text(spec)}" for name, spec in self.items()]
        return "\n".join([*lines, *[f"left whole: {reason}" for reason in self.reasons]]) or "everything is whole"


def _spec_text(spec: Spec) -> str:
    entries = ["-" if entry is None else entry if isinstance(entry, str) else "+".join(entry) for entry in spec]
    return f"({', '.join(entries)})"

"""A match, as people get it: what each pattern stands for, and the program that it was found in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

from ..ir.expr import Expr, Var
from ..ir.node import Shown
from ..ir.program import BindingBlock
from .pattern import DFPattern, all_patterns


@final
class Matchings(dict[Any, Any], Shown):
    """From each pattern to what it stands for: a dict, whose ``str`` has a line for each.

    ``root`` is the block or the expression that was matched, ``definitions`` what its variables are bound to where
    that was said. Both are no part of the dict; `regraft.view` marks what was matched in them.
    """

    __slots__ = ("definitions", "root")

    def __init__(
        self, found: Mapping[Any, Any], root: BindingBlock | Expr, definitions: Mapping[Var, Expr] | None = None
    ) -> None:
        super().__init__(found)
        self.root: Final = root
        self.definitions: Final[Mapping[Var, Expr]] = {} if definitions is None else definitions

    def __str__(self) -> str:
        return "\n".join([f"{pattern!r}: {value!r}" for pattern, value in self.items()])

    def each(self, repeated: DFPattern) -> list[dict[Any, Any]]:
        """The match, in each element, of the parts of ``repeated``, the pattern of a `repeat` or of a `chain`'s links.

        A part that an element does not have is not in its dict; one that elements share is in all.
        """
        found: list[dict[Any, Any]] = [{} for _ in self.get(repeated, ())]
        for part in all_patterns(repeated) if found else ():
            run: Any = self.get(part)
            run = run if isinstance(run, list) else [run] * len(found)  # pyright: ignore[reportUnknownVariableType]
            for element, value in zip(found, run, strict=True):
                if value is not None:
                    element[part] = value
        return found

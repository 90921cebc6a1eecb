"""The result of a match: a mapping from patterns to values, and the program in which it was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

from ..ir.expr import Expr, Var
from ..ir.node import Shown
from ..ir.program import BindingBlock
from .pattern import DFPattern, all_patterns


@final
class Matchings(dict[Any, Any], Shown):
    """A dict from patterns to the values that they stand for. Its ``str`` has one line for each pattern.

    ``root`` is the block or the expression that was matched. ``definitions`` maps its variables to their values, as far
    as they were given. `regraft.view` uses both to mark the match in the program.
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
        """One dict for each element of a `repeat`, or link of a `chain`: the values of the parts in this element.

        ``repeated`` is the pattern of the element or link. A part that an element does not have is not in its dict. A
        shared part is in all dicts.
        """
        found: list[dict[Any, Any]] = [{} for _ in self.get(repeated, ())]
        for part in all_patterns(repeated) if found else ():
            run: Any = self.get(part)
            run = run if isinstance(run, list) else [run] * len(found)  # pyright: ignore[reportUnknownVariableType]
            for element, value in zip(found, run, strict=True):
                if value is not None:
                    element[part] = value
        return found

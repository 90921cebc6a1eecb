"""``@R.macro``: statements that a program includes by calling a name; they are read anew at each call."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from ..ir.errors import RegraftError
from .source import SourceText


@final
@dataclass(frozen=True, slots=True, eq=False)
class Macro:
    """A decorated definition to be called in programs: its statements replace the call.

    ``scope`` holds the Python names around the definition. A hygienic macro sees these and its arguments. Other macros
    first see the names of the program around the call.
    """

    source: SourceText
    node: ast.FunctionDef
    scope: Mapping[str, Any]
    signature: inspect.Signature
    hygienic: bool

    def bound(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by the names of the parameters; raises TypeError if they do not fit."""
        found = self.signature.bind(*args, **keywords)
        found.apply_defaults()
        return dict(found.arguments)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Raise `RegraftError`: a macro has a meaning in a program only."""
        del args, keywords
        raise RegraftError(f"the macro {self.node.name!r} can only be called in a decorated function")

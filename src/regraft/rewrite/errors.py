"""The errors of rewriting, and the result by which a rule declines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from ..ir.errors import RegraftError
from ..ir.expr import Expr
from ..ir.types import is_subtype


class RewriteError(RegraftError):
    """A rule made something that cannot replace what it matched; the message names rule and binding."""


class RuleFormError(RewriteError, ValueError):
    """Two functions do not form a rule; also a `ValueError`, as in Relax."""


class RewriteTypeError(RewriteError, TypeError):
    """A replacement's type is not at least as precise as the type it replaces, or not compatible with it."""


class RewriteScopeError(RewriteError):
    """A replacement uses a value that is not visible at its place."""


class RewriteLoopError(RewriteError):
    """Rewriting returned to an earlier state, or did not end; ``steps`` are the last rewrites, one line each."""

    def __init__(self, message: str, steps: Sequence[str]) -> None:
        super().__init__(message + "".join(f"\n  {step}" for step in steps))
        self.steps = tuple(steps)


class RewriteValueError(RewriteError, ValueError):
    """A replacement computed another value than the replaced one, on the inputs that were tried."""


class RewriteWarning(UserWarning):
    """A rule was given up at some value. The program is correct, but may contain more to rewrite."""


@final
class Decline:
    """The result of a rewriter that declines, with the reason; made by `decline`."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"decline({self.reason!r})"


def decline(reason: str) -> Decline:
    """The result of a rewriter that leaves a match as it is; `explain` and reports show the reason."""
    return Decline(reason)


def if_as_precise(value: Expr, old: Expr, otherwise: str = "the shape would be less precisely known") -> Expr | Decline:
    """``value`` as a replacement of ``old``; declined if its type is less precise than that of ``old``."""
    return value if is_subtype(value.ty, old.ty) is True else decline(otherwise)

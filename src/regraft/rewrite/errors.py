"""The errors of rewriting, and how a rule says no."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from ..ir.errors import RegraftError
from ..ir.expr import Expr
from ..ir.types import is_subtype


class RewriteError(RegraftError):
    """A rule made something that cannot take the place of what it matched; the message names rule and binding."""


class RuleFormError(RewriteError, ValueError):
    """Two functions that are to be a rule do not make one; also a `ValueError`, as in Relax."""


class RewriteTypeError(RewriteError, TypeError):
    """A replacement's type is not at least as precise as the type it replaces, or not compatible with it."""


class RewriteScopeError(RewriteError):
    """A replacement uses a value that cannot be seen where it would stand."""


class RewriteLoopError(RewriteError):
    """Rewriting returned to an earlier state, or did not end; ``steps`` are the last rewrites, one line each."""

    def __init__(self, message: str, steps: Sequence[str]) -> None:
        super().__init__(message + "".join(f"\n  {step}" for step in steps))
        self.steps = tuple(steps)


class RewriteValueError(RewriteError, ValueError):
    """A replacement computed another value than what it replaces, on the inputs it was tried with."""


class RewriteWarning(UserWarning):
    """A rule was left alone somewhere without an answer; the program is right, and may hold more to rewrite."""


@final
class Decline:
    """A rewriter's "no", with the reason; made by `decline`."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"decline({self.reason!r})"


def decline(reason: str) -> Decline:
    """The result of a rewriter to leave a match as it is and say why; `explain` and reports show the reason."""
    return Decline(reason)


def if_as_precise(value: Expr, old: Expr, otherwise: str = "the shape would be less precisely known") -> Expr | Decline:
    """``value`` to stand for ``old``; declined, with a reason, where its type says less than that of ``old``."""
    return value if is_subtype(value.ty, old.ty) is True else decline(otherwise)

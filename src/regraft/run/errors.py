"""The errors of building and running."""

from __future__ import annotations

from ..ir.errors import RegraftError


class BuildError(RegraftError, RuntimeError, ValueError):
    """A module that a target cannot run, or an unknown target; nothing has run yet."""


class ExecutionError(RegraftError, RuntimeError, ValueError):
    """A failed run: wrong arguments, a failed check, or an error inside an operator or an external function.

    The message names the function and the parameter or binding. If Python or a library raised the error, it is the
    ``__cause__``.
    """


class TypeCheckError(ExecutionError, TypeError):
    """A value that does not have the required type: an argument, a ``match_cast``, or the result of a function.

    Relax raises ValueError for some of these and TypeError for others; this class is both.
    """


class MissingFunctionError(ExecutionError, AttributeError):
    """An executable has no function of the requested name; Relax raises AttributeError."""


class AssertionFailedError(ExecutionError, AssertionError):
    """A condition of ``R.assert_op`` that does not hold."""


def kind_of(value: object) -> str:
    """The kind of a value, for messages: ``a list``."""
    return f"a {type(value).__name__}"

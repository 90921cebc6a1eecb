"""The errors of building and running."""

from __future__ import annotations

from ..ir.errors import RegraftError


class BuildError(RegraftError, RuntimeError, ValueError):
    """A module that a target cannot run, or a target that does not exist; nothing has run yet."""


class ExecutionError(RegraftError, RuntimeError, ValueError):
    """A run that failed: wrong arguments, a failed check, or an error inside an operator or an outside function.

    The message names the function and the parameter or binding. For an error that Python or a library raised,
    ``__cause__`` is that error.
    """


class TypeCheckError(ExecutionError, TypeError):
    """A value that is not of the type that it has to be: an argument, a ``match_cast``, the result of a function.

    Relax raises ValueError for some of these and TypeError for others; this is both.
    """


class MissingFunctionError(ExecutionError, AttributeError):
    """A function of an executable that there is none of; Relax raises AttributeError."""


class AssertionFailedError(ExecutionError, AssertionError):
    """A condition of ``R.assert_op`` that does not hold."""


def kind_of(value: object) -> str:
    """The kind of a value, for messages: ``a list``."""
    return f"a {type(value).__name__}"

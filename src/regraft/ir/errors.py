"""The errors that every package raises, and the base class that users catch.

The message of an error says what is wrong, where, and what to do about it. A package that needs a richer error
(the parser's position, the gate's two types) subclasses one of these beside its own code.
"""

from __future__ import annotations


class RegraftError(Exception):
    """Base of every error that regraft raises on purpose."""


class IRError(RegraftError, ValueError, TypeError):
    """A part of a program that is invalid: a wrong field, a duplicate name, a negative size.

    Relax raises ValueError for some of these mistakes and TypeError for others; this error is both.
    """


class BuilderError(IRError, RuntimeError):
    """A call of a builder that its present state does not allow; Relax raises RuntimeError there."""


class BuilderTypeError(BuilderError, TypeError):
    """An argument of a builder that has the wrong kind."""


class FieldIndexError(IRError, IndexError):
    """A field that a tuple does not have."""


class OpTypeError(RegraftError, TypeError, ValueError):
    """A call that its operator does not accept; the message names operator, argument, type and expectation.

    Relax raises ValueError for some of these calls and TypeError for others; this error is both. ``part`` is the
    number of the wrong operand or the name of the wrong attribute, None if the message is about several.
    """

    def __init__(self, message: str = "", part: int | str | None = None) -> None:
        super().__init__(message)
        self.part = part


class StructuralInequalityError(AssertionError, ValueError):
    """Raised if two programs that are asserted to be the same differ; Relax raises ValueError there."""


class MissingDependencyError(RegraftError, ImportError):
    """Raised if an optional package is not installed; the message names the extra that installs it."""

"""The errors that every room of the house raises, and the one base that users catch.

Each error is one message that says what is wrong, where, and what to do about it. Rooms that need
a richer error (the parser's position, the gate's two types) subclass one of these beside their own code.
"""

from __future__ import annotations


class RegraftError(Exception):
    """Base of every error that regraft raises on purpose."""


class IRError(RegraftError, ValueError, TypeError):
    """A piece of program that cannot exist: a wrong field, a duplicate name, a negative size.

    Relax tells such mistakes by ValueError or by TypeError, depending on where it meets them; this is both.
    """


class BuilderError(IRError, RuntimeError):
    """A builder is asked for something that has no place where it stands; Relax raises RuntimeError there."""


class BuilderTypeError(BuilderError, TypeError):
    """A builder is given something of a wrong kind."""


class FieldIndexError(IRError, IndexError):
    """A field that a tuple does not have."""


class OpTypeError(RegraftError, TypeError, ValueError):
    """A call that its operator does not accept; the message names operator, argument, type and expectation.

    Relax raises ValueError for some of these calls and TypeError for others; this is both. ``part`` is the number of
    the operand or the name of the attribute that is wrong, None where the message is about several.
    """

    def __init__(self, message: str = "", part: int | str | None = None) -> None:
        super().__init__(message)
        self.part = part


class StructuralInequalityError(AssertionError, ValueError):
    """Two programs differ that were asserted to be the same; Relax raises ValueError there."""


class MissingDependencyError(RegraftError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""

"""Recursion without Python's call stack, for work that nests as deeply as programs do.

A step function is a generator. It yields the work that it needs, and `run_steps` sends it the result.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

_T = TypeVar("_T")

Steps: TypeAlias = "Generator[Steps[Any], Any, _T]"
"""A generator of steps whose result is a ``_T``."""


def run_steps(steps: Steps[_T]) -> _T:
    """Run ``steps`` and all work that they yield. An exception passes through the generators that wait for the work."""
    stack: list[Steps[Any]] = [steps]
    result: Any = None
    error: BaseException | None = None
    while stack:
        try:
            asked = stack[-1].send(result) if error is None else stack[-1].throw(error)
        except StopIteration as finished:
            stack.pop()
            result, error = finished.value, None
        except BaseException as raised:
            stack.pop()
            if not stack:
                raise
            result, error = None, raised
        else:
            stack.append(asked)
            result, error = None, None
    return result

"""Loops on PyTorch: step by step in Python, and as PyTorch's own loops in a program that is traced.

`torch.export` and `torch.compile` get `while_loop`, `scan` and `map`, which stay loops; PyTorch finds out what these
capture. They must return new tensors, so values that a step returns unchanged are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count as count_up
from typing import Any, Final, cast

import torch

from ..op.primitive.loop import LOOP, is_left_out
from . import torch_namespace as xp
from .errors import BuildError, ExecutionError

_MOST_STEPS: Final[ContextVar[int | None]] = ContextVar("most steps", default=None)


@contextmanager
def limited_steps(most: int) -> Generator[None]:
    """Inside the ``with`` block, a loop that only its condition ends raises `ExecutionError` after ``most`` steps."""
    token = _MOST_STEPS.set(most)
    try:
        yield
    finally:
        _MOST_STEPS.reset(token)


def loop(
    body: Callable[..., Any],
    carried: tuple[Any, ...],
    scanned: tuple[Any, ...],
    count: Any,
    condition: Any,
    rows: Sequence[Any] = (),
    numbered: bool = True,
) -> tuple[Any, ...]:
    """The results of a loop, with the operator's operands. ``numbered`` says that the body reads the step number."""
    assert LOOP.reference is not None
    if not (torch.compiler.is_compiling() or torch.compiler.is_exporting()):
        most = None if scanned or not is_left_out(count) else _MOST_STEPS.get()
        step = body if most is None else _ending(body, most)
        return LOOP.reference(xp, step, carried, scanned, count, condition, rows)
    limit = scanned[0].shape[0] if scanned else None if is_left_out(count) else count
    tracing = _TracedLoop(body, carried, scanned)
    if is_left_out(condition) and not isinstance(limit, torch.Tensor):
        return tracing.scan(limit, numbered)
    if rows:
        raise BuildError(
            "a loop stacks a result of each step, and its number of steps is known at run time only; PyTorch cannot "
            "trace such a loop: run the program on another target, or carry a tensor of a known size"
        )
    return tracing.repeat(limit, None if is_left_out(condition) else condition, numbered)


def _ending(body: Callable[..., Any], most: int) -> Callable[..., Any]:
    numbers = count_up(1)

    def step(*values: Any) -> Any:
        if next(numbers) > most:
            raise ExecutionError(f"a loop goes on after {most} steps")
        return body(*values)

    return step


class _TracedLoop:
    """One loop while PyTorch traces it."""

    def __init__(self, body: Callable[..., Any], carried: tuple[Any, ...], scanned: tuple[Any, ...]) -> None:
        self._body = body
        self._carried = carried
        self._scanned = scanned

    def scan(self, steps: Any, numbered: bool) -> tuple[Any, ...]:
        """The results of ``steps`` steps. PyTorch's loop makes at least one."""
        from torch._higher_order_ops import scan  # pyright: ignore[reportPrivateImportUsage, reportUnknownVariableType]
        from torch._higher_order_ops.map import map as map_rows  # pyright: ignore[reportUnknownVariableType]

        is_numbered = numbered or not self._scanned
        numbers = [torch.arange(steps, dtype=torch.int64)] if is_numbered else []
        inputs = [*numbers, *self._scanned]
        count = len(self._carried)

        def step(values: Any, row: Any) -> Any:
            number, slices = (row[0], row[1:]) if is_numbered else (_unread(), row)
            given = self._body(number, *values, *slices)
            given = _own(given, [*values, *slices])
            return list(given[:count]), list(given[count:])

        def give(row: Any) -> Any:
            return tuple(step((), row)[1])

        if not count:
            return tuple(cast(Any, map_rows)(give, inputs))
        finals, stacks = cast(Any, scan)(step, list(self._carried), inputs)
        return (*finals, *stacks)

    def repeat(self, limit: Any, condition: Any, numbered: bool) -> tuple[Any, ...]:
        """The results of steps while ``condition`` is true, up to ``limit`` steps."""
        from torch._higher_order_ops.while_loop import while_loop  # pyright: ignore[reportUnknownVariableType]

        counts = limit is not None or numbered
        number = [torch.zeros((), dtype=torch.int64)] if counts else []
        holds = [] if condition is None else [_as_truth(condition)]
        head = len(number)

        def goes_on(*state: Any) -> Any:
            is_below = None if limit is None else state[0] < limit
            if condition is None:
                return is_below
            return state[head].clone() if is_below is None else torch.logical_and(state[head], is_below)

        def step(*state: Any) -> Any:
            values = state[head + len(holds) :]
            place = state[0] if counts else _unread()
            given = self._body(place, *values, *[torch.index_select(x, 0, place.reshape(1))[0] for x in self._scanned])
            after = [state[0] + 1] if counts else []
            return tuple(_own([*after, *given], list(state)))

        found = cast(Any, while_loop)(goes_on, step, (*number, *holds, *self._carried))
        return tuple(found[head + len(holds) :])


def _unread() -> torch.Tensor:
    """A number for bodies that do not read the step number."""
    return torch.zeros((), dtype=torch.int64)


def _as_truth(condition: Any) -> torch.Tensor:
    if not isinstance(condition, torch.Tensor):
        return torch.full((), bool(condition))
    return condition if condition.ndim == 0 else condition.reshape(())


def _own(given: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """``given`` with a copy of each tensor that is an input or occurs in ``given`` before."""
    found: list[Any] = []
    for value in given:
        is_shared = any(value is other for other in (*inputs, *found))
        found.append(value.clone() if is_shared and isinstance(value, torch.Tensor) else value)
    return found

"""Loops in a program that XLA compiles: `lax.scan` if the number of steps is known, else `lax.while_loop`.

The body is traced once, so carried values keep their shapes and dtypes from step to step, and the number of stacked
rows must be known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..op.primitive.loop import is_left_out
from .errors import BuildError, ExecutionError
from .xla_library import jax, jnp, lax
from .xla_values import assemble, dissect


def loop(
    body: Callable[..., Any],
    carried: tuple[Any, ...],
    scanned: tuple[Any, ...],
    count: Any,
    condition: Any,
    rows: Sequence[Any] = (),
    numbered: bool = True,
) -> tuple[Any, ...]:
    """The results of a loop, with the operator's operands; an empty tuple or None is an omitted operand."""
    lengths = sorted({x.shape[0] for x in scanned})
    if len(lengths) > 1:
        raise ExecutionError(
            f"the inputs that a loop scans have {' and '.join(map(str, lengths))} slices; expected one number"
        )
    limit: Any = lengths[0] if scanned else None if is_left_out(count) else count
    tracing = _LoopBody(body, carried)
    if is_left_out(condition) and not isinstance(limit, jax.core.Tracer):
        return tracing.scan(scanned, max(int(limit), 0))
    if rows:
        raise BuildError(
            "a loop stacks a result of each step, and its number of steps is known at run time only; XLA needs that "
            "number when it compiles: run the program on another target, or carry a tensor of a known size"
        )
    return tracing.repeat(scanned, limit, None if is_left_out(condition) else condition)


class _LoopBody:
    """The body of one loop, as a function of the carried arrays."""

    def __init__(self, body: Callable[..., Any], carried: tuple[Any, ...]) -> None:
        self._body = body
        self._count = len(carried)
        arrays: list[Any] = []
        self._template = dissect(carried, arrays)
        self._first = [jnp.asarray(array) for array in arrays]

    def scan(self, scanned: Sequence[Any], steps: int) -> tuple[Any, ...]:
        """The results of ``steps`` steps."""

        def run(arrays: list[Any], inputs: Any) -> tuple[list[Any], list[Any]]:
            step, slices = inputs
            return self._step(self._body(step, *self._values(arrays), *slices))

        numbers = jnp.arange(steps, dtype=jnp.int64)
        finals, stacks = lax.scan(run, self._first, (numbers, [jnp.asarray(x) for x in scanned]), length=steps)
        return (*self._values(finals), *stacks)

    def repeat(self, scanned: Sequence[Any], limit: Any, condition: Any) -> tuple[Any, ...]:
        """The results of steps while ``condition`` is true, up to ``limit`` steps."""

        def goes_on(state: Any) -> Any:
            step, holds, _ = state
            return holds if limit is None else jnp.logical_and(holds, step < limit)

        def run(state: Any) -> Any:
            step, holds, arrays = state
            slices = [lax.dynamic_index_in_dim(x, step, 0, keepdims=False) for x in scanned]
            given = self._body(step, *self._values(arrays), *slices)
            if condition is not None:
                holds, given = jnp.reshape(given[0], ()), given[1:]
            return step + 1, holds, self._step(given)[0]

        start = jnp.asarray(True) if condition is None else jnp.reshape(jnp.asarray(condition), ())
        state = (jnp.asarray(0, dtype=jnp.int64), start, self._first)
        return self._values(lax.while_loop(goes_on, run, state)[2])

    def _values(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        return assemble(self._template, iter(arrays))

    def _step(self, given: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
        """The carried arrays and the stacked arrays among the results of one step."""
        arrays: list[Any] = []
        template = dissect(given[: self._count], arrays)
        arrays = [jnp.asarray(array) for array in arrays]
        same = template == self._template and all(
            new.shape == old.shape and new.dtype == old.dtype for new, old in zip(arrays, self._first, strict=True)
        )
        if not same:
            shown = [", ".join(f"{x.dtype} {tuple(x.shape)}" for x in row) for row in (self._first, arrays)]
            raise BuildError(
                f"a step of a loop is given {shown[0]} and gives {shown[1]}; XLA compiles one step for all, in which "
                "carried values keep their shapes: run the program on another target, or carry tensors of one size"
            )
        return arrays, [jnp.asarray(row) for row in given[self._count :]]

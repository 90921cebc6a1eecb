"""Unrolled loops of a model: loops of at most one step, and those that no loop of the language can express.

These are loops that carry sequences, and bodies whose nodes need sizes that are known in each step only. The number of
steps must be known, from the model or from the sizes of scanned operands. A `Loop` may have a known limit and a
condition that is computed at run time: then all steps up to the limit run, and the state of the last step that counts
is kept. Anything else is refused with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from .... import op as ops
from ....ir.expr import Constant, Expr, const
from ....ir.types import TensorType
from ..element_types import from_onnx_dtype
from .importing import Imported, NodeImporter
from .run_time import scalar
from .sizes import Sizes

MOST_STEPS = 512
"""Loops of more steps are refused, because such a long program is of no use."""


class ScanForm(NamedTuple):
    """The attributes of a `Scan`: the axis and direction of each scanned input, and of each stacked output."""

    body: ir.Graph
    axes: tuple[int, ...]
    backwards: tuple[int, ...]
    placed: tuple[int, ...]
    turned: tuple[int, ...]


def as_expression(value: Imported) -> Expr:
    """A value as an expression; sizes become a tensor."""
    return value.expression() if isinstance(value, Sizes) else value


def boolean(value: Imported) -> bool | None:
    """The boolean in a constant; None if it is computed at run time."""
    if isinstance(value, Constant) and value.data.size == 1:
        return bool(value.data.numpy().reshape(())[()])
    return None


def _stacked(node: NodeImporter, rows: Sequence[Imported], formal: ir.Value, axis: int = 0) -> Expr:
    """The results of the steps along a new axis. ``formal``, the body's output, gives the type if there is no step."""
    if rows:
        exprs = [node.emit(as_expression(row)) for row in rows]
        return node.emit(ops.stack(exprs, axis=axis))
    shape, dtype = formal.shape, formal.dtype
    if shape is None or dtype is None or not all(isinstance(size, int) for size in shape):
        raise node.refuse("it runs no step, and its body does not state the shapes of its results")
    sizes = [int(size) for size in shape if isinstance(size, int)]
    sizes.insert(axis % (len(sizes) + 1), 0)
    return const(np.zeros(sizes), from_onnx_dtype(dtype, formal.name or "an output"))


# --- Loop


def _most_steps(node: NodeImporter) -> int | None:
    """The largest number of steps of a `Loop`; None if it has no limit."""
    if not node.has(0):
        return None
    known = node.sizes(0)
    if known is None or not isinstance(known.values[0], int):
        raise node.refuse("its number of steps (input 0) is computed at run time")
    return max(known.values[0], 0)


def _chosen(node: NodeImporter, alive: Expr, new: Imported, old: Imported) -> Expr:
    """The state after a step that counts only if ``alive`` is true."""
    after, before = (node.emit(as_expression(value)) for value in (new, old))
    if after.ty != before.ty or not isinstance(after.ty, TensorType):
        raise node.refuse(
            f"its condition is computed at run time, and a step changes the type of its state: "
            f"{before.ty!r} to {after.ty!r}"
        )
    return node.emit(ops.where(alive, after, before))


def loop_written_out(node: NodeImporter) -> tuple[Imported | None, ...]:
    """The results of a `Loop`, unrolled."""
    body: ir.Graph = node.attr("body")
    limit = _most_steps(node)
    state = [node.imported(index) for index in range(2, len(node.node.inputs))]
    count = len(state)
    going: Imported = node.imported(1) if node.has(1) else const(np.asarray(True))
    rows: list[list[Imported]] = [[] for _ in body.outputs[1 + count :]]
    alive: Expr | None = None
    with node.graph.inlining(body):
        step = 0
        while limit is None or step < limit:
            known = boolean(going)
            if known is False:
                break
            if known is None:
                if limit is None or limit > MOST_STEPS or rows:
                    what = "the number of rows of its result" if rows else "the number of its steps"
                    raise node.refuse(f"{what} is known at run time only")
                condition = scalar(node, node.emit(as_expression(going)))
                alive = condition if alive is None else node.emit(ops.logical_and(alive, condition))
            if step >= MOST_STEPS:
                raise node.refuse(f"it makes more than {MOST_STEPS} steps")
            number = Sizes.scalar(step)
            found = node.graph.inline(body, [number, going, *state])
            going, after, given = found[0], found[1 : 1 + count], found[1 + count :]
            if alive is None:
                state = list(after)
            else:
                state = [_chosen(node, alive, *pair) for pair in zip(after, state, strict=True)]
            for row, value in zip(rows, given, strict=True):
                row.append(value)
            step += 1
    stacks = [_stacked(node, row, formal) for row, formal in zip(rows, body.outputs[1 + count :], strict=True)]
    return (*state, *stacks)


# --- Scan


def scan_written_out(node: NodeImporter, operands: Sequence[Expr], form: ScanForm, steps: int) -> tuple[Imported, ...]:
    """The results of a `Scan` over ``operands``, unrolled to ``steps`` steps."""
    if steps > MOST_STEPS:
        raise node.refuse(f"it makes {steps} steps; at most {MOST_STEPS} are supported")
    count = len(form.axes)
    body, state, sequences = form.body, list[Imported](operands[:-count]), operands[-count:]
    formals = body.outputs[len(state) :]
    rows: list[list[Imported]] = [[] for _ in formals]
    with node.graph.inlining(body):
        for step in range(steps):
            slices = [
                node.emit(ops.take(x, const(steps - 1 - step if back else step, "int64"), axis=axis))
                for x, axis, back in zip(sequences, form.axes, form.backwards, strict=True)
            ]
            found = node.graph.inline(body, [*state, *slices])
            state = list(found[: len(state)])
            for row, value in zip(rows, found[len(state) :], strict=True):
                row.append(value)
    stacks = [
        _stacked(node, row[::-1] if back else row, formal, axis)
        for row, formal, back, axis in zip(rows, formals, form.turned, form.placed, strict=True)
    ]
    return (*state, *stacks)

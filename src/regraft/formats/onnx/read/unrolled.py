"""Loops of a model written out, step by step: those of one step at most, and those that no loop here can be.

These are loops that carry sequences, and bodies whose nodes need sizes that only the steps tell. The number of steps
has to be known, from the model or from the sizes of what is scanned. A `Loop` of a known number of steps at most, which
goes on as long as a condition holds that is computed at run time, runs all of them and keeps the state of the last one
that counts. Anything else is refused with its reason.
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
"""Loops of more steps are refused: a program that long is of no use to anybody."""


class ScanForm(NamedTuple):
    """The attributes of a `Scan`: the axis and direction of each input that it goes along, and of each stack."""

    body: ir.Graph
    axes: tuple[int, ...]
    backwards: tuple[int, ...]
    placed: tuple[int, ...]
    turned: tuple[int, ...]


def as_expression(value: Imported) -> Expr:
    """A value as an expression, sizes as the tensor of them."""
    return value.expression() if isinstance(value, Sizes) else value


def boolean(value: Imported) -> bool | None:
    """The truth value that a constant holds; None for what is computed at run time."""
    if isinstance(value, Constant) and value.data.size == 1:
        return bool(value.data.numpy().reshape(())[()])
    return None


def _stacked(node: NodeImporter, rows: Sequence[Imported], formal: ir.Value, axis: int = 0) -> Expr:
    """The results of the steps along a new axis; ``formal`` is the body's output, which tells the type of no steps."""
    if rows:
        exprs = [node.emit(as_expression(row)) for row in rows]
        return node.emit(ops.stack(exprs, axis=axis))
    shape, dtype = formal.shape, formal.dtype
    if shape is None or dtype is None or not all(isinstance(size, int) for size in shape):
        raise node.refuse("it makes no step, and its body does not state the shapes of what it would give")
    sizes = [int(size) for size in shape if isinstance(size, int)]
    sizes.insert(axis % (len(sizes) + 1), 0)
    return const(np.zeros(sizes), from_onnx_dtype(dtype, formal.name or "an output"))


# --- Loop


def _most_steps(node: NodeImporter) -> int | None:
    """The number of steps after which a `Loop` ends at the latest; None without one."""
    if not node.has(0):
        return None
    known = node.sizes(0)
    if known is None or not isinstance(known.values[0], int):
        raise node.refuse("its number of steps (input 0) is computed at run time")
    return max(known.values[0], 0)


def _chosen(node: NodeImporter, alive: Expr, new: Imported, old: Imported) -> Expr:
    """The state after a step that counts only where ``alive`` holds."""
    after, before = (node.emit(as_expression(value)) for value in (new, old))
    if after.ty != before.ty or not isinstance(after.ty, TensorType):
        raise node.refuse(
            f"whether it goes on is computed at run time, and a step changes the type of its state: "
            f"{before.ty!r} to {after.ty!r}"
        )
    return node.emit(ops.where(alive, after, before))


def loop_written_out(node: NodeImporter) -> tuple[Imported | None, ...]:
    """The results of a `Loop`, its steps one after another."""
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
                    what = "how many rows it gives" if rows else "how many steps it makes"
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
    """The results of a `Scan` over ``operands``, its ``steps`` one after another."""
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

"""Padding of a tensor along one axis, with widths that are known as sizes or at run time only."""

from __future__ import annotations

from collections.abc import Callable

from .. import op as ops
from ..analysis.tensors import shape_of
from ..ir.dims import Dim
from ..ir.expr import Expr, ShapeExpr, const
from ..op.composite.padding import pad_sources
from ..op.program_xp import ProgramArray, ProgramNamespace, ProgramRecorder


def filled(x: Expr, axis: int, width: Dim, number: Expr) -> Expr:
    """Padding of ``width`` for ``axis`` of ``x``: the shape of ``x`` with that size, filled with scalar ``number``."""
    shape = shape_of(x)
    return ops.full(ShapeExpr([*shape[:axis], width, *shape[axis + 1 :]]), number)


def between(x: Expr, axis: int, widths: tuple[Dim, Dim], number: Expr, emit: Callable[[Expr], Expr]) -> Expr:
    """``x`` padded along ``axis`` with ``number``. ``widths`` (before, after) must not be negative."""
    before, after = [None if width == 0 else emit(filled(x, axis, width, number)) for width in widths]
    parts = [part for part in (before, x, after) if part is not None]
    return x if len(parts) == 1 else emit(ops.concat(parts, axis=axis))


def at_places(x: Expr, axis: int, places: Expr, mode: str, number: Expr, recorder: ProgramRecorder) -> Expr:
    """The elements of ``x`` at ``places`` along ``axis``, padded without end in the ``mode`` of `ops.nn.pad`."""
    size = shape_of(x)[axis]
    if mode == "constant":
        last = recorder.emit(ops.squeeze(ops.shape_to_tensor(ShapeExpr([size])), axis=0))
        zero = const(0, "int64")
        inside = ops.logical_and(ops.greater_equal(places, zero), ops.less(places, last))
        x = recorder.emit(ops.concat([x, recorder.emit(filled(x, axis, 1, number))], axis=axis))
        source = ops.where(inside, places, last)
    else:
        source = pad_sources(ProgramNamespace(recorder), ProgramArray(recorder, places), size, mode).expr
    return recorder.emit(ops.take(x, recorder.emit(source), axis=axis))

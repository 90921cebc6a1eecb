"""RotaryByKernel: rotary embedding of queries and keys by one operator instead of seven.

ONNX Runtime's operator ``com.microsoft.RotaryEmbedding`` reads each element once. Measured on one core, including the
tables and the call of the engine, it takes 0.9 of the time of the written-out form for one place and 0.7 for 512, if
the elements of a pair are half of the axis apart. If they are adjacent, it takes 0.96 and 0.4 (the table is in
docs/speed.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ... import op as ops
from ...analysis.tensors import dtype_of, shape_of
from ...analysis.values import definition, resolve
from ...ir.dims import Dim, dims_equal
from ...ir.expr import Constant, Expr, PrimValue, Tuple, Var, const
from ...ir.op import Call, Op, is_call_of
from ...ir.traits import Trait
from ...ir.types import TensorType
from ...rewrite import Bindings, Decline, Rule, decline
from ..passes import Pass, RulePass, Sequential
from .rotary import PARTLY_ROTATED, ROTATED, Rotation, numbers_of_pairs, rotation_of

_HEADS_FIRST: Final = (0, 2, 1, 3)
_KEEP_THE_LAST: Final = ("relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.permute_dims")


def RotaryByKernel() -> Pass:
    """Write rotary position embedding as ONNX Runtime's ``RotaryEmbedding``.

    The elements of a pair may be half of the rotated elements apart, or adjacent. Elements after the rotated ones stay.
    The data is (batch, heads, sequence, size) or (batch, sequence, heads, size), of float32. A rotation is left
    unchanged, with the reason in `report`, if the two numbers of its tables for a pair are not known to be equal.
    Guarantees: the same values up to rounding. Pays on ONNX Runtime only. Cost: linear.
    """
    partly = Rule(PARTLY_ROTATED, _by_kernel, "turn_first_elements_by_kernel")
    wholly = Rule(ROTATED, _by_kernel, "turn_by_kernel")
    return Sequential([RulePass(partly), RulePass(wholly)], name="RotaryByKernel")


def _by_kernel(expr: Expr, matchings: Any, bindings: Bindings) -> Expr | Decline:
    del matchings
    found = rotation_of(expr, bindings)
    if found is None:
        return decline("its parts are not the pairs of one tensor")
    if dtype_of(found.data) != "float32":
        return decline("the kernel is for float32")
    shape, table = shape_of(found.data), shape_of(found.cosine)
    if len(shape) != 4 or len(table) > 4 or not table or table != shape_of(found.sine):
        return decline("its data and tables are not (batch, heads, sequence, size), or sizes are not known")
    for one in (found.cosine, found.sine):
        if not _is_the_same_for_a_pair(one, found, bindings):
            return decline("the two numbers of its tables for a pair are not known to be equal")
    batch, one, two, _ = (1,) * (4 - len(table)) + tuple(table)
    if dims_equal(batch, 1) is not True and dims_equal(batch, shape[0]) is not True:
        return decline("its tables are for another batch")
    if _equal(one, 1) and _equal(two, shape[2]) and isinstance(shape[1], int):
        return _turned_by_heads(found, batch, bindings)
    if _equal(two, 1) and _equal(one, shape[1]) and isinstance(shape[2], int):
        return _turned_rows(found, found.data, batch)
    return decline("its tables do not have one row for each position")


def _equal(left: Dim, right: Dim) -> bool:
    return dims_equal(left, right) is True


def _turned_by_heads(found: Rotation, batch: Dim, bindings: Mapping[Var, Expr]) -> Expr:
    """The rotation of data (batch, heads, sequence, size).

    If a transpose moves the heads there, the rotation is written before this transpose.
    """
    made = definition(bindings, resolve(bindings, found.data))
    if is_call_of(made, "relax.permute_dims"):
        axes = made.attrs.axes
        if axes is not None and tuple(axis % 4 for axis in axes) == _HEADS_FIRST:
            return ops.permute_dims(_turned_rows(found, made.args[0], batch), _HEADS_FIRST)
    shape = shape_of(found.data)
    return _call(found, found.data, batch, rows=shape[0], places=shape[2], heads=shape[1], size=shape[3])


def _turned_rows(found: Rotation, data: Expr, batch: Dim) -> Expr:
    """The rotation of ``data``, (batch, sequence, heads, size)."""
    rows, places, heads, size = shape_of(data)
    flat = ops.reshape(data, [rows, places, heads * size])
    turned = _call(found, flat, batch, rows=rows, places=places, heads=heads, size=size)
    return ops.reshape(turned, [rows, places, heads, size])


def _call(found: Rotation, data: Expr, batch: Dim, *, rows: Dim, places: Dim, heads: Dim, size: Dim) -> Expr:
    partial = {} if _equal(size, found.width) else {"rotary_embedding_dim": found.width}
    if _equal(batch, 1):
        first: Expr = const(np.zeros(1, np.int64))
    else:
        first = ops.reshape(ops.arange(0, rows * places, dtype="int64"), [rows, places])
    tables = [_by_pairs(one, found, batch * places) for one in (found.cosine, found.sine)]
    operator = Op.get("com.microsoft.RotaryEmbedding")
    return operator(data, first, *tables, interleaved=int(found.interleaved), num_heads=heads, **partial)


def _by_pairs(table: Expr, found: Rotation, rows: Dim) -> Expr:
    """A table with one number for each element, as (rows, pairs)."""
    end, stride = (found.width, 2) if found.interleaved else (found.width // 2, 1)
    half = ops.strided_slice(table, [len(shape_of(table)) - 1], [0], [end], [stride])
    return ops.reshape(half, [rows, found.width // 2])


# --- tables


def _is_the_same_for_a_pair(table: Expr, found: Rotation, bindings: Mapping[Var, Expr]) -> bool:
    """True if the two elements of each pair are known to be equal on the last axis of ``table``.

    The search follows elementwise operators, and operators that move axes before the last one, up to the operator that
    writes each number twice. Cost: the bindings that the table is computed from.
    """
    width, seen = found.width, set[Expr]()
    pending = [table]
    while pending:
        leaf = resolve(bindings, pending.pop())
        if leaf in seen:
            continue
        seen.add(leaf)
        sizes = shape_of(leaf)
        if isinstance(leaf.ty, TensorType) and (leaf.ty.ndim == 0 or (sizes and _equal(sizes[-1], 1))):
            continue
        if isinstance(leaf, Constant):
            if numbers_of_pairs(leaf.data.numpy(), width, interleaved=found.interleaved) is None:
                return False
            continue
        made = definition(bindings, leaf)
        if not isinstance(made, Call) or not sizes or not _equal(sizes[-1], width):
            return False
        if _writes_twice(made, bindings, interleaved=found.interleaved):
            continue
        operands = _read_alike(made)
        if operands is None:
            return False
        pending += operands
    return True


def _writes_twice(made: Call, bindings: Mapping[Var, Expr], *, interleaved: bool) -> bool:
    last = len(shape_of(made)) - 1
    if interleaved and is_call_of(made, "relax.reshape"):
        columns = definition(bindings, resolve(bindings, made.args[0]))
        if not isinstance(columns, Call) or (*shape_of(made)[:-1], shape_of(made)[-1] // 2, 2) != tuple(
            shape_of(columns)
        ):
            return False
        return any(_joins_one_twice(columns, name, last + 1, bindings) for name in ("relax.stack", "relax.concat"))
    if interleaved:
        return is_call_of(made, "relax.repeat") and made.attrs.repeats == 2 and made.attrs.axis in (-1, last)
    return _joins_one_twice(made, "relax.concat", last, bindings)


def _joins_one_twice(made: Call, name: str, last: int, bindings: Mapping[Var, Expr]) -> bool:
    """True if ``made`` joins a tensor with itself by the operator ``name``, on the axis ``last``."""
    if not is_call_of(made, name) or made.attrs.axis not in (-1, last):
        return False
    fields = made.args[0].fields if isinstance(made.args[0], Tuple) else ()
    return len(fields) == 2 and resolve(bindings, fields[0]) is resolve(bindings, fields[1])


def _read_alike(made: Call) -> list[Expr] | None:
    """The operands whose last axis is that of the result; None if this is not known for the operator."""
    operands = [arg for arg in made.args if isinstance(arg.ty, TensorType)]
    if isinstance(made.op, Op) and Trait.ELEMENTWISE in made.op.traits:
        return operands
    data, sizes = made.args[0], shape_of(made)
    if any(is_call_of(made, name) for name in (*_KEEP_THE_LAST, "relax.broadcast_to")):
        before = shape_of(data)
        if not before or not _equal(before[-1], sizes[-1]):
            return None
        axes = made.attrs.axes if is_call_of(made, "relax.permute_dims") else [-1]
        return [data] if axes is not None and axes[-1] % len(sizes) == len(sizes) - 1 else None
    return [data] if _takes_rows(made) else None


def _takes_rows(made: Call) -> bool:
    """True if ``made`` takes some of the rows of its first operand, each with the whole last axis."""
    rank = len(shape_of(made.args[0]))
    if is_call_of(made, "relax.take"):
        return rank > 1 and made.attrs.axis is not None and made.attrs.axis % rank != rank - 1
    if is_call_of(made, "relax.index_tensor"):
        return isinstance(made.args[1], Tuple) and len(made.args[1].fields) < rank
    if not is_call_of(made, "relax.strided_slice") or not isinstance(made.args[1], Tuple):
        return False
    axes = [field.value for field in made.args[1].fields if isinstance(field, PrimValue)]
    return len(axes) == len(made.args[1].fields) and all(
        isinstance(axis, int) and axis % rank != rank - 1 for axis in axes
    )

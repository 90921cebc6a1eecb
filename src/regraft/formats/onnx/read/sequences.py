"""Reading operators on sequences and on optional values. The program contains neither.

A sequence of known length is a tuple of tensors while a model is read. So a list that a loop fills is known if the
loop is unrolled. Positions must be known. An optional value is read as its value, and an empty one as an operand that
is left out.
"""

from __future__ import annotations

import numpy as np

from .... import op as ops
from ....ir.expr import Expr, Tuple, TupleGetItem, Var, const
from ....ir.op import Call, Op
from ....ir.types import TensorType, TupleType
from .importing import Imported, NodeImporter, reads, reads_as
from .sizes import Sizes


def _items(node: NodeImporter) -> list[Expr]:
    """The tensors of operand 0, a sequence."""
    found = node.operand(0)
    if isinstance(found, Tuple):
        return list(found.fields)
    if isinstance(found.ty, TupleType):
        return [node.emit(TupleGetItem(found, place)) for place in range(len(found.ty.fields))]
    raise node.refuse("input 0 is no sequence of a known length")


def _place(node: NodeImporter, index: int, count: int, default: int) -> int:
    """The position in operand ``index``, from 0 to ``count`` - 1. The operand may also count from the end."""
    if not count:
        raise node.refuse("it takes an element of an empty sequence")
    given = node.number(index, "its position")
    place = default if given is None else int(given)
    if not -count <= place < count:
        raise node.refuse(f"its position is {place}, in a sequence of {count}")
    return place % count


reads_as(
    {
        "SequenceConstruct": lambda node: Tuple(node.operands()),
        "SequenceEmpty": lambda _node: Tuple([]),
        "SequenceLength": lambda node: Sizes.scalar(len(_items(node))),
        "OptionalHasElement": lambda node: const(np.asarray(node.has(0))),
    }
)


@reads("SequenceAt")
def _at(node: NodeImporter) -> Imported:
    items = _items(node)
    return items[_place(node, 1, len(items), 0)]


@reads("SequenceInsert")
def _insert(node: NodeImporter) -> Imported:
    items = _items(node)
    # A position from the end names the element before which to insert, so there is one more position than elements.
    given = node.number(2, "its position")
    place = len(items) if given is None else int(given)
    if not -len(items) <= place <= len(items):
        raise node.refuse(f"its position is {place}, in a sequence of {len(items)}")
    items.insert(place, node.operand(1))
    return Tuple(items)


@reads("SequenceErase")
def _erase(node: NodeImporter) -> Imported:
    items = _items(node)
    del items[_place(node, 1, len(items), len(items) - 1)]
    return Tuple(items)


@reads("ConcatFromSequence")
def _concat(node: NodeImporter) -> Imported:
    items = _items(node)
    if node.attr("new_axis", 0):
        return ops.stack(items, axis=node.attr("axis"))
    whole = _unsplit(node, items)
    return ops.concat(items, axis=node.attr("axis")) if whole is None else whole


def _unsplit(node: NodeImporter, items: list[Expr]) -> Expr | None:
    """The tensor that was split into ``items``, in order, along the axis that joins them; None if there is none."""
    whole = items[0].tuple_value if items and isinstance(items[0], TupleGetItem) else None
    split = node.graph.builder.lookup_binding(whole) if isinstance(whole, Var) else None
    if not isinstance(split, Call) or split.op is not Op.get("relax.split"):
        return None
    x = split.args[0]
    assert isinstance(split.ty, TupleType)
    assert isinstance(x.ty, TensorType)
    indices = [one.index for one in items if isinstance(one, TupleGetItem) and one.tuple_value is whole]
    is_all = len(indices) == len(items) and indices == list(range(len(split.ty.fields)))
    return x if is_all and node.attr("axis") % x.ty.ndim == split.attrs["axis"] % x.ty.ndim else None


@reads("SplitToSequence")
def _split(node: NodeImporter) -> Imported:
    axis: int = node.attr("axis", 0) % node.rank()
    size = node.shape()[axis]
    if not isinstance(size, int):
        raise node.undecided("the size of the axis that it splits is known at run time only")
    given = node.array(1) if node.has(1) else np.asarray(1)
    if given is None:
        raise node.refuse("the sizes of its parts (input 1) are computed at run time")
    if np.min(given, initial=1) < (0 if given.ndim else 1):
        raise node.refuse(f"the sizes of its parts (input 1) are {given.tolist()}; expected no less than 0")
    if size == 0 and not given.ndim:
        return Tuple([])
    cuts = np.cumsum(given).tolist()[:-1] if given.ndim else [*range(int(given), size, int(given))]
    split = node.emit(ops.split(node.operand(0), cuts, axis)) if cuts else Tuple([node.operand(0)])
    parts = [split[index] for index in range(len(cuts) + 1)]
    if not node.has(1) and not node.attr("keepdims", 1):
        parts = [node.emit(ops.squeeze(part, axis)) for part in parts]
    return Tuple(parts)


# --- optional values


@reads("Optional", "OptionalGetElement")
def _value(node: NodeImporter) -> Imported:
    if not node.has(0):
        raise node.refuse("an empty optional value is supported only as an operand that is left out")
    return node.imported(0)

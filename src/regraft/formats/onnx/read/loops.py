"""Reading `If` as a branch, and `Loop` and `Scan` as loops of the language. Bodies can read values from around them.

A carried value has the type of its initial value, as far as every step keeps it. Sizes that a step changes get names of
their own. A loop of at most one step is unrolled (`unrolled`), and so is one that cannot be a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import onnx_ir as ir

from .... import op as ops
from ....analysis import contains_impure_call, loop_body
from ....ir.dims import Dim
from ....ir.expr import Constant, Expr, PrimValue, Tuple, Var, const
from ....ir.program import Function, If, SeqExpr
from ....ir.types import UNKNOWN_NDIM, TensorType, TupleType, Type
from ....op.adjoints import fields_of
from ....op.primitive.loop import STEP, row_of
from ...carried_types import CarriedTypes
from ...errors import ConvertError
from .importing import Imported, NodeImporter, UnsupportedNodeError, reads
from .run_time import scalar
from .unrolled import MOST_STEPS, ScanForm, as_expression, boolean, loop_written_out, scan_written_out

_MOST_READINGS = 6
"""The most readings of a body. It is read again as long as its steps change the types of carried values."""
_MOST_COUNT = 2**63 - 1


@reads("If")
def _if(node: NodeImporter) -> tuple[Imported | None, ...]:
    condition = node.operand(0)
    if isinstance(condition, Constant) and condition.data.size == 1:
        taken: ir.Graph = node.attr("then_branch" if condition.data.numpy().reshape(())[()] else "else_branch")
        with node.graph.inlining(taken):
            return node.graph.inline(taken, [])
    condition = scalar(node, condition)
    branches = [node.graph.body(node.attr(name)) for name in ("then_branch", "else_branch")]
    found = node.graph.builder.emit(If(condition, *branches), node.node.outputs[0].name or "")
    if len(node.node.outputs) == 1:
        return (found,)
    if not isinstance(found.ty, TupleType):
        raise node.refuse("its branches return different numbers of values")
    return tuple([found[index] for index in range(len(node.node.outputs))])


# --- loops


@reads("Loop")
def _loop(node: NodeImporter) -> tuple[Imported | None, ...]:
    limit = node.sizes(0)
    known = None if limit is None else limit.values[0]
    if isinstance(known, int) and known <= 1:
        return loop_written_out(node)
    starts = [node.imported(index) for index in range(2, len(node.node.inputs))]
    start = boolean(node.imported(1)) if node.has(1) else True
    if start is False or any(isinstance(value.ty, TupleType) for value in starts):
        return loop_written_out(node)
    return _loop_or_steps(
        lambda: _as_loop(node, [node.emit(as_expression(value)) for value in starts], known, start),
        partial(loop_written_out, node) if isinstance(known, int) or start is not None else None,
    )


def _loop_or_steps(
    loop: Callable[[], tuple[Imported, ...]], steps: Callable[[], tuple[Imported | None, ...]] | None
) -> tuple[Imported | None, ...]:
    """The result of ``loop``. If it cannot be read, that of ``steps``, if they are known. Raises the loop's errors."""
    try:
        return loop()
    except (UnsupportedNodeError, ConvertError):
        if steps is not None:
            with suppress(UnsupportedNodeError, ConvertError):
                return steps()
        raise


def _as_loop(node: NodeImporter, starts: Sequence[Expr], limit: Dim | None, start: bool | None) -> tuple[Imported, ...]:
    """A `Loop` of at most ``limit`` steps, if known. ``start`` is the initial condition, if known."""
    graph: ir.Graph = node.attr("body")
    step = _param(node, graph.inputs[0], STEP)
    carried, seq = _body(node, graph, starts, (step, const(True)), ())
    goes_on, *results = _fields(seq)
    condition: Expr | None = None
    if start is None or boolean(goes_on) is not True:
        condition = scalar(node, node.operand(1)) if start is None else const(True)
        results.insert(0, goes_on)
    count: Expr | None = None
    if limit is not None and (limit != _MOST_COUNT or condition is None):
        count = PrimValue(limit)
    elif limit is None and node.has(0):
        count = scalar(node, node.operand(0))
    if condition is None and count is None:
        raise node.refuse("it would never end: it has neither a number of steps nor a condition that can fail")
    return _results(node, loop_body([step, *carried], seq, results), starts, (), count, condition)


# --- what both have


def _param(node: NodeImporter, formal: ir.Value, ty: Type) -> Var:
    return Var(node.graph.builder.get_unique_name(formal.name or "value"), ty)


def _fields(seq: SeqExpr) -> list[Expr]:
    assert isinstance(seq.body, Tuple)
    return list(seq.body.fields)


def _body(
    node: NodeImporter, graph: ir.Graph, starts: Sequence[Expr], given: Sequence[Imported], slices: Sequence[Var]
) -> tuple[list[Var], SeqExpr]:
    """The parameters of a body for carried values, and the body.

    The inputs of the body are ``given``, the carried values, and the ``slices``.
    """
    formals = graph.inputs[len(given) : len(given) + len(starts)]
    types = CarriedTypes([formal.name or "carried" for formal in formals], [start.ty for start in starts])
    first = 1 if given else 0  # the first output of a Loop's body is its condition
    for _ in range(_MOST_READINGS):
        carried = [_param(node, formal, ty) for formal, ty in zip(formals, types.types, strict=True)]
        seq = node.graph.body(graph, [*carried, *slices], given)
        if contains_impure_call(seq):
            raise node.refuse("its body has effects")
        after = [value.ty for value in _fields(seq)[first : first + len(starts)]]
        if not types.widen(after):
            return carried, seq
    raise node.refuse("each step changes the types of its carried values")


def _results(
    node: NodeImporter,
    function: Function,
    starts: Sequence[Expr],
    scanned: Sequence[Expr],
    count: Expr | None,
    condition: Expr | None,
) -> tuple[Imported, ...]:
    builder = node.graph.builder
    name = next((output.name for output in node.node.outputs if output.name), "loop")
    body = builder.emit(function, f"{name}_body")
    hint = name[: name.find("_loop")] if "_loop" in name else name  # a model written here has such a name already
    return fields_of(builder.emit(ops.loop(body, starts, scanned, count, condition), f"{hint}_loop"))


# --- Scan


@reads("Scan")
def _scan(node: NodeImporter) -> tuple[Imported | None, ...]:
    if node.opset < 9:
        return _batched_scan(node)
    return _scanned(node, node.operands(), _scan_form(node, "scan_input_directions"))


def _scan_form(node: NodeImporter, directions: str) -> ScanForm:
    body: ir.Graph = node.attr("body")
    count: int = node.attr("num_scan_inputs")
    stacks = len(body.outputs) - (len(body.inputs) - count)

    def numbers(name: str, length: int) -> tuple[int, ...]:
        return tuple(node.attr(name) or (0,) * length)

    return ScanForm(
        body,
        numbers("scan_input_axes", count),
        numbers(directions, count),
        numbers("scan_output_axes", stacks),
        numbers("scan_output_directions", stacks),
    )


def _batched_scan(node: NodeImporter) -> tuple[Imported | None, ...]:
    """`Scan` of opset 8, whose operands have a batch axis first: a separate scan for each element of the batch."""
    if node.has(0):
        raise node.refuse("sequences of different lengths are not supported")
    batch = node.shape(1)[0]
    if not isinstance(batch, int) or not 0 < batch <= MOST_STEPS:
        raise node.refuse(f"its batch size is {batch}; expected a known one of 1 to {MOST_STEPS}")
    operands = [node.operand(index) for index in range(1, len(node.node.inputs))]
    form = _scan_form(node, "directions")
    found = [
        _scanned(node, [node.emit(ops.take(x, const(place, "int64"), axis=0)) for x in operands], form)
        for place in range(batch)
    ]
    return tuple(
        [
            node.emit(ops.stack([node.emit(as_expression(part)) for part in parts], axis=0))
            for parts in zip(*found, strict=True)
        ]
    )


def _scanned(node: NodeImporter, operands: Sequence[Expr], form: ScanForm) -> tuple[Imported | None, ...]:
    """The results of a `Scan` over ``operands``."""
    known = _length(node, operands, form)
    if known is not None and known <= 1:
        return scan_written_out(node, operands, form, known)
    steps = None if known is None else partial(scan_written_out, node, operands, form, known)
    return _loop_or_steps(lambda: _scan_as_loop(node, operands, form), steps)


def _length(node: NodeImporter, operands: Sequence[Expr], form: ScanForm) -> int | None:
    """The number of steps, which is a size of every scanned operand; None if it is known at run time only."""
    types = [x.ty for x in operands[len(operands) - len(form.axes) :]]
    shapes = [ty.shape if isinstance(ty, TensorType) else None for ty in types]
    lengths = [None if shape is None else shape[axis] for shape, axis in zip(shapes, form.axes, strict=True)]
    known = sorted({length for length in lengths if isinstance(length, int)})
    if len(known) > 1:
        raise node.refuse(f"its scanned inputs have different sizes: {', '.join(map(str, known))}")
    return known[0] if known else None


def _scan_as_loop(node: NodeImporter, operands: Sequence[Expr], form: ScanForm) -> tuple[Imported, ...]:
    graph, count = form.body, len(form.axes)
    starts, sequences = operands[: len(operands) - count], operands[len(operands) - count :]
    rows = zip(sequences, form.axes, form.backwards, strict=True)
    scanned = [_arranged(node, x, (axis, 0), bool(back)) for x, axis, back in rows]
    slices = [_param(node, formal, _slice_of(x)) for formal, x in zip(graph.inputs[-count:], scanned, strict=True)]
    carried, seq = _body(node, graph, starts, (), slices)
    step = Var(node.graph.builder.get_unique_name("step"), STEP)
    function = loop_body([step, *carried, *slices], seq, _fields(seq))
    found = _results(node, function, starts, scanned, None, None)
    stacks = zip(found[len(starts) :], form.placed, form.turned, strict=True)
    turned = [_arranged(node, x, (0, axis), bool(back)) for x, axis, back in stacks if isinstance(x, Expr)]
    return (*found[: len(starts)], *turned)


def _slice_of(x: Expr) -> TensorType:
    assert isinstance(x.ty, TensorType)
    return row_of(x.ty)


def _arranged(node: NodeImporter, x: Expr, move: tuple[int, int], turned: bool) -> Expr:
    """``x`` with axis ``move[0]`` moved to ``move[1]``, and reversed along it if ``turned``."""
    assert isinstance(x.ty, TensorType)
    source, target = move
    if source == target and not turned:
        return x
    rank = x.ty.ndim
    if rank == UNKNOWN_NDIM:
        raise node.refuse("the rank of a scanned input is not known")
    source, target = source % rank, target % rank
    if turned:
        x = node.emit(ops.flip(x, axis=source))
    if source == target:
        return x
    order = [axis for axis in range(rank) if axis != source]
    order.insert(target, source)
    return node.emit(ops.permute_dims(x, order))

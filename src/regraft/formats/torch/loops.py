"""Reading PyTorch's loops, `while_loop`, `scan`, `map` and `associative_scan`, as loops of the language.

The values that a loop of PyTorch captures are separate operands; here the body reads them from around it. Carried
integers are scalar tensors, and operators compute with them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

import torch

from ... import op as R
from ...analysis import contains_impure_call, loop_body
from ...ir.builder import BlockBuilder
from ...ir.dims import SymExpr
from ...ir.expr import Expr, ShapeExpr, Tuple, Var, const
from ...ir.program import SeqExpr
from ...ir.types import TensorType, Type
from ...op.primitive.loop import STEP, row_of
from ..carried_types import CarriedTypes
from .context import UnsupportedCallError, fields_of

_MOST_READINGS: Final = 4
_TORCH: Final[Any] = torch
_PYTHON: Final[Any] = operator
_ARITHMETIC: Final[Mapping[Any, Callable[..., Expr]]] = {
    operator.add: R.add,
    operator.sub: R.subtract,
    operator.mul: R.multiply,
    _PYTHON.floordiv: R.floor_divide,
    operator.mod: R.floor_mod,
    operator.neg: R.negative,
    operator.lt: R.less,
    operator.le: R.less_equal,
    operator.gt: R.greater,
    operator.ge: R.greater_equal,
    operator.eq: R.equal,
    operator.ne: R.not_equal,
    _TORCH.sym_max: R.maximum,
    _TORCH.sym_min: R.minimum,
    _TORCH.sym_not: R.logical_not,
    _PYTHON.and_: R.logical_and,
    _PYTHON.or_: R.logical_or,
    _PYTHON.truediv: R.divide,
    _PYTHON.pow: R.power,
    _TORCH.sym_float: R.astype,
    _TORCH._sym_sqrt: R.sqrt,
}
_FRACTIONS: Final = (_PYTHON.truediv, _PYTHON.pow, _TORCH.sym_float, _TORCH._sym_sqrt)
"""Operators whose result is a fraction, whatever their operands are."""


class ConversionContext(Protocol):
    """The conversion, as far as loops need it."""

    @property
    def builder(self) -> BlockBuilder:
        """The builder of the program."""
        ...

    def value(self, argument: Any) -> Any:
        """The value of an argument of a node."""
        ...

    def submodule(self, node: Any) -> torch.fx.GraphModule:
        """The graph module that a node names."""
        ...

    def inlined(self, graph: torch.fx.Graph, operands: Sequence[Any]) -> Any:
        """The results of a graph for ``operands``."""
        ...


def is_loop(node: torch.fx.Node) -> bool:
    """True if a node is a loop of PyTorch."""
    return node.target in _READERS


def read_loop(reading: ConversionContext, node: torch.fx.Node) -> tuple[Expr, ...]:
    """The results of a loop. Raises `UnsupportedCallError` if it carries anything but tensors and integers."""
    return _READERS[node.target](reading, node)


def computed_with_tensors(target: Any, values: Sequence[Any]) -> Expr:
    """The result of Python's operator ``target`` on numbers that are tensors or sizes. Fractions are float64."""
    compute = _ARITHMETIC.get(target)
    if compute is None:
        raise UnsupportedCallError(
            f"{getattr(target, '__name__', target)} of a number computed from a tensor or a size"
        )
    numbers = [as_tensor(value) for value in values]
    dtypes = {cast("TensorType", number.ty).dtype for number in numbers}
    if target in _FRACTIONS or (len(dtypes) > 1 and "float64" in dtypes):
        numbers = [R.astype(number, "float64") for number in numbers]
    return numbers[0] if target is _TORCH.sym_float else compute(*numbers)


def as_tensor(value: Any) -> Expr:
    """A number of PyTorch as a tensor of the language."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool | int):
        return const(value, "bool" if isinstance(value, bool) else "int64")
    if isinstance(value, float):
        return const(value, "float64")
    if isinstance(value, SymExpr):
        return R.reshape(R.shape_to_tensor(ShapeExpr([value])), ())
    raise UnsupportedCallError(f"a loop carries {value!r}; expected tensors and integers")


# --- the loops


def _while_loop(reading: ConversionContext, node: torch.fx.Node) -> tuple[Expr, ...]:
    condition, body, first, captured = node.args
    starts = _starts(reading, first)
    more = cast("list[Any]", reading.value(captured))
    cond_graph, body_graph = reading.submodule(condition).graph, reading.submodule(body).graph
    goes_on = _truth(reading.inlined(cond_graph, [*starts, *more]))

    def step(carried: Sequence[Var]) -> list[Expr]:
        after = _tensors(reading, reading.inlined(body_graph, [*carried, *more]))
        return [_truth(reading.inlined(cond_graph, [*after, *more])), *after]

    return looped(reading.builder, node.name, starts, (), step, condition=goes_on)


def _scan(reading: ConversionContext, node: torch.fx.Node) -> tuple[Expr, ...]:
    """`scan`, or `map`, which carries no values."""
    combine, *carried, rows, captured = node.args
    graph, more = reading.submodule(combine).graph, cast("list[Any]", reading.value(captured))

    def step(values: Sequence[Var]) -> list[Expr]:
        return _tensors(reading, reading.inlined(graph, [*values, *more]))

    starts = _starts(reading, carried[0]) if carried else []
    return looped(reading.builder, node.name, starts, _starts(reading, rows), step)


def _associative_scan(reading: ConversionContext, node: torch.fx.Node) -> tuple[Expr, ...]:
    combine, rows, captured = node.args
    graph, more = reading.submodule(combine).graph, cast("list[Any]", reading.value(captured))
    scanned, builder = _starts(reading, rows), reading.builder
    first = [builder.emit(R.take(x, const(0, "int64"), axis=0)) for x in scanned]
    rest = [builder.emit(R.strided_slice(x, [0], [1], [_length(x)])) for x in scanned]

    def step(values: Sequence[Var]) -> list[Expr]:
        after = _tensors(reading, reading.inlined(graph, [*values, *more]))
        return [*after, *after]

    found = looped(reading.builder, node.name, first, rest, step)[len(first) :]
    pairs = zip(first, found, strict=True)
    return tuple([builder.emit(R.concat([R.expand_dims(start, 0), stack], axis=0)) for start, stack in pairs])


def _length(x: Expr) -> Any:
    if not isinstance(x.ty, TensorType) or x.ty.shape is None:
        raise UnsupportedCallError("a scanned input has an unknown shape")
    return x.ty.shape[0]


def _starts(reading: ConversionContext, values: Any) -> list[Expr]:
    return [reading.builder.normalize_argument(as_tensor(value)) for value in cast("list[Any]", reading.value(values))]


def _truth(value: Any) -> Expr:
    return as_tensor(value[0] if isinstance(value, tuple | list) else value)


def _tensors(reading: ConversionContext, given: Any) -> list[Expr]:
    """The results of a graph as operands: several values, or a single one."""
    values = cast("Sequence[Any]", given) if isinstance(given, tuple | list) else [given]
    return [reading.builder.normalize_argument(as_tensor(value)) for value in values]


def looped(
    builder: BlockBuilder,
    name: str,
    starts: Sequence[Expr],
    scanned: Sequence[Expr],
    step: Callable[[Sequence[Var]], list[Expr]],
    condition: Expr | None = None,
) -> tuple[Expr, ...]:
    """The results of a loop. ``step`` writes its body for the carried values and the slices."""
    names = [f"{name}_carried{place}" for place in range(len(starts))]
    slices = [Var(builder.get_unique_name(f"{name}_row"), _slice_of(x)) for x in scanned]
    types = CarriedTypes(names, [start.ty for start in starts])
    first = 0 if condition is None else 1
    for _ in range(_MOST_READINGS):
        number = Var(builder.get_unique_name(f"{name}_step"), STEP)
        carried = [Var(builder.get_unique_name(each), ty) for each, ty in zip(names, types.types, strict=True)]
        seq = _body(builder, [number, *carried, *slices], lambda given=carried: step([*given, *slices]))
        assert isinstance(seq.body, Tuple)
        if contains_impure_call(seq):
            raise UnsupportedCallError("its steps change tensors or draw random numbers; draw them before the loop")
        results = seq.body.fields
        if not types.widen([value.ty for value in results[first : first + len(starts)]]):
            break
    else:
        raise UnsupportedCallError("each step changes the types of its carried values")
    body = builder.emit(loop_body([number, *carried, *slices], seq, results), f"{name}_body")
    return fields_of(builder.emit(R.loop(body, starts, scanned, condition=condition), name))


def _body(builder: BlockBuilder, params: Sequence[Var], write: Callable[[], list[Expr]]) -> SeqExpr:
    builder.begin_scope(params)
    results: list[Expr] = []
    try:
        results = write()
    finally:
        seq = builder.end_scope(Tuple(results))
    return seq


def _slice_of(x: Expr) -> Type:
    if not isinstance(x.ty, TensorType) or x.ty.shape is None:
        raise UnsupportedCallError("a scanned input has an unknown shape")
    return row_of(x.ty)


def _higher_order(name: str) -> Any:
    return getattr(torch.ops.higher_order, name)


_READERS: Final[Mapping[Any, Callable[[ConversionContext, torch.fx.Node], tuple[Expr, ...]]]] = {
    _higher_order("while_loop"): _while_loop,
    _higher_order("scan"): _scan,
    _higher_order("map_impl"): _scan,
    _higher_order("associative_scan"): _associative_scan,
}

"""ConvertLayout: convolutions in another order of axes, which the operators after them keep as far as they can.

A value of a dataflow block may be kept as a permutation of itself. Operators that can take a permuted operand do so
(elementwise operators, reductions, pools, normalizations ...). Before any other operator the axes are put back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from ..analysis.tensors import whole_numbers
from ..analysis.values import leaves_of
from ..ir.builder import NameSupply
from ..ir.dims import dims_equal
from ..ir.expr import DataflowVar, Expr, PrimValue, Tuple, TupleGetItem, Var
from ..ir.mutator import same_items
from ..ir.op import Call, Op, Trait
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..ir.types import UNKNOWN_NDIM, TensorType
from ..op import permute_dims
from ..op.primitive.manipulate import inverse
from ..rewrite.session import substitute
from .context import PassError
from .passes import FunctionPass, Pass

Permutation: TypeAlias = tuple[int, ...]
"""Axis ``i`` of the kept value is axis ``permutation[i]`` of the original value."""
Arranged: TypeAlias = "tuple[Expr, Permutation | list[Permutation]]"
Layouts: TypeAlias = Mapping[str, Sequence[str]]


class _Converter:
    """Converts one function."""

    def __init__(self, function: Function, layouts: Callable[[Call], Sequence[str] | None]) -> None:
        self.layouts = layouts
        self._function = function
        self._names = NameSupply.beside(function)
        self._kept: dict[Var, tuple[Var, Permutation]] = {}
        self._tuples: dict[Var, tuple[Var, list[Permutation]]] = {}
        self._row: list[Binding] = []

    def run(self) -> Function:
        """The function with its dataflow blocks converted; the same object if there is nothing to convert."""
        body = self._function.body
        blocks = [self._block(block) if isinstance(block, DataflowBlock) else block for block in body.blocks]
        if same_items(blocks, body.blocks):
            return self._function
        return self._function.with_body(SeqExpr(blocks, body.body))

    def _block(self, block: DataflowBlock) -> BindingBlock:
        self._row = []
        for binding in block.bindings:
            is_output = not isinstance(binding.var, DataflowVar)
            fixed = isinstance(binding, MatchCast) or (is_output and isinstance(binding.value, Tuple | TupleGetItem))
            arranged = None if fixed else self._arranged(binding.value)
            if isinstance(binding, MatchCast) and self._keeps_cast(binding):
                continue
            if arranged is None:
                self._row.append(self._on_values(binding))
            else:
                self._keep(binding.var, *arranged)
        return block if same_items(self._row, block.bindings) else DataflowBlock(self._row)

    def _keep(self, var: Var, value: Expr, permutation: Permutation | list[Permutation]) -> None:
        orders = permutation if isinstance(permutation, list) else [permutation]
        if all(order == tuple(range(len(order))) for order in orders):
            self._row.append(VarBinding(var, value))
            return
        new = DataflowVar(self._names.fresh(var.name_hint), value.ty, var.origins)
        self._row.append(VarBinding(new, value))
        self._kept_as(var, new, permutation)

    def _keeps_cast(self, binding: MatchCast) -> bool:
        """Add a cast of the permuted value and return True, if the cast value is kept in another order; else False."""
        ty, value = binding.ty, binding.value
        if value not in self._kept or not isinstance(ty, TensorType) or ty.shape is None:
            return False
        kept, permutation = self._kept[cast("Var", value)]
        if len(permutation) != len(ty.shape):
            return False
        arranged = TensorType([ty.shape[axis] for axis in permutation], ty.dtype, ty.vdevice)
        new = DataflowVar(self._names.fresh(binding.var.name_hint), arranged, binding.var.origins)
        self._row.append(MatchCast(new, kept, arranged))
        self._kept_as(binding.var, new, permutation)
        return True

    def _kept_as(self, var: Var, new: Var, permutation: Permutation | list[Permutation]) -> None:
        if isinstance(permutation, list):
            self._tuples[var] = (new, permutation)
        else:
            self._kept[var] = (new, permutation)
        if not isinstance(var, DataflowVar):
            back = self._back(var)
            assert back is not None
            self._row.append(VarBinding(var, back))
            self._kept.pop(var, None)
            self._tuples.pop(var, None)

    def _emit(self, value: Expr) -> Var:
        var = DataflowVar(self._names.fresh("lv"), value.ty)
        self._row.append(VarBinding(var, value))
        return var

    def _back(self, var: Var) -> Expr | None:
        """The original value of ``var``, made from its kept form; None if ``var`` is not permuted."""
        if var in self._kept:
            new, permutation = self._kept[var]
            return permute_dims(new, inverse(permutation))
        if var not in self._tuples:
            return None
        new, permutations = self._tuples[var]
        fields: list[Expr] = []
        for index, order in enumerate(permutations):
            field = self._emit(TupleGetItem(new, index))
            fields.append(
                field if order == tuple(range(len(order))) else self._emit(permute_dims(field, inverse(order)))
            )
        return Tuple(fields)

    def _on_values(self, binding: Binding) -> Binding:
        """``binding`` with the axes of its operands put back, separately for each use."""

        def put_back(operand: Expr) -> Expr:
            if isinstance(operand, Tuple):
                return Tuple([put_back(field) for field in operand.fields])
            back = self._back(operand) if isinstance(operand, Var) else None
            return operand if back is None else back if isinstance(back, Tuple) else self._emit(back)

        value = binding.value
        if not any(leaf in self._kept or leaf in self._tuples for leaf in leaves_of(value)):
            return binding
        if isinstance(value, If | Function):
            table = {leaf: put_back(leaf) for leaf in leaves_of(value) if isinstance(leaf, Var)}
            new = substitute(value, table)
        elif isinstance(value, Call):
            new = value.with_args([put_back(arg) for arg in value.args])
        elif isinstance(value, TupleGetItem):
            whole = put_back(value.tuple_value)
            new = whole.fields[value.index] if isinstance(whole, Tuple) else TupleGetItem(whole, value.index)
        else:
            new = put_back(value)
        return (
            MatchCast(binding.var, new, binding.ty) if isinstance(binding, MatchCast) else VarBinding(binding.var, new)
        )

    # --- what handlers use

    def order_of(self, expr: Expr) -> Permutation | None:
        """The order in which a value is kept; None if it is not a tensor of known rank."""
        if isinstance(expr, Var) and expr in self._kept:
            return self._kept[expr][1]
        ty = expr.ty
        if not isinstance(ty, TensorType) or ty.ndim == UNKNOWN_NDIM:
            return None
        return tuple(range(ty.ndim))

    def in_order(self, expr: Expr, permutation: Permutation) -> Expr:
        """A value with its axes in the order ``permutation``."""
        now = self.order_of(expr)
        assert now is not None
        kept = self._kept[expr][0] if isinstance(expr, Var) and expr in self._kept else expr
        if now == permutation:
            return kept
        return self._emit(permute_dims(kept, [now.index(axis) for axis in permutation]))

    def _arranged(self, value: Expr) -> Arranged | None:
        if isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Var) and value.tuple_value in self._tuples:
            new, permutations = self._tuples[value.tuple_value]
            return TupleGetItem(new, value.index), permutations[value.index]
        if isinstance(value, Tuple) and any(field in self._kept for field in value.fields):
            orders = [self.order_of(field) for field in value.fields]
            if all(order is not None for order in orders):
                fields = [self._kept[field][0] if field in self._kept else field for field in value.fields]  # pyright: ignore[reportArgumentType]
                return Tuple(fields), cast("list[Permutation]", orders)
        if not isinstance(value, Call) or not isinstance(value.op, Op) or value.op.name in _STAYS:
            return None
        wanted = self.layouts(value)
        if wanted is not None:
            return _convolution(self, value, wanted)
        if Trait.ELEMENTWISE in value.op.traits:
            return _elementwise(self, value)
        if not value.args:
            return None
        follow = _reduced if Trait.REDUCTION in value.op.traits else _FOLLOWS.get(value.op.name)
        if follow is None:
            return None
        first = value.args[0].fields[0] if isinstance(value.args[0], Tuple) and value.args[0].fields else value.args[0]
        order = self.order_of(first)
        axes_left_out = follow is _permuted and value.attrs.axes is None
        if order is None or (order == tuple(range(len(order))) and not axes_left_out):
            return None
        return follow(self, value, order)


def _order(old: str, new: str, what: str) -> Permutation:
    if sorted(old) != sorted(new):
        raise PassError(
            f"ConvertLayout: {what} is {old!r}, which cannot be put into the order {new!r}: the letters differ"
        )
    return tuple(old.index(letter) for letter in new)


def _convolution(converter: _Converter, call: Call, wanted: Sequence[str]) -> Arranged:
    attrs = call.attrs
    data, kernel = wanted[0], wanted[1]
    out = wanted[2] if len(wanted) > 2 else data
    args = [
        converter.in_order(call.args[0], _order(attrs.data_layout, data, "the layout of the data")),
        converter.in_order(call.args[1], _order(attrs.kernel_layout, kernel, "the layout of the kernel")),
    ]
    changed = {**attrs, "data_layout": data, "kernel_layout": kernel, "out_layout": out}
    return Call(call.op, args, changed), _order(attrs.out_layout, out, "the layout of the result")


def _elementwise(converter: _Converter, call: Call) -> Arranged | None:
    orders = [converter.order_of(arg) for arg in call.args]
    tensors = [order for arg, order in zip(call.args, orders, strict=True) if isinstance(arg.ty, TensorType)]
    if any(order is None for order in tensors):
        return None
    leading = next((order for order in tensors if order and order != tuple(range(len(order)))), None)
    if leading is None or any(order and len(order) != len(leading) for order in tensors):
        return None
    args = [
        converter.in_order(arg, leading) if isinstance(arg.ty, TensorType) and arg.ty.ndim else arg for arg in call.args
    ]
    return Call(call.op, args, call.attrs, call.ty_args), leading


def _axes(value: int | Sequence[int] | None, rank: int) -> list[int]:
    axes = range(rank) if value is None else [value] if isinstance(value, int) else value
    return [axis % rank for axis in axes]


def _reduced(converter: _Converter, call: Call, order: Permutation) -> Arranged:
    axes = _axes(call.attrs.axis, len(order))
    places = sorted(order.index(axis) for axis in axes)
    axis = places[0] if isinstance(call.attrs.axis, int) else tuple(places)
    new = Call(call.op, [converter.in_order(call.args[0], order)], {**call.attrs, "axis": axis})
    if call.attrs.get("keepdims"):
        return new, order
    left = [axis for axis in order if axis not in axes]
    return new, tuple(sorted(left).index(axis) for axis in left)


def _as_its_data(converter: _Converter, call: Call, order: Permutation) -> Arranged | None:
    """A convolution without desired layouts: its data and its result keep the order of the data."""
    old: str = call.attrs.data_layout
    if call.attrs.out_layout != old or len(old) != len(order):
        return None
    new = "".join(old[axis] for axis in order)
    args = [converter.in_order(call.args[0], order), *call.args[1:]]
    return Call(call.op, args, {**call.attrs, "data_layout": new, "out_layout": new}), order


def _with_layout(converter: _Converter, call: Call, order: Permutation) -> Arranged | None:
    old: str = call.attrs.layout
    if call.attrs.get("out_layout", old) != old or len(old) != len(order):
        return None
    new = "".join(old[axis] for axis in order)
    changed = {**call.attrs, "layout": new, **({"out_layout": new} if "out_layout" in call.attrs else {})}
    return Call(call.op, [converter.in_order(call.args[0], order), *call.args[1:]], changed), order


def _along_axis(converter: _Converter, call: Call, order: Permutation) -> Arranged | None:
    """An operator along one axis: its operands take the order, and so do its results."""
    axis = call.attrs.axis
    if not isinstance(axis, int):
        return None
    first = call.args[0]
    if isinstance(first, Tuple):
        if any(converter.order_of(field) is None for field in first.fields):
            return None
        first = Tuple([converter.in_order(field, order) for field in first.fields])
    else:
        first = converter.in_order(first, order)
    new = Call(call.op, [first, *call.args[1:]], {**call.attrs, "axis": order.index(axis % len(order))})
    types = getattr(new.ty, "fields", None)
    if types is None:
        return new, order
    return new, [order if ty.ndim == len(order) else tuple(range(ty.ndim)) for ty in types]


def _along_axes(converter: _Converter, call: Call, order: Permutation) -> Arranged:
    places = tuple(order.index(axis) for axis in _axes(call.attrs.axes, len(order)))
    return Call(
        call.op, [converter.in_order(call.args[0], order), *call.args[1:]], {**call.attrs, "axes": places}
    ), order


def _permuted(converter: _Converter, call: Call, order: Permutation) -> Arranged:
    axes = _axes(call.attrs.axes, len(order)) if call.attrs.axes is not None else list(reversed(range(len(order))))
    places = [order.index(axis) for axis in axes]
    return permute_dims(converter.in_order(call.args[0], order), places), tuple(range(len(order)))


def _squeezed(converter: _Converter, call: Call, order: Permutation) -> Arranged | None:
    ty = call.args[0].ty
    axes = call.attrs.axis
    if axes is None:
        shape = ty.shape if isinstance(ty, TensorType) else None
        if shape is None:
            return None
        axes = [axis for axis, size in enumerate(shape) if dims_equal(size, 1) is True]
    axes = _axes(axes, len(order))
    places = tuple(sorted(order.index(axis) for axis in axes))
    left = [axis for axis in order if axis not in axes]
    new = Call(call.op, [converter.in_order(call.args[0], order)], {**call.attrs, "axis": places})
    return new, tuple(sorted(left).index(axis) for axis in left)


def _expanded(converter: _Converter, call: Call, order: Permutation) -> Arranged:
    given: Any = call.attrs.axis
    axes = [given] if isinstance(given, int) else list(given)
    rank = len(order) + len(axes)
    added = [axis % rank for axis in axes]
    places = [axis for axis in range(rank) if axis not in added]
    moved = iter(order)
    result = tuple(axis if axis in added else places[next(moved)] for axis in range(rank))
    return Call(call.op, [converter.in_order(call.args[0], order)], call.attrs), result


def _sliced(converter: _Converter, call: Call, order: Permutation) -> Arranged | None:
    axes = whole_numbers(call.args[1])
    if axes is None:
        return None
    places = [PrimValue(order.index(axis % len(order))) for axis in axes]
    args = [converter.in_order(call.args[0], order), Tuple(places), *call.args[2:]]
    return Call(call.op, args, call.attrs), order


def _grouped(converter: _Converter, call: Call, order: Permutation) -> Arranged:
    rank = len(order)
    attrs = {
        **call.attrs,
        "channel_axis": order.index(call.attrs.channel_axis % rank),
        "axes": tuple(order.index(axis % rank) for axis in call.attrs.axes),
    }
    return Call(call.op, [converter.in_order(call.args[0], order), *call.args[1:]], attrs), order


def _same_order(converter: _Converter, call: Call, order: Permutation) -> Arranged:
    new = Call(call.op, [converter.in_order(call.args[0], order), *call.args[1:]], call.attrs)
    types = getattr(new.ty, "fields", None)
    return new, order if types is None else [order] * len(types)


_POOLS: Final = [f"relax.nn.{kind}_pool{rank}d" for kind in ("adaptive_avg", "avg", "max") for rank in (1, 2, 3)]
_CONVOLUTIONS: Final = [f"relax.nn.conv{rank}d{kind}" for rank in (1, 2, 3) for kind in ("", "_transpose")]
_ALONG_AXIS: Final = ("concat", "flip", "nn.batch_norm", "nn.prelu", "nn.softmax", "repeat", "split")

_FOLLOWS: Final[dict[str, Callable[[_Converter, Call, Permutation], Arranged | None]]] = {
    **dict.fromkeys(("relax.image.resize2d", *_POOLS), _with_layout),
    **dict.fromkeys(_CONVOLUTIONS, _as_its_data),
    **{f"relax.{name}": _along_axis for name in _ALONG_AXIS},
    "relax.expand_dims": _expanded,
    "relax.nn.dropout": _same_order,
    "relax.nn.group_norm": _grouped,
    "relax.nn.layer_norm": _along_axes,
    "relax.nn.rms_norm": _along_axes,
    "relax.permute_dims": _permuted,
    "relax.squeeze": _squeezed,
    "relax.strided_slice": _sliced,
}
"""Operators, other than elementwise ones and reductions, that can take the order of their first operand, with handlers.
"""

_STAYS: Final = frozenset(
    f"relax.{name}" for name in ("argmax", "argmin", "clip", "median", "nn.leakyrelu", "nn.softplus", "where")
)
"""Operators that Relax computes in the original order."""


def ConvertLayout(
    desired_layouts: Layouts, layout_cb: Callable[[Call], Layouts | Sequence[str] | None] | None = None
) -> Pass:
    """Put convolutions into other layouts: ``{"relax.nn.conv2d": ["NHWC", "OHWI"]}``, of data and kernel.

    A third layout is that of the result; by default the result has the layout of the data. Operators after a
    convolution take its result in the new order, as far as they can. Before other operators, and at the outputs of
    dataflow blocks, the axes are put back. ``layout_cb`` is called with each call of an operator and returns its
    layouts. If it returns none, a convolution takes its data in the order that the data has, and its kernel unchanged.

    Needs: dataflow blocks, values of known rank. Guarantees: the same values up to rounding, and the same types. Raises
    `PassError` for a layout with other letters, such as one of blocked channels. Cost: linear.
    """

    def layouts_of(call: Call) -> Sequence[str] | None:
        assert isinstance(call.op, Op)
        if layout_cb is not None:
            given = layout_cb(call)
            return given.get(call.op.name) if isinstance(given, Mapping) else given or None
        return desired_layouts.get(call.op.name)

    for name, layouts in desired_layouts.items():
        if "kernel_layout" not in Op.get(name).attributes or not 2 <= len(layouts) <= 3:
            raise PassError(
                f"ConvertLayout: {name!r}: {list(layouts)}; give a convolution the layouts of data and kernel"
            )

    return FunctionPass(lambda function, _module, _context: _Converter(function, layouts_of).run(), "ConvertLayout")

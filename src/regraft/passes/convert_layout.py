"""ConvertLayout: convolutions in another order of axes, and what follows them in that order as far as it can.

A value of a dataflow block may be kept as a permutation of itself. Operators that can follow their operand's
permutation do (elementwise ones, reductions, pools, normalizations ...); before any other the axes are put back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any, Final, TypeAlias

from ..ir.builder import NameSupply
from ..ir.expr import DataflowVar, Expr, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.op import Call, Op, Trait
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from ..ir.types import UNKNOWN_NDIM, TensorType
from ..ir.visitor import iter_bindings
from ..op import permute_dims
from ..pattern.matcher.view import leaves_of
from .context import PassContext, PassError
from .passes import FunctionPass, Pass

Permutation: TypeAlias = tuple[int, ...]
"""Axis ``i`` of what is kept is axis ``permutation[i]`` of the value."""
Arranged: TypeAlias = "tuple[Expr, Permutation | list[Permutation]]"
Layouts: TypeAlias = Mapping[str, Sequence[str]]


class _Converter:
    """Rewrites one function."""

    def __init__(self, function: Function, layouts: Callable[[Call], Sequence[str] | None]) -> None:
        self.layouts = layouts
        self._function = function
        self._names = NameSupply([param.name_hint for param in function.params])
        for binding in iter_bindings(function):
            self._names.reserve(binding.var.name_hint)
        self._kept: dict[Var, tuple[Var, Permutation]] = {}
        self._tuples: dict[Var, tuple[Var, list[Permutation]]] = {}
        self._bound: set[Var] = set()
        self._row: list[Binding] = []

    def run(self) -> Function:
        """The function with its dataflow blocks converted; itself if nothing is to be done."""
        body = self._function.body
        blocks = [self._block(block) if isinstance(block, DataflowBlock) else block for block in body.blocks]
        if all(new is old for new, old in zip(blocks, body.blocks, strict=True)):
            return self._function
        return self._function.with_body(SeqExpr(blocks, body.body))

    def _block(self, block: DataflowBlock) -> BindingBlock:
        self._row = []
        for binding in block.bindings:
            arranged = self._arranged(binding.value) if isinstance(binding, VarBinding) else None
            if arranged is None:
                for leaf in leaves_of(binding.value):
                    self._put_back(leaf)
                self._row.append(binding)
                self._bound.add(binding.var)
            else:
                self._keep(binding.var, *arranged)
        for binding in block.bindings:
            if not isinstance(binding.var, DataflowVar):
                self._put_back(binding.var)
        same = len(self._row) == len(block) and all(map(is_, self._row, block.bindings))
        return block if same else DataflowBlock(self._row)

    def _keep(self, var: Var, value: Expr, permutation: Permutation | list[Permutation]) -> None:
        if isinstance(permutation, tuple) and permutation == tuple(range(len(permutation))):
            self._row.append(VarBinding(var, value))
            self._bound.add(var)
            return
        new = DataflowVar(self._names.fresh(var.name_hint), value.ty, var.origins)
        self._row.append(VarBinding(new, value))
        if isinstance(permutation, list):
            self._tuples[var] = (new, permutation)
        else:
            self._kept[var] = (new, permutation)
            if not isinstance(var, DataflowVar):
                self._put_back(var)

    def _emit(self, value: Expr) -> Var:
        var = DataflowVar(self._names.fresh("lv"), value.ty)
        self._row.append(VarBinding(var, value))
        return var

    def _put_back(self, leaf: Expr) -> None:
        """Bind a variable that is kept in another order to its value, where that has not been done."""
        if not isinstance(leaf, Var) or leaf in self._bound:
            return
        if leaf in self._kept:
            new, permutation = self._kept[leaf]
            self._row.append(VarBinding(leaf, permute_dims(new, _inverse(permutation))))
        elif leaf in self._tuples:
            new, permutations = self._tuples[leaf]
            fields = [TupleGetItem(new, index) for index in range(len(permutations))]
            back = [
                self._emit(f if p == tuple(range(len(p))) else permute_dims(self._emit(f), _inverse(p)))
                for f, p in zip(fields, permutations, strict=True)
            ]
            self._row.append(VarBinding(leaf, Tuple(back)))
        else:
            return
        self._bound.add(leaf)

    # --- what handlers use

    def order_of(self, expr: Expr) -> Permutation | None:
        """The order in which a value is kept; None for one that is no tensor of known rank."""
        if isinstance(expr, Var) and expr in self._kept:
            return self._kept[expr][1]
        ty = expr.ty
        if not isinstance(ty, TensorType) or ty.ndim == UNKNOWN_NDIM:
            return None
        return tuple(range(ty.ndim))

    def in_order(self, expr: Expr, permutation: Permutation) -> Expr:
        """A value in the order ``permutation``."""
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
        if not isinstance(value, Call) or not isinstance(value.op, Op):
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
        if order is None or order == tuple(range(len(order))):
            return None
        return follow(self, value, order)


def _inverse(permutation: Permutation) -> list[int]:
    return [permutation.index(axis) for axis in range(len(permutation))]


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
    axis: Any = call.attrs.axis
    if axis is not None:
        axis = places[0] if isinstance(axis, int) else tuple(places)
    new = Call(call.op, [converter.in_order(call.args[0], order)], {**call.attrs, "axis": axis})
    if call.attrs.get("keepdims"):
        return new, order
    left = [axis for axis in order if axis not in axes]
    return new, tuple(sorted(left).index(axis) for axis in left)


def _with_layout(converter: _Converter, call: Call, order: Permutation) -> Arranged | None:
    old: str = call.attrs.layout
    if call.attrs.get("out_layout", old) != old or len(old) != len(order):
        return None
    new = "".join(old[axis] for axis in order)
    changed = {**call.attrs, "layout": new, **({"out_layout": new} if "out_layout" in call.attrs else {})}
    return Call(call.op, [converter.in_order(call.args[0], order), *call.args[1:]], changed), order


def _along_axis(converter: _Converter, call: Call, order: Permutation) -> Arranged | None:
    """An operator along one axis: its tensors follow, and its results have the same order."""
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


def _same_order(converter: _Converter, call: Call, order: Permutation) -> Arranged:
    new = Call(call.op, [converter.in_order(call.args[0], order), *call.args[1:]], call.attrs)
    types = getattr(new.ty, "fields", None)
    return new, order if types is None else [order] * len(types)


_FOLLOWS: Final[dict[str, Callable[[_Converter, Call, Permutation], Arranged | None]]] = {
    **dict.fromkeys(
        (
            "relax.image.resize2d",
            "relax.nn.adaptive_avg_pool1d",
            "relax.nn.adaptive_avg_pool2d",
            "relax.nn.adaptive_avg_pool3d",
            "relax.nn.avg_pool1d",
            "relax.nn.avg_pool2d",
            "relax.nn.avg_pool3d",
            "relax.nn.max_pool1d",
            "relax.nn.max_pool2d",
            "relax.nn.max_pool3d",
        ),
        _with_layout,
    ),
    **dict.fromkeys(
        (
            "relax.concat",
            "relax.cumprod",
            "relax.cumsum",
            "relax.flip",
            "relax.nn.batch_norm",
            "relax.nn.log_softmax",
            "relax.nn.prelu",
            "relax.nn.softmax",
            "relax.repeat",
            "relax.split",
        ),
        _along_axis,
    ),
    "relax.nn.dropout": _same_order,
    "relax.nn.layer_norm": _along_axes,
    "relax.nn.rms_norm": _along_axes,
    "relax.permute_dims": _permuted,
}
"""Operators besides elementwise ones and reductions that can follow the order of their first operand, and how."""


def ConvertLayout(
    desired_layouts: Layouts, layout_cb: Callable[[Call], Layouts | Sequence[str] | None] | None = None
) -> Pass:
    """Put convolutions into other layouts: ``{"relax.nn.conv2d": ["NHWC", "OHWI"]}``, of data and kernel.

    A third layout is that of the result; by default it has that of the data. What follows a convolution takes its
    result in the new order, as far as that can be; elsewhere, and at the outputs of dataflow blocks, the axes are put
    back. ``layout_cb`` gets each call of an operator and gives its layouts, or None to leave it.

    Needs: dataflow blocks, values of known rank. Guarantees: the same values up to rounding, and the same types.
    Raises `PassError` for a layout of other letters, such as one of blocked channels. Cost: linear.
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

    def transform(function: Function, _module: IRModule, _context: PassContext) -> Function:
        return _Converter(function, layouts_of).run()

    return FunctionPass(transform, "ConvertLayout")

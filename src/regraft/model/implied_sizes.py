"""The sizes of inputs that weights imply: channels, widths, heads, the sides of an image, the rows of tables.

Exporters leave every axis of an input symbolic, even an axis that can have only one size.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import Final, cast

from ..analysis import get_var2val
from ..analysis.tensors import stated_shape
from ..analysis.values import definition, resolve
from ..ir.dims import Dim, SymVar, exact_divide
from ..ir.expr import Constant, Var
from ..ir.op import Call, Op
from ..ir.program import Function
from ..ir.visitor import iter_bindings, walk

_GROUPED: Final = "com.microsoft.GroupQueryAttention"
_CONVOLUTIONS: Final = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
_PRODUCTS: Final = ("relax.matmul", "relax.linear")
_SAME_NUMBERS: Final = ("relax.astype", "relax.expand_dims", "relax.reshape", "relax.squeeze")
_MOST_SIDES: Final = 4
_MOST_ROWS: Final = 1 << 14
"""The largest number of rows of a table of positions in an image."""


def implied_sizes(function: Function) -> dict[str, int]:
    """The sizes, by name, that ``function`` needs in order to run, if a single call determines them. Cost: linear."""
    found: dict[str, int] = {}
    for call in _calls(function):
        for size, known in _told_by(call):
            if isinstance(size, SymVar) and isinstance(known, int):
                found.setdefault(size.name, known)
    return found


def _told_by(call: Call) -> Iterator[tuple[Dim, Dim | None]]:
    """Pairs of sizes of ``call``'s operands that must be equal: a size, and the size it must have, if that is known."""
    name = _name(call)
    shapes = [stated_shape(operand) or () for operand in call.args[:4]]
    if name in _CONVOLUTIONS and shapes[0] and shapes[1]:
        inner = _sizes(shapes[1], call.attrs.kernel_layout, "I")[0]
        if isinstance(inner, int):
            yield _sizes(shapes[0], call.attrs.data_layout, "C")[0], inner * call.attrs.groups
    elif name in _PRODUCTS and shapes[0] and len(shapes[1]) > 1:
        yield shapes[0][-1], shapes[1][-2]
    elif name == _GROUPED and shapes[0] and shapes[3]:
        heads = call.attrs.num_heads + (0 if shapes[1] else 2 * call.attrs.kv_num_heads)
        yield shapes[3][-1], exact_divide(shapes[0][-1], heads)


def sides_of_images(function: Function) -> list[dict[SymVar, int]]:
    """Sizes of images for which the number of patches fits a table's rows, perhaps with a few rows for other things.

    Images are square. Returns a few choices, the largest first; none if no image is cut into patches. Cost: linear.
    """
    found: list[dict[SymVar, int]] = []
    for call in _calls(function):
        if _name(call) != "relax.nn.conv2d" or len(set(call.attrs.strides)) > 1:
            continue
        (data, kernel), step = [stated_shape(one) or () for one in call.args[:2]], cast(int, call.attrs.strides[0])
        if step == 1 or not data or not kernel or {*_sizes(kernel, call.attrs.kernel_layout, "HW")} != {step}:
            continue
        sides = [size for size in _sizes(data, call.attrs.data_layout, "HW") if isinstance(size, SymVar)]
        if len(sides) == len("HW"):
            found += [dict.fromkeys(sides, count * step) for count in _patches_in_a_row(function)]
    return found


def _patches_in_a_row(function: Function) -> list[int]:
    """The square roots of the numbers of rows of tables, rounded down, and the next smaller ones."""
    shapes = [stated_shape(expr) for expr in walk(function) if isinstance(expr, Constant)]
    tables = [shape for shape in shapes if shape is not None]
    rows = {shape[-2] for shape in tables if len(shape) in (2, 3) and all(size == 1 for size in shape[:-2])}
    exact = {isqrt(count - more) for count in rows for more in (1, 0, 2) if _is_square(count, more)}
    others = {isqrt(count) - less for count in rows if isinstance(count, int) and count < 1000 for less in (0, 1)}
    ordered = [*sorted(exact, reverse=True), *sorted(others - exact, reverse=True)]
    return [count for count in ordered if count > 1][:_MOST_SIDES]


def _is_square(count: Dim, more: int) -> bool:
    """True if ``count`` is a square number of patches plus ``more`` others."""
    return isinstance(count, int) and more < count < _MOST_ROWS and isqrt(count - more) ** 2 == count - more


def rows_of_tables(function: Function) -> dict[str, tuple[float, float]]:
    """The first and the last row of the tables, for each parameter that serves as an index into them."""
    definitions, last = get_var2val(function), dict[str, float]()
    for call in _calls(function):
        if _name(call) != "relax.take":
            continue
        index = definition(definitions, resolve(definitions, call.args[1]))
        while isinstance(index, Call) and _name(index) in _SAME_NUMBERS:
            index = definition(definitions, resolve(definitions, index.args[0]))
        shape, axis = stated_shape(call.args[0]), cast("int | None", call.attrs["axis"])
        rows = shape[axis] if shape is not None and axis is not None else None
        if index in function.params and isinstance(index, Var) and isinstance(rows, int) and rows:
            last[index.name_hint] = min(rows - 1, last.get(index.name_hint, rows))
    return {name: (0, row) for name, row in last.items()}


def _sizes(shape: tuple[Dim, ...], layout: str, axes: str) -> list[Dim]:
    """The sizes of ``axes``, by the letters of ``layout``."""
    return [shape[layout.index(axis)] for axis in axes]


def _calls(function: Function) -> Iterator[Call]:
    for binding in iter_bindings(function):
        if isinstance(binding.value, Call):
            yield binding.value


def _name(call: Call) -> str:
    return call.op.name if isinstance(call.op, Op) else ""

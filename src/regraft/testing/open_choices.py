"""Random choices for the open parts of a random call: operand types, shape arguments, attributes.

A draw is a guess that often fits. The type rule of the operator decides if it does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, cast

from .. import op as ops
from ..ir.dims import Dim, SymVar
from ..ir.dtypes import is_float
from ..ir.errors import RegraftError
from ..ir.expr import Expr, PrimValue, ShapeExpr, Tuple, Var
from ..ir.leaf_types import leaf_tensors
from ..ir.op import REQUIRED, Op
from ..ir.types import TensorType, TupleType, Type


class NoInstanceError(RegraftError):
    """This draw gave no program. Another draw may succeed."""


_SIZES: Final = (2, 3, 4, 5, 6, 7)
_OTHER_DTYPES: Final = ("int64", "bool", "float64", "int32", "float16", "uint8")
_ROWS: Final = SymVar("n")
_COLUMNS: Final = SymVar("m")


def draw_tensor_type(random: Random, known: Sequence[TensorType], dtype: str) -> TensorType:
    """A random tensor type of known shape, which may fit an operand beside operands of the types ``known``."""
    beside = random.choice(known) if known else None
    if beside is not None and beside.dtype is not None and random.random() < 0.85:
        dtype = beside.dtype
    elif random.random() < 0.15:
        dtype = random.choice(_OTHER_DTYPES)
    if beside is None or beside.shape is None or random.random() < 0.15:
        return TensorType(_shape(random), dtype)
    return TensorType(_related_shape(random, list(beside.shape)), dtype)


def of_likely_size(random: Random, drawn: TensorType, likely: Sequence[int]) -> TensorType:
    """``drawn``, at times with its first size replaced by one of ``likely`` in all axes of that size.

    A square shape stays square.
    """
    if not likely or not drawn.shape or random.random() > 0.3:
        return drawn
    first, size = drawn.shape[0], random.choice(likely)
    return TensorType([size if dim == first else dim for dim in drawn.shape], drawn.dtype)


def without_elements(drawn: TensorType) -> TensorType:
    """``drawn`` with its first size replaced by 0 in all axes of that size."""
    if not drawn.shape:
        return drawn
    return TensorType([0 if dim == drawn.shape[0] else dim for dim in drawn.shape], drawn.dtype)


def single(ty: Type) -> Type:
    """The scalar tensor type of ``ty``'s dtype. A type that is no tensor type is returned as it is."""
    return TensorType((), ty.dtype) if isinstance(ty, TensorType) else ty


def is_simple(ty: Type) -> bool:
    """True if every size in ``ty`` is a number or a single size variable."""
    return all(isinstance(dim, int | SymVar) for leaf in leaf_tensors(ty) for dim in leaf.shape or ())


def is_known(ty: Type, *, of_any_shape: bool = False) -> bool:
    """True if all tensors in ``ty`` have a known dtype and, unless ``of_any_shape``, a known shape."""
    leaves = leaf_tensors(ty)
    return all((of_any_shape or leaf.shape is not None) and leaf.dtype is not None for leaf in leaves)


def _shape(random: Random) -> list[Dim]:
    """A new random shape. Most sizes differ; some are symbolic, and some shapes are square."""
    rank = random.choice((0, 1, 2, 2, 2, 3, 3, 4))
    dims: list[Dim] = list(random.sample(_SIZES, rank))
    if rank > 1 and random.random() < 0.3:
        dims[-1] = dims[-2]
    if random.random() < 0.1:
        dims = dims[:1] * rank
    if rank and random.random() < 0.2:
        dims[random.randrange(rank)] = random.choice((_ROWS, _COLUMNS))
    return dims


def _related_shape(random: Random, shape: list[Dim]) -> list[Dim]:
    """A random shape related to ``shape``.

    The same shape, one that broadcasts with it, one that fits it in a matmul, or one that differs in one axis.
    """
    kind = random.random()
    if kind < 0.45 or not shape:
        return shape
    if kind < 0.6:
        start = random.randrange(len(shape) + 1)
        return [1 if random.random() < 0.2 else dim for dim in shape[start:]]
    if kind < 0.75:
        other: Dim = random.choice(_SIZES)
        products = ([*shape[:-2], shape[-1], other], [shape[-1], other], [*shape[:-2], other, shape[-2 % len(shape)]])
        return list(random.choice(products))
    if kind < 0.9:
        axis = random.randrange(len(shape))
        return [random.choice(_SIZES) if i == axis else dim for i, dim in enumerate(shape)]
    return [random.choice(shape)]


def draw_shape_argument(random: Random, known: Sequence[TensorType]) -> list[Dim]:
    """Random sizes for a shape operand: the elements of a known tensor in another shape, or with an axis in front."""
    shapes = [list(ty.shape) for ty in known if ty.shape is not None]
    if not shapes:
        return _shape(random)
    shape = random.choice(shapes)
    kind = random.random()
    if kind < 0.3:
        return random.sample(shape, len(shape))
    if kind < 0.6 and len(shape) > 1:
        at = random.randrange(len(shape) - 1)
        return [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]]
    if kind < 0.8:
        for at, dim in enumerate(shape):
            if isinstance(dim, int) and dim in (4, 6):
                return [*shape[:at], 2, dim // 2, *shape[at + 1 :]]
    return [random.choice(_SIZES), *shape] if random.random() < 0.5 else shape


def draw_unusual_operand(random: Random, known: Sequence[TensorType], dtype: str) -> Expr:
    """A random operand that is not a tensor: a shape, or a tuple of tensors."""
    if random.random() < 0.6:
        return ShapeExpr(draw_shape_argument(random, known))
    first = draw_tensor_type(random, known, dtype)
    types = [first, *(draw_tensor_type(random, [first], dtype) for _ in range(random.randint(0, 2)))]
    return Var("candidate", TupleType(types))


def something_of(random: Random, value: Var) -> Expr:
    """A simple elementwise call on ``value``. Raises `NoInstanceError` if ``value`` is no tensor."""
    if not isinstance(value.ty, TensorType):
        raise NoInstanceError("no tensor")
    if value.ty.dtype == "bool":
        return ops.logical_not(value)
    return random.choice((ops.negative, ops.abs, ops.square))(value)


def draw_operand(random: Random, op: Op, index: int, before: Sequence[Expr]) -> Expr | None:
    """A random operand ``index`` of a call of ``op``, if the operand's name asks for a special kind of value.

    Special kinds are numbers (the limits of `clip`), lists of numbers (the bounds of `strided_slice`), shapes, and the
    weights of convolutions. ``before`` holds the operands before it. None for any other operand.
    """
    first = before[0].ty if before else None
    if not isinstance(first, TensorType) or first.shape is None or index >= len(op.operands):
        return None
    name = op.operands[index].name
    if name in ("min", "max"):
        number = random.choice((-2, -1, 0, 1) if name == "min" else (0, 1, 2, 6))
        return PrimValue(float(number) if is_float(first.dtype) else number)
    if name == "shape":
        return ShapeExpr(draw_shape_argument(random, [first]))
    if name in ("axes", "begin", "end", "strides") and first.shape:
        return _draw_bounds(random, name, first.shape, before)
    if name == "weight" and first.ndim > 2 and first.dtype is not None:
        sizes = [size for size in first.shape if isinstance(size, int)]
        if len(sizes) == first.ndim:
            window = [random.randint(1, min(3, size)) for size in sizes[2:]]
            return Var("candidate", TensorType([random.choice(_SIZES), sizes[1], *window], first.dtype))
    return None


def _draw_bounds(random: Random, name: str, shape: Sequence[Dim], before: Sequence[Expr]) -> Expr:
    """One of the lists of `strided_slice`: ``axes``, or ``begin``, ``end`` or ``strides`` with an entry per axis."""
    if name == "axes":
        drawn = random.sample(range(len(shape)), random.randint(1, min(2, len(shape))))
        return Tuple([PrimValue(axis if random.random() < 0.7 else axis - len(shape)) for axis in drawn])
    axes = before[1].fields if len(before) > 1 and isinstance(before[1], Tuple) else ()
    values: list[Dim] = []
    for axis in axes:
        at = axis.value if isinstance(axis, PrimValue) and isinstance(axis.value, int) else 0
        size = shape[at]
        if name == "strides":
            values.append(random.choice((1, 1, 1, 2)))
        elif name == "begin":
            values.append(random.choice((0, 0, 1)))
        else:
            values.append(size if random.random() < 0.6 or not isinstance(size, int) else random.randint(1, size))
    return Tuple([PrimValue(value) for value in values])


def draw_attributes(
    random: Random, op: Op, operands: Sequence[Expr], wanted: Mapping[str, Any], open_rate: float
) -> dict[str, Any]:
    """Attributes for a call of ``op``: those in ``wanted``, and random values for others.

    Required attributes are always drawn. Each of the others is drawn with probability ``open_rate``.
    """
    first = operands[0].ty if operands else None
    rank = first.ndim if isinstance(first, TensorType) else 2
    given: dict[str, Any] = {}
    for name, default in op.attributes.items():
        if name in wanted:
            given[name] = wanted[name]
        elif default is REQUIRED or random.random() < open_rate:
            given[name] = _draw_attribute(random, name, default, max(rank, 1))
    return given


def _draw_attribute(random: Random, name: str, default: Any, rank: int) -> Any:
    if isinstance(default, bool):
        return random.random() < 0.5
    if name in ("axis", "channel_axis", "seq_axis", "batch_axis"):
        options: list[Any] = [*range(rank)]
        if name == "axis" and random.random() < 0.3:
            return (random.randrange(rank),)
        return random.choice(options if default is REQUIRED else [*options, default])
    if name == "axes":
        drawn = tuple(random.sample(range(rank), random.choice((rank, rank, random.randint(1, rank)))))
        return default if default is not REQUIRED and random.random() < 0.2 else drawn
    if name in ("dtype", "out_dtype"):
        if default is REQUIRED:
            return random.choice(("float32", "float64", "int32"))
        return random.choice(("int8", "uint8")) if default in ("int8", "uint8") else default
    if name == "pad_width":
        return tuple([random.choice((0, 0, 1, 2)) for _ in range(2 * rank)])
    if name == "indices_or_sections":
        return random.choice((1, 2, 3, (1,), (1, 2)))
    if default is REQUIRED:
        return random.choice((1, 2, 3))
    return _another_value(random, default) if random.random() < 0.5 else default


def _another_value(random: Random, default: Any) -> Any:
    """A value that may differ from ``default``, to expose a rule that ignores the attribute.

    A float keeps its sign, because the sign may carry meaning (as in a rate, or a term added to a divisor).
    """
    match default:
        case bool():
            return default
        case float():
            return math.copysign(random.choice((0.25, 0.5, 2.0)), default)
        case int():
            return default + 1
        case tuple():
            items = cast("tuple[Any, ...]", default)
            plain = all(type(item) is int for item in items)
            return tuple([item + random.choice((0, 1)) for item in items]) if plain else items
        case _:
            return default

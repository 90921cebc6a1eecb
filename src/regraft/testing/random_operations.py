"""The bindings of random programs: a table of small writers, and the state of the function being written.

Each writer picks operands among the visible variables and returns an expression with a bound on its absolute values,
so that no program overflows on the inputs of `random_inputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeAlias

import numpy as np

from .. import op as ops
from ..ir import (
    BlockBuilder,
    Call,
    Dim,
    Expr,
    FuncType,
    GlobalVar,
    SymVar,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    const,
)
from ..ir.dims import dim_product, dims_equal, evaluate, free_symvars
from ..ir.dtypes import is_float, is_unsigned, numpy_dtype
from ..ir.types import bind_type
from ..op import nn
from ..op.adjoints import tensor_type

LARGEST_SIZE: Final = 12
"""The largest value that `random_inputs` gives to a symbolic size. Bounds are computed for this value."""

SIZES: Final = (2, 3, 4, 5, 6, 7, 1)
_MOST_ELEMENTS: Final = 4000
INPUT_BOUND: Final = 2.0
"""The largest absolute value in the arrays of `random_inputs`."""

_LIMITS: Final[Mapping[str, float]] = {"int8": 100, "uint8": 200, "float16": 500}
_LIMIT: Final = 5000.0


@dataclass(frozen=True, slots=True)
class Options:
    """The features that a random program may have.

    ``dtypes`` are the dtypes of parameters and of constants. ``odd_constants`` adds constants that are hard to write
    down or to compare (NaN, infinities, -0.0, no elements, narrow dtypes). They are results that nothing else uses.
    """

    dtypes: tuple[str, ...] = ("float32", "float32", "float64", "int32", "int64", "bool")
    symbolic: bool = True
    branches: bool = True
    loops: bool = False
    casts: bool = True
    tuples: bool = True
    odd_constants: bool = False
    most_parameters: int = 4


DEFAULT: Final = Options()


@dataclass(slots=True)
class RandomWriter:
    """The state of a function being written: the visible variables, and a bound on the values of each."""

    random: Random
    options: Options
    builder: BlockBuilder
    visible: list[Var] = field(default_factory=list[Var])
    bounds: dict[Var, float] = field(default_factory=dict[Var, float])
    callees: list[tuple[GlobalVar, float]] = field(default_factory=list[tuple[GlobalVar, float]])

    # --- choosing operands

    def tensors(self, accepts: Callable[[TensorType], bool] = lambda ty: True) -> list[Var]:
        """The visible tensors of known shape and dtype whose type ``accepts`` accepts, the latest last."""
        found: list[Var] = []
        for var in self.visible:
            ty = var.ty
            if isinstance(ty, TensorType) and ty.shape is not None and ty.dtype is not None and accepts(ty):
                found.append(var)
        return found

    def pick(self, accepts: Callable[[TensorType], bool] = lambda ty: True) -> Var | None:
        """A random one of `tensors`; None if there is none. Recent ones are more likely, which makes programs deep."""
        found = self.tensors(accepts)
        if not found:
            return None
        return self.random.choice(found[-4:] if self.random.random() < 0.5 else found)

    def like(self, var: Var) -> Var:
        """A visible tensor of the same type as ``var``, possibly ``var`` itself."""
        return self.random.choice(self.tensors(lambda ty: ty == var.ty))

    def axis(self, var: Var) -> int:
        """A random axis of ``var``, sometimes as a negative number."""
        ndim = tensor_type(var).ndim
        axis = self.random.randrange(ndim)
        return axis - ndim if self.random.random() < 0.3 else axis

    def constant(self, shape: Sequence[int], dtype: str) -> Expr:
        """A constant of small random values, which are exact in every dtype."""
        values = np.random.default_rng(self.random.getrandbits(32))
        if dtype == "bool":
            return const(values.integers(0, 2, size=tuple(shape)).astype(np.bool_))
        low = 0 if is_unsigned(dtype) else -2
        whole = values.integers(low, 3, size=tuple(shape))
        return const((whole / 2 if is_float(dtype) else whole).astype(numpy_dtype(dtype)))

    # --- writing

    def bound(self, var: Var) -> float:
        """The largest absolute value that an element of ``var`` can have."""
        return self.bounds.get(var, 1.0)

    def add(self, expr: Expr, bound: float, *, output: bool = False) -> Var | None:
        """Bind ``expr`` and return the variable; None if its values or its size may become too large."""
        ty = expr.ty
        if isinstance(ty, TensorType) and (bound > _LIMITS.get(ty.dtype or "", _LIMIT) or _count(ty) > _MOST_ELEMENTS):
            return None
        var = self.builder.emit_output(expr) if output else self.builder.emit(expr)
        self.keep(var, bound)
        return var

    def keep(self, var: Var, bound: float) -> None:
        """Make ``var`` visible to later bindings."""
        self.visible.append(var)
        self.bounds[var] = bound


def dims_of(expr: Expr) -> tuple[Dim, ...]:
    """The shape of a tensor expression of known shape."""
    shape = tensor_type(expr).shape
    assert shape is not None
    return shape


def dtype_of(expr: Expr) -> str:
    """The dtype of a tensor expression of known dtype."""
    dtype = tensor_type(expr).dtype
    assert dtype is not None
    return dtype


def _most(dim: Dim) -> int:
    return evaluate(dim, dict.fromkeys(free_symvars(dim), LARGEST_SIZE))


def _count(ty: TensorType) -> int:
    return _most(dim_product(ty.shape or ()))


# --- the table: each entry returns an expression and a bound on its values, or None if no visible variable fits

WrittenValue: TypeAlias = "tuple[Expr, float] | None"
RandomOperation: TypeAlias = Callable[[RandomWriter], WrittenValue]

CHOICES: Final[list[RandomOperation]] = []
"""The writers of the kinds of bindings. To add one, decorate a function with `operation`."""
WEIGHTS: Final[list[int]] = []
"""The weight of each of `CHOICES` in the draw."""


def operation(
    weight: int, accepts: Callable[[TensorType], bool] | None = None
) -> Callable[[Callable[..., WrittenValue]], Callable[..., WrittenValue]]:
    """A decorator that adds a writer of one kind of binding to the table, with this ``weight`` in the draw.

    With ``accepts``, the writer also receives a visible tensor of an accepted type. If there is none, nothing is
    written.
    """

    def add(function: Callable[..., WrittenValue]) -> Callable[..., WrittenValue]:
        def on_tensor(write: RandomWriter) -> WrittenValue:
            x = write.pick(accepts or any_tensor)
            return None if x is None else function(write, x)

        CHOICES.append(function if accepts is None else on_tensor)
        WEIGHTS.append(weight)
        return function

    return add


def any_tensor(_ty: TensorType) -> bool:
    """True: accepts every tensor type."""
    return True


def is_number(ty: TensorType) -> bool:
    """True if the dtype is not bool."""
    return ty.dtype != "bool"


def has_axes(ty: TensorType) -> bool:
    """True if the tensor has at least one axis."""
    return ty.ndim > 0


def _is_float(ty: TensorType) -> bool:
    return is_float(ty.dtype)


@operation(4, _is_float)
def _unary(write: RandomWriter, x: Var) -> WrittenValue:
    name = write.random.choice(("tanh", "sigmoid", "sin", "cos", "negative", "abs", "relu"))
    call: Call = nn.relu(x) if name == "relu" else getattr(ops, name)(x)
    return call, write.bound(x) if name in ("negative", "abs", "relu") else 1.0


def _second(write: RandomWriter, x: Var) -> tuple[Expr, float]:
    """An operand that broadcasts with ``x``, and its bound: a tensor of the same type, a constant row or a scalar."""
    choice = write.random.random()
    dims = dims_of(x)
    if choice < 0.6:
        y = write.like(x)
        return y, write.bound(y)
    if choice < 0.8 and dims and isinstance(dims[-1], int):
        return write.constant((dims[-1],), dtype_of(x)), INPUT_BOUND
    return write.constant((), dtype_of(x)), INPUT_BOUND


@operation(8, is_number)
def _binary(write: RandomWriter, x: Var) -> WrittenValue:
    y, bound = _second(write, x)
    name = write.random.choice(("add", "add", "multiply", "maximum", "minimum", "subtract"))
    if name == "subtract" and is_unsigned(dtype_of(x)):
        name = "add"
    left, right = (y, x) if write.random.random() < 0.2 else (x, y)
    if name == "multiply":
        bound *= write.bound(x)
    elif name in ("add", "subtract"):
        bound += write.bound(x)
    else:
        bound = max(bound, write.bound(x))
    return getattr(ops, name)(left, right), bound


@operation(1, is_number)
def _compare(write: RandomWriter, x: Var) -> WrittenValue:
    return getattr(ops, write.random.choice(("less", "greater_equal")))(x, _second(write, x)[0]), 1.0


@operation(1, lambda ty: ty.dtype == "bool")
def _logic(write: RandomWriter, x: Var) -> WrittenValue:
    return getattr(ops, write.random.choice(("logical_and", "logical_or")))(x, write.like(x)), 1.0


@operation(2, any_tensor)
def _choose(write: RandomWriter, x: Var) -> WrittenValue:
    condition = write.pick(lambda ty: ty.dtype == "bool" and ty.shape in (dims_of(x), ()))
    if condition is None:
        return None
    y, bound = _second(write, x)
    return ops.where(condition, x, y), max(bound, write.bound(x))


@operation(1, lambda ty: not is_unsigned(ty.dtype))
def _convert(write: RandomWriter, x: Var) -> WrittenValue:
    dtype = write.random.choice(["float32", "float64"] if dtype_of(x) != "bool" else ["float32", "int32", "int64"])
    return ops.astype(x, dtype), write.bound(x)


@operation(3, lambda ty: ty.ndim >= 2)
def _permute(write: RandomWriter, x: Var) -> WrittenValue:
    ndim = tensor_type(x).ndim
    axes = write.random.sample(range(ndim), ndim)
    if write.random.random() < 0.2:
        axes = [axis - ndim for axis in axes]
    return ops.permute_dims(x, None if write.random.random() < 0.3 else axes), write.bound(x)


@operation(2, lambda ty: ty.ndim >= 2)
def _reshape(write: RandomWriter, x: Var) -> WrittenValue:
    dims = dims_of(x)
    at = write.random.randrange(len(dims) - 1)
    merged = (*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :])
    return ops.reshape(x, merged), write.bound(x)


@operation(1, lambda ty: ty.ndim < 4)
def _expand(write: RandomWriter, x: Var) -> WrittenValue:
    return ops.expand_dims(x, write.random.randrange(tensor_type(x).ndim + 1)), write.bound(x)


@operation(1, lambda ty: 1 in (ty.shape or ()))
def _squeeze(write: RandomWriter, x: Var) -> WrittenValue:
    return ops.squeeze(x, [dims_of(x).index(1)]), write.bound(x)


@operation(3, has_axes)
def _concat(write: RandomWriter, x: Var) -> WrittenValue:
    axis = write.axis(x)

    def fits(ty: TensorType) -> bool:
        if ty.dtype != dtype_of(x) or ty.ndim != len(dims_of(x)):
            return False
        pairs = enumerate(zip(ty.shape or (), dims_of(x), strict=True))
        return all(dims_equal(a, b) for i, (a, b) in pairs if i != axis % ty.ndim)

    parts = [x, *(write.random.choice(write.tensors(fits)) for _ in range(write.random.randint(1, 2)))]
    return ops.concat(parts, axis), max(map(write.bound, parts))


@operation(1, lambda ty: ty.ndim < 4)
def _stack(write: RandomWriter, x: Var) -> WrittenValue:
    y = write.like(x)
    return ops.stack([x, y], 0), max(write.bound(x), write.bound(y))


@operation(2, lambda ty: any(isinstance(d, int) and d > 1 for d in ty.shape or ()))
def _split(write: RandomWriter, x: Var) -> WrittenValue:
    if not write.options.tuples:
        return None
    axis, size = write.random.choice([(i, d) for i, d in enumerate(dims_of(x)) if isinstance(d, int) and d > 1])
    even = [n for n in range(2, size + 1) if size % n == 0]
    if write.random.random() < 0.5 and even:
        return ops.split(x, write.random.choice(even), axis), write.bound(x)
    return ops.split(x, [write.random.randrange(1, size)], axis), write.bound(x)


@operation(2, lambda ty: is_float(ty.dtype) and ty.ndim > 0)
def _reduce(write: RandomWriter, x: Var) -> WrittenValue:
    axis = None if write.random.random() < 0.2 else [write.axis(x)]
    name = write.random.choice(("sum", "mean", "max", "min"))
    keepdims = write.random.random() < 0.4
    growth = 1 if name != "sum" else _count(tensor_type(x)) if axis is None else _most(dims_of(x)[axis[0]])
    return getattr(ops, name)(x, axis, keepdims), write.bound(x) * growth


@operation(5, lambda ty: is_float(ty.dtype) and ty.ndim >= 2)
def _matmul(write: RandomWriter, x: Var) -> WrittenValue:
    inner = dims_of(x)[-1]
    others = write.tensors(lambda ty: ty.dtype == dtype_of(x) and ty.ndim == 2 and (ty.shape or (0,))[0] == inner)
    if others and (write.random.random() < 0.6 or not isinstance(inner, int)):
        other = write.random.choice(others)
        y, bound = other, write.bound(other)
    elif isinstance(inner, int):
        width = write.random.choice([size for size in SIZES if size != inner])
        y, bound = write.constant((inner, width), dtype_of(x)), INPUT_BOUND
    else:
        return None
    return ops.matmul(x, y), bound * write.bound(x) * _most(inner)


@operation(1, lambda ty: is_float(ty.dtype) and ty.ndim > 0)
def _softmax(write: RandomWriter, x: Var) -> WrittenValue:
    return nn.softmax(x, write.axis(x)), 1.0


@operation(1, lambda ty: any(isinstance(d, int) and d > 1 for d in ty.shape or ()))
def _slice(write: RandomWriter, x: Var) -> WrittenValue:
    axis, size = write.random.choice([(i, d) for i, d in enumerate(dims_of(x)) if isinstance(d, int) and d > 1])
    begin = write.random.randrange(size - 1)
    end = write.random.randint(begin + 1, size)
    return ops.strided_slice(x, [axis], [begin], [end], [write.random.choice((1, 1, 2))]), write.bound(x)


@operation(1, lambda ty: bool(ty.shape) and isinstance(ty.shape[0], int))
def _take(write: RandomWriter, x: Var) -> WrittenValue:
    size = dims_of(x)[0]
    assert isinstance(size, int)
    indices = [write.random.randrange(size) for _ in range(write.random.randint(1, 3))]
    return ops.take(x, const(np.array(indices, dtype=np.int64)), 0), write.bound(x)


@operation(1, lambda ty: ty.ndim < 4)
def _broadcast(write: RandomWriter, x: Var) -> WrittenValue:
    return ops.broadcast_to(x, (2, *dims_of(x))), write.bound(x)


@operation(1)
def _tuple(write: RandomWriter) -> WrittenValue:
    if not write.options.tuples or not write.visible:
        return None
    fields = [write.random.choice(write.visible) for _ in range(write.random.randint(1, 3))]
    return Tuple(fields), max(map(write.bound, fields))


@operation(3)
def _project(write: RandomWriter) -> WrittenValue:
    tuples = [var for var in write.visible if isinstance(var.ty, TupleType) and var.ty.fields]
    if not tuples:
        return None
    chosen = write.random.choice(tuples[-3:])
    assert isinstance(chosen.ty, TupleType)
    return TupleGetItem(chosen, write.random.randrange(len(chosen.ty.fields))), write.bound(chosen)


@operation(1, any_tensor)
def _alias(write: RandomWriter, x: Var) -> WrittenValue:
    return x, write.bound(x)


@operation(1)
def _constant(write: RandomWriter) -> WrittenValue:
    dtype = write.random.choice(write.options.dtypes)
    shape = write.random.sample(SIZES, write.random.randint(0, 2))
    return write.constant(shape, dtype), INPUT_BOUND


@operation(2)
def _call(write: RandomWriter) -> WrittenValue:
    if not write.callees:
        return None
    callee, bound = write.random.choice(write.callees)
    ty = callee.ty
    assert isinstance(ty, FuncType)
    args: list[Var] = []
    sizes: dict[SymVar, Dim] = {}
    # The bound of a function holds for arguments that are no larger than the inputs.
    small = [var for var in write.visible if write.bound(var) <= INPUT_BOUND]
    for param in ty.params or ():
        fitting = [var for var in small if bind_type(param, var.ty, dict(sizes)) is True]
        if not fitting:
            return None
        args.append(write.random.choice(fitting))
        bind_type(param, args[-1].ty, sizes)
    return Call(callee, args), bound

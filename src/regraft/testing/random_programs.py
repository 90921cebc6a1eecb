"""Random well-typed programs, and inputs to run them on.

The same seed gives the same program. Programs use blocks of both kinds, tuples, casts, branches, calls
between functions, symbolic sizes and constants of many dtypes; sizes differ where they can, since square
matrices hide transposes. Values stay small and defined on every path, so that two engines can be held against
each other. What operators occur is a table (`OPERATIONS`): one entry writes one binding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from .. import ops
from ..ir import (
    BlockBuilder,
    Call,
    DataflowVar,
    Dim,
    Expr,
    Function,
    FuncType,
    GlobalVar,
    If,
    IRModule,
    SeqExpr,
    ShapeType,
    SymVar,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    const,
)
from ..ir.dims import dim_product, dims_equal, evaluate, free_symvars
from ..ir.dtypes import is_float, is_unsigned, numpy_dtype
from ..ir.types import bind_type, substitute_type, type_symvars

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

LARGEST_SIZE: Final = 8
"""The largest value that `random_inputs` gives a symbolic size; bounds are computed with it."""

_SIZES: Final = (2, 3, 4, 5, 6, 7, 1)
_MOST_ELEMENTS: Final = 2000
INPUT_BOUND: Final = 2.0
"""The largest absolute value in the arrays of `random_inputs`."""

_LIMITS: Final[Mapping[str, float]] = {"int8": 100, "uint8": 200, "float16": 500}
_LIMIT: Final = 5000.0


@dataclass(frozen=True, slots=True)
class Options:
    """What a random program may contain.

    ``dtypes`` are those of the parameters. ``odd_constants`` adds bindings of values that are hard to write
    down or to compare (NaN, infinities, -0.0, no elements, narrow dtypes), which nothing computes with.
    """

    dtypes: tuple[str, ...] = ("float32", "float32", "float64", "int32", "int64", "bool")
    symbolic: bool = True
    branches: bool = True
    casts: bool = True
    tuples: bool = True
    odd_constants: bool = False
    most_parameters: int = 4


DEFAULT: Final = Options()


@dataclass(slots=True)
class _Writer:
    """One function being written: what can be used at this point, and how large its values can be."""

    random: Random
    options: Options
    builder: BlockBuilder
    visible: list[Var] = field(default_factory=list[Var])
    bounds: dict[Var, float] = field(default_factory=dict[Var, float])
    callees: list[tuple[GlobalVar, float]] = field(default_factory=list[tuple[GlobalVar, float]])

    # --- choosing operands

    def tensors(self, accepts: Callable[[TensorType], bool] = lambda ty: True) -> list[Var]:
        """The visible tensors of known shape and dtype that ``accepts`` likes, the latest last."""
        found: list[Var] = []
        for var in self.visible:
            ty = var.ty
            if isinstance(ty, TensorType) and ty.shape is not None and ty.dtype is not None and accepts(ty):
                found.append(var)
        return found

    def pick(self, accepts: Callable[[TensorType], bool] = lambda ty: True) -> Var | None:
        """One of `tensors`, recent ones more often, so that programs grow deep as well as wide."""
        found = self.tensors(accepts)
        if not found:
            return None
        return self.random.choice(found[-4:] if self.random.random() < 0.5 else found)

    def like(self, var: Var) -> Var:
        """A visible tensor of the same type as ``var``, perhaps itself."""
        return self.random.choice(self.tensors(lambda ty: ty == var.ty))

    def axis(self, var: Var) -> int:
        """An axis of ``var``, sometimes counted from the end."""
        ndim = tensor_type(var).ndim
        axis = self.random.randrange(ndim)
        return axis - ndim if self.random.random() < 0.3 else axis

    def constant(self, shape: Sequence[int], dtype: str) -> Expr:
        """A constant of small values, exact in every dtype."""
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
        """Bind ``expr``, unless its values or its size may grow too large."""
        ty = expr.ty
        if isinstance(ty, TensorType):
            if bound > _LIMITS.get(ty.dtype or "", _LIMIT) or _count(ty) > _MOST_ELEMENTS:
                return None
        var = self.builder.emit_output(expr) if output else self.builder.emit(expr)
        self.keep(var, bound)
        return var

    def keep(self, var: Var, bound: float) -> None:
        """Make ``var`` available to what is written after."""
        self.visible.append(var)
        self.bounds[var] = bound


def tensor_type(expr: Expr) -> TensorType:
    """The type of a tensor expression."""
    assert isinstance(expr.ty, TensorType)
    return expr.ty


def _dims(expr: Expr) -> tuple[Dim, ...]:
    shape = tensor_type(expr).shape
    assert shape is not None
    return shape


def _dtype(expr: Expr) -> str:
    dtype = tensor_type(expr).dtype
    assert dtype is not None
    return dtype


def _most(dim: Dim) -> int:
    return evaluate(dim, dict.fromkeys(free_symvars(dim), LARGEST_SIZE))


def _count(ty: TensorType) -> int:
    return _most(dim_product(ty.shape or ()))


# --- the table: each entry gives an expression and the bound of its values, or None if nothing visible suits

Written: TypeAlias = "tuple[Expr, float] | None"
Operation: TypeAlias = Callable[[_Writer], Written]


def _is_number(ty: TensorType) -> bool:
    return ty.dtype != "bool"


def _has_axes(ty: TensorType) -> bool:
    return ty.ndim > 0


def _is_float(ty: TensorType) -> bool:
    return is_float(ty.dtype)


def _unary(write: _Writer) -> Written:
    x = write.pick(_is_float)
    if x is None:
        return None
    name = write.random.choice(("tanh", "sigmoid", "sin", "cos", "negative", "abs", "relu"))
    function = ops.nn.relu if name == "relu" else getattr(ops, name)
    return function(x), write.bound(x) if name in ("negative", "abs", "relu") else 1.0


def _second(write: _Writer, x: Var) -> tuple[Expr, float]:
    """An operand that broadcasts with ``x``: of the same type, or a constant of one row, or a number."""
    choice = write.random.random()
    dims = _dims(x)
    if choice < 0.6:
        y = write.like(x)
        return y, write.bound(y)
    if choice < 0.8 and dims and isinstance(dims[-1], int):
        return write.constant((dims[-1],), _dtype(x)), INPUT_BOUND
    return write.constant((), _dtype(x)), INPUT_BOUND


def _binary(write: _Writer) -> Written:
    x = write.pick(_is_number)
    if x is None:
        return None
    y, bound = _second(write, x)
    name = write.random.choice(("add", "add", "multiply", "maximum", "minimum", "subtract"))
    if name == "subtract" and is_unsigned(_dtype(x)):
        name = "add"
    left, right = (y, x) if write.random.random() < 0.2 else (x, y)
    if name == "multiply":
        bound *= write.bound(x)
    elif name in ("add", "subtract"):
        bound += write.bound(x)
    else:
        bound = max(bound, write.bound(x))
    return getattr(ops, name)(left, right), bound


def _compare(write: _Writer) -> Written:
    x = write.pick(_is_number)
    if x is None:
        return None
    return getattr(ops, write.random.choice(("less", "greater_equal")))(x, _second(write, x)[0]), 1.0


def _logic(write: _Writer) -> Written:
    x = write.pick(lambda ty: ty.dtype == "bool")
    if x is None:
        return None
    return getattr(ops, write.random.choice(("logical_and", "logical_or")))(x, write.like(x)), 1.0


def _choose(write: _Writer) -> Written:
    x = write.pick()
    if x is None:
        return None
    condition = write.pick(lambda ty: ty.dtype == "bool" and ty.shape in (_dims(x), ()))
    if condition is None:
        return None
    y, bound = _second(write, x)
    return ops.where(condition, x, y), max(bound, write.bound(x))


def _convert(write: _Writer) -> Written:
    x = write.pick(lambda ty: not is_unsigned(ty.dtype))
    if x is None:
        return None
    dtype = write.random.choice(
        ["float32", "float64"] if _dtype(x) != "bool" else ["float32", "int32", "int64"]
    )
    return ops.astype(x, dtype), write.bound(x)


def _permute(write: _Writer) -> Written:
    x = write.pick(lambda ty: ty.ndim >= 2)
    if x is None:
        return None
    ndim = tensor_type(x).ndim
    axes = write.random.sample(range(ndim), ndim)
    if write.random.random() < 0.2:
        axes = [axis - ndim for axis in axes]
    return ops.permute_dims(x, None if write.random.random() < 0.3 else axes), write.bound(x)


def _reshape(write: _Writer) -> Written:
    x = write.pick(lambda ty: ty.ndim >= 2)
    if x is None:
        return None
    dims = _dims(x)
    at = write.random.randrange(len(dims) - 1)
    merged = (*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :])
    return ops.reshape(x, merged), write.bound(x)


def _expand(write: _Writer) -> Written:
    x = write.pick(lambda ty: ty.ndim < 4)
    if x is None:
        return None
    return ops.expand_dims(x, write.random.randrange(tensor_type(x).ndim + 1)), write.bound(x)


def _squeeze(write: _Writer) -> Written:
    x = write.pick(lambda ty: 1 in (ty.shape or ()))
    return None if x is None else (ops.squeeze(x, [_dims(x).index(1)]), write.bound(x))


def _concat(write: _Writer) -> Written:
    x = write.pick(_has_axes)
    if x is None:
        return None
    axis = write.axis(x)

    def fits(ty: TensorType) -> bool:
        dims = ty.shape or ()
        return (
            ty.dtype == _dtype(x)
            and ty.ndim == len(_dims(x))
            and all(
                dims_equal(a, b)
                for i, (a, b) in enumerate(zip(dims, _dims(x), strict=True))
                if i != axis % ty.ndim
            )
        )

    parts = [x, *(write.random.choice(write.tensors(fits)) for _ in range(write.random.randint(1, 2)))]
    return ops.concat(parts, axis), max(map(write.bound, parts))


def _stack(write: _Writer) -> Written:
    x = write.pick(lambda ty: ty.ndim < 4)
    return (
        None if x is None else (ops.stack([x, write.like(x)], 0), max(map(write.bound, (x, write.like(x)))))
    )


def _split(write: _Writer) -> Written:
    x = write.pick(lambda ty: any(isinstance(d, int) and d > 1 for d in ty.shape or ()))
    if x is None or not write.options.tuples:
        return None
    axis, size = write.random.choice([(i, d) for i, d in enumerate(_dims(x)) if isinstance(d, int) and d > 1])
    even = [n for n in range(2, size + 1) if size % n == 0]
    if write.random.random() < 0.5 and even:
        return ops.split(x, write.random.choice(even), axis), write.bound(x)
    return ops.split(x, [write.random.randrange(1, size)], axis), write.bound(x)


def _reduce(write: _Writer) -> Written:
    x = write.pick(lambda ty: is_float(ty.dtype) and ty.ndim > 0)
    if x is None:
        return None
    axis = None if write.random.random() < 0.2 else [write.axis(x)]
    name = write.random.choice(("sum", "mean", "max", "min"))
    keepdims = write.random.random() < 0.4
    growth = 1 if name != "sum" else _count(tensor_type(x)) if axis is None else _most(_dims(x)[axis[0]])
    return getattr(ops, name)(x, axis, keepdims), write.bound(x) * growth


def _matmul(write: _Writer) -> Written:
    x = write.pick(lambda ty: is_float(ty.dtype) and ty.ndim >= 2)
    if x is None:
        return None
    inner = _dims(x)[-1]
    others = write.tensors(lambda ty: ty.dtype == _dtype(x) and ty.ndim == 2 and (ty.shape or ())[0] == inner)
    if others and (write.random.random() < 0.6 or not isinstance(inner, int)):
        y: Expr = write.random.choice(others)
        bound = write.bound(y) if isinstance(y, Var) else INPUT_BOUND
    elif isinstance(inner, int):
        width = write.random.choice([size for size in _SIZES if size != inner])
        y, bound = write.constant((inner, width), _dtype(x)), INPUT_BOUND
    else:
        return None
    return ops.matmul(x, y), bound * write.bound(x) * _most(inner)


def _softmax(write: _Writer) -> Written:
    x = write.pick(lambda ty: is_float(ty.dtype) and ty.ndim > 0)
    return None if x is None else (ops.nn.softmax(x, write.axis(x)), 1.0)


def _slice(write: _Writer) -> Written:
    x = write.pick(lambda ty: any(isinstance(d, int) and d > 1 for d in ty.shape or ()))
    if x is None:
        return None
    axis, size = write.random.choice([(i, d) for i, d in enumerate(_dims(x)) if isinstance(d, int) and d > 1])
    begin = write.random.randrange(size - 1)
    end = write.random.randint(begin + 1, size)
    return ops.strided_slice(x, [axis], [begin], [end], [write.random.choice((1, 1, 2))]), write.bound(x)


def _take(write: _Writer) -> Written:
    x = write.pick(lambda ty: bool(ty.shape) and isinstance(ty.shape[0], int))
    if x is None:
        return None
    size = _dims(x)[0]
    assert isinstance(size, int)
    indices = [write.random.randrange(size) for _ in range(write.random.randint(1, 3))]
    return ops.take(x, const(np.array(indices, dtype=np.int64)), 0), write.bound(x)


def _broadcast(write: _Writer) -> Written:
    x = write.pick(lambda ty: ty.ndim < 4)
    return None if x is None else (ops.broadcast_to(x, (2, *_dims(x))), write.bound(x))


def _tuple(write: _Writer) -> Written:
    if not write.options.tuples or not write.visible:
        return None
    fields = [write.random.choice(write.visible) for _ in range(write.random.randint(1, 3))]
    return Tuple(fields), max(map(write.bound, fields))


def _project(write: _Writer) -> Written:
    tuples = [var for var in write.visible if isinstance(var.ty, TupleType) and var.ty.fields]
    if not tuples:
        return None
    chosen = write.random.choice(tuples[-3:])
    assert isinstance(chosen.ty, TupleType)
    return TupleGetItem(chosen, write.random.randrange(len(chosen.ty.fields))), write.bound(chosen)


def _alias(write: _Writer) -> Written:
    x = write.pick()
    return None if x is None else (x, write.bound(x))


def _constant(write: _Writer) -> Written:
    dtype = write.random.choice(write.options.dtypes)
    shape = write.random.sample(_SIZES, write.random.randint(0, 2))
    return write.constant(shape, dtype), INPUT_BOUND


def _call(write: _Writer) -> Written:
    if not write.callees:
        return None
    callee, bound = write.random.choice(write.callees)
    ty = callee.ty
    assert isinstance(ty, FuncType)
    args: list[Var] = []
    sizes: dict[SymVar, Dim] = {}
    # A function's own bound holds for arguments that are as small as inputs.
    small = [var for var in write.visible if write.bound(var) <= INPUT_BOUND]
    for param in ty.params or ():
        fitting = [var for var in small if bind_type(param, var.ty, dict(sizes)) is True]
        if not fitting:
            return None
        args.append(write.random.choice(fitting))
        bind_type(param, args[-1].ty, sizes)
    return Call(callee, args), bound


OPERATIONS: Final[tuple[tuple[Operation, int], ...]] = (
    (_unary, 4),
    (_binary, 8),
    (_compare, 1),
    (_logic, 1),
    (_choose, 2),
    (_convert, 1),
    (_permute, 3),
    (_reshape, 2),
    (_expand, 1),
    (_squeeze, 1),
    (_concat, 3),
    (_stack, 1),
    (_split, 2),
    (_reduce, 2),
    (_matmul, 5),
    (_softmax, 1),
    (_slice, 1),
    (_take, 1),
    (_broadcast, 1),
    (_tuple, 1),
    (_project, 3),
    (_alias, 1),
    (_constant, 1),
    (_call, 2),
)
"""What a binding may be, with how often. To add an operator, add an entry."""

_CHOICES: Final = [operation for operation, _ in OPERATIONS]
_WEIGHTS: Final = [weight for _, weight in OPERATIONS]


# --- bindings, branches, functions


def _write_some(write: _Writer, count: int, output_rate: float = 0.0) -> None:
    """Write about ``count`` bindings; ``output_rate`` is how often one is an output of its dataflow block."""
    for _ in range(count):
        if write.options.casts and write.random.random() < 0.06:
            _cast(write)
            continue
        written = write.random.choices(_CHOICES, _WEIGHTS)[0](write)
        if written is not None:
            write.add(*written, output=write.random.random() < output_rate)


def _cast(write: _Writer) -> None:
    """A cast that always succeeds: to a type with a new size in place of a known one, or to the type it has."""
    x = write.pick(_has_axes)
    if x is None:
        return
    dims = list(_dims(x))
    at = write.random.randrange(len(dims))
    if write.options.symbolic and isinstance(dims[at], int) and write.random.random() < 0.5:
        dims[at] = SymVar("k")
    write.keep(write.builder.match_cast(x, TensorType(dims, _dtype(x))), write.bound(x))


def _write_dataflow(write: _Writer, count: int) -> None:
    outside = len(write.visible)
    with write.builder.dataflow():
        _write_some(write, count, output_rate=0.2)
        inside = [var for var in write.visible[outside:] if isinstance(var, DataflowVar)]
        for var in inside[-1:]:
            write.add(var, write.bound(var), output=True)
    write.visible = [var for var in write.visible if not isinstance(var, DataflowVar)]


def _write_branch(write: _Writer, count: int, depth: int) -> None:
    """An `If` whose two sides compute different things of one type."""
    x = write.pick(_is_number)
    if x is None:
        return
    condition = write.pick(lambda ty: ty.dtype == "bool" and ty.ndim == 0)
    if condition is None:
        reduced = write.builder.emit(ops.max(x, None, False))
        condition = write.builder.emit(ops.greater(reduced, const(0, _dtype(x))))
    sides: list[SeqExpr] = []
    bounds: list[float] = []
    for _ in range(2):
        visible = list(write.visible)
        write.builder.begin_scope()
        _write_body(write, write.random.randint(0, count), depth + 1)
        result = write.random.choice(write.tensors(lambda ty: ty == x.ty))
        bounds.append(write.bound(result))
        sides.append(write.builder.end_scope(result))
        write.visible = visible
    write.keep(write.builder.emit(If(condition, *sides)), max(bounds))


def _write_body(write: _Writer, count: int, depth: int = 0) -> None:
    """Blocks of both kinds, and branches between them, of about ``count`` bindings."""
    while count > 0:
        share = write.random.randint(1, max(count // 2, 3))
        kind = write.random.random()
        if kind < 0.55:
            _write_dataflow(write, share)
        elif kind < 0.8 or depth >= 2 or not write.options.branches:
            _write_some(write, share)
        else:
            _write_branch(write, share, depth)
        count -= share


def _odd_constants(write: _Writer) -> list[Var]:
    arrays = [
        np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40], dtype=np.float32),
        np.array(5e-324),
        np.zeros((0, 3), dtype=np.float32),
        np.array([2**64 - 1], dtype=np.uint64),
        np.array(-(2**63), dtype=np.int64),
        np.array([1.5, -2.0], dtype=numpy_dtype("bfloat16")),
        np.array([0.5, 448.0], dtype=numpy_dtype("float8_e4m3fn")),
        np.array([-8, 7], dtype=numpy_dtype("int4")),
        np.array([True, False]),
    ]
    return [write.builder.emit(const(array)) for array in write.random.sample(arrays, 3)]


def _parameters(random: Random, options: Options) -> list[Var]:
    sizes: list[Dim] = random.sample(_SIZES, len(_SIZES))
    if options.symbolic:
        sizes += [SymVar("n"), SymVar("m")]
    params: list[Var] = []
    for i in range(random.randint(1, options.most_parameters)):
        shape = random.sample(sizes, random.choice((0, 1, 2, 2, 2, 3, 3)))
        ty: Type = TensorType(shape, random.choice(options.dtypes))
        if params and random.random() < 0.3:
            ty = random.choice(params).ty
        elif options.tuples and random.random() < 0.1:
            ty = TupleType([ty, TensorType(random.sample(sizes, 2), "float32")])
        params.append(Var("xyzw"[i % 4] + (str(i // 4) if i >= 4 else ""), ty))
    return params


def _write_function(
    builder: BlockBuilder, name: str, params: Sequence[Var], size: int, write: _Writer, private: bool
) -> tuple[GlobalVar, float]:
    with builder.function(name, params, private=private):
        for param in params:
            write.keep(param, INPUT_BOUND)
        _write_body(write, size)
        results = write.random.sample(write.visible, min(len(write.visible), write.random.randint(1, 3)))
        if write.visible[-1] not in results:
            results.append(write.visible[-1])
        if write.options.odd_constants:
            results += _odd_constants(write)
        bound = max(map(write.bound, results))
        variable = builder.emit_func_output(results[0] if len(results) == 1 else results)
    return variable, bound


def random_module(
    seed: int | Random, size: int = 20, options: Options = DEFAULT, helpers: int = 1
) -> IRModule:
    """A module with a public function ``main`` of about ``size`` bindings, and ``helpers`` functions that it may call.

    ``seed`` is a number, or a source of randomness to draw from. Every function can run on `random_inputs`.
    """
    random = seed if isinstance(seed, Random) else Random(seed)
    builder = BlockBuilder()
    params = _parameters(random, options)
    callees: list[tuple[GlobalVar, float]] = []
    for i in range(helpers):
        # Parameters of the types of main's, over sizes of their own, so that there is something to call it with.
        fresh = {size: SymVar(size.name) for param in params for size in type_symvars(param.ty)}
        chosen = random.sample(params, random.randint(1, len(params)))
        own = [Var(f"p{j}", substitute_type(param.ty, fresh)) for j, param in enumerate(chosen)]
        write = _Writer(random, options, builder, callees=list(callees))
        callees.append(
            _write_function(builder, f"helper{i}", own, max(size // 4, 2), write, random.random() < 0.5)
        )
    write = _Writer(random, options, builder, callees=callees)
    _write_function(builder, "main", params, size, write, private=False)
    return builder.get()


def random_function(seed: int | Random, size: int = 20, options: Options = DEFAULT) -> Function:
    """A public function ``main`` of about ``size`` bindings that calls no other; see `random_module`."""
    return random_module(seed, size, options, helpers=0)["main"]


def random_inputs(function: Function, seed: int = 0) -> list[Any]:
    """Arrays for the parameters of ``function`` (tuples of them for tuples), with all symbolic sizes different.

    Numbers are between -2 and 2. Sizes count up from 3 and stay below `LARGEST_SIZE` as long as there are
    enough. Parameters whose type is not known in full are a `ValueError`.
    """
    values = np.random.default_rng(seed)
    sizes: dict[SymVar, int] = {}
    for param in function.params:
        for size in type_symvars(param.ty):
            sizes.setdefault(size, min(3 + len(sizes), LARGEST_SIZE))
    return [_random_value(param.ty, sizes, values, param.name_hint) for param in function.params]


def _random_value(ty: Type, sizes: Mapping[SymVar, int], values: np.random.Generator, name: str) -> Any:
    if isinstance(ty, TupleType):
        return tuple([_random_value(item, sizes, values, name) for item in ty.fields])
    if isinstance(ty, ShapeType) and ty.values is not None:
        return tuple([evaluate(dim, sizes) for dim in ty.values])
    if not isinstance(ty, TensorType) or ty.shape is None or ty.dtype is None:
        raise ValueError(f"parameter {name} is {ty!r}; random inputs need a tensor of known shape and dtype")
    shape = [evaluate(dim, sizes) for dim in ty.shape]
    if ty.dtype == "bool":
        return values.integers(0, 2, size=shape).astype(np.bool_)
    if is_float(ty.dtype):
        return values.uniform(-INPUT_BOUND, INPUT_BOUND, size=shape).astype(numpy_dtype(ty.dtype))
    low = 0 if is_unsigned(ty.dtype) else -2
    return values.integers(low, 3, size=shape).astype(numpy_dtype(ty.dtype))


def programs(most: int = 30, options: Options = DEFAULT, helpers: int = 1) -> SearchStrategy[IRModule]:
    """A hypothesis strategy for `random_module` of up to ``most`` bindings; failing programs shrink."""
    from hypothesis import strategies

    @strategies.composite
    def draw_program(draw: strategies.DrawFn) -> IRModule:
        size = draw(strategies.integers(1, most))
        return random_module(draw(strategies.randoms(use_true_random=False)), size, options, helpers)

    return draw_program()

"""Random well-typed programs, and inputs to run them on.

The same seed gives the same program. Programs have blocks of both kinds, tuples, casts, branches, calls between
functions, symbolic sizes and constants of many dtypes. Sizes mostly differ, because square matrices hide transposes.
Values stay small and defined on every path, so that the results of two engines can be compared. The operators come
from a table (`random_operations`): each entry writes one binding.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .. import op as ops
from ..ir import (
    BlockBuilder,
    DataflowVar,
    Dim,
    Function,
    GlobalVar,
    If,
    IRModule,
    PrimValue,
    SeqExpr,
    SymVar,
    TensorType,
    TupleType,
    Type,
    Var,
    const,
)
from ..ir.dims import evaluate
from ..ir.dtypes import numpy_dtype
from ..ir.types import substitute_type, type_symvars
from ..op.primitive.loop import STEP
from ..reference.trials import NoValueError, random_value
from .random_operations import (
    CHOICES,
    DEFAULT,
    INPUT_BOUND,
    LARGEST_SIZE,
    SIZES,
    WEIGHTS,
    Options,
    RandomWriter,
    dims_of,
    dtype_of,
    has_axes,
    is_number,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_WHOLE: Final = (-2, 2)
"""The least and the greatest integer in the arrays of `random_inputs`."""
LOOP_BOUND: Final = 4.0
"""The bound on the absolute values that a loop carries."""

# --- bindings, branches, functions


def _write_some(write: RandomWriter, count: int, output_rate: float = 0.0) -> None:
    """Write about ``count`` bindings. Each is an output of its dataflow block with probability ``output_rate``."""
    for _ in range(count):
        if write.options.casts and write.random.random() < 0.06:
            _cast(write)
            continue
        written = write.random.choices(CHOICES, WEIGHTS)[0](write)
        if written is not None:
            write.add(*written, output=write.random.random() < output_rate)


def _cast(write: RandomWriter) -> None:
    """Write a cast that always succeeds: to the tensor's own type, or with a fixed size replaced by a new symbol."""
    x = write.pick(has_axes)
    if x is None:
        return
    dims = list(dims_of(x))
    at = write.random.randrange(len(dims))
    if write.options.symbolic and isinstance(dims[at], int) and write.random.random() < 0.5:
        dims[at] = SymVar("k")
    write.keep(write.builder.match_cast(x, TensorType(dims, dtype_of(x))), write.bound(x))


def _write_dataflow(write: RandomWriter, count: int) -> None:
    outside = len(write.visible)
    with write.builder.dataflow():
        _write_some(write, count, output_rate=0.2)
        inside = [var for var in write.visible[outside:] if isinstance(var, DataflowVar)]
        for var in inside[-1:]:
            write.add(var, write.bound(var), output=True)
    write.visible = [var for var in write.visible if not isinstance(var, DataflowVar)]


def _write_branch(write: RandomWriter, count: int, depth: int) -> None:
    """Write an `If` whose two branches compute different values of the same type."""
    x = write.pick(is_number)
    if x is None:
        return
    condition = write.pick(lambda ty: ty.dtype == "bool" and ty.ndim == 0)
    if condition is None:
        reduced = write.builder.emit(ops.max(x, None, False))
        condition = write.builder.emit(ops.greater(reduced, const(0, dtype_of(x))))
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


def _write_loop(write: RandomWriter, count: int, depth: int) -> None:
    """Write a loop: up to three carried values, a scanned tensor or a number of steps, stacked rows, a condition."""
    random, builder = write.random, write.builder
    starts = random.sample(found := write.tensors(is_number), random.randint(0, min(len(found), 3)))
    scanned = [x for x in [write.pick(has_axes)] if x is not None and random.random() < 0.5]
    until = not scanned and random.random() < 0.5
    params = [Var("step", STEP), *[Var(f"c{i}", start.ty) for i, start in enumerate(starts)]]
    params += [Var("row", TensorType(dims_of(x)[1:], dtype_of(x))) for x in scanned]
    limits = dict.fromkeys(params[1 : 1 + len(starts)], LOOP_BOUND)
    limits.update(zip(params[1 + len(starts) :], map(write.bound, scanned), strict=True))

    visible = list(write.visible)
    builder.begin_scope(params)
    for param in params[1:]:
        write.keep(param, limits[param])
    _write_body(write, random.randint(1, max(count, 1)), depth + 1)
    results = [_within_bounds(write, random.choice(write.tensors(lambda ty, x=x: ty == x.ty))) for x in starts]
    rows = random.sample(seen := write.tensors(), random.randint(0, min(len(seen), 2)))
    if until:
        total = builder.emit(ops.add(params[0], const(random.randint(0, 2), "int64")))
        results.insert(0, builder.emit(ops.less(total, const(random.randint(0, 3), "int64"))))
    body = Function(params, builder.end_scope([*results, *rows]))
    write.visible = visible

    condition = builder.emit(const(random.random() < 0.8)) if until else None
    steps = None if scanned else random.choice((PrimValue(random.randint(0, 3)), const(random.randint(0, 3), "int64")))
    inside = [builder.emit(_within_bounds(write, start)) for start in starts]
    whole = builder.emit(ops.loop(builder.emit(body, "body"), inside, scanned, steps, condition))
    for place in range(len(starts) + len(rows)):
        bound = LOOP_BOUND if place < len(starts) else write.bound(rows[place - len(starts)])
        field = whole[place]
        if 0 not in (getattr(field.ty, "shape", None) or ()):  # a maximum of nothing is refused
            write.add(field, bound)


def _within_bounds(write: RandomWriter, x: Var) -> Var:
    """``x``, clipped to `LOOP_BOUND` if its bound is larger, so that it stays bounded in every step of a loop."""
    if write.bound(x) <= LOOP_BOUND:
        return x
    return write.builder.emit(ops.clip(x, -LOOP_BOUND, LOOP_BOUND))


def _write_body(write: RandomWriter, count: int, depth: int = 0) -> None:
    """Write about ``count`` bindings: blocks of both kinds, with branches and loops between them."""
    while count > 0:
        share = write.random.randint(1, max(count // 2, 3))
        kind = write.random.random()
        if write.options.loops and depth < 2 and kind > 0.8:
            _write_loop(write, share, depth)
        elif kind < 0.55:
            _write_dataflow(write, share)
        elif kind < 0.9 or depth >= 2 or not write.options.branches:
            _write_some(write, share)
        else:
            _write_branch(write, share, depth)
        count -= share


def _odd_constants(write: RandomWriter) -> list[Var]:
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
    sizes: list[Dim] = random.sample(SIZES, len(SIZES))
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
    builder: BlockBuilder, name: str, params: Sequence[Var], size: int, write: RandomWriter, private: bool
) -> tuple[GlobalVar, float]:
    with builder.function(name, params, private=private):
        for param in params:
            write.keep(param, INPUT_BOUND)
        _write_body(write, size)
        results = write.random.sample(write.visible, min(len(write.visible), write.random.randint(1, 3)))
        if write.visible[-1] not in results:
            results.append(write.visible[-1])
        if write.options.odd_constants and not private:
            results += _odd_constants(write)
        bound = max(map(write.bound, results))
        variable = builder.emit_func_output(results[0] if len(results) == 1 else results)
    return variable, bound


def random_module(seed: int | Random, size: int = 20, options: Options = DEFAULT, helpers: int = 1) -> IRModule:
    """A module with a public function ``main`` of about ``size`` bindings, and ``helpers`` functions that it may call.

    ``seed`` is a number, or a `random.Random` to draw from. Every function can run on `random_inputs`.
    """
    random = seed if isinstance(seed, Random) else Random(seed)
    builder = BlockBuilder()
    params = _parameters(random, options)
    callees: list[tuple[GlobalVar, float]] = []
    for i in range(helpers):
        # The parameters have the types of parameters of main with fresh size variables, so that main can call it.
        fresh = {size: SymVar(size.name) for param in params for size in type_symvars(param.ty)}
        chosen = random.sample(params, random.randint(1, len(params)))
        own = [Var(f"p{j}", substitute_type(param.ty, fresh)) for j, param in enumerate(chosen)]
        write = RandomWriter(random, options, builder, callees=list(callees))
        callees.append(_write_function(builder, f"helper{i}", own, max(size // 4, 2), write, random.random() < 0.5))
    write = RandomWriter(random, options, builder, callees=callees)
    _write_function(builder, "main", params, size, write, private=False)
    return builder.get()


def random_function(seed: int | Random, size: int = 20, options: Options = DEFAULT) -> Function:
    """A public function ``main`` of about ``size`` bindings that calls no other function. See `random_module`."""
    return random_module(seed, size, options, helpers=0)["main"]


def random_inputs(function: Function, seed: int = 0) -> list[Any]:
    """Random arrays for the parameters of ``function`` (tuples of arrays for tuples).

    Numbers are between -2 and 2. Symbolic sizes count up from 8, which is larger than any fixed size, to
    `LARGEST_SIZE`; they are all different if there are at most five. Raises `ValueError` if the type of a parameter is
    not fully known.
    """
    values = np.random.default_rng(seed)
    sizes: dict[SymVar, int] = {}
    for param in function.params:
        for size in type_symvars(param.ty):
            sizes.setdefault(size, min(8 + len(sizes), LARGEST_SIZE))
    found: list[Any] = []
    for param in function.params:
        try:
            found.append(random_value(param.ty, lambda dim: evaluate(dim, sizes), values, _WHOLE, INPUT_BOUND))
        except NoValueError as error:
            what = f"parameter {param.name_hint} is {param.ty!r}"
            raise ValueError(f"{what}; random inputs need a tensor of known shape and dtype") from error
    return found


def programs(most: int = 30, options: Options = DEFAULT, helpers: int = 1) -> SearchStrategy[IRModule]:
    """A hypothesis strategy for modules of `random_module` of up to ``most`` bindings. Failing programs shrink."""
    from hypothesis import strategies

    @strategies.composite
    def draw_program(draw: strategies.DrawFn) -> IRModule:
        size = draw(strategies.integers(1, most))
        return random_module(draw(strategies.randoms(use_true_random=False)), size, options, helpers)

    return draw_program()

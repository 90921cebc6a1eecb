"""A module compiled by XLA: one computation for each function and each set of sizes that it is called with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np

from ..ir.dims import Dim, SymExpr, evaluate, free_symvars
from ..ir.dtypes import numpy_dtype
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Function
from ..ir.tensor_data import TensorData
from ..ir.types import PrimType, ShapeType, TensorType, TupleType, Type
from ..op.primitive.dist import ANNOTATE_SHARDING, DeviceMesh
from .arrays import Signature
from .errors import BuildError, TypeCheckError
from .failures import located
from .function_writer import FunctionWriter, write_module
from .lifted_constants import CompiledKey, constant_key
from .onnx_node import NodeEngine, carried_node
from .python_source import CallText, Dialect, PythonModule, kernel_texts
from .sharding_gate import ShardedTensor
from .xla_calls import LOWERINGS, OutsideCalls, call_extern, helpers
from .xla_kernels import KERNELS
from .xla_library import JaxArray, compilation_cache, jax, jnp
from .xla_placement import Placement, carrier
from .xla_processes import agree, await_the_end, process_count
from .xla_report import SCOPE, FunctionReport, collectives_of, memory_of, sizes_text
from .xla_values import ARRAY, CompiledValue, array_dtype, assemble, dissect, take_tensor

_cache_lock: Final = Lock()
_CACHE_SETTINGS: Final = {
    "jax_compilation_cache_dir": None,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
"""JAX's settings for keeping compiled computations; None is replaced by the directory."""


@contextmanager
def engine_settings() -> Generator[None]:
    """JAX's settings for our programs, in this thread and inside the ``with`` block: 64 bits and exact products."""
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


def dialect(module: IRModule, outside: OutsideCalls, placement: Placement) -> Dialect:
    """The dialect of Python in which ``module`` is written for XLA."""
    meshes: Mapping[str, Sequence[DeviceMesh]] = module.global_infos

    def annotate(writer: FunctionWriter, call: Call) -> str:
        operand = writer.operand(call.args[0])
        if placement.mesh is None:
            return operand
        return f"annotated({operand}, {placement.annotation(f'{writer.name}: {operand}', call, meshes)!r})"

    lowerings, kernels = kernel_texts("xla", {name: _scoped(kernel) for name, kernel in KERNELS.items()})
    made = Dialect(
        "xla",
        jnp,
        _known_constant,
        array_dtype,
        {**LOWERINGS, **lowerings, ANNOTATE_SHARDING.name: CallText(annotate)},
        {**helpers(outside), **kernels, "annotated": placement.annotated},
        traced=True,
        write_extern=call_extern,
        carried=lambda call: carried_node(call, node_engine),
    )

    def compile_node(node: IRModule) -> Callable[..., Any]:
        program = write_module(node, made, "<regraft xla node>", verify_types=False)
        return program.namespace[program.functions["main"]]

    node_engine = NodeEngine(compile_node, array_dtype, _numbers)
    return made


def _numbers(value: Any) -> np.ndarray | None:
    return None if isinstance(value, jax.core.Tracer) else np.asarray(value)


def _known_constant(data: TensorData) -> JaxArray:
    return jnp.asarray(data.numpy())


def _caller_line() -> int:
    """The line of the program's text that called the caller of this function."""
    return sys._getframe(2).f_lineno  # pyright: ignore[reportPrivateUsage]


def _scoped(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, with its operations labeled in the compiled program by the line of the text that called it."""

    def run(*operands: Any, **attributes: Any) -> Any:
        with jax.named_scope(f"{SCOPE}{_caller_line()}"):
            return function(*operands, **attributes)

    return run


class ArgumentSignature(NamedTuple):
    """The signature of a compiled function: the template of its arguments, and the shape and dtype of each array."""

    template: Any
    arrays: tuple[tuple[tuple[int, ...], Any], ...]


class Compiled(NamedTuple):
    """A function compiled for one signature."""

    run: Any
    result: Any
    """The template of its results, whose arrays ``run`` returns."""


class Home:
    """The common state of a module's functions: its text, its devices, and the weights on them."""

    def __init__(
        self,
        program: PythonModule,
        placement: Placement,
        outside: OutsideCalls,
        cache: str | None,
        options: Mapping[str, Any] | None,
    ) -> None:
        self.program: Final = program
        self.placement: Final = placement
        self.outside: Final = outside
        self.cache: Final = cache
        self.options: Final = dict(options or {})
        self._weights: Final[dict[CompiledKey, JaxArray]] = {}
        for name in [name for name in program.namespace if name in program.operators]:
            program.namespace[name] = _scoped(program.namespace[name])

    def weight(self, data: TensorData) -> JaxArray:
        """A weight in its place; it is transferred there the first time."""
        key = constant_key(data)
        found = self._weights.get(key)
        if found is None:
            sharding = self.placement.sharding(data.name)
            found = self._weights[key] = self.placement.put_weight(data, sharding)
        return found


class XlaFunction:
    """One function of the module: when called with arrays, it compiles for their sizes, once, and runs."""

    def __init__(
        self,
        name: str,
        function: Function,
        weights: Sequence[TensorData],
        home: Home,
        donated: frozenset[str] = frozenset(),
    ) -> None:
        self.name: Final = name
        self.function: Final = function
        self.weights: Final = tuple(weights)
        self.home: Final = home
        self.compiled: Final[dict[ArgumentSignature, Compiled]] = {}
        self._run: Final[Callable[..., Any]] = home.program.namespace[home.program.functions[name]]
        self._signature: Final = Signature(name, function.params, take_tensor)
        self._hints: Final = tuple([param.name_hint for param in function.params])
        self._placed: Final = {leaf.name: leaf for p in function.params for leaf in leaves_of(p.name_hint, p.ty)}
        self._donated: Final = donated
        self._lock: Final = Lock()

    def __call__(self, *arguments: Any) -> Any:
        """The results for these arguments, as JAX arrays."""
        arrays: list[Any] = []
        template = dissect(tuple(self._signature.values(arguments)), arrays)
        signature = ArgumentSignature(template, tuple([(array.shape, array.dtype) for array in arrays]))
        with engine_settings():
            compiled = self.compile(signature)
            placement = self.home.placement
            names = array_names(template, self._hints)
            given = [placement.put_argument(a, placement.sharding(n)) for a, n in zip(arrays, names, strict=True)]
            weights = [self.home.weight(data) for data in self.weights]
            borrowed = any(not isinstance(array, jax.Array) for array in arrays)
            parted = self._parted(names, given)
            return assemble(compiled.result, iter(self._finished(compiled, parted, weights, wait=borrowed)))

    def compile(self, signature: ArgumentSignature) -> Compiled:
        """The function compiled for one signature. Cost: XLA's compilation once, seconds for a large model; then
        nothing.
        """
        found = self.compiled.get(signature)
        if found is not None:
            return found
        with self._lock, engine_settings(), _kept_in(self.home.cache):
            found = self.compiled.get(signature)
            if found is not None:
                return found
            self._check_sizes(signature)
            with self._located():
                lowered, result = self._lowered(signature)
            if process_count() > 1:
                agree(self.name, lowered.as_text())
            with self._located():
                found = self.compiled[signature] = Compiled(lowered.compile(self.home.options), result)
            return found

    def signature(self, sizes: Mapping[str, int]) -> ArgumentSignature:
        """The signature of the function, from the types of its parameters and ``sizes`` by name.

        Raises `BuildError` for a parameter whose type does not determine its sizes, and for a missing size.
        """
        arrays: list[tuple[tuple[int, ...], Any]] = []
        given = dict(sizes)
        template = tuple(
            [_template(p.ty, f"{self.name}: parameter {p.name_hint}", given, arrays) for p in self.function.params]
        )
        return ArgumentSignature(template, tuple(arrays))

    def report(self, signature: ArgumentSignature) -> FunctionReport:
        """The report on the program for ``signature``; compiles the program first if necessary, without weights."""
        compiled = self.compile(signature).run
        arguments, temporaries, results, aliased = memory_of(compiled)
        placement = self.home.placement
        weights = 0
        for data in self.weights:
            weights += prod(placement.sharding(data.name).shard_shape(data.shape)) * numpy_dtype(data.dtype).itemsize
        return FunctionReport(
            self.name,
            sizes_text(array_names(signature.template, self._hints), signature.arrays),
            placement.device_count,
            weights,
            arguments,
            temporaries,
            results,
            aliased,
            collectives_of(compiled.as_text(), self.home.program),
        )

    def _check_sizes(self, signature: ArgumentSignature) -> None:
        """Raise `BuildError` if sizes that were symbolic until now do not divide by their numbers of parts."""
        names = array_names(signature.template, self._hints)
        for name, (shape, _) in zip(names, signature.arrays, strict=True):
            self.home.placement.check_sizes(f"{self.name}: inputs", self._placed.get(name), shape)

    def _lowered(self, signature: ArgumentSignature) -> tuple[Any, Any]:
        placement = self.home.placement
        results: list[Any] = []

        def traced(kept: dict[int, Any], donated: dict[int, Any], weights: list[Any]) -> list[Any]:
            leaves: list[Any] = []
            given = [array for _, array in sorted((kept | donated).items())]
            arrays = [array.astype(dtype) for array, (_, dtype) in zip(given, signature.arrays, strict=True)]
            weights = [w.astype(numpy_dtype(data.dtype)) for w, data in zip(weights, self.weights, strict=True)]
            results.append(dissect(self._run(*assemble(signature.template, iter(arrays)), *weights), leaves))
            return leaves

        names = array_names(signature.template, self._hints)
        structures: list[Any] = []
        for name, (shape, dtype) in zip(names, signature.arrays, strict=True):
            structures.append(jax.ShapeDtypeStruct(shape, carrier(dtype), sharding=placement.sharding(name)))
        weights = [
            jax.ShapeDtypeStruct(data.shape, carrier(numpy_dtype(data.dtype)), sharding=placement.sharding(data.name))
            for data in self.weights
        ]
        lowered = jax.jit(traced, keep_unused=True, donate_argnums=1).lower(*self._parted(names, structures), weights)
        return lowered, results[0]

    def _parted(self, names: Sequence[str], values: Sequence[Any]) -> tuple[dict[int, Any], dict[int, Any]]:
        """``values`` by their positions: those that are kept, and those whose memory the results may reuse."""
        parts: tuple[dict[int, Any], dict[int, Any]] = {}, {}
        for index, (name, value) in enumerate(zip(names, values, strict=True)):
            parts[name.partition("[")[0] in self._donated][index] = value
        return parts

    def _finished(self, compiled: Compiled, arrays: Any, weights: list[Any], *, wait: bool) -> list[JaxArray]:
        """The results of a run. Waits for them if the run may call external functions or reads the caller's memory."""
        outside = self.home.outside
        with self._located(), _explained():
            found = compiled.run(*arrays, weights)
            if wait or outside.has_calls:
                jax.block_until_ready(found)
            if outside.has_calls:
                jax.effects_barrier()
                error = outside.take_error()
                if error is not None:
                    raise error
            return found

    @contextmanager
    def _located(self) -> Generator[None]:
        """Convert errors of JAX, and of everything that runs inside, into ours with the place in the program. A
        `TypeCheckError` stays as it is.
        """
        try:
            yield
        except TypeCheckError:
            raise
        except Exception as error:
            own = self.home.outside.take_error() or error
            found = located(self.home.program, self.name, own)
            if isinstance(own, _NEEDS_VALUES):
                what, where = [found.args[0].partition(mark) for mark in (" failed: ", "\n  at: ")]
                raise BuildError(
                    f"{what[0]} needs a value that is known only when it runs; XLA compiles first{where[1]}{where[2]}"
                ) from error
            raise (BuildError(*found.args) if isinstance(own, BuildError) else found) from error


@contextmanager
def _explained() -> Generator[None]:
    """Report the end of another process as such, instead of as a missing answer."""
    try:
        yield
    except Exception:
        await_the_end()
        raise


_NEEDS_VALUES: Final = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""JAX's errors for Python code that needs a number which a traced array does not have yet."""


@contextmanager
def _kept_in(directory: str | None) -> Generator[None]:
    """Keep compiled computations in ``directory`` inside the ``with`` block; JAX's own settings are restored
    afterwards.
    """
    if directory is None:
        yield
        return
    with _cache_lock:
        before = {name: getattr(jax.config, name) for name in _CACHE_SETTINGS}
        try:
            for name, value in _CACHE_SETTINGS.items():
                jax.config.update(name, directory if value is None else value)
            compilation_cache.reset_cache()
            yield
        finally:
            for name, value in before.items():
                jax.config.update(name, value)
            compilation_cache.reset_cache()


def leaves_of(name: str, ty: Type, origin: str = "") -> Iterator[ShardedTensor]:
    """The tensors of a parameter: the parameter itself, or the fields of a tuple, ``name[0]`` and so on."""
    if isinstance(ty, TensorType):
        yield ShardedTensor(name, ty.shape, ty.dtype, origin)
    elif isinstance(ty, TupleType):
        for index, field in enumerate(ty.fields):
            yield from leaves_of(f"{name}[{index}]", field, origin)


def _template(ty: Type, place: str, sizes: Mapping[str, int], arrays: list[tuple[tuple[int, ...], Any]]) -> Any:
    """The template of a value of type ``ty``, as from `dissect`; shapes and dtypes of its arrays are added to
    ``arrays``.
    """
    if isinstance(ty, TupleType):
        return tuple([_template(field, f"{place}[{i}]", sizes, arrays) for i, field in enumerate(ty.fields)])
    if isinstance(ty, TensorType) and ty.shape is not None and ty.dtype is not None:
        arrays.append((tuple([_size(dim, place, sizes) for dim in ty.shape]), np.dtype(numpy_dtype(ty.dtype))))
        return ARRAY
    if isinstance(ty, ShapeType) and ty.values is not None:
        return tuple([CompiledValue(int, _size(dim, place, sizes)) for dim in ty.values])
    if isinstance(ty, PrimType) and ty.value is not None and not isinstance(ty.value, SymExpr):
        return CompiledValue(type(ty.value), ty.value)
    raise BuildError(f"{place} is {ty!r}, which does not determine the compiled program; call the function first")


def _size(dim: Dim, place: str, sizes: Mapping[str, int]) -> int:
    missing = [variable.name for variable in free_symvars(dim) if variable.name not in sizes]
    if missing:
        raise BuildError(f"{place} has a size {dim}; say what {missing[0]} is: sizes={{{missing[0]!r}: 128}}")
    return evaluate(dim, {variable: sizes[variable.name] for variable in free_symvars(dim)})


def array_names(template: Sequence[Any], hints: Sequence[str]) -> list[str]:
    """The name of each array in the arguments' template, in the form of `leaves_of`."""
    names: list[str] = []
    pending: list[tuple[str, Any]] = list(zip(hints, template, strict=True))[::-1]
    while pending:
        name, part = pending.pop()
        if part is ARRAY:
            names.append(name)
        elif not isinstance(part, CompiledValue):
            fields = [(f"{name}[{i}]", field) for i, field in enumerate(part)]
            pending.extend(fields[::-1])
    return names

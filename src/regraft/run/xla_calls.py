"""Effects and branches in a traced program: choose a branch, call external functions, print, assert.

While JAX traces a program, its tensors have no values. Both sides of a branch are traced. An external function is
called when the compiled program runs, with NumPy arrays, and its result must have the type in the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from ..ir.dtypes import numpy_dtype
from ..ir.expr import ExternFunc, GlobalVar
from ..ir.op import Call
from ..ir.types import TensorType, TupleType, Type
from .errors import BuildError, ExecutionError
from .externs import get_global_func
from .numpy_kernel import NumpyKernel
from .packed import LOWERINGS as COMMON
from .packed import assert_holds, call_inplace, callee_text, close_over, print_values
from .python_source import CallText, called, outside_text
from .xla_library import Primitive, io_callback, jax, jnp, lax, mlir
from .xla_loops import loop
from .xla_values import assemble, dissect

if TYPE_CHECKING:
    from .function_writer import FunctionWriter

Slots = Any
"""The tensors of a call's result: pairs of dtype and shape, nested in tuples like the result."""


class OutsideCalls:
    """The calls that leave one program, and the first error that one of them raised.

    JAX reports an error in a callback as a text inside its own error; here the original is kept and raised.
    ``on_one_device`` says that the program runs on a single device.
    """

    def __init__(self, on_one_device: bool) -> None:
        self.error: Exception | None = None
        self.has_calls = False
        self._on_one_device = on_one_device

    def take_error(self) -> Exception | None:
        """The first error since the last call of this method; it is then cleared."""
        error, self.error = self.error, None
        return error

    def _outside(self, function: Callable[..., Any], values: tuple[Any, ...], result: Slots, *, pure: bool) -> Any:
        """The result of ``function`` on NumPy arrays made from the tensors in ``values`` when the program runs.

        JAX calls it in a thread without our settings, where 64-bit numbers would become 32-bit ones. So 64-bit numbers
        are passed and returned as pairs of 32-bit integers.
        """
        self.has_calls = True
        arrays: list[Any] = []
        template = dissect(values, arrays)
        dtypes = [array.dtype for array in arrays]
        leaves, tree = jax.tree.flatten(_structures(result))

        def run(*given: Any) -> Any:
            try:
                operands = [
                    np.array(array).view(dtype)[..., 0] if _is_wide(dtype) else np.array(array)
                    for array, dtype in zip(given, dtypes, strict=True)
                ]
                return [
                    np.ascontiguousarray(array)[..., None].view("uint32") if _is_wide(array.dtype) else array
                    for array in jax.tree.leaves(function(*assemble(template, iter(operands))))
                ]
            except Exception as error:
                self.error = self.error or error
                raise

        sent = [_bits(array) if _is_wide(array.dtype) else array for array in arrays]
        wanted = [jax.ShapeDtypeStruct((*one.shape, 2), "uint32") if _is_wide(one.dtype) else one for one in leaves]
        if not pure:
            given = io_callback(run, wanted, *sent, ordered=True)
        elif self._on_one_device:
            given = _outside.bind(*sent, run=run, results=tuple(wanted))
        else:
            given = jax.pure_callback(run, wanted, *sent, vmap_method="sequential")
        pairs = zip(given, leaves, strict=True)
        made = [_bits(one, leaf.dtype) if _is_wide(leaf.dtype) else one for one, leaf in pairs]
        return jax.tree.unflatten(tree, made)

    def call(self, pure: bool, callee: str | Callable[..., Any], result: Slots, *arguments: Any) -> Any:
        """``callee(*arguments)`` when the program runs, with a result that has the dtypes and shapes in ``result``."""
        if not isinstance(callee, str | NumpyKernel):
            return callee(*arguments)
        name = callee if isinstance(callee, str) else callee.name

        def run(*values: Any) -> Any:
            function = get_global_func(callee) if isinstance(callee, str) else callee
            return _checked(function(*values), result, name)

        return self._outside(run, arguments, result, pure=pure)

    def call_inplace(
        self, callee: str | Callable[..., Any], indices: tuple[int, ...], result: Slots, *arguments: Any
    ) -> Any:
        """Like `call`, for a function that overwrites the arguments at ``indices``; it gets copies of them."""
        if not isinstance(callee, str):
            raise ExecutionError("call_inplace_packed of a closure cannot run on 'xla': closures overwrite nothing")
        name = callee

        def run(*values: Any) -> Any:
            return _checked(call_inplace(np.copy, name, indices, *values), result, name)

        return self._outside(run, arguments, result, pure=True)

    def call_dps(self, callee: str | Callable[..., Any], arguments: tuple[Any, ...], *outputs: Any) -> tuple[Any, ...]:
        """Like `call`, for a function that writes its results into arrays passed after its inputs."""

        def run(*values: Any) -> tuple[np.ndarray, ...]:
            results = tuple([np.empty(shape, numpy_dtype(dtype)) for dtype, shape in outputs])
            function = get_global_func(callee) if isinstance(callee, str) else callee
            function(*values, *results)
            return results

        return self._outside(run, arguments, outputs, pure=True)

    def print_values(self, *values: Any, form: str) -> tuple[()]:
        """Print values when the program runs, in the order of the program."""
        return self._report(partial(print_values, form=form), values)

    def assert_holds(self, condition: Any, *values: Any, form: str) -> tuple[()]:
        """Make the run raise `ExecutionError` unless ``condition`` is true."""
        return self._report(partial(assert_holds, form=form), (condition, *values))

    def _report(self, report: Callable[..., Any], values: tuple[Any, ...]) -> tuple[()]:
        def run(*given: Any) -> tuple[()]:
            report(*given)
            return ()

        return self._outside(run, values, (), pure=False)


_outside: Final = Primitive("outside")
"""A call without effects of an external function, which takes the operands without copying them.

JAX's own `pure_callback` copies them into new JAX arrays first, which takes several times as long as the call for small
arrays.
"""
_outside.multiple_results = True


def _is_wide(dtype: np.dtype[Any]) -> bool:
    return dtype.itemsize == 8 and dtype.kind in "iuf"


def _bits(array: Any, dtype: Any = "uint32") -> Any:
    """64-bit numbers as pairs of 32-bit integers, or such pairs as numbers of ``dtype``."""
    return lax.bitcast_convert_type(array, dtype)


def _outside_types(*_operands: Any, run: Callable[..., Any], results: Sequence[Any]) -> list[Any]:
    del run
    return [jax.core.ShapedArray(result.shape, result.dtype) for result in results]


def _lower_outside(context: Any, *operands: Any, run: Callable[..., Any], results: Sequence[Any]) -> Any:
    del results

    def leaves(*arrays: Any) -> tuple[Any, ...]:
        return tuple(jax.tree.leaves(run(*arrays)))

    types = context.avals_in, context.avals_out
    calls = {"has_side_effect": False, "returns_token": False}
    return mlir.emit_python_callback(context, leaves, None, list(operands), *types, **calls)[0]


_outside.def_abstract_eval(_outside_types)
mlir.register_lowering(_outside, _lower_outside, cacheable=False)


def _structures(slots: Slots) -> Any:
    if isinstance(slots[0] if slots else (), str):
        return jax.ShapeDtypeStruct(slots[1], numpy_dtype(slots[0]))
    return tuple([_structures(slot) for slot in slots])


def _checked(given: Any, slots: Slots, name: str) -> Any:
    """``given``, the result of the function ``name``, as arrays, checked against the types in the call."""
    if isinstance(slots[0] if slots else (), str):
        dtype, shape = slots
        array = np.asarray(given)
        if array.shape != tuple(shape) or array.dtype != numpy_dtype(dtype):
            raise ExecutionError(f"{name!r} gave {array.dtype} {array.shape}; the call states {dtype} {tuple(shape)}")
        return array
    fields: Any = () if given is None and not slots else given
    if not isinstance(fields, tuple | list) or len(cast("Sequence[Any]", fields)) != len(slots):
        kind = type(cast("Any", fields)).__name__
        raise ExecutionError(f"{name!r} gave a {kind}; the call states a tuple of {len(slots)} fields")
    return tuple([_checked(item, slot, name) for item, slot in zip(cast("Any", fields), slots, strict=True)])


def choose(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """The result of the branch that ``condition``, a boolean scalar, selects."""
    if getattr(condition, "shape", ()) != ():
        raise ExecutionError(f"a condition must be a scalar, but this one has shape {tuple(condition.shape)}")
    if not isinstance(condition, jax.core.Tracer):
        return then() if bool(condition) else otherwise()
    seen: list[tuple[Any, list[Any]]] = []

    def traced(side: Callable[[], Any]) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            arrays: list[Any] = []
            template = dissect(side(), arrays)
            arrays = [jnp.asarray(array) for array in arrays]
            seen.append((template, [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]))
            if seen[0] != seen[-1]:
                raise BuildError(
                    f"one side of this branch gives {_described(*seen[0])} and the other {_described(*seen[-1])}; XLA "
                    f"needs the same type from both, because it compiles before the condition is known"
                )
            return arrays

        return run

    results = lax.cond(condition, traced(then), traced(otherwise))
    return assemble(seen[0][0], iter(results))


def _described(template: Any, arrays: Sequence[Any]) -> str:
    shown = [f"{array.dtype} {tuple(array.shape)}" for array in arrays]
    return str(assemble(template, iter(shown))) if len(shown) != 1 else shown[0]


# --- the texts of calls


def _slots(writer: FunctionWriter, ty: Type, call: Call) -> str:
    if isinstance(ty, TensorType) and ty.shape is not None and ty.dtype is not None:
        return f"({ty.dtype!r}, {writer.shape(ty.shape)})"
    if isinstance(ty, TupleType):
        fields = [_slots(writer, field, call) for field in ty.fields]
        return f"({', '.join(fields)}{',' if fields else ''})"
    raise BuildError(
        f"{writer.name}: a call of an outside function states {ty!r}; XLA needs the shapes and dtypes of what it gives "
        f'when it compiles: state them, as in R.Tensor((2, 3), "float32")'
    )


def _call_pure_packed(writer: FunctionWriter, call: Call) -> str:
    arguments = writer.operands(call.args[1:])
    result = "None" if isinstance(call.args[0], GlobalVar) else _slots(writer, call.ty, call)
    return called("call_outside", "True", callee_text(writer, call), result, *arguments)


def _call_inplace_packed(writer: FunctionWriter, call: Call) -> str:
    indices, result = writer.literal(call.attrs.inplace_indices), _slots(writer, call.ty, call)
    return called("call_inplace", callee_text(writer, call), indices, result, *writer.operands(call.args[1:]))


def call_extern(writer: FunctionWriter, call: Call) -> str:
    """The text of a call of an external function that may have effects."""
    assert isinstance(call.op, ExternFunc)
    result = _slots(writer, call.ty, call)
    return called("call_outside", "False", outside_text(writer, call.op), result, *writer.operands(call.args))


LOWERINGS: Final = {
    **COMMON,
    "relax.call_pure_packed": CallText(_call_pure_packed, untrusted=True),
    "relax.call_inplace_packed": CallText(_call_inplace_packed, untrusted=True),
}


def helpers(outside: OutsideCalls) -> dict[str, Any]:
    """The globals that the texts of `LOWERINGS` refer to."""
    return {
        "assert_holds": outside.assert_holds,
        "call_dps": outside.call_dps,
        "call_inplace": outside.call_inplace,
        "call_outside": outside.call,
        "choose": choose,
        "close_over": close_over,
        "get_global_func": get_global_func,
        "loop": loop,
        "print_values": outside.print_values,
    }

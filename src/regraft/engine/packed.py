"""Calls that leave the program, and the other operators without reference semantics, for array engines in
Python.

`lowerings` gives the text that each becomes, `helpers` the functions that the text refers to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ..ir.expr import ExternFunc
from ..ir.op import Call
from ..ir.types import TensorType, TupleType, Type
from .arrays import as_result
from .errors import BuildError, ExecutionError
from .externs import get_global_func
from .python_source import Lowering

if TYPE_CHECKING:
    from .function_writer import FunctionWriter

Allocate: TypeAlias = Callable[[tuple[int, ...], str], Any]
"""``allocate(shape, dtype)``: an array of the engine with nothing in it yet."""


# --- what runs


def call_packed(name: str, *arguments: Any) -> Any:
    """Call the registered function ``name``."""
    return as_result(get_global_func(name)(*arguments))


def call_inplace(copy: Callable[[Any], Any], name: str, indices: tuple[int, ...], *arguments: Any) -> Any:
    """Call a function that overwrites some of its arguments; it gets copies, since values never change."""
    given = [copy(value) if i in indices else value for i, value in enumerate(arguments)]
    return call_packed(name, *given)


def call_dps(allocate: Allocate, name: str, arguments: Any, *outputs: tuple[str, tuple[int, ...]]) -> Any:
    """Call a function that writes its results into arrays given after its inputs; gives those arrays."""
    results = tuple([allocate(shape, dtype) for dtype, shape in outputs])
    inputs = cast("tuple[Any, ...]", arguments) if isinstance(arguments, tuple) else (arguments,)
    get_global_func(name)(*inputs, *results)
    return results


def print_values(form: str, *values: Any) -> None:
    """Print values, in the fields of ``form`` if it has any text."""
    texts = [str(value) for value in values]
    sys.stdout.write((form.format(*texts) if form else " ".join(texts)) + "\n")


def assert_holds(condition: Any, form: str, *values: Any) -> None:
    """Raise `ExecutionError` unless the boolean scalar ``condition`` holds."""
    if as_condition(condition):
        return
    texts = [str(value) for value in values]
    message = form.format(*texts) if form else ", ".join(texts)
    raise ExecutionError(f"assertion failed: {message}" if message else "assertion failed")


def as_condition(value: Any) -> bool:
    """A boolean scalar as a Python bool."""
    if getattr(value, "shape", ()) != ():
        raise ExecutionError(f"a condition must be a scalar, but this one has shape {tuple(value.shape)}")
    return bool(value)


# --- what it is written as


def _call_packed(writer: FunctionWriter, call: Call) -> str:
    arguments = writer.operands(call.args[1:])
    target = call.args[0]
    if isinstance(target, ExternFunc):
        return f"call_packed({', '.join([repr(target.global_symbol), *arguments])})"
    return f"{writer.operand(target)}({', '.join(arguments)})"


def _outside(writer: FunctionWriter, call: Call) -> str:
    target = call.args[0]
    if not isinstance(target, ExternFunc):
        raise BuildError(f"{writer.name}: {call.op!r} calls {target!r}; expected an R.ExternFunc")
    return repr(target.global_symbol)


def _call_inplace_packed(writer: FunctionWriter, call: Call) -> str:
    indices = writer.literal(tuple(call.attrs.inplace_indices))
    return f"call_inplace({', '.join([_outside(writer, call), indices, *writer.operands(call.args[1:])])})"


def _call_dps_packed(writer: FunctionWriter, call: Call) -> str:
    fields = call.ty.fields if isinstance(call.ty, TupleType) else (call.ty,)
    outputs = [_output(writer, call, field) for field in fields]
    text = f"call_dps({', '.join([_outside(writer, call), *writer.operands(call.args[1:]), *outputs])})"
    return text if isinstance(call.ty, TupleType) else f"{text}[0]"


def _output(writer: FunctionWriter, call: Call, ty: Type) -> str:
    if not isinstance(ty, TensorType) or ty.shape is None or ty.dtype is None:
        raise BuildError(
            f"{writer.name}: call_dps_packed of {_outside(writer, call)} returns {ty!r}; "
            f"its arrays are made before the call, so shape and dtype must be known"
        )
    return f"({ty.dtype!r}, {writer.shape(ty.shape)})"


def _print(writer: FunctionWriter, call: Call) -> str:
    return f"print_values({', '.join(writer.operands(call.args))})"


def _assert_op(writer: FunctionWriter, call: Call) -> str:
    return f"assert_holds({', '.join(writer.operands(call.args))})"


def _null_value(writer: FunctionWriter, call: Call) -> str:
    return "None"


def _make_closure(writer: FunctionWriter, call: Call) -> str:
    function, arguments = writer.operands(call.args)
    return f"partial({function}, *{arguments})"


def _invoke_closure(writer: FunctionWriter, call: Call) -> str:
    closure, arguments = writer.operands(call.args)
    return f"{closure}(*{arguments})"


LOWERINGS: Final = {
    "relax.call_pure_packed": Lowering(_call_packed, untrusted=True),
    "relax.call_inplace_packed": Lowering(_call_inplace_packed, untrusted=True),
    "relax.call_dps_packed": Lowering(_call_dps_packed, untrusted=True),
    "relax.print": Lowering(_print),
    "relax.assert_op": Lowering(_assert_op),
    "relax.null_value": Lowering(_null_value),
    "relax.make_closure": Lowering(_make_closure),
    "relax.invoke_closure": Lowering(_invoke_closure, untrusted=True),
    "relax.invoke_pure_closure": Lowering(_invoke_closure, untrusted=True),
}
"""The operators whose meaning lies outside of the array API, the same in every engine that runs Python."""


def helpers(allocate: Allocate, copy: Callable[[Any], Any]) -> dict[str, Any]:
    """The globals that the text of `LOWERINGS` refers to."""
    return {
        "as_condition": as_condition,
        "assert_holds": assert_holds,
        "call_dps": partial(call_dps, allocate),
        "call_inplace": partial(call_inplace, copy),
        "call_packed": call_packed,
        "get_global_func": get_global_func,
        "partial": partial,
        "print_values": print_values,
    }

"""Calls that leave the program, and other operators without reference semantics, for array engines in Python.

`LOWERINGS` has the text of each operator, `helpers` the functions that the texts refer to.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..ir.expr import ExternFunc, GlobalVar
from ..ir.op import Call
from ..ir.types import TensorType, TupleType
from .arrays import as_result
from .errors import AssertionFailedError, BuildError, ExecutionError
from .externs import get_global_func
from .loops import write_loop
from .machine_functions import close_over, function_with_machine, outside_function
from .python_source import CallText, called, outside_text

if TYPE_CHECKING:
    from .function_writer import FunctionWriter

Allocate: TypeAlias = Callable[[tuple[int, ...], str], Any]
"""``allocate(shape, dtype)``: an uninitialized array of the engine."""


# --- functions at run time


def call_packed(callee: str | Callable[..., Any], *arguments: Any) -> Any:
    """Call an external function, given by its registered name or as a function."""
    function = outside_function(callee) if isinstance(callee, str) else callee
    return as_result(function(*arguments))


def call_builtin(callee: str | Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call an external function or a built-in function of the machine; the latter gets None for the machine."""
    return call_packed(function_with_machine(callee) if isinstance(callee, str) else callee, *arguments)


def call_inplace(
    copy: Callable[[Any], Any],
    callee: str | Callable[..., Any],
    indices: tuple[int, ...],
    *arguments: Any,
) -> Any:
    """Call a function that overwrites some of its arguments. It gets copies of arrays, because values never change.

    A value that is not an array is passed unchanged: it belongs to external functions, and only they read it.
    """
    given = [copy(value) if i in indices and hasattr(value, "dtype") else value for i, value in enumerate(arguments)]
    return call_packed(callee, *given)


def call_dps(
    allocate: Allocate,
    callee: str | Callable[..., Any],
    arguments: tuple[Any, ...],
    *outputs: tuple[str, tuple[int, ...]],
) -> tuple[Any, ...]:
    """Call a function that writes its results into arrays passed after its inputs; returns those arrays."""
    results = tuple([allocate(shape, dtype) for dtype, shape in outputs])
    call_packed(callee, *arguments, *results)
    return results


def print_values(*values: Any, form: str) -> tuple[()]:
    """Print values, in the fields of ``form`` unless that is empty."""
    sys.stdout.write(f"{_message(form, values, ' ')}\n")
    return ()


def assert_holds(condition: Any, *values: Any, form: str) -> tuple[()]:
    """Raise `ExecutionError` unless the boolean scalar ``condition`` is true."""
    if not as_condition(condition):
        message = _message(form, values, ", ")
        raise AssertionFailedError(f"the assertion does not hold{': ' if message else ''}{message}")
    return ()


def _message(form: str, values: Sequence[Any], separator: str) -> str:
    return form.format(*values) if form else separator.join(map(str, values))


def as_condition(value: Any) -> bool:
    """A boolean scalar as a Python bool."""
    if getattr(value, "shape", ()) != ():
        raise ExecutionError(f"a condition must be a scalar, but this one has shape {tuple(value.shape)}")
    return bool(value)


# --- their texts


def callee_text(writer: FunctionWriter, call: Call) -> str:
    """The text of the external function, or of the value, in a call's first operand."""
    target = call.args[0]
    return outside_text(writer, target) if isinstance(target, ExternFunc) else writer.operand(target)


def _call_packed(writer: FunctionWriter, call: Call) -> str:
    return called("call_packed", callee_text(writer, call), *writer.operands(call.args[1:]))


def _call_inplace_packed(writer: FunctionWriter, call: Call) -> str:
    indices = writer.literal(call.attrs.inplace_indices)
    return called("call_inplace", callee_text(writer, call), indices, *writer.operands(call.args[1:]))


def _call_dps_packed(writer: FunctionWriter, call: Call) -> str:
    callee = call.args[0]
    if isinstance(callee, GlobalVar):
        raise BuildError(
            f"{writer.name}: {callee.name_hint} is a function of the module, which writes into nothing it is "
            f"given; call it as it is instead of through call_dps_packed"
        )
    fields = call.ty.fields if isinstance(call.ty, TupleType) else (call.ty,)
    outputs: list[str] = []
    for ty in fields:
        assert isinstance(ty, TensorType)
        assert ty.shape is not None
        outputs.append(f"({ty.dtype!r}, {writer.shape(ty.shape)})")
    text = called("call_dps", callee_text(writer, call), writer.operand(call.args[1]), *outputs)
    return text if isinstance(call.ty, TupleType) else f"{text}[0]"


def _reported(name: str, writer: FunctionWriter, call: Call) -> str:
    return called(name, *writer.operands(call.args), f"form={call.attrs.format!r}")


def _call_py_func(writer: FunctionWriter, call: Call) -> str:
    name, arguments = writer.operands(call.args)
    return called("call_packed", name, f"*{arguments}")


def _call_builtin(writer: FunctionWriter, call: Call) -> str:
    return called("call_builtin", callee_text(writer, call), writer.operand(call.args[1]))


def _invoke_closure(writer: FunctionWriter, call: Call) -> str:
    closure, arguments = writer.operands(call.args)
    return called(closure, f"*{arguments}")


LOWERINGS: Final = {
    "relax.call_pure_packed": CallText(_call_packed, untrusted=True),
    "relax.call_inplace_packed": CallText(_call_inplace_packed, untrusted=True),
    "relax.call_py_func": CallText(_call_py_func, untrusted=True),
    "relax.call_builtin_with_ctx": CallText(_call_builtin, untrusted=True),
    "relax.call_dps_packed": CallText(_call_dps_packed),
    "relax.print": CallText(partial(_reported, "print_values")),
    "relax.assert_op": CallText(partial(_reported, "assert_holds")),
    "relax.null_value": CallText(lambda writer, call: "None"),
    "relax.loop": CallText(write_loop),
    "relax.make_closure": CallText(lambda writer, call: called("close_over", *writer.operands(call.args))),
    "relax.invoke_closure": CallText(_invoke_closure, untrusted=True),
    "relax.invoke_pure_closure": CallText(_invoke_closure, untrusted=True),
}
"""The operators that the array API does not define, the same in every engine that runs Python."""


def helpers(allocate: Allocate, copy: Callable[[Any], Any], loop: Callable[..., Any]) -> dict[str, Any]:
    """The globals that the texts of `LOWERINGS` refer to."""
    return {
        "as_condition": as_condition,
        "assert_holds": assert_holds,
        "call_dps": partial(call_dps, allocate),
        "call_inplace": partial(call_inplace, copy),
        "call_builtin": call_builtin,
        "call_packed": call_packed,
        "close_over": close_over,
        "get_global_func": get_global_func,
        "loop": loop,
        "print_values": print_values,
    }

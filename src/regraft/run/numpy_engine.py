"""The reference engine: every operator by its reference semantics, over NumPy, in straight-line Python.

Floating point is IEEE 754: no warnings for overflow, division by zero or NaN, whatever NumPy's error state is. This
module converts arguments and results and locates failures; `python_source` writes the text of the program.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, final

import numpy as np

from ..ir.collection import collection_paused
from ..ir.dtypes import numpy_dtype
from ..ir.expr import Var
from ..ir.module import IRModule
from ..ir.op import Op
from ..ir.tensor_data import TensorData
from .arrays import Signature, array_dtype, as_result
from .errors import TypeCheckError
from .executable import Around, EntryFunction, Executable
from .failures import located
from .function_writer import write_module
from .loops import loop_over
from .onnx_node import NodeEngine, carried_node, is_carried_node
from .packed import LOWERINGS, helpers
from .python_source import Dialect, PythonModule
from .watching import watched

_serial: Final = itertools.count()


def _empty(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.empty(shape, numpy_dtype(dtype))


DIALECT: Final = Dialect(
    "numpy",
    np,
    TensorData.numpy,
    array_dtype,
    LOWERINGS,
    helpers(_empty, np.copy, loop_over(np)),
    carried=lambda call: carried_node(call, _ENGINE),
)


def _compile_node(module: IRModule) -> Callable[..., Any]:
    return compile_module(module)["main"]


_ENGINE: Final = NodeEngine(_compile_node, array_dtype, np.asarray)


def runs(op: Op) -> bool:
    """True if this engine runs calls of ``op``."""
    return op.name in LOWERINGS or op.reference is not None or "numpy" in op.kernels or is_carried_node(op)


def compile_module(module: IRModule, *, verify_types: bool = False) -> Executable:
    """``module`` compiled for NumPy.

    ``verify_types`` checks the value of each binding against its type as it is computed. It is slower, and finds
    operators whose results disagree with their type rule. Cost: linear in the bindings, some 20 µs each.
    """
    program, entries = compile_program(module, verify_types=verify_types)
    return _NumpyExecutable(program, entries, module)


@final
class _NumpyExecutable(Executable):
    """Straight-line Python. `watched` runs it with a hook around each call."""

    __slots__ = ("_program", "_signatures")

    def __init__(self, program: PythonModule, entries: Mapping[str, EntryFunction], module: IRModule) -> None:
        super().__init__("numpy", entries, program.source)
        self._program: Final = program
        self.program = module
        self._signatures: Final = {name: function.params for name, function in module.items()}

    def watched(self, around: Around) -> Mapping[str, EntryFunction]:
        """The functions, run from a copy of the text in which ``around`` replaces each call."""
        program = watched(self._program, around)
        return {name: _entry(program, name, params) for name, params in self._signatures.items()}


def compile_program(module: IRModule, *, verify_types: bool = False) -> tuple[PythonModule, dict[str, EntryFunction]]:
    """The program that `compile_module` runs, and the entry of each function."""
    with collection_paused():
        program = write_module(module, DIALECT, f"<regraft numpy {next(_serial)}>", verify_types=verify_types)
    return program, {name: _entry(program, name, function.params) for name, function in module.items()}


def _entry(program: PythonModule, name: str, parameters: Sequence[Var]) -> EntryFunction:
    run = program.namespace[program.functions[name]]
    hand_over = _hand_over(len(parameters))
    signature = Signature(name, parameters)

    def call(*arguments: Any) -> Any:
        values = signature.values(arguments)
        del arguments
        values.reverse()
        try:
            with np.errstate(all="ignore"):
                return as_result(hand_over(run, values))
        except TypeCheckError:
            raise
        except Exception as error:
            raise located(program, name, error) from error

    call.__name__ = call.__qualname__ = name
    return call


@cache
def _hand_over(count: int) -> Callable[[Callable[..., Any], list[Any]], Any]:
    """``call(function, values)`` for ``count`` values, given in reverse order, which keeps no reference to them during
    the call.

    This lets a function free its arguments: in ``function(*values)`` the caller would hold all of them.
    """
    return eval(f"lambda function, values: function({', '.join(['values.pop()'] * count)})")

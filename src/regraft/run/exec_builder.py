"""Executables written by hand, instruction by instruction, and the register machine that runs them.

`ExecBuilder` has the methods of Relax's. It returns an `Executable`, which a `VirtualMachine` drives like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from typing import Any, Final, cast, final

import numpy as np

from ..ir.dims.known import KnownSize
from .errors import BuildError, ExecutionError, TypeCheckError
from .executable import Around, EntryFunction, Executable
from .instructions import (
    Code,
    Functions,
    Instruction,
    Kind,
    SpecialReg,
    check,
    constant_text,
    operand,
    parts,
    python_text,
    text,
)
from .machine_functions import outside_function
from .relax_values import ShapeTuple, as_relax_value

_NUMBERS: Final[tuple[type, ...]] = (int, np.integer)
_KEPT: Final[tuple[type, ...]] = (str, float, tuple, np.ndarray)


class VMFuncKind(IntEnum):
    """The kinds of functions that instructions call."""

    PACKED_FUNC = 0
    VM_FUNC = 1


class ExecBuilder:
    """A builder of executables: ``with ib.function("f", num_inputs=2):``, then one call for each instruction.

    Operands are the ints that `r`, `imm`, `c`, `f` and `convert_constant` return. Emitting an instruction outside a
    function raises `BuildError`, which is a ValueError.
    """

    def __init__(self) -> None:
        self._functions: dict[str, Code | None] = {}
        self._constants: list[Any] = []
        self._numbers: dict[object, int] = {}
        self._open: Code | None = None

    def r(self, idx: int) -> int:
        """The register with a number."""
        return operand(Kind.REGISTER, idx)

    def imm(self, value: int) -> int:
        """A number inside the instruction."""
        return operand(Kind.IMMEDIATE, value)

    def c(self, idx: int) -> int:
        """The constant with a number."""
        return operand(Kind.CONSTANT, idx)

    def f(self, name: str) -> int:
        """A function that was declared or written before; raises `BuildError` if there is none."""
        if name not in self._functions:
            raise BuildError(f"there is no function {name!r} yet: declare_function({name!r}) first")
        return operand(Kind.FUNCTION, list(self._functions).index(name))

    def void_arg(self) -> int:
        """The register for a result that is not read."""
        return int(SpecialReg.VOID_ARG)

    def vm_state(self) -> int:
        """The machine, as the first argument of some of its functions."""
        return int(SpecialReg.VM_STATE)

    def declare_function(self, func_name: str, kind: VMFuncKind = VMFuncKind.PACKED_FUNC) -> None:
        """Declare an external function, or a function whose instructions come later."""
        self._functions.setdefault(func_name, None if kind == VMFuncKind.PACKED_FUNC else Code((), []))

    @contextmanager
    def function(
        self, func_name: str, num_inputs: int | None = 0, param_names: list[str] | None = None
    ) -> Generator[None]:
        """A function with a name: the ``with`` block emits its instructions, its arguments are the first registers."""
        if self._open is not None:
            raise BuildError(f"{func_name!r} cannot be opened inside of another function")
        found = self._functions.get(func_name)
        if found is not None and found.steps:
            raise BuildError(f"there is a function {func_name!r} already")
        names = tuple(param_names or [f"arg{i}" for i in range(num_inputs or 0)])
        if len(names) != (num_inputs or 0):
            raise BuildError(f"{func_name!r} has {num_inputs} inputs, but {len(names)} names of them")
        self._functions[func_name] = self._open = Code(names, [])
        try:
            yield
        finally:
            self._open = None

    def convert_constant(self, const: Any) -> int:
        """A value as an operand: an int is stored in the instruction, any other value once in the list of constants."""
        if _is(const, _NUMBERS):
            return self.imm(int(const))
        if not _is(const, _KEPT):
            raise BuildError(f"a constant is a number, a text, a dtype, a shape or an array, not {const!r}")
        array = np.asarray(const)
        key = (type(const).__name__, str(array.dtype), array.shape, array.tobytes())
        if key not in self._numbers:
            self._numbers[key] = len(self._constants)
            self._constants.append(const)
        return self.c(self._numbers[key])

    def emit_call(self, name: str, args: Iterable[Any] | None = None, dst: int | None = None) -> None:
        """Call a function; tuples, arrays and dtypes among the arguments become constants."""
        operands: list[int] = []
        for arg in args or ():
            value: Any = ShapeTuple(cast(Any, arg)) if isinstance(arg, tuple) else arg
            is_number = type(value) is int or isinstance(value, KnownSize)
            operands.append(int(value) if is_number else self.convert_constant(value))
        self._emit(Instruction("call", name, tuple(operands), self.void_arg() if dst is None else dst))
        self._functions.setdefault(name, None)

    def emit_ret(self, result: int) -> None:
        """Return the value in a register."""
        if parts(result)[0] is not Kind.REGISTER:
            raise BuildError("a function returns the value of a register")
        self._emit(Instruction("ret", operands=(result,)))

    def emit_goto(self, pc_offset: int) -> None:
        """Jump ``pc_offset`` instructions ahead."""
        self._emit(Instruction("goto", place=pc_offset))

    def emit_if(self, cond: int, false_offset: int) -> None:
        """Continue with the next instruction, or jump ``false_offset`` ahead if the number in a register is 0."""
        self._emit(Instruction("if", operands=(cond,), place=false_offset))

    def _emit(self, step: Instruction) -> None:
        if self._open is None:
            raise BuildError("instructions are emitted inside of `with ib.function(name, num_inputs):`")
        self._open.steps.append(step)

    def get(self) -> RegisterExecutable:
        """The executable; raises `BuildError` if an instruction reads something that does not exist."""
        check(self._functions, self._constants)
        functions = {name: code and code.renumbered() for name, code in self._functions.items()}
        return RegisterExecutable(functions, list(self._constants))


@final
class RegisterExecutable(Executable):
    """Functions as lists of instructions, and the constants that they refer to."""

    __slots__ = ("constants", "table")

    def __init__(self, functions: Functions, constants: Sequence[Any]) -> None:
        check(functions, constants)
        self.table: Final = functions
        self.constants: Final = constants
        super().__init__("numpy", self._entries(lambda _name, _function, _arguments, run: run()), text(functions))
        self.parameters = {name: code.params for name, code in functions.items() if code is not None}

    def _entries(self, around: Around) -> dict[str, EntryFunction]:
        machine = _Machine(self.table, self.constants, around)
        return {name: partial(machine.run, name) for name, code in self.table.items() if code is not None}

    def watched(self, around: Around) -> Mapping[str, EntryFunction]:
        """The functions, with ``around`` in place of every call of an external function."""
        return self._entries(around)

    def as_python(self) -> str:
        """Python code with the calls of a builder that make this executable."""
        return python_text(self.table)

    def stats(self) -> str:
        """A summary of the constants and the function names."""
        constants = ", ".join(map(constant_text, self.constants))
        return (
            f"Relax VM executable statistics:\n  Constant pool (# {len(self.constants)}): [{constants}]\n"
            f"  Globals (#{len(self.table)}): [{', '.join(self.table)}]\n"
        )


@final
class _Machine:
    """The interpreter of the instructions, with a new set of registers for each call."""

    __slots__ = ("_around", "_constants", "_names", "_table")

    def __init__(self, table: Functions, constants: Sequence[Any], around: Around) -> None:
        self._table = table
        self._names = list(table)
        self._constants = constants
        self._around = around

    def run(self, name: str, *arguments: Any) -> Any:
        code = self._table[name]
        assert code is not None
        if len(arguments) != len(code.params):
            raise ExecutionError(f"{name} takes {len(code.params)} arguments, but got {len(arguments)}")
        registers: dict[int, Any] = {i: as_relax_value(value) for i, value in enumerate(arguments)}
        at = 0
        while 0 <= at < len(code.steps):
            step = code.steps[at]
            values = [self._value(one, registers) for one in step.operands]
            if step.kind == "ret":
                return values[0]
            if step.kind == "call":
                registers[step.place] = self._call(step.callee, values)
            jumps = step.kind == "goto" or (step.kind == "if" and not _number(values[0], name))
            at += step.place if jumps else 1
        raise ExecutionError(f"{name}: the instructions end without a return")

    def _value(self, encoded: int, registers: Mapping[int, Any]) -> Any:
        kind, value = parts(encoded)
        if kind is Kind.REGISTER:
            return self if value == SpecialReg.VM_STATE else registers.get(value)
        if kind is Kind.CONSTANT:
            return self._constants[value]
        return value if kind is Kind.IMMEDIATE else self._function(self._names[value])

    def _function(self, name: str) -> Callable[..., Any]:
        if self._table.get(name) is not None:
            return partial(self.run, name)
        return outside_function(name)

    def _call(self, name: str, values: list[Any]) -> Any:
        function = self._function(name)
        result = self._around(name, function, tuple(values), lambda: function(*values))
        return as_relax_value(result)


def _is(value: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds)


def _number(value: Any, name: str) -> int:
    if _is(value, _NUMBERS):
        return int(value)
    raise TypeCheckError(f"{name}: a branch reads a number, not a {type(value).__name__}")

"""The instructions of a register machine, in the form of Relax's executables: their operands, checks and texts.

An operand is an int with its kind in the top byte and its value below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from .errors import BuildError
from .relax_values import DataType, ShapeTuple

_BITS: Final = 56
_MASK: Final = (1 << _BITS) - 1
_HALF: Final = 1 << (_BITS - 1)


class Kind(IntEnum):
    """The kinds of operands."""

    REGISTER = 0
    IMMEDIATE = 1
    CONSTANT = 2
    FUNCTION = 3


class SpecialReg(IntEnum):
    """The registers that hold no value: the place for a result that is not read, and the machine itself."""

    VOID_ARG = 1 << 54
    VM_STATE = (1 << 54) + 1


_SPECIAL: Final[Mapping[int, str]] = {SpecialReg.VOID_ARG: "%void", SpecialReg.VM_STATE: "%vm"}


def operand(kind: Kind, value: int) -> int:
    """The operand with a kind and a value; an immediate may be negative. Raises `BuildError` if it does not fit."""
    if not -_HALF <= value < _HALF:
        raise BuildError(f"an operand holds {_BITS} bits, so {value} does not fit")
    return kind << _BITS | value & _MASK


def parts(encoded: int) -> tuple[Kind, int]:
    """The kind and the value of an operand."""
    value = encoded & _MASK
    return Kind(encoded >> _BITS), value - (1 << _BITS) if value >= _HALF else value


class Instruction(NamedTuple):
    """One step: a call of ``callee``, a return, a jump, or a jump if the operand is 0.

    ``place`` is the register for a call's result, or the distance of a jump.
    """

    kind: Literal["call", "ret", "goto", "if"]
    callee: str = ""
    operands: tuple[int, ...] = ()
    place: int = 0


@dataclass(slots=True)
class Code:
    """A function: the names of its parameters, one for each of its first registers, and its steps."""

    params: tuple[str, ...]
    steps: list[Instruction]

    def renumbered(self) -> Code:
        """The same steps with registers numbered in the order in which they are written."""
        numbers: dict[int, int] = {i: i for i in range(len(self.params))} | {int(reg): int(reg) for reg in SpecialReg}
        steps: list[Instruction] = []
        for step in self.steps:
            operands = tuple([self._moved(one, numbers) for one in step.operands])
            place = step.place
            if step.kind == "call":
                place = numbers.setdefault(place, len(numbers) - len(SpecialReg))
            steps.append(step._replace(operands=operands, place=place))
        return Code(self.params, steps)

    @staticmethod
    def _moved(encoded: int, numbers: Mapping[int, int]) -> int:
        kind, value = parts(encoded)
        return operand(kind, numbers.get(value, value)) if kind is Kind.REGISTER else encoded


Functions: TypeAlias = Mapping[str, Code | None]
"""The functions of an executable by name; None for external functions."""


def check(functions: Functions, constants: Sequence[Any]) -> None:
    """Raise `BuildError` for a register that is read but never written, and for an unknown constant or function."""
    for name, code in functions.items():
        if code is None:
            continue
        known = {*range(len(code.params)), *SpecialReg, *(step.place for step in code.steps if step.kind == "call")}
        for kind, value in (parts(one) for step in code.steps for one in step.operands):
            if kind is Kind.REGISTER and value not in known:
                raise BuildError(
                    f"{name}: register r({value}) is read, and no instruction writes it\n{text(functions)}"
                )
            if kind is Kind.CONSTANT and not 0 <= value < len(constants):
                raise BuildError(f"{name}: there is no constant c({value}); there are {len(constants)}")
            if kind is Kind.FUNCTION and not 0 <= value < len(functions):
                raise BuildError(f"{name}: there is no function of number {value}; there are {len(functions)}")
        for step in code.steps:
            if step.kind == "call" and step.callee not in functions:
                raise BuildError(f"{name}: it calls {step.callee!r}, which is neither declared nor a function here")


def text(functions: Functions) -> str:
    """The instructions as text, one per line, in Relax's form."""
    names = list(functions)

    def shown(encoded: int) -> str:
        kind, value = parts(encoded)
        if kind is Kind.REGISTER:
            return _SPECIAL.get(value, f"%{value}")
        if kind is Kind.IMMEDIATE:
            return f"i{value}"
        return f"c[{value}]" if kind is Kind.CONSTANT else f"f[{names[value] if value < len(names) else value}]"

    def line(step: Instruction) -> str:
        operands = ", ".join(map(shown, step.operands))
        if step.kind == "call":
            return f"  call  {step.callee:<16} in: {operands:<12} dst: {shown(operand(Kind.REGISTER, step.place))}\n"
        if step.kind == "ret":
            return f"  ret   {operands}\n"
        return f"  goto  {step.place}\n" if step.kind == "goto" else f"  If    {operands}, {step.place}\n"

    return "".join(
        f"@{name} packed_func;\n\n" if code is None else f"@{name}:\n{''.join(map(line, code.steps))}\n"
        for name, code in functions.items()
    )


def python_text(functions: Functions) -> str:
    """The calls of `ExecBuilder` that make these instructions; constants appear by number."""
    return "".join(_python_lines(functions))


def _python_lines(functions: Functions) -> Iterator[str]:
    names = list(functions)

    def shown(encoded: int) -> str:
        kind, value = parts(encoded)
        if kind is Kind.REGISTER and value in (SpecialReg.VOID_ARG, SpecialReg.VM_STATE):
            return "ib.vm_state()" if value == SpecialReg.VM_STATE else "ib.void_arg()"
        if kind is Kind.FUNCTION:
            return f'ib.f("{names[value]}")'
        return f"ib.{ {Kind.REGISTER: 'r', Kind.IMMEDIATE: 'imm', Kind.CONSTANT: 'c'}[kind] }({value})"

    yield "ib = relax.ExecBuilder()\n"
    for name, code in functions.items():
        if code is None:
            continue
        yield f'with ib.function("{name}", num_inputs={len(code.params)}):\n'
        for step in code.steps:
            operands = ", ".join(map(shown, step.operands))
            if step.kind == "call":
                void = step.place == SpecialReg.VOID_ARG
                dst = "" if void else f", dst={shown(operand(Kind.REGISTER, step.place))}"
                yield f'    ib.emit_call("{step.callee}", args=[{operands}]{dst})\n'
            elif step.kind == "ret":
                yield f"    ib.emit_ret({operands})\n"
            else:
                yield f"    ib.emit_{step.kind}({operands}{', ' if operands else ''}{step.place})\n"


def constant_text(value: Any) -> str:
    """A constant as a text for a summary; arrays by their shapes."""
    if isinstance(value, np.ndarray):
        return str(list(cast(Any, value).shape))
    if isinstance(value, DataType):
        return str(value)
    if isinstance(value, ShapeTuple):
        return f"shapetuple{list(value)}"
    return f'"{value}"' if isinstance(value, str) else str(value)

"""The result of every engine: a compiled module whose functions can be called.

An engine makes an `Executable` from its functions; `virtual_machine` drives one as Relax does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .errors import ExecutionError, MissingFunctionError

if TYPE_CHECKING:
    from ..ir.module import IRModule

EntryFunction: TypeAlias = Callable[..., Any]
Around: TypeAlias = Callable[[str, Callable[..., Any], tuple[Any, ...], Callable[[], Any]], Any]
"""``around(name, function, arguments, run)`` replaces a call: ``run()`` makes the call, and the result of ``around`` is
used.
"""


class Executable:
    """A module compiled for one target.

    ``exe["main"](*arrays)`` runs a function. Tensors are objects with ``__array__`` or DLPack (or Python numbers and
    lists of them), tuples are tuples, and shapes are sequences of ints. Arrays are not copied, neither in nor out: a
    result may share memory with an argument or a constant.
    """

    __slots__ = ("_functions", "parameters", "program", "source", "target")
    target: str
    source: str
    """The program as the engine runs it, as a text for people."""
    parameters: dict[str, tuple[str, ...]]
    """The names of the parameters of each function, if the module gave them."""
    program: IRModule | None
    """The program that was built; None if the engine holds its constants in its own form."""

    def __init__(self, target: str, functions: Mapping[str, EntryFunction], source: str) -> None:
        self.target = target
        self.source = source
        self._functions: Final = dict(functions)
        self.parameters: dict[str, tuple[str, ...]] = {}
        self.program = None

    @property
    def device_kinds(self) -> tuple[str, ...]:
        """The prefixes of the names of the devices that this runs on."""
        return "cpu", "llvm"

    @property
    def runs_where(self) -> str:
        """The devices that this runs on, for messages."""
        return "the CPU"

    def watched(self, around: Around) -> Mapping[str, EntryFunction]:
        """The functions, with ``around`` in place of every call of an operator or an external function.

        Raises `ExecutionError` if the engine runs a program as a whole.
        """
        raise ExecutionError(
            f"target {self.target!r} runs a program as a whole, so its calls cannot be instrumented; "
            'build for "numpy" (or "llvm")'
        )

    def export_library(self, file_name: str | os.PathLike[str], **_relax_options: Any) -> None:
        """Write the executable to a file for `load_module`, constants included: a program as data, without machine
        code.

        Raises `ExecutionError` if the engine keeps no program: only ``"numpy"`` (``"llvm"``) does.
        """
        from .saved_executable import save_executable

        save_executable(self, file_name)

    def jit(self, **_relax_options: Any) -> Executable:
        """The executable itself: it is ready to run, like the result of Relax's ``jit``."""
        return self

    @property
    def function_names(self) -> tuple[str, ...]:
        """The functions that can be called, in the module's order."""
        return tuple(self._functions)

    def __getitem__(self, name: str) -> EntryFunction:
        found = self._functions.get(name)
        if found is None:
            known = ", ".join(self._functions) or "none"
            raise MissingFunctionError(f"there is no function {name!r}; there are: {known}")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def as_text(self) -> str:
        """The program as the engine runs it; `as_python` is the same, as Relax has both names."""
        return self.source

    as_python = as_text

    def stats(self) -> str:
        """A summary in one line."""
        return repr(self)

    def __repr__(self) -> str:
        return f"Executable(target={self.target!r}, functions=[{', '.join(self._functions)}])"

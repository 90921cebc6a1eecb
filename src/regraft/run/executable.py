"""What every engine gives back: a module that runs, function by function.

An engine makes an `Executable` from its functions; `VirtualMachine` is the same under the name that Relax
gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from .errors import ExecutionError

Entry: TypeAlias = Callable[..., Any]


class Executable:
    """A module made ready to run on one target.

    ``exe["main"](*arrays)`` runs a function: tensors as anything that speaks ``__array__`` or DLPack (or
    Python numbers and lists of them), tuples as tuples, shapes as sequences of ints. Arrays are not copied,
    neither in nor out: a result may share memory with an argument or a constant.
    """

    __slots__ = ("_functions", "source", "target")
    target: str
    source: str
    """The program as the engine runs it, for reading."""

    def __init__(self, target: str, functions: Mapping[str, Entry], source: str) -> None:
        self.target = target
        self.source = source
        self._functions: Final = dict(functions)

    @property
    def device_kinds(self) -> tuple[str, ...]:
        """How the names of the devices start that this runs on."""
        return "cpu", "llvm"

    @property
    def runs_where(self) -> str:
        """The devices that this runs on, for messages."""
        return "the CPU"

    @property
    def function_names(self) -> tuple[str, ...]:
        """The functions that can be called, in the module's order."""
        return tuple(self._functions)

    def __getitem__(self, name: str) -> Entry:
        found = self._functions.get(name)
        if found is None:
            raise ExecutionError(f"there is no function {name!r}; there are: {', '.join(self._functions) or 'none'}")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __repr__(self) -> str:
        return f"Executable(target={self.target!r}, functions=[{', '.join(self._functions)}])"


class VirtualMachine:
    """An executable on a device: ``vm["main"](*arrays)``, as in Relax.

    ``device`` is None, a name such as ``"cpu"``, or any object that prints as one; an executable runs where
    its target runs, so another device raises `ExecutionError`.
    """

    __slots__ = ("_inputs", "_results", "_saved", "executable")
    executable: Executable

    def __init__(self, executable: Executable, device: object = None) -> None:
        several = isinstance(device, list | tuple)
        devices = cast("Sequence[object]", device) if several else (device,)
        for one in devices:
            name = "cpu" if one is None else str(one)
            if not name.startswith(executable.device_kinds):
                raise ExecutionError(f"target {executable.target!r} runs on {executable.runs_where}, not on {name!r}")
        self.executable = executable
        self._inputs: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._saved: dict[str, Callable[..., Any]] = {}
        self._results: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Entry:
        return self._saved.get(name) or self.executable[name]

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Keep the arguments of a function for `invoke_stateful`."""
        self._inputs[func_name] = (args, kwargs)

    def invoke_stateful(self, func_name: str) -> None:
        """Run a function on the arguments that `set_input` kept; `get_outputs` gives what it returns."""
        if func_name not in self._inputs:
            raise ExecutionError(f"{func_name!r} has no arguments yet: call set_input({func_name!r}, ...) first")
        args, kwargs = self._inputs[func_name]
        self._results[func_name] = self[func_name](*args, **kwargs)

    def get_outputs(self, func_name: str) -> Any:
        """What the last `invoke_stateful` of a function gave; a tuple of results as a tuple."""
        if func_name not in self._results:
            raise ExecutionError(f"{func_name!r} has not run yet: call invoke_stateful({func_name!r}) first")
        return self._results[func_name]

    def save_function(
        self, func_name: str, saved_name: str, *args: Any, include_return: bool = True, **kwargs: Any
    ) -> None:
        """Make ``vm[saved_name]()`` a call of a function with these arguments; without its result if not wanted."""
        entry = self[func_name]

        def saved() -> Any:
            result = entry(*args, **kwargs)
            return result if include_return else None

        self._saved[saved_name] = saved

    def __repr__(self) -> str:
        return f"VirtualMachine({self.executable!r})"

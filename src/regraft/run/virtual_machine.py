"""An executable with the interface of Relax's virtual machine: called by name, with kept arguments, saved, timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, cast
from warnings import warn

import numpy as np

from .errors import ExecutionError
from .executable import EntryFunction, Executable
from .relax_values import as_relax_value


class BenchmarkResult(NamedTuple):
    """The time of one call of a function, in seconds, measured in each repetition."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """The median of the times."""
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        """The smallest time."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The largest time."""
        return max(self.results)

    @property
    def std(self) -> float:
        """The standard deviation of the times."""
        return float(np.std(self.results))


class VMInstrumentReturnKind(IntEnum):
    """An instrument's answer before a call: continue, or skip the call."""

    NO_OP = 0
    SKIP_RUN = 1


class VirtualMachine:
    """An executable on a device: ``vm["main"](*arrays)``, as in Relax. NumPy arrays are returned as `Tensor`.

    ``device`` is None, a name such as ``"cpu"``, or any object whose text is one. An executable runs on the device of
    its target, so another device raises `ExecutionError`. ``memory_cfg`` is ignored.
    """

    NAIVE_ALLOCATOR = 1
    POOLED_ALLOCATOR = 2
    __slots__ = ("_inputs", "_results", "_saved", "_watched", "executable")
    executable: Executable

    def __init__(self, executable: Executable, device: object = None, memory_cfg: object = None) -> None:
        del memory_cfg
        if not isinstance(executable, Executable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ExecutionError(f"a virtual machine runs the result of build, not a {type(executable).__name__}")
        several = isinstance(device, list | tuple)
        devices = cast("Sequence[object]", device) if several else (device,)
        for one in devices:
            name = "cpu" if one is None else str(one)
            if not name.startswith(executable.device_kinds):
                raise ExecutionError(f"target {executable.target!r} runs on {executable.runs_where}, not on {name!r}")
        self.executable = executable
        self._watched: Mapping[str, EntryFunction] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._saved: dict[str, Callable[..., Any]] = {}
        self._results: dict[str, Any] = {}

    def __getitem__(self, name: str) -> EntryFunction:
        saved = self._saved.get(name)
        if saved is not None:
            return saved
        if name not in self._inputs:
            return self._entry(name)

        def refuse(*_arguments: Any) -> Any:
            raise ExecutionError(f"{name!r} has kept arguments: run it with invoke_stateful({name!r})")

        return refuse

    @property
    def module(self) -> Executable:
        """The executable, under Relax's name for it."""
        return self.executable

    def _entry(self, name: str) -> EntryFunction:
        """The function with a name, observed by the instrument if there is one."""
        run = self._watched.get(name) or self.executable[name]

        def call(*arguments: Any) -> Any:
            return as_relax_value(run(*arguments))

        return call

    def invoke_closure(self, closure: Callable[..., Any], *args: Any) -> Any:
        """Call a closure that a function of the module has returned."""
        return as_relax_value(closure(*args))

    def set_instrument(self, instrument: Callable[..., Any]) -> None:
        """Observe every call of an operator or an external function from now on.

        ``instrument(function, name, before_run, result, *arguments)`` is called before each call, with None as the
        result, and after it. Before a call it may return `VMInstrumentReturnKind.SKIP_RUN`: then the call is skipped,
        and its result is None. ``name`` is the name of the operator (``add``, ``softmax``) or of the external function.
        Only the reference engine (``"numpy"``, ``"llvm"``) calls operators one by one; others raise `ExecutionError`.
        """

        def around(name: str, function: Callable[..., Any], arguments: tuple[Any, ...], run: Callable[[], Any]) -> Any:
            answer = instrument(function, name, True, None, *arguments)
            if answer == VMInstrumentReturnKind.SKIP_RUN:
                return None
            result = run()
            instrument(function, name, False, as_relax_value(result), *arguments)
            return result

        self._watched = self.executable.watched(around)

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Store the arguments of a function, by position or by name, for `invoke_stateful`."""
        self._inputs[func_name] = self._arguments(func_name, args, kwargs)

    def invoke_stateful(self, func_name: str) -> None:
        """Run a function on the arguments that `set_input` stored; `get_outputs` returns its result."""
        if func_name not in self._inputs:
            raise ExecutionError(f"{func_name!r} has no arguments yet: call set_input({func_name!r}, ...) first")
        self._results[func_name] = self._entry(func_name)(*self._inputs[func_name])

    def get_outputs(self, func_name: str) -> Any:
        """The result of the last `invoke_stateful` of a function; several results are a tuple."""
        if func_name not in self._results:
            raise ExecutionError(f"{func_name!r} has not run yet: call invoke_stateful({func_name!r}) first")
        return self._results[func_name]

    def save_function(
        self, func_name: str, saved_name: str, *args: Any, include_return: bool = True, **kwargs: Any
    ) -> None:
        """Make ``vm[saved_name]()`` a call of a function with these arguments; it returns None unless
        ``include_return``.

        Raises `ExecutionError` if the module has a function of that name.
        """
        if saved_name in self.executable:
            raise ExecutionError(f"the module has a function {saved_name!r}; save this one under another name")
        entry, arguments = self._entry(func_name), self._arguments(func_name, args, kwargs)

        def saved() -> Any:
            result = entry(*arguments)
            return result if include_return else None

        self._saved[saved_name] = saved

    def _arguments(self, name: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments of a function in order; unnamed ones fill the remaining positions."""
        known = self.executable.parameters.get(name, ())
        for extra in named.keys() - set(known):
            warn(f"{name!r} has no parameter {extra!r}; it is left out", stacklevel=3)
        if not named and (not known or len(args) == len(known)):
            return args
        rest = list(args)
        missing = [param for param in known if param not in named]
        if len(missing) != len(rest):
            raise ExecutionError(
                f"{name}({', '.join(known)}): {len(rest)} arguments for {', '.join(missing) or 'none'}"
            )
        return tuple([named[param] if param in named else rest.pop(0) for param in known])

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        **_rest: Any,
    ) -> Callable[..., BenchmarkResult]:
        """A timer for a function: called with the function's arguments, it runs it once, then ``repeat`` times
        ``number`` times.

        A repetition takes at least ``min_repeat_ms``. ``"invoke_stateful"`` is timed with a function's name as its
        argument. Relax's other options are accepted and ignored.
        """
        del dev
        entry: Callable[..., Any] = self.invoke_stateful if func_name == "invoke_stateful" else self[func_name]

        def evaluate(*args: Any) -> BenchmarkResult:
            entry(*args)
            found: list[float] = []
            for _ in range(repeat):
                count, start = 0, time.perf_counter()
                while count < number or (time.perf_counter() - start) * 1e3 < min_repeat_ms:
                    entry(*args)
                    count += 1
                found.append((time.perf_counter() - start) / count)
            return BenchmarkResult(tuple(found))

        return evaluate

    def __repr__(self) -> str:
        return f"VirtualMachine({self.executable!r})"

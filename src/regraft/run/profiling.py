"""The time of each operator of a program on an engine: from ONNX Runtime's own profile, or by tracing lines of Python.

The programs of the NumPy and torch engines are straight-line Python with a line for each binding. The time between two
lines belongs to the first. Tracing adds about a microsecond to each.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence, Set
from pathlib import Path
from statistics import median
from time import perf_counter
from types import FrameType
from typing import Any, Final, NamedTuple

from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.visitor import iter_bindings
from ..op.settle import settled
from .errors import BuildError
from .python_source import PythonModule

ENGINES: Final = ("onnxruntime", "torch", "numpy")
"""The engines that can report the time of each operator."""


class OperatorTime(NamedTuple):
    """The median time, in ``seconds``, of the engine's operator ``op`` for ``binding`` over all runs."""

    binding: str
    op: str
    seconds: float


def operator_times(
    module: IRModule, name: str, inputs: Sequence[Any], target: str = "onnxruntime", *, runs: int = 10, **options: Any
) -> tuple[OperatorTime, ...]:
    """The time of each operator of the function ``name``, the median of ``runs`` runs after a first one.

    ONNX Runtime may run several bindings as one operator, which is listed under one of their names, and may add copies
    of its own. ``options`` are the engine's. Raises `BuildError` for an engine that cannot report times, and the errors
    of building and running.
    """
    if target not in ENGINES:
        raise BuildError(f"{target} does not report the time of each operator; these do: {', '.join(ENGINES)}")
    module = settled(module)
    if target == "onnxruntime":
        return _by_onnxruntime(module, name, inputs, runs, options)
    if target == "torch":
        from .torch_engine import compile_program
    else:
        from .numpy_engine import compile_program
    program, entries = compile_program(module, **options)
    return _by_line(program, lambda: entries[name](*inputs), runs)


# --- ONNX Runtime


def _by_onnxruntime(
    module: IRModule, name: str, inputs: Sequence[Any], runs: int, options: dict[str, Any]
) -> tuple[OperatorTime, ...]:
    from .onnxruntime_engine import compile_module

    with tempfile.TemporaryDirectory() as folder:
        finish: list[Callable[[], str]] = []
        entry = compile_module(module, **options, profile=(str(Path(folder) / "times"), finish))[name]
        for _ in range(runs + 1):
            entry(*inputs)
        events = [event for end in finish for event in json.loads(Path(end()).read_text(encoding="utf-8"))]
    bindings = {binding.var.name_hint for function in module.functions.values() for binding in iter_bindings(function)}
    return _read_events(events, runs, bindings)


def _read_events(events: Iterable[dict[str, Any]], runs: int, bindings: Set[str]) -> tuple[OperatorTime, ...]:
    """The kernels among the events of a profile; each node's first event belongs to the run that is not counted."""
    taken: dict[tuple[str, str], list[float]] = {}
    for event in events:
        node = str(event.get("name", ""))
        if event.get("cat") == "Node" and node.endswith("_kernel_time"):
            key = (node.removesuffix("_kernel_time"), str(event.get("args", {}).get("op_name", "")))
            taken.setdefault(key, []).append(event["dur"] / 1e6)
    return tuple(
        OperatorTime(_binding_of(node, bindings), op, _median_run(times, runs + 1))
        for (node, op), times in taken.items()
    )


def _median_run(times: Sequence[float], runs: int) -> float:
    """The median time of one node over the runs, without the first; a node in a loop runs several times in each."""
    count = max(1, len(times) // runs)
    return median([sum(times[start : start + count]) for start in range(0, len(times), count)][1:] or times)


def _binding_of(node: str, bindings: Set[str]) -> str:
    """The binding that a node was written for, whose name is a prefix of the node's; else the node's name."""
    name = node.removeprefix("fused ")
    while name and name not in bindings:
        name = name.rpartition("/")[0]
    return name or node


# --- engines that run Python


def _by_line(program: PythonModule, run: Callable[[], Any], runs: int) -> tuple[OperatorTime, ...]:
    run()
    taken: dict[int, list[float]] = {}
    for _ in range(runs):
        totals: dict[int, float] = {}
        _traced(program.filename, run, totals)
        for line, seconds in totals.items():
            taken.setdefault(line, []).append(seconds)
    found: dict[tuple[str, str], float] = {}
    for line, times in taken.items():
        place = program.places.get(line)
        if place is None or place.var is None:
            continue
        value = place.value
        op = value.op.name.removeprefix("relax.") if isinstance(value, Call) and isinstance(value.op, Op) else "value"
        key = (place.var.name_hint, op)
        found[key] = found.get(key, 0.0) + median(times)
    return tuple(OperatorTime(binding, op, seconds) for (binding, op), seconds in found.items())


def _traced(filename: str, run: Callable[[], Any], totals: dict[int, float]) -> None:
    """Call ``run``, and add the time spent at each line of the program in ``filename`` to ``totals``."""
    stack: list[list[Any]] = []

    def on_line(frame: FrameType, event: str, _argument: Any) -> Any:
        now = perf_counter()
        current = stack[-1]
        if current[0] is not None:
            totals[current[0]] = totals.get(current[0], 0.0) + now - current[1]
        if event == "return":
            stack.pop()
            if stack:
                stack[-1][1] = perf_counter()  # the time of an inner function is on its own lines
            return None
        current[0] = frame.f_lineno
        current[1] = perf_counter()
        return on_line

    def on_call(frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != filename:
            return None
        stack.append([None, perf_counter()])
        return on_line

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        run()
    finally:
        sys.settrace(before)

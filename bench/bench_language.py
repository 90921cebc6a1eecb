"""The language on programs of 1,000 to 100,000 bindings: every step costs the same for each binding, however many.

Two shapes of program. In a chain each binding reads the one before; in a fan-out all bindings read one value, are
independent of each other, and are read by one call at the end.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import regraft
from bench.table import Table
from regraft import BlockBuilder, Expr, IRModule, TensorType, Var
from regraft.ir import structural_equal, structural_hash
from regraft.script import relax as R

SIZES = (1_000, 10_000, 100_000)
RUNS = {1_000: 15, 10_000: 5, 100_000: 3}
MOST_GROWTH = 1.5
"""How much more a binding may cost in the largest program than in the smallest."""

STEP_NAMES = {
    "build": "write it with BlockBuilder, types inferred",
    "print": "to text",
    "parse": "from text",
    "equal": "compare with a copy, names apart",
    "hash": "hash of the structure",
    "compile": "for the NumPy engine",
    "run": "on 2 × 3 tensors",
}


def chain(count: int) -> IRModule:
    """``count`` additions, each of the one before and the parameter."""

    def write(builder: BlockBuilder, x: Var) -> Expr:
        value: Expr = x
        for _ in range(count - 1):
            value = builder.emit(R.add(value, x))
        return R.add(value, x)

    return _module(write)


def fan_out(count: int) -> IRModule:
    """``count`` - 1 additions of the parameter to itself, and one concat of them all."""

    def write(builder: BlockBuilder, x: Var) -> Expr:
        return R.concat([builder.emit(R.add(x, x)) for _ in range(count - 1)], axis=0)

    return _module(write)


def _module(write: Callable[[BlockBuilder, Var], Expr]) -> IRModule:
    x = Var("x", TensorType((2, 3), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(write(builder, x))
        builder.emit_func_output(result)
    return builder.get()


def _steps(make: Callable[[int], IRModule], count: int) -> dict[str, Callable[[], Any]]:
    module = make(count)
    copy = make(count)
    text = module.script()
    main = regraft.build(module, target="numpy")["main"]
    argument = np.ones((2, 3), "float32")
    steps: dict[str, Callable[[], Any]] = {
        "build": lambda: make(count),
        "print": module.script,
        "parse": lambda: regraft.parse(text),
        "equal": lambda: structural_equal(module, copy),
        "hash": lambda: structural_hash(module),
        "compile": lambda: regraft.build(module, target="numpy"),
        "run": lambda: main(argument),
    }
    _check(steps, module, argument)
    return steps


def _check(steps: dict[str, Callable[[], Any]], module: IRModule, argument: np.ndarray) -> None:
    """The steps do their work: what is timed is right."""
    assert steps["equal"]()
    assert structural_equal(module, steps["parse"]())
    result = steps["run"]()
    assert float(result.flat[0]) in (2.0, len(module["main"].body.blocks[0]) + 1.0)


def _seconds(step: Callable[[], Any], runs: int) -> float:
    """The median time of a run, with what is alive before it out of the collector's sight."""
    times: list[float] = []
    for _ in range(runs):
        gc.collect()
        gc.freeze()
        start = perf_counter()
        result = step()
        times.append(perf_counter() - start)
        del result
        gc.unfreeze()
    return median(times)


def run() -> list[Table]:
    """Time every step at every size; raises when a binding costs too much more in the largest program."""
    tables: list[Table] = []
    missed: list[str] = []
    for title, make in (("Chain", chain), ("Fan-out", fan_out)):
        costs: dict[str, list[float]] = {}
        for count in SIZES:
            for name, step in _steps(make, count).items():
                costs.setdefault(name, []).append(_seconds(step, RUNS[count]) / count * 1e6)
        rows: list[tuple[str | int | float, ...]] = []
        for name, per_binding in costs.items():
            growth = per_binding[-1] / per_binding[0]
            rows.append((f"{name}: {STEP_NAMES[name]}", *per_binding, growth))
            if growth > MOST_GROWTH:
                missed.append(f"{title}, {name}: a binding costs {growth:.2f} times as much at {SIZES[-1]:,}")
        note = f"µs a binding, median. The gate: at {SIZES[-1]:,} at most {MOST_GROWTH} times the cost at {SIZES[0]:,}."
        columns = ("step", *(f"{size:,} bindings" for size in SIZES), "growth")
        tables.append(Table(title, columns, tuple(rows), note))
    if missed:
        shown = "\n\n".join(table.markdown() for table in tables)
        raise AssertionError("; ".join(missed) + "\n\n" + shown)
    return tables

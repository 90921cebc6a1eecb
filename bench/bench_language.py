"""The cost of each step of the language on programs of 1,000 to 100,000 bindings: it must not grow per binding.

There are two shapes of programs. In a chain, each binding reads the one before. In a fan-out, all bindings read one
value, are independent of each other, and are read by one call at the end.

Times are processor times, so other work on the machine does not affect them. While a large program grows, Python's
cyclic collector visits young objects again. This adds a cost that levels off, and a library must not turn the collector
off for its users. So the table and the gates have the growth both with and without the collector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import regraft
from bench.table import Table
from bench.timing import seconds
from regraft import BlockBuilder, Expr, IRModule, TensorType, Var
from regraft.analysis import well_formed
from regraft.ir import structural_equal, structural_hash
from regraft.script import relax as R

SIZES = (1_000, 10_000, 100_000)
RUNS = {1_000: 9, 10_000: 3, 100_000: 3}
MOST_GROWTH = 1.5
"""The limit for the cost of a binding in the largest program, relative to the smallest, without the collector."""
MOST_GROWTH_COLLECTING = 2.5
"""The same limit with the collector, which does not run at all while the smallest program is measured."""

STEPS = {
    "build": "write it with BlockBuilder, types inferred",
    "print": "to text",
    "parse": "from text",
    "equal": "compare with a copy, names apart",
    "hash": "hash of the structure",
    "check": "well-formed, types included",
    "compile": "for the NumPy engine",
    "run": "on 2 × 3 tensors",
}


def chain(count: int) -> IRModule:
    """A chain of ``count`` additions: each adds the parameter to the result before it."""

    def write(builder: BlockBuilder, x: Var) -> Expr:
        value: Expr = x
        for _ in range(count - 1):
            value = builder.emit(R.add(value, x))
        return R.add(value, x)

    return _module(write)


def fan_out(count: int) -> IRModule:
    """A fan-out of ``count`` - 1 additions of the parameter to itself, and one concat of all results."""

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
        "check": lambda: well_formed(module),
        "compile": lambda: regraft.build(module, target="numpy"),
        "run": lambda: main(argument),
    }
    _check(steps, module, argument)
    return steps


def _check(steps: dict[str, Callable[[], Any]], module: IRModule, argument: np.ndarray) -> None:
    """Check that the timed steps do their work correctly."""
    assert steps["equal"]()
    assert steps["check"]()
    assert structural_equal(module, steps["parse"]())
    result = steps["run"]()
    assert float(result.flat[0]) in (2.0, len(module["main"].body.blocks[0]) + 1.0)


def _measure(make: Callable[[int], IRModule]) -> dict[str, list[float]]:
    """The µs per binding of each step at each size, then the growth from the first size to the last, with and without
    collector.
    """
    costs: dict[str, list[float]] = {name: [] for name in STEPS}
    without: dict[str, list[float]] = {name: [] for name in STEPS}
    for count in SIZES:
        for name, step in _steps(make, count).items():
            scale = 1e6 / count
            costs[name].append(seconds(step, RUNS[count], collect=True) * scale)
            if count in (SIZES[0], SIZES[-1]):
                without[name].append(seconds(step, RUNS[count], collect=False) * scale)
    for name, figures in costs.items():
        figures += [figures[-1] / figures[0], without[name][-1] / without[name][0]]
    return costs


def run() -> list[Table]:
    """Time every step at every size; raise `AssertionError` if a binding costs too much more in the largest program."""
    tables: list[Table] = []
    missed: list[str] = []
    columns = ("step", *(f"{size:,} bindings" for size in SIZES), "growth", "growth without collector")
    what = "; ".join(f"{name}: {meaning}" for name, meaning in STEPS.items())
    note = (
        f"µs a binding, medians. {what}. The gates: a binding of {SIZES[-1]:,} costs at most "
        f"{MOST_GROWTH_COLLECTING} times one of {SIZES[0]:,}, and {MOST_GROWTH} times without the collector."
    )
    for title, make in (("Chain", chain), ("Fan-out", fan_out)):
        figures = _measure(make)
        rows = tuple((name, *cells) for name, cells in figures.items())
        tables.append(Table(title, columns, rows, note))
        for name, (*_, growth, without) in figures.items():
            if growth > MOST_GROWTH_COLLECTING or without > MOST_GROWTH:
                missed.append(f"{title}, {name}: growth {growth:.2f}, {without:.2f} without the collector")
    if missed:
        shown = "\n".join(table.markdown() for table in tables)
        raise AssertionError(f"{'; '.join(missed)}\n\n{shown}")
    return tables

"""The test kit: variables, arrays, programs from text, runs of them, and the one table of tolerances.

Rooms of tests build their own helpers on these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import regraft as rx
from regraft.ir import Function, IRModule, TensorType, Var
from regraft.ir.dtypes import as_dtype
from regraft.script.text import parse

TOLERANCES = {
    "float64": 1e-10,
    "float32": 2e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "complex64": 2e-5,
    "complex128": 1e-10,
}
"""Relative (and, scaled by the size of the values, absolute) error that a result of each dtype may have."""


# --- operands


def tensor(shape=None, dtype="float32", ndim=-1, name="x"):
    """A variable of that type, as far as it is given."""
    return Var(name, TensorType(shape, dtype, ndim))


def counting(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Whole numbers that differ from place to place, up to 96, so that every dtype holds them."""
    return (np.arange(int(np.prod(shape))).reshape(shape) % 97).astype(dtype)


def normal(
    shape: Sequence[int], dtype: Any = np.float32, seed: int = 0, *, scale: float = 1.0, shift: float = 0.0
) -> np.ndarray:
    """Normally distributed numbers, the same in every run."""
    values = np.random.default_rng(seed + len(shape)).standard_normal(tuple(shape))
    return (values * scale + shift).astype(dtype)


# --- programs


def program(signature: str, body: str, results: str, header: str = "") -> Function:
    """A function of one dataflow block, from text: ``program("x: R.Tensor((2, 3))", "y = R.exp(x)", "y")``."""
    lines = [
        "from regraft.script import relax as R, tir as T",
        "@R.function",
        f"def main({signature}):",
        *(f"    {line}" for line in header.splitlines()),
        "    with R.dataflow():",
        *(f"        {line}" for line in body.strip().splitlines()),
        f"        R.output({results})",
        f"    return {results}" if "," not in results else f"    return ({results})",
    ]
    parsed = parse("\n".join(lines))
    assert isinstance(parsed, Function)
    return parsed


def run(program: Function | IRModule, inputs: Sequence[Any], name: str = "main") -> Any:
    """The results of ``program`` for ``inputs`` on the reference engine."""
    if isinstance(program, Function):
        program = IRModule({"main": program.with_attr("global_symbol", "main")})
    return rx.build(program, target="numpy")[name](*inputs)


# --- comparison


def assert_close(actual: Any, expected: Any, tolerance: float | None = None) -> None:
    """Same shape, same dtype, same values up to what the dtype can tell; tuples field by field."""
    if isinstance(expected, tuple | list):
        assert isinstance(actual, tuple | list), f"{type(actual)} is no tuple"
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert_close(a, e, tolerance)
        return
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, expected {expected.dtype}"
    bound = tolerance if tolerance is not None else TOLERANCES.get(as_dtype(actual.dtype), 0.0)
    if bound == 0.0:
        np.testing.assert_array_equal(actual, expected)
        return
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    finite = np.abs(expected.astype(wide)[np.isfinite(expected.astype(wide))])
    scale = float(finite.max()) if finite.size else 1.0
    np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=bound, atol=bound * max(scale, 1e-30))


# --- work


def python_calls(action: Callable[[], object]) -> int:
    """The number of Python functions that are called while ``action`` runs."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def python_steps(action: Callable[[], object]) -> int:
    """The number of lines and turns of loops that Python runs in ``action``, those of comprehensions, too."""
    count = 0

    def note(_frame: Any, _event: str, _argument: Any) -> Any:
        nonlocal count
        count += 1
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        action()
    finally:
        sys.settrace(before)
    return count

"""Helpers of the tests of rewriting: both sides run and compared, well-formedness asserted, bindings counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from regraft.analysis import well_formed
from regraft.ir import Call, Function, IRModule, Op, Var
from regraft.ir.visitor import iter_bindings
from regraft.reference.trials import difference
from regraft.testing.random_programs import random_inputs
from tests import kit


def run(program: Function | IRModule, inputs: Sequence[Any], name: str = "main") -> list[np.ndarray]:
    """The tensors that ``program`` computes, tuples opened. A function alone is called whatever its name is."""
    return _flat(kit.run(program, inputs, name))


def _flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple | list):
        return [tensor for field in value for tensor in _flat(field)]
    return [np.asarray(value)]


def assert_rewritten(
    before: Function, after: Function, *, exact: bool = False, inputs: Sequence[Any] | None = None
) -> None:
    """``after`` is another program than ``before``, well formed, and computes the same on ``inputs``, random if None.

    Values agree to the bit if ``exact``, else as far as rounding allows.
    """
    assert after is not before
    well_formed(before)
    well_formed(after)
    given = random_inputs(before) if inputs is None else inputs
    expected, got = run(before, given), run(after, given)
    if exact:
        assert_same_bits(expected, got)
    else:
        found = difference(tuple(expected), tuple(got))
        assert found is None, str(found)


def assert_same_bits(expected: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> None:
    """The same tensors, to the bit."""
    assert [(t.dtype, t.shape) for t in got] == [(t.dtype, t.shape) for t in expected]
    for left, right in zip(expected, got, strict=True):
        if left.tobytes() != right.tobytes():
            np.testing.assert_array_equal(right, left)
            raise AssertionError(f"the same numbers, but other bits: {left!r} and {right!r}")


def op_counts(function: Function) -> Counter[str]:
    """The number of calls of each operator, branches included."""
    values = [binding.value for binding in iter_bindings(function)]
    return Counter(v.op.name for v in values if isinstance(v, Call) and isinstance(v.op, Op))


def bound_names(function: Function) -> list[str]:
    """The names of the variables that the function binds, in order."""
    return [binding.var.name_hint for binding in iter_bindings(function)]


def bound_vars(function: Function) -> dict[str, Var]:
    """The variables that the function binds, by name."""
    return {binding.var.name_hint: binding.var for binding in iter_bindings(function)}

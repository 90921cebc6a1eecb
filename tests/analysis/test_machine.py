"""Estimated times of calls: what a machine's numbers say about shapes."""

from __future__ import annotations

import pytest

from regraft.analysis import Machine, call_seconds
from regraft.ir import SymVar, TensorType, Var
from regraft.ir.dims import Dim
from regraft.script import relax as R

SLOW_ARITHMETIC = Machine(operations=1e3, bytes=1e9, call=0.0, part=0.0, columns=1)
SLOW_MEMORY = Machine(operations=1e12, bytes=1e3, call=0.0, part=0.0, columns=1)
ONLY_CALLS = Machine(operations=1e30, bytes=1e30, call=3.0, part=2.0, columns=1)


def _tensor(*shape: Dim, dtype: str | None = "float32") -> Var:
    return Var("x", TensorType(shape, dtype))


def test_the_slower_of_arithmetic_and_memory_decides() -> None:
    product = R.matmul(_tensor(5, 3), _tensor(3, 4))
    assert call_seconds(product, SLOW_ARITHMETIC) == pytest.approx(2 * 5 * 3 * 4 / 1e3)
    assert call_seconds(product, SLOW_MEMORY) == pytest.approx(4 * (15 + 12 + 20) / 1e3)


def test_every_call_has_its_price_and_every_part_of_a_result_too() -> None:
    assert call_seconds(R.exp(_tensor(2)), ONLY_CALLS) == pytest.approx(3.0)
    assert call_seconds(R.split(_tensor(6), 3), ONLY_CALLS) == pytest.approx(3.0 + 3 * 2.0)


@pytest.mark.parametrize(("columns", "times"), [(1, 32), (8, 4), (32, 1), (33, 64 / 33), (64, 1)])
def test_a_product_is_as_slow_as_one_of_full_tiles(columns: int, times: float) -> None:
    product = R.matmul(_tensor(5, 3), _tensor(3, columns))
    plain, tiled = (call_seconds(product, SLOW_ARITHMETIC._replace(columns=tile)) for tile in (1, 32))
    assert plain is not None
    assert tiled == pytest.approx(plain * times)


def test_a_product_with_a_vector_has_no_columns_to_fill_up() -> None:
    product = R.matmul(_tensor(5, 3), _tensor(3))
    assert call_seconds(product, SLOW_ARITHMETIC._replace(columns=32)) == pytest.approx(2 * 5 * 3 / 1e3)


def test_symbolic_sizes_are_taken_at_the_size_asked_for() -> None:
    n, m = SymVar("n"), SymVar("m")
    product = R.matmul(_tensor(n, 3), _tensor(3, m))
    assert call_seconds(product, SLOW_ARITHMETIC, size=10) == pytest.approx(2 * 10 * 3 * 10 / 1e3)


def test_a_size_that_the_asked_for_one_makes_impossible_counts_as_none() -> None:
    n = SymVar("n")
    assert call_seconds(R.exp(_tensor(n - 2)), SLOW_ARITHMETIC, size=1) == 0.0
    assert call_seconds(R.exp(_tensor(n // (n - 1))), SLOW_ARITHMETIC, size=1) == 0.0


def test_a_call_that_cannot_be_counted_has_no_estimate() -> None:
    assert call_seconds(R.exp(Var("x", TensorType(None, "float32", 2)))) is None
    assert call_seconds(R.matmul(_tensor(2, 3, dtype=None), _tensor(3, 4, dtype=None))) is None

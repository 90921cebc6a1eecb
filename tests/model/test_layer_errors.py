"""The layers that err the most: found by halving groups, with errors that add up as squares."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regraft.op as R
from regraft.ir import BlockBuilder, Expr, SymVar, const
from regraft.model.layer_errors import LayerErrors, fewest, layer_errors, work_of
from regraft.model.timing import Deadline
from tests.passes.harness import module_of


class Model:
    """A model whose layers err by these, alone; it counts how often it is measured."""

    def __init__(self, errors: dict[str, float]) -> None:
        self.errors, self.measured = errors, 0

    def error(self, few: Collection[str]) -> float:
        self.measured += 1
        return sum(self.errors[name] ** 2 for name in few) ** 0.5


def _model(size: int, bad: dict[int, float]) -> Model:
    return Model({f"layer{index}": bad.get(index, 1e-6) for index in range(size)})


def _found(model: Model, allowed: float, deadline: Deadline | None = None) -> LayerErrors:
    work, error = dict.fromkeys(model.errors, 1.0), model.error(model.errors)
    return layer_errors(model.error, work, error, allowed, deadline or Deadline(60))


def test_two_bad_layers_among_a_thousand_are_found_in_few_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model(1000, {17: 0.3, 803: 0.2})
    monkeypatch.setattr("regraft.model.timing.monotonic", lambda: 0.001 * model.measured)
    found = _found(model, 0.01, Deadline(0.05))
    assert set(found.worst_first[:2]) == {"layer17", "layer803"}
    assert found.count_to_go_back(0.01) == 2
    assert model.measured < 60


def test_each_layer_is_measured_where_there_is_time() -> None:
    model = _model(12, {3: 0.5})
    assert _found(model, 0.01).alone == pytest.approx(model.errors)


def test_without_time_all_layers_are_one_group() -> None:
    model = _model(12, {3: 0.5})
    [group] = _found(model, 0.01, Deadline(0)).groups
    assert list(group.layers) == list(model.errors)


@given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=40), st.floats(0.01, 3.0))
def test_the_worst_layers_go_back_until_what_is_left_is_allowed(errors: list[float], allowed: float) -> None:
    model = Model({f"layer{index}": error for index, error in enumerate(errors)})
    found = _found(model, allowed)
    count, order = found.count_to_go_back(allowed), found.worst_first
    assert [model.errors[name] for name in order] == pytest.approx(sorted(errors, reverse=True), rel=1e-6)
    assert found.left_after(count) == pytest.approx(model.error(order[count:]), abs=1e-6)
    assert model.error(order[count:]) <= allowed * (1 + 1e-6)
    assert count == 0 or model.error(order[count - 1 :]) > allowed * (1 - 1e-6)


def test_an_error_without_bound_is_traced_to_its_layer() -> None:
    model = _model(64, {40: float("inf")})
    assert _found(model, 0.01).worst_first[0] == "layer40"


def test_of_layers_that_err_alike_those_go_back_that_gain_the_least() -> None:
    model = Model(dict.fromkeys(("narrow", "wide", "narrow_too", "wide_too"), 0.1))
    work = {"narrow": 10.0, "wide": 40.0, "narrow_too": 10.0, "wide_too": 40.0}
    for deadline in (Deadline(60), Deadline(0)):
        found = layer_errors(model.error, work, model.error(model.errors), 0.15, deadline)
        assert found.worst_first == ["narrow", "narrow_too", "wide", "wide_too"]
        assert found.count_to_go_back(0.15) == 2
        assert found.left_after(2) == pytest.approx(0.02**0.5)


def test_the_work_of_layers_is_their_operations_and_the_weights_that_they_read() -> None:
    def make(builder: BlockBuilder, x: Expr) -> Expr:
        wide = builder.emit(R.matmul(x, const(np.ones((6, 8), np.float32))), "wide")
        return builder.emit(R.matmul(wide, const(np.ones((8, 2), np.float32))), "narrow")

    named = ["wide", "narrow", "of_another_function"]
    assert work_of(module_of((5, 6), make)["main"], named) == {
        "wide": 1 + 2 * 5 * 6 * 8 + 48,
        "narrow": 1 + 2 * 5 * 8 * 2 + 16,
        "of_another_function": 1,
    }
    assert set(work_of(module_of((SymVar("n"), 6), make)["main"], named).values()) == {1}


@given(st.integers(2, 300), st.data())
def test_the_fewest_are_found_nearly_by_halving(most: int, data: st.DataObject) -> None:
    needed = data.draw(st.integers(1, most))

    def between(low: int, high: int) -> int:
        return low if high == most else (low + high) // 2

    found = fewest(lambda count: count >= needed, between, most, Deadline(60))
    assert needed <= found <= max(needed * 1.1 + 1, needed + 1)


@given(st.integers(2, 300), st.data())
def test_the_fewest_are_enough_whatever_is_guessed(most: int, data: st.DataObject) -> None:
    needed, guessed = data.draw(st.integers(1, most)), data.draw(st.integers(0, most))
    tried: list[int] = []

    def holds(count: int) -> bool:
        tried.append(count)
        return count >= needed

    found = fewest(holds, lambda _low, _high: guessed, most, Deadline(60))
    assert found == most or (found >= needed and found in tried)
    assert len(tried) < 40
    if guessed == needed < most:
        assert (found, tried) == (needed, [needed])


def test_where_the_time_is_over_what_is_guessed_is_taken() -> None:
    assert fewest(lambda count: count >= 9, lambda _low, _high: 20, 300, Deadline(0)) == 20


def test_what_alone_errs_by_more_than_is_allowed_goes_back_before_all_that_can_stay() -> None:
    """The one of three layers that errs by 0.0123 went back first, for it saves little, and then none could stay."""
    work = {"wide": 1e6, "wide_too": 2e6, "narrow": 10.0}
    alone = {"wide": 0.03, "wide_too": 0.04, "narrow": 0.0123}
    found = layer_errors(lambda few: sum(alone[name] ** 2 for name in few) ** 0.5, work, 0.052, 0.02, Deadline(60))
    assert found.worst_first == ["wide", "wide_too", "narrow"]
    assert found.count_to_go_back(0.02) == 2
    assert LayerErrors.expected(alone, work, 0.02).worst_first == found.worst_first

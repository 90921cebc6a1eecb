"""The layers that err the most: found by halving groups, with errors that add up as squares."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.model.layer_errors import count_to_go_back, error_left, errors_alone, fewest, find_groups, worst_first
from regraft.model.timing import Deadline


class Model:
    """A model whose layers err by these, alone; it counts how often it is measured."""

    def __init__(self, errors: dict[str, float]) -> None:
        self.errors, self.measured = errors, 0

    def error(self, few: Collection[str]) -> float:
        self.measured += 1
        return sum(self.errors[name] ** 2 for name in few) ** 0.5


def _model(size: int, bad: dict[int, float]) -> Model:
    return Model({f"layer{index}": bad.get(index, 1e-6) for index in range(size)})


def test_two_bad_layers_among_a_thousand_are_found_in_few_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model(1000, {17: 0.3, 803: 0.2})
    monkeypatch.setattr("regraft.model.timing.monotonic", lambda: 0.001 * model.measured)
    groups = find_groups(model.error, list(model.errors), model.error(model.errors), 0.01, Deadline(0.05))
    assert set(worst_first(groups)[:2]) == {"layer17", "layer803"}
    assert count_to_go_back(groups, 0.01) == 2
    assert model.measured < 60


def test_each_layer_is_measured_where_there_is_time() -> None:
    model = _model(12, {3: 0.5})
    groups = find_groups(model.error, list(model.errors), model.error(model.errors), 0.01, Deadline(60))
    assert errors_alone(groups) == pytest.approx(model.errors)


def test_without_time_all_layers_are_one_group() -> None:
    model = _model(12, {3: 0.5})
    [group] = find_groups(model.error, list(model.errors), 0.5, 0.01, Deadline(0))
    assert list(group.layers) == list(model.errors)


@given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=40), st.floats(0.01, 3.0))
def test_the_worst_layers_go_back_until_what_is_left_is_allowed(errors: list[float], allowed: float) -> None:
    model = Model({f"layer{index}": error for index, error in enumerate(errors)})
    groups = find_groups(model.error, list(model.errors), model.error(model.errors), allowed, Deadline(60))
    count = count_to_go_back(groups, allowed)
    order = worst_first(groups)
    assert [model.errors[name] for name in order] == pytest.approx(sorted(errors, reverse=True), rel=1e-6)
    assert error_left(groups, count) == pytest.approx(model.error(order[count:]), abs=1e-6)
    assert model.error(order[count:]) <= allowed * (1 + 1e-6)
    assert count == 0 or model.error(order[count - 1 :]) > allowed * (1 - 1e-6)


def test_an_error_without_bound_is_traced_to_its_layer() -> None:
    model = _model(64, {40: float("inf")})
    groups = find_groups(model.error, list(model.errors), float("inf"), 0.01, Deadline(60))
    assert worst_first(groups)[0] == "layer40"


@given(st.integers(2, 300), st.data())
def test_the_fewest_are_found_nearly_from_any_expected_count(most: int, data: st.DataObject) -> None:
    needed, expected = data.draw(st.integers(1, most)), data.draw(st.integers(0, most))
    found = fewest(lambda count: count >= needed, expected, most, Deadline(60))
    assert needed <= found <= max(needed * 1.25 + 1, needed + 1)


def test_where_the_time_is_over_the_expected_count_is_taken() -> None:
    assert fewest(lambda count: count >= 9, 20, 300, Deadline(0)) == 20

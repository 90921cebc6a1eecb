"""Loops, branches and state in files of OpenVINO: each gives what OpenVINO gives, step by step."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.convert import UnsupportedOperatorError
from regraft.engine import build
from regraft.formats.openvino import from_openvino
from regraft.model import open_model
from regraft.run.originals import openvino_original
from regraft.transform import op_counts
from tests.formats.test_openvino_files import both, f, library, ops, saved
from tests.kit import assert_close


def _recurrence(x: Any, state: Any, scale: Any, *, backwards: bool) -> list[Any]:
    """A hidden state over the slices of ``x`` (batch, 5, 4), with a factor that is the same in all steps."""
    row, hidden = ops.parameter([2, 1, 4], np.float32), ops.parameter([2, 3], np.float32)
    factor = ops.parameter([3], np.float32)
    pushed = ops.matmul(ops.squeeze(row, ops.constant([1])), f(4, 3), False, False)
    after = ops.tanh(ops.add(pushed, ops.multiply(hidden, factor)))
    found, sums = ops.result(ops.unsqueeze(after, ops.constant([1]))), ops.result(ops.reduce_sum(after, [1]))
    carried = ops.result(after)
    loop = ops.tensor_iterator()
    loop.set_body(library.Model([carried, found, sums], [row, hidden, factor], "body"))
    ends = (-1, -1, 1, 0, 1) if backwards else (0, 1, 1, -1, 1)
    loop.set_sliced_input(row, x.output(0), *ends)
    loop.set_merged_input(hidden, state.output(0), carried.output(0))
    loop.set_invariant_input(factor, scale.output(0))
    last = [loop.get_iter_value(one.output(0), -1) for one in (carried, sums)]
    return [loop.get_concatenated_slices(found.output(0), *ends), *last]


def _until(count: Any, start: Any, limit: Any) -> list[Any]:
    """Halved and counted on while the sum is below ``limit``, ``count`` times at most."""
    value, step, most = (ops.parameter([3], np.float32), ops.parameter([], np.int64), ops.parameter([], np.float32))
    after = ops.add(ops.multiply(value, np.float32(0.5)), ops.convert(step, "f32"))
    carried, rows = ops.result(after), ops.result(ops.unsqueeze(after, ops.constant([0])))
    goes_on = ops.result(ops.less(ops.reduce_sum(after, [0]), most))
    loop = ops.loop(count.output(0), ops.constant(True).output(0))
    loop.set_function(library.Model([carried, goes_on, rows], [value, step, most], "body"))
    loop.set_special_body_ports([1, 1])
    loop.set_merged_input(value, start.output(0), carried.output(0))
    loop.set_invariant_input(most, limit.output(0))
    return [loop.get_iter_value(carried.output(0), -1), loop.get_concatenated_slices(rows.output(0), 0, 1, 1, -1, 0)]


def _branches(condition: Any, x: Any, y: Any) -> list[Any]:
    params = [[ops.parameter([2, 3], np.float32) for _ in range(2)] for _ in range(2)]
    results = [ops.result(ops.matmul(*params[0], False, True)), ops.result(ops.constant(f(2, 2)))]
    choice = ops.if_op(condition.output(0))
    choice.set_then_body(library.Model([results[0]], params[0], "then"))
    choice.set_else_body(library.Model([results[1]], params[1], "else"))
    for operand, pair in zip((x, y), zip(*params, strict=True), strict=True):
        choice.set_input(operand.output(0), *pair)
    return [ops.relu(choice.set_output(*results))]


LOOPS: dict[str, tuple[Callable[..., Any], list[list[np.ndarray]]]] = {
    "slices one after another": (
        lambda *given: _recurrence(*given, backwards=False), [[f(2, 5, 4), f(2, 3), f(3)]]
    ),
    "slices from the last one": (
        lambda *given: _recurrence(*given, backwards=True), [[f(2, 5, 4), f(2, 3), f(3)]]
    ),
    "a condition and a count": (
        _until, [[np.int64(count), f(3), np.float32(limit)] for count, limit in ((6, 1e9), (6, 4.0), (1, 0.0))]
    ),
    "branches": (_branches, [[np.bool_(way), f(2, 3), f(2, 3)] for way in (True, False)]),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_a_layer_that_holds_networks_gives_what_it_gives_in_openvino(name: str, tmp_path: Path) -> None:
    make, inputs = LOOPS[name]
    path = saved(tmp_path, make, [np.asarray(one) for one in inputs[0]])
    for given in inputs:
        expected, found = both(path, [np.asarray(one) for one in given])
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert_close(ours, theirs)


def _state(path: Path) -> Path:
    x = ops.parameter([1, 3], np.float32, name="x")
    kept = library.op.util.VariableInfo()
    kept.data_shape, kept.data_type, kept.variable_id = library.PartialShape([1, 3]), library.Type.f32, "sum"
    variable = library.op.util.Variable(kept)
    after = ops.add(ops.read_value(ops.constant(np.zeros((1, 3), np.float32)), variable), x)
    model = library.Model([ops.result(ops.relu(after))], [ops.assign(after, variable)], [x], "net")
    library.save_model(model, path / "net.xml", compress_to_fp16=False)
    return path / "net.xml"


def test_state_that_is_kept_from_run_to_run_is_an_input_and_a_result(tmp_path: Path) -> None:
    path = _state(tmp_path)
    original = openvino_original(path, threads=1)
    module = from_openvino(path)
    assert sorted(param.name_hint for param in module["main"].params) == ["sum", "x"]
    names = [param.name_hint for param in module["main"].params]
    run, state = build(module)["main"], np.zeros((1, 3), np.float32)
    for _ in range(3):
        x = f(1, 3)
        given = {"x": x, "sum": state}
        found, state = (np.asarray(one) for one in run(*[given[name] for name in names]))
        assert_close(found, original([x])[0])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ((r'(<input axis.*)stride="1"', r'\1stride="2"'), "slices of 1 from 0 to -1 in steps of 2, not all one by one"),
        ((r'type="Tanh"', 'type="Tangle"'), r"(?s)Tangle .*the operator is not supported.*its body holds a layer"),
        ((r'<edge from-layer="\d+" to-layer', '<edge from-layer="999" to-layer'), "its body holds a layer that cannot"),
    ],
)
def test_a_loop_that_cannot_be_read_is_named_with_the_reason(
    changed: tuple[str, str], message: str, tmp_path: Path
) -> None:
    path = saved(tmp_path, LOOPS["slices one after another"][0], LOOPS["slices one after another"][1][0])
    path.write_text(re.sub(*changed, path.read_text()))
    with pytest.raises(UnsupportedOperatorError, match=message):
        open_model(path)


def test_steps_over_slices_stay_a_loop(tmp_path: Path) -> None:
    path = saved(tmp_path, LOOPS["slices one after another"][0], LOOPS["slices one after another"][1][0])
    assert op_counts(from_openvino(path))["relax.loop"] == 1

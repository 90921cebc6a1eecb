"""The guard: what is measured to be faster is kept, and nothing else. Times are given: no test depends on any."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft
from regraft import optimize
from regraft.engine import BuildError
from regraft.ir import Function, IRModule
from regraft.model import OptimizationReport, Turns, gain, time_in_turns, timing
from regraft.model import measure as guard
from regraft.model.timing import clock_for
from regraft.passes import CombineParallelMatmul, FoldConstant, RemoveNoOps, function_pass
from regraft.run import originals
from tests.cli.harness import invoke
from tests.model.clock import turns_of
from tests.model.models import files, projections, save


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the states take, one after another; the model as it was takes 1."""
    given: list[float] = []
    monkeypatch.setattr(guard, "time_in_turns", turns_of(given))
    return given


def measured(model: Any, **options: Any) -> tuple[Any, OptimizationReport]:
    reports: list[OptimizationReport] = []
    result = optimize(model, measure=True, threads=1, report=reports.append, **options)
    return result, reports[0]


def test_a_gain_is_the_ratio_of_the_least_times_and_its_noise_what_shorter_measurements_differ_by() -> None:
    before, after = Turns((4.0, 5.0, 6.0, 4.0, 5.0, 4.2)), Turns((2.0, 2.0, 2.0, 2.5, 2.5, 2.0))
    found = gain(before, after)
    assert found.ratio == 2.0
    # Of every third turn the ratios are 4/2, 5/2 and 4.2/2; of single turns the middle ones go from 2 to 2.5.
    assert found.noise == pytest.approx((2.5 - 2.0) / 2.0)
    assert found.is_faster
    assert str(found) == "2.00 ± 0.50 times as fast"


def test_a_least_time_that_one_lucky_turn_had_is_within_the_noise() -> None:
    usual = [1.3, 1.2, 1.25, 1.3, 1.2, 1.3, 1.25, 1.2, 1.3]
    found = gain(Turns((*usual, 1.3)), Turns((*[1.01 * each for each in usual], 0.8)))
    assert found.ratio == pytest.approx(1.2 / 0.8)
    assert not found.is_faster


def test_turns_that_differ_by_little_make_little_noise() -> None:
    assert not gain(Turns((1.02, 1.1, 1.0)), Turns((1.0, 1.0, 1.0))).is_faster


def test_ways_take_turns_and_each_runs_in_every_round() -> None:
    order: list[str] = []
    ways = [lambda: order.append("a"), lambda: order.append("b")]
    turns = time_in_turns([ways[0], ways[1]], clock="cpu", rounds=4)
    assert [len(one.seconds) for one in turns] == [4, 4]
    assert all(one.least >= 0 for one in turns)
    changes = sum(x != y for x, y in pairwise(order))
    assert 3 <= changes <= 10, "every second round goes the other way, so rounds meet at the same one"


@pytest.mark.parametrize(("budget", "runs", "noise"), [(3, 1, 0.1), (25, 2, 0.1), (500, 50, 0.01)])
def test_no_run_begins_that_would_end_after_the_budget(
    budget: float, runs: int, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    for name in ("monotonic", "perf_counter"):
        monkeypatch.setattr(timing, name, lambda: seconds[0])
    monkeypatch.setattr(timing, "CLOCKS", {"wall": lambda: seconds[0]})
    made = [0]

    def way() -> None:
        seconds[0] += 5
        made[0] += 1

    before, after = time_in_turns([way, way], clock="wall", budget=budget)
    assert made[0] == 2 * runs
    assert seconds[0] <= max(budget, 10), "beyond the budget goes the first run of each way only"
    assert gain(before, after) == (1.0, noise)


def test_short_ways_have_three_rounds_whatever_the_budget() -> None:
    assert [len(one.seconds) for one in time_in_turns([lambda: None] * 2, clock="cpu", budget=0)] == [3, 3]


def test_a_way_whose_memory_was_not_used_is_timed_once_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The original waits while a candidate is made, and the memory of its weights is taken away meanwhile."""
    seconds = [0.0]
    for name in ("monotonic", "perf_counter"):
        monkeypatch.setattr(timing, name, lambda: seconds[0])
    monkeypatch.setattr(timing, "CLOCKS", {"wall": lambda: seconds[0]})

    def way(taken: float) -> None:
        seconds[0] += taken

    first = iter([0.5])
    old, new = time_in_turns([lambda: way(next(first, 0.3)), lambda: way(0.3)], clock="wall", budget=0)
    assert old.seconds == pytest.approx([0.3])
    assert gain(old, new).ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("to_beat", "seconds_of_it", "turns", "ratio"),
    [(1.0, 0.25, 2, 1.0), (1.0, 0.2, 5, 1.25), (1.8, 0.2, 1, 1.75), (None, 0.2, 1, 1.75)],
)
def test_what_seems_faster_by_one_turn_gets_further_ones_while_it_does(
    to_beat: float | None, seconds_of_it: float, turns: int, ratio: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    for name in ("monotonic", "perf_counter"):
        monkeypatch.setattr(timing, name, lambda: seconds[0])
    monkeypatch.setattr(timing, "CLOCKS", {"wall": lambda: seconds[0]})

    def way(taken: float) -> None:
        seconds[0] += taken

    beside_other_work = iter([0.25, 0.35])
    ways = [lambda: way(next(beside_other_work, 0.25)), lambda: way(seconds_of_it)]
    before, after = time_in_turns(ways, clock="wall", budget=0, to_beat=to_beat)
    assert len(before.seconds) == len(after.seconds) == turns
    assert gain(before, after).ratio == pytest.approx(ratio)
    assert seconds[0] <= 0.5 + 5


def test_after_the_budget_no_further_state_is_tried_and_nothing_is_remembered(
    times: list[float], tmp_path: Path
) -> None:
    times[:] = [2.0, 2.0]
    for _ in range(2):
        _, report = measured(projections(), budget=0, cache=tmp_path / "kept")
        found = report.measurement
        assert found is not None
        assert found.decided_before is None
        first, *others = found.states
        assert first.gain is not None
        assert others
        said = "not tried: the 0 seconds for measuring were over (--budget gives more)"
        assert {one.problem for one in others} == {said}


def test_one_thread_is_measured_by_processor_time_and_more_by_the_wall() -> None:
    assert (clock_for(1), clock_for(4), clock_for(None), clock_for(1, "wall")) == ("cpu", "wall", "wall", "wall")
    with pytest.raises(regraft.model.UsageError, match="there is no clock 'sun'; there are: cpu, wall"):
        clock_for(1, "sun")  # type: ignore[arg-type]


def test_a_faster_result_is_kept(times: list[float], tmp_path: Path) -> None:
    times[:] = [0.5]
    source = save(projections(), tmp_path / "model.onnx")
    _, report = measured(source, output=tmp_path / "out.onnx", verify=True)
    assert report.measurement is not None
    assert report.measurement.kept == "after all passes"
    assert report.measurement.gain is not None
    assert report.measurement.gain.ratio == 2.0
    assert sum(node.op_type == "MatMul" for node in onnx.load(tmp_path / "out.onnx").graph.node) == 1
    assert report.bytes_before == source.stat().st_size
    assert report.bytes_after == (tmp_path / "out.onnx").stat().st_size


def test_where_nothing_is_faster_the_file_is_the_one_that_came_in(times: list[float], tmp_path: Path) -> None:
    times[:] = [1.0, 1.2, 1.1]
    source = save(projections(), tmp_path / "model.onnx")
    passes = [FoldConstant(), CombineParallelMatmul(), FoldConstant()]
    _, report = measured(source, output=tmp_path / "out.onnx", passes=passes, verify=True)
    assert (tmp_path / "out.onnx").read_bytes() == source.read_bytes()
    assert report.measurement is not None
    assert report.measurement.kept == "as it was"
    assert report.measurement.gain is None
    assert dict(report.ops_after) == dict(report.ops_before)


def test_a_faster_state_between_the_passes_is_kept_where_the_result_is_not(times: list[float]) -> None:
    @function_pass(opt_level=0, name="Slow")
    def slow(function: Function, _module: IRModule, _context: Any) -> Function:
        return function.with_attr("slow", 1)

    times[:] = [1.5, 0.4, 0.8]
    result, report = measured(projections(), passes=[CombineParallelMatmul(), FoldConstant(), slow])
    assert report.measurement is not None
    names = [one.name for one in report.measurement.states]
    assert names == ["after all passes", "up to FoldConstant", "up to CombineParallelMatmul"]
    assert report.measurement.kept == "up to FoldConstant"
    assert [node.op_type for node in result.graph.node] == ["MatMul", "Split"]


def test_a_state_is_held_to_the_least_time_of_the_model_in_any_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model as it was takes 1, and 2 in all turns of the second trial, in which the state takes 1.5."""
    taken = [(1.0, 1.2), (2.0, 1.5)]

    def turns(ways: Any, **_: Any) -> list[Turns]:
        before, after = taken.pop(0) if taken else (1.0, 1.2)
        return [Turns((before,) * 6), Turns((after,) * 6)]

    monkeypatch.setattr(guard, "time_in_turns", turns)
    model = projections()
    result, report = measured(model)
    assert result is model
    assert report.measurement is not None
    assert report.measurement.states[1].gain is not None
    assert report.measurement.states[1].gain.ratio == pytest.approx(1 / 1.5)


def test_a_state_with_other_values_is_not_kept_however_fast(times: list[float]) -> None:
    @function_pass(opt_level=0, name="Wrong")
    def wrong(function: Function, _module: IRModule, _context: Any) -> Function:
        from regraft import op
        from regraft.ir import BlockBuilder, Tuple

        builder = BlockBuilder()
        with builder.function("main", list(function.params)):
            value = builder.emit(op.reshape(function.params[0], [-1, 96]))
            shapes = [field.shape for field in function.ret_ty.fields]
            fields = [builder.emit(op.multiply(op.sum(value), op.ones(shape, "float32"))) for shape in shapes]
            builder.emit_func_output(Tuple(fields))
        made = builder.get()["main"]
        return Function(made.params, made.body, None, True, function.attrs)

    model = projections()
    times[:] = [0.9]
    result, report = measured(model, passes=[RemoveNoOps(), CombineParallelMatmul(), wrong])
    assert report.measurement is not None
    first = report.measurement.states[0]
    assert first.problem is not None
    assert "elements differ" in first.problem
    assert report.measurement.kept == "up to CombineParallelMatmul"
    assert [node.op_type for node in result.graph.node if node.op_type == "MatMul"] == ["MatMul"]


def _on_bytes() -> onnx.ModelProto:
    """A product of bytes of all bits, and a sum that changes nothing."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["numbers", "one"], ["same"]),
        helper.make_node("Mul", ["same", "scale"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "bytes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [
            numpy_helper.from_array(np.full((64, 3), 127, np.int8), "w"),
            numpy_helper.from_array(np.array(1, np.float32), "one"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_values_are_those_without_the_overflow_of_this_processor(
    times: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def overflowing(model: onnx.ModelProto, *, threads: int | None = None) -> originals.RunOriginal:
        """Products of bytes as a processor without instructions for them may have them: other ones in each form."""
        run, off = originals.onnx_original(model, threads=threads), len(model.graph.node)
        return lambda inputs: [one + off for one in run(inputs)]

    monkeypatch.setattr(originals, "multiplies_bytes", lambda: False)
    monkeypatch.setattr(guard, "onnx_original", overflowing)
    times[:] = [0.5]
    result, report = measured(_on_bytes(), passes=[RemoveNoOps()])
    assert report.measurement is not None
    assert [one.problem for one in report.measurement.states] == [None]
    assert len(result.graph.node) == 4


def test_a_model_in_memory_comes_back_as_the_object_that_it_is(times: list[float]) -> None:
    times[:] = [1.0]
    model = projections()
    assert measured(model, passes=[CombineParallelMatmul()])[0] is model


@pytest.mark.parametrize("in_one", [True, False])
def test_weights_in_files_of_their_own_go_beside_the_copy(in_one: bool, times: list[float], tmp_path: Path) -> None:
    times[:] = [1.0]
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    outside: dict[str, Any] = {"save_as_external_data": True, "size_threshold": 0}
    outside |= {"location": "w.bin"} if in_one else {"all_tensors_to_one_file": False}
    source = save(projections(), tmp_path / "in" / "model.onnx", **outside)
    before = files(tmp_path / "in")
    measured(source, output=tmp_path / "out" / "model.onnx", passes=[CombineParallelMatmul()], verify=True)
    assert files(tmp_path / "in") == before
    x = np.random.default_rng(1).standard_normal((3, 6, 16)).astype("float32")
    pairs = [ort.InferenceSession(tmp_path / side / "model.onnx").run(None, {"x": x}) for side in ("in", "out")]
    for expected, actual in zip(*pairs, strict=True):
        np.testing.assert_array_equal(actual, expected)
    models = [onnx.load(tmp_path / side / "model.onnx", load_external_data=False) for side in ("in", "out")]
    for constant in (constant for model in models for constant in model.graph.initializer):
        constant.ClearField("external_data")
    assert models[0] == models[1]
    if in_one:
        assert (tmp_path / "out" / "model.onnx.data").read_bytes() == (tmp_path / "in" / "w.bin").read_bytes()


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino", "numpy"])
def test_the_engine_that_is_named_is_the_one_that_runs(engine: str, times: list[float]) -> None:
    times[:] = [0.5]
    _, report = measured(projections(), engine=engine)
    assert report.measurement is not None
    assert report.measurement.engine == engine
    assert report.measurement.gain is not None


def test_an_engine_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BuildError, match="there is no target 'abacus'"):
        measured(projections(), engine="abacus")


def test_the_command_says_what_was_kept_what_it_took_and_how_fast_it_is(times: list[float], tmp_path: Path) -> None:
    times[:] = [0.25]
    source, report = save(projections(), tmp_path / "model.onnx"), tmp_path / "report.json"
    arguments = ("optimize", source, "-o", tmp_path / "out.onnx", "--measure", "--threads", 1, "--report", report)
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert "Measured in turns on onnxruntime, by the cpu clock" in result.stdout
    last = result.stdout.strip().splitlines()[-1]
    assert last.startswith("6 nodes became 2, ")
    assert last.endswith("4.00 ± 0.04 times as fast")
    facts = json.loads(report.read_text())["measurement"]
    assert facts["kept"] == "after all passes"
    assert facts["states"][0]["times_as_fast"] == 4.0
    times[:] = [2.0] * 9
    slower = invoke(*arguments)
    assert "kept: nothing is faster by more than noise" in slower.stdout
    last = slower.stdout.strip().splitlines()[-1]
    assert last.endswith("as fast as it was, the model as it was: nothing is faster by more than noise")

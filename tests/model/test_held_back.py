"""Samples that give ranges, that choose a precision, and that are held back; and what fresh inputs err by."""

from __future__ import annotations

from typing import Any

import numpy as np

import regraft.op as R
from regraft import build, optimize
from regraft.ir import BlockBuilder, Expr, IRModule, const
from regraft.model import OptimizationReport
from regraft.model.attempts import PrecisionReport, outputs_error
from regraft.model.calibration import calibrated
from regraft.model.inputs import ExpectedRun
from regraft.model.parts import MeasuredOn, halves, parted
from tests.passes.harness import module_of


def _layers(rows: int) -> IRModule:
    random = np.random.default_rng(4)
    matrices = [
        const((random.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32))
        for shape in ((32, 64), (64, 48), (48, 10))
    ]

    def body(builder: BlockBuilder, x: Expr) -> Expr:
        for matrix in matrices[:-1]:
            x = builder.emit(R.nn.relu(builder.emit(R.matmul(x, matrix))))
        return R.matmul(x, matrices[-1])

    return module_of((rows, 32), body)


def _drawn(count: int, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.standard_normal((2, 32)).astype(np.float32) for _ in range(count)]


def _in_bytes(samples: list[np.ndarray], **options: Any) -> tuple[IRModule, PrecisionReport]:
    reports: list[OptimizationReport] = []
    usual: dict[str, Any] = {"precision": "int8", "engine": "onnxruntime", "threads": 1, "cache": False}
    given = {**usual, "max_error": 0.04, **options}
    result = optimize(_layers(2), calibrate=[[x] for x in samples], report=reports.append, **given)
    assert reports[0].precision is not None
    return result, reports[0].precision


def test_few_fresh_inputs_exceed_the_error_of_a_model_with_ranges_of_samples() -> None:
    """With the ends of all samples as ranges, and errors on the same, 19 of 60 did, by up to 9.8 times."""
    result, report = _in_bytes(_drawn(12, seed=5))
    assert report.kept is not None
    assert report.kept.name.startswith("int8 static")
    before, after = (build(one, target="onnxruntime")["main"] for one in (_layers(2), result))
    errors = [outputs_error([np.asarray(before(x))], [np.asarray(after(x))])[0] for x in _drawn(60, seed=2)]
    assert sum(error > 0.04 for error in errors) <= 3


def test_a_report_says_how_many_samples_were_for_what() -> None:
    _, report = _in_bytes(_drawn(8, seed=1))
    assert report.measured_on == MeasuredOn(4, 2, 2, are_halves=True, ranges_of_all=True)
    assert report.measured_on.name == "4 samples"
    assert report.measured_on.notes == [
        "Ranges come from 4 other samples, and in the end from all",
        "Errors are the largest to expect of such inputs: the mean plus four standard deviations; 2 of them took no "
        "part in the choices",
    ]
    assert report.to_dict()["measured_on"]["ranges"] == 4
    assert MeasuredOn(3, 3, 0, are_shared=True).notes[0] == (
        "Errors were measured on the 3 samples that gave the ranges, and other inputs may have larger errors: "
        "give 4 samples or more"
    )
    _, report = _in_bytes(_drawn(2, seed=1), inputs=[[x] for x in _drawn(5, seed=2)])
    assert report.measured_on == MeasuredOn(2, 3, 2)


def test_ranges_of_all_samples_are_told_of_only_where_something_has_them() -> None:
    _, report = _in_bytes(_drawn(8, seed=1), max_error=1e-6)
    assert report.kept is None
    assert report.measured_on is not None
    assert report.measured_on.notes[0] == "Ranges come from 4 other samples"


def test_all_samples_measure_errors_where_no_precision_takes_ranges() -> None:
    _, report = _in_bytes(_drawn(8, seed=1), precision="int8-weights")
    assert report.measured_on == MeasuredOn(0, 4, 4)
    assert not any("Ranges" in note for note in report.measured_on.notes)


def test_each_sample_is_for_one_thing_where_there_are_enough() -> None:
    runs = [ExpectedRun([index], [], is_finite=True) for index in range(9)]
    parts = parted(runs, gives_ranges=True)
    assert [len(parts.ranges or ()), len(parts.chosen), len(parts.held_back)] == [5, 2, 2]
    assert sorted(value for [value] in parts.all_inputs) == list(range(9))
    assert [len(part) for part in parted(runs, gives_ranges=False)[1:3]] == [5, 4]
    assert [len(part) for part in halves(runs)[1:3]] == [5, 4]
    parts = parted(runs[:3], gives_ranges=True)
    assert [len(parts.ranges or ()), len(parts.chosen), len(parts.held_back)] == [3, 3, 0]
    assert parts.measured_on(0) == MeasuredOn(3, 3, 0, are_shared=True)


def test_a_range_goes_beyond_the_samples_but_for_a_bound_that_several_reach() -> None:
    matrix = const(np.eye(4, dtype=np.float32))

    def body(builder: BlockBuilder, x: Expr) -> Expr:
        bounded = builder.emit(R.clip(x, -2, 2), "bounded")
        return R.add(R.matmul(x, matrix), R.matmul(bounded, matrix))

    module = module_of((1, 4), body)
    samples = [np.array([[-3, end, 0, 1]], np.float32) for end in (3, 4, 5)]
    ranges = calibrated(module, "main", [[x] for x in samples])
    assert ranges["x"] == (-3, 8)
    assert ranges["bounded"] == (-2, 2)
    [single] = [calibrated(module, "main", [[x]])["x"] for x in samples[:1]]
    assert single == (-4.5, 4.5)
    negative = calibrated(module, "main", [[-np.ones((1, 4), np.float32)]])["x"]
    assert negative == (-1.5, -1)

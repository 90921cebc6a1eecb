"""Errors of a precision on random inputs, where no samples are given: several inputs, and few others exceed them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft.op as R
from regraft import build, optimize
from regraft.ir import BlockBuilder, Expr, IRModule, SymVar, TensorType, Var, const
from regraft.model import OptimizationReport
from regraft.model.attempts import Budget, largest_expected, outputs_error
from regraft.model.candidates import Candidate
from regraft.model.errors import UsageError
from regraft.model.inputs import ExpectedRun
from regraft.model.measure import Bench
from regraft.model.parts import MeasuredOn
from regraft.model.samples import TriedOn
from regraft.model.search import PrecisionSearch
from regraft.model.timing import Deadline
from regraft.model.trials import Trials
from regraft.passes.quantize import QuantizeDynamic
from tests.passes.harness import module_of


def _products(rows: int) -> IRModule:
    """Three products of random weights."""
    random = np.random.default_rng(11)
    matrices = [
        const((random.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32))
        for shape in ((96, 128), (128, 128), (128, 64))
    ]

    def body(builder: BlockBuilder, x: Expr) -> Expr:
        for matrix in matrices[:-1]:
            x = builder.emit(R.nn.relu(builder.emit(R.matmul(x, matrix))))
        return R.matmul(x, matrices[-1])

    return module_of((rows, 96), body)


def _table(rows: int) -> Expr:
    return const(np.zeros((rows, 4), np.float32))


def test_the_largest_error_to_expect_is_beyond_those_of_a_few_inputs() -> None:
    assert largest_expected([0.25]) == 0.25
    assert largest_expected([1.0, 2.0, 3.0, 2.0]) == pytest.approx(2 + 4 * (2 / 3) ** 0.5)
    assert largest_expected([1.0, 3.0]) == pytest.approx(2 + 4 * ((2 + 2 * 0.2**2) / 3) ** 0.5)
    assert largest_expected([0.5, 0.5]) == pytest.approx(0.5 + 4 * (2 * 0.05**2 / 3) ** 0.5)
    assert largest_expected([0.5] * 4) == 0.5
    assert largest_expected([0.5, np.inf]) == np.inf
    assert largest_expected([0.0] * 30 + [1.0]) == 1.0


def _rows_above(limit: float) -> IRModule:
    """The rows of a product that begin with more than ``limit``, as boxes with a score are found."""
    matrix = const((np.random.default_rng(5).standard_normal((96, 64)) / 96**0.5).astype(np.float32))
    x = Var("x", TensorType((4, 96), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        rows = builder.emit(R.matmul(x, matrix))
        scores = builder.emit(R.take(rows, const(np.array(0)), axis=1))
        places = builder.emit(R.nonzero(builder.emit(R.greater(scores, const(np.float32(limit))))))
        found = builder.match_cast(places, TensorType((1, SymVar("found")), "int64"))
        builder.emit_func_output(builder.emit(R.take(rows, builder.emit(R.squeeze(found, [0])), axis=0)))
    return builder.get()


def test_inputs_in_which_nothing_is_found_are_not_those_that_errors_are_measured_on() -> None:
    module = _rows_above(2.0)
    run = build(module)["main"]
    trials = TriedOn().several(module["main"], lambda inputs: [run(*inputs)], 10.0)
    found = [run(*TriedOn(seed).trials(module["main"], lambda inputs: [run(*inputs)])[0].inputs) for seed in range(16)]
    assert {0, 1} <= {len(one) for one in found}
    assert sorted(len(one) for one in found if len(one)) == sorted(len(one.outputs[0]) for one in trials)


def test_no_precision_is_chosen_where_nothing_is_found_in_any_input() -> None:
    with pytest.raises(UsageError, match="gives no elements on the random inputs, so the error of a precision"):
        optimize(_rows_above(100.0), precision="int8")


def _rows_of_two_tables(builder: BlockBuilder, x: Expr) -> Expr:
    taken = builder.emit(R.take(_table(500), builder.emit(R.astype(x, "int64")), axis=0))
    return R.add(taken, R.take(_table(300), x, axis=0))


def test_random_inputs_are_several_of_the_same_sizes_that_take_rows_of_the_whole_of_a_table() -> None:
    n, m = SymVar("n"), SymVar("m")
    x = Var("x", TensorType((n, m), "int32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(_rows_of_two_tables(builder, x)))
    function = builder.get()["main"]
    drawn = TriedOn(seed=3).several(function, lambda inputs: [inputs[0] + 1], 10.0)
    assert len(drawn) == 16
    assert len({one.inputs[0].shape for one in drawn}) == 1
    assert len({one.inputs[0].tobytes() for one in drawn}) == 16
    assert 200 < max(one.inputs[0].max() for one in drawn) < 300
    assert len(TriedOn().several(function, lambda inputs: [inputs[0]], 0.0)) == 4
    given = TriedOn(given=[[np.zeros((2, 3), np.int32)]])
    assert len(given.several(function, lambda inputs: [inputs[0]], 10.0)) == 1


def test_few_inputs_exceed_an_error_that_random_ones_were_drawn_for() -> None:
    """The input of the default seed errs by 0.010 with all layers in 8 bits, others by up to 0.026."""
    random, module = np.random.default_rng(5), _products(1)
    before = build(module, target="onnxruntime")["main"]
    for allowed in (0.013, 0.015):
        reports: list[OptimizationReport] = []
        options: dict[str, Any] = {"engine": "onnxruntime", "threads": 1, "max_error": allowed, "cache": False}
        result = optimize(module, precision="int8-weights", report=reports.append, **options)
        after = build(result, target="onnxruntime")["main"]
        inputs = [random.standard_normal((1, 96)).astype(np.float32) for _ in range(60)]
        errors = [outputs_error([np.asarray(before(x))], [np.asarray(after(x))])[0] for x in inputs]
        report = reports[0].precision
        assert report is not None
        assert report.measured_on == MeasuredOn(0, 8, 8, are_random=True)
        assert sum(error > allowed for error in errors) <= 1


def test_what_errs_by_too_much_on_inputs_that_it_was_not_chosen_by_is_measured_on_these_as_well() -> None:
    random, module = np.random.default_rng(5), _products(40)
    run = build(module, target="numpy")["main"]
    first, second = (random.standard_normal((40, 96)).astype(np.float32) for _ in range(2))
    other = ExpectedRun([second], [np.asarray(run(second)) + np.float32(1)], is_finite=True)
    trials = Trials(
        module, "main", [[first]], [[np.asarray(run(first))]], Budget(0.05), Deadline(10.0), 1, others=[other]
    )
    search = PrecisionSearch(trials, Bench("onnxruntime", 1), lambda inputs: [np.asarray(run(*inputs))])
    one = Candidate("int8 dynamic", "onnxruntime", {}, lambda keep, _: QuantizeDynamic(keep))
    found = search.attempt(one)
    assert found.errs
    assert found.row.error is not None
    assert found.row.error > 0.1
    assert len(trials.inputs) == 2
    trials.others = [other._replace(outputs=[np.asarray(run(second))])]
    trials.inputs, trials.expected = [[first]], [[np.asarray(run(first))]]
    assert search.attempt(one).module is not None
    assert len(trials.inputs) == 1

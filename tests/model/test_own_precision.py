"""Models that another tool brought to few bits: they come out at least as fast and as exact as they came in."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import regraft.op as R
from regraft import build, from_onnx, optimize
from regraft.ir import BlockBuilder, Expr, IRModule, TensorType, Var, const
from regraft.model import OptimizationReport
from regraft.model import search as room
from regraft.model import trials as trials_room
from regraft.model.attempts import Budget, PrecisionReport
from regraft.model.candidates import Candidate
from regraft.model.inputs import ExpectedRun
from regraft.model.measure import Bench
from regraft.model.models import open_model, run_exactly
from regraft.model.search import PrecisionSearch
from regraft.model.sensitivity import codes_within_steps, error_by_steps, rounds_to_steps
from regraft.model.timing import Deadline
from regraft.model.trials import OWN, Trials
from regraft.model.verification import run_program
from regraft.run import originals
from regraft.run.originals import RunOriginal
from tests.model.clock import turns_of
from tests.passes.harness import module_of

_STEP = np.float32(0.05)

_QOPERATOR = """<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> own (float[4, 2] x) => (float[4, 2] y)
    <float step = {0.05}, uint8 zero = {128}, int8[2, 2] weight = {3, -5, 7, 2}, int8 none = {0}> {
        codes = QuantizeLinear(x, step, zero)
        sums = com.microsoft.QGemm(codes, step, zero, weight, step, none, , step, zero)
        y = DequantizeLinear(sums, step, zero)
    }"""
_OF_ONNX_RUNTIME_ALONE = """<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
    own (float[4, 2] x) => (float[4, 4] y) <float step = {0.05}, uint8 zero = {128}> {
        codes = QuantizeLinear(x, step, zero)
        numbers = DequantizeLinear(codes, step, zero)
        y = com.microsoft.CDist<metric = "euclidean">(numbers, numbers)
    }"""


def _product(builder: BlockBuilder, x: Expr) -> Expr:
    weight = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32) / 8
    return builder.emit(R.matmul(x, const(weight)))


def _quantized(builder: BlockBuilder, x: Expr) -> Expr:
    scale, zero = const(_STEP), const(np.int8(0))
    codes = builder.emit(R.quantize(_product(builder, x), scale, zero))
    return R.multiply(builder.emit(R.dequantize(codes, scale, zero)), const(np.float32(4)))


def _search(module: IRModule, moved: float) -> PrecisionSearch:
    """A search with an allowed error of less than a step, on inputs that were ``moved`` by that part of them."""
    draw = np.random.default_rng(3)
    inputs = [[draw.standard_normal((256, 64)).astype(np.float32)] for _ in range(2)]
    entry = build(module, target="numpy")["main"]
    expected = [[np.asarray(entry(x * np.float32(1 + moved)))] for [x] in inputs]
    trials = Trials(module, "main", inputs, expected, Budget(0.01), Deadline(60), threads=1)
    return PrecisionSearch(trials, Bench(threads=1), lambda _: expected[0])


def _problem(module: IRModule, moved: float) -> str | None:
    return _search(module, moved).attempt(Candidate(OWN, "onnxruntime", {})).row.problem


def test_what_is_rounded_to_another_step_by_its_last_digit_is_no_error_of_a_precision() -> None:
    """Each engine lets such values go to another step; a file of ONNX Runtime's quantizer was refused for that."""
    module = module_of((256, 64), _quantized)
    trial = _search(module, 3e-6).attempt(Candidate(OWN, "onnxruntime", {}))
    assert trial.row.problem is None
    assert trial.row.error is not None
    assert trial.row.allowed is not None
    assert 0.01 < trial.row.error <= trial.row.allowed <= 1 / 16
    assert trial.row.outcome(trial.row).startswith("kept: errors of up to 0.049")


def test_a_limit_that_was_asked_for_holds_for_other_steps_as_well() -> None:
    search = _search(module_of((256, 64), _quantized), 3e-6)
    search.trials.is_strict = True
    row = search.attempt(Candidate(OWN, "onnxruntime", {})).row
    assert row.problem is not None
    assert row.problem.endswith("where 0.01 is allowed")
    assert row.allowed is None


def test_other_errors_of_a_model_in_few_bits_are_held_to_the_limit() -> None:
    problem = _problem(module_of((256, 64), _quantized), 0.3)
    assert problem is not None
    assert problem.endswith("where 0.0625 is allowed")
    problem = _problem(module_of((256, 64), _product), 0.03)
    assert problem is not None
    assert problem.endswith("where 0.01 is allowed")


def _lowered(path: Path, **options: Any) -> PrecisionReport:
    reports: list[OptimizationReport] = []
    optimize(path, precision="auto", threads=1, report=reports.append, **options)
    found = reports[0].precision
    assert found is not None
    return found


def test_a_file_that_openvino_does_not_open_is_not_chosen_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search tried a program without the operators of the file, which then could not be handed over."""
    monkeypatch.setattr(room, "time_in_turns", turns_of([0.5] * 8))
    onnx.save(onnx.parser.parse_model(_OF_ONNX_RUNTIME_ALONE), file := tmp_path / "own.onnx")
    output = tmp_path / "out.onnx"
    report = _lowered(file, output=output, max_error=1.0)
    assert report.kept is None
    row = next(one for one in report.attempts if one.engine == "openvino" and one.name == OWN)
    assert row.problem is not None
    assert row.problem.startswith("OpenVINO cannot open the model")
    x = np.random.default_rng(4).standard_normal((4, 2)).astype(np.float32)
    before, after = (ort.InferenceSession(path).run(None, {"x": x})[0] for path in (file, output))
    assert np.array_equal(before, after)


def test_operators_on_quantized_tensors_are_written_out_for_openvino(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of ONNX Runtime's quantizer in its form with such operators stayed where they were."""
    monkeypatch.setattr(room, "time_in_turns", turns_of([0.5] * 8))
    onnx.save(onnx.parser.parse_model(_QOPERATOR), file := tmp_path / "own.onnx")
    output = tmp_path / "out.onnx"
    report = _lowered(file, output=output, max_error=0.5)
    assert report.kept is not None
    assert (report.kept.name, report.kept.engine) == (OWN, "openvino")
    written = [(node.domain, node.op_type) for node in onnx.load(output).graph.node]
    assert ("com.microsoft", "QGemm") not in written
    x = np.random.default_rng(4).standard_normal((4, 2)).astype(np.float32)
    before, after = (ort.InferenceSession(path).run(None, {"x": x})[0] for path in (file, output))
    np.testing.assert_allclose(before, after, atol=1.01 * _STEP)


def test_roundings_inside_of_an_operator_are_the_models_own() -> None:
    module = from_onnx(onnx.parser.parse_model(_QOPERATOR))
    x = np.random.default_rng(3).standard_normal((4, 2)).astype(np.float32)

    def run(one: IRModule) -> RunOriginal:
        entry = build(one)["main"]
        return lambda inputs: [np.asarray(entry(*inputs))]

    trials = [ExpectedRun([x * step], run(module)([x * step]), True) for step in np.linspace(0.5, 1.5, 100, dtype="f4")]
    assert rounds_to_steps(module["main"])
    assert 0 < error_by_steps(module, run, trials) <= 1 / 16


def test_sums_of_bytes_that_overflow_here_are_the_cause_of_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "time_in_turns", turns_of([0.5] * 8))
    monkeypatch.setattr(originals, "multiplies_bytes", lambda: False)
    monkeypatch.setattr(trials_room, "openvino_original", lambda *_, **__: lambda inputs: [inputs[0] + 1])
    for largest, is_told in ((127, True), (60, False)):
        text = _QOPERATOR.replace("3, -5, 7, 2", f"3, -5, {largest}, 2")
        onnx.save(onnx.parser.parse_model(text), file := tmp_path / "own.onnx")
        report = _lowered(file, output=tmp_path / "out.onnx")
        row = next(one for one in report.attempts if one.engine == "openvino" and one.name == OWN)
        assert row.problem is not None
        assert ("is allowed: sums of its bytes overflow on this processor" in row.problem) is is_told


def test_limits_of_16_bits_that_openvino_leaves_out_are_the_cause_of_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "time_in_turns", turns_of([0.5] * 8))
    text = """<ir_version: 10, opset_import: ["" : 21]> own (float[4, 2] x) => (float[4, 2] y)
        <float[2, 2] weight = {1, 2, -3, 4}, float step = {0.0005}, uint16 zero = {0}> {
            products = MatMul(x, weight)
            codes = QuantizeLinear(products, step, zero)
            positive = DequantizeLinear(codes, step, zero)
            y = MatMul(positive, weight)
        }"""
    onnx.save(onnx.parser.parse_model(text), file := tmp_path / "own.onnx")
    report = _lowered(file, output=tmp_path / "out.onnx")
    row = next(one for one in report.attempts if one.engine == "openvino" and one.name == OWN)
    assert row.problem is not None
    assert row.problem.endswith("OpenVINO leaves out quantizations to 16 bits, and their limits")


def test_what_onnx_runtime_rounds_beside_weights_in_blocks_is_no_error(tmp_path: Path) -> None:
    """It takes these products for those that it computes on bytes, so that what is right had an error of 1 %."""
    codes = np.random.default_rng(0).integers(-8, 8, (64, 32))
    scales = np.random.default_rng(1).uniform(0.5, 1, (2, 32))
    text = """<ir_version: 10, opset_import: ["" : 21]> own (float[5, 64] x) => (float[5, 32] y) {
        weight = DequantizeLinear<axis = 0, block_size = 32>(codes, scales)
        y = MatMul(x, weight)
    }"""
    model = onnx.parser.parse_model(text)
    scales = scales.astype(np.float32)
    model.graph.initializer.append(onnx.helper.make_tensor("codes", onnx.TensorProto.INT4, [64, 32], codes.reshape(-1)))
    model.graph.initializer.append(onnx.numpy_helper.from_array(scales, "scales"))
    onnx.save(model, file := tmp_path / "own.onnx")
    run = run_exactly(open_model(file))
    assert run is not None
    x = np.random.default_rng(4).standard_normal((5, 64)).astype(np.float32)
    right = x @ (codes * np.repeat(scales, 32, axis=0))
    np.testing.assert_allclose(run([x])[0], right, atol=1e-4 * np.abs(right).max())


def test_an_input_that_nothing_reads_does_not_keep_a_file_from_openvino(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "time_in_turns", turns_of([0.5] * 8))
    text = """<ir_version: 10, opset_import: ["" : 17]> two (float[3] unread, float[4, 2] x) => (float[4, 2] y)
        <float[2, 2] weight = {1, 2, 3, 4}> { tall = MatMul(x, weight) y = Relu(tall) }"""
    onnx.save(onnx.parser.parse_model(text), file := tmp_path / "two.onnx")
    report = _lowered(file, output=tmp_path / "out.onnx", max_error=0.1)
    assert report.kept is not None, report


def test_a_code_that_rounding_explains_is_told_from_a_wrong_one_behind_a_block_of_its_own() -> None:
    x, builder = Var("x", TensorType((3,), "float32")), BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            data = builder.emit_output(R.multiply(x, const(np.float32(0.5))))
        builder.emit_func_output(builder.emit(R.quantize(data, const(np.float32(0.5)), const(np.int8(0)))))
    module = builder.get()
    assert len(module["main"].body.blocks) > 1
    own = np.array([0, 2, 3], np.int8)  # the first one lies in the middle between 0 and 1
    trial = ExpectedRun([np.array([0.5, 2, 3], np.float32)], [own], True)
    for found, is_near in (([1, 2, 3], True), ([0, 3, 3], False)):
        codes = np.array(found, np.int8)
        assert codes_within_steps(module, "main", partial(run_program, name="main"), trial, [codes]) == [is_near]

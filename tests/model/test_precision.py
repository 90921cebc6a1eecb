"""Lower precisions within a budget of error: what is tried, what goes back to float32, what is kept and what is said.

Times are given where they decide, so that no test depends on any.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import regraft.op as R
from regraft import build, optimize, to_onnx
from regraft.ir import BlockBuilder, Expr, If, SymVar, TensorType, Var, const
from regraft.model import (
    OptimizationReport,
    UsageError,
    VerificationError,
    asked_precision,
    calibration,
    job,
    open_model,
)
from regraft.model import measure as guard
from regraft.model import precision as precision_room
from regraft.model import search as room
from regraft.model.asked_precision import check_choice
from regraft.model.attempts import Attempt, Budget, PrecisionReport, outputs_error, rows_that_agree
from regraft.model.candidates import Candidate
from regraft.model.precision import Choice
from regraft.model.samples import read_samples
from regraft.model.search import PrecisionSearch, most_promising_first
from regraft.model.timing import Deadline, Gain
from regraft.passes import op_counts
from regraft.run import BuildError
from regraft.run.openvino_engine import supported_precisions
from regraft.run.originals import onnx_original, openvino_original
from regraft.run.processor import FEATURES, processor_features
from tests.cli.harness import invoke
from tests.model.clock import turns_of
from tests.passes.harness import module_of

RNG = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def _the_same_numbers_for_a_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(11))


def weights(*shape: int) -> Expr:
    return const((RNG.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32))


def _layers(builder: BlockBuilder, x: Expr) -> Expr:
    first = builder.emit(R.nn.relu(builder.emit(R.matmul(x, weights(96, 128)), "first")))
    return R.matmul(
        builder.emit(R.nn.relu(builder.emit(R.matmul(first, weights(128, 128)), "second"))), weights(128, 64)
    )


def _with_an_outlier(builder: BlockBuilder, x: Expr) -> Expr:
    """The second of three layers reads one value that is 3,000 times as large as the others, and does not count."""
    first = builder.emit(R.matmul(x, weights(96, 128)), "first")
    scale = np.ones(128, np.float32)
    scale[5] = 3e3
    matrix = weights(128, 128).data.numpy().copy()
    matrix[5] = 0
    second = builder.emit(R.matmul(builder.emit(R.multiply(first, const(scale))), const(matrix)), "second")
    return R.matmul(builder.emit(R.tanh(second)), weights(128, 64))


def _images(builder: BlockBuilder, x: Expr) -> Expr:
    first = builder.emit(R.nn.relu(R.nn.conv2d(x, weights(16, 3, 3, 3), padding=1)))
    second = builder.emit(R.nn.relu(R.nn.conv2d(first, weights(24, 16, 3, 3), padding=1)))
    return R.mean(second, [2, 3])


def _in_branches(builder: BlockBuilder, x: Expr) -> Expr:
    """A product and a convolution in a branch each, between two products that every run computes."""
    first = builder.emit(R.matmul(x, weights(96, 128)), "first")
    builder.begin_scope()
    inner = builder.emit(R.tanh(first), "inner")
    then = builder.end_scope(R.matmul(inner, weights(128, 128)))
    builder.begin_scope()
    image = builder.emit(R.reshape(R.nn.relu(first), (1, 1, 40, 128)), "image")
    otherwise = builder.end_scope(R.reshape(R.nn.conv2d(image, weights(1, 1, 3, 3), padding=1), (40, 128)))
    chosen = builder.emit(If(builder.emit(R.greater(R.mean(x), const(0.0))), then, otherwise), "chosen")
    return R.matmul(chosen, weights(128, 64))


@pytest.fixture
def products(tmp_path: Path) -> Path:
    import regraft

    regraft.to_onnx(module_of((40, 96), _layers), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    import regraft

    regraft.to_onnx(module_of((1, 3, 16, 20), _images), tmp_path / "images.onnx")
    (tmp_path / "samples").mkdir()
    for index in range(3):
        np.savez(tmp_path / "samples" / f"{index}.npz", x=RNG.standard_normal((1, 3, 16, 20)).astype(np.float32))
    return tmp_path / "images.onnx"


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that attempts take, one after another; the model as it was takes 1."""
    given: list[float] = []
    monkeypatch.setattr(room, "time_in_turns", turns_of(given))
    return given


def lowered(model: Any, precision: str, **options: Any) -> tuple[Any, PrecisionReport]:
    reports: list[OptimizationReport] = []
    result = optimize(model, precision=precision, threads=1, report=reports.append, **options)
    found = reports[0].precision
    assert found is not None
    return result, found


def kinds(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def run(path: Path, x: np.ndarray) -> np.ndarray:
    return ort.InferenceSession(path).run(None, {"x": x})[0]


# --- errors


def test_an_error_is_a_part_of_the_largest_magnitude_of_its_output() -> None:
    x = np.array([1.0, -4.0, 2.0], np.float32)
    error, cosine = outputs_error([x], [x + np.float32(0.1)])
    assert error == pytest.approx(0.1 / 4, rel=1e-5)
    assert 0.99 < cosine < 1
    assert outputs_error([x], [x]) == (0.0, pytest.approx(1.0))
    small = np.array([1e-6, 2e-6])
    assert outputs_error([small], [small * 1.5])[0] == pytest.approx(0.5)
    assert outputs_error([np.array([1, 2, 3, 4])], [np.array([1, 2, 3, 5])])[0] == 0.25


@pytest.mark.parametrize("found", [np.array([1.0, np.nan]), np.array([1.0, np.inf]), np.array([1.0])])
def test_numbers_that_are_lost_are_an_error_without_bound(found: np.ndarray) -> None:
    assert outputs_error([np.array([1.0, 2.0])], [found])[0] == np.inf


# --- PyTorch


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """Three layers on images, and a norm between them, as PyTorch exports them."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(2),
        torch.nn.Linear(100, 64),
        torch.nn.LayerNorm(64),
    )
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(model.eval(), (_image(0),)), path)
    return path


def _image(seed: int) -> torch.Tensor:
    return torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(seed))


def _error_of(path: Path, before: Path) -> float:
    found, expected = (torch.export.load(one).module()(_image(7)).detach().numpy() for one in (path, before))
    assert found.dtype == np.float32
    return outputs_error([expected], [found])[0]


def test_a_model_of_pytorch_is_written_in_bfloat16_with_its_weights(exported: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.pt2"
    _, report = lowered(exported, "bfloat16", output=output)
    assert report.kept is not None
    assert (report.kept.engine, len(report.kept.layers)) == ("torch", 2)
    assert 1e-4 < _error_of(output, exported) < report.max_error
    held = [*torch.export.load(output).state_dict.values(), *torch.export.load(output).constants.values()]
    assert {one.dtype for one in held if isinstance(one, torch.Tensor) and one.ndim > 1} == {torch.bfloat16}


def test_products_of_pytorch_that_err_most_go_back_to_float32(exported: Path, tmp_path: Path) -> None:
    _, whole = lowered(exported, "bfloat16", output=tmp_path / "whole.pt2")
    assert whole.kept is not None
    assert whole.kept.error is not None
    _, report = lowered(exported, "bfloat16", output=tmp_path / "out.pt2", max_error=whole.kept.error * 0.99)
    assert report.kept is not None
    assert len(report.kept.gone_back) == 1
    assert report.kept.error is not None
    assert report.kept.error < whole.kept.error
    assert {layer.precision for layer in report.kept.layers} == {"bfloat16", "float32"}


def test_a_module_of_pytorch_comes_back_as_the_fastest_that_is_right(times: list[float]) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.Linear(96, 8)).eval()
    times[:] = [0.5, 0.9]
    x = torch.randn(5, 64)
    result, report = lowered(model, "auto", args=(x,), cache=False)
    assert isinstance(result, torch.nn.Module)
    assert report.kept is not None
    assert (report.kept.name, report.kept.engine) == ("bfloat16", "torch")
    assert outputs_error([model(x).detach().numpy()], [result(x).detach().numpy()])[0] <= report.max_error


def test_samples_give_a_file_of_pytorch_its_own_quantized_operators(exported: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.pt2"
    samples = [[_image(seed).numpy()] for seed in range(3)]
    _, report = lowered(exported, "int8", output=output, calibrate=samples, max_error=0.1)
    assert report.kept is not None
    assert report.kept.name == "int8 static"
    named = {str(node.target).split(".")[0] for node in torch.export.load(output).graph.nodes}
    assert "quantized_decomposed" in named
    assert 1e-4 < _error_of(output, exported) < 0.1


# --- what is kept


def test_products_are_computed_on_bytes_within_the_error(products: Path, tmp_path: Path) -> None:
    _, report = lowered(products, "int8", output=tmp_path / "out.onnx", engine="onnxruntime")
    assert kinds(tmp_path / "out.onnx").count("MatMulInteger") == 3
    assert report.kept is not None
    assert report.kept.name == "int8 dynamic"
    assert report.kept.error is not None
    assert 1e-4 < report.kept.error <= report.max_error == 0.05
    assert [layer.precision for layer in report.kept.layers] == ["int8 dynamic"] * 3
    x = RNG.standard_normal((40, 96)).astype(np.float32)
    before, after = run(products, x), run(tmp_path / "out.onnx", x)
    assert np.abs(before - after).max() / np.abs(before).max() < 0.05


def test_the_layer_that_errs_most_goes_back_to_float32() -> None:
    module = module_of((4, 96), _with_an_outlier)
    result, report = lowered(module, "int8", engine="onnxruntime")
    assert report.kept is not None
    assert {layer.name for layer in report.kept.layers if layer.precision == "float32"} == {"second"}
    worst = max(report.kept.layers, key=lambda layer: layer.error or 0.0)
    assert worst.name == "second"
    assert worst.error is not None
    assert worst.error > 0.05 >= (report.kept.error or 1.0)
    assert sum("matmul_integer" in line for line in result.script(show_meta=False).splitlines()) == 2


def test_unsigned_weights_are_tried_where_those_of_seven_bits_err_by_too_much() -> None:
    def wide(builder: BlockBuilder, x: Expr) -> Expr:
        return R.matmul(builder.emit(R.nn.relu(builder.emit(R.matmul(x, weights(384, 512))))), weights(512, 256))

    module = module_of((128, 384), wide)
    options: dict[str, Any] = {"engine": "onnxruntime", "target": "avx2"}
    _, loose = lowered(module, "int8", max_error=0.2, **options)
    assert loose.kept is not None
    assert loose.kept.name == "int8 dynamic"
    assert loose.kept.error is not None
    assert "int8 dynamic, unsigned weights" not in {one.name for one in loose.attempts}
    _, tight = lowered(module, "int8", max_error=0.8 * loose.kept.error, **options)
    assert tight.kept is not None
    assert tight.kept.name == "int8 dynamic, unsigned weights"
    assert [layer.precision for layer in tight.kept.layers] == ["int8 dynamic, unsigned weights"] * 2
    _, other = lowered(module, "int8", max_error=0.2, **options | {"target": "avx512-vnni"})
    assert "int8 dynamic, unsigned weights" not in {one.name for one in other.attempts}


def test_where_no_error_is_small_enough_nothing_is_lowered_and_the_nearest_miss_is_shown(
    products: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"max_error": 1e-6, "engine": "onnxruntime", "passes": "FoldConstant"}
    _, report = lowered(products, "int8", output=tmp_path / "out.onnx", **options)
    assert report.kept is None
    tried = report.nearest_miss
    assert tried is not None
    assert tried.problem is not None
    assert "where 1e-06 is allowed" in tried.problem
    assert (tmp_path / "out.onnx").read_bytes() == products.read_bytes()
    arguments = ("--precision", "int8", "--max-error", "1e-6", "--report", tmp_path / "report.json")
    result = invoke("optimize", products, "-o", tmp_path / "again.onnx", *arguments)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "The model is written as it was: no attempt is good enough; the nearest is int8 dynamic" in said
    assert (tmp_path / "again.onnx").read_bytes() == products.read_bytes()
    facts = json.loads((tmp_path / "report.json").read_text())["precision"]
    assert facts["original_kept"]
    assert facts["nearest_miss"]["error"] == pytest.approx(tried.error, rel=0.01)


def test_a_rewriting_in_float32_is_no_way_around_a_budget_that_nothing_meets(tmp_path: Path) -> None:
    """Two sums that ONNX Runtime adds up in another order once they are rewritten err by a rounding."""
    text = """
from regraft.script import relax as R

@R.function
def main(x: R.Tensor((8, 96), "float32"), w: R.Tensor((96, 32), "float32"), v: R.Tensor((96, 32), "float32")):
    with R.dataflow():
        y = R.add(R.matmul(x, w), R.matmul(x, v))
        R.output(y)
    return y
"""
    import regraft

    file = tmp_path / "sums.onnx"
    regraft.to_onnx(regraft.parse(text), file)
    sums = regraft.rule(
        lambda a, b, c: R.add(R.matmul(a, b), R.matmul(a, c)),
        lambda a, b, c: R.matmul(a, R.add(b, c)),
        name="one_product",
    )
    for precision in ("auto", "int8-weights"):
        out = tmp_path / f"{precision}.onnx"
        _, report = lowered(file, precision, output=out, rules=sums, max_error=1e-12, engine="onnxruntime", level=0)
        assert report.original_kept
        assert out.read_bytes() == file.read_bytes()
    _, report = lowered(file, "auto", output=tmp_path / "ok.onnx", rules=sums, max_error=1e-5, engine="onnxruntime")
    assert not report.original_kept


@pytest.mark.parametrize("precision", ["int8", "int8-weights", "int4-weights"])
def test_where_nothing_can_be_computed_in_few_bits_the_rewritten_model_is_what_comes_out(
    precision: str, tmp_path: Path
) -> None:
    given, found = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in "xy")
    nodes = [("Sigmoid", ["x"], ["s"]), ("Mul", ["x", "s"], ["t"]), ("Mul", ["t", "one"], ["y"])]
    one = numpy_helper.from_array(np.ones((), np.float32), "one")
    graph = helper.make_graph([helper.make_node(*node) for node in nodes], "silu", [given], [found], [one])
    file = tmp_path / "silu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), file)
    result = invoke("optimize", file, "-o", tmp_path / "out.onnx", "--precision", precision)
    said = " ".join(result.stdout.split())
    assert "Nothing is written in a lower precision: there is nothing to try" in said
    assert kinds(tmp_path / "out.onnx") == ["Sigmoid", "Mul"]
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(tmp_path / "out.onnx", x), x / (1 + np.exp(-x)), rtol=1e-6)


def test_an_attempt_without_numbers_is_told_in_words_and_as_null_in_json() -> None:
    missed = Budget(0.05).missed(float("inf"), 0.0, 1.0)
    assert missed == "NaN, infinities or another shape where the model gives numbers"
    row = Attempt("int8 dynamic", "onnxruntime", float("inf"), problem=missed)
    assert json.loads(json.dumps(row.to_dict(), allow_nan=False))["error"] is None
    assert Attempt.from_dict(row.to_dict()).problem == missed


def test_a_model_in_memory_that_meets_no_budget_comes_back_as_the_same_object() -> None:
    module = module_of((40, 96), _layers)
    result, report = lowered(module, "int8", engine="onnxruntime", max_error=1e-7)
    assert report.original_kept
    assert result is module


def test_where_nothing_holds_and_the_rewritten_model_is_slower_the_model_stays_as_it_was(
    products: Path, tmp_path: Path, times: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    times[:] = [1.0] * 40
    monkeypatch.setattr(guard, "time_in_turns", turns_of(times))
    _, report = lowered(products, "auto", output=tmp_path / "out.onnx", engine="onnxruntime", passes="FoldConstant")
    assert report.kept is None
    assert (tmp_path / "out.onnx").read_bytes() == products.read_bytes()


def test_where_nothing_holds_the_rewritten_model_is_timed_on_the_samples(
    times: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random inputs of a symbolic size were five times as large as the samples that all else was measured on."""
    timed_on: list[tuple[int, ...]] = []

    def fastest_state(originals: Any, states: Any, make: Any, inputs: Sequence[Any], *more: Any) -> Any:
        timed_on.append(inputs[0].shape)
        return guard.fastest_state(originals, states, make, inputs, *more)

    times[:] = [1.0] * 40
    monkeypatch.setattr(guard, "time_in_turns", turns_of([1.0] * 40))
    monkeypatch.setattr(job, "fastest_state", fastest_state)
    samples = [[RNG.standard_normal((7, 96)).astype(np.float32)] for _ in range(4)]
    module, rest = module_of((SymVar("n"), 96), _layers), {"engine": "onnxruntime", "max_error": 0.2, "cache": False}
    lowered(module, "auto", calibrate=samples, **rest)
    assert timed_on == [(7, 96)]


def test_samples_give_the_ranges_of_convolutions(images: Path, tmp_path: Path) -> None:
    for engine in ("onnxruntime", "openvino"):
        output = tmp_path / f"{engine}.onnx"
        _, report = lowered(images, "int8", output=output, calibrate=tmp_path / "samples", engine=engine)
        assert report.kept is not None
        assert report.kept.name == "int8 static"
        assert kinds(output).count("QuantizeLinear") == 3, "two convolutions and the mean"
        x = RNG.standard_normal((1, 3, 16, 20)).astype(np.float32)
        before, after = run(images, x), run(output, x)
        assert 1e-4 < np.abs(before - after).max() / np.abs(before).max() < 0.05


def test_what_is_left_in_float32_beside_bytes_is_tried_in_bfloat16_where_the_machine_has_it(
    images: Path, tmp_path: Path, times: list[float]
) -> None:
    times[:] = [0.5, 0.4, 0.3, 0.9, 0.9]
    options: dict[str, Any] = {"calibrate": tmp_path / "samples", "engine": "openvino", "max_error": 0.05}
    _, report = lowered(images, "auto", output=tmp_path / "out.onnx", **options)
    tried = {one.name: one for one in report.attempts}
    has_both = "int8 static, else bfloat16" in tried
    assert has_both is ("bfloat16" in supported_precisions())
    if has_both:
        both, bytes_only = tried["int8 static, else bfloat16"], tried["int8 static"]
        assert [layer.name for layer in both.layers] == [layer.name for layer in bytes_only.layers]
        assert both.error is not None
        assert both.error <= 0.05


@pytest.mark.parametrize(("precision", "most"), [("int8-weights", 0.05), ("int4-weights", 0.3)])
def test_weights_alone_are_stored_in_few_bits(products: Path, tmp_path: Path, precision: str, most: float) -> None:
    _, report = lowered(products, precision, output=tmp_path / "out.onnx", engine="onnxruntime", max_error=most)
    assert report.kept is not None
    assert kinds(tmp_path / "out.onnx").count("MatMulNBits") == 3
    assert (tmp_path / "out.onnx").stat().st_size < products.stat().st_size / 3


def test_weights_in_4_bits_go_back_to_8_before_they_go_back_to_float32(products: Path, tmp_path: Path) -> None:
    def left(max_error: float) -> list[str]:
        _, report = lowered(
            products, "int4-weights", output=tmp_path / "out.onnx", engine="onnxruntime", max_error=max_error
        )
        if report.kept is None:
            return []
        assert report.kept.error is not None
        assert report.kept.error <= max_error
        return [layer.precision for layer in report.kept.layers]

    _, whole = lowered(products, "int4-weights", output=tmp_path / "out.onnx", engine="onnxruntime", max_error=0.5)
    _, wide = lowered(products, "int8-weights", output=tmp_path / "out.onnx", engine="onnxruntime")
    assert whole.kept is not None
    assert whole.kept.error is not None
    assert wide.kept is not None
    assert wide.kept.error is not None
    assert set(left(whole.kept.error * 0.99)) == {"int4 weights", "int8 weights"}
    assert left(wide.kept.error * 1.5) == ["int8 weights"] * 3
    assert set(left(wide.kept.error * 0.99)) == {"int8 weights", "float32"}
    assert left(1e-6) == []


def test_without_samples_convolutions_stay_and_the_report_says_what_to_give(images: Path, tmp_path: Path) -> None:
    _, report = lowered(images, "int8", output=tmp_path / "out.onnx", engine="onnxruntime")
    assert report.kept is None
    problems = {one.name: one.problem for one in report.attempts}
    assert problems["int8 dynamic"] == "it can compute no layer in few bits"
    assert problems["int8 static"] == "without samples no ranges are known: give them by --calibrate"


def test_a_weight_that_the_model_computes_of_others_is_in_few_bits_without_a_measurement(tmp_path: Path) -> None:
    """The norms of weights left twelve of fourteen convolutions in float32, as if there were no more than two."""

    def body(builder: BlockBuilder, x: Expr) -> Expr:
        direction, size = weights(96, 128), weights(1, 128)
        norm = builder.emit(R.sqrt(builder.emit(R.sum(builder.emit(R.multiply(direction, direction)), 0, True))))
        factor = builder.emit(R.divide(size, norm))
        return R.matmul(x, builder.emit(R.multiply(direction, factor)))

    to_onnx(module_of((40, 96), body), tmp_path / "model.onnx")
    _, report = lowered(tmp_path / "model.onnx", "int8", output=tmp_path / "out.onnx", engine="onnxruntime")
    assert report.kept is not None
    assert len(report.kept.layers) == 1
    assert (tmp_path / "out.onnx").stat().st_size < (tmp_path / "model.onnx").stat().st_size / 3


def test_the_file_for_a_target_is_not_held_to_the_overflow_of_this_processor(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Convolutions of a file with weights of 8 bits erred by 5 % on OpenVINO on AVX2, and by 1 % without overflow."""

    def overflowing(*_: Any, **__: Any) -> Any:
        return lambda _: [np.full((1, 8), 1e3, np.float32)]

    monkeypatch.setattr(asked_precision, "openvino_original", overflowing)
    options: dict[str, Any] = {"calibrate": tmp_path / "samples", "engine": "openvino", "target": "avx512-vnni"}
    _, report = lowered(images, "int8", output=tmp_path / "out.onnx", **options)
    assert report.kept is not None


def test_samples_of_a_model_without_layers_give_no_ranges(tmp_path: Path) -> None:
    """A model whose layers another tool had put on bytes was said to give no tensor."""
    module = module_of((4, 8), lambda builder, x: R.nn.relu(builder.emit(R.add(x, x))))
    samples = [[RNG.standard_normal((4, 8)).astype(np.float32)] for _ in range(4)]
    _, report = lowered(module, "int8", output=tmp_path / "out.onnx", calibrate=samples)
    problems = {one.problem for one in report.attempts if one.name == "int8 static"}
    assert problems == {"it can compute no layer in few bits"}


def test_auto_keeps_the_fastest_attempt_and_writes_down_which(
    products: Path, tmp_path: Path, times: list[float]
) -> None:
    times[:] = [0.5, 0.9, 0.25, 0.8, 0.8, 0.7, 0.6]
    _, report = lowered(products, "auto", output=tmp_path / "out.onnx", max_error=0.05)
    timed = [one for one in report.attempts if one.gain is not None]
    assert report.kept is max(timed, key=lambda one: one.gain.ratio if one.gain else 0.0)
    metadata = {one.key: one.value for one in onnx.load(tmp_path / "out.onnx").metadata_props}
    assert metadata["regraft.engine"] == report.kept.engine
    assert metadata["regraft.precision"] == report.kept.name
    assert float(metadata["regraft.error"]) <= 0.05


def test_a_budget_that_is_over_leaves_the_most_promising_candidate_and_the_next_run_makes_it_again(
    products: Path, tmp_path: Path, times: list[float]
) -> None:
    times[:] = [0.5, 0.4]
    written: list[bytes] = []
    for run in range(2):
        given: dict[str, Any] = {"max_error": 0.05, "budget": 0, "cache": tmp_path / "kept"}
        _, report = lowered(products, "auto", output=tmp_path / "out.onnx", **given)
        assert (report.decided_before is not None) == (run == 1)
        tried = [one for one in report.attempts if one.error is not None]
        late = [one for one in report.attempts if one.problem and one.problem.startswith("not tried: the 0 seconds")]
        assert [one.name for one in tried] == ["int8 dynamic"], "by the counts, bytes are the fastest"
        assert "float32" in [one.name for one in late]
        written.append((tmp_path / "out.onnx").read_bytes())
    assert written[0] == written[1]


def test_a_budget_that_was_over_with_nothing_found_is_no_decision(
    products: Path, tmp_path: Path, times: list[float]
) -> None:
    times[:] = [1.0, 1.0]
    for _ in range(2):
        _, report = lowered(products, "auto", output=tmp_path / "out.onnx", budget=0, cache=tmp_path / "kept")
        assert report.kept is None
        assert report.decided_before is None, "with more time another choice could come out"


def test_half_of_the_time_is_for_the_layers_of_what_is_fast_but_errs(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deadline, "left_of_first_half", -1.0)
    steps: list[tuple[str, str, str]] = []
    for step in ("_tried_whole", "_narrowed"):
        own = getattr(PrecisionSearch, step)

        def tried(search: PrecisionSearch, one: Candidate, *given: Any, step: str = step, own: Any = own) -> Any:
            steps.append((step, one.name, one.engine))
            return own(search, one, *given)

        monkeypatch.setattr(PrecisionSearch, step, tried)
    _, report = lowered(
        images, "int8", output=tmp_path / "out.onnx", calibrate=tmp_path / "samples", max_error=1e-4, budget=1000
    )
    (_, *first), (narrowing, *second), *others = steps
    assert (narrowing, second) == ("_narrowed", first), "it errs, and its layers are measured before others are tried"
    order = [step for step, _, _ in others]
    assert order[0] == "_tried_whole"
    assert order == sorted(order, reverse=True), "what there was no time for before has its layers measured at the end"
    assert not any((one.problem or "").startswith("not tried: the 1000 seconds") for one in report.attempts)


def test_all_are_tried_whole_before_the_layers_of_any_go_back(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[tuple[str, str, str]] = []
    for name in ("attempt", "narrowed"):
        plain = getattr(room.PrecisionSearch, name)

        def noted(self: Any, one: Candidate, *rest: Any, plain: Any = plain, name: str = name) -> Any:
            order.append((name, one.name, one.engine))
            return plain(self, one, *rest)

        monkeypatch.setattr(room.PrecisionSearch, name, noted)
    _, report = lowered(
        images, "int8", output=tmp_path / "out.onnx", calibrate=tmp_path / "samples", max_error=1e-4, budget=1000
    )
    kinds = [kind for kind, _, _ in order]
    assert "narrowed" in kinds
    assert kinds == sorted(kinds)
    assert all(one.problem for one in report.attempts)


def test_what_seems_faster_within_the_noise_of_its_time_is_narrowed_after_what_was_expected_faster() -> None:
    faster = Attempt("int8 static", "onnxruntime", 0.1, gain=Gain(1.5, 0.1))
    seems_faster = Attempt("int8 static, unsigned weights", "onnxruntime", 0.1, gain=Gain(1.6, 0.02))
    slower = Attempt("int8 dynamic", "onnxruntime", 0.1, gain=Gain(1.2, 0.02))
    assert most_promising_first({0: slower, 1: faster, 2: seems_faster}, 0.1) == [1, 2, 0]
    far_faster = replace(seems_faster, gain=Gain(1.8, 0.02))
    assert most_promising_first({0: slower, 1: faster, 2: far_faster}, 0.1) == [2, 1, 0]


def test_what_is_measured_and_not_faster_is_not_kept(products: Path, tmp_path: Path, times: list[float]) -> None:
    times[:] = [1.0]
    _, report = lowered(products, "int8", output=tmp_path / "out.onnx", measure=True, engine="onnxruntime")
    assert report.kept is None
    assert report.attempts[0].problem == "it is not faster"
    assert "MatMulInteger" not in kinds(tmp_path / "out.onnx")


def test_what_errs_by_more_when_it_is_handed_over_is_refused(products: Path) -> None:
    opened = open_model(products)
    x = RNG.standard_normal((40, 96)).astype(np.float32)
    report = PrecisionReport(1e-12, (), (), None)
    wrong = [run(products, x) + np.float32(0.1)]
    choice = Choice(opened.module, Candidate("int8 dynamic", "onnxruntime", {}), report, [[x]], [wrong])
    with pytest.raises(VerificationError, match="the final result"):
        check_choice(opened, opened, choice)


def test_the_command_shows_what_was_tried_and_the_report_has_each_layer(products: Path, tmp_path: Path) -> None:
    output, report = tmp_path / "out.onnx", tmp_path / "report.json"
    arguments = ("--precision", "int8", "--engine", "onnxruntime", "--threads", "1", "--report", report)
    result = invoke("optimize", products, "-o", output, *arguments)
    assert result.exit_code == 0, result.output
    assert "Precisions within an error of 0.05 on 16 random inputs" in " ".join(result.stdout.split())
    assert "8 of them took no part in the choices" in " ".join(result.stdout.split())
    assert "3 of 3" in result.stdout
    facts = json.loads(report.read_text())["precision"]
    assert facts["kept"] == "int8 dynamic"
    assert len(facts["attempts"][0]["layers"]) == 3
    assert all(0 < layer["seconds"] < 1 for layer in facts["attempts"][0]["layers"])
    assert set(facts["processor"]) <= set(FEATURES)
    assert tuple(facts["processor"]) == processor_features()


# --- what cannot be done


def test_the_command_says_that_a_precision_it_did_not_time_may_be_slower(products: Path, tmp_path: Path) -> None:
    arguments = ["--precision", "int8-weights", "--max-error", "0.9", "--threads", "1", "--no-cache"]
    untimed = invoke("optimize", products, "-o", tmp_path / "out.onnx", *arguments)
    assert untimed.exit_code == 0, untimed.output
    assert "in int8 weights, not timed: it may be slower" in " ".join(untimed.output.split())


def test_a_precision_that_an_engine_lacks_is_said_with_what_has_it(products: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    message = "bfloat16 cannot be tried: onnxruntime does not compute in bfloat16 on a CPU; openvino does where"
    with pytest.raises(UsageError, match=message) as raised:
        optimize(products, output=output, precision="bfloat16", engine="onnxruntime")
    assert str(raised.value).endswith("there are: int8, int8-weights, int4-weights, auto")
    with pytest.raises(UsageError, match="without samples no ranges are known: give them by --calibrate"):
        optimize(products, output=output, precision="int8", engine="openvino")
    assert not output.exists()


def test_a_sample_on_which_the_model_does_not_run_is_named_with_its_whole_numbers(tmp_path: Path) -> None:
    ids = Var("ids", TensorType((3,), "int64"))
    builder = BlockBuilder()
    with builder.function("main", [ids]):
        builder.emit_func_output(builder.emit(R.take(weights(10, 4), ids, axis=0)))
    path = tmp_path / "lookup.onnx"
    to_onnx(builder.get(), path)
    np.savez(tmp_path / "bad.npz", ids=np.array([1, 12, -3]))
    for given in ({"calibrate": tmp_path / "bad.npz"}, {"inputs": tmp_path / "bad.npz"}):
        with pytest.raises(UsageError, match=r"bad\.npz: the model does not run on it \(ids from -3 to 12\): ONNX"):
            optimize(path, precision="auto", engine="onnxruntime", **given)
    with pytest.raises(UsageError, match=r"bad\.npz: the model does not run on it \(ids from -3 to 12\): ONNX"):
        optimize(path, verify=True, inputs=tmp_path / "bad.npz")


def test_a_file_that_openvino_does_not_open_is_lowered_for_it_as_the_program_that_was_read(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 17]> bands (float[4, 33] x) => (float[4, 16] y) {
        count = Constant<value_int = 16>()
        length = Constant<value_int = 64>()
        rate = Constant<value_int = 8000>()
        low = Constant<value_float = 0.0>()
        high = Constant<value_float = 4000.0>()
        weights = MelWeightMatrix(count, length, rate, low, high)
        y = MatMul(x, weights)
    }"""
    onnx.save(onnx.parser.parse_model(text), file := tmp_path / "bands.onnx")
    with pytest.raises(BuildError, match="OpenVINO cannot open the model"):
        openvino_original(file)
    sample = RNG.standard_normal((4, 33)).astype(np.float32)
    output = tmp_path / "out.onnx"
    _, report = lowered(file, "int8", output=output, engine="openvino", calibrate=[{"x": sample}])
    assert report.kept is not None
    (expected,), (found,) = (onnx_original(path)([sample]) for path in (file, output))
    assert outputs_error([expected], [found])[0] == pytest.approx(report.kept.error, rel=0.05)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("int4", "int4-weights"),
        ("fp16", "float16"),
        ("BF16", "bfloat16"),
        ("imt8", "int8"),
        ("bflaot16", "bfloat16"),
        ("int8-dynamic", "int8"),
        ("int8-weights-only", "int8-weights"),
    ],
)
def test_a_precision_of_another_name_is_told_the_one_that_it_has_here(products: Path, asked: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"there is no precision '{asked}'; did you mean {meant}\?"):
        optimize(products, precision=asked)


@pytest.mark.parametrize("asked", ["int3", "int9", "float8", "int2-weights", "fast"])
def test_precisions_are_listed_where_another_number_of_bits_is_asked_for(products: Path, asked: str) -> None:
    with pytest.raises(UsageError, match=rf"there is no precision '{asked}'; there are: float32, .*int4-weights, auto"):
        optimize(products, precision=asked)


def test_precisions_and_engines_that_do_not_exist_are_refused(products: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="precisions are chosen for onnxruntime, openvino, torch, not for 'abacus'"):
        optimize(products, precision="int8", engine="abacus")
    with pytest.raises(UsageError, match=r"does not open the result, which is for torch; .* ends in \.onnx"):
        optimize(products, output=tmp_path / "out.pt2", precision="int8", engine="openvino")
    with pytest.raises(UsageError, match=r"torch does not open the result.* ends in \.pt2"):
        optimize(products, output=tmp_path / "out.onnx", precision="int8", engine="torch")
    with pytest.raises(UsageError, match="samples are files, a folder, or inputs one after another, not 5"):
        optimize(products, precision="int8", calibrate=5)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"max_error": float("nan")}, "max_error is nan; expected a number of 0 or more"),
        ({"max_error": -0.1}, "max_error is -0.1; expected a number of 0 or more"),
        ({"max_error": "0.1"}, "max_error is '0.1'; expected a number of 0 or more"),
        ({"min_cosine": 2.0}, "min_cosine is 2.0; expected a number from 0 to 1"),
        ({"min_agreement": 150}, "min_agreement is 150; expected a number from 0 to 1"),
    ],
)
def test_limits_that_nothing_could_keep_are_refused(products: Path, limit: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        optimize(products, precision="int8", **limit)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "there are no samples"),
        ([{"y": np.zeros((40, 96), np.float32)}], "sample 0: no input is named y; x not given"),
        ([[np.zeros((40, 96), np.float32)] * 2], "sample 0 has 2 inputs; the model has 1: x"),
        ([{"x": np.full((40, 96), np.nan, np.float32)}], "sample 0: input x holds NaN"),
        ([{"x": np.zeros((0, 96), np.float32)}], "sample 0: input x has no elements"),
        ("no/such/folder", "no such file or folder of samples"),
        ([np.zeros((39, 96), np.float32)], "sample 0: input x: axis 0 is 39; expected 40"),
        ([1.5], "sample 0: input x has dtype float64; expected float32"),
        ([{"x": [[1.0], [1.0, 2.0]]}], "sample 0: input x is no array"),
        ({"y": np.zeros((40, 96), np.float32)}, "sample 0: no input is named y"),
    ],
)
def test_samples_that_do_not_fit_are_named(products: Path, samples: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_samples(open_model(products).function, samples)


def test_samples_of_one_input_are_arrays_or_one_mapping(products: Path) -> None:
    function, array = open_model(products).function, np.ones((40, 96), np.float32)
    for given in ([array, array], (array for _ in range(2)), [[array], {"x": array}]):
        samples = read_samples(function, given)
        assert [len(one.inputs) for one in samples] == [1, 1]
        assert all(np.array_equal(one.inputs[0], array) for one in samples)
    assert len(read_samples(function, {"x": array})) == 1


def test_a_folder_without_samples_is_named(products: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing to run on")
    message = re.escape(f"{tmp_path}: there are no samples in this folder")
    for given in (tmp_path, [tmp_path]):
        with pytest.raises(UsageError, match=message):
            read_samples(open_model(products).function, given)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (np.zeros((40, 95), np.float32), "sample 0: input x: axis 1 is 95; expected 96"),
        (np.zeros(96, np.float32), r"sample 0: input x has 1 dimensions, shape \(96,\); expected 2"),
        (np.zeros((40, 96)), "sample 0: input x has dtype float64; expected float32"),
    ],
)
def test_a_sample_of_another_shape_or_dtype_is_an_error_that_names_the_input(
    products: Path, sample: np.ndarray, message: str
) -> None:
    for given in ({"calibrate": [{"x": sample}]}, {"inputs": [[sample]]}):
        with pytest.raises(UsageError, match=message):
            optimize(products, precision="int8", engine="onnxruntime", **given)


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_what_lies_in_branches_stays_as_it_is_and_all_else_is_in_bytes(engine: str) -> None:
    samples = [{"x": RNG.standard_normal((40, 96)).astype(np.float32) + shift} for shift in (-1, 1)]
    module = module_of((40, 96), _in_branches)
    result, report = lowered(module, "int8", calibrate=samples, engine=engine, max_error=0.05)
    assert report.kept is not None
    assert {layer.name for layer in report.kept.layers} >= {"first"}
    for sample in samples:
        expected, found = (np.asarray(build(one)["main"](sample["x"])) for one in (module, result))
        assert outputs_error([expected], [found])[0] < 0.05


def test_a_file_of_samples_is_named_where_its_inputs_are_others(products: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "sample.npz", y=np.zeros((40, 96), np.float32))
    with pytest.raises(UsageError, match=r"sample\.npz: no input is named y; x not given; the model's inputs are: x"):
        optimize(products, precision="int8", calibrate=tmp_path / "sample.npz")


def test_a_largest_error_that_nothing_would_keep_is_refused(products: Path) -> None:
    with pytest.raises(UsageError, match="a max_error needs a precision or measure; give one of them"):
        optimize(products, max_error=0.1)


@pytest.mark.parametrize("given", [{"calibrate": "samples"}, {"min_cosine": 0.9}, {"min_agreement": 0.9}])
def test_what_only_a_precision_needs_is_an_error_without_one(products: Path, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="need a precision; give one, such as auto"):
        optimize(products, **given)


def test_a_model_that_the_passes_do_not_change_is_not_timed_beside_itself(products: Path, times: list[float]) -> None:
    times[:] = [1.0] * 8
    _, report = lowered(products, "auto", max_error=1e-9, engine="onnxruntime", budget=1000)
    float32 = next(row for row in report.attempts if row.name == "float32")
    assert float32.gain is None
    assert float32.problem == "not tried: it is the model as it was, which the passes did not change"
    assert report.original_kept


def test_samples_whose_outputs_are_no_numbers_say_nothing_of_errors(products: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    with pytest.raises(UsageError, match="NaN or infinities only on sample 0, so the error of a precision cannot be"):
        optimize(products, output=output, precision="int8", inputs=[{"x": np.full((40, 96), np.nan, np.float32)}])
    assert not output.exists()


def _attention(builder: BlockBuilder, x: Expr) -> Expr:
    """A head of attention over 1,024 places, which ONNX Runtime has tile by tile."""
    parts = [builder.emit(R.reshape(builder.emit(R.matmul(x, weights(32, 32))), [1, 1024, 2, 16])) for _ in range(3)]
    attended = builder.emit(R.nn.attention(*parts), "attended")
    return R.matmul(builder.emit(R.reshape(attended, [1, 1024, 32]), "attended"), weights(32, 32))


def test_ranges_are_those_of_what_the_rules_of_the_engine_made(monkeypatch: pytest.MonkeyPatch) -> None:
    ranged: list[int] = []
    own = calibration.calibrated

    def calibrated(module: Any, *given: Any) -> Any:
        ranged.append(op_counts(module)["com.microsoft.MultiHeadAttention"])
        return own(module, *given)

    monkeypatch.setattr(calibration, "calibrated", calibrated)
    samples = [{"x": RNG.standard_normal((1, 1024, 32)).astype(np.float32)}]
    _, report = lowered(module_of((1, 1024, 32), _attention), "int8", engine="onnxruntime", calibrate=samples)
    errors = {one.name: one.error for one in report.attempts if one.error is not None}
    assert {"int8 static", "int8 static with attention"} <= errors.keys()
    assert max(errors.values()) < 0.05, errors
    assert sorted(ranged) == [0, 1]


def test_samples_whose_outputs_are_zeros_say_nothing_of_errors(products: Path, tmp_path: Path) -> None:
    zeros = {"x": np.zeros((40, 96), np.float32)}
    output = tmp_path / "out.onnx"
    with pytest.raises(UsageError, match="zeros only on sample 0, so the error of a precision cannot be measured"):
        optimize(products, output=output, precision="int8", inputs=[zeros])
    assert not output.exists()
    one = {"x": RNG.standard_normal((40, 96)).astype(np.float32)}
    optimize(products, output=output, precision="int8", inputs=[zeros, one])


def _product_in(dtype: int) -> onnx.ModelProto:
    matrix = RNG.standard_normal((96, 64)).astype(helper.tensor_dtype_to_np_dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", dtype, [40, 96])],
        [helper.make_tensor_value_info("y", dtype, [40, 64])],
        [helper.make_tensor("w", dtype, matrix.shape, matrix.tobytes(), raw=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_layers_of_half_precision_are_quantized_and_what_is_given_keeps_its_dtype() -> None:
    model = _product_in(TensorProto.FLOAT16)
    made, report = lowered(model, "int8", engine="onnxruntime")
    assert report.kept is not None, report.attempts
    assert report.kept.name == "int8 dynamic"
    found = [port.type.tensor_type.elem_type for port in (made.graph.input[0], made.graph.output[0])]
    assert found == [TensorProto.FLOAT16] * 2
    x = RNG.standard_normal((40, 96)).astype(np.float16)
    right, ours = (onnx_original(one)([x])[0] for one in (model, made))
    right = x.astype(np.float64) @ numpy_helper.to_array(model.graph.initializer[0]).astype(np.float64)
    assert np.abs(ours - right).max() <= 0.05 * np.abs(right).max()


def test_a_model_of_half_precision_is_tried_in_float32(times: list[float], tmp_path: Path) -> None:
    times.extend([1.0, 0.5] * 9)
    _, report = lowered(_product_in(TensorProto.FLOAT16), "auto", engine="onnxruntime", output=tmp_path / "out.onnx")
    errors = {one.name: one.error for one in report.attempts}
    assert {"float32", "int8 dynamic"} <= errors.keys()
    assert errors["float32"] is None or errors["float32"] < 2e-3


def test_a_file_that_onnx_runtime_does_not_open_gets_a_precision_on_an_engine_that_does() -> None:
    model = _product_in(TensorProto.BFLOAT16)
    _, report = lowered(model, "auto")
    assert report.kept is None or report.kept.error < 0.02
    assert {one.engine for one in report.attempts if one.error is not None} >= {"openvino"}
    with pytest.raises(BuildError, match=r"cannot open the model: .*; --engine openvino may open it"):
        lowered(model, "auto", engine="onnxruntime")


def test_operators_of_a_library_are_told_how_to_be_loaded() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17, "own.ops": 1]> odd (float[2] x) => (float[2] y) { y = own.ops.Odd(x) }'
    )
    with pytest.raises(BuildError, match=r"own.ops:Odd\(-1\) is not a registered .*; --custom-ops LIBRARY loads"):
        lowered(model, "auto")


def test_a_size_is_the_same_one_in_all_inputs_of_a_sample() -> None:
    n = SymVar("n")
    x, y = (Var(name, TensorType((n, 3), "float32")) for name in "xy")
    builder = BlockBuilder()
    with builder.function("main", [x, y]):
        builder.emit_func_output(builder.emit(R.add(x, y)))
    function = builder.get()["main"]
    given = [np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32)]
    with pytest.raises(UsageError, match=r"sample 0: input y: axis 0 is 4; expected n = 2 \(axis 0 of input x\)"):
        read_samples(function, [given])
    assert len(read_samples(function, [given[:1] * 2])) == 1


# --- other budgets


def test_choices_agree_where_the_largest_element_of_a_row_is_the_same_one() -> None:
    before = np.array([[1.0, 3.0, 2.0], [5.0, 0.0, 1.0]], np.float32)
    assert rows_that_agree([before], [before + np.float32(0.1)]) == (2, 2)
    assert rows_that_agree([before, before], [before[:, ::-1], before]) == (3, 4)
    assert rows_that_agree([np.arange(3)], [np.arange(3)]) == (0, 0)


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        ({"min_cosine": 0.9999999}, "a cosine of 0.99.*, where 1 is asked for"),
        ({"min_agreement": 1.0, "max_error": 0.5}, r"the same choice in 9.* of the rows, where 100.0% are asked for"),
    ],
)
def test_what_misses_another_budget_than_the_error_is_out(budget: dict[str, Any], problem: str) -> None:
    """Of 400 rows of 200 nearly equal logits, some choose otherwise in bytes."""
    module = module_of(
        (400, 96), lambda builder, x: R.matmul(builder.emit(R.matmul(x, weights(96, 64))), weights(64, 200))
    )
    _, report = lowered(module, "int8", engine="onnxruntime", **budget)
    assert report.kept is None
    assert report.attempts[0].problem is not None
    assert re.match(problem, report.attempts[0].problem)
    assert report.attempts[0].agreement is not None


def test_of_what_is_as_fast_the_smaller_is_kept() -> None:
    small, large = (Attempt(name, "onnxruntime", 0.01, weights=size) for name, size in (("a", 100), ("b", 200)))

    def timed(one: Attempt, ratio: float) -> Attempt:
        return replace(one, gain=Gain(ratio, 0.1))

    assert precision_room._is_better(timed(small, 1.19), timed(large, 1.20))
    assert not precision_room._is_better(timed(large, 1.20), timed(small, 1.19))
    assert precision_room._is_better(timed(large, 1.40), timed(small, 1.19))
    assert precision_room._is_better(timed(small, 1.20), small)

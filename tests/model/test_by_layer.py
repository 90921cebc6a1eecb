"""Models that do not fit into memory beside another form of them: layer by layer, or refused with what they need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import regraft
import regraft.op as R
from regraft import optimize
from regraft.ir import BlockBuilder, Call, Constant, Expr, const, iter_bindings
from regraft.model import OptimizationReport, PrecisionReport, UsageError, open_model
from regraft.model.memory import free_memory, parse_memory
from regraft.passes.quantize.weights import block_error, in_asymmetric_blocks, in_blocks
from tests.cli.harness import invoke
from tests.passes.harness import module_of

RNG = np.random.default_rng(2)
LITTLE = 10_000


def _spiked(rows: int, columns: int) -> np.ndarray:
    """Weights of which each block has one that is much larger, so that few bits leave little of the others."""
    matrix = (RNG.standard_normal((rows, columns)) * 0.02).astype(np.float32)
    matrix[::32] = 3.0
    return matrix


def _layers(builder: BlockBuilder, x: Expr) -> Expr:
    even = (RNG.standard_normal((96, 128)) / 10).astype(np.float32)
    first = builder.emit(R.nn.relu(builder.emit(R.matmul(x, const(even)), "even")))
    return R.matmul(first, const(_spiked(128, 64)))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    regraft.to_onnx(module_of((3, 96), _layers), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def report_of(model: Any, precision: str, **options: Any) -> PrecisionReport:
    reports: list[OptimizationReport] = []
    optimize(model, precision=precision, threads=1, report=reports.append, **options)
    found = reports[0].precision
    assert found is not None
    return found


def kinds(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def test_weights_are_stored_layer_by_layer_where_the_model_does_not_fit(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    report = report_of(model, "int8-weights", output=output, memory=LITTLE)
    assert report.by_layer
    assert report.kept is not None
    assert len(report.kept.layers) == 2
    assert kinds(output).count("MatMulNBits") == 2
    x = {"x": RNG.standard_normal((3, 96)).astype(np.float32)}
    before, after = (ort.InferenceSession(path).run(None, x)[0] for path in (model, output))
    assert np.abs(before - after).max() / np.abs(before).max() < 0.05


def test_a_layer_that_errs_by_more_alone_keeps_its_weights(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    full = report_of(model, "int8-weights", output=output, max_error=1.0, memory=LITTLE)
    assert full.kept is not None
    errors = sorted(layer.error or 0.0 for layer in full.kept.layers)
    between = sum(errors) / 2
    part = report_of(model, "int8-weights", output=output, max_error=between, memory=LITTLE)
    assert part.kept is not None
    assert sorted(layer.precision for layer in part.kept.layers) == ["float32", "int8 weights"]
    assert part.kept.error == pytest.approx(errors[0])
    assert kinds(output).count("MatMulNBits") == 1


def test_a_layer_that_errs_by_more_alone_in_4_bits_gets_8(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    full = report_of(model, "int4-weights", output=output, max_error=1.0, memory=LITTLE)
    assert full.kept is not None
    between = sum(layer.error or 0.0 for layer in full.kept.layers) / 2
    part = report_of(model, "int4-weights", output=output, max_error=between, memory=LITTLE)
    assert part.kept is not None
    assert sorted(layer.precision for layer in part.kept.layers) == ["int4 weights", "int8 weights"]
    stored = [node for node in onnx.load(output).graph.node if node.op_type == "MatMulNBits"]
    assert sorted(onnx.helper.get_node_attr_value(node, "bits") for node in stored) == [4, 8]


def test_where_no_layer_is_near_enough_nothing_is_lowered(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    report = report_of(model, "int4-weights", output=output, max_error=1e-6, memory=LITTLE)
    assert report.kept is None
    assert report.attempts[0].problem is not None
    assert report.attempts[0].problem.startswith("each layer alone errs by")
    assert "MatMulNBits" not in kinds(output)


@pytest.mark.parametrize("precision", ["auto", "int8", "bfloat16"])
def test_what_takes_a_run_of_the_model_is_refused_with_what_it_needs(
    model: Path, tmp_path: Path, precision: str
) -> None:
    with pytest.raises(UsageError, match=r"takes about [\d.]+ MB of memory, and 0.01 MB are available; int8-weights"):
        optimize(model, output=tmp_path / "out.onnx", precision=precision, memory=LITTLE)
    assert not (tmp_path / "out.onnx").exists()


def test_the_command_takes_an_amount_of_memory_and_says_what_errors_mean(model: Path, tmp_path: Path) -> None:
    output, report = tmp_path / "out.onnx", tmp_path / "report.json"
    arguments = ("-o", output, "--precision", "int8-weights", "--memory", "10KB", "--report", report)
    result = invoke("optimize", model, *arguments)
    assert result.exit_code == 0, result.output
    assert "errors are those of each layer alone" in result.stdout
    assert json.loads(report.read_text())["precision"]["by_layer"] is True
    result = invoke("optimize", model, "-o", output, "--precision", "int8-weights", "--memory", "some")
    assert result.exit_code == 2
    assert "'some' is no amount of memory" in result.stderr


def test_amounts_of_memory_have_units() -> None:
    assert [parse_memory(text) for text in ("512", "8GB", "1.5 mb", "2k")] == [512, 8 * 10**9, 1_500_000, 2000]
    for text in ("", "GB", "-1", "8XB", "0"):
        with pytest.raises(UsageError, match="is no amount of memory"):
            parse_memory(text)
    assert (free_memory() or 1) > 0


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("make", [in_blocks, in_asymmetric_blocks])
def test_the_error_of_blocks_is_that_of_the_product(bits: int, make: Any) -> None:
    weights = RNG.standard_normal((80, 70)).astype(np.float32)
    found = make(weights, bits, 32)
    error = block_error(weights, found.codes, found.scales, found.zeros, bits)
    x = np.random.default_rng(0).standard_normal((16, 80)).astype(np.float32)
    codes = found.codes if bits == 8 else np.stack([found.codes & 15, found.codes >> 4], -1).reshape(70, 3, 32)
    middle = 2 ** (bits - 1) if found.zeros is None else found.zeros[..., None].astype(float)
    stored = ((codes.astype(float) - middle) * found.scales[..., None]).reshape(70, 96)[:, :80].T
    assert error == pytest.approx(np.abs(x @ weights - x @ stored).max() / np.abs(x @ weights).max(), rel=1e-3)
    assert 1e-3 < error < (0.02 if bits == 8 else 0.3)


def test_numbers_that_were_read_once_leave_no_file_mapped(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "apart.onnx"
    onnx.save(onnx.load(model), path, save_as_external_data=True, location="apart.data", size_threshold=0)
    module = open_model(path).module
    calls = [binding.value for binding in iter_bindings(module["main"]) if isinstance(binding.value, Call)]
    layers = [one for call in calls for one in call.args if isinstance(one, Constant)]
    assert [one.data.is_loaded for one in layers] == [False] * 2
    assert all(np.isfinite(one.data.read()).all() for one in layers)
    assert "apart.data" not in Path("/proc/self/maps").read_text()


def test_the_limit_of_the_process_is_what_memory_is_free() -> None:
    script = """
import resource
from regraft.model.memory import free_memory
taken = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 64 * 2**20,) * 2)
assert free_memory() <= 64 * 2**20
"""
    subprocess.run([sys.executable, "-c", script], check=True)

"""`optimize`: every form of model in, the same form out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import regraft
from regraft import optimize
from regraft.model import OptimizationReport, UsageError, open_model
from regraft.run.originals import openvino_original
from regraft.script import relax as R
from regraft.transform import CombineParallelMatmul, FoldConstant, op_counts
from tests.kit import assert_close
from tests.model.models import WIDTHS, files, projections, save


@R.function
def two_products(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32"), v: R.Tensor((4, 5), "float32")):
    with R.dataflow():
        a = R.matmul(x, w)
        b = R.matmul(x, v)
        R.output(a, b)
    return (a, b)


def matmuls(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "MatMul" for node in model.graph.node)


def test_an_onnx_file_becomes_an_onnx_file_that_onnx_runtime_alone_runs(tmp_path: Path) -> None:
    source, output = save(projections(), tmp_path / "model.onnx"), tmp_path / "out.onnx"
    assert optimize(source, output=output, verify=True) == output
    assert matmuls(onnx.load(output)) == 1
    x = np.random.default_rng(1).standard_normal((3, 6, 16)).astype("float32")
    before = ort.InferenceSession(source).run(None, {"x": x})
    after = ort.InferenceSession(output).run(None, {"x": x})
    for expected, actual in zip(before, after, strict=True):
        assert_close(actual, expected)


def test_a_model_proto_becomes_a_model_proto_with_the_names_it_had() -> None:
    result = optimize(projections(), verify=True)
    assert isinstance(result, onnx.ModelProto)
    assert [value.name for value in result.graph.input] == ["x"]
    assert [value.name for value in result.graph.output] == [f"{name}_out" for name in WIDTHS]
    assert result.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_a_function_becomes_a_function_and_a_module_a_module() -> None:
    assert isinstance(optimize(two_products), regraft.Function)
    assert isinstance(optimize(regraft.IRModule({"main": two_products})), regraft.IRModule)


def test_weights_that_are_not_known_before_the_run_are_joined_on_the_highest_level_only() -> None:
    assert op_counts(optimize(two_products))["relax.matmul"] == 2
    assert op_counts(optimize(two_products, level=3))["relax.matmul"] == 1


def test_the_lower_levels_leave_matmuls_alone() -> None:
    for level in (0, 1, "canonical", "safe"):
        assert matmuls(optimize(projections(), level=level)) == len(WIDTHS)


def test_passes_may_be_given_by_name_or_as_they_are() -> None:
    names = optimize(projections(), passes="CombineParallelMatmul, FoldConstant")
    values = optimize(projections(), passes=[CombineParallelMatmul(), FoldConstant()])
    assert matmuls(names) == matmuls(values) == 1


def test_the_report_says_what_each_pass_did(tmp_path: Path) -> None:
    source, report = save(projections(), tmp_path / "model.onnx"), tmp_path / "report.json"
    optimize(source, output=tmp_path / "out.onnx", verify=True, report=report)
    facts: dict[str, Any] = json.loads(report.read_text())
    assert facts["ops_after"] == {"relax.matmul": 1, "relax.split": 1}
    for key, path in (("nodes_before", source), ("nodes_after", tmp_path / "out.onnx")):
        assert facts[key] == Counter(node.op_type for node in onnx.load(path).graph.node)
    combined = next(one for one in facts["passes"] if one["name"] == "CombineParallelMatmul")
    assert combined["rewrites"] == 1
    assert combined["rewrites_by_rule"] == [{"function": "main", "rule": "combine_parallel_matmul", "count": 1}]
    assert combined["changed_ops"]["relax.split"] == [0, 1]
    assert facts["verification"]["against"] == "the model itself, on ONNX Runtime"
    assert facts["files"] == {"out.onnx": (tmp_path / "out.onnx").stat().st_size}
    assert [one["output"] for one in facts["verification"]["outputs"]] == [f"{name}_out" for name in WIDTHS]


def test_nodes_are_those_that_the_model_is_handed_over_with() -> None:
    reports: list[OptimizationReport] = []
    source = projections()
    result = optimize(source, report=reports.append)
    [made] = reports
    assert made.nodes_before == Counter(node.op_type for node in source.graph.node)
    assert made.nodes_after == Counter(node.op_type for node in result.graph.node)
    optimize(two_products, report=reports.append)
    assert reports[1].nodes_before is None
    assert reports[1].shown_counts[0] == "operators"
    assert "matmul" in reports[1].shown_counts[1]


def test_the_report_has_the_reason_of_what_was_left() -> None:
    reports: list[OptimizationReport] = []
    optimize(two_products, report=reports.append)
    declined = [step for one in reports[0].passes for step in one.declined]
    assert any("combining does not pay" in str(step.reason) for step in declined)


@pytest.mark.parametrize("suffix", [".onnx", ".relax", ".pt2"])
def test_a_model_is_written_in_the_format_of_the_suffix(tmp_path: Path, suffix: str) -> None:
    if suffix == ".pt2":
        pytest.importorskip("torch")
    output = tmp_path / f"out{suffix}"
    optimize(save(projections(), tmp_path / "model.onnx"), output=output, verify=True)
    counts = op_counts(open_model(output).module)
    assert counts["relax.matmul"] == 1


def test_a_model_is_written_in_the_format_of_openvino_with_its_weights_beside_it(tmp_path: Path) -> None:
    output, source = tmp_path / "out.xml", save(projections(), tmp_path / "model.onnx")
    report: list[OptimizationReport] = []
    optimize(source, output=output, verify=True, report=report.append)
    assert set(report[0].files) == {"out.xml", "out.bin"}
    x = np.random.default_rng(1).standard_normal((3, 6, 16)).astype("float32")
    before = ort.InferenceSession(source).run(None, {"x": x})
    for expected, actual in zip(before, openvino_original(output, threads=1)([x]), strict=True):
        assert_close(actual, expected)
    assert op_counts(open_model(output).module)["relax.matmul"] == 1


def test_stages_are_told_as_they_begin(tmp_path: Path) -> None:
    stages: list[tuple[str, int, int]] = []
    optimize(
        save(projections(), tmp_path / "model.onnx"),
        output=tmp_path / "out.onnx",
        passes="FoldConstant",
        progress=lambda *stage: stages.append(stage),
    )
    assert stages == [("reading", 0, 3), ("FoldConstant", 1, 3), ("writing", 2, 3)]


def test_what_is_no_model_is_refused_with_what_would_be_one() -> None:
    with pytest.raises(UsageError, match=r"a model is a path, an onnx.ModelProto, .* not a list"):
        optimize([1, 2])


def test_weights_in_a_file_beside_the_model_stay_readable_and_go_beside_the_output(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    source = save(
        projections(), tmp_path / "in" / "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    before = files(tmp_path / "in")
    optimize(source, output=tmp_path / "out" / "model.onnx", verify=True)
    assert files(tmp_path / "in") == before
    ort.InferenceSession(tmp_path / "out" / "model.onnx")

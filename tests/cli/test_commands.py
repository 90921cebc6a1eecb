"""The work of each command when all is well."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper

from regraft import IRModule, parse, save_script
from regraft.model import explain_model, open_model
from tests.cli.harness import invoke, spawn
from tests.formats.onnx.writing import onnx_model
from tests.model.models import projections, save
from tests.view.programs import layers


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(projections(), tmp_path / "model.onnx")


def test_optimize_writes_a_model_and_shows_what_changed(model: Path, tmp_path: Path) -> None:
    output, report = tmp_path / "out.onnx", tmp_path / "report.json"
    result = invoke("optimize", model, "-o", output, "--verify", "--report", report)
    assert result.exit_code == 0, result.output
    assert "CombineParallelMatmul" in result.stdout
    assert "Verified against the model itself, on ONNX Runtime" in result.stdout
    assert "Wrote" in result.stdout
    assert sum(node.op_type == "MatMul" for node in onnx.load(output).graph.node) == 1
    assert json.loads(report.read_text())["verification"]["outputs"][0]["problem"] is None


def test_optimize_runs_the_passes_of_a_list(model: Path, tmp_path: Path) -> None:
    result = invoke("optimize", model, "-o", tmp_path / "out.onnx", "--passes", "DeadCodeElimination")
    assert result.exit_code == 0, result.output
    assert "DeadCodeElimination" in result.stdout
    assert "FoldConstant" not in result.stdout


def test_inspect_shows_inputs_outputs_dims_weights_and_operators(model: Path) -> None:
    result = invoke("inspect", model)
    assert result.exit_code == 0, result.output
    shown = (
        "float32[batch, 6, 16]",
        "value_out",
        "Symbolic dims: batch",
        "6 tensors, 1,120 numbers",
        "MatMul",
        "ai.onnx",
    )
    for text in shown:
        assert text in result.stdout


def test_inspect_gives_the_same_as_json(model: Path) -> None:
    found = json.loads(invoke("inspect", model, "--json", "--quiet", "--fix", "batch=2").stdout)
    proto = onnx.load(model)
    source = proto.graph
    versions = {one.domain or "ai.onnx": one.version for one in proto.opset_import}
    assert found["versions"] == {**versions, "ir_version": proto.ir_version}
    assert found["operators"] == dict(Counter(node.op_type for node in source.node))
    assert found["relax_operators"]["relax.matmul"] == 6
    weights = {one["name"]: one for one in found["weights"]}
    tensors = [onnx.numpy_helper.to_array(one) for one in source.initializer]
    assert sum(one["bytes"] for one in weights.values()) == sum(one.nbytes for one in tensors if one.size > 1)
    columns = sum(one.shape[1] for one in tensors if one.ndim == 2)
    rows = 2 * 6
    assert found["operations"] == 2 * rows * 16 * columns


def test_inspect_tells_of_weights_as_the_file_has_them(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["d"]),
        helper.make_node("Reshape", ["d", "shape"], ["r"]),
        helper.make_node("Add", ["c", "r"], ["y"]),
    ]
    constants = {"w": np.ones((8, 3, 1, 1), np.float32), "b": np.ones(8, np.float32), "q": np.ones(8, np.int8)}
    constants |= {"s": np.float32(0.5), "shape": np.array([8, 1, 1])}
    model = onnx_model(nodes, {"x": [1, 3, 4, 4]}, ["y"], constants)
    onnx.save(model, tmp_path / "model.onnx")
    found = json.loads(invoke("inspect", tmp_path / "model.onnx", "--json").stdout)["weights"]
    told = {one["name"]: (one["dtype"], one["shape"], one["bytes"]) for one in found}
    assert told == {"w": ("float32", [8, 3, 1, 1], 96), "b": ("float32", [8], 32), "q": ("int8", [8], 8)}


def test_inspect_lists_all_weights_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "model.relax"
    save_script(layers(20), path)
    assert invoke("inspect", path).stdout.count("[8, 8]") == 8
    assert invoke("inspect", path, "--weights").stdout.count("[8, 8]") == 60


def test_inspect_of_an_exported_program_names_its_aten_operators(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),)), path)
    assert json.loads(invoke("inspect", path, "--json").stdout)["operators"] == {"aten.linear.default": 1}


@pytest.mark.parametrize(
    "arguments",
    [
        ["optimize", "-o", "out.onnx", "--verify"],
        ["convert", "-o", "out.relax"],
        ["inspect"],
        ["explain"],
        ["explain", "--pass", "CombineParallelMatmul"],
        ["run"],
        ["bench", "--repeat", "1"],
        ["view", "-o", "page.html"],
    ],
    ids=lambda arguments: "-".join(arguments[:2]),
)
def test_a_quiet_command_prints_nothing(
    arguments: list[str], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(arguments[0], model, *arguments[1:], "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert invoke(arguments[0], "missing.onnx", *arguments[1:], "--quiet").stderr


def test_random_inputs_are_drawn_from_a_range(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", [name], [f"{name}_out"]) for name in ("image", "ids")],
        "same",
        [
            helper.make_tensor_value_info("image", TensorProto.FLOAT, [400]),
            helper.make_tensor_value_info("ids", TensorProto.INT64, [400]),
        ],
        [
            helper.make_tensor_value_info("image_out", TensorProto.FLOAT, [400]),
            helper.make_tensor_value_info("ids_out", TensorProto.INT64, [400]),
        ],
    )
    path = tmp_path / "same.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    done = invoke(
        "run", path, "-o", tmp_path / "out.npz", "--range", "image=2:2.5", "--range", "ids=7:9", "--engine", "numpy"
    )
    assert done.exit_code == 0, done.stderr
    drawn = np.load(tmp_path / "out.npz")
    assert 2 <= drawn["image_out"].min() < 2.1 < 2.4 < drawn["image_out"].max() <= 2.5
    assert set(drawn["ids_out"]) == {7, 8, 9}
    for wrong, message in {
        "image=1": "is no NAME=LOW:HIGH",
        "image=2:1": "give a least and a greatest number",
        "ids=0.2:0.8": "no whole number between",
        "other=0:1": "the model's inputs are: image, ids",
    }.items():
        refused = invoke("run", path, "--range", wrong)
        assert refused.exit_code == 2
        assert message in " ".join(refused.stderr.replace("│", " ").split())


def test_bench_gives_its_times_as_json(model: Path) -> None:
    found = json.loads(invoke("bench", model, model, "--repeat", "2", "--threads", "1", "--json").stdout)
    assert (found["turns"], found["clock"], len(found["times"])) == (2, "cpu", 2)
    first, second = found["times"]
    assert 0 < first["least"] <= first["median"]
    assert first["times_as_fast"] is None
    assert second["times_as_fast"] > 0


def test_inspect_prints_the_program(model: Path) -> None:
    result = invoke("inspect", model, "--text")
    assert "R.matmul(x, " in result.stdout
    assert "The numbers of 6 constants are left out" in result.stdout


def test_convert_keeps_the_values(model: Path, tmp_path: Path) -> None:
    text, back = tmp_path / "model.relax", tmp_path / "back.onnx"
    assert invoke("convert", model, "-o", text).exit_code == 0
    assert invoke("convert", text, "-o", back).exit_code == 0
    x = np.random.default_rng(2).standard_normal((5, 6, 16)).astype("float32")
    before, after = (ort.InferenceSession(path).run(None, {"x": x}) for path in (model, back))
    for expected, actual in zip(before, after, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize("command", ["optimize", "convert"])
def test_versions_of_onnx_can_be_asked_for(command: str, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    result = invoke(command, model, "-o", output, "--opset", "18", "--ir-version", "9")
    assert result.exit_code == 0, result.output
    written = onnx.load(output)
    assert (written.opset_import[0].version, written.ir_version) == (18, 9)
    other = invoke(command, model, "-o", tmp_path / "out.relax", "--opset", "18")
    assert other.exit_code == 2
    assert "is for ONNX" in other.stderr


def test_run_takes_inputs_by_name_and_writes_outputs_by_name(model: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((2, 6, 16)).astype("float32")
    np.savez(tmp_path / "in.npz", x=x)
    result = invoke("run", model, "--input", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert result.exit_code == 0, result.output
    [expected] = ort.InferenceSession(model).run(["key_out"], {"x": x})
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["key_out"], expected, rtol=1e-6)


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_run_without_inputs_draws_them(model: Path, engine: str) -> None:
    result = invoke("run", model, "--engine", engine, "--dim", "batch=4")
    assert result.exit_code == 0, result.output
    assert "(4, 6, 20)" in result.stdout


def test_bench_times_each_model_on_each_engine(model: Path) -> None:
    result = invoke("bench", model, model, "--engines", "onnxruntime,numpy", "--repeat", "2")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("onnxruntime") == 2
    assert result.stdout.count("numpy") == 2
    assert "Times, of 2 turns, by the wall clock" in result.stdout
    assert result.stdout.count("±") == 3, "all but the first beside the first"


def test_bench_takes_a_precision_behind_the_name_of_an_engine(model: Path) -> None:
    result = invoke("bench", model, "--engines", "openvino:float32", "--repeat", "1", "--threads", "1")
    assert result.exit_code == 0, result.output
    assert "openvino:float32" in result.stdout
    assert invoke("bench", model, "--engines", "openvino:int3").exit_code == 2


def test_passes_lists_each_pass_with_its_levels() -> None:
    result = invoke("passes")
    line = next(line for line in result.stdout.splitlines() if "EliminateCommonSubexpr" in line)
    assert "1, 2, 3" in line
    assert "Compute repeated values once" in line


def test_explain_of_a_model_alone_says_what_is_combined_and_what_is_left(model: Path) -> None:
    result = invoke("explain", model)
    assert result.exit_code == 0, result.output
    assert "What the default level combines and fuses" in result.stdout
    assert "FuseAttention" in result.stdout
    assert "SimplifyTransposes" not in result.stdout
    done = {one.name: one for one in explain_model(open_model(model).module)}
    left = done["CombineParallelMatmul"].left
    assert done["CombineParallelMatmul"].rewrites or left
    for one in left:
        assert f"CombineParallelMatmul left {len(one.places)} (" in result.stdout
        assert one.reason in result.stdout


def test_explain_of_a_model_names_what_keeps_attention_and_normalization_from_being_recognized() -> None:
    program = parse("""
@R.function
def main(q: R.Tensor((2, 4, 8), "float32"), k: R.Tensor((2, 8, 4), "float32"), v: R.Tensor((2, 4, 8), "float32"),
         image: R.Tensor((1, 3, 6, 6), "float32"), w: R.Tensor((3, 3, 3, 3), "float32"), p: R.Tensor((3,), "float32")):
    with R.dataflow():
        scores = R.matmul(q, k)
        shares = R.nn.softmax(R.multiply(scores, R.const(0.5)), axis=-1)
        louder = R.multiply(shares, R.const(1.5))
        mixed = R.matmul(louder, v)
        free = R.matmul(R.nn.softmax(q, axis=-1), R.exp(k))
        active = R.nn.relu(R.nn.conv2d(image, w))
        normed = R.nn.batch_norm(active, p, p, p, p, axis=1)[0]
        R.output(mixed, free, normed)
    return mixed, free, normed
""")
    done = {one.name: one for one in explain_model(IRModule({"main": program}))}
    assert done["FuseAttention"].left == (
        ("multiply between the softmax and its product with the values is no part of attention", ("mixed",)),
        *[one for one in done["FuseAttention"].left if one.places != ("mixed",)],
    )
    [norm] = done["FoldBatchnormToConv2D"].left
    assert norm.reason == "the normalization follows nn.relu; only one that follows nn.conv2d is folded"


def test_explain_of_a_model_names_the_part_that_a_pattern_lacks_and_nothing_where_little_of_it_is_there() -> None:
    def left(body: str) -> dict[str, list[str]]:
        lines = "\n        ".join(body.split("; "))
        program = parse(f"""
@R.function
def main(x: R.Tensor((4, 64), "float32"), g: R.Tensor((64,), "float32"), w: R.Tensor((64, 8), "float32")):
    with R.dataflow():
        {lines}
        R.output(y)
    return y
""")
        found = explain_model(IRModule({"main": program}))
        return {one.name: [each.reason for each in one.left] for one in found if one.left}

    squared = "s = R.multiply(x, x); v = R.sum(s, axis=[-1], keepdims=True); r = R.rsqrt(R.add(v, R.const(1e-5)))"
    assert left(f"{squared}; y = R.multiply(R.multiply(x, r), g)") == {
        "RecognizeOperators": ["nearly rms_norm; at arg 0 of add, a call of mean is wanted, but v = sum(s)"]
    }
    assert left("p = R.matmul(x, w); q = R.matmul(x, R.reshape(w, (1, 64, 8))); y = R.add(p, q)") == {
        "CombineParallelMatmul": ["the right sides of p and q have 2 and 3 axes"]
    }
    assert not left("h = R.nn.relu(R.multiply(x, g)); y = R.matmul(R.add(h, R.sqrt(R.abs(h))), w)")


@pytest.mark.parametrize("form", ["R.nn.attention(q, k, k)", "R.nn.attention_bias(q, k, k, R.exp(mask))"])
def test_attention_that_is_one_operator_is_nothing_that_was_left(form: str) -> None:
    program = parse(f"""
@R.function
def main(q: R.Tensor((1, 5, 2, 4), "float32"), k: R.Tensor((1, 5, 2, 4), "float32"),
         mask: R.Tensor((1, 2, 5, 5), "float32")):
    with R.dataflow():
        out = {form}
        R.output(out)
    return out
""")
    done = {one.name: one for one in explain_model(IRModule({"main": program}))}
    assert done["FuseAttention"].left == ()


def test_explain_takes_a_pass_or_rules_and_not_both(model: Path, tmp_path: Path) -> None:
    result = invoke("explain", model, "--pass", "FoldConstant", "--rules", tmp_path / "rules.py")
    assert result.exit_code == 2
    assert "say one thing to explain" in result.stderr


def test_explain_shows_matches_misses_and_reasons(model: Path) -> None:
    result = invoke("explain", model, "--pass", "CombineParallelMatmul")
    assert result.exit_code == 0, result.output
    assert "1 match" in result.stdout
    assert "[onnx:/attention/query]" in result.stdout
    missed = invoke("explain", model, "--pass", "ReorderPermuteDimsAfterConcat")
    assert "no call of concat to try it at" in missed.stdout


def test_grad_gives_outputs_and_gradients(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["p"]), helper.make_node("ReduceSum", ["p"], ["loss"], keepdims=0)],
        "loss",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 3]) for name in ("x", "w")],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
    )
    source = save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "loss.onnx"
    )
    output = tmp_path / "grad.onnx"
    result = invoke("grad", source, "--wrt", "w", "-o", output)
    assert result.exit_code == 0, result.output
    x, w = np.random.default_rng(4).standard_normal((2, 4, 3)).astype("float32")
    loss, gradient = ort.InferenceSession(output).run(None, {"x": x, "w": w})
    np.testing.assert_allclose(loss, (x * w).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, x, rtol=1e-6)


@pytest.mark.parametrize("suffix", ["onnx", "pt2", "relax"])
def test_grad_differentiates_by_weights_that_are_named(suffix: str, tmp_path: Path) -> None:
    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = torch.nn.Linear(80, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.hidden(x)).square().mean()

    model, x = Loss(), torch.randn(5, 80)
    program = torch.export.export(model, (x,))
    torch.export.save(program, tmp_path / "loss.pt2")
    assert invoke("convert", tmp_path / "loss.pt2", "-o", tmp_path / "loss.onnx").exit_code == 0
    assert invoke("convert", tmp_path / "loss.pt2", "-o", tmp_path / "loss.relax").exit_code == 0
    output = tmp_path / "grad.onnx"
    result = invoke("grad", tmp_path / f"loss.{suffix}", "--wrt", "x,hidden.weight,hidden.bias", "-o", output)
    assert result.exit_code == 0, result.output
    x.requires_grad_()
    model(x).backward()
    loss, *found = ort.InferenceSession(output).run(None, {"x": x.detach().numpy()})
    np.testing.assert_allclose(loss, model(x).item(), rtol=1e-5)
    wanted = [x.grad, model.hidden.weight.grad, model.hidden.bias.grad]
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    missed = invoke("grad", tmp_path / f"loss.{suffix}", "--wrt", "hidden.wait", "-o", tmp_path / "none.onnx")
    assert missed.exit_code == 2
    assert "did you mean hidden.weight" in " ".join(missed.stderr.split())
    assert not (tmp_path / "none.onnx").exists()


def test_python_dash_m_is_the_same_command(model: Path) -> None:
    finished = spawn("import runpy, sys; runpy.run_module('regraft', run_name='__main__')", "inspect", model)
    assert finished.returncode == 0, finished.stderr
    assert "float32[batch, 6, 16]" in finished.stdout


def test_help_and_version_load_no_framework() -> None:
    watch = (
        "import atexit, sys\n"
        "heavy = {'onnx', 'onnx_ir', 'onnxruntime', 'torch', 'jax'}\n"
        "atexit.register(lambda: print('loaded:', sorted(heavy & set(sys.modules))))"
    )
    for option in ("--help", "--version"):
        finished = spawn(watch, option)
        assert finished.returncode == 0, finished.stderr
        assert "loaded: []" in finished.stdout


def test_optimizing_an_onnx_file_needs_no_torch(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    finished = spawn("import sys; sys.modules['torch'] = None", "optimize", model, "-o", output, "--verify")
    assert finished.returncode == 0, finished.stderr
    assert open_model(output).function.params[0].name_hint == "x"


@pytest.mark.parametrize("suffix", [".onnx", ".relax", ".pt2"])
def test_a_file_gets_the_permissions_that_new_files_get(model: Path, tmp_path: Path, suffix: str) -> None:
    if suffix == ".pt2":
        pytest.importorskip("torch")
    made = tmp_path / "made"
    made.write_text("")
    expected = made.stat().st_mode
    made.unlink()
    assert invoke("convert", model, "-o", tmp_path / f"out{suffix}").exit_code == 0
    assert {path.stat().st_mode for path in tmp_path.glob("out*")} == {expected}

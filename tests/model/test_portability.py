"""An ONNX model stays in its opset, except where a newer one is expected to pay; the report says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import regraft as rx
from regraft.model.models import open_model
from regraft.model.portability import is_larger
from regraft.model.report import OptimizationReport
from tests.cli.harness import invoke
from tests.kit import assert_close

_GELU = """
    half = Div (x, root)
    curve = Erf (half)
    raised = Add (curve, unit)
    gated = Mul (x, raised)
    y = Mul (gated, middle)
"""
_NORM = """
    mean = ReduceMean <axes = [-1]> (x)
    centred = Sub (x, mean)
    square = Mul (centred, centred)
    spread = ReduceMean <axes = [-1]> (square)
    safe = Add (spread, tiny)
    root2 = Sqrt (safe)
    normal = Div (centred, root2)
    scaled = Mul (normal, gain)
    y = Add (scaled, shift)
"""
_ATTENTION = """
    turned = Transpose <perm = [0, 1, 3, 2]> (x)
    scores = MatMul (x, turned)
    small = Mul (scores, middle)
    weights = Softmax <axis = -1> (small)
    y = MatMul (weights, x)
"""


def _model(nodes: str, shape: str, opset: int, more: str = "") -> onnx.ModelProto:
    gain = ", ".join(["1.5", "0.5", "2.0", "1.0"] * 4)
    return onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : {opset}]>
        agraph (float[{shape}] x{more}) => (float[{shape}] y)
        <float root = {{1.4142135381698608}}, float unit = {{1.0}}, float middle = {{0.5}}, float tiny = {{0.00001}},
         float[16] gain = {{{gain}}}, float[16] shift = {{{gain}}}> {{ {nodes} }}
    """)


def _run(model: onnx.ModelProto, *inputs: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def _opset(model: onnx.ModelProto) -> int:
    return next(one.version for one in model.opset_import if not one.domain)


def _optimized(model: onnx.ModelProto, level: int | str = "default") -> tuple[onnx.ModelProto, OptimizationReport]:
    reports: list[OptimizationReport] = []
    again = rx.optimize(model, level=level, report=reports.append)
    return again, reports[0]


@pytest.mark.parametrize(("nodes", "opset"), [(_GELU, 13), (_GELU, 17), (_NORM, 13), (_NORM, 16)])
def test_activations_and_norms_do_not_raise_the_opset(nodes: str, opset: int) -> None:
    model = _model(nodes, "n, 5, 16", opset)
    again, report = _optimized(model)
    assert _opset(again) == opset
    assert len(again.graph.node) <= len(model.graph.node)
    assert report.raised is None
    assert report.to_dict()["raised"] is None
    x = np.random.default_rng(1).standard_normal((3, 5, 16), np.float32)
    assert_close(_run(again, x)[0], _run(model, x)[0])


def test_a_norm_becomes_one_node_where_the_opset_has_it() -> None:
    again, _ = _optimized(_model(_NORM, "n, 5, 16", 17))
    assert [node.op_type for node in again.graph.node] == ["LayerNormalization"]
    assert _opset(again) == 17


def test_attention_that_is_most_of_a_model_raises_the_opset_and_the_report_says_so() -> None:
    model = _model(_ATTENTION, "2, 4, 64, 16", 17)
    again, report = _optimized(model)
    assert {node.op_type for node in again.graph.node} <= {"Attention", "Transpose"}
    assert _opset(again) == 23
    assert str(report.raised) == "opset 17 became 23 for Attention"
    assert report.to_dict()["raised"] == {"before": 17, "after": 23, "operators": ("Attention",)}
    x = np.random.default_rng(2).standard_normal((2, 4, 64, 16), np.float32)
    assert_close(_run(again, x)[0], _run(model, x)[0])


def test_attention_that_is_little_of_a_model_stays_as_it_is_unless_the_level_or_the_caller_says_so() -> None:
    heavy = "flat = Flatten <axis = 0> (x)\nwide = MatMul (flat, w)\ny0 = ReduceSum <keepdims = 0> (wide)\n"
    nodes = _ATTENTION.replace("y = MatMul (weights, x)", "y1 = MatMul (weights, x)\n" + heavy + "y = Add (y1, y0)")
    model = _model(nodes, "1, 2, 4, 16", 17, ", float[128, 40000] w")
    again, report = _optimized(model)
    assert _opset(again) == 17
    assert report.raised is None
    assert len(again.graph.node) <= len(model.graph.node)
    random = np.random.default_rng(3)
    inputs = [random.standard_normal((1, 2, 4, 16), np.float32), random.standard_normal((128, 40000), np.float32)]
    assert_close(_run(again, *inputs)[0], _run(model, *inputs)[0])
    assert _opset(_optimized(model, 3)[0]) == 23
    assert _opset(rx.optimize(model, opset=23)) == 23


def test_the_command_says_that_an_opset_was_raised(tmp_path: Path) -> None:
    onnx.save(_model(_ATTENTION, "2, 4, 64, 16", 17), tmp_path / "model.onnx")
    done = invoke("optimize", tmp_path / "model.onnx", "-o", tmp_path / "out.onnx")
    assert done.exit_code == 0
    assert "opset 17 became 23 for Attention" in " ".join(done.output.split())


def test_a_few_more_bytes_are_for_what_is_expected_to_pay() -> None:
    two, one = [
        onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
            agraph (float[512, 512] x) => (float[512, 512] y) {{ {body} }}""")
        for body in (
            "a = MatMul (x, x) y = MatMul (a, x)",
            "product = MatMul (x, x) negative = Neg (product) y = Relu (negative)",
        )
    ]
    opened, after = open_model(two), rx.from_onnx(one)
    assert not is_larger(opened, after, one)
    assert is_larger(opened, opened.module, one)


def test_a_model_that_has_no_time_at_the_sizes_of_the_estimate_comes_back_as_it_was_rather_than_larger() -> None:
    small, large = [
        onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
            agraph (float[n, m] x) => (float[k, 3] y) <int64[2] triples = {{-1, 3}}> {{ {body} }}""")
        for body in (
            "y = Reshape (x, triples)",
            "negative = Neg (x) again = Neg (negative) y = Reshape (again, triples)",
        )
    ]
    assert is_larger(open_model(small), rx.from_onnx(large), large)


def test_as_many_nodes_with_more_bytes_are_larger_and_so_are_more_nodes_with_fewer() -> None:
    short, long, three = [
        onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
            agraph (float[8] x) => (float[8] y) {{ {body} }}""")
        for body in (
            "a = Abs (x) y = Neg (a)",
            "a_name_that_takes_very_many_bytes = Abs (x) y = Neg (a_name_that_takes_very_many_bytes)",
            "a = Abs (x) b = Neg (a) y = Neg (b)",
        )
    ]
    module = rx.from_onnx(short)
    assert is_larger(open_model(short), module, long)
    assert not is_larger(open_model(long), module, short)
    assert three.ByteSize() < long.ByteSize()
    assert is_larger(open_model(long), module, three)


def test_a_result_is_no_larger_by_a_byte_unless_it_is_expected_to_pay() -> None:
    steps = "a = Abs (x) b = Neg (a) c = Abs (b) d = Neg (c) e = Abs (d) f = Neg (e) g = Abs (f) h = Neg (g)"
    header = """<ir_version: 8, opset_import: ["" : 17]>
            agraph (float[8] x) => (float[8] y)"""
    long, shorter, short = [
        onnx.parser.parse_model(f"{header} {{ {body} }}")
        for body in (
            f"{steps} i = Abs (h) j = Neg (i) y = Abs (j)",
            f"{steps} a_name_that_takes_the_bytes_of_a_node = Abs (h) y = Neg (a_name_that_takes_the_bytes_of_a_node)",
            "a = Abs (x) a_name = Neg (a) y = Abs (a_name)",
        )
    ]
    assert shorter.ByteSize() > long.ByteSize()
    assert is_larger(open_model(long), rx.from_onnx(shorter), shorter)
    short.graph.doc_string = "-" * (long.ByteSize() - short.ByteSize() + 16)
    assert not is_larger(open_model(long), rx.from_onnx(short), short)
    short.graph.doc_string += "-" * 256
    assert is_larger(open_model(long), rx.from_onnx(short), short)


def test_the_shape_of_an_output_that_had_none_is_left_out_where_the_file_would_grow_by_it() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
            agraph (float[2, 3, 4, 5] x) => (y) { a = Identity (x) b = Abs (a) y = Neg (b) }""")
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    again = rx.optimize(model, level=0)
    assert [node.op_type for node in again.graph.node] == ["Abs", "Neg"]
    assert again.ByteSize() <= model.ByteSize()
    assert rx.optimize(again, level=0) == again


def test_sizes_that_are_none_at_the_sizes_of_the_estimate_are_no_error() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
            agraph (float[n] x) => (float[m] y) <int64[1] start = {122}, int64[1] end = {900}> {
                a = Slice (x, start, end) b = Transpose (a) c = Neg (b) d = Neg (c) y = Abs (d) }""")
    for level in range(4):
        rx.optimize(model, level=level)

"""Shapes, bounds, counts and axes that are inputs of the model: read with names for what they decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from regraft.engine import build
from regraft.formats import UnsupportedOperatorError, from_onnx, to_onnx
from regraft.ir import IRModule, iter_bindings
from regraft.ir.program import MatchCast
from regraft.script import parse
from tests.kit import assert_close

Feeds = dict[str, "np.ndarray[Any, Any]"]


def _model(
    op_type: str,
    feeds: Feeds,
    outputs: int = 1,
    opset: int = 18,
    operands: list[str] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """One node whose operands are all inputs: ``x`` of unknown sizes, the others of the shapes of ``feeds``."""
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [f"{name}{axis}" for axis in range(array.ndim)] if name == "x" else array.shape,
        )
        for name, array in feeds.items()
    ]
    names = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(op_type, operands or list(feeds), names, **attributes)
    results = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in names]
    graph = helper.make_graph([node], "g", inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def _with_types(model: onnx.ModelProto) -> onnx.ModelProto:
    inferred = onnx.shape_inference.infer_shapes(model)
    for value, found in zip(model.graph.output, inferred.graph.output, strict=True):
        value.type.tensor_type.elem_type = found.type.tensor_type.elem_type
    return model


def _x(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def _i(*numbers: int) -> np.ndarray[Any, Any]:
    return np.asarray(numbers, dtype=np.int64)


def _s(number: Any, dtype: str = "int64") -> np.ndarray[Any, Any]:
    return np.asarray(number, dtype=dtype)


CASES: dict[str, tuple[str, list[Feeds], dict[str, Any]]] = {
    "Reshape": ("Reshape", [{"x": _x(4, 6), "t": _i(3, -1)}, {"x": _x(2, 5), "t": _i(0, 5)}], {}),
    "Expand": ("Expand", [{"x": _x(3, 1), "t": _i(2, 1, 5)}, {"x": _x(3, 4), "t": _i(1, 1, 1)}], {}),
    "ConstantOfShape": ("ConstantOfShape", [{"t": _i(2, 3)}, {"t": _i(0, 1)}], {}),
    "Tile": ("Tile", [{"x": _x(2, 3), "t": _i(2, 1)}, {"x": _x(3, 2), "t": _i(0, 4)}], {}),
    "TopK": (
        "TopK",
        [{"x": _x(3, 5), "k": _i(2)}, {"x": _x(2, 7), "k": _i(7)}],
        {"axis": 1, "largest": 0, "outputs": 2},
    ),
    "OneHot": (
        "OneHot",
        [{"x": _i(1, 0, -1), "d": _s(3), "v": _x(2)}, {"x": _i(4, -4), "d": _s(5), "v": _x(2)}],
        {"axis": 0},
    ),
    "Trilu": ("Trilu", [{"x": _x(2, 4, 5), "k": _s(1)}, {"x": _x(2, 3, 4), "k": _s(-1)}], {"upper": 0}),
    "Split": ("Split", [{"x": _x(5, 4), "s": _i(1, 3)}, {"x": _x(3, 7), "s": _i(7, 0)}], {"axis": 1, "outputs": 2}),
    "CumSum": ("CumSum", [{"x": _x(3, 4), "a": _s(-2)}, {"x": _x(5, 2), "a": _s(1)}], {"reverse": 1}),
    "Squeeze": ("Squeeze", [{"x": _x(3, 1, 4), "a": _i(1)}, {"x": _x(3, 2, 1), "a": _i(-1)}], {}),
    "Unsqueeze": ("Unsqueeze", [{"x": _x(3, 4), "a": _i(0, 2)}, {"x": _x(3, 4), "a": _i(-1, 1)}], {}),
    "Range": ("Range", [{"a": _s(2), "b": _s(9), "c": _s(3)}, {"a": _s(9), "b": _s(-9), "c": _s(-4)}], {}),
    "Range of floats": (
        "Range",
        [
            {"a": _s(0.5, "float32"), "b": _s(3, "float32"), "c": _s(0.75, "float32")},
            {"a": _s(1, "float32"), "b": _s(0, "float32"), "c": _s(1, "float32")},
        ],
        {},
    ),
    "Slice": (
        "Slice",
        [
            {"x": _x(5, 6), "b": _i(1, -3), "e": _i(9, -1), "a": _i(1, 0), "s": _i(2, 1)},
            {"x": _x(7, 4), "b": _i(-9, 3), "e": _i(9, -9), "a": _i(-1, -2), "s": _i(1, -2)},
            {"x": _x(3, 4), "b": _i(-9, 2), "e": _i(-99, 1), "a": _i(1, 0), "s": _i(-1, 1)},
        ],
        {},
    ),
    "Slice of the first axes": (
        "Slice",
        [{"x": _x(5, 6, 2), "b": _i(1, 0), "e": _i(3, 4)}, {"x": _x(2, 3, 4), "b": _i(0, -1), "e": _i(1, 9)}],
        {},
    ),
    **{
        f"Pad, {mode}": (
            "Pad",
            [{"x": _x(4, 5), "p": _i(1, 2, 0, 3)}, {"x": _x(3, 6), "p": _i(-1, 2, 1, -2)}],
            {"mode": mode},
        )
        for mode in ("constant", "reflect", "edge")
    },
    "Pad with a number along axes": (
        "Pad",
        [
            {"x": _x(4, 5), "p": _i(1, 3), "v": _s(7, "float32"), "a": _i(1)},
            {"x": _x(0, 5), "p": _i(2, 1), "v": _s(-1, "float32"), "a": _i(-2)},
        ],
        {},
    ),
    **{
        f"Resize by factors, {mode}, {coordinates}": (
            "Resize",
            [
                {"x": _x(1, 2, 4, 5), "f": _s([1, 1, 2.5, 0.75], "float32")},
                {"x": _x(2, 1, 3, 6), "f": _s([1, 1, 1.5, 2], "float32")},
            ],
            {"mode": mode, "coordinate_transformation_mode": coordinates, "operands": ["x", "", "f"]},
        )
        for mode, coordinates in (
            ("nearest", "asymmetric"),
            ("nearest", "half_pixel"),
            ("linear", "half_pixel"),
            ("linear", "align_corners"),
            ("cubic", "pytorch_half_pixel"),
        )
    },
    "Resize by factors, antialiased": (
        "Resize",
        [
            {"x": _x(1, 2, 8, 9), "f": _s([0.5, 1.5], "float32")},
            {"x": _x(2, 1, 5, 6), "f": _s([2, 0.4], "float32")},
        ],
        {"mode": "linear", "antialias": 1, "axes": [2, 3], "operands": ["x", "", "f"]},
    ),
    "Resize by factors, cropped": (
        "Resize",
        [
            {
                "x": _x(1, 1, size, 6),
                "r": _s([0, 0, 0.2, -0.1, 1, 1, 0.7, 1.2], "float32"),
                "f": _s([1, 1, 1.5, 1], "float32"),
            }
            for size in (4, 7)
        ],
        {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0},
    ),
    **{
        f"Resize to sizes, {mode}, {policy}": (
            "Resize",
            [
                {"x": _x(1, 2, 4, 5), "s": _i(6, 10)},
                {"x": _x(2, 1, 6, 3), "s": _i(3, 6)},
            ],
            {"mode": mode, "axes": [2, 3], "keep_aspect_ratio_policy": policy, "operands": ["x", "", "", "s"]},
        )
        for mode, policy in (("nearest", "stretch"), ("linear", "stretch"), ("linear", "not_larger"))
    },
    "AffineGrid": (
        "AffineGrid",
        [{"x": _x(2, 2, 3), "t": _i(2, 4, 5, 6)}, {"x": _x(2, 2, 3), "t": _i(2, 1, 3, 2)}],
        {"opset": 20},
    ),
    "CenterCropPad": ("CenterCropPad", [{"x": _x(4, 7), "t": _i(6, 3)}, {"x": _x(5, 2), "t": _i(5, 5)}], {}),
    **{
        f"{name} {'kept' if kept else 'dropped'}": (
            name,
            [{"x": _x(2, 3, 4), "a": _i(1, -1)}, {"x": _x(3, 1, 5), "a": _i(0, 1)}],
            {"keepdims": kept},
        )
        for name in ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceLogSumExp")
        for kept in (0, 1)
    },
    **{
        name: (name, [{"x": _x(2, 3), "a": _i(0)}, {"x": _x(4, 1), "a": _i(-1)}], {})
        for name in ("ReduceProd", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare")
    },
}


def _tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", CASES)
def test_what_decides_a_shape_may_be_an_input(name: str) -> None:
    op_type, several, attributes = CASES[name]
    model = _with_types(_model(op_type, several[0], **attributes))
    module = from_onnx(model)
    mains = [build(module, target=target)["main"] for target in ("numpy", "onnxruntime")]
    # Beyond the ends of an axis ONNX Runtime has weights of its own for some modes of Resize.
    like_runtime = ("align_corners", "tf_crop_and_resize")
    is_runtime_right = op_type != "Resize" or attributes.get("coordinate_transformation_mode") in like_runtime
    oracle: Any = (
        onnxruntime.InferenceSession(model.SerializeToString()) if is_runtime_right else ReferenceEvaluator(model)
    )
    for feeds in several:
        expected = oracle.run(None, feeds)
        for main in mains:
            for found, want in zip(_tuple(main(*feeds.values())), expected, strict=True):
                assert np.asarray(found).shape == want.shape
                assert_close(found, want)


def test_sizes_that_inputs_decide_have_names_of_their_own() -> None:
    module = from_onnx(_with_types(_model("Tile", {"x": _x(2, 3), "t": _i(1, 1)})))
    [cast] = [binding for binding in iter_bindings(module["main"]) if isinstance(binding, MatchCast)]
    assert str(cast.ty) == "R.Shape([y0_0, y0_1])"


@pytest.mark.parametrize(
    ("op_type", "feeds", "message"),
    [
        ("Expand", {"x": _x(2), "t": _i(2, 3)}, "the rank of its result is known at run time only"),
        ("ReduceSum", {"x": _x(2, 3), "t": _i(0)}, "the number of elements of input 1 is known at run time only"),
        ("Squeeze", {"x": _x(1, 3)}, "the axes of size 1 are known at run time only: x0 may be 1 or not"),
    ],
)
def test_a_rank_that_an_input_decides_is_refused(op_type: str, feeds: Feeds, message: str) -> None:
    model = _model(op_type, feeds)
    for value in model.graph.input[1:]:
        value.type.tensor_type.shape.dim[0].dim_param = "k"
    with pytest.raises(UnsupportedOperatorError, match=message):
        from_onnx(model)


def test_a_reduction_over_axes_of_the_run_is_written_out_in_operators_of_opset_13() -> None:
    feeds = {"x": _x(2, 3, 4), "t": _i(2, 0)}
    written_out = parse(from_onnx(_with_types(_model("ReduceSum", feeds))).script())
    assert isinstance(written_out, IRModule)
    model = to_onnx(written_out)
    assert [one.version for one in model.opset_import] == [18]  # of reductions over axes
    [found] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    assert_close(found, feeds["x"].sum((0, 2), keepdims=True))

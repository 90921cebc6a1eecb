"""Corners of operators in which ONNX Runtime is the measure: what it gives for a file is what the program gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.formats import ConvertError, UnsupportedOperatorError, from_onnx, to_onnx
from tests.formats.onnx.single_node import assert_same, one_node, run_here, run_onnxruntime
from tests.formats.onnx.writing import onnx_model

Arrays = Mapping[str, np.ndarray]
_RANDOM = np.random.default_rng(7)


_BEGINNING = _RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers_whatever_runs_before() -> None:
    _RANDOM.bit_generator.state = _BEGINNING


def _floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _ramp(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def _check(model: onnx.ModelProto, inputs: Arrays, atol: float = 1e-6) -> None:
    """The program, on both engines, and the file that is written of it give what ONNX Runtime gives for the model."""
    expected = run_onnxruntime(model, inputs)
    for target in ("numpy", "onnxruntime"):
        assert_same(run_here(model, inputs, target), expected, atol=atol)
    assert_same(run_onnxruntime(to_onnx(from_onnx(model)), inputs), expected, atol=atol)


def _check_node(op_type: str, inputs: Arrays, **given: Any) -> None:
    _check(one_node(op_type, inputs, **given), inputs)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[tuple[str, Sequence[Any] | None]],
    outputs: Sequence[str],
    constants: Arrays | None = None,
    *,
    dtype: int = TensorProto.FLOAT,
    opset: int = 20,
) -> onnx.ModelProto:
    return onnx_model(nodes, dict(inputs), outputs, constants, opset=opset, input_dtype=dtype, output_dtype=dtype)


# --- results that no node gives


@pytest.mark.parametrize("also", ["x", "w"])
def test_an_input_or_a_constant_may_be_an_output(also: str) -> None:
    model = _model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", [3])], ["y", also], {"w": _floats(3)})
    _check(model, {"x": _floats(3)})
    written = to_onnx(from_onnx(model))
    assert [value.name for value in written.graph.output] == ["y", also]
    assert [node.op_type for node in written.graph.node] == ["Add"]


def test_an_output_may_have_a_rank_that_only_the_run_tells() -> None:
    model = _model([helper.make_node("GatherND", ["x", "i"], ["y"])], [("x", [3, 4])], ["y"])
    model.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, [2, "k"]))
    for places in ([[0, 1], [1, 2]], [[0], [2]]):
        _check(model, {"x": _floats(3, 4), "i": np.asarray(places)})


def test_branches_may_differ_in_rank() -> None:
    branches = {
        "then_branch": helper.make_graph(
            [helper.make_node("Squeeze", ["x"], ["a"])], "t", [], [helper.make_tensor_value_info("a", 1, None)]
        ),
        "else_branch": helper.make_graph(
            [helper.make_node("Identity", ["x"], ["b"])], "e", [], [helper.make_tensor_value_info("b", 1, None)]
        ),
    }
    nodes = [
        helper.make_node("If", ["c"], ["z"], **branches),
        helper.make_node("Relu", ["z"], ["r"]),
        helper.make_node("Add", ["r", "w"], ["y"]),
    ]
    model = _model(nodes, [("x", [1, 3])], ["y"], {"w": _floats(3)})
    model.graph.input.insert(0, helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    for condition in (True, False):
        _check(model, {"c": np.asarray(condition), "x": _floats(1, 3)})


# --- pooling


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_convolutions_of_bytes_are_padded_as_others_are(mode: str) -> None:
    codes = np.arange(2 * 7 * 9, dtype=np.uint8).reshape(1, 2, 7, 9)
    weights = np.arange(3 * 2 * 3 * 2, dtype=np.uint8).reshape(3, 2, 3, 2)
    scales = {name: np.asarray(number, np.float32) for name, number in (("sx", 0.1), ("sw", 0.02), ("sy", 0.5))}
    zeros = {name: np.asarray(number, np.uint8) for name, number in (("zx", 3), ("zw", 17), ("zy", 100))}
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"]
    given = {"x": codes, "w": weights, **scales, **zeros}
    _check_node("QLinearConv", {name: given[name] for name in names}, opset=10, auto_pad=mode, strides=[2, 1])


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_pools_are_padded_as_for_a_window_without_gaps(op_type: str, mode: str) -> None:
    inputs = {"x": np.sin(_ramp(1, 2, 7, 9))}
    window = {"kernel_shape": [3, 2], "strides": [1, 2], "dilations": [2, 3]}
    _check_node(op_type, inputs, auto_pad=mode, opset=19, **window)


@pytest.mark.parametrize("kernel", [1, 2])
@pytest.mark.parametrize("power", [0, 1, 3])
def test_a_norm_in_a_window_may_be_the_one_of_order_0(power: int, kernel: int) -> None:
    _check_node("LpPool", {"x": np.sin(_ramp(1, 2, 6))}, opset=18, kernel_shape=[kernel], p=power)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_mean_of_nothing_is_zero(keepdims: int) -> None:
    _check_node("ReduceMean", {"x": _ramp(0, 3)}, axes=[0], keepdims=keepdims, opset=13)


@pytest.mark.parametrize("include", [0, 1])
def test_average_pooling_rounds_counts_up_on_axes_of_open_size(include: int) -> None:
    node = helper.make_node(
        "AveragePool",
        ["x"],
        ["y"],
        kernel_shape=[3, 2],
        strides=[2, 3],
        pads=[1, 1, 1, 0],
        ceil_mode=1,
        count_include_pad=include,
    )
    model = _model([node], [("x", ["n", 2, "h", "w"])], ["y"])
    for height, width in ((7, 6), (8, 9)):
        _check(model, {"x": _floats(2, 2, height, width)})


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    ("kernel", "size", "pad", "stride", "dilation"),
    [(5, 3, 0, 3, 1), (5, 2, 1, 5, 1), (3, 4, 0, 5, 2), (4, 6, 0, 3, 1), (3, 8, 1, 2, 1), (3, 6, 0, 2, 1)],
)
def test_a_last_window_may_hang_over_the_end(
    op_type: str, kernel: int, size: int, pad: int, stride: int, dilation: int
) -> None:
    given = {"kernel_shape": [kernel], "pads": [pad, pad], "strides": [stride], "dilations": [dilation]}
    _check_node(op_type, {"x": _floats(1, 2, size)}, opset=22, ceil_mode=1, **given)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_pooling_of_which_nothing_comes_is_carried_as_it_is(op_type: str) -> None:
    inputs = {"x": _floats(1, 2, 2)}
    model = one_node(op_type, inputs, opset=22, kernel_shape=[5], strides=[3], ceil_mode=1)
    with pytest.raises(UnsupportedOperatorError, match="no window of 5 elements begins on an axis of 2"):
        from_onnx(model)
    expected = run_onnxruntime(model, inputs)
    assert expected[0].shape == (1, 2, 0)
    assert_same(run_onnxruntime(rx.optimize(model), inputs), expected)


# --- resizing


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("shape", [[1, 1, 5, 7], [1, 1, "h", "w"]])
def test_aligned_corners_go_by_the_size_of_the_result(mode: str, shape: list[Any]) -> None:
    coordinates = "align_corners"
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=coordinates)
    model = _model([node], [("x", shape)], ["y"], {"s": np.asarray([1, 1, 1.5, 1.3], np.float32)})
    _check(model, {"x": _floats(1, 1, 5, 7)})


@pytest.mark.parametrize(("scale", "size"), [(0.7, 6), (0.7, 7), (0.4, 10), (1.5, 7), (2.6, 5)])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_the_nearest_element_is_the_one_that_single_precision_finds(scale: float, size: int, rounding: str) -> None:
    inputs = {"x": _ramp(1, 1, size), "roi": None, "s": np.asarray([1, 1, scale], np.float32)}
    model = one_node("Resize", inputs, fixed=["s"], opset=19, nearest_mode=rounding)
    _check(model, {"x": inputs["x"]})


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric"])
@pytest.mark.parametrize("scale", [0.7, 1.3, 0.6])
def test_sizes_of_the_run_do_not_change_which_element_is_the_nearest(coordinates: str, scale: float) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], coordinate_transformation_mode=coordinates)
    model = _model([node], [("x", [1, 1, "w"])], ["y"], {"s": np.asarray([1, 1, scale], np.float32)})
    for size in (7, 9, 10, 13):
        _check(model, {"x": _ramp(1, 1, size)})


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_factor_that_leaves_the_sizes_as_they_are_leaves_the_elements(mode: str) -> None:
    inputs = {"x": _floats(1, 1, 5, 4), "roi": None, "s": np.asarray([1, 1, 1.1, 1.2], np.float32)}
    model = one_node("Resize", inputs, fixed=["s"], opset=19, mode=mode)
    _check(model, {"x": inputs["x"]})


# --- shapes, bounds and numbers


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_the_hardmax_of_nothing_is_nothing(shape: tuple[int, int]) -> None:
    _check_node("Hardmax", {"x": np.zeros(shape, np.float32)})


@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
def test_a_stride_beyond_the_kernel_leaves_a_transposed_convolution_short(padding: str) -> None:
    inputs = {"x": _floats(1, 2, 5, 4), "w": _floats(2, 3, 1, 2)}
    _check_node("ConvTranspose", inputs, opset=22, auto_pad=padding, strides=[3, 5])


@pytest.mark.parametrize("widths", [(-1, 2), (3, -2), (-1, -1), (7, 8)])
def test_padding_goes_round_on_what_is_left_when_ends_are_cut_off(widths: tuple[int, int]) -> None:
    inputs = {"x": _ramp(5), "p": np.asarray(widths)}
    _check(one_node("Pad", inputs, fixed=["p"], mode="wrap"), {"x": inputs["x"]})


@pytest.mark.parametrize(("low", "high"), [(np.nan, 1), (0, np.nan), (np.nan, np.nan)])
@pytest.mark.parametrize("fixed", [True, False])
def test_a_bound_that_is_no_number_leaves_its_side_open(low: float, high: float, fixed: bool) -> None:
    bounds = {"l": np.asarray(low, np.float32), "u": np.asarray(high, np.float32)}
    inputs = {"x": np.asarray([-1, 0.5, 2, np.nan, np.inf], np.float32), **bounds}
    _check(one_node("Clip", inputs, fixed=list(bounds) if fixed else []), inputs)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
@pytest.mark.parametrize("op_type", ["DequantizeLinear", "QuantizeLinear"])
def test_a_scale_of_one_element_is_for_the_whole_tensor(op_type: str, shape: tuple[int, ...]) -> None:
    x = np.full(shape, 3, np.int8 if op_type == "DequantizeLinear" else np.float32)
    inputs = {"x": x, "s": np.asarray([0.5], np.float32), "z": np.asarray([1], np.int8)}
    _check_node(op_type, inputs)


@pytest.mark.parametrize("name", ["?", "", "-1", "None", "*", "0"])
def test_sizes_whose_name_is_none_may_differ(name: str) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Add", ["x", "z"], ["s"])]
    model = _model(nodes, [("x", [name, 3]), ("z", [name, name])], ["y", "s"])
    _check(model, {"x": _floats(1, 3), "z": _floats(4, 3)})


@pytest.mark.parametrize("flat", [True, False])
def test_sparse_constants_are_read_as_dense_ones(flat: bool, tmp_path: Path) -> None:
    places = np.asarray([0, 5]) if flat else np.asarray([[0, 0], [1, 2]])
    values = numpy_helper.from_array(np.asarray([1, 2], np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(places), [2, 3])
    model = _model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", [2, 3])], ["y"])
    model.graph.sparse_initializer.append(sparse)
    _check(model, {"x": _floats(2, 3)})
    made = [helper.make_node("Constant", [], ["w"], sparse_value=sparse), model.graph.node[0]]
    model = _model(made, [("x", [2, 3])], ["y"])
    _check(model, {"x": _floats(2, 3)})
    onnx.save(model, tmp_path / "sparse.onnx")
    rx.optimize(tmp_path / "sparse.onnx", output=tmp_path / "dense.onnx")
    x = _floats(2, 3)
    assert_same(run_onnxruntime(onnx.load(tmp_path / "dense.onnx"), {"x": x}), run_onnxruntime(model, {"x": x}))


def test_a_sparse_constant_that_would_fill_the_memory_is_refused() -> None:
    values = numpy_helper.from_array(np.asarray([1], np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.asarray([0])), [10**6, 10**6])
    model = _model([helper.make_node("Relu", ["w"], ["y"])], [("x", [1])], ["y"])
    model.graph.sparse_initializer.append(sparse)
    with pytest.raises(ConvertError, match=r"constant w: a sparse tensor of shape .* is too large"):
        from_onnx(model)


@pytest.mark.parametrize("op_type", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize("reduction", ["none", "add", "mul"])
def test_truth_values_are_scattered(op_type: str, reduction: str) -> None:
    places = np.asarray([[0], [3], [3]]) if op_type == "ScatterND" else np.asarray([0, 3, 3])
    updates = np.asarray([False, True, True])
    inputs = {"x": np.asarray([True, False, True, False]), "i": places, "u": updates}
    _check_node(op_type, inputs, opset=18, reduction=reduction)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_the_slope_of_a_rectifier_may_be_an_integer(dtype: type[np.generic]) -> None:
    x = np.asarray([[-1, 2], [-3, 4]], np.int64).astype(dtype)
    _check_node("PRelu", {"x": x, "s": np.asarray([2, 3]).astype(dtype)}, opset=18)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize(("shape", "axis"), [((0, 4, 0), 0), ((0, 4, 0), -1), ((4, 0), 0), ((2, 0, 3), 2)])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_no_places_are_found_in_nothing(op_type: str, shape: tuple[int, ...], axis: int, keepdims: int) -> None:
    _check_node(op_type, {"x": np.zeros(shape, np.float32)}, opset=13, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("op_type", ["ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_logarithms_of_sums_of_integers_are_cut_off(op_type: str, keepdims: int) -> None:
    x = np.asarray([[7, 6, 6, 6, 6], [3, 3, 3, 2, 2]])
    if op_type == "ReduceLogSumExp":
        x = np.concatenate([x, [[-1, -3, -1, -2, -5], [-5, -3, -2, -2, -2]]])
    inputs = {"x": x, "axes": np.asarray([1])}
    for dtype in (np.int32, np.int64):
        given = {**inputs, "x": x.astype(dtype)}
        for fixed in (["axes"], []):
            _check(one_node(op_type, given, fixed=fixed, opset=18, keepdims=keepdims), given)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("fixed", [["axes"], []])
def test_log_sum_exp_of_unsigned_integers_cuts_off_the_result_alone(dtype: type[np.generic], fixed: list[str]) -> None:
    inputs = {"x": np.asarray([[0, 4, 1], [5, 3, 4]]).astype(dtype), "axes": np.asarray([1])}
    _check(one_node("ReduceLogSumExp", inputs, fixed=fixed, opset=18), inputs)


# --- convolution, recurrence, slices, bounds


@pytest.mark.parametrize("mode", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("length", [8, 10])
def test_what_a_given_output_size_cuts_off_goes_to_the_front_unless_the_file_says_upper(mode: str, length: int) -> None:
    inputs = {"x": _floats(1, 2, 5), "w": _floats(2, 3, 3)}
    _check_node("ConvTranspose", inputs, opset=11, auto_pad=mode, output_shape=[length], strides=[2])


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride"), [(4, 2), (3, 1), (1, 3), (2, 3)])
def test_a_transposed_convolution_pads_an_axis_of_open_size_itself(mode: str, kernel: int, stride: int) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], auto_pad=mode, strides=[stride])
    model = _model([node], [("x", [1, 2, "n"])], ["y"], {"w": _floats(2, 3, kernel)})
    for length in (4, 7):
        _check(model, {"x": _floats(1, 2, length)})


@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("clip", [0.3, 2.0])
def test_recurrent_layers_cut_what_goes_into_their_gates(op_type: str, gates: int, clip: float) -> None:
    inputs = {"x": _floats(4, 2, 2) * 2, "w": _floats(1, 3 * gates, 2), "r": _floats(1, 3 * gates, 3)}
    _check(one_node(op_type, inputs, fixed=["w", "r"], opset=14, hidden_size=3, clip=clip), inputs)


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1, -(2**63), 1])
@pytest.mark.parametrize("size", [4, "n"])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_slice_backwards_to_the_greatest_integer_goes_on_to_the_first_element(
    end: int, size: int | str, is_known: bool
) -> None:
    bounds = {"b": np.asarray([3]), "e": np.asarray([end])}
    rest = {"a": np.asarray([0]), "s": np.asarray([-1])}
    node = helper.make_node("Slice", ["x", "b", "e", "a", "s"], ["y"])
    model = _model([node], [("x", [size])], ["y"], {**bounds, **rest} if is_known else rest)
    if not is_known:
        model.graph.input.extend(helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in bounds)
    _check(model, {"x": _ramp(4), **({} if is_known else bounds)})


def test_a_slice_of_a_shape_backwards_to_the_greatest_integer_takes_the_first_size() -> None:
    numbers = {"b": np.asarray([-1]), "e": np.asarray([2**63 - 1]), "a": np.asarray([0]), "s": np.asarray([-1])}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "b", "e", "a", "s"], ["turned"]),
        helper.make_node("Reshape", ["x", "turned"], ["y"]),
    ]
    _check(_model(nodes, [("x", ["n", 3])], ["y"], numbers), {"x": _ramp(2, 3)})


@pytest.mark.parametrize("axis", [0, -1])
def test_the_greatest_element_may_be_sought_along_an_axis_of_open_size(axis: int) -> None:
    node = helper.make_node("Hardmax", ["x"], ["y"], axis=axis)
    model = _model([node], [("x", ["n", "k"])], ["y"])
    _check(model, {"x": np.asarray([[1, 3, 3], [2, 0, 5]], np.float32)})


@pytest.mark.parametrize("given", [{}, {"min": 0.0}, {"max": 0.0}])
def test_a_bound_that_an_old_file_leaves_out_is_the_greatest_number(given: dict[str, float]) -> None:
    inputs = {"x": np.asarray([np.inf, -np.inf, np.nan, 1, -1], np.float32)}
    model = one_node("Clip", inputs, opset=6, **given)
    _check(model, inputs)
    assert_same(run_onnxruntime(rx.optimize(model), inputs), run_onnxruntime(model, inputs))


@pytest.mark.parametrize("rank", [1, 2])
def test_elements_that_are_chosen_at_run_time_stay_one_node(rank: int) -> None:
    node = helper.make_node("Compress", ["x", "c"], ["y"], **({} if rank == 1 else {"axis": 0}))
    model = _model([node], [("x", [3, 2][:rank])], ["y"])
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, [3]))
    inputs = {"x": _floats(*[3, 2][:rank]), "c": np.asarray([True, False, True])}
    _check(model, inputs)
    assert [node.op_type for node in rx.optimize(model).graph.node] == ["Compress"]


@pytest.mark.parametrize("begin", [-(2**63), -(2**31), -3])
@pytest.mark.parametrize("length", [1, 4])
def test_a_slice_backwards_that_begins_before_an_axis_of_open_size_takes_its_first_element(
    begin: int, length: int
) -> None:
    bounds = {"b": np.asarray([begin]), "e": np.asarray([-(2**63)]), "a": np.asarray([0]), "s": np.asarray([-1])}
    node = helper.make_node("Slice", ["x", "b", "e", "a", "s"], ["y"])
    _check(_model([node], [("x", ["n"])], ["y"], bounds), {"x": _ramp(length)})


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric"])
@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_the_nearest_element_is_sought_in_single_precision(coordinates: str, rounding: str) -> None:
    given = {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    for size, scale in ((10, 0.6), (7, 0.6), (5, 0.6), (9, 0.7), (6, 2.3)):
        inputs = {"x": _ramp(size), "roi": None, "scales": np.asarray([scale], np.float32)}
        _check(one_node("Resize", inputs, fixed=["scales"], opset=19, **given), {"x": _ramp(size)})


CROPS = {
    "a result that is less than the factors say": ((1, 1, 0.6, 1.3), (0, 0, 0.2, -0.1, 1, 1, 0.9, 0.6)),
    "an axis whose factor is 1": ((1, 1, 1, 2), (0, 0, 0.2, 0.1, 1, 1, 0.9, 0.6)),
    "an axis of the same size whose factor is not 1": ((1, 1, 1.1, 2), (0, 0, 0.2, 0.1, 1, 1, 0.9, 0.6)),
    "all sizes the same": ((1, 1, 1.1, 1.1), (0, 0, 0.2, 0.1, 1, 1, 0.9, 0.6)),
    "one element": ((1, 1, 0.2, 2), (0, 0, 0.2, 0.1, 1, 1, 0.9, 0.6)),
}


@pytest.mark.parametrize("case", CROPS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("fixed", [["roi", "scales"], ["roi"]])
def test_a_part_is_cropped_as_onnx_runtime_crops_it(mode: str, fixed: list[str], case: str) -> None:
    scales, region = (np.asarray(numbers, np.float32) for numbers in CROPS[case])
    inputs = {"x": _floats(1, 2, 7, 6), "roi": region, "scales": scales}
    given = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    fed = {name: array for name, array in inputs.items() if name not in fixed}
    # ONNX Runtime computes places in float32; elements of 3 a place apart differ by a few times that rounding.
    _check(one_node("Resize", inputs, fixed=fixed, opset=13, **given), fed, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_part_is_cropped_to_sizes_but_for_axes_that_keep_theirs(mode: str) -> None:
    region = np.asarray([0, 0, 0.2, 0.1, 1, 1, 0.9, 0.6], np.float32)
    inputs = {"x": _floats(1, 2, 7, 6), "roi": region, "scales": None, "sizes": np.asarray([1, 2, 4, 6])}
    given = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize"}
    model = one_node("Resize", inputs, fixed=["roi", "sizes"], opset=13, **given)
    _check(model, {"x": inputs["x"]})


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_a_filter_that_aligns_corners_is_as_wide_as_the_factors_say(mode: str) -> None:
    inputs = {"x": _floats(1, 1, 6, 7), "roi": None, "scales": np.asarray([1, 1, 0.45, 0.65], np.float32)}
    given = {"mode": mode, "antialias": 1, "coordinate_transformation_mode": "align_corners"}
    _check(one_node("Resize", inputs, fixed=["scales"], opset=19, **given), {"x": inputs["x"]})


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("given", [{}, {"axes": [0, -1]}])
def test_means_and_variances_are_taken_out_of_half_precision(
    dtype: type[np.generic], given: dict[str, list[int]]
) -> None:
    inputs = {"x": _floats(2, 3, 3, 4).astype(dtype)}
    model = one_node("MeanVarianceNormalization", inputs, opset=21, **given)
    (expected,), (found,) = run_onnxruntime(model, inputs), run_onnxruntime(rx.optimize(model), inputs)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(run_here(model, inputs)[0], expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_celu_of_a_single_number_is_a_single_number(alpha: float) -> None:
    x = np.asarray(-0.3, np.float32)
    model = one_node("Celu", {"x": x}, opset=14, alpha=alpha)
    assert_same(run_here(model, {"x": x}), run_onnxruntime(model, {"x": x}))


@pytest.mark.parametrize("alpha", [2.0, 0.25, -0.5])
def test_celu_is_the_operand_above_0_whatever_its_factor(alpha: float) -> None:
    x = np.asarray([-3.0, -0.3, 0.0, 0.3, 2.0], np.float32)
    model = one_node("Celu", {"x": x}, opset=14, alpha=alpha)
    assert_same(run_here(model, {"x": x}), run_onnxruntime(model, {"x": x}))


def test_a_remainder_of_floats_that_came_with_opset_28_is_not_written_in_an_older_one() -> None:
    x, y = np.asarray([5.5, -5.5, 7.0], np.float32), np.asarray([3.0, 3.0, -4.0], np.float32)
    model = one_node("Mod", {"x": x, "y": y}, opset=28)
    model.graph.node.append(helper.make_node("Neg", ["y0"], ["z"]))
    model.graph.node.append(helper.make_node("Neg", ["z"], ["again"]))
    model.graph.output[0].name = "again"
    written = rx.optimize(model, level=3)
    assert_same(run_onnxruntime(written, {"x": x, "y": y}), [np.mod(x, y)])


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_the_place_of_the_only_element_of_a_scalar_is_0(op_type: str) -> None:
    nodes = [helper.make_node("Reshape", ["x", "none"], ["scalar"]), helper.make_node(op_type, ["scalar"], ["y"])]
    model = _model(nodes, [("x", [1])], ["y"], {"none": np.zeros(0, np.int64)})
    module = from_onnx(model)
    assert rx.build(module, target="numpy")["main"](_floats(1)) == 0


@pytest.mark.parametrize("turned", [0, 4])
def test_a_rotary_embedding_may_have_tables_of_a_named_width(turned: int) -> None:
    node = helper.make_node("RotaryEmbedding", ["x", "cosine", "sine"], ["y"], rotary_embedding_dim=turned)
    tables = ["b", "t", "width"]
    model = _model([node], [("x", [2, 3, 4, 8]), ("cosine", tables), ("sine", tables)], ["y"], opset=23)
    pairs = turned // 2 or 4
    _check(model, {"x": _floats(2, 3, 4, 8), "cosine": _floats(2, 4, pairs), "sine": _floats(2, 4, pairs)})


@pytest.mark.parametrize("keepdims", [-1, 0, 1, 2])
def test_a_number_that_says_yes_or_no_says_yes_as_1_only(keepdims: int) -> None:
    _check_node("ArgMax", {"x": _floats(2, 3)}, opset=18, axis=1, keepdims=keepdims)
    _check_node("ReduceSum", {"x": _floats(2, 3)}, opset=18, keepdims=keepdims)
    _check_node("ReduceMax", {"x": _floats(2, 3)}, opset=18, noop_with_empty_axes=keepdims)

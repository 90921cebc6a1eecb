"""The OpenVINO engine: values in and out, precisions, refusals. Each operator is held against it in tests/op."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import regraft.op as R
from regraft import optimize
from regraft.engine import BuildError, ExecutionError, TypeCheckError, build
from regraft.ir import BlockBuilder, Expr, Function, IRModule, SymVar, TensorType, Tuple, Var, const
from regraft.model.calibration import calibrated
from regraft.op.image import resize2d
from regraft.op.vision import all_class_non_max_suppression
from regraft.passes import op_counts
from regraft.passes.quantize import Quantize, QuantizeWeights
from regraft.run.openvino_engine import save_openvino, supported_precisions, to_openvino
from regraft.run.originals import openvino_original
from tests.kit import assert_close
from tests.passes.harness import module_of
from tests.run.programs import mlp, mlp_arrays

TARGET = "openvino"


def _tensor(name: str, *shape: Any, dtype: str = "float32") -> Var:
    return Var(name, TensorType(shape, dtype))


def _run(params: list[Var], body: Expr, *arrays: np.ndarray, **options: Any) -> Any:
    return build(Function(params, body), target=TARGET, threads=1, **options)["main"](*arrays)


def test_the_same_numbers_as_the_reference_at_any_size() -> None:
    module = mlp()
    fast, reference = build(module, target=TARGET, threads=1)["main"], build(module, target="numpy")["main"]
    for n in (1, 3, 7):
        arrays = mlp_arrays(n)
        assert_close(fast(*arrays), reference(*arrays))


def test_a_result_stays_as_it_is_when_the_program_runs_again() -> None:
    run = build(mlp(), target=TARGET, threads=1)["main"]
    first = run(*mlp_arrays(3))
    kept = first.copy()
    run(*mlp_arrays(3)[:1], *mlp_arrays(5)[1:])
    np.testing.assert_array_equal(first, kept)


def test_arrays_in_any_memory_order_are_taken() -> None:
    x, w, b = mlp_arrays(4)
    expected = build(mlp(), target="numpy")["main"](x, w, b)
    found = build(mlp(), target=TARGET, threads=1)["main"](np.asfortranarray(x), w.T.copy().T, b)
    assert_close(found, expected)


def test_arguments_are_checked_as_the_reference_checks_them() -> None:
    messages: list[str] = []
    for target in (TARGET, "numpy"):
        with pytest.raises(TypeCheckError) as caught:
            build(mlp(), target=target)["main"](np.zeros((3, 5), np.float32), *mlp_arrays(3)[1:])
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_parameter_that_nothing_reads_is_taken_and_left() -> None:
    x, unread = _tensor("x", 2, 3), _tensor("unread", 5)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(_run([unread, x], R.negative(x), np.zeros(5, np.float32), array), -array)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int64", "uint8", "bool"])
def test_arrays_of_each_dtype_go_in_and_out(dtype: str) -> None:
    x = _tensor("x", 2, 3, dtype=dtype)
    array = np.array([[1, 0, 3], [0, 5, 6]]).astype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    found = _run([x], Tuple([R.permute_dims(x), x]), array)
    assert found[0].dtype == array.dtype
    np.testing.assert_array_equal(found[0], array.T)
    np.testing.assert_array_equal(found[1], array)


def test_a_lower_precision_is_coarser_and_keeps_the_types() -> None:
    if "bfloat16" not in supported_precisions():
        with pytest.raises(BuildError, match="does not compute in bfloat16 on this processor"):
            build(mlp(), target=TARGET, precision="bfloat16")
        return
    x, w = _tensor("x", 64, 256), const(np.random.default_rng(0).standard_normal((256, 128)).astype(np.float32))
    array = np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32)
    exact = array @ w.data.numpy()
    found = _run([x], R.matmul(x, w), array, precision="bfloat16")
    error = float(np.abs(found - exact).max() / np.abs(exact).max())
    assert found.dtype == np.float32
    assert 1e-5 < error < 2e-2
    np.testing.assert_allclose(_run([x], R.matmul(x, w), array), exact, rtol=1e-4, atol=1e-3)


def test_products_of_weights_in_bytes_are_those_of_the_program_where_exact_is_asked_for(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = [const(random.standard_normal((256, 256)).astype(np.float32) / 16) for _ in range(2)]
    array = random.standard_normal((1, 256)).astype(np.float32)
    module = module_of(array.shape, lambda builder, x: R.matmul(builder.emit(R.matmul(x, weights[0])), weights[1]))
    module = QuantizeWeights(8)(module)
    expected = build(module, target="numpy")["main"](array)
    assert_close(build(module, target=TARGET, threads=1, exact=True)["main"](array), expected)
    save_openvino(module, "main", tmp_path / "bytes.xml")
    (found,) = openvino_original(tmp_path / "bytes.xml", threads=1, exact=True)([array])
    assert_close(found, expected)
    optimize(tmp_path / "bytes.xml", output=tmp_path / "out.onnx", verify=True)


def test_a_product_after_the_maximum_of_channels_stays_where_openvino_errs_in_bytes() -> None:
    generator = np.random.default_rng(0)

    def weights(*shape: int) -> Expr:
        return const((generator.standard_normal(shape) / shape[1] ** 0.5).astype(np.float32))

    def layers(builder: BlockBuilder, x: Expr) -> Expr:
        first = builder.emit(R.nn.relu(builder.emit(R.nn.conv1d(x, weights(32, 8, 1)))))
        second = builder.emit(R.add(builder.emit(R.nn.conv1d(first, weights(64, 32, 1))), weights(64, 1)))
        return R.matmul(builder.emit(R.max(second, axis=[2])), weights(64, 16))

    module = module_of((2, 8, 40), layers)
    x = generator.standard_normal((2, 8, 40)).astype(np.float32)
    lowered = Quantize(calibrated(module, "main", [[x]]), bits=7)(module)
    assert op_counts(lowered)["relax.dequantize"] == 5, "both convolutions and a bias are in bytes"
    expected = np.asarray(build(lowered, target="numpy")["main"](x))
    found = build(lowered, target=TARGET, threads=1)["main"](x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3 * np.abs(expected).max())
    for_onnxruntime = Quantize(calibrated(module, "main", [[x]]), bits=7, results=True)(module)
    assert op_counts(for_onnxruntime)["relax.dequantize"] > 6, "ONNX Runtime has the product in bytes, too"


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("reduction", [R.max, R.min, R.sum, R.mean, R.prod, R.variance, R.std])
def test_a_reduction_of_three_axes_before_numbers_of_channels(reduction: Any, axis: int, keepdims: bool) -> None:
    """OpenVINO alone reads the numbers of other channels here, in float32."""
    generator = np.random.default_rng(0)
    array = generator.standard_normal((2, 6, 40)).astype(np.float32)
    sizes = {0: (6, 1), 1: (40,), 2: (6, 1) if keepdims else (6,)}[axis]
    for first, last in ((2, 40), (SymVar("a"), SymVar("c"))):
        x = _tensor("x", first, 6, last)
        scale, shift = (const(generator.random(sizes).astype(np.float32)) for _ in range(2))
        scaled = R.multiply(R.nn.relu(reduction(x, axis=[axis], keepdims=keepdims)), scale)
        function = Function([x], R.add(scaled, shift))
        assert_close(_run([x], function.body, array), build(function, target="numpy")["main"](array))


@pytest.mark.parametrize("shape", [(3, 1, 3, 1), (1, 1, 3, 1), (2, 3, 3, 3)])
@pytest.mark.parametrize("order", [(2, 0, 1), (1, 0, 2)])
@pytest.mark.parametrize("reduction", [R.sum, R.max, R.mean])
def test_a_reduction_that_drops_its_axis_between_transposes(
    reduction: Any, order: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    """OpenVINO alone joins the transpose of attention and this one to a wrong one, where axes of size 1 move."""
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x = _tensor("x", *shape)
    reduced = reduction(R.nn.attention(x, x, x), axis=[0])
    body = R.add(R.permute_dims(reduced, order), const(np.ones((3, 3, 3), np.float32)))
    assert_close(_run([x], body, array), build(Function([x], body), target="numpy")["main"](array))


def test_a_written_file_has_the_reductions_that_openvino_computes_rightly(tmp_path: Path) -> None:
    x = _tensor("x", 2, 6, 40)
    scale = const(np.random.default_rng(0).random((6, 1)).astype(np.float32))
    function = Function([x], R.multiply(R.mean(x, axis=[2], keepdims=True), scale))
    save_openvino(IRModule({"main": function}), "main", tmp_path / "model.xml")
    array = np.random.default_rng(1).standard_normal((2, 6, 40)).astype(np.float32)
    (found,) = openvino_original(tmp_path / "model.xml", threads=1)([array])
    assert_close(found, build(function, target="numpy")["main"](array))


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("pool", [R.nn.max_pool1d, R.nn.avg_pool1d])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(1, 2, [0, 0]), (2, 2, [1, 1]), (2, 3, [0, 0]), (3, 2, [1, 1])]
)
def test_a_pool_that_rounds_up_has_no_window_behind_all_elements(
    kernel: int, stride: int, padding: list[int], pool: Any, is_open: bool
) -> None:
    """OpenVINO alone has one more, which is infinite or no number, and which the sum takes in."""
    for length in (4, 5, 6):
        array = np.random.default_rng(length).standard_normal((2, 3, length)).astype(np.float32)
        x = _tensor("x", 2, 3, SymVar("n") if is_open else length)
        pooled = pool(x, [kernel], [stride], padding, ceil_mode=True)
        for body in (pooled, R.sum(R.nn.gelu(pooled), axis=[0, 2])):
            assert_close(_run([x], body, array), build(Function([x], body), target="numpy")["main"](array))


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_convolution_with_windows_of_padding_alone(channels: int, kernel: int, dilation: int, is_open: bool) -> None:
    """OpenVINO alone has other numbers here, or ends the process."""
    generator = np.random.default_rng(0)
    weights = const(generator.standard_normal((channels, channels, kernel, kernel)).astype(np.float32))
    array = generator.standard_normal((2, channels, 7, 4)).astype(np.float32)
    x = _tensor("x", 2, channels, SymVar("n") if is_open else 7, 4)
    body = R.nn.conv2d(R.nn.relu(x), weights, padding=[1, 0, 3, 3], dilation=[dilation] * 2)
    assert_close(_run([x], body, array), build(Function([x], body), target="numpy")["main"](array))


@pytest.mark.parametrize("size", [5, 6])
@pytest.mark.parametrize("padding", [(1, 0), (0, 1), (1, 1), (0, 2)])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_convolution_of_single_elements_with_strides_reads_what_is_padded(
    rank: int, padding: tuple[int, int], size: int
) -> None:
    """OpenVINO alone picks the elements before they are padded, where another node comes before."""
    generator = np.random.default_rng(0)
    weights, shift = (const(generator.standard_normal(shape).astype(np.float32)) for shape in ((4, 8), (8, 1)))
    conv = getattr(R.nn, f"conv{rank}d")
    begin, end = padding
    paddings = {"padding": [begin] * rank + [end] * rank}, {"padding": [0] * 2 * rank}
    array = generator.standard_normal((2, 8, *[size] * rank)).astype(np.float32)
    x = _tensor("x", *array.shape)
    for place, given in enumerate(paddings):
        before = R.add(x, R.reshape(shift, (8, *[1] * rank)))
        before = R.nn.pad(before, [0] * 4 + [begin, end] * rank) if place else before
        body = conv(before, R.reshape(weights, (4, 8, *[1] * rank)), strides=[2] * rank, **given)
        assert_close(_run([x], body, array), build(Function([x], body), target="numpy")["main"](array))


@pytest.mark.parametrize("shape", [(2, 8, 12), (2, 8, 12, 9), (2, 8, 7, 6, 5)])
@pytest.mark.parametrize(
    "activation",
    [
        R.abs,
        R.nn.gelu,
        R.nn.gelu_tanh,
        R.nn.silu,
        R.nn.relu,
        lambda x: R.nn.leakyrelu(x, -0.5),
        lambda x: x * R.nn.softplus(x),
        lambda x: R.nn.gelu(R.reshape(x, (16, -1))),
    ],
)
def test_an_activation_after_a_max_pool_of_a_convolution(activation: Any, shape: tuple[int, ...]) -> None:
    """OpenVINO alone takes the largest activation here, not the activation of the largest number."""
    generator = np.random.default_rng(0)
    rank = len(shape) - 2
    conv, pool = getattr(R.nn, f"conv{rank}d"), getattr(R.nn, f"max_pool{rank}d")

    def layers(builder: BlockBuilder, x: Expr) -> Expr:
        weights = const(generator.standard_normal((8, 8) + (1,) * rank).astype(np.float32))
        pooled = builder.emit(pool(builder.emit(conv(x, weights)), pool_size=[2] * rank))
        return R.add(activation(pooled), const(np.float32(1)))

    module = module_of(shape, layers)
    array = generator.standard_normal(shape).astype(np.float32)
    assert_close(build(module, target=TARGET, threads=1)["main"](array), build(module, target="numpy")["main"](array))


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 4, 8), (2, 4, 8)])
def test_a_sum_of_attention_that_is_read_twice_compiles(shape: tuple[int, ...], projected: bool) -> None:
    """OpenVINO alone ends the process here, as it compiles the model."""
    generator = np.random.default_rng(0)
    own, next_weights = (const(generator.standard_normal((8, 8)).astype(np.float32)) for _ in range(2))

    def layers(builder: BlockBuilder, x: Expr) -> Expr:
        data = builder.emit(x + const(np.float32(1)))
        keys = builder.emit(R.matmul(data, own)) if projected else data
        turned = R.permute_dims(keys, (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2))
        weights = builder.emit(R.nn.softmax(R.matmul(keys, turned), axis=-1))
        total = builder.emit(R.matmul(weights, keys) + data)
        return total + R.matmul(total, next_weights)

    module = module_of(shape, layers)
    array = generator.standard_normal(shape).astype(np.float32)
    assert_close(build(module, target=TARGET, threads=1)["main"](array), build(module, target="numpy")["main"](array))


@pytest.mark.parametrize("mish", [R.nn.mish, lambda x: x * R.tanh(R.nn.softplus(x))])
@pytest.mark.parametrize(
    "place",
    [
        lambda x, mish: mish(R.nn.attention(x, x, x)),
        lambda x, mish: R.take(mish(R.nn.attention(x, x, x) + x), const(np.array([1, 1])), axis=2),
        lambda x, mish: R.matmul(R.nn.softmax(mish(R.matmul(x, R.permute_dims(x, (0, 1, 3, 2)))), axis=-1), x),
    ],
)
def test_mish_beside_attention_compiles(mish: Any, place: Any) -> None:
    """OpenVINO alone joins Mish to the products of attention, and then has no kernel for it."""
    generator = np.random.default_rng(0)
    module = module_of((2, 3, 4, 8), lambda builder, x: place(builder.emit(x + const(np.float32(1))), mish))
    array = (generator.standard_normal((2, 3, 4, 8)) * 20).astype(np.float32)
    assert_close(build(module, target=TARGET, threads=1)["main"](array), build(module, target="numpy")["main"](array))


@pytest.mark.parametrize(
    "between",
    [
        lambda x: R.reshape(x, (2, 5, 32)),
        lambda x: R.sum(x, axis=[2]),
        lambda x: R.nn.relu(R.max(x, axis=[2])),
        lambda x: R.reshape(R.reshape(x, (-1,)), (2, 5, 32)),
    ],
)
def test_transposes_around_a_change_of_shape_behind_a_convolution(between: Any) -> None:
    """OpenVINO alone copies the channels-last memory here as if it were channels-first."""
    generator = np.random.default_rng(0)

    def layers(builder: BlockBuilder, x: Expr) -> Expr:
        weights = const(generator.standard_normal((8, 3, 3, 3)).astype(np.float32))
        pooled = builder.emit(R.nn.max_pool2d(builder.emit(R.nn.conv2d(x, weights)), [2, 2], [2, 2]))
        return R.permute_dims(builder.emit(between(R.permute_dims(pooled, [0, 2, 3, 1]))), [0, 2, 1])

    module = module_of((2, 3, 12, 10), layers)
    array = generator.standard_normal((2, 3, 12, 10)).astype(np.float32)
    assert_close(build(module, target=TARGET, threads=1)["main"](array), build(module, target="numpy")["main"](array))


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize(
    ("place", "axes"), [(4, [[1]]), (2, [[0]]), (2, [[2, 3], [0]]), (0, [[1], [2]]), (3, [[0, 4], [1]])]
)
@pytest.mark.parametrize("is_reshape", [True, False])
def test_reductions_after_an_axis_is_added(place: int, axes: list[list[int]], keepdims: bool, is_reshape: bool) -> None:
    """OpenVINO alone moves the new axis to another place where the reductions keep their axes."""

    def layers(builder: BlockBuilder, x: Expr) -> Expr:
        shape = [2, 3, 4, 5]
        added = R.reshape(x, [*shape[:place], 1, *shape[place:]]) if is_reshape else R.expand_dims(x, [place])
        value = builder.emit(added)
        for one in axes:
            value = builder.emit(R.mean(value, axis=one, keepdims=keepdims))
        return R.exp(value)

    module = module_of((2, 3, 4, 5), layers)
    array = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    assert_close(build(module, target=TARGET, threads=1)["main"](array), build(module, target="numpy")["main"](array))


def test_reductions_after_an_axis_is_added_to_three() -> None:
    """The first of these reads a matrix, since an elementwise operator may follow; the second reads what that gives."""

    def layers(builder: BlockBuilder, x: Expr) -> Expr:
        first = builder.emit(R.mean(builder.emit(R.reshape(x, [1, 1, 4, 4])), axis=[3]))
        return R.exp(builder.emit(R.mean(first, axis=[2])))

    module = module_of((1, 4, 4), layers)
    array = np.random.default_rng(0).standard_normal((1, 4, 4)).astype(np.float32)
    assert_close(build(module, target=TARGET, threads=1)["main"](array), build(module, target="numpy")["main"](array))


@pytest.mark.parametrize("keepdims", [True, False])
def test_an_output_that_another_node_gives_for_openvino_keeps_its_name_and_sizes(keepdims: bool) -> None:
    def layers(builder: BlockBuilder, x: Expr) -> Expr:
        added = builder.emit(R.expand_dims(builder.emit(R.permute_dims(x, [1, 0, 2])), [0]))
        return R.sum(added, axis=[1], keepdims=keepdims)

    module = module_of((2, 3, 4), layers)
    array = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    assert_close(build(module, target=TARGET, threads=1)["main"](array), build(module, target="numpy")["main"](array))
    [output] = to_openvino(module, "main").outputs
    assert output.get_any_name() == "gv"


@pytest.mark.parametrize("is_constant", [True, False])
def test_boxes_that_may_not_overlap(is_constant: bool) -> None:
    random = np.random.default_rng(2)
    middle, size = random.uniform(0, 2, (2, 9, 2)), random.uniform(0, 1, (2, 9, 2))
    arrays = [np.concatenate([middle - size, middle + size], axis=-1).astype(np.float32)]
    arrays.append(random.permutation(2 * 9).reshape(2, 1, 9).astype(np.float32))
    boxes, scores, overlap = _tensor("boxes", 2, 9, 4), _tensor("scores", 2, 1, 9), _tensor("overlap")
    params = [boxes, scores, *([] if is_constant else [overlap])]
    arrays += [] if is_constant else [np.zeros((), np.float32)]
    allowed = const(0.0, "float32") if is_constant else overlap
    call = all_class_non_max_suppression(boxes, scores, const(9, "int64"), allowed, const(0.0, "float32"))
    expected = build(Function(params, call), target="numpy")["main"](*arrays)
    assert_close(_run(params, call, *arrays), expected)


def test_maxima_of_a_convolution_in_bytes() -> None:
    generator = np.random.default_rng(0)
    weights = [const(generator.standard_normal(shape).astype(np.float32)) for shape in ((32, 8, 1), (64, 32, 1))]

    def layers(builder: BlockBuilder, x: Expr) -> Expr:
        first = builder.emit(R.nn.relu(builder.emit(R.nn.conv1d(x, weights[0]))))
        return R.max(builder.emit(R.nn.conv1d(first, weights[1])), axis=[2])

    module = module_of((2, 8, 40), layers)
    array = generator.standard_normal((2, 8, 40)).astype(np.float32)
    lowered = Quantize(calibrated(module, "main", [[array]]), bits=7)(module)
    found = build(lowered, target=TARGET, threads=1)["main"](array)
    assert_close(found, build(lowered, target="numpy")["main"](array))


def test_a_precision_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(BuildError, match="precision='int3'; expected one of float32, bfloat16, float16"):
        build(mlp(), target=TARGET, precision="int3")


@pytest.mark.parametrize(
    ("params", "body", "message"),
    [
        ([_tensor("x", 3, dtype="float64")], R.negative, "computes in single precision"),
        ([_tensor("x", 0, 3)], R.negative, "has no elements"),
        ([_tensor("x", 3, dtype="uint8")], lambda x: R.subtract(x, x), "wraps around"),
        (
            [_tensor("x", 1, 1, 4, 4)],
            lambda x: resize2d(x, (8, 8), method="cubic", cubic_exclude=1),
            "beyond the edge",
        ),
    ],
)
def test_what_openvino_would_compute_otherwise_is_refused(params: list[Var], body: Any, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        build(Function(params, body(*params)), target=TARGET)


def test_an_output_whose_size_openvino_rounds_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it would of a pool that rounds up, if windows behind all elements were not cut off for it."""
    monkeypatch.setattr("regraft.run.openvino_joins.keep_apart", lambda _graph: None)
    x = _tensor("x", 2, 3, 9, 11)
    pooled = R.nn.max_pool2d(x, (2, 2), (3, 3), (1, 1), ceil_mode=True)
    with pytest.raises(BuildError, match="rounds sizes otherwise"):
        build(Function([x], pooled), target=TARGET)


def test_an_integer_beyond_32_bits_is_refused_when_it_comes() -> None:
    x = _tensor("x", 2, dtype="int64")
    run = build(Function([x], R.multiply(x, x)), target=TARGET, threads=1)["main"]
    np.testing.assert_array_equal(run(np.array([3, -4])), [9, 16])
    with pytest.raises(ExecutionError, match="main: an input holds 4294967296, and OpenVINO computes integers in 32"):
        run(np.array([1, 2**32]))


def test_compiled_models_are_kept_in_the_cache_folder(tmp_path: Path) -> None:
    arrays = mlp_arrays(3)
    first = build(mlp(), target=TARGET, threads=1, cache=tmp_path)["main"](*arrays)
    assert list(tmp_path.iterdir())
    np.testing.assert_array_equal(build(mlp(), target=TARGET, threads=1, cache=tmp_path)["main"](*arrays), first)


def test_a_file_runs_as_it_is(tmp_path: Path) -> None:
    import regraft

    regraft.to_onnx(mlp(), tmp_path / "mlp.onnx")
    arrays = mlp_arrays(3)
    expected = build(mlp(), target="numpy")["main"](*arrays)
    for source in (tmp_path / "mlp.onnx", onnx.load(tmp_path / "mlp.onnx")):
        [found] = openvino_original(source, threads=1)(arrays)
        assert_close(found, expected)
    (tmp_path / "damaged.onnx").write_bytes(b"no model")
    with pytest.raises(BuildError, match="OpenVINO cannot open the model"):
        openvino_original(tmp_path / "damaged.onnx")


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
@pytest.mark.parametrize("channels", [1, 3])
def test_quantizations_to_16_bits_keep_their_limits_on_openvino(dtype: str, channels: int) -> None:
    """OpenVINO leaves them out, and with them the limits that stand for an activation."""
    zero = np.full(channels, np.iinfo(dtype).min, dtype)
    scale = np.array([0.0001, 0.0002, 0.00005][:channels], np.float32)
    parameters = [const(one if channels > 1 else one.reshape(())) for one in (scale, zero)]

    def body(builder: BlockBuilder, x: Expr) -> Expr:
        codes = builder.emit(R.quantize(x, *parameters, axis=1, out_dtype=dtype))
        return R.dequantize(codes, *parameters, axis=1)

    module = module_of((2, 3, 40), body)
    x = 4 * np.random.default_rng(0).standard_normal((2, 3, 40)).astype(np.float32)
    right = np.asarray(build(module, target="numpy")["main"](x))
    assert right.min() == 0 < x.max() - right.max()
    np.testing.assert_allclose(np.asarray(build(module, target="openvino")["main"](x)), right, atol=1e-6)


def test_codes_of_16_bits_are_what_they_were_on_openvino() -> None:
    scale, zero = const(np.float32(0.0001)), const(np.uint16(30_000))
    module = module_of((2, 40), lambda _, x: R.quantize(x, scale, zero, out_dtype="uint16"))
    x = 4 * np.random.default_rng(0).standard_normal((2, 40)).astype(np.float32)
    right, found = (np.asarray(build(module, target=target)["main"](x)) for target in ("numpy", "openvino"))
    assert right.min() == 0
    assert np.abs(right.astype(int) - found).max() <= 1

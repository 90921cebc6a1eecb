"""Convolutions and transposed ones against PyTorch: layouts, groups, dilation, uneven padding, dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional

from regraft.ir import Call, OpTypeError, SymVar, TensorType, Var
from regraft.op import nn
from tests.kit import normal
from tests.op.harness import check

random = partial(normal, scale=3)

CONV = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}
TRANSPOSE = {1: nn.conv1d_transpose, 2: nn.conv2d_transpose, 3: nn.conv3d_transpose}
TORCH_CONV: dict[int, Any] = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TORCH_TRANSPOSE: dict[int, Any] = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}


def wide(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array, np.float64, order="C"))


def torch_conv(x: np.ndarray, w: np.ndarray, strides: Any, padding: Sequence[int], dilation: Any, groups: int) -> Any:
    """PyTorch's convolution in float64, the padding applied before it, so that it may be uneven."""
    rank = x.ndim - 2
    pairs = [(padding[axis], padding[rank + axis]) for axis in reversed(range(rank))]
    padded = functional.pad(wide(x), [side for pair in pairs for side in pair])
    return TORCH_CONV[rank](padded, wide(w), stride=strides, dilation=dilation, groups=groups).numpy()


CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), (4, 3, 2), {}),
    ((2, 3, 9), (4, 3, 4), {"strides": 3, "padding": (2, 1), "dilation": 2}),
    ((2, 4, 9), (6, 2, 3), {"groups": 2, "padding": 1}),
    ((2, 3, 6, 7), (5, 3, 2, 3), {}),
    ((2, 3, 6, 7), (5, 3, 3, 2), {"strides": (2, 1), "padding": (1, 0, 2, 3), "dilation": (1, 2)}),
    ((2, 3, 6, 7), (5, 3, 3, 2), {"padding": (1, 2)}),
    ((1, 6, 5, 4), (9, 2, 3, 1), {"groups": 3, "strides": (1, 2)}),
    ((2, 5, 6, 7), (10, 1, 3, 3), {"groups": 5, "padding": 1}),
    ((1, 70, 4, 5), (3, 70, 2, 2), {}),
    ((2, 3, 6, 7), (5, 3, 6, 7), {}),
    ((0, 3, 6, 7), (5, 3, 3, 3), {}),
    ((2, 3, 4, 5, 6), (4, 3, 2, 3, 2), {"strides": (1, 2, 1), "padding": (0, 1, 2, 1, 0, 1)}),
    ((1, 4, 4, 5, 6), (6, 2, 2, 2, 3), {"groups": 2, "dilation": (1, 2, 1), "padding": (1, 2, 3)}),
]


def complete(given: dict[str, Any], rank: int) -> dict[str, Any]:
    """The attributes as PyTorch's functions take them: one int per axis, padding for both sides."""
    padding = given.get("padding", 0)
    padding = (padding,) * (2 * rank) if isinstance(padding, int) else padding
    padding = padding * 2 if len(padding) == rank else padding
    return {
        "strides": given.get("strides", 1),
        "padding": padding,
        "dilation": given.get("dilation", 1),
        "groups": given.get("groups", 1),
    }


@pytest.mark.parametrize(("data_shape", "weight_shape", "given"), CASES)
def test_a_convolution_agrees_with_pytorch(data_shape: Any, weight_shape: Any, given: dict[str, Any]) -> None:
    rank = len(data_shape) - 2
    x, w = random(data_shape), random(weight_shape, seed=1)
    expected = torch_conv(x, w, **complete(given, rank)).astype(np.float32)
    check(lambda x, w: CONV[rank](x, w, **given), [x, w], expected)


@pytest.mark.parametrize(
    ("data_layout", "kernel_layout", "out_layout"),
    [("NHWC", "HWIO", None), ("HWCN", "IHOW", "NCHW"), ("NCHW", "OHWI", "NHWC"), ("WNHC", "OIHW", "CWHN")],
)
def test_a_convolution_takes_any_order_of_axes(data_layout: str, kernel_layout: str, out_layout: str | None) -> None:
    x, w = random((2, 3, 6, 7)), random((5, 3, 3, 2), seed=1)
    expected = torch_conv(x, w, (2, 1), (1, 0, 2, 3), (1, 2), 1).astype(np.float32)

    def arrange(array: np.ndarray, letters: str, layout: str) -> np.ndarray:
        return array.transpose([letters.index(letter) for letter in layout])

    check(
        lambda x, w: nn.conv2d(
            x,
            w,
            strides=(2, 1),
            padding=(1, 0, 2, 3),
            dilation=(1, 2),
            data_layout=data_layout,
            kernel_layout=kernel_layout,
            out_layout=out_layout,
        ),
        [arrange(x, "NCHW", data_layout), arrange(w, "OIHW", kernel_layout)],
        arrange(expected, "NCHW", out_layout or data_layout),
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16], ids=str)
def test_a_convolution_of_narrow_floats_is_rounded_once(dtype: Any) -> None:
    x, w = random((2, 40, 6, 7), dtype), random((5, 40, 3, 3), dtype, seed=1)
    exact = torch_conv(x, w, 1, (0, 0, 0, 0), 1, 1)
    tolerance = float(ml_dtypes.finfo(dtype).eps) * 1.01 if np.dtype(dtype).itemsize < 4 else 1e-12
    check(nn.conv2d, [x, w], exact.astype(dtype), tolerance=tolerance)
    check(nn.conv2d_transpose, [exact.astype(dtype), w], torch_transpose(exact.astype(dtype), w).astype(dtype))


def test_a_convolution_has_the_dtype_that_is_asked_for() -> None:
    x = np.random.default_rng(0).integers(0, 255, (2, 3, 5, 6)).astype(np.uint8)
    w = np.random.default_rng(1).integers(-128, 127, (4, 3, 2, 3)).astype(np.int8)
    exact = torch_conv(x, w, 1, (0, 0, 0, 0), 1, 1)
    check(lambda x, w: nn.conv2d(x, w, out_dtype="int32"), [x, w], exact.astype(np.int32))
    check(lambda x, w: nn.conv2d(x, w, out_dtype="float32"), [x, w], exact.astype(np.float32))
    check(
        nn.conv2d,
        [x, x[:1, :, :2, :2]],
        torch_conv(x, x[:1, :, :2, :2], 1, (0,) * 4, 1, 1).astype(np.int64).astype(np.uint8),
    )
    h = random((1, 3, 5, 6), np.float16)
    exact = torch_conv(h, h[:, :, :2, :2], 1, (0, 0, 0, 0), 1, 1)
    check(lambda x, w: nn.conv2d(x, w, out_dtype="float32"), [h, h[:, :, :2, :2]], exact.astype(np.float32))


def torch_transpose(x: np.ndarray, w: np.ndarray, **given: Any) -> Any:
    return TORCH_TRANSPOSE[x.ndim - 2](wide(x), wide(w), **given).numpy()


TRANSPOSED_CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 5), (3, 4, 3), {}),
    ((2, 3, 5), (3, 4, 3), {"stride": 3, "padding": 1, "output_padding": 2, "dilation": 2}),
    ((2, 3, 4, 5), (3, 2, 3, 2), {"stride": 2}),
    (
        (2, 6, 4, 5),
        (6, 2, 3, 2),
        {"stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2), "groups": 3},
    ),
    ((2, 3, 4, 5), (3, 2, 2, 2), {"padding": (1, 1), "dilation": (2, 1)}),
    ((2, 3, 4, 5), (3, 2, 1, 1), {"stride": 2}),
    ((0, 3, 4, 5), (3, 2, 3, 3), {}),
    ((1, 4, 2, 3, 4), (4, 3, 2, 3, 2), {"stride": (1, 2, 1), "padding": (0, 1, 1), "groups": 2}),
]


@pytest.mark.parametrize(("data_shape", "weight_shape", "given"), TRANSPOSED_CASES)
def test_a_transposed_convolution_agrees_with_pytorch(
    data_shape: Any, weight_shape: Any, given: dict[str, Any]
) -> None:
    rank = len(data_shape) - 2
    x, w = random(data_shape), random(weight_shape, seed=1)
    ours = {("strides" if name == "stride" else name): value for name, value in given.items()}
    expected = torch_transpose(x, w, **given).astype(np.float32)
    check(lambda x, w: TRANSPOSE[rank](x, w, **ours), [x, w], expected)


@pytest.mark.parametrize("shape", [(1, 2, 0, 4, 4), (1, 2, 4, 0, 4), (1, 2, 4, 4, 0)])
def test_a_transposed_convolution_of_nothing_is_zeros_also_over_three_axes(shape: tuple[int, ...]) -> None:
    expected = np.zeros([1, 3, *(size + 2 for size in shape[2:])], "float32")
    x, w = np.zeros(shape, "float32"), random((2, 3, 3, 3, 3))
    check(lambda x, w: nn.conv3d_transpose(x, w), [x, w], expected, openvino_too=False)


def test_a_transposed_convolution_may_be_padded_unevenly_and_cut_into_its_kernel() -> None:
    x, w = random((2, 3, 4, 5)), random((3, 2, 2, 3), seed=1)
    full = torch_transpose(x, w, stride=2).astype(np.float32)
    check(
        lambda x, w: nn.conv2d_transpose(x, w, strides=2, padding=(3, 0, 1, 4)),
        [x, w],
        full[:, :, 3:-1, 0:-4],
    )


def test_a_transposed_convolution_takes_any_order_of_axes() -> None:
    x, w = random((2, 3, 4, 5)), random((3, 2, 3, 2), seed=1)
    expected = torch_transpose(x, w, stride=2).astype(np.float32)
    check(
        lambda x, w: nn.conv2d_transpose(x, w, strides=2, data_layout="NHWC", kernel_layout="HWOI", out_layout="CNHW"),
        [x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)],
        expected.transpose(1, 0, 2, 3),
    )


def test_the_sizes_of_a_convolution_follow_symbolic_ones() -> None:
    n, m = SymVar("n"), SymVar("m")
    x = Var("x", TensorType((n, 3, m, m + 2), "float32"))
    w = Var("w", TensorType((6, 3, 3, 3), "float32"))
    assert nn.conv2d(x, w).ty == TensorType((n, 6, m - 2, m), "float32")
    assert nn.conv2d(x, w, padding=1, strides=2).ty == TensorType((n, 6, (m - 1) // 2 + 1, (m + 1) // 2 + 1), "float32")
    v = Var("v", TensorType((3, 2, 3, 3), "float32"))
    assert nn.conv2d_transpose(x, v, strides=2, padding=1).ty == TensorType((n, 2, m * 2 - 1, m * 2 + 3), "float32")
    channels = Var("c", TensorType((n, m, 8, 8), "float32"))
    assert nn.conv2d(channels, w).ty == TensorType((n, 6, 6, 6), "float32")


def test_a_convolution_of_unknown_shape_has_a_known_rank() -> None:
    w = Var("w", TensorType((6, 3, 3, 3), "float32"))
    for ty in (TensorType(None, "float32"), TensorType(None, "float32", 4)):
        x = Var("x", ty)
        assert nn.conv2d(x, w).ty == TensorType(None, "float32", 4)
        assert nn.conv2d(x, w, out_dtype="float16").ty == TensorType(None, "float16", 4)
        assert nn.conv2d_transpose(w, x).ty == TensorType(None, "float32", 4)
    assert nn.conv2d(Var("x", TensorType((1, 3, 4, 5), None)), w).ty == TensorType((1, 6, 2, 3), None)


def test_the_attributes_of_a_convolution_are_written_in_full() -> None:
    x, w = Var("x", TensorType((1, 3, 9, 9), "int8")), Var("w", TensorType((6, 3, 3, 3), "int8"))
    attrs = nn.conv2d(x, w, strides=[2], padding=(1, 2), out_dtype="int32").attrs
    assert dict(attrs) == {
        "strides": (2, 2),
        "padding": (1, 2, 1, 2),
        "dilation": (1, 1),
        "groups": 1,
        "data_layout": "NCHW",
        "kernel_layout": "OIHW",
        "out_layout": "NCHW",
        "out_dtype": "int32",
    }


X = Var("x", TensorType((2, 6, 5, 7), "float32"))
W = Var("w", TensorType((4, 3, 3, 2), "float32"))


def weight(*shape: int, dtype: str = "float32") -> Var:
    return Var("w", TensorType(shape, dtype))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: nn.conv2d(X, weight(4, 6, 3)),
            r"argument weight is .* 4 dimensions, for kernel_layout='OIHW'",
        ),
        (lambda: nn.conv2d(X, W), r"argument weight .* 6 input channels .*data's 6 / groups=1"),
        (lambda: nn.conv2d(X, weight(5, 3, 3, 2), groups=2), r"output channels that is a multiple of groups=2, not 5"),
        (lambda: nn.conv2d(X, W, groups=4), r"argument data .* a multiple of groups=4, not 6"),
        (lambda: nn.conv2d(X, weight(4, 6, 3, 8)), r"window of 8 elements fits on, not 7 \+ 0 padding"),
        (lambda: nn.conv2d(X, W, padding=(1, 2, 3)), r"padding=\(1, 2, 3\); expected 1, 2 or 4 ints"),
        (lambda: nn.conv2d(X, W, strides=(1, 2, 3)), r"strides=\(1, 2, 3\); expected 1 or 2 ints"),
        (lambda: nn.conv2d(X, W, strides=0), r"strides=\(0, 0\); expected ints of at least 1"),
        (lambda: nn.conv2d(X, W, padding=-1), r"padding=.* expected ints of at least 0"),
        (lambda: nn.conv2d(X, W, groups=0), r"groups=0; expected an int of at least 1"),
        (
            lambda: nn.conv2d(X, W, data_layout="NCHX"),
            r"data_layout='NCHX'; expected an order of the letters NCHW",
        ),
        (lambda: nn.conv2d(X, weight(4, 6, 3, 2, dtype="float16")), r"the dtype of data, float32"),
        (lambda: nn.conv2d(X, weight(4, 6, 3, 2, dtype="bool")), r"numbers, not bool"),
        (lambda: nn.conv2d_transpose(X, W), r"6 input channels \('IOHW'\), as data has"),
        (
            lambda: nn.conv2d_transpose(X, weight(6, 3, 3, 2), strides=2, output_padding=2),
            r"output_padding=\(2, 2\); expected ints below those of strides=\(2, 2\)",
        ),
        (lambda: nn.conv2d_transpose(X, weight(6, 3, 1, 1), padding=4), r"less padding"),
    ],
)
def test_a_wrong_convolution_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()

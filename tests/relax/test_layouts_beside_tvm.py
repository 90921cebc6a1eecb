"""Layouts with blocks have the types that Relax gives, and mean what whole axes mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax as theirs

import regraft as rx
from tests.kit import assert_close

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(7)
X = RNG.standard_normal((2, 8, 6, 7), dtype=np.float32)
W = RNG.standard_normal((16, 8, 3, 3), dtype=np.float32)
BLOCKED_X = X.reshape(2, 2, 4, 6, 7).transpose(0, 1, 3, 4, 2).copy()
BLOCKED_W = W.reshape(2, 8, 2, 4, 3, 3).transpose(0, 2, 4, 5, 3, 1).copy()

TYPED: list[Callable[[Any, Any], Any]] = [
    lambda nn, v: nn.conv2d(v(2, 4, 28, 28), v(16, 4, 3, 3), out_layout="NCHW16c"),
    lambda nn, v: nn.conv2d(v(2, 1, 28, 28, 4), v(16, 4, 3, 3), data_layout="NCHW4c"),
    lambda nn, v: nn.conv2d(v(2, 1, 8, 9, 4), v(2, 1, 3, 3, 4, 8), data_layout="NCHW4c", kernel_layout="OIHW4i8o"),
    lambda nn, v: nn.conv1d(v(2, 4, 8), v(16, 4, 3), out_layout="NCW16c"),
    lambda nn, v: nn.conv1d_transpose(v(2, 4, 8), v(4, 16, 3), out_layout="NCW16c"),
    lambda nn, v: nn.conv2d_transpose(v(2, 4, 8, 9), v(4, 16, 3, 3), out_layout="NHWC16c"),
    lambda nn, v: nn.conv3d(v(2, 4, 8, 9, 9), v(16, 4, 3, 3, 3), out_layout="NCDHW16c"),
    lambda nn, v: nn.max_pool2d(v(2, 1, 8, 9, 4), 3, layout="NCHW4c", out_layout="NHWC"),
    lambda nn, v: nn.avg_pool1d(v(2, 4, 8), 3, out_layout="NCW16c"),
    lambda nn, v: nn.adaptive_avg_pool2d(v(2, 1, 8, 9, 4), 3, layout="NCHW4c"),
    lambda nn, v: nn.adaptive_avg_pool3d(v(2, 4, 8, 9, 9), out_layout="NCDHW16c"),
]


@pytest.mark.parametrize("build", TYPED)
def test_a_layout_with_blocks_has_the_type_of_relax(build: Callable[[Any, Any], Any]) -> None:
    here = build(rx.op.nn, lambda *sizes: rx.Var("x", rx.TensorType(sizes))).ty
    call = build(theirs.op.nn, lambda *sizes: theirs.Var("x", theirs.TensorType(sizes, "float32")))
    there = theirs.BlockBuilder().normalize(call).ty
    assert here == rx.TensorType([int(size) for size in there.shape.values])


@pytest.mark.parametrize("layout", ["NCHW4x", "NCHW4c8c", "NCH4c", "4cNHW"])
def test_what_is_no_layout_is_refused(layout: str) -> None:
    with pytest.raises(rx.OpTypeError, match="an order of the letters NCHW"):
        rx.op.nn.max_pool2d(rx.Var("x", rx.TensorType((2, 1, 8, 9, 4))), layout=layout)


def test_a_block_is_as_long_as_its_layout_says() -> None:
    sizes = [rx.SymVar(name) for name in ("n", "c", "h", "w", "places")]
    n, c, h, w, _ = sizes
    found = rx.op.nn.max_pool2d(rx.Var("x", rx.TensorType(sizes)), layout="NCHW16c", out_layout="NHWC").ty
    assert found == rx.TensorType((n, h, w, c * 16))
    with pytest.raises(rx.OpTypeError, match="blocks of 16 elements"):
        rx.op.nn.max_pool2d(rx.Var("x", rx.TensorType((2, 1, 8, 9, 4))), layout="NCHW16c")


def run(target: str, build: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    builder = rx.BlockBuilder()
    params = [rx.Var(f"p{i}", rx.TensorType(array.shape)) for i, array in enumerate(arrays)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(build(*params)))
    return np.asarray(rx.build(builder.get(), target=target)["main"](*arrays))


@pytest.mark.parametrize("target", ["numpy", "onnxruntime", "torch", "xla"])
def test_a_convolution_over_blocks_is_the_one_over_whole_axes(target: str) -> None:
    nn = rx.op.nn
    found = run(
        target,
        lambda x, w: nn.conv2d(x, w, padding=1, data_layout="NCHW4c", kernel_layout="OIHW4i8o", out_layout="NCHW16c"),
        BLOCKED_X,
        BLOCKED_W,
    )
    whole = run(target, lambda x, w: nn.conv2d(x, w, padding=1), X, W)
    assert_close(found, whole.reshape(2, 1, 16, 6, 7).transpose(0, 1, 3, 4, 2))


def test_pools_and_resizing_over_blocks_are_those_over_whole_axes() -> None:
    nn, image = rx.op.nn, rx.op.image
    pooled = run("numpy", lambda x: nn.max_pool2d(x, 2, layout="NCHW4c", out_layout="NHWC"), BLOCKED_X)
    np.testing.assert_array_equal(pooled, run("numpy", lambda x: nn.max_pool2d(x, 2, out_layout="NHWC"), X))
    means = run("numpy", lambda x: nn.adaptive_avg_pool2d(x, 3, layout="NCHW4c", out_layout="NCHW"), BLOCKED_X)
    np.testing.assert_array_equal(means, run("numpy", lambda x: nn.adaptive_avg_pool2d(x, 3), X))
    larger = run("numpy", lambda x: image.resize2d(x, (9, 9), layout="NCHW4c"), BLOCKED_X)
    whole = run("numpy", lambda x: image.resize2d(x, (9, 9)), X)
    np.testing.assert_array_equal(larger.transpose(0, 1, 4, 2, 3).reshape(2, 8, 9, 9), whole)


def test_an_axis_that_its_block_does_not_divide_is_filled_with_zeros() -> None:
    found = run("numpy", lambda x: rx.op.nn.max_pool2d(x, out_layout="NCHW16c"), X)
    np.testing.assert_array_equal(found[..., :8], X[:, None].transpose(0, 1, 3, 4, 2))
    assert not found[..., 8:].any()


def test_what_relax_compiles_over_blocks_gives_the_same_values() -> None:
    builder = theirs.BlockBuilder()
    param = theirs.Var("x", theirs.TensorType(BLOCKED_X.shape, "float32"))
    with builder.function("main", [param]):
        pooled = theirs.op.nn.avg_pool2d(param, (2, 2), layout="NCHW4c", out_layout="NCHW4c")
        builder.emit_func_output(builder.emit(pooled))
    machine = theirs.VirtualMachine(tvm.compile(builder.get(), "llvm"), tvm.cpu())
    there = machine["main"](tvm.runtime.tensor(BLOCKED_X)).numpy()
    here = run("numpy", lambda x: rx.op.nn.avg_pool2d(x, (2, 2), layout="NCHW4c"), BLOCKED_X)
    np.testing.assert_allclose(here, there, rtol=1e-6, atol=1e-6)

"""The operators in gradients of layers run on every engine, with the results of the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.gradient import Gradient
from regraft.ir import BlockBuilder, IRModule, SymVar, TensorType, Var
from regraft.script import relax as R
from tests.gradient.checks import numbers
from tests.kit import assert_close

IMAGE = (2, 4, 7, 6)
HEADS = [(2, 5, 4, 3), (2, 7, 2, 3), (2, 7, 2, 4)]

LAYERS: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "conv2d": (lambda x, w: R.nn.conv2d(x, w, (2, 1), (1, 0, 2, 1), (1, 2), 2), [IMAGE, (6, 2, 3, 2)]),
    "conv2d NHWC": (
        lambda x, w: R.nn.conv2d(x, w, 2, 1, data_layout="NHWC", kernel_layout="HWIO"),
        [(2, 7, 6, 4), (3, 2, 4, 5)],
    ),
    "conv1d": (lambda x, w: R.nn.conv1d(x, w, 3), [(2, 4, 9), (5, 4, 2)]),
    "conv3d": (lambda x, w: R.nn.conv3d(x, w, 2, 1), [(2, 2, 5, 4, 6), (3, 2, 2, 3, 2)]),
    "conv2d_transpose": (lambda x, w: R.nn.conv2d_transpose(x, w, 2, 1, 1, 1, 2), [IMAGE, (4, 3, 3, 2)]),
    "max_pool1d": (lambda x: R.nn.max_pool1d(x, 3, 2, 1), [(2, 3, 8)]),
    "max_pool2d": (lambda x: R.nn.max_pool2d(x, 3, 2, 1, ceil_mode=True), [IMAGE]),
    "max_pool3d": (lambda x: R.nn.max_pool3d(x, 2, 2), [(2, 2, 4, 5, 6)]),
    "avg_pool2d": (lambda x: R.nn.avg_pool2d(x, (3, 2), 2, 1), [IMAGE]),
    "avg_pool3d": (lambda x: R.nn.avg_pool3d(x, 2, 2), [(2, 2, 4, 5, 6)]),
    "adaptive_avg_pool2d": (lambda x: R.nn.adaptive_avg_pool2d(x, (3, 4)), [IMAGE]),
    "pad": (lambda x: R.nn.pad(x, (0, 0, 0, 0, 1, 2, 3, 0), "reflect"), [IMAGE]),
    "batch_norm": (lambda *x: R.nn.batch_norm(*x, R.const(np.ones(4, "f4")), 1)[0], [IMAGE, (4,), (4,), (4,)]),
    "group_norm": (lambda *x: R.nn.group_norm(*x, 2, 1, [2, 3]), [IMAGE, (4,), (4,)]),
    "layer_norm": (lambda *x: R.nn.layer_norm(*x, axes=[2, 3]), [IMAGE, (7, 6), (7, 6)]),
    "rms_norm": (R.nn.rms_norm, [IMAGE, (6,)]),
    "attention": (lambda *x: R.nn.attention(*x, causal_mask="BottomRight", window_size=3), HEADS),
    "attention_bias": (R.nn.attention, [*HEADS, (1, 4, 5, 7)]),
    "resize2d": (lambda x: R.image.resize2d(x, (5, 11), method="cubic"), [IMAGE]),
    "grid_sample": (R.image.grid_sample, [IMAGE, (2, 2, 3, 5)]),
    "gelu": (R.nn.gelu, [IMAGE]),
    "log_softmax": (lambda x: R.nn.log_softmax(x, 1), [IMAGE]),
    "prelu": (R.nn.prelu, [IMAGE, (4,)]),
    "nll_loss": (lambda x, w: R.nn.nll_loss(x, R.const(np.array([2, 0, 1])), w), [(3, 4), (4,)]),
}


SYMBOLIC = {
    "conv2d": LAYERS["conv2d"],
    "max_pool2d": (lambda x: R.nn.max_pool2d(x, 3, 2, 1), [IMAGE]),
    "max_pool2d of windows apart": (lambda x: R.nn.max_pool2d(x, 2, 2), [IMAGE]),
    "avg_pool2d": (lambda x: R.nn.avg_pool2d(x, 3, 2, 1), [IMAGE]),
    "adaptive_avg_pool2d": (lambda x: R.nn.adaptive_avg_pool2d(x, 1), [IMAGE]),
    "resize2d": (lambda x: R.image.resize2d(x, (5, 11)), [IMAGE]),
    "grid_sample": LAYERS["grid_sample"],
    "reflect": (lambda x: R.nn.pad(x, (0, 0, 0, 0, 8, 2, 3, 0), "reflect"), [IMAGE]),
    "replicate": (lambda x: R.nn.pad(x, (0, 0, 0, 0, 1, -2, 3, 0), "replicate"), [IMAGE]),
    "circular": (lambda x: R.nn.pad(x, (0, 0, 0, 0, 1, 2, 7, 0), "circular"), [IMAGE]),
    "group_norm": LAYERS["group_norm"],
    "batch_norm": LAYERS["batch_norm"],
}
"""Layers over images of which the batch, the height and the width are known by name only."""


def module_of(layer: tuple[Any, list[tuple[int, ...]]], *, symbolic: bool = False) -> IRModule:
    build, shapes = layer
    types = [TensorType(shape, "float32") for shape in shapes]
    if symbolic:
        n, h, w = SymVar("n"), SymVar("h"), SymVar("w")
        types[0] = TensorType((n, IMAGE[1], h, w), "float32")
        types[1:] = [
            TensorType((n, *s[1:]), "float32") if s[0] == IMAGE[0] else TensorType(s, "float32") for s in shapes[1:]
        ]
    params = [Var(f"x{i}", ty) for i, ty in enumerate(types)]
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            loss = builder.emit_output(R.sum(R.sin(build(*params))))
        builder.emit_func_output(loss)
    return Gradient("main")(builder.get())


def check_on(target: str, module: IRModule, shapes: list[tuple[int, ...]]) -> None:
    arrays = [numbers(*shape, low=0.1, seed=i).astype("float32") for i, shape in enumerate(shapes)]
    _, expected = rx.build(module, target="numpy")["main_adjoint"](*arrays)
    _, found = rx.build(module, target=target)["main_adjoint"](*arrays)
    for got, want in zip(found, expected, strict=True):
        assert np.isfinite(want).all()
        assert_close(np.asarray(got), want)


@pytest.mark.parametrize("target", ["onnxruntime", "torch"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_gradient_of_a_layer_runs_on_every_engine(name: str, target: str) -> None:
    check_on(target, module_of(LAYERS[name]), LAYERS[name][1])


@pytest.mark.parametrize("target", ["onnxruntime", "torch"])
@pytest.mark.parametrize("name", SYMBOLIC)
def test_the_gradient_of_a_layer_over_symbolic_sizes_runs_on_every_engine(name: str, target: str) -> None:
    check_on(target, module_of(SYMBOLIC[name], symbolic=True), SYMBOLIC[name][1])

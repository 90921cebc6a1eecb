"""Convolutions move into another layout with what follows them, and nothing changes in value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft import BlockBuilder, Call, Expr, IRModule, TensorType, Tuple, Var
from regraft.analysis import well_formed
from regraft.ir import is_call_of
from regraft.ir.visitor import iter_bindings
from regraft.script import relax as R
from regraft.transform import ConvertLayout
from tests.kit import assert_close

DESIRED = {"relax.nn.conv2d": ["NHWC", "OHWI"]}

FOLLOWERS: dict[str, tuple[Callable[..., Expr], list[tuple[int, ...]], int]] = {
    "relu": (lambda _b, y: R.nn.relu(y), [], 3),
    "bias": (lambda _b, y, b: R.add(y, b), [(1, 6, 1, 1)], 4),
    "a full operand": (lambda _b, y, b: R.multiply(b, y), [(2, 6, 7, 8)], 4),
    "a number": (lambda _b, y: R.add(y, R.const(1.5)), [], 3),
    "an operand of lower rank": (lambda _b, y, b: R.add(y, b), [(8,)], 3),
    "a pool": (lambda _b, y: R.nn.max_pool2d(y, pool_size=(2, 3), strides=(1, 2), padding=(1, 0)), [], 3),
    "a sum": (lambda _b, y: R.sum(y, axis=[2, 3]), [], 2),
    "a sum that keeps axes": (lambda _b, y: R.sum(y, axis=[1, -1], keepdims=True), [], 3),
    "a sum that leaves two axes": (lambda _b, y: R.sum(y, axis=[0, 2]), [], 3),
    "a maximum of all": (lambda _b, y: R.max(y), [], 2),
    "argmax": (lambda _b, y: R.argmax(y, axis=1), [], 3),
    "softmax": (lambda _b, y: R.nn.softmax(y, axis=1), [], 3),
    "concat": (lambda _b, y, b: R.concat([y, b, y], axis=1), [(2, 5, 7, 8)], 4),
    "split": (lambda b, y: b.emit(R.split(y, 2, axis=1))[1], [], 4),
    "split, whole": (lambda _b, y: R.split(y, 2, axis=-1), [], 4),
    "batch norm": (
        lambda b, y, *p: b.emit(R.nn.batch_norm(y, *p, axis=1, training=False))[0],
        [(6,), (6,), (6,), (6,)],
        3,
    ),
    "layer norm": (lambda _b, y, *p: R.nn.layer_norm(y, *p, axes=[1, 3]), [(6, 8), (6, 8)], 3),
    "reshape": (lambda _b, y: R.reshape(y, (2, -1)), [], 3),
    "permute": (lambda _b, y: R.permute_dims(y, [0, 2, 3, 1]), [], 3),
    "resize": (lambda _b, y: R.image.resize2d(y, (14, 9)), [], 3),
    "a tuple": (lambda b, y: Tuple([b.emit(R.nn.relu(y)), y]), [], 4),
    "another convolution": (lambda b, y, w: R.nn.conv2d(b.emit(R.nn.relu(y)), w), [(5, 6, 2, 3)], 4),
}


def program(follow: Callable[..., Expr], shapes: list[tuple[int, ...]]) -> tuple[IRModule, list[np.ndarray]]:
    shapes = [(2, 4, 9, 9), (6, 4, 3, 2), *shapes]
    params = [Var(f"x{index}", TensorType(shape)) for index, shape in enumerate(shapes)]
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            product = builder.emit(R.nn.conv2d(params[0], params[1]))
            out = builder.emit_output(follow(builder, product, *params[2:]))
        builder.emit_func_output(out)
    random = np.random.default_rng(len(shapes))
    return builder.get(), [np.abs(random.normal(size=shape)).astype("float32") for shape in shapes]


def leaves(value: Any) -> list[np.ndarray]:
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple) else [np.asarray(value)]


@pytest.mark.parametrize("case", FOLLOWERS)
def test_what_follows_a_convolution_keeps_its_values_in_the_new_layout(case: str) -> None:
    follow, shapes, most = FOLLOWERS[case]
    before, inputs = program(follow, shapes)
    after = ConvertLayout(DESIRED)(before)
    well_formed(after)
    values = [binding.value for binding in iter_bindings(after["main"])]
    layouts = {
        value.attrs.data_layout for value in values if is_call_of(value, "relax.nn.conv2d") and isinstance(value, Call)
    }
    assert layouts == {"NHWC"}
    assert sum(is_call_of(value, "relax.permute_dims") for value in values) <= most
    assert after["main"].ret_ty == before["main"].ret_ty
    results = [leaves(rx.build(module, target="numpy")["main"](*inputs)) for module in (before, after)]
    for one, other in zip(*results, strict=True):
        assert_close(one, other)


def test_a_callback_chooses_the_layouts_of_each_call() -> None:
    before, _ = program(FOLLOWERS["another convolution"][0], FOLLOWERS["another convolution"][1])
    wide = ConvertLayout(
        {}, lambda call: DESIRED if "conv2d" in call.op.name and call.args[1].ty.shape[0] == 5 else None
    )
    values = [binding.value for binding in iter_bindings(wide(before)["main"])]
    layouts = [
        value.attrs.data_layout for value in values if is_call_of(value, "relax.nn.conv2d") and isinstance(value, Call)
    ]
    assert layouts == ["NCHW", "NHWC"]


def test_layouts_of_other_letters_are_refused() -> None:
    before, _ = program(FOLLOWERS["relu"][0], [])
    with pytest.raises(rx.transform.PassError, match="the letters differ"):
        ConvertLayout({"relax.nn.conv2d": ["NCHW4c", "OIHW"]})(before)
    with pytest.raises(rx.transform.PassError, match="give a convolution"):
        ConvertLayout({"relax.nn.relu": ["NHWC", "OHWI"]})


def test_a_program_without_convolutions_stays_the_same_object() -> None:
    builder = BlockBuilder()
    x = Var("x", TensorType((2, 3)))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(R.nn.relu(x))
        builder.emit_func_output(out)
    assert ConvertLayout(DESIRED)(builder.get()) is builder.get()

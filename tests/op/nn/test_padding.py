"""Padding against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import regraft as rx
from regraft.ir import Call, Function, OpTypeError, SymVar, TensorType, Var
from regraft.op import nn
from tests.op.harness import check

NUMPY_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8, np.bool_, np.complex64], ids=str)
@pytest.mark.parametrize("mode", NUMPY_MODES)
def test_padding_agrees_with_numpy(mode: str, dtype: Any) -> None:
    x = (np.arange(12) % 5).reshape(3, 4).astype(dtype).T
    for width in ((1, 2, 0, 1), (0, 0, 2, 0), (5, 9, 7, 4), (0, 0, 0, 0)):
        pairs = [(width[0], width[1]), (width[2], width[3])]
        expected = np.pad(x, pairs, mode=NUMPY_MODES[mode])  # type: ignore[call-overload]
        check(lambda x, w=width: nn.pad(x, w, mode), [x], expected)


def test_a_constant_other_than_zero_takes_the_dtype_of_the_data() -> None:
    for dtype, value in ((np.float16, 1.5), (np.int32, 3), (np.float32, float("-inf"))):
        x = np.ones((2, 3), dtype)
        expected = np.pad(x, [(1, 0), (0, 2)], constant_values=value)
        check(lambda x, v=value: nn.pad(x, [1, 0, 0, 2], pad_value=v), [x], expected)


@pytest.mark.parametrize("mode", NUMPY_MODES)
def test_a_negative_width_cuts_off(mode: str) -> None:
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    expected = np.pad(x, [(0, 0), (0, 2)], mode=NUMPY_MODES[mode])[1:, 2:]  # type: ignore[call-overload]
    check(lambda x: nn.pad(x, (-1, 0, -2, 2), mode), [x], expected)


def test_an_axis_of_one_element_reflects_that_element() -> None:
    x = np.array([[3.0, 4.0]], np.float32)
    check(lambda x: nn.pad(x, (2, 1, 0, 0), "reflect"), [x], np.repeat(x, 4, axis=0))


def test_an_empty_axis_is_padded_with_a_constant() -> None:
    x = np.zeros((0, 2), np.float32)
    check(lambda x: nn.pad(x, (1, 2, 0, 0), pad_value=7.0), [x], np.full((3, 2), 7, np.float32))


def test_the_sizes_of_padded_data_follow_symbolic_ones() -> None:
    n = SymVar("n")
    assert nn.pad(Var("x", TensorType((n, 3), "int8")), (1, 1, 0, 2)).ty == TensorType((n + 2, 5), "int8")
    assert nn.pad(Var("x", TensorType((n, 3), None)), (0, -1, 0, 0)).ty == TensorType((n - 1, 3), None)
    assert nn.pad(Var("x", TensorType(None, "int8")), (1, 1, 0, 2)).ty == TensorType(None, "int8", 2)


X = Var("x", TensorType((2, 3), "float32"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nn.pad(X, (1, 1)), r"pad_width=\(1, 1\); expected 4 ints"),
        (lambda: nn.pad(X, (1, 1, 1)), r"an even number of ints"),
        (lambda: nn.pad(X, (0, 0, -2, -2)), r"to cut off at most the 3 elements of axis 1"),
        (lambda: nn.pad(X, (0, 0, 0, 1), "edge"), r"pad_mode='edge'; expected one of constant, reflect"),
        (
            lambda: nn.pad(Var("x", TensorType((0, 3), "int8")), (1, 0, 0, 0), "replicate"),
            r"axis 0 has no elements",
        ),
    ],
)
def test_wrong_padding_names_attribute_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("target", ["numpy", "onnxruntime", "torch"])
def test_padding_wider_than_the_data_is_folded_for_sizes_that_the_run_tells(mode: str, target: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    data = Var("x", TensorType((2, SymVar("n")), "float32"))
    open_size = Function([data], nn.pad(data, (0, 0, 4, 7), mode))
    expected = np.pad(x, [(0, 0), (4, 7)], mode=NUMPY_MODES[mode])  # type: ignore[call-overload]
    np.testing.assert_array_equal(np.asarray(rx.build(open_size, target=target)["main"](x)), expected)


def test_padding_that_onnx_has_no_form_for_is_one_gather_where_sizes_are_known() -> None:
    model = rx.to_onnx(Function([X], nn.pad(X, (0, 0, 4, 7), "reflect")))
    assert [node.op_type for node in model.graph.node] == ["Gather"]

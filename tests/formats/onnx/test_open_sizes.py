"""Resampling to sizes that are known at run time only: ONNX Runtime gives what the reference semantics give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import regraft.op as R
from regraft.engine import build
from regraft.ir import BlockBuilder, Expr, IRModule, ShapeExpr, SymVar, TensorType, Var
from tests.kit import assert_close

SIZES = ((4, 7), (7, 4), (5, 1), (1, 3), (6, 9), (3, 12))
MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil", "round", "")


def _of_sizes(build_result: Callable[[Var, ShapeExpr], Expr], data: TensorType) -> IRModule:
    """A program of ``x``, and of ``like``, whose last axes are the sizes to resample to."""
    height, width = SymVar("p"), SymVar("q")
    x, like = Var("x", data), Var("like", TensorType((height, width), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, like]):
        builder.emit_func_output(builder.emit(build_result(x, ShapeExpr([height, width]))))
    return builder.get()


def _assert_same(module: IRModule, x: np.ndarray, like: np.ndarray) -> None:
    reference, engine = (build(module, target=target)["main"] for target in ("numpy", "onnxruntime"))
    assert_close(engine(x, like), reference(x, like))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_nearest_neighbours_are_those_of_exact_fractions(mode: str, rounding: str) -> None:
    height, width = SymVar("h"), SymVar("w")
    module = _of_sizes(
        lambda x, sizes: R.image.resize2d(
            x, sizes, method="nearest_neighbor", coordinate_transformation_mode=mode, rounding_method=rounding
        ),
        TensorType((1, 2, height, width), "float32"),
    )
    main = [build(module, target=target)["main"] for target in ("numpy", "onnxruntime")]
    for before, after in SIZES:
        x = np.arange(2 * before * 5, dtype=np.float32).reshape(1, 2, before, 5)
        like = np.zeros((after, 8), np.float32)
        expected, found = (function(x, like) for function in main)
        np.testing.assert_array_equal(found, expected)


def test_other_layouts_and_dtypes_gather_too() -> None:
    module = _of_sizes(
        lambda x, sizes: R.image.resize2d(x, sizes, layout="NHWC", method="nearest_neighbor", out_dtype="float32"),
        TensorType((2, 3, SymVar("w"), 1), "int16"),
    )
    x = np.arange(24, dtype=np.int16).reshape(2, 3, 4, 1)
    _assert_same(module, x, np.zeros((5, 6), np.float32))


@pytest.mark.parametrize("align_corners", [False, True])
def test_an_affine_grid_of_any_size_is_the_same(align_corners: bool) -> None:
    module = _of_sizes(
        lambda x, sizes: R.image.affine_grid(x, sizes, align_corners=align_corners),
        TensorType((SymVar("n"), 2, 3), "float32"),
    )
    x = np.random.default_rng(0).standard_normal((2, 2, 3)).astype(np.float32)
    for after in ((4, 7), (1, 3), (5, 1)):
        _assert_same(module, x, np.zeros(after, np.float32))

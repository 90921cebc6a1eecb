"""A call of each operator whose operands are not found by trying small types: by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regraft import op
from regraft.ir import Constant, Expr, ShapeExpr, TensorType, Var, const
from regraft.op import image, nn, vision


def _x(*shape: int, dtype: str = "float32", name: str = "x") -> Var:
    return Var(name, TensorType(shape, dtype))


def _c(numbers: Any, dtype: str = "int64") -> Constant:
    return const(np.asarray(numbers, dtype))


_VOLUME, _SPAN = _x(1, 2, 3, 4, 5), [_c([0, 2, 5], "int32"), _c(3, "int32")]
_BOXES = _c([[[0, 0.9, 0, 0, 2, 2], [0, 0.8, 0, 0, 2, 1.9], [1, 0.7, 1, 1, 3, 3]]], "float32")
_REGION = _c([[0, 0, 0, 4, 4]], "float32")

CALLS: dict[str, Callable[[], Expr]] = {
    "arange": lambda: op.arange(1, 9, 2, "float32"),
    "dynamic_strided_slice": lambda: op.dynamic_strided_slice(_x(4, 5), _c([0, 4]), _c([4, 0]), _c([2, -1])),
    "einsum": lambda: op.einsum((_x(2, 3), _x(3, 4, name="y")), "ij,jk->ki"),
    "eye": lambda: op.eye(3, 4, 1, "float32"),
    "eye_like": lambda: op.eye_like(_x(3, 4), -1),
    "grad.nll_loss_backward": lambda: op.grad.nll_loss_backward(_x(), _x(3, 4, name="y"), _c([0, 3, 1])),
    "grouped_matmul": lambda: op.grouped_matmul(_x(6, 3), _x(2, 3, 4, name="w"), _c([2, 5], "int32")),
    "hamming_window": lambda: op.hamming_window(8, True, 0.54, 0.46, "float32"),
    "image.resize2d": lambda: image.resize2d(_x(1, 2, 3, 4), (6, 5)),
    "image.resize3d": lambda: image.resize3d(_x(1, 2, 3, 4, 2), (6, 5, 3)),
    "index_put": lambda: op.index_put(_x(4, 5), (_c([0, 3]), _c([1, 2])), _x(2, name="values")),
    "layout_transform": lambda: op.layout_transform(_x(4, 6), (1, 0)),
    "matmul_blocks": lambda: op.matmul_blocks(
        _x(2, 32), _x(3, 2, 8, dtype="uint8", name="w"), _x(3, 2, name="s"), bits=4, block_size=16
    ),
    "matmul_integer": lambda: op.matmul_integer(
        _x(2, 3, dtype="int8"), _x(3, 4, dtype="int8", name="y"), _c([1], "int8"), _c([0], "int8")
    ),
    "multinomial_from_uniform": lambda: op.multinomial_from_uniform(
        _c([[0.2, 0.8], [0.5, 0.5]], "float32"), _c([[0.3], [0.7]], "float32"), _c([[0], [1]])
    ),
    "nn.adaptive_avg_pool3d": lambda: nn.adaptive_avg_pool3d(_VOLUME, (2, 2, 3)),
    "nn.attention_var_len": lambda: nn.attention_var_len(
        *[_x(1, 5, 2, 4, name=name) for name in "qkv"], *_SPAN, *_SPAN
    ),
    "nn.attention_bias": lambda: nn.attention(*[_x(1, 5, 2, 4, name=name) for name in "qkv"], _x(1, 2, 5, 5, name="b")),
    "nn.avg_pool3d": lambda: nn.avg_pool3d(_VOLUME, (2, 2, 2), padding=1),
    "nn.col2im": lambda: nn.col2im(_x(1, 8, 4), ShapeExpr([4, 4]), (2, 2), strides=(2, 2)),
    "nn.conv3d": lambda: nn.conv3d(_VOLUME, _x(3, 2, 2, 2, 2, name="w"), padding=1),
    "nn.conv3d_transpose": lambda: nn.conv3d_transpose(_VOLUME, _x(2, 3, 2, 2, 2, name="w"), strides=2),
    "nn.gru": lambda: nn.gru(_x(3, 2, 4), _x(1, 9, 4, name="w"), _x(1, 9, 3, name="r"), _x(1, 18, name="b")),
    "nn.im2col": lambda: nn.im2col(_x(1, 2, 4, 4), (2, 2)),
    "nn.instance_norm": lambda: nn.instance_norm(_x(2, 3, 4), _x(3, name="g"), _x(3, name="b"), 1, [2]),
    "nn.lstm": lambda: nn.lstm(_x(3, 2, 4), _x(1, 12, 4, name="w"), _x(1, 12, 3, name="r"), _x(1, 24, name="b")),
    "nn.max_pool3d": lambda: nn.max_pool3d(_VOLUME, (2, 2, 2), padding=1),
    "nn.nll_loss": lambda: nn.nll_loss(_x(3, 4), _c([0, 3, 1])),
    "nn.rnn": lambda: nn.rnn(_x(3, 2, 4), _x(1, 3, 4, name="w"), _x(1, 3, 3, name="r"), _x(1, 6, name="b")),
    "nonzero": lambda: op.nonzero(_x(3, 4, dtype="bool")),
    "reverse_sequence": lambda: op.reverse_sequence(_x(4, 3), _c([1, 4, 2]), 0, 1),
    "scatter_nd": lambda: op.scatter_nd(_x(4, 5), _c([[0, 3], [2, 1]]), _x(2, name="updates")),
    "slice_scatter": lambda: op.slice_scatter(_x(4, 5), _x(2, 5, name="y"), 0, 4, 2, 0),
    "tile": lambda: op.tile(_x(2, 3), (2, 1, 2)),
    "to_vdevice": lambda: op.to_vdevice(_x(2, 3), "cpu:0"),
    "tril": lambda: op.tril(_x(3, 4), 1),
    "triu": lambda: op.triu(_x(3, 4), -1),
    "unique": lambda: op.unique(_x(5, dtype="int32")),
    "vision.all_class_non_max_suppression": lambda: vision.all_class_non_max_suppression(
        _x(1, 4, 4), _x(1, 2, 4, name="s"), _c([2]), _c(0.5, "float32"), _c(0.1, "float32")
    ),
    "vision.multibox_transform_loc": lambda: vision.multibox_transform_loc(
        _x(1, 3, 4), _x(1, 16, name="l"), _x(1, 4, 4, name="a")
    ),
    "vision.non_max_suppression": lambda: vision.non_max_suppression(
        _BOXES, _c([3], "int32"), _c([[0, 1, 2]], "int32")
    ),
    "vision.roi_align": lambda: vision.roi_align(_x(1, 2, 6, 6), _REGION, 2, 1.0),
    "vision.roi_pool": lambda: vision.roi_pool(_x(1, 2, 6, 6), _REGION, 2, 1.0),
    "vision.roi_pool_backward": lambda: vision.roi_pool_backward(
        _x(1, 2, 2, 2), _x(1, 2, 6, 6, name="y"), _REGION, (2, 2), 1.0
    ),
}

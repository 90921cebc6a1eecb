"""Sparse constants of a model as dense ones, and sparse attributes as texts."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

from ...errors import ConvertError
from ..scopes import scopes
from ..sparse_attributes import KINDS, as_text

_STANDARD: Final = ("", "ai.onnx")
_MOST_BYTES: Final = 1 << 28
"""The largest dense tensor that is made of a sparse one. A few bytes may stand for any number of zeros."""


def with_dense_constants(proto: onnx.ModelProto) -> onnx.ModelProto:
    """``proto`` without sparse constants: itself if it has none, else a copy.

    In the copy, sparse attributes of nodes of other domains are replaced by texts that stand for them.
    Raises `ConvertError` for a constant that is damaged, or whose dense form takes more than 256 MB.
    """
    if not any(_has_sparse(graph) for graph in scopes(proto)):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for scope in scopes(copy):
        if isinstance(scope, onnx.GraphProto):
            scope.initializer.extend(_dense(tensor, tensor.values.name) for tensor in scope.sparse_initializer)
            del scope.sparse_initializer[:]
        for node in scope.node:
            for attribute in node.attribute:
                if attribute.type in KINDS and node.domain not in _STANDARD:
                    attribute.CopyFrom(as_text(attribute))
                elif attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
                    name = node.output[0] if node.output else attribute.name
                    attribute.t.CopyFrom(_dense(attribute.sparse_tensor, name))
                    attribute.ClearField("sparse_tensor")
                    attribute.type = onnx.AttributeProto.TENSOR
                    attribute.name = "value" if attribute.name == "sparse_value" else attribute.name
    return copy


def _has_sparse(scope: Any) -> bool:
    return bool(getattr(scope, "sparse_initializer", ())) or any(
        attribute.type in KINDS for node in scope.node for attribute in node.attribute
    )


def _dense(sparse: onnx.SparseTensorProto, name: str) -> onnx.TensorProto:
    shape = [int(size) for size in sparse.dims]
    try:
        values, places = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    except Exception as error:  # onnx raises errors of many kinds
        raise ConvertError(f"constant {name}: the sparse tensor is damaged: {error}") from error
    if prod(shape) * values.itemsize > _MOST_BYTES:
        raise ConvertError(f"constant {name}: a sparse tensor of shape {shape} is too large to be read as a dense one")
    if places.ndim == 2 and places.shape == (values.size, len(shape)):
        inside = bool(((places >= 0) & (places < np.asarray(shape))).all())
        flat = np.ravel_multi_index(tuple(places.T), shape) if inside and shape else places[:, :0].sum(1)
    else:
        flat = places.reshape(-1)
        inside = flat.size == values.size and bool(((flat >= 0) & (flat < prod(shape))).all())
    if not inside:
        raise ConvertError(f"constant {name}: the sparse tensor is damaged: its indices do not fit its shape {shape}")
    dense = np.zeros(prod(shape), values.dtype)
    dense[flat] = values.reshape(-1)
    return numpy_helper.from_array(dense.reshape(shape), name)

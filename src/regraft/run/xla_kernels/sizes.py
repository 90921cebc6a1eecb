"""Operators that read sizes from tensors, which must be constants: XLA compiles for known sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...op.primitive.indexing import dynamic_strided_slice
from ...op.public_function import operator_of
from ..xla_library import jnp


def _dynamic_strided_slice(x: Any, *bounds: Any) -> Any:
    reference = operator_of(dynamic_strided_slice).reference
    assert reference is not None
    return reference(jnp, x, *[np.asarray(values) for values in bounds])


def _tensor_to_shape(sizes: Any) -> tuple[int, ...]:
    return tuple(np.asarray(sizes).tolist())


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "relax.dynamic_strided_slice": _dynamic_strided_slice,
    "relax.tensor_to_shape": _tensor_to_shape,
}

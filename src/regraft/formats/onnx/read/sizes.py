"""Tensors of sizes: small tensors of integers that are known as a model is read, if only by the names of sizes.

Models compute shapes by tensor operators. As long as all that goes in is known, they stay `Sizes`, and no binding is
made for them; `importers.size_arithmetic` computes on them. Where one is needed as a tensor, `Sizes.expression` is it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .... import op as ops
from ....ir.dims import Dim, SymExpr
from ....ir.expr import Constant, Expr, ShapeExpr, const
from ....ir.types import TensorType


@dataclass(frozen=True, slots=True)
class Sizes:
    """A tensor of integers whose elements, in row-major order, are sizes, or sums and products of sizes."""

    values: tuple[Dim, ...]
    shape: tuple[int, ...]
    dtype: str = "int64"

    @classmethod
    def row(cls, values: Iterable[Dim], dtype: str = "int64") -> Sizes:
        """A tensor of rank 1."""
        elements = tuple(values)
        return cls(elements, (len(elements),), dtype)

    @classmethod
    def scalar(cls, value: Dim, dtype: str = "int64") -> Sizes:
        """A tensor of rank 0."""
        return cls((value,), (), dtype)

    @classmethod
    def of_array(cls, array: np.ndarray[Any, Any], dtype: str) -> Sizes:
        """A tensor of the elements of an array of dims."""
        return cls(tuple(array.reshape(-1).tolist()), array.shape, dtype)

    @property
    def is_known(self) -> bool:
        """True if no size variable is in it."""
        return not any(isinstance(value, SymExpr) for value in self.values)

    @property
    def ty(self) -> TensorType:
        """The type of the tensor."""
        return TensorType(self.shape, self.dtype)

    def array(self) -> np.ndarray[Any, Any]:
        """The elements as an array of objects, of the tensor's shape."""
        array = np.empty(len(self.values), dtype=object)
        array[:] = self.values
        return array.reshape(self.shape)

    def constant(self) -> Constant:
        """The tensor, which must be known."""
        return const(np.asarray(self.values, dtype=self.dtype).reshape(self.shape), self.dtype)

    def expression(self) -> Expr:
        """The tensor itself."""
        if self.is_known:
            return self.constant()
        tensor = self._row_expression()
        if not self.shape:
            tensor = ops.squeeze(tensor, axis=0)
        elif len(self.shape) > 1:
            tensor = ops.reshape(tensor, ShapeExpr(self.shape))
        return tensor if self.dtype == "int64" else ops.astype(tensor, self.dtype)

    def _row_expression(self) -> Expr:
        # A shape has no negative sizes, so those that are known to be are put between what shapes give.
        parts: list[tuple[bool, list[Dim]]] = []
        for value in self.values:
            negative = isinstance(value, int) and value < 0
            if not parts or parts[-1][0] != negative:
                parts.append((negative, []))
            parts[-1][1].append(value)
        rows = [
            const(np.asarray(part), "int64") if negative else ops.shape_to_tensor(ShapeExpr(part))
            for negative, part in parts
        ]
        return rows[0] if len(rows) == 1 else ops.concat(rows, axis=0)


_NO_NAMES: Final = frozenset({"none", "null", "nan", "unk", "unknown", "undefined"})


def is_size_name(text: str) -> bool:
    """True if what a file calls a size is a name, by which sizes that have it are one; ONNX Runtime asks for none."""
    return any(letter.isalpha() for letter in text) and text.strip().lower() not in _NO_NAMES

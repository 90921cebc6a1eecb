"""Tensors of sizes: small integer tensors whose elements are known, as numbers or names, when a model is read.

Models compute shapes with tensor operators. While all operands are known, these are `Sizes` without bindings, and
`size_arithmetic` computes with them. If one is needed as a tensor, `Sizes.expression` makes it.
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
        """A vector of ``values``."""
        elements = tuple(values)
        return cls(elements, (len(elements),), dtype)

    @classmethod
    def scalar(cls, value: Dim, dtype: str = "int64") -> Sizes:
        """A scalar (rank 0)."""
        return cls((value,), (), dtype)

    @classmethod
    def of_array(cls, array: np.ndarray[Any, Any], dtype: str) -> Sizes:
        """A tensor with the elements of an array of dims."""
        return cls(tuple(array.reshape(-1).tolist()), array.shape, dtype)

    @property
    def is_known(self) -> bool:
        """True if it contains no size variable."""
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
        """The tensor as a constant; it must be known."""
        return const(np.asarray(self.values, dtype=self.dtype).reshape(self.shape), self.dtype)

    def expression(self) -> Expr:
        """The tensor as an expression."""
        if self.is_known:
            return self.constant()
        tensor = self._row_expression()
        if not self.shape:
            tensor = ops.squeeze(tensor, axis=0)
        elif len(self.shape) > 1:
            tensor = ops.reshape(tensor, ShapeExpr(self.shape))
        return tensor if self.dtype == "int64" else ops.astype(tensor, self.dtype)

    def _row_expression(self) -> Expr:
        # A shape has no negative sizes, so known negative numbers are constants between the parts from shapes.
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
    """True if a file's text for a size is a name, so that sizes of this name are equal. ONNX Runtime takes any text."""
    return any(letter.isalpha() for letter in text) and text.strip().lower() not in _NO_NAMES

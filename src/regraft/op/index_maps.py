"""Layouts given by a function of the indices, which permutes them and may split them into blocks.

``lambda n, c, h, w: (n, c // 4, h, w, c % 4)`` is read by calling it on size variables. Each result must be an
index itself, or an index's quotient or remainder by one number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, cast, final

from ..ir.dims import FloorDiv, FloorMod, SymVar, ceildiv, floormod
from ..ir.errors import OpTypeError
from ..ir.expr import Expr, PrimValue
from ..ir.types import TensorType
from .composite.padding import pad
from .primitive.manipulate import permute_dims
from .primitive.reshaping import reshape

IndexFunction = Callable[..., Sequence[Any]]


@final
class IndexMap:
    """A function of indices, as in Relax: ``IndexMap.from_func(lambda i, j: (j, i))``."""

    __slots__ = ("__signature__", "_function")

    def __init__(self, function: IndexFunction, ndim: int | None) -> None:
        names = signature(function).parameters.values()
        if any(name.kind is Parameter.VAR_POSITIONAL for name in names):
            if ndim is None:
                raise OpTypeError("an index map of any number of indices needs ndim, the number of axes")
            names = [Parameter(f"i{axis}", Parameter.POSITIONAL_OR_KEYWORD) for axis in range(ndim)]
        self.__signature__ = Signature(list(names))
        self._function = function

    @staticmethod
    def from_func(
        mapping_function: IndexFunction,
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """The map of ``mapping_function``. ``ndim`` is the number of indices, for a function that takes ``*indices``.

        Relax's ``inverse_index_map`` and ``index_dtype`` are ignored. Raises `OpTypeError` for ``*indices`` without
        ``ndim``.
        """
        return IndexMap(mapping_function, ndim)

    def __call__(self, *indices: Any) -> Sequence[Any]:
        """The indices in the result for the element at ``indices``."""
        return self._function(*indices)

    def map_indices(self, indices: Sequence[Any]) -> list[Any]:
        """The same as `__call__`, for a list of indices."""
        return list(self(*indices))


def _refuse(index_map: IndexFunction, why: str) -> OpTypeError:
    return OpTypeError(
        f"relax.layout_transform: index_map{signature(index_map)} {why}; expected each index as it is, or its quotient "
        "and remainder by one number, such as (n, c // 4, h, w, c % 4)"
    )


def transform_by_function(x: Expr, index_map: IndexFunction, pad_value: float | None = None) -> Expr:
    """``x`` with the element at ``index`` moved to ``index_map(*index)``: reshapes and permutes its axes.

    An axis whose size is not a multiple of its block is padded at its end with ``pad_value`` or 0. A symbolic size is
    assumed to be a multiple. Raises `OpTypeError` for a map of another form and for a tensor of unknown shape.
    """
    ty = x.ty
    if not isinstance(ty, TensorType) or ty.shape is None:
        raise OpTypeError(f"relax.layout_transform: argument x is {ty!r}; a function of indices needs a known shape")
    indices = [SymVar(name) for name in signature(index_map).parameters]
    if len(indices) != len(ty.shape):
        raise _refuse(index_map, f"takes {len(indices)} indices, but x has {len(ty.shape)} axes")
    made: Any = index_map(*indices)
    if not isinstance(made, list | tuple):
        raise _refuse(index_map, f"gives {made}")
    parts = [part.value if isinstance(part, PrimValue) else part for part in cast("Sequence[Any]", made)]
    blocks: dict[SymVar, int] = {}
    places: list[tuple[SymVar, int]] = []
    for part in parts:
        index, place = part, 0
        if isinstance(part, FloorDiv | FloorMod):
            index, block = part.operands
            place = int(isinstance(part, FloorMod))
            if not isinstance(block, int) or not isinstance(index, SymVar) or blocks.setdefault(index, block) != block:
                raise _refuse(index_map, f"gives {part}")
        if not isinstance(index, SymVar) or index not in indices:
            raise _refuse(index_map, f"gives {part}")
        places.append((index, place))
    axes = [(index, place) for index in indices for place in range(2 if index in blocks else 1)]
    if sorted(places, key=axes.index) != axes:
        raise _refuse(index_map, "leaves out or repeats a part of an index")
    widths = [0] * (2 * len(indices))
    shape: list[Any] = []
    for axis, (index, size) in enumerate(zip(indices, ty.shape, strict=True)):
        block = blocks.get(index)
        if block is None:
            shape.append(size)
            continue
        missing = floormod(-size, block)
        if isinstance(missing, int):
            widths[2 * axis + 1] = missing
        shape += [ceildiv(size, block), block]
    if any(widths):
        x = pad(x, widths, pad_value=pad_value or 0.0)
    if blocks:
        x = reshape(x, tuple(shape))
    order = [axes.index(place) for place in places]
    return x if order == list(range(len(order))) else permute_dims(x, order)

"""Keys and values that are computed from the rows of a cache, row by row, by one linear map for each head.

A cache may hold less than the keys and values: a narrow row that all heads expand (DeepSeek's latent attention), heads
in another order, or keys and values of two widths. Heads that are read together (differential attention, in which a key
weights the values of two heads) are kept as one head, with their rows side by side. The product of a query with an
expanded key equals the product of the query, mapped by the transposed map, with the cached row. A sum of expanded
values equals the map of the sum of rows. So nothing is expanded, and attention reads the cache as it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from ... import op as ops
from ...analysis.tensors import shape_of
from ...analysis.values import leaves_of, resolve
from ...ir.dims import Dim
from ...ir.expr import Expr, ShapeExpr, Var, const
from ...ir.op import Call, Op
from ...ir.walks import needs_first

_SLACK: Final = 1e-4
"""The largest error of the sum of a row in float32, relative to the largest sum."""
_MOVES: Final = frozenset(
    f"relax.{name}"
    for name in (
        "reshape", "permute_dims", "split", "strided_slice", "concat", "slice_scatter", "broadcast_to", "expand_dims",
        "squeeze", "tile", "repeat", "flatten", "add", "subtract", "negative", "zeros", "zeros_like",
    )
)  # fmt: skip
"""Operators that are linear in all their operands together."""
_PRODUCTS: Final = ("relax.matmul", "relax.multiply")
"""Operators that are linear in each operand separately."""

PairOfMaps: TypeAlias = tuple[np.ndarray | None, np.ndarray | None]
Rows: TypeAlias = Callable[[Expr, Mapping[Var, np.ndarray]], np.ndarray | None]
"""The value of an expression if the joined caches are the given ones; None if it depends on anything else."""


class RowMaps(NamedTuple):
    """The maps from two caches, with equally many heads, to keys and values; see `row_maps`.

    ``keys`` and ``values`` have a map (heads, their size, size of a row) for each of the two caches; None if they do
    not read that cache. ``order`` sorts the heads so that heads that share a head of the caches are adjacent; None if
    they are. ``groups`` (kept heads, heads of each) are the heads of the caches that are kept as one; None if each is
    kept by itself. ``sizes`` are the sizes of the kept rows.
    """

    keys: PairOfMaps
    values: PairOfMaps
    order: np.ndarray | None
    sizes: tuple[int, int]
    groups: np.ndarray | None = None

    @property
    def _is_joined(self) -> bool:
        return self.keys[1] is not None or self.values[0] is not None

    @property
    def _width(self) -> int:
        return sum(self.sizes) if self._is_joined else max(self.sizes)

    def rows(self, first: Expr, second: Expr) -> tuple[Expr, Expr]:
        """New rows of the two caches, (batch, heads, sequence, size), as rows of one width for keys and for values."""
        parts = [self._side_by_side(rows) for rows in (first, second)]
        if self._is_joined:
            both = ops.concat(parts, axis=3)
            return both, both
        return self._wide(parts[:1]), self._wide(parts[1:])

    def _side_by_side(self, rows: Expr) -> Expr:
        """``rows`` with the heads that are kept as one side by side."""
        if self.groups is None:
            return rows
        batch, _, sequence, size = shape_of(rows)
        heads, together = self.groups.shape
        apart = ops.reshape(
            ops.take(rows, const(self.groups.reshape(-1)), axis=1), [batch, heads, together, sequence, size]
        )
        return ops.reshape(ops.permute_dims(apart, (0, 1, 3, 2, 4)), [batch, heads, sequence, together * size])

    def keeps_as(self, other: RowMaps) -> bool:
        """True if both keep the same rows of the caches."""
        is_same = _are_equal(self.groups, other.groups)
        return is_same and (self._is_joined, self._width) == (other._is_joined, other._width)

    def reads_as(self, other: RowMaps) -> bool:
        """True if both attend in the same way; the results that they compute from the sums of rows may differ."""
        pairs = zip((*self.keys, self.order), (*other.keys, other.order), strict=True)
        return all(_are_equal(ours, theirs) for ours, theirs in pairs) and self.keeps_as(other)

    def query(self, query: Expr) -> Expr:
        """Queries (batch, heads, sequence, size) in the form that is multiplied with the rows of keys."""
        ordered = query if self.order is None else ops.take(query, const(self.order), axis=1)
        parts: list[Expr] = []
        for place, size in enumerate(self.sizes):
            found = self.keys[place]
            if found is not None:
                parts.append(_through(ordered, self._ordered(found)))
            elif self._is_joined:
                parts.append(_zeros_beside(ordered, size))
        return self._wide(parts)

    def result(self, attended: Expr) -> Expr:
        """Sums of rows of values, (batch, heads, sequence, width), as sums of values."""
        parts: list[Expr] = []
        for place, found in enumerate(self.values):
            if found is not None:
                begin = self.sizes[0] * place if self._is_joined else 0
                row = _cut(attended, begin, begin + self.sizes[place])
                parts.append(_through(row, self._ordered(found).transpose(0, 2, 1)))
        total = parts[0] if len(parts) == 1 else ops.add(*parts)
        return total if self.order is None else ops.take(total, const(np.argsort(self.order)), axis=1)

    def _ordered(self, found: np.ndarray) -> np.ndarray:
        return found if self.order is None else found[self.order]

    def _wide(self, parts: Sequence[Expr]) -> Expr:
        left = self._width - sum(int(shape_of(part)[3]) for part in parts)
        parts = [*parts, _zeros_beside(parts[0], left)] if left else parts
        return parts[0] if len(parts) == 1 else ops.concat(list(parts), axis=3)


def _are_equal(ours: np.ndarray | None, theirs: np.ndarray | None) -> bool:
    return ours is theirs or (ours is not None and theirs is not None and np.array_equal(ours, theirs))


def _zeros_beside(value: Expr, size: int) -> Expr:
    return ops.zeros(ShapeExpr([*shape_of(value)[:3], size]), "float32")


def _cut(value: Expr, begin: int, end: int) -> Expr:
    return value if (begin, end) == (0, shape_of(value)[3]) else ops.strided_slice(value, [3], [begin], [end])


def _through(value: Expr, maps: np.ndarray) -> Expr:
    """``value`` (batch, heads, sequence, size) times ``maps`` (heads, size, new size).

    Rows and columns at the ends of all maps that are 0 take no part in the product.
    """
    inner, outer = (np.flatnonzero(maps.any(axis=axes)) for axes in ((0, 2), (0, 1)))
    begin, end, left, right = (int(place) for ends in (inner, outer) for place in (ends[0], ends[-1] + 1))
    part, block = _cut(value, begin, end), maps[:, begin:end, left:right]
    is_same = block.shape[1] == block.shape[2] and np.array_equal(
        block, np.broadcast_to(np.eye(end - begin), block.shape)
    )
    found = part if is_same else ops.matmul(part, const(np.ascontiguousarray(block[None], np.float32)))
    beside = [_zeros_beside(found, size) if size else None for size in (left, maps.shape[2] - right)]
    parts = [one for one in (beside[0], found, beside[1]) if one is not None]
    return found if len(parts) == 1 else ops.concat(parts, axis=3)


def read_caches(operand: Expr, values: Mapping[Var, Expr], is_cache: Callable[[Var], bool]) -> list[Var] | None:
    """The caches that ``operand`` depends on by linear operators; None if other operators are involved.

    Cost: the bindings between the caches and ``operand``.
    """
    found: dict[Var, None] = {}
    reads: dict[Var, bool] = {}

    def needs(var: Var) -> list[Var]:
        value = None if is_cache(var) else values.get(var)
        return [] if value is None else [leaf for leaf in leaves_of(value) if isinstance(leaf, Var)]

    root = resolve(values, operand)
    for var in needs_first([root] if isinstance(root, Var) else [], needs, reads):
        value, reading = values.get(var), [leaf for leaf in needs(var) if reads[leaf]]
        reads[var] = is_cache(var) or bool(reading)
        if is_cache(var):
            found[var] = None
        elif isinstance(value, Call) and reading and not _is_linear(value, reading, values):
            return None
    return list(found)


def _is_linear(call: Call, reading: Sequence[Var], values: Mapping[Var, Expr]) -> bool:
    if not isinstance(call.op, Op):
        return False
    name = call.op.name
    if name == "relax.divide":
        return resolve(values, call.args[1]) not in {resolve(values, leaf) for leaf in reading}
    return name in _MOVES or (name in _PRODUCTS and len(reading) == 1)


def row_maps(key: Expr, value: Expr, heads: Dim, caches: Sequence[Var], rows: Rows) -> RowMaps | None:
    """Keys and values (1, sequence, heads, size) of ``heads`` queries as maps of the rows of two caches; else None.

    Their operators must be linear (`read_caches`). The maps are found with unit vectors as rows, and checked with
    random rows; a map that depends on the place of a row is rejected. Cost: computing them for as many rows as a row is
    wide.
    """
    (_, kept, _, first), (_, others, _, second) = (shape_of(cache) for cache in caches)
    if not isinstance(kept, int) or kept != others or not isinstance(first, int) or not isinstance(second, int):
        return None
    found = [_maps(operand, caches, kept, (first, second), rows) for operand in (key, value)]
    if found[0] is None or found[1] is None or found[0].shape[0] != found[1].shape[0]:
        return None
    own = found[0].shape[0]
    if not isinstance(heads, int) or heads % own:
        return None
    maps = [np.repeat(one, heads // own, axis=0) for one in found if one is not None]
    groups = _read_together(_reads(maps))
    if groups is None or heads % len(groups):
        return None
    maps = [_of_groups(one, groups, first) for one in maps]
    reads = _reads(maps)
    order = np.argsort(group := reads.argmax(axis=1), kind="stable")
    if (reads.sum(axis=1) != 1).any() or (reads.sum(axis=0) * len(groups) != heads).any():
        return None
    together = groups.shape[1]
    keys, values = (_by_cache(one[np.arange(heads), :, group], together * first) for one in maps)
    is_ordered = np.array_equal(order, np.arange(heads))
    sizes = (together * first, together * second)
    return RowMaps(keys, values, None if is_ordered else order, sizes, None if together == 1 else groups)


def _reads(maps: Sequence[np.ndarray]) -> np.ndarray:
    """True if a query reads a head of the caches: (queries, heads of the caches)."""
    return np.asarray(np.concatenate([one.any(axis=1) for one in maps], axis=2).any(axis=2))


def _read_together(reads: np.ndarray) -> np.ndarray | None:
    """The heads of caches that the same queries read, in groups (groups, heads of each); None if their sizes differ."""
    groups = list(range(reads.shape[1]))
    for row in reads:
        read = {groups[head] for head in np.flatnonzero(row)}
        groups = [min(read) if group in read else group for group in groups]
    found = [[head for head, group in enumerate(groups) if group == one] for one in dict.fromkeys(groups)]
    return np.array(found) if len({len(heads) for heads in found}) == 1 else None


def _of_groups(maps: np.ndarray, groups: np.ndarray, first: int) -> np.ndarray:
    """``maps`` (heads, size, heads of the caches, size of both) for heads that are kept side by side in ``groups``."""
    grouped = maps[:, :, groups]  # (heads, size, groups, heads of each, size of both)
    sides = [side.reshape(*side.shape[:3], -1) for side in np.split(grouped, [first], axis=-1)]
    return np.concatenate(sides, axis=-1)


def _by_cache(maps: np.ndarray, first: int) -> PairOfMaps:
    before, after = maps[..., :first], maps[..., first:]
    return before if before.any() else None, after if after.any() else None


def _maps(operand: Expr, caches: Sequence[Var], heads: int, sizes: Sequence[int], rows: Rows) -> np.ndarray | None:
    """The maps (heads of ``operand``, its size, heads of the caches, size of both) of rows; None if there are none."""
    count = heads * sum(sizes)
    units = np.eye(count, dtype=np.float32).reshape(count, heads, sum(sizes))
    found = _of_rows(operand, caches, sizes, units, rows)
    if found is None:
        return None
    maps = found.transpose(1, 2, 0).reshape(*found.shape[1:], heads, sum(sizes))
    for length in (1, count + 3):
        some = np.random.default_rng(length).standard_normal((length, heads, sum(sizes))).astype(np.float32)
        tried, told = _of_rows(operand, caches, sizes, some, rows), np.einsum("hdgs,tgs->thd", maps, some)
        if tried is None or tried.shape != told.shape or np.abs(tried - told).max() > _SLACK * np.abs(told).max():
            return None
    return maps


def _of_rows(
    operand: Expr, caches: Sequence[Var], sizes: Sequence[int], both: np.ndarray, rows: Rows
) -> np.ndarray | None:
    """``operand`` (sequence, heads, size) for caches that hold ``both`` (sequence, their heads, size of both)."""
    parts = np.split(both.transpose(1, 0, 2)[None], [sizes[0]], axis=3)
    found = rows(operand, dict(zip(caches, parts, strict=True)))
    is_known = found is not None and found.ndim == 4 and found.shape[:2] == (1, both.shape[0])
    return found[0] if is_known and found is not None else None

"""Reading operators of the domain ``ai.onnx.ml`` on tensors, counts of n-grams, and ensembles of decision trees.

All samples go down all trees together, one level at a time. Tables by node hold the feature that a node tests, the
value and the kind of the comparison, and the next nodes. A leaf is a node that keeps a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, Final

import numpy as np

from .... import op as ops
from ....ir.expr import Expr, const
from .declared import LEARNING
from .importing import Imported, NodeImporter, in_dtype, reads


@reads("ArrayFeatureExtractor", domain=LEARNING)
def _array_feature_extractor(node: NodeImporter) -> Imported:
    places = node.emit(ops.reshape(node.operand(1), [-1]))
    x = node.operand(0) if node.rank() > 1 else node.emit(ops.expand_dims(node.operand(0), 0))
    return ops.take(x, places, axis=-1)


@reads("Binarizer", domain=LEARNING)
def _binarizer(node: NodeImporter) -> Imported:
    return ops.where(node.operand(0) > node.attr("threshold", 0.0), node.like(1), node.like(0))


# --- n-grams


def _pool(node: NodeImporter) -> list[np.ndarray]:
    """The n-grams of a `TfIdfVectorizer`, one in each row, by length."""
    pool: Sequence[int] | None = node.attr("pool_int64s")
    if pool is None:
        raise node.refuse("n-grams of strings are not supported")
    starts = enumerate(pairwise([*node.attr("ngram_counts"), len(pool)]), 1)
    return [np.asarray(pool[start:end], np.int64).reshape(-1, length) for length, (start, end) in starts]


def _counted(node: NodeImporter, x: Expr, size: int, grams: np.ndarray, most_skipped: int) -> Expr:
    """The count of each n-gram in each row of ``x``, also with skipped elements in between: (rows, n-grams)."""
    count, length = grams.shape
    total = node.emit(ops.zeros([node.shape()[0] if node.rank() == 2 else 1, count], "float32"))
    for step in range(1, (most_skipped if length > 1 else 0) + 2):
        starts = size - (length - 1) * step
        if starts <= 0:
            break
        windows = [ops.strided_slice(x, [1], [place * step], [place * step + starts]) for place in range(length)]
        columns = grams.T.reshape(length, 1, 1, -1)
        pairs = zip(windows, columns, strict=True)
        matches = reduce(
            ops.logical_and, [ops.equal(ops.expand_dims(part, 2), const(row, "int64")) for part, row in pairs]
        )
        total = node.emit(total + ops.sum(in_dtype(matches, "float32"), [1]))
    return total


@reads("TfIdfVectorizer")
def _tf_idf(node: NodeImporter) -> Imported:
    size = node.shape()[-1]
    if not isinstance(size, int):
        raise node.refuse("the length of its rows is known at run time only")
    least, most = node.attr("min_gram_length"), node.attr("max_gram_length")
    x = node.emit(in_dtype(node.operand(0), "int64"))
    if node.rank() == 1:
        x = node.emit(ops.expand_dims(x, 0))
    elif node.rank() != 2:
        raise node.refuse(f"an input of {node.rank()} dimensions; expected 1 or 2")
    places: Sequence[int] = node.attr("ngram_indexes")
    weights = node.attr("weights")
    columns: list[Expr] = []
    taken: list[int] = []
    first = 0
    for grams in _pool(node):
        count, length = grams.shape
        if least <= length <= most and count:
            columns.append(_counted(node, x, size, grams, node.attr("max_skip_count")))
            taken += range(first, first + count)
        first += count
    batch = node.shape()[0] if node.rank() == 2 else 1
    width = max(places) + 1
    if not columns:
        found: Expr = ops.zeros([batch, width], "float32")
    else:
        counts = node.emit(ops.concat(columns, axis=1))
        mode = node.attr("mode")
        if mode == "IDF":
            counts = node.emit(in_dtype(counts > 0, "float32"))
        factors = np.ones(len(places)) if weights is None or mode == "TF" else np.asarray(weights)
        sent = np.zeros((len(taken), width), np.float32)
        sent[np.arange(len(taken)), [places[gram] for gram in taken]] = factors[taken]
        found = ops.matmul(counts, const(sent))
    return found if node.rank() == 2 else ops.reshape(found, [width])


# --- trees

_COMPARISONS: Final[dict[int, Callable[[Expr, Expr], Expr]]] = {
    0: ops.less_equal,
    1: ops.less,
    2: ops.greater_equal,
    3: ops.greater,
    4: ops.equal,
    5: ops.not_equal,
}
_MEMBER: Final = 6
_AVERAGE, _SUM, _MIN, _MAX = range(4)
_NONE, _SOFTMAX, _LOGISTIC = range(3)


class _Forest:
    """The tables of an ensemble, by node. Leaves come after the nodes that branch."""

    def __init__(self, node: NodeImporter) -> None:
        features = np.asarray(node.attr("nodes_featureids"))
        branches, leaves = len(features), len(node.attr("leaf_targetids"))
        stay = np.arange(branches, branches + leaves)

        def ways(side: str) -> np.ndarray:
            targets, is_leaf = (np.asarray(node.attr(f"nodes_{side}{what}")) for what in ("nodeids", "leafs"))
            return np.concatenate([np.where(is_leaf != 0, targets + branches, targets), stay])

        def table(values: Any) -> np.ndarray:
            return np.concatenate([np.asarray(values), np.zeros(leaves, np.asarray(values).dtype)])

        self.branches = branches
        self.roots: np.ndarray = np.asarray(node.attr("tree_roots"), np.int64)
        self.features = table(features)
        self.splits = table(node.attr("nodes_splits").numpy())
        self.modes = table(node.attr("nodes_modes").numpy().astype(np.int64))
        missing = node.attr("nodes_missing_value_tracks_true")
        self.missing = None if missing is None else table(np.asarray(missing) != 0)
        self.yes, self.no = ways("true"), ways("false")
        self.sets = self._sets(node, leaves)
        self.depth = self._depth()

    def _sets(self, node: NodeImporter, leaves: int) -> np.ndarray | None:
        """The values, by node, that send a sample to its first side, padded with NaN, which equals nothing.

        None if no node tests membership.
        """
        if not np.any(self.modes[: self.branches] == _MEMBER):
            return None
        values = node.attr("membership_values").numpy()
        ends = np.flatnonzero(np.isnan(values)).tolist()
        starts = [0, *[end + 1 for end in ends]]
        parts = [values[start:end] for start, end in zip(starts, [*ends, len(values)], strict=True)]
        rows = np.full((self.branches + leaves, max(len(part) for part in parts)), np.nan, values.dtype)
        members = np.flatnonzero(self.modes[: self.branches] == _MEMBER)
        for place, part in zip(members.tolist(), parts, strict=False):
            rows[place, : len(part)] = part
        return rows

    def _depth(self) -> int:
        """The number of levels after which every sample is at a leaf."""
        current, depth = set(self.roots.tolist()), 0
        while any(place < self.branches for place in current):
            current = {int(way[place]) for place in current for way in (self.yes, self.no)}
            depth += 1
        return depth


def _takes_first_side(node: NodeImporter, forest: _Forest, places: Expr, x: Expr) -> Expr:
    """True for each sample and tree in which the node in ``places`` sends the sample to its first side."""

    def of(table: np.ndarray, dtype: str | None = None) -> Expr:
        return ops.take(const(table, dtype), places, axis=0)

    value = node.emit(ops.gather_elements(x, of(forest.features, "int64"), 1))
    split, modes = node.emit(of(forest.splits, node.dtype())), node.emit(of(forest.modes, "int64"))
    sides: list[Expr] = []
    for mode in sorted(set(forest.modes[: forest.branches].tolist())):
        if mode == _MEMBER:
            assert forest.sets is not None
            holds = ops.max(ops.equal(ops.expand_dims(value, 2), of(forest.sets, node.dtype())), [2])
        else:
            holds = _COMPARISONS[mode](value, split)
        sides.append(ops.logical_and(holds, ops.equal(modes, mode)))
    if forest.missing is not None:
        sides.append(ops.logical_and(ops.isnan(value), of(forest.missing)))
    return node.emit(reduce(ops.logical_or, sides))


@reads("TreeEnsemble", domain=LEARNING)
def _tree_ensemble(node: NodeImporter) -> Imported:
    forest, x = _Forest(node), node.operand(0)
    dtype, samples = node.dtype(), node.shape()[0]
    places = node.emit(ops.broadcast_to(const(forest.roots[None, :], "int64"), [samples, len(forest.roots)]))
    for _ in range(forest.depth):
        side = _takes_first_side(node, forest, places, x)
        ways = [ops.take(const(way, "int64"), places, axis=0) for way in (forest.yes, forest.no)]
        places = node.emit(ops.where(side, *ways))
    leaf = node.emit(places - forest.branches)
    weight = node.emit(ops.take(const(node.attr("leaf_weights").numpy(), dtype), leaf, axis=0))
    target = node.emit(ops.take(const(np.asarray(node.attr("leaf_targetids")), "int64"), leaf, axis=0))
    return _finished(node, _gathered(node, weight, target))


def _gathered(node: NodeImporter, weight: Expr, target: Expr) -> Expr:
    """The weights of all trees (samples, trees) aggregated into their targets (samples, targets)."""
    count: int = node.attr("n_targets")
    way = node.attr("aggregate_function", _SUM)
    hit = node.emit(ops.equal(ops.expand_dims(target, 2), const(np.arange(count).reshape(1, 1, -1), "int64")))
    spread = node.emit(ops.expand_dims(weight, 2))
    if way in (_SUM, _AVERAGE):
        total = ops.sum(ops.where(hit, spread, node.like(0)), [1])
        return node.emit(total if way == _SUM else total / len(node.attr("tree_roots")))
    fold, nothing = (ops.min, np.inf) if way == _MIN else (ops.max, -np.inf)
    extreme = fold(ops.where(hit, spread, node.like(nothing)), [1])
    return node.emit(ops.where(ops.max(hit, [1]), extreme, node.like(0)))


def _finished(node: NodeImporter, scores: Expr) -> Expr:
    kind = node.attr("post_transform", _NONE)
    if kind == _NONE:
        return scores
    if kind == _SOFTMAX:
        return ops.nn.softmax(scores, axis=-1)
    if kind == _LOGISTIC:
        return ops.sigmoid(scores)
    raise node.refuse(f"post_transform={kind} is not supported, only none, softmax and logistic (0, 1 and 2)")

"""Reading operators of the domain ``ai.onnx.ml`` on tensors, and counts of n-grams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np

from .... import op as ops
from ....ir.expr import Expr, const
from .importing import Imported, NodeImporter, in_dtype, reads

DOMAIN = "ai.onnx.ml"


@reads("ArrayFeatureExtractor", domain=DOMAIN)
def _array_feature_extractor(node: NodeImporter) -> Imported:
    places = node.emit(ops.reshape(node.operand(1), [-1]))
    x = node.operand(0) if node.rank() > 1 else node.emit(ops.expand_dims(node.operand(0), 0))
    return ops.take(x, places, axis=-1)


@reads("Binarizer", domain=DOMAIN)
def _binarizer(node: NodeImporter) -> Imported:
    return ops.where(node.operand(0) > node.attr("threshold", 0.0), node.like(1), node.like(0))


# --- n-grams


@dataclass(frozen=True, slots=True)
class _Grams:
    """The n-grams of one length: a row each, and where in the result they are counted."""

    rows: np.ndarray
    first: int


def _pool(node: NodeImporter) -> list[_Grams]:
    """The n-grams that a `TfIdfVectorizer` knows, by length."""
    pool: Sequence[int] | None = node.attr("pool_int64s")
    if pool is None:
        raise node.refuse("n-grams of strings are not supported")
    starts = [*node.attr("ngram_counts"), len(pool)]
    found: list[_Grams] = []
    first = 0
    for length, (start, end) in enumerate(pairwise(starts), 1):
        rows = np.asarray(pool[start:end], np.int64).reshape(-1, length)
        found.append(_Grams(rows, first))
        first += len(rows)
    return found


def _counted(node: NodeImporter, x: Expr, size: int, grams: _Grams, most_skipped: int) -> Expr:
    """The count of each n-gram in each row of ``x``, elements that it skips allowed: (rows, n-grams)."""
    length = grams.rows.shape[1]
    total = node.emit(ops.zeros([node.shape()[0] if node.rank() == 2 else 1, len(grams.rows)], "float32"))
    for step in range(1, (most_skipped if length > 1 else 0) + 2):
        starts = size - (length - 1) * step
        if starts <= 0:
            break
        windows = [ops.strided_slice(x, [1], [place * step], [place * step + starts]) for place in range(length)]
        columns = grams.rows.T.reshape(length, 1, 1, -1)
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
    for grams in _pool(node):
        count, length = grams.rows.shape
        if least <= length <= most and count:
            columns.append(_counted(node, x, size, grams, node.attr("max_skip_count")))
            taken += range(grams.first, grams.first + count)
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

"""Parts of patterns that sharding rules share: a linear layer, and chains of operators that keep a split."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import NamedTuple

from ...pattern import DFPattern, is_op, wildcard


class LinearPattern(NamedTuple):
    """A linear layer: ``pattern`` matches its result, with or without a bias."""

    pattern: DFPattern
    matrix: DFPattern
    """Matches the matrix, which the layer may use transposed."""
    bias: DFPattern


def linear(data: DFPattern | None = None) -> LinearPattern:
    """The pattern of a linear layer of ``data``; of any value by default."""
    matrix, bias = wildcard(), wildcard()
    side = is_op("relax.permute_dims")(matrix) | matrix
    product = is_op("relax.matmul")(data if data is not None else wildcard(), side)
    return LinearPattern(is_op("relax.add")(product, bias) | product, matrix, bias)


def through(start: DFPattern, steps: Iterable[Callable[[DFPattern], DFPattern]], most: int) -> DFPattern:
    """A pattern of ``start`` with up to ``most`` of ``steps`` applied.

    A step is a function such as ``lambda x: is_op("relax.reshape")(x, wildcard())``.
    """
    steps, found = list(steps), start
    for _ in range(most):
        found = reduce(lambda one, step, nested=found: one | step(nested), steps, start)
    return found

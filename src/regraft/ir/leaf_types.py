"""The types inside tuples, however deep these are."""

from __future__ import annotations

from collections.abc import Iterator

from .types import TensorType, TupleType, Type


def leaf_types(*types: Type) -> Iterator[Type]:
    """The parts of ``types`` that are no tuples, in order. Cost: linear; depth is no limit."""
    stack = list(reversed(types))
    while stack:
        ty = stack.pop()
        if isinstance(ty, TupleType):
            stack.extend(reversed(ty.fields))
        else:
            yield ty


def leaf_tensors(*types: Type) -> Iterator[TensorType]:
    """The tensors among `leaf_types`."""
    return (leaf for leaf in leaf_types(*types) if isinstance(leaf, TensorType))

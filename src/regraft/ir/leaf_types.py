"""The leaf types inside nested tuple types."""

from __future__ import annotations

from collections.abc import Iterator

from .types import TensorType, Type, leaves_in


def leaf_types(*types: Type) -> Iterator[Type]:
    """The parts of ``types`` that are not tuples, in order. Cost: linear. Does not recurse, so any depth works."""
    return leaves_in(*types, in_functions=False)


def leaf_tensors(*types: Type) -> Iterator[TensorType]:
    """The tensors among `leaf_types`."""
    return (leaf for leaf in leaf_types(*types) if isinstance(leaf, TensorType))

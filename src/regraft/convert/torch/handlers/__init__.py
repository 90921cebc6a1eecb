"""How each ATen operator becomes expressions, by family. Importing this room fills the table of handlers."""

from . import (
    activation,
    attention,
    binary,
    creation,
    indexing,
    layers,
    linear_algebra,
    reduction,
    resampling,
    unary,
    views,
)

__all__ = [
    "activation",
    "attention",
    "binary",
    "creation",
    "indexing",
    "layers",
    "linear_algebra",
    "reduction",
    "resampling",
    "unary",
    "views",
]

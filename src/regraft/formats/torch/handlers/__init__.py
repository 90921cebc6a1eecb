"""How each ATen operator becomes expressions, by family. Importing this room fills the table of handlers."""

from . import (
    activation,
    attention,
    backward,
    binary,
    complex_tensors,
    creation,
    indexing,
    layers,
    linear_algebra,
    pooling,
    recurrent,
    reduction,
    resampling,
    scattering,
    unary,
    views,
)

__all__ = [
    "activation",
    "attention",
    "backward",
    "binary",
    "complex_tensors",
    "creation",
    "indexing",
    "layers",
    "linear_algebra",
    "pooling",
    "recurrent",
    "reduction",
    "resampling",
    "scattering",
    "unary",
    "views",
]

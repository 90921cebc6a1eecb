"""Sizes for symbolic dims, to draw random inputs of: sizes on which a model runs, reveals a wrong transpose, and ends
soon.

Small sizes that all differ reveal the most, but networks halve their inputs, and models of images and sound need more
than a few elements. So there are several choices. `inputs` draws the inputs of these sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from ..analysis.cost import estimate_cost
from ..analysis.tensors import stated_shape
from ..ir.dims import Dim, SymExpr, SymVar, evaluate, free_symvars
from ..ir.expr import Tuple, Var
from ..ir.program import Function
from ..ir.types import TensorType, substitute_type
from ..reference.trials import drawn_sizes
from .implied_sizes import sides_of_images

_BATCHES_AND_STEPS: Final = ((2, 32), (1, 32), (1, 512))
"""Sizes of first axes, and the step that all other sizes are multiples of: most networks halve images five times."""

_MOST_WORK: Final = 10**11
"""The operations of a run that takes some seconds, plus the bytes that it moves."""
_MOST_ELEMENTS: Final = 1 << 25
"""The number of elements of all inputs together that take a second to draw."""


class Sized(NamedTuple):
    """Parameters of which some sizes are set and others are to be drawn. ``is_long``: a run on them takes long."""

    function: Function
    divisible: bool
    is_long: bool


def ways_of_sizes(function: Function, seed: int) -> list[Sized]:
    """The choices of sizes for ``function``, each once, the most useful first.

    Small sizes that all differ come first; for models of images, larger sizes come before them. Sizes that make a run
    long come last. Sizes of inputs with very many elements are left out, unless nothing else is left. Cost: linear in
    the bindings, for a function with symbolic sizes.
    """
    given: list[tuple[Mapping[SymVar, int], bool]] = [({}, False), ({}, True)]
    if not any(isinstance(dim, SymExpr) for shape in _shapes(function) for dim in shape):
        return [Sized(function, divisible=False, is_long=False)]
    large = [({**_enlarged(function, 2, 1), **sides}, False) for sides in sides_of_images(function)]
    large += [(_enlarged(function, batch, step), False) for batch, step in _BATCHES_AND_STEPS]
    ways: dict[tuple[tuple[int, ...], ...], tuple[Function, bool, dict[SymVar, int]]] = {}
    for sizes, divisible in [*large, *given] if _is_of_images(function) else [*given, *large]:
        typed = _parameters_of(function, sizes)
        drawn = drawn_sizes(typed, seed, divisible=divisible)
        shapes = tuple(tuple(map(drawn.size, shape)) for shape in _shapes(typed))
        ways.setdefault(shapes, (typed, divisible, {**sizes, **drawn.sizes}))
    cost = estimate_cost(function)
    work = {shapes: _value(cost.operations + cost.bytes, sizes) for shapes, (_, _, sizes) in ways.items()}
    tried = [shapes for shapes in ways if _elements_of(shapes) <= _MOST_ELEMENTS] or [min(ways, key=_elements_of)]
    tried.sort(key=lambda shapes: max(work[shapes], _MOST_WORK))
    return [Sized(ways[shapes][0], ways[shapes][1], work[shapes] > _MOST_WORK) for shapes in tried]


def sizes_of(function: Function, inputs: Sequence[Any]) -> dict[SymVar, int]:
    """The symbolic sizes of the parameters of ``function``, with their values in ``inputs``."""
    sizes: dict[SymVar, int] = {}
    for param, given in zip(function.params, inputs, strict=False):
        pairs = zip(stated_shape(param) or (), np.shape(given), strict=False)
        sizes.update((size, found) for size, found in pairs if isinstance(size, SymVar))
    return sizes


def _elements_of(shapes: Sequence[Sequence[int]]) -> int:
    return sum(map(prod, shapes))


def _value(dim: Dim, sizes: Mapping[SymVar, int]) -> int:
    """The value of ``dim``, with 1 for sizes that only a run determines."""
    return evaluate(dim, {**dict.fromkeys(free_symvars(dim), 1), **sizes})


def _is_of_images(function: Function) -> bool:
    return any(len(dims) > 3 and all(isinstance(dim, SymExpr) for dim in dims[2:]) for dims in _shapes(function))


def _enlarged(function: Function, batch: int, step: int) -> dict[SymVar, int]:
    """Sizes for ``function``: ``batch`` for first axes, different multiples of ``step`` for all others."""
    leading = {dims[0] for dims in _shapes(function) if dims}
    sizes: dict[SymVar, int] = {}
    for dims in _shapes(function):
        for dim in dims:
            if isinstance(dim, SymVar) and dim not in sizes:
                sizes[dim] = batch if dim in leading else step * (2 + sum(other not in leading for other in sizes))
    return sizes


def _parameters_of(function: Function, sizes: Mapping[SymVar, int]) -> Function:
    """The parameters of ``function`` with ``sizes`` filled in, as a function that computes nothing."""
    return Function([Var(param.name_hint, substitute_type(param.ty, sizes)) for param in function.params], Tuple(()))


def _shapes(function: Function) -> list[tuple[Dim, ...]]:
    types = [param.ty for param in function.params]
    return [ty.shape for ty in types if isinstance(ty, TensorType) and ty.shape is not None]

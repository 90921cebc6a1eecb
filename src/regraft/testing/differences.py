"""Comparison of gradients with finite differences, as in Relax's tests.

Knows arrays and functions of arrays only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["check_numerical_grads"]

_Arrays = Mapping[str, np.ndarray] | Sequence[np.ndarray]


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: _Arrays,
    grad_values: _Arrays,
    function_value: Any = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Raise `AssertionError` unless the gradients agree with finite differences of ``function``.

    ``function`` takes the arrays of ``input_values`` (as keyword arguments, if they are a mapping) and returns one
    number. ``grad_values`` has an array of the same shape for each input, or for some of the names. The distance (in
    the 2-norm) of a gradient from the five-point differences of step ``delta`` may be at most ``atol`` times the square
    root of its number of elements, plus ``rtol`` times the norm of the differences. ``function_value`` is accepted
    because Relax has it, and ignored. Raises `ValueError` if a gradient or its differences are not finite. Cost: four
    calls of ``function`` for each element.
    """
    del function_value
    by_place = not isinstance(input_values, Mapping)
    inputs = {str(i): value for i, value in enumerate(input_values)} if by_place else dict(input_values)
    named = isinstance(grad_values, Mapping)
    gradients = dict(grad_values) if named else {str(i): value for i, value in enumerate(grad_values)}

    def at(name: str, place: int, step: float) -> Any:
        moved = inputs[name].copy()
        moved.reshape(-1)[place] += step
        values = {**inputs, name: moved}
        return function(*values.values()) if by_place else function(**values)

    def difference(name: str, place: int) -> Any:
        wide, narrow = ((at(name, place, step) - at(name, place, -step)) / (2 * step) for step in (delta, delta / 2))
        return (4 * narrow - wide) / 3

    for name, gradient in gradients.items():
        shape = inputs[name].shape
        if gradient.shape != shape:
            raise AssertionError(f"the gradient of {name!r} has the shape {gradient.shape}; expected {shape}")
        expected = np.array([difference(name, place) for place in range(gradient.size)]).reshape(shape)
        distance, norm = np.linalg.norm(expected - gradient), np.linalg.norm(expected)
        if not (np.isfinite(distance) and np.isfinite(norm)):
            raise ValueError(f"the gradient of {name!r} or its differences are not finite: {gradient}, {expected}")
        if distance > atol * np.sqrt(gradient.size) + rtol * norm:
            raise AssertionError(f"the gradient of {name!r} is {gradient}; differences give {expected}")

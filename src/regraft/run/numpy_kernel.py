"""Functions that were compiled for a module (`ir.kernels`), in the form that engines call: over C-contiguous arrays."""

from __future__ import annotations

from typing import Any, Final, cast, final

import numpy as np

from ..ir.kernels import Kernel


@final
class NumpyKernel:
    """A compiled function, with the name under which the module calls it."""

    __slots__ = ("function", "name")

    def __init__(self, name: str, function: Kernel) -> None:
        self.name: Final = name
        self.function: Final = function

    def __call__(self, *arguments: Any) -> Any:
        """The results of the function for ``arguments``, whose arrays are made C-contiguous."""
        return self.function(*[_row_by_row(argument) for argument in arguments])

    def __repr__(self) -> str:
        return f"<compiled {self.name}>"


def _row_by_row(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([_row_by_row(item) for item in cast("tuple[Any, ...]", value)])
    return np.asarray(value, order="C") if isinstance(value, np.ndarray | np.generic) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

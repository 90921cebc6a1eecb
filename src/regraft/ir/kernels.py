"""Functions compiled for a module: they take precedence when the module calls an external function by name.

As in Relax, a module keeps them in its attribute `EXTERNAL_MODS`, so they live as long as the module. They are code of
this process: they are not printed, and a module that has them cannot be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeAlias, final

from .errors import IRError
from .module import IRModule

Kernel: TypeAlias = Callable[..., Any]
"""A function that takes NumPy arrays and returns one array or a tuple of arrays."""

EXTERNAL_MODS: Final = "external_mods"


@final
class Kernels(Mapping[str, Kernel]):
    """Compiled functions by the names under which a module calls them. Compared by identity."""

    __slots__ = ("_table",)

    def __init__(self, table: Mapping[str, Kernel]) -> None:
        self._table: Final = dict(table)

    def __getitem__(self, name: str) -> Kernel:
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"Kernels({', '.join(self)})"

    def __reduce__(self) -> NoReturn:
        raise IRError(f"compiled functions cannot be pickled: {', '.join(self)}; keep the module as it was before")


def kernels_of(module: IRModule) -> Mapping[str, Kernel]:
    """The compiled functions of ``module``, by name."""
    found = module.attrs.get(EXTERNAL_MODS)
    return found if isinstance(found, Kernels) else {}


def with_kernels(module: IRModule, table: Mapping[str, Kernel]) -> IRModule:
    """``module`` with the functions of ``table`` added to its compiled functions; ``table`` wins for equal names."""
    return module.with_attr(EXTERNAL_MODS, Kernels({**kernels_of(module), **table}))

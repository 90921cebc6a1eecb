"""Operator libraries that ONNX Runtime loads, for one program or for everything that runs inside a `with` statement."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from .errors import BuildError

Libraries: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_AROUND: Final = ContextVar[tuple[str, ...]]("libraries of operators", default=())


@contextmanager
def custom_operators(libraries: Libraries) -> Generator[None]:
    """Inside the ``with`` block, ONNX Runtime loads the operator ``libraries`` for each model that it opens.

    This is for functions that open models themselves: `optimize` with ``verify`` or ``measure``, and the commands. For
    one program, use ``custom_ops`` of `build`. The code of a library runs in this process. Raises `BuildError` if a
    library does not exist.
    """
    token = _AROUND.set(libraries_with(libraries))
    try:
        yield
    finally:
        _AROUND.reset(token)


def libraries_with(given: Libraries = ()) -> tuple[str, ...]:
    """The libraries of the enclosing blocks and those ``given``, each once; raises `BuildError` for a missing file."""
    paths = (given,) if isinstance(given, str | os.PathLike) else given
    libraries = [os.fspath(path) for path in paths]
    for library in libraries:
        if not os.path.isfile(library):
            raise BuildError(f"custom_ops: there is no library {library}")
    return tuple(dict.fromkeys([*_AROUND.get(), *libraries]))


def load_libraries(settings: Any, libraries: Sequence[str]) -> None:
    """Load ``libraries`` for a session of ONNX Runtime; raises `BuildError` if one cannot be loaded."""
    for library in libraries:
        try:
            settings.register_custom_ops_library(library)
        except Exception as error:  # ONNX Runtime's errors have no other common base
            raise BuildError(f"custom_ops: ONNX Runtime cannot load {library}: {error}") from error

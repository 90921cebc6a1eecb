"""Pipelines by name, with Relax's names and signatures.

``"zero"`` is the level ``"safe"`` of `pipeline`; ``"default"`` and ``"default_build"`` are the level ``"default"``.
Engines lower a program by themselves, so a pipeline holds the passes before lowering.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from ..ir.near_names import hint
from .context import PassError
from .passes import Pass
from .pipeline import pipeline

_Maker = TypeVar("_Maker", bound=Callable[..., Any])


def zero_pipeline(*, enable_warning: bool = False) -> Pass:
    """`pipeline` of the level ``"safe"``; ``enable_warning`` is accepted and ignored."""
    del enable_warning
    return pipeline("safe")


def default_build_pipeline() -> Pass:
    """`pipeline` of the level ``"default"``."""
    return pipeline("default")


_pipelines: Final[dict[str, Callable[..., Any]]] = {
    "zero": zero_pipeline,
    "default": default_build_pipeline,
    "default_build": default_build_pipeline,
}
OF_ITS_OWN: Final = frozenset(_pipelines)
"""The names that users have not registered: no engine needs one of these pipelines to run a program."""


def get_pipeline(name: str = "zero", **kwargs: Any) -> Any:
    """The pipeline of a name: the registered function, called with ``kwargs``.

    Raises `PassError` for an unknown name.
    """
    make = _pipelines.get(name)
    if make is None:
        raise PassError(f"there is no pipeline {name!r}; {hint(name, _pipelines)}")
    return make(**kwargs)


def get_default_pipeline(target: object = None) -> Pass:
    """The passes before an engine compiles a program: `pipeline`, for every ``target``."""
    del target
    return pipeline()


def register_pipeline(name: str) -> Callable[[_Maker], _Maker]:
    """A decorator that registers a function for `get_pipeline`. Raises `PassError` if the name is taken."""
    if name in _pipelines:
        raise PassError(f"there is a pipeline {name!r} already")

    def register(make: _Maker) -> _Maker:
        _pipelines[name] = make
        return make

    return register

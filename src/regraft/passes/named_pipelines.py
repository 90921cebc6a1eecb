"""Pipelines by name, under the names and with the calls that Relax has for them.

``"zero"`` is the level ``"safe"`` of `pipeline`, ``"default"`` and ``"default_build"`` the level ``"default"``: engines
lower a program by themselves, so a pipeline holds what is done before.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from .context import PassError
from .passes import Pass
from .pipeline import pipeline

_Maker = TypeVar("_Maker", bound=Callable[..., Any])


def zero_pipeline(*, enable_warning: bool = False) -> Pass:
    """`pipeline` of the level ``"safe"``; ``enable_warning`` is taken and changes nothing."""
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
"""The names that are no one's registration: engines need none of these pipelines to run a program."""


def get_pipeline(name: str = "zero", **kwargs: Any) -> Any:
    """The pipeline of a name: what was registered, called with ``kwargs``. Raises `PassError` for an unknown name."""
    make = _pipelines.get(name)
    if make is None:
        near = get_close_matches(name, _pipelines, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(_pipelines)}"
        raise PassError(f"there is no pipeline {name!r}; {hint}")
    return make(**kwargs)


def get_default_pipeline(target: object = None) -> Pass:
    """The passes before an engine compiles a program: `pipeline`, whatever the ``target``."""
    del target
    return pipeline()


def register_pipeline(name: str) -> Callable[[_Maker], _Maker]:
    """Let `get_pipeline` know a function that makes a pipeline, as a decorator; `PassError` where the name is taken."""
    if name in _pipelines:
        raise PassError(f"there is a pipeline {name!r} already")

    def register(make: _Maker) -> _Maker:
        _pipelines[name] = make
        return make

    return register

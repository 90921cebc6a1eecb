"""External functions by name: the meaning of `ExternFunc` and of packed calls at run time.

A name is looked up when it is called, so a function can be registered after the module is built. This module is
independent of engines: each engine passes its own arrays to the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, overload

from ..ir.near_names import meant
from .errors import ExecutionError

Extern: TypeAlias = Callable[..., Any]

_functions: Final[dict[str, Extern]] = {}


@overload
def register_func(func_name: str, f: Extern, override: bool = False) -> Extern: ...
@overload
def register_func(func_name: str, f: None = None, override: bool = False) -> Callable[[Extern], Extern]: ...
def register_func(
    func_name: str, f: Extern | None = None, override: bool = False
) -> Extern | Callable[[Extern], Extern]:
    """Register ``f`` as the function that programs call as ``R.ExternFunc(func_name)``; without ``f``, return a
    decorator.

    The function gets arrays of the engine that runs it (NumPy arrays on ``"numpy"``), tuples of them, tuples of ints
    for shapes, and Python numbers and strings. For ``R.call_dps_packed`` the arrays to write into follow the inputs.
    Raises `ExecutionError` if the name is taken, unless ``override``.
    """
    if f is None:

        def register(function: Extern) -> Extern:
            return register_func(func_name, function, override)

        return register
    if not callable(f):
        raise ExecutionError(f"register_func({func_name!r}): {f!r} cannot be called")
    if func_name in _functions and not override:
        raise ExecutionError(f"a function {func_name!r} is registered already; pass override=True to replace it")
    _functions[func_name] = f
    return f


@overload
def get_global_func(name: str) -> Extern: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> Extern | None: ...
def get_global_func(name: str, allow_missing: bool = False) -> Extern | None:
    """The function registered as ``name``; if there is none, None with ``allow_missing``, else `ExecutionError`."""
    found = _functions.get(name)
    if found is None and not allow_missing:
        near = meant(name, _functions, 3) or "register it"
        raise ExecutionError(f'no function {name!r} is registered; {near}: regraft.register_func("{name}", function)')
    return found


def remove_global_func(name: str) -> None:
    """Remove the function registered as ``name``, if there is one."""
    _functions.pop(name, None)

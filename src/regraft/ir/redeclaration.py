"""The comparison of two declarations of an operator; functions are compared by their code.

A notebook cell that runs twice makes new functions of the same text. Two functions are the same if their code, their
defaults and their closures are the same. Functions of different modules must also read the same global values.
"""

from __future__ import annotations

from functools import partial
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np


def difference(one: Any, other: Any) -> bool:
    """True if two values of a declaration differ."""
    return not _same(one, other, set())


def _same(one: Any, other: Any, compared: set[tuple[int, int]]) -> bool:
    if one is other or (id(one), id(other)) in compared:
        return True
    compared.add((id(one), id(other)))
    match one, other:
        case FunctionType(), FunctionType():
            return _same_function(one, other, compared)
        case CodeType(), CodeType():
            return _same_code(one, other, compared)
        case partial(), partial():
            parts = ((one.func, other.func), (one.args, other.args), (one.keywords, other.keywords))
            return all(_same(a, b, compared) for a, b in parts)
        case (tuple(), tuple()) | (list(), list()):
            left, right = cast("list[Any]", one), cast("list[Any]", other)
            return (
                type(left) is type(right)
                and len(left) == len(right)
                and all(_same(a, b, compared) for a, b in zip(left, right, strict=True))
            )
        case dict(), dict():
            old, new = cast("dict[Any, Any]", one), cast("dict[Any, Any]", other)
            return old.keys() == new.keys() and all(_same(old[key], new[key], compared) for key in old)
        case (float(), float()) | (complex(), complex()):
            return repr(one) == repr(other)  # NaN equals NaN, and 0.0 differs from -0.0
        case np.ndarray(), np.ndarray():
            left, right = cast("np.ndarray[Any, Any]", one), cast("np.ndarray[Any, Any]", other)
            return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())
        case _:
            return type(one) is type(other) and bool(one == other)


def _same_function(one: FunctionType, other: FunctionType, compared: set[tuple[int, int]]) -> bool:
    defaults = ((one.__defaults__, other.__defaults__), (one.__kwdefaults__, other.__kwdefaults__))
    cells = [tuple([cell.cell_contents for cell in function.__closure__ or ()]) for function in (one, other)]
    said = [tuple([const for const in each.__code__.co_consts if const != each.__doc__]) for each in (one, other)]
    pairs = (*defaults, (cells[0], cells[1]), (said[0], said[1]), (_read_around(one), _read_around(other)))
    if one.__globals__ is other.__globals__:
        pairs = pairs[:-1]
    return _runs_alike(one.__code__, other.__code__) and all(_same(a, b, compared) for a, b in pairs)


def _read_around(function: FunctionType) -> tuple[Any, ...]:
    """The values of the global names that a function reads."""
    return tuple([function.__globals__.get(name) for name in function.__code__.co_names])


def _runs_alike(one: CodeType, other: CodeType) -> bool:
    """True if the instructions are the same, apart from their constants."""
    steps = [(code.co_code, code.co_names, code.co_varnames, code.co_freevars) for code in (one, other)]
    return steps[0] == steps[1]


def _same_code(one: CodeType, other: CodeType, compared: set[tuple[int, int]]) -> bool:
    return _runs_alike(one, other) and _same(one.co_consts, other.co_consts, compared)

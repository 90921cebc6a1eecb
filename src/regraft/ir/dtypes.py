"""Element types of tensors, by their Relax names.

A dtype is a plain interned string (``"float32"``, ``"int64"``, ``"bool"`` ...), as in Relax scripts. This
module lists the names, their kind and width, and the NumPy dtype that stores them. The narrow
floats and integers that NumPy lacks come from ``ml_dtypes``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from .errors import IRError

COMMON_DTYPES: Final = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)
"""The dtypes that most operators accept, as far as the dtypes are of the right kind."""

DTYPES: Final = (
    *COMMON_DTYPES,
    "complex64",
    "complex128",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
    "int2",
    "int4",
    "uint2",
    "uint4",
)
"""Every dtype name that a tensor may have."""

SUB_BYTE: Final[Mapping[str, int]] = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
"""The bits of an element, for dtypes narrower than a byte. In memory each element still takes one byte."""

HALF: Final = ("float16", "bfloat16")
"""The floating dtypes of two bytes."""

_NUMPY: Final[dict[str, np.dtype]] = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in DTYPES}
_INTERNED: Final = {name: sys.intern(name) for name in DTYPES}
_ALIASES: Final = {"float": "float32", "int": "int64", "double": "float64"}
_FLOATS: Final = frozenset(name for name in DTYPES if "float" in name)
_SIGNED: Final = frozenset(name for name in DTYPES if name.startswith("int"))
_UNSIGNED: Final = frozenset(name for name in DTYPES if name.startswith("uint"))
_BY_NUMPY: Final = {dtype: sys.intern(name) for name, dtype in _NUMPY.items()}


def as_written(number: Any) -> Any:
    """The number in an array of one element, as it was written before its dtype rounded it: 0.1, not 0.10000000149."""
    scalar = number.reshape(())[()]
    if not is_float(scalar.dtype.name):
        return scalar.item()
    if scalar.dtype.kind == "f":
        return float(str(scalar))  # NumPy writes the fewest digits that round to the number
    fewest = (float(f"{float(scalar):.{digits}g}") for digits in range(1, 10))
    return next((short for short in fewest if scalar.dtype.type(short) == scalar), float(scalar))


def converted(data: Any, dtype: str) -> Any:
    """``data`` cast to ``dtype``. A single number is cast from the number `as_written`."""
    data = data if data.size != 1 else np.full(data.shape, as_written(data))
    return data.astype(numpy_dtype(dtype))


def is_float(dtype: str | None) -> bool:
    """True if ``dtype`` is a floating type (bfloat16 and the 8-bit floats included)."""
    return dtype in _FLOATS


def is_integer(dtype: str | None) -> bool:
    """True if ``dtype`` is a signed or unsigned integer type; ``bool`` is not."""
    return dtype in _SIGNED or dtype in _UNSIGNED


def is_exact(dtype: str | None) -> bool:
    """True if ``dtype`` is an integer type or ``bool``: nothing is rounded, so results are the same everywhere."""
    return is_integer(dtype) or is_bool(dtype)


def is_unsigned(dtype: str | None) -> bool:
    """True if ``dtype`` is an unsigned integer type."""
    return dtype in _UNSIGNED


def is_bool(dtype: str | None) -> bool:
    """True if ``dtype`` is ``bool``."""
    return dtype == "bool"


@lru_cache(maxsize=1024)
def holds_all_of(wide: str, narrow: str) -> bool:
    """True if every value of ``narrow`` is known to be a value of ``wide``: a cast to ``wide`` and back is exact."""
    if is_integer(wide):
        low, high = _range_of(wide)
        return is_bool(narrow) or (is_integer(narrow) and low <= _range_of(narrow)[0] and _range_of(narrow)[1] <= high)
    if wide not in ("float64", "float32", *HALF):
        return wide == narrow or (wide, narrow) == ("complex128", "complex64")
    if not is_float(narrow):
        # The significand has one more bit than are stored.
        most = 2 ** (float_limits(wide).nmant + 1)
        return is_bool(narrow) or (is_integer(narrow) and max(map(abs, _range_of(narrow))) <= most)
    ours, theirs = float_limits(wide), float_limits(narrow)
    return (
        theirs.nmant <= ours.nmant
        and float(theirs.max) <= float(ours.max)
        and float(theirs.smallest_subnormal) >= float(ours.smallest_subnormal)
    )


def float_limits(dtype: str) -> Any:
    """NumPy's ``finfo`` for a floating dtype: ``eps``, ``max``, ``smallest_normal`` and more."""
    return cast("Any", ml_dtypes.finfo)(numpy_dtype(dtype))


def _range_of(dtype: str) -> tuple[int, int]:
    found: Any = ml_dtypes.iinfo(numpy_dtype(dtype))
    return int(found.min), int(found.max)


def numpy_dtype(dtype: str) -> np.dtype:
    """The NumPy dtype that stores ``dtype``; raises `IRError` for an unknown name."""
    found = _NUMPY.get(dtype)
    if found is None:
        raise IRError(f"unknown dtype {dtype!r}; the known ones are {', '.join(DTYPES)}")
    return found


def itemsize(dtype: str) -> int:
    """The number of bytes that one element takes in memory (sub-byte elements are stored one to a byte)."""
    return numpy_dtype(dtype).itemsize


@lru_cache(maxsize=256)
def _from_other(value: object) -> str:
    try:
        found = _BY_NUMPY.get(np.dtype(value))  # pyright: ignore[reportArgumentType, reportCallIssue]
    except TypeError:
        found = None
    if found is None:
        raise IRError(f"{value!r} is not a dtype that a tensor may have; the known ones are {', '.join(DTYPES)}")
    return found


def as_dtype(value: object) -> str:
    """The Relax name of ``value``: a dtype name, a NumPy dtype, or a Python or NumPy scalar type.

    Raises `IRError` if no tensor may have this dtype.
    """
    if isinstance(value, str):
        known = _INTERNED.get(value) or _ALIASES.get(value)
        if known is not None:
            return known
    return _from_other(value)


def as_optional_dtype(value: object) -> str | None:
    """The same as `as_dtype`, but None for ``None``, ``""`` and Relax's ``"void"``, which mean an unknown dtype."""
    if type(value) is str and (known := _INTERNED.get(value)) is not None:
        return known
    return None if value is None or value == "" or value == "void" else as_dtype(value)

"""Dtypes that hold all values of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regraft.ir.dtypes import DTYPES, holds_all_of, numpy_dtype


def every_value(dtype: str) -> np.ndarray[Any, Any]:
    """All values of a dtype of at most 16 bits."""
    held = numpy_dtype(dtype)
    bits = 8 * held.itemsize
    if dtype == "bool":
        return np.array([False, True])
    if dtype.endswith(("int2", "int4")):
        return np.arange(16).astype(held)
    patterns = np.arange(16 if dtype == "float4_e2m1fn" else 2**bits)
    return patterns.astype(f"uint{bits}").view(held)


NARROW = [one for one in DTYPES if numpy_dtype(one).itemsize <= 2]


@pytest.mark.parametrize("narrow", NARROW)
def test_a_cast_to_a_dtype_that_holds_all_values_and_back_changes_none(narrow: str) -> None:
    values = every_value(narrow)
    # NumPy casts integers of less than a byte to no others of less than a byte.
    wide = [one for one in DTYPES if holds_all_of(one, narrow) and not one.endswith(("int2", "int4"))]
    assert len(wide) > 1
    with np.errstate(all="ignore"):
        for one in wide:
            back = values.astype(numpy_dtype(one)).astype(values.dtype)
            assert np.array_equal(back.astype(float), values.astype(float), equal_nan=True), one


@pytest.mark.parametrize(
    ("wide", "narrow", "holds"),
    [
        ("float64", "int32", True),
        ("float64", "int64", False),
        ("float32", "int32", False),
        ("float16", "bfloat16", False),
        ("bfloat16", "float16", False),
        ("uint32", "int8", False),
        ("complex128", "complex64", True),
        ("complex64", "float32", False),
        ("bool", "int8", False),
        ("float32", "float64", False),
    ],
)
def test_what_wide_dtypes_hold(wide: str, narrow: str, holds: bool) -> None:
    assert holds_all_of(wide, narrow) is holds

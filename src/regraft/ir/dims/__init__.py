"""Sizes of tensor axes: integers, and exact arithmetic over unknown sizes.

A dim is an ``int`` or a `SymExpr`. A `SymVar` stands for an unknown integer that is **at least 0**, as every
size is. Expressions are immutable and canonical: a sum of integer coefficients times products of atoms.
An atom is a variable, a floor division, a floor remainder, a minimum or a maximum of canonical dims, or a
condition on them (`compare`), which is 1 if it holds and 0 otherwise.
Hence ``n + m == m + n``, ``(n * 4) // 4 == n``, and a result that depends on no variable is a plain
``int``.

``==`` compares canonical forms, as dicts and sets need. To compare the *values* of two sizes, use `dims_equal`,
`dim_less`, `dim_less_equal` and `dim_at_least`. They return True (for every value of the variables),
False (for no value) or None (it depends, or no proof was found).

Division and remainder round towards minus infinity, as in Python. A division by zero has no value. A rule here
holds only for sizes for which its left side has a value: ``(n * m) // n`` is ``m``, and nothing is said about
``n == 0``.

This package is the lowest of all: it uses no types, expressions or scripts.
"""

from __future__ import annotations

from .bounds import bounds as bounds
from .bounds import dim_at_least as dim_at_least
from .bounds import dim_less as dim_less
from .bounds import dim_less_equal as dim_less_equal
from .conditions import both as both
from .conditions import compare as compare
from .conditions import either as either
from .conditions import negation as negation
from .conditions import select as select
from .division import ceildiv as ceildiv
from .division import exact_divide as exact_divide
from .division import floordiv as floordiv
from .division import floormod as floormod
from .extremum import dim_max as dim_max
from .extremum import dim_min as dim_min
from .known import KnownSize as KnownSize
from .known import as_read as as_read
from .known import known_size as known_size
from .outermost import outermost as outermost
from .symbolic import Condition as Condition
from .symbolic import Dim as Dim
from .symbolic import FloorDiv as FloorDiv
from .symbolic import FloorMod as FloorMod
from .symbolic import Max as Max
from .symbolic import Min as Min
from .symbolic import Operation as Operation
from .symbolic import Select as Select
from .symbolic import SymExpr as SymExpr
from .symbolic import SymVar as SymVar
from .symbolic import add_all as add_all
from .symbolic import dim_product as dim_product
from .symbolic import free_symvars as free_symvars
from .symbolic import uses_of_symvars as uses_of_symvars
from .values import dims_equal as dims_equal
from .values import evaluate as evaluate
from .values import match_dim as match_dim
from .values import substitute as substitute

__all__: list[str] = ["Dim"]
__all__ += sorted([name for name, value in globals().items() if callable(value)])  # pyright: ignore[reportUnsupportedDunderAll]

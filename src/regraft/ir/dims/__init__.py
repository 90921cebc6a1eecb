"""Sizes of tensor axes: integers, and exact arithmetic over sizes that are not known yet.

A dim is an ``int`` or a `SymExpr`. A `SymVar` stands for an unknown integer that is **at least 0**, as every
size is. Expressions are immutable and canonical: a sum of integer coefficients times products of atoms,
where an atom is a variable, a floor division, a floor remainder, a minimum or a maximum of canonical dims, or a
condition on them (`compare`), which is 1 where it holds and 0 elsewhere.
Hence ``n + m == m + n``, ``(n * 4) // 4 == n``, and a result that depends on no variable is a plain
``int``.

``==`` compares canonical forms (it is what dicts and sets need). Whether two sizes *have* the same value is
another question, with three answers: `dims_equal`, `dim_less`, `dim_less_equal` and `dim_at_least` say True
(for every value of the variables), False (for no value) or None (it depends, or no proof was found).

Division and remainder round towards minus infinity, as in Python. A division by zero has no value, and
every rule here holds wherever its left side has one: ``(n * m) // n`` is ``m``, which says nothing of ``n
== 0``.

This room is the bottom of the house: it knows nothing of types, expressions or scripts.
"""

from __future__ import annotations

from .bounds import bounds, dim_at_least, dim_less, dim_less_equal
from .conditions import both, compare, either, negation, select
from .division import ceildiv, exact_divide, floordiv, floormod
from .extremum import dim_max, dim_min
from .symbolic import (
    Condition,
    Dim,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Operation,
    Select,
    SymExpr,
    SymVar,
    dim_product,
    free_symvars,
)
from .values import dims_equal, evaluate, match_dim, substitute

__all__ = [
    "Condition",
    "Dim",
    "FloorDiv",
    "FloorMod",
    "Max",
    "Min",
    "Operation",
    "Select",
    "SymExpr",
    "SymVar",
    "both",
    "bounds",
    "ceildiv",
    "compare",
    "dim_at_least",
    "dim_less",
    "dim_less_equal",
    "dim_max",
    "dim_min",
    "dim_product",
    "dims_equal",
    "either",
    "evaluate",
    "exact_divide",
    "floordiv",
    "floormod",
    "free_symvars",
    "match_dim",
    "negation",
    "select",
    "substitute",
]

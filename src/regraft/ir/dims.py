"""Sizes of tensor axes: integers, and exact arithmetic over sizes that are not known yet.

A dim is an ``int`` or a `SymExpr`. A `SymVar` stands for an unknown integer that is **at least 0**, as every size is.
Expressions are immutable and canonical: a sum of integer coefficients times products of atoms, where an atom is a
variable, a floor division, a floor remainder, a minimum or a maximum of canonical dims. Hence ``n + m == m + n``,
``(n * 4) // 4 == n``, and a result that does not depend on any variable is a plain ``int``.

``==`` compares canonical forms (it is what dicts and sets need). Whether two sizes *have* the same value is another
question, with three answers; `dims_equal`, `dim_less`, `dim_less_equal` and `dim_at_least` answer True (for every
value of the variables), False (for no value) or None (it depends, or no proof was found).

Division and remainder round towards minus infinity, as in Python. A division by zero has no value, and every rule
here holds wherever its left side has one: ``(n * m) // n`` is ``m``, though the former is undefined for ``n == 0``.

This room is the bottom of the house: it knows nothing of types, expressions or scripts.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping
from math import gcd
from typing import ClassVar, NoReturn, TypeAlias, cast

Dim: TypeAlias = "int | SymExpr"
Monomial: TypeAlias = "tuple[SymExpr, ...]"

_ONE: Monomial = ()
_serials = itertools.count()


class SymExpr:
    """A symbolic size in canonical form; made by arithmetic on `SymVar`, never directly.

    Sums cost time in the number of terms, products in the product of those numbers. Hash, bounds, text and free
    variables are computed once and kept. ``coefficients`` maps each product of atoms to its integer factor, in no
    particular order (`terms` is in order), and is not to be changed.
    """

    __slots__ = ("_bounds", "_free", "_hash", "_key", "_ordered", "_text", "coefficients")
    __array_ufunc__ = None  # NumPy integers leave the operation to the methods below

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.coefficients = terms
        self._hash: int | None = None
        self._key: tuple[int, ...] | None = None
        self._ordered: tuple[tuple[Monomial, int], ...] | None = None
        self._bounds: tuple[int | None, int | None] | None = None
        self._free: tuple[SymVar, ...] | None = None
        self._text: str | None = None

    @property
    def terms(self) -> tuple[tuple[Monomial, int], ...]:
        """The sum's (atoms, coefficient) pairs, greatest degree first, then oldest variable; a constant has no atoms."""
        if self._ordered is None:
            self._ordered = tuple(sorted(self.coefficients.items(), key=_term_key))
        return self._ordered

    @property
    def sort_key(self) -> tuple[int, ...]:
        """A key that differs for different expressions and orders them alike in every run."""
        if self._key is None:
            key = [_SUM_RANK, len(self.coefficients)]
            for monomial, coefficient in self.terms:
                key += (coefficient, len(monomial))
                for atom in monomial:
                    key += atom.sort_key
            self._key = tuple(key)
        return self._key

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """The least and the greatest value it is known to have; None where it has no known limit."""
        if self._bounds is None:
            self._bounds = _bounds_of(self)
        return self._bounds

    @property
    def free_symvars(self) -> tuple[SymVar, ...]:
        """The variables in it, each once, in the order in which they first occur."""
        if self._free is None:
            self._free = _variables_of(self)
        return self._free

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.coefficients.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return False
        that = cast(SymExpr, other)
        return hash(self) == hash(that) and self.coefficients == that.coefficients

    def __add__(self, other: Dim) -> Dim:
        if (right := _as_dim(other)) is None:
            return NotImplemented
        return _combine(self, right, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        if (right := _as_dim(other)) is None:
            return NotImplemented
        return _combine(self, right, -1)

    def __rsub__(self, other: Dim) -> Dim:
        if (left := _as_dim(other)) is None:
            return NotImplemented
        return _combine(_scale(self, -1), left, 1)

    def __mul__(self, other: Dim) -> Dim:
        if (right := _as_dim(other)) is None:
            return NotImplemented
        return _multiply(self, right)

    __rmul__ = __mul__

    def __neg__(self) -> SymExpr:
        return _scale(self, -1)

    def __pos__(self) -> SymExpr:
        return self

    def __floordiv__(self, other: Dim) -> Dim:
        if (divisor := _as_dim(other)) is None:
            return NotImplemented
        return floordiv(self, divisor)

    def __rfloordiv__(self, other: Dim) -> Dim:
        if (dividend := _as_dim(other)) is None:
            return NotImplemented
        return floordiv(dividend, self)

    def __mod__(self, other: Dim) -> Dim:
        if (divisor := _as_dim(other)) is None:
            return NotImplemented
        return floormod(self, divisor)

    def __rmod__(self, other: Dim) -> Dim:
        if (dividend := _as_dim(other)) is None:
            return NotImplemented
        return floormod(dividend, self)

    def _refuse_order(self, other: object) -> NoReturn:
        raise TypeError(
            f"{self} and {other} cannot be ordered with <, <=, > or >=: the answer may depend on symbolic sizes. "
            "Use dim_less or dim_less_equal, which answer True, False or None, or dim_min and dim_max"
        )

    __lt__ = __le__ = __gt__ = __ge__ = _refuse_order

    def __index__(self) -> NoReturn:
        raise TypeError(
            f"{self} is a symbolic size and has no integer value here: give its variables values with evaluate, "
            "or compute with it as it stands"
        )

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the truth of {self} is unknown, it is a symbolic size: ask dims_equal or dim_at_least"
        )

    def __copy__(self) -> SymExpr:
        return self

    def __deepcopy__(self, memo: object) -> SymExpr:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _sum_of_products, (self.terms,)

    def __str__(self) -> str:
        if self._text is None:
            self._text = _sum_text(self)
        return self._text

    def __repr__(self) -> str:
        return str(self)


class SymVar(SymExpr):
    """A size variable: an unknown integer that is at least 0.

    Each call makes a new variable: two of the same name are different. A copy is the variable itself; pickling keeps
    identity within one pickle. Variables order by age, so that what is printed is the same in every run.
    """

    __slots__ = ("_dtype", "_name", "_serial")

    def __init__(self, name: str, dtype: str = "int64") -> None:
        super().__init__({})
        self._name = name
        self._dtype = dtype
        self._serial = next(_serials)
        self._hash = hash((_VARIABLE_RANK, self._serial))
        self._key = (_VARIABLE_RANK, self._serial)
        self.coefficients = {(self,): 1}

    @property
    def name(self) -> str:
        """The name it prints under; it does not identify the variable."""
        return self._name

    @property
    def dtype(self) -> str:
        """The integer dtype of its value, such as ``"int64"``."""
        return self._dtype

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return cast(int, self._hash)

    def __reduce__(self) -> tuple[object, ...]:
        return SymVar, (self._name, self._dtype)

    def __str__(self) -> str:
        return self._name


class Operation(SymExpr):
    """An atom that is not a variable: `FloorDiv`, `FloorMod`, `Min` or `Max` of canonical operands."""

    __slots__ = ("_operands",)
    rank: ClassVar[int]

    def __init__(self, *operands: Dim) -> None:
        super().__init__({})
        self._operands = operands
        self._hash = hash((self.rank, operands))
        key = [self.rank, len(operands)]
        for operand in operands:
            key += _dim_key(operand)
        self._key = tuple(key)
        self.coefficients = {(self,): 1}

    @property
    def operands(self) -> tuple[Dim, ...]:
        """Dividend and divisor, or the two or more dims that the minimum or maximum is taken of."""
        return self._operands

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return False
        that = cast(Operation, other)
        return self._hash == that._hash and self._operands == that._operands

    def __hash__(self) -> int:
        return cast(int, self._hash)

    def __reduce__(self) -> tuple[object, ...]:
        return _operate, (type(self), self._operands)


class FloorDiv(Operation):
    """``operands[0] // operands[1]`` that no rule makes simpler."""

    __slots__ = ()
    rank = 3


class FloorMod(Operation):
    """``operands[0] % operands[1]`` that no rule makes simpler."""

    __slots__ = ()
    rank = 4


class Min(Operation):
    """The least of two or more operands, of which none is known to be it."""

    __slots__ = ()
    rank = 5


class Max(Operation):
    """The greatest of two or more operands, of which none is known to be it."""

    __slots__ = ()
    rank = 6


_VARIABLE_RANK, _INTEGER_RANK, _SUM_RANK = 0, 1, 2


# Sums and products


def _as_dim(value: object) -> Dim | None:
    if type(value) is int or isinstance(value, SymExpr):
        return value
    if hasattr(value, "__index__"):
        return operator.index(cast(int, value))
    return None


def _dim_key(dim: Dim) -> tuple[int, ...]:
    return dim.sort_key if isinstance(dim, SymExpr) else (_INTEGER_RANK, dim)


def _atom_key(atom: SymExpr) -> tuple[int, ...]:
    return atom.sort_key


def _monomial_key(monomial: Monomial) -> tuple[int, tuple[tuple[int, ...], ...]]:
    # Graded lexicographic, which products preserve: the long division below relies on that to end.
    return -len(monomial), tuple(atom.sort_key for atom in monomial)


def _term_key(term: tuple[Monomial, int]) -> tuple[int, tuple[tuple[int, ...], ...]]:
    return _monomial_key(term[0])


def _terms_of(dim: Dim) -> dict[Monomial, int]:
    if isinstance(dim, SymExpr):
        return dim.coefficients
    return {_ONE: dim} if dim else {}


def _from_terms(terms: dict[Monomial, int]) -> Dim:
    """The canonical dim of a sum whose coefficients are all non-zero: constants are ints, an atom is itself."""
    if not terms:
        return 0
    if len(terms) == 1:
        [(monomial, coefficient)] = terms.items()
        if not monomial:
            return coefficient
        if coefficient == 1 and len(monomial) == 1:
            return monomial[0]
    return SymExpr(terms)


def _combine(left: SymExpr, right: Dim, factor: int) -> Dim:
    """``left + right * factor``."""
    terms = left.coefficients.copy()
    for monomial, coefficient in _terms_of(right).items():
        total = terms.get(monomial, 0) + coefficient * factor
        if total:
            terms[monomial] = total
        else:
            del terms[monomial]
    return _from_terms(terms)


def _scale(dim: SymExpr, factor: int) -> SymExpr:
    """``dim * factor`` for a factor that is not 0."""
    return cast(SymExpr, _from_terms({atoms: value * factor for atoms, value in dim.coefficients.items()}))


def _multiply(left: SymExpr, right: Dim) -> Dim:
    if not isinstance(right, SymExpr):
        return _scale(left, right) if right else 0
    terms: dict[Monomial, int] = {}
    for left_atoms, left_coefficient in left.coefficients.items():
        for right_atoms, right_coefficient in right.coefficients.items():
            monomial = left_atoms + right_atoms
            if left_atoms and right_atoms:
                monomial = tuple(sorted(monomial, key=_atom_key))
            total = terms.get(monomial, 0) + left_coefficient * right_coefficient
            if total:
                terms[monomial] = total
            else:
                del terms[monomial]
    return _from_terms(terms)


def _product(monomial: Monomial, coefficient: int) -> Dim:
    return _from_terms({monomial: coefficient}) if coefficient else 0


def _sum_of_products(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    return _sum(dim_product((coefficient, *monomial)) for monomial, coefficient in terms)


def _sum(dims: Iterable[Dim]) -> Dim:
    total: Dim = 0
    for dim in dims:
        total = total + dim
    return total


def dim_product(dims: Iterable[Dim]) -> Dim:
    """The product of ``dims``; 1 when there are none."""
    product: Dim = 1
    for dim in dims:
        product = product * dim
    return product


# Division and remainder


def floordiv(dividend: Dim, divisor: Dim) -> Dim:
    """``dividend // divisor``, rounded towards minus infinity. Raises ZeroDivisionError for the divisor 0."""
    if not isinstance(divisor, SymExpr) and divisor == 0:
        raise ZeroDivisionError(f"({dividend}) // 0: a size cannot be divided by zero")
    if not isinstance(dividend, SymExpr) and not isinstance(divisor, SymExpr):
        return dividend // divisor
    if _leading_coefficient(divisor) < 0:
        dividend, divisor = -dividend, -divisor
    quotient, rest = _divide(dividend, divisor)
    return quotient + _proper_quotient(rest, divisor)


def floormod(dividend: Dim, divisor: Dim) -> Dim:
    """``dividend % divisor``, of the divisor's sign. Raises ZeroDivisionError for the divisor 0."""
    if not isinstance(divisor, SymExpr) and divisor == 0:
        raise ZeroDivisionError(f"({dividend}) % 0: a size cannot be divided by zero")
    if not isinstance(dividend, SymExpr) and not isinstance(divisor, SymExpr):
        return dividend % divisor
    if _leading_coefficient(divisor) < 0:
        return -floormod(-dividend, -divisor)
    if isinstance(divisor, int):
        dividend = _without_inner_remainders(dividend, divisor)
    _, rest = _divide(dividend, divisor, partial=True)
    if (known := _quotient_in_range(rest, divisor)) is not None:
        return rest - divisor * known
    factor = _common_factor(rest, divisor)
    if factor == 1:
        return FloorMod(rest, divisor)
    scaled, constant = _divide_by_factor(rest, factor)
    return factor * floormod(scaled, _divide_by_factor(divisor, factor)[0]) + constant


def ceildiv(dividend: Dim, divisor: Dim) -> Dim:
    """``dividend / divisor`` rounded towards plus infinity. Raises ZeroDivisionError for the divisor 0."""
    return -floordiv(-dividend, divisor)


def exact_divide(dividend: Dim, divisor: Dim) -> Dim | None:
    """``dividend / divisor`` where the dividend is known to be a multiple of it, else None.

    A symbolic divisor is taken not to be 0. For the divisor 0 the answer is None: no quotient is the right one.
    """
    if isinstance(dividend, int) and isinstance(divisor, int):
        return dividend // divisor if divisor and dividend % divisor == 0 else None
    if divisor == 0:
        return None
    for candidate in (dividend, _expand_divisions(dividend)):
        quotient, rest = _divide(candidate, divisor)
        if rest == 0:
            return quotient
    return None


def _leading_coefficient(dim: Dim) -> int:
    return dim.terms[0][1] if isinstance(dim, SymExpr) else dim


def _constant_of(dim: Dim) -> int:
    return dim.coefficients.get(_ONE, 0) if isinstance(dim, SymExpr) else dim


def _monomial_quotient(dividend: Monomial, divisor: Monomial) -> Monomial | None:
    rest = list(dividend)
    for atom in divisor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _divide(dividend: Dim, divisor: Dim, *, partial: bool = False) -> tuple[Dim, Dim]:
    """A quotient and the rest, ``dividend == quotient * divisor + rest``, by long division of polynomials.

    A term goes into the quotient if it is a multiple of the divisor's leading term. A constant multiple of it leaves
    a coefficient from 0 to the divisor's, so that dims that differ by a multiple of the divisor share their rest;
    with ``partial`` every term is reduced, towards zero. Dividing by a sum is done only if it shortens the dividend.
    """
    if isinstance(divisor, int):
        return _divide_by_term(dividend, _ONE, divisor, partial)
    (leading, coefficient), *others = divisor.terms
    if not others:
        return _divide_by_term(dividend, leading, coefficient, partial)
    quotient: Dim = 0
    work = dividend
    settled: set[Monomial] = set()
    while open_terms := [term for term in _terms_of(work).items() if term[0] not in settled]:
        # A step changes only this term and terms of lower order, so each is met once.
        monomial, value = min(open_terms, key=_term_key)
        settled.add(monomial)
        step, _ = _divide_by_term(_product(monomial, value), leading, coefficient, partial)
        quotient = quotient + step
        work = work - step * divisor
    return (quotient, work) if len(_terms_of(work)) < len(_terms_of(dividend)) else (0, dividend)


def _divide_by_term(dividend: Dim, atoms: Monomial, coefficient: int, partial: bool) -> tuple[Dim, Dim]:
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, value in _terms_of(dividend).items():
        count = 0
        quotient_atoms = _monomial_quotient(monomial, atoms) if atoms else monomial
        if quotient_atoms is not None:
            count, over = divmod(value, coefficient)
            if over and quotient_atoms and not partial:
                count = 0
            elif over and quotient_atoms and count < 0:
                count += 1
        if quotient_atoms is not None and count:
            quotient[quotient_atoms] = count
        if value != count * coefficient:
            rest[monomial] = value - count * coefficient
    return _from_terms(quotient), _from_terms(rest)


def _common_factor(rest: Dim, divisor: Dim) -> Dim:
    """What divides the divisor and the rest; the rest's constant is left out where the divisor is known positive."""
    monomials = [*_terms_of(rest).items(), *_terms_of(divisor).items()]
    shared: Monomial = monomials[0][0]
    for monomial, _ in monomials:
        rest_of_shared = list(monomial)
        kept: list[SymExpr] = []
        for atom in shared:
            if atom in rest_of_shared:
                rest_of_shared.remove(atom)
                kept.append(atom)
        shared = tuple(kept)
    skip_constant = shared == _ONE and dim_at_least(divisor, 0) is True
    content = gcd(*_terms_of(divisor).values())
    content = gcd(content, *(value for atoms, value in _terms_of(rest).items() if atoms or not skip_constant))
    return _product(shared, content)


def _divide_by_factor(dim: Dim, factor: Dim) -> tuple[Dim, int]:
    """The floor of ``dim / factor`` for a one-term factor, and the constant that rounding down took away."""
    [(atoms, content)] = _terms_of(factor).items()
    if atoms == _ONE:
        constant = _constant_of(dim) % content
        terms = _terms_of(dim - constant)
        return _from_terms({monomial: value // content for monomial, value in terms.items()}), constant
    quotient: dict[Monomial, int] = {}
    for monomial, value in _terms_of(dim).items():
        quotient[cast(Monomial, _monomial_quotient(monomial, atoms))] = value // content
    return _from_terms(quotient), 0


def _quotient_in_range(rest: Dim, divisor: Dim) -> int | None:
    """The quotient, where the bounds of both leave one only."""
    if rest == 0:
        return 0
    low, high = bounds(rest)
    if isinstance(divisor, int):
        if low is not None and high is not None and low // divisor == high // divisor:
            return low // divisor
        return None
    if low is not None and low >= 0 and dim_less(rest, divisor):
        return 0
    if high is not None and high < 0 and dim_at_least(rest + divisor, 0):
        return -1
    return None


def _proper_quotient(rest: Dim, divisor: Dim) -> Dim:
    """``rest // divisor`` for what `_divide` leaves, of which no multiple of the divisor can be split off."""
    if isinstance(rest, int) and isinstance(divisor, int):
        return rest // divisor
    if (known := _quotient_in_range(rest, divisor)) is not None:
        return known
    factor = _common_factor(rest, divisor)
    if factor != 1:
        return floordiv(_divide_by_factor(rest, factor)[0], _divide_by_factor(divisor, factor)[0])
    if dim_at_least(divisor, 0):  # it is positive then, for it cannot be 0
        if (merged := _merge_inner_quotient(rest, divisor)) is not None:
            return merged
        if _leading_coefficient(rest) < 0:
            rounded_up = divisor - 1 - rest
            if _leading_coefficient(_divide(rounded_up, divisor)[1]) >= 0:
                return -floordiv(rounded_up, divisor)
    return FloorDiv(rest, divisor)


def _merge_inner_quotient(rest: Dim, divisor: Dim) -> Dim | None:
    """``(p + x // a) // b`` is ``(a * p + x) // (a * b)`` for a positive b; with ``- x // a``, and a positive too, the
    inner quotient is rounded up. None unless there is exactly one such inner quotient."""
    inner = [
        (atoms[0], coefficient)
        for atoms, coefficient in _terms_of(rest).items()
        if len(atoms) == 1 and isinstance(atoms[0], FloorDiv) and abs(coefficient) == 1
    ]
    if len(inner) != 1:
        return None
    atom, sign = inner[0]
    inner_dividend, inner_divisor = atom.operands
    if sign < 0 and not dim_at_least(inner_divisor, 0):
        return None
    outer = (rest - atom * sign) * inner_divisor + inner_dividend * sign
    return floordiv(outer if sign > 0 else outer + inner_divisor - 1, divisor * inner_divisor)


def _without_inner_remainders(dim: Dim, divisor: int) -> Dim:
    """``dim`` modulo the divisor, with ``k * (x % d)`` as ``k * x`` where the divisor divides ``k * d``."""
    for atoms, coefficient in _terms_of(dim).items():
        if len(atoms) == 1 and isinstance(atoms[0], FloorMod):
            inner_dividend, inner_divisor = atoms[0].operands
            if isinstance(inner_divisor, int) and coefficient * inner_divisor % divisor == 0:
                dim = dim + (inner_dividend - atoms[0]) * coefficient
    return dim


def _expand_divisions(dim: Dim) -> Dim:
    """``dim`` with ``p % q`` as ``p - q * (p // q)`` and whole parts moved out of ``p // q``: longer, for proofs."""
    expanded: Dim = 0
    for monomial, coefficient in _terms_of(dim).items():
        product: Dim = coefficient
        for atom in monomial:
            product = product * (_expand_atom(atom) if isinstance(atom, (FloorDiv, FloorMod)) else atom)
        expanded = expanded + product
    return expanded


def _expand_atom(atom: FloorDiv | FloorMod) -> Dim:
    dividend, divisor = atom.operands
    quotient, rest = _divide(dividend, divisor, partial=True)
    floor = quotient + _proper_quotient(rest, divisor)
    return floor if isinstance(atom, FloorDiv) else dividend - divisor * floor


# Minimum and maximum


def dim_min(first: Dim, second: Dim) -> Dim:
    """The smaller of two dims."""
    if isinstance(first, int) and isinstance(second, int):
        return min(first, second)
    return _extremum(Min, (first, second))


def dim_max(first: Dim, second: Dim) -> Dim:
    """The greater of two dims."""
    if isinstance(first, int) and isinstance(second, int):
        return max(first, second)
    return _extremum(Max, (first, second))


def _extremum(kind: type[Min] | type[Max], operands: Iterable[Dim]) -> Dim:
    flat: dict[Dim, None] = {}
    for operand in operands:
        flat.update(dict.fromkeys(_alternatives(kind, operand)))
    kept: list[Dim] = []
    for operand in sorted(flat, key=_dim_key):
        if any(_decides(kind, other, operand) for other in kept):
            continue
        kept = [other for other in kept if not _decides(kind, operand, other)]
        kept.append(operand)
    if len(kept) == 1:
        return kept[0]
    shared = _shared_terms(kept)
    rests = [operand - shared for operand in kept]
    sign = 1
    if all(_leading_coefficient(rest) < 0 for rest in rests if isinstance(rest, SymExpr)):
        kind, sign = (Max if kind is Min else Min), -1
        rests = [-rest for rest in rests]
    constant = min(_constant_of(rest) for rest in rests)
    rests = [rest - constant for rest in rests]
    content = gcd(*(value for rest in rests for value in _terms_of(rest).values()))
    scaled = [_divide_by_term(rest, _ONE, content, False)[0] for rest in rests]
    return shared + (constant + content * kind(*sorted(scaled, key=_operand_order))) * sign


def _operand_order(dim: Dim) -> tuple[bool, tuple[int, ...]]:
    return isinstance(dim, int), _dim_key(dim)


def _decides(kind: type[Min] | type[Max], first: Dim, second: Dim) -> bool:
    """Whether the second operand can be left out because of the first."""
    return (dim_less_equal(first, second) if kind is Min else dim_less_equal(second, first)) is True


def _alternatives(kind: type[Min] | type[Max], operand: Dim) -> list[Dim]:
    """The operands that an operand stands for: those of a nested extremum, if it has one of the same sense."""
    nested = [
        (atoms[0], coefficient)
        for atoms, coefficient in _terms_of(operand).items()
        if len(atoms) == 1 and isinstance(atoms[0], Min if (kind is Min) == (coefficient > 0) else Max)
    ]
    if len(nested) != 1:
        return [operand]
    atom, coefficient = nested[0]
    rest = operand - atom * coefficient
    return [rest + inner * coefficient for inner in atom.operands]


def _shared_terms(operands: list[Dim]) -> Dim:
    """The terms that all operands have, constants aside."""
    first = _terms_of(operands[0]).items()
    shared = {
        atoms: value
        for atoms, value in first
        if atoms and all(_terms_of(operand).get(atoms) == value for operand in operands)
    }
    return _from_terms(shared)


# Comparison


def bounds(dim: Dim) -> tuple[int | None, int | None]:
    """The least and the greatest value ``dim`` is known to have, both included; None where no limit is known.

    Found once per expression. Cost: linear in the terms for sums of variables; where divisions, minima or maxima must
    be weighed against other terms, a search over at most `_MOST_ATOMS` of them.
    """
    return dim.bounds if isinstance(dim, SymExpr) else (dim, dim)


def dims_equal(first: Dim, second: Dim) -> bool | None:
    """Whether two dims have the same value: True for all sizes, False for none, None if that is not known."""
    if first is second:
        return True
    difference = first - second
    if isinstance(difference, int):
        return difference == 0
    expanded = _expand_divisions(difference)
    if isinstance(expanded, int):
        return expanded == 0
    for form in (difference, expanded):
        low, high = form.bounds
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        if _constant_of(form) % gcd(*(value for atoms, value in form.coefficients.items() if atoms)):
            return False
    return None


def dim_at_least(dim: Dim, least: int) -> bool | None:
    """Whether ``dim >= least``: True for all sizes, False for none, None if that is not known."""
    if isinstance(dim, int):
        return dim >= least
    low, high = dim.bounds
    if low is not None and low >= least:
        return True
    if high is not None and high < least:
        return False
    return None


def dim_less_equal(first: Dim, second: Dim) -> bool | None:
    """Whether ``first <= second``: True for all sizes, False for none, None if that is not known."""
    return dim_at_least(second - first, 0)


def dim_less(first: Dim, second: Dim) -> bool | None:
    """Whether ``first < second``: True for all sizes, False for none, None if that is not known."""
    return dim_at_least(second - first, 1)


_MOST_ATOMS = 3
_Limit: TypeAlias = "int | None"


def _bounds_of(dim: SymExpr) -> tuple[_Limit, _Limit]:
    if isinstance(dim, SymVar):
        return 0, None
    if isinstance(dim, Operation):
        return _operation_bounds(dim)
    low, negated_high = _lower_bound(dim, _MOST_ATOMS), _lower_bound(-dim, _MOST_ATOMS)
    high = None if negated_high is None else -negated_high
    # All values are alike modulo what divides every coefficient but the constant.
    constant, step = _constant_of(dim), gcd(*(value for atoms, value in dim.coefficients.items() if atoms))
    low = None if low is None else low + (constant - low) % step
    high = None if high is None else high - (high - constant) % step
    return low, high


def _operation_bounds(atom: Operation) -> tuple[_Limit, _Limit]:
    limits = [bounds(operand) for operand in atom.operands]
    if isinstance(atom, (FloorDiv, FloorMod)):
        (low, high), (divisor_low, divisor_high) = limits
        if divisor_low is not None and divisor_low >= 0:
            if isinstance(atom, FloorDiv):
                return _quotient_bounds(low, high, max(divisor_low, 1), divisor_high)
            tops = [] if divisor_high is None else [divisor_high - 1]
            tops += [high] if low is not None and low >= 0 and high is not None else []
            return 0, min(tops, default=None)
        if isinstance(atom, FloorMod):
            return (
                None if divisor_low is None else min(divisor_low + 1, 0),
                None if divisor_high is None else max(divisor_high - 1, 0),
            )
        if low is None or high is None:
            return None, None
        return -max(abs(low), abs(high)), max(abs(low), abs(high))
    lows = [low for low, _ in limits if low is not None]
    highs = [high for _, high in limits if high is not None]
    if isinstance(atom, Min):
        return min(lows) if len(lows) == len(limits) else None, min(highs, default=None)
    return max(lows, default=None), max(highs) if len(highs) == len(limits) else None


def _quotient_bounds(low: _Limit, high: _Limit, least: int, greatest: _Limit) -> tuple[_Limit, _Limit]:
    """The bounds of a floor quotient by a divisor from ``least``, at least 1, to ``greatest``."""
    if low is not None:
        low = low // least if low < 0 else (0 if greatest is None else low // greatest)
    if high is not None:
        high = high // least if high >= 0 else (-1 if greatest is None else high // greatest)
    return low, high


def _lower_bound(dim: Dim, fuel: int) -> _Limit:
    """The best of two ways: each term at its own least value; or first an atom replaced by a bound of its own that
    may cancel other terms, as ``n`` does in ``n - 4 * (n // 4) >= n - n``."""
    if isinstance(dim, int):
        return dim
    best: _Limit = 0
    pressed = False
    for atoms, coefficient in dim.coefficients.items():
        term_low, term_high = _monomial_bounds(atoms)
        limit = term_low if coefficient > 0 else term_high
        best = None if best is None or limit is None else best + coefficient * limit
        pressed = pressed or (coefficient < 0 and bool(atoms)) or limit is None
    if fuel == 0 or not pressed or len(dim.coefficients) == 1:
        return best
    linear = [
        (atoms[0], value) for atoms, value in dim.terms if len(atoms) == 1 and isinstance(atoms[0], Operation)
    ]
    for atom, coefficient in linear[:_MOST_ATOMS]:
        for choice in _weaker_forms(cast(Operation, atom), coefficient > 0):
            rest = dim - atom * coefficient
            limits: list[_Limit] = []
            for numerator, denominator in choice:
                limit = _lower_bound(rest * denominator + numerator * coefficient, fuel - 1)
                limits.append(None if limit is None else -(-limit // denominator))
            known = [limit for limit in limits if limit is not None]
            if len(known) == len(limits) and (best is None or min(known) > best):
                best = min(known)
    return best


def _weaker_forms(atom: Operation, below: bool) -> list[list[tuple[Dim, int]]]:
    """Bounds of an atom, below or above it, as (numerator, positive denominator) pairs.

    Each inner list is one bound: the atom is on the wanted side of at least one of its pairs.
    """
    operands = atom.operands
    if isinstance(atom, (Min, Max)):
        if isinstance(atom, Max) == below:
            return [[(operand, 1)] for operand in operands]
        return [[(operand, 1) for operand in operands]]
    dividend, divisor = operands
    if isinstance(divisor, int):
        if isinstance(atom, FloorMod):
            return [
                [(_expand_divisions(atom), 1)],
                *([[(dividend, 1)]] if not below and dim_at_least(dividend, 0) else []),
            ]
        return [[(dividend - (divisor - 1) if below else dividend, divisor)]]
    if not below and dim_at_least(divisor, 0) and dim_at_least(dividend, 0):
        return [[(dividend, 1)]]
    return []


def _monomial_bounds(atoms: Monomial) -> tuple[_Limit, _Limit]:
    low: _Limit = 1
    high: _Limit = 1
    for atom in atoms:
        atom_low, atom_high = atom.bounds
        if low is not None and low >= 0 and atom_low is not None and atom_low >= 0:
            high = (
                0
                if 0 in (high, atom_high)
                else None
                if high is None or atom_high is None
                else high * atom_high
            )
            low = low * atom_low
        elif low is None or high is None or atom_low is None or atom_high is None:
            low = high = None
        else:
            corners = (low * atom_low, low * atom_high, high * atom_low, high * atom_high)
            low, high = min(corners), max(corners)
    return low, high


# Values for variables


def free_symvars(dim: Dim) -> tuple[SymVar, ...]:
    """The variables in ``dim``, each once, in the order in which they first occur. Found once per expression."""
    return dim.free_symvars if isinstance(dim, SymExpr) else ()


def _variables_of(dim: SymExpr) -> tuple[SymVar, ...]:
    if isinstance(dim, SymVar):
        return (dim,)
    inner: Iterable[Dim]
    if isinstance(dim, Operation):
        inner = dim.operands
    else:
        inner = (atom for atoms, _ in dim.terms for atom in atoms)
    return tuple(dict.fromkeys(variable for part in inner for variable in free_symvars(part)))


def substitute(dim: Dim, mapping: Mapping[SymVar, Dim]) -> Dim:
    """``dim`` with all variables of ``mapping`` replaced at once; other variables stay.

    Raises ZeroDivisionError where a divisor becomes 0.
    """
    if isinstance(dim, int) or not mapping:
        return dim
    if isinstance(dim, SymVar):
        return mapping.get(dim, dim)
    if not any(variable in mapping for variable in dim.free_symvars):
        return dim
    if isinstance(dim, Operation):
        return _operate(type(dim), tuple(substitute(operand, mapping) for operand in dim.operands))
    return _sum(
        dim_product((coefficient, *(substitute(atom, mapping) for atom in atoms)))
        for atoms, coefficient in dim.terms
    )


def evaluate(dim: Dim, mapping: Mapping[SymVar, int]) -> int:
    """The value of ``dim`` for given sizes.

    Raises ValueError for a variable that has no value or a negative one, ZeroDivisionError where a divisor is 0.
    """
    for variable in free_symvars(dim):
        if variable not in mapping:
            raise ValueError(f"{dim} has no value: no size is given for {variable}")
        if mapping[variable] < 0:
            raise ValueError(f"{variable} = {mapping[variable]} in {dim}: a size is at least 0")
    return _value(dim, mapping)


def _value(dim: Dim, mapping: Mapping[SymVar, int]) -> int:
    if isinstance(dim, int):
        return dim
    if isinstance(dim, SymVar):
        return mapping[dim]
    if isinstance(dim, Operation):
        values = [_value(operand, mapping) for operand in dim.operands]
        if isinstance(dim, (FloorDiv, FloorMod)) and values[1] == 0:
            raise ZeroDivisionError(f"{dim} has no value: its divisor {dim.operands[1]} is 0")
        return cast(int, _operate(type(dim), tuple(values)))
    total = 0
    for atoms, coefficient in dim.coefficients.items():
        for atom in atoms:
            coefficient *= _value(atom, mapping)
        total += coefficient
    return total


def _operate(kind: type[Operation], operands: tuple[Dim, ...]) -> Dim:
    if kind is FloorDiv:
        return floordiv(*operands)
    if kind is FloorMod:
        return floormod(*operands)
    if all(isinstance(operand, int) for operand in operands):
        values = cast("tuple[int, ...]", operands)
        return min(values) if kind is Min else max(values)
    return _extremum(Min if kind is Min else Max, operands)


def match_dim(pattern: Dim, value: Dim, binding: dict[SymVar, Dim]) -> bool | None:
    """Whether ``pattern`` has the value ``value`` once its variables stand for what ``binding`` says.

    A pattern that is linear in one unbound variable, such as ``n`` or ``n * 4 + 1``, binds it: ``binding`` is
    extended if and only if the answer is True. A variable never stands for what is known to be negative. The
    variables of ``value`` are not the pattern's, even where they are the same objects.
    """
    unbound = [variable for variable in free_symvars(pattern) if variable not in binding]
    if not unbound:
        return dims_equal(substitute(pattern, binding), value)
    fresh = {variable: SymVar(variable.name, variable.dtype) for variable in unbound}
    expected = substitute(pattern, {**binding, **fresh})
    verdict = dims_equal(expected, value)
    if verdict is not None or len(unbound) != 1:
        return verdict
    [(variable, stand_in)] = fresh.items()
    factor = _terms_of(expected).get((stand_in,), 0)
    rest = expected - stand_in * factor
    if not factor or stand_in in free_symvars(rest):
        return None
    solution = exact_divide(value - rest, factor)
    if solution is None:
        return None
    if dim_at_least(solution, 0) is False:
        return False
    binding[variable] = solution
    return True


# Text


def _sum_text(dim: SymExpr) -> str:
    if isinstance(dim, Operation):
        return _operation_text(dim)
    # Terms that are added go first, so that text starts with a minus sign only where nothing is added.
    ordered = sorted(dim.terms, key=lambda term: term[1] < 0)
    text = ""
    for atoms, coefficient in ordered:
        sign, size = ("-", -coefficient) if coefficient < 0 else ("+", coefficient)
        factors = [
            _factor_text(atom) if len(atoms) > 1 or size != 1 or not text else str(atom) for atom in atoms
        ]
        if size != 1 or not atoms:
            factors.append(str(size))
        product = " * ".join(factors)
        text = f"{text} {sign} {product}" if text else product if sign == "+" else f"-{product}"
    return text


def _operation_text(atom: Operation) -> str:
    if isinstance(atom, (FloorDiv, FloorMod)):
        dividend, divisor = atom.operands
        symbol = "//" if isinstance(atom, FloorDiv) else "%"
        return f"{_dividend_text(dividend)} {symbol} {_factor_text(divisor)}"
    name = "T.min" if isinstance(atom, Min) else "T.max"
    text, *others = map(str, atom.operands)
    for other in others:
        text = f"{name}({text}, {other})"
    return text


def _factor_text(dim: Dim) -> str:
    """Text that can stand on either side of a product or quotient sign."""
    text = str(dim)
    atomic = isinstance(dim, (SymVar, Min, Max)) or (isinstance(dim, int) and dim >= 0)
    return text if atomic else f"({text})"


def _dividend_text(dim: Dim) -> str:
    is_product = isinstance(dim, SymExpr) and not isinstance(dim, Operation) and len(dim.coefficients) == 1
    return str(dim) if is_product and _leading_coefficient(dim) > 0 else _factor_text(dim)

"""Symbolic dims: sums of products of atoms, their arithmetic without division, order and text.

The rules of the operations (`FloorDiv` and the like) are in other modules, which set the functions that
build them: `Operation.build`.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn, TypeAlias, cast

from .known import as_read

if TYPE_CHECKING:
    from ..types import PrimType

Dim: TypeAlias = "int | SymExpr"
Monomial: TypeAlias = "tuple[SymExpr, ...]"
_OPERANDS: Final = {"a": (2, 0), "b": (2, 1), "condition": (3, 0), "true_value": (3, 1), "false_value": (3, 2)}
"""Relax's names of operands: the number of operands of the operation, and the operand's index."""

ONE: Monomial = ()
_serials = itertools.count()
_SORT_KEY: Final = operator.attrgetter("sort_key")


class SymExpr:
    """A symbolic size in canonical form; made by arithmetic on `SymVar`, never directly.

    The cost of a sum is linear in the number of terms, that of a product in the product of these numbers. Hash,
    bounds, text and free variables are computed once and kept. ``coefficients`` maps each product of atoms to its
    integer factor, in no particular order (`terms` is ordered); it must not be changed. ``known_bounds`` is the
    cache of `bounds`.
    """

    __slots__ = ("_free", "_hash", "_key", "_ordered", "_text", "coefficients", "known_bounds")
    __array_ufunc__ = None  # makes NumPy integers defer to the methods below

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.coefficients = terms
        self._hash: int | None = None
        self._key: tuple[int, ...] | None = None
        self._ordered: tuple[tuple[Monomial, int], ...] | None = None
        self.known_bounds: tuple[int | None, int | None] | None = None
        self._free: tuple[SymVar, ...] | None = None
        self._text: str | None = None

    @property
    def terms(self) -> tuple[tuple[Monomial, int], ...]:
        """The sum's (atoms, coefficient) pairs: greatest degree first, then oldest variable; the constant last."""
        if self._ordered is None:
            self._ordered = tuple(sorted(self.coefficients.items(), key=term_key))
        return self._ordered

    @property
    def sort_key(self) -> tuple[int, ...]:
        """A key that differs for different expressions and gives the same order in every run."""
        if self._key is None:
            key = [_SUM_RANK, len(self.coefficients)]
            for monomial, coefficient in self.terms:
                key += (coefficient, len(monomial))
                for atom in monomial:
                    key += atom.sort_key
            self._key = tuple(key)
        return self._key

    @property
    def free_symvars(self) -> tuple[SymVar, ...]:
        """The variables in the expression, each once, in order of first occurrence."""
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

    def same_as(self, other: object) -> bool:
        """True if ``other`` is the same object."""
        return self is other

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
        return FloorDiv.build(self, divisor)

    def __rfloordiv__(self, other: Dim) -> Dim:
        if (dividend := _as_dim(other)) is None:
            return NotImplemented
        return FloorDiv.build(dividend, self)

    def __mod__(self, other: Dim) -> Dim:
        if (divisor := _as_dim(other)) is None:
            return NotImplemented
        return FloorMod.build(self, divisor)

    def __rmod__(self, other: Dim) -> Dim:
        if (dividend := _as_dim(other)) is None:
            return NotImplemented
        return FloorMod.build(dividend, self)

    def __lt__(self, other: Dim) -> Dim:
        return self._compare("<", other)

    def __le__(self, other: Dim) -> Dim:
        return self._compare("<=", other)

    def __gt__(self, other: Dim) -> Dim:
        return self._compare(">", other)

    def __ge__(self, other: Dim) -> Dim:
        return self._compare(">=", other)

    def _compare(self, sign: str, other: Dim) -> Dim:
        """The condition ``self sign other``. `bool` of it raises TypeError if it is not decided."""
        right = _as_dim(other)
        return NotImplemented if right is None else Condition.compare(sign, self, right)

    def __getattr__(self, name: str) -> Dim:
        """An operand of the outermost operation, by the name that Relax's node has for it."""
        from .outermost import outermost

        names = _OPERANDS.get(name)
        operands = outermost(self)[1] if names else ()
        if names is None or names[0] != len(operands):
            raise AttributeError(f"this size has no {name!r}", name=name, obj=self)
        return as_read(operands[names[1]])

    def __index__(self) -> NoReturn:
        raise TypeError(
            f"{self} is a symbolic size and has no integer value here: give its variables values with "
            "evaluate, or compute with it as it stands"
        )

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the truth of {self} is unknown, it is a symbolic size: ask dims_equal, dim_less, dim_less_equal or "
            "dim_at_least, which answer True, False or None"
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
    """A size variable: an unknown integer of at least ``least`` (0, or None for a scalar that may be negative).

    Each call makes a new variable: two variables of the same name are different. A copy is the variable itself;
    pickling keeps identity within one pickle. Variables are ordered by age, so the printed text is the same
    in every run.
    """

    __slots__ = ("_serial", "dtype", "least", "name")

    def __init__(self, name: str, dtype: str = "int64", *, least: int | None = 0) -> None:
        super().__init__({})
        self.name: Final = name
        """The printed name; it does not identify the variable."""
        self.dtype: Final = dtype
        """The integer dtype of the value, such as ``"int64"``."""
        self.least: Final = least
        self._serial = next(_serials)
        self._hash = hash((_VARIABLE_RANK, self._serial))
        self._key = (_VARIABLE_RANK, self._serial)
        self.coefficients = {(self,): 1}

    @property
    def ty(self) -> PrimType:
        """The type of the value as a scalar."""
        from ..types import PrimType

        return PrimType(self.dtype)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return cast(int, self._hash)

    def __reduce__(self) -> tuple[object, ...]:
        return functools.partial(SymVar, least=self.least), (self.name, self.dtype)

    def __str__(self) -> str:
        return self.name


class Operation(SymExpr):
    """An atom that is not a variable: `FloorDiv`, `FloorMod`, `Min`, `Max`, a condition or a `Select`.

    Its operands are canonical. The constructor does not simplify. ``build`` of each class does, and returns an atom
    only if no rule applies.
    """

    __slots__ = ("operands",)
    rank: ClassVar[int]
    build: ClassVar[Callable[..., Dim]]

    def __init__(self, *operands: Dim) -> None:
        super().__init__({})
        self.operands: Final = operands
        """Dividend and divisor, the operands of a minimum or maximum (two or more), of a condition or of a select."""
        self._hash = hash((self.rank, operands))
        key = [self.rank, len(operands)]
        for operand in operands:
            key += dim_key(operand)
        self._key = tuple(key)
        self.coefficients = {(self,): 1}

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return False
        that = cast(Operation, other)
        return self._hash == that._hash and self.operands == that.operands

    def __hash__(self) -> int:
        return cast(int, self._hash)

    def __reduce__(self) -> tuple[object, ...]:
        return _build, (type(self), self.operands)


def _build(kind: type[Operation], operands: tuple[Dim, ...]) -> Dim:
    # Pickle finds a module's function by its name; `build` may be stored under another name.
    return kind.build(*operands)


class FloorDiv(Operation):
    """``operands[0] // operands[1]``, if no rule simplifies it."""

    __slots__ = ()
    rank = 3


class FloorMod(Operation):
    """``operands[0] % operands[1]``, if no rule simplifies it."""

    __slots__ = ()
    rank = 4


class Min(Operation):
    """The minimum of two or more operands, if it is not known which of them it is."""

    __slots__ = ()
    rank = 5


class Max(Operation):
    """The maximum of two or more operands, if it is not known which of them it is."""

    __slots__ = ()
    rank = 6


class Condition(Operation):
    """A comparison of sizes, or a logical operation on conditions: a value of 0 or 1. Its kinds are in `conditions`."""

    __slots__ = ()
    sign: ClassVar[str]
    compare: ClassVar[Callable[[str, Dim, Dim], Dim]]
    """The function that makes a comparison from its sign and operands."""


class Select(Operation):
    """``operands[1]`` if the condition ``operands[0]`` holds, else ``operands[2]``."""

    __slots__ = ()
    rank = 16


_VARIABLE_RANK, _INTEGER_RANK, _SUM_RANK = 0, 1, 2


def _as_dim(value: object) -> Dim | None:
    if type(value) is int or isinstance(value, SymExpr):
        return value
    # By NumPy's convention, an array type with `__array_ufunc__ = None` handles operators itself, so it is not a size.
    if hasattr(value, "__index__") and getattr(value, "__array_ufunc__", value) is not None:
        return operator.index(cast(int, value))
    return None


def dim_key(dim: Dim) -> tuple[int, ...]:
    """A sort key that gives dims the same order in every run."""
    return dim.sort_key if isinstance(dim, SymExpr) else (_INTEGER_RANK, dim)


def term_key(term: tuple[Monomial, int]) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """The sort key of the terms of a sum: greatest degree first, then oldest variable."""
    # The order is graded lexicographic, which products preserve; long division terminates because of that.
    monomial, _ = term
    return -len(monomial), tuple(atom.sort_key for atom in monomial)


def terms_of(dim: Dim) -> dict[Monomial, int]:
    """The terms of a dim: each product of atoms with its coefficient. The dict must not be changed."""
    if isinstance(dim, SymExpr):
        return dim.coefficients
    return {ONE: dim} if dim else {}


def from_terms(terms: dict[Monomial, int]) -> Dim:
    """The canonical dim of a sum whose coefficients are not 0: a constant as an int, a single atom as itself."""
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
    for monomial, coefficient in terms_of(right).items():
        total = terms.get(monomial, 0) + coefficient * factor
        if total:
            terms[monomial] = total
        else:
            del terms[monomial]
    return from_terms(terms)


def _scale(dim: SymExpr, factor: int) -> SymExpr:
    """``dim * factor``, if ``factor`` is not 0."""
    return cast(SymExpr, from_terms({atoms: value * factor for atoms, value in dim.coefficients.items()}))


def _multiply(left: SymExpr, right: Dim) -> Dim:
    if not isinstance(right, SymExpr):
        return _scale(left, right) if right else 0
    terms: dict[Monomial, int] = {}
    for left_atoms, left_coefficient in left.coefficients.items():
        for right_atoms, right_coefficient in right.coefficients.items():
            monomial = left_atoms + right_atoms
            if left_atoms and right_atoms:
                monomial = tuple(sorted(monomial, key=_SORT_KEY))
            total = terms.get(monomial, 0) + left_coefficient * right_coefficient
            if total:
                terms[monomial] = total
            else:
                del terms[monomial]
    return from_terms(terms)


def monomial_product(monomial: Monomial, coefficient: int) -> Dim:
    """A coefficient times a product of atoms."""
    return from_terms({monomial: coefficient}) if coefficient else 0


def _sum_of_products(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    return add_all(dim_product((coefficient, *monomial)) for monomial, coefficient in terms)


def add_all(dims: Iterable[Dim]) -> Dim:
    """The sum of ``dims``; 0 if there are none."""
    total: Dim = 0
    for dim in dims:
        total = total + dim
    return total


def dim_product(dims: Iterable[Dim]) -> Dim:
    """The product of ``dims``, multiplied in pairs; 1 if there are none. Cost: near linear in their atoms."""
    factors = list(dims)
    while len(factors) > 1:
        alone = factors[-1:] if len(factors) % 2 else []
        factors = [left * right for left, right in zip(factors[:-1:2], factors[1::2], strict=True)] + alone
    return factors[0] if factors else 1


def leading_coefficient(dim: Dim) -> int:
    """The coefficient of the first term; for an int, the int itself."""
    return dim.terms[0][1] if isinstance(dim, SymExpr) else dim


def constant_of(dim: Dim) -> int:
    """The constant term; 0 if there is none."""
    return dim.coefficients.get(ONE, 0) if isinstance(dim, SymExpr) else dim


def free_symvars(dim: Dim) -> tuple[SymVar, ...]:
    """The variables in ``dim``, each once, in order of first occurrence. Computed once per expression."""
    return dim.free_symvars if isinstance(dim, SymExpr) else ()


def _variables_of(dim: SymExpr) -> tuple[SymVar, ...]:
    if isinstance(dim, SymVar):
        return (dim,)
    atoms = (atom for monomial, _ in dim.terms for atom in monomial)
    inner = dim.operands if isinstance(dim, Operation) else atoms
    return tuple(dict.fromkeys(variable for part in inner for variable in free_symvars(part)))


def uses_of_symvars(dim: Dim) -> Iterator[SymVar]:
    """The variables in ``dim``, once for each use, in the order of the terms."""
    if isinstance(dim, SymVar):
        yield dim
    elif isinstance(dim, Operation):
        for operand in dim.operands:
            yield from uses_of_symvars(operand)
    elif isinstance(dim, SymExpr):
        for monomial, _ in dim.terms:
            for atom in monomial:
                yield from uses_of_symvars(atom)


def written_terms(dim: SymExpr) -> list[tuple[Monomial, int]]:
    """The terms of a sum in the order of its text.

    Positive terms come first, so the text starts with a minus sign only if there is no positive term.
    """
    return sorted(dim.terms, key=lambda term: term[1] < 0)


def _sum_text(dim: SymExpr) -> str:
    if isinstance(dim, Operation):
        return _operation_text(dim)
    text = ""
    for atoms, coefficient in written_terms(dim):
        sign, size = ("-", -coefficient) if coefficient < 0 else ("+", coefficient)
        alone = len(atoms) == 1 and size == 1 and bool(text or sign == "+")
        factors = [str(atom) if alone else _factor_text(atom) for atom in atoms]
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
    if isinstance(atom, Condition):
        return _condition_text(atom)
    if isinstance(atom, Select):
        return f"T.if_then_else({', '.join(map(str, atom.operands))})"
    name = "T.min" if isinstance(atom, Min) else "T.max"
    text, *others = map(str, atom.operands)
    for other in others:
        text = f"{name}({text}, {other})"
    return text


def _condition_text(condition: Condition) -> str:
    joins = condition.sign in ("and", "or")
    sides = [
        f"({side})" if isinstance(side, Condition) and not (joins and side.sign not in ("and", "or")) else str(side)
        for side in condition.operands
    ]
    return f"not {sides[0]}" if len(sides) == 1 else f"{sides[0]} {condition.sign} {sides[1]}"


def _factor_text(dim: Dim) -> str:
    """The text of ``dim``, in parentheses if a factor or divisor needs them."""
    text = str(dim)
    atomic = isinstance(dim, (SymVar, Min, Max, Select)) or (isinstance(dim, int) and dim >= 0)
    return text if atomic else f"({text})"


def _dividend_text(dim: Dim) -> str:
    is_product = isinstance(dim, SymExpr) and not isinstance(dim, Operation) and len(dim.coefficients) == 1
    return str(dim) if is_product and leading_coefficient(dim) > 0 else _factor_text(dim)

"""Size arithmetic: canonical forms, three-valued comparison, substitution, text; held against SymPy."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle
import random
import subprocess
from collections.abc import Callable, Iterable
from types import SimpleNamespace

import numpy as np
import pytest
import sympy
from hypothesis import assume, given
from hypothesis import strategies as st

from regraft.ir.dims import (
    Dim,
    Max,
    SymExpr,
    SymVar,
    bounds,
    ceildiv,
    dim_at_least,
    dim_less,
    dim_less_equal,
    dim_max,
    dim_min,
    dim_product,
    dims_equal,
    evaluate,
    exact_divide,
    floordiv,
    floormod,
    free_symvars,
    match_dim,
    substitute,
)

n, m, k = SymVar("n"), SymVar("m"), SymVar("k")
VARIABLES = (n, m, k)
SYMBOLS = {variable: sympy.Symbol(variable.name, integer=True, nonnegative=True) for variable in VARIABLES}

# Canonical forms


def test_the_order_of_operands_does_not_matter() -> None:
    assert n + m == m + n
    assert hash(n + m) == hash(m + n)
    assert n * m == m * n
    assert dim_min(n, m) == dim_min(m, n)
    assert hash(dim_max(n, m)) == hash(dim_max(m, n))


def test_products_are_expanded() -> None:
    assert (n + m) * 2 == 2 * n + 2 * m
    assert (n + m) * (n - m) == n * n - m * m
    assert n + n == 2 * n


def test_a_result_without_variables_is_an_int() -> None:
    assert type(n - n) is int
    assert n - n == 0
    assert (n + 3) - n == 3
    assert n * 0 == 0
    assert n % 1 == 0
    assert (4 * n + 6) % 4 == 2


def test_a_sum_that_comes_back_to_a_variable_is_that_variable() -> None:
    assert (n + m) - m is n
    assert n * 1 is n


def test_variables_of_one_name_are_different() -> None:
    other = SymVar("n")
    assert n != other
    assert n + 1 != other + 1
    assert dims_equal(n, other) is None
    assert type(n - other) is SymExpr


def test_numpy_integers_are_integers_on_both_sides() -> None:
    assert n + np.int64(3) == n + 3
    assert np.int64(3) + n == n + 3
    assert np.int32(12) // n == 12 // n
    assert all(type(value) is int for _, value in (n * np.int64(3)).terms)


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod])
def test_floats_are_refused_on_both_sides(operation: Callable[[object, object], object]) -> None:
    for operands in ((n, 0.5), (0.5, n)):
        with pytest.raises(TypeError, match="unsupported operand"):
            operation(*operands)


# Division and remainder


def test_multiples_of_the_divisor_leave_a_division() -> None:
    assert (n * 4) // 4 == n
    assert (4 * n + 8) // 4 == n + 2
    assert (4 * n + 3) // 4 == n
    assert (n + 4 * m) // 4 == n // 4 + m
    assert (n - 3) // 2 + 1 == (n - 1) // 2
    assert (n * m) // n == m
    assert (6 * n * m) // (4 * n) == (3 * m) // 2
    assert (n * m + m + 3) // (n + 1) == m + 3 // (n + 1)


def test_multiples_of_the_divisor_leave_a_remainder() -> None:
    assert (n + 4 * m) % 4 == n % 4
    assert (n * 5 - 1) % 4 == (n + 3) % 4
    assert (n * m + k) % n == k % n
    assert (2 * n) % 4 == 2 * (n % 2)
    assert (2 * n + 1) % 4 == 2 * (n % 2) + 1
    assert (n % 8) % 4 == n % 4


def test_nested_divisions_are_one_division() -> None:
    assert (n // 2) // 3 == n // 6
    assert ((n + 1) // 2 + 1) // 2 == (n + 3) // 4
    assert (m // n) // k == m // (n * k)
    assert (n - m // 2) // 3 == (2 * n - m + 1) // 6


def test_a_division_of_a_negated_size_is_rounded_up() -> None:
    assert -(-n // 4) == (n + 3) // 4
    assert ceildiv(n, 4) == (n + 3) // 4
    assert ceildiv(n, m) == -((-n) // m)
    assert (n // -4) == (-n) // 4
    assert n % -4 == -((-n) % 4)


def test_a_dividend_within_the_divisor_has_the_quotient_zero() -> None:
    assert (n % 4) // 4 == 0
    assert n // (n + 1) == 0
    assert n % (n + 1) == n
    assert (-1) % (n + 1) == n
    assert 3 // (n + 4) == 0


@pytest.mark.parametrize(
    "quotient",
    [
        lambda n, m, k: (2 * k + 1) // (2 * n - 2 * m),
        lambda n, m, k: (2 * k + 1) % (2 * n - 2 * m),
        lambda n, m, k: (k - m // (n - 3)) // 2,
        lambda n, m, k: (k + m // (n - 3)) // (m - 2),
        lambda n, m, k: (m - k) // (n - 3),
        lambda n, m, k: (n * m + k) % (m - n),
    ],
)
def test_divisors_of_either_sign_round_as_in_python(quotient: Callable[[Dim, Dim, Dim], Dim]) -> None:
    dim = quotient(n, m, k)
    for n_size, m_size, k_size in itertools.product(range(6), repeat=3):
        try:
            expected = quotient(n_size, m_size, k_size)
        except ZeroDivisionError:
            continue
        assert evaluate(dim, {n: n_size, m: m_size, k: k_size}) == expected


@pytest.mark.parametrize("divide", [floordiv, floormod, ceildiv])
@pytest.mark.parametrize("dividend", [n + 1, 7, 0])
def test_dividing_by_zero_names_the_dividend(divide: Callable[[Dim, Dim], Dim], dividend: Dim) -> None:
    with pytest.raises(ZeroDivisionError, match="cannot be divided by zero"):
        divide(dividend, 0)


def test_exact_divide_gives_a_quotient_only_where_it_is_exact() -> None:
    assert exact_divide(n * m * 12, m * 4) == 3 * n
    assert exact_divide(n * m * 12, m * 5) is None
    assert exact_divide(n * m, m * 4) is None
    assert exact_divide((n + m) * (n + 3), n + 3) == n + m
    assert exact_divide(n - n % 4, 4) == n // 4
    assert exact_divide(n + (-n) % 8, 8) == ceildiv(n, 8)
    assert exact_divide(12, 4) == 3
    assert exact_divide(12, 5) is None
    assert exact_divide(12, n) is None
    assert exact_divide(-6 * n, -3) == 2 * n


def test_exact_divide_by_zero_has_no_answer() -> None:
    assert exact_divide(0, 0) is None
    assert exact_divide(n, 0) is None


# Minimum and maximum


def test_an_operand_that_another_one_decides_is_left_out() -> None:
    assert dim_min(n, n + 1) is n
    assert dim_max(0, n) is n
    assert dim_min(n, 0) == 0
    assert dim_max(n % 4, 3) == 3
    assert dim_min(dim_min(n, m), n) == dim_min(n, m)
    assert dim_max(dim_min(n, m), n) is n


def test_nested_extrema_are_one() -> None:
    assert dim_min(dim_min(n, m) + 1, k) == dim_min(n + 1, dim_min(m + 1, k))
    assert dim_max(dim_max(n, m), k) == dim_max(n, dim_max(m, k))


def test_what_operands_share_stands_outside() -> None:
    assert dim_min(n + 1, m + 3) == dim_min(n, m + 2) + 1
    assert dim_min(4 * n, 4 * m) // 4 == dim_min(n, m)
    assert dim_max(n + m, n + k) == n + dim_max(m, k)


def test_the_minimum_of_negated_operands_is_the_negated_maximum() -> None:
    assert dim_min(-n, -m) == -dim_max(n, m)
    assert dim_min(-n, -5) == -dim_max(n, 5)
    assert dim_max(n - 3, 0) == dim_max(n, 3) - 3


# Comparison


def test_equality_of_values_has_three_answers() -> None:
    assert dims_equal(n + m, m + n) is True
    assert dims_equal(n, n + 1) is False
    assert dims_equal(n, m) is None
    assert dims_equal(n, 4) is None
    assert dims_equal(n, -1) is False
    assert dims_equal(3, 3) is True
    assert dims_equal(3, 4) is False


def test_sizes_of_different_parity_are_different() -> None:
    assert dims_equal(2 * n, 2 * m + 1) is False
    assert dims_equal(6 * n + 3 * m, 3 * k + 2) is False


def test_equality_sees_through_quotient_and_remainder() -> None:
    assert dims_equal(n // 4 * 4 + n % 4, n) is True
    assert dims_equal(m * (n // m) + n % m, n) is True
    assert dims_equal(n + (-n) % 8, 8 * ceildiv(n, 8)) is True
    assert dims_equal(5 * n // 4, n + n // 4) is True


def test_comparison_weighs_divisions_and_extrema_against_the_rest() -> None:
    assert dim_less_equal(n // 4 * 4, n) is True
    assert dim_less(n, n // 4 * 4 + 4) is True
    assert dim_less_equal(n // 4, n) is True
    assert dim_less_equal(n % m, n) is True
    assert dim_less_equal(dim_min(n, m), n) is True
    assert dim_less_equal(n, dim_max(n, m)) is True
    assert dim_less(dim_max(n, m), dim_min(n, m)) is False
    assert dim_less(n, n + m) is None
    assert dim_less(n + m, n) is False


def test_bounds_follow_from_sizes_being_at_least_zero() -> None:
    assert bounds(n) == (0, None)
    assert bounds(-n) == (None, 0)
    assert bounds(n % 4) == (0, 3)
    assert bounds(n % 4 - m) == (None, 3)
    assert bounds(dim_min(n, 5)) == (0, 5)
    assert bounds(n - m) == (None, None)
    assert bounds(7) == (7, 7)
    assert bounds(n % 3 * m) == (0, None)
    assert bounds((n % 3) * (m % 5)) == (0, 8)


def test_at_least_has_three_answers() -> None:
    assert dim_at_least(n + 1, 1) is True
    assert dim_at_least(n, 1) is None
    assert dim_at_least(n % 4, 4) is False
    assert dim_at_least(3, 4) is False


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
def test_ordering_operators_make_conditions_that_are_decided_when_the_sizes_are_known(sign: str) -> None:
    ordered = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[sign]
    for left, right in ((n, m), (n + 1, 3), (3, n)):
        condition = ordered(left, right)
        with pytest.raises(TypeError, match="ask dims_equal, dim_less"):
            bool(condition)
        for sizes in ({n: 2, m: 5}, {n: 5, m: 2}, {n: 3, m: 3}):
            known = ordered(evaluate(left, sizes), evaluate(right, sizes))
            assert bool(evaluate(condition, sizes)) == known


def test_a_symbolic_size_is_no_index_and_no_truth_value() -> None:
    for use in (int, range, operator.index):
        with pytest.raises(TypeError, match=r"n \+ 1 is a symbolic size"):
            use(n + 1)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="symbolic size"):
        bool(n)


# Values for variables


def test_substitution_is_simultaneous() -> None:
    assert substitute(n - m * 2, {n: m, m: n}) == m - n * 2
    assert substitute((n + 3) // 4, {n: 4 * m + 1}) == m + 1
    assert substitute(dim_min(n, m), {n: m + 1}) is m
    assert substitute(n, {m: 3}) is n
    assert substitute(5, {n: 3}) == 5


def test_substituting_a_zero_divisor_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        substitute(n // m, {m: 0})


def test_evaluation_names_what_is_missing_or_wrong() -> None:
    assert evaluate((n + 3) // 4 * m, {n: 6, m: 5}) == 10
    with pytest.raises(ValueError, match="no size is given for m"):
        evaluate(n + m, {n: 1})
    with pytest.raises(ValueError, match="m = -1"):
        evaluate(n + m, {n: 1, m: -1})
    with pytest.raises(ZeroDivisionError, match="divisor m is 0"):
        evaluate(n // m, {n: 1, m: 0})


def test_free_variables_come_in_the_order_of_the_text() -> None:
    assert free_symvars(m * n + k) == (n, m, k)
    assert free_symvars(k // m + 1) == (k, m)
    assert free_symvars(4) == ()


def test_the_product_of_no_dims_is_one() -> None:
    assert dim_product(()) == 1
    assert dim_product((2, n, 3, m)) == 6 * n * m
    assert dim_product((n, 0)) == 0


def test_matching_binds_an_unbound_variable() -> None:
    binding: dict[SymVar, Dim] = {}
    assert match_dim(n, m + 1, binding) is True
    assert binding == {n: m + 1}
    assert match_dim(n * 2, 2 * m + 2, binding) is True
    assert match_dim(n, m, binding) is False
    assert match_dim(n, k, binding) is None
    assert match_dim(3, 3, binding) is True
    assert binding == {n: m + 1}


def test_matching_solves_for_the_one_unbound_variable() -> None:
    binding: dict[SymVar, Dim] = {m: 3}
    assert match_dim(n * 4 + m, 11, binding) is True
    assert binding == {m: 3, n: 2}


def test_matching_without_a_solution_binds_nothing() -> None:
    binding: dict[SymVar, Dim] = {}
    assert match_dim(n * 4, 6, binding) is False
    assert match_dim(n + 4, 3, binding) is False
    assert match_dim(n, -1, binding) is False
    assert match_dim(n * 4, m, binding) is None
    assert match_dim(n + m, 4, binding) is None
    assert binding == {}


def test_a_pattern_variable_is_not_the_same_variable_in_the_value() -> None:
    binding: dict[SymVar, Dim] = {}
    assert match_dim(n + 1, n, binding) is True
    assert binding == {n: n - 1}
    assert match_dim(n * m, n * m, {}) is None


# Text and identity


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (n * 4 + 1, "n * 4 + 1"),
        (1 + m + n, "n + m + 1"),
        (4 - n, "4 - n"),
        (-n - m, "-n - m"),
        (-(n // 4), "-(n // 4)"),
        (m - n // 4, "m - n // 4"),
        (n // 4 * 4, "(n // 4) * 4"),
        ((n + 1) // 2 - 1, "(n + 1) // 2 - 1"),
        (n * 3 // 4, "n * 3 // 4"),
        (n // (m * 2), "n // (m * 2)"),
        (n % 4, "n % 4"),
        ((-n) % 4, "(-n) % 4"),
        (dim_min(n, m) + 1, "T.min(n, m) + 1"),
        (dim_max(n, dim_max(m, k)), "T.max(T.max(n, m), k)"),
        (n * n * m - n, "n * n * m - n"),
    ],
)
def test_text_is_what_a_script_says(dim: Dim, text: str) -> None:
    assert str(dim) == text
    assert repr(dim) == text


def test_copies_keep_the_identity_of_variables() -> None:
    dim = (n + 1) // m + dim_max(n, k)
    assert copy.deepcopy([n, dim]) == [n, dim]
    other, others = pickle.loads(pickle.dumps((n, dim)))
    assert other != n
    originals = {variable.name: variable for variable in VARIABLES}
    assert other in free_symvars(others)
    assert substitute(others, {copied: originals[copied.name] for copied in free_symvars(others)}) == dim


def test_text_and_hashes_do_not_depend_on_the_hash_seed(
    run_python: Callable[..., subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "from regraft.ir.dims import *\n"
        "v = [SymVar(name) for name in 'zyxwabcd']\n"
        "d = dim_product(v[:3]) + sum(x * (i + 1) for i, x in enumerate(reversed(v)))\n"
        "d = d + dim_min(v[0] // 3 + v[7], v[5] % v[2]) + dim_max(v[1] * v[4], v[3])\n"
        "print(d, hash(d), free_symvars(d), list({x: 0 for x in {d, *v}}))\n"
    )
    printed: set[str] = set()
    for seed in ("0", "1", "12345"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        finished = run_python("-c", program)
        assert finished.returncode == 0, finished.stderr
        printed.add(finished.stdout)
    [text] = printed
    assert text.startswith("z * y * x + ")


# Properties

LEAVES = st.one_of(st.sampled_from(VARIABLES), st.integers(-12, 12))
POLYNOMIAL_OPERATIONS = ("+", "-", "*")
ALL_OPERATIONS = ("+", "-", "*", "//", "%", "min", "max", "/up")
SCALES = st.integers(1, 12)


def trees(operations: Iterable[str]) -> st.SearchStrategy[object]:
    """Expression trees: a leaf, or (operation, left, right), often with a literal on the right."""
    names = st.sampled_from(tuple(operations))

    def grown(children: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
        return st.one_of(st.tuples(names, children, SCALES), st.tuples(names, children, children))

    return st.recursive(LEAVES, grown, max_leaves=8)


DIM_OPERATIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": floordiv,
    "%": floormod,
    "/up": ceildiv,
    "min": dim_min,
    "max": dim_max,
}
SYMPY_OPERATIONS: dict[str, Callable[[sympy.Expr, sympy.Expr], sympy.Expr]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": lambda left, right: sympy.floor(left / right),
    "%": lambda left, right: left - right * sympy.floor(left / right),
    "/up": lambda left, right: sympy.ceiling(left / right),
    "min": lambda left, right: sympy.Min(left, right),
    "max": lambda left, right: sympy.Max(left, right),
}


def dim_of(tree: object) -> Dim:
    """The dim that a tree describes; a tree that divides by a literal zero describes none."""
    if not isinstance(tree, tuple):
        return tree  # type: ignore[return-value]
    name, left, right = tree
    try:
        return DIM_OPERATIONS[name](dim_of(left), dim_of(right))
    except ZeroDivisionError:
        assume(False)
        raise


def sympy_of(tree: object) -> sympy.Expr:
    """The SymPy expression that a tree describes."""
    if isinstance(tree, SymVar):
        return SYMBOLS[tree]
    if not isinstance(tree, tuple):
        return sympy.Integer(tree)
    name, left, right = tree
    return SYMPY_OPERATIONS[name](sympy_of(left), sympy_of(right))


def polynomial_of(expression: sympy.Expr) -> Dim:
    """The dim of a SymPy expression of sums, products and powers."""
    if expression.is_Symbol:
        return next(variable for variable, symbol in SYMBOLS.items() if symbol == expression)
    if expression.is_Integer:
        return int(expression)
    if expression.is_Pow:
        base, exponent = expression.args
        return dim_product([polynomial_of(base)] * int(exponent))
    parts = [polynomial_of(part) for part in expression.args]
    return sum(parts) if expression.is_Add else dim_product(parts)


def value_of(tree: object, point: dict[SymVar, int]) -> int:
    """The value of a tree by plain integer arithmetic; raises ZeroDivisionError where it has none."""
    if isinstance(tree, SymVar):
        return point[tree]
    if not isinstance(tree, tuple):
        return tree  # type: ignore[return-value]
    name, left_tree, right_tree = tree
    left, right = value_of(left_tree, point), value_of(right_tree, point)
    plain: dict[str, Callable[[], int]] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "//": lambda: left // right,
        "%": lambda: left % right,
        "/up": lambda: -(-left // right),
        "min": lambda: min(left, right),
        "max": lambda: max(left, right),
    }
    return plain[name]()


def defined_points(*some_trees: object, count: int = 40) -> list[tuple[dict[SymVar, int], list[int]]]:
    """Points where all trees have values, with these: small sizes, which hit edges, and large ones."""
    generator = random.Random(0)
    points: list[tuple[dict[SymVar, int], list[int]]] = []
    for index in range(count):
        largest = (1, 3, 8, 1000)[index % 4]
        point = {variable: generator.randint(0, largest) for variable in VARIABLES}
        try:
            points.append((point, [value_of(tree, point) for tree in some_trees]))
        except ZeroDivisionError:
            continue
    return points


@given(trees(ALL_OPERATIONS))
def test_canonical_forms_have_the_value_of_the_expression(tree: object) -> None:
    dim = dim_of(tree)
    for point, [value] in defined_points(tree):
        assert evaluate(dim, point) == value


@given(trees(ALL_OPERATIONS))
def test_canonical_forms_agree_with_sympy(tree: object) -> None:
    dim = dim_of(tree)
    for point, [value] in defined_points(tree, count=3):
        symbolic = sympy_of(tree).xreplace({SYMBOLS[v]: sympy.Integer(size) for v, size in point.items()})
        assert symbolic == value
        assert evaluate(dim, point) == symbolic


@given(trees(POLYNOMIAL_OPERATIONS), trees(POLYNOMIAL_OPERATIONS))
def test_polynomials_are_equal_exactly_where_sympy_expands_them_alike(first: object, second: object) -> None:
    left, right = dim_of(first), dim_of(second)
    same = sympy.expand(sympy_of(first) - sympy_of(second)) == 0
    assert (left == right) is same
    assert (dims_equal(left, right) is True) is same


@given(trees(POLYNOMIAL_OPERATIONS))
def test_a_polynomial_and_its_factored_form_are_the_same_dim(tree: object) -> None:
    rebuilt, dim = polynomial_of(sympy.factor(sympy_of(tree))), dim_of(tree)
    assert rebuilt == dim
    assert hash(rebuilt) == hash(dim)
    assert str(rebuilt) == str(dim)


@given(trees(ALL_OPERATIONS), trees(ALL_OPERATIONS), st.integers(-3, 3))
def test_comparisons_are_never_contradicted(first: object, second: object, offset: int) -> None:
    for other in (second, ("+", first, offset), ("+", ("*", ("//", first, 4), 4), offset)):
        left, right = dim_of(first), dim_of(other)
        equal, less, less_equal = dims_equal(left, right), dim_less(left, right), dim_less_equal(left, right)
        for _, [left_value, right_value] in defined_points(first, other):
            assert equal in (None, left_value == right_value)
            assert less in (None, left_value < right_value)
            assert less_equal in (None, left_value <= right_value)


@given(trees(ALL_OPERATIONS))
def test_values_are_within_bounds(tree: object) -> None:
    low, high = bounds(dim_of(tree))
    for _, [value] in defined_points(tree):
        assert low is None or low <= value
        assert high is None or value <= high


@given(trees(ALL_OPERATIONS), trees(ALL_OPERATIONS), trees(ALL_OPERATIONS))
def test_substitution_commutes_with_evaluation(tree: object, for_n: object, for_m: object) -> None:
    mapping = {n: dim_of(for_n), m: dim_of(for_m)}
    try:
        substituted = substitute(dim_of(tree), mapping)
    except ZeroDivisionError:
        return  # some divisor is 0 for every value of the variables
    for point, [n_value, m_value] in defined_points(for_n, for_m):
        inner = {n: n_value, m: m_value, k: point[k]}
        if min(n_value, m_value) < 0:
            continue
        try:
            value = value_of(tree, inner)
        except ZeroDivisionError:
            continue
        assert evaluate(substituted, point) == value


@given(trees(ALL_OPERATIONS))
def test_text_evaluates_back_to_the_same_dim(tree: object) -> None:
    dim = dim_of(tree)
    names = {"n": n, "m": m, "k": k, "T": SimpleNamespace(min=dim_min, max=dim_max)}
    assert eval(str(dim), {"__builtins__": {}}, names) == dim


@given(trees(ALL_OPERATIONS), trees(ALL_OPERATIONS))
def test_an_exact_quotient_times_its_divisor_is_the_dividend(first: object, second: object) -> None:
    for dividend in (first, ("*", first, second)):
        quotient = exact_divide(dim_of(dividend), dim_of(second))
        if quotient is None:
            continue
        for point, [dividend_value, divisor_value] in defined_points(dividend, second):
            if divisor_value:
                assert evaluate(quotient, point) * divisor_value == dividend_value


@given(trees(ALL_OPERATIONS), st.integers(-3, 8), st.integers(1, 6))
def test_a_linear_pattern_binds_what_makes_it_equal(tree: object, offset: int, factor: int) -> None:
    binding: dict[SymVar, Dim] = {}
    value = dim_of(tree)
    pattern = n * factor + offset
    if match_dim(pattern, value, binding) is True:
        assert dims_equal(substitute(pattern, binding), value) is True
        assert list(binding) == [n]
    else:
        assert binding == {}


def test_atoms_are_built_only_where_nothing_is_simpler() -> None:
    assert isinstance(dim_max(n, m), Max)
    assert dim_max(n, m).operands == (n, m)  # type: ignore[union-attr]


@pytest.mark.parametrize("count", range(2, 9))
def test_the_parts_of_a_split_add_up_to_the_whole(count: int) -> None:
    size = SymVar("n")
    part = (size + count - 1) // count
    rest = [dim_max(dim_min(size - part * place, part), 0) for place in range(1, count)]
    assert dims_equal(sum(rest, part), size) is True
    assert dims_equal(sum(rest[1:], part), size) is None


def test_extrema_that_are_the_same_in_other_words_are_equal() -> None:
    n, m = SymVar("n"), SymVar("m")
    assert dims_equal(dim_min(n, m) + dim_max(n, m), n + m) is True
    assert dims_equal(dim_max(n - m, 0) + m, dim_max(n, m)) is True
    assert dims_equal(dim_max(dim_min(n - 2, m), 0), dim_max(n - 2, 0) - dim_max(n - 2 - m, 0)) is True
    assert dims_equal(dim_min(n, m), dim_max(n, m)) is None


def test_a_product_of_very_many_sizes_is_linear_in_them() -> None:
    sizes = [SymVar(f"n{index}") for index in range(20_000)]
    assert dim_product(sizes[:10]) == dim_product(reversed(sizes[:10]))
    assert len(free_symvars(dim_product(sizes))) == 20_000

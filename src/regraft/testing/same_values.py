"""Assertions that two programs compute the same values, or that a rule rewrites one program into another.

Programs run on the NumPy engine, on random inputs of the right dtypes and sizes. `regraft.reference.trials` draws the
inputs and defines the tolerances for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar, cast

import numpy as np

from ..ir.dims import SymVar
from ..ir.equality_report import assert_structural_equal
from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.program import Function
from ..ir.types import TensorType
from ..ir.visitor import iter_bindings
from ..op.evaluate import Evaluator
from ..reference.trials import NOT_ZERO, WHOLE, difference, random_arguments
from ..run import ExecutionError, build
from .special_values import Allowed, Special, special_arguments, special_difference

_Program = TypeVar("_Program", bound=Function | IRModule)

_WHOLES: Final = (WHOLE, (0, 1), (0, 0))
"""The ranges of integer inputs, tried in turn until indices are in range."""


class NotRunnableError(AssertionError):
    """The program fails on every choice of random inputs, so its values cannot be compared."""


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True) -> None:
    """Raise `AssertionError` unless two arrays have the same shape and their elements agree within the tolerances.

    The name and the default tolerances are Relax's. Accepts anything that NumPy can convert to an array.
    """
    left, right = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(left.shape, right.shape)
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=verbose)


def assert_same_values(
    before: _Program,
    after: _Program,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    approximate: float | None = None,
    seeds: Iterable[int] = range(3),
    special: Sequence[Special] = (),
    assumes_finite: bool = False,
    note: Callable[[str], None] | None = None,
) -> None:
    """Raise `AssertionError` unless both programs compute the same values from the same random inputs, for each seed.

    Every public function of ``before`` is run, and ``after`` must have it too. Dtypes, shapes and integers must be
    equal. Floats may differ by the relative tolerance ``rtol`` (if None, the dtype's tolerance, or ``approximate`` if
    that is larger) and the absolute tolerance ``atol``. The message gives the output, the largest error and both
    scripts. Raises `NotRunnableError` if ``before`` cannot be built, fails on all inputs, or divides integers by 0 on
    all of them.

    Afterwards one operand at a time holds each kind of ``special`` numbers. `special_difference` decides which
    differences are errors; ``note`` is called with the text of each other one. With ``assumes_finite``, values that are
    not finite before may become anything.
    """
    old, new = _as_module(before), _as_module(after)
    both = _text(before), _text(after)
    names = [name for name, function in old.items() if not function.is_private or isinstance(before, Function)]
    missing = [name for name in names if name not in new]
    if missing:
        raise AssertionError(f"the second program has no function {', '.join(missing)}; it has: {', '.join(new)}")
    try:
        first = build(old, target="numpy")
    except RegraftError as error:
        raise NotRunnableError(f"the first program cannot be built: {error}") from error
    second = build(new, target="numpy")
    for name in names:
        if len(old[name].params) != len(new[name].params):
            raise AssertionError(
                f"{name} takes {len(old[name].params)} parameters before and {len(new[name].params)} after"
            )
        arguments: list[Any] = []
        allowed = Allowed(rtol, atol, approximate, assumes_finite)
        for seed in seeds:
            arguments, expected = _run_first(old[name], first[name], seed)
            problem = _problem(second[name], arguments, expected, allowed)
            if problem is not None and divides_by_zero(old[name], arguments):
                arguments, expected = _run_first(old[name], first[name], seed, (NOT_ZERO,))
                if divides_by_zero(old[name], arguments):
                    raise NotRunnableError(f"{name} divides integers by 0 on all random inputs")
                problem = _problem(second[name], arguments, expected, allowed)
            for whole in _WHOLES[1:]:
                # Indices out of range may give NaN instead of an error. The same floats are drawn again.
                if problem is None or not _has_nan(expected):
                    break
                arguments, expected = _run_first(old[name], first[name], seed, (whole,))
                problem = _problem(second[name], arguments, expected, allowed)
            if problem is not None:
                raise _something_else(f"{name} computes something else after (inputs of seed {seed})", problem, *both)
        for kind, param, changed in special_arguments(old[name], arguments, len(both[0]), special):
            problem = _special_problem(kind, first[name], second[name], changed, allowed)
            where = f"where {param} holds {kind.value}"
            if problem is not None and problem[0]:
                raise _something_else(f"{name} computes something else after, {where}", problem[1], *both)
            if problem is not None and note is not None:
                note(f"{where}, {problem[1]}")


def _something_else(what: str, problem: str, before: str, after: str) -> AssertionError:
    return AssertionError(f"{what}: {problem}\n--- before\n{before}\n--- after\n{after}")


def _as_module(program: Function | IRModule) -> IRModule:
    return program if isinstance(program, IRModule) else IRModule({"main": program})


def _text(program: Function | IRModule) -> str:
    return program.script().strip()


def divides_by_zero(function: Function, arguments: Sequence[Any]) -> bool:
    """True if ``function`` divides an integer by 0. False if its values cannot be computed one by one.

    The NumPy engine returns 0 for such a division; other engines return something else or fail. So the result is no
    evidence about a rule.
    """
    given = dict(zip(function.params, arguments, strict=True))
    values = Evaluator({one.var: one.value for one in iter_bindings(function)}, given.__getitem__)
    for param, value in given.items():
        if isinstance(param.ty, TensorType):
            sizes = zip(param.ty.shape or (), np.shape(value), strict=False)
            values.sizes.update((dim, size) for dim, size in sizes if isinstance(dim, SymVar))
    try:
        values.value(function.body.body)
    except FloatingPointError:
        return True
    except Exception:
        # A program that cannot be evaluated here has already run on the engine.
        return False
    return False


def _run_first(
    function: Function, run: Callable[..., Any], seed: int, wholes: Iterable[tuple[int, int]] = _WHOLES
) -> tuple[list[Any], Any]:
    """Arguments that the program runs on, and its result. Raises `NotRunnableError` if all draws fail."""
    error: ExecutionError | None = None
    for divisible in (False, True):
        for whole in wholes:
            arguments = random_arguments(function, seed, whole=whole, divisible=divisible)
            try:
                return arguments, run(*arguments)
            except ExecutionError as failed:
                error = error or failed
    raise NotRunnableError(f"{function.name or 'the first program'} runs on no random inputs: {error}") from error


def _has_nan(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_nan, cast("tuple[Any, ...]", value)))
    return isinstance(value, np.ndarray) and bool(np.any(value != value))


def _problem(run: Callable[..., Any], arguments: list[Any], expected: Any, allowed: Allowed) -> str | None:
    try:
        actual = run(*arguments)
    except ExecutionError as error:
        return f"it fails: {error}"
    if allowed.assumes_finite:
        found = special_difference(Special.ZERO, expected, actual, allowed)
    else:
        found = difference(expected, actual, **allowed.tolerances)
    return None if found is None else str(found)


def _special_problem(
    kind: Special,
    first: Callable[..., Any],
    second: Callable[..., Any],
    arguments: list[Any],
    allowed: Allowed,
) -> tuple[bool, str] | None:
    """(True, text) for a difference that is an error, (False, text) for one worth a note, None if there is neither."""
    try:
        expected = first(*arguments)
    except ExecutionError:
        return None
    try:
        actual = second(*arguments)
    except ExecutionError as error:
        return True, f"it fails: {error}"
    found = special_difference(kind, expected, actual, allowed)
    return None if found is None else (not isinstance(found, str), str(found))


def assert_rewrites(
    before: _Program,
    rule: Callable[[_Program], _Program],
    after: _Program,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    seeds: Iterable[int] = range(3),
) -> None:
    """Raise `AssertionError` unless ``rule`` rewrites ``before`` into ``after``, and both compute the same values.

    ``rule`` is a rule, a rule set, or any callable from a program to a program. If the programs are functions, their
    names may differ. ``after=before`` asserts that the rule returns the program itself, unchanged.
    """
    rewritten = rule(before)
    if after is before:
        if rewritten is not before:
            raise AssertionError(f"the rule should leave this program alone, but made\n{_text(rewritten)}")
        return
    if rewritten is before:
        raise AssertionError(f"the rule left the program as it is; see why with regraft.explain\n{_text(before)}")
    wanted: Function | IRModule = after
    if isinstance(after, Function) and isinstance(rewritten, Function) and not after.is_private:
        wanted = after.with_attr("global_symbol", rewritten.attrs["global_symbol"]) if rewritten.name else after
    assert_structural_equal(rewritten, wanted)
    assert_same_values(before, rewritten, rtol=rtol, atol=atol, seeds=seeds)

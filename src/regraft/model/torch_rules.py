"""Rules from two PyTorch functions: both are exported on example inputs, and the second replaces the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any, Final, TypeAlias

from ..analysis.tensors import dtype_of
from ..formats.errors import ConvertError
from ..formats.torch import require_torch
from ..ir.dtypes import is_float
from ..ir.expr import Expr
from ..ir.module import IRModule
from ..ir.program import Function
from ..ir.visitor import iter_bindings
from ..pattern import DFPattern, Matchings
from ..rewrite import RewriteError, Rule, rule_from_module
from ..rewrite.rules import name_of

_LOOSE: Final = ("sizes", "dtypes")
_Exported: TypeAlias = dict[str, Function]
"""The functions ``pattern`` and ``replacement`` of a rule."""
_OTHERS: Final = {"float64": "double", "float16": "half", "bfloat16": "bfloat16"}
"""The other dtypes in which the functions of a rule for any dtype are exported, and the tensor methods that cast to
them.
"""


def rule_from_torch(
    before: Callable[..., Any],
    after: Callable[..., Any],
    examples: Sequence[Any],
    *,
    name: str = "",
    loose: Iterable[str] = (),
    approximate: float | None = None,
) -> Rule:
    """The rule that replaces the computation of ``before`` by that of ``after``, both functions of tensors.

    Args:
        before: a function over PyTorch's operators, or a module in eval mode. Each parameter matches any value of its
            type; Python numbers inside match exactly. It may return several tensors, which are replaced together.
        after: a function of the same parameters, in the same order, that returns as many tensors.
        examples: tensors to export both with. By default, the rule holds for their shapes and dtypes only.
        name: for messages and reports; by default the name of ``before``.
        loose: With ``"sizes"``, each size over 1 in the examples stands for any size; sizes stay equal if either
            function needs them equal, and sizes that the functions compute follow. With ``"dtypes"``, each dtype stands
            for any dtype of its kind (floating point, integer), the same one throughout; then the functions are also
            exported in float64, which keeps their numbers as they were written. PyTorch computes some operations on
            half precision in float32, for example with Python numbers, so a program in half precision has other
            operators. A rule of one value covers these too: the functions are exported in float16 and bfloat16 as well.
        approximate: the allowed change of the values, as a fraction of the largest; see `Rule`.

    A program that was read from PyTorch has the operators that ``before`` becomes. For a program from another source,
    look at ``from_torch(before)`` first. Raises `ConvertError` for functions that cannot be exported or read, and
    `RewriteError` for functions that make no rule. Cost: two exports, about a second; up to eight with loose dtypes.
    """
    require_torch()
    called = name or name_of(before)
    asked = tuple(loose)
    for one in asked:
        if one not in _LOOSE:
            raise RewriteError(f"rule {called!r}: loose={one!r}; expected of {', '.join(map(repr, _LOOSE))}")
    export = partial(_exported, before, after, name=called, any_size="sizes" in asked)
    forms = [export(examples)]
    if "dtypes" in asked and any(map(_is_float, examples)):
        forms = _in_every_dtype(export, examples, forms[0])
    rules = [
        rule_from_module(
            IRModule(functions),
            called,
            any_dtype="dtypes" in asked and at == 0,
            may_ask_more=True,
            approximate=approximate,
        )
        for at, functions in enumerate(forms)
    ]
    return _first_of(rules) if isinstance(rules[0].pattern, DFPattern) else rules[0]


def _in_every_dtype(
    export: Callable[[Sequence[Any]], _Exported], examples: Sequence[Any], functions: _Exported
) -> list[_Exported]:
    """``functions`` with their numbers as they were written, and separate forms for narrow floats."""
    forms = [functions]
    for dtype in _OTHERS:
        try:
            other = export([_in_dtype(example, dtype) for example in examples])
        except ConvertError:
            continue  # the functions have float32 weights, say
        is_alike = all(_are_alike(function, other[which], dtype) for which, function in forms[0].items())
        if dtype == "float64" and is_alike:
            forms[0] = other
        elif dtype != "float64" and not is_alike and _own_dtypes(forms[0]["pattern"]) <= {"float32", "float64"}:
            forms.append(other)
    return forms


def _first_of(rules: Sequence[Rule]) -> Rule:
    """One rule of one value that covers all of ``rules``; the first that matches applies."""
    first, *others = rules
    if not others:
        return first
    patterns = [rule.pattern for rule in rules if isinstance(rule.pattern, DFPattern)]

    def rewrite(expr: Expr, matchings: Matchings) -> Any:
        return next(rule for rule in rules if rule.pattern in matchings).rewriter(expr, matchings)

    return Rule(reduce(DFPattern.__or__, patterns), rewrite, first.name, approximate=first.approximate)


def _exported(
    before: Callable[..., Any], after: Callable[..., Any], examples: Sequence[Any], name: str, *, any_size: bool
) -> _Exported:
    from ..formats.torch.functions import function_from_torch

    functions: _Exported = {}
    for which, function in (("pattern", before), ("replacement", after)):
        try:
            functions[which] = function_from_torch(function, examples, any_size=any_size)
        except ConvertError as error:
            raise ConvertError(f"rule {name!r}: {which}: {error}") from error
    return functions


def _is_float(example: Any) -> bool:
    return hasattr(example, "is_floating_point") and example.is_floating_point()


def _in_dtype(example: Any, dtype: str) -> Any:
    return getattr(example, _OTHERS[dtype])() if _is_float(example) else example


def _own_dtypes(function: Function) -> set[str | None]:
    """The dtypes of the floating-point parameters."""
    return {dtype for param in function.params if is_float(dtype := dtype_of(param))}


def _are_alike(function: Function, other: Function, dtype: str) -> bool:
    """True if both have the same operators in the same order, and ``dtype`` in place of the first one's own dtypes."""
    own = _own_dtypes(function)
    both = [list(iter_bindings(one)) for one in (function, other)]
    operators = [[getattr(getattr(one.value, "op", None), "name", "") for one in bindings] for bindings in both]
    dtypes = [[dtype_of(one.var) for one in bindings] for bindings in both]
    return operators[0] == operators[1] and [dtype if one in own else one for one in dtypes[0]] == dtypes[1]

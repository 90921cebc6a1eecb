"""Rules from two functions of PyTorch: both are exported on example inputs, and one takes the place of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ..analysis.tensors import dtype_of
from ..formats.errors import ConvertError
from ..formats.torch import require_torch
from ..ir.dtypes import is_float
from ..ir.module import IRModule
from ..ir.program import Function
from ..ir.visitor import iter_bindings
from ..rewrite import RewriteError, Rule, rule_from_module
from ..rewrite.rules import name_of

_LOOSE: Final = ("sizes", "dtypes")


def rule_from_torch(
    before: Callable[..., Any],
    after: Callable[..., Any],
    examples: Sequence[Any],
    *,
    name: str = "",
    loose: Iterable[str] = (),
    approximate: float | None = None,
) -> Rule:
    """The rule that replaces what ``before`` computes by what ``after`` computes, both functions of tensors.

    Args:
        before: a function over PyTorch's operators, or a module in eval mode. Each parameter stands for any value of
            its type; Python numbers inside match exactly. It may return several tensors, which are replaced together.
        after: a function of the same parameters, in the same order, that returns as many tensors.
        examples: tensors to export both with. Without more, the rule is about their shapes and dtypes.
        name: for messages and reports; by default the name of ``before``.
        loose: ``"sizes"``: each size of the examples over 1 stands for any size, equal ones where either function
            needs them equal; sizes that the functions compute follow. ``"dtypes"``: each dtype stands for any of its
            kind (floating point, integer), the same throughout. Then the functions are also exported in float64,
            which has their numbers as they were written. Where PyTorch computes in float32 for half precision, a
            program in half precision has other operators: make another rule of examples in it.
        approximate: how far the values may change, as part of the largest; see `Rule`.

    A program that was read from PyTorch has the operators that ``before`` becomes; for one of another source, look at
    ``from_torch(before)`` first. Raises `ConvertError` for functions that cannot be exported or read, and
    `RewriteError` for functions that make no rule. Cost: two exports, about a second; four with loose dtypes.
    """
    require_torch()
    called = name or name_of(before)
    asked = tuple(loose)
    for one in asked:
        if one not in _LOOSE:
            raise RewriteError(f"rule {called!r}: loose={one!r}; expected of {', '.join(map(repr, _LOOSE))}")
    functions = _exported(before, after, examples, called, any_size="sizes" in asked)
    wide = [_in_double_precision(example) if "dtypes" in asked else example for example in examples]
    if any(one is not example for one, example in zip(wide, examples, strict=True)):
        try:
            exact = _exported(before, after, wide, called, any_size="sizes" in asked)
        except ConvertError:
            exact = functions  # the functions have float32 weights, say
        if all(_are_alike(function, exact[which]) for which, function in functions.items()):
            functions = exact
    return rule_from_module(
        IRModule(functions), called, any_dtype="dtypes" in asked, may_ask_more=True, approximate=approximate
    )


def _exported(
    before: Callable[..., Any], after: Callable[..., Any], examples: Sequence[Any], name: str, *, any_size: bool
) -> dict[str, Function]:
    from ..formats.torch.functions import function_from_torch

    functions: dict[str, Function] = {}
    for which, function in (("pattern", before), ("replacement", after)):
        try:
            functions[which] = function_from_torch(function, examples, any_size=any_size)
        except ConvertError as error:
            raise ConvertError(f"rule {name!r}: {which}: {error}") from error
    return functions


def _in_double_precision(example: Any) -> Any:
    is_narrow = hasattr(example, "is_floating_point") and example.is_floating_point()
    return example.double() if is_narrow else example


def _are_alike(narrow: Function, wide: Function) -> bool:
    """True if both have the same operators in the same order, and float64 where ``narrow`` has its own dtypes."""
    own = {dtype for param in narrow.params if is_float(dtype := dtype_of(param))}
    both = [list(iter_bindings(function)) for function in (narrow, wide)]
    operators = [[getattr(getattr(one.value, "op", None), "name", "") for one in bindings] for bindings in both]
    dtypes = [[dtype_of(one.var) for one in bindings] for bindings in both]
    return operators[0] == operators[1] and ["float64" if one in own else one for one in dtypes[0]] == dtypes[1]

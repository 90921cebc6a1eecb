"""Rules from two functions of PyTorch: both are exported on example inputs, and one takes the place of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ..formats.errors import ConvertError
from ..formats.torch import require_torch
from ..ir.module import IRModule
from ..ir.program import Function
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
            kind (floating point, integer), the same throughout.
        approximate: how far the values may change, as part of the largest; see `Rule`.

    A program that was read from PyTorch has the operators that ``before`` becomes; for one of another source, look at
    ``from_torch(before)`` first. Raises `ConvertError` for functions that cannot be exported or read, and
    `RewriteError` for functions that make no rule. Cost: two exports, about a second.
    """
    require_torch()
    from ..formats.torch.functions import function_from_torch

    called = name or name_of(before)
    asked = tuple(loose)
    for one in asked:
        if one not in _LOOSE:
            raise RewriteError(f"rule {called!r}: loose={one!r}; expected of {', '.join(map(repr, _LOOSE))}")
    functions: dict[str, Function] = {}
    for which, function in (("pattern", before), ("replacement", after)):
        try:
            functions[which] = function_from_torch(function, examples, any_size="sizes" in asked)
        except ConvertError as error:
            raise ConvertError(f"rule {called!r}: {which}: {error}") from error
    return rule_from_module(
        IRModule(functions), called, any_dtype="dtypes" in asked, may_ask_more=True, approximate=approximate
    )

"""Rules whose replacements call functions: these functions are added to the rewritten module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..analysis import all_global_vars
from ..ir.expr import GlobalVar
from ..ir.module import IRModule
from ..ir.program import Function
from .rules import PatternMatchingRewriter, Rule, RuleSet


def for_module(
    rules: PatternMatchingRewriter, module: IRModule
) -> tuple[PatternMatchingRewriter, dict[GlobalVar, Function]]:
    """The forms of ``rules`` for ``module``, and the functions that their replacements call."""
    functions: dict[GlobalVar, Function] = {}
    forms: list[Rule] = []
    for rule in rules.rules():
        if rule.in_module is not None:
            rule, own = rule.in_module(IRModule({**module.functions, **functions}))
            functions.update(own)
        forms.append(rule)
    return (RuleSet(forms) if functions else rules), functions


def with_called(module: IRModule, changed: Iterable[Function], functions: Mapping[GlobalVar, Function]) -> IRModule:
    """``module`` with the ``functions`` that ``changed`` calls, directly or through others."""
    pending = list(changed) if functions else []
    while pending:
        for name in all_global_vars(pending.pop()):
            if name in functions and name not in module.functions:
                module = module.with_function(name, functions[name])
                pending.append(functions[name])
    return module

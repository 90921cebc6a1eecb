"""The explanation of a model: what a level combines and fuses in it, what it leaves alone, and why.

The reasons come from the passes' own rules while they ran. If a rule did not match a place that resembles its pattern,
the place is reported with the obstacle: most of the pattern matches, and one part does not. Passes that only tidy up,
for example by moving axes, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, final

from ..ir.module import IRModule
from ..ir.op import Call, Op, Trait
from ..ir.program import Function
from ..ir.visitor import iter_bindings
from ..passes import Pass, PassContext, PassInstrument, PassReport
from ..pattern import DFPattern, chain, elementwise, has_trait, is_op, wildcard
from ..rewrite import Decline, Event, PatternMatchingRewriter, Rule, RuleSet, decline, explain
from ..rewrite.gate import ITSELF, UNCHANGED
from .chosen_passes import optimize_module

COMBINING: Final = (
    "FoldBatchnormToConv2D",
    "RecognizeOperators",
    "CombineParallelMatmul",
    "ReorderPermuteDimsAfterConcat",
    "ExpandMatmulOfSum",
    "AdjustMatmulOrder",
    "FuseAttention",
)
"""The passes of the levels that combine several operators into one or a few."""

_NUMBER: Final = re.compile(r"\d[\d.,]*")


# --- places that resemble the input of a pass, in a form that its rules do not match

_steps: Final[list[DFPattern]] = []
"""The patterns of the steps between a softmax and a product; a match has a list of calls for each."""


def _step(inner: DFPattern) -> DFPattern:
    """An operator that works on elements one by one, or a view, with ``inner`` as its first or second operand."""
    any_op = elementwise() | has_trait(Trait.VIEW)
    for operands in ((inner,), (wildcard(), inner)):
        _steps.append(any_op.dup()(*operands, varg_default_wildcard=True))
    return _steps[-2] | _steps[-1]


_product: Final = is_op("relax.matmul")(wildcard(), wildcard())
_shares: Final = is_op("relax.nn.softmax")(chain(elementwise() | has_trait(Trait.VIEW), until=_product, max=6))
_sum: Final = is_op("relax.matmul")(chain(_step, until=_shares, min=1, max=4), wildcard())
_read: Final = wildcard()
_norm: Final = is_op("relax.nn.batch_norm")(~is_op("relax.nn.conv2d")(_read, wildcard()), varg_default_wildcard=True)


def _operator_of(value: Any) -> str:
    """The operator that ``value`` calls, as messages name it; empty if ``value`` is not a call of an operator."""
    return value.op.name.removeprefix("relax.") if isinstance(value, Call) and isinstance(value.op, Op) else ""


def _between(_: Any, found: Any) -> Decline:
    between = [call for step in _steps for call in found.get(step, ())]
    names = [name for call in between if (name := _operator_of(call))]
    return decline(f"{' and '.join(names)} between the softmax and its product with the values is no part of attention")


def _after_another(expr: Any, _: Any, bindings: Any) -> Decline:
    read = bindings.get(expr.args[0], expr.args[0])
    what = _operator_of(read) or "no convolution"
    return decline(f"the normalization follows {what}; only one that follows nn.conv2d is folded")


_ALIKE: Final = {"FuseAttention": Rule(_sum, _between), "FoldBatchnormToConv2D": Rule(_norm, _after_another)}


@final
class _AppliedRules(PassInstrument):
    """The rules that each pass applies, by the name of the pass and the name of the rule."""

    sees_sequences = False

    def __init__(self) -> None:
        self.of: dict[str, dict[str, Rule]] = {}
        self._name = ""

    def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Note the pass that runs."""
        self._name = info.name

    def run_before_rewrite(self, program: Function | IRModule, rules: PatternMatchingRewriter) -> None:
        """Note the rules of the pass."""
        self.of.setdefault(self._name, {}).update((rule.name, rule) for rule in rules.rules())


_ENOUGH_PARTS: Final = 4
"""The number of matched parts that seldom match by chance; for a small pattern, half of its parts."""

_MOST_NEARLY: Final = 50


def _nearly(rules: Iterable[Rule], result: IRModule) -> dict[str, str]:
    """The bindings at which most of a rule's pattern matches, with the part that does not."""
    found: dict[str, tuple[int, str]] = {}
    for finding in explain(RuleSet(rules), result, limit=_MOST_NEARLY).findings:
        for miss in finding.misses:
            name, matched = miss.site.var.name_hint, miss.matched
            if (matched >= _ENOUGH_PARTS or 2 * matched >= miss.parts) and matched > found.get(name, (0, ""))[0]:
                found[name] = matched, f"nearly {finding.rule}; at {miss.place}, {miss.reason}"
    return {name: reason for name, (_, reason) in found.items()}


_MADE: Final = {"FuseAttention": ("nn.attention", "nn.attention_bias")}
"""The operators that a pass makes from several; its rules about such an operator only trim its operands."""


def _made_by(name: str, result: IRModule) -> set[str]:
    """The bindings that are already a result of the pass ``name``."""
    made = _MADE.get(name, ())
    return {one.var.name_hint for one in iter_bindings(result) if _operator_of(one.value) in made}


class Left(NamedTuple):
    """Places that a pass left alone for one reason: the reason's wording at the first place, and the bindings."""

    reason: str
    places: tuple[str, ...]


class Explained(NamedTuple):
    """One pass: how often it rewrote, and which places it left alone."""

    name: str
    rewrites: int
    left: tuple[Left, ...]


def explain_model(module: IRModule, level: int | str = "default") -> tuple[Explained, ...]:
    """The work of the combining and fusing passes of a level on ``module``, the most frequent reasons first.

    Reasons that differ only in names of bindings and in numbers count as one. Cost: that of optimizing.
    """
    reports: dict[str, list[PassReport]] = {}
    outer, rules = PassContext.current(), _AppliedRules()
    with PassContext(instruments=[*outer.instruments, rules], verify=outer.verify):
        done = optimize_module(module, level=level)
    for one in done.passes:
        if one.name in COMBINING:
            reports.setdefault(one.name, []).append(one)
    return tuple(
        _explained(name, found, done.module, rules.of.get(name, {}).values()) for name, found in reports.items()
    )


def _explained(name: str, reports: Iterable[PassReport], result: IRModule, rules: Iterable[Rule]) -> Explained:
    """One pass over all rounds in which it ran. A place that a later round rewrote does not count as left alone."""
    last: PassReport | None = None
    rewrites = 0
    for one in reports:
        rewrites += len(one.rewrote)
        last = one
    places: dict[str, list[str]] = {}
    wording: dict[str, str] = {}
    declined = last.declined if last is not None else ()
    left = {step.binding: step.reason or "" for step in declined if step.reason not in (UNCHANGED, ITSELF)}
    alike: list[Event] = []
    if name in _ALIKE:
        _ALIKE[name](result, listener=alike.append)
    left = _nearly(rules, result) | {event.var.name_hint: event.reason or "" for event in alike} | left
    for binding in _made_by(name, result).intersection(left):
        del left[binding]
    for binding, reason in left.items():
        key = _NUMBER.sub("#", re.sub(rf"\b{re.escape(binding)}\b", "#", reason))
        wording.setdefault(key, reason)
        places.setdefault(key, []).append(binding)
    ordered = sorted(places, key=lambda key: -len(places[key]))
    return Explained(name, rewrites, tuple(Left(wording[key], tuple(places[key])) for key in ordered))

"""The matcher that runs gives exactly the matches that the definition gives, on random patterns and blocks."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random
from typing import Any

from hypothesis import assume, event, example, given, settings
from hypothesis import strategies as st

from regraft.analysis.values import BlockView
from regraft.dpl import DFPattern, PatternContext, PatternError, chain, elementwise, is_op, wildcard
from regraft.ir import Constant, Expr, Op
from regraft.pattern.matcher.context_match import compiled_context
from regraft.pattern.matcher.match import CompiledPattern, compiled
from regraft.pattern.pattern import all_patterns
from tests.pattern.random_patterns import PatternWriter, RandomBlock, random_context, reordered

from .reference import context_matches, matches

SEEDS = st.integers(0, 2**32 - 1)


def identity(value: Any) -> object:
    """The identity of a value of a match; constants by content, since which copy is shown is open."""
    if isinstance(value, list):
        return tuple(identity(item) for item in value)
    if isinstance(value, Constant):
        return (value.data.dtype, value.data.shape, value.data.numpy().tobytes())
    return id(value) if value is None or hasattr(value, "ty") else str(value)


def frozen(match: dict[Any, Any]) -> frozenset[Any]:
    return frozenset((key, identity(value)) for key, value in match.items())


def described(match: dict[Any, Any]) -> str:
    return "; ".join(f"{key!r} -> {value!r}" for key, value in match.items())


def ways(
    form: CompiledPattern, block: RandomBlock, value: Expr, remembered: Any = None, most: int | None = None
) -> list[dict[Any, Any]]:
    """The first ``most`` matches, or all, that the compiled pattern finds at ``value``."""
    searches = form.searches(block.definitions, value, None, BlockView(block.block), remembered)
    return [search.shown() for search in islice(searches, most)]


@settings(max_examples=300)
@given(seed=SEEDS)
def test_chains_have_the_matches_of_their_definition_in_the_same_order(seed: int) -> None:
    random = Random(seed)
    block = RandomBlock(random, random.randint(2, 8))
    writer = PatternWriter(random, block.definitions, chains=True)
    hold_to_definition(writer.pattern(random.choice(block.values()), random.randint(1, 3)), block)


@settings(max_examples=300)
@given(seed=SEEDS)
@example(seed=50002905)  # a chain in a chain, of which the first way is passed over
@example(seed=9302889)  # a chain in a chain, whose end stands in its links as well
def test_what_is_remembered_of_chains_changes_no_match(seed: int) -> None:
    random = Random(seed)
    block = RandomBlock(random, random.randint(2, 8))
    writer = PatternWriter(random, block.definitions, chains=True)
    end = writer.pattern(random.choice(block.values()), random.randint(0, 2))
    values, remembered, least = random.choices(block.values(), k=12), dict[Any, Any](), random.randint(0, 2)
    link = random.choice([elementwise(), is_op("relax.exp") | is_op("relax.add")(wildcard(), wildcard())])
    for pattern in (chain(link, end, min=least), is_op("relax.negative")(chain(elementwise(), end))):
        try:
            for value in values:
                most = random.choice([1, 1, 2, 3, None])
                want = [frozen(m) for m in ways(compiled(pattern), block, value)]
                got = [frozen(m) for m in ways(compiled(pattern), block, value, remembered, most)]
                assert got == want[:most], f"{pattern!r} at {value.name_hint} in\n{block.block!r}"
        except PatternError:
            assume(False)
    event(f"something is remembered: {any(any(known.values()) for known in remembered.values())}")


@settings(max_examples=400)
@given(seed=SEEDS)
def test_a_compiled_pattern_has_the_matches_of_its_definition_in_the_same_order(seed: int) -> None:
    random = Random(seed)
    block = RandomBlock(random, random.randint(2, 8))
    root = random.choice(block.values())
    hold_to_definition(PatternWriter(random, block.definitions).pattern(root, random.randint(1, 3)), block)


def hold_to_definition(pattern: DFPattern, block: RandomBlock) -> None:
    """Assert that a pattern has the matches of its definition at each value, the same one first."""
    found_any = False
    for value in block.values():
        try:
            got = ways(compiled(pattern), block, value)
        except PatternError:
            assume(False)
        want = list(matches(pattern, block.definitions, value, block.block))
        message = f"{pattern!r} at {value.name_hint} in\n{block.block!r}\ngot {[*map(described, got)]}"
        assert {frozen(m) for m in got} == {frozen(m) for m in want}, message
        assert not want or frozen(got[0]) == frozen(want[0]), f"another first match: {message}"
        found_any = found_any or bool(want)
    event(f"the pattern matches: {found_any}")


@settings(max_examples=200)
@given(seed=SEEDS)
def test_a_pattern_whose_parts_are_shared_between_its_places_has_the_matches_of_its_definition(seed: int) -> None:
    random = Random(seed)
    block = RandomBlock(random, random.randint(2, 8))
    values = block.values()
    pattern = PatternWriter(random, block.definitions).pattern(random.choice(values), random.randint(1, 3))
    entangled = pattern | (pattern.has_dtype("float32") & wildcard()) | is_op("relax.exp")(pattern)
    for root in (pattern, entangled):
        try:
            form = CompiledPattern(root)
        except PatternError:
            assume(False)
        for value in values:
            got = {frozen(m) for m in ways(form, block, value)}
            want = {frozen(m) for m in matches(root, block.definitions, value, block.block)}
            assert got == want, f"{root!r} at {value.name_hint} in\n{block.block!r}"


@settings(max_examples=400)
@given(seed=SEEDS)
def test_the_order_of_alternatives_arguments_and_fields_never_decides_whether_a_pattern_matches(seed: int) -> None:
    random = Random(seed)
    block = RandomBlock(random, random.randint(2, 8))
    root = random.choice(block.values())
    try:
        pattern = PatternWriter(random, block.definitions).pattern(root, random.randint(1, 3))
        other = reordered(random, pattern)
        for value in block.values():
            message = f"{pattern!r} against {other!r} at {value.name_hint} in\n{block.block!r}"
            assert pattern.match(value, block.definitions) == other.match(value, block.definitions), message
    except PatternError:
        assume(False)


def shared_parts(context: PatternContext) -> list[DFPattern]:
    """The patterns that stand in more than one root, or that a repeat shares."""
    count = Counter(part for root in context.roots() for part in all_patterns(root))
    return [p for p, n in count.items() if n > 1 and not isinstance(getattr(p, "expr", None), Op)]


def outline(match: dict[Any, Any], patterns: list[DFPattern]) -> frozenset[Any]:
    """The values that the patterns stand for."""
    return frozen({p: match[p] for p in patterns if p in match})


def up_to_alike_roots(match: dict[Any, Any], context: PatternContext) -> object:
    """A match of which it does not show which of several roots of one form stands for which value."""
    roots = Counter((repr(root), identity(match[root])) for root in context.roots())
    return (frozenset(roots.items()), outline(match, shared_parts(context)))


@settings(max_examples=400)
@given(seed=SEEDS)
@example(seed=1000540)  # a field that is shared, and written as a field in one of its places only
@example(seed=70013296)  # a value that the elements of a repeat share, and that some of them leave out
def test_a_compiled_context_has_the_matches_of_its_definition_up_to_alike_roots(seed: int) -> None:
    random = Random(seed)
    block = RandomBlock(random, random.randint(2, 7))
    try:
        context = random_context(random, block)
        assume(context.roots())
        got = list(compiled_context(context).search(BlockView(block.block)))
    except PatternError:
        assume(False)
    want = list(context_matches(context, block.block))
    patterns = [*context.roots(), *shared_parts(context)]
    message = f"{[*map(repr, context.roots())]} {context.uses} in\n{block.block!r}\n{[*map(described, got)]}"
    assert {outline(m, patterns) for m in got} <= {outline(m, patterns) for m in want}, f"wrong match: {message}"
    missing = {up_to_alike_roots(m, context) for m in want} - {up_to_alike_roots(m, context) for m in got}
    assert not missing, f"missing {missing}: {message}"
    event(f"the context matches: {bool(want)}")

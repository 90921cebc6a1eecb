"""The short functions that people write patterns with, under Relax's names and in Relax's argument order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..ir.dims import Dim
from ..ir.expr import Expr
from ..ir.op import Op, Trait
from .chain_pattern import NO_PLACE, ChainPattern, HolePattern
from .constrained_patterns import AttrPattern, DataTypePattern
from .context import forget_made
from .derived import describe, duplicate
from .leaf_patterns import (
    ConstantPattern,
    DataflowVarPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    OpPattern,
    PrimArrPattern,
    ScalarPattern,
    VarPattern,
    WildcardPattern,
)
from .parts import bindable, fixed_op
from .pattern import (
    AndPattern,
    CallPattern,
    DFPattern,
    Extent,
    IfPattern,
    NotPattern,
    OrPattern,
    PatternError,
    RepeatPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    all_patterns,
    checked,
)
from .possible import warn_if_impossible


def wildcard() -> WildcardPattern:
    """Any value."""
    return WildcardPattern()


def is_op(op_name: str | Op | Callable[[Op], bool], *others: str | Op) -> ExprPattern | OpPattern | OrPattern:
    """The operator of that name; call the result to match its calls: ``is_op("relax.add")(x, y)``.

    Several names stand for any one of them: ``is_op("relax.add", "relax.subtract")(x, y)``. An operator stands for
    itself, and a function for the operators of which it holds: ``is_op(lambda op: op.is_commutative)``.
    ``"com.elsewhere::Whiten"`` is the operator that files name so, declared as ``com.elsewhere.Whiten`` or foreign.
    Raises `IRError` with near names when there is no such operator.
    """
    if others:
        return is_op(op_name) | is_op(*others)
    if isinstance(op_name, str) and "::" in op_name:
        declared = Op.find(op_name.replace("::", "."))
        if declared is None:
            return OpPattern(lambda op: op.is_foreign and op.name == op_name, op_name)
        op_name = declared
    if isinstance(op_name, str):
        return ExprPattern(Op.get(op_name))
    return ExprPattern(op_name) if isinstance(op_name, Op) else OpPattern(op_name)


def has_trait(*traits: Trait) -> OpPattern:
    """Any operator with these traits, ``Trait.COMMUTATIVE`` say."""
    wanted = frozenset(traits)
    for trait in traits:
        if not isinstance(trait, Trait):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PatternError(f"{trait!r} is no trait; they are rx.Trait.ELEMENTWISE and the like")
    return OpPattern(lambda op: wanted <= op.traits, " ".join(trait.name.lower() for trait in traits))


def elementwise() -> OpPattern:
    """Any elementwise operator: ``elementwise()(x, y)`` is a call of one with two operands."""
    return has_trait(Trait.ELEMENTWISE)


def is_const(value: float | None = None, rtol: float = 0.0) -> ConstantPattern:
    """Any constant tensor; with ``value``, one of a single number that is ``value`` in whatever dtype it has.

    ``is_const(0.1)`` is 0.1 as float32 holds it in a float32 program, and as float16 holds it in a float16 one, to the
    bit. ``rtol`` lets the number be off by that part of ``value``.
    """
    return ConstantPattern(value, rtol)


def is_scalar() -> ScalarPattern:
    """Any value that is certainly a tensor of one element, constant or not."""
    return ScalarPattern()


def is_expr(expr: Expr) -> ExprPattern:
    """Exactly this expression, by structure; constants match when dtype, shape and every bit agree."""
    return ExprPattern(expr)


def is_var(name: str = "") -> VarPattern:
    """A variable, of that name if one is given."""
    return VarPattern(name)


def is_dfv(name: str = "") -> DataflowVarPattern:
    """A variable local to a dataflow block, of that name if one is given."""
    return DataflowVarPattern(name)


def is_gv(name: str = "") -> GlobalVarPattern:
    """A function of the module, by name if one is given."""
    return GlobalVarPattern(name)


def is_tuple(fields: Sequence[DFPattern], unordered: bool = False) -> TuplePattern | UnorderedTuplePattern:
    """A tuple of these fields, in this order or, if ``unordered``, in any."""
    if not isinstance(fields, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PatternError(f"is_tuple needs a sequence of patterns, got {fields!r}")
    return UnorderedTuplePattern(fields) if unordered else TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """Field ``index`` of ``tuple_value``; any field if ``index`` is None."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, then: DFPattern, otherwise: DFPattern) -> IfPattern:
    """A branch on ``cond`` whose results match ``then``, where it holds, and ``otherwise``, where it does not.

    What the branches compute is looked into: ``is_if(c, is_op("relax.exp")(x), x)``.
    """
    return IfPattern(cond, then, otherwise)


def is_shape(shape: Sequence[Dim]) -> PrimArrPattern:
    """A shape argument of exactly these sizes; size variables in it are bound by the match."""
    return PrimArrPattern(shape)


def _arguments(args: Sequence[DFPattern] | TuplePattern | None) -> DFPattern:
    if args is None:
        return WildcardPattern()
    return args if isinstance(args, DFPattern) else TuplePattern(args)


def is_call_dps_packed(func_name: str, args: Sequence[DFPattern] | TuplePattern | None = None) -> CallPattern:
    """``R.call_dps_packed`` of the outside function ``func_name``; any arguments if ``args`` is None."""
    return CallPattern(is_op("relax.call_dps_packed"), [ExternFuncPattern(func_name), _arguments(args)])


def is_call_packed(func_name: str, args: Sequence[DFPattern] | None = None) -> CallPattern:
    """``R.call_packed`` of the outside function ``func_name``; any arguments if ``args`` is None."""
    if args is None:
        return CallPattern(ExternFuncPattern(func_name), [], varg_default_wildcard=True)
    return CallPattern(ExternFuncPattern(func_name), args)


def reject(pattern: DFPattern) -> NotPattern:
    """The same as ``~pattern``."""
    return NotPattern(pattern)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """``pattern`` (any value, if None) with these attribute values."""
    return warn_if_impossible(AttrPattern(WildcardPattern() if pattern is None else pattern, attrs))


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """``pattern`` (any value, if None) with that dtype."""
    return DataTypePattern(WildcardPattern() if pattern is None else pattern, dtype)


def below() -> HolePattern:
    """The place of the value below in the pattern of a link of a `chain`; any value by itself."""
    return HolePattern()


def chain(
    link: DFPattern | Callable[[DFPattern], DFPattern], until: DFPattern, *, min: int = 0, max: int | None = None
) -> DFPattern:
    """A value that is computed from ``until`` by any number of links, one on the other; as many as there are.

    ``link`` is one of four:

    - an operator, such as ``elementwise()`` or ``is_op("relax.add") | is_op("relax.exp")``, of which the value below is
      the first or the second operand;
    - a pattern such as ``is_op("relax.add")(wildcard(), is_const())``, in which the value below takes the place of a
      wildcard, of any one if there are several; the others stand for other values in each link;
    - a function that gives the pattern of a link over that of the value below:
      ``chain(lambda inner: is_op("relax.add")(inner, is_const()), until=x)``. A pattern made before, outside of the
      function, stands for one value in all links;
    - a pattern with ``below()`` where the value below stands: ``chain(is_op("relax.add")(below(), term), until=x)``.
      It is taken as it is, so ``term``, like each of its patterns, stands in a match for the list of what it was in
      each link, the outermost first, with None for links that took an alternative without it.

    Alternatives with ``|`` may be of different kinds. ``min`` and ``max`` bound the number of links. In a match
    ``until`` stands for what the chain ends in; the links are what lies between. Raises `PatternError` for a link that
    computes nothing from the value below it. Cost: at each value where it is tried, linear in what lies below it as far
    as there are links; so over a run of n links that no rewrite shortens, n * n. ``max`` bounds it. With a `~` or
    `only_used_by` in the pattern, or a pattern that links share, ways down multiply.
    """
    if not 0 <= min <= (min if max is None else max):
        raise PatternError(f"a chain needs 0 <= min <= max, got min={min}, max={max}")
    if not callable(link):  # patterns are called to make calls
        raise PatternError(f"{link!r} is no link of a chain; write is_op({link!r}), or a pattern with a wildcard")
    hole, shared = _place_below(link) or HolePattern(), list[DFPattern]()
    if isinstance(link, DFPattern) and hole in all_patterns(link):
        text, one = describe(link), link
    elif isinstance(link, DFPattern):
        text = describe(link)
        one, *others = [one for side in _sides(link) for one in _links_over(side, hole)]
        for other in others:
            one = one | other
        forget_made(all_patterns(link))
    else:
        text = getattr(link, "__name__", "link").strip("<>")
        one, again = (checked(link(below), "a link of a chain") for below in (hole, HolePattern()))
        inside = set(all_patterns(one))
        again_outside = all_patterns(again, RepeatPattern)
        shared = [part for part in again_outside if part in inside and fixed_op(part) is None]
        forget_made(part for part in all_patterns(again) if part not in inside)
    links = RepeatPattern(one, min, max, shared, is_chained=True)
    return ChainPattern(links, hole, checked(until, "the end of a chain"), text)


def _place_below(link: DFPattern | Callable[[DFPattern], DFPattern]) -> HolePattern | None:
    """The ``below()`` of a link; None if it has none of its own. Raises `PatternError` if it has several."""
    parts = all_patterns(link) if isinstance(link, DFPattern) else []
    of_others = [part.hole for part in parts if isinstance(part, ChainPattern)]
    places = [part for part in parts if isinstance(part, HolePattern) and part not in of_others]
    if len(places) > 1:
        raise PatternError(
            f"{link!r} is no link of a chain: below() is one value, so make it once for all alternatives"
        )
    return places[0] if places else None


def _sides(link: DFPattern) -> list[DFPattern]:
    """The alternatives of a link, from left to right."""
    return [*_sides(link.left), *_sides(link.right)] if isinstance(link, OrPattern) else [link]


def _links_over(link: DFPattern, inner: DFPattern) -> list[DFPattern]:
    """The patterns of one link over ``inner``, one for each operand that ``inner`` may be."""
    if _is_operator(link):
        op = fixed_op(link)
        first: DFPattern = link.dup()(inner, varg_default_wildcard=True)
        if op is not None and (op.is_commutative or (not op.variadic and len(op.operands) == 1)):
            return [first]
        other = link.dup()
        if isinstance(link, OpPattern):  # Operands of the others are turned round, which would be each way twice.
            accepts = link.accepts
            other = OpPattern(lambda op: accepts(op) and not op.is_commutative, link.text)
        return [first, other(WildcardPattern(), inner, varg_default_wildcard=True)]
    closed = {one for part in all_patterns(link) if isinstance(part, NO_PLACE) for one in all_patterns(part)}
    places = [part for part in bindable(link) if isinstance(part, WildcardPattern) and part not in closed]
    if not places:
        raise PatternError(
            f"{link!r} is no link of a chain: put a wildcard where the value below it stands, outside of repeats"
        )
    return [duplicate(link, {place: inner}) for place in places]


def _is_operator(pattern: DFPattern) -> bool:
    """True if ``pattern`` stands for operators, as against for what they compute."""
    if isinstance(pattern, OrPattern | AndPattern | NotPattern):
        return all(map(_is_operator, pattern.children()))
    return isinstance(pattern, OpPattern) or fixed_op(pattern) is not None


def repeat(
    pattern: DFPattern,
    *,
    min: int = 1,
    max: int | None = None,
    shared: Iterable[DFPattern] = (),
    extent: Extent | None = None,
) -> RepeatPattern:
    """Any number of values that each match ``pattern``.

    In a tuple or argument list: a run of neighbouring elements, as long as the rest allows. In a `PatternContext`:
    the largest set of bindings that match ``pattern`` and agree on every pattern in ``shared``; a pattern that also
    stands outside of the repeat is shared by itself. In a match, a pattern inside a repeat gives the list of what it
    stood for, in order, with None for elements that took an alternative without it; a shared one gives the one value.
    Operators are shared by themselves. No other pattern may stand in two repeats without being shared: use `dup`.

    In a context, other roots are placed first, then repeats, those with ``min=0`` last; each takes what is left.

    ``min`` and ``max`` bound the length. Repeats with the same ``extent`` have the same length.
    """
    return RepeatPattern(pattern, min, max, shared, extent)


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None, allow_reshape: bool = False
) -> DFPattern:
    """``op(x, w)``, then optionally a bias added (reshaped, if ``allow_reshape``), then optionally an activation."""
    out: DFPattern = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        bias: DFPattern = wildcard()
        if allow_reshape:
            bias = is_op("relax.reshape")(bias, wildcard(), varg_default_wildcard=True) | bias
        out = is_op("relax.add")(out, bias)
    return is_op(activation)(out) if activation else out

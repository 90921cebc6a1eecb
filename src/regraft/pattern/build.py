"""The functions that make patterns, with Relax's names and Relax's order of arguments."""

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
    """The operator with this name. Call the result to match calls of the operator: ``is_op("relax.add")(x, y)``.

    Several names match any of these operators: ``is_op("relax.add", "relax.subtract")(x, y)``. An `Op` matches
    itself. A function matches the operators for which it returns True: ``is_op(lambda op: op.is_commutative)``.
    ``"com.elsewhere::Whiten"`` is an operator of a file, either declared as ``com.elsewhere.Whiten`` or foreign.
    Raises `IRError` with similar names if there is no such operator.
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
    """Any operator with all of these traits, for example ``Trait.COMMUTATIVE``."""
    wanted = frozenset(traits)
    for trait in traits:
        if not isinstance(trait, Trait):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PatternError(f"{trait!r} is not a trait; give members of rx.Trait, such as rx.Trait.ELEMENTWISE")
    return OpPattern(lambda op: wanted <= op.traits, " ".join(trait.name.lower() for trait in traits))


def elementwise() -> OpPattern:
    """Any elementwise operator. ``elementwise()(x, y)`` matches a call with two operands."""
    return has_trait(Trait.ELEMENTWISE)


def is_const(value: float | None = None, rtol: float = 0.0) -> ConstantPattern:
    """Any constant tensor. With ``value``: a constant of one element, equal to ``value`` rounded to its dtype.

    ``is_const(0.1)`` matches the float32 number nearest to 0.1 in a float32 constant, and the float16 number nearest to
    0.1 in a float16 constant. With ``rtol`` the number may differ by that fraction of ``value``.
    """
    return ConstantPattern(value, rtol)


def is_scalar() -> ScalarPattern:
    """Any value that is certainly a tensor with one element, constant or not."""
    return ScalarPattern()


def is_expr(expr: Expr) -> ExprPattern:
    """An expression that is structurally equal to ``expr``. Constants are equal if dtype, shape and all bits agree."""
    return ExprPattern(expr)


def is_var(name: str = "") -> VarPattern:
    """A variable. With ``name``: the variable must have this name."""
    return VarPattern(name)


def is_dfv(name: str = "") -> DataflowVarPattern:
    """A variable that is local to a dataflow block. With ``name``: it must have this name."""
    return DataflowVarPattern(name)


def is_gv(name: str = "") -> GlobalVarPattern:
    """A function of the module. With ``name``: it must have this name."""
    return GlobalVarPattern(name)


def is_tuple(fields: Sequence[DFPattern], unordered: bool = False) -> TuplePattern | UnorderedTuplePattern:
    """A tuple of these fields, in this order or, if ``unordered``, in any order."""
    if not isinstance(fields, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PatternError(f"is_tuple needs a sequence of patterns, got {fields!r}")
    return UnorderedTuplePattern(fields) if unordered else TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """Field ``index`` of ``tuple_value``; any field if ``index`` is None."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, then: DFPattern, otherwise: DFPattern) -> IfPattern:
    """A branch: its condition matches ``cond``, the results of its branches match ``then`` and ``otherwise``.

    The match continues into the branches: ``is_if(c, is_op("relax.exp")(x), x)``.
    """
    return IfPattern(cond, then, otherwise)


def is_shape(shape: Sequence[Dim]) -> PrimArrPattern:
    """A shape argument with exactly these sizes. The match binds size variables in ``shape``."""
    return PrimArrPattern(shape)


def _arguments(args: Sequence[DFPattern] | TuplePattern | None) -> DFPattern:
    if args is None:
        return WildcardPattern()
    return args if isinstance(args, DFPattern) else TuplePattern(args)


def is_call_dps_packed(func_name: str, args: Sequence[DFPattern] | TuplePattern | None = None) -> CallPattern:
    """A call ``R.call_dps_packed`` of the external function ``func_name``, with any arguments if ``args`` is None."""
    return CallPattern(is_op("relax.call_dps_packed"), [ExternFuncPattern(func_name), _arguments(args)])


def is_call_packed(func_name: str, args: Sequence[DFPattern] | None = None) -> CallPattern:
    """A call ``R.call_packed`` of the external function ``func_name``, with any arguments if ``args`` is None."""
    if args is None:
        return CallPattern(ExternFuncPattern(func_name), [], varg_default_wildcard=True)
    return CallPattern(ExternFuncPattern(func_name), args)


def reject(pattern: DFPattern) -> NotPattern:
    """The same as ``~pattern``."""
    return NotPattern(pattern)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """``pattern`` (None: any value), on a call with these attributes; see `DFPattern.has_attr`."""
    return warn_if_impossible(AttrPattern(WildcardPattern() if pattern is None else pattern, attrs))


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """``pattern`` (None: any value), on a tensor of ``dtype``."""
    return DataTypePattern(WildcardPattern() if pattern is None else pattern, dtype)


def below() -> HolePattern:
    """In the pattern of a link of a `chain`: the operand from which the chain continues. It matches any value."""
    return HolePattern()


def chain(
    link: DFPattern | Callable[[DFPattern], DFPattern], until: DFPattern, *, min: int = 0, max: int | None = None
) -> DFPattern:
    """A value that a run of links computes from ``until``. Each link is computed from the value below it.

    The match takes as many links as possible. ``link`` has one of four forms:

    - An operator, such as ``elementwise()`` or ``is_op("relax.add") | is_op("relax.exp")``. The value below is the
      first or the second operand.
    - A pattern such as ``is_op("relax.add")(wildcard(), is_const())``. The value below takes the place of one wildcard;
      if there are several, of any of them. The other wildcards stand for other values in each link.
    - A function from the pattern of the value below to the pattern of a link:
      ``chain(lambda inner: is_op("relax.add")(inner, is_const()), until=x)``. A pattern that is made outside of the
      function stands for the same value in all links.
    - A pattern with ``below()`` in the place of the value below: ``chain(is_op("relax.add")(below(), term), until=x)``.
      In a match, ``term`` and each other part of this pattern stands for a list: its value in each link, the outermost
      link first. The list has None for links that took an alternative without the part.

    Alternatives with ``|`` may have different forms. ``min`` and ``max`` bound the number of links. In a match
    ``until`` stands for the value at the end of the chain. Raises `PatternError` for a link that computes nothing from
    the value below it. Cost: at each value where the chain is tried, linear in the number of links below. Over a run
    of n links that no rewrite shortens this is n * n; ``max`` bounds it. With ``~`` or `only_used_by` in the pattern,
    or with a pattern that links share, the ways to match multiply.
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
    """The ``below()`` of a link, or None; one that belongs to an inner chain does not count.

    Raises `PatternError` if there are several.
    """
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
    """The patterns of one link over ``inner``: one pattern for each operand that ``inner`` may be."""
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
    """True if ``pattern`` stands for operators, not for values that they compute."""
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

    In a tuple or a list of arguments: a run of neighbouring elements, as long as the rest of the pattern allows. In a
    `PatternContext`: the largest set of bindings that match ``pattern`` and agree on every pattern in ``shared``. A
    pattern that also stands outside of the repeat is shared as well, and so are operators. In a match, a pattern inside
    of a repeat stands for the list of its values, in order, with None for elements that took an alternative without it.
    A shared pattern stands for one value. A pattern that is not shared may stand in one repeat only: use `dup`.

    In a context, single roots are matched first, then repeats, and repeats with ``min=0`` last. Each repeat takes
    bindings that are not yet taken.

    ``min`` and ``max`` bound the length. Repeats with the same ``extent`` have the same length.
    """
    return RepeatPattern(pattern, min, max, shared, extent)


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None, allow_reshape: bool = False
) -> DFPattern:
    """``op(x, w)``, optionally followed by the addition of a bias, and then by an activation.

    With ``allow_reshape`` the bias may be reshaped first.
    """
    out: DFPattern = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        bias: DFPattern = wildcard()
        if allow_reshape:
            bias = is_op("relax.reshape")(bias, wildcard(), varg_default_wildcard=True) | bias
        out = is_op("relax.add")(out, bias)
    return is_op(activation)(out) if activation else out

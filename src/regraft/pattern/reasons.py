"""Explanations for goals of a match that failed.

A step of the matcher calls one of these functions with the values on which it failed, but only for a tracer. Each
function returns a kind (`KINDS`), for programs, and a sentence, for people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..analysis.values import definition
from ..ir.builder import operands_of
from ..ir.expr import Expr, Var
from .constrained_patterns import UsersPattern
from .pattern import DFPattern, RepeatPattern
from .words import Reason, counted, first_few, show, show_bound

KINDS: Final = {
    "op": "another operator, or no call at all",
    "arity": "another number of arguments or fields",
    "attribute": "an attribute with another value",
    "dtype": "another dtype",
    "shape": "another shape, or one that is not known",
    "type": "another type, or one that is not known; also: a replacement of an incompatible type",
    "constant": "no constant, or another one",
    "kind": "another kind of value: a variable, tuple, projection, function or shape is wanted",
    "name": "a variable or function of another name",
    "shared value": "a pattern that occurs twice would match two different values",
    "rejected": "the value matches what ~ rejects",
    "extent": "repeats that share an extent differ in length, or a run is too short or too long",
    "not used": "a value is not used by the value that should use it",
    "no candidate": "no binding in the expected place matches a root of the context",
    "users": "a value has more or fewer users than wanted, or is not bound in the block",
    "extra user": "a value that only one may use has another user, or is an output of the block",
    "taken": "the binding already stands for another pattern of the context",
    "declined": "the rewriter declined",
    "cycle": "the replacement would depend on itself",
    "visible": "the replacement uses a value that is not visible in its place",
    "error": "the rewriter raised an error, or returned an invalid replacement",
}
"""The kinds of reasons, with their meanings."""


def shared_value(pattern: DFPattern, first: Expr, second: Expr) -> Reason:
    """A pattern that stands in two places meets two different values."""
    stands = f"{pattern!r} stands for {show(first)} elsewhere in the pattern"
    return "shared value", f"{stands}, but here it meets {show(second)}"


def wrong_run(pattern: DFPattern, leaf: Expr, length: int, parts: Sequence[DFPattern], known: Sequence[Any]) -> Reason:
    """The elements cannot be divided between the repeats."""
    fixed = [n for n in known if isinstance(n, int)]
    extents = [part.extent for part in parts if isinstance(part, RepeatPattern) and part.extent is not None]
    also = f", and an extent is {fixed[0]} already" if fixed else ""
    if len(set(extents)) < len(extents):
        also += ", and repeats of one extent take equally many"
    bounds = " + ".join(
        f"{p.min}..{'' if p.max is None else p.max}" if isinstance(p, RepeatPattern) else "1" for p in parts
    )
    return ("extent", f"{show(leaf)} has {counted(length, 'element')}, but {pattern!r} takes {bounds}{also}")


def user_count(pattern: UsersPattern, leaf: Expr, users: tuple[Sequence[Var], bool] | None) -> Reason:
    """A value has another number of users than wanted. ``users`` is None if the block does not bind the value."""
    if pattern.count is None:
        wanted = "only users that the pattern describes are wanted"
    else:
        wanted = f"{counted(pattern.count, 'user')} {'is' if pattern.count == 1 else 'are'} wanted"
    if users is None:
        return ("users", f"{wanted}, but {show(leaf)} is not bound in this block")
    found = ", ".join([*first_few(users[0]), *["the code after the block"] * users[1]]) or "nothing"
    return ("users", f"{wanted}, but {show(leaf)} is used by {found}")


def not_used(source: Expr, user: Expr, index: int, definitions: Mapping[Var, Expr]) -> Reason:
    """A value is no operand of its intended user."""
    where = "" if index < 0 else f" as argument {index}"
    operands = ", ".join(show(o) for o in operands_of(definition(definitions, user))) or "nothing"
    return "not used", f"{show(source)} should be used by {show(user)}{where}, whose operands are {operands}"


def extra_user(source: Expr, others: Sequence[Var], is_output: bool) -> Reason:
    """A value has a user that it should not have."""
    if is_output:
        return ("extra user", f"{show(source)} should have one user only, but it is an output of the block")
    names = ", ".join(show(v) for v in others[:4])
    return ("extra user", f"{show(source)} should have one user only, but it is used by {names} as well")


def taken(pattern: DFPattern, leaf: Expr) -> Reason:
    """Two patterns of a context would stand for the same binding."""
    return "taken", f"{show(leaf)} already stands for another pattern, so it cannot stand for {pattern!r}"


def same_shape(shapes: Sequence[Expr]) -> Reason:
    """Values do not certainly have the same shape."""
    return "shape", "the shapes must be known to be equal, but: " + "; ".join(f"{show(e)} is {e.ty!r}" for e in shapes)


def wrong_count(pattern: RepeatPattern, found: int, wanted: int | None) -> Reason:
    """A set of bindings is too small, or its length differs from its extent."""
    if wanted is None or found < pattern.min:
        return ("extent", f"{pattern!r} needs {pattern.min} or more bindings, but {found} match")
    return ("extent", f"{pattern!r} needs {wanted} bindings, as its extent says, but {found} match")


def no_candidate(
    pattern: DFPattern, linked: Expr | None, users: Sequence[Var], definitions: Mapping[Var, Expr], count: int = 1
) -> Reason:
    """Too few bindings of the block match a pattern of the context, or ``count`` patterns that are alike.

    The search looked near ``linked``, whose users are ``users``. If ``linked`` is None, it looked in the whole block.
    """
    near = "in the block" if linked is None else f"next to {show(linked)}"
    used = "" if linked is None else "; nothing uses it"
    if linked is not None and users:
        used = f"; it is used by {', '.join(first_few(users, lambda user: show_bound(user, definitions)))}"
    if count > 1:
        return ("no candidate", f"fewer than {count} further bindings {near} match {pattern!r}{used}")
    return ("no candidate", f"no further binding {near} matches {pattern!r}{used}")

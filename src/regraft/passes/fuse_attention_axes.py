"""The axes of a written-out attention by what they mean: batch, heads, queries, keys, size.

Each axis of a value is a `Group`, the `Axis` objects that it was made of, major first. A permutation moves groups, a
reshape joins or splits them, a broadcast lacks some. So operands, masks and results are brought to the layout of
``nn.attention`` by one function, however many reshapes and permutations lie between: `Axes.arranged`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from .. import op as ops
from ..ir.dims import Dim, dim_product, dims_equal, exact_divide
from ..ir.expr import Expr, Var
from ..ir.op import Call
from ..op.primitive.manipulate import permutation
from ..pattern import is_op, wildcard
from ..rewrite import Bindings
from .read_values import matched, shape_of, without_factor

_data = wildcard()
_permuted = is_op("relax.permute_dims")(_data)
_reshaped = is_op("relax.reshape")(_data, wildcard())
_expanded = is_op("relax.expand_dims")(_data)
_repeated = is_op("relax.repeat")(_data)
_spread = is_op("relax.broadcast_to")(_data, wildcard())
_view = _permuted | _reshaped | _expanded | _repeated | _spread


class Axis:
    """One axis that means one thing, or a part of it."""

    __slots__ = ("size",)

    def __init__(self, size: Dim) -> None:
        self.size = size


Group: TypeAlias = tuple[Axis, ...]


class Form(NamedTuple):
    """A value, what its axes are made of, and the number that it is to be multiplied by."""

    value: Expr
    groups: tuple[Group, ...]
    factor: float = 1.0


def is_one(size: Dim) -> bool:
    """True if a size is certainly 1."""
    return dims_equal(size, 1) is True


def aligned(shape: Sequence[Dim], groups: Sequence[Group]) -> tuple[Group, ...]:
    """The axes of the sizes ``shape``, which broadcast to ``groups``; of their own where that is not certain."""

    def one(size: Dim, group: Group) -> Group:
        if is_one(size):
            return ()
        return group if dims_equal(size, size_of(group)) is True else (Axis(size),)

    return tuple([one(size, group) for size, group in zip(shape, groups, strict=True)])


class Axes:
    """The axes of one attention. Those of batch and heads, ``lead``, may turn out to be made of several."""

    def __init__(self, lead: Iterable[Axis]) -> None:
        self._lead = set(lead)
        self._parts: dict[Axis, Group] = {}

    def atoms(self, group: Iterable[Axis]) -> Group:
        """``group`` in the smallest parts that are known, without those of size 1."""
        found: list[Axis] = []
        for axis in group:
            parts = self._parts.get(axis)
            found += [axis] if parts is None else self.atoms(parts)
        return tuple([axis for axis in found if not is_one(axis.size)])

    def regrouped(self, groups: Iterable[Group], shape: Sequence[Dim]) -> tuple[Group, ...] | None:
        """The groups of a reshape to ``shape``; None where that is no joining and splitting of whole axes."""
        left = [axis for group in groups for axis in self.atoms(group)]
        found: list[Group] = []
        for size in shape:
            taken: list[Axis] = []
            rest: Dim = size
            while not is_one(rest):
                if not left:
                    return None
                axis = left.pop(0)
                less = exact_divide(rest, axis.size)
                if less is None:
                    more = exact_divide(axis.size, rest)
                    if more is None or axis not in self._lead:
                        return None
                    axis, behind = self._split(axis, rest, more)
                    left.insert(0, behind)
                    less = 1
                taken.append(axis)
                rest = less
            found.append(tuple(taken))
        return None if left else tuple(found)

    def _split(self, axis: Axis, major: Dim, minor: Dim) -> tuple[Axis, Axis]:
        parts = Axis(major), Axis(minor)
        self._parts[axis] = parts
        self._lead.update(parts)
        return parts

    # --- where values come from

    def path(self, form: Form, bindings: Mapping[Var, Expr]) -> list[Form]:
        """``form``, and what it is a view of or a multiple of, step by step. Cost: the steps."""
        found = [form]
        while (inner := self._inner(found[-1], bindings)) is not None:
            found.append(inner)
        return found

    def _inner(self, form: Form, bindings: Mapping[Var, Expr]) -> Form | None:
        value, groups, factor = form
        scaled = without_factor(value, bindings)
        if scaled is not None:
            return Form(scaled[0], groups, factor * scaled[1])
        found = matched(_view, value, bindings)
        if found is None:
            return None
        call, data = found[_view], found[_data]
        shape = shape_of(data)
        inner: Sequence[Group] | None = None
        if _permuted in found:
            order = permutation(call)
            inner = None if order is None else [groups[order.index(axis)] for axis in range(len(order))]
        elif _expanded in found:
            new = {axis % len(groups) for axis in call.attrs.axis}
            inner = [group for axis, group in enumerate(groups) if axis not in new]
        elif _reshaped in found and shape:
            inner = self.regrouped(groups, shape)
        elif _repeated in found and call.attrs.axis is not None:
            at: int = call.attrs.axis % len(groups)
            times: int = call.attrs.repeats
            parts = self.regrouped([groups[at]], [shape[at], times]) if shape else None
            inner = None if parts is None else [*groups[:at], parts[0], *groups[at + 1 :]]
        elif _spread in found and shape:
            inner = aligned(shape, groups[-len(shape) :])
        return None if inner is None else Form(data, tuple(inner), factor)

    # --- layouts

    def arranged(self, form: Form, wanted: Sequence[Iterable[Axis]]) -> Expr | None:
        """``form`` with the axes ``wanted``, of size 1 where it lacks all of one; None if it has others than these.

        Where it lacks a part of an axis, it is repeated along that.
        """
        value, have = form.value, [self.atoms(group) for group in form.groups]
        want = [self.atoms(group) for group in wanted]
        present = {axis for group in have for axis in group}
        if not present <= {axis for group in want for axis in group}:
            return None
        if any(0 < sum(axis in present for axis in group) < len(group) for group in want):
            alone = self.arranged(form, [[axis] for group in want for axis in group])
            assert alone is not None
            some = [axis.size if present & {*group} else 1 for group in want for axis in group]
            value = ops.broadcast_to(alone, some)
            return ops.reshape(value, [dim_product(x.size for x in g) if present & {*g} else 1 for g in want])
        want = [group if present.issuperset(group) else () for group in want]
        after = {first: second for group in want for first, second in pairwise(group)}
        pieces = [piece for group in have for piece in (_runs(group, after) if group else [()])]
        if len(pieces) != len(have) or pieces.count(()) > want.count(()):
            pieces = [piece for piece in pieces if piece]
            value = ops.reshape(value, [size_of(piece) for piece in pieces])
        units = [index for index, piece in enumerate(pieces) if not piece]
        order: list[int] = []
        gaps: list[int] = []
        for place, group in enumerate(want):
            if group:
                order += [pieces.index(run) for run in _runs(group, _within(pieces))]
            elif units:
                order.append(units.pop(0))
            else:
                gaps.append(place)
        if order != sorted(order):
            value = ops.permute_dims(value, order)
        if len(order) + len(gaps) != len(want):
            return ops.reshape(value, [size_of(group) for group in want])
        return ops.expand_dims(value, gaps) if gaps else value


def _within(pieces: Iterable[Group]) -> dict[Axis, Axis]:
    """For each axis in a piece the one behind it there."""
    return {first: second for piece in pieces for first, second in pairwise(piece)}


def _runs(group: Group, after: Mapping[Axis, Axis]) -> list[Group]:
    """``group`` in runs of axes that follow each other by ``after``, too."""
    runs: list[list[Axis]] = []
    for axis in group:
        if runs and after.get(runs[-1][-1]) is axis:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return [tuple(run) for run in runs]


def size_of(group: Iterable[Axis]) -> Dim:
    """The size of an axis that is made of ``group``."""
    return dim_product([axis.size for axis in group])


def _steps(made: Expr, source: Expr) -> int:
    """The number of calls that ``made`` is, which `Axes.arranged` made of ``source``."""
    count = 0
    while made is not source:
        assert isinstance(made, Call)
        made, count = made.args[0], count + 1
    return count


class Layout(NamedTuple):
    """The layout of ``nn.attention``, (batch, sequence, heads, size), of which batch and heads are known."""

    axes: Axes
    batch: Group
    heads: Group

    def wanted(self, sequence: Group, size: Group, heads: Group | None = None) -> tuple[Group, ...]:
        """The axes of an operand; of keys that consecutive heads share, with the ``heads`` that they have."""
        return self.batch, sequence, self.heads if heads is None else heads, size

    def places(self, forms: Sequence[Form | None], sequence: Group, size: Group) -> dict[Group, tuple[Expr, float]]:
        """By the heads that an operand has, it in this layout and its factor, of the form that takes the fewest steps.

        ``forms`` are those of a path, None for one that is not to be taken.
        """
        found: dict[Group, tuple[int, Expr, float]] = {}
        for left, form in enumerate(reversed(forms)):
            heads = None if form is None else self._heads_of(form)
            placed = None if form is None or heads is None else self._place(form, sequence, size, heads)
            if form is None or heads is None or placed is None:
                continue
            steps = left + _steps(placed, form.value)
            if heads not in found or steps <= found[heads][0]:
                found[heads] = (steps, placed, form.factor)
        return {heads: (placed, factor) for heads, (_, placed, factor) in found.items()}

    def _place(self, form: Form, sequence: Group, size: Group, heads: Group) -> Expr | None:
        return self.axes.arranged(form, self.wanted(sequence, size, heads))

    def _heads_of(self, form: Form) -> Group | None:
        """The heads that ``form`` has, if it has all batches and consecutive heads share those; else None."""
        own = {axis for group in form.groups for axis in self.axes.atoms(group)}
        heads = self.axes.atoms(self.heads)
        count = sum(axis in own for axis in heads)
        return heads[:count] if own.issuperset({*self.axes.atoms(self.batch), *heads[:count]}) else None

    def mask(self, mask: Expr, scores: Sequence[Group]) -> Expr:
        """``mask``, which broadcasts to ``scores``, with the four axes that a bias of ``nn.attention`` has."""
        shape = shape_of(mask)
        own = scores[len(scores) - len(shape) :]
        groups = [() if is_one(size) else group for size, group in zip(shape, own, strict=True)]
        placed = self.axes.arranged(Form(mask, tuple(groups)), (self.batch, self.heads, *scores[-2:]))
        assert placed is not None
        return placed

    def results(self, attended: Form, product: Var, groups: Sequence[Group], bindings: Bindings) -> dict[Var, Expr]:
        """The replacements for ``product``, whose axes are ``groups``, by ``attended``.

        Where it is only brought to the layout of ``attended``, that is replaced, and nothing moves.
        """
        found: list[Form] = []
        pending = [Form(product, tuple(groups))]
        while pending:
            form = pending.pop()
            var = form.value
            assert isinstance(var, Var)
            if not self._is_near(attended, form):
                onward = [(user, self._onward(user, form.groups, bindings)) for user in bindings.users_of(var)]
                pending += [Form(user, after) for user, after in onward if after is not None]
                if not bindings.is_output(var) and all(after is not None for _, after in onward):
                    continue
            found.append(form)
        found.sort(key=lambda form: not self._is_near(attended, form))
        edits: dict[Var, Expr] = {}
        for form in found:
            made = self.axes.arranged(found[0] if edits else attended, form.groups)
            assert isinstance(form.value, Var)
            assert made is not None
            edits[form.value] = made
        return edits

    def _is_near(self, attended: Form, form: Form) -> bool:
        """True if ``form`` is ``attended`` but for a reshape."""
        own, other = ([axis for group in one.groups for axis in self.axes.atoms(group)] for one in (attended, form))
        return own == other

    def _onward(self, user: Var, groups: Sequence[Group], bindings: Bindings) -> tuple[Group, ...] | None:
        """The axes of ``user``, if it is a permutation or a reshape of a value of the axes ``groups``."""
        found = matched(_permuted | _reshaped, user, bindings)
        if found is None:
            return None
        order = permutation(found[_permuted]) if _permuted in found else None
        return self.axes.regrouped(groups, shape_of(user)) if order is None else tuple([groups[at] for at in order])

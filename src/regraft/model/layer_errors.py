"""The errors of a model's layers in few bits, and the order in which layers go back; found by halving groups of layers.

Each measurement makes a model and runs it, so there is no time to measure hundreds of layers one by one. The squares of
the layers' errors nearly add up. So a group of layers is measured as one, and only the group with the largest error is
halved. Layers of similar size are in the same group, since their errors are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf, isfinite
from typing import Final, NamedTuple

from ..analysis.cost import call_cost
from ..ir.expr import Constant
from ..ir.op import Call
from ..ir.program import Function, VarBinding
from ..ir.visitor import iter_bindings
from .timing import Deadline

_MOST_SHARE: Final = 1.1
"""The ratio to the fewest layers at which the search stops: each probe takes as long as one more trial."""


class LayerGroup(NamedTuple):
    """Layers of about one size, and the error of the outputs if only these layers are in few bits."""

    layers: Sequence[str]
    error: float
    is_measured: bool = True
    """False if the error is expected, or derived from the error of a larger group and that of its other half."""

    @property
    def share(self) -> float:
        """The squared error per layer: the gain if one of the layers goes back."""
        return self.error * self.error / len(self.layers)


class LayerErrors(NamedTuple):
    """The errors of layers in few bits, by groups, and the ``work`` of each layer, which measures its gain in few bits.

    A layer's share is its part of the squared error, the same for all layers of a group. Layers go back in the order of
    their shares per unit of work, so that removing error costs as little speed as possible. A layer whose own error
    exceeds ``allowed`` cannot stay with any other layer, so it goes back before all others.
    """

    groups: Sequence[LayerGroup]
    work: Mapping[str, float]
    allowed: float = inf

    @classmethod
    def expected(cls, errors: Mapping[str, float], work: Mapping[str, float], allowed: float) -> LayerErrors:
        """The errors of layers that are expected (`ExpectedErrors`) and not measured."""
        return cls([LayerGroup((name,), error, is_measured=False) for name, error in errors.items()], work, allowed)

    @property
    def are_all_measured(self) -> bool:
        """True if each layer was measured separately."""
        return all(len(group.layers) == 1 and group.is_measured for group in self.groups)

    @property
    def _shares(self) -> list[tuple[str, float]]:
        """The layers with their shares, in the order in which they go back."""
        listed = [(name, group.share) for group in self.groups for name in group.layers]
        most = self.allowed * self.allowed
        return sorted(listed, key=lambda pair: (pair[1] <= most, -pair[1] / self.work[pair[0]]))

    @property
    def worst_first(self) -> list[str]:
        """All layers, in the order in which they go back."""
        return [name for name, _ in self._shares]

    @property
    def alone(self) -> dict[str, float]:
        """The errors that are known for single layers: measured, expected, or derived from a pair."""
        return {group.layers[0]: group.error for group in self.groups if len(group.layers) == 1}

    def left_after(self, count: int) -> float:
        """The error to expect after the first ``count`` layers went back."""
        return sum(share for _, share in self._shares[count:]) ** 0.5

    def count_to_go_back(self, allowed: float) -> int:
        """The smallest number of layers that must go back so that the expected error is at most ``allowed``."""
        shares = [share for _, share in self._shares]
        left, count = sum(shares), 0
        while count < len(shares) and left > allowed * allowed:
            left, count = left - shares[count], count + 1
        return count


def layer_errors(
    measure: Callable[[Collection[str]], float],
    work: Mapping[str, float],
    error: float,
    allowed: float,
    deadline: Deadline,
) -> LayerErrors:
    """The errors of the layers in ``work``, measured until each layer that must go back is a group of one and there is
    no time for the others.

    ``measure`` returns the error if only the given layers are in few bits. ``error`` is the error of all layers, and
    ``allowed`` the error to reach. Cost, in measurements: about twice the logarithm of the number of layers for each
    layer that goes back; one and a half per layer if there is time for all.
    """
    groups, used = [LayerGroup(tuple(sorted(work, key=lambda name: work[name])), error)], 0
    begun = deadline.left
    while not deadline.is_over:
        wide = [group for group in groups if len(group.layers) > 1]
        if not wide:
            break
        remaining = 1.5 * sum(len(group.layers) - 1 for group in wide)
        of_one = (begun - deadline.left) / used if used else 0.0
        if remaining * of_one > deadline.left and _stand_alone(LayerErrors(groups, work, allowed), allowed):
            break
        largest = max(wide, key=lambda one: one.error)
        halves = _halved(measure, largest)
        groups.remove(largest)
        groups += halves
        used += sum(half.is_measured for half in halves)
    return LayerErrors(groups, work, allowed)


def work_of(function: Function, layers: Collection[str]) -> dict[str, float]:
    """The work of ``layers``, by the names of their bindings: the operations and the elements of the constants they
    read.

    If sizes are symbolic, all layers have the same work. Cost: linear.
    """
    bindings = (one for one in iter_bindings(function) if isinstance(one, VarBinding))
    calls = {one.var.name_hint: one.value for one in bindings if isinstance(one.value, Call)}
    found = dict.fromkeys(layers, 1.0)
    for name in layers:
        if name not in calls:
            continue
        count = call_cost(calls[name]).operations
        if not isinstance(count, int):
            return dict.fromkeys(layers, 1.0)
        found[name] += count + sum(one.data.size for one in calls[name].args if isinstance(one, Constant))
    return found


def _stand_alone(found: LayerErrors, allowed: float) -> bool:
    """True if each layer that is expected to go back is a group of one."""
    first = set(found.worst_first[: found.count_to_go_back(allowed)])
    return all(len(group.layers) == 1 for group in found.groups if not first.isdisjoint(group.layers))


def _halved(measure: Callable[[Collection[str]], float], group: LayerGroup) -> list[LayerGroup]:
    middle = len(group.layers) // 2
    first, second = group.layers[:middle], group.layers[middle:]
    found = measure(first)
    left = group.error**2 - found**2 if isfinite(group.error) and isfinite(found) else inf
    if len(second) == 1 or not 0.0 < left < inf:
        return [LayerGroup(first, found), LayerGroup(second, measure(second))]
    return [LayerGroup(first, found), LayerGroup(second, left**0.5, is_measured=False)]


def fewest(holds: Callable[[int], bool], guess: Callable[[int, int], int], most: int, deadline: Deadline) -> int:
    """Nearly the smallest count from 1 to ``most`` for which ``holds`` is true.

    ``guess`` returns the next count to try, from a count known to be the least possible and one that holds. If the
    guess is not less than a count that holds, that count is returned. If guesses are too small again and again, the
    steps grow. ``most`` itself is not tried. If the time is over, the result is the smallest count that held, or the
    guess if none did.
    """
    low, high, failed = 1, most, 0
    probe = guess(low, high)
    while low < high and high > low * _MOST_SHARE and (high == most or probe < high):
        if deadline.is_over:
            return high if high < most else min(most, max(low, probe))
        probe = min(max(probe, low + (low * failed // 8 if failed > 1 else 0)), high - 1)
        if holds(probe):
            high, failed = probe, 0
        else:
            low, failed = probe + 1, failed + 1
        probe = guess(low, high)
    return high

"""Calls of ATen operators that rewriting split: the rest of one takes more operators than the call did.

`optimize` looks for these, and rewrites the program once more with each of them as one value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from typing import Final, NamedTuple

from ..formats.torch.source_calls import SourceCall, is_alias
from ..ir.expr import ExternFunc, TupleGetItem
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Binding, Function, If, MatchCast
from ..ir.visitor import iter_bindings
from .torch_calls import calls_aten, calls_of, restore_calls


class Remains(NamedTuple):
    """A program in the form in which it returns to PyTorch: the number of operators that it calls, and the split ATen
    calls.
    """

    operators: int
    taken_apart: frozenset[SourceCall]


def remains_of_calls(module: IRModule) -> Remains:
    """The number of operators of ``module`` after `restore_calls`, and the calls that it was read from and that take
    more operators there than before.

    Calls that share a value are counted together, because several may take fewer operators than before. Cost: linear.
    """
    bindings = [binding for binding in iter_bindings(restore_calls(module)) if _computes(binding)]
    restored = {call for binding in bindings for call in calls_of(binding.var) if _is_call_of(binding, call)}
    groups = _SharingCalls(restored)
    for binding in bindings:
        if not _is_aten(binding):
            groups.add(calls_of(binding.var))
    return Remains(len(bindings), frozenset(groups.taken_apart()))


def has_source_calls(module: IRModule) -> bool:
    """True if this process read ``module`` from PyTorch, so that its variables remember the calls of ATen operators."""
    return any(calls_of(binding.var) for binding in iter_bindings(module))


class _SharingCalls:
    """Groups of calls that share values, with the number of values of each call and of each group.

    ``restored`` are calls that are in the program beside these values.
    """

    def __init__(self, restored: Set[SourceCall]) -> None:
        self._restored: Final = restored
        self._leader: Final[dict[SourceCall, SourceCall]] = {}
        self._values: Final[Counter[SourceCall]] = Counter()
        self._firsts: Final[Counter[SourceCall]] = Counter()

    def add(self, calls: list[SourceCall]) -> None:
        """Count a value that was made for ``calls``."""
        for call in calls:
            self._leader.setdefault(call, call)
            self._leader[self._found(call)] = self._found(calls[0])
        self._values.update(calls)
        self._firsts.update(calls[:1])

    def taken_apart(self) -> Iterator[SourceCall]:
        """The calls with several values each, in groups that have more values than calls."""
        surplus: Counter[SourceCall] = Counter()
        for call in self._leader:
            surplus[self._found(call)] += self._firsts[call] - (call not in self._restored)
        for call, count in self._values.items():
            if count + (call in self._restored) > 1 and surplus[self._found(call)] > 0:
                yield call

    def _found(self, call: SourceCall) -> SourceCall:
        while self._leader[call] is not call:
            self._leader[call] = self._leader[self._leader[call]]
            call = self._leader[call]
        return call


def _computes(binding: Binding) -> bool:
    """True if an operator runs for a binding."""
    is_read = isinstance(binding, MatchCast) or is_alias(binding)
    return not is_read and not isinstance(binding.value, TupleGetItem | Function | If)


def _is_aten(binding: Binding) -> bool:
    return isinstance(binding.value, Call) and isinstance(binding.value.op, ExternFunc)


def _is_call_of(binding: Binding, call: SourceCall) -> bool:
    value = binding.value
    return isinstance(value, Call) and isinstance(value.op, ExternFunc) and calls_aten(value.op, call.target)

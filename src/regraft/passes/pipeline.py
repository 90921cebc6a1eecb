"""The pipeline of `regraft.optimize`, by level, and the passes by name. Knows all passes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from inspect import isfunction, signature
from typing import Final

from ..analysis.machine import CPU_CORE, Machine
from ..ir.near_names import hint
from .canonicalize_bindings import CanonicalizeBindings
from .combine_parallel_matmul import CombineParallelMatmul
from .combining_pays import combining_pays, joins_no_codes
from .common_subexpressions import EliminateCommonSubexpr
from .context import PassError
from .dead_code import DeadCodeElimination
from .fold_batchnorm import FoldBatchnormToConv2D
from .fold_constant import MOST_GROWN, FoldConstant
from .fuse_attention import FuseAttention
from .hoist_from_loops import HoistFromLoops
from .layout import RemoveRedundantReshape, SimplifyTransposes
from .matmul_algebra import AdjustMatmulOrder, ExpandMatmulOfSum
from .no_ops import RemoveNoOps
from .passes import Pass, Sequential, UntilStable
from .private_functions import InlineKnownCalls
from .recognize_operators import RecognizeOperators
from .reorder_permute_dims import ReorderPermuteDimsAfterConcat

ATTENTION: Final = "attention"
"""The name of the form that `FuseAttention` recognizes, in addition to the names of `RecognizeOperators`."""
GROWING_CONSTANTS: Final = "growing constants"
"""The name of constants that `FoldConstant` folds although they take more bytes than their operands."""
SPLIT_WEIGHTS: Final = "split weights"
"""The name of constants that `FoldConstant` computes from a weight that is also used otherwise."""
_MOST_GROWN: Final = 16
"""The most elements of a constant that is folded even so: it takes no more bytes than the call that it replaces."""
LEVELS: Final = ("canonical", "safe", "default", "aggressive")
"""The names of the levels 0 to 3."""


_OLDER_NAMES: Final = ("VMBuiltinLower",)
"""Deprecated names of passes: they warn and return the pass under its current name."""


@cache
def available_passes() -> Mapping[str, Callable[[], Pass]]:
    """The passes that need no arguments, by name, in alphabetical order, among the names of `regraft.passes`."""
    from .. import passes

    found: dict[str, Callable[[], Pass]] = {}
    for name in passes.__all__:
        make = getattr(passes, name)
        if isfunction(make) and name[0].isupper() and name not in _OLDER_NAMES:
            taken = signature(make)
            if taken.return_annotation == "Pass" and all(p.default is not p.empty for p in taken.parameters.values()):
                found[name] = make
    return found


def named_passes(names: str) -> Sequential:
    """The passes of a list such as ``"FoldConstant,DeadCodeElimination"``, in that order.

    Raises `PassError` for an unknown name, with the nearest known one.
    """
    known = available_passes()
    chosen: list[Pass] = []
    for name in (part.strip() for part in names.split(",")):
        make = known.get(name)
        if make is None:
            raise PassError(f"there is no pass {name!r}; {hint(name, known)}")
        chosen.append(make())
    return Sequential(chosen, name="passes")


def recognizing(passes: Sequential) -> tuple[Pass, ...]:
    """The first of ``passes``, up to `RecognizeOperators`; empty if that is not among them."""
    names = [one.name for one in passes]
    wanted = RecognizeOperators().name
    return passes.passes[: names.index(wanted) + 1] if wanted in names else ()


def level_number(level: int | str) -> int:
    """The number of a level, given by number or by name; raises `PassError` for a level that does not exist."""
    text = str(level)
    if text in LEVELS:
        return LEVELS.index(text)
    if text.isdecimal() and int(text) < len(LEVELS):
        return int(text)
    known = ", ".join(f"{number} ({name})" for number, name in enumerate(LEVELS))
    raise PassError(f"there is no level {level!r}; there are: {known}")


def pipeline(level: int | str = "default", machine: Machine = CPU_CORE, without: Collection[str] = ()) -> Sequential:
    """The passes of a level, run in order until none changes anything. Each level includes the one below it.

    0, ``"canonical"``: one name for one value, no dead code. Same values to the bit.
    1, ``"safe"``: constants are folded, common subexpressions are computed once, values that are the same in each step
    of a loop are computed before it, axes and shapes change at most once in a row, operators that return their operand
    are removed, batch norms and padding are folded into convolutions. Same values, except for rounding if constants are
    computed by the reference semantics or a batch norm is folded. Other weights keep their names.
    2, ``"default"``: matmuls with one left operand are combined if that is estimated to be faster on ``machine``, from
    shapes alone (`combining_pays`); activations, norms and attention that are written out become one operator. Each
    element is the same sum of products as before. An engine may sum them in another order, and round at other places in
    operators that were recognized. Inputs are assumed to be finite. Combined weights are new weights, without the names
    of the old ones.
    3, ``"aggressive"``: all matmuls with one left operand are combined, faster or not, unless their weights are stored
    as codes; ``x @ (a + b)`` is expanded, and products of three matrices are computed in the cheaper order. These are
    other sums of the same terms, so float results may differ by more than the last digits.

    ``without``: forms that stay written out, by the names of `RecognizeOperators`, or `ATTENTION`. With
    `GROWING_CONSTANTS`, constants stay unfolded if they are larger than their operands, or if these would stay as well.
    With `SPLIT_WEIGHTS`, values computed from a weight that is also used otherwise stay.
    """
    number = level_number(level)
    is_small = GROWING_CONSTANTS in without
    most_grown = _MOST_GROWN if is_small else MOST_GROWN
    folding = FoldConstant(most_grown, keep_named=True, keep_shared=is_small, keep_whole=SPLIT_WEIGHTS in without)
    first: list[Pass] = [CanonicalizeBindings()]
    if number >= 1:
        first += [
            HoistFromLoops(),
            FoldBatchnormToConv2D(),
            InlineKnownCalls(most_grown),
            folding,
            EliminateCommonSubexpr(leaves_aliases=False),
        ]
    if number >= 2:
        # Before training, the factor of a norm is 1. The norm must be recognized, so no-ops are removed afterwards.
        first.append(RecognizeOperators(without))
    if number >= 1:
        first += [RemoveNoOps(), RemoveRedundantReshape(), SimplifyTransposes()]
    if number >= 3:
        first += [ExpandMatmulOfSum(), AdjustMatmulOrder()]
    if number >= 2:
        check = joins_no_codes if number >= 3 else combining_pays(machine)
        first += [CombineParallelMatmul(check), ReorderPermuteDimsAfterConcat()]
        first.append(folding)
        first += [] if ATTENTION in without else [FuseAttention()]
    return UntilStable([*first, DeadCodeElimination()], name=f"level {number}")

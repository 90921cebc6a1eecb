"""The pipeline of `regraft.optimize`, by level; and the passes that can be asked for by name. Knows the passes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import cache
from inspect import isfunction, signature
from typing import Final

from ..analysis.machine import CPU_CORE, Machine
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
"""The name of what `FuseAttention` recognizes, beside those of the forms of `RecognizeOperators`."""
GROWING_CONSTANTS: Final = "growing constants"
"""The name of what `FoldConstant` folds although it takes more bytes then."""
SPLIT_WEIGHTS: Final = "split weights"
"""The name of what `FoldConstant` makes of a weight that is used otherwise as well."""
_MOST_GROWN: Final = 16
"""The most elements of such a constant that are folded all the same: no more bytes than the call that they replace."""
LEVELS: Final = ("canonical", "safe", "default", "aggressive")
"""The names of the levels 0 to 3."""


_OLDER_NAMES: Final = ("VMBuiltinLower",)
"""Names of passes that give a warning and the pass under its name of today."""


@cache
def available_passes() -> Mapping[str, Callable[[], Pass]]:
    """The passes that need no arguments, by name, in alphabetical order: those among the names of `regraft.passes`."""
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

    Raises `PassError` for a name that is none, with the nearest one that is.
    """
    known = available_passes()
    chosen: list[Pass] = []
    for name in (part.strip() for part in names.split(",")):
        make = known.get(name)
        if make is None:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise PassError(f"there is no pass {name!r}; {hint}")
        chosen.append(make())
    return Sequential(chosen, name="passes")


def recognizing(passes: Sequential) -> tuple[Pass, ...]:
    """The first of ``passes``, up to `RecognizeOperators`; none if that is not among them."""
    names = [one.name for one in passes]
    wanted = RecognizeOperators().name
    return passes.passes[: names.index(wanted) + 1] if wanted in names else ()


def level_number(level: int | str) -> int:
    """A level as its number, given by number or by name; raises `PassError` for one that does not exist."""
    text = str(level)
    if text in LEVELS:
        return LEVELS.index(text)
    if text.isdecimal() and int(text) < len(LEVELS):
        return int(text)
    known = ", ".join(f"{number} ({name})" for number, name in enumerate(LEVELS))
    raise PassError(f"there is no level {level!r}; there are: {known}")


def pipeline(level: int | str = "default", machine: Machine = CPU_CORE, without: Collection[str] = ()) -> Sequential:
    """The passes of a level, in order and until none changes anything. A level does all that the one below it does.

    0, ``"canonical"``: one name for one value, nothing that nothing needs. Same values to the bit.
    1, ``"safe"``: what depends on constants only is computed, what is computed twice is computed once, what is the same
    in each step of a loop is computed before it, axes and shapes
    change at most once in a row, what gives its operand back is left out, batch norms and padding go into convolutions.
    Same values, but for rounding where constants are computed by the reference semantics or a batch norm is folded.
    Other weights keep their names.
    2, ``"default"``: matmuls of one left side become one where that is estimated to be faster on ``machine``, by shapes
    alone (`combining_pays`), and activations, norms and attention that are written out become one operator. Each
    element is the same sum of products as before; an engine may add them up in another order, and round elsewhere in
    operators that were recognized. Inputs are taken to be finite. Combined weights are new ones, without the names of
    the old.
    3, ``"aggressive"``: all matmuls of one left side become one, faster or not, unless their weights are stored as
    codes, ``x @ (a + b)`` is expanded, and products of three are done in the cheaper order: other sums of the same
    terms, so float results may differ by more than the last digits.

    ``without``: forms that stay written out, by the names that `RecognizeOperators` has for them, or `ATTENTION`;
    with `GROWING_CONSTANTS`, so do constants that are larger than what they are made of, or would stand beside it; with
    `SPLIT_WEIGHTS`, so does what is computed from a weight that is used otherwise as well.
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
        # A norm whose factor is 1, as it is before training, is a norm still: no-ops go afterwards.
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

"""PyTorch to PyTorch: forty models read, optimized and written back, half of them with dynamic sizes.

Both programs run as exported by `torch.export`, on the same inputs, in turns. A result that differs, or that does not
run at one of the sizes, is an error. Takes some four minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

import regraft as rx
from bench.roundtrip_models import DYNAMIC, FIXED, Case
from bench.table import Table
from bench.timing import TRIALS, least_pair
from regraft.formats.quiet import quiet
from regraft.formats.torch.nodes import all_nodes

ROUNDS: Final = 7
MOST: Final = 1.05
"""The limit for the time of a result, as a multiple of the model's time."""
_TOLERANCE: Final = 2e-4


def run() -> Iterator[Table]:
    """Time every model; raises if a result differs, and at the end if one is slower than `MOST` allows."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: list[tuple[str | int | float, ...]] = []
    slow: list[str] = []
    for kind, cases in (("fixed", FIXED), ("dynamic", DYNAMIC)):
        for name, build in cases.items():
            torch.manual_seed(0)
            before, after, ratio = measured(build())
            rows.append((name, kind, before, after, ratio))
            if ratio > MOST:
                slow.append(f"{name}: {ratio:.2f}")
    yield Table(
        "From PyTorch and back",
        ("model", "sizes", "operators before", "after", "time after / before"),
        tuple(rows),
        f"`optimize` at its default level. CPU time of one thread, the least of {ROUNDS} rounds in turns; where "
        f"the result seems slower, of {ROUNDS * TRIALS}. Models with dynamic sizes are run, and compared, at two "
        "choices of them.",
    )
    if slow:
        raise AssertionError(f"slower than {MOST} times: {'; '.join(slow)}")


def measured(case: Case) -> tuple[int, int, float]:
    """The operators before and after, and the largest ratio of times over the sizes."""
    args, kwargs = case.draw(*case.sizes[0])
    with quiet():
        program = torch.export.export(case.module, args, kwargs, dynamic_shapes=case.dynamic)
        result = rx.optimize(program)
        modules = program.module(), result.module()
    ratios: list[float] = []
    for sizes in case.sizes:
        args, kwargs = case.draw(*sizes)
        steps = [partial(_run, module, args, kwargs) for module in modules]
        _check(steps[1](), steps[0]())
        first, second = least_pair(lambda made=steps: made, ROUNDS, MOST)
        ratios.append(second / first)
    return operators(program), operators(result), max(ratios)


def _run(module: Any, args: Any, kwargs: Any) -> Any:
    with torch.no_grad():
        return module(*args, **kwargs)


def _check(got: Any, want: Any) -> None:
    pairs = zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=_TOLERANCE, atol=_TOLERANCE)


def operators(program: ExportedProgram) -> int:
    """The number of operator calls in a program and its regions and bodies, without assertions and size arithmetic."""
    names = [str(node.target) for node in all_nodes(program.graph_module) if hasattr(node.target, "_schema")]
    return sum("_assert" not in name and "sym_" not in name for name in names)

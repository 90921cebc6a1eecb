"""The table of the operators of PyTorch's core ATen set that `from_torch` reads.

``python -m tools.torch_coverage`` prints the page ``docs/torch_coverage.md``. All of it comes from the handlers and
from PyTorch's own tags.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

import torch

from regraft.formats.torch import handlers as handlers
from regraft.formats.torch.complex_numbers import COMPLEX_HANDLERS
from regraft.formats.torch.context import HANDLERS

_HEADER: Final = """\
# Operators of PyTorch

`regraft.from_torch` reads {handled} overloads of ATen operators. This page first lists the {core} operators of the
core set of PyTorch {version}; every model can be decomposed into these. Then it lists the other operators that are read
directly. PyTorch itself decomposes an operator that is in neither list. What still has no counterpart is carried
through as it is, and comes back in PyTorch. So are calls that draw random numbers.

`python -m tools.torch_coverage` prints this page.

## The core set

| operator | read |
|---|---|
"""
_COMPLEX: Final = """
## Complex numbers

A complex tensor is read as two real tensors. These operators take or make complex numbers:

"""
_MORE: Final = """
## Beyond the core set

These stay as the person wrote them:

"""


def core_operators() -> list[str]:
    """The names of the overloads that this PyTorch tags as core ATen, in alphabetical order."""
    found: list[str] = []
    names: Iterable[str] = torch._C._dispatch_get_all_op_names()  # pyright: ignore[reportPrivateUsage]
    for name in names:
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        packet: Any = getattr(torch.ops.aten, base, None) if namespace == "aten" else None
        operator = getattr(packet, overload or "default", None)
        if operator is not None and torch.Tag.core in operator.tags:
            found.append(str(operator))
    return sorted(found)


def is_read(name: str) -> bool:
    """True if an overload has a handler, for real or for complex tensors."""
    return name in HANDLERS or name in COMPLEX_HANDLERS


def why_not(name: str) -> str:
    """The table's entry for a core operator that has no handler."""
    base, overload = name.split(".")[1:]
    if base in ("rand", "randn", "randperm"):
        return "as it is: random numbers"
    if overload == "out" or base.endswith("_"):
        return "yes, after PyTorch made the program functional"
    return "no"


def page() -> str:
    """The whole page."""
    core = core_operators()
    version = torch.__version__.partition("+")[0]
    handled = list(dict.fromkeys([*HANDLERS, *COMPLEX_HANDLERS]))
    lines = [f"| `{name}` | {'yes' if is_read(name) else why_not(name)} |" for name in core]
    others = ", ".join(f"`{name.removeprefix('aten.')}`" for name in sorted(HANDLERS) if name not in core)
    pairs = ", ".join(f"`{name.removeprefix('aten.')}`" for name in sorted(COMPLEX_HANDLERS))
    header = _HEADER.format(handled=len(handled), core=len(core), version=version)
    return f"{header}{chr(10).join(lines)}\n{_MORE}{others}\n{_COMPLEX}{pairs}\n"


if __name__ == "__main__":
    sys.stdout.write(page())

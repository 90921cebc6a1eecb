"""Which operators of PyTorch's core ATen set `from_torch` reads; the table that ``docs/torch_coverage.md`` holds.

``python -m regraft.convert.torch.coverage`` prints it. Everything comes from the handlers and from PyTorch's own tags.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

import torch

from . import handlers as handlers
from .context import HANDLERS

_HEADER: Final = """\
# Operators of PyTorch

`regraft.from_torch` reads {handled} overloads of ATen operators. This page lists the {core} that PyTorch {version}
calls its core set, which every model can be decomposed to, and the others, which are read without being decomposed. An
operator that is in neither list is first decomposed by PyTorch, by itself; what has no counterpart then is an error
that lists all such operators with their places.

`python -m regraft.convert.torch.coverage` prints this page.

## The core set

| operator | read |
|---|---|
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


def why_not(name: str) -> str:
    """Why a core operator has no handler."""
    base, overload = name.split(".")[1:]
    if "_backward" in base:
        return "no: gradients are made here, by `regraft.transform.Gradient`"
    if base.startswith(("rand", "normal", "bernoulli")):
        return "no: random numbers"
    if "fft" in base:
        return "no: complex numbers"
    if overload == "out" or base.endswith("_"):
        return "yes, after PyTorch made the program functional"
    return "no"


def page() -> str:
    """The whole page."""
    core = core_operators()
    version = torch.__version__.partition("+")[0]
    lines = [f"| `{name}` | {'yes' if name in HANDLERS else why_not(name)} |" for name in core]
    others = ", ".join(f"`{name.removeprefix('aten.')}`" for name in sorted(HANDLERS) if name not in core)
    header = _HEADER.format(handled=len(HANDLERS), core=len(core), version=version)
    return header + "\n".join(lines) + "\n" + _MORE + others + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())

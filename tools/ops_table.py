"""The table of the vocabulary: the facts about each operator, and the engines and formats that support it.

`python -m tools.ops_table` prints the page ``docs/ops.md``. No part of the table is written by hand: rules, traits and
summaries come from the declarations, and the columns of the engines from the engines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from regraft import op as ops
from regraft.gradient import has_gradient
from regraft.ir.op import REQUIRED, Op, Trait
from regraft.run import runs_on, target_names

YES: Final = "yes"
ENGINE: Final = "engine"
"""The mark of an operator without a reference function, which the NumPy engine runs with code of its own."""
STOPS: Final = "stops"
NONE: Final = "–"

_HEADER: Final = """\
# Operators

This page lists every operator. `make docs` generates it from the code. The **type rule** checks a call when it is
built. The **reference** semantics are written once, over the Python array API standard. "engine" means that the
operator leaves the program (a call of an outside function, printing); each engine runs it in its own way. In the
column **gradient**, "stops" means that no gradient passes through. The next columns name the engines that run the
operator: ONNX Runtime, PyTorch and XLA; "–" means not yet. Engines, writers and gradients have a rule for every
**primitive**. They may decompose a **composite** into primitives by its reference. The **precision** says whether an
operator leads into narrow dtypes, follows narrow operands, or keeps float32.
"""

_TARGETS: Final = {"onnx": "onnxruntime", "torch": "torch", "xla": "xla"}
"""The columns for engines, and their targets. ONNX Runtime runs an operator if it can be written as ONNX."""


def vocabulary() -> list[Op]:
    """The operators whose names begin with ``relax.``. Operators of other domains are left out."""
    return [op for op in Op.all() if op.name.startswith("relax.")]


def public_function(op: Op, namespace: Any = ops) -> Callable[..., Any] | None:
    """The function that people call for ``op``: ``ops.nn.relu`` for ``relax.nn.relu``; None if there is none."""
    found: Any = namespace
    for part in op.name.removeprefix("relax.").split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found if callable(found) else None


def summary(op: Op) -> str:
    """The first sentence of the docstring of the operator's public function; "" if there is none."""
    function = public_function(op)
    text = " ".join(((function.__doc__ if function else None) or "").split("\n\n")[0].split())
    end = text.find(". ")
    return (text if end < 0 else text[: end + 1]).rstrip(".")


def signature(op: Op) -> str:
    """The operator's operands and attributes: ``x, axes=None``."""
    operands = [f"{operand.name}?" if operand.optional else operand.name for operand in op.operands]
    if op.variadic:
        operands[-1] = f"*{operands[-1]}"
    attributes = [name if value is REQUIRED else f"{name}={value!r}" for name, value in op.attributes.items()]
    return ", ".join([*operands, *(["*"] if attributes and not op.variadic else []), *attributes])


def columns() -> tuple[str, ...]:
    """The titles of the columns."""
    return ("operator", "summary", "kind", "precision", "traits", "type rule", "reference", "gradient", *_TARGETS)


def row(op: Op) -> tuple[str, ...]:
    """The cells of an operator."""
    traits = ", ".join(trait.name.lower() for trait in Trait if trait in op.traits)
    reference = YES if op.reference is not None else ENGINE if runs_on("numpy", op) else ""
    gradient = YES if has_gradient(op) else STOPS if Trait.STOPS_GRADIENT in op.traits else NONE
    return (
        f"`{op.name}({signature(op)})`",
        summary(op),
        "primitive" if op.is_primitive else "composite",
        op.precision.name.lower(),
        traits,
        YES if callable(op.infer) else "",
        reference,
        gradient,
        *(YES if target in target_names() and runs_on(target, op) else NONE for target in _TARGETS.values()),
    )


def table() -> str:
    """The whole page."""
    lines = [_line(columns()), _line(["---"] * len(columns()))]
    lines += [_line(row(op)) for op in vocabulary()]
    return "\n".join([_HEADER, *lines, ""])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    sys.stdout.write(table())

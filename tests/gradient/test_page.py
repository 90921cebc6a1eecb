"""The table of ``docs/gradients.md`` says of each operator what the code says."""

from __future__ import annotations

from pathlib import Path

from regraft.ir import Op, Trait

# What TVM 0.27 registers an `FPrimalGradient` for, of the operators that this table is about.
IN_TVM = [
    "abs",
    "add",
    "astype",
    "broadcast_to",
    "concat",
    "cos",
    "cumsum",
    "divide",
    "exp",
    "expand_dims",
    "full",
    "full_like",
    "log",
    "matmul",
    "maximum",
    "mean",
    "minimum",
    "multiply",
    "negative",
    "permute_dims",
    "power",
    "reshape",
    "sigmoid",
    "sin",
    "split",
    "sqrt",
    "subtract",
    "sum",
    "take",
    "tanh",
    "triu",
    "variance",
    "where",
]
APART = ("relax.nn.", "relax.image.", "relax.grad.", "relax.quantize", "relax.dequantize")


def rows() -> list[str]:
    """The lines of the table: every operator that has a gradient here and is not of a family with a table elsewhere."""
    lines = ["| operator | here | TVM 0.27 |", "| --- | --- | --- |"]
    for op in Op.all():
        name = op.name.removeprefix("relax.")
        differentiable = op.gradient is not None and Trait.STOPS_GRADIENT not in op.traits
        if differentiable and op.name.startswith("relax.") and not op.name.startswith(APART):
            lines.append(f"| `{name}` | yes | {'yes' if name in IN_TVM else '–'} |")
    return lines


def test_the_table_of_the_page_is_what_the_code_says(root: Path) -> None:
    page = (root / "docs" / "gradients.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| ")] == rows()


def test_everything_that_has_a_gradient_in_tvm_has_one_here() -> None:
    assert [name for name in IN_TVM if Op.get(name).gradient is None] == []

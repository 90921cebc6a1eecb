"""The table of gradients: for each operator with a gradient here, a column says if TVM has one, too.

`python -m tools.gradient_table` prints the page ``docs/gradients_coverage.md``.
"""

from __future__ import annotations

import sys
from typing import Final

from regraft.gradient import has_gradient
from regraft.ir.op import Op

IN_TVM: Final = frozenset(
    [
        "abs",
        "add",
        "astype",
        "broadcast_to",
        "concat",
        "cos",
        "cumsum",
        "divide",
        "equal",
        "exp",
        "expand_dims",
        "full",
        "full_like",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "log",
        "matmul",
        "maximum",
        "mean",
        "minimum",
        "multiply",
        "negative",
        "nn.avg_pool2d",
        "nn.conv2d",
        "nn.cross_entropy_with_logits",
        "nn.log_softmax",
        "nn.max_pool2d",
        "nn.nll_loss",
        "nn.relu",
        "nn.silu",
        "nn.softmax",
        "not_equal",
        "ones",
        "ones_like",
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
        "zeros",
        "zeros_like",
    ]
)
"""The operators for which TVM 0.27 registers a gradient. For some, such as ``equal``, it registers that there is none,
which is "stops" here."""

_TITLE: Final = """\
# Operators with a gradient

`make docs` generates this page. {here} operators have a gradient here, and {both} of them have one in TVM 0.27 as well.
The [page of all operators](ops.md) also shows the operators that stop the gradient or have none.

| operator | here | TVM 0.27 |
| --- | --- | --- |
"""


def differentiable() -> list[str]:
    """The names of the operators that have a gradient, without ``relax.``, in the order of the vocabulary."""
    found = [op for op in Op.all() if has_gradient(op)]
    return [op.name.removeprefix("relax.") for op in found if op.name.startswith("relax.")]


def table() -> str:
    """The whole page."""
    names = differentiable()
    rows = [f"| `{name}` | yes | {'yes' if name in IN_TVM else '–'} |" for name in names]
    both = sum(name in IN_TVM for name in names)
    return _TITLE.format(here=len(names), both=both) + "\n".join([*rows, ""])


if __name__ == "__main__":
    sys.stdout.write(table())

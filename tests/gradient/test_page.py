"""``docs/gradients_coverage.md`` says of each operator what the code says, and of TVM what TVM says."""

from __future__ import annotations

from pathlib import Path

import pytest

from regraft.ir import Op, Trait
from tools.gradient_table import IN_TVM, differentiable, table


def test_the_page_is_what_the_code_says(root: Path) -> None:
    page = (root / "docs" / "gradients_coverage.md").read_text(encoding="utf-8")
    assert page == table(), "docs/gradients_coverage.md is not up to date: run `make docs`"


def test_everything_that_has_a_gradient_in_tvm_has_one_here_or_stops_it() -> None:
    operators = [Op.get(name) for name in IN_TVM]
    assert [op.name for op in operators if op.gradient is None and Trait.STOPS_GRADIENT not in op.traits] == []


def test_what_tvm_lacks_is_there() -> None:
    lacking = {"clip", "erf", "max", "nn.gelu", "nn.layer_norm", "rsqrt", "squeeze", "strided_slice"}
    assert lacking <= set(differentiable()) - IN_TVM


def test_the_column_of_tvm_is_what_tvm_registers() -> None:
    pytest.importorskip("tvm")
    from tvm.ir import Op as TvmOp

    names = [name for name in TvmOp.list_op_names() if name.startswith("relax.")]
    registered = {name for name in names if TvmOp.get(name).get_attr("FPrimalGradient") is not None}
    assert {name.removeprefix("relax.") for name in registered} == IN_TVM

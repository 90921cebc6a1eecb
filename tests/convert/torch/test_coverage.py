"""docs/torch_coverage.md is what the handlers say, and nothing of the core set is missing without a reason."""

from __future__ import annotations

from pathlib import Path

from regraft.convert.torch.context import HANDLERS
from regraft.convert.torch.coverage import core_operators, page, why_not


def test_the_page_is_what_the_code_says(root: Path) -> None:
    written = (root / "docs" / "torch_coverage.md").read_text(encoding="utf-8")
    assert written == page(), "not up to date: python -m regraft.convert.torch.coverage > docs/torch_coverage.md"


def test_the_core_operators_without_handler_or_reason_are_these() -> None:
    missing = [name for name in core_operators() if name not in HANDLERS and why_not(name) == "no"]
    assert missing == ["aten._embedding_bag.default", "aten._pdist_forward.default", "aten.col2im.default"]


def test_every_handler_is_for_an_operator_that_exists() -> None:
    import torch

    for name in HANDLERS:
        base, overload = name.removeprefix("aten.").split(".")
        assert hasattr(getattr(torch.ops.aten, base), overload), name

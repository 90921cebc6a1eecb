"""docs/torch_coverage.md is what the handlers say, and nothing of the core set is missing without a reason."""

from __future__ import annotations

from pathlib import Path

from regraft.formats.torch.complex_numbers import COMPLEX_HANDLERS
from regraft.formats.torch.context import HANDLERS
from tools.torch_coverage import core_operators, is_read, page, why_not


def test_the_page_is_what_the_code_says(root: Path) -> None:
    written = (root / "docs" / "torch_coverage.md").read_text(encoding="utf-8")
    assert written == page(), "not up to date: python -m tools.torch_coverage > docs/torch_coverage.md"


def test_only_random_numbers_of_the_core_set_have_no_handler() -> None:
    missing = [name for name in core_operators() if not is_read(name) and not why_not(name).startswith("yes")]
    assert missing == ["aten.rand.default", "aten.randn.default", "aten.randperm.default"]
    assert [why_not(name) for name in missing] == ["as it is: random numbers"] * 3


def test_every_handler_is_for_an_operator_that_exists() -> None:
    import torch
    import torch.ao.quantization.fx._decomposed  # declares the operators of quantized programs

    for name in [*HANDLERS, *COMPLEX_HANDLERS]:
        namespace, base, overload = name.split(".")
        if namespace != "transformers":
            assert hasattr(getattr(getattr(torch.ops, namespace), base), overload), name

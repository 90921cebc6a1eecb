"""Every name of Relax is on the page about it, and the page is what the packages say."""

from __future__ import annotations

from pathlib import Path

import pytest

import regraft as rx
from tools.relax_names import DIFFERS, LEFT_OUT, NAMESPACES, public_names, row, table

PAGE = Path(__file__).parents[2] / "docs" / "relax.md"


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_name_of_a_namespace_has_a_row(namespace: str) -> None:
    section = PAGE.read_text().split(f"### `{namespace}` is ")[1].split("### ")[0]
    for name in public_names(namespace):
        entry = row(namespace, name)
        assert f"| `{name}` | {entry.state} | {entry.remark} |" in section


def test_the_page_is_what_the_tool_prints() -> None:
    assert table() == PAGE.read_text(), "run `make docs`"


def test_no_reason_is_kept_for_a_name_that_is_gone() -> None:
    names = {name for namespace in NAMESPACES for name in public_names(namespace)}
    full = {f"{namespace}.{name}" for namespace in NAMESPACES for name in public_names(namespace)}
    assert set(LEFT_OUT) <= names
    assert set(DIFFERS) <= full


def test_names_that_are_left_out_can_be_imported_and_say_why_when_they_are_called() -> None:
    from regraft.analysis import has_reshape_pattern
    from regraft.transform import FuseTIR

    for name in (has_reshape_pattern, FuseTIR):
        with pytest.raises(NotImplementedError, match=r"is left out: works on TensorIR"):
            name()
    for module in (rx.analysis, rx.transform):
        with pytest.raises(AttributeError, match=r"has no attribute 'Exp'"):
            module.Exp  # noqa: B018 - the name itself is tested

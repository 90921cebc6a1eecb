"""Messages of other packages stay away from people who did not ask for them."""

from __future__ import annotations

import logging

import pytest

from regraft.formats.quiet import quiet


def test_parts_of_a_package_that_are_loaded_inside_are_quiet_too(caplog: pytest.LogCaptureFixture) -> None:
    package = logging.getLogger("speaking")
    package.setLevel(logging.WARNING)
    with quiet("speaking"):
        package.warning("of itself")
        logging.getLogger("speaking.loading").error("a report of many lines")
    assert caplog.records == []
    assert package.level == logging.WARNING
    logging.getLogger("speaking.loading").error("said outside")
    assert caplog.messages == ["said outside"]


def test_a_level_that_a_package_gives_itself_inside_stays() -> None:
    with quiet("beginning"):
        logging.getLogger("beginning").setLevel(logging.INFO)
    assert logging.getLogger("beginning").level == logging.INFO

"""Fixtures of the tests of operators: the calls of a module are computed on XLA together, at its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.op.on_xla import disagreements


@pytest.fixture(scope="module", autouse=True)
def computed_on_xla() -> Iterator[None]:
    yield
    found = disagreements()
    assert not found, "\n".join(found)

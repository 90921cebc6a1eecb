"""Relax's short forms for pytest, which is imported when one of them is called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn


def parameter(*values: Any, ids: Any = None, by_dict: Mapping[str, Any] | None = None) -> Any:
    """A fixture that takes each of ``values``, or each value of ``by_dict`` under its name."""
    import pytest

    if by_dict is not None:
        ids, values = list(by_dict), tuple(by_dict.values())

    def given(request: Any) -> Any:
        return request.param

    return pytest.fixture(params=values, ids=ids)(given)


def fixture(func: Callable[..., Any] | None = None, *, cache_return_value: bool = False) -> Any:
    """A fixture of pytest, computed once for each module if ``cache_return_value``."""
    import pytest

    return pytest.fixture(func, scope="module" if cache_return_value else "function")


def main() -> NoReturn:
    """Run the tests of the file that the interpreter was started with, and end with pytest's status."""
    import pytest

    sys.exit(pytest.main(sys.argv))

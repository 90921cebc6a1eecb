"""Relax's shorthands for pytest. Pytest is imported only when one of them is called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn


def parameter(*values: Any, ids: Any = None, by_dict: Mapping[str, Any] | None = None) -> Any:
    """A pytest fixture with each of ``values`` as a parameter, or each value of ``by_dict`` with its key as the id."""
    import pytest

    if by_dict is not None:
        ids, values = list(by_dict), tuple(by_dict.values())

    def given(request: Any) -> Any:
        return request.param

    return pytest.fixture(params=values, ids=ids)(given)


def fixture(func: Callable[..., Any] | None = None, *, cache_return_value: bool = False) -> Any:
    """A pytest fixture. With ``cache_return_value`` it is computed once for each module."""
    import pytest

    return pytest.fixture(func, scope="module" if cache_return_value else "function")


def main() -> NoReturn:
    """Run pytest on the file that the interpreter was started with (``sys.argv``), and exit with pytest's status."""
    import pytest

    sys.exit(pytest.main(sys.argv))

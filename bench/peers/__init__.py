"""Other tools that rewrite tensor programs, each with the same job as ours; one module for each tool.

A module is imported only if its tool is installed (`installed`). Its ``chain(count)`` gives a `Job`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

PACKAGES = {"tvm": "tvm", "tinygrad": "tinygrad", "onnxscript": "onnxscript", "fx": "torch", "inductor": "torch"}


class Job(NamedTuple):
    """A program and a rule: ``fresh()`` makes the program, ``rewrite(program)`` is timed, and ``products(result)``
    counts the multiplications in the result, to check that the work was done.
    """

    fresh: Callable[[], Any]
    rewrite: Callable[[Any], Any]
    products: Callable[[Any], int]


def installed() -> dict[str, ModuleType]:
    """The peers whose package is installed, by name."""
    return {
        name: import_module(f"{__name__}.{name}_peer")
        for name, package in PACKAGES.items()
        if find_spec(package) is not None
    }

"""Fixtures of all tests: repeatable property tests, no network, a way to run Python in its own process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# Collecting the tests makes millions of objects that stay: no collection of garbage goes through them meanwhile.
gc.disable()

# Nothing that was decided on this machine before may decide a test, and tests leave nothing there.
os.environ["REGRAFT_CACHE"] = ""

# Before any test module can import a library that reads it: models under test are built here, never fetched.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# Before JAX is first used: a mesh of eight devices, simulated in one process, for the tests of shardings.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

# Workers of pytest-xdist say that they are 80 columns wide, and the tables of the command would be folded to that.
for size in ("COLUMNS", "LINES"):
    os.environ.pop(size, None)

# No time limits in either profile: how fast a loaded machine draws an example says nothing of the program.
settings.register_profile(
    "ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


SLOW = (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `slow.txt`, which `make test` leaves out and `make test-slow` runs."""
    slow = set(SLOW)
    for item in items:
        if item.nodeid in slow:
            item.add_marker(pytest.mark.slow)


_GENERATORS: list[tuple[np.random.Generator, Any]] = []
"""The generators of random numbers that modules of tests share, with their states before the first test."""


def pytest_collection_finish() -> None:
    """Keep the objects that collecting the tests has made to the end, out of the way of the garbage collector."""
    modules = [module for name, module in sys.modules.items() if name.startswith("tests.")]
    found = {
        id(one): one for module in modules for one in vars(module).values() if isinstance(one, np.random.Generator)
    }
    _GENERATORS.extend((one, one.bit_generator.state) for one in found.values())
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Each test draws the same random numbers, whichever tests the worker has run before."""
    for generator, state in _GENERATORS:
        generator.bit_generator.state = state
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(0)


RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Run this interpreter in an empty directory with the working tree's package; output is text."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        search_path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": search_path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run

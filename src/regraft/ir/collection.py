"""Pausing the garbage collector while a large structure without cycles is built."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Generator[None]:
    """Pause cyclic garbage collection inside the ``with`` block. Reference counting still frees memory.

    Syntax trees and programs have no cycles. The collector would walk a growing one again and again, which costs
    more than linear time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

"""The number of PyTorch's threads, which is one setting of the whole process, set temporarily."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec


@contextmanager
def torch_threads(count: int | None) -> Generator[None]:
    """Set the number of PyTorch threads inside the ``with`` block, and restore it afterwards; None changes nothing."""
    if count is None or find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

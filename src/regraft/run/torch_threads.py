"""The number of threads that PyTorch runs on, which is one for the whole process, set for a while."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec


@contextmanager
def torch_threads(count: int | None) -> Generator[None]:
    """PyTorch on ``count`` threads inside, and on as many as before afterwards; for None nothing changes."""
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

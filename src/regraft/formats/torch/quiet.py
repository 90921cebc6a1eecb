"""PyTorch without what it says of itself: its warnings and logs are for those who develop it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def quiet() -> Generator[None]:
    """Inside, PyTorch warns of nothing and logs nothing; what it raises is raised all the same."""
    loggers = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict) if _is_torch(name)]
    before = [(logger, logger.disabled) for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, disabled in before:
            logger.disabled = disabled


def _is_torch(name: str) -> bool:
    return name.partition(".")[0] == "torch"

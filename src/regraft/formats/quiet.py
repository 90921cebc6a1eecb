"""Other packages without what they say of themselves: their warnings and logs are for those who develop them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_TORCH: Final = ("torch",)


@contextmanager
def quiet(*packages: str) -> Generator[None]:
    """Inside, PyTorch, or ``packages``, log nothing and warn of nothing; what they raise is raised all the same.

    A package that is first imported inside logs nothing under its own name either.
    """
    silent = packages or _TORCH
    names = [name for name in list(logging.root.manager.loggerDict) if name.partition(".")[0] in silent]
    loggers = [logging.getLogger(name) for name in dict.fromkeys((*names, *silent))]
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

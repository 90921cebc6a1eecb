"""Other packages without what they say of themselves: their warnings and logs are for those who develop them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_TORCH: Final = ("torch",)
_ABOVE_ALL: Final = logging.CRITICAL + 1


@contextmanager
def quiet(*packages: str) -> Generator[None]:
    """Inside, PyTorch, or ``packages``, log nothing and warn of nothing; what they raise is raised all the same.

    A package that is first imported inside logs nothing under its own name either, and the parts of one that is
    imported already, which may be loaded inside, nothing at all.
    """
    silent = packages or _TORCH
    names = [name for name in list(logging.root.manager.loggerDict) if name.partition(".")[0] in silent]
    loggers = [logging.getLogger(name) for name in dict.fromkeys((*names, *silent))]
    before = [(logger, logger.disabled) for logger in loggers]
    levels = [(logger, logger.level) for logger in map(logging.getLogger, silent)]
    for logger in loggers:
        logger.disabled = True
    for logger, _ in levels:
        logger.setLevel(_ABOVE_ALL)  # which the loggers below it take that come later
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, disabled in before:
            logger.disabled = disabled
        for logger, level in levels:
            if logger.level == _ABOVE_ALL:
                logger.setLevel(level)

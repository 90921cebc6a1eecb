"""Silence for other packages: their warnings and logs are meant for their own developers."""

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
    """Ignore all warnings, and the logs of PyTorch or of ``packages``, inside the context. Exceptions are still raised.

    A package that is first imported inside logs nothing under its own name. If a package is imported already, its
    parts that are loaded inside log nothing at all.
    """
    silent = packages or _TORCH
    names = [name for name in list(logging.root.manager.loggerDict) if name.partition(".")[0] in silent]
    loggers = [logging.getLogger(name) for name in dict.fromkeys((*names, *silent))]
    before = [(logger, logger.disabled) for logger in loggers]
    levels = [(logger, logger.level) for logger in map(logging.getLogger, silent)]
    for logger in loggers:
        logger.disabled = True
    for logger, _ in levels:
        logger.setLevel(_ABOVE_ALL)  # loggers below it that are created later inherit this level
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

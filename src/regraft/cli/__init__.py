"""The `regraft` command: the library's main functions, for people at a terminal and for scripts.

A command imports slow modules itself, so that ``regraft --help`` answers at once. The package may import every other
one; no other package imports it.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from io import TextIOWrapper
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells: 128 plus the number of the signal."""
_TERMINATED = 143


class _TerminatedError(BaseException):
    """The process received a signal to end. It is not a `SystemExit`, because other code may raise that."""


def main() -> None:
    """Run the command line on this process's arguments, and exit."""
    _open_streams()
    warnings.showwarning = _show_warning
    try:
        from .app import app

        app(obj=_clean_up_when_stopped)
    except KeyboardInterrupt:
        say_interrupted()
        sys.exit(INTERRUPTED)
    except _TerminatedError:
        sys.exit(_TERMINATED)


def _open_streams() -> None:
    """Make sure that standard output and error exist, and escape characters that their encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # it was closed before this process began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for as long as the process runs
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    """Show a warning on one line; a warning from another package with its place in the source."""
    is_own = category.__module__.partition(".")[0] == __name__.partition(".")[0]
    place = "" if is_own else f"{filename}:{lineno}: {category.__name__}: "
    print(f"warning: {place}{message}", file=sys.stderr if file is None else file)


def _clean_up_when_stopped() -> None:
    # From here on an interrupted command is cleaned up as the stack unwinds. Before, there is nothing to clean up.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)


def say_interrupted(where: str | None = None) -> None:
    """Report that Ctrl-C ended the command, and ``where`` it was, if that is known."""
    print(f"regraft: interrupted{f', {where}' if where else ''}; nothing was left half-written", file=sys.stderr)


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _TerminatedError

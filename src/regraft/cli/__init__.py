"""The `regraft` command: what the other rooms do, for people at a terminal and for scripts.

Everything that takes time to import is imported by the command that needs it, so that ``regraft --help`` answers at
once. Knows every room; no room knows it.
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
"""The exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""
_TERMINATED = 143


class _TerminatedError(BaseException):
    """The process was told to end. No `SystemExit`, which code of others may raise, and which is told as its own."""


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
    """Let standard output and error be there, and write what their encoding lacks, as letters in a name, escaped."""
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
    """Show a warning in a line: one of another package with its place, where its makers look for it."""
    is_own = category.__module__.partition(".")[0] == __name__.partition(".")[0]
    place = "" if is_own else f"{filename}:{lineno}: {category.__name__}: "
    print(f"warning: {place}{message}", file=sys.stderr if file is None else file)


def _clean_up_when_stopped() -> None:
    # From here on something may be half done, which is cleaned up as the stack unwinds; until here, nothing is.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)


def say_interrupted(where: str | None = None) -> None:
    """Say that Ctrl-C ended the command, and ``where`` it was, if that is known."""
    print(f"regraft: interrupted{f', {where}' if where else ''}; nothing was left half-written", file=sys.stderr)


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _TerminatedError

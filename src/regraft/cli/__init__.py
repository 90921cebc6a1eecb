"""The `regraft` command: what the other rooms do, for people at a terminal and for scripts.

Everything that takes time to import is imported by the command that needs it, so that ``regraft --help`` answers at
once. Knows every room; no room knows it.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""
_TERMINATED = 143


def main() -> None:
    """Run the command line on this process's arguments, and exit."""
    # What is half done is cleaned up on the way out, which the signal's own action would skip.
    signal.signal(signal.SIGTERM, _terminate)
    try:
        from .app import app

        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(_TERMINATED)

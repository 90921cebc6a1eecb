"""The first step of the `regraft` command, in front of the package, which takes a moment to import.

Ctrl-C in that moment ends the command as it does later on, with a message and an exit code and no traceback.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

_INTERRUPTED = 130
_MESSAGE = b"regraft: interrupted; nothing was left half-written\n"


def main() -> None:
    """Run the command line on this process's arguments, and exit."""
    signal.signal(signal.SIGINT, _stop)
    from regraft.cli import main as run

    run()


def _stop(_number: int, _frame: FrameType | None) -> None:
    # An exception would end up wherever an import happens to be, some of which is native code that reports it in its
    # own way. Nothing has been opened or written yet.
    os.write(2, _MESSAGE)
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()

"""A connection from each process of a run to the first process, which tells all others if one ends prematurely.

A process that waits for another one inside a compiled program cannot be reached from Python, so a separate thread
prints the reason and ends the process. Nothing is sent while all is well: the operating system reports that a process
has died, and the other machine's system finds out that a machine is gone.
"""

from __future__ import annotations

import atexit
import hmac
import logging
import os
import selectors
import socket
import sys
import threading
import time
from types import TracebackType
from typing import Any, Final, NoReturn, final

EXIT_CODE: Final = 75
"""The exit code of a process that ends because another one did: EX_TEMPFAIL in ``sysexits.h``, "try again later"."""

GRACE_SECONDS: Final = 2.0
"""The seconds until an error counts as this process's own: the end of another process may be its cause."""

_DONE: Final = b"done"
_FAILED: Final = b"failed "
_OVER: Final = b"over "
_MOST_WAITING: Final = 65536


@final
class ProcessWatch:
    """The connections of this process: to the first process, or, in the first process, to all others."""

    def __init__(self, process: int, processes: int, dead_after: float) -> None:
        self.process: Final = process
        self.processes: Final = processes
        self._dead_after: Final = dead_after
        self._peers: Final[dict[int, socket.socket]] = {}
        self._failed = False
        self._previous_hook: Any = None

    # --- coming together

    def listen(self, key: str) -> int:
        """Accept the connections of the other processes, which send ``key``; returns the port. For process 0."""
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        server = socket.create_server(
            ("", 0), family=family, dualstack_ipv6=family == socket.AF_INET6, backlog=self.processes
        )
        threading.Thread(target=self._accept, args=(server, key.encode()), daemon=True, name="process watch").start()
        return server.getsockname()[1]

    def join(self, host: str, port: int, key: str, wait: float) -> None:
        """Connect to process 0. Raises `OSError` if it cannot be reached within ``wait`` seconds."""
        connection = socket.create_connection((host, port), timeout=wait)
        connection.settimeout(None)
        self._keep_alive(connection)
        connection.sendall(f"{key} {self.process}\n".encode())
        self._peers[0] = connection
        threading.Thread(target=self._watch, daemon=True, name="process watch").start()

    def report_own_end(self) -> None:
        """Report the end of this process, by an error or normally, to the others."""
        self._previous_hook = sys.excepthook
        sys.excepthook = self._on_error
        atexit.register(self._at_exit)

    def _accept(self, server: socket.socket, key: bytes) -> None:
        """Wait until all other processes have connected, and then for their messages."""
        with server:
            while len(self._peers) < self.processes - 1:
                connection, _ = server.accept()
                connection.settimeout(self._dead_after)
                try:
                    shown, _, number = connection.makefile("rb").readline(_MOST_WAITING).strip().partition(b" ")
                except OSError:
                    shown, number = b"", b""
                if not hmac.compare_digest(shown, key) or not number.isdigit():
                    connection.close()
                    continue
                connection.settimeout(None)
                self._keep_alive(connection)
                self._peers[int(number)] = connection
        self._watch()

    def _keep_alive(self, connection: socket.socket) -> None:
        """Make the operating system detect that the other machine is gone, although nothing is sent."""
        probes = 3
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        idle = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)
        settings = {idle: self._dead_after / 2, getattr(socket, "TCP_KEEPINTVL", None): self._dead_after / 2 / probes}
        settings[getattr(socket, "TCP_KEEPCNT", None)] = probes
        for option, value in settings.items():
            if option is not None:
                connection.setsockopt(socket.IPPROTO_TCP, option, max(1, int(value)))

    # --- while it runs

    def _watch(self) -> None:
        """Wait for the end of the other processes."""
        with selectors.DefaultSelector() as waiting:
            for number, connection in self._peers.items():
                waiting.register(connection, selectors.EVENT_READ, number)
            heard = dict.fromkeys(self._peers, b"")
            while waiting.get_map():
                for key, _ in waiting.select():
                    number, connection = key.data, key.fileobj
                    assert isinstance(connection, socket.socket)
                    try:
                        came = connection.recv(_MOST_WAITING)
                    except OSError:
                        came = b""
                    heard[number] += came
                    if not came:
                        waiting.unregister(connection)
                        if not heard[number].startswith(_DONE):
                            self._end(f"process {number} has died (killed, out of memory, or its machine is gone)")
                    elif heard[number].endswith(b"\n"):
                        self._hear(number, heard[number].strip())

    def _hear(self, number: int, said: bytes) -> None:
        if said.startswith(_OVER):
            self._end(said.removeprefix(_OVER).decode(errors="replace"))
        if said.startswith(_FAILED):
            self._end(f"process {number} has failed: {said.removeprefix(_FAILED).decode(errors='replace')}")

    def _end(self, why: str) -> NoReturn:
        """Send the reason to all processes, and end this one."""
        self._say(_OVER + why.encode())
        if self._failed:
            _finish("", 1)
        text = f"regraft: process {self.process} of {self.processes} ends, since {why}. Start all processes again, from"
        _finish(f"{text} the last checkpoint if there is one (exit code {EXIT_CODE})", EXIT_CODE)

    def _say(self, message: bytes) -> None:
        for connection in self._peers.values():
            try:
                connection.sendall(message + b"\n")
            except OSError:
                continue  # the process has gone, which is known already

    # --- its own end

    def _on_error(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._previous_hook(kind, error, trace)
        time.sleep(GRACE_SECONDS)
        self._failed = True
        first = (str(error).splitlines() or [""])[0]
        self._say(_FAILED + f"{kind.__name__}: {first}".encode())

    def _at_exit(self) -> None:
        if not self._failed:
            self._say(_DONE)
            return
        # At exit, JAX would wait for the other processes, which have ended too.
        logging.shutdown()
        _finish("", 1)


def _finish(text: str, code: int) -> NoReturn:
    """End the process at once, whatever its threads are waiting for."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is sys.stderr and text:
                print(text, file=stream)
            stream.flush()
        except (OSError, ValueError):
            continue  # the stream is closed, so nobody reads it
    os._exit(code)

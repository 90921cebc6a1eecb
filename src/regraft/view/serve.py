"""A page that keeps up with its files: served on this machine only, and loaded again when one of them changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any, Final

from ..ir.errors import RegraftError
from .page import Page

NUMBER: Final = "number"
"""The address, below that of the page, at which it asks whether it is out of date."""

_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")


class Served:
    """A page and the files that it is made from; ``make`` makes it, ``tell`` is given what goes wrong.

    ``number`` counts the pages made so far. Where making one fails, the last one stays.
    """

    def __init__(
        self, make: Callable[[], Page], files: Callable[[], Sequence[Path]], tell: Callable[[str], None]
    ) -> None:
        self._make = make
        self._files = files
        self._tell = tell
        self._lock = Lock()
        self._stamp = _stamp_of(files())
        self.html = make().to_html(reload=NUMBER)
        self.number = 1

    def refresh(self) -> None:
        """Make the page again if a file has changed since it was made."""
        with self._lock:
            stamp = _stamp_of(self._files())
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                self.html = self._make().to_html(reload=NUMBER)
            except (RegraftError, OSError, SyntaxError) as error:
                self._tell(f"the page stays as it is: {error}")
                return
            self.number += 1
            self._tell("made the page again")


def _stamp_of(files: Sequence[Path]) -> tuple[tuple[str, int, int], ...]:
    """A digest that changes when one of ``files`` does."""
    found: list[tuple[str, int, int]] = []
    for path in files:
        try:
            state = path.stat()
        except OSError:
            continue
        found.append((str(path), state.st_mtime_ns, state.st_size))
    return tuple(found)


def server(served: Served, port: int = 0) -> ThreadingHTTPServer:
    """A server of the page at ``http://127.0.0.1:PORT/``; `serve_forever` runs it. Port 0 takes one that is free."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = self.headers.get("Host", "").rpartition(":")[0]
            if host not in _HOSTS:
                # A page of another site that found this port has another name for it.
                self.send_error(HTTPStatus.FORBIDDEN)
            elif self.path in ("/", "/index.html"):
                self._give(served.html, "text/html")
            elif self.path == f"/{NUMBER}":
                served.refresh()
                self._give(str(served.number), "text/plain")
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def _give(self, text: str, kind: str) -> None:
            body = text.encode("utf-8")
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            """Requests are nothing to tell."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)

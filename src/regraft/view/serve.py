"""A local server of a page. The page is reloaded when one of its files changes."""

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
"""The address, relative to the page, at which the page asks if it is out of date."""

_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")


class Served:
    """A page that is made again when one of its files changes.

    ``make`` makes the page, ``files`` returns its files, and ``tell`` is called with messages. ``number`` counts the
    pages made so far. If making one fails, the last page stays.
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
    """A stamp that changes when one of ``files`` changes: the path, time of change and size of each existing file."""
    found: list[tuple[str, int, int]] = []
    for path in files:
        try:
            state = path.stat()
        except OSError:
            continue
        found.append((str(path), state.st_mtime_ns, state.st_size))
    return tuple(found)


def server(served: Served, port: int = 0) -> ThreadingHTTPServer:
    """A server of the page at ``http://127.0.0.1:PORT/``. Run it with `serve_forever`. Port 0 takes a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = self.headers.get("Host", "").rpartition(":")[0]
            if host not in _HOSTS:
                # The request comes from a page of another site, which reaches this port under another host name.
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
            """Do nothing: requests are not logged."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)

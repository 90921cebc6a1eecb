"""One self-contained HTML file from a page's data. Its only code is the page's own script.

The data is JSON, compressed, as base64 in an element that no browser executes. The script inserts strings as text only,
and a content security policy with the script's hash forbids any other code. The script, the styles and the layout
worker are built from `ui/` and shipped in `bundle/`.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import os
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from ..model import write_text

_FRAME_HEIGHT: Final = 720
"""The height in pixels of a page in a notebook."""


_NOWHERE: Final = "'none'"
_OWN_SERVER: Final = "'self'"


class Page:
    """The page of a program. `write` writes it to a file, and notebooks display it directly.

    ``data`` is the input of the page's script, as declared in ``ui/src/data.ts``.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data: Final = data

    def to_html(self, *, reload: str | None = None) -> str:
        """The page as one HTML text. At the address ``reload``, a served page asks if it is out of date.

        Cost: compressing the data. The text has at least a megabyte, most of it the layout worker.
        """
        script, style = bundled("page.js").strip(), bundled("page.css").strip()
        data = json.dumps({**self.data, "reload": reload}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = "; ".join(
            (
                "default-src 'none'",
                f"script-src 'sha256-{digest}' blob:",
                "worker-src blob:",
                "style-src 'unsafe-inline'",
                f"connect-src {_NOWHERE if reload is None else _OWN_SERVER}",
                "base-uri 'none'",
                "form-action 'none'",
            )
        )
        return "\n".join(
            (
                "<!doctype html>",
                '<html lang="en" data-theme="auto">',
                "<head>",
                '<meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{html.escape(str(self.data['title']))} · regraft</title>",
                f"<style>{style}</style>",
                "</head>",
                "<body>",
                '<div id="app"><p>This page needs JavaScript, and nothing from the network.</p></div>',
                f'<script type="application/gzip" id="regraft-data">{_packed(data)}</script>',
                f'<script type="application/gzip" id="regraft-worker">{_packed_worker()}</script>',
                f"<script>{script}</script>",
                "</body>",
                "</html>",
                "",
            )
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, atomically. Returns the path. Raises `OutputError` if it cannot be written."""
        target = Path(path)
        write_text(target, self.to_html())
        return target

    def _repr_html_(self) -> str:
        text = html.escape(self.to_html())
        return f'<iframe srcdoc="{text}" style="width:100%;height:{_FRAME_HEIGHT}px;border:1px solid #8888"></iframe>'


@cache
def bundled(name: str) -> str:
    """The text of a file of the bundle."""
    return resources.files("regraft.view").joinpath("bundle", name).read_text(encoding="utf-8")


@cache
def _packed_worker() -> str:
    return _packed(bundled("worker.js"))


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode("utf-8", errors="replace"), 9, mtime=0)).decode()

"""The site in ``site/``: the README, the pages of docs/, measured results, the API reference and the gallery.

`python -m tools.site` builds it with MkDocs, and fails if a link is broken. The pages have the paths that they have in
the repository, so that links between them work in both places.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from regraft.view import Page

from .gallery import FOLDER as GALLERY
from .gallery import MODELS

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = ROOT / "build" / "site_pages"
SITE: Final = ROOT / "site"

API: Final = {
    "regraft": "The top: the language, the written form, models, rules",
    "regraft.dpl": "The pattern language and rewriting",
    "regraft.op": "The operators",
    "regraft.transform": "Passes",
    "regraft.rewrite": "Rules, the driver, explanations",
    "regraft.analysis": "Questions about a program",
    "regraft.gradient": "Gradients",
    "regraft.training": "Losses, optimizers, trainer",
    "regraft.engine": "Engines",
    "regraft.convert": "Models in and out",
    "regraft.model": "A model from file to file",
    "regraft.view": "The page",
    "regraft.testing": "Tests of rules and programs",
}
"""The public modules, and the title of each."""


def main() -> int:
    """Write the tree of pages and build the site from it. Returns MkDocs' exit status."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES / "docs", ignore=shutil.ignore_patterns("*.json.gz"))
    shutil.copytree(ROOT / "bench" / "results", PAGES / "bench" / "results")
    shutil.copytree(ROOT / "examples", PAGES / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "README.md", PAGES / "README.md")
    shutil.copy(ROOT / "LICENSE", PAGES / "LICENSE")
    for page in PAGES.rglob("*.md"):
        # The word "output" marks printed text for the tests. MkDocs only accepts fences with one word.
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("```text output\n", "```text\n"), encoding="utf-8")
    _write_api(PAGES / "docs" / "api")
    (PAGES / "docs" / "gallery").mkdir(exist_ok=True)
    for name in MODELS:
        data = json.loads(gzip.decompress((GALLERY / f"{name}.json.gz").read_bytes()))
        (PAGES / "docs" / "gallery" / f"{name}.html").write_text(Page(data).to_html(), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(SITE)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([*command, "--config-file", str(ROOT / "mkdocs.yml")], env=quiet, check=False).returncode


def _write_api(folder: Path) -> None:
    """Write a page for each public module, with the names in its ``__all__``, and an index of the pages."""
    folder.mkdir()
    rows: list[str] = []
    for room, what in API.items():
        names = importlib.import_module(room).__all__
        parts = "\n".join(f"::: {_home(room, name)}\n" for name in sorted(names, key=str.lower))
        (folder / f"{room}.md").write_text(f"# {room}\n\n{what}.\n\n{parts}", encoding="utf-8")
        rows.append(f"| [`{room}`]({room}.md) | {what} |")
    head = "# API reference\n\nMade from the docstrings.\n\n| room | what it is for |\n|---|---|\n"
    (folder / "index.md").write_text(head + "\n".join(rows) + "\n", encoding="utf-8")


def _home(room: str, name: str) -> str:
    """The full name of the place where a public name is defined; ``room.name`` if the place is not found."""
    value = getattr(importlib.import_module(room), name)
    module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(module, str) and module.startswith("regraft") and own == name:
        return f"{module}.{name}"
    assigned = re.compile(rf"^{name}\b.*=", re.MULTILINE)
    holding = [loaded for loaded in sys.modules.values() if vars(loaded).get(name) is value]
    for file, home in sorted((one.__file__, one.__name__) for one in holding if one.__name__.startswith("regraft.")):
        if file is not None and assigned.search(Path(file).read_text(encoding="utf-8")):
            return f"{home}.{name}"
    return f"{room}.{name}"


if __name__ == "__main__":
    sys.exit(main())

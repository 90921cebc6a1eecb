"""The definitions in the code of a page of docs/, for benchmarks of that code."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.test_docs import Block, blocks_of, source_at

DOCS = Path(__file__).resolve().parent.parent / "docs"


def page(name: str, *, until: str | None = None) -> tuple[Any, list[Block]]:
    """The namespace of docs/``name`` after its blocks have run, and the blocks: all before the first with ``until``."""
    path = DOCS / name
    blocks = blocks_of(path)
    if until is not None:
        blocks = blocks[: next(index for index, block in enumerate(blocks) if until in block.code)]
    module: Any = ModuleType(f"page_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    for block in blocks:
        with source_at(path, [block]) as text, redirect_stdout(StringIO()):
            exec(compile(text, str(path), "exec"), module.__dict__)
    return module, blocks

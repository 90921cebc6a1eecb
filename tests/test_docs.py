"""Runs the code of the written docs: each ```python block of README.md and docs/, one namespace a page.

A ```text output block right after a ```python block is what that block prints, to the letter. The code runs
under the page's own file name and line numbers, so a traceback points into the page and `inspect.getsource`
finds the code.
"""

from __future__ import annotations

import io
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if page.exists()]
OUTPUT_INFO = "text output"


@dataclass(frozen=True, slots=True)
class Block:
    """One ```python block: `line` is the page's line, from 1, of its first line of code."""

    line: int
    code: str
    expected: str | None


class PageError(AssertionError):
    """A page's code cannot be run as it is written, or printed something else than the page says."""


def blocks_of(page: Path) -> list[Block]:
    """The page's blocks in order. PageError names the line of a fence that would escape the run."""
    blocks: list[Block] = []
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    for index, token in enumerate(tokens):
        if token.type != "fence":
            continue
        assert token.map is not None
        info, line = token.info.strip(), token.map[0] + 1
        if info == OUTPUT_INFO:
            if index == 0 or tokens[index - 1].type != "fence" or tokens[index - 1].info.strip() != "python":
                raise PageError(f"{page.name}:{line}: ```{OUTPUT_INFO} must come right after a ```python block")
            continue
        if not info or info.split()[0].lower() not in {"python", "python3", "py", "pycon"}:
            continue
        if info != "python":
            raise PageError(f"{page.name}:{line}: ```{info} would not be run: write ```python")
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        has_output = following is not None and following.type == "fence" and following.info.strip() == OUTPUT_INFO
        blocks.append(Block(line + 1, token.content, following.content if has_output and following else None))
    return blocks


@contextmanager
def source_at(page: Path, blocks: list[Block]) -> Iterator[str]:
    """Within, the page's file reads as these blocks at their own lines and nothing else; yields that text."""
    lines: list[str] = []
    for block in blocks:
        lines += ["\n"] * (block.line - 1 - len(lines))
        lines += block.code.splitlines(keepends=True)
    text = "".join(lines)
    # An entry without a modification time is one that linecache never reloads from the file itself.
    linecache.cache[str(page)] = (len(text), None, lines, str(page))
    try:
        yield text
    finally:
        linecache.cache.pop(str(page), None)


def run_page(page: Path) -> int:
    """Run the page's blocks, compare what they print, and give their number.

    Raises PageError where the output differs; an error of the code itself passes through with its traceback.
    """
    blocks = blocks_of(page)
    module = ModuleType(f"page_{page.stem}")
    module.__file__ = str(page)
    sys.modules[module.__name__] = module
    try:
        for block in blocks:
            # One block at a time: `inspect` finds a class by name, and a page may define a name again.
            with source_at(page, [block]) as text:
                code = compile(text, str(page), "exec")
                with redirect_stdout(io.StringIO()) as printed:
                    exec(code, module.__dict__)
            if block.expected is not None and printed.getvalue() != block.expected:
                raise PageError(
                    f"{page.name}:{block.line}: the page says that this block prints\n{block.expected}"
                    f"but it printed\n{printed.getvalue()}"
                )
    finally:
        del sys.modules[module.__name__]
    return len(blocks)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_python_block_of_a_page_runs_and_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


def write_page(directory: Path, *lines: str) -> Path:
    page = directory / "page.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page


def test_blocks_of_a_page_share_one_namespace(tmp_path: Path) -> None:
    page = write_page(
        tmp_path,
        "```python",
        "a = 2",
        "```",
        "words",
        "```python",
        "print(a + 1)",
        "```",
        "```text output",
        "3",
        "```",
    )
    assert run_page(page) == 2


def test_a_page_that_prints_something_else_fails_at_its_line(tmp_path: Path) -> None:
    page = write_page(tmp_path, "# Title", "", "```python", "print(1)", "```", "", "```text output", "2", "```")
    with pytest.raises(PageError, match=r"(?s)page\.md:4: .*prints\n2\nbut it printed\n1\n"):
        run_page(page)


def test_an_error_points_at_the_line_of_the_page(tmp_path: Path) -> None:
    page = write_page(tmp_path, "words", "", "```python", "a = 1", "a / 0", "```")
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(page)
    last = caught.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("page.md", 5)


def test_source_of_functions_and_redefined_classes_is_that_of_the_block(tmp_path: Path) -> None:
    page = write_page(
        tmp_path,
        *["```python", "import inspect", "class C:", "    x = 1", "```"],
        *["```python", "def f():", "    return 1", "class C:", "    x = 2"],
        *["print(inspect.getsource(f) + inspect.getsource(C), end='')", "```"],
        *["```text output", "def f():", "    return 1", "class C:", "    x = 2", "```"],
    )
    assert run_page(page) == 2


@pytest.mark.parametrize("info", ["python no-run", "py", "python3", "Python", "pycon"])
def test_a_python_block_that_would_not_be_run_is_refused(tmp_path: Path, info: str) -> None:
    with pytest.raises(PageError, match=r"page\.md:2: .* would not be run"):
        run_page(write_page(tmp_path, "", f"```{info}", "a = 1", "```"))


def test_output_without_its_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PageError, match=r"page\.md:5: .*right after"):
        run_page(write_page(tmp_path, "```python", "a = 1", "```", "words", "```text output", "1", "```"))

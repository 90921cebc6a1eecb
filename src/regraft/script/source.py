"""The source of a program's text: a given string, or the file with a decorated function.

Returns the syntax tree, and turns a place in it into a `ParseError`. A text from outside is checked before Python's own
parser sees it: that parser builds a tree and evaluates nothing, but it cannot handle brackets that are nested a million
deep. Knows Python's syntax and nothing of the language.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
import warnings
from functools import lru_cache
from types import FrameType, FunctionType
from typing import Any, Final, TypeAlias, final

from ..ir.errors import RegraftError
from .errors import ParseError
from .large_literals import without_large_literals

DefinitionNode: TypeAlias = ast.FunctionDef | ast.ClassDef

MOST_NESTED: Final = 200
"""The greatest depth of brackets in a text; the printers of TVM and regraft stay under ten."""

# Every alternative ends once it has begun (at the end of the line or text, if the closing quote is missing), and none
# backtracks. This keeps the scan linear in any text.
_TOKENS: Final = re.compile(
    r'[^"\'#()\[\]{}]++'
    r'|"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+(?:"""|\Z|\\\Z)'
    r"|'''(?:[^'\\]++|\\[\s\S]|'(?!''))*+(?:'''|\Z|\\\Z)"
    r'|"(?:[^"\\\n]++|\\[\s\S])*+"?'
    r"|'(?:[^'\\\n]++|\\[\s\S])*+'?"
    r"|\#[^\n]*+|([(\[{])|([)\]}])"
)


@final
class SourceText:
    """A program's text and its name, which errors quote."""

    __slots__ = ("lines", "name")
    name: str
    lines: list[str]

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name = name
        self.lines = lines

    def error(self, node: ast.AST | None, reason: str) -> ParseError:
        """An error at the place of ``node``; at the first line if there is no node."""
        line: int = getattr(node, "lineno", 1)
        offset: int = getattr(node, "col_offset", 0)
        # Python counts columns in UTF-8 bytes; errors count characters.
        before = self.line(line).encode("utf-8", "surrogatepass")[:offset]
        return self.error_at(line, len(before.decode("utf-8", "replace")) + 1, reason)

    def error_in(self, text: str, place: int, reason: str) -> ParseError:
        """An error at a place of ``text``, which is the joined ``lines``."""
        return self.error_at(text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place), reason)

    def error_at(self, line: int, column: int, reason: str) -> ParseError:
        """An error at a line and column, both counted from 1."""
        return ParseError(reason, source=self.name, line=line, column=column, source_line=self.line(line))

    def line(self, number: int) -> str:
        """Line ``number``, counted from 1, without its line end."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def place(self, node: ast.AST) -> str:
        """``name:line`` of ``node``, as in origins."""
        return f"{self.name}:{getattr(node, 'lineno', 1)}"


def read_text(text: str | bytes, name: str) -> tuple[SourceText, ast.Module, dict[str, Any]]:
    """The source and syntax tree of an untrusted text, and the values of names in the tree.

    These names stand for large lists of numbers (`large_literals`). Raises `ParseError`. Cost: linear.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            source = SourceText(name, [line.decode("utf-8", "replace") for line in text.split(b"\n")])
            line = text.count(b"\n", 0, error.start) + 1
            column = error.start - (text.rfind(b"\n", 0, error.start) + 1) + 1
            raise source.error_at(line, column, "the text is not UTF-8; save it as UTF-8") from None
    source = SourceText(name, text.split("\n"))
    _check_characters(source, text)
    reduced = without_large_literals(text)
    if reduced.values:
        try:
            _check_nesting(source, reduced.text)
            tree = _syntax_tree(source, reduced.text)
        except ParseError:
            tree = None  # parsing the whole text reports the place of the fault
        if tree is not None and reduced.is_whole(tree):
            return source, tree, reduced.values
    _check_nesting(source, text)
    return source, _syntax_tree(source, text), {}


def _check_characters(source: SourceText, text: str) -> None:
    place = text.find("\0")
    reason = "the text has a NUL character; it is not a program text"
    if place < 0:
        try:
            text.encode("utf-8")
            return
        except UnicodeEncodeError as error:
            place, reason = error.start, "the text has a character that is not valid Unicode"
    raise source.error_in(text, place, reason)


def _check_nesting(source: SourceText, text: str) -> None:
    depth = 0
    for match in _TOKENS.finditer(text):
        kind = match.lastindex
        if kind == 1:
            depth += 1
            if depth > MOST_NESTED:
                reason = f"brackets are nested more than {MOST_NESTED} deep"
                raise source.error_in(text, match.start(), reason)
        elif kind == 2:
            depth = max(depth - 1, 0)


def _syntax_tree(source: SourceText, text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unusual escape in a string is not the reader's concern
            return ast.parse(text, source.name)
    except SyntaxError as error:
        raise source.error_at(error.lineno or 1, max(error.offset or 1, 1), str(error.msg)) from None
    except (RecursionError, MemoryError):
        raise source.error_at(1, 1, "an expression is nested too deep; bind its parts to names") from None
    except ValueError as error:
        raise source.error_at(1, 1, str(error)) from None


def parse_expression(text: str) -> ast.expr:
    """The syntax tree of one short expression inside a string; raises `RegraftError`."""
    source = SourceText("<string>", [text])
    if len(text) > 1000 or "\n" in text:
        raise RegraftError(f"a size or annotation in a string must be one short expression, not {text[:60]!r}…")
    try:
        _check_characters(source, text)
        _check_nesting(source, text)
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, ParseError, RecursionError, MemoryError):
        raise RegraftError(f"{text!r} is not a size or annotation") from None


@lru_cache(maxsize=64)
def _definitions(text: str, name: str) -> dict[int, list[DefinitionNode]]:
    """The functions and classes of a Python file, by their first line, including decorators."""
    found: dict[int, list[DefinitionNode]] = {}
    for node in ast.walk(ast.parse(text, name)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found.setdefault(first, []).append(node)
    return found


def _file_of(filename: str, what: str) -> tuple[SourceText, dict[int, list[DefinitionNode]]]:
    linecache.checkcache(filename)
    lines = linecache.getlines(filename)
    if not lines:
        raise RegraftError(
            f"the source text of {what} is not available ({filename}): "
            "a decorated program is read from its file; "
            "put it in a file, or hand its text to regraft.parse"
        )
    text = "".join(lines)
    return SourceText(filename, text.split("\n")), _definitions(text, filename)


def read_function(function: FunctionType) -> tuple[SourceText, ast.FunctionDef]:
    """The source and syntax tree of a Python function. Cost: the file is parsed once for each version of it."""
    name = function.__name__
    source, definitions = _file_of(function.__code__.co_filename, f"function {name!r}")
    for node in definitions.get(function.__code__.co_firstlineno, ()):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return source, node
    raise RegraftError(f"function {name!r} is not found in {source.name}: has the file changed since it was loaded?")


def read_class(cls: type, frame: FrameType) -> tuple[SourceText, ast.ClassDef]:
    """The source and syntax tree of a class whose decorator runs in ``frame``."""
    source, definitions = _file_of(frame.f_code.co_filename, f"class {cls.__name__!r}")
    inside = [value.__code__.co_firstlineno for value in vars(cls).values() if isinstance(value, FunctionType)] or [
        frame.f_lineno
    ]
    candidates = [
        node
        for first, nodes in definitions.items()
        for node in nodes
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
        if first <= inside[0] <= (node.end_lineno or first)
    ]
    if not candidates:
        raise RegraftError(f"class {cls.__name__!r} is not found in {source.name}: has the file changed?")
    return source, max(candidates, key=lambda node: node.lineno)


def calling_frame() -> FrameType:
    """The frame that called the caller of this function."""
    return sys._getframe(2)  # pyright: ignore[reportPrivateUsage]

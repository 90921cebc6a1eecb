"""The inspection of a ``.pt2`` file, before PyTorch reads it, for content that PyTorch would run as code.

PyTorch unpickles the objects in an archive, evaluates the texts of sizes as Python, calls any functions of its own that
the nodes name, and imports the modules that the nesting of inputs and outputs names. An exported program needs little
of that: its tensors are plain bytes, its sizes arithmetic, its nodes operators. Anything else is refused here, and
`plain_unpickling` keeps PyTorch from running pickled code.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

_NAME: Final = re.compile(r"'\w+'")
_ARITHMETIC: Final = re.compile(r"[\w\s()+\-*/%,.<>=!&|~]*")
_CALLED: Final = re.compile(r"([A-Za-z_]\w*)\s*\(")
_ATTRIBUTE: Final = re.compile(r"\.\s*[A-Za-z_]")
_FUNCTIONS: Final = dict.fromkeys(("abs", "ceiling", "cos", "exp", "floor", "log", "sin", "sqrt", "tan"))
"""The functions in the text of a size that begin with a lower-case letter; all others are SymPy's classes."""

_RESOLVED: Final = ("torch", "_operator", "math")
"""The prefixes of a node's target for which PyTorch looks up a function of that name."""
_OPERATOR: Final = re.compile(
    r"torch\.ops\.(?!load_library)\w+\.\w+(\.\w+)?|_operator\.\w+|math\.\w+|#.*"
    r"|torch\.(_?sym_\w+|_check\w*|amp\.\w+\.\w+|_C\._set_grad_enabled|autograd\.grad_mode\.\w+"
    r"|(_higher_order_ops|_functorch)\.[\w.]+)"
)

_CONSTANTS: Final = "data/constants/"
_TENSORS: Final = "tensor_"

_FORCE: Final = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def code_in(names: Iterable[str], texts: Iterable[bytes]) -> str | None:
    """The part of an archive that would run as code when it is loaded; None if there is none.

    ``names`` are the names of its files, and ``texts`` the contents of its JSON files. Raises the errors of `json` for
    a damaged file.
    """
    for name in names:
        _, found, constant = name.partition(_CONSTANTS)
        if found and not constant.startswith(_TENSORS) and not constant.endswith((".json", ".pt")):
            return f"{constant} is a pickled object"
    return next((code for text in texts for code in _code_of(json.loads(text))), None)


def code_in_nesting(text: str) -> str | None:
    """The part of a nesting of inputs or outputs, as PyTorch writes it, that would run code; None if nothing.

    Raises what `json` raises for a text that is damaged.
    """
    return next(_code_of(json.loads(text)), None)


def _code_of(facts: Any) -> Iterator[str]:
    pending = [facts]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(cast("list[Any]", value))
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            pending.extend(_written_in(value))
        if not isinstance(value, dict):
            continue
        record = cast("dict[str, Any]", value)
        pending.extend(record.values())
        text = record.get("expr_str")
        if isinstance(text, str) and not _is_arithmetic(text):
            yield f"a size is {text!r}"
        target = record.get("target")
        if "inputs" in record and isinstance(target, str) and not _is_operator(target):
            yield f"a node calls {target}"
        module = _imported_for(record)
        if module is not None and module not in sys.modules:
            yield f"its inputs or outputs import the module {module}"


def _written_in(text: str) -> list[Any]:
    """The content of a string inside JSON, if that is JSON too: PyTorch writes a nesting and parts of it like that."""
    try:
        return [json.loads(text)]
    except ValueError:
        return []


def _imported_for(record: dict[str, Any]) -> str | None:
    """The module that PyTorch imports for a part of a nesting: the home of an enumeration or of a default's factory."""
    if "__enum__" in record:
        return str(record.get("fqn")).partition(":")[0]
    module = record.get("default_factory_module")
    return None if module is None else str(module)


def _is_operator(target: str) -> bool:
    return not target.startswith(_RESOLVED) or _OPERATOR.fullmatch(target) is not None


def _is_arithmetic(text: str) -> bool:
    """True if the text of a size only computes with sizes and numbers."""
    text = _NAME.sub("0", text)
    if not _ARITHMETIC.fullmatch(text) or "__" in text or _ATTRIBUTE.search(text):
        return False
    return all(name[0].isupper() or name in _FUNCTIONS for name in _CALLED.findall(text))


@contextmanager
def plain_unpickling() -> Generator[None]:
    """A context in which `torch.load` makes tensors and plain containers only, whatever its arguments are."""
    before = os.environ.get(_FORCE)
    os.environ[_FORCE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FORCE]
        else:
            os.environ[_FORCE] = before

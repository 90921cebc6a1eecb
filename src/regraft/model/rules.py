"""Rules by name: from a Python file, which is executed, or from an installed package that offers rules.

A rule file is code. It is run only if the user names it, and it can do all that code can do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, signature
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, Final, TypeAlias, cast

from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..pattern import DFPattern
from ..rewrite import PatternMatchingRewriter, Rule
from ..rewrite.rules import LAMBDA
from .errors import UsageError

GROUP: Final = "regraft.rules"
"""The group of entry points under which packages offer rules, each under its own name."""

ALL: Final = "RULES"
"""The name of a file's list of rules. Without the list, the rules are those at the file's top level."""

OnModule: TypeAlias = Callable[[IRModule], IRModule]
"""A function of a whole module, in a list of rules."""

Step: TypeAlias = Rule | OnModule

Rules: TypeAlias = str | PatternMatchingRewriter | OnModule | Iterable[str | PatternMatchingRewriter | OnModule]


def rules_of(given: Rules) -> tuple[Step, ...]:
    """The rules ``given``: as objects, or named as ``"file.py"``, ``"file.py:one,two"`` or ``"package"``.

    Functions of a module may be among them. A rule that is given twice counts once, and a file that is named twice runs
    once. Raises `UsageError` for an unknown file, package or name, for a file that fails, and if there are no rules.
    Cost: that of running the files.
    """
    one: Any = given
    is_list = isinstance(one, Iterable) and not isinstance(one, str | PatternMatchingRewriter)
    parts: list[Any] = list(cast("Iterable[Any]", one)) if is_list else [given]
    found: dict[Step, None] = {}
    ran: dict[Path, ModuleType] = {}
    for part in parts:
        rules = _named(part, ran) if isinstance(part, str) else _rules_in(part, "rules")
        found.update(dict.fromkeys(rules))
    return tuple(found)


def installed() -> tuple[EntryPoint, ...]:
    """The rules that installed packages offer, by name."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda one: one.name))


def _named(text: str, ran: dict[Path, ModuleType]) -> Sequence[Step]:
    """The rules that ``text`` names; ``ran`` holds the files that have been run, by their full paths."""
    source, names = _split(text)
    if source.endswith(".py"):
        path = Path(source).resolve()
        holder = ran[path] = ran.get(path) or _run(Path(source))
    else:
        offered = _offered(source)
        holder, source = _loaded(offered), f"{source} (of {_owner(offered)})"
    if names:
        return [rule for name in names for rule in _rules_in(_member(holder, name, source), f"{source}:{name}")]
    rules = _rules_in(holder, source)
    if not rules:
        raise UsageError(f"{source} has no rules at its top level; make some, or list them: {ALL} = [...]")
    return rules


def _split(text: str) -> tuple[str, list[str]]:
    """The file or package, and the names after the colon. The colon of a Windows drive does not count."""
    source, colon, names = text.rpartition(":")
    if not colon or (len(source) == 1 and text.endswith(".py")):
        return text, []
    return source, [name.strip() for name in names.split(",")]


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file of rules")
    name = f"regraft_rules_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _beside(path):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == module.__file__]
        if isinstance(error, SyntaxError | ValueError) and not lines:
            raise UsageError(_no_python(path, error)) from error
        where = f"{path}:{lines[-1]}" if lines else str(path)
        kind = "" if isinstance(error, RegraftError) else f"{type(error).__name__}: "
        raise UsageError(f"{where}: the file of rules fails: {kind}{error}") from error
    for own, one in vars(module).items():
        if isinstance(one, Rule) and one.name.startswith(LAMBDA):
            one.name = own
    return module


def _no_python(path: Path, error: SyntaxError | ValueError) -> str:
    """The message for a file of which nothing ran."""
    if not isinstance(error, SyntaxError):
        return f"{path}: the file of rules is no Python: {error}"
    where = f"{path}:{error.lineno}" if error.lineno else str(path)
    text = (error.text or "").strip()
    return f"{where}: the file of rules is no Python: {error.msg}{f': {text}' if text else ''}"


@contextmanager
def _beside(path: Path):
    """Let the file import modules beside it while it runs."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _offered(name: str) -> EntryPoint:
    known = installed()
    named = list(dict.fromkeys(one for one in known if one.name == name))
    if not named:
        there = ", ".join(dict.fromkeys(one.name for one in known)) or "none"
        advice = "name a file, or install the package that offers them"
        raise UsageError(f"there are no rules {name!r}: no file that ends in .py; packages offer: {there}; {advice}")
    if len(named) > 1:
        owners = " and ".join(map(_owner, named))
        raise UsageError(f"several packages offer rules {name!r}: {owners}; uninstall one, or name a file of rules")
    return named[0]


def _owner(offered: EntryPoint) -> str:
    """The package that offers rules, and the object that its entry point names."""
    return f"{offered.dist.name} ({offered.value})" if offered.dist else offered.value


def _loaded(offered: EntryPoint) -> Any:
    try:
        return offered.load()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the rules {offered.name!r} of {_owner(offered)} cannot be loaded: {type(error).__name__}: {error}; it is "
            "what the entry point of the package names: mend it there, or install it again"
        ) from error


def _member(holder: Any, name: str, source: str) -> Any:
    found = getattr(holder, name, None)
    if found is not None:
        return found
    rules = [one for one in _rules_in(holder, source) if isinstance(one, Rule)]
    named = [rule for rule in rules if rule.name == name]
    if not named:
        tops = [own for own, one in getattr(holder, "__dict__", {}).items() if isinstance(one, PatternMatchingRewriter)]
        known = ", ".join(dict.fromkeys((*(rule.name for rule in rules), *tops))) or "none"
        raise UsageError(f"{source} has no rules {name!r}; it has: {known}")
    return named


def _called(function: Callable[..., Any], where: str) -> Sequence[Step]:
    """A function of a module itself, or the rules that a function without arguments returns. Raises `UsageError`."""
    open_kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    parameters = [one for one in signature(function).parameters.values() if one.kind not in open_kinds]
    wanted = [one.name for one in parameters if one.default is Parameter.empty]
    if len(wanted) > 1:
        raise UsageError(
            f"{where} is a function of {', '.join(wanted)}; expected rules, a function of a module, or a function "
            "without arguments that gives rules"
        )
    if wanted:
        return [function]
    try:
        made = function()
    except (Exception, SystemExit) as error:
        raise UsageError(f"{where}: the function fails: {type(error).__name__}: {error}") from error
    return _rules_in(made, where)


def _rules_in(value: Any, where: str) -> Sequence[Step]:
    """The rules and functions of a module that ``value`` is, lists, or has at its top level."""
    match value:
        case PatternMatchingRewriter():
            return value.rules()
        case ModuleType():
            if hasattr(value, ALL):
                return _rules_in(getattr(value, ALL), f"{where}: {ALL}")
            tops = [one for one in vars(value).values() if isinstance(one, PatternMatchingRewriter)]
            return [rule for one in tops for rule in one.rules()]
        case str():
            raise UsageError(f"{where} is {value!r}, which is no rule")
        case DFPattern():
            raise UsageError(
                f"{where} is the pattern {value!r}; a rule has a rewriter, too: rx.Rule(pattern, rewriter)"
            )
        case Iterable():
            each = cast("Iterable[Any]", value)
            return [rule for index, one in enumerate(each) for rule in _rules_in(one, f"{where}[{index}]")]
        case _ if callable(value) and not isinstance(value, type):
            return _called(value, where)
        case _:
            raise UsageError(f"{where} is {value!r}; expected a rule, a set of rules, or a list of them")

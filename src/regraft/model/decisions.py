"""Decisions that were measured in earlier runs: which form of a model is the fastest on this machine.

One small JSON file holds one decision. Its name is a digest of everything that the decision depends on: the program
with its weights, the request, the inputs it was tried on, the machine, and the versions of the engines.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np

from ..ir.hashing import structural_hash
from ..ir.module import IRModule
from .errors import UsageError
from .files import write_text
from .machines import this_machine

Cache: TypeAlias = "bool | str | os.PathLike[str]"
"""The place of the decisions: True is the user's cache folder, False is nowhere, anything else is a folder."""

VARIABLE: Final = "REGRAFT_CACHE"
"""The environment variable that names a folder to use in place of the user's. If it is empty, nothing is kept."""

_FORMAT: Final = 1
_PACKAGES: Final = ("regraft", "onnxruntime", "openvino", "torch")


class CacheWarning(UserWarning):
    """A file of decisions cannot be read or written, or holds no usable decision; the decision is measured again."""


class Decision(NamedTuple):
    """A decision, and the file that it was read from."""

    facts: Mapping[str, Any]
    path: Path


class Decisions:
    """The decisions in a folder. With None for the folder, no decision is kept."""

    __slots__ = ("_folder",)

    def __init__(self, folder: Path | None) -> None:
        self._folder: Final = folder

    @classmethod
    def of(cls, cache: Cache) -> Decisions:
        """The decisions in the place ``cache``; raises `UsageError` if it is not a place for decisions."""
        if not isinstance(cache, bool):
            if not isinstance(cache, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UsageError(f"cache is {cache!r}; expected True, False for no file, or a folder")
            if Path(cache).is_file():
                raise UsageError(f"{cache} is a file; decisions are kept in a folder")
            return cls(Path(cache))
        return cls(_users_folder() if cache else None)

    @property
    def are_kept(self) -> bool:
        """True if there is a folder."""
        return self._folder is not None

    def read(self, key: Mapping[str, Any]) -> Decision | None:
        """The decision for ``key``; None if there is none. A damaged file is ignored with a `CacheWarning`."""
        if self._folder is None:
            return None
        path = self._path(key)
        try:
            found: Any = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, dict) or found["format"] != _FORMAT or found["key"] != _plain(key):
                raise ValueError("it holds no decision of this kind")
            return Decision(cast("Mapping[str, Any]", found["decision"]), path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError) as error:
            pass_over(path, error)
            return None

    def write(self, key: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Keep a decision; warn with `CacheWarning` if it cannot be written."""
        if self._folder is None:
            return
        content = {"format": _FORMAT, "key": _plain(key), "decision": facts}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_text(self._path(key), json.dumps(content, indent=1) + "\n")
        except OSError as error:
            _say(f"the decision is not kept in {self._folder}: {error}")

    def _path(self, key: Mapping[str, Any]) -> Path:
        assert self._folder is not None
        digest = blake2b(json.dumps(_plain(key), sort_keys=True).encode(), digest_size=16).hexdigest()
        return self._folder / f"{digest}.json"


NOWHERE: Final = Decisions(None)
"""No decision is known, and none is kept."""


def text_in(facts: Mapping[str, Any], key: str) -> str:
    """The text that a decision holds under ``key``; raises `KeyError`, and `ValueError` for something else."""
    if not isinstance(facts[key], str):
        raise ValueError(f"{key} is {facts[key]!r}; expected a text")
    return facts[key]


def number_in(facts: Mapping[str, Any], key: str) -> float | None:
    """The number or null that a decision holds under ``key``; raises as `text_in`."""
    found = facts[key]
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise ValueError(f"{key} is {found!r}; expected a number")
    return found


def pass_over(path: Path, problem: Exception) -> None:
    """Warn that a file holds no decision that can be read, and why."""
    _say(f"{path} is passed over, and measured anew: {problem}")


def _say(message: str) -> None:
    warnings.warn(message, CacheWarning, stacklevel=2)


def _plain(key: Mapping[str, Any]) -> Any:
    """``key`` as JSON returns it after a round trip, for comparison with a key that was read."""
    return json.loads(json.dumps(key, sort_keys=True))


def _users_folder() -> Path | None:
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    from platformdirs import user_cache_path

    return user_cache_path("regraft", appauthor=False) / "decisions"


def program_key(modules: Iterable[IRModule]) -> list[str]:
    """A digest for each program, including its weights. Cost: linear; each weight is read once."""
    return [f"{structural_hash(module):016x}" for module in modules]


def inputs_key(samples: Sequence[Sequence[Any]]) -> str:
    """A digest of the dtypes, shapes and values of inputs."""
    digest = blake2b(digest_size=16)
    for sample in samples:
        for value in sample:
            array = np.ascontiguousarray(value)
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(array.view(np.uint8).data if array.size and array.ndim else array.tobytes())
    return digest.hexdigest()


def machine_key() -> dict[str, Any]:
    """This machine, and the versions of the packages that run models on it."""
    versions = {name: found for name in _PACKAGES if (found := _version(name)) is not None}
    return {"machine": this_machine().to_dict(), "versions": versions}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None

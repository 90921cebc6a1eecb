"""Measured times for a page: read from a file of `regraft bench --profile`, and assigned to nodes by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..ir.module import IRModule
from ..model import UsageError
from .records import Records, entries


@dataclass(frozen=True, slots=True)
class Profile:
    """The time of each operator of a program, in seconds for one run: the median over ``runs`` runs.

    ``times`` has an entry for each operator that the engine ran: the binding that it is part of, the engine's own name
    of the operator, and the time. ``version`` is the index of the program on the page: 0 the first, -1 the last.
    """

    label: str
    engine: str
    runs: int
    times: tuple[tuple[str, str, float], ...]
    version: int = 0

    def row(self, records: Records, programs: Sequence[IRModule]) -> dict[str, Any]:
        """The profile as data for the page, with bindings as nodes."""
        version = range(len(programs))[self.version]
        names = {
            entry.var.name_hint: records.node(entry.var)
            for function in programs[version].functions.values()
            for entry in entries(function)
            if entry.is_node
        }
        rows = [
            {"node": names.get(binding, -1), "name": binding, "op": op, "seconds": seconds}
            for binding, op, seconds in self.times
        ]
        return {"label": self.label, "engine": self.engine, "runs": self.runs, "version": version, "rows": rows}


def read_profile(path: Path, version: int = 0) -> Profile:
    """The profile in a file. Raises `UsageError` if the file cannot be read or holds no profile."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = found["profile"]
        times = tuple((str(row["binding"]), str(row["op"]), float(row["seconds"])) for row in rows)
        return Profile(str(found["model"]), str(found["engine"]), int(found["runs"]), times, version)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no profile, as `regraft bench --profile` writes it: {error!r}") from error

"""What passes do, as it happens: the program after each pass, each rewrite, and why places were left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import islice
from time import perf_counter
from typing import Any, Final, final

from ..ir.module import IRModule
from ..ir.program import Function
from ..passes import Pass, PassInstrument, PassReport, Step, op_counts
from ..rewrite import Event, PatternMatchingRewriter, explain
from .findings import finding_rows
from .records import Records

MOST_REWRITES: Final = 1000
"""Rewrites of one pass that are kept; what the others did is seen in the program after the pass."""
_MOST_DECLINED: Final = 200


@final
class Recording(PassInstrument):
    """Fills the versions, passes, steps and findings of a page while passes run.

    ``explain_misses`` is how many matches and near misses of each rule are kept; 0 asks for none, which is faster.
    """

    def __init__(self, records: Records, explain_misses: int = 0) -> None:
        self.records: Final = records
        self.explain_misses = explain_misses
        self.programs: list[IRModule] = []
        self.versions: list[dict[str, Any]] = []
        self.passes: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []
        self._last: IRModule | Function | None = None
        self._started = 0.0
        self._rewrites = 0
        self._declined: dict[Step, None] = {}

    def add_version(self, label: str, program: IRModule | Function) -> int:
        """The place of ``program`` among the versions; one that is there already is not added again."""
        if self._last is program:
            return len(self.versions) - 1
        module = _as_module(program)
        self.programs.append(module)
        self.versions.append({"label": label, "records": self.records.version(module)})
        self._last = program
        return len(self.versions) - 1

    # --- what passes tell

    def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Begin with the program as it is."""
        version = self.add_version(f"before {info.name}" if self.versions else "the model", mod)
        self._rewrites = 0
        self._declined = {}
        self.passes.append(
            {"name": info.name, "version": version, "kept": 0, "opsBefore": op_counts(mod), "seconds": 0.0}
        )
        self._started = perf_counter()

    def run_before_rewrite(self, program: Function | IRModule, rules: PatternMatchingRewriter) -> None:
        """Take up the variables of a pass that rewrites more than once, and explain its rules where that is asked."""
        self.records.meet(_as_module(program))
        if self.explain_misses:
            version = self.add_version(f"within {self.passes[-1]['name']}", program)
            done = explain(rules, program, limit=self.explain_misses)
            self.findings += finding_rows(done, self.records, version, self.passes[-1]["name"])

    def rewrote(self, event: Event) -> None:
        """Keep a rewrite: what matched, and what became of it."""
        done = self.passes[-1]
        if done["kept"] >= MOST_REWRITES:
            return
        done["kept"] += 1
        edit = self.records.edited(event.edit)
        matched = dict.fromkeys(self.records.node(var) for var in (event.var, *event.matched))
        self.steps.append(
            {
                "pass": len(self.passes) - 1,
                "rule": event.rule,
                "at": self.records.node(event.var),
                "matched": list(matched),
                "edit": edit,
            }
        )

    def step(self, step: Step) -> None:
        """Count a rewrite, or keep why a place was left."""
        if step.reason is None:
            self._rewrites += 1
        else:
            self._declined[step] = None

    def run_after_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Keep what the pass made."""
        done = self.passes[-1]
        done["seconds"] = perf_counter() - self._started
        done["rewrites"] = self._rewrites
        done["end"] = self.add_version(f"after {info.name}", mod)
        done["ops"] = _changed_ops(done.pop("opsBefore"), op_counts(mod))
        done |= _declined_row(self._declined)


def pass_row(report: PassReport) -> dict[str, Any]:
    """What a report says of a pass, without the programs around it."""
    return {
        "name": report.name,
        "seconds": report.seconds,
        "rewrites": len(report.rewrote),
        "kept": 0,
        "version": 0,
        "end": 0,
        "ops": _changed_ops(report.ops_before, report.ops_after),
        **_declined_row(report.declined),
    }


def _changed_ops(before: Counter[str], after: Counter[str]) -> list[list[Any]]:
    return [
        [name.removeprefix("relax."), before[name], after[name]]
        for name in sorted({*before, *after})
        if before[name] != after[name]
    ]


def _declined_row(steps: Collection[Step]) -> dict[str, Any]:
    shown = [
        {"rule": step.rule, "binding": step.binding, "reason": step.reason} for step in islice(steps, _MOST_DECLINED)
    ]
    return {"declined": shown, "declinedCount": len(steps)}


def _as_module(program: Function | IRModule) -> IRModule:
    return program if isinstance(program, IRModule) else IRModule.from_expr(program)

"""The recording of passes as they run: the program after each pass, each rewrite, and the reasons for declined ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain, islice
from time import perf_counter
from typing import Any, Final, final

from ..ir.module import IRModule
from ..ir.program import Binding, Function
from ..ir.visitor import iter_bindings
from ..passes import Pass, PassContext, PassInstrument, RewriteDecision, op_counts
from ..rewrite import Event, PatternMatchingRewriter, RewrittenBlock, explain
from .findings import finding_rows
from .records import Records

MOST_REWRITES: Final = 1000
"""The most rewrites of one pass that are kept. The effect of the others shows in the program after the pass."""
_MOST_DECLINED: Final = 200
_NODE, _READS, _ALIAS = 0, 9, 13
"""The indices of these fields in a record."""


@final
class Recording(PassInstrument):
    """Fills the versions, passes, steps and findings of a page while passes run.

    ``explain_misses`` is the number of matches and near misses of each rule that are kept; 0 keeps none, and is faster.
    """

    sees_sequences = False

    def __init__(self, records: Records, explain_misses: int = 0) -> None:
        self.records: Final = records
        self.explain_misses = explain_misses
        self.programs: list[IRModule] = []
        self.versions: list[dict[str, Any]] = []
        self.passes: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []
        self._last: IRModule | Function | None = None
        self._last_place = 0
        self._places: dict[tuple[int, ...], int] = {}
        self._functions = 0
        self._now: dict[int, int] = {}
        self._started = 0.0
        self._rewrites: Counter[str] = Counter()
        self._declined: dict[RewriteDecision, None] = {}

    def add_version(self, label: str, program: IRModule | Function) -> int:
        """Add ``program`` to the versions, unless it was the last one added. Returns its index.

        A version that equals an earlier one refers to the index of the first such version in ``same``.
        """
        if self._last is not program:
            module = as_module(program)
            self._functions = len(module)
            self._last = program
            self._last_place = self._add(label, module, self.records.version(module))
        return self._last_place

    def end(self) -> None:
        """Repeat the last program added with `add_version`, if versions within a pass follow it."""
        last = self._last_place
        if last < len(self.versions) - 1:
            self.programs.append(self.programs[last])
            self.versions.append({**self.versions[last], "records": None})

    def _add(self, label: str, module: IRModule, records: list[int]) -> int:
        self._now = {self.records.rows[row][_NODE]: row for row in records}
        place = len(self.versions)
        first = self._places.setdefault(tuple(records), place)
        self.programs.append(module)
        self.versions.append({"label": label, "records": records if first == place else None, "same": first})
        return place

    # --- the hooks of passes

    def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Record the program before the pass, and start its clock."""
        version = self.add_version(f"before {info.name}" if self.versions else "the model", mod)
        self._rewrites = Counter()
        self._declined = {}
        self.passes.append(
            {"name": info.name, "version": version, "kept": 0, "opsBefore": op_counts(mod), "seconds": 0.0}
        )
        self._started = perf_counter()

    def run_before_rewrite(self, program: Function | IRModule, rules: PatternMatchingRewriter) -> None:
        """Record the new variables of a pass that rewrites more than once. Explain its rules if ``explain_misses``."""
        module = self._within(program)
        self.records.meet(module)
        if self.explain_misses:
            name = self.passes[-1]["name"]
            version = self._add(f"within {name}", module, self.records.version(module, apart=self._functions > 1))
            done = explain(rules, program, limit=self.explain_misses)
            self.findings += finding_rows(done, self.records, version, name)

    def _within(self, program: IRModule | Function) -> IRModule:
        """The program as a module. A function that a pass works on gets the name that it has in its own module."""
        name = PassContext.current().function
        return IRModule({name: program}) if isinstance(program, Function) and name else as_module(program)

    def rewrote(self, event: Event) -> None:
        """Keep a rewrite: the matched nodes and the edit."""
        done = self.passes[-1]
        if done["kept"] >= MOST_REWRITES:
            return
        done["kept"] += 1
        edit = self.records.edited(event.edit)
        for one in edit:
            if one < 0:
                self._now.pop(-1 - one, None)
            else:
                self._now[self.records.rows[one][_NODE]] = one
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

    def wrote(self, written: RewrittenBlock) -> None:
        """Keep the changes made when a block is written, as a step without a rule.

        Unused values are dropped. If a result must keep its name, an alias of a value becomes a value itself.
        """
        records = self.records
        for old, new in written.renames.items():
            records.rename(old, new)
        if self.passes[-1]["kept"] >= MOST_REWRITES:
            return
        edit = [-1 - node for node in map(records.known, written.dropped) if self._now.pop(node, None) is not None]
        edit += self._named(written.bindings)
        if edit:
            at = records.rows[edit[0]][0] if edit[0] >= 0 else -1 - edit[0]
            self.steps.append({"pass": len(self.passes) - 1, "rule": "", "at": at, "matched": [], "edit": edit})

    def _named(self, bindings: Sequence[Binding]) -> list[int]:
        """The records of aliases that stay bindings, and of bindings that were read through them and have changed."""
        rows = self.records.rows
        aliases = {node for node, row in self._now.items() if rows[row][_ALIAS] >= 0}
        kept = {self.records.node(binding.var) for binding in bindings} & aliases
        found: list[int] = []
        for binding in chain.from_iterable(map(iter_bindings, bindings)) if kept else ():
            row, before = self.records.written(binding), self._now.get(self.records.node(binding.var))
            by_name = before is not None and any(self._goes_by(read, kept) for read in rows[before][_READS])
            if rows[row][_NODE] in kept or (by_name and row != before):
                found.append(row)
                self._now[rows[row][_NODE]] = row
        return found

    def _goes_by(self, node: int, names: Collection[int]) -> bool:
        """True if one of ``names`` is in the chain of aliases from ``node`` to its value."""
        while node >= 0:
            if node in names:
                return True
            row = self._now.get(node)
            node = -1 if row is None else self.records.rows[row][_ALIAS]
        return False

    def step(self, step: RewriteDecision) -> None:
        """Count a rewrite, or keep the reason of a declined one."""
        if step.reason is None:
            self._rewrites[step.rule] += 1
        else:
            self._declined[step] = None

    def run_after_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Record the program after the pass, its time and its counts."""
        done = self.passes[-1]
        done["seconds"] = perf_counter() - self._started
        done["rewrites"] = sum(self._rewrites.values())
        done["rules"] = [[rule, count] for rule, count in self._rewrites.most_common()]
        done["end"] = self.add_version(f"after {info.name}", mod)
        done["ops"] = _changed_ops(done.pop("opsBefore"), op_counts(mod))
        done |= _declined_row(self._declined)


def _changed_ops(before: Counter[str], after: Counter[str]) -> list[list[Any]]:
    return [
        [name.removeprefix("relax."), before[name], after[name]]
        for name in sorted({*before, *after})
        if before[name] != after[name]
    ]


def _declined_row(steps: Collection[RewriteDecision]) -> dict[str, Any]:
    shown = [
        {"rule": step.rule, "binding": step.binding, "reason": step.reason} for step in islice(steps, _MOST_DECLINED)
    ]
    return {"declined": shown, "declinedCount": len(steps)}


def as_module(program: Function | IRModule) -> IRModule:
    """The module itself, or a module that contains the function."""
    return program if isinstance(program, IRModule) else IRModule.from_expr(program)

"""The report on an optimized model, as data: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..ir.module import IRModule
from ..ir.node import Shown
from ..passes import PassReport, Tape
from .attempts import PrecisionReport
from .describing import own_names
from .measure import Measurement
from .portability import Raised
from .verification import Verification


@dataclass(frozen=True, slots=True)
class OptimizationReport(Shown):
    """The report of `optimize`.

    ``ops_before`` and ``ops_after`` count each operator in the program. ``nodes_before`` and ``nodes_after`` count the
    nodes of each kind in an ONNX model, including bodies of loops and branches; None if one of the two is not an ONNX
    model. ``passes`` says what each pass rewrote, what it left and why. ``verification`` has the difference of each
    output from before, None if it was not requested. ``seconds`` is the time of each stage. ``files`` holds the bytes
    of each written file; it is empty for a model in memory.

    ``bytes_before`` and ``bytes_after`` are the sizes of the model's files, or of its weights for a model in memory.
    ``measurement`` is the gain in speed and ``precision`` the choice of a precision, None if not requested. ``kept`` is
    the reason why the original model was kept, if it was; then ``passes`` is what would have been done. ``raised`` says
    why an ONNX model needs a newer opset than before, None if it does not. ``rules`` are the names of the requested
    rules, whether they matched or not. ``before`` and ``program`` are the model as it was read and the result; ``tape``
    is the record of the passes, rewrite by rewrite. These three are not part of the JSON.
    """

    model: str
    ops_before: Mapping[str, int]
    ops_after: Mapping[str, int]
    passes: tuple[PassReport, ...]
    verification: Verification | None
    seconds: Mapping[str, float]
    files: Mapping[str, int]
    before: IRModule = field(repr=False)
    program: IRModule = field(repr=False)
    tape: Tape = field(repr=False, compare=False)
    bytes_before: int = 0
    bytes_after: int = 0
    measurement: Measurement | None = None
    precision: PrecisionReport | None = None
    rules: tuple[str, ...] = ()
    raised: Raised | None = None
    kept: str | None = None
    nodes_before: Mapping[str, int] | None = None
    nodes_after: Mapping[str, int] | None = None

    @property
    def total_seconds(self) -> float:
        """The time of all stages together."""
        return sum(self.seconds.values())

    @property
    def changed_ops(self) -> dict[str, tuple[int, int]]:
        """The number of each operator before and after, for the operators whose number changed."""
        return _changed(self.ops_before, self.ops_after)

    @property
    def shown_counts(self) -> tuple[str, Mapping[str, int], Mapping[str, int]]:
        """The kind of thing that is counted, "nodes" or "operators", and the counts by kind before and after."""
        if self.nodes_before is not None and self.nodes_after is not None:
            return "nodes", self.nodes_before, self.nodes_after
        return "operators", own_names(self.ops_before), own_names(self.ops_after)

    @property
    def shown_changes(self) -> dict[str, tuple[int, int]]:
        """`changed_ops` by the names of `shown_counts`."""
        return _changed(*self.shown_counts[1:])

    def __str__(self) -> str:
        """The result for the model, then one line for each pass."""
        count, after = sum(self.ops_before.values()), sum(self.ops_after.values())
        lines = [f"{self.model}: {count} calls -> {after}, in {self.total_seconds:.2f} s"]
        if self.kept is not None:
            lines.append(f"kept as it was: {self.kept}")
        differences = self.verification.differences if self.verification is not None else ()
        lines += [f"{one.name}: {one.problem or f'off by at most {one.absolute:.3g}'}" for one in differences]
        return "\n".join([*lines, *map(str, self.passes)])

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {
            "model": self.model,
            "ops_before": dict(self.ops_before),
            "ops_after": dict(self.ops_after),
            "rules": list(self.rules),
            "nodes_before": None if self.nodes_before is None else dict(self.nodes_before),
            "nodes_after": None if self.nodes_after is None else dict(self.nodes_after),
            "passes": [_pass_to_dict(one) for one in self.passes],
            "verification": None if self.verification is None else _verification_to_dict(self.verification),
            "seconds": dict(self.seconds),
            "files": dict(self.files),
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "precision": None if self.precision is None else self.precision.to_dict(),
            "kept": self.kept,
            "raised": None if self.raised is None else self.raised._asdict(),
            "measurement": None if self.measurement is None else self.measurement.to_dict(),
        }

    def to_json(self) -> str:
        """The same as a JSON text."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


def _changed(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    pairs = {name: (before.get(name, 0), after.get(name, 0)) for name in sorted({*before, *after})}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _verification_to_dict(done: Verification) -> dict[str, Any]:
    return {"against": done.against, "outputs": [one.to_dict() for one in done.differences]}


def _pass_to_dict(one: PassReport) -> dict[str, Any]:
    rewrites = Counter((step.function, step.rule) for step in one.rewrote)
    return {
        "name": one.name,
        "seconds": one.seconds,
        "rewrites": len(one.rewrote),
        "rewrites_by_rule": [
            {"function": function, "rule": rule, "count": count} for (function, rule), count in rewrites.items()
        ],
        "changed_ops": {name: list(pair) for name, pair in one.changed_ops.items()},
        "declined": [
            {"function": step.function, "rule": step.rule, "binding": step.binding, "reason": step.reason}
            for step in one.declined
        ],
        "unverified": [
            {"function": step.function, "rule": step.rule, "binding": step.binding, "reason": step.unverified}
            for step in one.rewrote
            if step.unverified is not None
        ],
    }

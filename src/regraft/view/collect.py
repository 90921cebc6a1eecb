"""The contents of a page. `view` gathers them for a program, a model, a report, an explanation or a match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..ir.expr import Constant
from ..ir.module import IRModule
from ..ir.program import DataflowBlock, Function
from ..ir.visitor import iter_bindings, walk
from ..model import Model, OptimizationReport, Verification, open_model, output_names
from ..model.attempts import PrecisionReport
from ..model.chosen_passes import Passes, passes_for
from ..model.models import output_types, type_text
from ..model.rules import Rules
from ..passes import PassContext, Report
from ..pattern import DFPattern, Matchings
from ..rewrite import Explanation
from .findings import finding_rows, matched_rows
from .matched import found_in, function_around
from .page import Page
from .profile import Profile
from .recording import Recording
from .records import Records, lines_of
from .sharding import sharding_row

if TYPE_CHECKING:
    from ..run.xla_executable import XlaExecutable

_MISSES: Final = 8
"""The number of matches and near misses of each rule that a page shows by default."""


class Gathered:
    """The parts of a page while they are gathered. `page` makes the page from them."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title = title
        self.subtitle = subtitle
        self.records: Final = Records()
        self.recording: Final = Recording(self.records)
        self.verification: Verification | None = None
        self.precision: PrecisionReport | None = None
        self.stages: Mapping[str, float] = {}
        self.findings: list[dict[str, Any]] = []
        self.profiles: list[Profile] = []
        self.sharding: dict[str, Any] | None = None

    def page(self) -> Page:
        """The page. The first recorded program is the one before, and the last is the one after."""
        recording = self.recording
        recording.end()
        programs = recording.programs
        before, after = programs[0], programs[-1]
        texts: list[dict[str, Any]] = []
        for place, module in {0: before, len(programs) - 1: after}.items():
            text = module.script(show_meta=False)
            texts.append({"version": place, "text": text, "lines": lines_of(module, text, self.records)})
        main = _main(before)
        profiles = [one.row(self.records, recording.programs) for one in self.profiles]
        return Page(
            {
                "title": self.title,
                "subtitle": self.subtitle,
                "generator": f"regraft {_version()}",
                "strings": self.records.strings,
                "nodes": self.records.count,
                "records": self.records.rows,
                "versions": recording.versions,
                "passes": recording.passes,
                "steps": recording.steps,
                "texts": texts,
                "findings": [*self.findings, *recording.findings],
                "profiles": profiles,
                "sharding": self.sharding,
                "summary": {
                    "inputs": [{"name": one.name_hint, "type": type_text(one.ty)} for one in main.params],
                    "outputs": [
                        {"name": name, "type": type_text(ty)}
                        for name, ty in zip(output_names(main), output_types(main), strict=True)
                    ],
                    "weights": _weights(before),
                    "weightsAfter": None if after is before else _weights(after),
                    "verification": None if self.verification is None else _verification(self.verification),
                    "precision": None if self.precision is None else _precision(self.precision),
                    "stages": [[name, seconds] for name, seconds in self.stages.items()],
                },
            }
        )


def view(
    what: Any,
    after: Any = None,
    *,
    passes: Passes | None = None,
    level: int | str | None = None,
    rules: Rules | None = None,
    match: Mapping[DFPattern, Any] | None = None,
    profile: Profile | Iterable[Profile] = (),
    sharding: XlaExecutable | None = None,
    dims: Mapping[str, int] | None = None,
    limit: int = _MISSES,
    title: str | None = None,
    **options: Any,
) -> Page:
    """A page that shows a program, and the effect of passes or rules on it.

    Args:
        what: a module, a function, a model as for `regraft.optimize` (a path, an `onnx.ModelProto`, an
            `ExportedProgram`, a `torch.nn.Module` with ``args=...``), a report of `optimize` or of
            `passes.report`, the result of `explain`, or a match.
        after: another program or model, to be shown beside the first.
        passes: passes to run, as names or pass objects. Each is shown step by step, with the near misses of its rules.
        level: a level of `regraft.optimize`, whose passes are run instead.
        rules: rules to run, or to run before the passes, as for `regraft.optimize`.
        match: a match to be marked in the program, as returned by `match_dfb` or `extract_matched_expr`. If it is given
            alone, as ``what``, it is shown in the block or the expression that was matched.
        profile: measured times, as returned by `regraft.view.read_profile`.
        sharding: the program built for ``"xla"`` over a mesh. The page shows the placement of its weights and the data
            that devices exchange.
        dims: for ``sharding``, the sizes of symbolic dims by name; by default the sizes of the latest call.
        limit: the number of matches and near misses of each rule that are shown; 0 shows none and is faster.
        title: the name of the program on the page.
        options: for a model, further options of `open_model`.

    Returns a `Page`: ``view(model).write("model.html")`` writes a self-contained file, and notebooks display the page.
    Raises the errors of opening the models and of running the passes. Cost: linear in the program, plus the passes; for
    ``limit`` above 0, one more search for each of their rules.
    """
    if isinstance(what, Explanation):
        return _explanation_page(what, title)
    if isinstance(what, OptimizationReport | Report):
        return _report_page(what, limit, title)
    if isinstance(what, Matchings):
        return _match_page(what, title)
    opened = _opened(what, options)
    gathered = Gathered(title or _title(opened), _subtitle(opened))
    gathered.recording.explain_misses = limit
    gathered.profiles = [profile] if isinstance(profile, Profile) else list(profile)
    gathered.recording.add_version("the model", opened.module)
    if after is not None:
        gathered.recording.add_version("after", _opened(after, {}).module)
    elif passes is not None or level is not None or rules is not None:
        alone: Passes | None = [] if rules is not None and level is None else None
        chosen = passes_for("default" if level is None else level, alone if passes is None else passes, rules)
        outer = PassContext.current()
        with PassContext(instruments=[*outer.instruments, gathered.recording], verify=outer.verify):
            chosen(opened.module)
    if sharding is not None:
        gathered.sharding = sharding_row(sharding, opened.module, gathered.records, dims)
    if match is not None:
        bound = {id(binding.value): binding.var for binding in iter_bindings(opened.module)}
        gathered.findings = matched_rows(match, gathered.records, bound)
    return gathered.page()


def _opened(what: Any, options: Mapping[str, Any]) -> Model:
    if isinstance(what, Model):
        return what
    if isinstance(what, DataflowBlock):
        what = function_around(what)
    if isinstance(what, IRModule) and not options and len(what):
        # The page shows all functions, so the module needs no main function.
        return Model(what, "main" if "main" in what else next(iter(what)), "relax", what)
    return open_model(what, **options)


def _title(opened: Model) -> str:
    if opened.path is not None:
        return opened.path.name
    kind = type(opened.source).__name__
    return opened.name if kind in ("IRModule", "Function") else kind


def _subtitle(opened: Model) -> str:
    return {"onnx": "ONNX", "torch": "PyTorch", "relax": "Relax", "openvino": "OpenVINO"}.get(opened.form, opened.form)


def _explanation_page(explanation: Explanation, title: str | None) -> Page:
    gathered = Gathered(title or "explanation")
    program = explanation.program
    gathered.recording.add_version("the program", program)
    gathered.findings = finding_rows(explanation, gathered.records, 0, "")
    page = gathered.page()
    return Page({**page.data, "start": "why"})


def _match_page(match: Matchings, title: str | None) -> Page:
    gathered = Gathered(title or "match")
    found = found_in(match)
    gathered.recording.add_version("the program", found.function)
    gathered.findings = matched_rows(match, gathered.records, found.bound)
    page = gathered.page()
    return Page({**page.data, "start": "why"})


def _report_page(report: OptimizationReport | Report, limit: int, title: str | None) -> Page:
    """The page of a report: the report's tape is replayed into a recording."""
    gathered = Gathered(title or (Path(report.model).name if isinstance(report, OptimizationReport) else "report"))
    recording = gathered.recording
    recording.explain_misses = limit
    recording.add_version("before", report.before)
    report.tape.play(recording)
    recording.add_version("after", report.program)
    for row, one in zip(recording.passes, report.passes, strict=True):
        row["seconds"] = one.seconds
    if isinstance(report, OptimizationReport):
        gathered.verification, gathered.stages = report.verification, report.seconds
        gathered.precision = report.precision
        gathered.subtitle = f"kept as it was: {report.kept}" if report.kept is not None else ""
    return gathered.page()


def _main(module: IRModule) -> Function:
    return module["main"] if "main" in module else next(iter(module.functions.values()))


def _weights(module: IRModule) -> dict[str, int]:
    tensors = {id(node.data): node.data for node in walk(module) if isinstance(node, Constant) and node.data.size > 1}
    return {
        "count": len(tensors),
        "elements": sum(data.size for data in tensors.values()),
        "bytes": sum(data.nbytes for data in tensors.values()),
    }


def _verification(done: Verification) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for one in done.differences:
        row = one.to_dict()
        rows.append({**row, "name": row.pop("output"), "shape": str(tuple(row["shape"]))})
    return {"against": done.against, "outputs": rows}


def _precision(done: PrecisionReport) -> dict[str, Any]:
    """The attempts at lower precisions, and the layers of the attempt that was kept, or else of the nearest miss."""
    shown = done.kept or done.nearest_miss
    return {
        "maxError": done.max_error,
        "errorMeasure": None if done.error_measure == "largest" else done.error_measure,
        "measuredOn": None if done.measured_on is None else done.measured_on.name,
        "notes": [] if done.measured_on is None else done.measured_on.notes,
        "originalKept": done.original_kept,
        "attempts": [
            {
                "name": one.name,
                "engine": one.engine,
                "few": one.narrow_layers,
                "layers": len(one.layers),
                "error": None if one.error is None or not isfinite(one.error) else one.error,
                "agreement": one.agreement,
                "seconds": one.seconds,
                "timesAsFast": one.ratio or None,
                "noise": None if one.gain is None else one.gain.noise,
                "says": one.outcome(done.kept),
            }
            for one in done.attempts
        ],
        "layers": [] if shown is None else [layer.to_dict() for layer in shown.layers],
        "layersOf": "" if shown is None else f"{shown.name} on {shown.engine}",
    }


def _version() -> str:
    try:
        return version("regraft")
    except PackageNotFoundError:
        return ""

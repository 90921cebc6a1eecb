"""The commands that only inspect a model or list facts: inspect, passes, explain, targets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from . import console, drawing, options

if TYPE_CHECKING:
    from ..formats.source import StoredTensor
    from ..rewrite import Explanation


_LARGEST: Final = 8
"""The number of weights that are shown by default."""
_LONGEST_TEXT: Final = 100
"""The largest number of characters shown of a text of the model, or of a formula."""


def inspect(
    model: options.ModelPath,
    text: Annotated[
        bool, typer.Option("--text", help="Print the program, without the numbers of its weights.")
    ] = False,
    as_json: options.AsJson = False,
    weights: Annotated[bool, typer.Option("--weights", help="List every weight, not only the largest.")] = False,
    fix: options.FixedSizes = None,
    function: options.FunctionName = None,
) -> None:
    """Show a model's inputs, outputs, symbolic dims, weights, arithmetic, and how often each operator occurs."""
    from ..model import describe_model, open_model

    sizes = options.parse_sizes(fix, "--fix")
    with console.shown_progress() as progress:
        progress("reading", 0, 1)
        opened = open_model(model, function=function, fixed=sizes)
    if text:
        typer.echo(opened.module.script(show_meta=False))
        return
    found = describe_model(opened)
    if as_json:
        console.print_json({"model": str(model), **found.to_dict()})
        return
    ports = [("input", *row) for row in found.inputs] + [("output", *row) for row in found.outputs]
    console.print_table(str(model), ("", "name", "type"), ports)
    console.print_line(f"Symbolic dims: {', '.join(found.dims) or 'none'}")
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    console.print_line(f"Format: {found.format}{f' ({versions})' if versions else ''}")
    if found.producer:
        console.print_line(f"Producer: {found.producer}")
    for key, value in found.metadata.items():
        console.print_line(f"Metadata: {key} = {_in_short(value)}")
    missed = f"; {found.uncounted} calls are not counted, as their sizes are not known" if found.uncounted else ""
    operations, traffic = _in_short(_count(found.operations)), _in_short(_size(found.traffic))
    console.print_line(f"One run: {operations} operations, {traffic} read and written{missed}")
    size = console.bytes_text(found.weight_bytes)
    console.print_line(f"Weights: {len(found.weights)} tensors, {found.weight_elements:,} numbers, {size}")
    _show_weights(found.weights, len(found.weights) if weights else _LARGEST)
    ops = sorted(found.source_ops.items(), key=lambda pair: (-pair[1], pair[0]))
    rows = [(name, str(count)) for name, count in ops]
    total = ("all", str(sum(found.source_ops.values())))
    console.print_table("Operators, as the file names them", ("operator", "calls"), [*rows, total], numbers=1)
    if sum(len(block) for block in opened.function.body.blocks) <= drawing.SMALL:
        drawing.draw_function(opened.function)


def _in_short(text: str) -> str:
    """A text of any length, such as a table of characters, shortened to a line."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[:_LONGEST_TEXT]}… ({len(text):,} characters)"


def _show_weights(weights: Sequence[StoredTensor], most: int) -> None:
    shown = sorted(weights, key=lambda one: -one.bytes)[:most]
    if not shown:
        return
    rows = [(one.name or "-", one.dtype, str(list(one.shape)), console.bytes_text(one.bytes)) for one in shown]
    title = "Weights" if len(shown) == len(weights) else f"The largest of {len(weights)} weights (--weights lists all)"
    console.print_table(title, ("weight", "dtype", "shape", "size"), rows, numbers=1)


def _count(number: int | str) -> str:
    return f"{number:,}" if isinstance(number, int) else number


def _size(number: int | str) -> str:
    return console.bytes_text(number) if isinstance(number, int) else f"{number} bytes"


def targets(
    save: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write this machine, for `optimize --target` elsewhere.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the machines that `optimize --target` knows by name, and this one."""
    from ..model import check_output, write_text
    from ..model.machines import PROFILES, this_machine
    from ..run.processor import FEATURES

    own = this_machine()
    if as_json:
        console.print_json({"here": own.to_dict(), "targets": [one.to_dict() for one in PROFILES.values()]})
    else:
        machines = (*PROFILES.values(), replace(own, name=f"this machine ({own.name})"))
        rows = [(one.name, one.architecture, ", ".join(FEATURES[name] for name in one.features)) for one in machines]
        console.print_table("Targets", ("target", "architecture", "computes"), rows)
    if save is not None:
        check_output(save, ())
        write_text(save, json.dumps(own.to_dict(), indent=2) + "\n")
        console.print_line(f"Wrote {save}")


def passes() -> None:
    """List the passes, what each does, and the levels that it is part of."""
    from ..passes.pipeline import LEVELS, available_passes, pipeline

    levels = [{one.name for one in pipeline(level)} for level in range(len(LEVELS))]
    rows: list[tuple[str, str, str]] = []
    for name, make in available_passes().items():
        within = ", ".join(str(level) for level, names in enumerate(levels) if name in names)
        rows.append((name, within or "-", (make.__doc__ or "").strip().split("\n", maxsplit=1)[0].replace("``", "")))
    console.print_table(
        "Passes, and the levels of `regraft optimize` that they are part of", ("pass", "levels", "what it does"), rows
    )


def explain(
    model: options.ModelPath,
    name: Annotated[str | None, typer.Option("--pass", metavar="PASS", help="One of `regraft passes`.")] = None,
    rules: options.RuleNames = None,
    limit: Annotated[int, typer.Option(min=0, help="How many matches and misses of each rule to show.")] = 5,
    function: options.FunctionName = None,
) -> None:
    """Explain a pass or rules on a model: their matches and near misses, and why places are left alone.

    Rules are tried on the model as it was read, and again on their result after operators are recognized.
    Without --pass and --rules: what the default level combines and fuses in the model, and what it leaves alone.
    """
    from ..ir.module import IRModule
    from ..ir.program import Function
    from ..model import open_model
    from ..model.chosen_passes import RULES, RULES_AGAIN, with_rules
    from ..passes import Pass, PassContext, PassInstrument, Sequential
    from ..passes import report as report_passes
    from ..passes.pipeline import named_passes, pipeline, recognizing
    from ..rewrite import PatternMatchingRewriter
    from ..rewrite import explain as explain_rules

    explanations: list[Explanation] = []

    recognized: list[Explanation] = []

    class Explaining(PassInstrument):
        """Explains each search of a pass before it is made. If the user gave rules, only their searches."""

        sees_sequences = False
        shown: list[Explanation] | None = None

        def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
            self.shown = recognized if info.name == RULES_AGAIN else explanations
            if rules and info.name not in (RULES, RULES_AGAIN):
                self.shown = None

        def run_before_rewrite(self, program: Function | IRModule, rules: PatternMatchingRewriter) -> None:
            if self.shown is not None:
                self.shown.append(explain_rules(rules, program, limit=limit))

    if name is not None and rules:
        raise typer.BadParameter("say one thing to explain: --pass PASS, or --rules FILE.py", param_hint="--pass")
    if name is None and not rules:
        _explain_all(model, function, limit)
        return
    chosen = with_rules(Sequential(recognizing(pipeline())), rules) if rules else named_passes(name or "")
    try:
        with console.shown_progress() as progress:
            progress("reading", 0, 2)
            opened = open_model(model, function=function)
            progress("explaining", 1, 2)
            with PassContext(instruments=[Explaining()]):
                done = report_passes(chosen, opened.module)
    except Exception:
        # Rules may undo each other without end, or fail: their matches until then show why.
        _show_explanations(explanations, recognized)
        raise
    _show_explanations(explanations, recognized)
    for one in done.passes:
        if not rules or one.name in (RULES, RULES_AGAIN):
            console.print_text(str(one))


def _show_explanations(explanations: Sequence[Explanation], recognized: Iterable[Explanation]) -> None:
    """Show ``explanations``, and those of ``recognized`` that match after operators are recognized."""
    again = [one for one in recognized if one.matches]
    for index, explanation in enumerate([*explanations, *again], -len(explanations)):
        if index == 0:
            console.print_text("with operators recognized that the model writes out:")
        console.print_text(str(explanation))
        for finding in explanation.findings:
            if finding.misses and finding.misses[0].matched:
                drawing.draw_miss(explanation.program, finding.misses[0])


def _explain_all(model: Path, function: str | None, limit: int) -> None:
    """Show what the default level combines and fuses in the whole model."""
    from ..model import explain_model, open_model

    with console.shown_progress() as progress:
        progress("reading", 0, 2)
        opened = open_model(model, function=function)
        progress("optimizing", 1, 2)
        found = explain_model(opened.module)
    rows = [(one.name, str(one.rewrites), str(sum(len(left.places) for left in one.left))) for one in found]
    console.print_table("What the default level combines and fuses", ("pass", "rewrites", "left"), rows, numbers=2)
    for one in found:
        for left in one.left[:limit]:
            shown = ", ".join(left.places[:3]) + (", ..." if len(left.places) > 3 else "")
            console.print_line(f"{one.name} left {len(left.places)} ({shown}): {left.reason}")
        if len(one.left) > limit:
            console.print_line(f"{one.name}: {len(one.left) - limit} more reasons; --limit {len(one.left)} shows all")

"""The printed report of `regraft optimize`: tables, and the main facts on one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Final

from . import console

if TYPE_CHECKING:
    from ..model import Measurement, OptimizationReport, PrecisionReport
    from ..model.attempts import Attempt, LayerReport
    from ..passes.instruments import PassReport

_SHAPES_SHOWN: Final = 3
"""The largest number of shapes shown of an output on several samples."""
_AS_READ: Final = (
    "in the model as it was read (a model may write an operator out: from level 2 on RecognizeOperators puts it "
    "together, and the rules run again)"
)


def show(made: OptimizationReport) -> None:
    """Print the tables of a report: operators, passes, rules, the verification, precisions, times."""
    _show_counts(made)
    _show_passes(made)
    _show_rules(made)
    _show_verification(made)
    if made.precision is not None:
        _show_precision(made.precision)
    if made.measurement is not None:
        _show_measurement(made.measurement)


def _show_counts(made: OptimizationReport) -> None:
    what, before, after = made.shown_counts
    rows = [(name, str(old), str(new)) for name, (old, new) in made.shown_changes.items()]
    rows.append(("all", str(sum(before.values())), str(sum(after.values()))))
    title = f"{what.capitalize()} whose number changed"
    console.print_table(title, (what.removesuffix("s"), "before", "after"), rows, numbers=2)


def _told_passes(passes: Sequence[PassReport]) -> list[PassReport]:
    """The passes to show, without repeated ones that changed nothing."""
    seen: set[str] = set()
    told: list[PassReport] = []
    for one in passes:
        if one.name not in seen or one.rewrote or one.changed_ops:
            told.append(one)
        seen.add(one.name)
    return told


def _show_passes(made: OptimizationReport) -> None:
    rows = [
        (one.name, str(len(one.rewrote)), str(len(one.declined)), console.seconds_text(one.seconds))
        for one in _told_passes(made.passes)
    ]
    console.print_table("Passes", ("pass", "rewrites", "left", "time"), rows, numbers=3)


def _show_rules(made: OptimizationReport) -> None:
    rewrites = Counter([step.rule for one in made.passes for step in one.rewrote])
    left = Counter([step.rule for one in made.passes for step in one.declined])
    names = dict.fromkeys((*made.rules, *rewrites, *left))
    if names:
        rows = [(name, str(rewrites[name]), str(left[name])) for name in names]
        console.print_table("Rules", ("rule", "rewrites", "left"), rows, numbers=2)
    steps = [step for one in made.passes for step in one.rewrote if step.unverified is not None]
    for (rule, reason), count in Counter([(step.rule, step.unverified) for step in steps]).items():
        times = f"{count} rewrite{'' if count == 1 else 's'}"
        console.print_line(f"--verify-rewrites could not run {times} of {rule!r}: {reason}")
    if made.rules and not any(name in rewrites or name in left for name in made.rules):
        _say_nothing_found(made)


def _say_nothing_found(made: OptimizationReport) -> None:
    from ..model.chosen_passes import RULES_AGAIN

    twice = any(one.name == RULES_AGAIN for one in made.passes)
    where = "in the model as it was read, and nothing with its operators recognized" if twice else _AS_READ
    console.print_line(f"The rules found nothing {where}; regraft explain says where they stopped.")


def _show_verification(made: OptimizationReport) -> None:
    done = made.verification
    if done is None:
        return
    if not done.differences:
        console.print_line(f"Compared with {done.against}")
        return
    rows = [
        (
            one.name,
            one.dtype,
            _shapes_text(one.shapes or (one.shape,)),
            f"{one.absolute:.3g}",
            f"{one.relative:.3g}",
            f"{one.tolerance:.3g}",
        )
        for one in done.differences
    ]
    heads = ("output", "dtype", "shape", "largest difference", "relative", "allowed")
    console.print_table(f"Verified against {done.against}", heads, rows, numbers=3)


def _shapes_text(shapes: Sequence[tuple[int, ...]]) -> str:
    more = "" if len(shapes) <= _SHAPES_SHOWN else f" and {len(shapes) - _SHAPES_SHOWN} more"
    return " ".join(map(str, shapes[:_SHAPES_SHOWN])) + more


def _show_precision(done: PrecisionReport) -> None:
    rows: list[tuple[str, ...]] = []
    left: dict[str, list[str]] = {}
    for one in done.attempts:
        if one.error is None and one.problem is not None:
            left.setdefault(one.problem, []).append(f"{one.name} on {one.engine}")
            continue
        rows.append(
            (
                one.name,
                one.engine,
                f"{one.narrow_layers} of {len(one.layers)}" if one.layers else "",
                "" if one.error is None else f"{one.error:.2g}" if isfinite(one.error) else "no number",
                "" if one.cosine is None else f"{one.cosine:.5f}",
                "" if one.agreement is None else f"{one.agreement:.1%}",
                "" if one.seconds is None else console.seconds_text(one.seconds),
                _gain_text(one),
                one.outcome(done.kept),
            )
        )
    where = "" if done.target is None else f" for {done.target}, not this machine"
    on = "" if done.measured_on is None else f" on {done.measured_on.name}"
    features = ", ".join(done.features) or "a processor"
    of = "" if done.error_measure == "largest" else f" ({done.error_measure})"
    title = f"Precisions within an error of {done.max_error:.3g}{of}{on}{where} ({features})"
    headings = "precision", "engine", "layers", "error", "cosine", "same choice", "least time", "times as fast", ""
    if rows:
        console.print_table(title, headings, rows)
    else:
        console.print_line(f"{title}: none could be tried")
    for problem, names in left.items():
        console.print_line(f"{', '.join(names)}: {problem}")
    if (kept := done.kept) is not None:
        _show_gone_back(kept)
    if done.original_kept:
        console.print_line(f"The model is written as it was: {_nearest_text(done)}")
    elif done.kept is None:
        is_timed = any(one.ratio for one in done.attempts)
        why = "no attempt within the limits is faster" if is_timed else "there is nothing to try"
        console.print_line(f"Nothing is written in a lower precision: {why}")
    for note in [] if done.measured_on is None else done.measured_on.notes:
        console.print_line(note)
    if done.by_layer:
        console.print_line("The model does not fit into memory to be run: errors are those of each layer alone")
    _say_decided(done.decided_before)


def _show_gone_back(kept: Attempt) -> None:
    for precision, stays in kept.back_by_precision.items():
        alone = f" (the error of each alone in {kept.name})" if any(map(_error_text, stays)) else ""
        names = ", ".join(one.name + _error_text(one) for one in stays)
        console.print_line(f"In {precision} stay {names}{alone}")


def _error_text(layer: LayerReport) -> str:
    return "" if layer.error is None else f" {layer.error:.2g}"


def _nearest_text(done: PrecisionReport) -> str:
    nearest = done.nearest_miss
    if nearest is None:
        return "nothing could be tried"
    return f"no attempt is good enough; the nearest is {nearest.name} on {nearest.engine}, with {nearest.problem}"


def _gain_text(one: Attempt) -> str:
    if one.gain is not None:
        return str(one.gain).removesuffix(" times as fast")
    return "" if one.expected is None else f"{one.expected:.2f} expected"


def _say_decided(file: str | None) -> None:
    if file is not None:
        console.print_line(f"Decided in an earlier run, and not measured again (--no-cache measures): {file}")


def _show_measurement(done: Measurement) -> None:
    rows = [("as it was", "" if done.before is None else console.seconds_text(done.before), "", "")]
    for one in done.states:
        seconds = "" if one.seconds is None else console.seconds_text(one.seconds)
        faster = "" if one.gain is None else str(one.gain).removesuffix(" times as fast")
        rows.append((one.name, seconds, faster, "kept" if one.name == done.kept else one.problem or "not kept"))
    if done.gain is None:
        unchanged = "kept: nothing was rewritten" if not done.states else "kept: nothing is faster by more than noise"
        rows[0] = (*rows[0][:3], unchanged)
    console.print_table(
        f"Measured in turns on {done.engine}, by the {done.clock} clock",
        ("model", "least time", "times as fast", ""),
        rows,
    )
    _say_decided(done.decided_before)


def summarize(made: OptimizationReport) -> None:
    """Print the main facts on one line."""
    what, *counted = made.shown_counts
    counts = [sum(one.values()) for one in counted]
    sizes = [console.bytes_text(size) for size in (made.bytes_before, made.bytes_after)]
    parts = [
        f"{counts[0]:,} {what} became {counts[1]:,}",
        f"{sizes[0]} became {sizes[1]}",
        f"in {console.seconds_text(made.total_seconds)}",
    ]
    if made.measurement is not None:
        gain = made.measurement.gain
        parts.append("as fast as it was" if gain is None else str(gain))
    if made.kept is not None:
        parts.append(f"the model as it was: {made.kept}")
    if made.raised is not None:
        parts.append(str(made.raised))
    kept = None if made.precision is None else made.precision.kept
    if kept is not None and kept.gain is not None:
        parts.append(f"{kept.gain} in {kept.name} on {kept.engine}")
    elif kept is not None and kept.expected is None:
        parts.append(f"in {kept.name}, not timed: it may be slower than it was on this machine (--measure tells)")
    console.print_line(", ".join(parts))

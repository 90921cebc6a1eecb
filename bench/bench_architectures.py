"""Published architectures, read from PyTorch, optimized, and run on ONNX Runtime; compared with PyTorch's results.

Writes ``docs/architectures.md``. A gate: each architecture must agree, except those in `REASONS`, which must still
fail.
"""

from __future__ import annotations

import resource
from pathlib import Path
from time import process_time
from typing import Final

import torch

from bench.architectures import DIFFUSION, LANGUAGE, OTHERS, VISION, Architecture
from bench.architectures.outcome import TOLERANCE, Outcome, outcome_of
from bench.table import Table
from regraft.engine import BuildError
from regraft.formats.errors import ConvertError

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "architectures.md"
GROUPS: Final[dict[str, tuple[Architecture, ...]]] = {
    "Language": LANGUAGE,
    "Pictures and video": VISION,
    "Sound, several kinds of input, time series": OTHERS,
    "Diffusion": DIFFUSION,
}
REASONS: Final = {
    "Longformer": "`torch.export` refuses it: whether a word attends globally decides control flow",
    "LED": "`torch.export` refuses it: whether a word attends globally decides control flow",
    "ViLT": "`torch.export` refuses it: the size of the picture is read from the values of its mask",
    "EnCodec": "`torch.export` refuses it: the padding is computed from values of tensors",
    "Nyströmformer": "transformers itself fails under `torch.export`: its mask does not fit the landmarks",
    "Autoformer": "transformers itself fails under `torch.export`: its mask does not fit the series",
    "Switch Transformers": "`torch.export` refuses it: the model converts its own weights while it runs",
    "VITS": "a condition on values chooses a number (`sym_ite`); and only PyTorch draws random numbers",
}
"""The reasons why some architectures fail, by name."""
_NEAR: Final = 1e-5
_HEADER: Final = """\
# Architectures

`python -m bench architectures` writes this page. transformers {transformers} and diffusers {diffusers} make each model
from its configuration, at a small size, with all kinds of its layers and random weights. PyTorch {torch} exports it,
`from_torch` reads it, and ONNX Runtime runs it before and after optimization at the default level. The difference is
the largest one of any output from PyTorch's output, relative to the largest element of that output, in float32. {good}
of {all} models agree within {tolerance:g}, {close} of them within {near:g}.
"""


def run() -> list[Table]:
    """Try all architectures; raise `AssertionError` if one that should agree does not."""
    torch.set_num_threads(1)
    start = process_time()
    tables: list[Table] = []
    wrong: list[str] = []
    for title, group in GROUPS.items():
        rows: list[tuple[str | int | float, ...]] = []
        for architecture in group:
            row, complaint = _row(architecture)
            rows.append(row)
            wrong += [complaint] if complaint else []
        columns = ("architecture", "module", "bindings", "optimized", "difference", "optimized: difference")
        tables.append(Table(title, columns, tuple(rows)))
    if wrong:
        raise AssertionError("architectures that do not do as this page says:\n" + "\n".join(wrong))
    _write(tables)
    return [*tables, _cost(process_time() - start)]


def _row(architecture: Architecture) -> tuple[tuple[str | int | float, ...], str | None]:
    """The row of the table, and the complaint about it."""
    reason = REASONS.get(architecture.name)
    try:
        found = outcome_of(architecture)
    except (ConvertError, BuildError) as error:
        complaint = None if reason else f"{architecture.name}: {error}"
        return (architecture.name, reason or "fails", "–", "–", "–", "–"), complaint
    complaint = f"{architecture.name}: works after all; take it out of REASONS" if reason else _complaint(found)
    name = architecture.name
    differences = (f"{found.difference:.0e}", f"{found.optimized_difference:.0e}")
    return (name, f"`{found.module}`", found.bindings, found.optimized, *differences), complaint


def _complaint(found: Outcome) -> str | None:
    if found.agrees:
        return None
    return f"{found.module}: differs by {found.difference:g} and {found.optimized_difference:g}"


def _write(tables: list[Table]) -> None:
    import diffusers
    import transformers

    count = sum(len(group) for group in GROUPS.values())
    header = _HEADER.format(
        transformers=transformers.__version__,
        diffusers=diffusers.__version__,
        torch=torch.__version__.partition("+")[0],
        good=count - len(REASONS),
        all=count,
        tolerance=TOLERANCE,
        near=_NEAR,
        close=sum(max(map(float, row[-2:])) <= _NEAR for table in tables for row in table.rows if row[2] != "–"),
    )
    PAGE.write_text("\n".join([header, *(table.markdown() for table in tables)]), encoding="utf-8")


def _cost(seconds: float) -> Table:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Table("All of it", ("", "CPU seconds", "peak memory (MiB)"), (("architectures", seconds, peak),))

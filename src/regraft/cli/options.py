"""Options that several commands share, and the parsers of their values."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import typer

ModelPath: TypeAlias = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A file ending in .onnx, .pt2, .relax or .xml, or a folder of transformers."),
]
OutputPath: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="OUT", help="The file to write, in the format of its suffix. Never the input."
    ),
]
FunctionName: TypeAlias = Annotated[
    str | None, typer.Option("--function", help="The function to take, of a .relax file with several.")
]
DimSizes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--dim", metavar="NAME=SIZE", help="The size of a symbolic dim for random inputs; may be repeated."),
]
FixedSizes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--fix", metavar="NAME=SIZE", help="Fix the size of a symbolic dim; may be repeated."),
]
RuleNames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--rules",
        metavar="FILE.py[:NAME,...]",
        help="Rules to run first, and again once operators are recognized: of a Python file, which is run as code, or "
        "of an installed package. May be repeated.",
    ),
]
Ranges: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--range", metavar="NAME=LOW:HIGH", help="The least and greatest value of a random input; may be repeated."
    ),
]
CustomOps: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--custom-ops",
        metavar="LIBRARY",
        help="A library of operators for ONNX Runtime to load, whose code runs then; may be repeated.",
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON on standard output instead of tables.")]
Seed: TypeAlias = Annotated[int, typer.Option("--seed", min=0, help="Chooses the random inputs.")]
InputFiles: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--input", metavar="FILE", help="Inputs: an .npz by name, or .npy files in order; without it, random ones."
    ),
]

_MOST_THREADS: Final = 1024
"""The limit of threads: an engine ends the process if the system refuses it a thread."""
Threads: TypeAlias = Annotated[
    int | None, typer.Option("--threads", min=1, max=_MOST_THREADS, help="Threads to run on; by default all cores.")
]
ClockName: TypeAlias = Annotated[
    Literal["cpu", "wall"] | None,
    typer.Option("--clock", help="Processor time, or elapsed time; by default cpu for one thread, else wall."),
]

Safetensors: TypeAlias = Annotated[
    bool, typer.Option("--safetensors", help="For a .relax output: write its weights as safetensors, by name.")
]
Opset: TypeAlias = Annotated[
    int | None, typer.Option("--opset", help="The ONNX opset to write; by default the lowest that the result needs.")
]
IrVersion: TypeAlias = Annotated[
    int | None, typer.Option("--ir-version", help="The version of the ONNX file format to write.")
]


def parse_sizes(texts: Iterable[str] | None, option: str = "--dim") -> dict[str, int]:
    """The sizes given by ``--dim NAME=SIZE``, or by another ``option``; raises `typer.BadParameter` otherwise."""
    sizes: dict[str, int] = {}
    for text in texts or ():
        name, equals, size = text.rpartition("=")
        if not (name and equals and size.isdecimal() and int(size)):
            raise typer.BadParameter(f"{text!r} is no NAME=SIZE, such as batch=4, of 1 or more", param_hint=option)
        sizes[name] = int(size)
    return sizes


def parse_ranges(texts: Iterable[str] | None) -> dict[str, tuple[float, float]]:
    """The ranges given by ``--range NAME=LOW:HIGH``; raises `typer.BadParameter` otherwise."""
    ranges: dict[str, tuple[float, float]] = {}
    for text in texts or ():
        name, _, bounds = text.rpartition("=")
        low, _, high = bounds.partition(":")
        try:
            ranges[name] = float(low), float(high)
        except ValueError:
            name = ""
        if not name:
            raise typer.BadParameter(f"{text!r} is no NAME=LOW:HIGH, such as image=0:1", param_hint="--range")
    return ranges

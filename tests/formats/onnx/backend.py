"""ONNX's own test cases for single operators: read, run, and sorted by what came of it.

``python -m tests.formats.onnx.backend`` prints the page ``docs/onnx_coverage.md``.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

from regraft.engine import BuildError, build
from regraft.formats import from_onnx, to_onnx
from regraft.formats.errors import ConvertError
from regraft.formats.onnx.carried import CARRIED
from regraft.ir import IRModule
from tests.formats.onnx.single_node import run_onnxruntime

PASSED = "passed"
FIXED = "passed with inputs fixed"
KEPT = "ONNX Runtime's value is kept"
AS_IT_IS = "carried as it is"
UNSUPPORTED = "unsupported"

LIKE_ONNXRUNTIME = {
    "test_maxunpool_export_with_output_shape": "places are counted in the shape that is given",
    "test_resize_downsample_scales_cubic_align_corners": "corners are aligned by the size of the result",
    "test_resize_downsample_scales_linear_align_corners": "corners are aligned by the size of the result",
}
"""Cases in which ONNX Runtime gives another value than the standard, and why; ONNX Runtime's is what is expected."""

LOOSE = {"float16": 2e-3, "bfloat16": 1e-2}
"""Errors that ONNX's own reference has on narrow floats, which it rounds at each step."""

TRANSFORMS = ("test_dft", "test_stft")
"""Cases in which each result is a sum of all values, so that its error in float32 is a part of the largest."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: its name, how it went, and why if it is not supported or not as the standard has it."""

    name: str
    verdict: str
    reason: str = ""


def cases() -> list[Any]:
    """All cases of single operators."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return load_model_tests(kind="node")


def as_array(value: Any) -> np.ndarray:
    """A value of a case as an array."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def read(case: Any) -> tuple[IRModule, str]:
    """The program of a case, and whether inputs that decide shapes had to be fixed for it.

    The first input is what is computed with, as a rule, and is fixed only when fixing the others is not enough.
    """
    try:
        return from_onnx(case.model), PASSED
    except ConvertError as error:
        if "run time" not in str(error):
            raise
    inputs = zip(case.model.graph.input, case.data_sets[0][0], strict=False)
    arrays = [(value.name, as_array(array)) for value, array in inputs]
    try:
        return from_onnx(case.model, constants=_small(arrays[1:])), FIXED
    except ConvertError as error:
        if "run time" not in str(error) or arrays[0][1].ndim > 1:
            raise
    return from_onnx(case.model, constants=_small(arrays)), FIXED


def _small(arrays: list[tuple[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: array for name, array in arrays if array.ndim <= 1}


def run(case: Any, module: IRModule, target: str) -> None:
    """Run a case's program and compare. Raises `AssertionError` where it gives something else.

    It is compared with what the case expects, or with what ONNX Runtime gives for the file if that is kept.
    """
    entry = build(module, target=target)["main"]
    names = [value.name for value in case.model.graph.input]
    for inputs, stated in case.data_sets:
        given = dict(zip(names, inputs, strict=False))
        outputs = onnxruntime_values(case, given, stated) if case.name in LIKE_ONNXRUNTIME else stated
        found = entry(*[as_array(given[name]) for name in module["main"].attrs["input_names"]])
        results = (found,) if len(module["main"].attrs["output_names"]) == 1 else found
        assert len(results) == len(outputs), f"{len(results)} outputs, expected {len(outputs)}"
        for result, output in zip(results, outputs, strict=True):
            # what ONNX has as a sequence is a tuple here
            parts = [(result, output)] if not isinstance(output, list) else zip(result, output, strict=True)
            for ours, theirs in parts:
                expected = as_array(theirs)
                largest = float(np.abs(expected).max(initial=1.0)) if case.name.startswith(TRANSFORMS) else 1.0
                assert_close(np.asarray(ours), expected, case.rtol, max(case.atol, 1e-6 * largest))


def onnxruntime_values(case: Any, given: dict[str, Any], stated: list[Any]) -> list[np.ndarray]:
    """The results of ONNX Runtime for a case. Raises `AssertionError` if those are what the standard states."""
    arrays = {name: as_array(value) for name, value in given.items()}
    found = run_onnxruntime(case.model, arrays)
    try:
        for result, output in zip(found, stated, strict=True):
            assert_close(result, as_array(output), case.rtol, case.atol)
    except AssertionError:
        return found
    raise AssertionError(f"ONNX Runtime gives what the standard states: take {case.name} out of LIKE_ONNXRUNTIME")


def assert_close(result: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> None:
    """Same shape, dtype and values, floats up to the tolerances of the case."""
    assert result.shape == expected.shape, f"shape {result.shape}, expected {expected.shape}"
    assert result.dtype == expected.dtype, f"dtype {result.dtype}, expected {expected.dtype}"
    if result.dtype.kind in "biu":
        np.testing.assert_array_equal(result, expected)
        return
    loose = LOOSE.get(expected.dtype.name, 0.0)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        result.astype(wide), expected.astype(wide), rtol=max(rtol, loose), atol=max(atol, 1e-5, loose)
    )


def outcome(case: Any, target: str = "numpy") -> Outcome:
    """The outcome of a case. An error that does not say that something is unsupported goes on to the caller."""
    try:
        module, verdict = read(case)
    except ConvertError as error:
        return Outcome(case.name, UNSUPPORTED, short(error))
    if CARRIED in module.attrs:
        try:
            to_onnx(module)
        except ConvertError as error:
            return Outcome(case.name, UNSUPPORTED, short(error))
        kinds = [Counter(node.op_type for node in model.graph.node) for model in (case.model, to_onnx(module))]
        assert kinds[0] == kinds[1], "the nodes that come back are others"
        return Outcome(case.name, AS_IT_IS)
    try:
        run(case, module, target)
    except BuildError as error:
        if target == "numpy":
            raise
        return Outcome(case.name, UNSUPPORTED, short(error))
    if case.name in LIKE_ONNXRUNTIME:
        return Outcome(case.name, KEPT, LIKE_ONNXRUNTIME[case.name])
    return Outcome(case.name, verdict)


def short(error: Exception) -> str:
    """The reason of an error in one line, without names that only the case has."""
    lines = str(error).splitlines()
    text = lines[1].strip() if len(lines) > 1 else lines[0]
    head, _, rest = text.partition(" (node ")
    return f"{head}:{rest.partition('):')[2]}" if rest else text


def page(outcomes: Iterable[Outcome]) -> str:
    """The page of what is read and what is not."""
    rows = list(outcomes)
    counts = Counter(row.verdict for row in rows)
    lines = [
        "# What of ONNX is read",
        "",
        f"This page counts ONNX's own test cases for single operators, as of onnx {onnx.__version__}. `from_onnx`",
        "reads each case, and the NumPy engine runs it. `python -m tests.formats.onnx.backend` prints this page. Some",
        "cases need an input as a constant of `from_onnx`, because it decides a shape or an axis; these pass with",
        "inputs fixed. In a few cases ONNX Runtime's value differs from the standard's. [ONNX Runtime's value is",
        "kept](converters.md) there, and the case is compared with it. Nodes at the ends of a model that work on",
        "strings, maps, or sequences of unknown length are carried through as they are. `optimize` carries what is not",
        "supported here, too.",
        "",
        "| cases | |",
        "| --- | --- |",
        f"| all | {len(rows)} |",
        *[f"| {verdict} | {counts[verdict]} |" for verdict in (PASSED, FIXED, KEPT, AS_IT_IS, UNSUPPORTED)],
        "",
        *_reasons(KEPT, rows, KEPT),
        "",
        *_reasons("Not supported", rows, UNSUPPORTED),
    ]
    return "\n".join([*lines, ""])


def _reasons(title: str, rows: Iterable[Outcome], verdict: str) -> list[str]:
    """A section with the reasons for a verdict, and the cases of each."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.verdict == verdict:
            reasons.setdefault(row.reason.replace("|", r"\|"), []).append(f"`{row.name}`")
    table = [f"| {reason} | {', '.join(sorted(names))} |" for reason, names in sorted(reasons.items())]
    return [f"## {title}", "", "| reason | cases |", "| --- | --- |", *table]


if __name__ == "__main__":
    sys.stdout.write(page(outcome(case) for case in cases()))

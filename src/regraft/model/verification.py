"""The comparison of a model with its rewritten form: both must give the same values, each run as its users run it.

An ONNX model runs on ONNX Runtime and a PyTorch model on PyTorch, without being read by regraft, so the comparison
covers reading, rewriting and writing. Programs of regraft run on the default engine. A model that its framework does
not open runs, as it was read, on the reference engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..ir.dtypes import is_integer
from ..ir.module import IRModule
from ..ir.program import Function
from ..ir.types import TensorType, Type
from ..ir.visitor import iter_bindings
from ..reference.trials import tolerance
from ..run import BuildError, ExecutionError, build
from ..run.originals import RunOriginal
from .comparison import OutputDifference, compare_outputs, problems_of
from .errors import UsageError, VerificationError
from .inputs import ExpectedRun, ValueRange
from .models import Model, form_of, open_model, output_names, output_types, run_as_it_is, run_exactly
from .samples import Samples, TriedOn
from .sensitivity import codes_within_steps, has_loops, rounds_to_steps, tolerances_by_own_change, tolerances_by_steps

_BY_STEPS: Final = "; values that were rounded to other steps of its quantization, by the effect of one step"
"""The ending of ``against`` if the tolerance comes from the scales of a quantization."""
WITHOUT_OVERFLOW: Final = " without the overflow of its 8-bit products, which this processor sums in 16 bits"
"""The ending of ``against`` if the model's own framework gives wrong sums here; see `run_exactly`."""

_FRAMEWORKS: Final[Mapping[str, str]] = {"onnx": "ONNX Runtime", "torch": "PyTorch", "openvino": "OpenVINO"}


def run_program(module: IRModule, name: str, target: str = "onnxruntime", **options: Any) -> RunOriginal:
    """A function of ``module`` on an engine, with its results as one flat list of arrays."""
    entry: Callable[..., Any] = build(module, target=target, **options)[name]

    def run(inputs: Sequence[Any]) -> list[np.ndarray]:
        return flat_arrays(entry(*inputs))

    return run


def run_model(model: Model, target: str, **options: Any) -> RunOriginal:
    """A model on an engine. An ONNX model with carried parts that the program lacks runs on ONNX Runtime as it is."""
    from ..formats.onnx.carried import CARRIED

    if target == "onnxruntime" and CARRIED in model.module.attrs:
        whole = run_as_it_is(model, options.get("threads"))
        if whole is not None:
            return whole
    return run_program(model.module, model.name, target, **options)


def flat_arrays(result: Any) -> list[np.ndarray]:
    """The arrays of a result, flattened out of all tuples."""
    pending: list[Any] = [result]
    found: list[np.ndarray] = []
    while pending:
        value = pending.pop()
        if isinstance(value, tuple | list):
            pending.extend(reversed(list(value)))  # pyright: ignore[reportUnknownArgumentType]
        else:
            found.append(np.asarray(value))
    return found


class Verification(NamedTuple):
    """The differences, output by output, and a text for what the result was compared with."""

    differences: tuple[OutputDifference, ...]
    against: str


def verify(
    model: Model,
    result: Model,
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    ranges: Mapping[str, ValueRange] | None = None,
    inputs: Samples | None = None,
    allowed: float | None = None,
) -> Verification:
    """The difference of ``result`` from ``model``, on random inputs or samples: the largest difference by output.

    Args:
        model: the model as it was opened; its function says which inputs it takes.
        result: the rewritten model, as it will be handed over.
        seed: chooses the inputs.
        dims: sizes for symbolic dims, by name; the others are small and all different.
        ranges: the smallest and the largest value of inputs, by name.
        inputs: samples to run on in place of random inputs.
        allowed: the relative difference that is allowed in place of the dtype's own.

    Raises `VerificationError` if an output differs by more than is allowed. Raises `UsageError` if the model gives
    finite results on no random inputs, or different ones each time.
    """
    run, against, is_exact, is_opened = _reference(model)
    if run is None:
        return Verification((), against)
    trials = TriedOn(seed, dims, ranges, inputs).trials(model.function, run)
    del run  # frees its weights to make room for those of the result
    if not all(trial.is_finite for trial in trials):
        raise UsageError(
            "the model gives NaN or infinities on every choice of random inputs, so there is nothing to compare; set "
            "its sizes (--dim name=size) or the ranges of its inputs (--range name=0:1), give inputs (--input), or "
            "leave out --verify"
        )
    if inputs is not None:
        against += f", on {len(trials)} {'sample' if len(trials) == 1 else 'samples'}"
    try:
        after = _run_result(result, is_exact=is_exact, is_opened=is_opened)
        compared = [differences_of(model, trial, after(trial.inputs), allowed) for trial in trials]
    except (BuildError, ExecutionError) as error:
        raise VerificationError(f"the result does not run: {error}", ()) from error
    differences = tuple(_furthest(rows) for rows in zip(*compared, strict=True))
    problems = problems_of(differences)
    if problems:
        _require_repeatable(model, trials[0])
        raise VerificationError(f"the result computes something else: {problems}", differences, against)
    is_loosened = allowed is None and rounds_to_steps(model.function)
    is_loosened &= any(one.tolerance > tolerance(one.dtype) for one in differences)
    return Verification(differences, against + (_BY_STEPS if is_loosened else ""))


def _require_repeatable(model: Model, trial: ExpectedRun) -> None:
    """Raise `UsageError` if ``model``, opened once, gives other values in a second run on the same inputs."""
    run = _reference(model).run
    if run is None:
        return
    first, second = run(trial.inputs), run(trial.inputs)
    if problems_of(compare_outputs(output_names(model.function, len(first)), first, second)):
        raise UsageError(
            "the model draws random numbers: it gives other values in a second run on the same inputs, so there is "
            "nothing to compare; leave out --verify"
        )


def differences_of(
    model: Model, trial: ExpectedRun, found: Sequence[np.ndarray], allowed: float | None = None
) -> tuple[OutputDifference, ...]:
    """The difference of ``found``, the outputs of a form of ``model``, from the model's outputs in ``trial``.

    ``allowed`` is a tolerance in place of the dtype's. If it is not given and the dtype's does not suffice, a model
    with loops or quantizations runs again, to measure the effect of roundings on its values (`sensitivity`).
    """
    # New values of buffers come first if the form has no buffers to put them into.
    found, names = found[-len(trial.outputs) :], output_names(model.function, len(trial.outputs))
    made_in = _made_in(model.function)
    rows = compare_outputs(names, trial.outputs, found, allowed, made_in)
    if allowed is not None or not problems_of(rows):
        return rows
    if rounds_to_steps(model.function):
        again = partial(run_program, name=model.name)
        own = tolerances_by_steps(model.module, again, trial, made_in=made_in)
        rows = compare_outputs(names, trial.outputs, found, own, made_in)
        if any(one.problem is not None and is_integer(one.dtype) for one in rows):
            within = codes_within_steps(model.module, model.name, again, trial, found)
            near = [replace(row, tolerance=row.relative, problem=None) for row in rows]  # by one code
            rows = tuple(one if is_near else row for row, one, is_near in zip(rows, near, within, strict=True))
        return rows
    if has_loops(model.function):
        again = _reference(model).run
        assert again is not None
        own = tolerances_by_own_change(again, trial, made_in=made_in)
        return compare_outputs(names, trial.outputs, found, own, made_in)
    return rows


def _made_in(function: Function) -> str | None:
    """The least precise dtype that the function's floats come from, as far as types tell; None for that of its outputs.

    It is half precision if the function computes in that, and float32 if it takes nothing in double precision.
    """
    made = {_dtype(binding.var.ty) for binding in iter_bindings(function)}
    half = next((dtype for dtype in ("bfloat16", "float16") if dtype in made), None)
    is_double = any(_dtype(param.ty) == "float64" for param in function.params)
    return half if half is not None else "float32" if "float32" in made and not is_double else None


def _dtype(ty: Type) -> str | None:
    return ty.dtype if isinstance(ty, TensorType) else None


def _furthest(rows: Sequence[OutputDifference]) -> OutputDifference:
    """The largest difference of one output, with the shapes that it has on all samples."""
    furthest = max(rows, key=lambda one: (one.problem is not None, one.relative))
    return replace(furthest, shapes=tuple(dict.fromkeys(one.shape for one in rows)))


_NOTHING: Final = "nothing: its inputs or outputs are only text or maps, so all of it is carried unchanged"


class _Reference(NamedTuple):
    """A run that gives the right values, None if nothing can be compared, and its description, or the reason.

    ``is_exact`` says that it avoids the overflow of byte products that the model's framework has here. ``is_opened``
    says that this framework, if there is one, opens the model.
    """

    run: RunOriginal | None
    against: str
    is_exact: bool = False
    is_opened: bool = True


def _reference(model: Model) -> _Reference:
    """The model in its own framework, if there is one and it opens the model; else the model as it was read."""
    read = "the model as it was read"
    try:
        exact = run_exactly(model)
        before = exact or run_as_it_is(model)
    except BuildError as error:
        return _Reference(run_program(model.module, model.name, "numpy"), f"{read}, since {error}", is_opened=False)
    if before is None:
        if not output_types(model.function):
            return _Reference(None, _NOTHING)
        return _Reference(run_program(model.module, model.name), read)
    own = f"the model itself, on {_FRAMEWORKS[model.form]}"
    return _Reference(before, own) if exact is None else _Reference(before, own + WITHOUT_OVERFLOW, is_exact=True)


def _run_result(result: Model, *, is_exact: bool, is_opened: bool) -> RunOriginal:
    """A run of the result in its own form. With ``is_exact``, byte products do not overflow, as in the model's values.

    If the model's framework does not open it, as for operators of other devices, the result is read again.
    """
    if not is_opened and result.form == "onnx":
        read = open_model(result.source)
        return run_program(read.module, read.name, "numpy")
    if is_exact and result.form == "openvino" and isinstance(result.source, Path):
        read = open_model(result.source)
        return run_program(read.module, read.name, "openvino", exact=True)
    own = run_exactly(result) if is_exact else None
    return own or run_as_it_is(result) or run_program(result.module, result.name)


def written(path: Path, model: Model, module: IRModule) -> Model:
    """The result ``module`` for ``model``, stored in the file ``path``, as a model to verify.

    Programs of regraft may take tuples and shapes, which other formats flatten; they are run as programs.
    """
    form = form_of(path)
    if form == "relax":
        return open_model(path, function=model.name)
    if model.form == "relax":
        return Model(module, model.name, "relax", module)
    return Model(module, model.name, form, path)

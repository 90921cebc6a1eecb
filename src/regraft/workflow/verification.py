"""Whether a model and what became of it give the same values, each run in the form in which people have it.

A model that came from ONNX runs on ONNX Runtime, one from PyTorch on PyTorch, unread: reading, rewriting and writing
are all inside what is compared. Programs of ours run on the default engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..engine import build
from ..engine.originals import RunOriginal
from ..ir.module import IRModule
from .comparison import OutputDifference, compare_outputs, problems_of
from .errors import UsageError, VerificationError
from .inputs import first_that_runs
from .models import Form, Model, form_of, open_model, output_names, run_as_it_is


def run_program(module: IRModule, name: str, target: str = "onnxruntime") -> RunOriginal:
    """A function of ``module`` on an engine, with its results as one flat list of arrays."""
    entry: Callable[..., Any] = build(module, target=target)[name]

    def run(inputs: Sequence[Any]) -> list[np.ndarray]:
        return flat_arrays(entry(*inputs))

    return run


def flat_arrays(result: Any) -> list[np.ndarray]:
    """The arrays of a result, whatever tuples they stand in."""
    pending: list[Any] = [result]
    found: list[np.ndarray] = []
    while pending:
        value = pending.pop()
        if isinstance(value, tuple | list):
            pending.extend(reversed(list(value)))  # pyright: ignore[reportUnknownArgumentType]
        else:
            found.append(np.asarray(value))
    return found


def verify(
    model: Model,
    result: Model,
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    allowed: float | None = None,
) -> tuple[OutputDifference, ...]:
    """How far ``result`` is from ``model``, on random inputs.

    Args:
        model: the model as it was opened; its function says what inputs it takes.
        result: what became of it, as it will be handed over.
        seed: chooses the inputs.
        dims: sizes for symbolic dims, by name; the others are small and all different.
        allowed: the relative difference that is allowed in place of the dtype's own.

    Raises `VerificationError` where an output differs by more than is allowed, `UsageError` where no random inputs
    can be found on which the model gives numbers.
    """
    before = run_as_it_is(model) or run_program(model.module, model.name)
    trial = first_that_runs(model.function, before, seed, dims)
    if not trial.is_finite:
        raise UsageError(
            "the model gives NaN or infinities on every choice of random inputs, so there is nothing to compare; set its "
            "sizes (--dim name=size), or leave out --verify"
        )
    after = run_as_it_is(result) or run_program(result.module, result.name)
    found = after(trial.inputs)
    names = output_names(model.function)
    if len(names) != len(trial.outputs):
        names = tuple(f"output{index}" for index in range(len(trial.outputs)))
    differences = compare_outputs(names, trial.outputs, found, allowed)
    problems = problems_of(differences)
    if problems:
        raise VerificationError(f"the result computes something else: {problems}", differences)
    return differences


def written(path: Path, model: Model, module: IRModule) -> Model:
    """The model in the file ``path``, to be verified: read again only in the formats that no framework runs unread.

    ``module`` is what was written there.
    """
    form: Form = form_of(path)
    if form == "relax":
        return open_model(path, function=model.name)
    return Model(module, model.name, form, path)

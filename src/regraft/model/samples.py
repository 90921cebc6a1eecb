"""Samples: inputs that a user gives for calibration and for measuring errors, several of them.

One sample is the inputs of one run. They come from `.npz` files (one sample each, by name), from a folder of these, or
from any iterable of mappings, sequences of arrays, or arrays of the one input that a model has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from ..ir.program import Function
from ..ir.types import TensorType
from ..run import ExecutionError, TypeCheckError
from ..run.arrays import array_dtype
from ..run.checks import TypeCheck
from .errors import UsageError
from .inputs import (
    ExpectedRun,
    RandomInputs,
    ValueRange,
    first_that_runs,
    inputs_by_name,
    names_in,
    read_inputs,
    several_that_run,
)

_Place: TypeAlias = "str | os.PathLike[str]"
Samples: TypeAlias = "_Place | Mapping[str, Any] | Sequence[_Place] | Iterable[Mapping[str, Any] | Sequence[Any]]"
"""Files, a folder of files, or inputs one after another: by name, in order, or one array for a model with one input."""

_SUFFIXES = (".npz", ".npy")


class Sample(NamedTuple):
    """The inputs of one run, in the order of the parameters, and their origin, for messages."""

    place: str
    inputs: list[Any]


@dataclass(frozen=True, slots=True)
class TriedOn:
    """The inputs that a model is run on: those that are ``given``, or else random ones.

    ``seed``, ``dims`` and ``ranges`` control the random ones, as in `inputs.candidate_inputs`.
    """

    seed: int = 0
    dims: Mapping[str, int] | None = None
    ranges: Mapping[str, ValueRange] | None = None
    given: Samples | None = None

    @property
    def _drawn(self) -> RandomInputs:
        return RandomInputs(self.seed, self.dims, self.ranges)

    def trials(self, function: Function, run: Callable[[Sequence[Any]], list[np.ndarray]]) -> list[ExpectedRun]:
        """Each sample, or one choice of random inputs, with the outputs of ``run`` for it. Raises `UsageError`."""
        if self.given is None:
            return [first_that_runs(function, run, self._drawn)]
        return trials_on(function, read_inputs_of_runs(function, self.given), run)

    def several(
        self, function: Function, run: Callable[[Sequence[Any]], list[np.ndarray]], seconds: float
    ) -> list[ExpectedRun]:
        """As `trials`, but with several random inputs, as many as `several_that_run` runs in ``seconds``."""
        if self.given is not None:
            return self.trials(function, run)
        return several_that_run(function, run, seconds, self._drawn)


def trials_on(
    function: Function, samples: Sequence[Sample], run: Callable[[Sequence[Any]], list[np.ndarray]]
) -> list[ExpectedRun]:
    """Each of ``samples`` with the outputs of ``run`` for it; raises `UsageError`, which names the failing sample."""
    found: list[ExpectedRun] = []
    for place, inputs in samples:
        try:
            found.append(ExpectedRun(inputs, run(inputs), is_finite=True, place=place))
        except ExecutionError as error:
            bounds = _bounds_of_integers(function, inputs)
            raise UsageError(f"{place}: the model does not run on it{bounds}: {error}") from error
    return found


def _bounds_of_integers(function: Function, inputs: Sequence[Any]) -> str:
    """The smallest and the largest value of each integer input, as a text: these are usually indices, which have a
    limit.
    """
    named = [(param.name_hint, np.asarray(value)) for param, value in zip(function.params, inputs, strict=True)]
    told = [f"{name} from {x.min()} to {x.max()}" for name, x in named if x.dtype.kind in "iu" and x.size]
    return f" ({', '.join(told)})" if told else ""


def read_inputs_of_runs(function: Function, given: Samples) -> list[Sample]:
    """As `read_samples`, but NaN and infinities are allowed; files that together have all inputs are one sample."""
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 1:
        paths = [Path(one) for one in given if isinstance(one, str | os.PathLike)]
        if len(paths) == len(given) and not any(path.is_dir() for path in paths):
            names = {param.name_hint for param in function.params}
            alone = len(names) == 1 if paths[0].suffix == ".npy" else names <= set(names_in(paths[0]))
            if not alone:
                return [Sample(", ".join(map(str, paths)), read_inputs(function, paths))]
            return read_samples(function, paths, finite=False)
    return read_samples(function, given, finite=False)


def read_samples(function: Function, given: Samples, most: int = 128, *, finite: bool = True) -> list[Sample]:
    """The samples, with arrays in the order of the parameters of ``function``; at most ``most``.

    Raises `UsageError`, which names the sample, for missing or unknown inputs, for a wrong shape or dtype, for files
    that cannot be read, for NaN, infinities and inputs without elements (unless ``finite`` is False), and if there is
    no sample at all.
    """
    names = [param.name_hint for param in function.params]
    found: list[Sample] = []
    for place, one in _each(given):
        if len(found) == most:
            break
        if isinstance(one, Path):
            inputs = read_inputs(function, [one])
        elif isinstance(one, Mapping):
            inputs = inputs_by_name(place, names, one)
        else:
            # A single array or tensor is one input, whatever its first axis is.
            inputs = [one] if hasattr(one, "__array__") or not isinstance(cast("object", one), Iterable) else list(one)
            if len(inputs) != len(names):
                raise UsageError(f"{place} has {len(inputs)} inputs; the model has {len(names)}: {', '.join(names)}")
        _check(place, function, inputs, finite=finite)
        found.append(Sample(place, inputs))
    if not found:
        raise UsageError("there are no samples: give .npz files with the model's inputs by name, or a folder of them")
    return found


def _check(place: str, function: Function, inputs: Sequence[Any], *, finite: bool) -> None:
    """Raise `UsageError` unless the inputs fit the parameters."""
    labels: list[str] = []
    tensors: list[tuple[TensorType, np.ndarray]] = []
    for param, value in zip(function.params, inputs, strict=True):
        name, ty = param.name_hint, param.ty
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, RuntimeError) as error:  # rows of different lengths, or a tensor with a gradient
            raise UsageError(f"{place}: input {name} is no array: {error}") from error
        if finite and not array.size:
            raise UsageError(f"{place}: input {name} has no elements ({array.shape}), which give no range")
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UsageError(f"{place}: input {name} holds NaN or infinities, which give no range")
        if isinstance(ty, TensorType):
            labels.append(f"input {name}")
            # NumPy saves dtypes that it has no name for as plain bytes.
            tensors.append((ty.with_dtype(None) if array.dtype.kind == "V" else ty, array))
    check = TypeCheck(f"{place}: ", labels, [ty for ty, _ in tensors], (), array_dtype)
    try:
        check(*[array for _, array in tensors])
    except TypeCheckError as error:
        raise UsageError(str(error)) from error


def _each(given: Samples) -> Iterable[tuple[str, Path | Mapping[str, Any] | Sequence[Any]]]:
    if isinstance(given, str | os.PathLike | Mapping):
        given = [cast("Mapping[str, Any]", given)]
    if not isinstance(cast("object", given), Iterable):
        raise UsageError(f"samples are files, a folder, or inputs one after another, not {given!r}")
    for index, one in enumerate(given):
        if not isinstance(one, str | os.PathLike):
            yield f"sample {index}", one
            continue
        path = Path(one)
        if not path.exists():
            raise UsageError(f"{path}: there is no such file or folder of samples")
        files = [path]
        if path.is_dir():
            files = [file for file in sorted(path.iterdir()) if file.suffix in _SUFFIXES]
        if not files:
            raise UsageError(
                f"{path}: there are no samples in this folder, which are files of {' and '.join(_SUFFIXES)}"
            )
        for file in files:
            yield str(file), file

"""Inputs for a model: random ones that respect its types, or those of NumPy files.

`regraft.testing` draws random values, and chooses sizes that reveal a wrong transpose. This module finds inputs on
which the model runs and gives finite results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..ir.dtypes import as_dtype, is_float
from ..ir.module import IRModule
from ..ir.op import OpTypeError
from ..ir.program import Function
from ..ir.types import TensorType
from ..reference.trials import NoValueError, random_arguments
from ..run import ExecutionError
from .errors import UsageError
from .implied_sizes import implied_sizes, rows_of_tables
from .models import with_sizes
from .named_inputs import named_ways
from .trial_sizes import sizes_of, ways_of_sizes

ValueRange: TypeAlias = tuple[float, float]
"""The smallest and the largest value of an input."""

_RANGES: Final = ((0, 7), (-3, 3), (0, 1), (0, 0))
"""Ranges of integers to try in turn: most are indices, some are masks, for which only 0 and 1 make sense."""

_LEAST_RUNS, _MOST_RUNS = 4, 16
_MOST_HELD: Final = 1 << 28
"""The limit, in bytes, for the inputs and results of all runs."""


class ExpectedRun(NamedTuple):
    """Inputs on which a model runs, and the outputs for them."""

    inputs: list[Any]
    outputs: list[np.ndarray]
    is_finite: bool
    """True if no result has NaN or infinities: comparing NaN with NaN says nothing."""
    place: str = "the random inputs"
    """The inputs, as messages name them."""

    @property
    def with_elements(self) -> int:
        """The number of results that have elements. A detector may find nothing in an image, and then there is nothing
        to compare.
        """
        return sum(output.size > 0 for output in self.outputs)

    def tells_more(self, other: ExpectedRun) -> bool:
        """True if this run is the better test: its results are finite, or, if that is the same, more of them have
        elements.
        """
        return (self.is_finite, self.with_elements) > (other.is_finite, other.with_elements)


class TrialInputs(NamedTuple):
    """Inputs to try. ``is_long`` says that a run on them takes long."""

    inputs: list[Any]
    is_long: bool


class RandomInputs(NamedTuple):
    """The choice of random inputs: the ``seed``, and by name the sizes ``dims`` and the bounds of values ``ranges``."""

    seed: int = 0
    dims: Mapping[str, int] | None = None
    ranges: Mapping[str, ValueRange] | None = None


def candidate_inputs(
    function: Function, seed: int, dims: Mapping[str, int], ranges: Mapping[str, ValueRange] | None = None
) -> Iterator[TrialInputs]:
    """Random inputs for ``function``, one choice after another, the same for the same ``seed``.

    Inputs that suit the names of a transformer's inputs come first (`named_ways`). Inputs that ``ranges`` names are
    distributed evenly between its bounds, both included. Of the others, floats are normally distributed, and integers
    come from ever smaller ranges. `ways_of_sizes` chooses the symbolic sizes that ``dims`` does not set. Raises
    `UsageError` if a type does not say enough.
    """
    _check_ranges(function, ranges or {})
    sizes = {**implied_sizes(function), **dims}
    typed = with_sizes(IRModule({"main": function}), "main", sizes)["main"]
    try:
        for way in named_ways(typed):
            inputs = way.filled(random_arguments(way.function, seed))
            yield TrialInputs(_within(ranges or {}, way.function, inputs, seed), is_long=False)
        for candidate, divisible, is_long in ways_of_sizes(typed, seed):
            for whole in _RANGES:
                inputs = random_arguments(candidate, seed, whole=whole, divisible=divisible)
                yield TrialInputs(_within(ranges or {}, candidate, inputs, seed), is_long)
                if not _takes_integers(candidate):
                    break
    except NoValueError as error:
        raise UsageError(f"no random inputs can be made: {error}; give them: --input FILE.npz") from error


def _check_ranges(function: Function, ranges: Mapping[str, ValueRange]) -> None:
    types = {param.name_hint: param.ty for param in function.params}
    for name, (low, high) in ranges.items():
        ty = types.get(name)
        if ty is None:
            raise UsageError(f"a range is given for {name}; the model's inputs are: {', '.join(types) or 'none'}")
        if not isinstance(ty, TensorType) or ty.dtype is None or ty.dtype == "bool" or ty.dtype.startswith("complex"):
            raise UsageError(f"a range is given for {name}, which is {ty!r}; ranges are for tensors of real numbers")
        if not (np.isfinite(low) and np.isfinite(high) and low <= high):
            raise UsageError(f"the range of {name} goes from {low:g} to {high:g}; give a least and a greatest number")
        if not is_float(ty.dtype) and np.ceil(low) > np.floor(high):
            raise UsageError(f"there is no whole number between {low:g} and {high:g}, for {name}")


def _within(ranges: Mapping[str, ValueRange], function: Function, inputs: list[Any], seed: int) -> list[Any]:
    """``inputs``, with each input that has a range drawn from it."""
    random = np.random.default_rng(seed)
    found = list(inputs)
    for place, param in enumerate(function.params):
        if param.name_hint in ranges:
            array = np.asarray(inputs[place])
            low, high = ranges[param.name_hint]
            if is_float(as_dtype(array.dtype)):
                drawn = random.uniform(low, high, size=array.shape)
            else:
                drawn = random.integers(int(np.ceil(low)), int(np.floor(high)), size=array.shape, endpoint=True)
            found[place] = drawn.astype(array.dtype)
    return found


def _takes_integers(function: Function) -> bool:
    return not all(
        isinstance(param.ty, TensorType) and param.ty.dtype is not None and is_float(param.ty.dtype)
        for param in function.params
    )


def first_that_runs(
    function: Function, run: Callable[[Sequence[Any]], list[np.ndarray]], drawn: RandomInputs
) -> ExpectedRun:
    """Random inputs on which ``run`` succeeds with finite results that all have elements, else the best of those it
    runs on.

    Raises `UsageError`, with the first failure, if it runs on none.
    """
    fallback: ExpectedRun | None = None
    failure: Exception | None = None
    tried = 0
    for inputs, is_long in candidate_inputs(function, drawn.seed, drawn.dims or {}, drawn.ranges):
        if is_long and fallback is not None:
            break
        tried += 1
        try:
            outputs = run(inputs)
        except (ExecutionError, OpTypeError) as error:
            failure = failure or error
            continue
        trial = ExpectedRun(inputs, outputs, all(_is_finite(output) for output in outputs))
        if trial.is_finite and trial.with_elements == len(outputs):
            return trial
        fallback = trial if fallback is None or trial.tells_more(fallback) else fallback
    if fallback is None:
        raise UsageError(
            f"the model as it is, before any change, ran on none of {tried} random inputs: {failure}; give inputs on "
            "which it runs (--input FILE.npz), or set its sizes (--dim name=size) or the ranges of its inputs "
            "(--range name=0:1)"
        ) from failure
    return fallback


def several_that_run(
    function: Function, run: Callable[[Sequence[Any]], list[np.ndarray]], seconds: float, drawn: RandomInputs
) -> list[ExpectedRun]:
    """Several runs as from `first_that_runs`, of the same sizes: as many as fit into ``seconds``, at least 4 and at
    most 16.

    Only the best tests are kept (`ExpectedRun.tells_more`). Inputs after the first index the whole of a table, not only
    its beginning. There are fewer if they take very much memory, and only one for a function without parameters.
    """
    first = first_that_runs(function, run, drawn)
    found = [first]
    most = _MOST_RUNS if function.params else 1
    sizes = {**(drawn.dims or {}), **{size.name: number for size, number in sizes_of(function, first.inputs).items()}}
    ranges = {**rows_of_tables(function), **(drawn.ranges or {})}
    began = perf_counter()
    for again in range(1, most):
        late = perf_counter() - began > seconds and len(found) >= _LEAST_RUNS
        if late or len(found) * _bytes_of(first) > _MOST_HELD:
            break
        with suppress(UsageError):
            trial = first_that_runs(function, run, RandomInputs(drawn.seed + again, sizes, ranges))
            if trial.tells_more(found[0]):
                found = [trial]
            elif not found[0].tells_more(trial):
                found.append(trial)
    return found


def _bytes_of(trial: ExpectedRun) -> int:
    return sum(np.asarray(value).nbytes for value in (*trial.inputs, *trial.outputs))


def _is_finite(array: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        return array.dtype.kind in "biu" or bool(np.isfinite(array.astype(np.complex128)).all())


def read_inputs(function: Function, paths: Sequence[Path]) -> list[Any]:
    """The inputs of ``function`` from NumPy files: ``.npz`` by name, ``.npy`` in order.

    Raises `UsageError` for files that cannot be read, and for missing or unknown inputs.
    """
    names = [param.name_hint for param in function.params]
    found: dict[str, np.ndarray] = {}
    for path in paths:
        loaded = _loaded(path)
        if isinstance(loaded, np.ndarray):
            free = next((name for name in names if name not in found), None)
            if free is None:
                raise UsageError(f"{path} is one input too many; the model has: {', '.join(names) or 'none'}")
            found[free] = loaded
        else:
            found.update(loaded)
    return inputs_by_name(", ".join(map(str, paths)), names, found)


def inputs_by_name(place: str, names: Sequence[str], given: Mapping[str, Any]) -> list[Any]:
    """The values of ``given`` in the order of ``names``; raises `UsageError`, which names ``place``, if the names
    differ.
    """
    unknown, missing = [name for name in given if name not in names], [name for name in names if name not in given]
    if unknown or missing:
        wrong = [f"no input is named {', '.join(unknown)}"] if unknown else []
        wrong += [f"{', '.join(missing)} not given"] if missing else []
        raise UsageError(f"{place}: {'; '.join(wrong)}; the model's inputs are: {', '.join(names) or 'none'}")
    return [given[name] for name in names]


def names_in(path: Path) -> tuple[str, ...]:
    """The names of the inputs in an ``.npz`` file, none in an ``.npy`` file; raises `UsageError` as `read_inputs`."""
    loaded = _loaded(path)
    return () if isinstance(loaded, np.ndarray) else tuple(loaded)


def _loaded(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; this is one run, so give the .npz or .npy files of one sample")
    try:
        loaded: Any = np.load(path, allow_pickle=False)
        return {name: loaded[name] for name in loaded.files} if hasattr(loaded, "files") else loaded
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # damaged archives raise whatever zipfile and zlib raise
        pickled = " (pickled objects are not read)" if "pickle" in str(error) else f": {error}"
        raise UsageError(f"{path} is no file of NumPy arrays (.npy, .npz), or it is damaged{pickled}") from error

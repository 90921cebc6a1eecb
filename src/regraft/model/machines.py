"""Machines that a model is made for: this one, one of a few kinds by name, or one that a JSON file describes.

Of another machine only the facts that decide between precisions are known: the dtypes its processor computes in, the
number of cores, and the speed, from a table of such processors or from rates in the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from ..ir.near_names import hint
from ..run.processor import FEATURES, is_x86_64, multiplies_bytes, processor_features, processor_name
from .errors import UsageError

ENGINES: Final = ("onnxruntime", "openvino", "torch")
"""The engines that precisions are tried on."""

RATED: Final = ("float32", "bfloat16", "int8", "memory")
"""The rates that a file may give, in 10⁹ per second and core: operations of a dtype, and bytes of memory."""

_ARCHITECTURES: Final = ("x86-64", "arm64")

_FASTEST: Final[Mapping[str, tuple[tuple[str, float], ...]]] = {
    "float32": (("avx512f", 100.0), ("avx2", 60.0)),
    "bfloat16": (("amx_bf16", 500.0), ("avx512_bf16", 200.0), ("bf16", 120.0)),
    "int8": (("amx_int8", 600.0), ("avx512_vnni", 350.0), ("i8mm", 250.0), ("avx_vnni", 200.0), ("asimddp", 150.0)),
}
"""The operations, in 10⁹ per second, of a core that uses its fastest feature, as measured in large products."""

_PLAIN: Final = 40.0
_BYTES_BY_VECTORS: Final = 1.5
"""The ratio of int8 operations to float32 operations on a processor without a feature for int8."""
_MEMORY: Final = 10.0
_MOST_READERS: Final = 4
"""The number of cores beyond which more cores do not read memory faster."""


@dataclass(frozen=True, slots=True)
class MachineDescription:
    """A machine that models run on.

    ``features`` are the members of `regraft.run.processor.FEATURES` that its processor has. ``engines`` are the engines
    that run there; empty means the engines installed here. ``rates`` are 10⁹ operations or bytes per second and core,
    by the names in `RATED`; they replace the usual rates of such processors. ``is_here`` says that this program runs on
    the machine, so that times are measured.
    """

    name: str
    architecture: str
    features: tuple[str, ...]
    cores: int = 1
    engines: tuple[str, ...] = ()
    rates: Mapping[str, float] = field(default_factory=dict[str, float])
    is_here: bool = False

    @property
    def weight_bits(self) -> int:
        """The number of bits of an int8 weight at which sums of products cannot overflow."""
        return 8 if multiplies_bytes(self.features, is_x86=self.architecture == "x86-64") else 7

    def has(self, dtype: str) -> bool:
        """True if the processor computes in ``dtype``, a member of `RATED`, at a rate of its own."""
        return dtype in ("float32", "int8", *self.rates) or any(name in self.features for name, _ in _FASTEST[dtype])

    def rate(self, dtype: str, threads: int | None = None) -> float:
        """The operations of ``dtype``, or the bytes for ``"memory"``, per second on ``threads`` cores."""
        count = self.cores if threads is None else min(threads, self.cores)
        if dtype == "memory":
            return self.rates.get(dtype, _MEMORY) * min(count, _MOST_READERS) * 1e9
        return self._rate_of_a_core(dtype) * count * 1e9

    def _rate_of_a_core(self, dtype: str) -> float:
        known = [rate for name, rate in _FASTEST[dtype] if name in self.features]
        if dtype in self.rates or known:
            return self.rates.get(dtype) or known[0]
        if dtype == "float32":
            return _PLAIN
        return self._rate_of_a_core("float32") * (_BYTES_BY_VECTORS if dtype == "int8" else 1.0)

    def to_dict(self) -> dict[str, Any]:
        """The machine as plain data, in the form of its file."""
        facts = {"name": self.name, "architecture": self.architecture, "features": list(self.features)}
        optional = {"engines": list(self.engines), "rates": dict(self.rates)}
        return {**facts, "cores": self.cores, **{key: value for key, value in optional.items() if value}}


MachineChoice: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | MachineDescription"
"""A machine by name, as a JSON file, as the contents of such a file, or as a description."""

_AVX512: Final = ("avx2", "avx512f")
PROFILES: Final[Mapping[str, MachineDescription]] = {
    one.name: one
    for one in (
        MachineDescription("avx2", "x86-64", ("avx2",), 4),
        MachineDescription("avx-vnni", "x86-64", ("avx2", "avx_vnni"), 4),
        MachineDescription("avx512", "x86-64", _AVX512, 4),
        MachineDescription("avx512-vnni", "x86-64", (*_AVX512, "avx512_vnni"), 4),
        MachineDescription("avx512-bf16", "x86-64", (*_AVX512, "avx512_vnni", "avx512_bf16"), 4),
        MachineDescription("amx", "x86-64", (*_AVX512, "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"), 4),
        MachineDescription("arm", "arm64", ("asimddp",), 4),
        MachineDescription("arm-bf16", "arm64", ("asimddp", "i8mm", "bf16"), 4),
    )
}
"""Kinds of machines by name, of four cores each."""


def this_machine() -> MachineDescription:
    """The machine at hand."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    architecture = "x86-64" if is_x86_64() else "arm64"
    return MachineDescription(processor_name(), architecture, processor_features(), count, is_here=True)


def machine_of(target: MachineChoice) -> MachineDescription:
    """The machine that ``target`` describes; raises `UsageError`, which lists the known ones, if it is unknown."""
    if isinstance(target, MachineDescription):
        return target
    if isinstance(target, Mapping):
        return _described(target, "the target")
    text = os.fspath(target)
    if text in PROFILES:
        return PROFILES[text]
    path = Path(text)
    if path.suffix == ".json" or path.is_file():
        return _described(_read(path), text)
    known = hint(text, PROFILES)
    raise UsageError(f"there is no target {text!r}; {known} (or a .json file that `regraft targets --save` wrote)")


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file of a target") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} holds no target: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} holds no target: an object with features and cores is expected")
    return cast("Mapping[str, Any]", found)


_KEYS: Final = ("name", "architecture", "features", "cores", "engines", "rates")


def _described(given: Mapping[str, Any], place: str) -> MachineDescription:
    for key in given:
        if key not in _KEYS:
            raise UsageError(f"{place}: there is no key {key!r}; {hint(key, _KEYS)}")
    features = _names(given, "features", FEATURES, place)
    architecture = given.get("architecture", "arm64" if _is_arm(features) else "x86-64")
    if architecture not in _ARCHITECTURES:
        raise UsageError(f"{place}: the architecture {architecture!r} is none of {', '.join(_ARCHITECTURES)}")
    cores = given.get("cores", 1)
    if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
        raise UsageError(f"{place}: cores is {cores!r}; expected a whole number of 1 or more")
    engines = _names(given, "engines", ENGINES, place)
    name = str(given.get("name", place))
    return MachineDescription(name, str(architecture), features, cores, engines, _rates(given.get("rates", {}), place))


def _is_arm(features: tuple[str, ...]) -> bool:
    return any(name in ("asimddp", "i8mm", "bf16") for name in features)


def _names(
    given: Mapping[str, Any], key: str, known: Mapping[str, str] | tuple[str, ...], place: str
) -> tuple[str, ...]:
    found = given.get(key, [])
    if not isinstance(found, list | tuple):
        raise UsageError(f"{place}: {key} is {found!r}; expected a list of names")
    names = [str(one) for one in cast("list[Any]", found)]
    for one in names:
        if one not in known:
            raise UsageError(f"{place}: {one!r} is none of the known {key}; {hint(one, known)}")
    return tuple(names)


def _rates(given: Any, place: str) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{place}: rates is {given!r}; expected numbers by {', '.join(RATED)}")
    rates: dict[str, float] = {}
    for key, value in cast("Mapping[Any, Any]", given).items():
        if key not in RATED:
            raise UsageError(f"{place}: there is no rate of {key!r}; {hint(str(key), RATED)}")
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise UsageError(f"{place}: the rate of {key} is {value!r}; expected a number above 0")
        rates[str(key)] = float(value)
    return rates

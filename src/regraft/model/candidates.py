"""The ways to compute a model on this machine: each is an engine, its options, and a pass over the layers.

A candidate also states its arithmetic, so that the candidate that is expected to be fastest is tried first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from ..ir.module import IRModule
from ..ir.op import is_call_of
from ..ir.program import Function
from ..ir.types import TensorType
from ..ir.visitor import iter_bindings
from ..passes import DeadCodeElimination, FoldConstant, Pass, Sequential, ToMixedPrecision, for_engine
from ..passes.mixed_precision import narrowed_products
from ..passes.quantize import (
    CONVOLUTIONS,
    SIGNED_BYTES,
    Quantize,
    QuantizeDynamic,
    QuantizeRecurrent,
    QuantizeWeights,
    Ranges,
    WeightCodes,
)
from .errors import UsageError
from .expected import ComputedIn
from .machines import ENGINES, MachineDescription
from .models import ModelForm

PRECISIONS: Final = ("float32", "bfloat16", "float16", "int8", "int8-weights", "int4-weights", "auto")
"""The precisions that can be requested."""

DEFAULT_ERRORS: Final[Mapping[str, float]] = {
    "bfloat16": 0.02,
    "float16": 0.02,
    "int8": 0.05,
    "int8-weights": 0.05,
    "int4-weights": 0.2,
    "auto": 0.02,
}
"""The error that is allowed by default, as a fraction of the largest magnitude of each output."""

MOST_IN_FLOAT32: Final = 1.7
"""The greatest gain to expect of a model in float32: the speed of its products limits it."""

_FEW_ROWS: Final = 8
"""Products of more rows are limited by arithmetic and not by reading weights; smaller weights gain nothing there."""

_BYTES: Final = ComputedIn("int8", 0.25)

_UNSIGNED: Final = ", unsigned weights"
"""The suffix of the name of a candidate with weights in uint8."""

HALVES: Final = ("bfloat16", "float16")
"""The precisions that an engine computes in if an option says so."""

_ENGINES_OF: Final[Mapping[ModelForm, tuple[str, ...]]] = {
    "onnx": ("onnxruntime", "openvino"),
    "relax": ("onnxruntime", "openvino"),
    "openvino": ("openvino",),
    "torch": ("torch",),
}
"""The engines that a precision is chosen for, by the form of the model."""

WIDER: Final = "int8 weights"
"""The first precision that layers with weights in 4 bits go back to."""

PassFor: TypeAlias = Callable[[Mapping[str, str], IRModule], Pass]
"""Makes a pass for a module. Bindings with a name in the mapping stay as they are, or get the precision given there."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to compute a model: ``make`` returns the pass that writes its layers, None if the engine does all the work.

    ``rules`` are the engine's rules, which run first. ``forms`` has the arithmetic of the operators that the pass
    writes, by their names, so that the time can be estimated before the pass is made.
    """

    name: str
    engine: str
    options: Mapping[str, Any]
    make: PassFor | None = None
    rules: Pass = field(default_factory=lambda: Sequential([]))
    forms: Mapping[str, ComputedIn] = field(default_factory=dict[str, ComputedIn])
    opens_attention: bool = False
    """True if attention is first taken apart into its products."""
    rest: str = "float32"
    """The precision of everything that the pass leaves as it is."""
    by_steps: bool = False
    """True if layers go back to `WIDER` before they go back to ``rest``."""
    layers: Callable[[Function], list[str]] | None = None
    """Returns the bindings of the layers, for a pass that does not report them as rewrites."""
    codes: WeightCodes = SIGNED_BYTES
    """The form of weights in bytes."""

    @property
    def keeps_precision(self) -> bool:
        """True if the candidate computes in the model's own precision."""
        return self.make is None and not self.options

    @property
    def faster(self) -> str | None:
        """The name of a faster, less exact candidate; this one is tried only if the error of that one is too large."""
        return self.name.removesuffix(_UNSIGNED) if self.codes.unsigned else None


class Refused(NamedTuple):
    """A way to compute that this machine, an engine or the samples rule out, and the reason."""

    name: str
    engine: str
    problem: str


def candidates(
    precision: str,
    engines: Sequence[str],
    ranges: Callable[[IRModule], Ranges] | None,
    machine: MachineDescription,
    *,
    has_few_rows: bool,
    has_attention: bool = False,
    own: str = "float32",
) -> list[Candidate | Refused]:
    """The candidates for a precision, the most promising first, and the ways that are ruled out, with the reason.

    ``ranges`` computes the ranges of a module's values from samples when needed; None without samples. ``has_few_rows``
    says that products have so few rows that they wait for their weights. ``has_attention`` says that there is
    attention, whose products are tried in bytes as well. ``machine`` says which dtypes its processor computes in.
    ``own`` is the name of the model's own precision.
    """
    listed: list[Candidate | Refused] = []
    for engine in engines:
        if engine == "torch":
            listed += _on_torch(precision, ranges, machine, own)
            continue
        if engine == "openvino":
            listed += _on_openvino(precision, machine)
        if precision in ("int8", "auto"):
            listed += _in_bytes(engine, ranges, machine)
        for bits in (8, 4):
            if precision == f"int{bits}-weights" or (precision == "auto" and has_few_rows):
                name, forms = f"int{bits} weights", {"relax.matmul": ComputedIn("int8", bits / 32)}
                rewrites = _weights_in(bits, engine)
                listed.append(Candidate(name, engine, {}, rewrites, forms=forms, by_steps=bits == 4))
        if precision == "auto":
            listed.append(Candidate(own, engine, {}))
    if precision in HALVES and not {"openvino", "torch"} & set(engines):
        named = " and ".join(engines)
        problem = f"{named} does not compute in {precision} on a CPU; openvino does where the processor has it"
        listed.append(Refused(precision, ", ".join(engines), problem))
    if has_attention:
        listed = [*listed, *_on_attention(listed, ranges)]
    found = sorted(listed, key=_place)
    return [replace(one, rules=for_engine(one.engine)) if isinstance(one, Candidate) else one for one in found]


def _place(one: Candidate | Refused) -> int:
    """The position in the order of trials: few bits on every path first, the model's own precision last."""
    if isinstance(one, Candidate) and one.keeps_precision:
        return 3
    return {"openvino": 1, "onnxruntime": 2}.get(one.engine, 2) if one.name.startswith("int8 ") else 0


def _on_openvino(precision: str, machine: MachineDescription) -> Iterator[Candidate | Refused]:
    supported = _openvino_precisions()
    for one in HALVES if precision == "auto" else (precision,):
        if one not in HALVES:
            continue
        if not machine.is_here and not (one == "bfloat16" and machine.has(one)):
            yield Refused(one, "openvino", f"the target {machine.name} has no {one}")
        elif one in supported:
            yield Candidate(one, "openvino", {"precision": one}, rest=one)
        elif not machine.is_here:
            problem = f"{machine.name} has {one}, but this processor has none, so the error cannot be measured here"
            yield Refused(one, "openvino", problem)
        else:
            problem = f"this processor has no {one} for OpenVINO; it has {', '.join(supported)}"
            yield Refused(one, "openvino", problem)


def _on_torch(
    precision: str, ranges: Callable[[IRModule], Ranges] | None, machine: MachineDescription, own: str
) -> Iterator[Candidate | Refused]:
    """The candidates on PyTorch. ``"auto"`` offers those that run eagerly. Those for its compiler must be requested by
    name.
    """
    narrow = "bfloat16" if precision == "auto" else precision
    if narrow in HALVES:
        forms = dict.fromkeys(("relax.matmul", *CONVOLUTIONS), ComputedIn(narrow, 0.5))
        yield Candidate(narrow, "torch", {}, _narrow_products(narrow), forms=forms, layers=narrowed_products)
    if precision == "int8":
        yield from _in_bytes("torch", ranges, machine)
    for bits in (8, 4):
        if precision == f"int{bits}-weights":
            yield Candidate(f"int{bits} weights", "torch", {}, _weights_in(bits, "torch"), by_steps=bits == 4)
    if precision == "auto":
        problem = "PyTorch computes bytes in float32 unless a compiler takes them; --precision int8 writes them"
        yield Refused("int8", "torch", problem)
        yield Candidate(own, "torch", {})


def _narrow_products(dtype: str) -> PassFor:
    """Products, and their sums, in ``dtype``, with weights stored in it. Sums may be in ``dtype`` because PyTorch
    accumulates in float32 inside a product.

    Norms and exponentials stay in float32. Everything computed from constants alone, such as a bias in the shape of an
    image, is folded into one constant first, and so follows its product.
    """

    def make(keep: Mapping[str, str], _module: IRModule) -> Pass:
        mixed = ToMixedPrecision(dtype, dtype=dtype, keep=keep, relax_policy=False)
        return Sequential([FoldConstant(), mixed, FoldConstant(), DeadCodeElimination()])

    return make


def _weights_in(bits: int, engine: str) -> PassFor:
    def make(keep: Mapping[str, str], _module: IRModule) -> Pass:
        wide = {name for name, precision in keep.items() if precision == WIDER}
        return QuantizeWeights(bits, keep=keep.keys() - wide, wide=wide, one_lookup=engine == "onnxruntime")

    return make


def has_few_rows(function: Function) -> bool:
    """True if most products have few rows; symbolic sizes count as 1."""
    few = many = 0
    for binding in iter_bindings(function):
        if not is_call_of(binding.value, "relax.matmul"):
            continue
        left = binding.value.args[0].ty
        if isinstance(left, TensorType) and left.shape is not None:
            rows = prod(size for size in left.shape[:-1] if isinstance(size, int))
            few, many = few + (rows <= _FEW_ROWS), many + (rows > _FEW_ROWS)
    return few > many


def _in_bytes(
    engine: str, ranges: Callable[[IRModule], Ranges] | None, machine: MachineDescription
) -> Iterator[Candidate | Refused]:
    recurrent = ["relax.nn.lstm"] if engine == "onnxruntime" else []
    weights = _forms_of_weights(engine, machine)
    if engine == "onnxruntime" or (engine == "torch" and ranges is None):
        forms = dict.fromkeys(["relax.matmul", *recurrent], _BYTES)
        for end, codes in weights.items():
            yield Candidate(f"int8 dynamic{end}", engine, {}, _as_it_runs(engine, codes), forms=forms, codes=codes)
    if ranges is None:
        problem = "without samples no ranges are known: give them by --calibrate"
        yield Refused("int8 static", engine, problem)
        return
    forms = dict.fromkeys(["relax.matmul", *CONVOLUTIONS, *recurrent], _BYTES)
    for end, codes in weights.items():
        make = _by_samples(ranges, engine, codes)
        yield Candidate(f"int8 static{end}", engine, {}, make, forms=forms, codes=codes)
    if engine == "openvino" and machine.has("bfloat16") and "bfloat16" in _openvino_precisions():
        name, options, codes = "int8 static, else bfloat16", {"precision": "bfloat16"}, weights[""]
        make = _by_samples(ranges, engine, codes)
        yield Candidate(name, engine, options, make, forms=forms, rest="bfloat16", codes=codes)


def _forms_of_weights(engine: str, machine: MachineDescription) -> dict[str, WeightCodes]:
    """The forms of weights in bytes that do not overflow, the fastest first, by the suffix of the candidate's name."""
    if machine.weight_bits == 8:
        return {"": SIGNED_BYTES}
    seven = {"": WeightCodes(machine.weight_bits)}
    return {**seven, _UNSIGNED: WeightCodes(unsigned=True)} if engine == "onnxruntime" else seven


def _as_it_runs(engine: str, codes: WeightCodes) -> PassFor:
    """Bytes with ranges that are found while the model runs: for products, and on ONNX Runtime for recurrent layers."""

    def make(keep: Mapping[str, str], _module: IRModule) -> Pass:
        dynamic = QuantizeDynamic(keep, bits=codes.bits, unsigned=codes.unsigned)
        return Sequential([dynamic, *_recurrent(engine, keep, codes)])

    return make


def _recurrent(engine: str, keep: Mapping[str, str], codes: WeightCodes) -> list[Pass]:
    """The pass for recurrent layers in bytes; only ONNX Runtime has kernels for them."""
    if engine != "onnxruntime":
        return []
    return [QuantizeRecurrent(keep, bits=codes.bits, unsigned=codes.unsigned)]


def _by_samples(
    ranges: Callable[[IRModule], Ranges], engine: str, codes: WeightCodes, *, attention: bool = False
) -> PassFor:
    """Bytes with ranges from samples, in the form that the engine has kernels for."""
    form: dict[str, Any] = {"bits": codes.bits, "unsigned": codes.unsigned}

    def make(keep: Mapping[str, str], module: IRModule) -> Pass:
        static = Quantize(ranges(module), keep, attention=attention, results=engine == "onnxruntime", **form)
        return Sequential([static, *_recurrent(engine, keep, codes)])

    return make


def _on_attention(
    listed: Sequence[Candidate | Refused], ranges: Callable[[IRModule], Ranges] | None
) -> Iterator[Candidate]:
    """The same candidates with attention's products in bytes as well: the last static candidate on bytes for each
    engine and form of weights.
    """
    static = [one for one in listed if isinstance(one, Candidate) and one.name.startswith("int8 static")]
    for one in {(one.engine, one.codes.unsigned): one for one in static}.values():
        assert ranges is not None
        make = _by_samples(ranges, one.engine, one.codes, attention=True)
        yield replace(one, name=one.name.replace("static", "static with attention"), make=make, opens_attention=True)


def _openvino_precisions() -> tuple[str, ...]:
    from ..run.openvino_engine import supported_precisions

    return supported_precisions()


def installed_engines(asked: str | None, form: ModelForm, there: Sequence[str] = ()) -> tuple[str, ...]:
    """The requested engine, or the installed engines that run a model of ``form``.

    ``there`` lists the engines of a target; empty means all. Raises `UsageError` for an engine that does not fit, and
    if none is left.
    """
    own = _ENGINES_OF[form]
    if asked is not None and asked not in ENGINES:
        raise UsageError(f"precisions are chosen for {', '.join(ENGINES)}, not for {asked!r}")
    if asked is not None and asked not in own:
        suffix = ".pt2" if asked == "torch" else ".onnx"
        problem = f"{asked} does not open the result, which is for {' and '.join(own)}"
        raise UsageError(f"{problem}; leave out the engine, or give an output that ends in {suffix}")
    wanted = own if asked is None else (asked,)
    if there and not set(wanted) & set(there):
        raise UsageError(f"the target has {', '.join(there)}, not {' and '.join(wanted)}")
    wanted = tuple(name for name in wanted if not there or name in there)
    found = tuple(name for name in wanted if find_spec(name) is not None)
    if not found and asked is None:
        raise UsageError(f"the target's {', '.join(wanted)} is not installed here, so that no error can be measured")
    return found or wanted

"""for_engine: passes that pay on one engine only, to run after those of a level."""

from __future__ import annotations

from typing import Final

from .attend_in_tiles import AttendInTiles
from .combine_parallel_matmul import CombineParallelMatmul
from .context import PassError
from .dead_code import DeadCodeElimination
from .decoders import CacheInPlace, PackQueryKeyValue, RotaryByKernel
from .fold_constant import FoldConstant
from .layout import RemoveRedundantReshape, SimplifyTransposes
from .no_ops import RemoveNoOps
from .passes import Sequential
from .quantize.written_out import WriteOutQuantized

ENGINES: Final = ("onnxruntime", "openvino", "torch")


def for_engine(engine: str, longest: int | None = None) -> Sequential:
    """The passes that write a program with the operators of one engine, to run after those of a level.

    ``"onnxruntime"``: attention over many keys is computed tile by tile (`AttendInTiles`), and rotary embedding is one
    operator (`RotaryByKernel`). With ``longest``, the cache of a decoder has room for that many places and stays in
    place (`CacheInPlace`), with queries, keys and values side by side. Products with one left operand are then
    combined, since a step has few rows and its time is spent on reading weights. ``"openvino"`` fuses by itself;
    operators on quantized tensors are decomposed for it (`WriteOutQuantized`). ``"torch"`` gets no passes, since its
    forms come with its files.

    ``SkipLayerNormalization``, ``BiasGelu`` and ``MultiHeadAttention`` of fewer keys are not used: they were measured
    to be no faster, or slower. Raises `PassError` for another engine and, when it runs, for a ``longest`` with a
    program that keeps no such cache.
    """
    if engine not in ENGINES:
        raise PassError(f"there are no rules for the engine {engine!r}; there are for {', '.join(ENGINES)}")
    if engine != "onnxruntime" and longest is not None:
        raise PassError(f"{engine} keeps no cache in place; leave out longest")
    if engine != "onnxruntime":
        return Sequential([WriteOutQuantized()] if engine == "openvino" else [], name=f"for {engine}")
    if longest is None:
        turned = [RotaryByKernel(), SimplifyTransposes(), RemoveRedundantReshape()]
        return Sequential([*turned, AttendInTiles()], name=f"for {engine}")
    packed = [CombineParallelMatmul(), FoldConstant(keep_named=True)]
    tidy = [SimplifyTransposes(), RemoveRedundantReshape(), RemoveNoOps(), PackQueryKeyValue(), DeadCodeElimination()]
    return Sequential([*packed, CacheInPlace(longest), RotaryByKernel(), *tidy], name=f"for {engine}")

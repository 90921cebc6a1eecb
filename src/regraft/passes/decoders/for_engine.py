"""for_engine: what pays on one engine only, after the passes of a level."""

from __future__ import annotations

from typing import Final

from ..combine_parallel_matmul import CombineParallelMatmul
from ..context import PassError
from ..dead_code import DeadCodeElimination
from ..fold_constant import FoldConstant
from ..layout import RemoveRedundantReshape, SimplifyTransposes
from ..no_ops import RemoveNoOps
from ..passes import Sequential
from .cache_in_place import CacheInPlace, PackQueryKeyValue

ENGINES: Final = ("onnxruntime", "openvino")


def for_engine(engine: str, longest: int | None = None) -> Sequential:
    """The passes that bring a program to the operators that one engine has, after those of a level.

    ``"onnxruntime"``: products of one left side become one, faster or not by themselves, since their weights are read
    in one stretch where there are few rows; with ``longest``, the cache of a decoder has room for that many places and
    stays where it is (`CacheInPlace`), with queries, keys and values side by side. ``"openvino"`` fuses by itself, and
    gets the products only. Raises `PassError` for another engine, and when it runs, for a ``longest`` with a program
    that keeps no such cache.
    """
    if engine not in ENGINES:
        raise PassError(f"there are no rules for the engine {engine!r}; there are for {' and '.join(ENGINES)}")
    if engine != "onnxruntime" and longest is not None:
        raise PassError(f"{engine} keeps no cache in place; leave out longest")
    packed = [CombineParallelMatmul(), FoldConstant()]
    if longest is None:
        return Sequential([*packed, DeadCodeElimination()], name=f"for {engine}")
    tidy = [SimplifyTransposes(), RemoveRedundantReshape(), RemoveNoOps(), PackQueryKeyValue(), DeadCodeElimination()]
    return Sequential([*packed, CacheInPlace(longest), *tidy], name=f"for {engine}")

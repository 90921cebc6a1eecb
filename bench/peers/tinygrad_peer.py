"""tinygrad: `graph_rewrite` with a compiled pattern matcher, which needs no types of tensors."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat, graph_rewrite

from bench.peers import Job

NAME = f"tinygrad {version('tinygrad')}"

_DOUBLE = PatternMatcher([(UPat(Ops.ADD, src=(UPat.var("x"), UPat.var("x"))), lambda x: x * x.const_like(2))])


def chain(count: int) -> Job:
    """`graph_rewrite`; its graph has no relu, so exponentials stand between the sums."""

    def fresh() -> Any:
        # Equal nodes are one object in tinygrad; a different bound keeps programs of different lengths apart.
        value = UOp.variable("x", 0.0, float(count), dtypes.float)
        for index in range(count):
            value = UOp(Ops.EXP2, dtypes.float, (value,)) if index % 2 else UOp(Ops.ADD, dtypes.float, (value, value))
        return value

    return Job(
        fresh,
        lambda root: graph_rewrite(root, _DOUBLE),
        lambda root: sum(1 for node in root.toposort() if node.op is Ops.MUL),
    )

"""Attention in the forms in which it is written out, and what only looks like it; both sides are run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regraft.ir import Call, Function, iter_bindings
from regraft.transform import FuseAttention, op_counts, report
from tests.transform.harness import checked, counts, program, run

# All sizes differ, so that an exchanged axis shows.
B, H, SQ, SK, D, DV = 2, 3, 5, 7, 4, 6
INF = float("inf")
LOWEST = float(np.finfo(np.float32).min)


def _tensors(dtype: str = "float32", **shapes: tuple[int, ...]) -> str:
    return ", ".join(f'{name}: R.Tensor({shape}, "{dtype}")' for name, shape in shapes.items())


HEADS_FIRST = _tensors(q=(B, H, SQ, D), k=(B, H, SK, D), v=(B, H, SK, DV))


def _body(scores: str, *, weights: str = "w = R.nn.softmax(s, axis=-1)") -> str:
    """Attention over (batch, heads, sequence, size) whose scores ``s`` come from ``scores``."""
    return f"kt = R.permute_dims(k, axes=[0, 1, 3, 2])\n{scores}\n{weights}\no = R.matmul(w, v)"


def _attention(function: Function) -> Call:
    """The one call of attention, where nothing of the written-out form is left."""
    found = [b.value for b in iter_bindings(function) if isinstance(b.value, Call)]
    left = counts(function)
    assert left["matmul"] == left["nn.softmax"] == 0
    [call] = [c for c in found if getattr(c.op, "name", "").startswith("relax.nn.attention")]
    return call


def _fused(before: Function, one: Any = None, inputs: Any = None) -> Call:
    return _attention(checked(one or FuseAttention(), before, inputs=inputs))


def _left(before: Function, why: str) -> None:
    """The pass leaves ``before``, and gives a reason with these words."""
    assert FuseAttention()(before) is before
    assert why in str(report(FuseAttention(), before))


def _masked(mask: np.ndarray[Any, Any], step: str, *, signature: str = HEADS_FIRST) -> Function:
    """Attention with a constant ``mask``, named ``m`` in ``step``."""
    import regraft as rx
    from regraft.ir import ExprMutator, Var

    kind = "bool" if mask.dtype == bool else str(mask.dtype)
    made = program(f"{signature}, m: R.Tensor({mask.shape}, '{kind}')", _body(f"p = R.matmul(q, kt)\n{step}"), "o")
    [parameter] = [param for param in made.params if param.name_hint == "m"]
    mutator = ExprMutator()
    mutator.remap(parameter, rx.const(mask))
    body = mutator.mutate(made.body)
    params: list[Var] = [param for param in made.params if param is not parameter]
    return Function(params, body, made.ret_ty, attrs=dict(made.attrs))

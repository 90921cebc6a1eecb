"""`python -m bench.model_counts`: the tables of docs/models.md, made from the models themselves."""

from __future__ import annotations

from collections import Counter

import torch

from bench import full_width
from bench.models import ATTENTION_MODELS, Model
from bench.table import Table
from regraft.ir import Call, IRModule, TupleType, iter_bindings
from regraft.transform import (
    CanonicalizeBindings,
    CombineParallelMatmul,
    EliminateCommonSubexpr,
    FoldConstant,
    FuseAttention,
    ReorderPermuteDimsAfterConcat,
    Sequential,
    op_counts,
)

PREPARE = Sequential([CanonicalizeBindings(), EliminateCommonSubexpr()], name="prepare")
COMBINE = Sequential([CombineParallelMatmul(), ReorderPermuteDimsAfterConcat()], name="combine")


def matmuls(program: IRModule) -> int:
    """The number of matmuls, without those inside ``nn.attention``."""
    return op_counts(program)["relax.matmul"]


def attentions(program: IRModule) -> int:
    """The number of calls of attention."""
    counts = op_counts(program)
    return counts["relax.nn.attention"] + counts["relax.nn.attention_bias"]


def groups(program: IRModule) -> Counter[int]:
    """The split products of linear layers, by the number of parts. Some models have such products from the start."""
    found: Counter[int] = Counter()
    values = {binding.var: binding.value for binding in iter_bindings(program["main"])}
    for var, value in values.items():
        if not isinstance(value, Call) or getattr(value.op, "name", "") != "relax.split":
            continue
        source = values.get(value.args[0])  # type: ignore[call-overload]
        while isinstance(source, Call) and getattr(source.op, "name", "") == "relax.add":
            source = values.get(source.args[0])  # type: ignore[call-overload]
        if isinstance(source, Call) and getattr(source.op, "name", "") == "relax.matmul":
            assert isinstance(var.ty, TupleType)
            found[len(var.ty.fields)] += 1
    return found


def _groups_text(found: Counter[int]) -> str:
    return ", ".join(f"{count} of {size}" if count > 1 else f"one of {size}" for size, count in sorted(found.items()))


def combined() -> Table:
    """The matmuls before and after `CombineParallelMatmul`, at the published widths."""
    rows: list[tuple[str | int | float, ...]] = []
    for name in full_width.PUBLISHED:
        model = full_width.make(name)
        before = PREPARE(model.program(weights=True))
        after = COMBINE(before)
        found = _groups_text(groups(after) - groups(before))
        millions = full_width.weights(model.module) / 1e6
        rows.append((name, f"{millions:,.1f} M", matmuls(before), matmuls(after), found))
    return Table(
        "Parallel matmuls",
        ("model", "weights", "matmuls", "combined", "groups"),
        tuple(rows),
        "The models have full depth and full width, with weights on PyTorch's meta device. The table counts the "
        "matmuls of linear layers, without those inside attention, before and after `CombineParallelMatmul`. "
        "`EliminateCommonSubexpr` runs first: each block of a UNet applies the same activation to the time embedding, "
        "and the layers after it share their left side only when these are one.",
    )


def fused() -> Table:
    """The attentions that are written out, before and after `FuseAttention`."""
    rows: list[tuple[str | int | float, ...]] = []
    for name, build in ATTENTION_MODELS.items():
        torch.manual_seed(0)
        model: Model = build("eager")
        model.module.eval()
        before = FoldConstant()(model.program())
        after = FuseAttention()(before)
        before_count, after_count = op_counts(before), op_counts(after)
        moved = "relax.permute_dims"
        rows.append(
            (name, before_count["relax.nn.softmax"], attentions(after), before_count[moved], after_count[moved])
        )
    return Table(
        "Attention",
        ("model, attention written out", "softmax before", "fused", "permute_dims before", "after"),
        tuple(rows),
        'The models have full depth and narrow layers, and are exported with `attn_implementation="eager"`. '
        "`FoldConstant` computes their masks first; this needs models with numbers.",
    )


def main() -> None:
    """Print the page."""
    print("# Models\n")
    print("This page shows what the passes find in published models. `python -m bench.model_counts` generates it from")
    print("the models, built from their published configurations.\n")
    print("\n".join(table.markdown() for table in (combined(), fused())), end="")


if __name__ == "__main__":
    main()

"""Sharding rules find the plan that one would write by hand, and the rewrites that know the mesh keep traffic down."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch import nn

import regraft as rx
import regraft.op as R
from bench import models
from regraft.ir import Constant, IRModule, SymVar, TensorData, Tuple
from regraft.ir.op import Call
from regraft.passes import (
    CombineParallelMatmul,
    DataParallel,
    FullySharded,
    Gradient,
    JoinSummedProducts,
    Megatron,
    PassError,
    ShardingPlan,
    ShardingRule,
    SplitProjections,
    op_counts,
)
from regraft.passes.sharding import COLUMN, ROW
from regraft.pattern import is_op, wildcard
from regraft.run import Mesh, build
from tests.kit import assert_close
from tests.run.programs import program, tensor

COLUMNS, ROWS = ("model", None), (None, "model")


def _gpt2() -> models.Model:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=64, n_positions=64, n_embd=48, n_layer=12, n_head=12, use_cache=False, bos_token_id=0, eos_token_id=0
    )
    return models.Model(GPT2Model(config), (torch.arange(22).reshape(2, 11),))


@cache
def _program(make: Callable[[], models.Model], *, weights: bool = False) -> IRModule:
    model = make()
    model.module.eval()
    return model.program(weights=weights)


BERT = {
    **{f"encoder.layer.#.attention.self.{name}.weight": COLUMNS for name in ("query", "key", "value")},
    **{f"encoder.layer.#.attention.self.{name}.bias": ("model",) for name in ("query", "key", "value")},
    "encoder.layer.#.attention.output.dense.weight": ROWS,
    "encoder.layer.#.intermediate.dense.weight": COLUMNS,
    "encoder.layer.#.intermediate.dense.bias": ("model",),
    "encoder.layer.#.output.dense.weight": ROWS,
}
VIT = {
    **{f"layers.#.attention.{name}_proj.weight": COLUMNS for name in "qkv"},
    **{f"layers.#.attention.{name}_proj.bias": ("model",) for name in "qkv"},
    "layers.#.attention.o_proj.weight": ROWS,
    "layers.#.mlp.fc1.weight": COLUMNS,
    "layers.#.mlp.fc1.bias": ("model",),
    "layers.#.mlp.fc2.weight": ROWS,
}
LLAMA = {
    **{f"layers.#.self_attn.{name}_proj.weight": COLUMNS for name in "qkv"},
    "layers.#.self_attn.o_proj.weight": ROWS,
    "layers.#.mlp.gate_proj.weight": COLUMNS,
    "layers.#.mlp.up_proj.weight": COLUMNS,
    "layers.#.mlp.down_proj.weight": ROWS,
}
T5 = {
    **{f"encoder.block.#.layer.0.SelfAttention.{name}.weight": COLUMNS for name in "qkv"},
    "encoder.block.#.layer.0.SelfAttention.o.weight": ROWS,
    "encoder.block.#.layer.1.DenseReluDense.wi.weight": COLUMNS,
    "encoder.block.#.layer.1.DenseReluDense.wo.weight": ROWS,
}
# GPT-2 keeps its matrices the other way round.
GPT2 = {
    **{f"h.#.attn.c_attn.weight.{name}": ROWS for name in ("query", "key", "value")},
    **{f"h.#.attn.c_attn.bias.{name}": ("model",) for name in ("query", "key", "value")},
    "h.#.attn.c_proj.weight": COLUMNS,
    "h.#.mlp.c_fc.weight": ROWS,
    "h.#.mlp.c_fc.bias": ("model",),
    "h.#.mlp.c_proj.weight": COLUMNS,
}


@pytest.mark.parametrize(
    ("make", "layers", "expected"),
    [
        (models.bert, 12, BERT),
        (_gpt2, 12, GPT2),
        (models.llama, 16, LLAMA),
        (models.t5_encoder, 12, T5),
        (models.vit, 12, VIT),
    ],
    ids=["BERT", "GPT-2", "Llama", "T5", "ViT"],
)
def test_the_plan_of_a_model_is_the_one_written_by_hand(
    make: Callable[[], models.Model], layers: int, expected: dict[str, Any]
) -> None:
    plan = Megatron(axis="model", mesh=Mesh(data=4, model=2))(SplitProjections()(_program(make)))
    by_hand = {name.replace("#", str(i)): spec for name, spec in expected.items() for i in range(layers)}
    assert dict(plan) == by_hand
    assert plan.reasons == []


def test_an_eager_model_has_the_same_plan() -> None:
    plans = [Megatron()(_program(make)) for make in (models.bert, partial(models.bert, "eager"))]
    assert plans[0] == plans[1]
    assert len(plans[0]) == 120


# --- pairs or nothing


def weight(name: str, *shape: int) -> Constant:
    return Constant(TensorData(np.random.default_rng(len(name)).normal(size=shape).astype("float32"), name))


def mlp(hidden: int = 12, *, more: Any = None, depth: int = 2) -> IRModule:
    """Matrices of 8 × hidden, hidden × 8 and so on, with activations between them."""
    x = tensor("x", (SymVar("n"), 8))

    def write(bb: Any, x: Any) -> Any:
        for index in range(depth):
            sizes = (8, hidden) if index % 2 == 0 else (hidden, 8)
            x = bb.emit(R.add(R.matmul(x, weight(f"w{index}", *sizes)), weight(f"b{index}", sizes[1])))
            x = bb.emit(R.nn.relu(x)) if index + 1 < depth else x
        return x

    return program([x], write)


def test_a_pair_is_cut_by_columns_and_by_rows() -> None:
    assert Megatron()(mlp()) == {"w0": (None, "model"), "b0": ("model",), "w1": ("model", None)}


def test_a_pair_that_does_not_divide_is_left_whole_with_the_reason() -> None:
    plan = Megatron(mesh=Mesh(model=8))(mlp())
    assert plan == {}
    assert plan.reasons == ["feed-forward: w0 has 12 columns, which do not divide over 8"]
    assert str(plan) == "left whole: feed-forward: w0 has 12 columns, which do not divide over 8"


def test_a_matrix_between_two_others_is_cut_in_one_way() -> None:
    plan = Megatron()(mlp(depth=3))
    assert plan == {"w0": (None, "model"), "b0": ("model",), "w1": ("model", None)}
    assert "feed-forward: w1 is cut in another way already" in plan.reasons


def test_heads_that_do_not_divide_are_left_whole_with_the_reason() -> None:
    plan = Megatron(mesh={"model": 8})(_program(models.bert))
    assert "attention: query, key and value are not cut: 12 heads over 8" in plan.reasons
    assert all("attention" not in name for name in plan)
    assert len(plan) == 36


def test_explain_says_why_a_rule_left_a_place() -> None:
    own = next(rule for rule in Megatron.rules() if rule.name == "feed-forward")
    rule = own.rule(mlp()["main"], ShardingPlan(), "model", 8)
    assert "w0 has 12 columns, which do not divide over 8" in str(rx.explain(rule, mlp()["main"]))


def test_a_rule_of_ones_own_is_a_pattern_and_roles() -> None:
    table, head = wildcard(), wildcard()
    looked_up = is_op("relax.take")(table, wildcard())
    rule = ShardingRule(is_op("relax.matmul")(looked_up, head), {table: COLUMN, head: ROW}, "embedding and head")
    ids = tensor("ids", (4,), "int64")
    module = program([ids], lambda bb, i: R.matmul(R.take(weight("table", 16, 8), i, axis=0), weight("head", 8, 4)))
    assert rule.plan(module, "model", 4) == {"table": (None, "model"), "head": ("model", None)}


def test_a_mesh_without_the_axis_is_refused() -> None:
    for plan in (Megatron("tensor", Mesh(model=2)), DataParallel("tensor", Mesh(model=2)), FullySharded("t", {"m": 2})):
        with pytest.raises(PassError, match="the mesh has no axis 't"):
            plan(mlp())


def test_inputs_are_cut_along_the_batch_and_weights_are_no_inputs() -> None:
    with_weights = _program(models.bert, weights=True)
    assert DataParallel(mesh={"data": 2})(with_weights) == {"input_ids": ("data",), "attention_mask": ("data",)}
    plan = DataParallel(mesh={"data": 3})(with_weights)
    assert plan == {}
    assert plan.reasons == [f"{name}: a batch of 2 does not divide over 3" for name in ("input_ids", "attention_mask")]


def test_every_large_weight_is_cut_along_its_longest_axis_that_divides() -> None:
    x = tensor("x", (2, 30))
    module = program(
        [x],
        lambda bb, x: R.matmul(R.matmul(R.matmul(x, weight("a", 30, 64)), weight("b", 64, 15)), weight("c", 15, 99)),
    )
    plan = FullySharded(mesh={"data": 8}, least=600)(module)
    assert plan == {"a": (None, "data"), "b": ("data", None)}
    assert plan.reasons == ["c: no axis of (15, 99) divides over 8"]


def test_plans_are_put_together() -> None:
    both = FullySharded(mesh={"data": 4}, least=1)(mlp()) | Megatron()(mlp())
    assert both["w0"] == (None, "model")
    assert both["b1"] == ("data",)


# --- rewrites that know the mesh

MESH = Mesh(data=1, model=8)
LAYERS, BATCH, TOKENS, WIDTH = 2, 8, 16, 64


def _random(module: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.1)
    return module.eval()


def _bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=64, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=8, intermediate_size=4 * WIDTH
    )
    return _random(BertModel(config, add_pooling_layer=False))


@cache
def _ids() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randint(1, 64, (BATCH, TOKENS))  # 0 is padding, whose row PyTorch gives no gradient


def _run(module: IRModule) -> tuple[Counter[str], int, np.ndarray]:
    exe = build(module, target="xla", mesh=MESH, shardings=Megatron(mesh=MESH)(module))
    report = exe.report()["main"]
    found = exe["main"](_ids().numpy())
    return report.counts, report.collective_bytes, np.asarray(found[0] if isinstance(found, tuple) else found)


ACTIVATION = BATCH * TOKENS * WIDTH * 4


def test_stacked_matmuls_make_no_more_traffic_than_single_ones_and_joined_ones_do() -> None:
    model = _bert()
    module = rx.from_torch(model, (_ids(),))
    plan = Megatron(mesh=MESH)(module)
    found: dict[str, Any] = {}
    for layout in ("concat", "stack"):
        combined = CombineParallelMatmul(layout=layout)(module)  # type: ignore[arg-type]
        assert op_counts(combined)["relax.matmul"] == op_counts(module)["relax.matmul"] - 3 * LAYERS - (
            -LAYERS if layout == "concat" else 0
        )
        exe = build(combined, target="xla", mesh=MESH, shardings=plan)
        found[layout] = exe.report()["main"]
        expected = model(_ids()).last_hidden_state.detach().numpy()
        assert_close(np.asarray(exe["main"](_ids().numpy())), expected)
    assert found["stack"].counts == {"all-reduce": 2 * LAYERS}
    assert found["stack"].collective_bytes == 2 * LAYERS * ACTIVATION
    assert found["concat"].counts.total() > 4 * found["stack"].counts.total()


def test_a_fused_projection_that_is_split_by_heads_makes_two_all_reduces_a_layer() -> None:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=64, n_positions=TOKENS, n_embd=WIDTH, n_layer=LAYERS, n_head=8, use_cache=False, bos_token_id=0
    )
    model = _random(GPT2Model(config))
    module = SplitProjections()(rx.from_torch(model, (_ids(),)))
    assert op_counts(module)["relax.split"] == 0
    counts, size, value = _run(module)
    assert (counts, size) == ({"all-reduce": 2 * LAYERS}, 2 * LAYERS * ACTIVATION)
    assert_close(value, model(_ids()).last_hidden_state.detach().numpy())


def _fused_models() -> dict[str, tuple[nn.Module, int, int]]:
    """Models of two layers, the weights of a layer that are cut, and its all-reduces, of two activations in all."""
    import transformers as t

    same = {"vocab_size": 64, "hidden_size": WIDTH, "use_cache": False}
    neox = t.GPTNeoXConfig(**same, num_hidden_layers=LAYERS, num_attention_heads=8, intermediate_size=128)
    bloom = t.BloomConfig(**same, n_layer=LAYERS, n_head=8)
    phi = t.Phi3Config(
        **same,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=8,
        intermediate_size=128,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    clip = t.CLIPTextConfig(
        vocab_size=64,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        intermediate_size=128,
        max_position_embeddings=TOKENS,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return {
        # attention and the feed-forward part stand side by side, and are reduced together
        "GPT-NeoX": (t.GPTNeoXModel(neox), 10, 1),
        "BLOOM": (t.BloomModel(bloom), 10, 2),
        "Phi-3": (t.Phi3Model(phi), 7, 2),
        "CLIP": (t.CLIPTextModel(clip), 10, 2),
    }


@pytest.mark.parametrize("name", ["GPT-NeoX", "BLOOM", "Phi-3", "CLIP"])
def test_projections_that_take_turns_by_head_are_cut_by_heads(name: str) -> None:
    model, weights, reduced = _fused_models()[name]
    model = _random(model)
    module = SplitProjections()(rx.from_torch(model, (_ids(),)))
    plan = Megatron(mesh=MESH)(module)
    assert (len(plan), plan.reasons) == (weights * LAYERS, [])
    counts, size, value = _run(module)
    assert (counts, size) == ({"all-reduce": reduced * LAYERS}, 2 * LAYERS * ACTIVATION)
    assert_close(value, model(_ids())[0].detach().numpy())


class _Loss(nn.Module):
    """A random projection of what the encoder gives, so that no gradient is near zero."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = _bert()
        self.register_buffer("projection", torch.randn(BATCH, TOKENS, WIDTH))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return (self.bert(ids).last_hidden_state * self.projection).sum()


def test_products_joined_before_they_are_reduced_save_a_third_of_the_traffic_of_training() -> None:
    model = _Loss()
    module = rx.from_torch(model, (_ids(),), keep_params_as_input=True)
    main = module["main"]
    buffers = {"projection", "position_ids", "token_type_ids"}
    weights = [p for p in main.params[1:] if not any(name in p.name_hint for name in buffers)]
    plain = Gradient("main", require_grads=weights)(module)
    joined = JoinSummedProducts()(plain)
    plan = Megatron(mesh=MESH)(module)
    state = dict(model.state_dict(keep_vars=True))
    loss = model(_ids())
    loss.backward()
    for program_, activations in ((plain, 12), (joined, 8)):
        exe = build(program_, target="xla", mesh=MESH, shardings=plan)
        report = exe.report("main_adjoint")["main_adjoint"]
        assert report.counts == {"all-reduce": 4 * LAYERS}
        assert report.collective_bytes == activations * ACTIVATION
    batch = build(joined, target="xla", mesh=Mesh(data=8), inputs={"ids": ("data",)})
    assert batch.report("main_adjoint")["main_adjoint"].counts == {"all-reduce": 1}
    values = [_by_hint(p.name_hint, state, model) for p in main.params[1:]]
    found, gradients = exe["main_adjoint"](_ids().numpy(), *values)
    assert abs(float(found) - loss.item()) < 1e-4 * abs(loss.item()) + 1e-3
    for parameter, gradient in zip(weights, gradients, strict=True):
        tensor_ = next(p for n, p in state.items() if _hint(n) in parameter.name_hint)
        expected = np.zeros(1) if tensor_.grad is None else tensor_.grad.numpy()
        scale = max(np.abs(expected).max(), 1e-2)
        assert np.abs(np.asarray(gradient) - expected).max() / scale < 2e-4, parameter.name_hint


def _hint(name: str) -> str:
    return re.sub(r"\W", "_", name).lower()


def _by_hint(hint: str, state: dict[str, Any], model: nn.Module) -> np.ndarray:
    pools = {**dict(model.named_buffers()), **state}
    return next(value.detach().numpy() for name, value in pools.items() if hint.endswith(_hint(name)))


# --- by value, on one device


def test_a_split_product_gives_what_the_whole_gave_and_its_parts_have_names() -> None:
    fused, bias = weight("c_attn.weight", 6, 12), weight("c_attn.bias", 12)
    x = tensor("x", (2, 3, 6))

    def write(bb: Any, x: Any) -> Any:
        flat = bb.emit(R.add(R.matmul(R.reshape(x, (6, 6)), fused), bias))
        parts = bb.emit(R.split(R.reshape(flat, (2, 3, 12)), [4, 10], axis=2))
        return Tuple([parts[0], parts[1], parts[2]])

    module = program([x], write)
    after = SplitProjections()(module)
    data = np.random.default_rng(0).normal(size=(2, 3, 6)).astype("float32")
    for one, other in zip(
        build(module, target="numpy")["main"](data), build(after, target="numpy")["main"](data), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    names = {c.data.name: c.data.shape for c in rx.ir.walk(after["main"]) if isinstance(c, Constant) and c.data.name}
    assert names["c_attn.weight.key"] == (6, 6)
    assert names["c_attn.bias.value"] == (2,)


def _taken(apart: Any, sizes: tuple[int, ...], axis: int, ends: list[int], axes: list[int] | None) -> Any:
    """A writer of a product whose columns, seen as ``sizes``, are taken apart along ``axis`` of these."""

    def write(bb: Any, x: Any) -> Any:
        flat = bb.emit(R.add(R.matmul(x, R.permute_dims(weight("qkv", 24, 6))), weight("qkv.b", 24)))
        seen = bb.emit(R.reshape(flat, (2, 3, *sizes)))
        seen = seen if axes is None else bb.emit(R.permute_dims(seen, axes))
        at = 2 + axis if axes is None else axes.index(2 + axis)
        return apart(bb, seen, at, ends)

    return write


def _by_split(bb: Any, seen: Any, axis: int, ends: list[int]) -> Any:
    parts = bb.emit(R.split(seen, ends[1:-1], axis=axis))
    return Tuple([parts[i] for i in range(len(ends) - 1)])


def _by_slices(bb: Any, seen: Any, axis: int, ends: list[int]) -> Any:
    size = ends[-1]
    bounds = [(start - size, end) for start, end in itertools.pairwise(ends)]
    return Tuple([bb.emit(R.strided_slice(seen, [axis], [start], [end])) for start, end in bounds])


def _by_places(bb: Any, seen: Any, axis: int, ends: list[int]) -> Any:
    places = [rx.const(place - ends[-1], "int64") for place in range(ends[-1])]
    return Tuple([bb.emit(R.take(seen, place, axis=axis)) for place in places])


@pytest.mark.parametrize("apart", [_by_split, _by_slices, _by_places], ids=["split", "slices", "places"])
@pytest.mark.parametrize(
    ("sizes", "axis", "ends", "axes"),
    [
        ((3, 4, 2), 0, [0, 1, 2, 3], None),
        ((4, 3, 2), 1, [0, 1, 2, 3], None),
        ((4, 3, 2), 1, [0, 1, 2, 3], [0, 2, 1, 3, 4]),
        ((4, 6), 1, [0, 2, 4, 6], [0, 2, 1, 3]),
        ((2, 4, 3), 1, [0, 2, 3, 4], None),
        ((24,), 0, [0, 12, 18, 24], None),
    ],
    ids=["side by side", "by head", "by head, moved", "in each head", "grouped", "flat"],
)
def test_parts_of_a_product_are_taken_apart_wherever_its_columns_have_them(
    apart: Any, sizes: tuple[int, ...], axis: int, ends: list[int], axes: list[int] | None
) -> None:
    module = program([tensor("x", (2, 3, 6))], _taken(apart, sizes, axis, ends, axes))
    after = SplitProjections()(module)
    weights = [c.data for c in rx.ir.walk(after["main"]) if isinstance(c, Constant) and c.data.name]
    assert all(data.size < 24 * 6 for data in weights)
    assert {str(data.name) for data in weights if data.name} >= {"qkv.query", "qkv.key"} or len(weights) > 6
    x = np.random.default_rng(0).normal(size=(2, 3, 6)).astype("float32")
    found, expected = [build(m, target="numpy")["main"](x) for m in (after, module)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    random = np.random.default_rng(1)
    for data in weights:
        bounds = [sorted(random.integers(0, size + 1, 2).tolist()) for size in data.shape]
        region = tuple([slice(*pair) for pair in bounds])
        np.testing.assert_array_equal(data.part(region), data.read()[region])


def test_a_product_whose_heads_are_taken_apart_or_that_is_used_whole_stays() -> None:
    turned = program([tensor("x", (2, 3, 6))], _taken(_by_slices, (4, 6), 1, [0, 2, 6], None))

    def used(bb: Any, x: Any) -> Any:
        product = bb.emit(R.matmul(x, weight("qkv", 6, 12)))
        return Tuple([bb.emit(R.strided_slice(product, [2], [0], [4])), bb.emit(R.nn.relu(product))])

    whole = program([tensor("x", (2, 3, 6))], used)
    for module in (turned, whole):
        assert SplitProjections()(module) is module


def test_a_product_split_along_another_axis_or_of_parameters_stays() -> None:
    x, w = tensor("x", (4, 6)), tensor("w", (6, 12))
    rows = program([x], lambda bb, x: R.split(R.matmul(x, weight("w", 6, 12)), 2, axis=0))
    computed = program([x, w], lambda bb, x, w: R.split(R.matmul(x, w), 2, axis=1))
    assert SplitProjections()(rows) is rows
    assert SplitProjections()(computed) is computed


def _summed(*, keep: bool = False, other: int = 6) -> IRModule:
    a, b, c = tensor("a", (2, 5, 4)), tensor("b", (2, 5, 4)), tensor("c", (2, 5, other))

    def write(bb: Any, a: Any, b: Any, c: Any) -> Any:
        first = bb.emit(R.matmul(a, weight("A", 4, 3)))
        second = bb.emit(R.matmul(b, weight("BB", 4, 3)))
        third = bb.emit(R.matmul(c, weight("CCC", other, 3)))
        total = bb.emit(R.add(R.add(first, third), R.add(second, rx.const(np.ones(3, "float32")))))
        return Tuple([total, first]) if keep else total

    return program([a, b, c], write)


@pytest.mark.parametrize(("keep", "other", "left"), [(False, 6, 1), (False, 4, 1), (True, 6, 3), (True, 4, 1)])
def test_products_of_one_shape_in_a_sum_are_joined_unless_they_are_read(keep: bool, other: int, left: int) -> None:
    module = _summed(keep=keep, other=other)
    after = JoinSummedProducts()(module)
    assert op_counts(after)["relax.matmul"] == left if other == 6 else op_counts(after)["relax.matmul"] <= left
    random = np.random.default_rng(1)
    data = [random.normal(size=(2, 5, size)).astype("float32") for size in (4, 4, other)]
    before, now = build(module, target="numpy")["main"](*data), build(after, target="numpy")["main"](*data)
    for one, two in zip(*[v if isinstance(v, tuple) else (v,) for v in (before, now)], strict=True):
        assert_close(one, two)


def test_stacked_matmuls_keep_biases_activations_and_values() -> None:
    x = tensor("x", (2, 3, 6))

    def write(bb: Any, x: Any) -> Any:
        parts: list[Call] = []
        for index in range(3):
            product = R.matmul(x, weight(f"w{'x' * index}", 6, 4))
            parts.append(bb.emit(R.nn.relu(R.add(product, weight(f"b{'y' * index}", 4)))))
        return Tuple(parts)

    module = program([x], write)
    after = CombineParallelMatmul(layout="stack")(module)
    counts = op_counts(after)
    assert (counts["relax.einsum"], counts["relax.nn.relu"], counts["relax.matmul"]) == (1, 1, 0)
    data = np.random.default_rng(2).normal(size=(2, 3, 6)).astype("float32")
    for one, two in zip(
        build(module, target="numpy")["main"](data), build(after, target="numpy")["main"](data), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-6)


def test_matrices_of_different_widths_are_not_stacked() -> None:
    x = tensor("x", (2, 6))
    module = program(
        [x], lambda bb, x: Tuple([bb.emit(R.matmul(x, weight("w", 6, 4))), bb.emit(R.matmul(x, weight("ww", 6, 5)))])
    )
    assert CombineParallelMatmul(layout="stack")(module) is module

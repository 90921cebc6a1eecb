"""Programs over a mesh of eight simulated devices: the same values for every legal sharding, and no traffic but what
the field's formulas say."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

import regraft as rx
from regraft.ir import Constant, IRModule, TensorData, TensorType, walk
from regraft.ir.mutator import ExprMutator
from regraft.run import build
from regraft.run.mesh import Mesh
from regraft.testing import random_inputs, random_module
from tests.op.harness import assert_close, to_numpy
from tests.op.on_xla import OPTIONS as FAST

MESHES = [Mesh(data=1, model=1), Mesh(data=8, model=1), Mesh(data=2, model=4)]


class _Naming(ExprMutator):
    """Gives every constant a name, so that it is an argument that can be sharded."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def visit_constant_(self, constant: Constant) -> Constant:
        self.count += 1
        return Constant(TensorData(constant.data.numpy(), f"weight{self.count}"))


def _random_spec(random: Random, shape: tuple[int, ...], mesh: Mesh) -> tuple[Any, ...]:
    """A legal spec: each mesh axis at most once, and only where it divides."""
    cut: list[list[str]] = [[] for _ in shape]
    for axis in random.sample(list(mesh), len(mesh)):
        fits = [i for i, size in enumerate(shape) if size % (mesh[axis] * mesh.ways(tuple(cut[i]))) == 0]
        if fits and random.random() < 0.8:
            cut[random.choice(fits)].append(axis)
    return tuple([tuple(axes) or None for axes in cut])


@pytest.mark.parametrize("seed", range(12))
def test_values_do_not_depend_on_how_tensors_are_laid(seed: int) -> None:
    module = random_module(seed, size=18, helpers=seed % 2)
    main = module["main"]
    named = module.with_function("main", _Naming().mutate(main))
    random, mesh = Random(seed), [*MESHES, Mesh(data=2, model=2)][seed % 4]
    shapes = {c.data.name: c.data.shape for c in walk(named["main"]) if isinstance(c, Constant)}
    shardings = {name: _random_spec(random, shape, mesh) for name, shape in shapes.items() if name is not None}
    arguments = random_inputs(main, seed)
    inputs = {
        p.name_hint: _random_spec(random, np.shape(argument), mesh)
        for p, argument in zip(main.params, arguments, strict=True)
        if isinstance(p.ty, TensorType)
    }
    expected = build(module, target="numpy")["main"](*arguments)
    exe = build(named, target="xla", mesh=mesh, shardings=shardings, inputs=inputs, compiler_options=FAST)
    assert_close(to_numpy(exe["main"](*arguments)), expected, 1e-4)


# --- an encoder, cut as by hand

WIDTH, HEADS, BATCH, TOKENS = 64, 8, 8, 16


@cache
def bert(layers: int) -> tuple[IRModule, np.ndarray, np.ndarray]:
    """A program, ids, and what PyTorch gives for them."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(layers)
    config = BertConfig(
        vocab_size=64,
        hidden_size=WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=TOKENS,
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    ids = torch.randint(0, 64, (BATCH, TOKENS))
    expected = model(ids).last_hidden_state.detach().numpy()
    return rx.from_torch(model, (ids,)), ids.numpy(), expected


BY_HAND = {
    **{f"*self.{name}.weight": ("model", None) for name in ("query", "key", "value")},
    **{f"*self.{name}.bias": ("model",) for name in ("query", "key", "value")},
    "*attention.output.dense.weight": (None, "model"),
    "*intermediate.dense.weight": ("model", None),
    "*intermediate.dense.bias": ("model",),
    "*.output.dense.weight": (None, "model"),
}


@pytest.mark.parametrize("mesh", [*MESHES, Mesh(data=1, model=8)], ids=str)
def test_an_encoder_has_two_all_reduces_a_layer_of_the_bytes_of_the_formula(mesh: Mesh) -> None:
    layers = 2
    module, ids, expected = bert(layers)
    exe = build(module, target="xla", mesh=mesh, shardings=BY_HAND, inputs={"input_ids": ("data",)})
    report = exe.report()["main"]
    np.testing.assert_allclose(np.asarray(exe["main"](ids)), expected, rtol=0, atol=2e-6)
    assert exe.compilations == {"main": 1}
    if mesh["model"] == 1:
        assert not report.collectives
        return
    assert report.counts == {"all-reduce": 2 * layers}
    assert report.collective_bytes == 2 * layers * (BATCH // mesh["data"]) * TOKENS * WIDTH * 4
    assert [c.layer for c in report.collectives][:2] == [
        "encoder.layer.0.attention.output.dense",
        "encoder.layer.0.output.dense",
    ]


def test_traffic_grows_with_the_layers_and_temporaries_do_not() -> None:
    mesh = Mesh(data=1, model=8)
    reports = [build(bert(n)[0], target="xla", mesh=mesh, shardings=BY_HAND).report()["main"] for n in (1, 2, 4)]
    assert [report.counts["all-reduce"] for report in reports] == [2, 4, 8]
    assert [report.collective_bytes // reports[0].collective_bytes for report in reports] == [1, 2, 4]
    assert reports[2].temporaries <= reports[1].temporaries * 1.02


def test_the_sharded_memory_halves_when_the_axis_doubles() -> None:
    module, _, _ = bert(2)
    found = [
        build(module, target="xla", mesh=Mesh(model=ways), shardings=BY_HAND).report()["main"].weights
        for ways in (1, 2, 4)
    ]
    assert found[0] - found[1] == 2 * (found[1] - found[2]) > 0


def test_a_plan_compiles_without_reading_a_weight() -> None:
    def load() -> np.ndarray:
        raise AssertionError("the weight was read")

    size = 65_536
    weight = Constant(TensorData.lazy((size, size), "float32", load, "large.weight"))
    x = rx.Var("x", TensorType((8, size), "float32"))
    module = IRModule.from_expr(rx.Function([x], rx.op.matmul(x, weight)))
    exe = build(module, target="xla", mesh=Mesh(model=8), shardings={"large.weight": (None, "model")})
    report = exe.report()
    assert report["main"].weights == size * size * 4 // 8
    assert "weights 2.00 GiB" in str(report)


def test_each_device_holds_its_part_of_a_weight_only() -> None:
    weight = Constant(TensorData(np.arange(32, dtype=np.float32).reshape(8, 4), "w"))
    x = rx.Var("x", TensorType((8, 4), "float32"))
    module = IRModule.from_expr(rx.Function([x], rx.op.add(x, weight)))
    exe = build(module, target="xla", mesh=Mesh(model=8), shardings={"w": ("model",)}, inputs={"x": ("model",)})
    found = exe["main"](np.zeros((8, 4), "float32"))
    np.testing.assert_array_equal(np.asarray(found), np.arange(32).reshape(8, 4))
    assert {shard.data.shape for shard in found.addressable_shards} == {(1, 4)}

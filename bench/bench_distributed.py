"""Programs over eight simulated devices: collectives, bytes and memory against the formulas, and the time to compile.

Simulated devices show values, collectives and memory, but not speed. So the only times here are compile times, in
processor time of this process (`time.process_time`).
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")  # read when JAX is first used

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

import regraft as rx
from bench.table import Table
from regraft.ir import IRModule, TensorType
from regraft.passes import CombineParallelMatmul, FullySharded, Megatron, SplitProjections
from regraft.run import Mesh, build
from regraft.training import Adam, MSELoss, SetupTrainer, Trainer

WIDTH, HEADS, BATCH, TOKENS = 128, 8, 8, 32
DEPTHS: Final = (1, 2, 4, 8, 16, 48)
PEER: Final = Path(__file__).resolve().parent / "peers" / "dtensor_encoder.py"


def encoder(layers: int) -> tuple[torch.nn.Module, torch.Tensor]:
    """BERT with ``layers`` layers and random weights, and ids for it."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=128,
        hidden_size=WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=TOKENS,
    )
    model = BertModel(config, add_pooling_layer=False)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    return model.eval(), torch.randint(0, 128, (BATCH, TOKENS))


def program(layers: int) -> IRModule:
    """The encoder as a program."""
    model, ids = encoder(layers)
    return rx.from_torch(model, (ids,))


def depth() -> Table:
    """The all-reduces, bytes, temporaries and compile time by depth, on 1 × 8 devices."""
    mesh = Mesh(data=1, model=8)
    rows: list[tuple[str | int | float, ...]] = []
    for layers in DEPTHS:
        module = program(layers)
        plan = Megatron(mesh=mesh)(module)
        start = time.process_time()
        report = build(module, target="xla", mesh=mesh, shardings=plan).report()["main"]
        seconds = time.process_time() - start
        formula = 2 * layers * BATCH * TOKENS * WIDTH * 4
        assert report.counts == {"all-reduce": 2 * layers}
        assert report.collective_bytes == formula
        rows.append(
            (layers, report.counts["all-reduce"], report.collective_bytes, formula, report.temporaries, seconds)
        )
    per_layer = [float(row[-1]) / int(row[0]) for row in rows]
    assert per_layer[-1] < 2 * per_layer[-2] + 0.1, "compiling grows faster than the layers"
    return Table(
        "BERT by depth, tensor parallel over 8",
        ("layers", "all-reduces", "bytes", "formula", "temporaries, bytes", "trace and compile, CPU s"),
        tuple(rows),
        f"Width {WIDTH}, batch {BATCH}, {TOKENS} tokens. Formula: 2 × layers × batch × tokens × width × 4 bytes.",
    )


def axis() -> Table:
    """The memory on a device, by the length of the model axis."""
    module = program(2)
    rows: list[tuple[str | int | float, ...]] = []
    for ways in (1, 2, 4, 8):
        mesh = Mesh(model=ways)
        report = build(module, target="xla", mesh=mesh, shardings=Megatron(mesh=mesh)(module)).report()["main"]
        rows.append((ways, report.weights, report.temporaries, report.counts["all-reduce"]))
    parts = [int(a[1]) - int(b[1]) for a, b in itertools.pairwise(rows)]
    assert parts[0] == 2 * parts[1] == 4 * parts[2], "the cut part does not halve"
    return Table(
        "BERT, 2 layers, by devices",
        ("devices", "weights on each, bytes", "temporaries, bytes", "all-reduces"),
        tuple(rows),
        "What is cut halves with each doubling; embeddings and norms are whole.",
    )


def rewrites() -> Table:
    """The collectives after rewrites that join matmuls."""
    mesh = Mesh(data=1, model=8)
    module = program(2)
    plan = Megatron(mesh=mesh)(module)
    rows: list[tuple[str | int | float, ...]] = []
    for name, made in (
        ("as it is", module),
        ("CombineParallelMatmul()", CombineParallelMatmul()(module)),
        ('CombineParallelMatmul(layout="stack")', CombineParallelMatmul(layout="stack")(module)),
    ):
        report = build(made, target="xla", mesh=mesh, shardings=plan).report()["main"]
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.counts.items()))
        rows.append((name, report.counts.total(), kinds, report.collective_bytes))
    return Table("Joined matmuls, BERT, 2 layers, over 8", ("program", "collectives", "kinds", "bytes"), tuple(rows))


def plans() -> Table:
    """The number of weights that Megatron finds in models of transformers."""
    from bench import models

    rows: list[tuple[str | int | float, ...]] = []
    for name, make, layers, each in (
        ("BERT", models.bert, 12, 10),
        ("Llama", models.llama, 16, 7),
        ("T5 encoder", models.t5_encoder, 12, 6),
        ("ViT", models.vit, 12, 10),
    ):
        model = make()
        model.module.eval()
        module = SplitProjections()(model.program())
        start = time.process_time()
        found = len(Megatron()(module))
        assert found == layers * each
        rows.append((name, layers, found, layers * each, time.process_time() - start))
    return Table("Weights that Megatron finds", ("model", "layers", "found", "expected", "CPU s"), tuple(rows))


def training() -> Table:
    """The losses, traffic and memory of a training step, by plan."""
    model = rx.parse(
        """
@I.ir_module
class Model:
    I.module_attrs({"param_num": 2, "state_num": 0})

    @R.function
    def backbone(
        x: R.Tensor((32, 256), "float32"), up: R.Tensor((256, 1024), "float32"), down: R.Tensor((1024, 256), "float32")
    ):
        with R.dataflow():
            y = R.matmul(R.nn.gelu(R.matmul(x, up)), down)
            R.output(y)
        return y
"""
    )
    kind = TensorType((32, 256), "float32")
    module = SetupTrainer(MSELoss(), Adam(0.001), [kind, kind])(model)
    data = np.random.default_rng(0).normal(size=(2, 32, 256)).astype("float32")
    pair = Megatron()(model)
    fully = FullySharded(mesh={"data": 8})(module) | {"up": (None, "data"), "down": ("data", None)}
    batch = {"x": ("data",), "targets": ("data",)}
    rows: list[tuple[str | int | float, ...]] = []
    expected: list[float] = []
    for name, options in (
        ("one device", {}),
        ("data parallel 8 × 1", {"mesh": Mesh(data=8), "inputs": batch}),
        ("tensor parallel 1 × 8", {"mesh": Mesh(model=8), "shardings": pair}),
        ("both, 2 × 4", {"mesh": Mesh(data=2, model=4), "shardings": pair, "inputs": batch}),
        ("fully sharded, 8", {"mesh": Mesh(data=8), "shardings": fully, "inputs": batch}),
    ):
        trainer = Trainer(module, target="xla", **options)  # type: ignore[arg-type]
        trainer.xavier_uniform_init_params(seed=0)
        losses = [float(trainer.update(data[0], data[1])) for _ in range(5)]
        expected = expected or losses
        report: Any = trainer.vm.report("train_step")["train_step"]  # type: ignore[union-attr]
        difference = max(abs(a - b) for a, b in zip(losses, expected, strict=True))
        assert difference < 1e-5
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.counts.items())) or "none"
        rows.append((name, f"{difference:.1e}", kinds, report.collective_bytes, report.arguments))
    gradients = 2 * 256 * 1024 * 4
    return Table(
        "A step of training, two layers, Adam",
        ("plan", "loss difference", "collectives", "bytes", "arguments on each, bytes"),
        tuple(rows),
        f"The gradients are {gradients:,} bytes.",
    )


def peer() -> Table:
    """The collectives of PyTorch's DTensor for the same encoder, over two processes."""
    finished = subprocess.run(
        [sys.executable, str(PEER)], capture_output=True, text=True, timeout=300, check=False, env=os.environ.copy()
    )
    lines = [line for line in finished.stdout.splitlines() if line.startswith("{")]
    theirs = json.loads(lines[-1]) if lines else {"all-reduce": f"does not run: {finished.stderr.strip()[-80:]}"}
    module = program(2)
    mesh = Mesh(model=2)
    ours = build(module, target="xla", mesh=mesh, shardings=Megatron(mesh=mesh)(module)).report()["main"]
    return Table(
        "Beside PyTorch DTensor: BERT, 2 layers, tensor parallel over 2",
        ("library", "all-reduces in a run", "how the plan is given"),
        (
            ("regraft on XLA", ours.counts["all-reduce"], "found by patterns"),
            ("torch.distributed.tensor.parallel", theirs["all-reduce"], "written by hand, module by module"),
        ),
        "DTensor in two processes over gloo, on the model of transformers itself, in eager mode.",
    )


def run() -> list[Table]:
    """All tables; raises if a count or size differs from its formula."""
    return [depth(), axis(), rewrites(), plans(), training(), peer()]

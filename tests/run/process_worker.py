"""One of several processes, started by `test_processes`: ``process_worker.py NUMBER COUNT PORT MODE PATHS``."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import regraft as rx
from regraft.ir import Constant, Function, IRModule, TensorData, TensorType, Var
from regraft.run import BuildError, Mesh, build
from regraft.run.xla_processes import barrier, connect
from regraft.training.saved_state import save_state
from tests.run.bytes_read import bytes_read

ROWS = 12
NUMBER, COUNT, PORT, MODE = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
connect(f"127.0.0.1:{PORT}", COUNT, NUMBER, heartbeat_seconds=5)


def weight(name: str, *shape: int) -> Constant:
    return Constant(TensorData(np.random.default_rng(len(name)).normal(size=shape).astype("float32"), name))


def program(*, twice: bool = False) -> IRModule:
    x = Var("x", TensorType((ROWS, 64), "float32"))
    up, down = weight("up", 64, 32), weight("down.", 32, 64)
    value = rx.op.matmul(rx.op.nn.relu(rx.op.matmul(x, up)), down)
    return IRModule.from_expr(Function([x], rx.op.add(value, value) if twice else value))


X = np.random.default_rng(0).normal(size=(ROWS, 64)).astype("float32")
OPTIONS = {
    "mesh": Mesh(data=COUNT, model=2),
    "shardings": {"up": (None, "model"), "down.": ("model", None)},
    "inputs": {"x": ("data",)},
}


def same_program() -> None:
    exe = build(program(), target="xla", **OPTIONS)
    found = exe["main"](X)
    expected = build(program(), target="numpy")["main"](X)
    for shard in found.addressable_shards:
        np.testing.assert_allclose(np.asarray(shard.data), expected[shard.index], rtol=1e-5, atol=1e-5)
    print("all-reduces", exe.report()["main"].counts["all-reduce"])
    regions: list[tuple[slice, ...]] = []

    def read(region: tuple[slice, ...]) -> np.ndarray:
        regions.append(region)
        return X[region]

    placed = exe.place("x", X.shape, read)
    print("rows read", sorted({row for region in regions for row in range(*region[0].indices(ROWS))}))
    save_state(sys.argv[5], 1, {"result": found, "x": placed}, keep=1)
    print("files", len(list(Path(sys.argv[5]).glob("step-*/*.safetensors"))))


def different_programs() -> None:
    try:
        build(program(twice=NUMBER == 1), target="xla", **OPTIONS)["main"](X)
    except BuildError as error:
        print(error)
    barrier("the end")


def one_dies(number: int) -> None:
    """One process is killed while the others do something else."""
    build(program(), target="xla", **OPTIONS)["main"](X)
    if number == NUMBER:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    print("still here")


def one_fails() -> None:
    """The first process fails while the others wait for it inside a compiled program."""
    exe = build(program(), target="xla", **OPTIONS | {"mesh": Mesh(model=COUNT, data=2)})
    exe["main"](X)
    if NUMBER == 0:
        raise ValueError("the batch is empty")
    exe["main"](X).block_until_ready()
    print("still here")


def own_slices() -> None:
    """Each process reads its part of a weight that lies in a file."""
    from regraft.ir.visitor import walk
    from regraft.model import open_model

    for file in sys.argv[5:]:
        module = open_model(file).module
        data = max([e.data for e in walk(module["main"]) if isinstance(e, Constant)], key=lambda data: data.nbytes)
        assert data.name is not None
        exe = build(module, target="xla", mesh=Mesh(model=2 * COUNT), shardings={data.name: ("model", None)})
        x = np.ones((2, max(data.shape)), "float32")
        path = Path(file + ".data" if file.endswith(".onnx") else file)
        print(f"{path.suffix} read {bytes_read(path, lambda exe=exe, x=x: exe['main'](x)) / data.nbytes:.3f}")


{
    "same": same_program,
    "slices": own_slices,
    "different": different_programs,
    "first dies": lambda: one_dies(0),
    "last dies": lambda: one_dies(COUNT - 1),
    "fails": one_fails,
}[MODE]()

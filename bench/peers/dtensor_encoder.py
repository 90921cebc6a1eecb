"""BERT over two processes with PyTorch's DTensor, as in its tutorial; prints the collectives as JSON."""

from __future__ import annotations

import json
import os
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))


def one(rank: int, port: int, queue: Any) -> None:
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    from bench.bench_distributed import encoder

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": "2"}
    dist.init_process_group("gloo")
    model, ids = encoder(2)
    expected = model(ids).last_hidden_state
    mesh = init_device_mesh("cpu", (2,))
    for layer in model.encoder.layer:
        own = {f"attention.self.{name}": ColwiseParallel() for name in ("query", "key", "value")}
        own |= {"attention.output.dense": RowwiseParallel(), "output.dense": RowwiseParallel()}
        parallelize_module(layer, mesh, {**own, "intermediate.dense": ColwiseParallel()})
    with torch.no_grad(), CommDebugMode() as counted:
        found = model(ids).last_hidden_state
    assert torch.allclose(found, expected, atol=1e-4)
    if rank == 0:
        queue.put({"all-reduce": sum(counted.get_comm_counts().values())})
    dist.destroy_process_group()


if __name__ == "__main__":
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    context = get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=one, args=(rank, number, results)) for rank in range(2)]
    for process in processes:
        process.start()
    print(json.dumps(results.get(timeout=200)), flush=True)
    for process in processes:
        process.join(60)
        process.kill()

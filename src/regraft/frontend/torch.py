"""PyTorch models with Relax's names: exported programs, traced models, and the graphs of `torch.compile`."""

from __future__ import annotations

from .dynamo import dynamo_capture_subgraphs, relax_dynamo
from .torch_importers import from_exported_program, from_fx

__all__ = ["dynamo_capture_subgraphs", "from_exported_program", "from_fx", "relax_dynamo"]

"""Relax's names for PyTorch models: exported programs, traced models, and the graphs of `torch.compile`."""

from __future__ import annotations

from ..formats.torch.custom import Conversion
from .dynamo import dynamo_capture_subgraphs, relax_dynamo
from .torch_importers import from_exported_program, from_fx

ExportedProgramImporter = Conversion
TorchFXImporter = Conversion
"""The second argument of a conversion in ``custom_convert_map``, under Relax's two names for it."""

__all__ = [
    "ExportedProgramImporter",
    "TorchFXImporter",
    "dynamo_capture_subgraphs",
    "from_exported_program",
    "from_fx",
    "relax_dynamo",
]

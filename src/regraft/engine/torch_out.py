"""PyTorch models out: `to_torch` gives a module, `save_torch` a file. Importing this needs no PyTorch; calling does."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..convert.torch import require_torch
from ..ir.module import IRModule
from ..ir.program import Function

if TYPE_CHECKING:
    from .torch_module import RegraftModule


def to_torch(module: IRModule | Function, name: str = "main", *, share_memory: bool = False) -> RegraftModule:
    """``module`` as a `torch.nn.Module` whose ``forward`` runs the function ``name``.

    Named constants are parameters and buffers under their dotted names (nested modules are made for the dots), as
    they were in the model that `from_torch` read; those of other sources that have no name are buffers. ``forward``
    takes and gives what that model's did, nested the same way; for other programs it takes the function's parameters,
    in order or by name. Tensors that no binding reads are not in it. ``share_memory`` leaves the numbers where they
    are, for use without training: an optimizer would write into the program's constants.

    Raises `BuildError` for what PyTorch cannot hold. Cost: linear in the program, and one copy of the weights.
    """
    require_torch()
    from .torch_module import as_torch_module

    whole = IRModule.from_expr(module) if isinstance(module, Function) else module
    return as_torch_module(whole, name, share_memory=share_memory)


def save_torch(module: IRModule | RegraftModule, path: str | Path) -> None:
    """Write a program as a ``.pt2`` file, which `torch.export.load` reads; whole, or not at all.

    Symbolic sizes stay dynamic. Raises `ConvertError` when `torch.export` declines the program.
    """
    require_torch()
    import torch

    from .torch_module import RegraftModule, export_torch

    target = Path(path)
    program = export_torch(module if isinstance(module, RegraftModule) else to_torch(module, share_memory=True))
    # In memory first: where a disk is full, PyTorch's own writing of files ends the process.
    content = io.BytesIO()
    torch.export.save(program, content)
    handle, name = tempfile.mkstemp(suffix=target.suffix, prefix=f".{target.stem}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.getbuffer())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)

"""PyTorch models out: `to_torch` gives a module, `save_torch` a file. Importing this needs no PyTorch; calling does."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias, cast

from ..formats.torch import require_torch
from ..ir.module import IRModule
from ..ir.program import Function
from ..ir.whole_file import whole_file
from ..op.settle import settled

if TYPE_CHECKING:
    from .torch_module import RegraftModule

ExampleCall: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments and the keyword arguments of a call."""


def to_torch(module: IRModule | Function, name: str = "main", *, share_memory: bool = False) -> RegraftModule:
    """``module`` as a `torch.nn.Module` whose ``forward`` runs the function ``name``, or the function that it is.

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
    [name] = whole if isinstance(module, Function) else [name]
    return as_torch_module(settled(whole), name, share_memory=share_memory)


def save_torch(module: IRModule | RegraftModule, path: str | Path, *, examples: ExampleCall | None = None) -> None:
    """Write a program as a ``.pt2`` file, which `torch.export.load` reads; whole, or not at all.

    Symbolic sizes stay dynamic. Results that are named tuples of PyTorch's own are plain tuples there: a file cannot
    hold their types. ``examples``: the example call that the file is to hold; without it, one of zeros. Raises
    `ConvertError` when `torch.export` declines the program. Memory: that of the program and of the largest weight.
    """
    require_torch()
    import torch

    from ..formats.errors import ConvertError
    from ..formats.quiet import quiet
    from .torch_export import export_torch
    from .torch_module import RegraftModule

    made = module if isinstance(module, RegraftModule) else to_torch(module, share_memory=True)
    with made.plain_results():
        program = export_torch(made, examples)
    if not program.graph_signature.output_specs:
        raise ConvertError("the program gives nothing, and PyTorch saves no such program")
    with whole_file(Path(path)) as file:
        stream = _PatientStream(file)
        try:
            with quiet():
                torch.export.save(program, cast("Any", stream))
        finally:
            stream.raise_failure()


class _PatientStream(io.RawIOBase):
    """A file for PyTorch to write to. PyTorch ends the process where writing fails: it is told that all is well, and
    the failure is raised afterwards.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file: Final = file
        self._failure: BaseException | None = None

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True  # what PyTorch warns of otherwise

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def write(self, content: Any) -> int:
        if self._failure is None:
            try:
                self._file.write(content)
            except BaseException as failure:  # Ctrl-C too
                self._failure = failure
        return memoryview(content).nbytes

    def raise_failure(self) -> None:
        """Raise what went wrong, if anything did."""
        if self._failure is not None:
            raise self._failure

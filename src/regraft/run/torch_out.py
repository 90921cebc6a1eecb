"""Export to PyTorch: `to_torch` returns a module, `save_torch` writes a file. PyTorch is imported at the first call."""

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
"""The positional and the keyword arguments of a call."""


def to_torch(module: IRModule | Function, name: str = "main", *, share_memory: bool = False) -> RegraftModule:
    """``module`` as a `torch.nn.Module` whose ``forward`` runs the function ``name``, or ``module`` if that is a
    function.

    Named constants are parameters and buffers under their dotted names, as in the model that `from_torch` read; nested
    modules are made for the dots. Unnamed constants of other sources are buffers. ``forward`` takes and returns the
    same arguments and results as that model, with the same nesting; for other programs it takes the function's
    parameters, in order or by name. Tensors that no binding reads are left out. ``share_memory`` does not copy the
    weights. It is for use without training, because an optimizer would write into the program's constants.

    Raises `BuildError` for a program that PyTorch cannot express. Cost: linear in the program, and one copy of the
    weights.
    """
    require_torch()
    from .torch_module import as_torch_module

    whole = IRModule.from_expr(module) if isinstance(module, Function) else module
    [name] = whole if isinstance(module, Function) else [name]
    return as_torch_module(settled(whole), name, share_memory=share_memory)


def save_torch(module: IRModule | RegraftModule, path: str | Path, *, examples: ExampleCall | None = None) -> None:
    """Write a program as a ``.pt2`` file, which `torch.export.load` reads; completely, or not at all.

    Symbolic sizes stay dynamic. Results that are PyTorch's own named tuples become plain tuples, because a file cannot
    hold their types. ``examples`` is the example call for the file; by default one with zeros. Raises `ConvertError` if
    `torch.export` rejects the program. Memory: that of the program and of the largest weight.
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
    """A file for PyTorch to write to. PyTorch ends the process if writing fails, so a failure is hidden from it and
    raised afterwards.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file: Final = file
        self._failure: BaseException | None = None

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True  # prevents a warning from PyTorch

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def write(self, content: Any) -> int:
        if self._failure is None:
            try:
                self._file.write(content)
            except BaseException as failure:  # also Ctrl-C
                self._failure = failure
        return memoryview(content).nbytes

    def raise_failure(self) -> None:
        """Raise the failure, if there was one."""
        if self._failure is not None:
            raise self._failure

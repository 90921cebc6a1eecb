"""Reading PyTorch models: `from_torch` reads what `torch.export` returns. Importing this package needs no PyTorch.

Knows the language and the vocabulary. The way back, `regraft.to_torch`, is in the torch engine.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from ...ir.errors import MissingDependencyError

if TYPE_CHECKING:
    from .importer import from_torch as from_torch

__all__ = ["from_torch", "require_torch"]

READ_AGAIN: Final = "regraft.run.read_again_after"
"""The attribute of a decoder with the number of tokens after which a text must be read again from its beginning."""


def require_torch() -> None:
    """Raise `MissingDependencyError` unless PyTorch is installed."""
    if find_spec("torch") is None:
        raise MissingDependencyError("PyTorch models need the package torch: pip install 'regraft[torch]'")


def __getattr__(name: str) -> Any:
    if name != "from_torch":
        raise AttributeError(f"regraft.formats.torch has no {name!r}")
    require_torch()
    from .importer import from_torch

    return from_torch

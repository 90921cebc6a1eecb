"""The constants of a program as parameters and buffers of a PyTorch module, under the names of the source model."""

from __future__ import annotations

import itertools
from typing import Final

import torch

from ..convert.torch.signature import Kind, Signature
from ..ir.tensor_data import TensorData
from .torch_arrays import as_constant


class State:
    """Puts constants into a module as parameters and buffers, each once."""

    def __init__(self, root: torch.nn.Module, signature: Signature, share_memory: bool) -> None:
        self._root: Final = root
        self._kinds: Final[dict[str, Kind]] = dict(signature.tensors)
        self._aliases: Final = signature.aliases
        self._is_foreign: Final = not signature.outputs
        self._share: Final = share_memory
        self._count: Final = itertools.count()
        self.names: Final[set[str]] = set()
        """The names of what was placed, further names of tied tensors included."""

    def place(self, data: TensorData) -> tuple[torch.nn.Module, str]:
        """Register a constant; where it is from now on."""
        tensor = as_constant(data, None)
        if not self._share:
            tensor = tensor.clone()
        name = data.name if data.name is not None else f"constant_{next(self._count)}"
        self.names.add(name)
        owner, attribute = self._owner(name)
        kind = self._kind(data)
        if kind in ("parameter", "frozen"):
            owner.register_parameter(attribute, torch.nn.Parameter(tensor, requires_grad=kind == "parameter"))
        else:
            owner.register_buffer(attribute, tensor, persistent=kind == "buffer")
        return owner, attribute

    def _kind(self, data: TensorData) -> Kind:
        if data.name is None:
            # Single numbers are part of the code; whole tensors are what rewriting made of weights.
            return "buffer" if data.shape else "constant"
        known = self._kinds.get(data.name)
        if known is not None:
            return known
        return "parameter" if self._is_foreign and _is_trainable(data) else "buffer"

    def _owner(self, name: str) -> tuple[torch.nn.Module, str]:
        """The nested module that a dotted name belongs to, made where it does not exist, and the last part."""
        *path, attribute = [part or "_" for part in name.split(".")]
        owner = self._root
        for part in path:
            children = dict(owner.named_children())
            if part not in children:
                part = _free(owner, part)
                children[part] = torch.nn.Module()
                owner.add_module(part, children[part])
            owner = children[part]
        return owner, _free(owner, attribute)

    def add_aliases(self) -> None:
        """Give tied tensors their further names."""
        for alias, name in self._aliases:
            *path, last = name.split(".")
            try:
                tensor = getattr(self._root.get_submodule(".".join(path)), last)
            except AttributeError:
                continue  # the program no longer reads it
            self.names.add(alias)
            owner, attribute = self._owner(alias)
            if isinstance(tensor, torch.nn.Parameter):
                owner.register_parameter(attribute, tensor)
            else:
                owner.register_buffer(attribute, tensor)


def _free(owner: torch.nn.Module, name: str) -> str:
    """``name``, or one like it that the module has no use for."""
    while hasattr(owner, name):
        name = f"{name}_"
    return name


def _is_trainable(data: TensorData) -> bool:
    return "float" in data.dtype and bool(data.shape)

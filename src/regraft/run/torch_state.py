"""The constants of a program as parameters and buffers of a PyTorch module, under the names of the source model."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import torch

from ..formats.torch.signature import CallingConvention, StateKind, part_names
from ..ir.tensor_data import TensorData
from .torch_arrays import as_constant

_TORCH: Final[Any] = torch
OWN_CONSTANT: Final = re.compile(r"constant_\d+")
"""The names of constants without a name in the source model."""


@contextmanager
def repeatable(module: Any) -> Generator[None]:
    """Inside the ``with`` block, each run of a module draws the same random numbers, and may change the module's
    buffers.

    Afterwards the buffers have their old values, and the random generator has its old state.
    """
    buffers: list[torch.Tensor] = list(module.buffers()) if isinstance(module, torch.nn.Module) else []
    before = [buffer.detach().clone() for buffer in buffers]
    try:
        with _TORCH.random.fork_rng(devices=range(torch.cuda.device_count())):
            _TORCH.manual_seed(0)
            yield
    finally:
        with torch.no_grad():
            for buffer, kept in zip(buffers, before, strict=True):
                buffer.copy_(kept)


class StatePlace(NamedTuple):
    """The place of a constant: an attribute of a module, or one part of the complex numbers there."""

    owner: torch.nn.Module
    attribute: str
    part: Callable[[torch.Tensor], torch.Tensor] | None = None

    def value(self) -> torch.Tensor:
        """The tensor at this place."""
        held = getattr(self.owner, self.attribute)
        return held if self.part is None else self.part(held)


class ChangedBuffer(NamedTuple):
    """A buffer that the program changes, and the positions of its new value among the results: one, or both parts."""

    name: str
    places: tuple[int, ...]

    def new(self, results: Sequence[Any]) -> Any:
        """The new value of the buffer."""
        values = [results[place] for place in self.places]
        return values[0] if len(values) == 1 else torch.complex(*values)


class ModuleState:
    """Puts constants into a module as parameters and buffers, each once."""

    def __init__(
        self, root: torch.nn.Module, signature: CallingConvention, statistics: Iterable[str], share_memory: bool
    ) -> None:
        """``statistics`` are the names of constants that get no gradient, whatever the program's source is."""
        self._root: Final = root
        self._kinds: Final[dict[str, StateKind]] = {**dict.fromkeys(statistics, "buffer"), **dict(signature.tensors)}
        self._aliases: Final = signature.aliases
        self._complexes: Final = signature.complexes
        self._mutated: Final = signature.mutated
        self._is_foreign: Final = not signature.outputs
        self._share: Final = share_memory
        self._count: Final = itertools.count()
        self._parts: Final[dict[str, StatePlace]] = {}
        self.names: Final[set[str]] = set()
        """The names of registered tensors, including further names of tied tensors."""

    def place_all(self, taken: Sequence[TensorData]) -> list[StatePlace]:
        """Register constants; returns the place of each."""
        self._place_complex({data.name: data for data in taken if data.name is not None})
        return [self._parts.get(data.name or "") or self._place(data) for data in taken]

    def _place_complex(self, taken: Mapping[str, TensorData]) -> None:
        """Register the complex tensors that the program changes, or of which it reads both parts."""
        for name in self._complexes:
            labels = part_names(name)
            held = {label: as_constant(taken[label], None) for label in labels if label in taken}
            if len(held) == len(labels) or (held and labels[0] in self._mutated):
                empty = torch.zeros_like(next(iter(held.values())))  # a part that is only written
                real, imag = [held.get(label, empty) for label in labels]
                self._place_parts(name, torch.complex(real, imag))

    def _place_parts(self, name: str, whole: torch.Tensor) -> None:
        """Register a complex tensor; its parts are views of it."""
        real, imag = part_names(name)
        owner, attribute = self._register(name, whole, self._kinds[real])
        self._parts.update(
            {real: StatePlace(owner, attribute, torch.real), imag: StatePlace(owner, attribute, torch.imag)}
        )

    def _place(self, data: TensorData) -> StatePlace:
        """Register a constant; returns its place."""
        tensor = as_constant(data, None)
        if not self._share:
            tensor = tensor.clone()
        name = data.name or _joined(data.sources) or f"constant_{next(self._count)}"
        return StatePlace(*self._register(name, tensor, self._kind(data)))

    def _register(self, name: str, tensor: torch.Tensor, kind: StateKind) -> tuple[torch.nn.Module, str]:
        self.names.add(name)
        owner, attribute = self._owner(name)
        if kind in ("parameter", "frozen"):
            owner.register_parameter(attribute, torch.nn.Parameter(tensor, requires_grad=kind == "parameter"))
        else:
            owner.register_buffer(attribute, tensor, persistent=kind == "buffer")
        return owner, attribute

    def place_written(self, examples: Mapping[str, torch.Tensor]) -> None:
        """Register the buffers that the program writes and never reads, as zeros like the examples."""
        for name in self._complexes:
            real, imag = part_names(name)
            if real in examples and real not in self._parts:
                self._place_parts(name, torch.complex(examples[real], examples[imag]))
        for name, example in examples.items():
            if name not in self.names and name not in self._parts:
                self._register(name, example, "buffer" if self._kinds.get(name) == "buffer" else "temporary")

    def changed(self) -> list[ChangedBuffer]:
        """The buffers that the program changes."""
        places = {name: place for place, name in enumerate(self._mutated)}
        found: list[ChangedBuffer] = []
        for name in self._complexes:
            real, imag = part_names(name)
            if real in places and real in self._parts:
                found.append(ChangedBuffer(name, (places.pop(real), places.pop(imag))))
        return [*found, *[ChangedBuffer(name, (place,)) for name, place in places.items()]]

    def _kind(self, data: TensorData) -> StateKind:
        if data.name is None:
            return self._kind_made(data)
        known = self._kinds.get(data.name)
        if known is not None:
            return known
        return "parameter" if self._is_foreign and _is_trainable(data) else "buffer"

    def _kind_made(self, data: TensorData) -> StateKind:
        """The kind of a constant made by rewriting: trainable if one of the tensors that it was made from is."""
        if "float" in data.dtype and data.sources:
            other: StateKind = "parameter" if self._is_foreign else "buffer"
            kinds = [self._kinds.get(source, other) for source in data.sources]
            trained: tuple[StateKind, ...] = ("parameter", "frozen")
            for kind in trained:
                if kind in kinds:
                    return kind
        # Constants made from no tensor of the model are part of its code, and so are single numbers.
        return "buffer" if data.sources or (self._is_foreign and data.shape) else "constant"

    def _owner(self, name: str) -> tuple[torch.nn.Module, str]:
        """The nested module of a dotted name, made if it does not exist, and the last part of the name."""
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
        """Register the further names of tied tensors."""
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


_MOST_JOINED: Final = 60
"""The limit of characters of the joined parts; above it, the name has their number instead."""


def _joined(sources: Sequence[str]) -> str | None:
    """A name for a constant made from tensors: ``a.query_key.weight`` for ``a.query.weight`` and ``a.key.weight``.

    Names of tensors of different kinds are not joined; the first one gives ``a.weight_folded``.
    """
    parts = [source.split(".") for source in sources]
    if not parts:
        return None
    if len(parts) == 1 or len({names[-1] for names in parts}) > 1 or min(map(len, parts)) < 2:
        return f"{sources[0]}_folded"
    before = _shared(parts)
    behind = _shared([names[before:][::-1] for names in parts])
    middles = ["_".join(names[before : len(names) - behind]) for names in parts]
    middle = "_".join(middles)
    if len(middle) > _MOST_JOINED:
        middle = f"{middles[0]}_and_{len(middles) - 1}_more"
    last = parts[0]
    return ".".join([*last[:before], middle, *last[len(last) - behind :]])


def _shared(parts: Sequence[Sequence[str]]) -> int:
    """The length of the common prefix of all names, without the last part of any."""
    columns = zip(*[names[:-1] for names in parts], strict=False)
    return len(list(itertools.takewhile(lambda names: len(set(names)) == 1, columns)))


def _free(owner: torch.nn.Module, name: str) -> str:
    """``name``, with underscores appended until the module has no such attribute."""
    while hasattr(owner, name):
        name = f"{name}_"
    return name


def _is_trainable(data: TensorData) -> bool:
    return "float" in data.dtype and bool(data.shape)

"""A decoder on ONNX Runtime, step by step, with its cache in memory that is bound to the session.

If the program has room for a longest text, the cache is the same memory before and after a step, and a step writes its
own rows there. Otherwise each step returns a longer cache, which the next step takes without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..ir.module import IRModule
from .errors import ExecutionError
from .onnxruntime_engine import as_ort_value, open_function

Kept: TypeAlias = tuple[int, int, tuple[int, ...]]
"""The positions of a cache or state among parameters and among results, and its shape before the first token."""


class Roles(NamedTuple):
    """The parameters and results of a decoder, by their positions.

    ``caches`` are keys and values, whose shapes have no rows, or room for a longest text; then several results may
    belong to one parameter. ``states`` have the same size for any text, and begin as zeros. ``total`` is an int32
    scalar, the number of tokens after a step. ``mask`` holds ones for all tokens and ``positions`` the positions of the
    new ones, both (texts, tokens) of int64. ``texts`` is the number of texts that are read together, all of one length.
    ``at_once`` is the number of tokens that each step takes, None for any number. ``vocabulary`` is the number of
    tokens with logits, None if unknown. ``read_again_after`` is the text length beyond which the whole text is read
    again. Other roles are None if there is no such parameter.
    """

    ids: int
    logits: int
    caches: tuple[Kept, ...]
    states: tuple[Kept, ...] = ()
    total: int | None = None
    mask: int | None = None
    positions: int | None = None
    texts: int = 1
    at_once: int | None = None
    vocabulary: int | None = None
    read_again_after: int | None = None

    @property
    def longest(self) -> int | None:
        """The number of tokens that there is room for; None if the cache grows."""
        return (self.caches[0][2][2] or None) if self.caches else None


class _Bound(NamedTuple):
    """A step whose inputs and results stay bound, to be run again: its arrays are written and read in place."""

    binding: Any
    ids: np.ndarray
    total: np.ndarray | None
    logits: np.ndarray


class DecoderSession:
    """A decoder and the text that it has read so far, or several texts that it reads together."""

    def __init__(self, module: IRModule, name: str, roles: Roles, *, threads: int | None = None) -> None:
        self._session: Final = open_function(module, name, threads=threads)
        self.roles: Final = roles
        """The parameters and results that it binds."""
        self._kept: dict[int, Any] = {}
        self._bound: _Bound | None = None
        self._text: np.ndarray = np.zeros((roles.texts, 0), np.int64)
        self.length = 0
        """The number of tokens that it has read."""
        self.reset()

    def reset(self) -> None:
        """Forget the text."""
        self.length, self._text, self._bound = 0, self._text[:, :0], None
        kept = (*self.roles.caches, *self.roles.states)
        self._kept = {place: as_ort_value(np.zeros(shape, np.float32), _FLOAT) for place, _, shape in kept}

    def fill(self, kept: Sequence[np.ndarray], length: int) -> None:
        """Continue from values computed elsewhere: keys and values, (texts, heads, ``length``, size), and states, in
        the order of their parameters.
        """
        self.reset()
        self.length = length
        rooms = {place for place, _, _ in self.roles.caches}
        for (place, before), array in zip(sorted(self._kept.items()), kept, strict=True):
            filled = array
            if place in rooms:
                filled = np.zeros((*before.shape()[:2], max(before.shape()[2], length), before.shape()[3]), np.float32)
                filled[:, :, :length] = array
            self._kept[place] = as_ort_value(filled, _FLOAT)

    def step(self, ids: Sequence[int]) -> np.ndarray:
        """The logits (tokens, vocabulary) after each of ``ids``, which continue the text of a decoder of one text.

        Raises `ExecutionError` if there is no room for them, and for ONNX Runtime's errors. Cost: that of the program.
        """
        return self.step_together([ids])[0]

    def step_together(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        """The logits (texts, tokens, vocabulary) after each of ``ids``, as many for each text; raises as `step`."""
        given = np.array(ids, np.int64)
        roles, count = self.roles, given.shape[1]
        total = self.length + count
        if given.shape[0] != roles.texts:
            raise ExecutionError(f"the decoder reads {roles.texts} texts together, and {given.shape[0]} are given")
        if self._is_read_again(count):
            text = np.concatenate([self._text, given], axis=1)
            self.reset()
            return self.step_together(text.tolist())[:, -count:]
        if roles.at_once is not None and count != roles.at_once:
            return self._steps(given, roles.at_once)
        if roles.longest is not None and total > roles.longest:
            raise ExecutionError(f"there is room for {roles.longest} tokens, not for {total}")
        logits = self._logits_after(given, total)
        self.length = total
        self._text = np.concatenate([self._text, given], axis=1)
        return logits

    def _logits_after(self, given: np.ndarray, total: int) -> np.ndarray:
        """The logits of one run, after which there are ``total`` tokens."""
        if self._bound is not None and self._bound.ids.shape == given.shape:
            return self._run_again(self._bound, given, total)
        roles, binding, arrays = self.roles, self._session.io_binding(), self._inputs(given, total)
        inputs, outputs = self._session.inputs, self._session.outputs
        for place, array in arrays.items():
            name, kind = inputs[place]
            binding.bind_ortvalue_input(name, as_ort_value(array, kind))
        for place, one in self._kept.items():
            binding.bind_ortvalue_input(inputs[place][0], one)
        # A cache with room is written in place; other results get new memory, which the next step reads.
        others = roles.states if roles.longest is not None else (*roles.caches, *roles.states)
        for result in (roles.logits, *[result for _, result, _ in others]):
            binding.bind_output(outputs[result][0], "cpu")
        for place, result, _ in roles.caches if roles.longest is not None else ():
            binding.bind_ortvalue_output(outputs[result][0], self._kept[place])
        self._run(binding, total)
        logits, *after = binding.get_outputs()
        self._kept |= {place: one for (place, _, _), one in zip(others, after, strict=False)}
        found = logits.numpy()
        is_usual = given.shape[1] == (roles.at_once or 1)  # A prompt is read once, and its logits are many.
        if is_usual and not others and arrays.keys() <= {roles.ids, roles.total}:
            place = None if roles.total is None else arrays[roles.total]
            self._bound = _Bound(binding, given, place, np.empty_like(found))
            binding.bind_ortvalue_output(outputs[roles.logits][0], as_ort_value(self._bound.logits, _FLOAT))
        return found

    def _inputs(self, given: np.ndarray, total: int) -> dict[int, np.ndarray]:
        """The inputs of a step other than caches and states, by the positions of their parameters."""
        roles, arrays = self.roles, {self.roles.ids: given}
        if roles.total is not None:
            arrays[roles.total] = np.asarray(total, np.int32)
        if roles.mask is not None:
            arrays[roles.mask] = np.ones((roles.texts, total), np.int64)
        if roles.positions is not None:
            arrays[roles.positions] = np.tile(np.arange(self.length, total, dtype=np.int64), (roles.texts, 1))
        return arrays

    def _run_again(self, bound: _Bound, given: np.ndarray, total: int) -> np.ndarray:
        """The logits of a step like the last one, with the same bound inputs and results."""
        bound.ids[...] = given
        if bound.total is not None:
            bound.total[...] = total
        self._run(bound.binding, total)
        return bound.logits.copy()

    def _run(self, binding: Any, total: int) -> None:
        try:
            self._session.run_bound(binding)
        except ExecutionError as error:
            hint = "a model cannot continue beyond the end of its table of positions"
            raise ExecutionError(f"tokens {self.length} to {total - 1} of the text: {error} ({hint})") from error

    def _is_read_again(self, count: int) -> bool:
        """True if ``count`` more tokens extend the text, all of which is known, beyond ``read_again_after``."""
        last = self.roles.read_again_after
        is_known = self._text.shape[1] == self.length > 0 and self.roles.at_once is None
        return last is not None and is_known and self.length <= last < self.length + count

    def _steps(self, ids: np.ndarray, at_once: int) -> np.ndarray:
        count = ids.shape[1]
        if count % at_once:
            raise ExecutionError(
                f"the decoder takes {at_once} tokens in each step, and {count} are given; export it with "
                "a dynamic number of tokens"
            )
        parts = [ids[:, first : first + at_once].tolist() for first in range(0, count, at_once)]
        return np.concatenate([self.step_together(part) for part in parts], axis=1)


_FLOAT: Final = 1
"""ONNX's number for float32."""

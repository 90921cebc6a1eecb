"""A clock for tests of what is decided by measuring: the ways are run, and take what the test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from regraft.model import Turns


def turns_of(seconds: list[float]) -> Callable[..., list[Turns]]:
    """In the place of `time_in_turns`: the first way takes 1, the other the next of ``seconds``, which is taken out."""

    def turns(ways: Sequence[Callable[[], Any]], **_: Any) -> list[Turns]:
        for way in ways:
            way()
        return [Turns((1.0,) * 6), Turns((seconds.pop(0),) * 6)]

    return turns

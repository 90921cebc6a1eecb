"""The machine that runs compiled patterns: steps over registers, with a stack of open choices.

A step is a function of the registers. A *test* gives the number of the next step, or -1 when the match fails here. A
*choice* gives an iterator over next steps, one for each way to go on; it undoes its own effects when resumed. When a
test fails, the machine resumes the youngest open choice, so every way to match is found, and the order in which
alternatives are written decides only which is found first. No Python recursion grows with the pattern or the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from ..pattern import DFPattern, PatternError

Registers: TypeAlias = list[Any]
Test: TypeAlias = Callable[[Registers], int]
Choice: TypeAlias = Callable[[Registers], Iterator[int]]

DEFINITIONS: Final = 0
"""The register that holds what variables are bound to."""
VIEW: Final = 1
"""The register that holds the `BlockView`, for patterns in a context."""
TRACER: Final = 2
"""The register that holds what listens to failures, or None."""
SIZES: Final = 3
"""The register that holds what the size variables of the pattern stand for."""
SEEN: Final = 4
"""The register that holds the groups that a sweep has tried already."""
FIRST_FREE: Final = 5


MOST_RETRIES: Final = 100_000
"""So many alternatives a search takes up again at one value before it gives up."""


class SearchLimitError(PatternError):
    """A pattern has so many ways to be tried at one value that the search was given up."""


class _Unset:
    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()
"""In a register of a pattern that the match has not bound."""


class Why(Protocol):
    """Says why a step fails on these registers: a kind (see `reasons`) and a sentence."""

    def __call__(self, r: Registers, /) -> tuple[str, str]:
        """The kind and the sentence."""
        ...


class Place:
    """Where in a pattern something stands: ``pattern`` is child ``index`` of what stands at ``parent``.

    The register ``source`` holds the value that is matched there. The outermost place stands for no pattern.
    """

    __slots__ = ("index", "parent", "pattern", "source", "visited")

    def __init__(
        self, pattern: DFPattern | None = None, source: int = -1, parent: Place | None = None, index: int = 0
    ) -> None:
        self.pattern = pattern
        self.source = source
        self.parent = parent
        self.index = index
        self.visited = 0

    def enter(self, pattern: DFPattern, source: int) -> Place:
        """The place of the next child; a compiler goes through the children in order."""
        self.visited += 1
        return Place(pattern, source, self, self.visited - 1)


class Step(NamedTuple):
    """What is known of a step before it runs: ``matched`` parts of the pattern are bound when it is reached."""

    pattern: DFPattern
    why: Why
    place: Place
    matched: int


class Tracer(Protocol):
    """Listens to failures; `explain` is one."""

    element: int
    """Which element of a repeat is being matched; -1 outside of repeats."""

    def failed(self, step: Step, r: Registers) -> None:
        """A step failed; ``step.why(r)`` says the reason, on these registers as they are now or on a copy of them."""
        ...

    def seen_before(self) -> None:
        """What stands at this anchor was tried as a part of an earlier group, and is not tried again."""
        ...


class Code:
    """Compiled steps; ``about`` says what each is for. Success is to run past the last step."""

    __slots__ = ("_here", "about", "has_choices", "steps")

    def __init__(self, here: Callable[[], tuple[Place, int]]) -> None:
        self.steps: list[tuple[bool, Any]] = []
        self.about: list[Step] = []
        self.has_choices = False
        self._here = here

    def add_test(self, run: Test, pattern: DFPattern, why: Why) -> None:
        """Append a test."""
        self.steps.append((False, run))
        self.about.append(Step(pattern, why, *self._here()))

    def add_choice(self, run: Choice, pattern: DFPattern, why: Why) -> None:
        """Append a choice."""
        self.steps.append((True, run))
        self.about.append(Step(pattern, why, *self._here()))
        self.has_choices = True


def solutions(code: Code, r: Registers) -> Iterator[None]:
    """Each way to match, in order; the registers hold the match while the caller looks at it.

    Raises `SearchLimitError` after `MOST_RETRIES` alternatives.
    """
    steps = code.steps
    end = len(steps)
    retries = 0
    open_choices: list[tuple[int, Iterator[int]]] = []
    at = 0
    tracer: Tracer | None = r[TRACER]
    while True:
        while at != end:
            is_choice, run = steps[at]
            if is_choice:
                ways = run(r)
                step, at = at, next(ways, -1)
                if at >= 0:
                    open_choices.append((step, ways))
                    continue
                if tracer is not None:
                    tracer.failed(code.about[step], r)
            else:
                step, at = at, run(r)
                if at >= 0:
                    continue
                if tracer is not None:
                    tracer.failed(code.about[step], r)
            break
        else:
            yield
        retries += 1
        if retries > MOST_RETRIES:
            raise SearchLimitError(
                f"{code.about[0].pattern!r} was given up after {MOST_RETRIES:,} alternatives at one value: commuted "
                "operands and alternatives multiply; say more about the operands of its calls"
            )
        while open_choices:
            at = next(open_choices[-1][1], -1)
            if at >= 0:
                break
            open_choices.pop()
        else:
            return


def succeeds(code: Code, r: Registers) -> bool:
    """Whether there is a way to match; the registers hold the first one. Fastest when there are no choices."""
    if code.has_choices:
        for _ in solutions(code, r):
            return True
        return False
    steps = code.steps
    end = len(steps)
    at = 0
    while at != end:
        step = at
        at = steps[at][1](r)
        if at < 0:
            tracer: Tracer | None = r[TRACER]
            if tracer is not None:
                tracer.failed(code.about[step], r)
            return False
    return True

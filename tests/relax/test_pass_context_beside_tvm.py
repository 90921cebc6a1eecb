"""Passes written by hand, and the contexts that they run in, behave as Relax's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from regraft.passes.passes import UntilStable

from .questions import HERE, assert_same_answer

pytestmark = pytest.mark.filterwarnings("ignore")

_PROGRAM: Final = """
def main(x: f32[4], y: f32[4]) -> f32[4]:
    with flow:
        a = R.add(x, y)
        b = R.multiply(a, y)
        R.output(b)
    return b
"""


def _runs(p: Any, opt_level: int, *, alone: bool = False, **context: Any) -> int:
    """The number of times that a pass of a sequence, or one by itself, runs."""
    log: list[int] = []

    @p.transform.function_pass(opt_level=opt_level, name="seen")
    def seen(function: Any, _module: Any, _context: Any) -> Any:
        log.append(1)
        return function

    with p.passes.PassContext(**context):
        (seen if alone else p.passes.Sequential([seen]))(p.read(_PROGRAM))
    return len(log)


def _current(p: Any) -> list[Any]:
    with p.passes.PassContext(opt_level=1) as context:
        inside = p.passes.PassContext.current().opt_level
    return [inside, context.opt_level, context.required_pass, context.disabled_pass, context.instruments]


def _function_class(p: Any) -> Any:
    @p.transform.function_pass(opt_level=1)
    class Marked:
        def __init__(self, mark: int) -> None:
            self.mark = mark

        def transform_function(self, function: Any, _module: Any, _context: Any) -> Any:
            return function.with_attr("mark", self.mark)

    made = Marked(7)
    return [made.info.name, int(made(p.read(_PROGRAM))["main"].attrs["mark"])]


def _module_class(p: Any) -> Any:
    @p.passes.module_pass(opt_level=2)
    class Marked:
        def transform_module(self, module: Any, _context: Any) -> Any:
            return module.with_attr("mark", 1)

    return [Marked().info.name, int(Marked()(p.read(_PROGRAM)).attrs["mark"])]


def _block_class(p: Any) -> Any:
    @p.transform.dataflowblock_pass(opt_level=1)
    class Kept:
        def transform_dataflowblock(self, block: Any, _module: Any, _context: Any) -> Any:
            return block

    return [Kept().info.name, Kept()(p.read(_PROGRAM))]


def _told(p: Any) -> Any:
    @p.transform.function_pass(opt_level=1, name="seen", required=["A"])
    def seen(function: Any, _module: Any, _context: Any) -> Any:
        return function

    sequence = p.passes.Sequential([p.transform.DeadCodeElimination(), seen], name="both", opt_level=1)
    infos = [seen.info, sequence.info, p.transform.DeadCodeElimination().info]
    return [[info.name, info.opt_level] for info in infos[:2]] + [infos[2].name, infos[0].required]


def _unknown_option(p: Any) -> str:
    try:
        p.passes.PassContext(config={"relax.nope": 1})
    except (ValueError, AttributeError):  # TVM raises the latter
        return "unknown"
    return "known"


ASKED: Final[dict[str, Callable[[Any], Any]]] = {
    "a level that is too low": lambda p: _runs(p, 2, opt_level=1),
    "a level that is enough": lambda p: _runs(p, 2, opt_level=2),
    "a pass that is disabled": lambda p: _runs(p, 0, opt_level=3, disabled_pass=["seen"]),
    "a disabled pass by itself": lambda p: _runs(p, 0, alone=True, opt_level=3, disabled_pass=["seen"]),
    "a pass by itself at a level that is too low": lambda p: _runs(p, 2, alone=True, opt_level=1),
    "a pass that is required": lambda p: _runs(p, 3, opt_level=0, required_pass=["seen"]),
    "the context at hand": _current,
    "a pass over functions, as a class": _function_class,
    "a pass over modules, as a class": _module_class,
    "a pass over blocks, as a class": _block_class,
    "what a pass says of itself": _told,
    "an option that is not there": _unknown_option,
}


@pytest.mark.parametrize("title", ASKED)
def test_a_pass_or_context_behaves_as_relaxs(title: str) -> None:
    assert_same_answer(ASKED[title])


def test_passes_until_stable_pass_over_a_disabled_one() -> None:
    both = [HERE.transform.DeadCodeElimination(), HERE.transform.CanonicalizeBindings()]
    module = HERE.read(_PROGRAM.replace("R.multiply(a, y)", "R.multiply(x, y)"))
    with HERE.passes.PassContext(disabled_pass=["DeadCodeElimination"]):
        assert "R.add" in UntilStable(both)(module).script()
    assert "R.add" not in UntilStable(both)(module).script()

"""What a level has optimized, the same level leaves as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from regraft.ir import IRModule
from regraft.model import optimize
from regraft.model.models import write_model
from regraft.passes.passes import MOST_ROUNDS, UntilStable, function_pass
from regraft.passes.pipeline import LEVELS, pipeline
from regraft.testing.random_programs import random_module
from tests.passes.harness import program


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("first_seed", [0, 40])
def test_a_level_leaves_its_own_result_as_it_is(level: str, first_seed: int) -> None:
    passes = pipeline(level)
    for seed in range(first_seed, first_seed + 40):
        once = passes(random_module(seed, size=30))
        assert passes(once) is once, f"seed {seed}"


@pytest.mark.parametrize(("suffix", "seeds"), [("relax", (3, 27)), ("xml", (1006, 1007, 1016))])
def test_a_file_that_is_optimized_again_is_the_same_to_the_byte(
    suffix: str, seeds: tuple[int, ...], tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("source", "once", "twice")]
    for folder in folders:
        folder.mkdir()
    source, once, twice = (folder / f"model.{suffix}" for folder in folders)
    for seed in seeds:
        write_model(random_module(seed, size=30 + seed % 3 * 30), "main", source)
        for level in ("safe", "aggressive"):
            optimize(source, output=once, level=level)
            optimize(once, output=twice, level=level)
            for file in once.parent.iterdir():
                assert file.read_bytes() == (twice.parent / file.name).read_bytes(), (seed, level, file.name)


def _renamed(function: object, module: IRModule, _context: object) -> object:
    """A pass that never leaves a program alone: it builds the function anew."""
    del module
    return function.with_attrs({"round": function.attrs.get("round", 0) + 1})  # type: ignore[attr-defined]


def test_passes_that_always_change_something_end() -> None:
    restless = function_pass(_renamed, name="restless")
    before = program("x: R.Tensor((2, 3))", "y = R.exp(x)", "y")
    after = UntilStable([restless, restless])(before)
    assert after.attrs["round"] == 2 * MOST_ROUNDS


def test_a_pass_that_makes_work_for_an_earlier_one_sees_it_done() -> None:
    names: list[str] = []

    def watch(name: str, changes: int) -> object:
        def transform(function: object, _module: IRModule, _context: object) -> object:
            names.append(name)
            nonlocal changes
            changes -= 1
            return function.with_attrs({name: changes}) if changes >= 0 else function  # type: ignore[attr-defined]

        return function_pass(transform, name=name)

    before = program("x: R.Tensor((2, 3))", "y = R.exp(x)", "y")
    UntilStable([watch("a", 0), watch("b", 1), watch("c", 0)])(before)
    # b changed something, so a, and b itself, are asked once more; c has seen that program already.
    assert names == ["a", "b", "c", "a", "b"]

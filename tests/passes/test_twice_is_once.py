"""A program that a level has optimized is left as it is by the same level."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from regraft.formats.openvino import from_openvino
from regraft.ir import IRModule
from regraft.model import optimize
from regraft.model.models import write_model
from regraft.passes.passes import MOST_ROUNDS, UntilStable, function_pass
from regraft.passes.pipeline import LEVELS, pipeline
from regraft.testing.random_programs import random_module
from regraft.transform import BindParams, op_counts
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


def test_a_decoder_before_training_is_the_same_file_of_openvino_again(tmp_path: Path) -> None:
    weights = {"w": (8, 16), "o": (8, 8), "one": (8,), "zero": (8,), "other": (8,)}
    given = ", ".join(f'{name}: R.Tensor({shape}, "float32")' for name, shape in weights.items())
    body = """
n = R.nn.rms_norm(x, one, axes=[-1], epsilon=1e-6)
p = R.split(R.matmul(n, w), indices_or_sections=[8, 12], axis=2)
q = R.reshape(p[0], R.shape([1, 5, 2, 4]))
k = R.reshape(p[1], R.shape([1, 5, 1, 4]))
v = R.reshape(p[2], R.shape([1, 5, 1, 4]))
a = R.nn.attention(q, k, v, scale=0.5, causal_mask="TopLeft")
r = R.add(R.matmul(R.reshape(a, R.shape([1, 5, 8])), o), zero)
y = R.add(R.nn.relu(r), other)"""
    random = np.random.default_rng(0)
    arrays = {name: random.normal(size=shape).astype("float32") for name, shape in weights.items()}
    arrays |= {"one": np.ones(8, "float32"), "zero": np.full(8, 0.5, "float32"), "other": np.full(8, 0.5, "float32")}
    main = BindParams("main", arrays)(program(f'x: R.Tensor((1, 5, 8), "float32"), {given}', body, "y"))
    source, once, twice = (tmp_path / f"{name}.xml" for name in ("source", "once", "twice"))
    write_model(IRModule({"main": main}), "main", source)
    optimize(source, output=once)
    optimize(once, output=twice)
    kinds = re.findall(r'type="(\w+)" version', once.read_text())
    assert kinds.count("ScaledDotProductAttention") == kinds.count("IsNaN") == 1
    assert twice.with_suffix(".bin").read_bytes() == once.with_suffix(".bin").read_bytes()
    assert re.findall(r'type="(\w+)" version', twice.read_text()) == kinds
    assert op_counts(from_openvino(twice)["main"]) == op_counts(from_openvino(once)["main"])


def _renamed(function: object, module: IRModule, _context: object) -> object:
    """A pass that never leaves a program alone: it builds the function anew."""
    del module
    return function.with_attrs({"round": function.attrs.get("round", 0) + 1})  # type: ignore[attr-defined]


def test_passes_that_always_change_something_end() -> None:
    restless = function_pass(_renamed, opt_level=0, name="restless")
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

        return function_pass(transform, opt_level=0, name=name)

    before = program("x: R.Tensor((2, 3))", "y = R.exp(x)", "y")
    UntilStable([watch("a", 0), watch("b", 1), watch("c", 0)])(before)
    # b changed something, so a, and b itself, are asked once more; c has seen that program already.
    assert names == ["a", "b", "c", "a", "b"]

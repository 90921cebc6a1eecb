"""Random programs with loops, nested and with branches: every rewrite keeps their values, and engines agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import regraft as rx
from regraft.analysis import well_formed
from regraft.engine import BuildError
from regraft.ir import IRModule, assert_structural_equal
from regraft.ir.hashing import structural_hash
from regraft.passes.pipeline import available_passes
from regraft.testing import Options, programs, random_inputs, random_module
from regraft.transform import Legalize, ToMixedPrecision, op_counts

LOOPS = Options(loops=True, dtypes=("float32", "float32", "int64", "bool"))


def _arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, tuple | list):
        for item in value:
            yield from _arrays(item)
    else:
        yield np.asarray(value)


def _same(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    for have, want in zip(_arrays(found), _arrays(expected), strict=True):
        assert have.dtype == want.dtype
        if have.size or want.size:  # sizes that only a step tells are open where there is none
            np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)


def _run(module: IRModule, target: str = "numpy", **options: Any) -> Any:
    return rx.build(module, target=target, **options)["main"](*random_inputs(module["main"]))


@settings(max_examples=25, deadline=None)
@given(programs(14, LOOPS))
def test_a_program_with_loops_prints_and_keeps_its_values_when_it_is_rewritten(module: IRModule) -> None:
    well_formed(module)
    again = rx.parse(module.script())
    assert_structural_equal(again, module)
    assert structural_hash(again) == structural_hash(module)
    expected = _run(module, verify_types=True)
    for level in ("default", "aggressive"):
        rewritten = rx.optimize(module, level=level)
        well_formed(rewritten)
        _same(_run(rewritten), expected)
    _same(_run(Legalize()(module)), expected)


@pytest.mark.parametrize("target", ["torch", "onnxruntime", "xla"])
def test_engines_agree_on_programs_with_loops(target: str) -> None:
    loops = refused = 0
    for seed in range(12):
        module = random_module(seed + 100, 14, LOOPS)
        loops += op_counts(module)["relax.loop"]
        try:
            found = _run(module, target)
        except BuildError:
            refused += 1
        else:
            _same(found, _run(module))
    assert loops >= 6
    assert refused <= (4 if target == "xla" else 0)  # XLA needs to know how many rows a loop stacks


def test_half_precision_around_a_loop_keeps_the_types_inside() -> None:
    for seed in range(100, 108):
        module = random_module(seed, 14, LOOPS)
        narrow = ToMixedPrecision()(module)
        well_formed(narrow)
        _same(_run(narrow), _run(module), 0.2)


def test_every_pass_keeps_the_values_of_programs_with_loops() -> None:
    rounding = {"QuantizeDynamic", "QuantizeRecurrent", "QuantizeWeights", "ToMixedPrecision"}
    other_form = {"BundleModelParams", "LazyGetInput", "LazySetOutput", "LazyTransformParams", "LiftTransformParams"}
    for seed in (3, 20, 31, 104):  # 20 writes a function with a loop out in a dataflow block of a loop's body
        module = random_module(seed, 20, LOOPS)
        expected = _run(module)
        for name, make in available_passes().items():
            changed = make()(module)
            well_formed(changed)
            if name not in other_form:
                _same(_run(changed), expected, 0.2 if name in rounding else 1e-3)

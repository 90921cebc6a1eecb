"""The promises of every pass, on random programs: well formed, the same values, and nothing left to do afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

import regraft as rx
from regraft import transform
from regraft.analysis import well_formed
from regraft.ir import IRModule
from regraft.reference.trials import difference
from regraft.testing import programs, random_inputs
from regraft.transform import Pass, op_counts

EXACT = [
    transform.ReorderPermuteDimsAfterConcat(),
    transform.RemoveRedundantReshape(),
    transform.SimplifyTransposes(),
    transform.CanonicalizeBindings(),
    transform.EliminateCommonSubexpr(),
    transform.DeadCodeElimination(),
    transform.FoldConstant(),
    transform.ConvertToDataflow(),
    transform.TopologicalSort(),
    transform.TopologicalSort("breadth-first"),
    transform.TopologicalSort("depth-first", "from-outputs"),
    transform.TopologicalSort("breadth-first", "from-outputs"),
]
ROUNDED = [
    transform.CombineParallelMatmul(),
    transform.FuseAttention(),
    transform.ReorderTakeAfterMatmul(),
    transform.ExpandMatmulOfSum(),
    transform.AdjustMatmulOrder(),
]


def _run(module: IRModule, inputs: list[Any]) -> Any:
    return rx.build(module, target="numpy")["main"](*inputs)


def _name(one: Pass) -> str:
    return one.name


@pytest.mark.parametrize("one", [*EXACT, *ROUNDED], ids=_name)
@settings(max_examples=25)
@given(module=programs(most=24))
def test_a_pass_keeps_values_and_form_and_has_nothing_to_do_the_second_time(one: Pass, module: IRModule) -> None:
    result = one(module)
    well_formed(result)
    if one.name in ("CanonicalizeBindings", "ConvertToDataflow"):
        result = one(one(result))  # an output whose uses became a constant is seen to have none, as in Relax
    assert one(result) is result
    inputs = random_inputs(module["main"])
    tolerances = {"rtol": 0.0, "atol": 0.0} if one in EXACT else {}
    found = difference(_run(module, inputs), _run(result, inputs), **tolerances)
    assert found is None, str(found)


@settings(max_examples=25)
@given(module=programs(most=40))
def test_all_passes_together_keep_the_values(module: IRModule) -> None:
    result = transform.Sequential([*EXACT, *ROUNDED, *EXACT])(module)
    well_formed(result)
    inputs = random_inputs(module["main"])
    found = difference(_run(module, inputs), _run(result, inputs))
    assert found is None, str(found)


def test_a_reshape_behind_a_cast_to_the_type_it_has_is_seen_the_first_time() -> None:
    module = rx.parse("""
from regraft.script import relax as R

@R.function
def main(x: R.Tensor((2, 3, 4), "float32")):
    with R.dataflow():
        a = R.reshape(x, (6, 4))
        b = R.match_cast(a, R.Tensor((6, 4), "float32"))
        c = b
        d = R.reshape(c, (24,))
        R.output(d)
    return d
""")
    once = transform.RemoveRedundantReshape()(module)
    assert op_counts(once) == {"relax.reshape": 1}
    assert transform.RemoveRedundantReshape()(once) is once

"""Random programs: repeatable, rich, well formed, and fit to run and to print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import regraft as rx
from regraft.analysis import well_formed
from regraft.ir import (
    Call,
    Function,
    GlobalVar,
    IRModule,
    Op,
    SymVar,
    TensorType,
    Var,
    assert_structural_equal,
    const,
    iter_bindings,
    structural_equal,
)
from regraft.testing import Options, programs, random_function, random_inputs, random_module


def arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, tuple | list):
        for item in value:
            yield from arrays(item)
    else:
        yield np.asarray(value)


def test_one_seed_gives_one_program_and_others_give_others() -> None:
    assert_structural_equal(random_module(7, 40), random_module(7, 40))
    assert random_module(7, 40).script() == random_module(7, 40).script()
    assert not structural_equal(random_module(7, 40), random_module(8, 40))


def test_programs_use_everything_that_they_may() -> None:
    found: Counter[str] = Counter()
    for seed in range(60):
        for binding in iter_bindings(random_module(seed, 40)):
            value = binding.value
            name = type(binding).__name__ if type(binding).__name__ == "MatchCast" else type(value).__name__
            if isinstance(value, Call):
                name = value.op.name if isinstance(value.op, Op) else "function"
            found[name] += 1
    expected = {
        "MatchCast", "If", "Tuple", "TupleGetItem", "function", "Constant", "relax.add", "relax.matmul",
        "relax.permute_dims", "relax.reshape", "relax.concat", "relax.split", "relax.nn.relu", "relax.nn.softmax",
        "relax.sum", "relax.where", "relax.take", "relax.strided_slice",
    }  # fmt: skip
    assert {name for name in expected if found[name] < 5} == set()


def test_options_leave_out_what_is_not_wanted() -> None:
    options = Options(symbolic=False, branches=False, casts=False, dtypes=("float32",))
    for seed in range(20):
        script = random_function(seed, 30, options).script()
        for unwanted in ("T.int64", "if ", "match_cast", "int32"):
            assert unwanted not in script


@given(programs(30, Options(odd_constants=True)))
def test_programs_print_and_parse_back(module: IRModule) -> None:
    assert_structural_equal(rx.parse(module.script()), module)


@given(programs(30))
def test_programs_run_with_values_of_their_types_that_stay_finite(module: IRModule) -> None:
    well_formed(module)
    executable = rx.build(module, "numpy")
    for array in arrays(executable["main"](*random_inputs(module["main"]))):
        assert np.isfinite(array).all()


def test_inputs_fit_the_parameters_and_give_each_size_another_value() -> None:
    n, m = SymVar("n"), SymVar("m")
    x, y = Var("x", TensorType((n, m), "float16")), Var("y", TensorType((m * 2,), "bool"))
    first, second = random_inputs(Function([x, y], x))
    assert first.dtype == np.float16
    assert second.dtype == np.bool_
    assert first.shape[0] != first.shape[1]
    assert second.shape == (first.shape[1] * 2,)


def test_inputs_of_unknown_shape_are_refused() -> None:
    x = Var("x", TensorType(None, "float32"))
    with pytest.raises(ValueError, match=r"parameter x is .*; random inputs need a tensor of known shape and dtype"):
        random_inputs(Function([x], const(1.0)))


def test_helpers_are_called() -> None:
    called = {
        binding.value.op.name
        for seed in range(20)
        for binding in iter_bindings(random_module(seed, 30, helpers=2)["main"])
        if isinstance(binding.value, Call) and isinstance(binding.value.op, GlobalVar)
    }
    assert called == {"helper0", "helper1"}

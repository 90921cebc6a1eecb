"""When the default level combines matmuls: what the estimate says of shapes, and what is told of groups left alone."""

from __future__ import annotations

import numpy as np
import pytest

from regraft.analysis import CPU_CORE, Machine
from regraft.ir import BlockBuilder, Function, IRModule, TensorType, Var, const
from regraft.ir.dims import Dim, SymVar
from regraft.passes import combining_pays
from regraft.passes.combining_pays import joins_no_codes
from regraft.passes.pipeline import pipeline
from regraft.script import relax as R
from regraft.transform import CombineParallelMatmul, report
from tests.passes.harness import checked, counts, program

RNG = np.random.default_rng(0)


def _group(rows: Dim, width: int, columns: int, branches: int, *, bias: bool = True) -> Function:
    """``branches`` linear layers on one input, whose weights are constants."""
    x = Var("x", TensorType((rows, width), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            outputs: list[Var] = []
            for _ in range(branches):
                weight = const(RNG.standard_normal((width, columns)).astype(np.float32))
                value = builder.emit(R.matmul(x, weight))
                if bias:
                    value = builder.emit(R.add(value, const(RNG.standard_normal(columns).astype(np.float32))))
                outputs.append(builder.emit_output(R.tanh(value)))
        builder.emit_func_output(tuple(outputs))
    return builder.get()["main"]


def _is_combined(function: Function, machine: Machine = CPU_CORE) -> bool:
    return counts(CombineParallelMatmul(combining_pays(machine))(function))["matmul"] == 1


def test_many_small_layers_on_one_row_are_combined() -> None:
    before = _group(1, 64, 16, 32)
    assert counts(checked(CombineParallelMatmul(combining_pays()), before)) == {
        "matmul": 1,
        "add": 1,
        "tanh": 1,
        "concat": 2,
        "split": 1,
    }


def test_narrow_layers_on_many_rows_are_combined_since_they_fill_no_tile() -> None:
    assert _is_combined(_group(1024, 256, 4, 8, bias=False))


@pytest.mark.parametrize(("rows", "width"), [(128, 384), (512, 64), (4096, 320)])
def test_wide_layers_on_many_rows_are_left_since_the_split_copies_more_than_is_saved(rows: int, width: int) -> None:
    assert not _is_combined(_group(rows, width, width, 3))


def test_tiny_layers_whose_biases_cost_nothing_are_left_where_the_rows_may_be_many() -> None:
    assert not _is_combined(_group(SymVar("n"), 12, 12, 3))
    assert not _is_combined(_group(1024, 12, 12, 3))


def test_the_report_gives_both_estimates() -> None:
    found = str(report(CombineParallelMatmul(combining_pays()), _group(4096, 64, 64, 3, bias=False)))
    assert "combining does not pay: one product and its split are estimated at" in found
    assert "µs and 3 products at" in found


def test_a_machine_whose_calls_are_dear_combines_more() -> None:
    group = _group(512, 64, 64, 3)
    assert not _is_combined(group)
    assert _is_combined(group, CPU_CORE._replace(call=1e-3))


# --- sizes that are not known


def test_a_group_that_pays_at_every_size_is_combined() -> None:
    assert _is_combined(_group(SymVar("n"), 256, 4, 8))


def test_a_group_that_pays_on_one_row_only_is_left_and_the_report_says_at_which_size() -> None:
    assert _is_combined(_group(1, 256, 256, 3))
    before = _group(SymVar("n"), 256, 256, 3)
    assert not _is_combined(before)
    found = str(report(CombineParallelMatmul(combining_pays()), before))
    assert "combining does not pay with symbolic sizes at 1024:" in found


def test_a_group_whose_left_side_is_not_known_is_left_with_a_reason() -> None:
    before = program(
        'x: R.Tensor(dtype="float32", ndim=2), a: R.Tensor((3, 4), "float32"), b: R.Tensor((3, 7), "float32")',
        "p = R.matmul(x, a)\nq = R.matmul(x, b)",
        "p, q",
    )
    found = report(CombineParallelMatmul(combining_pays()), before)
    assert found.program is before
    assert "shapes or dtypes are not known, so its cost cannot be estimated" in str(found)


# --- right sides that have to be joined


def _weights_as_parameters() -> Function:
    weights = ", ".join(f'w{i}: R.Tensor((512, 512), "float32")' for i in range(8))
    body = "\n".join(f"y{i} = R.matmul(x, w{i})" for i in range(8))
    return program(f'x: R.Tensor((1, 512), "float32"), {weights}', body, ", ".join(f"y{i}" for i in range(8)))


def test_joining_right_sides_in_every_run_is_counted() -> None:
    before = _weights_as_parameters()
    assert CombineParallelMatmul(combining_pays())(before) is before
    assert _is_combined(_group(1, 512, 512, 8))


def test_what_is_made_of_constants_counts_as_joined_before_the_run() -> None:
    x = Var("x", TensorType((1, 64), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            turned = [
                builder.emit(R.permute_dims(const(RNG.standard_normal((16, 64)).astype(np.float32)))) for _ in range(8)
            ]
            outputs = [builder.emit_output(R.tanh(builder.emit(R.matmul(x, weight)))) for weight in turned]
        builder.emit_func_output(tuple(outputs))
    assert _is_combined(builder.get()["main"])


# --- levels


def test_the_default_level_combines_where_it_pays_and_the_highest_wherever_it_can() -> None:
    for rows, by_default in ((1, 1), (4096, 3)):
        module = IRModule.from_expr(_group(rows, 64, 64, 3))
        assert counts(pipeline("safe")(module))["matmul"] == 3
        assert counts(pipeline("default")(module))["matmul"] == by_default
        assert counts(pipeline("aggressive")(module))["matmul"] == 1


def test_the_default_level_combines_for_the_machine_it_is_given() -> None:
    module = IRModule.from_expr(_group(4096, 64, 64, 3))
    assert counts(pipeline("default", CPU_CORE._replace(call=1e-2))(module))["matmul"] == 1


def test_weights_that_are_stored_as_codes_are_not_joined_and_the_report_says_why() -> None:
    codes = [f"R.dequantize({name}, R.const(0.5, 'float32'), R.const(0, 'int8'))" for name in "ab"]
    before = program(
        'x: R.Tensor((8, 256), "float32"), a: R.Tensor((256, 64), "int8"), b: R.Tensor((256, 64), "int8")',
        f"v = {codes[0]}\nw = {codes[1]}\np = R.matmul(x, v)\nq = R.matmul(x, w)",
        "p, q",
    )
    for check in (combining_pays(), joins_no_codes):
        found = report(CombineParallelMatmul(check), before)
        assert found.program is before
        assert "its right sides are quantized" in str(found)

"""Measurements of an earlier run are not repeated, but checked again; other machines are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import regraft
import regraft.op as R
from regraft import optimize
from regraft.ir import BlockBuilder, Expr, const
from regraft.ir.op import is_call_of
from regraft.ir.visitor import iter_bindings
from regraft.model import Measurement, OptimizationReport, PrecisionReport, UsageError, measure
from regraft.model import search as room
from regraft.model.decisions import CacheWarning, Decisions
from regraft.model.expected import ComputedIn, expected_seconds, expected_seconds_of_layers
from regraft.model.machines import PROFILES, MachineDescription, machine_of, this_machine
from regraft.passes.quantize import QuantizeDynamic, QuantizeWeights
from regraft.run.processor import FEATURES
from tests.cli.harness import invoke
from tests.model.clock import turns_of
from tests.model.models import projections, save
from tests.passes.harness import module_of

RNG = np.random.default_rng(5)


def weights(*shape: int) -> Expr:
    return const((RNG.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32))


def _layers(builder: BlockBuilder, x: Expr) -> Expr:
    return R.matmul(builder.emit(R.nn.relu(builder.emit(R.matmul(x, weights(96, 128)), "first"))), weights(128, 64))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    regraft.to_onnx(module_of((40, 96), _layers), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    given: list[float] = []
    monkeypatch.setattr(room, "time_in_turns", turns_of(given))
    monkeypatch.setattr(measure, "time_in_turns", turns_of(given))
    return given


def report_of(model: Any, **options: Any) -> OptimizationReport:
    reports: list[OptimizationReport] = []
    optimize(model, threads=1, report=reports.append, **options)
    return reports[0]


def precision_of(model: Any, **options: Any) -> PrecisionReport:
    found = report_of(model, engine="onnxruntime", **options).precision
    assert found is not None
    return found


def measurement_of(model: Any, **options: Any) -> Measurement:
    found = report_of(model, measure=True, **options).measurement
    assert found is not None
    return found


# --- what was measured before


def test_a_precision_that_was_measured_before_is_made_again_without_timing(
    model: Path, tmp_path: Path, times: list[float]
) -> None:
    times[:] = [0.5, 0.9]
    options: dict[str, Any] = {"precision": "auto", "max_error": 0.05, "cache": tmp_path / "cache"}
    first = precision_of(model, output=tmp_path / "first.onnx", **options)
    left = len(times)
    second = precision_of(model, output=tmp_path / "second.onnx", **options)
    assert len(times) == left, "nothing was timed"
    assert first.decided_before is None
    assert second.decided_before is not None
    assert first.attempts == second.attempts
    assert first.kept == second.kept
    assert onnx.load(tmp_path / "first.onnx") == onnx.load(tmp_path / "second.onnx")


def test_that_the_model_stays_as_it_is_is_remembered_too(model: Path, tmp_path: Path, times: list[float]) -> None:
    times[:] = [1.0, 1.0]
    options: dict[str, Any] = {"precision": "int8", "measure": True, "cache": tmp_path / "cache"}
    assert precision_of(model, **options).kept is None
    again = precision_of(model, **options)
    assert again.kept is None
    assert again.decided_before is not None
    assert again.attempts[0].problem == "it is not faster"


@pytest.mark.parametrize(
    "other", [{"max_error": 0.03}, {"budget": 7.0}, {"seed": 4}, {"min_cosine": 0.5}, {"precision": "int8"}]
)
def test_another_question_is_measured_anew(
    model: Path, tmp_path: Path, times: list[float], other: dict[str, Any]
) -> None:
    times[:] = [0.5] * 9
    options: dict[str, Any] = {"precision": "auto", "max_error": 0.05, "cache": tmp_path / "cache", "measure": True}
    precision_of(model, **options)
    assert precision_of(model, **{**options, **other}).decided_before is None
    assert precision_of(model, **options).decided_before is not None


def test_other_weights_are_measured_anew(tmp_path: Path, times: list[float]) -> None:
    times[:] = [0.5] * 4
    for _ in range(2):
        found = precision_of(module_of((40, 96), _layers), precision="int8", measure=True, cache=tmp_path / "cache")
        assert found.decided_before is None


@pytest.mark.parametrize("content", ["{damaged", "[]", '{"format": 1}', '{"format": 99, "key": {}}', "\0\0"])
def test_a_damaged_file_of_decisions_is_passed_over_and_said(
    model: Path, tmp_path: Path, times: list[float], content: str
) -> None:
    times[:] = [0.5] * 4
    options: dict[str, Any] = {"precision": "int8", "measure": True, "cache": tmp_path / "cache"}
    precision_of(model, **options)
    (file,) = (tmp_path / "cache").iterdir()
    file.write_text(content)
    with pytest.warns(CacheWarning, match="is passed over, and measured anew"):
        found = precision_of(model, **options)
    assert found.decided_before is None
    assert precision_of(model, **options).decided_before == str(file), "it was written anew"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("error", "x"),
        ("seconds", []),
        ("times_as_fast", "2"),
        ("name", None),
        ("layers", [{"name": 1}]),
        ("cosine", True),
    ],
)
def test_a_decision_with_facts_of_another_kind_is_passed_over_and_said(
    model: Path, tmp_path: Path, times: list[float], key: str, value: Any
) -> None:
    times[:] = [0.5] * 4
    options: dict[str, Any] = {"precision": "int8", "measure": True, "cache": tmp_path / "cache"}
    precision_of(model, **options)
    (file,) = (tmp_path / "cache").iterdir()
    facts = json.loads(file.read_text())
    facts["decision"]["attempts"][0][key] = value
    file.write_text(json.dumps(facts))
    with pytest.warns(CacheWarning, match="is passed over, and measured anew"):
        found = precision_of(model, **options)
    assert found.decided_before is None


def test_a_decision_that_is_no_longer_right_is_made_anew(model: Path, tmp_path: Path, times: list[float]) -> None:
    """The file says that both layers of a model may be in bytes, which errs by more than is allowed."""
    times[:] = [0.5] * 4
    options: dict[str, Any] = {"precision": "int8", "measure": True, "cache": tmp_path / "cache", "max_error": 1e-4}
    assert precision_of(model, **options).kept is None
    (file,) = (tmp_path / "cache").iterdir()
    facts = json.loads(file.read_text())
    facts["decision"]["kept"] = 0
    for layer in facts["decision"]["attempts"][0]["layers"]:
        layer["precision"] = "int8 dynamic"
    file.write_text(json.dumps(facts))
    found = precision_of(model, **options)
    assert found.kept is None
    assert found.decided_before is None


def test_a_folder_that_cannot_be_written_is_said_and_nothing_else_changes(
    model: Path, tmp_path: Path, times: list[float]
) -> None:
    times[:] = [0.5]
    (tmp_path / "file").touch()
    with pytest.warns(CacheWarning, match="the decision is not kept in"):
        found = precision_of(model, precision="int8", measure=True, cache=tmp_path / "file" / "inside")
    assert found.kept is not None


def test_the_state_that_was_the_fastest_is_kept_again_without_timing(tmp_path: Path, times: list[float]) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    for seconds, kept in ((0.5, "after all passes"), (2.0, "as it was")):
        times[:] = [seconds] * 40
        folder = tmp_path / str(seconds)
        first = measurement_of(model, cache=folder)
        times.clear()
        second = measurement_of(model, cache=folder)
        assert first.kept == second.kept == kept
        assert first.decided_before is None
        assert second.decided_before is not None
        assert second.states == first.states


def test_the_environment_names_the_folder_and_false_keeps_nothing(
    model: Path, tmp_path: Path, times: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    times[:] = [0.5] * 4
    monkeypatch.setenv("REGRAFT_CACHE", str(tmp_path / "named"))
    precision_of(model, precision="int8", measure=True, cache=False)
    assert not (tmp_path / "named").exists()
    precision_of(model, precision="int8", measure=True)
    assert len(list((tmp_path / "named").iterdir())) == 1
    monkeypatch.delenv("REGRAFT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "home"))
    assert Decisions.of(cache=True).are_kept


def test_the_command_says_that_it_was_decided_before(model: Path, tmp_path: Path) -> None:
    arguments = ("--precision", "int8", "--engine", "onnxruntime", "--threads", "1", "--measure", "--budget", "0.1")
    for expected in (False, True):
        result = invoke("optimize", model, "-o", tmp_path / "out.onnx", *arguments, "--cache", tmp_path / "cache")
        assert result.exit_code == 0, result.output
        assert ("Decided in an earlier run" in result.stdout) is expected
    result = invoke("optimize", model, "-o", tmp_path / "out.onnx", *arguments, "--no-cache")
    assert "Decided in an earlier run" not in result.stdout


# --- other machines


def test_a_target_says_what_is_tried_and_gains_are_counted(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.onnx"
    found = report_of(model, precision="auto", max_error=0.05, target="avx512-vnni", output=output).precision
    assert found is not None
    assert found.target == "avx512-vnni"
    assert found.features == PROFILES["avx512-vnni"].features
    assert all(one.gain is None and one.seconds is None for one in found.attempts)
    refused = next(one for one in found.attempts if one.name == "bfloat16")
    assert refused.problem == "the target avx512-vnni has no bfloat16"
    dynamic = next(one for one in found.attempts if one.name == "int8 dynamic")
    assert dynamic.expected is not None


def test_weights_leave_a_bit_unused_where_the_target_sums_pairs(tmp_path: Path) -> None:
    """The range of int8 is ±127, that of 7 bits ±64: twice 64 * 255 fits into 16 bits."""
    largest: dict[str, int] = {}
    module = module_of((400, 512), lambda builder, x: R.matmul(builder.emit(R.nn.relu(x)), weights(512, 512)))
    for name in ("avx2", "avx512-vnni"):
        output = tmp_path / f"{name}.onnx"
        options: dict[str, Any] = {"precision": "int8", "max_error": 0.1, "engine": "onnxruntime"}
        report_of(module, target=name, output=output, **options)
        arrays = [onnx.numpy_helper.to_array(one) for one in onnx.load(output).graph.initializer]
        (stored,) = [array for array in arrays if array.dtype == np.int8 and array.size > 1]
        largest[name] = int(np.abs(stored.astype(int)).max())
    assert largest == {"avx2": 64, "avx512-vnni": 127}


def test_counted_times_follow_the_rates_of_what_is_computed_in() -> None:
    x = np.zeros((2048, 1024), np.float32)
    module = module_of(x.shape, lambda builder, x: R.matmul(x, weights(1024, 1024)))
    rates = {"float32": 10.0, "int8": 40.0, "bfloat16": 20.0, "memory": 1000.0}
    machine = MachineDescription("given", "x86-64", (), 2, rates=rates)
    operations = 2 * 2048 * 1024 * 1024

    def seconds(module: Any, **options: Any) -> float:
        return expected_seconds(module, "main", [x], machine, **options)

    assert seconds(module) == pytest.approx(operations / 20e9, rel=1e-3)
    assert seconds(module, threads=1) == pytest.approx(operations / 10e9, rel=1e-3)
    assert seconds(module, precision="bfloat16") == pytest.approx(operations / 40e9, rel=1e-3)
    assert seconds(QuantizeDynamic()(module)) == pytest.approx(operations / 80e9, rel=0.1)


def test_layers_are_counted_in_the_precision_that_each_of_them_has() -> None:
    x = np.zeros((2048, 96), np.float32)
    module = module_of(x.shape, _layers)
    names = [binding.var.name_hint for binding in iter_bindings(module) if is_call_of(binding.value, "relax.matmul")]
    machine = MachineDescription("given", "x86-64", (), 1, rates={"float32": 10.0, "int8": 40.0, "memory": 1e5})
    kept = dict(zip(names, (None, "float32"), strict=True))
    forms = {"relax.matmul": ComputedIn("int8", 0.25)}
    found = expected_seconds_of_layers(module, "main", [x], machine, {**kept, "missing": None}, forms)
    first, second = 2 * 2048 * 96 * 128 / 40e9, 2 * 2048 * 128 * 64 / 10e9
    assert [found[name] for name in names] == pytest.approx([first, second], rel=0.01)
    assert found.keys() == {*names}


def test_one_row_waits_for_its_weights_so_fewer_bits_are_counted_as_faster() -> None:
    x = np.zeros((1, 4096), np.float32)
    module = module_of(x.shape, lambda builder, x: R.matmul(x, weights(4096, 4096)))
    machine = PROFILES["avx512-vnni"]
    whole = expected_seconds(module, "main", [x], machine)
    gains = [whole / expected_seconds(QuantizeWeights(bits)(module), "main", [x], machine) for bits in (8, 4)]
    assert 2 < gains[0] < 4.5
    assert gains[1] > 1.5 * gains[0]


def test_symbolic_sizes_are_those_of_the_inputs() -> None:
    from regraft.script import relax as R_

    matrix = np.ones((64, 64), np.float32)

    @R_.function
    def main(x: R_.Tensor(("n", 64), "float32")):  # type: ignore[no-untyped-def]
        with R_.dataflow():
            y = R_.matmul(x, R_.const(matrix))
            R_.output(y)
        return y

    module = regraft.IRModule({"main": main})
    machine = MachineDescription("given", "x86-64", (), 1, rates={"float32": 1.0, "memory": 1e9})
    none, few, many = (expected_seconds(module, "main", [np.zeros((n, 64), np.float32)], machine) for n in (0, 1, 100))
    assert many - none == pytest.approx(100 * (few - none), rel=1e-6)


def test_a_small_model_waits_for_its_engine_and_not_for_its_products() -> None:
    x = np.zeros((4, 16), np.float32)
    module = module_of(x.shape, lambda builder, x: R.matmul(x, weights(16, 16)))
    machine = PROFILES["amx"]
    whole = expected_seconds(module, "main", [x], machine, engine="openvino")
    assert whole / expected_seconds(module, "main", [x], machine, engine="openvino", precision="bfloat16") < 1.05
    assert expected_seconds(module, "main", [x], machine) < whole < 1e-3


def test_a_machine_that_is_saved_is_read_back(tmp_path: Path) -> None:
    result = invoke("targets", "--save", tmp_path / "own.json")
    assert result.exit_code == 0, result.output
    assert "avx512-vnni" in result.stdout
    found, own = machine_of(tmp_path / "own.json"), this_machine()
    assert (found.features, found.cores, found.architecture) == (own.features, own.cores, own.architecture)
    assert not found.is_here
    facts = json.loads(invoke("targets", "--json").stdout)
    assert {one["name"] for one in facts["targets"]} == set(PROFILES)
    assert all(set(one["features"]) <= set(FEATURES) for one in facts["targets"])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("amxx", "there is no target 'amxx'; did you mean amx"),
        ("abacus", "there is no target 'abacus'; there are: avx2, "),
        ("no.json", "there is no such file of a target"),
        ({"features": ["avx_vni"]}, "'avx_vni' is none of the known features; did you mean avx_vnni"),
        ({"features": "avx2"}, "features is 'avx2'; expected a list of names"),
        ({"engines": ["abacus"]}, "'abacus' is none of the known engines; there are: onnxruntime, openvino"),
        ({"cores": 0}, "cores is 0; expected a whole number of 1 or more"),
        ({"rates": {"int8": -1}}, "the rate of int8 is -1; expected a number above 0"),
        ({"rates": {"int9": 1}}, "there is no rate of 'int9'"),
        ({"speed": 3}, "there is no key 'speed'; there are: name, "),
        ({"architecture": "z80"}, "the architecture 'z80' is none of x86-64, arm64"),
    ],
)
def test_targets_that_do_not_exist_are_said(target: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        machine_of(target)


def test_a_file_that_is_no_target_is_said(tmp_path: Path) -> None:
    for content in ("{", "3", "\0"):
        (tmp_path / "own.json").write_text(content)
        with pytest.raises(UsageError, match="holds no target"):
            machine_of(tmp_path / "own.json")


def test_a_target_beside_what_does_not_depend_on_it_is_refused(model: Path) -> None:
    with pytest.raises(UsageError, match="a target needs a precision"):
        optimize(model, target="amx")
    with pytest.raises(UsageError, match="times are measured on this machine"):
        optimize(model, target="amx", precision="auto", measure=True)
    with pytest.raises(UsageError, match="the target has openvino, not onnxruntime"):
        optimize(model, target={"engines": ["openvino"]}, precision="auto", engine="onnxruntime")


def test_what_is_no_place_for_decisions_is_refused(model: Path) -> None:
    with pytest.raises(UsageError, match="cache is None; expected True, False for no file, or a folder"):
        report_of(model, measure=True, cache=None)

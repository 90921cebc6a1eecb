"""Whatever is wrong has a message of its own and an exit code, and nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from regraft.model import OutputError
from tests.cli.harness import invoke, spawn
from tests.model.models import files, projections, save


def damaged(path: Path, change: Callable[[bytes], bytes]) -> Path:
    save(projections(), path)
    path.write_bytes(change(path.read_bytes()))
    return path


def with_node(path: Path, op: str, domain: str = "") -> Path:
    node = helper.make_node(op, ["query_out"], ["made"], name="/strange", domain=domain)
    return save(projections(extra=[node]), path)


def without_its_weights(path: Path) -> Path:
    save(projections(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    path.with_name("weights.bin").unlink()
    return path


def reaching_outside(path: Path) -> Path:
    save(projections(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../../etc/passwd"
    path.write_bytes(model.SerializeToString())
    return path


def text_file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


MODELS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "truncated": (
        lambda folder: damaged(folder / "m.onnx", lambda content: content[: len(content) // 2]),
        r"m\.onnx: this is no ONNX model, or it is damaged",
    ),
    "overwritten in the middle": (
        lambda folder: damaged(folder / "m.onnx", lambda content: content[:40] + b"\xff" * 60 + content[100:]),
        r"m\.onnx: (this is no ONNX model, or it is|the model is) damaged",
    ),
    "empty": (lambda folder: damaged(folder / "m.onnx", lambda _: b""), r"m\.onnx: this is no ONNX model"),
    "not a model": (
        lambda folder: text_file(folder / "m.onnx", "hello, world\n" * 50),
        r"m\.onnx: this is no ONNX model, or it is damaged",
    ),
    "not a program of PyTorch": (
        lambda folder: text_file(folder / "m.pt2", "hello"),
        r"m\.pt2: this is no exported program of PyTorch, or it is damaged",
    ),
    "not a program text": (
        lambda folder: text_file(folder / "m.relax", "import os\nos.remove('/')\n"),
        r"m\.relax",
    ),
    "weights missing": (
        lambda folder: without_its_weights(folder / "m.onnx"),
        r"constant query: its data should be in .*weights\.bin, and there is no such file",
    ),
    "weights outside of the folder": (
        lambda folder: reaching_outside(folder / "m.onnx"),
        r"constant query: its data is in \.\./\.\./etc/passwd, outside of the model's folder; refused",
    ),
    "unknown operator": (
        lambda folder: with_node(folder / "m.onnx", "Frobnicate"),
        r"Frobnicate \(node /strange\): the operator is not supported",
    ),
    "a folder": (lambda folder: folder, r"is a folder without a config\.json; give the model's file in it"),
    "no such file": (lambda folder: folder / "nothing.onnx", r"nothing\.onnx: there is no such file"),
    "unknown suffix": (
        lambda folder: text_file(folder / "model.h5", ""),
        r"model\.h5 has '\.h5'; a model's file ends in \.onnx, \.pt2, \.relax",
    ),
}


@pytest.mark.parametrize("case", MODELS)
def test_a_model_that_cannot_be_read_says_why_and_nothing_is_written(case: str, tmp_path: Path) -> None:
    make, message = MODELS[case]
    if case == "not a program of PyTorch":
        pytest.importorskip("torch")
    model = make(tmp_path)
    before = files(tmp_path)
    result = invoke("optimize", model, "-o", tmp_path / "out.onnx")
    assert result.exit_code == 2, result.output
    assert re.search(message, result.stderr), result.stderr
    assert result.stderr.startswith("regraft: error: ")
    assert "Traceback" not in result.output
    assert files(tmp_path) == before


OUTPUTS: dict[str, tuple[str, int, str]] = {
    "the input": ("model.onnx", 2, r"would overwrite the input .*model\.onnx; give another name"),
    "no such folder": ("nowhere/out.onnx", 4, r"cannot be written: there is no folder .*nowhere; make it first"),
    "a folder": (".", 2, r"has no suffix"),
    "unknown suffix": ("out.h5", 2, r"out\.h5 has '\.h5'; a model's file ends in"),
}


@pytest.mark.parametrize("case", OUTPUTS)
@pytest.mark.parametrize("command", ["optimize", "convert", "grad"])
def test_an_output_that_cannot_be_is_refused(command: str, case: str, tmp_path: Path) -> None:
    name, code, message = OUTPUTS[case]
    model = save(projections(), tmp_path / "model.onnx")
    before = files(tmp_path)
    result = invoke(command, model, "-o", tmp_path / name)
    assert result.exit_code == code, result.output
    assert re.search(message, result.stderr), result.stderr
    assert files(tmp_path) == before


def test_a_report_over_the_model_or_the_output_is_refused(tmp_path: Path) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    before = files(tmp_path)
    for report, message in ((model, "would overwrite the input"), (tmp_path / "out.onnx", "give the report another")):
        result = invoke("optimize", model, "-o", tmp_path / "out.onnx", "--report", report)
        assert result.exit_code == 2
        assert message in result.stderr
    assert files(tmp_path) == before


def test_where_the_report_cannot_be_written_there_is_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    before = files(tmp_path)

    def full(*_: object) -> None:
        raise OutputError("r.json cannot be written: there is no room")

    monkeypatch.setattr("regraft.model.reports.write_text", full)
    result = invoke("optimize", model, "-o", tmp_path / "out.onnx", "--report", tmp_path / "r.json")
    assert result.exit_code == 4
    assert files(tmp_path) == before


def test_a_report_over_the_weights_of_the_model_is_refused(tmp_path: Path) -> None:
    model = save(projections(), tmp_path / "m.onnx", save_as_external_data=True, location="m.json", size_threshold=0)
    before = files(tmp_path)
    result = invoke("optimize", model, "-o", tmp_path / "out.onnx", "--report", tmp_path / "m.json")
    assert result.exit_code == 2
    assert "would overwrite the input" in result.stderr
    assert files(tmp_path) == before


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "a symbolic link": lambda model, path: path.symlink_to(model),
    "a hard link": lambda model, path: path.hardlink_to(model),
}


@pytest.mark.parametrize("kind", LINKS)
def test_an_output_that_is_a_link_to_the_input_is_refused(kind: str, tmp_path: Path) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    LINKS[kind](model, tmp_path / "link.onnx")
    before = files(tmp_path)
    for source, output in ((model, tmp_path / "link.onnx"), (tmp_path / "link.onnx", model)):
        result = invoke("optimize", source, "-o", output)
        assert result.exit_code == 2
        assert "would overwrite the input" in result.stderr
    assert files(tmp_path) == before
    assert (tmp_path / "link.onnx").samefile(model)


def test_a_function_of_a_model_that_holds_one_is_refused(tmp_path: Path) -> None:
    result = invoke("inspect", save(projections(), tmp_path / "model.onnx"), "--function", "other")
    assert result.exit_code == 2
    assert "holds one function, main; --function is for .relax files" in result.stderr


INPUTS: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "wrong shape": ({"x": np.zeros((2, 6, 17), "float32")}, r"x.*17"),
    "wrong rank": ({"x": np.zeros((6, 16), "float32")}, r"parameter x"),
    "wrong dtype": ({"x": np.zeros((2, 6, 16), "float64")}, r"float64"),
    "missing": ({}, r"x not given; the model's inputs are: x"),
    "another name": ({"y": np.zeros(3)}, r"no input is named y; x not given"),
}


@pytest.mark.parametrize("case", INPUTS)
@pytest.mark.parametrize("engine", ["onnxruntime", "numpy"])
def test_inputs_that_do_not_fit_are_named(case: str, engine: str, tmp_path: Path) -> None:
    arrays, message = INPUTS[case]
    model = save(projections(), tmp_path / "model.onnx")
    np.savez(tmp_path / "in.npz", **arrays)
    before = files(tmp_path)
    result = invoke("run", model, "--engine", engine, "--input", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert result.exit_code == 2, result.output
    assert re.search(message, result.stderr), result.stderr
    assert files(tmp_path) == before


USAGE: dict[str, tuple[list[str], str]] = {
    "unknown level": (["--level", "9"], "there is no level '9'"),
    "unknown pass": (["--passes", "FoldConstants"], "did you mean FoldConstant?"),
    "no size": (["--dim", "batch"], "'batch' is no NAME=SIZE"),
    "no size at all": (["--dim", "batch=0"], "'batch=0' is no NAME=SIZE"),
    "unknown size": (["--verify", "--dim", "nobody=3"], "nobody"),
    "unknown option": (["--nonsense"], "No such option"),
    "a range of samples": (["--verify", "--range", "x=0:1", "--input", "in.npz"], "ranges are for random inputs"),
}


@pytest.mark.parametrize("command", ["run", "bench"])
def test_a_folder_in_place_of_one_sample_is_named(command: str, tmp_path: Path) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    result = invoke(command, model, "--input", tmp_path)
    assert result.exit_code == 2, result.output
    assert "is a folder; this is one run" in result.stderr


@pytest.mark.parametrize("case", USAGE)
def test_wrong_usage_is_told_and_nothing_is_written(case: str, tmp_path: Path) -> None:
    options, message = USAGE[case]
    model = save(projections(), tmp_path / "model.onnx")
    before = files(tmp_path)
    result = invoke("optimize", model, "-o", tmp_path / "out.onnx", *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert files(tmp_path) == before


def test_an_engine_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    result = invoke("bench", save(projections(), tmp_path / "model.onnx"), "--engines", "abacus")
    assert result.exit_code == 2
    assert "there is no target 'abacus'; there are: onnxruntime, numpy, openvino, torch" in result.stderr


def test_traceback_shows_where_wherever_it_stands(tmp_path: Path) -> None:
    for arguments in (["--traceback", "inspect", "no.onnx"], ["inspect", "no.onnx", "--traceback"]):
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert "no.onnx: there is no such file" in result.stderr
    finished = spawn("", "inspect", "no.onnx", "--traceback", cwd=tmp_path)
    assert "Traceback (most recent call last)" in finished.stderr


FAILING_RULE = """
import regraft as rx
from regraft.dpl import is_op, wildcard

broken = rx.Rule(is_op("relax.matmul")(wildcard(), wildcard()), lambda expr, found: 1 / 0, "broken")
"""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (FAILING_RULE, "ZeroDivisionError: division by zero, in the rewriter of rule 'broken', at "),
        (FAILING_RULE, ", by line 5 of rules.py; --traceback shows"),
        (
            "rule = rx.rule(lambda x: x + , None)",
            "rules.py:1: the file of rules is no Python: invalid syntax: rule = rx",
        ),
        (FAILING_RULE.replace("expr, found", "expr"), "rule 'broken': its function takes (expr); it is called as rewr"),
        ("rule = 1\0", "rules.py: the file of rules is no Python: source code string cannot contain null bytes"),
        ("raise SystemExit(1)", "the file of rules fails: SystemExit: 1"),
    ],
)
def test_a_failing_rule_is_no_defect_of_the_command(tmp_path: Path, content: str, message: str) -> None:
    model, rules = save(projections(), tmp_path / "model.onnx"), tmp_path / "rules.py"
    rules.write_text(content, encoding="utf-8")
    result = invoke("optimize", model, "-o", tmp_path / "out.onnx", "--rules", rules)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--safetensors"], "weights go to safetensors beside a .relax file; out.onnx holds its own"),
        (["--measure", "--cache", "model.onnx"], "model.onnx is a file; decisions are kept in a folder"),
    ],
)
def test_an_option_that_means_nothing_here_is_refused(
    options: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(projections(), tmp_path / "model.onnx")
    done = invoke("optimize", "model.onnx", "-o", "out.onnx", *options)
    assert done.exit_code == 2
    assert says in done.stderr
    assert list(files(tmp_path)) == ["model.onnx"]


def test_samples_that_cannot_be_read_are_no_failure_to_write(tmp_path: Path) -> None:
    save(projections(), tmp_path / "model.onnx")
    sample = tmp_path / "sample.npz"
    np.savez(sample, x=np.zeros(3, np.float32))
    content = bytearray(sample.read_bytes())
    content[-6:-2] = (len(content) * 2).to_bytes(4, "little")  # where the list of entries is said to begin
    sample.write_bytes(content)
    done = invoke("optimize", tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--verify", "--input", sample)
    assert done.exit_code == 2
    assert "sample.npz" in done.stderr
    assert "cannot be written" not in done.stderr
    assert not (tmp_path / "out.onnx").exists()


def test_names_that_would_give_a_terminal_orders_are_escaped(tmp_path: Path) -> None:
    node = helper.make_node("NoSuch\x1b[31m", ["x"], ["made\u202e"], name="/" + "n" * 1000)
    result = invoke("inspect", save(projections(extra=[node]), tmp_path / "m.onnx"))
    assert result.exit_code == 2
    assert r"NoSuch\x1b[31m (node /nnn" in result.stderr
    assert "… (1003 characters)" in result.stderr
    node = helper.make_node("Relu", ["x"], ["made\u202e"], name="/relu\x1b[31m")
    result = invoke("inspect", save(projections(extra=[node]), tmp_path / "m.onnx"))
    assert result.exit_code == 0
    assert not re.search("[\x1b\u202e]", result.stdout)


def test_what_is_damaged_is_said_once(tmp_path: Path) -> None:
    model = projections(extra=[helper.make_node("Add", ["query_out", "missing"], ["made"])])
    result = spawn("", "inspect", save(model, tmp_path / "m.onnx"))
    assert result.stderr == "regraft: error: the value 'missing' is used before it is computed\n"


@pytest.mark.parametrize("suffix", [".onnx", ".pt2", ".relax", ".xml"])
def test_a_device_is_no_model(tmp_path: Path, suffix: str) -> None:
    model = tmp_path / f"m{suffix}"
    model.symlink_to("/dev/zero")
    result = invoke("inspect", model)
    assert result.exit_code == 2
    assert "is a device, a pipe or a folder; give a file" in result.stderr


def test_more_threads_than_a_system_has_are_refused(tmp_path: Path) -> None:
    result = invoke("bench", save(projections(), tmp_path / "m.onnx"), "--threads", "99999")
    assert result.exit_code == 2
    assert "--threads" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["inspect", "LONG"], ["optimize", "MODEL", "-o", "LONG"], ["run", "MODEL", "--input", "LONG"]]
)
def test_names_that_no_file_may_have_are_refused(tmp_path: Path, arguments: list[str]) -> None:
    given = {"MODEL": save(projections(), tmp_path / "m.onnx"), "LONG": tmp_path / ("n" * 300 + ".onnx")}
    result = invoke(*[given.get(argument, argument) for argument in arguments])
    assert result.exit_code == 2
    assert "File name too long; give a shorter one" in result.stderr

"""The benchmarks' harness: how tables read, what is found, what a wrong name says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import regraft as rx
from bench import bench_files, bench_speed
from bench.__main__ import available, main
from bench.carried_files import File
from bench.table import Table


def test_a_table_is_kept_as_markdown_with_its_note() -> None:
    table = Table("Matching", ("bindings", "µs a binding"), (("a|b", 1.23456), (100_000, 12345.6)), "Flat is good.")
    assert table.markdown() == (
        "## Matching\n\n| bindings | µs a binding |\n| --- | ---: |\n"
        "| a\\|b | 1.23 |\n| 100,000 | 12,346 |\n\nFlat is good.\n"
    )


def test_a_row_of_the_wrong_length_names_the_table() -> None:
    with pytest.raises(ValueError, match=r"'Matching': row \('a',\) needs 2 cells"):
        Table("Matching", ("bindings", "time"), (("a",),))


def test_an_unknown_benchmark_is_an_error_that_lists_the_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["no_such"], tmp_path) == 2
    assert "no benchmark no_such: there are " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_every_benchmark_has_a_run_function() -> None:
    assert [name for name in available() if not callable(import_module(f"bench.bench_{name}").run)] == []


def test_a_file_is_run_beside_its_result_on_random_inputs(tmp_path: Path) -> None:
    x = rx.Var("x", rx.TensorType([2, 4], "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(rx.op.exp(builder.emit(rx.op.negative(x)))))
    path = tmp_path / "small.onnx"
    path.write_bytes(rx.to_onnx(builder.get()).SerializeToString())
    assert min(bench_files.times_of(File("small", path, {}, None), path, rounds=2)) > 0


def _ended_for_memory(too_large: Callable[[str, Sequence[str]], bool]) -> Callable[..., Any]:
    """A process of its own that ends where ``too_large`` says so of the model's export, or of variants together."""

    def alone(step: Callable[..., Any], _: str, __: Path, *given: Any) -> Any:
        if step is bench_speed.export:
            if too_large("export", []):
                raise BrokenProcessPool
            return bench_speed.Row([], {})
        known = ["as exported", "regraft int8", "large"]
        if step is bench_speed.names_of:
            return known
        row, names = given[0], (known if given[1] is None else given[1])
        if too_large("turns", names):
            raise BrokenProcessPool
        row.outcomes.extend(bench_speed.Outcome(one, one.startswith("regraft"), 1.0, 1.0, 0.0, 1.0) for one in names)
        return row, []

    return alone


@pytest.mark.parametrize("stage", ["export", "turns"])
def test_memory_that_runs_out_ends_the_row_of_what_needs_it_and_no_other(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_speed, "KEPT", tmp_path)
    ended = _ended_for_memory(lambda at, names: at == stage and (not names or "large" in names))
    monkeypatch.setattr(bench_speed, "_alone", ended)
    whole, best, _ = bench_speed.run(["MobileNet V2"])
    problem = "the memory of this machine does not hold it"
    failed = [row[1] for row in whole.rows if problem in str(row[1])]
    if stage == "export":
        assert failed == [f"the model itself: {problem}"]
        assert best.rows == ()
    else:
        assert failed == [f"large: {problem}"]
        assert [row[1] for row in whole.rows if row[2]] == ["as exported", "regraft int8"]
        assert [row[0] for row in best.rows] == ["MobileNet V2"]


def test_the_cookbook_gives_the_counts_of_its_benchmark() -> None:
    root = Path(__file__).resolve().parents[1]

    def counts(page: str) -> set[tuple[str, ...]]:
        """The rows of model, nodes, time and rewrites here, time and rewrites there, without the times."""
        rows = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in page.splitlines()]
        return {(row[0], row[1], row[3], row[5]) for row in rows if len(row) == 6 and row[3].isdecimal()}

    kept = counts((root / "bench/results/cookbook.md").read_text(encoding="utf-8"))
    assert len(kept) == 4
    assert counts((root / "docs/cookbook.md").read_text(encoding="utf-8")) == kept

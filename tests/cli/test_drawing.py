"""Small graphs on the terminal, the part of a rule that failed, and how much of a file has been written."""

from __future__ import annotations

from pathlib import Path

import regraft as rx
from regraft.model.files import bytes_staged, staged
from tests.cli.harness import invoke
from tests.view.programs import layers

PROGRAM = """
# from regraft.script import relax as R

@R.function
def main(x: R.Tensor((4, 4), dtype="float32"), y: R.Tensor((4, 4), dtype="float32")):
    with R.dataflow():
        a: R.Tensor((4, 4), dtype="float32") = R.add(x, y)
        b: R.Tensor((4, 4), dtype="float32") = R.multiply(a, a)
        c: R.Tensor((4, 4), dtype="float32") = R.subtract(b, a)
        R.output(c)
    return c
"""


def test_a_small_model_is_drawn_from_its_result_to_its_parameters(tmp_path: Path) -> None:
    path = tmp_path / "small.relax"
    path.write_text(PROGRAM, encoding="utf-8")
    drawing = invoke("inspect", path).stdout.partition("main gives\n")[2]
    assert drawing.splitlines() == [
        "└── subtract c: float32[4, 4]",
        "    ├── multiply b: float32[4, 4]",
        "    │   ├── add a: float32[4, 4]",
        "    │   │   ├── parameter x: float32[4, 4]",
        "    │   │   └── parameter y: float32[4, 4]",
        "    │   └── add a: float32[4, 4]  ↑ above",
        "    └── add a: float32[4, 4]  ↑ above",
    ]


def test_a_large_model_is_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "large.relax"
    rx.save_script(layers(20), path)
    assert " gives\n" not in invoke("inspect", path).stdout


def test_the_nearest_miss_of_a_rule_is_drawn_with_what_failed(tmp_path: Path) -> None:
    path = tmp_path / "model.relax"
    path.write_text(PROGRAM.replace("R.multiply(a, a)", "R.multiply(a, y)"), encoding="utf-8")
    shown = invoke("explain", path, "--pass", "RemoveNoOps").stdout
    failed = "constant at arg 1 of (multiply | divide)"
    assert f"around the nearest miss, b\n└── multiply b: float32[4, 4]  ✕ {failed}\n" in shown


def test_what_is_written_of_an_output_is_seen_while_it_is_put_together(tmp_path: Path) -> None:
    output = tmp_path / "model[1].onnx"
    assert bytes_staged(output) == 0
    with staged(output) as path:
        path.write_bytes(b"x" * 1000)
        path.with_name(path.name + ".data").write_bytes(b"x" * 234)
        assert bytes_staged(output) == 1234
    assert bytes_staged(output) == 0

"""Relax's deeper module paths can be imported here, each with the names that Relax has there."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import regraft
from regraft.left_out import LEFT_OUT_PATHS
from regraft.second_paths import PATHS

SOURCE = Path(regraft.__file__).parent
NEEDS_TENSOR_IR = {
    "regraft.frontend.onnx.onnx_frontend",
    "regraft.frontend.torch.dynamo",
    "regraft.frontend.torch.exported_program_translator",
    "regraft.frontend.torch.fx_translator",
    "regraft.pipeline",
    "regraft.support",
}
"""Paths whose other names are parts of TVM's own translators, pipelines and compilers."""


@pytest.mark.parametrize("path", PATHS)
def test_a_path_has_the_names_of_relax_that_are_here(path: str) -> None:
    module = importlib.import_module(path)
    home = importlib.import_module(PATHS[path])
    in_tvm = path.startswith(("regraft.support", "regraft.testing.utils"))
    theirs = path.replace("regraft.", "tvm." if in_tvm else "tvm.relax.", 1)
    rooms = "attrs base function ir. module runtime. script. tirx"
    of_tvm = tuple(f"regraft.{room}" for room in rooms.split())
    if path == "regraft.base_py_module" or not path.startswith(of_tvm):
        names = [
            name
            for name, value in vars(importlib.import_module(theirs)).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == theirs and hasattr(home, name)
        ]
        assert names or path in NEEDS_TENSOR_IR or "optimize_layout" in path or "lower_gpu" in path
        assert all(getattr(module, name) is getattr(home, name) for name in names)
    file = SOURCE.joinpath(*path.split(".")[1:])
    assert not file.with_suffix(".py").exists(), "a module of its own"
    assert not file.exists(), "a package of its own"


def test_a_path_is_an_attribute_as_well_and_says_what_it_lacks() -> None:
    assert regraft.dpl.pattern.is_op is regraft.dpl.is_op
    assert regraft.transform.transform.FoldConstant is regraft.transform.FoldConstant
    assert regraft.ir.transform.PassContext is regraft.transform.PassContext
    with pytest.raises(AttributeError, match="has no attribute 'is_opp'"):
        importlib.import_module("regraft.dpl.pattern").is_opp  # noqa: B018 - the name itself is tested


def test_no_home_is_loaded_before_a_name_is_asked_for() -> None:
    code = "import sys, regraft, regraft.dpl.pattern; print('regraft.dpl' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
    assert find_spec("regraft.dpl") is not None


def test_a_module_that_is_left_out_can_be_imported_with_what_lies_below_and_says_why() -> None:
    from regraft.backend.cuda.cublas import partition_for_cublas
    from regraft.transform.legalize_ops.common import register_legalize

    with pytest.raises(NotImplementedError, match="partition_for_cublas is left out: compiles for one kind of device"):
        partition_for_cublas(None)
    with pytest.raises(NotImplementedError, match="register_legalize is left out: works on TensorIR"):
        register_legalize()
    with pytest.raises(NotImplementedError, match="call_tir is left out: works on TensorIR"):
        regraft.call_tir()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("regraft.transform.nothing_of_the_kind")


@pytest.mark.parametrize("path", LEFT_OUT_PATHS)
def test_a_module_that_is_left_out_is_one_of_tvm(path: str) -> None:
    below = path.removeprefix("regraft.")
    assert any(_exists(f"{room}.{below}") for room in ("tvm.relax", "tvm"))
    file = SOURCE.joinpath(*path.split(".")[1:])
    assert not file.with_suffix(".py").exists()
    assert not file.exists()


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False

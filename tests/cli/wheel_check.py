"""The installed package, seen from an environment that holds nothing else: `make wheel-check` runs this.

Only what `pip install regraft` brings is there: no PyTorch, and nothing of the working tree.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import regraft

SIZES = {"query": 2, "key": 4, "value": 3, "gate": 6, "up": 7, "down": 8}
COMMAND = Path(sys.executable).with_name("regraft")


def products() -> onnx.ModelProto:
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal((5, size)).astype("float32") for name, size in SIZES.items()}
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", name], [f"{name}_out"]) for name in weights],
        "products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5])],
        [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, ["n", None]) for name in weights],
        [numpy_helper.from_array(weight, name) for name, weight in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def main() -> None:
    assert find_spec("torch") is None, "this is to be run where PyTorch is not installed"
    assert "site-packages" in regraft.__file__, f"{regraft.__file__} is not the installed package"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, output, report = folder / "model.onnx", folder / "out.onnx", folder / "report.json"
        onnx.save(products(), source)
        subprocess.run([COMMAND, "optimize", source, "-o", output, "--verify", "--report", report], check=True)
        facts = json.loads(report.read_text())
        assert facts["ops_after"] == {"relax.matmul": 1, "relax.split": 1}, facts["ops_after"]
        x = np.ones((2, 5), "float32")
        for before, after in zip(
            *(ort.InferenceSession(one).run(None, {"x": x}) for one in (source, output)), strict=True
        ):
            np.testing.assert_allclose(after, before, rtol=1e-5)
        page = folder / "page.html"
        subprocess.run([COMMAND, "view", source, "-o", page, "--level", "default"], check=True)
        assert "regraft-worker" in page.read_text(encoding="utf-8")
        missing = subprocess.run([COMMAND, "convert", source, "-o", folder / "out.pt2"], capture_output=True, text=True)
        assert missing.returncode == 3, missing
        assert "pip install 'regraft[torch]'" in missing.stderr, missing.stderr
    print(f"regraft {regraft.__file__} works without PyTorch")


if __name__ == "__main__":
    main()

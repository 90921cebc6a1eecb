"""Models of one node, read and run beside the evaluator that ONNX comes with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

import regraft as rx
from regraft.formats import from_onnx

Inputs = Mapping[str, np.ndarray | None]


def one_node(
    op_type: str,
    inputs: Inputs,
    outputs: int = 1,
    *,
    opset: int = 23,
    domain: str = "",
    fixed: Sequence[str] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; an input that is None is left out, one that is in ``fixed`` is an initializer."""
    given = {name: array for name, array in inputs.items() if array is not None}
    names = [name if array is not None else "" for name, array in inputs.items()]
    results = [f"y{place}" for place in range(outputs)]
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
        if name not in fixed
    ]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, results, domain=domain, **attributes)],
        "one_node",
        values,
        [onnx.ValueInfoProto(name=name) for name in results],
        [onnx.numpy_helper.from_array(given[name], name) for name in fixed],
    )
    imports = [helper.make_opsetid("", opset)]
    if domain:
        imports.append(helper.make_opsetid(domain, 5))
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def run_here(model: onnx.ModelProto, inputs: Inputs, target: str = "numpy") -> list[np.ndarray]:
    """The results of the model here."""
    module = from_onnx(model)
    names: tuple[str, ...] = module["main"].attrs["input_names"]
    found = rx.build(module, target=target)["main"](*[inputs[name] for name in names])
    return [np.asarray(value) for value in (found if isinstance(found, tuple) else (found,))]


def run_onnxruntime(model: onnx.ModelProto, inputs: Inputs) -> list[np.ndarray]:
    """The results of ONNX Runtime for the model as it is."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {known.name: inputs[known.name] for known in model.graph.input}
    return [np.asarray(value) for value in session.run(None, feeds)]


def run_there(model: onnx.ModelProto, inputs: Inputs) -> list[np.ndarray]:
    """The results of ONNX's evaluator."""
    names = {value.name for value in model.graph.input}
    feeds = {name: array for name, array in inputs.items() if name in names}
    return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, feeds)]


def check_node(
    op_type: str,
    inputs: Inputs,
    outputs: int = 1,
    *,
    targets: Sequence[str] = ("numpy", "onnxruntime"),
    rtol: float = 1e-5,
    atol: float = 1e-6,
    **given: Any,
) -> None:
    """A node gives here, on each engine, what ONNX's evaluator gives."""
    model = one_node(op_type, inputs, outputs, **given)
    expected = run_there(model, inputs)
    for target in targets:
        assert_same(run_here(model, inputs, target), expected, rtol, atol)


def assert_same(
    found: Sequence[np.ndarray], expected: Sequence[np.ndarray], rtol: float = 1e-5, atol: float = 1e-6
) -> None:
    """Same number, shapes, dtypes and, within tolerance, values."""
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)

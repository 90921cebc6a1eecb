"""Operators that engines lack are written to ONNX by their parts, and ONNX Runtime gives PyTorch's results."""

from __future__ import annotations

import onnxruntime
import pytest
import torch
from torch.utils import _pytree as pytree

import regraft as rx
from tests.formats.torch.cases import FAMILIES, Case
from tests.formats.torch.rare_cases import RARE_FAMILIES
from tests.op.harness import assert_close, to_numpy

_CASES = {name: case for family in (FAMILIES | RARE_FAMILIES).values() for name, case in family.items()}


class _Call(torch.nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.case.function(*inputs)


@pytest.mark.parametrize(
    "name",
    [
        *RARE_FAMILIES["matrices"],
        "as_strided_of_turned",
        "bincount_weights",
        "lstm_projected",
        "lstm_projected_both_ways",
        "quantile",
        "quantile_of_nan",
        "repeat_each",
        "repeat_each_known",
        "repeat_places",
        "unique_consecutive",
        "unique_of_floats",
        "unique_of_nan",
        "vander",
    ],
)
def test_onnxruntime_gives_what_pytorch_gives(name: str) -> None:
    case = _CASES[name]
    module = _Call(case)
    model = rx.to_onnx(rx.from_torch(module, case.inputs))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {port.name: value.numpy() for port, value in zip(session.get_inputs(), case.inputs, strict=True)}
    for got, want in zip(session.run(None, feeds), pytree.tree_leaves(module(*case.inputs)), strict=True):
        assert_close(got, to_numpy(want))


@pytest.mark.parametrize("name", ["inverse", "slogdet", "lstm_projected", "repeat_each", "unique_of_floats"])
def test_it_comes_back_in_pytorch_as_the_operator_that_it_was(name: str) -> None:
    case = _CASES[name]
    program = torch.export.export(_Call(case), case.inputs)
    found = rx.optimize(program)
    targets = [[str(node.target) for node in one.graph.nodes if node.op == "call_function"] for one in (program, found)]
    assert sorted(targets[0]) == sorted(targets[1])

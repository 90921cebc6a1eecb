"""Exported PyTorch programs become the programs that they become in Relax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import export
from tvm import relax as theirs
from tvm.relax.frontend.torch import from_exported_program as read_there

import regraft as rx
from regraft.formats import ConvertError
from regraft.frontend.torch import from_exported_program as read_here

from .beside_tvm import read_back

pytestmark = pytest.mark.filterwarnings("ignore")

X, V, W = torch.zeros(1, 3, 10, 10), torch.zeros(2, 4), torch.zeros(4, 5)
CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "one call": (torch.exp, (X,)),
    "several calls": (lambda x: torch.tanh(torch.sin(x)) + x, (X,)),
    "a number": (lambda x: x * 1.5 - 2, (X,)),
    "a product": (torch.matmul, (V, W)),
    "a softmax": (lambda x: F.softmax(x, 1), (X,)),
    "a reduction": (lambda x: torch.mean(x, dim=(2, 3), keepdim=True), (X,)),
    "axes": (lambda x: x.permute(0, 3, 2, 1).reshape(2, -1), (X,)),
    "parts": (lambda x: torch.split(x, 1, 1), (X,)),
    "two results": (lambda x: (x + x, torch.relu(x)), (V,)),
    "its input": (lambda x: x, (V,)),
    "dropout in training": (lambda x: F.dropout(x, 0.5, training=True) + x, (V,)),
    "a choice": (lambda x: torch.where(x > 0, x, -x), (V,)),
}


class Model(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


@pytest.mark.parametrize(("function", "args"), CASES.values(), ids=CASES)
def test_an_exported_program_is_read_as_relax_reads_it(function, args) -> None:
    program = export(Model(function), args)
    rx.assert_structural_equal(read_here(program), read_back(read_there(program)))


@pytest.mark.parametrize("options", [{"unwrap_unit_return_tuple": True}, {"no_bind_return_tuple": True}])
def test_the_results_are_returned_as_the_options_say(options) -> None:
    for name in ("one call", "two results"):
        program = export(Model(CASES[name][0]), CASES[name][1])
        rx.assert_structural_equal(read_here(program, **options), read_back(read_there(program, **options)))


def _subtraction(package: Any) -> Callable[[Any, Any], Any]:
    def convert(node: torch.fx.Node, importer: Any) -> Any:
        left, right = (importer.env[argument] for argument in node.args)
        return importer.block_builder.emit(package.op.subtract(left, right))

    return convert


def test_a_conversion_of_the_caller_comes_before_those_that_are_there() -> None:
    program = export(Model(lambda x: torch.relu(x) + x), (V,))
    here = read_here(program, custom_convert_map={"add.Tensor": _subtraction(rx)})
    there = read_there(program, custom_convert_map={"add.Tensor": _subtraction(theirs)})
    rx.assert_structural_equal(here, read_back(there))
    assert "R.subtract" in here.script()
    for name in ("add", "aten.add.Tensor"):
        rx.assert_structural_equal(read_here(program, custom_convert_map={name: _subtraction(rx)}), here)


def test_a_conversion_that_gives_another_shape_is_named() -> None:
    program = export(Model(lambda x: x + x), (V,))
    with pytest.raises(ConvertError, match="PyTorch has"):
        read_here(
            program, custom_convert_map={"add": lambda node, importer: rx.op.sum(importer.retrieve_args(node)[0])}
        )

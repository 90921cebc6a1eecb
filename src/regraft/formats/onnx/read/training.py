"""Reading training steps: the optimizers of the domain ``ai.onnx.preview.training``, as arithmetic.

A node takes a rate, the number of previous steps, and then groups of equally many tensors: the trained tensors, their
gradients, and the state of the optimizer. It returns the new trained tensors, and then the new state. The formulas are
those of ONNX's definitions of the operators.
"""

from __future__ import annotations

from collections.abc import Callable

from .... import op as ops
from ....op.program_array import ProgramArray
from .importing import Imported, NodeImporter, in_dtype, reads

DOMAIN = "ai.onnx.preview.training"


def _stepped(
    node: NodeImporter, groups: int, formula: Callable[..., tuple[ProgramArray, ...]]
) -> tuple[Imported | None, ...]:
    """``formula`` of the rate, the count and one tensor of each group, for each tensor; results are grouped alike."""
    count, rest = divmod(len(node.node.inputs) - 2, groups)
    if rest or count < 1:
        raise node.refuse(f"its inputs after the rate and the count are not {groups} groups of equally many tensors")
    results: list[tuple[ProgramArray, ...]] = []
    for first in range(2, 2 + count):
        dtype = node.dtype(first)
        own = [node.operand(first + group * count) for group in range(groups)]
        operands = [node.emit(in_dtype(node.operand(0), dtype)), node.emit(in_dtype(node.operand(1), dtype)), *own]
        results.append(formula(*[ProgramArray(node.graph.builder, operand) for operand in operands]))
    return tuple([result.expr for group in zip(*results, strict=True) for result in group])


def _root(x: ProgramArray) -> ProgramArray:
    return x.made(ops.sqrt(x.expr))


def _later(count: ProgramArray, later: ProgramArray, first: ProgramArray) -> ProgramArray:
    """``later``, except in the first step, which uses ``first``."""
    return count.made(ops.where((count > 0).expr, later.expr, first.expr))


@reads("Adagrad", domain=DOMAIN)
def _adagrad(node: NodeImporter) -> tuple[Imported | None, ...]:
    norm, decay = node.attr("norm_coefficient", 0.0), node.attr("decay_factor", 0.0)

    def step(
        rate: ProgramArray, count: ProgramArray, x: ProgramArray, gradient: ProgramArray, squares: ProgramArray
    ) -> tuple[ProgramArray, ...]:
        gradient = norm * x + gradient
        squares = squares + gradient * gradient
        return x - rate / (1 + count * decay) * gradient / (_root(squares) + node.attr("epsilon", 1e-6)), squares

    return _stepped(node, 3, step)


@reads("Adam", domain=DOMAIN)
def _adam(node: NodeImporter) -> tuple[Imported | None, ...]:
    norm, norm_after = node.attr("norm_coefficient", 0.0), node.attr("norm_coefficient_post", 0.0)
    alpha, beta = node.attr("alpha", 0.9), node.attr("beta", 0.999)

    def step(
        rate: ProgramArray,
        count: ProgramArray,
        x: ProgramArray,
        gradient: ProgramArray,
        moment: ProgramArray,
        squares: ProgramArray,
    ) -> tuple[ProgramArray, ...]:
        gradient = norm * x + gradient
        moment = alpha * moment + (1 - alpha) * gradient
        squares = beta * squares + (1 - beta) * (gradient * gradient)
        rate = _later(count, rate * _root(1 - beta**count) / (1 - alpha**count), rate)
        stepped = x - rate * (moment / (_root(squares) + node.attr("epsilon", 1e-6)))
        return (1 - norm_after) * stepped, moment, squares

    return _stepped(node, 4, step)


@reads("Momentum", domain=DOMAIN)
def _momentum(node: NodeImporter) -> tuple[Imported | None, ...]:
    norm, alpha, beta = (node.attr(name, 0.0) for name in ("norm_coefficient", "alpha", "beta"))
    is_nesterov = node.attr("mode", "standard") == "nesterov"

    def step(
        rate: ProgramArray, count: ProgramArray, x: ProgramArray, gradient: ProgramArray, moment: ProgramArray
    ) -> tuple[ProgramArray, ...]:
        gradient = norm * x + gradient
        moment = alpha * moment + _later(count, beta * gradient, gradient)
        return x - rate * (gradient + alpha * moment if is_nesterov else moment), moment

    return _stepped(node, 3, step)

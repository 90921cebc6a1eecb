"""Holding gradients against two independent oracles: central differences, and PyTorch's autograd.

A gradient rule is tried on a program ``loss = Σ weights · outputs`` with weights that are all different, so that no
adjoint is uniform. `check_gradient` compares what `Gradient` makes of it, run on the NumPy engine in float64, with both
oracles, for every element of every floating input; `check_second_order` does so for the gradient of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import regraft as rx
from regraft.analysis import well_formed
from regraft.gradient import Gradient
from regraft.ir import BlockBuilder, Expr, IRModule, TensorType, TupleType, Type, Var
from regraft.script import relax as R

Build = Callable[..., Any]
STEP = 1e-5


def numbers(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """Random float64 numbers, the same in every run."""
    return np.asarray(np.random.default_rng([seed, len(shape), *shape]).uniform(low, high, shape))


def apart(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers from -2 to 2, no two of them closer than a finite difference can tell."""
    count = int(np.prod(shape))
    places = np.random.default_rng([seed, count]).permutation(count)
    return (np.linspace(-2.0, 2.0, count + 2)[1:-1][places] + 0.013).reshape(shape)


def weights(shape: Sequence[int]) -> np.ndarray:
    """The weights of a loss over an output of ``shape``: from 0.5 to 1.5, all different."""
    return np.asarray(np.random.default_rng([7, *shape]).uniform(0.5, 1.5, tuple(shape)))


def loss_module(build: Build, arrays: Sequence[np.ndarray], types: Sequence[Type] | None = None) -> IRModule:
    """A module whose ``main`` computes the weighted sum of the floating outputs of ``build(*params)``.

    Outputs must have known ranks; the weights of an output of unknown sizes are all 1.
    """
    kinds = types or [TensorType(array.shape, array.dtype.name) for array in arrays]
    params = [Var(f"x{i}", kind) for i, kind in enumerate(kinds)]
    builder = BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            output = builder.emit(build(*params))
            loss = builder.emit_output(weighted_sum(builder, [output]))
        builder.emit_func_output(loss)
    module = builder.get()
    well_formed(module)
    return module


def weighted_sum(builder: BlockBuilder, outputs: Sequence[Expr]) -> Expr:
    total: Expr | None = None
    pending = list(outputs)
    while pending:
        output = pending.pop(0)
        if isinstance(output.ty, TupleType):
            pending[:0] = [builder.emit(output[i]) for i in range(len(output.ty.fields))]
        elif isinstance(output.ty, TensorType) and output.ty.dtype == "float64":
            dims = output.ty.shape
            if dims is not None and all(isinstance(dim, int) for dim in dims):
                output = R.multiply(output, R.const(weights(dims), "float64"))
            term = R.sum(output)
            total = term if total is None else R.add(total, term)
    assert total is not None, "the program has no float64 output"
    return total


def second_order_module(module: IRModule) -> IRModule:
    """A module whose ``main`` computes the weighted sum of all gradients of ``module``'s ``main``."""
    adjoint = Gradient("main")(module)["main_adjoint"]
    (block,) = adjoint.body.blocks
    builder = BlockBuilder()
    with builder.function("main", adjoint.params):
        with builder.dataflow():
            for binding in block:
                builder.emit_normalized(binding)
            loss = builder.emit_output(weighted_sum(builder, [adjoint.body.body[1]]))
        builder.emit_func_output(loss)
    return builder.get()


def run(module: IRModule, name: str, arrays: Sequence[np.ndarray]) -> Any:
    """The result of the function ``name`` on the NumPy engine."""
    return rx.build(module, target="numpy")[name](*arrays)


def gradients(module: IRModule, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The gradients of ``main`` with respect to all floating parameters."""
    after = Gradient("main")(module)
    well_formed(after)
    _, found = run(after, "main_adjoint", arrays)
    arrays = [np.asarray(gradient) for gradient in found]
    return [gradient for gradient in arrays if gradient.dtype.kind not in "iub"]


def central_differences(module: IRModule, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The gradients of ``main`` with respect to all floating parameters, from its values alone."""
    main = rx.build(module, target="numpy")["main"]
    found: list[np.ndarray] = []
    for number, array in enumerate(arrays):
        if array.dtype.kind != "f":
            continue
        slope = np.zeros(array.shape)
        for place in np.ndindex(array.shape):
            sides: list[float] = []
            for step in (STEP, -STEP):
                moved = array.copy()
                moved[place] += step
                sides.append(float(np.asarray(main(*arrays[:number], moved, *arrays[number + 1 :]))))
            slope[place] = (sides[0] - sides[1]) / (2 * STEP)
        found.append(slope)
    return found


def torch_gradients(
    function: Callable[..., Any], arrays: Sequence[np.ndarray], *, second_order: bool = False
) -> list[np.ndarray]:
    """PyTorch's gradients of the weighted sum of ``function``'s outputs, or of that of the gradients themselves."""
    tensors = [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in arrays]
    floating = [tensor for tensor in tensors if tensor.requires_grad]
    loss = _torch_sum(function(*tensors))
    if second_order:
        first = torch.autograd.grad(loss, floating, create_graph=True, materialize_grads=True)
        loss = _torch_sum(first)
    if not loss.requires_grad:
        return [np.zeros(tensor.shape) for tensor in floating]
    found = torch.autograd.grad(loss, floating, materialize_grads=True)
    return [gradient.detach().numpy(force=True) for gradient in found]


def _torch_sum(outputs: Any) -> torch.Tensor:
    items = outputs if isinstance(outputs, tuple | list) else [outputs]
    terms = [(item * torch.tensor(weights(item.shape))).sum() for item in items if item.dtype == torch.float64]
    return torch.stack(terms).sum()


def check_gradient(
    build: Build,
    *arrays: np.ndarray,
    reference: Callable[..., Any] | None = None,
    differences: bool = True,
    types: Sequence[Type] | None = None,
    rtol: float = 1e-6,
    atol: float = 1e-7,
) -> None:
    """Hold the gradients of ``build`` at ``arrays`` (float64, or integers) against both oracles.

    ``reference`` is the same function of PyTorch tensors; ``differences=False`` leaves out central differences, for
    points where the function has a kink.
    """
    module = loss_module(build, arrays, types)
    found = gradients(module, arrays)
    floating = [array for array in arrays if array.dtype.kind == "f"]
    assert [gradient.shape for gradient in found] == [array.shape for array in floating]
    assert all(gradient.dtype == np.float64 for gradient in found)
    if differences:
        _assert_all_close(found, central_differences(module, arrays), rtol, atol, "central differences")
    if reference is not None:
        _assert_all_close(found, torch_gradients(reference, arrays), rtol / 10, atol / 10, "PyTorch")


def check_second_order(
    build: Build, *arrays: np.ndarray, reference: Callable[..., Any] | None = None, differences: bool = True
) -> None:
    """Hold the gradient of the gradient of ``build`` at ``arrays`` against both oracles."""
    module = second_order_module(loss_module(build, arrays))
    found = gradients(module, arrays)
    if differences:
        _assert_all_close(found, central_differences(module, arrays), 1e-5, 1e-6, "central differences")
    if reference is not None:
        expected = torch_gradients(reference, arrays, second_order=True)
        _assert_all_close(found, expected, 1e-7, 1e-8, "PyTorch")


def _assert_all_close(
    found: Sequence[np.ndarray], expected: Sequence[np.ndarray], rtol: float, atol: float, oracle: str
) -> None:
    for number, (got, want) in enumerate(zip(found, expected, strict=True)):
        message = f"gradient {number} is not what {oracle} finds"
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=message)

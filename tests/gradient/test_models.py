"""Whole models: the loss and the gradient of every parameter are those that PyTorch's autograd finds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

import regraft as rx
from regraft.analysis import well_formed
from regraft.formats.torch import from_torch
from regraft.gradient import Gradient
from tests.gradient.models import MODELS

TOLERANCE = {"float64": 1e-10, "float32": 2e-4}


@pytest.mark.parametrize(("name", "dtype", "target"), list(product(MODELS, TOLERANCE, ("numpy", "onnxruntime"))))
def test_every_parameter_of_a_model_gets_the_gradient_that_pytorch_finds(name: str, dtype: str, target: str) -> None:
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    model = MODELS[name]().to(kind).eval()
    inputs = [x.to(kind) if x.is_floating_point() else x for x in MODELS[name].inputs()]
    module = from_torch(model, tuple(inputs), keep_params_as_input=True)
    main = module["main"]
    given = main.params[main.attrs["num_input"] :]
    state = model.state_dict(keep_vars=True)
    values = [state_value(state, param.name_hint) for param in given]
    required = [param for param, value in zip(given, values, strict=True) if value.requires_grad]
    assert len(required) == len(list(model.parameters()))

    after = Gradient("main", required)(module)
    well_formed(after)
    arrays = [value.detach().numpy() for value in [*inputs, *values]]
    result, found = rx.build(after, target=target)["main_adjoint"](*arrays)

    loss = model(*inputs)
    loss.backward()
    found_loss = result[0] if isinstance(result, tuple) else result
    np.testing.assert_allclose(found_loss, loss.detach(), rtol=TOLERANCE[dtype])
    expected = [value.grad.numpy() for value in values if value.requires_grad]
    # What is small beside the greatest gradient of the model is noise to an optimizer, and rounding here.
    greatest = max(np.abs(gradient).max() for gradient in expected)
    for param, got, want in zip(required, found, expected, strict=True):
        assert got.dtype == want.dtype
        scale = max(np.abs(want).max(), 1e-3 * greatest)
        np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=TOLERANCE[dtype], err_msg=param.name_hint)


def state_value(state: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    """The tensor of a model's state that a parameter of the program stands for, by its name in either spelling."""
    by_name = {key.replace(".", "_"): value for key, value in state.items()}
    for spelling in (name, name.replace(".", "_"), name.removeprefix("p_").removeprefix("b_")):
        if spelling in by_name:
            return by_name[spelling]
    raise AssertionError(f"no tensor of the state is called {name}; there are {', '.join(state)}")

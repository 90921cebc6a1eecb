"""Models of transformers and diffusers, at full depth, on XLA: PyTorch's own values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("diffusers")

import torch

from bench import models
from regraft.run import build
from tests.op.on_xla import OPTIONS

MODELS = (
    models.stable_diffusion_15,
    models.bert,
    models.gpt_neo,
    models.llama,
    models.t5_encoder,
    models.vit,
    models.parallel_heads,
)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_a_model_computes_what_pytorch_computes(make: Any) -> None:
    torch.manual_seed(0)
    model = make()
    model.module.eval()
    with torch.no_grad():
        expected = model.module(*model.args, **model.kwargs)[0].numpy()
    found = build(model.program(), target="xla", compiler_options=OPTIONS)["main"](*model.inputs())
    first = found[0] if isinstance(found, tuple) else found
    np.testing.assert_allclose(np.asarray(first), expected, rtol=0, atol=2e-5 * np.abs(expected).max())

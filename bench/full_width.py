"""Published models at their full width, without weights: every size is the published one, but there are no numbers.

Modules are built and exported on PyTorch's meta device, on which tensors have shapes only; their weights are parameters
of the program. So Stable Diffusion XL, 10 GB of weights, is read in seconds on any machine. Configurations are the
published ones; nothing is downloaded. Needs torch, transformers and diffusers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from torch import nn

from bench.models import Model, parallel_heads
from regraft.ir import IRModule

BATCH: Final = 2
TOKENS: Final = 77


def _unet(latent: int, text_width: int, **config: Any) -> Model:
    from diffusers import UNet2DConditionModel

    unet = UNet2DConditionModel(sample_size=latent, cross_attention_dim=text_width, **config)
    latents = torch.randn(BATCH, 4, latent, latent)
    return Model(unet, (latents, torch.tensor(7), torch.randn(BATCH, TOKENS, text_width)))


def stable_diffusion_15() -> Model:
    """The UNet of Stable Diffusion 1.5: 860 million weights."""
    return _unet(64, 768, block_out_channels=(320, 640, 1280, 1280), attention_head_dim=8)


def stable_diffusion_21() -> Model:
    """The UNet of Stable Diffusion 2.1: linear projections around attention, heads of 64."""
    heads = {"attention_head_dim": (5, 10, 20, 20), "use_linear_projection": True}
    return _unet(96, 1024, block_out_channels=(320, 640, 1280, 1280), **heads)


def stable_diffusion_xl() -> Model:
    """The UNet of Stable Diffusion XL: 1, 2 and 10 transformer blocks in each block of attention."""
    unet = _unet(
        128,
        2048,
        block_out_channels=(320, 640, 1280),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2, 10),
        attention_head_dim=(5, 10, 20),
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=2816,
    )
    condition = {"text_embeds": torch.randn(BATCH, 1280), "time_ids": torch.randn(BATCH, 6)}
    return replace(unet, kwargs={"added_cond_kwargs": condition})


def _ids() -> torch.Tensor:
    return torch.ones(BATCH, TOKENS, dtype=torch.int64)


def bert() -> Model:
    """BERT base, uncased."""
    from transformers import BertConfig, BertModel

    return Model(BertModel(BertConfig()), (_ids(),), {"attention_mask": _ids()})


def gpt_neo() -> Model:
    """GPT-Neo 125M, which is GPT-2 with separate matrices for queries, keys and values."""
    from transformers import GPTNeoConfig, GPTNeoModel

    layers = [[["global", "local"], 6]]
    config = GPTNeoConfig(hidden_size=768, num_layers=12, num_heads=12, attention_types=layers, use_cache=False)
    return Model(GPTNeoModel(config), (_ids(),))


def llama() -> Model:
    """Llama 3.2 1B: each key shared by four heads, and a gated feed-forward part."""
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=131072,
        use_cache=False,
    )
    return Model(LlamaModel(config), (_ids(),))


def t5_encoder() -> Model:
    """The encoder of T5 base: positions as a bias of the scores."""
    from transformers import T5Config, T5EncoderModel

    config = T5Config(d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12, use_cache=False)
    return Model(T5EncoderModel(config), (_ids(),))


def vit() -> Model:
    """ViT base on patches of 16 by 16 pixels."""
    from transformers import ViTConfig, ViTModel

    return Model(ViTModel(ViTConfig()), (torch.randn(BATCH, 3, 224, 224),))


PUBLISHED: Final[dict[str, Callable[[], Model]]] = {
    "Stable Diffusion 1.5 UNet": stable_diffusion_15,
    "Stable Diffusion 2.1 UNet": stable_diffusion_21,
    "Stable Diffusion XL UNet": stable_diffusion_xl,
    "BERT base": bert,
    "GPT-Neo 125M (GPT-2, separate QKV)": gpt_neo,
    "Llama 3.2 1B": llama,
    "T5 base encoder": t5_encoder,
    "ViT base": vit,
    "MLP with 32 heads": parallel_heads,
}
"""The models, by name."""


def make(name: str) -> Model:
    """One of `PUBLISHED` on the meta device."""
    with torch.device("meta"):
        model = PUBLISHED[name]()
    model.module.eval()
    return model


def weights(module: nn.Module) -> int:
    """The number of elements in the parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


def program(name: str) -> IRModule:
    """One of `PUBLISHED` as a program; its weights are parameters of ``main``, after the inputs."""
    return make(name).program(weights=True)

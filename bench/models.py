"""Models from PyTorch as people build them, with random weights: full depth, so that counts are the real ones.

`WIDTH` is their width: narrow models have the same operators as the published ones, and run anywhere. Needs
torch, transformers and diffusers; nothing is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, Final

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from torch import nn

import regraft as rx
from regraft.ir import IRModule

TOKENS: Final = 11


@dataclass(frozen=True, slots=True)
class Model:
    """A module in eval mode and example inputs for it."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def inputs(self) -> list[Any]:
        """The example inputs as arrays, in the order in which the program takes them."""
        leaves = torch.utils._pytree.tree_leaves((self.args, self.kwargs))
        return [leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def program(self, *, weights: bool = False) -> IRModule:
        """The module as a program; its weights are constants, or parameters if ``weights``."""
        with redirect_stderr(StringIO()):
            return rx.from_torch(self.module, self.args, self.kwargs, keep_params_as_input=weights)


def _unet(**config: Any) -> nn.Module:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(sample_size=8, norm_num_groups=8, **config)


def _latents(tokens: int, width: int) -> tuple[Any, ...]:
    return torch.randn(2, 4, 8, 8), torch.tensor(7), torch.randn(2, tokens, width)


def stable_diffusion_15(scale: int = 1) -> Model:
    """The UNet of Stable Diffusion 1.5: 16 blocks of attention, 8 heads (``scale=10``: full width)."""
    widths = tuple(w * scale for w in (32, 64, 128, 128))
    unet = _unet(block_out_channels=widths, cross_attention_dim=24, attention_head_dim=8)
    return Model(unet, _latents(TOKENS, 24))


def stable_diffusion_21() -> Model:
    """The UNet of Stable Diffusion 2.1: linear projections around attention, 5 to 20 heads."""
    unet = _unet(
        block_out_channels=(40, 80, 160, 160),
        cross_attention_dim=24,
        attention_head_dim=(5, 10, 20, 20),
        use_linear_projection=True,
    )
    return Model(unet, _latents(TOKENS, 24))


def stable_diffusion_xl() -> Model:
    """The UNet of Stable Diffusion XL: 1, 2 and 10 transformer blocks in each block of attention."""
    unet = _unet(
        block_out_channels=(40, 80, 160),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2, 10),
        cross_attention_dim=24,
        attention_head_dim=(5, 10, 20),
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=64,
    )
    condition = {"text_embeds": torch.randn(2, 16), "time_ids": torch.randn(2, 6)}
    return Model(unet, _latents(TOKENS, 24), {"added_cond_kwargs": condition})


def _ids() -> torch.Tensor:
    return torch.arange(2 * TOKENS).reshape(2, TOKENS)


def bert(attention: str = "sdpa", width: int = 48, tokens: int = TOKENS) -> Model:
    """The encoder of BERT base: 12 layers."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=max(64, 2 * tokens),
        hidden_size=width,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=4 * width,
        attn_implementation=attention,
    )
    ids = torch.arange(2 * tokens).reshape(2, tokens)
    return Model(BertModel(config), (ids,), {"attention_mask": torch.ones_like(ids)})


def gpt_neo(attention: str = "eager") -> Model:
    """GPT-Neo 125M, which is GPT-2 with separate matrices for queries, keys and values: 12 layers."""
    from transformers import GPTNeoConfig, GPTNeoModel

    config = GPTNeoConfig(
        vocab_size=64,
        max_position_embeddings=64,
        hidden_size=48,
        num_layers=12,
        attention_types=[[["global"], 12]],
        num_heads=12,
        use_cache=False,
        attn_implementation=attention,
        bos_token_id=0,
        eos_token_id=0,
    )
    return Model(GPTNeoModel(config), (_ids(),))


def llama(attention: str = "sdpa") -> Model:
    """Llama 3.2 1B: 16 layers, each key shared by four heads, and a gated feed-forward part."""
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        num_hidden_layers=16,
        num_attention_heads=8,
        num_key_value_heads=2,
        intermediate_size=96,
        use_cache=False,
        attn_implementation=attention,
    )
    return Model(LlamaModel(config), (_ids(),))


def t5_encoder(attention: str = "sdpa") -> Model:
    """The encoder of T5 base: 12 layers, positions as a bias of the scores."""
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=64,
        d_model=48,
        d_kv=4,
        d_ff=96,
        num_layers=12,
        num_heads=12,
        use_cache=False,
        attn_implementation=attention,
    )
    return Model(T5EncoderModel(config), (_ids(),))


def vit(attention: str = "sdpa", width: int = 48) -> Model:
    """ViT base: 12 layers on patches of an image."""
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=width,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=4 * width,
        image_size=32,
        patch_size=8,
        attn_implementation=attention,
    )
    return Model(ViTModel(config), (torch.randn(2, 3, 32, 32),))


class ParallelHeads(nn.Module):
    """A network of two layers, followed by ``heads`` small linear heads on their result."""

    def __init__(self, width: int = 256, heads: int = 32, outputs: int = 16) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(width, outputs) for _ in range(heads))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """The outputs of all heads."""
        shared = self.tower(x)
        return [head(shared) for head in self.heads]


def parallel_heads() -> Model:
    """An MLP tower with 32 parallel heads, at batch 1."""
    return Model(ParallelHeads(), (torch.randn(1, 256),))


MODELS: Final[dict[str, Callable[[], Model]]] = {
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
"""The models of the tables, by name."""

ATTENTION_MODELS: Final[dict[str, Callable[[str], Model]]] = {
    "BERT base": bert,
    "GPT-Neo 125M (GPT-2, separate QKV)": gpt_neo,
    "Llama 3.2 1B": llama,
    "T5 base encoder": t5_encoder,
    "ViT base": vit,
}
"""The models that can write attention out. The argument is "eager", or "sdpa" for PyTorch's operator."""


def make(name: str) -> Model:
    """One of `MODELS`, with the same weights and inputs each time."""
    torch.manual_seed(0)
    model = MODELS[name]()
    model.module.eval()
    return model

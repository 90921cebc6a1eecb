"""Real architectures from their configurations: full depth, tiny width, seeded weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch


@dataclass
class Example:
    """A model in eval mode and inputs for it."""

    model: torch.nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


def _tokens(batch: int = 2, length: int = 7) -> torch.Tensor:
    return torch.randint(0, 50, (batch, length))


def _text(batch: int = 2, length: int = 7) -> dict[str, torch.Tensor]:
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, -2:] = 0
    return {"input_ids": _tokens(batch, length), "attention_mask": mask}


_WIDTH: dict[str, Any] = {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 32}
_VISION: dict[str, Any] = {**_WIDTH, "num_hidden_layers": 12, "image_size": 32, "patch_size": 8}
_QUIET: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}


def bert() -> Example:
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=50, num_hidden_layers=12, max_position_embeddings=32, **_WIDTH)
    return Example(BertModel(config), kwargs=_text())


def gpt2() -> Example:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=50, n_positions=32, n_embd=16, n_layer=12, n_head=4, use_cache=False, **_QUIET)
    return Example(GPT2LMHeadModel(config), kwargs={"input_ids": _tokens()})


def llama() -> Example:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=50, num_hidden_layers=4, num_key_value_heads=2, max_position_embeddings=64, use_cache=False, **_WIDTH
    )
    return Example(LlamaForCausalLM(config), kwargs=_text())


def t5_encoder() -> Example:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=50, d_model=16, d_kv=4, d_ff=32, num_layers=6, num_heads=4)
    return Example(T5EncoderModel(config), kwargs={"input_ids": _tokens()})


def clip_text() -> Example:
    from transformers import CLIPTextConfig, CLIPTextModel

    config = CLIPTextConfig(vocab_size=50, num_hidden_layers=12, max_position_embeddings=16, **_WIDTH, **_QUIET)
    return Example(CLIPTextModel(config), kwargs={"input_ids": _tokens()})


def clip_vision() -> Example:
    from transformers import CLIPVisionConfig, CLIPVisionModel

    return Example(CLIPVisionModel(CLIPVisionConfig(**_VISION)), kwargs={"pixel_values": torch.randn(2, 3, 32, 32)})


def vit() -> Example:
    from transformers import ViTConfig, ViTModel

    return Example(ViTModel(ViTConfig(**_VISION)), kwargs={"pixel_values": torch.randn(2, 3, 32, 32)})


def resnet() -> Example:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[3, 4, 6, 3])
    return Example(ResNetForImageClassification(config), kwargs={"pixel_values": torch.randn(2, 3, 64, 64)})


def mobilenet() -> Example:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(depth_multiplier=0.25, image_size=64, min_depth=4)
    return Example(MobileNetV2ForImageClassification(config), kwargs={"pixel_values": torch.randn(2, 3, 64, 64)})


def whisper_encoder() -> Example:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        vocab_size=50, num_mel_bins=8, d_model=16, encoder_layers=4, encoder_attention_heads=4, encoder_ffn_dim=32,
        max_source_positions=20, decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=32,
        decoder_start_token_id=0, **_QUIET,
    )  # fmt: skip
    return Example(WhisperEncoder(config), (torch.randn(2, 8, 40),))


def unet() -> Example:
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=16, block_out_channels=(8, 16, 24, 24), cross_attention_dim=12, attention_head_dim=4,
        norm_num_groups=4,
    )  # fmt: skip
    return Example(model, (torch.randn(2, 4, 16, 16), torch.tensor([3, 7]), torch.randn(2, 5, 12)))


class _Decoder(torch.nn.Module):
    def __init__(self, vae: torch.nn.Module) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        return self.vae.decode(latent).sample


def vae_decoder() -> Example:
    from diffusers import AutoencoderKL

    vae = AutoencoderKL(
        block_out_channels=(8, 8, 16, 16), down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4, layers_per_block=2, latent_channels=4, norm_num_groups=4,
        sample_size=32,
    )  # fmt: skip
    return Example(_Decoder(vae), (torch.randn(2, 4, 4, 4),))


MODELS: dict[str, Callable[[], Example]] = {
    make.__name__: make
    for make in (
        bert, gpt2, llama, t5_encoder, clip_text, clip_vision, vit, resnet, mobilenet, whisper_encoder, unet,
        vae_decoder,
    )
}  # fmt: skip


@cache
def example(name: str) -> Example:
    """The model of that name; vectors such as biases are random, where a fresh model has zeros and ones."""
    torch.manual_seed(0)
    made = MODELS[name]()
    with torch.no_grad():
        for parameter in made.model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    made.model.eval()
    return made

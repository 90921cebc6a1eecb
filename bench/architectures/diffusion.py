"""Architectures of diffusion models: the networks that remove noise, and those that turn latents into pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from .model import Architecture, Example, Method, from_diffusers


def _time() -> torch.Tensor:
    return torch.tensor([3])


def _of(name: str, model: str, inputs: Any, /, **config: Any) -> Architecture:
    return Architecture(name, from_diffusers(model, config, inputs))


def _part(name: str, model: str, forward: Callable[..., Any], inputs: Any, /, **config: Any) -> Architecture:
    whole = from_diffusers(model, config, inputs)

    def build() -> Example:
        made = whole()
        return Example(Method(made.module, forward), made.args)

    return Architecture(name, build)


_VAE: Final[dict[str, Any]] = {
    "block_out_channels": (8, 16), "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2, "layers_per_block": 1, "latent_channels": 4, "norm_num_groups": 4,
    "sample_size": 16,
}  # fmt: skip
_CROSS: Final[dict[str, Any]] = {
    "block_out_channels": (8, 16), "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "layers_per_block": 1, "cross_attention_dim": 12, "attention_head_dim": 4, "norm_num_groups": 4,
}  # fmt: skip


def _latent(channels: int = 4, size: int = 8) -> torch.Tensor:
    return torch.randn(1, channels, size, size)


def _conditioned() -> tuple[Any, ...]:
    return _latent(), _time(), torch.randn(1, 5, 12)


def _moments(vae: Any, x: torch.Tensor) -> Any:
    return vae.encode(x).latent_dist.parameters


def _decoded(vae: Any, z: torch.Tensor) -> Any:
    return vae.decode(z).sample


DIFFUSION: Final = (
    _of("UNet with cross-attention (Stable Diffusion)", "UNet2DConditionModel", _conditioned, sample_size=8,
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), **_CROSS),
    _of("UNet without text (DDPM)", "UNet2DModel", lambda: (_latent(3, 16), _time()), sample_size=16,
        block_out_channels=(8, 16), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), layers_per_block=1, norm_num_groups=4, attention_head_dim=4),
    _of("UNet of one dimension (Dance Diffusion)", "UNet1DModel", lambda: (torch.randn(1, 2, 64), _time()),
        sample_size=64, in_channels=2, out_channels=2, extra_in_channels=64, time_embedding_type="fourier",
        flip_sin_to_cos=True, use_timestep_embedding=False, block_out_channels=(32, 32, 64),
        down_block_types=("DownBlock1DNoSkip", "DownBlock1D", "AttnDownBlock1D"), mid_block_type="UNetMidBlock1D",
        up_block_types=("AttnUpBlock1D", "UpBlock1D", "UpBlock1DNoSkip")),
    _of("UNet of three dimensions (text to video)", "UNet3DConditionModel",
        lambda: (torch.randn(1, 4, 2, 8, 8), _time(), torch.randn(1, 5, 12)), sample_size=8,
        block_out_channels=(8, 16), down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
        up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"), layers_per_block=1, norm_num_groups=4,
        cross_attention_dim=12, attention_head_dim=4),
    _of("UNet of space and time (Stable Video Diffusion)", "UNetSpatioTemporalConditionModel",
        lambda: (torch.randn(1, 2, 8, 8, 8), _time(), torch.randn(1, 1, 12), torch.tensor([[6.0, 127.0, 0.02]])),
        sample_size=8, in_channels=8, out_channels=4, block_out_channels=(32, 64), layers_per_block=1,
        down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
        up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"), cross_attention_dim=12,
        num_attention_heads=(2, 4), projection_class_embeddings_input_dim=96, addition_time_embed_dim=32, num_frames=2),
    _of("UNet of Kandinsky 3", "Kandinsky3UNet", lambda: (_latent(), _time(), torch.randn(1, 5, 12), torch.ones(1, 5)),
        encoder_hid_dim=12, attention_head_dim=16, cross_attention_dim=16, time_embedding_dim=32, groups=8,
        block_out_channels=(32, 32, 64, 64), layers_per_block=2),
    _of("UVit (aMUSEd)", "UVit2DModel",
        lambda: (torch.randint(0, 20, (1, 8, 8)), torch.randn(1, 5, 12), torch.randn(1, 16), torch.rand(1, 5)),
        hidden_size=32, cond_embed_dim=16, micro_cond_encode_dim=8, micro_cond_embed_dim=40, encoder_hidden_size=12,
        vocab_size=20, codebook_size=16, in_channels=32, block_out_channels=32, num_res_blocks=1, block_num_heads=4,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, sample_size=8),
    _of("ControlNet", "ControlNetModel", lambda: (*_conditioned(), torch.randn(1, 3, 64, 64)),
        conditioning_embedding_out_channels=(8, 8, 8, 8), **_CROSS),
    _of("T2I-Adapter", "T2IAdapter", lambda: (torch.randn(1, 3, 64, 64),), in_channels=3, channels=[8, 16, 16, 16],
        num_res_blocks=1, downscale_factor=8),
    _part("Autoencoder (encoder)", "AutoencoderKL", _moments, lambda: (torch.randn(1, 3, 16, 16),), **_VAE),
    _part("Autoencoder (decoder)", "AutoencoderKL", _decoded, lambda: (torch.randn(1, 4, 8, 8),), **_VAE),
    _of("Autoencoder with asymmetric decoder", "AsymmetricAutoencoderKL", lambda: (torch.randn(1, 3, 16, 16),),
        down_block_types=("DownEncoderBlock2D",) * 2, down_block_out_channels=(8, 16), layers_per_down_block=1,
        up_block_types=("UpDecoderBlock2D",) * 2, up_block_out_channels=(8, 16), layers_per_up_block=1,
        norm_num_groups=4, sample_size=16),
    _of("Tiny autoencoder", "AutoencoderTiny", lambda: (torch.randn(1, 3, 16, 16),), encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 2), num_decoder_blocks=(2, 1)),
    _of("VQ autoencoder", "VQModel", lambda: (torch.randn(1, 3, 16, 16),),
        block_out_channels=(8, 16), down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=3, num_vq_embeddings=16, norm_num_groups=4,
        sample_size=16),
    _part("Deep compression autoencoder (encoder)", "AutoencoderDC", lambda dc, x: dc.encode(x).latent,
          lambda: (torch.randn(1, 3, 32, 32),), latent_channels=4, attention_head_dim=4,
          encoder_block_types=("ResBlock", "EfficientViTBlock"), decoder_block_types=("ResBlock", "EfficientViTBlock"),
          encoder_block_out_channels=(8, 16), decoder_block_out_channels=(8, 16), encoder_layers_per_block=(1, 1),
          decoder_layers_per_block=(1, 1), encoder_qkv_multiscales=((), (5,)), decoder_qkv_multiscales=((), (5,)),
          upsample_block_type="interpolate", downsample_block_type="stride_conv", decoder_norm_types="rms_norm"),
    _of("Autoencoder over time (Stable Video Diffusion)", "AutoencoderKLTemporalDecoder",
        lambda: {"sample": torch.randn(2, 3, 16, 16), "num_frames": 2}, block_out_channels=(32, 32),
        down_block_types=("DownEncoderBlock2D",) * 2, layers_per_block=1, sample_size=16),
    _of("Audio autoencoder (Oobleck)", "AutoencoderOobleck", lambda: (torch.randn(1, 2, 64),), encoder_hidden_size=8,
        downsampling_ratios=[2, 4], decoder_channels=8, decoder_input_channels=4, channel_multiples=[1, 2]),
    _of("DiT", "DiTTransformer2DModel", lambda: {"hidden_states": _latent(), "timestep": _time(),
                                                 "class_labels": torch.tensor([1])},
        num_attention_heads=4, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2, sample_size=8,
        patch_size=2, num_embeds_ada_norm=10),
    _of("PixArt", "PixArtTransformer2DModel",
        lambda: {"hidden_states": _latent(), "timestep": _time(), "encoder_hidden_states": torch.randn(1, 5, 12),
                 "added_cond_kwargs": {"resolution": None, "aspect_ratio": None}},
        num_attention_heads=4, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2, sample_size=8,
        patch_size=2, cross_attention_dim=32, caption_channels=12, use_additional_conditions=False),
    _of("Transformer over latents (2D)", "Transformer2DModel",
        lambda: {"hidden_states": _latent(8), "encoder_hidden_states": torch.randn(1, 5, 12)},
        num_attention_heads=2, attention_head_dim=4, in_channels=8, num_layers=1, norm_num_groups=4,
        cross_attention_dim=12),
    _of("Stable Diffusion 3", "SD3Transformer2DModel",
        lambda: (_latent(), torch.randn(1, 5, 12), torch.randn(1, 16), _time()), sample_size=8, patch_size=2,
        in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4, joint_attention_dim=12,
        caption_projection_dim=32, pooled_projection_dim=16, out_channels=4, pos_embed_max_size=8),
    _of("Flux", "FluxTransformer2DModel",
        lambda: {"hidden_states": torch.randn(1, 6, 4), "encoder_hidden_states": torch.randn(1, 5, 12),
                 "pooled_projections": torch.randn(1, 16), "timestep": torch.tensor([0.5]),
                 "img_ids": torch.rand(6, 3), "txt_ids": torch.zeros(5, 3), "guidance": torch.tensor([3.5])},
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=12, pooled_projection_dim=16, guidance_embeds=True, axes_dims_rope=(4, 4, 8)),
    _of("AuraFlow", "AuraFlowTransformer2DModel",
        lambda: (_latent(), torch.randn(1, 5, 12), torch.tensor([0.5])), sample_size=8, patch_size=2, in_channels=4,
        num_mmdit_layers=1, num_single_dit_layers=1, attention_head_dim=8, num_attention_heads=4,
        joint_attention_dim=12, caption_projection_dim=32, out_channels=4, pos_embed_max_size=16),
    _of("Sana", "SanaTransformer2DModel", lambda: (_latent(), torch.randn(1, 5, 12), _time()), in_channels=4,
        out_channels=4, num_attention_heads=4, attention_head_dim=8, num_layers=2, num_cross_attention_heads=4,
        cross_attention_head_dim=8, cross_attention_dim=32, caption_channels=12, sample_size=8, patch_size=1),
    _of("CogVideoX", "CogVideoXTransformer3DModel",
        lambda: (torch.randn(1, 2, 4, 8, 8), torch.randn(1, 5, 12), _time()), num_attention_heads=2,
        attention_head_dim=16, in_channels=4, out_channels=4, time_embed_dim=8, text_embed_dim=12, num_layers=1,
        sample_width=8, sample_height=8, sample_frames=5, patch_size=2, temporal_compression_ratio=4,
        max_text_seq_length=5),
    _of("Wan", "WanTransformer3DModel", lambda: (torch.randn(1, 4, 2, 8, 8), _time(), torch.randn(1, 5, 12)),
        patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4, text_dim=12,
        freq_dim=16, ffn_dim=32, num_layers=2, cross_attn_norm=True, qk_norm="rms_norm_across_heads",
        rope_max_seq_len=32),
    _of("LTX-Video", "LTXVideoTransformer3DModel",
        lambda: {"hidden_states": torch.randn(1, 8, 4), "encoder_hidden_states": torch.randn(1, 5, 12),
                 "timestep": torch.tensor([[500]]), "encoder_attention_mask": torch.ones(1, 5), "num_frames": 2,
                 "height": 2, "width": 2},
        in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=8, cross_attention_dim=16,
        num_layers=1, caption_channels=12),
    _of("Latte", "LatteTransformer3DModel",
        lambda: (torch.randn(1, 4, 2, 8, 8), _time(), torch.randn(1, 5, 12)), sample_size=8, num_layers=1,
        patch_size=2, attention_head_dim=8, num_attention_heads=4, caption_channels=12, in_channels=4,
        cross_attention_dim=32, out_channels=8, attention_bias=True, activation_fn="gelu-approximate",
        norm_type="ada_norm_single", norm_elementwise_affine=False, num_embeds_ada_norm=10, video_length=2),
    _of("Prior of DALL-E 2", "PriorTransformer",
        lambda: (torch.randn(1, 16), _time(), torch.randn(1, 16), torch.randn(1, 5, 16)), num_attention_heads=2,
        attention_head_dim=8, num_layers=2, embedding_dim=16, num_embeddings=5, additional_embeddings=4),
    _of("Stable Audio", "StableAudioDiTModel",
        lambda: (torch.randn(1, 4, 8), torch.tensor([0.5]), torch.randn(1, 5, 12), torch.randn(1, 1, 16)),
        sample_size=8, in_channels=4, num_layers=1, attention_head_dim=16, num_attention_heads=2,
        num_key_value_attention_heads=1, out_channels=4, cross_attention_dim=16, time_proj_dim=8,
        global_states_input_dim=16,
        cross_attention_input_dim=12),
    _of("Stable Cascade", "StableCascadeUNet",
        lambda: {"sample": _latent(), "timestep_ratio": torch.tensor([0.5]), "clip_text_pooled": torch.randn(1, 1, 12)},
        in_channels=4, out_channels=4, timestep_ratio_embedding_dim=8, conditioning_dim=16, block_out_channels=(16, 16),
        num_attention_heads=(2, 2), down_num_layers_per_block=(1, 1), up_num_layers_per_block=(1, 1),
        down_blocks_repeat_mappers=(1, 1), up_blocks_repeat_mappers=(1, 1), switch_level=(False,),
        block_types_per_layer=(("SDCascadeResBlock", "SDCascadeTimestepBlock", "SDCascadeAttnBlock"),) * 2,
        clip_text_pooled_in_channels=12, dropout=(0.0, 0.0), kernel_size=3, clip_seq=2),
)  # fmt: skip

"""Forty small PyTorch models of all kinds, half of them with dynamic sizes, to be read and written back.

Transformers are made from configurations of the package transformers, narrow and shallow; the others are built here
from layers. Weights are random.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """A model, a function that draws inputs for two sizes, choices of these sizes, and the dynamic shapes, if any."""

    module: nn.Module
    draw: Callable[[int, int], Inputs]
    sizes: tuple[tuple[int, int], ...]
    dynamic: Any = None


_B, _S = Dim("batch", max=64), Dim("length", min=2, max=64)
_TEXT: Final = {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
_BOTH: Final = ((3, 9), (5, 16))


def _ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(1, 97, (batch, length))


def _text(kind: str, config: str, **options: Any) -> Case:
    """A model of token ids, of any batch and length."""
    import transformers

    settings = {**_TEXT, "intermediate_size": 128, "max_position_embeddings": 66, "use_cache": False, **options}
    model = getattr(transformers, kind)(getattr(transformers, config)(**settings))

    def draw(batch: int, length: int) -> Inputs:
        return (), {"input_ids": _ids(batch, length), "attention_mask": torch.ones(batch, length, dtype=torch.int64)}

    shapes = {"input_ids": {0: _B, 1: _S}, "attention_mask": {0: _B, 1: _S}}
    return Case(model.eval(), draw, _BOTH, shapes)


def _image(kind: str, config: str, side: int = 64, dynamic: bool = False, **options: Any) -> Case:
    """A model of images."""
    import transformers

    model = getattr(transformers, kind)(getattr(transformers, config)(**options))
    shapes = {"pixel_values": {0: _B}} if dynamic else None
    sizes = ((2, 0), (3, 0)) if dynamic else ((2, 0),)
    return Case(model.eval(), lambda batch, _: ((), {"pixel_values": torch.randn(batch, 3, side, side)}), sizes, shapes)


class Of(nn.Module):
    """A model made of a function of layers."""

    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: Any) -> Any:
        """The function of the layers and the inputs."""
        return self.function(self, *inputs)


def _of(
    draw: Callable[[int, int], tuple[Any, ...]], module: nn.Module, dynamic: Any = None, train: bool = False
) -> Case:
    wrapped = None if dynamic is None else ({"inputs": dynamic} if isinstance(module, Of) else dynamic)
    sizes = ((4, 8),) if dynamic is None else ((4, 8), (6, 11))
    return Case(module.train(train), lambda a, b: (draw(a, b), {}), sizes, wrapped)


def _residual(channels: int) -> nn.Module:
    body = nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels),
        nn.PReLU(channels),
        nn.Conv2d(channels, channels, 3, padding=1),
    )
    return Of(lambda self, x: F.relu6(x + self.body(x)), body=body)


def _mel(_: Any, x: torch.Tensor) -> torch.Tensor:
    waves = torch.stft(x, 128, 32, window=torch.hann_window(128), return_complex=True)
    return torch.log10(waves.abs().square().clamp(min=1e-10))


def _spectral(self: Any, x: torch.Tensor) -> torch.Tensor:
    return self.out(torch.fft.irfft(torch.fft.rfft(self.into(x), dim=1) * 0.5, n=x.shape[1], dim=1))


def _graph(self: Any, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    sent = self.message(x[edges[0]])
    summed = torch.zeros_like(x).index_add(0, edges[1], sent)
    best = torch.full_like(x, -1e9).scatter_reduce(0, edges[1][:, None].expand(-1, x.shape[1]), sent, "amax")
    return self.update(torch.cat([x, summed, best], 1))


def _graph_inputs(nodes: int, edges: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(nodes, 16), torch.randint(0, nodes, (2, edges))


def _recommender(self: Any, dense: torch.Tensor, bags: torch.Tensor) -> torch.Tensor:
    found = torch.stack([self.bottom(dense), self.first(bags), self.second(bags)], 1)
    pairs = torch.bmm(found, found.transpose(1, 2)).flatten(1)
    return torch.sigmoid(self.top(torch.cat([dense, pairs], 1)))


def _mixer(self: Any, x: torch.Tensor) -> torch.Tensor:
    patches = self.embed(x).flatten(2).transpose(1, 2)
    patches = patches + self.tokens(patches.transpose(1, 2)).transpose(1, 2)
    return self.head((patches + self.channels(self.norm(patches))).mean(1))


def _choice(self: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (self.into(x),))


class _Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 64, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A layer over words at their positions."""
        return self.layer(x + self.table[:, : x.shape[1]])


class _Step(nn.Module):
    """A step of GPT-2, with the cached keys and values as inputs and results."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        self.model = GPT2LMHeadModel(GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=97, n_positions=80))

    def forward(self, ids: torch.Tensor, past: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
        """The logits, and the keys and values for the next step."""
        from transformers.cache_utils import DynamicCache

        cache = DynamicCache()
        for layer, (key, value) in enumerate(past):
            cache.update(key, value, layer)
        found = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
        return found.logits, [(layer.keys, layer.values) for layer in found.past_key_values.layers]


def _step() -> Case:
    def draw(batch: int, length: int) -> Inputs:
        pairs = [(torch.randn(batch, 4, length, 16), torch.randn(batch, 4, length, 16)) for _ in range(2)]
        return (_ids(batch, 1), pairs), {}

    return Case(_Step().eval(), draw, _BOTH, ({0: _B}, [({0: _B, 2: _S}, {0: _B, 2: _S})] * 2))


def _whisper() -> Case:
    from transformers import WhisperConfig, WhisperModel

    sizes = {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4}
    sizes |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 97}
    sizes |= {"num_mel_bins": 16, "max_source_positions": 50, "max_target_positions": 66, "use_cache": False}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}

    def draw(batch: int, length: int) -> Inputs:
        return (), {"input_features": torch.randn(batch, 16, 100), "decoder_input_ids": _ids(batch, length)}

    shapes = {"input_features": {0: _B}, "decoder_input_ids": {0: _B, 1: _S}}
    return Case(WhisperModel(WhisperConfig(**sizes, **special)).eval(), draw, _BOTH, shapes)


def _diffusion() -> Case:
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(32, 64),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    return Case(
        model.eval(), lambda b, _: ((torch.randn(2, 3, 16, 16), torch.tensor(5)), {"return_dict": False}), ((2, 0),)
    )


def _autoencoder() -> Case:
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=8,
        latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    decoder = Of(lambda self, x: self.model.decode(x, return_dict=False)[0], model=model)
    return _of(lambda a, b: (torch.randn(1, 4, 8, 8),), decoder)


def _mlp(*widths: int) -> nn.Module:
    layers = [[nn.Linear(a, b), nn.GELU()] for a, b in pairwise(widths)]
    return nn.Sequential(*[layer for pair in layers for layer in pair][:-1])


_IMAGE: Final = lambda a, b: (torch.randn(2, 3, 32, 32),)  # noqa: E731 - one of several of its kind
_VIT: Final = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}

FIXED: Final[Mapping[str, Callable[[], Case]]] = {
    "ResNet": lambda: _image("ResNetModel", "ResNetConfig", embedding_size=16, hidden_sizes=[16, 32], depths=[2, 2]),
    "ConvNeXt": lambda: _image("ConvNextModel", "ConvNextConfig", hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1]),
    "MobileNet V2": lambda: _image("MobileNetV2Model", "MobileNetV2Config", image_size=64, depth_multiplier=0.35),
    "EfficientNet": lambda: _image(
        "EfficientNetModel",
        "EfficientNetConfig",
        image_size=64,
        width_coefficient=0.5,
        depth_coefficient=0.3,
        hidden_dim=640,
    ),
    "Swin": lambda: _image(
        "SwinModel", "SwinConfig", image_size=64, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4
    ),
    "SegFormer": lambda: _image(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 32, 48, 64],
        num_attention_heads=[1, 2, 3, 4],
        decoder_hidden_size=32,
    ),
    "PoolFormer": lambda: _image(
        "PoolFormerModel", "PoolFormerConfig", hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1]
    ),
    "diffusion UNet": _diffusion,
    "VAE decoder": _autoencoder,
    "wav2vec2": lambda: _wav2vec2(),
    "residual net with PReLU": lambda: _of(_IMAGE, nn.Sequential(nn.Conv2d(3, 16, 3), *[_residual(16)] * 2)),
    "net in training": lambda: _of(_IMAGE, nn.Sequential(nn.Conv2d(3, 16, 3), _residual(16)), train=True),
    "spectrogram": lambda: _of(lambda a, b: (torch.randn(2, 4000),), Of(_mel)),
    "spectral mixer": lambda: _of(
        lambda a, b: (torch.randn(2, 64, 32),), Of(_spectral, into=nn.Linear(32, 64), out=nn.Linear(64, 8))
    ),
    "LSTM, two layers both ways": lambda: _of(
        lambda a, b: (torch.randn(4, 20, 16),), nn.LSTM(16, 32, 2, batch_first=True, bidirectional=True)
    ),
    "GRU": lambda: _of(lambda a, b: (torch.randn(20, 4, 16),), nn.GRU(16, 32)),
    "recommender": lambda: _of(
        lambda a, b: (torch.randn(16, 8), torch.randint(0, 200, (16, 5))),
        Of(
            _recommender,
            bottom=_mlp(8, 32, 16),
            top=_mlp(17, 32, 1),
            first=nn.EmbeddingBag(200, 16, mode="sum"),
            second=nn.EmbeddingBag(200, 16, mode="mean"),
        ),
    ),
    "graph": lambda: _of(
        lambda a, b: _graph_inputs(50, 200), Of(_graph, message=_mlp(16, 32, 16), update=_mlp(48, 16))
    ),
    "MLP mixer": lambda: _of(
        _IMAGE,
        Of(
            _mixer,
            embed=nn.Conv2d(3, 32, 4, 4),
            tokens=_mlp(64, 32, 64),
            norm=nn.LayerNorm(32),
            channels=_mlp(32, 64, 32),
            head=nn.Linear(32, 10),
        ),
    ),
    "branch": lambda: _of(lambda a, b: (torch.randn(8, 16),), Of(_choice, into=nn.Linear(16, 16))),
}


def _wav2vec2() -> Case:
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    sizes = {**_VIT, "conv_dim": (32, 32), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_conv_pos_embeddings": 16}
    model = Wav2Vec2Model(Wav2Vec2Config(**sizes, num_conv_pos_embedding_groups=4, num_feat_extract_layers=2))
    return _of(lambda a, b: (torch.randn(2, 1600),), Of(lambda self, x: self.model(x)[0], model=model))


DYNAMIC: Final[Mapping[str, Callable[[], Case]]] = {
    "BERT": lambda: _text("BertModel", "BertConfig"),
    "DistilBERT": lambda: _text("DistilBertModel", "DistilBertConfig", dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "RoBERTa": lambda: _text("RobertaModel", "RobertaConfig", pad_token_id=0, max_position_embeddings=70),
    "ELECTRA": lambda: _text("ElectraModel", "ElectraConfig", embedding_size=32),
    "ALBERT": lambda: _text("AlbertModel", "AlbertConfig", embedding_size=32),
    "MPNet": lambda: _text("MPNetModel", "MPNetConfig", max_position_embeddings=70),
    "GPT-2": lambda: _text("GPT2LMHeadModel", "GPT2Config", n_embd=64, n_layer=2, n_head=4, n_positions=66),
    "GPT-2, one step": _step,
    "GPT-NeoX": lambda: _text("GPTNeoXForCausalLM", "GPTNeoXConfig"),
    "OPT": lambda: _text("OPTForCausalLM", "OPTConfig", ffn_dim=128, word_embed_proj_dim=64),
    "Llama": lambda: _text("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2),
    "Qwen 2": lambda: _text("Qwen2ForCausalLM", "Qwen2Config", num_key_value_heads=2),
    "Gemma": lambda: _text("GemmaForCausalLM", "GemmaConfig", num_key_value_heads=1, head_dim=16),
    "T5 encoder": lambda: _text("T5EncoderModel", "T5Config", d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4),
    "CLIP text": lambda: _text("CLIPTextModel", "CLIPTextConfig", eos_token_id=2, bos_token_id=1),
    "Whisper": _whisper,
    "ViT, any batch": lambda: _image("ViTModel", "ViTConfig", 64, True, **_VIT, image_size=64, patch_size=16),
    "words at positions": lambda: _of(lambda a, b: (torch.randn(a, b, 32),), _Table(), ({0: _B, 1: _S},)),
    "images of multiples of 8": lambda: _of(
        lambda a, b: (torch.randn(1, 3, 8 * a, 8 * b),),
        nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), _residual(16), nn.ConvTranspose2d(16, 3, 2, 2)),
        ({2: 8 * Dim("high", min=1, max=20), 3: 8 * Dim("wide", min=1, max=20)},),
    ),
    "graph of any size": lambda: _of(
        lambda a, b: _graph_inputs(10 * a, 20 * b),
        Of(_graph, message=_mlp(16, 32, 16), update=_mlp(48, 16)),
        ({0: Dim("nodes")}, {1: Dim("edges")}),
    ),
}

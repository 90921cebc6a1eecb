"""Twelve widely used published models from their configurations, with random weights of a fixed seed.

Each has its full depth. With ``wide`` it also has its published width; otherwise it is narrow, with the same operators.
Models with `Published.sizes` take inputs of other sizes as well. Needs torch, transformers and diffusers; nothing is
downloaded.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final, Literal

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
from torch import nn

Exporter = Literal["dynamo", "torchscript"]
EXPORTERS: Final[tuple[Exporter, ...]] = ("dynamo", "torchscript")
INPUTS: Final = ("first", "second", "third")
OUTPUT: Final = "result"
VOCABULARY: Final = 97


class FirstOutput(nn.Module):
    """A model that takes the inputs ``names`` in order, and returns the first of its outputs."""

    def __init__(self, model: nn.Module, names: Sequence[str], method: str = "forward", **options: Any) -> None:
        super().__init__()
        self.model = model
        self.names = names
        self.method = method
        self.options = options

    def forward(
        self, first: torch.Tensor, second: torch.Tensor | None = None, third: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The first output."""
        given = dict(zip(self.names, (first, second, third), strict=False))
        result = getattr(self.model, self.method)(**given, **self.options)
        return result if isinstance(result, torch.Tensor) else result[0]


@dataclass(frozen=True, slots=True)
class Published:
    """A module in eval mode, a function that draws inputs of given sizes, and the sizes that may vary.

    ``sizes`` are the sizes of the example, by name; ``dynamic`` maps the dynamic axes of each input to these names.
    """

    module: FirstOutput
    draw: Callable[[Mapping[str, int]], tuple[torch.Tensor, ...]]
    sizes: Mapping[str, int]
    dynamic: tuple[Mapping[int, str], ...] = ()

    def inputs(self, seed: int = 1, **sizes: int) -> tuple[torch.Tensor, ...]:
        """Inputs with the sizes of the example, unless ``sizes`` gives others; the same each time for one ``seed``."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return self.draw({**self.sizes, **sizes})

    def expected(self, inputs: Sequence[torch.Tensor]) -> np.ndarray[Any, Any]:
        """The results of PyTorch."""
        with torch.no_grad():
            return self.module(*inputs).numpy()

    def names(self) -> tuple[str, ...]:
        """The names of the inputs in exported models."""
        return INPUTS[: len(self.inputs())]

    def dynamic_shapes(self) -> dict[str, Any] | None:
        """The dynamic sizes, as `torch.export` takes them; None if there are none."""
        if not self.dynamic:
            return None
        dims = {name: torch.export.Dim(name, min=2, max=64) for name in self.sizes}
        described = [{axis: dims[name] for axis, name in axes.items()} for axes in self.dynamic]
        return dict(zip(INPUTS, described, strict=False))

    def to_onnx(self, path: Path, exporter: Exporter, *, dynamic: bool = False) -> Path:
        """Write the model with one of PyTorch's exporters, whose messages are suppressed."""
        inputs, names = self.inputs(), self.names()
        options: dict[str, Any] = {"dynamo": exporter == "dynamo"}
        if dynamic and exporter == "dynamo":
            options["dynamic_shapes"] = self.dynamic_shapes()
        elif dynamic:
            options["dynamic_axes"] = dict(zip(names, map(dict, self.dynamic), strict=True))
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                self.module, inputs, str(path), input_names=list(names), output_names=[OUTPUT], verbose=False, **options
            )
        return path


def _narrow(config: Any, wide: bool, **sizes: Any) -> Any:
    """An instance of a configuration class: as published, or narrow, with ``sizes``."""
    return config(**({} if wide else sizes))


def _latents(size: int) -> Callable[[Mapping[str, int]], tuple[torch.Tensor, ...]]:
    return lambda sizes: (torch.randn(sizes["batch"], 4, size, size),)


def _tokens(sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
    """Ids, and a mask that hides the last two tokens of the first text."""
    shape = sizes["batch"], sizes["tokens"]
    mask = torch.ones(shape, dtype=torch.int64)
    mask[0, -2:] = 0
    return torch.randint(3, VOCABULARY, shape), mask


_TEXT: Final = ({0: "batch", 1: "tokens"}, {0: "batch", 1: "tokens"})


def _images(size: int) -> Callable[[Mapping[str, int]], tuple[torch.Tensor, ...]]:
    return lambda sizes: (torch.randn(sizes["batch"], 3, size, size),)


def unet(wide: bool = False) -> Published:
    """The UNet of Stable Diffusion 1.5."""
    from diffusers import UNet2DConditionModel

    width, size = (768, 32) if wide else (24, 8)
    narrow: dict[str, Any] = {} if wide else {"block_out_channels": (32, 64, 128, 128), "norm_num_groups": 8}
    model = UNet2DConditionModel(sample_size=size, cross_attention_dim=width, **narrow)

    def draw(sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        batch = sizes["batch"]
        return torch.randn(batch, 4, size, size), torch.tensor(7), torch.randn(batch, 77 if wide else 11, width)

    names = ("sample", "timestep", "encoder_hidden_states")
    return Published(FirstOutput(model, names, return_dict=False), draw, {"batch": 1 if wide else 2})


def vae_decoder(wide: bool = False) -> Published:
    """The decoder of the autoencoder of Stable Diffusion."""
    from diffusers import AutoencoderKL

    widths = (128, 256, 512, 512) if wide else (16, 32, 64, 64)
    model = AutoencoderKL(
        block_out_channels=widths,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=4,
        norm_num_groups=32 if wide else 8,
    )
    size = 16 if wide else 6
    return Published(FirstOutput(model, ("z",), "decode", return_dict=False), _latents(size), {"batch": 1})


def bert(wide: bool = False) -> Published:
    """BERT base, uncased."""
    from transformers import BertConfig, BertModel

    config = _narrow(BertConfig, wide, vocab_size=VOCABULARY, hidden_size=48, intermediate_size=96)
    module = FirstOutput(BertModel(config), ("input_ids", "attention_mask"))
    return Published(module, _tokens, {"batch": 2, "tokens": 128 if wide else 11}, _TEXT)


def gpt2(wide: bool = False) -> Published:
    """GPT-2 with its head, 124 million parameters."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = _narrow(GPT2Config, wide, vocab_size=VOCABULARY, n_embd=48, n_positions=64)
    module = FirstOutput(GPT2LMHeadModel(config), ("input_ids", "attention_mask"), use_cache=False)
    return Published(module, _tokens, {"batch": 2, "tokens": 64 if wide else 11}, _TEXT)


def llama(wide: bool = False) -> Published:
    """Llama 3.2 1B, a decoder with four query heads to each key head; when wide, half as wide as published.

    A small part of its vocabulary is enough, because tokens are only looked up.
    """
    from transformers import LlamaConfig, LlamaModel

    published = {"hidden_size": 1024, "intermediate_size": 4096, "vocab_size": 1000}
    narrow = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": VOCABULARY}
    heads = {"num_attention_heads": 16, "num_key_value_heads": 4} if wide else {}
    config = LlamaConfig(
        num_hidden_layers=16,
        **{"num_attention_heads": 8, "num_key_value_heads": 2, **heads, **(published if wide else narrow)},
    )
    module = FirstOutput(LlamaModel(config), ("input_ids", "attention_mask"), use_cache=False)
    return Published(module, _tokens, {"batch": 2, "tokens": 32 if wide else 11}, _TEXT)


def t5_encoder(wide: bool = False) -> Published:
    """The encoder of T5 base: positions are a bias of the scores."""
    from transformers import T5Config, T5EncoderModel

    narrow = {} if wide else {"vocab_size": VOCABULARY, "d_model": 48, "d_kv": 4, "d_ff": 96}
    config = T5Config(**{"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12, **narrow})
    module = FirstOutput(T5EncoderModel(config), ("input_ids", "attention_mask"))
    return Published(module, _tokens, {"batch": 2, "tokens": 128 if wide else 11}, _TEXT)


def clip_text(wide: bool = False) -> Published:
    """The text encoder of CLIP ViT-L/14, which Stable Diffusion 1.5 uses."""
    from transformers import CLIPTextConfig, CLIPTextModel

    published = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}
    narrow = {"vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 96, "num_attention_heads": 12}
    config = CLIPTextConfig(**(published if wide else narrow))
    module = FirstOutput(CLIPTextModel(config), ("input_ids", "attention_mask"))
    return Published(module, _tokens, {"batch": 2, "tokens": 77 if wide else 11}, _TEXT)


def clip_vision(wide: bool = False) -> Published:
    """The image encoder of CLIP ViT-B/32."""
    from transformers import CLIPVisionConfig, CLIPVisionModel

    size = 224 if wide else 32
    narrow = {"hidden_size": 48, "intermediate_size": 96, "image_size": size, "patch_size": 8}
    config = _narrow(CLIPVisionConfig, wide, **narrow)
    module = FirstOutput(CLIPVisionModel(config), ("pixel_values",))
    return Published(module, _images(size), {"batch": 2}, ({0: "batch"},))


def vit(wide: bool = False) -> Published:
    """ViT-B/16 with its head."""
    from transformers import ViTConfig, ViTForImageClassification

    size = 224 if wide else 32
    narrow = {"hidden_size": 48, "intermediate_size": 96, "image_size": size, "patch_size": 8}
    module = FirstOutput(ViTForImageClassification(_narrow(ViTConfig, wide, **narrow)), ("pixel_values",))
    return Published(module, _images(size), {"batch": 2}, ({0: "batch"},))


def resnet50(wide: bool = False) -> Published:
    """ResNet-50 with its head."""
    from transformers import ResNetConfig, ResNetForImageClassification

    narrow = {"embedding_size": 8, "hidden_sizes": [16, 24, 32, 40]}
    module = FirstOutput(ResNetForImageClassification(_narrow(ResNetConfig, wide, **narrow)), ("pixel_values",))
    return Published(module, _images(224 if wide else 64), {"batch": 2}, ({0: "batch"},))


def mobilenet_v2(wide: bool = False) -> Published:
    """MobileNet V2 with its head."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = _narrow(MobileNetV2Config, wide, depth_multiplier=0.35)
    module = FirstOutput(MobileNetV2ForImageClassification(config), ("pixel_values",))
    return Published(module, _images(224 if wide else 64), {"batch": 2}, ({0: "batch"},))


def whisper_encoder(wide: bool = False) -> Published:
    """The encoder of Whisper small."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    published = {"d_model": 768, "encoder_ffn_dim": 3072}
    narrow = {"d_model": 48, "encoder_ffn_dim": 96, "max_source_positions": 20, "num_mel_bins": 8}
    config = WhisperConfig(**{"encoder_layers": 12, "encoder_attention_heads": 12, **(published if wide else narrow)})
    frames = 2 * config.max_source_positions
    module = FirstOutput(WhisperEncoder(config), ("input_features",))
    return Published(module, lambda sizes: (torch.randn(sizes["batch"], config.num_mel_bins, frames),), {"batch": 1})


PUBLISHED: Final[dict[str, Callable[[bool], Published]]] = {
    "Stable Diffusion 1.5 UNet": unet,
    "Stable Diffusion VAE decoder": vae_decoder,
    "BERT base": bert,
    "GPT-2": gpt2,
    "Llama 3.2 1B": llama,
    "T5 base encoder": t5_encoder,
    "CLIP text": clip_text,
    "CLIP vision": clip_vision,
    "ViT-B/16": vit,
    "ResNet-50": resnet50,
    "MobileNet V2": mobilenet_v2,
    "Whisper encoder": whisper_encoder,
}
"""The models, by name."""


def make(name: str, *, wide: bool = False) -> Published:
    """One of `PUBLISHED`, with the same weights each time.

    Vectors are drawn anew, because the biases, factors and statistics of a new model are zeros and ones, which an
    exporter leaves out.
    """
    torch.manual_seed(0)
    model = PUBLISHED[name](wide)
    with torch.no_grad():
        for key, tensor in (*model.module.named_parameters(), *model.module.named_buffers()):
            if tensor.ndim == 1 and tensor.is_floating_point() and not key.endswith("inv_freq"):
                is_spread = key.endswith(("weight", "running_var"))
                tensor.copy_(torch.rand_like(tensor) * 0.4 + 0.8 if is_spread else torch.randn_like(tensor) * 0.1)
    model.module.eval()
    return model

"""ONNX files of all kinds, small, with random weights: exported, quantized, narrowed and optimized by the usual tools.

Each function writes a file and returns the inputs to run it with. Together they cover convolutions, audio, graphs,
recommenders, recurrences, decoders with their caches, integers of 8 bits, and half precision.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.transformers.float16 import convert_float_to_float16
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from bench.roundtrip_models import DYNAMIC, FIXED, Case
from regraft.formats.quiet import quiet

Feeds = dict[str, np.ndarray]
_IDS: Final = torch.arange(128).reshape(2, 64) * 7 % 500
_IMAGE: Final = torch.linspace(-1, 1, 3 * 96 * 96).reshape(1, 3, 96, 96)


def _export(module: nn.Module, args: tuple[Any, ...], path: Path, **options: Any) -> None:
    """Write the module with PyTorch's current exporter, or with the previous one if ``dynamo=False``."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    options = {"dynamo": True, **options}
    with quiet(), warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), args, str(path), verbose=False, **options)


def _feeds(path: Path, arrays: list[np.ndarray]) -> Feeds:
    graph = onnx.load(path, load_external_data=False).graph
    return dict(zip([value.name for value in graph.input], arrays, strict=True))


def _case(build: Callable[[], Case], path: Path) -> Feeds:
    torch.manual_seed(0)
    case = build()
    args, kwargs = case.draw(*case.sizes[0])
    _export(case.module, args, path, kwargs=kwargs, dynamic_shapes=case.dynamic)
    return _feeds(path, [leaf.numpy() for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)])


# --- the models for the tools


class _First(nn.Module):
    """The first output of a model."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model = model
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The first output."""
        return self.model(x, **self.options)[0]


class _Pitch(nn.Module):
    """A network of tall convolutions over one column, each after a padding, as in pitch trackers."""

    def __init__(self) -> None:
        super().__init__()
        channels, tall = (1, 128, 16, 16, 16, 32, 64), (512, 64, 64, 64, 64, 64)
        steps = zip(channels, channels[1:], tall, strict=False)
        self.convolutions = nn.ModuleList([nn.Conv2d(a, b, (size, 1), (4 if a == 1 else 1, 1)) for a, b, size in steps])
        self.norms = nn.ModuleList([nn.BatchNorm2d(width) for width in channels[1:]])
        self.head = nn.Linear(256, 360)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The pitch of frames of 1,024 samples."""
        x = x[:, None, :, None]
        for index, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            ahead, behind = (254, 254) if index == 0 else (31, 32)
            x = F.max_pool2d(norm(F.relu(convolution(F.pad(x, (0, 0, ahead, behind))))), (2, 1), (2, 1))
        return torch.sigmoid(self.head(x.permute(0, 2, 1, 3).reshape(-1, 256)))


def _bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    sizes = {"vocab_size": 500, "hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4}
    return _First(BertModel(BertConfig(intermediate_size=512, **sizes)), return_dict=False)


def _resnet() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=16, hidden_sizes=[32, 64, 96, 128], depths=[2, 2, 2, 2])
    return _First(ResNetForImageClassification(config), return_dict=False)


def _mobilenet() -> nn.Module:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(image_size=96, depth_multiplier=0.5)
    return _First(MobileNetV2ForImageClassification(config), return_dict=False)


_MODELS: Final[Mapping[str, tuple[Callable[[], nn.Module], torch.Tensor]]] = {
    "BERT": (_bert, _IDS),
    "ResNet": (_resnet, _IMAGE),
    "MobileNet V2": (_mobilenet, _IMAGE),
}


def _made(name: str, path: Path, **options: Any) -> Feeds:
    torch.manual_seed(0)
    build, sample = _MODELS[name]
    _export(build(), (sample,), path, **options)
    return _feeds(path, [sample.numpy()])


# --- the tools

_QDQ: Final = QuantFormat.QDQ


def _through(name: str, tool: Callable[[Path, Path, Feeds], None], path: Path, **options: Any) -> Feeds:
    source = path.with_name(f"source-{path.name}")
    feeds = _made(name, source, **options)
    logging.disable(logging.WARNING)
    try:
        tool(source, path, feeds)
    finally:
        logging.disable(logging.NOTSET)
    return feeds


class _Samples(CalibrationDataReader):
    def __init__(self, feeds: Feeds) -> None:
        self._left = [feeds]

    def get_next(self) -> Feeds | None:  # type: ignore[override]
        """The next sample."""
        return self._left.pop() if self._left else None


def _dynamic(source: Path, path: Path, _: Feeds, weights: QuantType = QuantType.QUInt8) -> None:
    quantize_dynamic(str(source), str(path), weight_type=weights)


def _static(
    source: Path, path: Path, feeds: Feeds, form: QuantFormat = QuantFormat.QDQ, channels: bool = False
) -> None:
    quantize_static(str(source), str(path), _Samples(feeds), quant_format=form, per_channel=channels)


def _half(source: Path, path: Path, _: Feeds) -> None:
    onnx.save(convert_float_to_float16(onnx.load(str(source)), keep_io_types=True), str(path))


def _optimized(source: Path, path: Path, _: Feeds) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


# --- further layers


def _layers(module: nn.Module, sample: torch.Tensor, path: Path, **options: Any) -> Feeds:
    torch.manual_seed(0)
    _export(module, (sample,), path, **options)
    return _feeds(path, [sample.numpy()])


def _stack(layer: Callable[[int], nn.Module], *widths: int) -> nn.Module:
    return nn.Sequential(*[layer(width) for width in widths])


def _causal(step: int) -> nn.Module:
    return nn.Sequential(nn.ConstantPad1d((2 * step, 0), 0.0), nn.Conv1d(32, 32, 3, dilation=step), nn.ReLU())


def _mirrored(width: int) -> nn.Module:
    return nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(width, 32, 3), nn.InstanceNorm2d(32), nn.ReLU())


def _uneven(width: int) -> nn.Module:
    return nn.Sequential(nn.ZeroPad2d((1, 2, 1, 2)), nn.Conv2d(width, 32, 4, 2), nn.ReLU())


_FRAMES: Final = torch.linspace(-1, 1, 4096).reshape(4, 1024)

_TOOLS: Final[Mapping[str, Callable[[Path], Feeds]]] = {
    "pitch tracker": lambda path: _layers(_Pitch(), _FRAMES, path),
    "pitch tracker, older exporter": lambda path: _layers(_Pitch(), _FRAMES, path, dynamo=False),
    "causal convolutions": lambda path: _layers(_stack(_causal, 1, 2, 4, 8), torch.ones(1, 32, 400), path),
    "mirrored edges": lambda path: _layers(_stack(_mirrored, 3, 32, 32), _IMAGE, path),
    "uneven padding": lambda path: _layers(_stack(_uneven, 3, 32, 32), _IMAGE, path),
    "long LSTM": lambda path: _layers(
        _First(nn.LSTM(64, 128, 2, batch_first=True)), torch.linspace(-1, 1, 12800).reshape(1, 200, 64), path
    ),
    "BERT, older exporter": lambda path: _made("BERT", path, dynamo=False),
    "ResNet, older exporter": lambda path: _made("ResNet", path, dynamo=False),
    "BERT, dynamic int8": lambda path: _through("BERT", partial(_dynamic, weights=QuantType.QInt8), path),
    "MobileNet V2, dynamic int8": lambda path: _through("MobileNet V2", _dynamic, path, dynamo=False),
    "ResNet, dynamic int8": lambda path: _through("ResNet", _dynamic, path, dynamo=False),
    "BERT, static int8": lambda path: _through("BERT", _static, path),
    "MobileNet V2, static int8": lambda path: _through("MobileNet V2", _static, path),
    "ResNet, static int8 by channel": lambda path: _through("ResNet", partial(_static, channels=True), path),
    "ResNet, static int8 operators": lambda path: _through(
        "ResNet", partial(_static, form=QuantFormat.QOperator), path
    ),
    "BERT, half precision": lambda path: _through("BERT", _half, path),
    "ResNet, half precision": lambda path: _through("ResNet", _half, path),
    "BERT, optimized by ONNX Runtime": lambda path: _through("BERT", _optimized, path),
    "ResNet, optimized by ONNX Runtime": lambda path: _through("ResNet", _optimized, path),
}

EXPORTED: Final[Mapping[str, Callable[[Path], Feeds]]] = {
    **{name: partial(_case, build) for name, build in {**FIXED, **DYNAMIC}.items()},
    **_TOOLS,
}
"""The files, by name: each function writes one and returns its inputs."""

"""Operators that are not read on purpose, each with its reason."""

from __future__ import annotations

from .importing import REFUSED

_RANDOM = "its values are random, which a program's are not; draw them outside and give them as an input"
_MAP = "maps are not supported, only tensors"
_STRING = "tensors of string are not supported"
_TRAINING = "gradients of graphs are not read; regraft.transform.Gradient makes them"

_BY_REASON = {
    _RANDOM: "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    _STRING: "RegexFullMatch StringConcat StringNormalizer StringSplit",
    "it decodes files of images, which is not done on tensors; give it the image": "ImageDecoder",
}

for _reason, _names in _BY_REASON.items():
    for _name in _names.split():
        REFUSED["", _name] = _reason
REFUSED["ai.onnx.preview.training", "Gradient"] = _TRAINING
for _name in ("CastMap", "DictVectorizer", "ZipMap"):
    REFUSED["ai.onnx.ml", _name] = _MAP

"""Operators that are not read on purpose, each with its reason."""

from __future__ import annotations

from typing import Final

_RANDOM: Final = "its values are random, but a program is deterministic; draw them outside and pass them as an input"
_GRADIENT: Final = "gradients of graphs are not read; regraft.transform.Gradient makes them"
_ROWS: Final = (
    ("", "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike", _RANDOM),
    ("", "RegexFullMatch StringConcat StringNormalizer StringSplit", "tensors of string are not supported"),
    ("", "ImageDecoder", "it decodes image files, which are not tensors; pass the decoded image"),
    ("ai.onnx.ml", "CastMap DictVectorizer ZipMap", "maps are not supported, only tensors"),
    ("ai.onnx.preview.training", "Gradient", _GRADIENT),
)
REFUSED: Final = {(domain, name): reason for domain, names, reason in _ROWS for name in names.split()}
"""The reason for each operator that is not read on purpose, by domain and name."""

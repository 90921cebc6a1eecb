"""Packed weights of transformers folders, unpacked to the floating dtype of their scales.

A packed layer has ``qweight`` (codes, several in one int32), ``qzeros`` (their zero points, packed alike), ``scales``
(groups, out), and for GPTQ ``g_idx``, the group of each row. The weight is ``(code - zero) * scale``, as in the kernels
of both methods. https://arxiv.org/abs/2210.17323 and https://arxiv.org/abs/2306.00978; the layouts are those of
AutoGPTQ and AutoAWQ, which GPTQModel writes as well.
A layer of compressed-tensors, which llm-compressor writes, has either ``weight`` in int8 or float8, or
``weight_packed`` (the bits of all codes of a row one after another, in int32) with its ``weight_shape``. It also has
``weight_scale`` for the whole weight, for each row, or for each group or block, with ``weight_zero_point``.
Activations are not rounded, whatever its settings for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch

from ..errors import ConvertError

_AWQ_ORDER: Final = (0, 2, 4, 6, 1, 3, 5, 7)
"""The columns of the eight codes in one int32 of AWQ, from the lowest bits on."""
_CODES: Final = ".qweight"
_PARTS: Final = (_CODES, ".qzeros", ".scales", ".g_idx")


def packed_method(config: Mapping[str, Any]) -> str | None:
    """The method of a configuration: ``"gptq"``, ``"awq"`` or ``"compressed-tensors"``; None without packed weights.

    Raises `ConvertError` for a form of these methods that cannot be read.
    """
    told: Any = config.get("quantization_config")
    settings: Mapping[str, Any] = cast("Mapping[str, Any]", told) if isinstance(told, dict) else {}
    method, bits = settings.get("quant_method"), settings.get("bits", 4)
    if method == _COMPRESSED:
        if settings.get("format") not in _COMPRESSED_FORMS:
            raise ConvertError(
                f"weights that {method} stored in the form {settings.get('format')!r} are not read; those in the forms "
                f"{', '.join(_COMPRESSED_FORMS)} are"
            )
        return _COMPRESSED
    if method not in ("gptq", "awq"):
        return None
    form = settings.get("version" if method == "awq" else "checkpoint_format") or _FORMS[method][0]
    if form not in _FORMS[method] or bits not in ((4,) if method == "awq" else (2, 4, 8)):
        raise ConvertError(
            f"weights in {bits} bits that {method} packed in the form {form!r} are not read; those in 4 bits of the "
            f"form {_FORMS[method][0]!r} are"
        )
    return str(method)


_FORMS: Final[Mapping[str, tuple[str, ...]]] = {"gptq": ("gptq", "gptq_v2"), "awq": ("gemm",)}
_COMPRESSED: Final = "compressed-tensors"
_COMPRESSED_FORMS: Final = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized")
_COMPRESSED_SCALE: Final = ".weight_scale"
_COMPRESSED_PARTS: Final = (
    _COMPRESSED_SCALE,
    *(f".weight_{part}" for part in ("packed", "shape", "zero_point", "g_idx")),
    *(f".{side}_{part}" for side in ("input", "output") for part in ("scale", "zero_point")),
)


def unpacked_weights(path: Path, config: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The weights of a folder by name, with packed weights unpacked. Cost: memory for all of them.

    Raises `ConvertError` for a damaged file, and for a packed layer whose parts are missing or do not fit.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file  # pyright: ignore[reportUnknownVariableType] - its types are not complete

    settings: Mapping[str, Any] = config["quantization_config"]
    stored: dict[str, torch.Tensor] = {}
    for file in sorted(path.glob("*.safetensors")):
        try:
            stored.update(load_file(file))
        except (SafetensorError, OSError) as error:
            raise ConvertError(f"{file} is damaged: {error}") from error
    is_compressed = settings["quant_method"] == _COMPRESSED
    parts, sign = (_COMPRESSED_PARTS, _COMPRESSED_SCALE) if is_compressed else (_PARTS, _CODES)
    unpack = _decompressed if is_compressed else _unpacked
    found = {name: tensor for name, tensor in stored.items() if not name.endswith(parts)}
    for name in [name.removesuffix(sign) for name in stored if name.endswith(sign)]:
        try:
            found[f"{name}.weight"] = unpack(name, stored, settings)
        except (KeyError, RuntimeError, IndexError, ZeroDivisionError, ValueError) as error:
            raise ConvertError(f"{path}: the packed weight of {name} is damaged: {error}") from error
    return found


def _unpacked(name: str, stored: Mapping[str, torch.Tensor], settings: Mapping[str, Any]) -> torch.Tensor:
    """The weight (out, in) of one layer."""
    codes, zeros, scales = (stored[name + part] for part in _PARTS[:3])
    if settings["quant_method"] == "awq":
        values, offsets = _columns(codes, 4, _AWQ_ORDER), _columns(zeros, 4, _AWQ_ORDER)
        group = torch.arange(len(values)) // (len(values) // len(scales))
    else:
        bits = settings.get("bits", 4)
        values, offsets = _columns(codes.T, bits).T, _columns(zeros, bits)
        # The first version of GPTQ's format stores zero points minus one.
        offsets = offsets + (settings.get("checkpoint_format", "gptq") == "gptq")
        rows = torch.arange(len(values)) // (len(values) // len(scales))
        group = stored.get(f"{name}.g_idx", rows).long()
    weight = (values - offsets[group]).float() * scales[group].float()
    return weight.T.contiguous().to(scales.dtype)


def _decompressed(name: str, stored: Mapping[str, torch.Tensor], settings: Mapping[str, Any]) -> torch.Tensor:
    """The weight (out, in) of one layer of compressed-tensors."""
    scales, zeros = stored[name + _COMPRESSED_SCALE], stored.get(f"{name}.weight_zero_point")
    packed = stored.get(f"{name}.weight_packed")
    if packed is None:
        values = stored[f"{name}.weight"].float()
    else:
        rows, columns = (int(size) for size in stored[f"{name}.weight_shape"])
        bits = _bits_of_layers(settings) or packed.shape[1] * 32 // columns
        values = _dense(packed, bits, columns)
        zeros = None if zeros is None else _dense(zeros.T, bits, rows).T
    group = stored.get(f"{name}.weight_g_idx")
    if zeros is not None:
        values = values - _beside(zeros.float(), values, group)
    return (values * _beside(scales.float(), values, group)).to(scales.dtype)


def _bits_of_layers(settings: Mapping[str, Any]) -> int | None:
    """The number of bits of all layers; None if they differ."""
    groups: Mapping[str, Any] = settings.get("config_groups") or {}
    bits = {int(one["weights"]["num_bits"]) for one in groups.values() if one.get("weights")}
    return bits.pop() if len(bits) == 1 else None


def _dense(packed: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """The ``count`` signed numbers of ``bits`` bits that are packed one after another in each row of int32."""
    row = packed.contiguous().numpy().astype("<i4").view(np.uint8)
    each = np.unpackbits(row, axis=1, bitorder="little")[:, : count * bits].reshape(len(row), count, bits)
    return torch.as_tensor((each @ (1 << np.arange(bits)) - (1 << (bits - 1))).astype(np.float32))


def _beside(parameter: torch.Tensor, values: torch.Tensor, group: torch.Tensor | None) -> torch.Tensor:
    """``parameter`` expanded to ``values``. It has one number, one for each row, or one for each group or block.

    ``group`` is the group of each column, if groups are not consecutive. It is ignored if any entry is -1.
    """
    if parameter.ndim < 2:
        return parameter.reshape(-1, 1)
    for axis, size in enumerate(values.shape):
        index = torch.arange(size) // -(-size // parameter.shape[axis])
        if axis == 1 and group is not None and bool((group >= 0).all()):
            index = group.long()
        parameter = parameter.index_select(axis, index)
    return parameter


def _columns(packed: torch.Tensor, bits: int, order: tuple[int, ...] | None = None) -> torch.Tensor:
    """The numbers of ``bits`` bits in each int32, side by side: (rows, n) becomes (rows, n * 32 / bits)."""
    shifts = torch.arange(0, 32, bits)
    numbers = (packed[:, :, None].long() >> shifts) & ((1 << bits) - 1)
    if order is not None:
        numbers = numbers[:, :, torch.tensor(order).argsort()]
    return numbers.reshape(len(packed), -1)

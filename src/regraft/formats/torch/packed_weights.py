"""Weights of folders of transformers that GPTQ or AWQ packed: unpacked to the floating dtype of their scales.

A packed layer is ``qweight`` (codes, several to an int32), ``qzeros`` (their zero points, packed alike), ``scales``
(groups, out), and for GPTQ ``g_idx``, the group of each row. The weight is ``(code - zero) * scale``, as the kernels
of both compute it. https://arxiv.org/abs/2210.17323 and https://arxiv.org/abs/2306.00978; the layouts are those of
AutoGPTQ and AutoAWQ, which GPTQModel writes as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import torch

from ..errors import ConvertError

_AWQ_ORDER: Final = (0, 2, 4, 6, 1, 3, 5, 7)
"""The columns that the eight codes of one int32 of AWQ belong to, from the lowest bits on."""
_CODES: Final = ".qweight"
_PARTS: Final = (_CODES, ".qzeros", ".scales", ".g_idx")


def packed_method(config: Mapping[str, Any]) -> str | None:
    """``"gptq"`` or ``"awq"`` where a configuration says that its weights are packed so; None for any other.

    Raises `ConvertError` for a form of these that is not read.
    """
    told: Any = config.get("quantization_config")
    settings: Mapping[str, Any] = cast("Mapping[str, Any]", told) if isinstance(told, dict) else {}
    method, bits = settings.get("quant_method"), settings.get("bits", 4)
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


def unpacked_weights(path: Path, config: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The weights of a folder by name, those that were packed unpacked. Cost: memory for all of them.

    Raises `ConvertError` for a packed layer of which parts are missing or do not fit.
    """
    from safetensors.torch import load_file  # pyright: ignore[reportUnknownVariableType] - its types are not complete

    settings: Mapping[str, Any] = config["quantization_config"]
    stored: dict[str, torch.Tensor] = {}
    for file in sorted(path.glob("*.safetensors")):
        stored.update(load_file(file))
    found = {name: tensor for name, tensor in stored.items() if not name.endswith(_PARTS)}
    for name in [name.removesuffix(_CODES) for name in stored if name.endswith(_CODES)]:
        try:
            found[f"{name}.weight"] = _unpacked(name, stored, settings)
        except (KeyError, RuntimeError, IndexError, ZeroDivisionError) as error:
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
        # The first form of GPTQ's files has zero points less by one.
        offsets = offsets + (settings.get("checkpoint_format", "gptq") == "gptq")
        rows = torch.arange(len(values)) // (len(values) // len(scales))
        group = stored.get(f"{name}.g_idx", rows).long()
    weight = (values - offsets[group]).float() * scales[group].float()
    return weight.T.contiguous().to(scales.dtype)


def _columns(packed: torch.Tensor, bits: int, order: tuple[int, ...] | None = None) -> torch.Tensor:
    """The numbers of ``bits`` bits of each int32 side by side: (rows, n) becomes (rows, n * 32 / bits)."""
    shifts = torch.arange(0, 32, bits)
    numbers = (packed[:, :, None].long() >> shifts) & ((1 << bits) - 1)
    if order is not None:
        numbers = numbers[:, :, torch.tensor(order).argsort()]
    return numbers.reshape(len(packed), -1)

"""Products with weights that are stored in blocks of few bits.

PyTorch has a kernel for 4 bits on x86 processors, which is fast for few rows. It takes the weights in an order of its
own, which depends on the processor, and the left operand in bfloat16. 8 bits are two times 4 bits for it. In all other
cases the weights are unpacked, some columns at a time, so that the floats stay in the processor's cache and are never
all in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch.utils.weak import WeakTensorKeyDictionary

_TORCH: Final[Any] = torch
_ATEN: Final[Any] = torch.ops.aten
_AT_ONCE: Final = 1 << 18
"""The number of elements that are unpacked together: a megabyte of floats."""
_MOST_ROWS: Final = {4: 64, 8: 8}
"""The rows up to which the kernel is no slower than unpacking, by bits (one core with AVX2, 2,048 x 2,048)."""
_BLOCK_SIZES: Final = (32, 64, 128, 256)
_COLUMNS: Final = 64
"""The kernel reorders within groups of at most this many columns."""


def _matmul_blocks(
    data: Any, weights: Any, scales: Any, zeros: Any = None, *, bits: int, block_size: int
) -> torch.Tensor:
    blocks = weights.shape[1]
    missing = blocks * block_size - data.shape[-1]
    padded = torch.nn.functional.pad(data, (0, missing)) if missing else data
    if block_size in _BLOCK_SIZES and _is_for_kernel(_MOST_ROWS.get(bits, 0), padded, weights, scales, zeros):
        found = _by_kernel(padded, _ordered(weights, scales, zeros, bits), block_size)
        return found[:, : len(weights)].reshape(*data.shape[:-1], len(weights)).to(data.dtype)
    left = _in_order_of_bytes(padded.to(torch.float32), 8 // bits)
    points = None if zeros is None else _codes(zeros, bits).flatten(1)[:, :blocks]
    step = len(weights) if torch.compiler.is_compiling() else max(1, _AT_ONCE // max(1, blocks * block_size))
    parts: list[torch.Tensor] = []
    for first in range(0, max(1, len(weights)), step or 1):
        own = slice(first, first + step)
        numbers = _numbers(weights[own], scales[own], None if points is None else points[own], bits)
        parts.append(torch.nn.functional.linear(left, numbers))
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)).to(data.dtype)


# --- unpacked


def _in_order_of_bytes(data: torch.Tensor, in_a_byte: int) -> torch.Tensor:
    """``data`` (..., k) with the elements of the first code of each byte, then those of the second code, and so on."""
    parts = data.reshape(*data.shape[:-1], data.shape[-1] // in_a_byte, in_a_byte)
    return torch.cat(parts.unbind(-1), dim=-1)


def _each_code(stored: torch.Tensor, bits: int) -> list[torch.Tensor]:
    """The first code of each byte, in its lowest bits, then the second one, and so on."""
    return [stored] if bits == 8 else [(stored >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]


def _codes(stored: torch.Tensor, bits: int) -> torch.Tensor:
    """The codes of each byte along a new last axis."""
    return torch.stack(_each_code(stored, bits), dim=-1)


def _numbers(weights: torch.Tensor, scales: torch.Tensor, points: torch.Tensor | None, bits: int) -> torch.Tensor:
    """The floats of some columns (columns, k), in the order of `_in_order_of_bytes`."""
    codes = torch.stack(_each_code(weights, bits), dim=1).to(torch.float32)
    codes -= float(2 ** (bits - 1)) if points is None else points[:, None, :, None].to(torch.float32)
    return (codes * scales[:, None, :, None].to(torch.float32)).flatten(1)


# --- with the kernel


class _Ordered(NamedTuple):
    """Weights in the kernel's form, their scales with an offset for each block, and the tensors that they were made
    from.

    ``codes`` and ``scales`` have one tensor for each four bits; the products are added. The source tensors are kept
    alive, so that their memory is not reused for others.
    """

    codes: list[torch.Tensor]
    scales: list[torch.Tensor]
    key: tuple[object, ...]
    made_of: tuple[torch.Tensor | None, ...]


_known: Final[Any] = WeakTensorKeyDictionary()
"""The reordered form of weights, for as long as their tensor lives."""


def _is_for_kernel(most_rows: int, data: Any, *held: Any) -> bool:
    tensors = [data, *[each for each in held if each is not None]]
    if torch.compiler.is_compiling() or any(type(each) not in (torch.Tensor, torch.nn.Parameter) for each in tensors):
        return False  # a program that runs elsewhere cannot use this processor's order
    if any(each.device.type != "cpu" for each in tensors) or any(each.is_inference() for each in tensors[1:]):
        return False
    if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        return False
    return 0 < data.numel() <= most_rows * data.shape[-1] and held[0].numel() > 0 and _has_kernel()


@functools.cache
def _has_kernel() -> bool:
    """True if PyTorch has a fast kernel on this processor."""
    return _TORCH.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512") and all(
        hasattr(_ATEN, name) for name in ("_weight_int4pack_mm_for_cpu", "_convert_weight_to_int4pack_for_cpu")
    )


def _by_kernel(data: torch.Tensor, ordered: _Ordered, block_size: int) -> torch.Tensor:
    rows = data.reshape(-1, data.shape[-1]).to(torch.bfloat16)
    products = [
        _ATEN._weight_int4pack_mm_for_cpu(rows, codes, block_size, scales)
        for codes, scales in zip(ordered.codes, ordered.scales, strict=True)
    ]
    return products[0] if len(products) == 1 else products[0].to(torch.float32) + products[1]


def _ordered(weights: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None, bits: int) -> _Ordered:
    """The weights in the kernel's order, made the first time, and again if one of the tensors has changed."""
    key = bits, weights._version, _numbers_of(scales), _numbers_of(zeros)
    known = _known.get(weights)
    if known is None or known.key != key:
        with torch.no_grad():
            codes, both = _in_kernel_order(weights, bits), _with_offsets(scales, zeros, bits)
        known = _known[weights] = _Ordered(codes, both, key, (scales, zeros))
    return known


def _numbers_of(tensor: torch.Tensor | None) -> tuple[object, ...]:
    """A key that is equal for two views with the same elements of the same memory, as long as one of them lives.

    A program may make a view of the same tensor in each run.
    """
    if tensor is None:
        return ()
    memory: Any = tensor.untyped_storage()
    return memory._cdata, tensor._version, tensor.storage_offset(), tensor.shape, tensor.stride()


def _in_kernel_order(weights: torch.Tensor, bits: int) -> list[torch.Tensor]:
    """The codes of each four bits, the highest bits first, with columns padded to a multiple of 16; some columns at a
    time.
    """
    whole = torch.nn.functional.pad(weights, (0, 0, 0, 0, 0, -len(weights) % 16))
    parts: Any = _TORCH.split(whole, max(_COLUMNS, _AT_ONCE // weights[0].numel() // _COLUMNS * _COLUMNS))
    fours: list[list[torch.Tensor]] = [[_codes(part, 4)] if bits == 4 else [part >> 4, part & 15] for part in parts]
    return [
        torch.cat([_ATEN._convert_weight_to_int4pack_for_cpu(codes.flatten(1).to(torch.int32), 1) for codes in column])
        for column in zip(*fours, strict=True)
    ]


def _with_offsets(scales: torch.Tensor, zeros: torch.Tensor | None, bits: int) -> list[torch.Tensor]:
    """The scale and offset of each block, for each four bits: the kernel computes ``(code - 8) * scale + offset``."""
    scales = scales.to(torch.float32).to(torch.bfloat16).to(torch.float32)
    points: Any = float(2 ** (bits - 1))
    if zeros is not None:
        points = _codes(zeros, bits).flatten(1)[:, : scales.shape[1]].to(torch.float32)
    if bits == 4:
        pairs = [(scales, (8 - points) * scales)]
    else:
        offset = (8 * 16 + 8 - points) * scales
        high = offset.to(torch.bfloat16).to(torch.float32)  # the other four bits take the remainder
        pairs = [(16 * scales, high), (scales, offset - high)]
    columns = -len(scales) % 16
    whole = [torch.nn.functional.pad(torch.stack(pair, dim=-1), (0, 0, 0, 0, 0, columns)) for pair in pairs]
    return [both.transpose(0, 1).contiguous().to(torch.bfloat16) for both in whole]


KERNELS: Final[dict[str, Callable[..., Any]]] = {"relax.matmul_blocks": _matmul_blocks}

"""The processor's instructions that speed up other dtypes than float32, read once from the operating system."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Final

FEATURES: Final = {
    "avx2": "float32 by AVX2",
    "avx512f": "float32 by AVX-512",
    "amx_bf16": "bfloat16 by AMX",
    "amx_int8": "bytes by AMX",
    "avx512_bf16": "bfloat16 by AVX-512",
    "avx512_vnni": "bytes by AVX-512 VNNI",
    "avx_vnni": "bytes by AVX VNNI",
    "avx512_fp16": "float16 by AVX-512",
    "asimddp": "bytes by Arm dot products",
    "i8mm": "bytes by Arm matrix products",
    "bf16": "bfloat16 by Arm",
}
"""The features that decide between precisions, by Linux's names for them, and the purpose of each."""

_BYTES: Final = frozenset({"amx_int8", "avx512_vnni", "avx_vnni", "asimddp", "i8mm"})
_X86: Final = ("x86_64", "amd64")


@lru_cache(maxsize=1)
def processor_features() -> tuple[str, ...]:
    """The members of `FEATURES` that this processor has; empty if the operating system does not say."""
    try:
        words = set(_described().split())
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(name for name in FEATURES if name in words)


def multiplies_bytes(features: Collection[str] | None = None, *, is_x86: bool | None = None) -> bool:
    """True if a processor with ``features``, by default this one, sums products of bytes in 32 bits directly.

    Without that, x86 processors sum pairs of products in 16 bits, which overflow if both operands use all bits.
    """
    own = processor_features() if features is None else features
    return not (is_x86_64() if is_x86 is None else is_x86) or not _BYTES.isdisjoint(own)


def is_x86_64() -> bool:
    """True if this is an x86-64 processor."""
    return platform.machine().lower() in _X86


def processor_name() -> str:
    """The operating system's name of this processor; its architecture if there is no name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _described() -> str:
    if platform.system() == "Linux":
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    if platform.system() == "Darwin":
        text = subprocess.run(["sysctl", "hw.optional"], capture_output=True, text=True, timeout=5, check=True).stdout
        arm = {"FEAT_DotProd: 1": "asimddp", "FEAT_I8MM: 1": "i8mm", "FEAT_BF16: 1": "bf16"}
        return " ".join(name for said, name in arm.items() if said in text)
    return ""

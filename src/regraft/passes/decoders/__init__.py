"""Decoders that make one token after another: their cache, their masks, and what turns queries and keys to places."""

from .cache_in_place import TOTAL, CacheInPlace, PackQueryKeyValue
from .one_text import OneText
from .rotary_kernel import RotaryByKernel

__all__ = ["TOTAL", "CacheInPlace", "OneText", "PackQueryKeyValue", "RotaryByKernel"]

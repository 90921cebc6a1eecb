"""Decoders that produce one token after another: their cache, masks and rotary embedding."""

from .cache_in_place import TOTAL, CacheInPlace, PackQueryKeyValue
from .one_text import OneText
from .rotary_kernel import RotaryByKernel

__all__ = ["TOTAL", "CacheInPlace", "OneText", "PackQueryKeyValue", "RotaryByKernel"]

"""Decoders that make one token after another: their cache, their masks, and what turns queries and keys to places."""

from .cache_in_place import TOTAL, CacheInPlace, PackQueryKeyValue
from .for_engine import for_engine

__all__ = ["TOTAL", "CacheInPlace", "PackQueryKeyValue", "for_engine"]

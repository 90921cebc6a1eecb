"""Decoders that make one token after another: their cache, their masks, and what turns queries and keys to places."""

from .cache_in_place import TOTAL, CacheInPlace, PackQueryKeyValue

__all__ = ["TOTAL", "CacheInPlace", "PackQueryKeyValue"]

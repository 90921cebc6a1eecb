"""FuseAttention: attention that is written out becomes one ``nn.attention``."""

from .fuse import FuseAttention

__all__ = ["FuseAttention"]

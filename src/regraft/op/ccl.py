"""Collective operators between workers, reached as ``regraft.op.ccl`` and, in scripts, as ``R.ccl``."""

from .extras.workers import allgather, allreduce, broadcast_from_worker0, scatter_from_worker0

__all__ = ["allgather", "allreduce", "broadcast_from_worker0", "scatter_from_worker0"]

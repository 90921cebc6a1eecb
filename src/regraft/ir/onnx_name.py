"""The name that an operator has in ONNX."""

from __future__ import annotations

from typing import NamedTuple


class OnnxName(NamedTuple):
    """An operator of ONNX or of an ONNX runtime: its domain (empty for the standard one), name and version."""

    domain: str
    op_type: str
    version: int = 1

    @staticmethod
    def of(text: str, version: int = 1) -> OnnxName:
        """The operator that ``text``, ``"domain::Name"``, names; without a domain, a standard one."""
        domain, _, op_type = text.rpartition("::")
        return OnnxName(domain, op_type, version)

    def __str__(self) -> str:
        return f"{self.domain}::{self.op_type}" if self.domain else self.op_type

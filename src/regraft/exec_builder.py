"""Relax's name for executables written by hand: what `regraft.run` holds of them."""

from .run.exec_builder import ExecBuilder, VMFuncKind
from .run.instructions import SpecialReg

__all__ = ["ExecBuilder", "SpecialReg", "VMFuncKind"]

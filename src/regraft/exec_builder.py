"""Relax's name for executables written by hand: what `regraft.run` holds of them."""

from .run.exec_builder import ExecBuilder, VMFuncKind
from .run.instructions import SpecialReg
from .second_paths import names_around

__all__ = ["ExecBuilder", "SpecialReg", "VMFuncKind"]

__getattr__ = names_around(__name__)

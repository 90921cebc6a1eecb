"""Relax's module name for executables written by hand: `regraft.run`'s classes for them."""

from .run.exec_builder import ExecBuilder, VMFuncKind
from .run.instructions import SpecialReg
from .second_paths import names_around

__all__ = ["ExecBuilder", "SpecialReg", "VMFuncKind"]

__getattr__ = names_around(__name__)

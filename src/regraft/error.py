"""Relax's names for errors: ``tvm.error.InternalError`` is what TVM raises where nothing else fits.

Each error of regraft has one base, `RegraftError`, so that a program that expects any of TVM's gets ours.
"""

from .ir.errors import RegraftError

InternalError = RegraftError
OpError = RegraftError
DiagnosticError = RegraftError
OpNotImplemented = RegraftError
OpAttributeRequired = RegraftError
OpAttributeInvalid = RegraftError
OpAttributeUnImplemented = RegraftError

__all__ = [
    "DiagnosticError",
    "InternalError",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotImplemented",
]

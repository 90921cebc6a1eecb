"""Relax's names for errors: TVM raises ``tvm.error.InternalError`` if no other error fits.

All errors of regraft derive from `RegraftError`, and each of these names is `RegraftError`. So a program that catches
any of TVM's errors catches ours.
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

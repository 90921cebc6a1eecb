"""Models of other formats in and out: ``onnx`` and ``torch``, each a room of its own, loaded when first named."""

from .errors import ConvertError, UnsupportedOperatorError

__all__ = ["ConvertError", "UnsupportedOperatorError"]

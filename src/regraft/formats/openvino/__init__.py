"""Files of OpenVINO: a network as XML, with its constants in a ``.bin`` beside it.

`reader` writes the network down as a model of ONNX, layer by layer by the table in `layers`, and has that read; so
sizes, constants outside of memory and origins are what they are for files of ONNX. OpenVINO itself is not needed.
"""

from .reader import from_openvino

__all__ = ["from_openvino"]

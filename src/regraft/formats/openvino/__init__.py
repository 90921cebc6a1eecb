"""Files of OpenVINO: a network as XML, with its constants in a ``.bin`` beside it.

`reader` converts the network to an ONNX model, layer by layer with the table in `layers`, and reads that model. So
sizes, constants outside of memory and origins are the same as for ONNX files. OpenVINO itself is not needed.
"""

from .reader import from_openvino

__all__ = ["from_openvino"]

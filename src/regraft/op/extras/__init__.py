"""Families of operators that few programs need: signals, regions of images, ONNX Runtime's contributed operators."""

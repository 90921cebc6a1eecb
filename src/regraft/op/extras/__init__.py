"""Families of operators that few programs need: signals, regions of images, and what ONNX Runtime contributes."""

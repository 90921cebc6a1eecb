"""Relax's module name for types: `regraft.ir`'s classes for them."""

from .ir import AnyType, FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type
from .second_paths import names_around

__all__ = ["AnyType", "FuncType", "ObjectType", "PrimType", "ShapeType", "TensorType", "TupleType", "Type"]

__getattr__ = names_around(__name__)

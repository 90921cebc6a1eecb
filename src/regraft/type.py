"""Relax's name for the module of types: what `regraft.ir` holds of them."""

from .ir import AnyType, FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type
from .second_paths import names_around

__all__ = ["AnyType", "FuncType", "ObjectType", "PrimType", "ShapeType", "TensorType", "TupleType", "Type"]

__getattr__ = names_around(__name__)

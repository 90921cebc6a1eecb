"""TVM's name for the namespaces of the written form: ``from regraft.script.parser import relax as R``."""

from . import ir, relax, tir
from .decorators import ir_module
from .text import from_source

parse = from_source
"""The program in a text, under the name of TVM's parser."""
tirx = tir

__all__ = ["from_source", "ir", "ir_module", "parse", "relax", "tir", "tirx"]

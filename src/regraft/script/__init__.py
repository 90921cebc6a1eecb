"""The written form: programs as Python text, reading and writing.

Programs use the names ``from regraft.script import relax as R, ir as I, tir as T``. `parse` reads a text; ``.script()``
and ``.show()`` print one; `save_script` and `load_script` store a program in files. Knows the language and the
vocabulary.
"""

from . import ir, ir_builder, relax, tir
from .decorators import ir_module
from .errors import ParseError
from .files import load_script, save_script
from .text import from_source, parse

__all__ = [
    "ParseError",
    "from_source",
    "ir",
    "ir_builder",
    "ir_module",
    "load_script",
    "parse",
    "relax",
    "save_script",
    "tir",
]

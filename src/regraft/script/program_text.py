"""A program as text that reads back as an equal program: a module, a function, or a piece of one.

Functions are in the order of their names, with ``main`` last. Before them come the imports that the text needs as
Python source, and the sizes that the signatures name. Cost: linear in the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..ir.expr import GlobalVar
from ..ir.kernels import EXTERNAL_MODS, kernels_of
from ..ir.module import GLOBAL_INFOS, OUTSIDE, IRModule
from ..ir.node import TextOptions
from ..ir.program import Function
from .attribute_text import attribute_text, global_infos_text, string_text
from .constants import ConstantWriter
from .names import IdentifierSupply, identifier
from .printer import INDENT, FunctionPrinter, joined

ALL_OF_IT: Final = TextOptions(elide=False)


def print_script(node: Any, options: TextOptions) -> str:
    """The text of any piece of a program, as returned by ``.script()`` and ``repr`` and printed by ``.show()``."""
    writer = ConstantWriter(elide=options.elide)
    if isinstance(node, IRModule):
        return module_text(node, writer, options)
    if isinstance(node, Function):
        return function_text(node, writer, options.all_types)
    if isinstance(node, GlobalVar):
        return f"I.GlobalVar({string_text(node.name_hint)})"
    return FunctionPrinter(writer, all_types=options.all_types).piece(node, declare=options.declare)


def module_text(module: IRModule, constants: ConstantWriter, options: TextOptions = ALL_OF_IT) -> str:
    """The text of a module; ``constants`` decides where its large constants are stored."""
    names = IdentifierSupply()
    table = {variable: names.fresh(variable.name_hint) for variable in module.functions}
    lines: list[str] = []
    uses_scalars = False
    attrs = {name: value for name, value in module.attrs.items() if name not in (GLOBAL_INFOS, EXTERNAL_MODS, OUTSIDE)}
    if compiled := kernels_of(module):
        lines.append(f"{INDENT}# compiled: {', '.join(compiled)}")
    if attrs:
        lines.append(f"{INDENT}{options.ir_prefix}.module_attrs({attribute_text(attrs)})")
    if GLOBAL_INFOS in module.attrs:
        infos = global_infos_text(module.attrs[GLOBAL_INFOS], options.ir_prefix)
        lines.append(f"{INDENT}{options.ir_prefix}.module_global_infos({infos})")
    for name, function in module.outside.items():
        printer = FunctionPrinter(constants)
        lines.append(f"{INDENT}{identifier(name)} = {printer.expr(function)}")
        uses_scalars = uses_scalars or printer.uses_scalars
    is_after_function = False
    sizes: set[str] = set()
    for variable, function in sorted(module.functions.items(), key=_place):
        if is_after_function:
            lines.append("")
        is_after_function = True
        used = options.module_name, options.module_alias
        printer = FunctionPrinter(constants, table, options.all_types, used)
        body = printer.definition(function, table[variable], variable.name_hint)
        lines += [f"{INDENT}{line}" if line else line for line in body]
        uses_scalars = uses_scalars or printer.uses_scalars
        sizes.update(printer.sizes_of_signature)
    if not lines:
        lines.append(f"{INDENT}pass")
    uses_relax = bool(module.functions or module.outside)
    header = _header(sizes, module="ir", scalars=uses_scalars, relax=uses_relax, prefix=options.ir_prefix)
    return joined(
        [*header, f"@{options.ir_prefix}.ir_module", f"class {options.module_name}:", *lines, *constants.section()]
    )


def _place(item: tuple[GlobalVar, Function]) -> tuple[bool, str]:
    """The sort key of a function in the text: by name, with ``main`` after the functions that it calls, as in Relax."""
    name = item[0].name_hint
    return name == "main", name


def function_text(function: Function, constants: ConstantWriter, all_types: bool = True) -> str:
    """The text of a single function, under its public name or ``main``."""
    printer = FunctionPrinter(constants, all_types=all_types)
    name = function.name or "main"
    lines = printer.definition(function, identifier(name), name)
    module = "ir" if printer.uses_strings else ""
    header = _header(printer.sizes_of_signature, module=module, scalars=printer.uses_scalars)
    return joined([*header, *lines, *constants.section()])


def _header(
    sizes: Iterable[str], *, module: str = "", scalars: bool = False, relax: bool = True, prefix: str = "I"
) -> list[str]:
    """The imports that a text needs as Python source, and the sizes that its signatures name."""
    named = sorted(sizes)
    lines = ["# from typing import TypeVar"] if named else []
    for room, letter in ((module, prefix), ("tir" * scalars, "T"), ("relax" * relax, "R")):
        lines += [f"# from regraft.script import {room} as {letter}"] if room else []
    return [*lines, "", *[f'{name} = TypeVar("{name}")' for name in named]]

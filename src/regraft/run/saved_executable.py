"""Executables in files: `Executable.export_library` writes them, and `load_module` reads them.

The file is JSON: the program, or the instructions, with all constants. It contains no machine code, so reading it
executes nothing; a program is compiled again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from ..ir.errors import IRError
from ..ir.expr import Constant, DataTypeImm, Expr, PrimValue, ShapeExpr, StringImm, Tuple
from ..ir.json_form import load_json, save_json
from ..ir.whole_file import whole_file
from .errors import ExecutionError
from .exec_builder import RegisterExecutable
from .executable import Executable
from .instructions import Code, Functions, Instruction
from .relax_values import DataType, ShapeTuple, tensor
from .targets import build

_FORMAT: Final = "regraft executable 1"


def save_executable(executable: Executable, path: str | os.PathLike[str]) -> None:
    """Write an executable to a file, completely or not at all.

    Raises `ExecutionError` for an executable that keeps no program, and if the file cannot be written.
    """
    if isinstance(executable, RegisterExecutable):
        constants = save_json(Tuple([_as_node(value) for value in executable.constants]))
        content = {"functions": _written(executable.table), "constants": constants}
    elif executable.program is not None:
        content = {"target": executable.target, "program": save_json(executable.program)}
    else:
        raise ExecutionError(
            f"an executable for {executable.target!r} holds the weights in its own form and keeps no program; "
            'build for "numpy" (or "llvm"), or save the module with save_json'
        )
    try:
        with whole_file(Path(path)) as file:
            file.write(json.dumps({"format": _FORMAT, **content}).encode())
    except OSError as error:
        raise ExecutionError(f"{path} cannot be written: {error.strerror}; what was there is unchanged") from error


def load_module(path: str | os.PathLike[str]) -> Executable:
    """The executable from a file of `Executable.export_library`, ready to run.

    Raises `ExecutionError` for a file that is not such a file or is damaged.
    """
    try:
        content = json.loads(Path(path).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ExecutionError(f"{path}: this is no executable that export_library wrote: {error}") from error
    if not isinstance(content, dict) or cast("dict[str, Any]", content).get("format") != _FORMAT:
        raise ExecutionError(f"{path}: this is no executable that export_library wrote")
    try:
        return _read(cast("dict[str, Any]", content))
    except (IRError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ExecutionError(f"{path}: the file is damaged: {error}") from error


def _read(content: dict[str, Any]) -> Executable:
    if "program" in content:
        return build(load_json(content["program"]), content["target"])
    functions: Functions = {
        name: code and Code(tuple(code["params"]), [_step(*step) for step in code["steps"]])
        for name, code in content["functions"].items()
    }
    return RegisterExecutable(functions, [_from_node(node) for node in load_json(content["constants"]).fields])


def _written(functions: Functions) -> dict[str, Any]:
    return {
        name: code and {"params": code.params, "steps": [tuple(step) for step in code.steps]}
        for name, code in functions.items()
    }


def _step(kind: Any, callee: Any, operands: list[Any], place: Any) -> Instruction:
    if kind not in ("call", "ret", "goto", "if"):
        raise ValueError(f"there is no instruction {kind!r}")
    return Instruction(kind, str(callee), tuple(map(int, operands)), int(place))


def _as_node(value: Any) -> Expr:
    """A constant of an executable as a node of a program."""
    if isinstance(value, DataType):
        return DataTypeImm(str(value))
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, ShapeTuple):
        return ShapeExpr(value)
    return PrimValue(value) if isinstance(value, float) else Constant(np.asarray(value))


def _from_node(node: Any) -> Any:
    if isinstance(node, Constant):
        return tensor(node.data.numpy())
    if isinstance(node, ShapeExpr):
        return ShapeTuple(map(int, node.values))
    return DataType(node.value) if isinstance(node, DataTypeImm) else node.value

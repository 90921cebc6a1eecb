"""Programs as straight-line Python over an array library: names, globals and lines of a whole module.

Each function of the module becomes a Python function with one line for each binding. Operators, constants and type
checks are globals of the generated text. The differences between array libraries are in a `Dialect`. `function_writer`
writes the bodies of functions.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ..ir.builder import NameSupply
from ..ir.dtypes import itemsize
from ..ir.expr import Constant, Expr, ExternFunc, GlobalVar, Var
from ..ir.kernels import kernels_of
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.tensor_data import TensorData
from ..op.open_namespace import namespace_for, on_numpy
from .checks import NameDtype
from .errors import BuildError
from .numpy_kernel import NumpyKernel

if TYPE_CHECKING:
    from .function_writer import FunctionWriter

WriteCall: TypeAlias = "Callable[[FunctionWriter, Call], str]"
"""Returns the Python expression for a call."""


@dataclass(frozen=True, slots=True)
class CallText:
    """The text of a call in an engine, for an operator without a reference or with a better form on the engine.

    ``untrusted`` says that the value comes from outside, so it is checked against the type in the call.
    """

    write: WriteCall
    untrusted: bool = False


def kernel_texts(
    target: str, table: Mapping[str, Callable[..., Any]]
) -> tuple[dict[str, CallText], dict[str, Callable[..., Any]]]:
    """The texts of calls of an engine's own kernels, by operator, and the globals that these texts refer to."""
    names = {name: f"{target}_{name.removeprefix('relax.').replace('.', '_')}" for name in table}
    texts = {name: CallText(partial(_applied, text)) for name, text in names.items()}
    return texts, {text: table[name] for name, text in names.items()}


def _applied(name: str, writer: FunctionWriter, call: Call) -> str:
    return writer.applied(name, call)


def called(function: str, *arguments: str) -> str:
    """The text of a call."""
    return f"{function}({', '.join(arguments)})"


def write_extern_call(writer: FunctionWriter, call: Call) -> str:
    """The text of a call of an external function, which calls the helper ``call_packed``."""
    assert isinstance(call.op, ExternFunc)
    return called("call_packed", outside_text(writer, call.op), *writer.operands(call.args))


def outside_text(writer: FunctionWriter, function: ExternFunc) -> str:
    """The text of an external function: the global of a compiled one, or the name of a registered one."""
    return writer.module.kernel(function.global_symbol) or repr(function.global_symbol)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The specifics of one array library.

    ``xp`` is its array API namespace. ``constant`` converts a constant's numbers, ``name_dtype`` names an array's
    dtype, ``lowerings`` precede reference semantics, and ``helpers`` are the functions that their texts refer to.
    ``traced`` says that a condition has no value while the program runs, so both sides of a branch are passed to the
    helper ``choose`` as functions. The result of an external function is checked, unless ``trusts`` returns True for
    it.
    """

    target: str
    xp: Any
    constant: Callable[[TensorData], Any]
    name_dtype: NameDtype
    lowerings: Mapping[str, CallText]
    helpers: Mapping[str, Any]
    traced: bool = False
    write_extern: WriteCall = write_extern_call
    trusts: Callable[[ExternFunc], bool] = lambda function: False
    outside: Callable[[Op], Callable[..., Any] | None] = lambda op: None
    """The library's own function for an operator that is declared by a user, or not at all."""
    carried: Callable[[Call], Callable[..., Any] | None] = lambda call: None
    """The function for a call of an operator that came with a model and is not declared."""
    bring_in: Callable[[NumpyKernel], Callable[..., Any]] = lambda kernel: kernel
    """Converts a function over NumPy arrays into one over the library's arrays."""


@dataclass(frozen=True, slots=True)
class Place:
    """The source of a line of the text: the function, the variable that the line binds, and its value.

    ``names`` are the names of the function's variables in the text.
    """

    function: str
    var: Var | None
    value: Expr
    names: Mapping[Var, str]


@dataclass(frozen=True, slots=True)
class PythonModule:
    """The finished text, its globals after it was executed, and the source of each of its lines."""

    filename: str
    source: str
    namespace: dict[str, Any]
    functions: dict[str, str]
    places: dict[int, Place]
    operators: frozenset[str]
    """The globals that run operators by their reference semantics."""


_ENGINE_NAMES: Final = re.compile(r"(const|attribute|branch)\d+|(check|match_cast|result|aten|kernel)_.*")
_NOT_IDENTIFIER: Final = re.compile(r"\W")


def _either(condition: bool, when_true: int, when_false: int) -> int:
    return when_true if condition else when_false


_TEXT_NAMES: Final = {
    "T": SimpleNamespace(min=min, max=max, if_then_else=_either),
    "inf": float("inf"),
    "nan": float("nan"),
}
"""Names that the texts of sizes and attribute values may refer to."""


def op_global(op: Op) -> str:
    """The name of an operator in the text: ``nn_relu`` for ``relax.nn.relu``."""
    name = _NOT_IDENTIFIER.sub("_", op.name.removeprefix("relax."))
    return f"{name}_" if keyword.iskeyword(name) else name


def runner(op: Op, dialect: Dialect) -> Callable[..., Any] | None:
    """The function that computes ``op`` on an engine: its kernel, the library's function, its reference, or None."""
    kernel = op.kernels.get(dialect.target)
    if kernel is not None:
        return _with_none(kernel, op)
    own = dialect.outside(op)
    if own is not None:
        return own
    if op.reference is None:
        return None
    return on_numpy(op) if dialect.xp is np else partial(op.reference, namespace_for(op, dialect.xp))


def _with_none(kernel: Callable[..., Any], op: Op) -> Callable[..., Any]:
    """``kernel`` with None for omitted operands, which are passed as empty tuples if others follow."""
    if not any(operand.optional for operand in op.operands):
        return kernel

    def run(*operands: Any, **attributes: Any) -> Any:
        return kernel(*[None if isinstance(x, tuple) and not x else x for x in operands], **attributes)

    return run


def identifier(hint: str) -> str:
    """``hint`` as a Python identifier."""
    name = _NOT_IDENTIFIER.sub("_", hint) or "_"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


class ModuleWriter:
    """Collects the lines and globals of a module; function writers fill it."""

    def __init__(self, module: IRModule, dialect: Dialect) -> None:
        self.dialect: Final = dialect
        self.lines: Final[list[str]] = []
        self.places: Final[dict[int, Place]] = {}
        self.namespace: Final[dict[str, Any]] = {**_TEXT_NAMES, **dialect.helpers}
        self.reserved: Final = {*self.namespace, *map(op_global, Op.all())}
        supply = NameSupply(self.reserved)
        self.functions: Final = {name: supply.fresh(identifier(name)) for name in module}
        self.reserved.update(self.functions.values())
        self._supply: Final = supply
        self._ops: Final[dict[Op, str]] = {}
        self._constants: Final[dict[int, str]] = {}
        self._shared: Final[dict[tuple[str, int], str]] = {}
        self._alive: Final[list[TensorData]] = []
        self._legend: Final[list[str]] = []
        kernels = kernels_of(module).items()
        self._kernels: Final = {name: dialect.bring_in(NumpyKernel(name, kernel)) for name, kernel in kernels}

    def is_taken(self, name: str) -> bool:
        """True if ``name`` is a global of the text, or may become one, so that a local must not have it."""
        return name in self.reserved or _ENGINE_NAMES.fullmatch(name) is not None

    def add_global(self, name: str, value: Any) -> str:
        """Add a global to the text; ``name`` must match a pattern reserved for the engine (`is_taken`). Returns its
        name.
        """
        fresh = self._supply.fresh(name)
        self.namespace[fresh] = value
        return fresh

    def shared_global(self, name: str, value: Any) -> str:
        """The global for ``value``, called ``name`` or similar; the same one for every request with this name and
        value.
        """
        found = self._shared.get((name, id(value)))
        if found is None:
            found = self._shared[name, id(value)] = self.add_global(name, value)
        return found

    def operator(self, op: Op, function: str) -> str:
        """The global that runs ``op``: its kernel for this engine, if it has one, else its reference semantics."""
        name = self._ops.get(op)
        if name is None:
            run = runner(op, self.dialect)
            if run is None:
                target = self.dialect.target
                raise BuildError(
                    f"{function}: {op.name} cannot run on {target!r}: it has neither a reference nor a kernel there; "
                    + ("declare it with rx.operator" if op.is_foreign else f"add one with define_kernel({target!r})")
                )
            name = self._ops[op] = op_global(op)
            self.namespace[name] = run
        return name

    def constant(self, constant: Constant) -> str:
        """The global for a constant; the same one for all constants that share a handle."""
        data = constant.data
        name = self._constants.get(id(data))
        if name is None:
            name = self.add_global(f"const{len(self._constants)}", self.dialect.constant(data))
            self._constants[id(data)] = name
            self._alive.append(data)
            text = (
                f"{data.numpy()[()]!s}" if not data.shape else f"{data.shape}, {data.size * itemsize(data.dtype)} bytes"
            )
            self._legend.append(f"# {name}: {data.dtype} {text}")
        return name

    def function(self, var: GlobalVar, function: str) -> str:
        """The name of the Python function for a function of the module."""
        name = self.functions.get(var.name_hint)
        if name is None:
            known = ", ".join(self.functions) or "none"
            raise BuildError(f"{function}: the module has no function {var.name_hint!r}; it has: {known}")
        return name

    def kernel(self, name: str) -> str | None:
        """The global for the function compiled for the module under ``name``; None if there is none."""
        run = self._kernels.get(name)
        return None if run is None else self.shared_global(f"kernel_{identifier(name)}", run)

    def finish(self, filename: str) -> PythonModule:
        """Compile the text and execute it, which defines the functions."""
        header = [*self._legend, *([""] if self._legend else [])]
        source = "\n".join([*header, *self.lines, ""])
        shift = len(header)
        exec(compile(source, filename, "exec"), self.namespace)
        places = {line + shift: place for line, place in self.places.items()}
        return PythonModule(filename, source, self.namespace, self.functions, places, frozenset(self._ops.values()))

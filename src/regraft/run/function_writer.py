"""One function of the language as one Python function: a line for each binding; values are freed after their last read.

Branches become Python branches, functions inside become inner functions, and sizes become plain ints. Python's parser
limits how deep blocks nest, so deeply nested branches move out into functions of their own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

from ..analysis.uses import variables_of
from ..ir.builder import NameSupply
from ..ir.dims import Dim, KnownSize, Operation, SymExpr, SymVar, free_symvars, substitute
from ..ir.expr import (
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.program import Function, If, SeqExpr
from ..ir.types import TensorType, Type, erase_unbound, is_subtype, type_symvars
from .checks import TypeCheck
from .errors import BuildError
from .known_sizes import operation_told, with_known
from .liveness import Statement, last_reads, statements_of
from .python_source import Dialect, ModuleWriter, Place, PythonModule, called, identifier, op_global

_MOST_INDENT: Final = 40
"""Python refuses more than 100 levels of indentation."""


class _MovedBranch(NamedTuple):
    name: str
    body: SeqExpr
    variables: tuple[Var, ...]
    sizes: tuple[tuple[SymVar, str], ...]


class _Checked(NamedTuple):
    """A value that is checked at run time: its name in messages, its required type, and its text."""

    label: str
    ty: Type
    text: str


def write_module(module: IRModule, dialect: Dialect, filename: str, *, verify_types: bool) -> PythonModule:
    """A whole module as Python, compiled under ``filename``. Cost: linear in the bindings."""
    writer = ModuleWriter(module, dialect)
    for name, function in module.items():
        if writer.lines:
            writer.lines.extend(("", ""))
        FunctionWriter(writer, name, verify_types=verify_types).write(function)
    return writer.finish(filename)


class FunctionWriter:
    """Writes one function of the module, with everything defined inside it."""

    def __init__(self, module: ModuleWriter, name: str, *, verify_types: bool) -> None:
        self.module: Final = module
        self.name: Final = name
        self.inner: Final[dict[Var, Function]] = {}
        """The functions that are defined inside, by their variables."""
        self._is_inside = False
        self._verify: Final = verify_types
        self._local_names: Final = NameSupply()
        self._names: Final[dict[Var, str]] = {}
        self._sizes: dict[SymVar, str] = {}
        self._operations: dict[Operation, Dim] = {}
        self._held: Final[set[SymVar]] = set()
        self._kept: Final[set[Var]] = set()
        self._moved: Final[list[_MovedBranch]] = []

    # --- functions and bodies

    def write(self, function: Function) -> None:
        """Write the whole function, followed by the branches that moved out of it."""
        self._function(function, self.module.functions[self.name], 0)
        while self._moved:
            moved = self._moved.pop()
            parameters = [*(self._names[v] for v in moved.variables), *(name for _, name in moved.sizes)]
            self._sizes = dict(moved.sizes)
            self._operations = {}
            self._line(0, "")
            self._line(0, f"def {called(moved.name, *parameters)}:")
            self._body(moved.body, moved.variables, "return ", 1)

    def _function(self, function: Function, python_name: str, indent: int) -> None:
        names = [self._declare(param) for param in function.params]
        self._line(indent, f"def {called(python_name, *names)}:")
        pairs = list(zip(function.params, names, strict=True))
        with self._sizes_inside():
            params = [_Checked(f"parameter {param.name_hint}", param.ty, name) for param, name in pairs]
            self._check(f"check_{python_name}", params, indent + 1, self._place(function))
            for param, name in pairs:
                self._learn(param.ty, name, indent + 1)
            promised = erase_unbound(function.ret_ty, self._sizes.__contains__)
            checked = promised if is_subtype(function.body.ty, promised) is not True else None
            self._body(function.body, function.params, "return ", indent + 1, checked)

    def _body(
        self, body: SeqExpr, owned: Iterable[Var], result: str, indent: int, promised: Type | None = None
    ) -> None:
        """Write the lines of a body. ``result`` is the text before its result; it is empty if the result is unread."""
        statements, outcome = statements_of(body)
        for statement in statements:
            if isinstance(statement.value, Function) or (self._is_inside and isinstance(statement.value, If)):
                # An inner function may read its variables again, and code that traces it cannot follow a `del`.
                self._kept.update(variables_of(statement.value))
        returns = result == "return "
        dead = last_reads(statements, outcome, owned, self._kept, keep_outcome=returns)
        start = len(self.module.lines)
        self._free(dead[0], indent)
        for step, statement in enumerate(statements, 1):
            self._statement(statement, dead[step], indent)
        value = self.operand(outcome)
        if promised is not None:
            result_of = f"result_{self.module.functions[self.name]}"
            self._check(result_of, [_Checked("the result", promised, value)], indent, self._place(outcome))
        if result:
            self._line(indent, f"{result}{value}")
        self._free(dead[-1], indent)
        if len(self.module.lines) == start:
            self._line(indent, "pass")

    def _statement(self, statement: Statement, dead: list[Var], indent: int) -> None:
        var, value, cast = statement
        unread = var in dead
        if isinstance(value, If | SeqExpr):
            inner = [v for v in dead if v is not var]
            result = "" if unread and cast is None else f"{self._declare(var)} = "
            if isinstance(value, If) and self.module.dialect.traced:
                self._choice(value, inner, result, indent)
            else:
                self._branches(value, inner, result, indent)
            return
        if isinstance(value, Function):
            self.inner[var] = value
            outer, self._is_inside = self._is_inside, True
            self._function(value, self._declare(var), indent)
            self._is_inside = outer
            self._free([var] if unread else (), indent)
            return
        text = self._value(value)
        if cast is not None:
            checked = _Checked(f"match_cast {var.name_hint} = {text}", cast, text)
            self._check(f"match_cast_{identifier(var.name_hint)}", [checked], indent, self._place(value, var))
        untrusted = not unread and isinstance(value, Call) and self._is_untrusted(value)
        named = not unread or self._verify
        target = f"{self._declare(var)} = " if named else ""
        if target or not isinstance(value, Var | Constant):
            self._line(indent, f"{target}{text}", self._place(value, var))
        if untrusted or self._verify:
            stated = erase_unbound(value.ty if untrusted else var.ty, self._sizes.__contains__)
            name = self._names[var]
            self._check(f"check_{name}", [_Checked(f"{name} = {text}", stated, name)], indent, self._place(value, var))
        if named:
            self._learn(var.ty, self._names[var], indent)
        self._free(dead if named else [v for v in dead if v is not var], indent)

    def _branches(self, value: If | SeqExpr, dead: Sequence[Var], result: str, indent: int) -> None:
        if isinstance(value, SeqExpr):
            self._body(value, dead, result, indent)
            return
        condition = self.operand(value.cond)
        if not (isinstance(value.cond.ty, TensorType) and value.cond.ty.ndim == 0):
            condition = f"as_condition({condition})"
        self._line(indent, f"if {condition}:", self._place(value))
        self._branch(value.true_branch, dead, result, indent + 1)
        self._line(indent, "else:")
        self._branch(value.false_branch, dead, result, indent + 1)

    def _choice(self, value: If, dead: Sequence[Var], result: str, indent: int) -> None:
        """An `If` whose condition has no value yet. Each side becomes a function, which owns no outer variable."""
        sides: list[str] = []
        outer, self._is_inside = self._is_inside, True
        for hint, body in (("then", value.true_branch), ("otherwise", value.false_branch)):
            sides.append(self._fresh(hint))
            self._line(indent, f"def {sides[-1]}():")
            self._branch(body, (), "return ", indent + 1)
        self._is_inside = outer
        self._line(indent, result + called("choose", self.operand(value.cond), *sides), self._place(value))
        self._free(dead, indent)

    def _branch(self, body: SeqExpr, dead: Sequence[Var], result: str, indent: int) -> None:
        if indent < _MOST_INDENT:
            with self._sizes_inside():
                self._body(body, dead, result, indent)
            return
        variables = tuple(variables_of(body))
        name = self.module.add_global(f"branch{len(self.module.lines)}", None)
        self._moved.append(_MovedBranch(name, body, variables, tuple(self._sizes.items())))
        arguments = [*(self._names[v] for v in variables), *self._sizes.values()]
        self._line(indent, result + called(name, *arguments))
        self._free(dead, indent)

    # --- lines

    def _line(self, indent: int, text: str, place: Place | None = None) -> None:
        self.module.lines.append("    " * indent + text)
        if place is not None:
            self.module.places[len(self.module.lines)] = place

    def _free(self, variables: Iterable[Var], indent: int) -> None:
        names = [self._names[var] for var in variables]
        if names:
            self._line(indent, f"del {', '.join(names)}")

    def _place(self, value: Expr, var: Var | None = None) -> Place:
        return Place(self.name, var, value, self._names)

    def _check(self, hint: str, checked: Sequence[_Checked], indent: int, place: Place) -> None:
        """Write a line that checks values against types at run time and defines the sizes that the types introduce."""
        labels, types, values = (
            [one.label for one in checked],
            [one.ty for one in checked],
            [one.text for one in checked],
        )
        mentioned = dict.fromkeys(v for ty in types for v in type_symvars(ty))
        known = [v for v in mentioned if v in self._sizes]
        check = TypeCheck(f"{self.name}: ", labels, types, known, self.module.dialect.name_dtype)
        if check.is_empty:
            return
        name = self.module.add_global(hint, check)
        call = called(name, *values, *[self._sizes[v] for v in known])
        for variable in check.defines:
            self._sizes[variable] = self._fresh(variable.name)
        new = ", ".join(self._sizes[v] for v in check.defines)
        target = f"({new},) = " if len(check.defines) == 1 else f"{new} = " if new else ""
        self._line(indent, target + call, place)

    # --- names

    def _fresh(self, hint: str) -> str:
        name = self._local_names.fresh(identifier(hint))
        while self.module.is_taken(name):
            name = self._local_names.fresh(f"_{name}")
        return name

    def _declare(self, var: Var) -> str:
        name = self._names.get(var)
        if name is None:
            name = self._names[var] = self._fresh(var.name_hint)
        return name

    def _learn(self, ty: Type, name: str, indent: int) -> None:
        """Write lines that store a tensor's computed sizes, so that a tracer can identify such sizes by this shape."""
        if not self.module.dialect.traced or not isinstance(ty, TensorType):
            return
        for axis, size in enumerate(ty.shape or ()):
            if isinstance(size, int | SymVar):
                continue
            held = SymVar(self._fresh("size"))
            told = operation_told(size, held)
            if told is not None and told[0] not in self._operations:
                self._operations[told[0]] = told[1]
                self._held.add(held)
                self._line(indent, f"{held.name} = {name}.shape[{axis}]")

    @contextmanager
    def _sizes_inside(self) -> Generator[None]:
        """Forget the sizes that were learned inside the ``with`` block at its end."""
        sizes, operations = len(self._sizes), len(self._operations)
        yield
        while len(self._sizes) > sizes:
            self._sizes.popitem()
        while len(self._operations) > operations:
            self._operations.popitem()

    # --- expressions

    def _value(self, value: Expr) -> str:
        if isinstance(value, TupleGetItem):
            return f"{self.operand(value.tuple_value)}[{value.index}]"
        if not isinstance(value, Call):
            return self.operand(value)
        op = value.op
        if not isinstance(op, Op):
            if isinstance(op, ExternFunc):
                return self.module.dialect.write_extern(self, value)
            return called(self.operand(op), *self.operands(value.args))
        lowering = self.module.dialect.lowerings.get(op.name)
        if lowering is not None:
            return lowering.write(self, value)
        carried = self.module.dialect.carried(value) if op.is_foreign else None
        if carried is not None:
            return self.applied(self.module.add_global(f"kernel_{op_global(op)}", carried), value)
        return self.applied(self.module.operator(op, self.name), value)

    def _is_untrusted(self, call: Call) -> bool:
        if isinstance(call.op, ExternFunc):
            return not self.module.dialect.trusts(call.op)
        lowering = self.module.dialect.lowerings.get(call.op.name) if isinstance(call.op, Op) else None
        return lowering is not None and lowering.untrusted

    def applied(self, name: str, call: Call) -> str:
        """The text of a call of the Python function ``name``, which takes the same arguments as the operator's
        reference.
        """
        arguments = self.operands(call.args)
        if isinstance(call.op, Op) and not call.op.variadic:
            arguments += ["None"] * (len(call.op.operands) - len(arguments))
        arguments += [f"{key}={self.literal(item)}" for key, item in call.attrs.items()]
        return called(name, *arguments)

    def operands(self, operands: Iterable[Expr]) -> list[str]:
        """The text of several operands."""
        return [self.operand(operand) for operand in operands]

    def operand(self, expr: Expr) -> str:
        """The text of a leaf: a name, a tuple, a number."""
        match expr:
            case Var():
                name = self._names.get(expr)
                if name is None:
                    raise BuildError(f"{self.name}: the variable {expr.name_hint} is used before it is bound")
                return name
            case Constant():
                return self.module.constant(expr)
            case Tuple():
                return _tuple_text(self.operands(expr.fields))
            case ShapeExpr():
                return self.shape(expr.values)
            case PrimValue() | StringImm() | DataTypeImm():
                return self.literal(expr.value)
            case GlobalVar():
                return self.module.function(expr, self.name)
            case ExternFunc():
                return f"get_global_func({expr.global_symbol!r})"
            case Op():
                return self.module.operator(expr, self.name)
            case _:
                raise BuildError(f"{self.name}: a {type(expr).__name__} cannot stand as an operand")

    def shape(self, dims: Iterable[Dim]) -> str:
        """The text of a tuple of sizes."""
        return _tuple_text([self.dim(dim) for dim in dims])

    def dim(self, dim: Dim) -> str:
        """The text of a size, in terms of the ints that hold the size variables."""
        if isinstance(dim, int):
            return str(dim)
        renamed: dict[SymVar, Dim] = {}
        known = with_known(dim, self._operations)
        for variable in free_symvars(known):
            if variable in self._held:
                continue
            name = self._sizes.get(variable)
            if name is None:
                raise BuildError(f"{self.name}: the size {variable} is used, but nothing before it defines it")
            if name != variable.name:
                renamed[variable] = SymVar(name)
        return str(substitute(known, renamed))

    def literal(self, value: Any) -> str:
        """The text of an attribute's value; a value without a text becomes a global."""
        if isinstance(value, SymExpr):
            return self.dim(value)
        if value is None or type(value) in (bool, int, float, str, KnownSize):
            return repr(value)
        if isinstance(value, tuple):
            return _tuple_text([self.literal(item) for item in cast("tuple[Any, ...]", value)])
        return self.module.add_global(f"attribute{len(self.module.namespace)}", value)


def _tuple_text(items: Sequence[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"

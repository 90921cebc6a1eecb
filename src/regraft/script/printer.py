"""The lines of one function or of one piece of it; `program_text` combines them into whole texts.

The text is Relax's, as far as Relax's text is complete. Sizes of a signature are declared before the program (``n =
TypeVar("n")``), sizes that a body defines in that body (``n = T.int64()``). Names are the variables' own if these are
identifiers, have no other meaning and are free in their scope. Functions are in the order of their names. The same
program gives the same text in every run. Cost: linear in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast, final

from ..ir.dims import Dim, SymVar, free_symvars, substitute
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
from ..ir.op import Call, Op, is_call_of
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..ir.types import (
    FuncType,
    ObjectType,
    PrimType,
    ShapeType,
    StringType,
    TensorType,
    TupleType,
    Type,
    type_symvars,
    without_numbers,
)
from ..ir.vdevice import VDevice
from ..ir.visitor import Visitable, iter_bindings, walk
from .attribute_text import TAKE_NUMBERS, WITH_TEXTS, WITHOUT_KEYWORDS, attribute_text, device_text, string_text
from .constants import ConstantWriter
from .names import IdentifierSupply, identifier

INDENT: Final = "    "
_MARGIN: Final = "\0"
"""A line without text that is indented, as Relax prints it after a comment."""
_DEEPEST: Final = 60
"""The depth from which nested expressions are elided; programs in A-normal form do not reach it."""


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"{INDENT}{line}" if line else line for line in lines]


def joined(lines: Iterable[str]) -> str:
    """Lines as a text."""
    return "\n".join(lines).replace(_MARGIN, "")


@final
class FunctionPrinter:
    """Prints one function, or one piece of a function, and remembers the names it gave."""

    def __init__(
        self,
        constants: ConstantWriter,
        functions: Mapping[GlobalVar, str] | None = None,
        all_types: bool = True,
        module: tuple[str, str] = ("Module", "cls"),
    ) -> None:
        self._all_types, self._module = all_types, module
        self._constants = constants
        self._functions = functions or {}
        self._supply = IdentifierSupply()
        self._names: dict[Var, str] = {}
        self._renamed: dict[SymVar, SymVar] = {}
        self._scalars: dict[str, bool] = {}
        self._declared: dict[SymVar, None] = {}
        self._bodies: dict[Type, str] = {}
        self._signatures: dict[Type, str] = {}
        self._calls_module = False
        self._stated: set[Var | SymVar] | None = None
        self._printed: Visitable | None = None
        self._read: set[Var] | None = None
        self.sizes_of_signature: dict[str, None] = {}
        self.uses_scalars = self.uses_strings = False

    # --- pieces by themselves

    def piece(self, node: Any, *, declare: bool | None = False) -> str:
        """The text of a type, expression, binding or block; with ``declare``, its free variables are declared first."""
        if isinstance(node, PrimValue):
            return self._lone_scalar(node)
        if isinstance(node, Type):
            return self.type(node)
        if declare or (declare is None and isinstance(node, _WITH_BINDINGS)):
            self._stated = {binding.var for binding in iter_bindings(node)}
        self._printed, self._read = node, None
        return joined(self._piece(node))

    def _piece(self, node: Any) -> list[str]:
        if isinstance(node, VarBinding | MatchCast):
            return self._block(BindingBlock([node]))
        if isinstance(node, BindingBlock):
            return self._block(node)
        if isinstance(node, SeqExpr):
            return [*self._blocks(node.blocks), *self._lone_result(node.body)]
        if isinstance(node, If):
            return [*self._statements(node.cond), *self._if(node, self._lone_result)]
        if isinstance(node, Op):
            return [f"Op({node.name!r})"]
        return self._lone_result(node) if isinstance(node, Expr) else [f"<{type(node).__name__}>"]

    def _lone_result(self, result: Expr) -> list[str]:
        return [*self._statements(result), self.expr(result)]

    @contextmanager
    def _inner(self) -> Generator[None]:
        """A scope for the lines of a branch: its names are free again after it, and its declarations end."""
        stated = None if self._stated is None else set(self._stated)
        with self._supply.scope():
            yield
        self._stated = stated

    def _statements(self, *nodes: Expr | Type) -> list[str]:
        """A line for each free variable and size that ``nodes`` use and no earlier line declares; for pieces only."""
        if self._stated is None:
            return []
        lines: list[str] = []
        for node in nodes:
            for part in [node] if isinstance(node, Type) else walk(node):
                lines += [self._statement(size) for size in _sizes_of(part) if size not in self._stated]
                if isinstance(part, Var) and part not in self._stated:
                    lines.append(self._statement(part))
        return list(dict.fromkeys(lines))

    def _statement(self, variable: Var | SymVar) -> str:
        assert self._stated is not None
        self._stated.add(variable)
        if isinstance(variable, Var):
            return f"{self._name(variable)}: {self.type(variable.ty)}"
        return f"{self._size(variable).name} = T.{variable.dtype}()"

    # --- names and sizes

    def _name(self, variable: Var) -> str:
        name = self._names.get(variable)
        if name is None:
            name = self._names[variable] = self._supply.fresh(variable.name_hint)
        return name

    def _size(self, variable: SymVar) -> SymVar:
        """The variable under its name in this text.

        Stand-ins are created in the order of first occurrence in the text, and so are the reader's variables. Terms are
        ordered by age, so the text reads back to the same text.
        """
        found = self._renamed.get(variable)
        if found is None:
            name = self._supply.fresh(variable.name, lasting=True)
            found = self._renamed[variable] = SymVar(name, variable.dtype)
        return found

    def _name_sizes(self, function: Function) -> None:
        """Name the sizes of a signature before all other names of the text; a scalar parameter may be a size."""
        for param in function.params:
            if isinstance(param.ty, PrimType) and isinstance(param.ty.value, SymVar):
                is_first = param.ty.value not in self._renamed
                name = self._names[param] = self._size(param.ty.value).name
                self._scalars[name] = is_first
                self.sizes_of_signature.pop(name, None)
                continue
            for variable in type_symvars(param.ty):
                name = self._size(variable).name
                if variable.dtype == "int64" and name not in self._scalars:
                    self.sizes_of_signature[name] = None

    def dim(self, dim: Dim, *, quoted: bool = False) -> str:
        """The text of a size: an int, or an expression, which is in quotes in a signature."""
        if isinstance(dim, int):
            return str(dim)
        renamed: dict[SymVar, Dim] = {}
        are_known = True
        for variable in free_symvars(dim):
            stand_in = renamed[variable] = self._size(variable)
            if stand_in.name not in self.sizes_of_signature:
                are_known = are_known and self._scalars.get(stand_in.name, False)
                if not quoted and stand_in.name not in self._scalars:
                    self._declared[variable] = None
                    self.uses_scalars = True
        if isinstance(dim, SymVar):
            text = self._size(dim).name
            return text if are_known or not quoted else f'"{text}"'
        text = str(substitute(dim, renamed))
        if not quoted:
            self.uses_scalars = self.uses_scalars or "T." in text
        return f'"{text}"' if quoted and not (are_known and self._scalars) else text

    def _dims(self, dims: Iterable[Dim], *, quoted: bool) -> str:
        return ", ".join([self.dim(dim, quoted=quoted) for dim in dims])

    # --- types

    def type(self, ty: Type, *, quoted: bool = False) -> str:
        """The text of a type as an annotation; its sizes are in quotes in a signature."""
        known = self._signatures if quoted else self._bodies
        text = known.get(ty)
        if text is None:
            text = known[ty] = self._type(ty, quoted)
        return text

    def _type(self, ty: Type, quoted: bool) -> str:
        match ty:
            case TensorType():
                return self._tensor_type(ty, quoted)
            case TupleType():
                fields = ", ".join([self.type(field, quoted=quoted) for field in ty.fields])
                return f"R.Tuple({fields})" if fields else "R.Tuple"
            case ShapeType():
                if ty.values is None:
                    return f"R.Shape(ndim={ty.ndim})"
                return f"R.Shape([{self._dims(ty.values, quoted=quoted)}])"
            case PrimType():
                return self._prim_type(ty, quoted)
            case FuncType():
                return self._func_type(ty, quoted)
            case ObjectType():
                self.uses_strings = self.uses_strings or isinstance(ty, StringType)
                return "I.StringType()" if isinstance(ty, StringType) else "R.Any"
            case _:
                return f"<{type(ty).__name__}>"

    def _tensor_type(self, ty: TensorType, quoted: bool) -> str:
        parts: list[str] = []
        if ty.shape is not None:
            comma = "," if len(ty.shape) == 1 else ""
            parts.append(f"({self._dims(ty.shape, quoted=quoted)}{comma})")
        if ty.dtype is not None:
            parts.append(f'dtype="{ty.dtype}"')
        if ty.shape is None and ty.ndim >= 0:
            parts.append(f"ndim={ty.ndim}")
        if ty.vdevice is not None:
            parts.append(f'vdevice="{ty.vdevice}"')
        return f"R.Tensor({', '.join(parts)})" if parts else "R.Tensor"

    def _prim_type(self, ty: PrimType, quoted: bool) -> str:
        value = ty.value
        if value is None or (isinstance(value, SymVar) and self._size(value).name in self._scalars):
            self.uses_scalars = True
            return f"T.{ty.dtype}"
        known = attribute_text(value) if isinstance(value, bool | float) else self.dim(value, quoted=quoted)
        return f'R.Prim("{ty.dtype}", value={known})'

    def _func_type(self, ty: FuncType, quoted: bool) -> str:
        ret = self.type(ty.ret, quoted=quoted)
        if ty.params is None:
            purity = ", purity=True" * ty.purity
            return "R.Callable" if isinstance(ty.ret, ObjectType) and not purity else f"R.Callable(ret={ret}{purity})"
        params = ", ".join([self.type(param, quoted=quoted) for param in ty.params])
        comma = "," if len(ty.params) == 1 else ""
        return f"R.Callable(({params}{comma}), {ret}, {ty.purity})"

    # --- expressions

    def expr(self, expr: Expr, depth: int = 0) -> str:
        """The text of an expression on one line."""
        if isinstance(expr, Var):
            return self._name(expr)
        if depth > _DEEPEST:
            return "..."
        match expr:
            case Call():
                return self._call(expr, depth + 1)
            case GlobalVar():
                return self._global(expr)
            case Constant():
                return self._constants.text(expr)
            case Tuple():
                return f"({self._fields(expr, self.expr, depth + 1)})" if expr.fields else "R.tuple()"
            case TupleGetItem():
                return f"{self.expr(expr.tuple_value, depth + 1)}[{expr.index}]"
            case ShapeExpr():
                return f"R.shape([{self._dims(expr.values, quoted=False)}])"
            case PrimValue():
                return self._scalar(expr)
            case StringImm():
                return f"R.str({string_text(expr.value)})"
            case DataTypeImm():
                return f'R.dtype("{expr.value}")'
            case ExternFunc():
                return self._extern(expr)
            case Op():
                return self._operator(expr)
            case _:
                return f"<{type(expr).__name__}>"

    def _call(self, call: Call, depth: int) -> str:
        op = call.op
        form = self.expr
        if isinstance(op, Op):
            if op.name == "relax.strided_slice":
                form = self._nested
            elif op.name in TAKE_NUMBERS:
                form = self._operand
        elif isinstance(op, GlobalVar | Var):
            form = self._nested
        elif isinstance(op, ExternFunc):
            form = self._operand
        args = [form(arg, depth) for arg in call.args]
        keywords = self._keywords(call) if call.attrs else []
        if isinstance(op, Op):
            callee = self._operator(op)
            if args and isinstance(call.args[0], ExternFunc):
                args[0] = string_text(call.args[0].global_symbol)
        elif isinstance(op, ExternFunc):
            callee = "R.call_packed"
            args.insert(0, string_text(op.global_symbol))
        else:
            callee = self.expr(op, depth)
        if call.ty_args:
            keywords.append(self._stated_types(call))
        return f"{callee}({', '.join(args + keywords)})"

    def _keywords(self, call: Call) -> list[str]:
        name = call.op.name if isinstance(call.op, Op) else ""
        if name == "relax.hint_on_device":
            return [device_text(call.attrs["dst_vdevice"]), string_text(call.attrs["memory_scope"])]
        if name in WITHOUT_KEYWORDS:
            return [self._text_operand(key, value) for key, value in call.attrs.items()]
        if name in WITH_TEXTS:
            return [f"{key}={self._text_operand(key, value)}" for key, value in call.attrs.items()]
        return [f"{key}={self._attribute(value)}" for key, value in call.attrs.items()]

    def _text_operand(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            return self._attribute(value)
        return f"R.{'dtype' if name == 'dtype' else 'str'}({string_text(value)})"

    def _operand(self, expr: Expr, depth: int) -> str:
        """The text of an operand for which numbers are scalars."""
        if isinstance(expr, PrimValue):
            return self._number(expr)
        return self.expr(expr, depth)

    def _nested(self, expr: Expr, depth: int) -> str:
        """The text of an operand for which numbers are scalars, also inside a tuple."""
        if isinstance(expr, Tuple) and expr.fields:
            return f"({self._fields(expr, self._nested, depth + 1)})"
        return self._operand(expr, depth)

    def _stated_types(self, call: Call) -> str:
        """The types that a call to the outside states."""
        types: Sequence[Type] = call.ty_args
        if isinstance(call.op, Op) and call.op.name == "relax.call_dps_packed":
            ty = types[0]
            if isinstance(ty, TupleType) and len(ty.fields) > 1:
                return f"out_ty=[{', '.join(map(self.type, ty.fields))}]"
            return f"out_ty={self.type(ty)}"
        return f"ty_args=({', '.join(map(self.type, types))}{',' if len(types) == 1 else ''})"

    def _attribute(self, value: Any) -> str:
        if value is None or isinstance(value, int | str | float):
            text = attribute_text(value)
            self.uses_scalars = self.uses_scalars or text.startswith("T.")
            return text
        if isinstance(value, tuple):
            items = cast("tuple[Any, ...]", value)
            return f"[{', '.join([self._attribute(item) for item in items])}]"
        if isinstance(value, Expr):
            return self.expr(value)
        if isinstance(value, Type):
            return self.type(value)
        if isinstance(value, Mapping | VDevice):
            return attribute_text(value)
        return self.dim(cast(Dim, value))

    def _fields(self, expr: Tuple, form: Callable[[Expr, int], str], depth: int) -> str:
        fields = ", ".join([form(field, depth) for field in expr.fields])
        return f"{fields}," if len(expr.fields) == 1 else fields

    def _scalar(self, expr: PrimValue) -> str:
        text = self._number(expr)
        return text if isinstance(expr.value, int | float) and text.startswith("T.") else f"R.prim_value({text})"

    def _number(self, expr: PrimValue) -> str:
        ty, value = expr.ty, expr.value
        assert isinstance(ty, PrimType)
        if isinstance(value, bool) or (isinstance(value, int) and ty.dtype == "int64"):
            return str(value)
        if isinstance(value, int | float):
            self.uses_scalars = True
            number = repr(value) if value - value == 0 else f'"{value}"'
            return f"T.{ty.dtype}({number})"
        return self.dim(value)

    def _lone_scalar(self, expr: PrimValue) -> str:
        text = self._number(expr)
        return f"T.{expr.ty}({text})" if isinstance(expr.value, int) and not text.startswith("T.") else text

    def _extern(self, expr: ExternFunc) -> str:
        stated = "" if expr.ty == FuncType.opaque_func() else f", {self.type(expr.ty)}"
        return f"R.ExternFunc({string_text(expr.global_symbol)}{stated})"

    def _global(self, expr: GlobalVar) -> str:
        self._calls_module = self._calls_module or expr in self._functions
        name, alias = self._module
        return f"{alias or name}.{self._functions.get(expr) or identifier(expr.name_hint)}"

    def _operator(self, expr: Op) -> str:
        if expr.is_foreign:
            options = [string_text(expr.name)]
            if expr.onnx is None:
                options.append('source="torch"')
            elif expr.onnx.version != 1:
                options.append(f"version={expr.onnx.version}")
            options += ["pure=True"] * expr.is_pure
            return f"R.foreign({', '.join(options)})"
        return f"R.{expr.name.removeprefix('relax.')}"

    # --- bindings and blocks

    def _binding(self, binding: Binding) -> list[str]:
        if isinstance(binding, VarBinding) and self._is_unread_unit(binding):
            return [self.expr(binding.value)]
        name, ty = self._name(binding.var), binding.var.ty
        if isinstance(binding, MatchCast):
            value = self.expr(binding.value)
            shown = f": {self.type(ty)}" if self._all_types or ty != binding.ty else ""
            return [f"{name}{shown} = R.match_cast({value}, {self.type(binding.ty)})"]
        value = binding.value
        if isinstance(value, If):
            return self._if_bound(name, ty, value)
        if isinstance(value, Function):
            return self._local(name, value)
        if isinstance(value, SeqExpr):
            return [*self._blocks(value.blocks), self._bound(name, ty, value.body)]
        return [self._bound(name, ty, value)]

    def _is_unread_unit(self, binding: VarBinding) -> bool:
        """True for a statement that is there for its effect: nothing reads its empty tuple."""
        ty, value = binding.var.ty, binding.value
        if not isinstance(ty, TupleType) or ty.fields or value.ty != ty or not isinstance(value, Call | Tuple):
            return False
        if self._read is None and self._printed is not None:
            self._read = {expr for expr in walk(self._printed) if isinstance(expr, Var)}
        return self._read is not None and binding.var not in self._read

    def _bound(self, name: str, ty: Type, value: Expr, *, is_result: bool = False) -> str:
        """The line that binds a name; a tuple needs no parentheses there, and a number is a scalar."""
        annotation = self._annotation(ty, value, is_result)
        if isinstance(value, Tuple) and len(value.fields) > 1:
            return f"{name}{annotation} = {self._fields(value, self._nested, 1)}"
        return f"{name}{annotation} = {self._nested(value, 0)}"

    def _annotation(self, ty: Type, value: Expr, is_result: bool) -> str:
        is_inferred = ty == value.ty
        if is_inferred and not isinstance(ty, TensorType):
            ty = without_numbers(ty)
        shown = is_result or not is_inferred or isinstance(value, PrimValue)
        shown = shown or (self._all_types and not is_call_of(value, "relax.call_dps_packed"))
        return f": {self.type(ty)}" if shown else ""

    def _blocks(self, blocks: Iterable[BindingBlock]) -> list[str]:
        return [line for block in blocks for line in self._block(block)]

    def _block(self, block: BindingBlock) -> list[str]:
        lines: list[str] = []
        stated: list[str] = []
        for binding in block.bindings:
            if self._stated is not None:
                value = binding.value.cond if isinstance(binding.value, If) else binding.value
                cast_to = [binding.ty] if isinstance(binding, MatchCast) else []
                (stated if isinstance(block, DataflowBlock) else lines).extend(
                    self._statements(binding.var.ty, value, *cast_to)
                )
            lines += self._binding(binding)
        if not isinstance(block, DataflowBlock):
            return lines
        outputs = ", ".join([self._name(variable) for variable in block.outputs])
        return [
            *stated,
            "with R.dataflow():",
            *_indented(lines),
            f"{INDENT}R.output({outputs})",
        ]

    def _if(self, expr: If, last: Callable[[Expr], list[str]]) -> list[str]:
        """A branch; each side ends with the ``last`` lines, those of its result."""
        lines = [f"if {self._operand(expr.cond, 0)}:"]
        for body, after in ((expr.true_branch, ["else:"]), (expr.false_branch, [])):
            with self._inner():
                lines += [*_indented([*self._blocks(body.blocks), *last(body.body)]), *after]
        return lines

    def _if_bound(self, name: str, ty: Type, expr: If) -> list[str]:
        """A branch that binds a name."""

        def last(result: Expr) -> list[str]:
            if isinstance(result, If):
                return self._if(result, last)
            return [*self._statements(result), self._bound(name, ty, result, is_result=True)]

        return self._if(expr, last)

    # --- functions

    def _local(self, name: str, function: Function) -> list[str]:
        with self._supply.scope():
            lines = self._definition(function, name, name, local=True)
        return ["# from regraft.script import relax as R", _MARGIN, *lines, ""]

    def definition(self, function: Function, name: str, full_name: str) -> list[str]:
        """The lines of a function under the identifier ``name``; its ``full_name`` need not be an identifier."""
        self._printed, self._read = function, None
        self._name_sizes(function)
        return self._definition(function, name, full_name, local=False)

    def _definition(self, function: Function, name: str, full_name: str, *, local: bool) -> list[str]:
        attrs = dict(function.attrs)
        options: list[str] = []
        if not local and attrs.get("global_symbol") == full_name:
            del attrs["global_symbol"]
        if not function.is_pure:
            options.append("pure=False")
        if not local and function.is_private:
            options.append("private=True")
        # Inside another function the sizes of the signature are those in scope there.
        quoted = not local
        names = [self._name(param) for param in function.params]
        params = [f"{n}: {self.type(p.ty, quoted=quoted)}" for n, p in zip(names, function.params, strict=True)]
        ret_ty = function.ret_ty
        if ret_ty == function.body.body.ty:
            ret_ty = without_numbers(ret_ty)
        head = f"def {name}({', '.join(params)}) -> {self.type(ret_ty, quoted=quoted)}:"
        decorator = f"@R.function({', '.join(options)})" if options else "@R.function"
        body = [] if name == full_name else [f"R.func_name({string_text(full_name)})"]
        if attrs:
            text = attribute_text(attrs)
            self.uses_scalars = self.uses_scalars or "T.float64(" in text
            body.append(f"R.func_attr({text})")
        statements = [*self._blocks(function.body.blocks), *self._return(function.body.body)]
        if not local:
            body += [" = ".join(self._module[::-1])] if self._calls_module and self._module[1] else []
            body += [f"{self._size(variable).name} = T.{variable.dtype}()" for variable in self._declared]
        return [decorator, head, *_indented([*body, *statements])]

    def _return(self, result: Expr) -> list[str]:
        if isinstance(result, If):
            variable = Var("gv", result.ty)
            return [*self._if_bound(self._name(variable), result.ty, result), f"return {self._name(variable)}"]
        return [f"return {self._nested(result, 0)}"]


def _sizes_of(part: Expr | Type) -> tuple[SymVar, ...]:
    match part:
        case Type():
            return type_symvars(part)
        case Var() | ShapeExpr() | PrimValue():
            return type_symvars(part.ty)
        case Call():
            return tuple([size for ty in part.ty_args for size in type_symvars(ty)])
        case _:
            return ()


_WITH_BINDINGS: Final = (VarBinding, MatchCast, BindingBlock, SeqExpr, If)

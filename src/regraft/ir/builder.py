"""Building programs binding by binding.

`BlockBuilder` takes nested expressions and writes them in A-normal form: one binding per call, with a type and a
name that does not clash. It knows no operators. An expression that appears several times inside one emitted value is
bound once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from operator import is_
from typing import Any, Final

from .dims import SymVar
from .equality import structural_equal
from .errors import BuilderError, BuilderTypeError
from .expr import DataflowVar, Expr, GlobalVar, Tuple, TupleGetItem, Var, as_expr
from .hashing import structural_hash
from .module import IRModule
from .op import Call, Op
from .origin import Origin, Origins
from .program import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
    is_leaf,
    merge_blocks,
)
from .types import Type
from .visitor import iter_bindings
from .walks import inner_first


def operands_of(expr: Expr) -> Sequence[Expr]:
    """The direct operands of ``expr``, in order: of an `If` its condition; of leaves and functions none."""
    match expr:
        case Call():
            return expr.args if is_leaf(expr.op) else (expr.op, *expr.args)
        case Tuple():
            return expr.fields
        case TupleGetItem():
            return (expr.tuple_value,)
        case If():
            return (expr.cond,)
        case _:
            return ()


def with_operands(expr: Expr, operands: Sequence[Expr]) -> Expr:
    """``expr`` with other ``operands`` (as `operands_of` lists them), typed again; itself if none differs."""
    if all(a is b for a, b in zip(operands_of(expr), operands, strict=True)):
        return expr
    if isinstance(expr, Call) and is_leaf(expr.op):
        return expr.with_args(operands)
    return with_parts(expr, operands)


def with_each_operand(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """``expr`` with ``change`` applied to each operand, or to ``expr`` if it has none; itself if nothing differs."""
    operands = operands_of(expr)
    return with_operands(expr, [change(operand) for operand in operands]) if operands else change(expr)


def with_parts(expr: Expr, parts: Sequence[Expr]) -> Expr:
    """``expr`` with other ``parts``: callee and arguments, fields, or the one part of a projection or branch."""
    match expr:
        case Call():
            return Call(parts[0], parts[1:], expr.attrs, expr.ty_args)
        case Tuple():
            return Tuple(parts)
        case TupleGetItem():
            return TupleGetItem(parts[0], expr.index)
        case If():
            return If(parts[0], expr.true_branch, expr.false_branch)
        case _:
            return expr


def flatten(
    value: Expr, bind: Callable[[Expr], Expr], *, keep_root: bool = True, done: dict[int, Expr] | None = None
) -> Expr:
    """``value`` with every operand made a leaf; ``bind`` binds each inner expression, operands before users.

    ``keep_root`` leaves the outermost call unbound. Does not recurse; each distinct inner expression is bound once.
    If several values share one table ``done`` (by ``id``), an expression that they share is bound once for all of
    them; the caller must keep the values alive. Cost: linear in the expressions visited.
    """
    if is_leaf(value) or (keep_root and all(map(is_leaf, operands_of(value)))):
        return value
    if done is None:
        done = {}
    for current in inner_first(value, lambda one: () if id(one) in done or is_leaf(one) else operands_of(one)):
        if is_leaf(current):
            done[id(current)] = current
        elif id(current) not in done:
            flat = with_operands(current, [done[id(operand)] for operand in operands_of(current)])
            done[id(current)] = flat if current is value or isinstance(flat, Tuple) else bind(flat)
    result = done.pop(id(value))
    return result if keep_root or is_leaf(result) else bind(result)


class BodyBlocks:
    """The blocks of one body under construction."""

    __slots__ = ("bindings", "blocks", "in_dataflow")

    def __init__(self) -> None:
        self.blocks: list[BindingBlock] = []
        self.bindings: list[Binding] = []
        self.in_dataflow = False

    def close_block(self) -> None:
        """Move the bindings so far into a new block, a dataflow block if ``in_dataflow`` is set."""
        if self.bindings:
            self.blocks.append((DataflowBlock if self.in_dataflow else BindingBlock)(self.bindings))
            self.bindings = []


class NameSupply:
    """Generates names that are not taken yet: ``lv``, ``lv1``, ``lv2`` ... Constant time each."""

    __slots__ = ("_next", "_taken")

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    @classmethod
    def beside(cls, program: Expr | IRModule) -> NameSupply:
        """A supply of names that no parameter or binding of ``program`` has, branches included. Cost: linear."""
        functions = program.functions.values() if isinstance(program, IRModule) else [program]
        params = [param.name_hint for one in functions if isinstance(one, Function) for param in one.params]
        return cls([*params, *(binding.var.name_hint for binding in iter_bindings(program))])

    def reserve(self, name: str) -> None:
        """Mark ``name`` as taken."""
        self._taken.add(name)

    def fresh(self, prefix: str) -> str:
        """A free name, which is then taken: ``prefix`` itself, or else its stem with the smallest free number.

        The stem is ``prefix`` without a number after an underscore, so names made from generated names do not grow.
        If the stem ends with a digit, an underscore is put before the number.
        """
        if prefix not in self._taken:
            self._taken.add(prefix)
            return prefix
        stem, _, number = prefix.rpartition("_")
        if not (stem and number.isdigit()):
            stem = prefix
        joint = "_" if stem[-1].isdigit() else ""
        count = self._next.get(stem, 1)
        while (name := f"{stem}{joint}{count}") in self._taken:
            count += 1
        self._next[stem] = count + 1
        self._taken.add(name)
        return name


def _variables(params: Var | Sequence[Var]) -> tuple[Var, ...]:
    listed: tuple[Any, ...] = (params,) if isinstance(params, Var) else tuple(params)
    for param in listed:
        if not isinstance(param, Var):
            raise BuilderTypeError(f"the parameters of a function are variables, not {param!r}")
    return listed


_open_builders: Final[list[BlockBuilder]] = []


class BlockBuilder:
    """Writes functions into a module. Methods and their order are those of Relax.

    >>> bb = BlockBuilder()
    >>> with bb.function("main", [x, y]):
    ...     with bb.dataflow():
    ...         out = bb.emit_output(R.add(x, y))
    ...     bb.emit_func_output(out)
    >>> mod = bb.get()
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self._module: Final = [mod or IRModule()]
        self._functions: dict[int, list[GlobalVar]] | None = None
        self._function_names = NameSupply(self._module[0])
        self._scopes: list[BodyBlocks] = []
        self._names = NameSupply()
        self._values: dict[Var, Expr] = {}
        self._origins: Origins = ()
        self._header: tuple[str, tuple[Var, ...] | None, dict[str, Any], bool, bool] | None = None
        self._finished = False

    # --- functions and modules

    @contextmanager
    def function(
        self,
        name: str,
        params: Var | Sequence[Var] | None = None,
        attrs: Mapping[str, Any] | None = None,
        pure: bool = True,
        private: bool = False,
    ) -> Generator[None]:
        """Write the function ``name``. The ``with`` block must call `emit_func_output` once, at its end."""
        variables = None if params is None else _variables(params)
        around = self._header, self._names, self._values, self._scopes, self._finished
        self._header = (name, variables, dict(attrs or {}), private, pure)
        self._names = NameSupply(v.name_hint for v in variables or ())
        self._values = {}
        self._scopes = [BodyBlocks()]
        self._finished = False
        _open_builders.append(self)
        try:
            yield
            if not self._finished:
                raise BuilderError(f"function {name!r} has no result: call emit_func_output before its block ends")
        finally:
            _open_builders.pop()
            self._header, self._names, self._values, self._scopes, self._finished = around

    def emit_func_output(self, output: Any, params: Var | Sequence[Var] | None = None) -> GlobalVar:
        """End the function, which returns ``output`` (an expression, or a tuple or list of expressions)."""
        if self._header is None:
            raise BuilderError("emit_func_output is called outside of a function")
        if self._finished:
            raise BuilderError(f"function {self._header[0]!r} has its result already: emit_func_output is called once")
        name, variables, attrs, private, pure = self._header
        if params is not None:
            if variables is not None:
                raise BuilderError(
                    f"the parameters of {name!r} are given twice: to function() and to emit_func_output()"
                )
            variables = _variables(params)
        if variables is None:
            raise BuilderError(
                f"function {name!r} has no parameters: give them to function() or emit_func_output(), [] for none"
            )
        if not private:
            attrs = {"global_symbol": name, **attrs}
        body = self._close_scope(output)
        function = Function(variables, body, None, pure, attrs)
        self._finished = True
        return self.add_func(function, name)

    def add_func(self, func: Function, func_name: str) -> GlobalVar:
        """Put a finished function into the module; returns the variable to call it by.

        A name that is taken gets a number. A function equal to one of the module's is not added again. Cost: linear in
        the function; the first call is also linear in the module's functions.
        """
        known = self._alike(func)
        if known is not None:
            return known
        name = self._function_names.fresh(func_name)
        self._module[0] = self._module[0].with_function(name, func)
        return self._noted(self._module[0].get_global_var(name), func)

    def update_func(self, gv: GlobalVar, updated_func: Function) -> None:
        """Replace a function of the module."""
        self._module[0] = self._module[0].with_function(gv, updated_func)
        self._function_names.reserve(gv.name_hint)
        self._noted(self._module[0].get_global_var(gv.name_hint), updated_func)

    def _alike(self, func: Function) -> GlobalVar | None:
        """The variable of a function of the module that is structurally equal; None if there is none."""
        module = self._module[0]
        if not module.functions:
            return None
        if self._functions is None:
            self._functions = {}
            for variable, function in module.functions.items():
                self._noted(variable, function)
        alike = self._functions.get(structural_hash(func), ())
        return next((v for v in alike if structural_equal(module[v.name_hint], func)), None)

    def _noted(self, variable: GlobalVar, func: Function) -> GlobalVar:
        if self._functions is not None:
            self._functions.setdefault(structural_hash(func), []).append(variable)
        return variable

    def get(self) -> IRModule:
        """The module in its present state."""
        return self._module[0]

    finalize = get

    # --- blocks

    @contextmanager
    def dataflow(self) -> Generator[None]:
        """Put the bindings emitted inside the ``with`` block into one dataflow block."""
        scope = self._scope()
        if scope.in_dataflow:
            raise BuilderError("a dataflow block cannot be opened inside another")
        scope.close_block()
        scope.in_dataflow = True
        try:
            yield
            scope.close_block()
        finally:
            scope.in_dataflow = False
            scope.bindings = []

    @staticmethod
    def current() -> BlockBuilder | None:
        """The builder whose function is being written; None if there is none."""
        return _open_builders[-1] if _open_builders else None

    def begin_scope(self, params: Sequence[Var] | None = None) -> None:
        """Start a nested body (a branch); `end_scope` returns it. The names of ``params`` are marked as taken."""
        for param in params or ():
            self._names.reserve(param.name_hint)
        self._scopes.append(BodyBlocks())

    @contextmanager
    def testing_scope(self, def_vars: Sequence[SymVar]) -> Generator[None]:
        """Let expressions be emitted and normalized without a function; emitted bindings are dropped at the end."""
        del def_vars
        self._scopes.append(BodyBlocks())
        try:
            yield
        finally:
            self._scopes.pop()

    def begin_block(self, *, dataflow: bool) -> None:
        """Start a separate block, dataflow or plain; `end_block` returns it."""
        scope = BodyBlocks()
        scope.in_dataflow = dataflow
        self._scopes.append(scope)

    def end_block(self) -> BindingBlock:
        """End the block that `begin_block` started, and return it with the bindings emitted since."""
        scope = self._scopes.pop()
        return (DataflowBlock if scope.in_dataflow else BindingBlock)(scope.bindings)

    def _begin_dataflow_block(self) -> None:
        self.begin_block(dataflow=True)

    def _begin_binding_block(self) -> None:
        self.begin_block(dataflow=False)

    _end_block = end_block  # Relax's programs use these three names to write separate blocks

    @property
    def has_open_block(self) -> bool:
        """True if a block is open, so that bindings can be emitted."""
        return bool(self._scopes)

    def reserve_name(self, name: str) -> None:
        """Mark a name as taken."""
        self._names.reserve(name)

    def end_scope(self, output: Any = ()) -> SeqExpr:
        """End the innermost nested body and return it; ``output`` is its result, by default the empty tuple."""
        body = self._close_scope(output)
        self._scopes.pop()
        return body

    def _close_scope(self, output: Any) -> SeqExpr:
        scope = self._scope()
        if scope.in_dataflow:
            raise BuilderError("the dataflow block is still open; close it before the result is given")
        result = flatten(as_expr(output), self.emit, keep_root=False)
        scope.close_block()
        return SeqExpr(merge_blocks(scope.blocks), result)

    def _scope(self) -> BodyBlocks:
        if not self._scopes:
            raise BuilderError("nothing can be emitted outside of a function: use `with bb.function(name, params):`")
        return self._scopes[-1]

    def current_block_is_dataflow(self) -> bool:
        """True if a dataflow block is open."""
        return bool(self._scopes) and self._scopes[-1].in_dataflow

    # --- bindings

    def emit(self, expr: Any, name_hint: str = "") -> Var:
        """Bind ``expr`` to a new variable and return it; nested calls are bound first."""
        return self._bind(expr, name_hint, output=False)

    def emit_output(self, expr: Any, name_hint: str = "") -> Var:
        """Bind ``expr`` to a variable that is visible after the dataflow block."""
        if not self._scope().in_dataflow:
            raise BuilderError("emit_output is called outside of a dataflow block; use emit")
        return self._bind(expr, name_hint, output=True)

    def _bind(self, expr: Any, name_hint: str, *, output: bool) -> Var:
        scope = self._scope()
        given = as_expr(expr)
        value = self._inlined(given) if isinstance(given, SeqExpr) else self.normalize(given)
        if value.ty.is_missing() and isinstance(value, Call) and isinstance(value.op, Op):
            value.op.infer(value)
        if scope.in_dataflow and not output:
            var: Var = DataflowVar(self._names.fresh(name_hint or "lv"), value.ty, self._origins)
        else:
            var = Var(self._names.fresh(name_hint or "gv"), value.ty, self._origins)
        scope.bindings.append(VarBinding(var, value))
        self._values[var] = value
        return var

    def _inlined(self, body: SeqExpr) -> Expr:
        """The result of ``body``. Its blocks are written as `_write_blocks` does."""
        self._write_blocks(body)
        result = self.normalize_argument(body.body)
        return self._inlined(result) if isinstance(result, SeqExpr) else result

    def _write_blocks(self, body: SeqExpr) -> None:
        """Write the blocks of ``body`` into the open block; a dataflow block in a plain one stays a separate block."""
        scope = self._scope()
        for block in body.blocks:
            beside = isinstance(block, DataflowBlock) and not scope.in_dataflow
            with self.dataflow() if beside else nullcontext():
                for binding in block.bindings:
                    self._emit_normal(binding)

    def match_cast(self, value: Any, ty: Type, name_hint: str = "") -> Var:
        """Bind ``value``, with a run-time check that it is of type ``ty``."""
        scope = self._scope()
        leaf = flatten(as_expr(value), self.emit, keep_root=False)
        make = DataflowVar if scope.in_dataflow else Var
        var = make(self._names.fresh(name_hint or ("lv" if scope.in_dataflow else "gv")), ty, self._origins)
        scope.bindings.append(MatchCast(var, leaf, ty))
        return var

    def emit_normalized(self, binding: Binding) -> None:
        """Append ``binding`` unchanged. Its value must already be in A-normal form."""
        if not isinstance(binding, VarBinding | MatchCast):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuilderTypeError(f"emit_normalized takes a binding, not {binding!r}; emit binds an expression")
        self._names.reserve(binding.var.name_hint)
        self._scope().bindings.append(binding)
        if isinstance(binding, VarBinding):
            self._values[binding.var] = binding.value

    def normalize(self, expr: Expr) -> Expr:
        """``expr`` in A-normal form: operands are leaves, and bodies are blocks with a leaf as the result.

        Nested calls in functions, bodies and branches are bound there. Nested calls of another expression are bound in
        the open block; without one, they stay nested. An expression already in this form is returned itself. Cost:
        linear.
        """
        if isinstance(expr, Function):
            return self._normal_function(expr)
        if isinstance(expr, SeqExpr):
            return self._normal_body(expr)
        return self._normal_value(expr)

    def _normal_function(self, function: Function) -> Function:
        around = self._names, self._values
        self._names = NameSupply.beside(function)
        body = self._normal_body(function.body)
        self._names, self._values = around
        return function.with_body(body)

    def _normal_body(self, body: SeqExpr) -> SeqExpr:
        blocks: list[BindingBlock] = []
        for block in body.blocks:
            blocks.extend(self._normal_blocks(block))
        self.begin_block(dataflow=False)
        result = self.normalize_argument(body.body)
        blocks = list(merge_blocks([*blocks, *self._end_blocks()]))
        if result is body.body and len(blocks) == len(body.blocks) and all(map(is_, blocks, body.blocks)):
            return body
        return SeqExpr(blocks, result)

    def _normal_blocks(self, block: BindingBlock) -> list[BindingBlock]:
        """The blocks that ``block`` becomes. A dataflow block inside a bound body stays a block of its own."""
        self.begin_block(dataflow=isinstance(block, DataflowBlock))
        for binding in block.bindings:
            self._emit_normal(binding)
        blocks = self._end_blocks()
        bindings = [binding for new in blocks for binding in new.bindings]
        is_same = len(bindings) == len(block.bindings) and all(map(is_, bindings, block.bindings))
        return [block] if is_same else blocks

    def _end_blocks(self) -> list[BindingBlock]:
        """End what `begin_block` started: one block, or several if dataflow blocks were written into a plain one."""
        scope = self._scopes.pop()
        scope.close_block()
        return scope.blocks

    def _emit_normal(self, binding: Binding) -> None:
        """Write ``binding`` with its value in normal form."""
        value = binding.value
        while isinstance(value, SeqExpr):
            self._write_blocks(value)
            value = self.normalize_argument(value.body)
        if isinstance(binding, MatchCast):
            value = self.normalize_argument(value)
            self.emit_normalized(binding if value is binding.value else MatchCast(binding.var, value, binding.ty))
        else:
            value = self.normalize(value)
            self.emit_normalized(binding if value is binding.value else VarBinding(binding.var, value))

    def _normal_value(self, expr: Expr) -> Expr:
        flat = flatten(expr, self.emit) if self._scopes else expr
        if not isinstance(flat, If):
            return flat
        sides = self._normal_body(flat.true_branch), self._normal_body(flat.false_branch)
        if sides[0] is flat.true_branch and sides[1] is flat.false_branch:
            return flat
        return If(flat.cond, *sides)

    def normalize_argument(self, expr: Expr) -> Expr:
        """``expr`` as an operand: itself if it is a leaf, else a new variable that is bound to it."""
        return flatten(expr, self.emit, keep_root=False)

    def emitted(self) -> Sequence[Binding]:
        """The bindings so far of the block that is being written. The sequence grows as more are emitted."""
        return self._scope().bindings

    def lookup_binding(self, var: Var) -> Expr | None:
        """The value that ``var`` is bound to in the current function; None if it is not bound there."""
        return self._values.get(var)

    def get_unique_name(self, name_prefix: str) -> str:
        """A name that no variable of the current function has, which is then taken."""
        return self._names.fresh(name_prefix)

    @contextmanager
    def origin(self, *origins: Origin) -> Generator[None]:
        """Give ``origins`` to the variables that are emitted inside the ``with`` block."""
        before, self._origins = self._origins, tuple(origins)
        try:
            yield
        finally:
            self._origins = before


def in_normal_form(function: Function) -> Function:
    """``function`` with nested calls bound to variables, in branches too; itself if there are none.

    Variables keep their identity. Cost: linear in the bindings.
    """
    normal = BlockBuilder().normalize(function)
    assert isinstance(normal, Function)
    return normal

"""The open frames while a program is written: the program, its module, a function, a block, a branch."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ...ir.builder import BlockBuilder
from ...ir.dims import SymVar
from ...ir.errors import IRError
from ...ir.expr import DataflowVar, Expr, GlobalVar, Tuple, Var
from ...ir.module import IRModule
from ...ir.mutator import ExprMutator
from ...ir.node import init_field
from ...ir.program import BindingBlock, DataflowBlock, Function, If, SeqExpr, merge_blocks
from ...ir.types import Type
from ..evaluate import as_value

_Frame = TypeVar("_Frame", bound="Frame")
Named = TypeVar("Named")

_open: Final[list[Frame]] = []


class Frame:
    """A frame, open from the start to the end of its ``with`` block."""

    def __enter__(self) -> Self:
        _open.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        _open.pop()
        if kind is None:
            self.close()

    def close(self) -> None:
        """Pass the written contents to the enclosing frame."""


def innermost(kind: type[_Frame], what: str) -> _Frame:
    """The innermost open frame of a kind. Raises `IRError` if there is none."""
    for frame in reversed(_open):
        if isinstance(frame, kind):
            return frame
    raise IRError(f"{what} needs an open frame; open it with `with`")


class IRBuilder(Frame):
    """Holds the program that is written inside its ``with``; `get` returns it afterwards."""

    def __init__(self) -> None:
        self.result: Function | IRModule | None = None

    def get(self) -> Function | IRModule:
        """The function or module that was written. Raises `IRError` if there is none."""
        if self.result is None:
            raise IRError("nothing was written: open a function or a module inside of the builder")
        return self.result

    @staticmethod
    def current() -> IRBuilder:
        """The open builder. Raises `IRError` if there is none."""
        return innermost(IRBuilder, "IRBuilder.current()")

    @staticmethod
    def is_in_scope() -> bool:
        """True if a builder is open."""
        return any(isinstance(frame, IRBuilder) for frame in _open)

    @staticmethod
    def name(s: str, v: Named) -> Named:
        """Give the name ``s`` to a variable or size that the open program has just bound; returns ``v`` itself."""
        if isinstance(v, Var):
            init_field(v, "name_hint", s)
        elif isinstance(v, SymVar):
            init_field(v, "name", s)
        return v

    @staticmethod
    def name_many(s: Sequence[str], vs: Sequence[Named]) -> list[Named]:
        """Call `name` for several values."""
        return [IRBuilder.name(one, value) for one, value in zip(s, vs, strict=True)]


class ModuleFrame(Frame):
    """A module; functions that are written inside it are its functions."""

    def __init__(self) -> None:
        self.variables: dict[str, GlobalVar] = {}
        self.functions: dict[str, Function] = {}
        self.attrs: dict[str, Any] = {}
        self.global_infos: dict[str, tuple[Any, ...]] = {}

    def close(self) -> None:
        """Pass the module to the builder. Raises `IRError` for a function that is declared and not written."""
        missing = [name for name in self.variables if name not in self.functions]
        if missing:
            raise IRError(f"the module declares {', '.join(missing)}, and defines no function of that name")
        table = {
            self.variables.get(name) or GlobalVar(name, function.ty): function
            for name, function in self.functions.items()
        }
        innermost(IRBuilder, "a module").result = IRModule(table, self.attrs, self.global_infos)


class BodyFrame(Frame):
    """Bindings in blocks: a function's body or one side of a branch."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder: Final = builder
        self.blocks: list[BindingBlock] = []

    def __enter__(self) -> Self:
        self.builder.begin_block(dataflow=False)
        return super().__enter__()

    def end_row(self) -> None:
        """End the open plain block."""
        self.blocks.append(self.builder.end_block())

    def body(self, result: Expr) -> SeqExpr:
        """All blocks, with ``result`` as their result."""
        leaf = self.builder.normalize_argument(result)
        self.end_row()
        return SeqExpr(merge_blocks(self.blocks), leaf)


class FunctionFrame(BodyFrame):
    """A function."""

    def __init__(self, is_pure: bool, is_private: bool) -> None:
        super().__init__(BlockBuilder())
        self.name: str | None = None
        self.params: list[Var] = []
        self.attrs: dict[str, Any] = {}
        self.ret_ty: Type | None = None
        self.output: Expr | None = None
        self._is_pure = is_pure
        self._is_private = is_private

    def close(self) -> None:
        """Pass the function to the module, or to the builder."""
        if self.output is None:
            raise IRError(f"function {self.name or ''} has no result: call func_ret_value")
        body = self.body(self.output)
        attrs = dict(self.attrs)
        if self.name is not None and not self._is_private:
            attrs = {"global_symbol": self.name, **attrs}
        function = Function(self.params, body, self.ret_ty, self._is_pure, attrs)
        around = _open[-1] if _open else None
        if isinstance(around, ModuleFrame):
            if self.name is None:
                raise IRError("a function of a module needs a name: call func_name")
            around.functions[self.name] = function
        else:
            innermost(IRBuilder, "a function").result = function


class _Outputs(ExprMutator):
    """Turns the outputs of a dataflow block into plain variables."""

    def __init__(self, outputs: set[Var]) -> None:
        super().__init__()
        self.made: dict[Var, Var] = {}
        self._outputs_of_block = outputs

    def visit_var_def_(self, var: Var) -> Var:
        if var not in self._outputs_of_block:
            return var
        self.made[var] = Var(var.name_hint, var.ty, var.origins)
        return self.made[var]


class DataflowFrame(Frame):
    """A dataflow block; ``output_vars`` are its outputs, for use after the block."""

    def __init__(self) -> None:
        self.outputs: tuple[Var, ...] = ()
        self.output_vars: tuple[Var, ...] = ()
        self._around = innermost(BodyFrame, "a dataflow block")

    def __enter__(self) -> Self:
        self._around.end_row()
        self._around.builder.begin_block(dataflow=True)
        return super().__enter__()

    def close(self) -> None:
        """Pass the block to the enclosing body."""
        block = self._around.builder.end_block()
        changing = _Outputs(set(self.outputs))
        seq = changing.mutate(SeqExpr([block], Tuple([])))
        missing = [var.name_hint for var in self.outputs if var not in changing.made]
        if missing:
            raise IRError(f"output: the dataflow block does not bind {', '.join(missing)}")
        self.output_vars = tuple([changing.made[var] for var in self.outputs])
        self._around.blocks.extend(seq.blocks or [DataflowBlock([])])
        self._around.builder.begin_block(dataflow=False)


class IfFrame(Frame):
    """A branch; ``var`` is bound to its result."""

    def __init__(self, condition: Expr) -> None:
        self.condition = condition
        self.sides: dict[str, SeqExpr] = {}
        self.var: Var | None = None
        self._around = innermost(BodyFrame, "If")

    def close(self) -> None:
        """Bind the branch."""
        if set(self.sides) != {"Then", "Else"}:
            raise IRError("If needs both branches: `with Then():` and `with Else():`")
        hint = getattr(self.sides["Else"].body, "name_hint", "")
        branch = If(self._around.builder.normalize_argument(self.condition), self.sides["Then"], self.sides["Else"])
        self.var = self._around.builder.emit(branch, hint)


class SeqFrame(BodyFrame):
    """Blocks by themselves: ``binding_blocks`` holds what is bound inside the ``with``, after its end."""

    def __init__(self) -> None:
        around = [frame.builder for frame in _open if isinstance(frame, BodyFrame)]
        super().__init__(around[-1] if around else BlockBuilder())

    @property
    def binding_blocks(self) -> tuple[BindingBlock, ...]:
        """The blocks that were written."""
        return merge_blocks(self.blocks)

    def close(self) -> None:
        """End the last block."""
        self.end_row()


class SideFrame(BodyFrame):
    """One side of a branch; its result is the value it binds last."""

    def __init__(self, side: str) -> None:
        self._branch = innermost(IfFrame, side)
        self._side = side
        super().__init__(innermost(BodyFrame, side).builder)

    def close(self) -> None:
        """Pass the side to the enclosing branch."""
        self.end_row()
        bindings = [binding for block in self.blocks for binding in block.bindings]
        if not bindings or isinstance(bindings[-1].var, DataflowVar):
            raise IRError(f"{self._side} binds nothing that can be seen after it")
        self._branch.sides[self._side] = SeqExpr(merge_blocks(self.blocks), bindings[-1].var)


def as_operand(value: Any) -> Expr:
    """The operand of a statement as an expression."""
    return as_value(value)

"""The check of a program against the rules of the language; an error shows the place that breaks a rule.

The rules: Each variable is bound once in the module, before it is used, and used only where it is visible. A
`DataflowVar` stays in its block. A dataflow block has no effects and no branches. Operands of bound values are leaves
(A-normal form). Size variables are defined before use, by a parameter or a `MatchCast` with a dimension that consists
of them alone. A variable's type holds for its value, and a function's return type for its result. A pure function has
no effects. Mentioned functions exist, and the ``global_symbol`` of a public function is its name in the module.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

from ..ir.dims import SymVar
from ..ir.errors import RegraftError
from ..ir.expr import Constant, DataflowVar, Expr, GlobalVar, Tuple, Var
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, is_leaf
from ..ir.reading import defining_symvars
from ..ir.steps import Steps, run_steps
from ..ir.types import FuncType, ObjectType, TensorType, Type, erase_unbound, is_subtype, type_symvars
from ..ir.visitor import parts_of
from .variables import own_symvars


class WellFormedError(RegraftError, ValueError):
    """A program breaks a rule of the language; the message names the rule and shows the place."""


class _Checker:
    """A walk through one function in order of evaluation, with the variables in scope at each point."""

    def __init__(
        self, module: IRModule | None, name: str, check_ty: bool, elsewhere: Mapping[Var, str] | None = None
    ) -> None:
        self._module = module
        self._name = name
        self._check_ty = check_ty
        self._elsewhere = elsewhere or {}
        self.bound: set[Var] = set()
        self._seen: dict[Var | SymVar, None] = {}
        """The visible variables, in the order in which scopes added them."""
        self._rows: list[tuple[BindingBlock, int, int]] = []
        self._pure: list[bool] = []

    def fail(self, rule: str) -> WellFormedError:
        """The error for a rule that is broken at the current place, with the bindings around it."""
        rows = [
            f"block {number}, binding {index} ({block.bindings[index].var.name_hint})"
            for block, number, index in self._rows
        ]
        lines = [": ".join(filter(None, (self._name, ", ".join(rows), rule)))]
        if self._rows:
            block, _, index = self._rows[-1]
            for i in range(max(index - 1, 0), min(index + 2, len(block.bindings))):
                mark = ">" if i == index else " "
                lines.extend(f"  {mark} {line}" for line in repr(block.bindings[i]).splitlines())
        return WellFormedError("\n".join(lines))

    @contextmanager
    def _scope(self) -> Generator[None]:
        """A scope: names bound inside are not visible afterwards; leaving costs no more than entering."""
        before = len(self._seen)
        yield
        while len(self._seen) > before:
            self._seen.popitem()

    # --- functions and bodies

    def function(self, function: Function) -> Steps[None]:
        with self._scope():
            if function.attrs.get("relax.force_pure") and not function.is_pure:
                raise self.fail(
                    "relax.force_pure is set on a function that is declared as not pure; remove one of the two"
                )
            self._define_sizes(param.ty for param in function.params)
            for param in function.params:
                if isinstance(param, DataflowVar):
                    raise self.fail(f"parameter {param.name_hint} is a DataflowVar; a parameter is a plain Var")
                self._require_sizes(_sizes_from_around(param.ty), f"the type of parameter {param.name_hint}")
                self._bind(param)
            self._require_sizes(_sizes_from_around(function.ret_ty), "the return type")
            self._pure.append(function.is_pure and not function.attrs.get("relax.force_pure"))
            yield self._seq(function.body)
            self._pure.pop()
        result, promised = function.body.body.ty, function.ret_ty
        if self._check_ty and is_subtype(result, promised) is not True and not _is_closure(result, promised):
            raise self.fail(f"the result is {result!r}, which does not always fit the return type {promised!r}")

    def _seq(self, seq: SeqExpr) -> Steps[None]:
        for number, block in enumerate(seq.blocks):
            in_dataflow = isinstance(block, DataflowBlock)
            for index, binding in enumerate(block.bindings):
                self._rows.append((block, number, index))
                yield from self._binding(binding, in_dataflow)
                self._rows.pop()
            if in_dataflow:
                for binding in block.bindings:
                    if isinstance(binding.var, DataflowVar):
                        self._seen.pop(binding.var, None)
        if not is_leaf(seq.body):
            raise self.fail(f"the result of a body is a {type(seq.body).__name__}; bind it to a variable first")
        self._use(seq.body)

    def _binding(self, binding: Binding, in_dataflow: bool) -> Steps[None]:
        value, var = binding.value, binding.var
        if isinstance(value, Function):
            self._seen[var] = None  # a function that is defined here may call itself
        if isinstance(value, If | Function):
            yield from self._nested(value, in_dataflow)
        else:
            self._flat(value)
        if isinstance(value, Call) and not value.is_pure:
            self._impure(value, in_dataflow)
        if isinstance(binding, MatchCast):
            if not is_leaf(value):
                raise self.fail(f"the value of a match_cast is a {type(value).__name__}; bind it to a variable first")
            self._define_sizes((binding.ty,))
            self._require_sizes(type_symvars(binding.ty), "the type that is cast to")
        self._require_sizes(_sizes_from_around(var.ty), f"the type of {var.name_hint}")
        if isinstance(var, DataflowVar) and not in_dataflow:
            raise self.fail(f"{var.name_hint} is a DataflowVar, but its block is no dataflow block; use a Var")
        if self._check_ty:
            have = binding.ty if isinstance(binding, MatchCast) else value.ty
            if have is not var.ty and is_subtype(have, var.ty) is not True:
                raise self.fail(
                    f"{var.name_hint} is declared as {var.ty!r}, but its value is {have!r}, which does not "
                    "always fit; use match_cast to check it at run time"
                )
        self._bind(var)

    def _nested(self, value: If | Function, in_dataflow: bool) -> Steps[None]:
        if isinstance(value, Function):
            yield self.function(value)
            return
        if in_dataflow:
            raise self.fail("an If is in a dataflow block; end the block before it")
        if not is_leaf(value.cond):
            raise self.fail(f"the condition of an If is a {type(value.cond).__name__}; bind it to a variable first")
        self._use(value.cond)
        for branch in (value.true_branch, value.false_branch):
            with self._scope():
                yield self._seq(branch)

    def _impure(self, call: Call, in_dataflow: bool) -> None:
        callee = call.op.name if isinstance(call.op, Op | Var | GlobalVar) else type(call.op).__name__
        if in_dataflow:
            raise self.fail(f"the call of {callee} has effects, but is in a dataflow block; move it out")
        if self._pure[-1]:
            raise self.fail(f"the call of {callee} has effects, but the function is pure; declare it with pure=False")

    # --- values and variables

    def _flat(self, value: Expr) -> None:
        if isinstance(value, SeqExpr):
            raise self.fail("a body (SeqExpr) is bound as a value; put its bindings before this one")
        if is_leaf(value):
            self._use(value)
            return
        self._require_sizes(own_symvars(value), f"a {type(value).__name__}")
        for part in parts_of(value):
            assert isinstance(part, Expr)
            if not is_leaf(part):
                raise self.fail(f"an operand is a {type(part).__name__}; bind it to a variable first")
            self._use(part)

    def _use(self, leaf: Expr) -> None:
        stack = [leaf]
        while stack:
            current = stack.pop()
            match current:
                case Var():
                    if current not in self._seen:
                        raise self._unseen(current)
                case Tuple():
                    stack.extend(reversed(current.fields))
                case GlobalVar():
                    self._use_function(current)
                case Constant():
                    if current.ty != TensorType(current.data.shape, current.data.dtype):
                        raise self.fail(f"a constant of type {current.ty!r} holds {current.data!r}")
                case _:
                    self._require_sizes(own_symvars(current), f"a {type(current).__name__}")

    def _unseen(self, var: Var) -> WellFormedError:
        if var not in self.bound:
            return self.fail(f"{var.name_hint} is used before it is defined")
        if isinstance(var, DataflowVar):
            return self.fail(f"the DataflowVar {var.name_hint} is used outside of its block; make it an output (a Var)")
        return self.fail(f"{var.name_hint} is used outside of the branch or function that defines it")

    def _use_function(self, var: GlobalVar) -> None:
        if self._module is None:
            return
        if var not in self._module:
            names = ", ".join(self._module) or "none"
            raise self.fail(f"the module has no function {var.name_hint!r}; it has: {names}")
        declared = self._module[var].ty
        if self._check_ty and is_subtype(declared, var.ty) is False:
            raise self.fail(f"{var.name_hint} is used as {var.ty!r}, but the function is {declared!r}")

    def _bind(self, var: Var) -> None:
        if var in self.bound:
            raise self.fail(f"{var.name_hint} is bound a second time; give this binding a new variable")
        if var in self._elsewhere:
            other = self._elsewhere[var]
            raise self.fail(f"{var.name_hint} is bound in {other}, too; copy one of the two by copy_with_new_vars")
        self.bound.add(var)
        self._seen[var] = None

    def _define_sizes(self, types: Iterable[Type]) -> None:
        for ty in types:
            self._seen.update(dict.fromkeys(defining_symvars(ty)))

    def _require_sizes(self, sizes: Iterable[SymVar], where: str) -> None:
        for size in sizes:
            if size not in self._seen:
                raise self.fail(
                    f"{where} mentions the size {size}, which is not defined; a parameter or cast with "
                    "this size alone as a dimension defines it"
                )


def _sizes_from_around(ty: Type) -> list[SymVar]:
    """The size variables that ``ty`` mentions; for a function type, without those that its parameters define."""
    own = _own_sizes(ty)
    return [size for size in type_symvars(ty) if size not in own]


def _own_sizes(ty: Type) -> set[SymVar]:
    """The size variables that the parameters of a function type define."""
    if not isinstance(ty, FuncType):
        return set()
    return {size for param in ty.params or () for size in defining_symvars(param)}


def _without_own_sizes(ty: Type) -> Type:
    """A function type without the sizes that its own parameters define."""
    own = _own_sizes(ty)
    return erase_unbound(ty, lambda size: size not in own)


def well_formed(obj: IRModule | Function, check_ty: bool = True) -> bool:
    """Raise `WellFormedError` for the first rule that ``obj`` breaks; True if it breaks none.

    The message names the rule, the function, block and binding, and shows the bindings around it. ``check_ty`` also
    checks that declared types hold. In a single function, names of other functions are not checked. Cost: linear.
    """
    if isinstance(obj, Function):
        run_steps(_Checker(None, obj.name or "function", check_ty).function(obj))
        return True
    checked: set[Expr] = set()
    bound: dict[Var, str] = {}
    for name, function in obj.items():
        checker = _Checker(obj, name, check_ty, bound)
        if function.name not in (None, name):
            raise checker.fail(f"the function's global_symbol is {function.name!r}; the two names must agree")
        if function.body not in checked:  # one body may be used under several names
            run_steps(checker.function(function))
            bound.update(dict.fromkeys(checker.bound, name))
        checked.add(function.body)
    return True


def check_well_formed(obj: IRModule | Function, check_ty: bool = True) -> bool:
    """True if ``obj`` obeys the rules of the language; `well_formed` reports the broken rule."""
    try:
        return well_formed(obj, check_ty)
    except WellFormedError:
        return False


def _is_closure(result: Type, promised: Type) -> bool:
    """True if a closure, typed as an object or with sizes of its own, may be the promised function."""
    if not isinstance(promised, FuncType):
        return False
    return isinstance(result, ObjectType) or is_subtype(_without_own_sizes(result), promised) is True

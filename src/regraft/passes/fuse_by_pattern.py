"""FuseOpsByPattern: what a pattern matches becomes a function of its own, for a backend to take as one operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..analysis import free_symbolic_vars
from ..ir.builder import NameSupply
from ..ir.expr import Constant, DataflowVar, Expr, GlobalVar, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.program import BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from ..pattern.matcher.match import match_expr
from ..pattern.matcher.view import leaves_of, resolve
from ..pattern.pattern import DFPattern
from ..rewrite.session import EditSession, substitute
from .blocks import SessionWalk
from .context import PassContext, PassError
from .passes import ModulePass, Pass


@dataclass(frozen=True, slots=True)
class PatternCheckContext:
    """What a check may look at to decide whether a match is fused.

    ``annotated_expr`` are the values of the annotated patterns by name: what a bound variable stands for, a parameter
    itself. ``matched_bindings`` are the bindings that would go into the function, ``var_usages`` who uses each variable
    of the block, ``value_to_bound_var`` the variable of each bound value.
    """

    matched_expr: Expr
    annotated_expr: Mapping[str, Expr]
    matched_bindings: Mapping[Var, Expr]
    var_usages: Mapping[Var, Sequence[Var]]
    value_to_bound_var: Mapping[Expr, Var]


Check: TypeAlias = Callable[[PatternCheckContext], bool]


@dataclass(frozen=True, slots=True)
class FusionPattern:
    """What to fuse: the functions get the attribute ``Composite`` with the value ``name``, ``"backend.operation"``.

    ``annotation_patterns`` name parts of the pattern for ``check``, which may decline a match, and for
    ``attrs_getter``, which gives further attributes of the function.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict[str, DFPattern])
    check: Check | None = None
    attrs_getter: Callable[[dict[str, Expr]], Mapping[str, str]] | None = None


class NewFunctions:
    """The functions that a pass adds to a module, under names that are free there."""

    def __init__(self, module: IRModule) -> None:
        self._names = NameSupply(module)
        self.functions: dict[GlobalVar, Function] = {}

    def fresh(self, prefix: str) -> str:
        """A name that the module does not have yet."""
        return self._names.fresh(prefix)

    def add(self, name: str, function: Function) -> GlobalVar:
        """Add a function under a name that `fresh` gave; returns what calls it."""
        variable = GlobalVar(name, function.ty)
        self.functions[variable] = function
        return variable


class _Fusing(SessionWalk):
    """Fuses in each dataflow block of one function."""

    def __init__(
        self,
        function: Function,
        patterns: Sequence[FusionPattern],
        new: NewFunctions,
        context: PassContext,
        *,
        bind_constants: bool,
        annotate_codegen: bool,
    ) -> None:
        super().__init__(function)
        self._patterns = patterns
        self._new = new
        self._context = context
        self._bind_constants = bind_constants
        self._annotate_codegen = annotate_codegen

    def block(
        self, block: BindingBlock, outer: dict[Var, Expr], scope: Mapping[Var, None], later: Mapping[Var, None]
    ) -> BindingBlock:
        if isinstance(block, DataflowBlock) or self.renames:
            return super().block(block, outer, scope, later)
        return block

    def edit(self, session: EditSession, scope: Mapping[Var, None]) -> bool:
        if not session.is_dataflow:
            return False
        bound = {value: var for var, value in session.definitions.items() if var in session.position}
        taken: set[Var] = set()
        changed = False
        for pattern in self._patterns:
            for var in [v for v in session.original if v in session.definitions and v not in taken]:
                value = session.definitions[var]
                matched = match_expr(pattern.pattern, value, session.definitions)
                if matched is None or value not in bound:
                    continue
                group = self._group(session, var, matched, bound, taken)
                if isinstance(group, str):
                    self._context.tell(pattern.name, var.name_hint, group)
                    continue
                reason = self._fuse(session, pattern, var, matched, group, bound)
                self._context.tell(pattern.name, var.name_hint, reason)
                if reason is None:
                    taken.update(group)
                    changed = True
        return changed

    def _group(
        self,
        session: EditSession,
        root: Var,
        matched: Mapping[Any, Any],
        bound: Mapping[Expr, Var],
        taken: set[Var],
    ) -> dict[Var, Expr] | str:
        """The bindings that were matched, in order, or why they cannot be taken out of the block."""
        inside = {bound[shown] for shown in matched.values() if isinstance(shown, Expr) and shown in bound} | {root}
        if inside & taken:
            return "a part of it is fused already"
        group = {var: session.definitions[var] for var in sorted(inside, key=session.rank)}
        if not any(_is_seen_outside(session, var, group) for var in inside - {root}):
            return group
        inputs = [leaf for value in group.values() for leaf in leaves_of(value)]
        for leaf in dict.fromkeys(resolve(session.definitions, leaf) for leaf in inputs):
            if isinstance(leaf, Var) and leaf not in group and session.depends_on(leaf, group):
                return f"its input {leaf.name_hint} is computed from a value inside it"
        return group

    def _fuse(
        self,
        session: EditSession,
        pattern: FusionPattern,
        root: Var,
        matched: Mapping[Any, Any],
        group: Mapping[Var, Expr],
        bound: Mapping[Expr, Var],
    ) -> str | None:
        """Put a call of a new function in the place of ``root``; or say why not."""
        definitions = session.definitions
        annotated = {
            name: definitions.get(shown, shown) if isinstance(shown := matched[part], Var) else shown
            for name, part in pattern.annotation_patterns.items()
            if part in matched
        }
        if pattern.check is not None:
            usages = {var: tuple(session.users.get(var, ())) for var in session.position}
            if not pattern.check(PatternCheckContext(group[root], annotated, group, usages, bound)):
                return "the check declined it"
        attrs: dict[str, Any] = {"Composite": pattern.name}
        if pattern.attrs_getter is not None:
            attrs.update(pattern.attrs_getter(annotated))
        others = [var for var in group if var is not root and _is_seen_outside(session, var, group)]
        function, arguments = self._function(session, root, others, group, attrs)
        missing = free_symbolic_vars(function)
        if missing:
            return f"its inputs do not say what the size {missing[0]} is"
        ops = [value.op.name for value in group.values() if isinstance(value, Call) and isinstance(value.op, Op)]
        name = "fused_" + "_".join(op.replace(".", "_") for op in ops)
        if self._annotate_codegen:
            target = pattern.name.partition(".")[0]
            name = self._new.fresh(f"{name}_{target}")
            function = for_backend(name, target, function)
        else:
            name = self._new.fresh(name)
            function = function.with_attr("Primitive", True)
        call = Call(self._new.add(name, function), arguments)
        if not others:
            session.replace(root, call)
            return None
        results = session.add_value(call, root.name_hint, root.origins)
        for index, var in enumerate([root, *others]):
            session.replace(var, TupleGetItem(results, index))
        return None

    def _function(
        self,
        session: EditSession,
        root: Var,
        others: Sequence[Var],
        group: Mapping[Var, Expr],
        attrs: Mapping[str, Any],
    ) -> tuple[Function, list[Expr]]:
        """The group as a function that gives ``root``, or a tuple of it and ``others``; and what to call it with."""
        table: dict[Var, Expr] = {}
        arguments: dict[Expr, Var] = {}
        bindings: list[VarBinding] = []
        for value in group.values():
            for leaf in leaves_of(value):
                self._add_parameter(session, leaf, group, arguments, table)
        for var, value in group.items():
            make = Var if var is root or var in others else DataflowVar
            local = make("gv" if var is root else var.name_hint, var.ty, var.origins)
            known = _without_constants(value, arguments) if not self._bind_constants else value
            bindings.append(VarBinding(local, substitute(known, table)))
            table[var] = local
        result = Tuple([table[var] for var in (root, *others)]) if others else table[root]
        body = SeqExpr([DataflowBlock(bindings)], result)
        return Function(list(arguments.values()), body, None, True, attrs), list(arguments)

    def _add_parameter(
        self,
        session: EditSession,
        leaf: Expr,
        group: Mapping[Var, Expr],
        arguments: dict[Expr, Var],
        table: dict[Var, Expr],
    ) -> None:
        if isinstance(leaf, Constant) and not self._bind_constants:
            arguments.setdefault(leaf, Var(f"const{len(arguments)}", leaf.ty))
        if not isinstance(leaf, Var) or leaf in group or leaf in table:
            return
        source = resolve(session.definitions, leaf)
        if isinstance(source, Var) and source in group:
            table[leaf] = source
            return
        parameter = arguments[leaf] = Var(leaf.name_hint, leaf.ty, leaf.origins)
        table[leaf] = parameter


def _is_seen_outside(session: EditSession, var: Var, group: Mapping[Var, Expr]) -> bool:
    users, is_output = session.consumers(var)
    return is_output or any(user not in group for user in users)


def _without_constants(value: Expr, arguments: Mapping[Expr, Var]) -> Expr:
    """``value`` with the constants among its operands taken as parameters."""

    def changed(operand: Expr) -> Expr:
        if isinstance(operand, Tuple):
            return Tuple([changed(item) for item in operand.fields])
        return arguments.get(operand, operand) if isinstance(operand, Constant) else operand

    if isinstance(value, Call):
        return Call(value.op, [changed(arg) for arg in value.args], value.attrs, value.ty_args)
    return changed(value) if not isinstance(value, TupleGetItem) else value


def for_backend(name: str, target: str, composite: Function) -> Function:
    """A public function for the backend ``target`` that defines ``composite`` inside and calls it."""
    params = [Var(param.name_hint, param.ty, param.origins) for param in composite.params]
    local = Var("local_func", composite.ty)
    call = Call(local, params)
    output = Var("output", call.ty)
    block = BindingBlock([VarBinding(local, composite), VarBinding(output, call)])
    return Function(params, SeqExpr([block], output), None, True, {"global_symbol": name, "Codegen": target})


def FuseOpsByPattern(
    patterns: Sequence[FusionPattern | tuple[Any, ...]],
    bind_constants: bool = True,
    annotate_codegen: bool = False,
    entry_functions: Sequence[str] | None = None,
) -> Pass:
    """Make what each pattern matches in a dataflow block a private function with the attribute ``Composite``.

    ``patterns`` are `FusionPattern` or tuples of its fields; earlier ones come first. A match is fused as a whole.
    Where something outside uses values inside it besides the last, the function gives a tuple of the last and these, as
    in Relax; such a match is left if an input of it is computed from a value inside. ``bind_constants``: constants go
    into the function, else they become arguments. ``annotate_codegen``: the functions are public and carry ``Codegen``,
    the part of the name before the dot. ``entry_functions``: only these functions are looked at.

    Needs: dataflow blocks; inputs of a match that say all sizes that it mentions. Guarantees: the same values to the
    bit. Raises `PassError` for an entry function that does not exist. Cost: linear in the program for each pattern.
    """
    wanted = [p if isinstance(p, FusionPattern) else FusionPattern(*p) for p in patterns]

    def transform(module: IRModule, context: PassContext) -> IRModule:
        for name in entry_functions or ():
            if name not in module:
                raise PassError(f"FuseOpsByPattern: there is no function {name!r}; there are: {', '.join(module)}")
        new = NewFunctions(module)
        changed: dict[str, Function] = {}
        for name, function in module.items():
            if "Composite" in function.attrs or "Codegen" in function.attrs:
                continue
            if entry_functions is not None and name not in entry_functions:
                continue
            with context.on(name):
                fusing = _Fusing(
                    function, wanted, new, context, bind_constants=bind_constants, annotate_codegen=annotate_codegen
                )
                changed[name] = fusing.transformed()
        if not new.functions:
            return module
        table = {**new.functions, **module.with_functions(changed).functions}
        return IRModule(table, module.attrs)

    return ModulePass(transform, "FuseOpsByPattern")

"""FuseOpsByPattern: bindings that match a pattern become a function, which a backend takes as one operation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ..analysis import free_symbolic_vars
from ..analysis.values import leaves_of, resolve
from ..ir.builder import NameSupply, with_each_operand
from ..ir.equality import structural_equal
from ..ir.expr import Constant, DataflowVar, Expr, GlobalVar, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir.hashing import structural_hash
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from ..ir.types import type_symvars
from ..pattern.matcher.match import match_expr
from ..pattern.pattern import DFPattern
from ..rewrite.session import EditSession, substitute
from ..rewrite.walk import Scope
from .blocks import SessionWalk
from .context import PassContext, PassError
from .passes import ModulePass, Pass


@dataclass(frozen=True, slots=True)
class PatternCheckContext:
    """The data that a check gets to decide whether a match is fused.

    ``annotated_expr`` holds, by name, the values that the annotated patterns match: for a variable bound in the block
    its value, for a parameter the parameter. ``matched_bindings`` are the bindings that would move into the function.
    ``var_usages`` lists the users of each variable in the block. ``value_to_bound_var`` maps each bound value to its
    variable.
    """

    matched_expr: Expr
    annotated_expr: Mapping[str, Expr]
    matched_bindings: Mapping[Var, Expr]
    var_usages: Mapping[Var, Sequence[Var]]
    value_to_bound_var: Mapping[Expr, Var]


FusionCheck: TypeAlias = Callable[[PatternCheckContext], bool]


@dataclass(frozen=True, slots=True)
class FusionPattern:
    """A pattern to fuse, under a ``name`` such as ``"backend.operation"``.

    The functions get the attribute ``Composite`` with this name. ``annotation_patterns`` names parts of the pattern,
    for ``check`` and ``attrs_getter``. ``check`` may decline a match; ``attrs_getter`` returns further attributes of
    the function.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict[str, DFPattern])
    check: FusionCheck | None = None
    attrs_getter: Callable[[dict[str, Expr]], Mapping[str, str]] | None = None


class NewFunctions:
    """The functions that a pass adds to a module, under names that are free there."""

    def __init__(self, module: IRModule) -> None:
        self._names = NameSupply(module)
        self.functions: dict[GlobalVar, Function] = {}
        self._by_hash: dict[int, list[tuple[Function, GlobalVar]]] = {}

    def fresh(self, prefix: str) -> str:
        """A new name: one that no function of the module has."""
        return self._names.fresh(prefix)

    def add(self, name: str, function: Function) -> GlobalVar:
        """Add a function under a name from `fresh`; returns its global variable."""
        variable = GlobalVar(name, function.ty)
        self.functions[variable] = function
        return variable

    def same_or_added(self, prefix: str, function: Function, target: str | None = None) -> GlobalVar:
        """The global variable of ``function``, which is added unless an equal function was added before.

        With a ``target`` it is wrapped for that backend, unless it has the attribute ``Codegen`` itself.
        """
        same = self._by_hash.setdefault(structural_hash(function), [])
        for other, variable in same:
            if structural_equal(other, function):
                return variable
        name = self.fresh(prefix)
        if target is None:
            variable = self.add(name, function.with_attr("Primitive", True))
        elif "Codegen" in function.attrs:
            variable = self.add(f"{name}_{target}", function.with_attr("global_symbol", f"{name}_{target}"))
        else:
            variable = self.add(f"{name}_{target}", for_backend(f"{name}_{target}", target, function))
        same.append((function, variable))
        return variable


class _GroupToFuse(NamedTuple):
    """Bindings that are to become a function: ``group``, in order; ``root`` is the last of them."""

    pattern: FusionPattern
    root: Var
    group: dict[Var, Expr]
    attrs: dict[str, Any]


def outputs_in_order(session: EditSession, group: Collection[Var]) -> list[Var]:
    """The values of ``group`` that something outside needs: outputs of the block, then others in order of use."""
    met: dict[Var, tuple[bool, float, int, int]] = {}
    operands: dict[Var, dict[Expr, int]] = {}
    for order, var in enumerate(group):
        users, is_output = session.consumers(var)
        first = min((user for user in users if user not in group), key=session.rank, default=None)
        if is_output:
            met[var] = (False, session.rank(var), 0, order)
        elif first is not None:
            if first not in operands:
                leaves = dict.fromkeys(leaves_of(session.value_of(first)))
                operands[first] = {leaf: place for place, leaf in enumerate(leaves)}
            met[var] = (True, session.rank(first), operands[first].get(var, 0), order)
    return sorted(met, key=met.__getitem__)


def _with_fields_together(block: BindingBlock, functions: Collection[Expr]) -> BindingBlock:
    """``block`` with the projections of results of ``functions`` right after the calls, in order. Cost: linear."""
    fields: dict[Var, list[Binding]] = {
        binding.var: [] for binding in block if isinstance(binding.value, Call) and binding.value.op in functions
    }
    if not fields:
        return block
    kept: list[Binding] = []
    for binding in block:
        value = binding.value
        owner = value.tuple_value if isinstance(value, TupleGetItem) else None
        row = fields.get(owner) if isinstance(owner, Var) else None
        (kept if row is None else row).append(binding)
    return type(block)(moved for binding in kept for moved in (binding, *fields.get(binding.var, ())))


class WalkWithNewFunctions(SessionWalk):
    """Edits the blocks of one function so that they call new functions.

    If a function returns several results, the projections of its tuple stand right behind the call. If such a result is
    itself a tuple, its own projections stay where they were.
    """

    def __init__(self, function: Function, new: NewFunctions, context: PassContext) -> None:
        super().__init__(function)
        self._new = new
        self._context = context
        self._giving_several: set[Expr] = set()

    def replace_by_call(self, session: EditSession, outputs: Sequence[Var], call: Call, named: Var) -> None:
        """Replace ``outputs`` by ``call``, or by the fields of its result if there are several.

        The variable of such a result gets the name and origins of ``named``.
        """
        if len(outputs) == 1:
            session.replace(outputs[0], call)
            return
        self._giving_several.add(call.op)
        results = session.add_value(call, named.name_hint, named.origins)
        for index, var in enumerate(outputs):
            session.replace(var, TupleGetItem(results, index))

    def block(self, block: BindingBlock, outer: dict[Var, Expr], scope: Scope, later: Scope) -> BindingBlock:
        """The replacement of ``block``."""
        new = super().block(block, outer, scope, later)
        return new if new is block else _with_fields_together(new, self._giving_several)


def with_new_functions(
    module: IRModule,
    new: NewFunctions,
    context: PassContext,
    walk: Callable[[Function], SessionWalk],
    among: Collection[str],
) -> IRModule:
    """``module`` with the functions ``among`` walked over, and the new functions in front.

    Functions of backends are skipped. The same object if nothing has changed.
    """

    def change(name: str, function: Function) -> Function:
        if name not in among or "Composite" in function.attrs or "Codegen" in function.attrs:
            return function
        with context.on(name):
            return walk(function).transformed()

    changed = module.with_each(change)
    return IRModule({**new.functions, **changed.functions}, module.attrs) if new.functions else changed


class _FusionOptions(NamedTuple):
    """The options of `FuseOpsByPattern`."""

    patterns: Sequence[FusionPattern]
    bind_constants: bool
    annotate_codegen: bool


class _Fusing(WalkWithNewFunctions):
    """Fuses the matches in each dataflow block of one function."""

    def __init__(
        self,
        function: Function,
        new: NewFunctions,
        context: PassContext,
        options: _FusionOptions,
    ) -> None:
        super().__init__(function, new, context)
        self._options = options

    def block(self, block: BindingBlock, outer: dict[Var, Expr], scope: Scope, later: Scope) -> BindingBlock:
        if not isinstance(block, DataflowBlock) and not self.renames:
            return block
        return super().block(block, outer, scope, later)

    def edit(self, session: EditSession, scope: Scope) -> bool:
        if not session.is_dataflow:
            return False
        changed = False
        unused = [var for var in session.original if not session.users.get(var) and var not in session.outputs]
        session.pinned.update(dict.fromkeys(unused))  # as in Relax, they stay if no match contains them
        for match in sorted(self._matches(session), key=lambda match: session.rank(match.root)):
            reason = self._fuse(session, match)
            self._context.tell(match.pattern.name, match.root.name_hint, reason)
            changed = changed or reason is None
        return changed

    def _matches(self, session: EditSession) -> Iterator[_GroupToFuse]:
        """The matches of the patterns at calls, in block order; a larger match replaces the matches inside it.

        A match that shares only a part with an earlier match of the pattern is not used. The checks see only the values
        up to the match.
        """
        taken: set[Var] = set()
        for pattern in self._options.patterns:
            matches: dict[Var, _GroupToFuse] = {}
            bound: dict[Expr, Var] = {}
            for var in [v for v in session.original if v in session.definitions]:
                value = session.definitions[var]
                bound[value] = var
                # Only calls are roots, as in Relax: a function that only makes a tuple or takes a field computes
                # nothing.
                if var in taken or not isinstance(value, Call):
                    continue
                matched = match_expr(pattern.pattern, value, session.definitions)
                if matched is None:
                    continue
                found = self._checked(session, pattern, var, matched, bound, taken)
                if isinstance(found, str):
                    self._context.tell(pattern.name, var.name_hint, found)
                elif all(matches[part].group.keys() <= found.group.keys() for part in found.group if part in matches):
                    matches.update(dict.fromkeys(found.group, found))
                else:
                    self._context.tell(pattern.name, var.name_hint, "a part of it belongs to a match before it")
            taken.update(matches)
            yield from {match.root: match for match in matches.values()}.values()

    def _checked(
        self,
        session: EditSession,
        pattern: FusionPattern,
        root: Var,
        matched: Mapping[Any, Any],
        bound: Mapping[Expr, Var],
        taken: set[Var],
    ) -> _GroupToFuse | str:
        """The matched bindings, in order; or the reason why they are not fused."""
        shown = [value for value in matched.values() if isinstance(value, Expr) and not isinstance(value, Tuple)]
        inside = {bound[value] for value in shown if value in bound} | {root}
        if inside & taken:
            return "a part of it is fused already"
        definitions = session.definitions
        group = {var: definitions[var] for var in sorted(inside, key=session.rank)}
        annotated = {
            name: definitions.get(value, value) if isinstance(value := matched[part], Var) else value
            for name, part in pattern.annotation_patterns.items()
            if part in matched
        }
        if pattern.check is not None:
            used = dict.fromkeys([*session.position, *session.users])
            usages = {var: tuple(session.users.get(var, ())) for var in used}
            if not pattern.check(PatternCheckContext(group[root], annotated, group, usages, bound)):
                return "the check declined it"
        attrs: dict[str, Any] = {"Composite": pattern.name}
        if pattern.attrs_getter is not None:
            attrs.update(pattern.attrs_getter(annotated))
        return _GroupToFuse(pattern, root, group, attrs)

    def _fuse(self, session: EditSession, match: _GroupToFuse) -> str | None:
        """Replace the match by a call of a new function; or return the reason why this is not possible."""
        group = match.group
        if any(_is_seen_outside(session, var, group) for var in group if var is not match.root):
            inputs = [leaf for value in group.values() for leaf in leaves_of(value)]
            for leaf in dict.fromkeys(resolve(session.definitions, leaf) for leaf in inputs):
                if isinstance(leaf, Var) and leaf not in group and session.depends_on(leaf, group):
                    return f"its input {leaf.name_hint} is computed from a value inside it"
        outputs = outputs_in_order(session, group)
        if not outputs:
            session.pinned.pop(match.root, None)
            session.drop_unused([match.root])
            return None
        function, arguments = self._function(session, outputs, group, match.attrs)
        missing = free_symbolic_vars(function)
        if missing:
            return f"its inputs do not say what the size {missing[0]} is"
        ops = [value.op.name for value in group.values() if isinstance(value, Call) and isinstance(value.op, Op)]
        name = "fused_" + "_".join(op.replace(".", "_") for op in ops)
        target = match.pattern.name.partition(".")[0] if self._options.annotate_codegen else None
        call = Call(self._new.same_or_added(name, function, target), arguments)
        self.replace_by_call(session, outputs, call, match.root)
        return None

    def _function(
        self, session: EditSession, outputs: Sequence[Var], group: Mapping[Var, Expr], attrs: Mapping[str, Any]
    ) -> tuple[Function, list[Expr]]:
        """The group as a function that returns ``outputs``, as a tuple if there are several; and its arguments."""
        table: dict[Var, Expr] = {}
        arguments: dict[Expr, Var] = {}
        bindings: list[VarBinding] = []
        names: dict[Var, list[Var]] = {}
        for value in group.values():
            for leaf in leaves_of(value):
                source = resolve(session.definitions, leaf)
                if isinstance(leaf, Var) and isinstance(source, Var) and leaf not in group and source in group:
                    names.setdefault(source, []).append(leaf)
                else:
                    self._add_parameter(leaf, group, arguments, table)
        for var, value in group.items():
            make = Var if var in outputs else DataflowVar
            local = make("gv" if [var] == outputs else var.name_hint, var.ty, var.origins)
            bindings.append(VarBinding(local, substitute(_with_parameters(value, arguments), table)))
            table.update(dict.fromkeys((var, *names.get(var, ())), local))
        result = Tuple([table[var] for var in outputs]) if len(outputs) > 1 else table[outputs[0]]
        body = SeqExpr([DataflowBlock(bindings)], result)
        return Function(list(arguments.values()), body, None, True, attrs), list(arguments)

    def _add_parameter(
        self, leaf: Expr, group: Mapping[Var, Expr], arguments: dict[Expr, Var], table: dict[Var, Expr]
    ) -> None:
        is_constant = isinstance(leaf, Constant) and not self._options.bind_constants
        if is_constant or (isinstance(leaf, ShapeExpr) and type_symvars(leaf.ty)):
            arguments.setdefault(leaf, Var(f"param_{len(arguments)}", leaf.ty))
        if not isinstance(leaf, Var) or leaf in group or leaf in table:
            return
        parameter = arguments[leaf] = Var(leaf.name_hint, leaf.ty, leaf.origins)
        table[leaf] = parameter


def _is_seen_outside(session: EditSession, var: Var, group: Mapping[Var, Expr]) -> bool:
    users, is_output = session.consumers(var)
    return is_output or any(user not in group for user in users)


def _with_parameters(value: Expr, arguments: Mapping[Expr, Var]) -> Expr:
    """``value`` with parameters in place of its operands that are constants or shapes and have become arguments."""

    def changed(operand: Expr) -> Expr:
        if isinstance(operand, Tuple):
            return Tuple([changed(item) for item in operand.fields])
        return arguments.get(operand, operand) if not isinstance(operand, Var) else operand

    return with_each_operand(value, changed)


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
    """Turn each match of a pattern in a dataflow block into a private function with the attribute ``Composite``.

    ``patterns`` are `FusionPattern` or tuples of its fields. Earlier patterns take precedence. If two matches of one
    pattern overlap, the first is fused, or the larger one if it contains the other. A match is fused as a whole. If
    something outside uses several of its values, the function returns a tuple of them, in the order in which they are
    needed. Such a match is left alone if one of its inputs is computed from a value inside. A match that nothing needs
    is removed; other unused values stay. Equal functions are merged.

    ``bind_constants``: constants go into the function; otherwise they become arguments. ``annotate_codegen``: the
    functions are public and have the attribute ``Codegen``, the part of the name before the dot. ``entry_functions``:
    only these functions are processed.

    Needs: dataflow blocks; the inputs of a match must define all sizes that it mentions. Guarantees: the same values to
    the bit. Raises `PassError` for an entry function that does not exist. Cost: linear in the program for each pattern.
    """
    wanted = [p if isinstance(p, FusionPattern) else FusionPattern(*p) for p in patterns]

    def transform(module: IRModule, context: PassContext) -> IRModule:
        for name in entry_functions or ():
            if name not in module:
                raise PassError(f"FuseOpsByPattern: there is no function {name!r}; there are: {', '.join(module)}")
        new = NewFunctions(module)
        options = _FusionOptions(wanted, bind_constants, annotate_codegen)
        names = list(module) if entry_functions is None else entry_functions
        return with_new_functions(
            module, new, context, lambda function: _Fusing(function, new, context, options), among=names
        )

    return ModulePass(transform, "FuseOpsByPattern")

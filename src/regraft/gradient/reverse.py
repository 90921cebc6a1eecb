"""The reverse pass: from the adjoint of the target back through the bindings to the parameters.

Each binding whose value the target depends on is visited once, from last to first. At that point the adjoint of its
variable is complete, and the operator's rule gives the share of each operand. Only variables on a path from a required
parameter to the target have an adjoint; shares that are not needed are never written, and neither are zeros.

Rules see the variables of the original function. Their results are rewritten for the new function: its copies of the
forward values, or values computed again inside checkpointed stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn, TypeAlias, cast

from ..analysis.values import leaves_of
from ..ir.builder import NameSupply, operands_of, with_operands
from ..ir.expr import DataflowVar, Expr, ExternFunc, GlobalVar, Tuple, TupleGetItem, Var
from ..ir.leaf_types import leaf_types
from ..ir.op import Call, Op, Trait
from ..ir.origin import Origins
from ..ir.program import Binding, Function, If, MatchCast, VarBinding, is_leaf
from ..ir.types import FuncType, ObjectType, TensorType, TupleType, Type, is_subtype
from ..ir.walks import inner_first
from ..op.adjoints import GradientError, fields_of, is_differentiable, zeros_of
from ..op.primitive.binary import add
from ..op.primitive.broadcast import collapse_sum_like, collapse_sum_to
from ..op.primitive.create import ones
from ..op.primitive.join import split
from ..op.primitive.loop import LOOP
from ..op.public_function import operator_of

_SPLIT: Final = operator_of(split)
_SUMS: Final = (operator_of(collapse_sum_to), operator_of(collapse_sum_like))

Path: TypeAlias = tuple[int, ...]
"""The place of an adjoint in a nested tuple: () for a tensor, (1,) for field 1."""


class Share(NamedTuple):
    """The share of one variable, or of one tensor inside it, from one binding; not written yet."""

    var: Var
    path: Path
    value: Expr


def active_values(function: Function, required: Iterable[Var]) -> set[Var]:
    """The variables of ``function`` through which a gradient can reach one of ``required``. Cost: linear."""
    active = set(required)
    for block in function.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, Call) and type(value.op) is Op and stops_gradient(value.op):
                continue
            if not _may_carry(binding.var.ty):
                continue
            if any(leaf in active for leaf in leaves_of(value)):
                active.add(binding.var)
    return active


def stops_gradient(op: Op) -> bool:
    """True if no gradient passes through ``op``; a rule that a user registers for it overrides this."""
    return Trait.STOPS_GRADIENT in op.traits and op.gradient is None


def _may_carry(ty: Type) -> bool:
    """True if values of type ``ty`` contain floating numbers, or may contain some, as objects and functions."""
    return any(isinstance(leaf, ObjectType | FuncType) or is_differentiable(leaf) for leaf in leaf_types(ty))


class ReversePass:
    """Writes the backward bindings of one function; ``bindings`` holds them, in order.

    ``forward`` maps the variables of ``function`` to their replacements in the new function; ``recomputed`` are the
    variables to compute again. The adjoint of a tuple is one tuple, as in Relax, with zeros for fields without a share.
    With ``fields_apart``, each field has an adjoint of its own, and nothing is added to zeros.
    """

    def __init__(
        self,
        function: Function,
        required: Iterable[Var],
        forward: Mapping[Var, Expr],
        recomputed: Mapping[Var, None],
        names: NameSupply,
        *,
        fields_apart: bool = True,
    ) -> None:
        required = tuple(required)
        self.bindings: list[Binding] = []
        self._required: Final = frozenset(required)
        self._order: Final = [binding for block in function.body.blocks for binding in block.bindings]
        self._active = active_values(function, required)
        self._forward = forward
        self._recomputed = recomputed
        self._definitions = {b.var: b for b in self._order if b.var in recomputed}
        self._again: dict[Var, Expr] = {}
        self.names = names
        self._adjoints: dict[Var, dict[Path, Expr]] = {}
        self._fields_apart: Final = fields_apart
        self._whole: Final[frozenset[Var]] = frozenset() if fields_apart else _whole_tuples(function)

    # --- what the transform asks for

    def run(self, target: Expr, path: Path) -> None:
        """Propagate the adjoint of a scalar ``target`` (or its field ``path``), which is 1, back to the parameters."""
        if not (isinstance(target, Var) and target in self._active):
            return
        ty = target.ty
        for index in path:
            assert isinstance(ty, TupleType)
            ty = ty.fields[index]
        assert isinstance(ty, TensorType)
        self.run_from([Share(target, path, ones((), ty.dtype))])

    def run_from(self, seeds: Iterable[Share]) -> None:
        """Propagate the adjoints ``seeds`` back to the parameters."""
        for seed in seeds:
            if seed.var in self._active:
                self._accumulate(seed, seed.var.origins)
        for binding in reversed(self._order):
            fields = self._adjoints.get(binding.var)
            if fields is not None:
                self._visit(binding, fields)
            if binding.var not in self._required:
                self._adjoints.pop(binding.var, None)

    def gradient_of(self, param: Var) -> Expr:
        """The gradient with respect to ``param``, of its type; zeros if the target does not depend on it."""
        fields = self._adjoints.get(param, {})
        value = self._assembled(param, param.ty, fields, ())
        flat = self._flattened(value, {}, param.origins)
        return flat if fields or self._fields_apart else self.emit(flat, f"{param.name_hint}_adjoint", param.origins)

    def emit(self, value: Expr, name: str, origins: Origins, *, is_output: bool = False) -> Var:
        """Bind ``value``, whose operands are leaves, to a new variable."""
        var = (Var if is_output else DataflowVar)(self.names.fresh(name), value.ty, origins)
        self.bindings.append(VarBinding(var, value))
        return var

    # --- what the backward part of a loop asks for

    def is_active(self, leaf: Expr) -> bool:
        """True if a gradient is wanted through a variable."""
        return leaf in self._active

    def function_of(self, leaf: Expr) -> Function | None:
        """The function that a variable is bound to; None if it is bound to something else."""
        found = next((binding.value for binding in self._order if binding.var is leaf), None)
        return found if isinstance(found, Function) else None

    def emit_cast(self, value: Expr, ty: Type, name: str, origins: Origins) -> Var:
        """Bind ``value``, checked to have the type ``ty``, to a new variable."""
        var = DataflowVar(self.names.fresh(name), ty, origins)
        self.bindings.append(MatchCast(var, value, ty))
        return var

    # --- one binding

    def _visit(self, binding: Binding, fields: Mapping[Path, Expr]) -> None:
        value = binding.value
        if isinstance(binding, MatchCast) or is_leaf(value) or isinstance(value, TupleGetItem):
            for path, adjoint in fields.items():
                for share in self.shares(value, path, adjoint):
                    self._accumulate(share, binding.var.origins)
            return
        if isinstance(value, Call) and value.op is LOOP and LOOP.gradient is None:
            from .loops import loop_shares  # it goes back through bodies in the same way

            shares = loop_shares(self, binding, fields)
        else:
            self._recompute(binding.var if binding.var in self._recomputed else value)
            shares = self._rule_shares(binding, value, fields)
        origins = binding.var.origins
        memo: dict[int, Expr] = {}
        parts: Iterable[Expr] = (self._flattened(_summed(share.value), memo, origins) for share in shares)
        if isinstance(value, Call) and isinstance(value.op, Op) and value.op.is_primitive:
            parts = list(parts)  # as Relax writes them: operands of the shares of arithmetic come first
        for share, part in zip(shares, parts, strict=True):
            value, whole = part, _summed(share.value)
            if whole is not share.value:  # as Relax writes it: a value comes just before its sum to the operand's shape
                if id(whole) not in memo:
                    memo[id(whole)] = part if is_leaf(part) else self.emit(part, "lv", origins)
                value = self._flattened(share.value, memo, origins)
            self._accumulate(Share(share.var, share.path, value), origins)

    def _rule_shares(self, binding: Binding, call: Expr, fields: Mapping[Path, Expr]) -> list[Share]:
        """The shares of the operands that need one, from the rule of the call's operator."""
        if not (isinstance(call, Call) and type(call.op) is Op):
            _refuse_value(binding)
        rule = call.op.gradient
        if rule is None:
            refuse_operator(binding, call.op)
        try:
            given = rule(call, binding.var, self._assembled(binding.var, binding.var.ty, fields, ()))
        except GradientError as error:
            raise GradientError(f"{error}\n  in the gradient of {described(binding)}") from None
        except Exception as error:
            error.add_note(f"in the gradient of {described(binding)}")
            raise
        if len(given) != len(call.args):
            raise GradientError(
                f"the gradient rule of {call.op.name} returned {len(given)} shares for the {len(call.args)} operands "
                f"of {described(binding)}; return one for each, None where no gradient goes"
            )
        shares: list[Share] = []
        for index, (operand, share) in enumerate(zip(call.args, given, strict=True)):
            if share is None or not any(leaf in self._active for leaf in leaves_of(operand)):
                continue
            if is_subtype(share.ty, operand.ty) is False:
                raise GradientError(
                    f"the gradient rule of {call.op.name} returned a share of type {share.ty!r} for its operand "
                    f"{call.op.operand_name(index)}, which is {operand.ty!r}: expected that type, in "
                    f"{described(binding)}"
                )
            shares.extend(self.shares(operand, (), share))
        return shares

    def shares(self, operand: Expr, path: Path, share: Expr) -> list[Share]:
        """``share``, which belongs to ``path`` in ``operand``, split into shares of the tensors that need one."""
        found: list[Share] = []
        pending = [(operand, path, share)]
        while pending:
            operand, path, share = pending.pop()
            if isinstance(operand, TupleGetItem):
                pending.append((operand.tuple_value, (operand.index, *path), share))
            elif isinstance(operand, Tuple) and path:
                pending.append((operand.fields[path[0]], path[1:], share))
            elif isinstance(operand, Var) and operand not in self._active:
                continue
            elif operand in self._whole:
                found.append(Share(cast(Var, operand), path, _put_together(share)))
            elif isinstance(share.ty, TupleType):
                fields = self._fields(share)
                pending.extend((operand, (*path, i), fields[i]) for i in reversed(range(len(fields))))
            elif isinstance(operand, Var) and is_differentiable(share.ty):
                found.append(Share(operand, path, share))
        return found

    def _fields(self, share: Expr) -> Sequence[Expr]:
        if isinstance(share, Tuple):
            return share.fields
        flat = self._flattened(share, {}, ())
        return fields_of(flat if is_leaf(flat) else self.emit(flat, "lv", ()))

    def _assembled(self, value: Expr, ty: Type, fields: Mapping[Path, Expr], path: Path) -> Expr:
        """The adjoint of ``value`` as one expression; missing fields are zeros, which are written only if used."""
        if path == () and () in fields:
            return fields[()]
        if isinstance(ty, TupleType):
            parts = fields_of(value)
            return Tuple([self._assembled(part, part.ty, fields, (*path, i)) for i, part in enumerate(parts)])
        if path in fields:
            return fields[path]
        return zeros_of(value) if isinstance(ty, TensorType) else value

    def _accumulate(self, share: Share, origins: Origins) -> None:
        """Add a share, whose operands are leaves, to the adjoint of its variable."""
        fields = self._adjoints.setdefault(share.var, {})
        if share.var in self._whole:
            fields[()] = self._whole_adjoint(share, fields.get(()), origins)
            return
        name = "_".join([share.var.name_hint, *map(str, share.path), "adjoint"])
        own = share.var.origins or origins
        so_far = fields.get(share.path)
        if so_far is None:
            fields[share.path] = self.emit(share.value, name, own)
            return
        increment = share.value if is_leaf(share.value) else self.emit(share.value, "lv", origins)
        fields[share.path] = self.emit(add(so_far, increment), name, own)

    def _whole_adjoint(self, share: Share, so_far: Expr | None, origins: Origins) -> Expr:
        """The adjoint of a tuple as one tuple, with ``share`` added to it."""
        own = share.var.origins or origins
        whole = _placed(self.refer(share.var), share) if so_far is None else _increased(so_far, share.path, share.value)
        return self.emit(self._flattened(whole, {}, own), f"{share.var.name_hint}_adjoint", own)

    # --- writing down what rules return

    def refer(self, leaf: Expr) -> Expr:
        """The expression in the new function for a leaf of the original one."""
        if not isinstance(leaf, Var):
            return leaf
        again = self._again.get(leaf)
        return self._forward.get(leaf, leaf) if again is None else again

    def _flattened(self, root: Expr, memo: dict[int, Expr], origins: Origins) -> Expr:
        """``root`` over leaves of the new function, with inner expressions bound; each once for each ``memo``."""
        for current in inner_first(root, lambda expr: () if id(expr) in memo else operands_of(expr)):
            if id(current) in memo:
                continue
            operands = operands_of(current)
            if not operands and is_leaf(current):
                flat = self.refer(current)
            else:
                flat = with_operands(current, [memo[id(operand)] for operand in operands])
                if current is root:
                    return flat
                if not isinstance(flat, Tuple):
                    flat = self.emit(flat, "lv", origins)
            memo[id(current)] = flat
        return memo[id(root)]

    def _recompute(self, value: Expr) -> None:
        """Compute the variables in ``value`` that are inside checkpointed stages again."""
        if not self._recomputed:
            return

        def binding_of(current: Expr) -> Binding | None:
            """The binding to compute again for ``current``; None if there is none."""
            if not isinstance(current, Var) or current in self._again:
                return None
            return self._definitions.get(current)

        def parts_of(current: Expr) -> Sequence[Expr]:
            binding = binding_of(current)
            return operands_of(current) if binding is None else (binding.value,)

        for current in inner_first(value, parts_of):
            binding = binding_of(current)
            if binding is not None:
                self._again[binding.var] = self._computed_again(binding)

    def _computed_again(self, binding: Binding) -> Expr:
        var = binding.var
        value = self._flattened(binding.value, {}, var.origins)
        if isinstance(binding, MatchCast):
            return self.emit_cast(value, binding.ty, f"{var.name_hint}_cp", var.origins)
        return self.emit(value, f"{var.name_hint}_cp", var.origins)


def _whole_tuples(function: Function) -> frozenset[Var]:
    """The tuples of tensors whose adjoint is a tuple as well: parameters, written-out tuples, and results of `split`.

    The rules of other operators with tuple results use only the fields that have a share.
    """
    whole = [param for param in function.params if isinstance(param.ty, TupleType)]
    for block in function.body.blocks:
        for binding in block:
            if isinstance(binding.var.ty, TupleType) and not isinstance(binding, MatchCast):
                value = binding.value
                if not isinstance(value, Call) or value.op is _SPLIT:
                    whole.append(binding.var)
    return frozenset(var for var in whole if all(map(is_differentiable, leaf_types(var.ty))))


def _placed(value: Expr, share: Share) -> Expr:
    """Zeros like ``value``, with ``share`` at its place."""
    if not share.path:
        return share.value
    at, *rest = share.path
    inner = Share(share.var, tuple(rest), share.value)
    return Tuple([_placed(part, inner) if i == at else zeros_of(part) for i, part in enumerate(fields_of(value))])


def _increased(so_far: Expr, path: Path, share: Expr) -> Expr:
    """``so_far`` with ``share`` added at ``path``."""
    if not isinstance(so_far.ty, TupleType):
        return add(so_far, share)
    parts = fields_of(so_far)
    if path:
        at, *rest = path
        return Tuple([_increased(part, tuple(rest), share) if i == at else part for i, part in enumerate(parts)])
    return Tuple([_increased(part, (), TupleGetItem(share, i)) for i, part in enumerate(parts)])


def _put_together(share: Expr) -> Expr:
    """The tuple whose fields ``share`` collects again in order; ``share`` itself if it does something else."""
    fields = share.fields if isinstance(share, Tuple) else ()
    whole = fields[0].tuple_value if fields and isinstance(fields[0], TupleGetItem) else share
    same = [isinstance(f, TupleGetItem) and f.tuple_value is whole and f.index == i for i, f in enumerate(fields)]
    return whole if all(same) and whole.ty == share.ty else share


def _summed(share: Expr) -> Expr:
    """The operand of ``share`` if it is a sum to the shape of an operand, else ``share`` itself."""
    if isinstance(share, Call) and share.op in _SUMS:
        return share.args[0]
    return share


# --- errors


def described(binding: Binding) -> str:
    """The text of a binding, with its origin in the source model."""
    origins = ", ".join(map(str, binding.var.origins))
    value = binding.value
    text = "if ..." if isinstance(value, If) else repr(value)
    return f"{binding.var.name_hint} = {text}" + (f" (from {origins})" if origins else "")


def refuse_operator(binding: Binding, op: Op, why: str = "") -> NoReturn:
    """Raise the error for an operator without a gradient; ``why`` says why its decomposition gives none either."""
    raise GradientError(
        f"{op.name} has no gradient rule{why}, and the target depends on {described(binding)}\n"
        f'  declare one with @regraft.gradient.register_gradient("{op.name}"), '
        "or stop the gradient before it with R.grad.no_grad"
    )


def _refuse_value(binding: Binding) -> NoReturn:
    value = binding.value
    if isinstance(value, If):
        what = "a branch"
        remedy = "compute both sides and choose with R.where, or take the gradient of what one side computes"
    elif isinstance(value, Call) and isinstance(value.op, GlobalVar):
        what = f"a call of the function {value.op.name_hint}"
        remedy = "inline the function first, with regraft.transform.InlinePrivateFunctions"
    elif isinstance(value, Call) and isinstance(value.op, ExternFunc):
        what = f'a call of the outside function "{value.op.global_symbol}"'
        remedy = "write it with operators, or stop the gradient before it with R.grad.no_grad"
    else:
        what = "a function value, or a call of one"
        remedy = "write what it computes in the function itself"
    raise GradientError(
        f"no gradient passes through {what}, and the target depends on {described(binding)}\n  {remedy}"
    )

"""The gradient of loops.

`with_tapes` makes each loop stack the inputs of its steps, before the backward part is written. `loop_shares` writes
another loop, which goes through these stacks from the last step to the first. Its body computes one step again, and
propagates the adjoints of the step's results to its inputs. Variables that the body reads from outside get a share from
every step; the sum is carried along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..analysis import free_vars, loop_body
from ..ir.binding_values import bind_sizes
from ..ir.builder import NameSupply
from ..ir.dims import Dim, SymVar
from ..ir.expr import DataflowVar, Expr, GlobalVar, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from ..ir.types import TensorType, TupleType, Type, bind_type, substitute_type
from ..op.adjoints import GradientError, is_differentiable, zeros_of
from ..op.primitive.binary import add
from ..op.primitive.loop import LOOP, STEP, LoopParts, loop, loop_parts, loop_types, row_of
from ..op.primitive.manipulate import flip
from ..passes.normalize import to_plain_blocks
from .checkpoint import without_markers
from .forward import ForwardCopy
from .reverse import Path, ReversePass, Share, described
from .without_rules import with_rules

_FIRST_TAPE: Final = 1
"""The number of tapes before those of the carried values: the first tape is the number of the step."""


# --- forward: tapes


def with_tapes(function: Function, module: IRModule | None = None) -> Function:
    """``function`` with loops that also stack the number of each step, and its inputs among the carried values.

    Loops in branches and in bodies stay as they are. A body that is a function of ``module`` becomes a separate
    function. Cost: linear.
    """
    if not any(_is_loop(binding) for block in function.body.blocks for binding in block):
        return function
    names = NameSupply.beside(function)
    functions: dict[Expr, Function] = {}
    blocks: list[BindingBlock] = []
    for block in function.body.blocks:
        make = DataflowVar if isinstance(block, DataflowBlock) else Var
        bindings: list[Binding] = []
        for binding in block:
            if isinstance(binding.value, Function):
                functions[binding.var] = binding.value
            if _is_loop(binding):
                bindings.extend(_taped(binding, functions, module, names, make))
            else:
                bindings.append(binding)
        blocks.append(type(block)(bindings))
    return function.with_body(SeqExpr(blocks, function.body.body))


def _is_loop(binding: Binding) -> bool:
    return isinstance(binding.value, Call) and binding.value.op is LOOP


def _taped(
    binding: Binding,
    functions: Mapping[Expr, Function],
    module: IRModule | None,
    names: NameSupply,
    make: type[Var],
) -> list[Binding]:
    """The bindings of one loop with tapes; the last one binds the loop's variable."""
    call, var = binding.value, binding.var
    assert isinstance(call, Call)
    parts, types = loop_parts(call), loop_types(call)
    body = functions.get(parts.body)
    if body is None and isinstance(parts.body, GlobalVar) and module is not None and parts.body in module:
        body = module[parts.body.name_hint]
    sizes = None if body is None else _fixed_sizes(body, parts, types.carried)
    if body is None or sizes is None:
        return [binding]  # without tapes; this is an error only if a gradient is wanted through it
    body, _ = without_markers(bind_sizes(body, sizes))  # a step is computed again in any case
    copy = ForwardCopy(body)
    assert isinstance(copy.result, Tuple)
    results = [*copy.result.fields, *copy.params[: 1 + len(types.carried)]]
    taped = loop_body(copy.params, SeqExpr(copy.blocks, copy.result), results)
    stem = var.name_hint
    name = make(names.fresh(f"{stem}_body"), taped.ty, var.origins)
    value = loop(name, parts.carried, parts.scanned, parts.count, parts.condition)
    whole = make(names.fresh(f"{stem}_taped"), value.ty, var.origins)
    bindings: list[Binding] = [VarBinding(name, taped), VarBinding(whole, value)]
    fields: list[Var] = []
    for index in range(len(types.carried) + len(types.rows)):
        field = TupleGetItem(whole, index)
        fields.append(make(names.fresh(f"{stem}_{index}"), field.ty, var.origins))
        bindings.append(VarBinding(fields[-1], field))
    return [*bindings, VarBinding(var, Tuple(fields))]


def _fixed_sizes(body: Function, parts: LoopParts, finals: Sequence[Type]) -> dict[SymVar, Dim] | None:
    """The sizes that the variables in a body's parameters have in every step; None if one changes."""
    assert isinstance(parts.carried.ty, TupleType)
    assert isinstance(parts.scanned.ty, TupleType)
    slices = [row_of(ty) for ty in parts.scanned.ty.fields if isinstance(ty, TensorType)]
    given = [STEP, *parts.carried.ty.fields, *slices]
    sizes: dict[SymVar, Dim] = {}
    for param, ty in zip(body.params, given, strict=True):
        if bind_type(param.ty, ty, sizes) is not True:
            return None
    carried = body.params[1 : 1 + len(finals)]
    stays = all(substitute_type(param.ty, sizes) == ty for param, ty in zip(carried, finals, strict=True))
    tensors = all(isinstance(ty, TensorType) and ty.shape is not None for ty in finals)
    return {size: dim for size, dim in sizes.items() if size is not dim} if stays and tensors else None


# --- backward


def loop_shares(reverse: ReversePass, binding: Binding, fields: Mapping[Path, Expr]) -> list[Share]:
    """The shares of a loop's operands from the adjoints of its results, by a loop that goes back through its steps."""
    return _Backward(reverse, binding, fields).shares()


class _Backward:
    """The backward part of one loop with tapes."""

    def __init__(self, reverse: ReversePass, binding: Binding, fields: Mapping[Path, Expr]) -> None:
        call = binding.value
        assert isinstance(call, Call)
        self._reverse = reverse
        self._binding = binding
        self._fields = fields
        self._origins = binding.var.origins
        self._parts = loop_parts(call)
        self._types = loop_types(call)
        self._body = self._taped_body()
        count = len(self._types.carried)
        self._count = count
        self._rows = len(self._types.rows) - count - _FIRST_TAPE
        self._carried = [i for i in range(count) if is_differentiable(self._types.carried[i])]
        self._given = [j for j in range(self._rows) if (count + j,) in fields]
        captured = [var for var in free_vars(self._body) if reverse.is_active(var)]
        if not all(is_differentiable(var.ty) for var in captured):
            shown = ", ".join(var.name_hint for var in captured if not is_differentiable(var.ty))
            raise self._refused(f"its body reads {shown}, which holds more than one tensor; take the fields before it")
        self._captured = captured

    def _taped_body(self) -> Function:
        """The body with its tapes. Raises `GradientError` for a loop that `with_tapes` left as it was."""
        body, count = self._reverse.function_of(self._parts.body), len(self._types.carried)
        results = body.body.body if body is not None else None
        tapes = results.fields[-count - 1 :] if isinstance(results, Tuple) else ()
        if body is None or tuple(tapes) != body.params[: count + 1]:
            raise self._refused(
                "a carried value changes its size, or is not a tensor of a known shape: carry tensors of one shape, or "
                "write the steps out"
            )
        return body

    def _refused(self, why: str) -> GradientError:
        return GradientError(f"no gradient passes through this loop: {why}\n  in {described(self._binding)}")

    def shares(self) -> list[Share]:
        """The shares of the carried values, the scanned values, and the variables that the body reads from outside."""
        reverse, call = self._reverse, self._parts
        starts = [self._adjoint(i) for i in self._carried]
        starts += [reverse.emit(zeros_of(reverse.refer(var)), "lv", self._origins) for var in self._captured]
        body = self._backward_body()
        name = reverse.emit(body, f"{self._binding.var.name_hint}_backward", self._origins)
        found = reverse.emit(loop(name, starts, self._scanned()), "lv", self._origins)
        parts = iter([TupleGetItem(found, index) for index in range(len(starts) + len(self._slices()))])
        shares: list[Share] = []
        for index in self._carried:
            shares.extend(reverse.shares(call.carried, (index,), next(parts)))
        shares.extend([Share(var, (), next(parts)) for var in self._captured])
        for index in self._slices():
            shares.extend(reverse.shares(call.scanned, (index,), flip(next(parts), axis=0)))
        return shares

    def _slices(self) -> list[int]:
        """The positions of the scanned values that have a gradient."""
        params = self._body.params[1 + self._count :]
        return [j for j, param in enumerate(params) if is_differentiable(param.ty)]

    def _adjoint(self, index: int) -> Expr:
        """The adjoint of a final carried value; zeros if it has none."""
        found = self._fields.get((index,))
        field = TupleGetItem(self._reverse.refer(self._binding.var), index)
        return self._reverse.emit(zeros_of(field), "lv", self._origins) if found is None else found

    def _scanned(self) -> list[Expr]:
        """The inputs of the backward loop, from the last step to the first: tapes, slices, adjoints of stacks."""
        forward = self._reverse.refer(self._binding.var)
        tapes = [TupleGetItem(forward, self._count + self._rows + i) for i in range(self._count + _FIRST_TAPE)]
        assert isinstance(self._parts.scanned.ty, TupleType)
        slices = [self._field(self._parts.scanned, j) for j in range(len(self._parts.scanned.ty.fields))]
        adjoints = [self._fields[self._count + j,] for j in self._given]
        known = self._types.steps
        length: Dim = SymVar("steps") if known is None else known
        params = [*self._body.params[: self._count + 1], *self._body.params[1 + self._count :]]
        rows = [*[param.ty for param in params], *[self._types.rows[j] for j in self._given]]
        return [self._turned(x, row, length) for x, row in zip([*tapes, *slices, *adjoints], rows, strict=True)]

    def _field(self, operand: Expr, index: int) -> Expr:
        if isinstance(operand, Tuple):
            return self._reverse.refer(operand.fields[index])
        return TupleGetItem(self._reverse.refer(operand), index)

    def _turned(self, stack: Expr, row: Type, length: Dim) -> Expr:
        """A stack in reverse order; its type follows from the type of its rows and their number."""
        reverse = self._reverse
        if not isinstance(stack, Var):
            stack = reverse.emit(stack, "lv", self._origins)
        assert isinstance(row, TensorType)
        if isinstance(stack.ty, TensorType) and stack.ty.shape is None and row.shape is not None:
            stack = reverse.emit_cast(stack, TensorType([length, *row.shape], row.dtype), "lv", self._origins)
        return reverse.emit(flip(stack, axis=0), "lv", self._origins)

    def _backward_body(self) -> Function:
        """The body of the backward loop: it repeats a step, and computes its inputs' adjoints from its results'."""
        body, count = self._body, self._count
        around = {var: self._reverse.refer(var) for var in free_vars(body)}
        conditional = 1 if self._parts.condition is not None else 0
        params = body.params
        required = [params[1 + i] for i in self._carried]
        slices = [params[1 + count + j] for j in self._slices()]
        assert isinstance(body.body.body, Tuple)
        kept = Tuple(body.body.body.fields[conditional : conditional + count + self._rows])
        step = Function(params, SeqExpr(body.body.blocks, kept), None, body.is_pure)
        wanted = [*required, *slices, *self._captured]
        step = with_tapes(with_rules(step, wanted, kept))
        copy = ForwardCopy(step, around)
        names = NameSupply.beside(step)
        seeds = [Var(names.fresh(f"{params[1 + i].name_hint}_adjoint"), params[1 + i].ty) for i in self._carried]
        sums = [Var(names.fresh(f"{var.name_hint}_adjoint"), var.ty) for var in self._captured]
        rows = [Var(names.fresh("row_adjoint"), self._types.rows[j]) for j in self._given]
        inner = ReversePass(step, wanted, copy.leaves, {}, names)
        given = [*zip(self._carried, seeds, strict=True), *zip([count + j for j in self._given], rows, strict=True)]
        inner.run_from(
            [Share(result, (), seed) for place, seed in given if isinstance(result := kept.fields[place], Var)]
        )
        results: list[Expr] = [inner.gradient_of(param) for param in required]
        results += [add(total, inner.gradient_of(var)) for total, var in zip(sums, self._captured, strict=True)]
        results += [inner.gradient_of(param) for param in slices]
        leaves = [inner.emit(value, "lv", self._origins) for value in results]
        number = Var(names.fresh("step_back"), STEP)
        # The inputs of the step are slices here, so its parameters come after the carried adjoints.
        taken = [number, *seeds, *sums, *copy.params, *rows]
        bindings = [*[binding for block in copy.blocks for binding in block], *inner.bindings]
        seq = to_plain_blocks(SeqExpr([BindingBlock(bindings)], Tuple(leaves)))
        assert isinstance(seq.body, Tuple)
        return loop_body(taken, seq, seq.body.fields)

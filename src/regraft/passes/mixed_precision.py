"""ToMixedPrecision: products in half precision, what is sensitive to rounding in single precision.

Each operator says how it bears narrow dtypes (`Precision`). Those that *lead* (matmul, convolutions) get their float32
operands in float16. Those that *follow* (what moves elements, and cheap arithmetic) stay in float16 where what they
work on is. All others (softmax, norms, reductions, exponentials) *keep* float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from .. import op as ops
from ..analysis import free_vars
from ..ir.expr import Constant, DataflowVar, Expr, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.op import Call, Op, Precision
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..ir.types import TensorType, TupleType, Type
from ..rewrite.session import substitute
from .context import PassContext, PassError
from .passes import FunctionPass, Pass

_NARROW: Final = ("float16", "bfloat16")
_HIGH: Final = "float32"


def _leads(op: Expr) -> bool:
    return isinstance(op, Op) and op.precision is Precision.LEADS and "out_dtype" in op.attributes


def _follows(op: Expr) -> bool:
    return isinstance(op, Op) and op.precision is Precision.FOLLOWS


def _is(ty: Type, dtype: str) -> bool:
    """Whether all tensors of a value have that dtype."""
    if isinstance(ty, TupleType):
        return all(_is(item, dtype) for item in ty.fields)
    return isinstance(ty, TensorType) and ty.dtype == dtype


class _Dtypes(NamedTuple):
    """The narrow dtype, and the one that products are summed and given in."""

    low: str
    out: str


class _Block:
    """Writes one dataflow block again. ``low`` are the values that are kept in half precision, by their old names."""

    def __init__(self, low: Mapping[Var, Var], dtypes: _Dtypes) -> None:
        self.low: dict[Var, Var] = dict(low)
        self.bindings: list[Binding] = []
        self._dtypes = dtypes
        self._converted: dict[tuple[Expr, str], Expr] = {}

    def write(self, binding: Binding) -> None:
        """Write one binding, in the precision that its operator has."""
        value, var = binding.value, binding.var
        if isinstance(binding, MatchCast):
            high = self._high(value)
            self.bindings.append(binding if high is value else MatchCast(var, high, binding.ty))
        elif isinstance(value, Call) and _leads(value.op) and _is(value.ty, _HIGH) and self._all(value.args, _HIGH):
            self._lead(var, value)
        elif self._is_followed(value):
            self._define(var, self._over(value, self._low))
        else:
            high = self._over(value, self._high)
            self.bindings.append(binding if high is value else VarBinding(var, high))

    def _all(self, operands: Sequence[Expr], dtype: str) -> bool:
        return all(_is(operand.ty, dtype) for operand in operands)

    def _lead(self, var: Var, call: Call) -> None:
        args = [self._low(arg) for arg in call.args]
        result: Expr = Call(call.op, args, {**call.attrs, "out_dtype": self._dtypes.out}, call.ty_args)
        if self._dtypes.out != self._dtypes.low:
            result = ops.astype(self._named(result, "lv", var), self._dtypes.low)
        self._define(var, result)

    def _is_followed(self, value: Expr) -> bool:
        """Whether ``value`` only passes on what is in half precision, with nothing but constants beside it."""
        operands: Sequence[Expr]
        if isinstance(value, TupleGetItem):
            operands = (value.tuple_value,)
        elif isinstance(value, Call) and _follows(value.op):
            operands = value.args
        elif isinstance(value, Var):
            operands = (value,)
        else:
            return False
        leaves = [leaf for operand in operands for leaf in _tensors(operand)]
        if not any(leaf in self.low for leaf in leaves) or not _is(value.ty, _HIGH):
            return False
        return all(leaf in self.low or isinstance(leaf, Constant) or not _is(leaf.ty, _HIGH) for leaf in leaves)

    def _define(self, var: Var, value: Expr) -> None:
        """Bind ``var`` in half precision; in the old one too, if it is seen outside of the block."""
        local = DataflowVar(var.name_hint, value.ty, var.origins)
        self.bindings.append(VarBinding(local, value))
        self.low[var] = local
        if type(var) is not DataflowVar:
            self.bindings.append(VarBinding(var, self._as_old(local)))

    def _as_old(self, local: Expr) -> Expr:
        if isinstance(local.ty, TupleType):
            fields = [self._named(TupleGetItem(local, i), "lv", None) for i in range(len(local.ty.fields))]
            return Tuple([self._named(self._as_old(field), "lv", None) for field in fields])
        return ops.astype(local, _HIGH)

    def _named(self, value: Expr, name: str, like: Var | None) -> Var:
        var = DataflowVar(name, value.ty, like.origins if like is not None else ())
        self.bindings.append(VarBinding(var, value))
        return var

    def _over(self, value: Expr, convert: Callable[[Expr], Expr]) -> Expr:
        match value:
            case Call():
                args = [convert(arg) for arg in value.args]
                return (
                    value.with_args(args) if any(a is not b for a, b in zip(args, value.args, strict=True)) else value
                )
            case TupleGetItem():
                whole = convert(value.tuple_value)
                return value if whole is value.tuple_value else TupleGetItem(whole, value.index)
            case Function():
                table: dict[Var, Expr] = {var: self._high(var) for var in free_vars(value) if var in self.low}
                return substitute(value, table) if table else value
            case _:
                return convert(value)

    def _low(self, operand: Expr) -> Expr:
        """``operand`` in half precision, if it is in single precision."""
        if isinstance(operand, Tuple):
            return Tuple([self._low(item) for item in operand.fields])
        if isinstance(operand, Var) and operand in self.low:
            return self.low[operand]
        return self._to(operand, operand, self._dtypes.low) if _is(operand.ty, _HIGH) else operand

    def _high(self, operand: Expr) -> Expr:
        """``operand`` in the precision that it had."""
        if isinstance(operand, Tuple):
            fields = [self._high(item) for item in operand.fields]
            same = all(a is b for a, b in zip(fields, operand.fields, strict=True))
            return operand if same else Tuple(fields)
        if type(operand) is DataflowVar and operand in self.low:
            return self._to(operand, self.low[operand], _HIGH)
        return operand if operand not in self.low else self._outer(operand)

    def _outer(self, operand: Expr) -> Expr:
        """An output of this block in its old precision, or an input that was given in half precision."""
        if any(binding.var is operand for binding in self.bindings):
            return operand
        return self._to(operand, self.low[operand], _HIGH)  # pyright: ignore[reportArgumentType]

    def _to(self, old: Expr, value: Expr, dtype: str) -> Expr:
        known = self._converted.get((old, dtype))
        if known is None:
            made = self._as_old(value) if isinstance(value.ty, TupleType) else ops.astype(value, dtype)
            known = self._converted[old, dtype] = self._named(made, "lv", value if isinstance(value, Var) else None)
        return known


def _tensors(operand: Expr) -> list[Expr]:
    if isinstance(operand, Tuple):
        return [leaf for item in operand.fields for leaf in _tensors(item)]
    return [operand] if isinstance(operand.ty, TensorType | TupleType) else []


def _block(block: BindingBlock, given: Mapping[Var, Var], dtypes: _Dtypes) -> BindingBlock:
    """``block`` written again, or the dataflow blocks in its branches, if it is a plain one."""
    if not isinstance(block, DataflowBlock):
        bindings = [_with_branches(binding, dtypes) for binding in block]
        return block if all(a is b for a, b in zip(bindings, block, strict=True)) else BindingBlock(bindings)
    written = _Block(given, dtypes)
    for binding in block:
        written.write(binding)
    same = len(written.bindings) == len(block)
    if same and all(a is b for a, b in zip(written.bindings, block.bindings, strict=True)):
        return block
    return DataflowBlock(written.bindings)


def _with_branches(binding: Binding, dtypes: _Dtypes) -> Binding:
    """``binding``, with the dataflow blocks in its branches written again; these see the parameters as they were."""
    value = binding.value
    if not isinstance(value, If) or isinstance(binding, MatchCast):
        return binding
    branches: list[SeqExpr] = []
    for branch in (value.true_branch, value.false_branch):
        blocks = [_block(block, {}, dtypes) for block in branch.blocks]
        same = all(a is b for a, b in zip(blocks, branch.blocks, strict=True))
        branches.append(branch if same else SeqExpr(blocks, branch.body))
    if branches[0] is value.true_branch and branches[1] is value.false_branch:
        return binding
    return VarBinding(binding.var, If(value.cond, *branches))


def _mixed(function: Function, dtypes: _Dtypes, names: Sequence[str]) -> Function:
    given: dict[Var, Var] = {}
    for param in function.params:
        if param.name_hint in names and isinstance(param.ty, TensorType) and param.ty.dtype == _HIGH:
            given[param] = Var(param.name_hint, param.ty.with_dtype(dtypes.low), param.origins)
    start: list[Binding] = []
    blocks = [_block(block, given, dtypes) for block in function.body.blocks]
    outside = any(not isinstance(block, DataflowBlock) for block in function.body.blocks)
    if given and (outside or set(given) & set(_tensors(function.body.body))):
        start = [VarBinding(old, ops.astype(new, _HIGH)) for old, new in given.items()]
    if not given and all(a is b for a, b in zip(blocks, function.body.blocks, strict=True)):
        return function
    params = [given.get(param, param) for param in function.params]
    row = [BindingBlock(start), *blocks] if start else blocks
    body = SeqExpr(row, function.body.body)
    return Function(params, body, function.ret_ty, function.is_pure, function.attrs)


def ToMixedPrecision(
    out_dtype: str = "float32", fp16_input_names: Sequence[str] | None = None, dtype: str = "float16"
) -> Pass:
    """Compute float32 products in float16 or bfloat16, and what follows from them, where rounding does no harm, too.

    ``dtype``: the narrow dtype, "float16" or "bfloat16". ``out_dtype``: in which dtype products are summed and given,
    float32 or the narrow one; float32 results are converted to that right after. ``fp16_input_names``: parameters that
    are given in the narrow dtype from now on. The function returns what it did. Only dataflow blocks are changed, those
    in branches too (`ConvertToDataflow` makes them), as in Relax. What an operator bears is said in its row
    (`regraft.ir.op.Precision`).

    Needs: nothing. Guarantees: dtypes of results as before. Values change as the narrow dtype rounds, and in float16
    numbers beyond 65504 become infinite, so this is never done by default. Fast where the engine computes in that
    dtype: PyTorch on most devices; ONNX Runtime on a CPU has neither. Cost: linear.
    """
    if dtype not in _NARROW:
        raise PassError(f'ToMixedPrecision: dtype={dtype!r}; expected "float16" or "bfloat16"')
    if out_dtype not in (_HIGH, dtype):
        raise PassError(f'ToMixedPrecision: out_dtype={out_dtype!r}; expected "float32" or "{dtype}"')
    names, dtypes = tuple(fp16_input_names or ()), _Dtypes(dtype, out_dtype)

    def transform(function: Function, _module: IRModule, _context: PassContext) -> Function:
        return _mixed(function, dtypes, names)

    return FunctionPass(transform, "ToMixedPrecision", keeps_values=False)

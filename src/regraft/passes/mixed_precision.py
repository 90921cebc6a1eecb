"""ToMixedPrecision: products in half precision, operators that are sensitive to rounding in single precision.

Operators that *lead* (matmul, convolutions, attention) get their float32 operands in float16. Operators that *follow*
(movement of elements, arithmetic, norms) stay in float16 if their operands are. All others (softmax, reductions) *keep*
float32. The classes are Relax's policy; an operator that Relax does not have is classified by its own row
(`regraft.ir.op.Precision`). In Relax, norms and exponentials follow; without Relax's policy they keep float32.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import ml_dtypes
import numpy as np

from .. import op as ops
from ..analysis import free_vars
from ..analysis.values import leaves_of
from ..ir.builder import with_each_operand
from ..ir.dtypes import HALF
from ..ir.expr import Constant, DataflowVar, Expr, Tuple, TupleGetItem, Var
from ..ir.leaf_types import leaf_tensors, leaf_types
from ..ir.mutator import same_items
from ..ir.op import Call, Op, Precision
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..ir.types import TensorType, TupleType, Type
from ..ir.visitor import iter_bindings
from ..rewrite.session import substitute
from .context import PassError
from .passes import FunctionPass, Pass

_HIGH: Final = "float32"
_LARGEST: Final = {low: float(cast("Any", ml_dtypes.finfo)(low).max) for low in HALF}

_LEAD: Final = frozenset(("nn.attention", "nn.attention_bias", "nn.attention_var_len", "outer"))
_FOLLOW: Final = frozenset(
    {
        *("arange", "ewise_fma", "eye", "full", "full_like", "hamming_window", "image.affine_grid"),
        *("image.grid_sample", "mod", "nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.adaptive_avg_pool3d"),
        *("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d", "nn.dropout", "nn.gelu", "nn.gelu_tanh", "nn.selu"),
        *("nn.silu", "ones", "vision.roi_align", "vision.roi_pool", "zeros"),
    }
)
_FOLLOW_IN_RELAX: Final = frozenset(
    {
        *("cosh", "exp", "log", "log_add_exp", "nn.group_norm", "nn.instance_norm", "nn.layer_norm", "nn.rms_norm"),
        *("power", "rsqrt", "sinh", "sqrt", "square", "tan"),
    }
)
"""Operators that follow only by Relax's policy: they amplify the rounding of their operands, or sum their squares."""

_KEEP_IN_RELAX: Final = frozenset(
    {
        *("clip", "flip", "gather_elements", "gather_nd", "index_tensor", "nn.leakyrelu", "nn.pad"),
        *("nn.pixel_shuffle", "repeat", "reverse_sequence", "slice_scatter", "sort", "take", "tile", "tril", "triu"),
        *("where", "wrap_param"),
    }
)
"""Operators that keep float32 only by Relax's policy, although they only move elements or round them once."""


def _is(ty: Type, *dtypes: str) -> bool:
    """True if all tensors of a value have one of these dtypes."""
    return all(isinstance(leaf, TensorType) and leaf.dtype in dtypes for leaf in leaf_types(ty))


class _Dtypes(NamedTuple):
    """The narrow dtype, the dtype in which products are summed and returned, and the bindings that stay as they are."""

    low: str
    out: str
    keep: Collection[str] = ()
    relax: bool = True

    def policy(self, value: Expr) -> Precision:
        """The behaviour of the operator of ``value`` in the narrow dtype, by Relax's policy or by rounding alone."""
        op = value.op if isinstance(value, Call) else None
        if not isinstance(op, Op):
            return Precision.KEEPS
        name = op.name.removeprefix("relax.")
        if name in _LEAD:
            return Precision.LEADS
        if name in _FOLLOW or (self.relax and name in _FOLLOW_IN_RELAX):
            return Precision.FOLLOWS
        return Precision.KEEPS if self.relax and name in _KEEP_IN_RELAX else op.precision

    def has_room_for(self, leaf: Expr) -> bool:
        """True for a constant with no number that the narrow dtype would make infinite; NaN does not count."""
        if not isinstance(leaf, Constant):
            return False
        array = leaf.data.read()
        ends = np.fmin.reduce(array, axis=None, initial=0), np.fmax.reduce(array, axis=None, initial=0)
        return max(np.abs(ends)) <= _LARGEST[self.low]

    def leads(self, binding: Binding) -> bool:
        """True if the bound value is a product of tensors of single or half precision that this pass narrows."""
        value = binding.value
        if not isinstance(value, Call) or self.policy(value) is not Precision.LEADS:
            return False
        if binding.var.name_hint in self.keep:
            return False
        if value.attrs.get("out_dtype") == self.out and all(_is(arg.ty, self.low) for arg in value.args):
            return False  # this pass has made it
        return _is(value.ty, _HIGH, self.low) and all(_is(arg.ty, _HIGH, self.low) for arg in value.args)


def _used_by_products_only(function: Function, dtypes: _Dtypes) -> dict[Var, int]:
    """The variables that only products in dataflow blocks use, with their ranks: parameters come first."""
    by_products: dict[Var, None] = dict.fromkeys(function.params)
    read: set[Var] = set()
    otherwise: set[Expr] = set()
    pending: list[SeqExpr] = [function.body]
    while pending:
        seq = pending.pop()
        otherwise.update(leaves_of(seq.body))
        for block in seq.blocks:
            for binding in block:
                value = binding.value
                if isinstance(value, If):
                    pending.extend((value.true_branch, value.false_branch))
                if isinstance(block, DataflowBlock) and dtypes.leads(binding):
                    operands = [leaf for leaf in leaves_of(value) if isinstance(leaf, Var)]
                    by_products.update(dict.fromkeys(operands))
                    read.update(operands)
                else:
                    otherwise.update(leaves_of(value))
    return {var: rank for rank, var in enumerate(by_products) if var in read and var not in otherwise}


class _BlockWriter:
    """Writes one dataflow block anew.

    ``low`` holds the values that are kept in half precision, by their old variables. ``early`` are the values from
    outside that are converted at the beginning; ``for_products`` are all values that only products use.
    """

    def __init__(
        self, low: Mapping[Var, Var], early: Iterable[Var], for_products: Collection[Var], dtypes: _Dtypes
    ) -> None:
        self.low: dict[Var, Var] = dict(low)
        self.bindings: list[Binding] = []
        self._for_products = for_products
        self._dtypes = dtypes
        for var in early:
            self._convert_now(var)

    def write(self, binding: Binding) -> None:
        """Write one binding, in the precision of its operator."""
        value, var = binding.value, binding.var
        if isinstance(binding, MatchCast):
            high = self._high(value)
            self.bindings.append(binding if high is value else MatchCast(var, high, binding.ty))
        elif isinstance(value, Call) and self._dtypes.leads(binding):
            args = [self._low(arg) for arg in value.args]
            attrs = {**value.attrs, "out_dtype": self._dtypes.out} if "out_dtype" in value.attrs else value.attrs
            self._define(var, Call(value.op, args, attrs, value.ty_args))
        elif isinstance(value, TupleGetItem) and value.tuple_value in self.low:
            self._define_item(var, TupleGetItem(self._kept(value.tuple_value), value.index))
        elif self._is_followed(binding):
            self._define(var, with_each_operand(value, self._low))
        elif isinstance(value, Tuple) and type(var) is DataflowVar and any(x in self.low for x in leaves_of(value)):
            self._define(var, self._kept(value))
        elif isinstance(value, If | Function):
            self._append(binding, self._within(value))
        elif isinstance(value, Var) and value in self.low and value not in self._for_products:
            self._append(binding, self._as_old(self.low[value], value.ty))
        else:
            self._append(binding, with_each_operand(value, self._high))
        if var in self._for_products and var not in self.low and _is(var.ty, _HIGH):
            self._convert_now(var)

    def _append(self, binding: Binding, value: Expr) -> None:
        self.bindings.append(binding if value is binding.value else VarBinding(binding.var, value))

    def _is_followed(self, binding: Binding) -> bool:
        """True if the binding only passes on half precision values, or constants that half precision can hold."""
        value = binding.value
        if not isinstance(value, TupleGetItem) and self._dtypes.policy(value) is not Precision.FOLLOWS:
            return False
        leaves = [leaf for leaf in leaves_of(value) if isinstance(leaf.ty, TensorType | TupleType)]
        floats = [leaf for leaf in leaves if leaf in self.low or _is(leaf.ty, _HIGH)]
        if not any(leaf in self.low for leaf in floats) and not (self._dtypes.relax and _is(value.ty, _HIGH)):
            return False  # this pass makes constants in half precision itself
        return bool(floats) and all(self._is_low(leaf) or self._dtypes.has_room_for(leaf) for leaf in floats)

    def _is_low(self, leaf: Expr) -> bool:
        """True for a value that is kept in half precision as a whole; a tuple may be so in part."""
        kept = self.low.get(leaf) if isinstance(leaf, Var) else None
        return kept is not None and all(one.dtype != _HIGH for one in leaf_tensors(kept.ty))

    def _kept(self, value: Expr) -> Expr:
        """``value`` with each part in the precision in which it is kept."""
        if isinstance(value, Tuple):
            return Tuple([self._kept(field) for field in value.fields])
        return self.low.get(value, value) if isinstance(value, Var) else value

    def _define_item(self, var: Var, item: Expr) -> None:
        """Bind ``var`` to a field of a tuple, which may be in single precision while other fields are not."""
        if item.ty == var.ty:
            self.bindings.append(VarBinding(var, item))
        else:
            self._define(var, item)

    def _define(self, var: Var, value: Expr) -> None:
        """Bind ``var`` to a computed value: in half precision inside the block, in the old dtype outside it."""
        if type(var) is not DataflowVar:
            if value.ty != var.ty:
                value = self._as_old(self._named(value, var), var.ty)
            self.bindings.append(VarBinding(var, value))
            return
        if _is(value.ty, _HIGH) and _is(var.ty, _HIGH, self._dtypes.low):
            value = ops.astype(self._named(value, var), self._dtypes.low)
        local = DataflowVar(var.name_hint, value.ty, var.origins)
        self.bindings.append(VarBinding(local, value))
        self.low[var] = local

    def _convert_now(self, var: Var) -> None:
        self.low[var] = self._named(ops.astype(var, self._dtypes.low), var)

    def _as_old(self, local: Expr, ty: Type) -> Expr:
        """``local``, cast to the dtypes of ``ty``; the types differ in nothing else."""
        if local.ty == ty:
            return local
        if isinstance(ty, TupleType):
            fields: list[Expr] = []
            for index, field in enumerate(ty.fields):
                item = self._named(TupleGetItem(local, index), None)
                old = self._as_old(item, field)
                fields.append(old if old is item else self._named(old, None))
            return Tuple(fields)
        assert isinstance(ty, TensorType)
        return ops.astype(local, ty.dtype or _HIGH)

    def _named(self, value: Expr, like: Var | None) -> DataflowVar:
        var = DataflowVar("lv", value.ty, like.origins if like is not None else ())
        self.bindings.append(VarBinding(var, value))
        return var

    def _within(self, value: If | Function) -> Expr:
        table: dict[Var, Expr] = {var: self._high(var) for var in free_vars(value) if var in self.low}
        return substitute(value, table) if table else value

    def _low(self, operand: Expr) -> Expr:
        """``operand`` in half precision, if it is in single precision."""
        if isinstance(operand, Tuple):
            return Tuple([self._low(item) for item in operand.fields])
        if isinstance(operand, Var) and operand in self.low:
            return self.low[operand]
        if not _is(operand.ty, _HIGH):
            return operand
        like = operand if isinstance(operand, Var) else None
        return self._named(ops.astype(operand, self._dtypes.low), like)

    def _high(self, operand: Expr) -> Expr:
        """``operand`` in its original precision."""
        if isinstance(operand, Tuple):
            fields = [self._high(item) for item in operand.fields]
            return operand if same_items(fields, operand.fields) else Tuple(fields)
        if not isinstance(operand, Var) or operand not in self.low or operand in self._for_products:
            return operand
        low = self.low[operand]
        old = self._as_old(low, operand.ty)
        return old if old is low or isinstance(old, Tuple) else self._named(old, operand)


class _FunctionState(NamedTuple):
    """The common state of all blocks of a function."""

    low: Mapping[Var, Var]
    """The parameters that are passed in half precision, by their old variables."""
    for_products: Mapping[Var, int]
    """The values that only products use, with the order of their conversion."""
    dtypes: _Dtypes

    def early(self, block: DataflowBlock) -> list[Var]:
        """The values from outside ``block`` that it converts at its beginning."""
        own = {binding.var for binding in block}
        used = {leaf for binding in block for leaf in leaves_of(binding.value)}
        early = [
            var
            for var in used
            if isinstance(var, Var) and var in self.for_products and var not in own and var not in self.low
            if _is(var.ty, _HIGH)
        ]
        return sorted(early, key=self.for_products.__getitem__)


def _block(block: BindingBlock, given: _FunctionState) -> BindingBlock:
    """``block`` written anew; for a plain block, the dataflow blocks in its branches are."""
    if not isinstance(block, DataflowBlock):
        bindings = [_with_branches(binding, given) for binding in block]
        return block if same_items(bindings, block.bindings) else BindingBlock(bindings)
    written = _BlockWriter(given.low, given.early(block), given.for_products, given.dtypes)
    for binding in block:
        written.write(binding)
    return block if same_items(written.bindings, block.bindings) else DataflowBlock(written.bindings)


def _with_branches(binding: Binding, given: _FunctionState) -> Binding:
    """``binding`` with the dataflow blocks of its branches written anew; they see the original parameters."""
    value = binding.value
    if not isinstance(value, If) or isinstance(binding, MatchCast):
        return binding
    branches: list[SeqExpr] = []
    for branch in (value.true_branch, value.false_branch):
        blocks = [_block(block, given._replace(low={})) for block in branch.blocks]
        branches.append(branch if same_items(blocks, branch.blocks) else SeqExpr(blocks, branch.body))
    if branches[0] is value.true_branch and branches[1] is value.false_branch:
        return binding
    return VarBinding(binding.var, If(value.cond, *branches))


def _mixed(function: Function, dtypes: _Dtypes, names: Sequence[str]) -> Function:
    given: dict[Var, Var] = {}
    for param in function.params:
        if param.name_hint in names and isinstance(param.ty, TensorType) and param.ty.dtype == _HIGH:
            given[param] = Var(param.name_hint, param.ty.with_dtype(dtypes.low), param.origins)
    start: list[Binding] = []
    for_products = _used_by_products_only(function, dtypes)
    blocks = [_block(block, _FunctionState(given, for_products, dtypes)) for block in function.body.blocks]
    outside = any(not isinstance(block, DataflowBlock) for block in function.body.blocks)
    if given and (outside or set(given) & set(leaves_of(function.body.body))):
        start = [VarBinding(old, ops.astype(new, _HIGH)) for old, new in given.items()]
    if not given and same_items(blocks, function.body.blocks):
        return function
    params = [given.get(param, param) for param in function.params]
    row = [BindingBlock(start), *blocks] if start else blocks
    body = SeqExpr(row, function.body.body)
    return Function(params, body, function.ret_ty, function.is_pure, function.attrs)


def narrowed_products(function: Function) -> list[str]:
    """The names of the bindings that `ToMixedPrecision` computes in a narrow dtype."""
    dtypes = _Dtypes(HALF[0], _HIGH)
    return [binding.var.name_hint for binding in iter_bindings(function) if dtypes.leads(binding)]


def ToMixedPrecision(
    out_dtype: str = "float32",
    fp16_input_names: Sequence[str] | None = None,
    dtype: str = "float16",
    keep: Collection[str] = (),
    *,
    relax_policy: bool = True,
) -> Pass:
    """Compute float32 products, and the operators after them that tolerate the rounding, in float16 or bfloat16.

    ``dtype``: the narrow dtype, "float16" or "bfloat16". ``out_dtype``: the dtype in which products are summed and
    returned, float32 or the narrow one; float32 results are cast to the narrow dtype right after. ``fp16_input_names``:
    parameters that are passed in the narrow dtype from now on. ``keep``: names of bindings of products that stay in
    float32. The function returns the same dtypes as before. Only dataflow blocks are changed, also in branches
    (`ConvertToDataflow` makes them), as in Relax, whose policy classifies the operators. ``relax_policy=False``: norms,
    powers and exponentials read float32 even if a product returned their operands, and movement of elements always
    stays in the narrow dtype.

    Needs: nothing. Guarantees: the same dtypes of results. Values change by the rounding of the narrow dtype, and in
    float16 numbers beyond 65504 become infinite, so this is never done by default. Fast if the engine computes in that
    dtype: PyTorch does on most devices; ONNX Runtime on a CPU has neither. Cost: linear.
    """
    if dtype not in HALF:
        raise PassError(f'ToMixedPrecision: dtype={dtype!r}; expected "float16" or "bfloat16"')
    if out_dtype not in (_HIGH, dtype):
        raise PassError(f'ToMixedPrecision: out_dtype={out_dtype!r}; expected "float32" or "{dtype}"')
    names, dtypes = tuple(fp16_input_names or ()), _Dtypes(dtype, out_dtype, frozenset(keep), relax_policy)

    return FunctionPass(
        lambda function, _module, _context: _mixed(function, dtypes, names), "ToMixedPrecision", keeps_values=False
    )

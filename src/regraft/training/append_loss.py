"""Appending a loss to a model: one function that computes predictions and their loss."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..ir.binding_values import bind_sizes
from ..ir.builder import NameSupply
from ..ir.dims import Dim, SymVar
from ..ir.expr import DataflowVar, Expr, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.program import Binding, DataflowBlock, Function, SeqExpr, VarBinding
from ..ir.types import TupleType, bind_type
from ..op.adjoints import fields_of
from ..passes.context import PassContext
from ..passes.passes import ModulePass
from .errors import TrainingError


def append_loss(function: Function, loss: Function, num_backbone_outputs: int = 1) -> Function:
    """``function`` followed by ``loss`` of its first ``num_backbone_outputs`` results, in one dataflow block.

    The new function takes the parameters of ``function``, then the parameters of ``loss`` after the predictions. It
    returns the loss; if ``function`` has more results (states), it returns a tuple of the loss and these. It has no
    name. Raises `TrainingError` if there are too few results, if their types do not fit the loss, or if one of the
    functions has bindings outside of dataflow blocks. Cost: linear.
    """
    for part, what in ((function, "the model"), (loss, "the loss")):
        if any(not isinstance(block, DataflowBlock) for block in part.body.blocks):
            raise TrainingError(
                f"{what} has bindings outside of dataflow blocks; use transform.ConvertToDataflow first"
            )
    names = NameSupply()
    result = function.body.body
    results = list(fields_of(result)) if isinstance(result.ty, TupleType) else [result]
    predictions, states = results[:num_backbone_outputs], results[num_backbone_outputs:]
    if len(predictions) < num_backbone_outputs or len(loss.params) < num_backbone_outputs:
        raise TrainingError(
            f"the loss has {num_backbone_outputs} predictions; the model has {len(results)} results, "
            f"and the loss takes {len(loss.params)} operands"
        )
    loss = _fitted(loss, predictions)
    visible = {leaf for leaf in (*states, loss.body.body) if isinstance(leaf, Var)}
    copy = _Copy(names, visible)
    params = [copy.renewed_param(param) for param in function.params]
    bindings = [*copy.bindings(function.body)]
    for param, prediction in zip(loss.params, predictions, strict=False):
        copy.remap(param, _bound(copy.mutate(prediction), bindings, names))
    params += [copy.renewed_param(param) for param in loss.params[num_backbone_outputs:]]
    bindings += copy.bindings(loss.body)
    outcome = copy.mutate(loss.body.body)
    if states:
        outcome = Tuple([outcome, *[_bound(copy.mutate(state), bindings, names, Var) for state in states]])
    body = SeqExpr([DataflowBlock(bindings)] if bindings else [], outcome)
    return Function(
        params, body, None, function.is_pure, {k: v for k, v in function.attrs.items() if k != "global_symbol"}
    )


def AppendLoss(
    func_name: str, loss_function: Function, num_backbone_outputs: int = 1, new_func_name: str | None = None
) -> ModulePass:
    """A pass that adds `append_loss` of a function under ``new_func_name`` (by default ``<func_name>_loss``)."""
    name = new_func_name or f"{func_name}_loss"

    def run(module: IRModule, context: PassContext) -> IRModule:
        del context
        if func_name not in module:
            raise TrainingError(f"AppendLoss: there is no function {func_name!r}; there are: {', '.join(module)}")
        appended = append_loss(module[func_name], loss_function, num_backbone_outputs)
        return module.with_function(name, appended.with_attr("global_symbol", name))

    return ModulePass(run, f"AppendLoss({func_name!r})", keeps_values=False)


def _fitted(loss: Function, predictions: Sequence[Expr]) -> Function:
    """``loss`` with its size variables replaced by the sizes of the model's predictions."""
    sizes: dict[SymVar, Dim] = {}
    for param, prediction in zip(loss.params, predictions, strict=False):
        if bind_type(param.ty, prediction.ty, sizes) is False:
            raise TrainingError(
                f"the loss takes {param.name_hint} of type {param.ty!r}, but the model gives {prediction.ty!r}; "
                "build the loss for the model's type"
            )
    return bind_sizes(loss, {size: dim for size, dim in sizes.items() if size is not dim})


def _bound(value: Expr, bindings: list[Binding], names: NameSupply, make: type[Var] = DataflowVar) -> Expr:
    """``value`` as a leaf. A field of a tuple is bound to a new variable, which is returned."""
    if not isinstance(value, TupleGetItem):
        return value
    var = make(names.fresh("lv" if make is DataflowVar else "gv"), value.ty)
    bindings.append(VarBinding(var, value))
    return var


class _Copy(ExprMutator):
    """Copies bodies over new variables. Only copies of ``visible`` variables are visible after the block."""

    def __init__(self, names: NameSupply, visible: Collection[Var]) -> None:
        super().__init__()
        self._supply = names
        self._visible = visible

    def renewed_param(self, param: Var) -> Var:
        new = Var(self._supply.fresh(param.name_hint), param.ty, param.origins)
        self.remap(param, new)
        return new

    def bindings(self, body: SeqExpr) -> Iterable[Binding]:
        """The bindings of all blocks of ``body``, copied."""
        copied = self.mutate(body)
        return [binding for block in copied.blocks for binding in block]

    def visit_var_def_(self, var: Var) -> Var:
        make = Var if var in self._visible else DataflowVar
        return make(self._supply.fresh(var.name_hint), var.ty, var.origins)

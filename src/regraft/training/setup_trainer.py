"""The pass that adds what training needs to a model: its loss, its gradient and an optimizer, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from ..analysis import well_formed
from ..gradient import Gradient
from ..ir.expr import Expr
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, is_call_of
from ..ir.program import Function
from ..ir.types import TupleType, Type
from ..passes.context import PassContext, Program
from ..passes.passes import Pass
from .append_loss import append_loss
from .errors import TrainingError
from .loss import Loss
from .optimizer import Optimizer

BACKBONE: Final = "backbone"
BACKBONE_LOSS: Final = "backbone_loss"
ADJOINT: Final = "backbone_loss_adjoint"
OPTIMIZER: Final = "optimizer"
OPTIM_STATE: Final = "optim_state"


@final
class SetupTrainer(Pass):
    """A pass that turns a module into one that `Trainer` can train.

    The module has a function ``backbone(inputs..., parameters..., states...) -> predictions..., states...`` of dataflow
    blocks. Its attributes ``param_num`` and ``state_num`` are the numbers of the function's last parameters that are
    parameters of the model and states. States, such as a batch norm's moving statistics, are also returned with their
    new values. The pass keeps ``backbone``, for predictions, and adds

    - ``backbone_loss(inputs..., parameters..., states..., targets...) -> loss, states...``, for training;
    - ``backbone_loss_adjoint``, its `Gradient` with respect to the parameters;
    - ``optimizer``, the optimizer's program;
    - the attributes ``input_num`` and ``optim_state``: the dtype, the sizes and the initial value of each state of the
      optimizer.

    ``loss_args`` are the types of the loss's operands: predictions, targets, perhaps weights. Batch norms use their
    moving statistics in ``backbone`` and the statistics of the batch in ``backbone_loss``, regardless of their own
    attribute. Dropout returns its input in both, as everywhere. ``legalize`` is accepted because Relax has it, and has
    no effect: engines run every operator. Raises `TrainingError` for a module of another form, and the errors of
    `append_loss`, `Gradient` and the optimizer. Cost: linear.
    """

    __slots__ = ("_loss", "_loss_args", "_optimizer")

    def __init__(self, loss: Loss, optimizer: Optimizer, loss_args: Sequence[Type], legalize: bool = True) -> None:
        super().__init__("SetupTrainer", keeps_values=False)
        del legalize
        self._loss: Final = loss
        self._optimizer: Final = optimizer
        self._loss_args: Final = tuple(loss_args)

    def transform(self, program: Program, context: PassContext) -> Program:
        """The module with the functions and attributes for training."""
        del context
        if not isinstance(program, IRModule):
            raise TrainingError(f"SetupTrainer works on a module with a function {BACKBONE!r}, not on a function")
        well_formed(program)
        backbone, params, states = _parts(program)
        inputs = len(backbone.params) - params - states
        module = program.with_function(BACKBONE, _BatchNorms(training=False).mutate(backbone))
        training = _BatchNorms(training=True).mutate(backbone)
        judged = append_loss(training, self._loss(*self._loss_args), self._loss.num_backbone_outputs)
        judged = judged.with_attr("global_symbol", BACKBONE_LOSS)
        module = module.with_function(BACKBONE_LOSS, judged)
        required = judged.params[inputs : inputs + params]
        module = Gradient(BACKBONE_LOSS, require_grads=required, target_index=0, fields_apart=True)(module)
        self._optimizer.init(required)
        step = self._optimizer.get_function().with_attr("global_symbol", OPTIMIZER)
        module = module.with_function(OPTIMIZER, step)
        return module.with_attrs({"input_num": inputs, OPTIM_STATE: self._optimizer.first_states()})


def _parts(module: IRModule) -> tuple[Function, int, int]:
    """The backbone, and the numbers of its parameters and states. Raises `TrainingError` if they do not fit."""
    if BACKBONE not in module:
        raise TrainingError(f"SetupTrainer: the module has no function {BACKBONE!r}; it has: {', '.join(module)}")
    function = module[BACKBONE]
    counts: list[int] = []
    for name in ("param_num", "state_num"):
        count = module.attrs.get(name)
        if not isinstance(count, int) or count < 0:
            raise TrainingError(
                f"SetupTrainer: the module's attribute {name} is {count!r}; expected how many of the "
                f'last parameters of {BACKBONE} it counts: I.module_attrs({{"param_num": 2, "state_num": 0}})'
            )
        counts.append(count)
    params, states = counts
    if params == 0 or params + states > len(function.params):
        raise TrainingError(
            f"SetupTrainer: {BACKBONE} has {len(function.params)} parameters, of which param_num={params} and "
            f"state_num={states} are to be parameters and states of the model; expected at least 1 and no more than all"
        )
    result = function.body.body.ty
    if (len(result.fields) if isinstance(result, TupleType) else 1) <= states:
        raise TrainingError(
            f"SetupTrainer: {BACKBONE} returns {function.ret_ty!r}; expected a tuple of predictions and then "
            f"the {states} new states"
        )
    return function, params, states


class _BatchNorms(ExprMutator):
    """Sets the attribute ``training`` of batch norms."""

    def __init__(self, *, training: bool) -> None:
        super().__init__()
        self._training = training

    def visit_call_(self, call: Call) -> Expr:
        if not is_call_of(call, "relax.nn.batch_norm") or call.attrs.training is self._training:
            return call
        return Call(call.op, call.args, {**call.attrs, "training": self._training})

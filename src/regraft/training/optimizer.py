"""Optimizers: from the parameters of a model to a program that takes one step.

Each class is a builder with Relax's names and arguments: ``init`` says for which parameters, ``get_function`` gives the
program ``(params, gradients, optim_states) -> (new params, new optim_states)``, all of them tuples. The first state is
always the number of steps taken. Steps are those of PyTorch's optimizers of the same names; factors that belong to the
step and not to a parameter, such as Adam's bias corrections, are kept in float64, so that they do not drift. An
optimizer of one's own says what its states and its step are, or, as in Relax, has ``init`` and ``get_function``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Self

from .. import op as ops
from ..analysis.tensors import is_static
from ..ir.builder import BlockBuilder
from ..ir.dtypes import is_float
from ..ir.expr import Expr, Tuple, TupleGetItem, Var
from ..ir.program import Function
from ..ir.types import TensorType, TupleType
from ..op.adjoints import tensor_type
from .errors import NotSetError, TrainingError
from .first_states import FirstState, arrays_of, sizes_of, state_function, states_of


class Optimizer:
    """The common base of all optimizers: their parameters and states, and the frame of their programs.

    After `init`, ``param_list`` and ``dtype`` say what is optimized, and ``state`` is the state to begin with; before,
    these are None.
    """

    name: str
    param_list: tuple[Var, ...] | None
    dtype: str | None

    def __init__(self, name: str) -> None:
        self.name = name
        self.param_list = None
        self.dtype = None
        self._state: Any = None

    def init(self, params: Var | Sequence[Var]) -> Self:
        """Optimize ``params``, variables of floating tensors of one dtype; returns the optimizer.

        Optimizers that keep a state for each parameter need known sizes. Raises `TrainingError` for anything else, and
        for a parameter that is given twice.
        """
        self._set_params_and_dtype(params)
        self._state = None
        self._states()
        return self

    def _set_params_and_dtype(self, params: Var | Sequence[Var]) -> None:
        """Check the parameters and take their dtype; what an ``init`` of one's own begins with, as in Relax."""
        given: tuple[Any, ...] = tuple(params) if isinstance(params, list | tuple) else (params,)
        dtypes: dict[str | None, Var] = {}
        for param in given:
            if not isinstance(param, Var):
                raise TrainingError(f"{self.name}: parameter {param!r} is no variable")
            ty = param.ty
            if not isinstance(ty, TensorType) or not is_float(ty.dtype):
                raise TrainingError(f"{self.name}: parameter {param.name_hint} is {ty!r}; expected a floating tensor")
            dtypes.setdefault(ty.dtype, param)
        if not given or len(set(given)) < len(given):
            raise TrainingError(f"{self.name}: expected one or more parameters, each of them once")
        if len(dtypes) > 1:
            kinds = ", ".join(f"{param.name_hint} is {dtype}" for dtype, param in dtypes.items())
            raise TrainingError(f"{self.name}: parameters must have one dtype, but {kinds}; convert some of them")
        self.param_list, self.dtype = given, next(iter(dtypes))

    def _check_init(self) -> tuple[Var, ...]:
        """The parameters; raises `NotSetError` before `init`."""
        if self.param_list is None:
            raise NotSetError(f"{self.name}: call init with the parameters to optimize first")
        return self.param_list

    @property
    def state(self) -> Any:
        """The states to begin with, as arrays; a program that trains may put the later ones here, as in Relax."""
        if self._state is None and self.param_list is not None:
            self._state = arrays_of(self.first_states())
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self._state = value

    def first_states(self) -> tuple[FirstState, ...]:
        """The states to begin with, described; raises `NotSetError` before `init`."""
        if self._state is not None:
            return states_of(self._state)
        return tuple(self._states())

    def get_function(self) -> Function:
        """The program of one step, public under the optimizer's name. Raises `NotSetError` before `init`."""
        params, states = self._check_init(), self._states()
        own = TupleType([param.ty for param in params])
        kept = TupleType([state.ty for state in states])
        operands = [Var("params", own), Var("gradients", own), Var("optim_states", kept)]
        builder = BlockBuilder()
        with builder.function(self.name, operands):
            with builder.dataflow():
                step = _Update(self.dtype, params, builder, operands)
                new_states = self.take_step(step)
                new_params = builder.emit_output(Tuple(step.new_params), "params_new")
                new_states = builder.emit_output(Tuple(new_states), "optim_states_new")
            builder.emit_func_output(Tuple([new_params, new_states]))
        return builder.get()[self.name]

    def get_state_function(self) -> Function:
        """A program without parameters that gives the states to begin with: what `state` holds, on any engine."""
        return state_function(f"{self.name}_state", self.first_states())

    def _states(self) -> list[FirstState]:
        self._check_init()
        return [FirstState("int64", ()), *self.further_states()]

    def per_param(self) -> list[FirstState]:
        """A state of zeros for each parameter, of its type; raises `TrainingError` for one of unknown sizes."""
        found: list[FirstState] = []
        for ty in [tensor_type(param) for param in self._check_init()]:
            if not is_static(ty):
                raise TrainingError(f"{self.name} keeps a state of type {ty!r}; expected parameters of known sizes")
            found.append(FirstState(self.dtype or "", sizes_of(ty)))
        return found

    def further_states(self) -> list[FirstState]:
        """The states after the number of steps."""
        return []

    def take_step(self, step: _Update) -> list[Expr]:
        """Give each parameter its new value, with ``step.update``; returns the new states."""
        del step
        raise NotImplementedError(f"{type(self).__name__} has neither take_step nor a get_function of its own")


class _Update:
    """One step in the making, in Relax's order and under its names: each parameter is taken out where it is used."""

    __slots__ = ("_builder", "_dtype", "_gradients", "_of", "_params", "_states", "new_params", "num_steps")

    def __init__(
        self, dtype: str | None, params: Sequence[Var], builder: BlockBuilder, operands: Sequence[Var]
    ) -> None:
        self._builder = builder
        self._dtype = dtype
        self._of = params
        self._params, self._gradients, self._states = operands
        self.num_steps = builder.emit(ops.add(self.state(0, "num_steps"), 1), "num_steps_new")
        self.new_params: list[Expr] = []

    def parameters(self) -> Iterator[tuple[str, Expr, Expr]]:
        """The name of each parameter, its value and its gradient."""
        for index, param in enumerate(self._of):
            name = param.name_hint
            value = self.emit(TupleGetItem(self._params, index), name)
            yield name, value, self.emit(TupleGetItem(self._gradients, index), f"{name}_grad")

    def state(self, index: int, name: str) -> Expr:
        """State number ``index``."""
        return self.emit(TupleGetItem(self._states, index), name)

    def update(self, name: str, value: Expr) -> None:
        """``value`` is the new value of the next parameter."""
        self.new_params.append(self.emit(value, f"{name}_new"))

    def emit(self, value: Expr, name: str = "") -> Expr:
        """``value`` bound to a variable of its own."""
        return self._builder.emit(value, name)

    def scalar(self, value: Expr) -> Expr:
        """A float64 scalar in the dtype of the parameters."""
        return self.emit(value if self._dtype == "float64" else ops.astype(value, self._dtype))

    def decayed(self, name: str, grad: Expr, param: Expr, weight_decay: float) -> Expr:
        """The gradient of the loss with the L2 penalty ``weight_decay / 2 * param ** 2``."""
        return self.emit(weight_decay * param + grad, f"{name}_grad_new") if weight_decay else grad


def _rest(share: float) -> float:
    """``1 - share`` of the number as it is written: 0.15 for 0.85."""
    return float(1 - Decimal(str(share)))


class SGD(Optimizer):
    """Stochastic gradient descent, ``param -= lr * (grad + weight_decay * param)``; as ``torch.optim.SGD``.

    States: the number of steps.
    """

    def __init__(self, lr: float, weight_decay: float = 0) -> None:
        super().__init__("SGD")
        self.lr = float(lr)
        self.weight_decay = float(weight_decay)

    def take_step(self, step: _Update) -> list[Expr]:
        """The expressions of one step."""
        for name, param, grad in step.parameters():
            step.update(name, param - self.lr * step.decayed(name, grad, param, self.weight_decay))
        return [step.num_steps]


class MomentumSGD(Optimizer):
    """Stochastic gradient descent along a running sum of gradients, ``velocity``.

    ``velocity = momentum * velocity + (1 - dampening) * grad``, then ``param -= lr * velocity``, or, with ``nesterov``,
    ``param -= lr * (grad + momentum * velocity)``; ``weight_decay`` as for `SGD`. As ``torch.optim.SGD``, but for
    ``dampening``, which holds in the first step, too, as in Relax. States: the number of steps, the velocities.
    """

    def __init__(
        self,
        lr: float,
        momentum: float,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
    ) -> None:
        super().__init__("MomentumSGD")
        self.lr = float(lr)
        self.momentum = float(momentum)
        self.dampening = float(dampening)
        self.weight_decay = float(weight_decay)
        self.nesterov = bool(nesterov)

    def further_states(self) -> list[FirstState]:
        """The states after the number of steps."""
        return self.per_param()

    def take_step(self, step: _Update) -> list[Expr]:
        """The expressions of one step."""
        velocities: list[Expr] = []
        for index, (name, param, grad) in enumerate(step.parameters(), 1):
            velocity = step.state(index, f"{name}_v")
            grad = step.decayed(name, grad, param, self.weight_decay)
            share = _rest(self.dampening) * grad if self.dampening else grad
            velocity = step.emit(self.momentum * velocity + share, f"{name}_v_new")
            velocities.append(velocity)
            direction = step.emit(grad + self.momentum * velocity, f"{name}_g_nest") if self.nesterov else velocity
            step.update(name, param - self.lr * direction)
        return [step.num_steps, *velocities]


class Adam(Optimizer):
    """Steps by the running mean of gradients, over the root of that of their squares; as ``torch.optim.Adam``.

    Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), with both means corrected for their start at
    zero. ``weight_decay`` is an L2 penalty, as for `SGD`. States: the number of steps, each beta to its power
    (float64), the means of the gradients, the means of their squares.
    """

    decouples_decay = False

    def __init__(
        self,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        name: str = "Adam",
    ) -> None:
        super().__init__(name)
        self.lr = float(lr)
        self.beta1, self.beta2 = map(float, betas)
        self.eps = float(eps)
        self.weight_decay = float(weight_decay)

    def further_states(self) -> list[FirstState]:
        """The states after the number of steps."""
        power = FirstState("float64", (), 1.0)
        return [power, power, *self.per_param(), *self.per_param()]

    def take_step(self, step: _Update) -> list[Expr]:
        """The expressions of one step."""
        betas = (self.beta1, self.beta2)
        powers = [
            step.emit(step.state(index, f"beta{index}_power") * beta, f"beta{index}_prod")
            for index, beta in enumerate(betas, 1)
        ]
        # The corrections belong to the step: worked out once, in float64, where 1 - beta ** n keeps its digits.
        rate = step.scalar(self.lr / (1.0 - powers[0]))
        root = step.scalar(ops.sqrt(1.0 - powers[1]))
        new_means: list[Expr] = []
        new_squares: list[Expr] = []
        for index, (name, param, grad) in enumerate(step.parameters(), 3):
            mean = step.state(index, f"{name}_m")
            square = step.state(index + len(self._check_init()), f"{name}_v")
            if self.decouples_decay:
                param = param * (1.0 - self.lr * self.weight_decay)
            else:
                grad = step.decayed(name, grad, param, self.weight_decay)
            mean = step.emit(self.beta1 * mean + _rest(self.beta1) * grad, f"{name}_m_new")
            square = step.emit(self.beta2 * square + _rest(self.beta2) * (grad * grad), f"{name}_v_new")
            step.update(name, param - mean * rate / (ops.sqrt(square) / root + self.eps))
            new_means.append(mean)
            new_squares.append(square)
        return [step.num_steps, *powers, *new_means, *new_squares]


class AdamW(Adam):
    """`Adam` whose ``weight_decay`` shrinks parameters by itself, ``param *= 1 - lr * weight_decay``, before the step.

    Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019); as ``torch.optim.AdamW``. States as for
    `Adam`.
    """

    decouples_decay = True

    def __init__(
        self,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay, "AdamW")

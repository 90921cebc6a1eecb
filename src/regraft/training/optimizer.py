"""Optimizers: programs that take one step of training, built for the parameters of a model.

Each class is a builder with Relax's names and arguments. ``init`` sets the parameters; ``get_function`` returns the
program ``(params, gradients, optim_states) -> (new params, new optim_states)``, all of them tuples. The first state is
always the number of steps taken. Steps follow PyTorch's optimizers of the same names. Factors of the step that do not
depend on a parameter, such as Adam's bias corrections, are kept in float64, so that rounding errors do not add up. A
custom optimizer defines ``further_states`` and ``take_step`` or, as in Relax, ``init`` and ``get_function``.
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
    """The base class of all optimizers: it keeps parameters and states, and builds the program around a step.

    After `init`, ``param_list`` and ``dtype`` are the parameters and their dtype, and ``state`` is the initial state.
    Before `init`, all three are None.
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
        """Set the parameters to optimize: variables of floating-point tensors of one dtype. Returns the optimizer.

        Optimizers that keep a state for each parameter need known sizes. Raises `TrainingError` for any other
        parameters, and for a parameter that is given twice.
        """
        self._set_params_and_dtype(params)
        self._state = None
        self._states()
        return self

    def _set_params_and_dtype(self, params: Var | Sequence[Var]) -> None:
        """Check the parameters, and store them and their dtype. A custom ``init`` calls this first, as in Relax."""
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
        """The parameters. Raises `NotSetError` before `init`."""
        if self.param_list is None:
            raise NotSetError(f"{self.name}: call init with the parameters to optimize first")
        return self.param_list

    @property
    def state(self) -> Any:
        """The initial states as arrays; None before `init`. A training loop can store new states here, as in Relax."""
        if self._state is None and self.param_list is not None:
            self._state = arrays_of(self.first_states())
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self._state = value

    def first_states(self) -> tuple[FirstState, ...]:
        """The descriptions of the initial states. Raises `NotSetError` before `init`."""
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
        """A program without parameters that returns the initial states, as `state` holds them. Runs on any engine."""
        return state_function(f"{self.name}_state", self.first_states())

    def _states(self) -> list[FirstState]:
        self._check_init()
        return [FirstState("int64", ()), *self.further_states()]

    def per_param(self) -> list[FirstState]:
        """A state of zeros of the type of each parameter. Raises `TrainingError` for a parameter of unknown sizes."""
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
        """Write one step: call ``step.update`` with the new value of each parameter. Returns the new states."""
        del step
        raise NotImplementedError(f"{type(self).__name__} has neither take_step nor a get_function of its own")


class _Update:
    """A step that is being written, with Relax's names and order: each parameter is projected where it is used."""

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
        """The name, the value and the gradient of each parameter."""
        for index, param in enumerate(self._of):
            name = param.name_hint
            value = self.emit(TupleGetItem(self._params, index), name)
            yield name, value, self.emit(TupleGetItem(self._gradients, index), f"{name}_grad")

    def state(self, index: int, name: str) -> Expr:
        """State number ``index``."""
        return self.emit(TupleGetItem(self._states, index), name)

    def update(self, name: str, value: Expr) -> None:
        """Bind ``value`` as the new value of the next parameter, which has this ``name``."""
        self.new_params.append(self.emit(value, f"{name}_new"))

    def emit(self, value: Expr, name: str = "") -> Expr:
        """The new variable that ``value`` is bound to."""
        return self._builder.emit(value, name)

    def scalar(self, value: Expr) -> Expr:
        """A float64 scalar, converted to the dtype of the parameters."""
        return self.emit(value if self._dtype == "float64" else ops.astype(value, self._dtype))

    def decayed(self, name: str, grad: Expr, param: Expr, weight_decay: float) -> Expr:
        """The gradient of the loss with the L2 penalty ``weight_decay / 2 * param ** 2``."""
        return self.emit(weight_decay * param + grad, f"{name}_grad_new") if weight_decay else grad


def _rest(share: float) -> float:
    """``1 - share`` in decimal arithmetic: exactly 0.15 for 0.85."""
    return float(1 - Decimal(str(share)))


class SGD(Optimizer):
    """Stochastic gradient descent: ``param -= lr * (grad + weight_decay * param)``. Follows ``torch.optim.SGD``.

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
    """Stochastic gradient descent with momentum: steps along ``velocity``, a running sum of the gradients.

    ``velocity = momentum * velocity + (1 - dampening) * grad``, then ``param -= lr * velocity``, or, with ``nesterov``,
    ``param -= lr * (grad + momentum * velocity)``. ``weight_decay`` is as for `SGD`. Follows ``torch.optim.SGD``,
    except that ``dampening`` also applies in the first step, as in Relax. States: the number of steps, the velocities.
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
    """The Adam optimizer. Follows ``torch.optim.Adam``.

    Each step is the running mean of the gradients, divided by the square root of the running mean of their squares.
    Both means are corrected for their start at zero: Kingma and Ba, "Adam: A Method for Stochastic Optimization"
    (2015). ``weight_decay`` is an L2 penalty, as for `SGD`. States: the number of steps, the power of each beta
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
        # The corrections are the same for all parameters. In float64, 1 - beta ** n keeps its digits.
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
    """`Adam` with decoupled weight decay: ``param *= 1 - lr * weight_decay`` before the step.

    Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019). Follows ``torch.optim.AdamW``. States are as
    for `Adam`.
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

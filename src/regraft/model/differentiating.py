"""A model and its gradient as one model.

The weights of a file are constants of its program. Weights that the user names become parameters while the gradient is
taken, and constants again afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..gradient import Gradient
from ..ir.dtypes import is_float
from ..ir.expr import Constant
from ..ir.module import IRModule
from ..ir.near_names import meant
from ..ir.program import Function
from ..ir.tensor_data import TensorData
from ..ir.visitor import walk
from ..passes import BindParams
from ..run.lifted_constants import with_weights_as_parameters
from .errors import UsageError
from .models import Model

if TYPE_CHECKING:
    from ..formats.torch.signature import CallingConvention


def differentiated(model: Model, names: Sequence[str] | None = None, target: int = 0) -> IRModule:
    """A module whose ``main`` returns the results of ``model`` and the gradients of its output ``target``.

    ``names`` lists inputs, or weights by their names in the model; None means all floating-point inputs. Raises
    `UsageError` for a name that is neither, and `GradientError`. Cost: that of `Gradient`; weights are not read.
    """
    weights = _weights_of(model, names or ())
    lifted = model.module.with_function(model.name, with_weights_as_parameters(model.function, weights))
    adjoint_name = f"{model.name}_adjoint"
    convention = _convention(model)
    if convention is not None:  # new values of buffers and arguments come before the results
        target += len(convention.mutated) + len(convention.written)
    program = Gradient(model.name, require_grads=names, target_index=target, fields_apart=True)(lifted)
    if weights:
        program = BindParams(adjoint_name, {name: data.numpy() for name, data in weights.items()})(program)
    others = program.without_functions({model.name, adjoint_name})
    main = program[adjoint_name]
    if convention is not None:
        main = _with_plain_results(main, convention)
    return IRModule({"main": main}, others.attrs).with_functions(dict(others.items()))


def _convention(model: Model) -> CallingConvention | None:
    """The calling convention of a PyTorch model; None for any other model."""
    if model.form != "torch":
        return None
    from ..formats.torch.signature import CallingConvention

    return CallingConvention.of(model.function)


def _with_plain_results(adjoint: Function, convention: CallingConvention) -> Function:
    """``adjoint`` as a forward function that returns a tuple: all results, including new values, then all gradients."""
    from ..formats.torch.signature import ATTRIBUTE, VALUE

    outputs = ((VALUE, 0), (VALUE, 1))
    plain = replace(convention, out_spec=None, outputs=outputs, mutated=(), detached=(), written=(), structures=())
    return adjoint.with_attr(ATTRIBUTE, plain.text())


def _weights_of(model: Model, names: Sequence[str]) -> dict[str, TensorData]:
    """The weights among ``names``."""
    inputs = [param.name_hint for param in model.function.params]
    found = [node.data for node in walk(model.function) if isinstance(node, Constant) and is_float(node.data.dtype)]
    by_name = {data.name: data for data in found if data.name is not None}
    weights: dict[str, TensorData] = {}
    for name in names:
        if name in inputs:
            continue
        if name not in by_name:
            hint = meant(name, [*inputs, *by_name], 3) or f"the inputs are: {', '.join(inputs) or 'none'}"
            raise UsageError(f"the model has no input and no floating weight {name!r} to differentiate by; {hint}")
        weights[name] = by_name[name]
    return weights

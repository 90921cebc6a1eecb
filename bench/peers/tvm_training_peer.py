"""Apache TVM: a step of training, from a PyTorch model that gives logits to programs for this processor.

Loss, gradient and optimizer are TVM's own, and so is the import. Its default pipeline schedules the kernels, untuned.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
import tvm
from torch import nn
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

NAME = f"TVM {tvm.__version__}"


class NoGradientError(Exception):
    """TVM has no gradient for an operator of the model; the message names it."""


def training_step(model: nn.Module, x: torch.Tensor, answers: torch.Tensor, rate: float) -> Callable[[], float]:
    """Forward, cross entropy, backward and SGD on one batch, with weights that stay in place; it gives the loss.

    Raises `NoGradientError`.
    """
    exported = torch.export.export(model, (x,))
    module = from_exported_program(exported, keep_params_as_input=True, unwrap_unit_return_tuple=True)
    main = module["main"]
    values = [tensor.numpy() for tensor in main.attrs["params"]]
    backbone = main.without_attr("params").with_attr("global_symbol", "main")
    logits = relax.TensorType([int(size) for size in main.ret_ty.shape], "float32")
    loss = relax.training.loss.CrossEntropyLoss("mean")(logits, relax.TensorType(answers.shape, "int64"))
    passes = [relax.transform.DecomposeOpsForInference("main"), relax.training.AppendLoss("main", loss)]
    module = tvm.ir.transform.Sequential(passes)(tvm.IRModule({"main": backbone}))
    given = list(module["main_loss"].params)[1 : 1 + len(values)]
    names = {name.replace(".", "_") for name, _ in model.named_parameters()}
    trained = [i for i, var in enumerate(given) if var.name.removeprefix("p_") in names]
    required = [given[i] for i in trained]
    try:
        module = relax.transform.Gradient("main_loss", required)(module)
    except tvm.error.InternalError as error:
        missing = re.search(r"FPrimalGradient has not been registered for relax\.(\S+)", str(error))
        if missing is None:
            raise
        raise NoGradientError(missing[1]) from error
    optimizer = relax.training.optimizer.SGD(rate).init(required)
    module["SGD"] = optimizer.get_function()
    target = tvm.target.Target("llvm")
    machine = relax.VirtualMachine(relax.build(relax.transform.LegalizeOps()(module), target=target), tvm.cpu())
    return _Step(machine, x, answers, values, trained, optimizer.state)


class _Step:
    def __init__(
        self, machine: Any, x: torch.Tensor, answers: torch.Tensor, values: Any, trained: list[int], state: Any
    ) -> None:
        self._machine = machine
        self._x, self._answers = tvm.runtime.tensor(x.numpy()), tvm.runtime.tensor(answers.numpy())
        self._values = [tvm.runtime.tensor(value) for value in values]
        self._trained = trained
        self._state = state

    def __call__(self) -> float:
        loss, gradients = self._machine["main_loss_adjoint"](self._x, *self._values, self._answers)
        params = [self._values[i] for i in self._trained]
        changed, self._state = self._machine["SGD"](params, list(gradients), self._state)
        for i, value in zip(self._trained, changed, strict=True):
            self._values[i] = value
        return float(loss.numpy())

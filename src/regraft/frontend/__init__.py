"""Relax's names for reading models of other formats: the modules `onnx` and `torch`, and `detach_params`.

What they read and how is in `regraft.formats`; these take Relax's arguments and give results in Relax's form. Models
that are written here are modules of `nn`.
"""

from __future__ import annotations

from ..ir.module import IRModule
from ..ir.tensor_data import TensorData
from ..run import Tensor
from ..second_paths import attach_second_paths


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Tensor]]]:
    """Take the weights that importers keep in the attribute ``params`` out of ``mod``.

    Returns the module without them, and for each function that had some the list of its arrays, in the order of its
    parameters after the first ``num_input``.
    """
    params: dict[str, list[Tensor]] = {}
    for name, function in mod.items():
        kept: tuple[TensorData, ...] | None = function.attrs.get("params")
        if kept is not None:
            params[name] = [data.numpy().view(Tensor) for data in kept]
    return mod.with_functions({name: mod[name].without_attr("params") for name in params}), params


__all__ = ["detach_params"]

attach_second_paths(__name__)

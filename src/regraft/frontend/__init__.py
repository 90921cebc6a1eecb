"""Relax's names for importing models of other formats: the modules `onnx` and `torch`, and `detach_params`.

The readers are in `regraft.formats`; these modules take Relax's arguments and return results in Relax's form. `nn` is
for models that are written here.
"""

from __future__ import annotations

from ..ir.module import IRModule
from ..ir.tensor_data import TensorData
from ..run import Tensor
from ..second_paths import attach_second_paths


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Tensor]]]:
    """Take the weights that importers keep in the attribute ``params`` out of ``mod``.

    Returns the module without them, and the arrays of each function that had some, in the order of its parameters after
    the first ``num_input``.
    """
    params: dict[str, list[Tensor]] = {}
    for name, function in mod.items():
        kept: tuple[TensorData, ...] | None = function.attrs.get("params")
        if kept is not None:
            params[name] = [data.numpy().view(Tensor) for data in kept]
    return mod.with_functions({name: mod[name].without_attr("params") for name in params}), params


__all__ = ["detach_params"]

attach_second_paths(__name__)

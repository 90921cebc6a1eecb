"""RealizeVDevice and UpdateVDevice: derive the devices in types from hints, and replace one device by another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..analysis import free_vars
from ..ir.expr import Expr, Var
from ..ir.module import GLOBAL_INFOS, IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, is_call_of
from ..ir.placement import placed
from ..ir.program import Function
from ..ir.types import TensorType, Type, map_type
from ..ir.vdevice import VDevice
from ..ir.visitor import iter_bindings
from ..op import to_vdevice
from .context import PassContext, PassError
from .passes import ModulePass, Pass

_KINDS = {"llvm": "cpu", "c": "cpu"}
"""The kind of device that a target runs on, if it differs from the name of the target."""


def _device_of(value: Expr) -> VDevice | None:
    return _device_in(value.ty)


def _device_in(ty: Type) -> VDevice | None:
    return ty.vdevice if isinstance(ty, TensorType) else None


class _Realizing(ExprMutator):
    """Places the parameters of a function on their devices, and replaces each hint by a move or by its operand."""

    def __init__(self, hinted: Mapping[str, VDevice], params: Mapping[Var, VDevice]) -> None:
        super().__init__()
        self._hinted = hinted
        self._params = params

    def visit_var_def_(self, var: Var) -> Var:
        device = self._params.get(var)
        return var if device is None else Var(var.name_hint, placed(var.ty, device), var.origins)

    def visit_call_(self, call: Call) -> Expr:
        if not is_call_of(call, "relax.hint_on_device"):
            return call
        data, device = call.args[0], self._hinted[_hint(call)]
        return data if _device_of(data) == device else to_vdevice(data, device)


def _hint(call: Call) -> str:
    kind, _, number = call.attrs.dst_vdevice.partition(":")
    return f"{kind}:{number or 0}:{call.attrs.memory_scope}"


def _hints(module: IRModule) -> Iterator[str]:
    for function in module.functions.values():
        for binding in iter_bindings(function):
            if is_call_of(binding.value, "relax.hint_on_device"):
                yield _hint(binding.value)


def _devices_by_hint(module: IRModule) -> dict[str, VDevice]:
    """The device of the module for each hint; raises `PassError` if the module does not name it."""
    named = [device for device in module.global_infos.get("vdevice", ()) if isinstance(device, VDevice)]
    by_text = {f"{_KINDS.get(d.target or '', d.target)}:{d.vdevice_id}:{d.memory_scope}": d for d in named}
    found: dict[str, VDevice] = {}
    for hint in _hints(module):
        if hint not in by_text:
            raise PassError(
                f"RealizeVDevice: a hint_on_device names {hint}, and the module has no such device; it has: "
                f"{', '.join(by_text) or 'none'} (I.module_global_infos names them)"
            )
        found[hint] = by_text[hint]
    return found


def _devices_of_params(function: Function, hinted: Mapping[str, VDevice]) -> dict[Var, VDevice]:
    """The device of each parameter that has none yet and is used with values on a device.

    A value is on the device of its operands. An operand without a device is on the device of the value.
    """
    known: dict[Var, VDevice] = {}
    bindings = list(iter_bindings(function))
    stated = [*function.params, *(binding.var for binding in bindings)]
    known.update((var, device) for var in stated if (device := _device_of(var)) is not None)
    result, device = function.body.body, _device_in(function.ret_ty)
    for binding in bindings:
        value = binding.value
        if is_call_of(value, "relax.hint_on_device"):
            known[binding.var] = hinted[_hint(value)]
        else:
            found = [known[var] for var in _used(value) if var in known]
            if found:
                known.setdefault(binding.var, found[0])
    if isinstance(result, Var) and device is not None:
        known.setdefault(result, device)
    for binding in reversed(bindings):
        if binding.var in known and not is_call_of(binding.value, "relax.to_vdevice"):
            for var in _used(binding.value):
                known.setdefault(var, known[binding.var])
    return {param: known[param] for param in function.params if _device_of(param) is None and param in known}


def _used(value: Expr) -> list[Var]:
    """The tensor variables that ``value`` uses."""
    used = [value] if isinstance(value, Var) else free_vars(value)
    return [var for var in used if isinstance(var.ty, TensorType)]


def RealizeVDevice() -> Pass:
    """Propagate the devices that the hints and types of a module name to the types of all values that they reach.

    A value is on the device of its operands. An operand without a device is on the device of the value.
    ``hint_on_device`` becomes ``to_vdevice`` if the data is on another device, and is removed otherwise. Engines ignore
    devices.

    Needs: the devices of hints among the module's (``I.module_global_infos``). Guarantees: the same values to the bit.
    Raises `PassError` for a hint of a device that the module does not name. Cost: linear.
    """

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        hinted = _devices_by_hint(module)
        return module.with_each(
            lambda _name, function: _Realizing(hinted, _devices_of_params(function, hinted)).mutate(function)
        )

    return ModulePass(transform, "RealizeVDevice")


class _Updating(ExprMutator):
    """Replaces one device by another, in types and in moves of values."""

    def __init__(self, old: VDevice, new: VDevice) -> None:
        super().__init__()
        self._old = old
        self._new = new

    def visit_type(self, ty: Type) -> Type:
        def place(leaf: Type) -> Type:
            return placed(leaf, self._new) if isinstance(leaf, TensorType) and leaf.vdevice == self._old else leaf

        return map_type(ty, place)

    def visit_call_(self, call: Call) -> Expr:
        if is_call_of(call, "relax.to_vdevice") and call.attrs.dst_vdevice == self._old:
            return to_vdevice(call.args[0], self._new)
        return call


def UpdateVDevice(new_vdevice: VDevice | str, index: int) -> Pass:
    """Replace the module's device with that ``index`` by ``new_vdevice``, wherever the program names it.

    Needs: a module that names devices. Guarantees: the same values to the bit. Raises `PassError` if the module has no
    device of that ``index``. Cost: linear.
    """
    new = VDevice.of(new_vdevice)

    def transform(module: IRModule, _context: PassContext) -> IRModule:
        infos = module.global_infos
        devices = infos.get("vdevice", ())
        if not 0 <= index < len(devices):
            raise PassError(f"UpdateVDevice: there is no device {index}; the module names {len(devices)}")
        infos["vdevice"] = (*devices[:index], new, *devices[index + 1 :])
        changed = _Updating(devices[index], new).mutate(module)
        return changed.with_attr(GLOBAL_INFOS, tuple(infos.items()))

    return ModulePass(transform, "UpdateVDevice")

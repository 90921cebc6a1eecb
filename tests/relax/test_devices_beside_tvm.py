"""Devices that types name: they go through operators, text, JSON and copies as in Relax."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax as theirs
from tvm.script import from_source
from tvm.script import relax as their_script

import regraft as rx
from regraft.script import relax as our_script

pytestmark = pytest.mark.filterwarnings("ignore")

Variable = Callable[..., Any]
CALLS: dict[str, Callable[[Any, Variable, Any], Any]] = {
    "on the left": lambda op, x, d: op.add(x(d), x()),
    "on the right": lambda op, x, d: op.maximum(x(), x(d)),
    "compared": lambda op, x, d: op.less(x(d), x(d)),
    "beside a constant": lambda op, x, d: op.where(x(None, "bool"), x(d), x(d)),
    "a product": lambda op, x, d: op.matmul(x(), op.permute_dims(x(d))),
    "of several results": lambda op, x, d: op.split(x(d), 3, axis=1),
    "a reduction": lambda op, x, d: op.sum(x(d), axis=1),
    "a cast": lambda op, x, d: op.astype(x(d), "float16"),
    "a tuple": lambda op, x, d: op.concat([x(), x(d)], axis=0),
    "indices": lambda op, x, d: op.argmax(x(d), axis=0),
    "the greatest": lambda op, x, d: op.topk(x(d)),
    "a shape": lambda op, x, d: op.shape_of(x(d)),
    "a norm": lambda op, x, d: op.nn.softmax(x(d)),
    "moved": lambda op, x, d: op.to_vdevice(x(), d),
}


def _place(package: Any, script: Any, call: Callable[[Any, Variable, Any], Any]) -> list[Any]:
    device = package.VDevice("llvm")

    def variable(vdevice: Any = None, dtype: str = "float32") -> Any:
        if vdevice is None:
            return package.Var("x", script.Tensor((2, 3), dtype))
        return package.Var("x", script.Tensor((2, 3), dtype, vdevice))

    builder = package.BlockBuilder()
    with builder.function("main", []):
        ty = builder.emit(call(package.op, variable, device)).ty
        builder.emit_func_output(package.Tuple([]))
    fields = ty.fields if isinstance(ty, package.TupleType) else [ty]
    return [getattr(field, "vdevice", None) == device for field in fields]


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_a_result_is_on_the_device_that_relax_says(call: Callable[[Any, Variable, Any], Any]) -> None:
    assert _place(rx, our_script, call) == _place(theirs, their_script, call)


def _of_two_devices(package: Any, script: Any) -> None:
    x = package.Var("x", script.Tensor((2, 3), "float32", package.VDevice("llvm")))
    y = package.Var("y", script.Tensor((2, 3), "float32", package.VDevice("llvm", 1)))
    package.BlockBuilder().normalize(package.op.add(x, y))


@pytest.mark.parametrize(("package", "script"), [(theirs, their_script), (rx, our_script)])
def test_an_elementwise_call_of_two_devices_is_refused(package: Any, script: Any) -> None:
    with pytest.raises(ValueError, match=r"same VDevice|expected one device"):
        _of_two_devices(package, script)


def test_types_that_name_devices_relate_as_in_relax() -> None:
    def answers(package: Any) -> list[Any]:
        one, other = package.VDevice("llvm"), package.VDevice("llvm", 1)
        types = [package.TensorType((2, 3), "float32", device) for device in (one, one, other)]
        free = package.TensorType((2, 3), "float32")
        check = package.analysis.type_base_check
        bases = [check(free, types[0]), check(types[0], types[1]), check(types[0], types[2])]
        least = [package.analysis.type_lca(types[0], ty).vdevice is None for ty in types]
        return [[int(base) for base in bases], least]

    assert answers(rx) == answers(theirs)


MODULE = """
@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("llvm", 1, "global")]})

    @R.function
    def main(x: R.Tensor((2, 3), "float32", "llvm"), y: R.Tensor((2, 3), "float32", "llvm:1")):
        with R.dataflow():
            moved = R.to_vdevice(x, "llvm:1")
            total = R.add(moved, y)
            R.output(total)
        return total
"""


def test_a_module_with_devices_is_read_and_written_as_in_relax() -> None:
    here, there = rx.parse(MODULE), from_source(MODULE)
    assert isinstance(here, rx.IRModule)
    read = rx.parse(there.script())
    for module in (here, there, read):
        assert [param.ty.vdevice.vdevice_id for param in module["main"].params] == [0, 1]
        assert len(module.global_infos["vdevice"]) == 2
    for again in (rx.parse(here.script()), rx.load_json(rx.save_json(here)), pickle.loads(pickle.dumps(here))):
        rx.assert_structural_equal(again, here)
        assert again["main"].ret_ty.vdevice == rx.VDevice("llvm", 1)


def test_a_program_with_devices_runs_where_its_engine_runs() -> None:
    main = rx.VirtualMachine(rx.build(rx.parse(MODULE), "numpy"), "cpu")["main"]
    ones = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(np.asarray(main(ones, ones)), ones + ones)

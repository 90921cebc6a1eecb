"""Modules whose functions take PyTorch's tensors."""

import pytest
import torch
import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.relax import BasePyModule
from tvm.script import relax as R, ir as I, tirx as T


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        y = R.add(x, x)
        return y


def made(**options):
    return BasePyModule(Module, tvm.cpu(0), **options)


def t_functions_of_a_module():
    module = made()
    none = BasePyModule(IRModule({}), tvm.cpu())
    names = [g.name_hint for g in module.functions]
    found = [module.get_function("main") is not None, module.get_function("other") is None]
    return [module.list_functions(), none.list_functions(), names, found, str(module.device), module.ir_mod is Module]


def t_calls_with_tensors():
    results = [made().main(torch.ones(3)), made(target="llvm").main(torch.arange(2.0))]
    return [[isinstance(result, torch.Tensor), result.numpy()] for result in results]


def t_python_functions_that_are_added():
    module = made()
    module.add_python_function("twice", lambda x: x * 2)
    module.add_python_function("through", lambda self, x: self.main(x) + 1)
    with pytest.raises(ValueError):
        module.call_py_func("other", [torch.ones(2)])
    called = module.call_py_func("through", [torch.ones(2)])
    return [module.twice(torch.ones(2)).numpy(), module.through(torch.ones(2)).numpy(), called.numpy()]


def t_outside_functions_that_write_their_results():
    def write(x, out):
        out.copyfrom(x.numpy() + 1)

    tvm.register_global_func("tests.base_py_module.write", write, override=True)
    module = made()
    found = []
    for out_ty in (R.Tensor((3,), "float32"), relax.TensorType((T.Var("n", "int64"),), "float32"), (3,)):
        found.append(module.call_dps_packed("tests.base_py_module.write", [torch.ones(3)], out_ty).numpy())
    with pytest.raises(ValueError):
        module.call_dps_packed("tests.base_py_module.other", [torch.ones(3)], (3,))
    return [found, module.list_functions()]


def t_values_of_both_sides():
    module = made()
    ours = module._convert_pytorch_to_tvm([torch.ones(2), torch.zeros(1, dtype=torch.int64)])
    back = module._convert_tvm_to_pytorch(ours)
    return [[isinstance(value, tvm.runtime.Tensor) for value in ours], [value.numpy() for value in back]]

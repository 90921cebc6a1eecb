"""Names of `tvm.ir` that programs import, and outside modules of a model."""

import tvm
from tvm import relax
from tvm.ir import Range, BaseFunc, CallingConv
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import spec
from tvm.script import relax as R, ir as I, tirx as T


@I.ir_module
class Module:
    ext = R.ExternFunc("ext")

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return R.add(x, R.const([1.0, 2.0], "float32"))


def t_ranges():
    ranges = [Range(0, 10), Range(10), Range(3, 7), Range.from_min_extent(2, 5)]
    return [[int(r.min), int(r.extent)] for r in ranges], Range(1, 2) == Range(1, 2)


def t_kinds_of_functions():
    return isinstance(Module["main"], BaseFunc), isinstance(Module["ext"], BaseFunc), int(CallingConv.DEFAULT)


def t_kinds_of_values():
    value = Module["main"].body.blocks[0].bindings[0].value
    return isinstance(value.args[1], tvm.ir.GenericConst), isinstance(Module["main"].attrs, tvm.ir.DictAttrs)


def t_lists_and_tables():
    return list(tvm.ir.Array([1, 2])), dict(tvm.ir.Map({"a": 1}))


class Model(nn.Module):
    def __init__(self, outside, twice=False):
        self.outside = outside
        self.twice = twice

    def forward(self, x: nn.Tensor):
        nn.add_extern(self.outside)
        if self.twice:
            nn.add_extern(self.outside)
        return self.outside["scaled"](x, 2, 0.5, "name")


def scaled(x, *rest):
    return nn.Tensor.placeholder((x.shape[0], 4), x.dtype)


INPUTS = {"forward": {"x": spec.Tensor(["n", 3], "float32")}}


def t_outside_modules():
    outside = nn.SourceModule({"scaled": scaled}, "int f() { return 0; }", "cpp")
    module, parameters, modules = Model(outside).export_tvm(INPUTS, allow_extern=True)
    return module, parameters, [one is outside for one in modules]


def t_raises_without_allow_extern():
    Model(nn.ExternModule({"scaled": scaled})).export_tvm(INPUTS)


def t_raises_for_one_name_twice():
    Model(nn.ExternModule({"scaled": scaled}), twice=True).export_tvm(INPUTS, allow_extern=True)


def t_raises_outside_of_an_export():
    nn.add_extern(nn.ExternModule({"scaled": scaled}))


def t_raises_for_other_sources():
    nn.SourceModule({"scaled": scaled}, "int f();", "rust")


def t_raises_for_no_file():
    nn.ObjectModule({"scaled": scaled}, "/none/such.o")


def t_raises_when_it_is_loaded():
    nn.ExternModule({"scaled": scaled}).load()


def t_compiled(tmp="/tmp"):
    from pathlib import Path
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder, "out.o")
        options = ["-c", "-O1"]
        nn.SourceModule({"scaled": scaled}, "int f() { return 0; }", "cpp", compile_options=options).compile(path)
        return path.is_file()

from torch import fx, nn
import torch
from torch.export import export
from tvm import relax
from tvm.relax.frontend import detach_params
from tvm.relax.frontend.torch import from_exported_program, from_fx

X = torch.ones(1, 10)


class Lin(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(10, 7, bias=True)

    def forward(self, x):
        return self.linear(x)


def flat(ty):
    return [flat(f) for f in ty.fields] if isinstance(ty, relax.TupleType) else str(ty)


def sig(mod):
    f = mod["main"]
    return (
        [(p.name, str(p.ty)) for p in f.params],
        flat(f.ret_ty),
        {k: str(v) for k, v in sorted((f.attrs or {}).items())},
    )


def t_fx_keep_params():
    m = from_fx(fx.symbolic_trace(Lin()), [((1, 10), "float32")], keep_params_as_input=True)
    m, p = detach_params(m)
    return sig(m), list(p), [len(v) for v in p.values()], [v.numpy().shape for v in p["main"]]


def t_ep_keep():
    m = from_exported_program(export(Lin(), args=(X,)), keep_params_as_input=True)
    m, p = detach_params(m)
    return sig(m), list(p), [v.numpy().shape for v in p["main"]]


def t_ep_custom_two():
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    def conv(node: fx.Node, self: ExportedProgramImporter) -> relax.Var:
        x = self.env[node.args[0]]
        y = self.env[node.args[1]]
        return self.block_builder.emit(relax.op.subtract(y, x))

    class A(nn.Module):
        def forward(self, x, y):
            return x + y

    return from_exported_program(export(A(), args=(X, X)), custom_convert_map={"add.Tensor": conv})


def t_fx_custom_typed():
    from tvm.relax.frontend.torch.fx_translator import TorchFXImporter

    def conv(node: fx.Node, self: TorchFXImporter) -> relax.Var:
        x = self.env[node.args[0]]
        y = self.env[node.args[1]]
        return self.block_builder.emit(relax.op.subtract(y, x))

    class A(nn.Module):
        def forward(self, x, y):
            return x + y

    return from_fx(fx.symbolic_trace(A()), [((2, 3), "float32"), ((2, 3), "float32")], custom_convert_map={"add": conv})

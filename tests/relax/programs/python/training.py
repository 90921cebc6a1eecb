import numpy as np
import tvm
from tvm import relax
from tvm.relax.training import AppendLoss, SetupTrainer, Trainer
from tvm.relax.training.loss import CrossEntropyLoss, L1Loss, MSELoss
from tvm.relax.training.optimizer import SGD, MomentumSGD
from tvm.script import ir as I
from tvm.script import relax as R


def back():
    @I.ir_module
    class Backbone:
        I.module_attrs({"param_num": 2, "state_num": 0})

        @R.function
        def backbone(x: R.Tensor((2, 10), "float64"), w0: R.Tensor((10, 5), "float64"), b0: R.Tensor((5,), "float64")):
            with R.dataflow():
                a = R.matmul(x, w0)
                b = R.add(a, b0)
                out = R.nn.relu(b)
                R.output(out)
            return out

    return Backbone


def bn():
    @I.ir_module
    class Backbone:
        I.module_attrs({"param_num": 2, "state_num": 2})

        @R.function
        def backbone(
            x: R.Tensor((2, 3, 4, 4), "float32"),
            g: R.Tensor((3,), "float32"),
            b: R.Tensor((3,), "float32"),
            mm: R.Tensor((3,), "float32"),
            mv: R.Tensor((3,), "float32"),
        ):
            with R.dataflow():
                o = R.nn.batch_norm(x, g, b, mm, mv, axis=1)
                y = o[0]
                m1 = o[1]
                v1 = o[2]
                R.output(y, m1, v1)
            return y, m1, v1

    return Backbone


def t_setup_attrs():
    pred = relax.TensorType((2, 5), "float64")
    m = SetupTrainer(MSELoss(reduction="sum"), SGD(0.1), [pred, pred], legalize=False)(back())
    return sorted(k for k in m.attrs.keys()), int(m.attrs["param_num"]), int(m.attrs["state_num"])


def t_setup_no_attrs():
    pred = relax.TensorType((2, 5), "float64")
    mod = back().without_attr("param_num")
    return SetupTrainer(MSELoss(reduction="sum"), SGD(0.1), [pred, pred], legalize=False)(mod)


def t_setup_bad_first():
    pred = relax.TensorType((2, 5), "float64")

    @I.ir_module
    class NoBackbone:
        I.module_attrs({"param_num": 1, "state_num": 0})

        @R.function
        def main(x: R.Tensor((2, 10), "float64"), w: R.Tensor((2, 10), "float64")):
            with R.dataflow():
                y = R.add(x, w)
                R.output(y)
            return y

    return SetupTrainer(MSELoss(reduction="sum"), SGD(0.1), [pred, pred], legalize=False)(NoBackbone)


def t_trainer_profile_params():
    pred = relax.TensorType((2, 5), "float64")
    m = SetupTrainer(MSELoss(reduction="sum"), SGD(0.1), [pred, pred])(back())
    vm = relax.VirtualMachine(tvm.compile(m, "llvm"), tvm.cpu())
    t = Trainer(m, vm, tvm.cpu(), False)
    r = np.random.RandomState(0)
    t.load_params({"w0": r.rand(10, 5), "b0": r.rand(5)})
    e = t.export_params()
    return {k: v.numpy() for k, v in e.items()}


def t_trainer_bn():
    pred = relax.TensorType((2, 3, 4, 4), "float32")
    m = SetupTrainer(MSELoss(reduction="sum"), SGD(0.01), [pred, pred])(bn())
    vm = relax.VirtualMachine(tvm.compile(m, "llvm"), tvm.cpu())
    t = Trainer(m, vm, tvm.cpu(), False)
    r = np.random.RandomState(0)
    t.load_params([np.ones(3, "float32"), np.zeros(3, "float32")])
    t.load_states([np.zeros(3, "float32"), np.ones(3, "float32")])
    x = r.rand(2, 3, 4, 4).astype("float32")
    y = r.rand(2, 3, 4, 4).astype("float32")
    a = t.update(x, y)
    b = t.update(x, y)
    return a, b, [v.numpy() for v in t.export_states().values()]


def t_append_loss_extra():
    @R.function
    def loss(a: R.Tensor((2, 5), "float64"), b: R.Tensor((2, 5), "float64"), c: R.Tensor((2, 5), "float64")):
        with R.dataflow():
            d = R.add(a, b)
            e = R.multiply(d, c)
            f = R.sum(e)
            R.output(f)
        return f

    return AppendLoss("backbone", loss, num_backbone_outputs=1)(back())


def t_losses():
    p = R.Tensor((3, 5), "float32")
    t = R.Tensor((3,), "int64")
    w = R.Tensor((5,), "float32")
    out = []
    w = relax.TensorType((5,), "float32")
    p = relax.TensorType((3, 5), "float32")
    t = relax.TensorType((3,), "int64")
    for red in ("none", "mean", "sum"):
        out += [
            L1Loss(red)(p, p),
            MSELoss(red)(p, p),
            CrossEntropyLoss(red)(p, t),
            CrossEntropyLoss(red, ignore_index=1)(p, t, w),
        ]
    return out


def t_loss_bad_reduction():
    return MSELoss(reduction="bad")


def t_sgd():
    x = relax.Var("x", R.Tensor((3, 3), "float32"))
    y = relax.Var("y", R.Tensor((3,), "float32"))
    return SGD(0.01).init([x, y]).get_function()


def t_sgd_weight_decay():
    x = relax.Var("x", R.Tensor((3, 3), "float32"))
    return SGD(0.01, 0.02).init(x).get_function()


def t_momentum():
    x = relax.Var("x", R.Tensor((3, 3), "float32"))
    y = relax.Var("y", R.Tensor((3,), "float32"))
    return MomentumSGD(0.01, 0.9, 0.85, 0.02, False).init([x, y]).get_function(), MomentumSGD(
        0.01, 0.9, 0.85, 0.02, True
    ).init([x, y]).get_function()


def t_unused_backbone_output():
    pred = relax.TensorType((2, 5), "float64")
    loss = MSELoss(reduction="sum")(pred, pred)

    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((2, 5), "float64")):
            with R.dataflow():
                y = R.exp(x)
                z = R.add(y, x)
                R.output(y, z)
            return y, z

    return AppendLoss("f", loss)(M)

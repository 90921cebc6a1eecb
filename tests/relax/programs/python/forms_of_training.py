"""Losses, optimizers and trainers in the forms in which programs for training write them."""

import tvm
from tvm import relax
from tvm.relax.training.loss import L1Loss, MSELoss, CrossEntropyLoss
from tvm.relax.training import SetupTrainer
from tvm.relax.training.optimizer import SGD, MomentumSGD
from tvm.relax.training.utils import AppendLoss
from tvm.script import relax as R, ir as I


def v(name, *shape, dtype="float32"):
    return relax.Var(name, relax.TensorType(shape, dtype))


def ty(*shape, dtype="float32"):
    return relax.TensorType(shape, dtype)


def t_l1():
    return L1Loss()(ty(3, 5), ty(3, 5))


def t_l1_sum():
    return L1Loss(reduction="sum")(ty(3, 5), ty(3, 5))


def t_l1_none():
    return L1Loss(reduction="none")(ty(3, 5), ty(3, 5))


def t_mse():
    return MSELoss()(ty(3, 5), ty(3, 5))


def t_mse_sum():
    return MSELoss("sum")(ty(3, 5), ty(3, 5))


def t_ce():
    return CrossEntropyLoss(reduction="sum", ignore_index=1)(ty(3, 5), ty(3, dtype="int64"), ty(5))


def t_ce_mean():
    return CrossEntropyLoss()(ty(3, 5), ty(3, dtype="int64"))


def t_ce_unbatched():
    return CrossEntropyLoss()(ty(5), ty(dtype="int64"))


def t_ce_bad_reduction():
    return CrossEntropyLoss(reduction="bad")(ty(3, 5), ty(3, dtype="int64"))


def t_sgd():
    x = v("x", 3, 3)
    return SGD(0.01).init(x).get_function()


def t_sgd_list():
    return SGD(0.01).init([v("x", 3, 3), v("y", 2)]).get_function()


def t_sgd_complex():
    return SGD(0.01, 0.02).init([v("x", 3, 3), v("y", 2)]).get_function()


def t_sgd_float64():
    return SGD(0.01, 0.02).init([v("x", 3, 3, dtype="float64")]).get_function()


def t_msgd():
    return MomentumSGD(0.01, 0.9).init(v("x", 3, 3)).get_function()


def t_msgd_complex():
    return MomentumSGD(0.01, 0.9, 0.85, 0.02, False).init([v("x", 3, 3), v("y", 2)]).get_function()


def t_msgd_nesterov():
    return MomentumSGD(0.01, 0.9, 0.85, 0.02, True).init([v("x", 3, 3), v("y", 2)]).get_function()


def t_msgd_nesterov64():
    return MomentumSGD(0.01, 0.9, 0.85, 0.02, nesterov=True).init([v("x", 3, 3, dtype="float64")]).get_function()


def t_dtype_mixed():
    return SGD(0.1).init([v("x", 3), v("y", 3, dtype="float64")]).get_function()


def t_int_refused():
    return SGD(0.1).init([v("x", 3, dtype="int64")]).get_function()


def t_unknown_shape_refused():
    return SGD(0.1).init([relax.Var("x", relax.TensorType(dtype="float32"))]).get_function()


def t_twice_refused():
    x = v("x", 3)
    return SGD(0.1).init([x, x]).get_function()


def t_empty():
    return SGD(0.1).init([]).get_function()


def t_get_function_before_init():
    return SGD(0.1).get_function()


def t_init_twice():
    s = SGD(0.1).init([v("x", 3)])
    return s.init([v("x", 3)]).get_function()


def t_attrs_sgd():
    s = MomentumSGD(0.01, 0.9, 0.1, 0.2, True).init(v("x", 3))
    return [
        s.lr,
        s.momentum,
        s.dampening,
        s.weight_decay,
        s.nesterov,
        s.name,
        s.dtype,
        [p.name_hint if hasattr(p, "name_hint") else p.name for p in s.param_list],
    ]


def t_append():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                out = R.add(x, x)
                R.output(out)
            return out

    @R.function
    def loss(predictions: R.Tensor((2, 4), "float32"), labels: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            lv = R.subtract(predictions, labels)
            gv = R.sum(lv)
            R.output(gv)
        return gv

    return AppendLoss("main", loss)(Module)


def t_append_name():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            R.func_attr({"my": 1})
            with R.dataflow():
                out = R.add(x, x)
                o2 = R.exp(out)
                R.output(out, o2)
            return (out, o2)

    @R.function
    def loss(a: R.Tensor((2, 4), "float32"), b: R.Tensor((2, 4), "float32"), labels: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            lv = R.subtract(a, labels)
            lv2 = R.multiply(lv, b)
            gv = R.sum(lv2)
            R.output(gv)
        return gv

    return AppendLoss("main", loss, 2, "main1")(Module)


def t_append_extra_output():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                out = R.add(x, x)
                o2 = R.exp(out)
                R.output(out, o2)
            return (out, o2)

    @R.function
    def loss(a: R.Tensor((2, 4), "float32"), labels: R.Tensor((2, 4), "float32")):
        with R.dataflow():
            lv = R.subtract(a, labels)
            gv = R.sum(lv)
            R.output(gv)
        return gv

    return AppendLoss("main", loss, num_backbone_outputs=1)(Module)


def t_append_wrong():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                out = R.add(x, x)
                R.output(out)
            return out

    @R.function
    def loss(a: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            gv = R.sum(a)
            R.output(gv)
        return gv

    return AppendLoss("main", loss)(Module)


def backbone():
    @I.ir_module
    class MLP:
        I.module_attrs({"param_num": 2, "state_num": 0})

        @R.function
        def backbone(x: R.Tensor((4, 10), "float32"), w: R.Tensor((10, 5), "float32"), b: R.Tensor((5,), "float32")):
            with R.dataflow():
                lv0 = R.matmul(x, w)
                out = R.add(lv0, b)
                R.output(out)
            return out

    return MLP


def t_setup():
    setup = SetupTrainer(MSELoss(reduction="sum"), SGD(0.1), [ty(4, 5), ty(4, 5)], legalize=False)
    return setup(backbone()).without_attr("optim_state")


def t_setup_attrs():
    setup = SetupTrainer(MSELoss(reduction="sum"), SGD(0.1), [ty(4, 5), ty(4, 5)], legalize=False)
    m = setup(backbone())
    return {k: int(m.attrs[k]) for k in ["input_num", "param_num", "state_num"]}


def t_setup_no_attr():
    setup = SetupTrainer(MSELoss(reduction="sum"), SGD(0.1), [ty(4, 5), ty(4, 5)], legalize=False)
    return setup(backbone().without_attr("param_num"))


def t_setup_no_backbone():
    @I.ir_module
    class M:
        I.module_attrs({"param_num": 1, "state_num": 0})

        @R.function
        def main(x: R.Tensor((4, 10), "float32")):
            with R.dataflow():
                out = R.add(x, x)
                R.output(out)
            return out

    return SetupTrainer(MSELoss(reduction="sum"), SGD(0.1), [ty(4, 10), ty(4, 10)], legalize=False)(M)

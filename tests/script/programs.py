"""Programs that the documents of behaviour hold, written with this library's imports."""

from regraft.script import ir as I
from regraft.script import relax as R


def _main():
    @R.function
    def main(x: R.Tensor((16, 16), "float32")) -> R.Tensor((16, 16), "float32"):
        with R.dataflow():
            x2 = R.add(x, x)
            x4 = R.add(x2, x2)
            R.output(x4)
        return x4

    return main


doubled_twice = _main()


@R.function
def attention(
    Q: R.Tensor((2, 4096, 8, 40), "float32"),
    K: R.Tensor((2, 4096, 8, 40), "float32"),
    V: R.Tensor((2, 4096, 8, 40), "float32"),
) -> R.Tensor((2, 4096, 8, 40), "float32"):
    with R.dataflow():
        lv58 = R.permute_dims(Q, axes=[0, 2, 1, 3])
        lv59 = R.reshape(lv58, R.shape([16, 4096, 40]))

        lv61 = R.permute_dims(K, axes=[0, 2, 1, 3])
        lv62 = R.reshape(lv61, R.shape([16, 4096, 40]))

        lv64 = R.permute_dims(V, axes=[0, 2, 1, 3])
        lv65 = R.reshape(lv64, R.shape([16, 4096, 40]))

        lv62_transposed = R.permute_dims(lv62, axes=[0, 2, 1])
        lv3_1 = R.matmul(lv59, lv62_transposed)
        lv68 = R.multiply(lv3_1, R.const(0.15811388194561005, "float32"))
        lv69 = R.nn.softmax(lv68, axis=-1)
        lv_3 = R.matmul(lv69, lv65)

        lv71 = R.reshape(lv_3, R.shape([2, 8, 4096, 40]))
        lv72 = R.permute_dims(lv71, axes=[0, 2, 1, 3])
        R.output(lv72)

    return lv72


@I.ir_module
class gradient_before:
    @R.function
    def main(x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")):
        with R.dataflow():
            lv1 = R.permute_dims(x)
            lv2 = R.permute_dims(y)
            lv3 = R.matmul(lv1, lv2, out_dtype="float32")
            gv = R.sum(lv3)
            R.output(gv)
        return gv


# fmt: off
@I.ir_module
class gradient_adjoint:
    @R.function
    def main_adjoint(x: R.Tensor((3, 3), dtype="float32"), y: R.Tensor((3, 3), dtype="float32")) -> R.Tuple(R.Tensor((), dtype="float32"), R.Tuple(R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32"))):  # noqa: E501
        with R.dataflow():
            lv1: R.Tensor((3, 3), dtype="float32") = R.permute_dims(x, axes=None)
            lv2: R.Tensor((3, 3), dtype="float32") = R.permute_dims(y, axes=None)
            lv3: R.Tensor((3, 3), dtype="float32") = R.matmul(lv1, lv2, out_dtype="float32")
            gv: R.Tensor((), dtype="float32") = R.sum(lv3, axis=None, keepdims=False)
            gv_adjoint: R.Tensor((), dtype="float32") = R.ones(R.shape([]), dtype="float32")
            lv3_adjoint: R.Tensor((3, 3), dtype="float32") = R.broadcast_to(gv_adjoint, R.shape([3, 3]))
            lv: R.Tensor((3, 3), dtype="float32") = R.permute_dims(lv3_adjoint, axes=[1, 0])
            lv1_1: R.Tensor((3, 3), dtype="float32") = R.permute_dims(x, axes=[1, 0])
            y_adjoint: R.Tensor((3, 3), dtype="float32") = R.matmul(lv, lv1_1, out_dtype="void")
            lv2_1: R.Tensor((3, 3), dtype="float32") = R.permute_dims(y, axes=[1, 0])
            lv3_1: R.Tensor((3, 3), dtype="float32") = R.permute_dims(lv3_adjoint, axes=[1, 0])
            x_adjoint: R.Tensor((3, 3), dtype="float32") = R.matmul(lv2_1, lv3_1, out_dtype="void")
            x_adjoint_out: R.Tensor((3, 3), dtype="float32") = x_adjoint
            y_adjoint_out: R.Tensor((3, 3), dtype="float32") = y_adjoint
            R.output(gv, x_adjoint_out, y_adjoint_out)
        return (gv, (x_adjoint_out, y_adjoint_out))
    @R.function
    def main(x: R.Tensor((3, 3), dtype="float32"), y: R.Tensor((3, 3), dtype="float32")) -> R.Tensor((), dtype="float32"):  # noqa: E501
        with R.dataflow():
            lv1: R.Tensor((3, 3), dtype="float32") = R.permute_dims(x, axes=None)
            lv2: R.Tensor((3, 3), dtype="float32") = R.permute_dims(y, axes=None)
            lv3: R.Tensor((3, 3), dtype="float32") = R.matmul(lv1, lv2, out_dtype="float32")
            gv: R.Tensor((), dtype="float32") = R.sum(lv3, axis=None, keepdims=False)
            R.output(gv)
        return gv
# fmt: on

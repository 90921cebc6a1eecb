"""Checkpoints of tests: what a builder emits, and the gradient of it."""

from tvm import relax
from tvm.relax.testing import nn, transform
from tvm.relax.testing.nn import checkpoint, emit_checkpoint, emit_checkpoint_sequential
from tvm.script import relax as R


def _sequential(segments, last=False, count=4):
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3, 3), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            functions = [lambda v: v + v] * count
            lv = emit_checkpoint_sequential(functions, segments, x, checkpoint_last=last)
            out = bb.emit_output(relax.op.sum(lv))
        bb.emit_func_output(out)
    return bb.get()


def t_checkpoint_of_a_tuple():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3, 3), "float32"))
    y = relax.Var("y", R.Tensor((3, 3), "float32"))
    z = relax.Var("z", R.Tensor((3, 3), "float32"))

    def func(x, y, z, w):
        return x * y, z + w

    with bb.function("main", [x, y, z]):
        with bb.dataflow():
            lv0 = bb.emit(x * y)
            lv1, lv2 = checkpoint(func, lv0, y, lv0, w=z)
            lv3 = bb.emit(lv1 * lv2)
            out = bb.emit_output(relax.op.sum(lv3))
        bb.emit_func_output(out)
    return bb.get()


def t_emitted_checkpoint():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3, 3), "float32"))
    y = relax.Var("y", R.Tensor((3, 3), "float32"))

    def func(x, y, w):
        return x * y, y + w

    with bb.function("main", [x, y]):
        with bb.dataflow():
            lv0 = bb.emit(x * y)
            lv1, lv2 = emit_checkpoint(func, lv0, y, w=x)
            out = bb.emit_output(relax.op.sum(bb.emit(lv1 * lv2)))
        bb.emit_func_output(out)
    return relax.transform.Gradient("main")(bb.get())


def t_emitted_checkpoint_of_one_value():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3, 3), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            lv = emit_checkpoint(lambda v: relax.op.sin(v), x)
            out = bb.emit_output(relax.op.sum(lv))
        bb.emit_func_output(out)
    return bb.get()


def t_two_segments():
    return _sequential(2)


def t_gradient_of_two_segments():
    return relax.transform.Gradient("main")(_sequential(2))


def t_three_segments_of_four():
    return _sequential(3)


def t_the_last_segment_too():
    return relax.transform.Gradient("main")(_sequential(2, True))


def t_segments_by_their_starts():
    return _sequential([0, 1, 4]), _sequential([0, 3])


def t_more_segments_than_functions():
    return _sequential([0, 1, 2, 3, 4])


def t_placeholders_and_parameters():
    x = nn.Placeholder((2, 3), "int32", "x")
    w = nn.Parameter([3], name="w")
    found = [str(v.name) + str(v.ty) for v in (x, w, nn.Placeholder((2,)), nn.Parameter(()))]
    bb = relax.BlockBuilder()
    with bb.function("main"):
        a, b = nn.Placeholder((2,), name="a"), nn.Placeholder((2,), name="a")
        bb.emit_func_output(bb.emit(relax.op.add(a, b)), [a, b])
    return found, bb.get(), isinstance(w, relax.Var)


def t_a_placeholder_of_a_shape():
    nn.Placeholder(relax.ShapeExpr([2]))


def t_zeros_for_parameters():
    bb = relax.BlockBuilder()
    with bb.function("main"):
        x, w = nn.Placeholder((2, 3)), nn.Parameter((3,), name="scale")
        bb.emit_func_output(bb.emit(relax.op.multiply(x, w)), [x, w])
    return bb.get(), nn.init_params(bb.get())


def t_parameters_of_unknown_sizes():
    x = relax.Var("w", R.Tensor(ndim=2, dtype="float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(x)
    return nn.init_params(bb.get())


def t_a_pass_that_changes_nothing():
    empty = transform.ApplyEmptyCppMutator()
    return empty(_sequential(2))

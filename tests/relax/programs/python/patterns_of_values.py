import numpy as np
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from tvm.relax.dpl import *


@I.ir_module
class M:
    @R.function
    def main(
        x: R.Tensor((8, 8), "float32"),
        w0: R.Tensor((8, 8), "float32"),
        w1: R.Tensor((8, 8), "float32"),
        w2: R.Tensor((8, 8), "float32"),
    ):
        with R.dataflow():
            a = R.matmul(x, w0)
            b = R.matmul(x, w1)
            c = R.matmul(x, w2)
            d = R.add(a, b)
            e = R.multiply(d, c)
            R.output(e)
        return e


def t_rewrite_call_simple():
    x, y = wildcard(), wildcard()
    p = is_op("relax.add")(x, y)

    def rw(expr, m):
        return R.subtract(m[x], m[y])

    return rewrite_call(p, rw, M["main"])


def t_rewrite_call_attr():
    @R.function(private=True)
    def main(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.permute_dims(x, [1, 0])
            b = R.permute_dims(a, [1, 0])
            c = R.permute_dims(b, [0, 1])
            R.output(c)
        return c

    x = wildcard()
    p = is_op("relax.permute_dims")(x)

    def rw(expr, m):
        if list(expr.attrs.axes) == [0, 1]:
            return m[x]
        return expr

    return rewrite_call(p, rw, main)


def t_rewrite_call_repeat():
    @R.function(private=True)
    def main(x: R.Tensor((16,), "float32"), y: R.Tensor((16,), "float32")):
        with R.dataflow():
            a = R.add(x, x)
            b = R.add(a, a)
            c = R.add(b, y)
            R.output(c)
        return c

    x = wildcard()
    p = is_op("relax.add")(x, x)

    def rw(expr, m):
        return R.multiply(m[x], R.const(2.0, "float32"))

    return rewrite_call(p, rw, main)


def t_rewrite_multiple_blocks():
    @R.function(private=True)
    def main(x: R.Tensor((16,), "float32")):
        with R.dataflow():
            a = R.exp(R.log(x))
            R.output(a)
        b = R.exp(R.log(a))
        with R.dataflow():
            c = R.exp(R.log(b))
            R.output(c)
        return c

    x = wildcard()
    p = is_op("relax.exp")(is_op("relax.log")(x))
    return rewrite_call(p, lambda e, m: m[x], main)


def t_rewrite_in_if():
    @R.function(private=True)
    def main(c: R.Tensor((), "bool"), x: R.Tensor((16,), "float32")):
        if c:
            a = R.add(x, x)
            b = R.exp(a)
        else:
            b = R.add(x, x)
        d = R.add(b, b)
        return d

    x = wildcard()
    p = is_op("relax.add")(x, x)
    return rewrite_call(p, lambda e, m: R.multiply(m[x], R.const(2, "float32")), main)


def t_rewrite_nested():
    @R.function(private=True)
    def main(x: R.Tensor((4, 4), "float32"), y: R.Tensor((4, 4), "float32")):
        a = R.nn.relu(R.add(R.matmul(x, y), y))
        return a

    x, y, z = wildcard(), wildcard(), wildcard()
    p = is_op("relax.nn.relu")(is_op("relax.add")(is_op("relax.matmul")(x, y), z))
    return rewrite_call(p, lambda e, m: R.call_dps_packed("mmr", (m[x], m[y], m[z]), out_ty=e.ty), main)


def t_rewrite_tuple():
    @R.function(private=True)
    def main(x: R.Tensor((4, 4), "float32")):
        s = R.split(x, 2)
        a = s[0]
        b = s[1]
        c = R.concat([a, b])
        return c

    x = wildcard()
    s = is_op("relax.split")(x)
    p = is_op("relax.concat")(is_tuple([is_tuple_get_item(s, 0), is_tuple_get_item(s, 1)]))
    return rewrite_call(p, lambda e, m: m[x], main)


def t_rewrite_dataflow_reshape():
    @R.function(private=True)
    def main(x: R.Tensor((3, 16, 3), "float32")):
        a = R.reshape(x, (9, 16))
        b = R.reshape(a, (3, 48))
        return b

    x = wildcard()
    s1, s2 = wildcard(), wildcard()
    p = is_op("relax.reshape")(is_op("relax.reshape")(x, s1), s2)
    return rewrite_call(p, lambda e, m: R.reshape(m[x], m[s2]), main)


def t_bindings_qkv():
    with PatternContext() as ctx:
        inp = wildcard()
        w0, w1, w2 = wildcard(), wildcard(), wildcard()
        m0 = is_op("relax.matmul")(inp, w0)
        m1 = is_op("relax.matmul")(inp, w1)
        m2 = is_op("relax.matmul")(inp, w2)

    def rw(m, bindings):
        w = R.concat([m[w0], m[w1], m[w2]], axis=1)
        mm = R.matmul(m[inp], w)
        return {
            m[m0]: R.strided_slice(mm, axes=[1], begin=[0], end=[8]),
            m[m1]: R.strided_slice(mm, axes=[1], begin=[8], end=[16]),
            m[m2]: R.strided_slice(mm, axes=[1], begin=[16], end=[24]),
        }

    return rewrite_bindings(ctx, rw, M["main"])


def t_match_values():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    y = relax.Var("y", R.Tensor((2, 3), "float32"))
    add = relax.op.add(x, y)
    return [
        is_op("relax.add")(is_var("x"), is_var("y")).match(add),
        is_op("relax.add")(is_var("y"), is_var("x")).match(add),
        is_op("relax.add")(is_var("z"), wildcard()).match(add),
        wildcard().has_dtype("float32").match(x),
        wildcard().has_dtype("float16").match(x),
        wildcard().has_shape((2, 3)).match(x),
        wildcard().has_shape((3, 2)).match(x),
        wildcard().has_ty(R.Tensor((2, 3), "float32")).match(x),
        wildcard().has_ty(R.Tensor(ndim=2)).match(x),
        (is_var("x") | is_var("y")).match(y),
        (~is_var("x")).match(y),
        (is_var() & wildcard().has_dtype("float32")).match(y),
        is_op("relax.add")(wildcard(), wildcard()).match(relax.op.subtract(x, y)),
        is_tuple([is_var("x"), is_var("y")]).match(relax.Tuple([x, y])),
        is_tuple([is_var("y"), is_var("x")], unordered=True).match(relax.Tuple([x, y])),
        is_tuple_get_item(wildcard(), 1).match(relax.TupleGetItem(relax.Tuple([x, y]), 1)),
        is_tuple_get_item(wildcard(), 0).match(relax.TupleGetItem(relax.Tuple([x, y]), 1)),
        is_shape([2, 3]).match(relax.ShapeExpr([2, 3])),
        is_shape([2, 4]).match(relax.ShapeExpr([2, 3])),
        is_const().match(relax.const(2)),
        is_gv("f").match(relax.GlobalVar("f")),
        is_gv("g").match(relax.GlobalVar("f")),
        ExternFuncPattern("f").match(relax.ExternFunc("f")),
    ]


def t_match_with_bindings():
    fn = M["main"]
    bs = fn.body.blocks[0].bindings
    v2b = relax.analysis.get_var2val(fn)
    p = is_op("relax.multiply")(
        is_op("relax.add")(is_op("relax.matmul")(wildcard(), wildcard()), wildcard()), wildcard()
    )
    return p.match(bs[4].value, v2b), p.match(bs[4].value), p.match(bs[4].var, v2b), p.match(bs[3].var, v2b)


def t_extract():
    fn = M["main"]
    bs = fn.body.blocks[0].bindings
    v2b = relax.analysis.get_var2val(fn)
    mm = is_op("relax.matmul")(wildcard(), wildcard())
    ad = is_op("relax.add")(mm, wildcard())
    got = ad.extract_matched_expr(bs[3].value, v2b)
    if got is None:
        return None
    return len(got), got[mm].script(), got[ad].script()


def t_attr():
    x = relax.Var("x", R.Tensor((1, 3, 8, 8), "float32"))
    w = relax.Var("w", R.Tensor((3, 3, 3, 3), "float32"))
    conv = relax.op.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1))
    c = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    return [
        c.has_attr({"strides": [2, 2]}).match(conv),
        c.has_attr({"strides": [1, 1]}).match(conv),
        c.has_attr({"groups": 1, "data_layout": "NCHW"}).match(conv),
        c.has_attr({"padding": [1, 1, 1, 1]}).match(conv),
    ]


def t_same_shape():
    @R.function(private=True)
    def f(a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32"), c: R.Tensor((3,), "float32")):
        with R.dataflow():
            x = R.add(a, c)
            y = R.multiply(x, b)
            R.output(y)
        return y

    out = []
    with PatternContext() as ctx:
        l, r = wildcard(), wildcard()
        p = is_op("relax.add")(l, r)
        r.same_shape_as(l)
        out.append(ctx.match_dfb(f.body.blocks[0]) is None)
    with PatternContext() as ctx:
        l, r = wildcard(), wildcard()
        p = is_op("relax.multiply")(l, r)
        r.same_shape_as(l)
        out.append(ctx.match_dfb(f.body.blocks[0]) is None)
    return out


def t_rewriter_or_compose():
    x, y = wildcard(), wildcard()
    p1 = PatternMatchingRewriter.from_pattern(is_op("relax.add")(x, y), lambda e, m: R.subtract(m[x], m[y]))
    p2 = PatternMatchingRewriter.from_pattern(is_op("relax.multiply")(x, y), lambda e, m: R.divide(m[x], m[y]))
    return (p1 | p2)(M["main"])


def t_rewriter_on_module():
    x, y = wildcard(), wildcard()
    p1 = PatternMatchingRewriter.from_pattern(is_op("relax.add")(x, y), lambda e, m: R.subtract(m[x], m[y]))
    return p1(M)


def t_shapes_of_sizes_of_the_program():
    n, m = T.Var("n", "int64"), T.Var("m", "int64")
    x = relax.Var("x", R.Tensor([n, m, n + m], "float32"))
    shapes = [n, m, n + m], [n, m, m + n], [m, n, n + m], [n, n, n + m]
    return [wildcard().has_shape(shape).match(x) for shape in shapes]


def t_operands_without_a_type():
    x, y = relax.Var("x"), relax.Var("y")
    p = is_op("relax.add")(wildcard(), wildcard())
    return [p.match(relax.op.add(x, y)), p.match(relax.op.multiply(x, y))]


def t_a_call_without_types_is_bound():
    builder = relax.BlockBuilder()
    with builder.function("main", [relax.Var("p", R.Tensor((2,), "float32"))]):
        builder.emit(relax.op.add(relax.Var("x"), relax.Var("y")))


def t_a_tuple_for_a_bare_tensor():
    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor:
        with R.dataflow():
            a = R.exp(x)
            out = (a, x)
            R.output(out)
        return out

    return len(main.body.blocks[0].bindings)

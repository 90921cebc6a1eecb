from tvm import relax
from tvm.relax.dpl import (
    wildcard,
    is_op,
    is_const,
    is_var,
    is_tuple,
    is_tuple_get_item,
    is_call_dps_packed,
    PatternContext,
    rewrite_call,
    rewrite_bindings,
)
from tvm.script import relax as R
from tvm.script import ir as I


x_ = relax.Var("x", R.Tensor((2, 3), "float32"))


@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        with R.dataflow():
            a = R.add(x, w)
            b = R.nn.relu(a)
            c = R.matmul(b, w)
            R.output(c)
        return c

    @R.function
    def ext(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Object:
        with R.dataflow():
            a = R.call_dps_packed("my_mm", (x, w), out_ty=R.Tensor((4, 4), "float32"))
            b = R.call_dps_packed("my_relu", (a,), out_ty=R.Tensor((4, 4), "float32"))
            c = R.call_dps_packed("my_relu", (b,), out_ty=R.Tensor((4, 4), "float32"))
            R.output(c)
        return c


main = M["main"]
bind = main.body.blocks[0].bindings
ext = M["ext"].body.blocks[0]


def t_unordered():
    t = is_tuple([is_const(), is_var("x")], unordered=True)
    return (
        isinstance(t, UnorderedTuplePattern),
        len(t),
        t.match(relax.Tuple([relax.const(1.0), x_])),
        t.match(relax.Tuple([x_, relax.const(1.0)])),
        t.match(relax.Tuple([x_, x_])),
        t.match(relax.Tuple([x_])),
        is_tuple([is_const(), is_const(), is_op("relax.add")(wildcard(), wildcard())], unordered=True).match(
            relax.Tuple([relax.const(1), relax.op.add(x_, x_), relax.const(2)])
        ),
    )


def t_call_attr_of_conv():
    x = relax.Var("x", R.Tensor((1, 3, 8, 8), "float32"))
    w = relax.Var("w", R.Tensor((8, 3, 3, 3), "float32"))
    conv = relax.op.nn.conv2d(x, w, strides=(2, 2), data_layout="NCHW")
    is_conv = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    return (
        is_conv.has_attr({"data_layout": "NCHW"}).match(conv),
        is_conv.has_attr({"data_layout": "NHWC"}).match(conv),
        is_conv.has_attr({"strides": [2, 2]}).match(conv),
        is_conv.has_attr({"strides": [1, 2]}).match(conv),
        is_conv.has_attr({"groups": 1}).match(conv),
        is_conv.has_attr({"groups": 2, "data_layout": "NCHW"}).match(conv),
    )


def t_extract_without_bindings():
    x = wildcard()
    p = is_op("relax.add")(x, wildcard())
    m = p.extract_matched_expr(relax.op.add(x_, x_))
    return m[x].same_as(x_), p.extract_matched_expr(relax.op.multiply(x_, x_)) is None


@I.ir_module
class Diamond:
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Object:
        with R.dataflow():
            a = R.call_dps_packed("A", (x,), out_ty=R.Tensor((4, 4), "float32"))
            b = R.call_dps_packed("B", (a,), out_ty=R.Tensor((4, 4), "float32"))
            c = R.call_dps_packed("C", (a,), out_ty=R.Tensor((4, 4), "float32"))
            d = R.call_dps_packed("D", (b, c), out_ty=R.Tensor((4, 4), "float32"))
            R.output(d)
        return d


dia = Diamond["main"].body.blocks[0]


def t_diamond():
    with PatternContext() as ctx:
        a, b, c, d = (is_call_dps_packed(s) for s in "ABCD")
        a ^ b
        a ^ c
        b >> d
        c >> d
        m = ctx.match_dfb(dia)
        return [m[p].name for p in (a, b, c, d)]


def t_diamond_only():
    with PatternContext() as ctx:
        a, b, c, d = (is_call_dps_packed(s) for s in "ABCD")
        a >> b
        a ^ c
        b >> d
        c >> d
        return bool(ctx.match_dfb(dia))


def t_diamond_fork():
    with PatternContext() as ctx:
        a = is_call_dps_packed("A")
        b = is_call_dps_packed("B")
        c = is_call_dps_packed("C")
        d = is_call_dps_packed("D")
        a.fork_to(b, c)
        b >> d
        c >> d
        return bool(ctx.match_dfb(dia))


def t_diamond_indexes():
    out = []
    for i, j in ((0, 1), (1, 0)):
        with PatternContext() as ctx:
            a, b, c, d = (is_call_dps_packed(s) for s in "ABCD")
            a ^ b
            a ^ c
            b.only_used_by(d, i)
            c.only_used_by(d, j)
            out.append(bool(ctx.match_dfb(dia)))
    return out


def t_nested_context():
    with PatternContext() as outer:
        a = is_call_dps_packed("A")
        b = is_call_dps_packed("B")
        a ^ b
        with PatternContext(incremental=True) as inner:
            c = is_call_dps_packed("C")
            d = is_call_dps_packed("D")
            a ^ c
            c >> d
            yes = bool(inner.match_dfb(dia))
            with PatternContext(incremental=True) as inner2:
                c ^ is_call_dps_packed("Z")
                no = bool(inner2.match_dfb(dia))
        only = bool(outer.match_dfb(dia))
    return yes, no, only


@I.ir_module
class Twice:
    @R.function
    def main(
        x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 4), "float32")
    ) -> R.Object:
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.matmul(x, v)
            c = R.add(a, b)
            d = R.multiply(c, c)
            R.output(d)
        return d


tw = Twice["main"].body.blocks[0]


def t_shared_operand():
    with PatternContext() as ctx:
        x = wildcard()
        p = is_op("relax.matmul")(x, wildcard())
        q = is_op("relax.matmul")(x, wildcard())
        s = is_op("relax.add")(p, q)
        m = ctx.match_dfb(tw)
        return m[x].name, m[p].name, m[q].name, m[s].name


def t_three_matmuls_none():
    with PatternContext() as ctx:
        x, w1, w2, w3 = (wildcard() for _ in range(4))
        for w in (w1, w2, w3):
            is_op("relax.matmul")(x, w)
        return bool(ctx.match_dfb(tw))


def t_same_shape():
    with PatternContext() as ctx:
        x, w1, w2 = wildcard(), wildcard(), wildcard()
        is_op("relax.matmul")(x, w1)
        is_op("relax.matmul")(x, w2)
        w1.same_shape_as(w2)
        return bool(ctx.match_dfb(tw))


def t_square():
    with PatternContext() as ctx:
        a = wildcard()
        s = is_op("relax.multiply")(a, a)
        m = ctx.match_dfb(tw)
        return m[a].name, m[s].name


def t_rewrite_bindings_qkv():
    with PatternContext() as ctx:
        inp = wildcard()
        ws = [wildcard() for _ in range(3)]
        ms = [is_op("relax.matmul")(inp, w) for w in ws]

    def rw(m, bindings):
        i = m[inp]
        w = relax.op.concat([m[x] for x in ws], axis=1)
        mm = relax.op.matmul(i, w)
        n = [m[x].ty.shape[1] for x in ws]
        return {
            m[ms[0]]: relax.op.strided_slice(mm, axes=[1], begin=[0], end=[8]),
            m[ms[1]]: relax.op.strided_slice(mm, axes=[1], begin=[8], end=[16]),
            m[ms[2]]: relax.op.strided_slice(mm, axes=[1], begin=[16], end=[24]),
        }

    @R.function(private=True)
    def before(
        x: R.Tensor((2, 4), "float32"),
        a: R.Tensor((4, 8), "float32"),
        b: R.Tensor((4, 8), "float32"),
        c: R.Tensor((4, 8), "float32"),
    ):
        with R.dataflow():
            p = R.matmul(x, a)
            q = R.matmul(x, b)
            r = R.matmul(x, c)
            R.output(p, q, r)
        return (p, q, r)

    return rewrite_bindings(ctx, rw, before)


def t_rewrite_in_if():
    x = wildcard()
    p = is_op("relax.add")(x, x)

    @R.function(private=True)
    def before(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        if c:
            a = R.add(x, x)
            r = R.add(a, a)
        else:
            b = R.exp(x)
            r = R.add(b, b)
        return r

    return rewrite_call(p, lambda e, m: relax.op.multiply(m[x], relax.const(2.0)), before)


def t_rewrite_split_get_item():
    x = wildcard()
    s = is_op("relax.split")(x)
    a, b = is_tuple_get_item(s, 0), is_tuple_get_item(s, 1)
    p = is_op("relax.add")(a, b)

    @R.function(private=True)
    def before(x: R.Tensor((8,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            t = R.split(x, 2)
            l = t[0]
            r = t[1]
            o = R.add(l, r)
            R.output(o)
        return o

    return rewrite_call(p, lambda e, m: relax.op.call_pure_packed("f", m[x], ty_args=R.Tensor((4,), "float32")), before)


def t_counting_single_crb():
    @R.function
    def f(
        x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((3, 3, 3, 3), "float32"), b: R.Tensor((1, 3, 1, 1), "float32")
    ):
        with R.dataflow():
            c0 = R.nn.conv2d(x, w, padding=(1, 1))
            a0 = R.add(c0, b)
            r0 = R.nn.relu(a0)
            c1 = R.nn.conv2d(r0, w, padding=(1, 1))
            a1 = R.add(c1, b)
            r1 = R.nn.relu(a1)
            R.output(r1)
        return r1

    p = make_fused_bias_activation_pattern("relax.nn.conv2d", with_bias=True, activation="relax.nn.relu")
    v2v = relax.analysis.get_var2val(f)
    return [bool(p.match(b.value, v2v)) for b in f.body.blocks[0].bindings]


def t_blocks_that_become_one():
    x = wildcard()

    @R.function(private=True)
    def before(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        with R.dataflow():
            z = R.add(y, y)
            R.output(z)
        return z

    return rewrite_call(is_op("relax.add")(x, x), lambda e, m: relax.op.multiply(m[x], relax.const(2.0)), before)

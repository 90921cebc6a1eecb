import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax.analysis import get_var2val
from tvm.relax.dpl import *
from tvm.relax import dpl
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


@I.ir_module
class Net:
    @R.function
    def main(
        x: R.Tensor((2, 8), "float32"),
        w0: R.Tensor((8, 8), "float32"),
        b0: R.Tensor((8,), "float32"),
        w1: R.Tensor((8, 4), "float32"),
    ):
        with R.dataflow():
            lv0 = R.matmul(x, w0)
            lv1 = R.add(lv0, b0)
            lv2 = R.nn.relu(lv1)
            lv3 = R.matmul(lv2, w1)
            lv4 = R.nn.softmax(lv3, axis=-1)
            t = (lv3, lv4)
            u = t[0]
            gv = R.add(u, lv4)
            R.output(gv)
        return gv


main = Net["main"]

block = main.body.blocks[0]

bs = block.bindings

v2v = get_var2val(main)


def t_expr_pattern():
    ep = is_expr(main.params[0])
    return [isinstance(ep, ExprPattern), ep.match(main.params[0]), ep.match(main.params[1])]


def t_var_pattern():
    v = is_var("x")
    return [
        isinstance(v, VarPattern),
        v.name,
        v.match(relax.Var("x")),
        is_var().match(relax.Var("x")),
        v.match(relax.Var("y")),
        is_dfv().match(relax.DataflowVar("a")),
        is_dfv("a").match(relax.DataflowVar("b")),
        is_gv("x").match(relax.GlobalVar("x")),
        is_gv().match(relax.GlobalVar("x")),
        is_gv("y").match(relax.GlobalVar("x")),
    ]


def t_const():
    c = relax.const(np.ones((2, 2), "float32"))
    return [is_const().match(c), is_const().match(relax.Var("x")), isinstance(is_const(), ConstantPattern)]


def t_wildcard():
    w = wildcard()
    return [isinstance(w, WildcardPattern), w.match(main.params[0]), w.match(bs[0].value), w.match(relax.Tuple([]))]


def t_call():
    w1, w2 = wildcard(), wildcard()
    c = is_op("relax.add")(w1, w2)
    return [
        isinstance(c, CallPattern),
        isinstance(c.args[0], WildcardPattern),
        len(c.args),
        isinstance(c.op, ExprPattern),
        isinstance(c.op.expr, tvm.ir.Op),
        str(c.op.expr.name),
        c.match(bs[1].value),
        c.match(bs[0].value),
    ]


def t_function_pattern():
    f = FunctionPattern([wildcard(), wildcard()], is_op("relax.add")(wildcard(), wildcard()))
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("y", R.Tensor((2,), "float32"))
    g = relax.Function([x, y], relax.op.add(x, y), ret_ty=R.Tensor((2,), "float32"))
    return [isinstance(f, FunctionPattern), len(f.params), f.match(g)]


def t_tuple():
    a, b = wildcard(), is_op("relax.nn.relu")(wildcard())
    t = is_tuple([a, b])
    return [
        isinstance(t, TuplePattern),
        len(t.fields),
        t.match(relax.Tuple([bs[0].value, bs[2].value])),
        t.match(relax.Tuple([bs[2].value, bs[0].value])),
        is_tuple([b, a], unordered=True).match(relax.Tuple([bs[0].value, bs[2].value])),
        isinstance(is_tuple([a], unordered=True), UnorderedTuplePattern),
    ]


def t_get_item():
    t = is_tuple([is_var("a"), is_var("b")])
    g = is_tuple_get_item(t, 0)
    x = relax.Tuple([relax.Var("a"), relax.Var("b")])
    return [
        isinstance(g, TupleGetItemPattern),
        g.index,
        g.match(relax.TupleGetItem(x, 0)),
        g.match(relax.TupleGetItem(x, 1)),
        is_tuple_get_item(t).match(relax.TupleGetItem(x, 1)),
    ]


def t_or_and_not():
    add = is_op("relax.add")(wildcard(), wildcard())
    mm = is_op("relax.matmul")(wildcard(), wildcard())
    o = add | mm
    a = wildcard() & add
    n = ~add
    return [
        isinstance(o, OrPattern),
        isinstance(a, AndPattern),
        isinstance(n, NotPattern),
        [p.match(b.value) for p in (o, a, n) for b in bs[:4]],
    ]


def t_type():
    p = wildcard().has_ty(R.Tensor((2, 8), "float32")) if hasattr(wildcard(), "has_ty") else None
    return [isinstance(p, TypePattern), p.match(bs[0].value), p.match(bs[3].value)]


def t_dtype_shape():
    d = wildcard().has_dtype("float32")
    s = wildcard().has_shape((2, 8))
    s2 = wildcard().has_shape((2, 4))
    return [
        isinstance(d, DataTypePattern),
        isinstance(s, ShapePattern),
        d.match(bs[0].value),
        wildcard().has_dtype("float16").match(bs[0].value),
        s.match(bs[0].value),
        s2.match(bs[0].value),
        s2.match(bs[3].value),
    ]


def t_shape_expr():
    n = tvm.tirx.Var("n", "int64")
    return [
        is_shape([2, 3]).match(relax.ShapeExpr([2, 3])),
        is_shape([2, n]).match(relax.ShapeExpr([2, n])),
        is_shape([2, 4]).match(relax.ShapeExpr([2, 3])),
    ]


def t_extern():
    p = ExternFuncPattern("f")
    return [p.match(relax.ExternFunc("f")), p.match(relax.ExternFunc("g")), p.global_symbol]


def t_attr():
    s = is_op("relax.nn.softmax")(wildcard())
    return [
        s.has_attr({"axis": -1}).match(bs[4].value),
        s.has_attr({"axis": 0}).match(bs[4].value),
        isinstance(s.has_attr({"axis": 0}), AttrPattern),
        s.has_attr({"bogus": 0}).match(bs[4].value),
    ]


def t_v2v():
    p = is_op("relax.nn.relu")(is_op("relax.add")(is_op("relax.matmul")(wildcard(), wildcard()), wildcard()))
    return [
        p.match(bs[2].value),
        p.match(bs[2].value, var2val=v2v),
        p.match(bs[2].var, var2val=v2v),
        p.match(bs[2].var),
    ]


def t_extract():
    w = wildcard()
    mm = is_op("relax.matmul")(wildcard(), w)
    p = is_op("relax.nn.relu")(is_op("relax.add")(mm, wildcard()))
    m = p.extract_matched_expr(bs[2].value, var2val=v2v)
    return [
        m is not None,
        m[w].same_as(main.params[1]),
        str(m[mm].op.name),
        p.extract_matched_expr(bs[3].value, var2val=v2v) is None,
        len(m),
    ]


def t_ctx_seq():
    with PatternContext() as ctx:
        a = is_op("relax.matmul")(varg_default_wildcard=True)
        b = is_op("relax.add")(varg_default_wildcard=True)
        c = is_op("relax.nn.relu")(varg_default_wildcard=True)
        a >> b >> c
        m = ctx.match_dfb(block)
        return [m is not None, m[a].same_as(bs[0].var), m[b].same_as(bs[1].var), m[c].same_as(bs[2].var)]


def t_ctx_fork():
    with PatternContext() as ctx:
        a = is_op("relax.matmul")(varg_default_wildcard=True)
        s = is_op("relax.nn.softmax")(varg_default_wildcard=True)
        t = is_tuple([wildcard(), wildcard()])
        a.fork_to(s, t)
        m = ctx.match_dfb(block)
        return [m is not None, m and m[a].same_as(bs[3].var), m and m[s].same_as(bs[4].var)]


def t_ctx_used_by_not_only():
    with PatternContext() as ctx:
        a = is_op("relax.matmul")(varg_default_wildcard=True)
        s = is_op("relax.nn.softmax")(varg_default_wildcard=True)
        a ^ s
        m1 = ctx.match_dfb(block)
    with PatternContext() as ctx:
        a = is_op("relax.matmul")(varg_default_wildcard=True)
        s = is_op("relax.nn.softmax")(varg_default_wildcard=True)
        a >> s
        m2 = ctx.match_dfb(block)
    return [m1 is not None, m2 is None]


def t_seq_pattern():
    with PatternContext() as ctx:
        a = (
            is_op("relax.matmul")(varg_default_wildcard=True)
            >> is_op("relax.add")(varg_default_wildcard=True)
            >> is_op("relax.nn.relu")(varg_default_wildcard=True)
        )
        assert isinstance(a, PatternSeq)
        return [len(a.patterns), ctx.match_dfb(block) is not None]


def t_dup():
    with PatternContext() as ctx:
        r = is_op("relax.nn.relu")(varg_default_wildcard=True)
        r2 = r.dup()
        return [isinstance(r2, CallPattern), r2 is r, ctx.match_dfb(block) is None]


def t_nested_ctx():
    with PatternContext() as outer:
        a = is_op("relax.matmul")(varg_default_wildcard=True)
        b = is_op("relax.add")(varg_default_wildcard=True)
        a >> b
        with PatternContext(incremental=True) as inner:
            c = is_op("relax.nn.relu")(varg_default_wildcard=True)
            b >> c
            m = inner.match_dfb(block)
        n = outer.match_dfb(block)
    return [m is not None, n is not None, len(m) > len(n)]


def t_bias_act():
    p = make_fused_bias_activation_pattern("relax.matmul", with_bias=True, activation="relax.nn.relu")
    q = make_fused_bias_activation_pattern("relax.matmul", with_bias=False, activation=None)
    return [
        p.match(bs[2].value, var2val=v2v),
        q.match(bs[0].value, var2val=v2v),
        q.match(bs[2].value, var2val=v2v),
        p.match(bs[1].value, var2val=v2v),
    ]


def t_commutative():
    p = is_op("relax.add")(is_op("relax.nn.softmax")(wildcard()), wildcard())
    q = is_op("relax.add")(wildcard(), is_op("relax.nn.softmax")(wildcard()))
    return [p.match(bs[7].value, var2val=v2v), q.match(bs[7].value, var2val=v2v)]


def t_call_op_wild():
    p = wildcard()(wildcard(), wildcard())
    q = is_op("relax.add")
    r = wildcard()(varg_default_wildcard=True) if True else None
    return [p.match(bs[0].value), r.match(bs[0].value), r.match(bs[2].value)]


def rw(pattern, rewriter, f=main):
    return rewrite_call(pattern, rewriter, f)


def t_rw_simple():
    x = wildcard()
    p = is_op("relax.nn.relu")(x)
    return rw(p, lambda e, m: relax.op.nn.gelu(m[x]))


def t_rw_chain():
    x, w, b = wildcard(), wildcard(), wildcard()
    p = is_op("relax.nn.relu")(is_op("relax.add")(is_op("relax.matmul")(x, w), b))
    return rw(p, lambda e, m: relax.op.nn.relu(relax.op.add(m[b], relax.op.matmul(m[x], m[w]))))


def t_rw_none():
    x = wildcard()
    p = is_op("relax.exp")(x)
    return rw(p, lambda e, m: m[x])


def t_rw_keep():
    x, y = wildcard(), wildcard()
    p = is_op("relax.add")(x, y)

    def r(e, m):
        return e if len(e.args[1].ty.shape) == 1 else relax.op.subtract(m[x], m[y])

    return rw(p, r)


def t_rw_or():
    x = wildcard()
    a = is_op("relax.nn.relu")(x)
    b = is_op("relax.nn.softmax")(x)

    def r(e, m):
        return relax.op.exp(m[x]) if m.get(a) is not None else relax.op.abs(m[x])

    return rw(a | b, r)


def t_rw_bindings():
    with PatternContext() as ctx:
        x, w, b = wildcard(), wildcard(), wildcard()
        mm = is_op("relax.matmul")(x, w)
        ad = is_op("relax.add")(mm, b)

    def r(m, bindings):
        return {m[ad]: relax.op.add(m[b], relax.op.matmul(m[x], m[w]))}

    return rewrite_bindings(ctx, r, main)


def t_rw_bindings_qkv():
    @R.function
    def f(
        x: R.Tensor((4, 8), "float32"),
        w0: R.Tensor((8, 8), "float32"),
        w1: R.Tensor((8, 8), "float32"),
        w2: R.Tensor((8, 8), "float32"),
    ):
        with R.dataflow():
            q = R.matmul(x, w0)
            k = R.matmul(x, w1)
            v = R.matmul(x, w2)
            o = R.nn.attention(R.reshape(q, (1, 4, 2, 4)), R.reshape(k, (1, 4, 2, 4)), R.reshape(v, (1, 4, 2, 4)))
            R.output(o)
        return o

    with PatternContext() as ctx:
        i = wildcard()
        a, b, c = wildcard(), wildcard(), wildcard()
        m0, m1, m2 = is_op("relax.matmul")(i, a), is_op("relax.matmul")(i, b), is_op("relax.matmul")(i, c)

    def r(m, _):
        w = relax.op.concat([m[a], m[b], m[c]], axis=1)
        o = relax.op.matmul(m[i], w)
        s = relax.op.split(o, 3, axis=1)
        return {m[m0]: relax.TupleGetItem(s, 0), m[m1]: relax.TupleGetItem(s, 1), m[m2]: relax.TupleGetItem(s, 2)}

    return rewrite_bindings(ctx, r, f)


def t_pmr_from_pattern():
    x = wildcard()
    r = PatternMatchingRewriter.from_pattern(is_op("relax.nn.relu")(x), lambda e, m: relax.op.nn.silu(m[x]))
    return r(main)


def t_pmr_or():
    x = wildcard()
    a = PatternMatchingRewriter.from_pattern(is_op("relax.nn.relu")(x), lambda e, m: relax.op.nn.silu(m[x]))
    b = PatternMatchingRewriter.from_pattern(is_op("relax.nn.softmax")(x), lambda e, m: relax.op.nn.log_softmax(m[x]))
    return (a | b)(Net)

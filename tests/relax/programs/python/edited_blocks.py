"""Blocks that are edited by hand and by patterns, and functions that are inlined, bound and copied."""

import pytest
import tvm
from tvm import relax, tirx
from tvm.relax.dpl import *
from tvm.relax.dpl import PatternMatchingRewriter
from tvm.relax.binding_rewrite import DataflowBlockRewrite
from tvm.relax.analysis import name_to_binding
from tvm.relax.expr import DataflowVar, Var, VarBinding
from tvm.ir import assert_structural_equal
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


@tvm.script.ir_module
class Identity:
    @R.function
    def main(x: R.Tensor((32, 32), "float32")) -> R.Tensor:
        with R.dataflow():
            lv0 = x
            R.output(lv0)
        return lv0


def assert_immutability(rwt, original_dfb, original_root_fn):
    assert rwt.mutated_dfb() != original_dfb
    assert rwt.mutated_root_fn() != original_root_fn
    assert rwt.mutated_root_fn().body.blocks[0] != original_dfb
    assert rwt.mutated_root_fn().body.blocks[0] == rwt.mutated_dfb()


def t_null_construct():
    root_fn = Identity["main"]
    dfb = root_fn.body.blocks[0]
    DataflowBlockRewrite(dfb, root_fn)


def t_simple_add():
    root_fn = Identity["main"]
    dfb = root_fn.body.blocks[0]
    rwt = DataflowBlockRewrite(dfb, root_fn)
    rwt.add(name="tmp", expr=Identity["main"].params[0], is_dfvar=True)
    assert_immutability(rwt, dfb, root_fn)
    assert "tmp" in name_to_binding(rwt.mutated_root_fn())


def t_simple_auto_add_var():
    root_fn = Identity["main"]
    dfb = root_fn.body.blocks[0]
    rwt = DataflowBlockRewrite(dfb, root_fn)
    rwt.add(expr=root_fn.params[0], is_dfvar=False)
    assert_immutability(rwt, dfb, root_fn)
    assert len(rwt.mutated_dfb().bindings) == 2


def t_simple_auto_add_dfvar():
    root_fn = Identity["main"]
    dfb = root_fn.body.blocks[0]
    rwt = DataflowBlockRewrite(dfb, root_fn)
    rwt.add(expr=root_fn.params[0], is_dfvar=True)
    assert len([b for b in rwt.mutated_dfb().bindings if isinstance(b.var, DataflowVar)]) == 1


def t_simple_remove_unused():
    @tvm.script.ir_module
    class IdentityUnused:
        @R.function
        def main(x: R.Tensor((32, 32), "float32")) -> R.Tensor:
            with R.dataflow():
                lv0 = x
                unused = lv0
                R.output(lv0)
            return lv0

    root_fn = IdentityUnused["main"]
    dfb = root_fn.body.blocks[0]
    n2binding = name_to_binding(root_fn)
    rwt = DataflowBlockRewrite(dfb, root_fn)
    rwt.remove_unused(n2binding["unused"][0].var)
    assert "unused" not in name_to_binding(rwt.mutated_root_fn())


def t_remove_unused_undef():
    root_fn = Identity["main"]
    dfb = root_fn.body.blocks[0]
    with pytest.raises(Exception):
        rwt = DataflowBlockRewrite(dfb, root_fn)
        rwt.remove_unused(Var("whatever"))
    rwt = DataflowBlockRewrite(dfb, root_fn)
    rwt.remove_unused(Var("whatever"), allow_undef=True)
    assert root_fn == rwt.mutated_root_fn()


def t_simple_rm_all_unused():
    @tvm.script.ir_module
    class IdentityUnused:
        @R.function
        def main(x: R.Tensor((32, 32), "float32")) -> R.Tensor:
            with R.dataflow():
                lv0 = x
                unused0 = lv0
                unused1 = lv0
                R.output(lv0)
            return lv0

    root_fn = IdentityUnused["main"]
    dfb = root_fn.body.blocks[0]
    rwt = DataflowBlockRewrite(dfb, root_fn)
    rwt.remove_all_unused()
    assert list(name_to_binding(rwt.mutated_root_fn())) == ["lv0"]


def t_rewrite_in_module():
    @tvm.script.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((32, 32), "float32")) -> R.Tensor:
            with R.dataflow():
                lv0 = R.add(x, x)
                lv1 = R.multiply(lv0, x)
                R.output(lv1)
            return lv1

        @R.function
        def other(x: R.Tensor((32, 32), "float32")) -> R.Tensor:
            return x

    root_fn = M["main"]
    dfb = root_fn.body.blocks[0]
    rwt = DataflowBlockRewrite(dfb, root_fn)
    n2b = name_to_binding(root_fn)
    rwt.replace_all_uses(n2b["lv0"][0].var, root_fn.params[0])
    rwt.remove_unused(n2b["lv0"][0].var)
    new = rwt.mutate_irmodule(M)
    return sorted(g.name_hint for g in new.get_global_vars()), new["main"]


def t_add_var_binding():
    root_fn = Identity["main"]
    dfb = root_fn.body.blocks[0]
    rwt = DataflowBlockRewrite(dfb, root_fn)
    v = DataflowVar("n", R.Tensor((32, 32), "float32"))
    rwt.add_binding(VarBinding(v, relax.op.exp(root_fn.params[0])))
    return [b.var.name for b in rwt.mutated_dfb().bindings]


def t_inline_functions_raises():
    @I.ir_module
    class M:
        @R.function
        def main(A: R.Tensor([16], "float32")):
            B = M.sub(A)
            return B

        @R.function(private=True)
        def sub(a: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return R.add(a, a)

    with pytest.raises(Exception):
        M["main"].inline_functions({"sub": 1})
    f = M["main"].inline_functions({"nonsuch": M["sub"]})
    assert_structural_equal(f, M["main"])


def t_inline_symbolic_shapes():
    @I.ir_module
    class M:
        @R.function
        def main(A: R.Tensor(["a", "b"], "float32")):
            B = M.sub(A)
            return B

        @R.function(private=True)
        def sub(x: R.Tensor(["n", "m"], "float32")) -> R.Tensor(["n", "m"], "float32"):
            n, m = T.int64(), T.int64()
            y: R.Tensor([n, m], "float32") = R.add(x, x)
            return y

    return M["main"].inline_functions({"sub": M["sub"]})


def t_bind_symbolic_vars_expr():
    @R.function(private=True)
    def before(A: R.Tensor(["M", "K"]), B: R.Tensor(["K", "N"])) -> R.Tensor(["M", "N"]):
        return R.matmul(A, B)

    a = before.bind_symbolic_vars({"M": 128, "K": 64})
    with pytest.raises(Exception):
        before.bind_symbolic_vars({"Q": 1})
    return a, before.bind_symbolic_vars({})


def t_copy_symbolic():
    from tvm.relax.utils import copy_with_new_vars

    @R.function
    def f(x: R.Tensor(("m",), "float32"), y: R.Tensor(("m",), "float32")):
        with R.dataflow():
            gv = R.add(x, y)
            R.output(gv)
        return gv

    g = copy_with_new_vars(f)
    assert_structural_equal(f, g)
    assert g.params[0] != f.params[0]
    assert g.body.blocks[0].bindings[0].var != f.body.blocks[0].bindings[0].var


def t_iterative_with_removed_intermediates():
    @R.function(private=True)
    def before(a: R.Tensor((16,), "float32"), b: R.Tensor((16,), "float32")):
        with R.dataflow():
            c = R.concat((a, b))
            d = R.split(c, 2)
            e = d[0]
            f = d[1]
            g = R.add(a, e)
            h = R.add(f, g)
            R.output(h)
        return h

    x, y = wildcard(), wildcard()
    pat_args = is_tuple([x, y])
    concat = is_op("relax.concat")(pat_args)
    split = is_op("relax.split")(concat)
    lhs = is_tuple_get_item(split, 0)
    rhs = is_tuple_get_item(split, 1)
    pattern = lhs | rhs

    def rewriter(expr, matches):
        if lhs in matches:
            return matches[x]
        return matches[y]

    return rewrite_call(pattern, rewriter, before)


def t_backtrack_no_op():
    @R.function(private=True)
    def before():
        with R.dataflow():
            A = R.ones([64, 128], "int32")
            B = R.zeros([64, 128], "int32")
            C = R.add(A, B)
            R.output(C)
        return C

    pat_zeros = is_op("relax.zeros")(wildcard())
    pat_arg = wildcard()
    pat_add = is_op("relax.add")(pat_arg, pat_zeros) | is_op("relax.add")(pat_zeros, pat_arg)
    return rewrite_call(pat_add, lambda e, m: m[pat_arg], before)


def t_wildcard_ty_updates():
    @R.function(private=True)
    def before(x: R.Tensor((16, 32), "float32"), y: R.Tensor((16, 32), "float32"), z: R.Tensor("float32", ndim=2)):
        with R.dataflow():
            a = R.add(x, y)
            b = R.add(a, z)
            R.output(b)
        return b

    l = wildcard().has_ty(R.Tensor([16, 32]))
    r = wildcard().has_ty(R.Tensor([16, 32]))
    p = is_op("relax.add")(l, r)
    return rewrite_call(p, lambda e, m: R.multiply(m[l], m[r]), before)


def t_wildcard_symbolic_ty():
    m, n = tirx.Var("m", "int64"), tirx.Var("n", "int64")
    l = wildcard().has_ty(relax.TensorType([m, n]))
    r = wildcard().has_ty(relax.TensorType([m, n]))
    p = is_op("relax.add")(l, r)

    @R.function(private=True)
    def before(x: R.Tensor((16, 32), "float32"), y: R.Tensor((16, 32), "float32"), z: R.Tensor((32,), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.add(a, z)
            R.output(b)
        return b

    return rewrite_call(p, lambda e, mm: R.multiply(mm[l], mm[r]), before)


def t_rewrite_tuple_output():
    @R.function(private=True)
    def before(x: R.Tensor((16,), "float32")):
        with R.dataflow():
            s = R.split(x, 2)
            a = s[0]
            b = s[1]
            t = (b, a)
            c = R.concat(t)
            R.output(c)
        return c

    x = wildcard()
    sp = is_op("relax.split")(x)
    p = is_op("relax.concat")(is_tuple([is_tuple_get_item(sp, 1), is_tuple_get_item(sp, 0)]))
    return rewrite_call(p, lambda e, m: R.flip(m[x], axis=0), before)


def t_two_matmul_dup():
    @I.ir_module
    class TwoMatmul:
        @R.function
        def main(
            a: R.Tensor((32, 16), "float32"), b: R.Tensor((16, 48), "float32"), c: R.Tensor((48, 32), "float32")
        ) -> R.Tensor((32, 32), "float32"):
            with R.dataflow():
                lv0 = R.call_dps_packed("matmul", (a, b), R.Tensor((32, 48), dtype="float32"))
                lv1 = R.call_dps_packed("matmul", (lv0, c), R.Tensor((32, 32), dtype="float32"))
                R.output(lv1)
            return lv1

    dfb = TwoMatmul["main"].body.blocks[0]
    out = []
    with PatternContext() as ctx:
        is_call_dps_packed("matmul") >> is_call_dps_packed("matmul")
        out.append(ctx.match_dfb(dfb) is not None)
    with PatternContext() as ctx:
        is_call_dps_packed("matmul").has_shape([32, 48]) >> is_call_dps_packed("matmul").has_shape([32, 32])
        out.append(ctx.match_dfb(dfb) is not None)
    with PatternContext() as ctx:
        is_call_dps_packed("matmul") >> is_call_dps_packed("matmul") >> is_call_dps_packed("matmul")
        out.append(ctx.match_dfb(dfb) is None)
    with PatternContext() as ctx:
        is_call_dps_packed("matmul") >> is_call_dps_packed("extern_matmul")
        out.append(ctx.match_dfb(dfb) is None)
    return out


def t_rewrite_bindings_twice():
    @I.ir_module
    class M:
        @R.function
        def main(
            x1: R.Tensor((2, 8), "float32"),
            x2: R.Tensor((2, 8), "float32"),
            w0: R.Tensor((8, 4), "float32"),
            w1: R.Tensor((8, 4), "float32"),
            w2: R.Tensor((8, 4), "float32"),
            w3: R.Tensor((8, 4), "float32"),
        ):
            with R.dataflow():
                a = R.matmul(x1, w0)
                b = R.matmul(x1, w1)
                c = R.matmul(x2, w2)
                d = R.matmul(x2, w3)
                out = (a, b, c, d)
                R.output(out)
            return out

    with PatternContext() as ctx:
        inp = wildcard()
        wl, wr = wildcard(), wildcard()
        ml = is_op("relax.matmul")(inp, wl)
        mr = is_op("relax.matmul")(inp, wr)

        def rewriter(m, bindings):
            cat = R.concat([m[wl], m[wr]], axis=1)
            mm = R.matmul(m[inp], cat)
            s = R.split(mm, 2, axis=1)
            return {m[ml]: relax.TupleGetItem(s, 0), m[mr]: relax.TupleGetItem(s, 1)}

        return rewrite_bindings(ctx, rewriter, M["main"])


def t_rewriter_or_and_call():
    x = wildcard()
    a = PatternMatchingRewriter.from_pattern(is_op("relax.exp")(x), lambda e, m: relax.op.sin(m[x]))
    y = wildcard()
    b = PatternMatchingRewriter.from_pattern(is_op("relax.log")(y), lambda e, m: relax.op.cos(m[y]))

    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                p = R.exp(x)
                q = R.log(p)
                R.output(q)
            return q

    return (a | b)(M), a(M["main"])


def t_from_module():
    @I.ir_module
    class P:
        @R.function
        def pattern(x: R.Tensor((4,), "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor((4,), "float32")):
            return R.sin(x)

    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            p = R.exp(x)
            q = R.exp(p)
            return q

    r = PatternMatchingRewriter.from_module(P)
    return r(M)


def t_pattern_attributes_of_matmul():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    w = relax.Var("w", R.Tensor((3, 2), "float32"))
    mm = relax.op.matmul(x, w, out_dtype="float32")
    p = is_op("relax.matmul")(wildcard(), wildcard())
    s = relax.op.sum(x, axis=[1], keepdims=True)
    q = is_op("relax.sum")(wildcard())
    return (
        p.match(mm),
        q.has_attr({"keepdims": True}).match(s),
        q.has_attr({"axis": [1]}).match(s),
        q.has_attr({"axis": [0]}).match(s),
        q.has_attr({"keepdims": False}).match(s),
    )


def t_varg():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    return (
        is_op("relax.add")(varg_default_wildcard=True).match(relax.op.add(x, x)),
        is_op("relax.add")(wildcard(), varg_default_wildcard=True).match(relax.op.add(x, x)),
        is_op("relax.add")(wildcard()).match(relax.op.add(x, x)),
        is_op("relax.exp").match(relax.op.exp(x).op),
        is_op("relax.exp").match(relax.op.exp(x)),
        wildcard()(wildcard()).match(relax.op.exp(x)),
        (is_op("relax.exp") | is_op("relax.sin"))(wildcard()).match(relax.op.sin(x)),
        is_op("relax.concat")(is_tuple([wildcard(), wildcard()])).match(relax.op.concat([x, x])),
        is_op("relax.concat")(wildcard()).match(relax.op.concat([x, x])),
    )

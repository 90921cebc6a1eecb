from tvm import relax
from tvm.relax.backend.pattern_registry import get_pattern, get_patterns_with_prefix, register_patterns
from tvm.relax.backend.patterns import (
    make_attention_pattern,
    make_conv2d_pattern,
    make_fused_bias_activation_pattern,
    make_layer_norm_pattern,
    make_matmul_dequantize_pattern,
    make_matmul_multiply_pattern,
    make_matmul_pattern,
    make_residual_block_pattern,
    make_stacked_attention_pattern,
)
from tvm.relax.dpl import wildcard, is_op
from tvm.script import ir as I
from tvm.script import relax as R


def found(pattern, mod):
    """The place of the match among the bindings, and the values of its named parts."""
    out, parts = pattern
    f = mod["main"]
    bindings = [b for block in f.body.blocks for b in block.bindings]
    table = {b.var: b.value for b in bindings}
    seen = []
    for b in bindings:
        matched = out.extract_matched_expr(b.value, table)
        if matched is not None:
            seen.append(
                [b.var.name, {n: label(matched[p], bindings) for n, p in sorted(parts.items()) if p in matched}]
            )
    return seen


def label(expr, bindings):
    """The name of a value."""
    if isinstance(expr, relax.Var):
        return expr.name
    for b in bindings:
        if b.value.same_as(expr):
            return b.var.name
    return "other"


@I.ir_module
class Products:
    @R.function
    def main(
        x: R.Tensor((4, 8), "float16"),
        w: R.Tensor((8, 8), "float16"),
        v: R.Tensor((8, 8), "float16"),
        b: R.Tensor((8,), "float16"),
        r: R.Tensor((4, 8), "float16"),
    ):
        with R.dataflow():
            m = R.matmul(x, w)
            a = R.add(m, b)
            g = R.nn.relu(a)
            t = R.permute_dims(v)
            m2 = R.matmul(g, t)
            a2 = R.add(r, m2)
            g2 = R.nn.gelu(a2)
            s = R.add(m2, r)
            g3 = R.nn.relu(m)
            R.output(g2, s, g3)
        return (g2, s, g3)


@I.ir_module
class Convs:
    @R.function
    def main(
        x: R.Tensor((1, 3, 8, 8), "float32"),
        w: R.Tensor((3, 3, 3, 3), "float32"),
        b: R.Tensor((3,), "float32"),
        c: R.Tensor((1, 3, 1, 1), "float32"),
    ):
        with R.dataflow():
            p = R.nn.conv2d(x, w, padding=1)
            q = R.reshape(b, (1, 3, 1, 1))
            a = R.add(p, q)
            g = R.nn.relu(a)
            h = R.nn.conv2d(g, w, padding=1)
            k = R.add(h, c)
            s = R.sigmoid(k)
            u = R.add(s, g)
            v = R.nn.relu(u)
            R.output(v)
        return v


def t_matmuls():
    return [
        found(make_matmul_pattern(wb, act, tr), Products)
        for wb in (False, True)
        for act in (None, "relax.nn.relu", "relax.nn.gelu")
        for tr in (False, True)
    ]


def t_convs():
    return [
        found(make_conv2d_pattern(wb, act), Convs)
        for wb in (False, True)
        for act in (None, "relax.nn.relu", "relax.sigmoid")
    ]


def t_fused_bias():
    return [
        found(make_fused_bias_activation_pattern("relax.nn.conv2d", wb, act, rs), Convs)
        for wb in (False, True)
        for act in (None, "relax.nn.relu")
        for rs in (False, True)
    ]


def t_residual():
    one = make_residual_block_pattern(make_conv2d_pattern(True, "relax.sigmoid"), "relax.add", "relax.nn.relu")
    return (
        found(one, Convs),
        found(make_residual_block_pattern(is_op("relax.matmul")(wildcard(), wildcard())), Products),
        sorted(one[1]),
    )


def t_attention():
    @I.ir_module
    class M:
        @R.function
        def main(
            q: R.Tensor((1, 4, 2, 8), "float16"),
            k: R.Tensor((1, 4, 2, 8), "float16"),
            v: R.Tensor((1, 4, 2, 8), "float16"),
            b: R.Tensor((1, 2, 4, 4), "float16"),
        ):
            with R.dataflow():
                o = R.nn.attention(q, k, v)
                p = R.nn.attention(o, k, v, b)
                R.output(p)
            return p

    return (
        found(make_attention_pattern(), M),
        found(make_attention_pattern(with_bias=True), M),
        sorted(make_attention_pattern(var_len=True)[1]),
    )


def t_stacked():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((1, 4, 48), "float16")):
            with R.dataflow():
                s = R.split(x, 3, axis=2)
                q = s[0]
                k = s[1]
                v = s[2]
                q1 = R.reshape(q, R.shape([1, 4, 2, 8]))
                k1 = R.reshape(k, R.shape([1, 4, 2, 8]))
                v1 = R.reshape(v, R.shape([1, 4, 2, 8]))
                o = R.nn.attention(q1, k1, v1)
                R.output(o)
            return o

    return (
        found(make_stacked_attention_pattern("split"), M),
        found(make_stacked_attention_pattern("strided_slice"), M),
        sorted(make_stacked_attention_pattern("strided_slice", True, "SBN3H")[1]),
    )


def t_other_start():
    return make_stacked_attention_pattern("concat")


def t_others():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((4, 8), "float32"),
            w: R.Tensor((8, 8), "float32"),
            g: R.Tensor((8,), "float32"),
            s: R.Tensor((1,), "float32"),
            t: R.Tensor((1,), "float32"),
        ):
            with R.dataflow():
                n = R.nn.layer_norm(x, g, g, axes=[-1])
                m = R.matmul(n, w)
                p = R.multiply(s, t)
                u = R.multiply(m, p)
                h = R.astype(u, "float16")
                R.output(h)
            return h

    return (
        found(make_layer_norm_pattern(), M),
        found(make_matmul_multiply_pattern(), M),
        found(make_matmul_multiply_pattern(True), M),
        sorted(make_matmul_dequantize_pattern()[1]),
    )


def t_registry():
    register_patterns(
        [("mine.matmul", *make_matmul_pattern()), ("mine.matmul_bias", *make_matmul_pattern(with_bias=True))]
    )
    names = [p.name for p in get_patterns_with_prefix("mine")]

    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 8), "float16"), w: R.Tensor((8, 8), "float16"), b: R.Tensor((8,), "float16")):
            with R.dataflow():
                m = R.matmul(x, w)
                a = R.add(m, b)
                g = R.nn.relu(a)
                m2 = R.matmul(g, w)
                s = R.nn.gelu(m2)
                R.output(s)
            return s

    fused = relax.transform.FuseOpsByPattern(get_patterns_with_prefix("mine"), annotate_codegen=False)(M)
    return names, get_pattern("mine.matmul").name, get_pattern("nobody"), fused


def t_registry_of_others():
    register_patterns(["mine"])

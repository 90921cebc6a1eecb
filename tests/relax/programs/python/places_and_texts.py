"""Places in a text that nodes keep, names in texts, and types that are stated to be less than they are."""

import tvm
from tvm import relax, tirx
from tvm.relax.frontend import nn
from tvm.script import relax as R
from tvm.script import tirx as T

PLACE = tvm.ir.Span(tvm.ir.SourceName("model.py"), 1, 2, 3, 4)


def tensor(name="x", shape=(2, 3)):
    return relax.Var(name, relax.TensorType(shape, "float32"))


def t_places_of_expressions():
    x = relax.Var("x", relax.TensorType((2, 3), "float32"), span=PLACE)
    fields = relax.Tuple([x, x], span=PLACE)
    made = [
        x,
        fields,
        relax.TupleGetItem(fields, 1, span=PLACE),
        relax.ShapeExpr([1, 2], span=PLACE),
        relax.Call(tvm.ir.Op.get("relax.exp"), [x], span=PLACE),
        relax.If(relax.const(True), x, x, span=PLACE),
        relax.ExternFunc("f", span=PLACE),
    ]
    return [(node.span.source_name.name, node.span.line, node.span.end_column) for node in made]


def t_places_of_bindings():
    x, y = tensor(), tensor("y")
    binding = relax.VarBinding(y, x, span=PLACE)
    cast = relax.MatchCast(y, x, x.ty, span=PLACE)
    block = relax.BindingBlock([binding], span=PLACE)
    body = relax.SeqExpr([block], y, span=PLACE)
    return [node.span.line for node in (binding, cast, block, body, relax.Function([x], body, x.ty, span=PLACE))]


def t_no_place():
    x = tensor()
    return [node.span is None for node in (x, relax.Tuple([x]), relax.ShapeExpr([1]), relax.op.exp(x))]


def t_a_place_is_no_part_of_a_program():
    x = tensor()
    tvm.ir.assert_structural_equal(relax.Tuple([x], span=PLACE), relax.Tuple([x]))


def t_a_mutator_hands_the_place_on():
    @relax.expr_functor.mutator
    class Subtract(relax.PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == tvm.ir.Op.get("relax.add"):
                return relax.Call(tvm.ir.Op.get("relax.subtract"), call.args, call.attrs, call.ty_args, call.span)
            return call

    @R.function
    def main(x: R.Tensor((3,), "float32")):
        y = R.add(x, x)
        return R.exp(y)

    return Subtract().visit_expr(main)


def t_names_of_what_nothing_reads():
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32"), s: R.Shape(ndim=1)):
        m = T.int64()
        _ = R.print(x, format="{}")
        _ = R.match_cast(s, R.Shape([m]))
        _ = R.print(x, format="{}")
        _ = R.add(x, x)
        return x

    return main, main.script()


def t_branches_in_branches():
    @R.function
    def main(c: R.Tensor((), "bool"), d: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            if d:
                r = R.exp(x)
            else:
                r = R.log(x)
        else:
            r = R.sin(x)
        return r

    return main, main.script()


def t_only_results_are_stated_to_be_less():
    @R.function
    def main(x: R.Tensor((2,), "float32"), s: R.Shape(ndim=1), t: R.Tuple(R.Tensor((2,), "float32"))):
        a: R.Tensor = x
        b: R.Any = R.const(1)
        c: R.Any = (x, x)
        d: R.Any = R.shape([1])
        e: R.Any = t[0]
        f: R.Shape = s
        g: R.Tensor(ndim=1) = R.add(a, x)
        h: R.Tensor = g
        return (a, b, c, d, e, f, g, h)

    return main, main.script()


def t_branches_that_are_stated_to_be_less():
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            r: R.Any = x
        else:
            r: R.Any = x
        if c:
            q: R.Any = R.add(x, x)
        else:
            q: R.Any = R.exp(x)
        return (r, q)

    return main, main.script()


def t_strings_and_dtypes():
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        a = R.str("a")
        b = R.dtype("int8")
        return x

    return main.script().replace("# from tvm.tirx.layout import Axis\n", "")


def t_numbered_lines():
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        a = R.exp(x)
        b = R.exp(a)
        c = R.exp(b)
        d = R.exp(c)
        e = R.exp(d)
        return e

    return main.script(print_line_numbers=True)


def t_index_maps():
    x = tensor(shape=(2, 4, 6))
    swapped = tirx.IndexMap.from_func(lambda i, j, k: (j, i, k))
    blocks = tirx.IndexMap.from_func(lambda i, j, k: (i, k // 3, j, k % 3))
    builder = relax.BlockBuilder()
    return [
        tuple(int(size) for size in builder.normalize(relax.op.layout_transform(x, index_map)).ty.shape)
        for index_map in (swapped, blocks)
    ]


def t_index_maps_of_another_rank():
    index_map = tirx.IndexMap.from_func(lambda i, j, k: (j, i, k))
    return relax.BlockBuilder().normalize(relax.op.layout_transform(tensor(), index_map))


def t_notes_on_parameters():
    layer = nn.Linear(4, 8)
    layer.weight.attrs["scale"] = 2
    return layer.weight.attrs["scale"], len(layer.bias.attrs)


def t_a_mutator_of_models_goes_into_parameters():
    seen = []

    class Look(nn.Mutator):
        def visit_param(self, name, node):
            seen.append(name)
            return self.visit(name, node)

    Look().visit("layer", nn.Linear(2, 2))
    return seen

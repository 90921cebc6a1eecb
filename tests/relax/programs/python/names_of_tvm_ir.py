import tvm
from tvm import relax, tirx
from tvm.script import relax as R, ir as I


def t_attributes_of_operators():
    printing, adding = tvm.ir.Op.get("relax.print"), tvm.ir.Op.get("relax.add")
    tvm.ir.register_op_attr("relax.add", "my.attribute", 5)
    return [
        bool(printing.get_attr("FPurity")),
        bool(adding.get_attr("FPurity")),
        adding.has_attr("FPurity"),
        adding.num_inputs,
        adding.get_attr("my.attribute"),
        "relax.nn.relu" in list(tvm.ir.Op.list_op_names()),
    ]


def t_an_attribute_that_no_operator_has():
    return tvm.ir.Op.get("relax.add").get_attr("nothing.like.it")


def t_attributes_made_of_keywords():
    made = tvm.ir.make_node("ir.DictAttrs", x=1, name="xyz", padding=(0, 0))
    return [made.x, made["name"], list(made.padding), len(made.keys())]


def t_attributes_of_calls_by_kind():
    image, weight = relax.Var("x", R.Tensor((1, 3, 8, 8), "float32")), relax.Var("w", R.Tensor((4, 3, 3, 3), "float32"))
    attrs = relax.op.nn.conv2d(image, weight, padding=1, strides=2).attrs
    return [attrs.get_str("data_layout"), attrs.get_int("groups"), list(attrs.get_int_tuple("padding"))]


def t_places_in_a_text():
    span = tvm.ir.Span(tvm.ir.SourceName("text.py"), 1, 2, 3, 4)
    return [span.source_name.name, span.line, span.end_line, span.column, span.end_column]


def t_scalars_are_told_apart():
    n, x = tirx.Var("n", "int64"), relax.Var("x", R.Tensor((2,), "float32"))
    answers = tvm.ir.is_prim_expr(n), tvm.ir.is_prim_expr(n + 1), tvm.ir.is_prim_var(n), tvm.ir.is_prim_var(n + 1)
    return [*map(bool, answers), bool(tvm.ir.is_prim_expr(x))]


def t_sequences_are_compared():
    x = relax.Var("x", R.Tensor([10]))
    call = relax.op.add(x, x)
    tvm.ir.assert_structural_equal(call.args, [x, x])
    tvm.ir.assert_structural_equal([x, 1, "s"], [x, 1, "s"])
    tvm.ir.assert_structural_equal([x, 1, "s"], [x, 2, "s"])


def t_free_sizes_of_types_may_be_mapped():
    def made(name):
        n, m = tirx.Var(name, "int64"), tirx.Var("m", "int64")
        tensor = relax.TensorType([1, n + 1, m], "float32")
        return tensor, relax.ShapeType([n * 2, m]), relax.FuncType([tensor], relax.TupleType([tensor]))

    for one, other in zip(made("n"), made("k")):
        tvm.ir.assert_structural_equal(one, other, map_free_vars=True)
    tvm.ir.assert_structural_equal(made("n")[0], made("n")[0])


def t_sizes_that_differ_are_not_mapped_together():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    one, other = relax.TensorType([n + 1, n], "float32"), relax.TensorType([n + 1, m], "float32")
    tvm.ir.assert_structural_equal(one, other, map_free_vars=True)


def t_tuple_type_of_what_is_no_type():
    return relax.TupleType([1, 2])


def t_rank_that_is_a_text():
    @R.function
    def f(x: R.Tensor("float32", ndim="1")):
        return x

    return f


def t_devices_of_a_module():
    module = tvm.IRModule({}, global_infos={"vdevice": [relax.VDevice("cuda", 1)]})
    module.update_global_info("dummy", [relax.DummyGlobalInfo()])
    device = module.global_infos["vdevice"][0]
    return [device.target.kind.name, device.vdevice_id, device.memory_scope, len(module.global_infos["dummy"])]


def t_device_of_a_target():
    return relax.VDevice(tvm.target.Target("llvm"), 0).target.kind.name


def t_type_of_a_string():
    @R.function(pure=False)
    def f(x: R.Tensor((2, 3), "float32")):
        s = R.str("a")
        y = R.call_packed("f", x, s, ty_args=(R.Tensor((2, 3), "float32"),))
        return y

    read = tvm.script.from_source(f.script())
    tvm.ir.assert_structural_equal(read, f)
    return [
        isinstance(f.body.blocks[0].bindings[0].value.ty, tvm.ir.StringType),
        f.body.blocks[0].bindings[0].var.ty == relax.AnyType(),
    ]


def t_text_of_a_module_that_is_not_checked():
    return tvm.script.from_source("""
@I.ir_module(check_well_formed=False)
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((3, 3), dtype="float32"):
        y: R.Tensor((2, 3), dtype="float32") = R.add(x, R.const(1, "float32"))
        return y
""")["main"].body


def t_body_that_is_emitted():
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        left, right = (
            relax.Var("left", relax.TensorType([], "int64")),
            relax.Var("right", relax.TensorType([], "int64")),
        )
        bindings = [relax.VarBinding(left, relax.const(1, "int64")), relax.VarBinding(right, relax.const(2, "int64"))]
        out = builder.emit(relax.SeqExpr([relax.BindingBlock(bindings)], left + right))
        builder.emit_func_output(out)
    return builder.get()["main"]


def t_devices_by_number_and_by_kind():
    @I.ir_module
    class Module:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0), I.vdevice("metal", 0, "global")]})

        @R.function
        def main(x: R.Tensor((4, 4), "float32", "vdevice:2"), y: R.Tensor((2,), "float32", "cuda")):
            z = R.to_vdevice(y, "vdevice:0")
            return (x, z)

    result = Module["main"].body.blocks[0].bindings[0].var
    return [var.ty.vdevice.target.kind.name for var in (*Module["main"].params, result)]


def t_values_of_the_runtime():
    return int(tvm.runtime.convert(10))

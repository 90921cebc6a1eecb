"""Functions, modules and expressions answer to the methods that Relax gives them."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import re
import textwrap

import numpy as np
import pytest

import regraft as rx
from regraft import Attrs, IRModule, SymVar, TensorType, Var
from regraft.analysis import check_well_formed, well_formed
from regraft.ir import iter_bindings
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.transform import InlinePrivateFunctions


@R.function
def affine(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor(("n", 4), "float32"):
    with R.dataflow():
        y = R.matmul(x, w)
        z = R.add(y, R.const(np.arange(4, dtype="float32")))
        R.output(z)
    return z


@I.ir_module
class Calls:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            y = Calls.twice(x)
            z = Calls.twice(y)
            R.output(z)
        return z

    @R.function(private=True)
    def twice(a: R.Tensor(("m", 3), "float32")) -> R.Tensor(("m", 3), "float32"):
        with R.dataflow():
            b = R.add(a, a)
            R.output(b)
        return b


def test_parameters_are_bound_by_name_and_by_variable() -> None:
    w = np.random.default_rng(0).normal(size=(4, 4)).astype("float32")
    x = np.ones((3, 4), "float32")
    whole = rx.build(IRModule({"affine": affine}), target="numpy")["affine"](x, w)
    for key in ("w", affine.params[1]):
        bound = affine.bind_params({key: w})
        assert [param.name for param in bound.params] == ["x"]
        np.testing.assert_array_equal(rx.build(IRModule({"f": bound}), target="numpy")["f"](x), whole)
    with pytest.raises(ValueError, match="there is no parameter 'v'"):
        affine.bind_params({"v": w})


def test_sizes_are_bound_by_name_and_by_variable() -> None:
    [size] = [dim for dim in affine.params[0].ty.shape or () if isinstance(dim, SymVar)]
    for key in ("n", size):
        assert affine.bind_symbolic_vars({key: 16}).params[0].ty == TensorType((16, 4), "float32")
    with pytest.raises(ValueError, match="there is no size 'k'"):
        affine.bind_symbolic_vars({"k": 16})


def test_called_functions_are_inlined_with_variables_of_their_own() -> None:
    inlined = Calls["main"].inline_functions({"twice": Calls["twice"]})
    well_formed(inlined)
    assert "cls" not in inlined.script()
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(rx.build(IRModule({"f": inlined}), target="numpy")["f"](x), x * 4)


def test_calls_in_the_body_of_a_loop_are_inlined() -> None:
    module = rx.parse(
        textwrap.dedent("""
        @I.ir_module
        class Module:
            @R.function(private=True)
            def twice(p: R.Tensor((2,), "float32")):
                return R.add(p, p)

            @R.function
            def main(x: R.Tensor((2,), "float32")):
                @R.function
                def step(number: R.Tensor((), "int64"), state: R.Tensor((2,), "float32")):
                    doubled = Module.twice(state)
                    return (doubled,)

                last = R.loop(step, (x,), count=3)
                return last
        """)
    )
    inlined = IRModule({"main": module["main"].inline_functions({"twice": module["twice"]})})
    well_formed(inlined)
    x = np.ones(2, "float32")
    np.testing.assert_array_equal(rx.build(inlined, target="numpy")["main"](x)[0], x * 8)


@pytest.mark.parametrize("target", ["numpy", "onnxruntime"])
def test_each_call_of_a_function_has_variables_and_sizes_of_its_own(target: str) -> None:
    module = rx.parse(
        textwrap.dedent("""
        @I.ir_module
        class Module:
            @R.function(private=True)
            def twice(p: R.Tensor(("k",), "float32"), q: R.Tensor(ndim=1, dtype="float32")):
                own = T.int64()
                cast = R.match_cast(q, R.Tensor((own,), "float32"))
                ones = R.ones(R.shape([own]), "float32")
                sums = R.add(cast, ones)
                return R.concat((p, p, sums), axis=0)

            @R.function
            def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
                a = Module.twice(x, y)
                b = Module.twice(y, x)
                return (a, b)
        """)
    )
    x, y = np.zeros(2, "float32"), np.full(3, 5, "float32")
    inlined = IRModule({"main": module["main"].inline_functions({"twice": module["twice"]})})
    well_formed(inlined)
    for form in (module, inlined, InlinePrivateFunctions()(module)):
        a, b = rx.build(form, target=target)["main"](x, y)
        np.testing.assert_array_equal(a, np.concatenate((x, x, y + 1)))
        np.testing.assert_array_equal(b, np.concatenate((y, y, x + 1)))


def _stepped(body: str) -> IRModule:
    return rx.parse(
        f"""
@I.ir_module
class Module:
    @R.function(private=True)
    def shifted(p: R.Tensor((2,), "float32")):
        return R.add(p, R.const(1.0))

    @R.function
    def main(x: R.Tensor((2,), "float32")):
{textwrap.indent(textwrap.dedent(body), " " * 8)}
"""
    )


@pytest.mark.parametrize(
    "body",
    [
        """
        y = Module.shifted(x)
        z = Module.shifted(y)
        return z
        """,
        """
        with R.dataflow():
            y = Module.shifted(x)
            z = Module.shifted(y)
            R.output(z)
        return z
        """,
    ],
)
def test_a_name_for_the_result_of_a_call_stands_for_what_is_computed(body: str) -> None:
    module = _stepped(body)
    inlined = IRModule({"main": module["main"].inline_functions({"shifted": module["shifted"]})})
    well_formed(inlined)
    assert [binding.var.name_hint for binding in iter_bindings(inlined["main"])] == ["y", "z"]
    assert rx.build(inlined, target="numpy")["main"](np.zeros(2, "float32")).tolist() == [2, 2]


def test_a_branch_leaves_the_dataflow_block_in_which_its_function_is_inlined() -> None:
    module = rx.parse(
        textwrap.dedent("""
        @I.ir_module
        class Module:
            @R.function(private=True)
            def pick(c: R.Tensor((), "bool"), p: R.Tensor(ndim=1, dtype="float32")):
                if c:
                    r = R.add(p, p)
                else:
                    r = R.multiply(p, p)
                return r

            @R.function
            def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
                with R.dataflow():
                    u = R.negative(x)
                    y = R.match_cast(Module.pick(c, u), R.Tensor((2,), "float32"))
                    z = R.add(y, u)
                    R.output(z)
                return z
        """)
    )
    inlined = IRModule({"main": module["main"].inline_functions({"pick": module["pick"]})})
    well_formed(inlined)
    assert inlined["main"].ret_ty == TensorType((2,), "float32")
    run = rx.build(inlined, target="numpy")["main"]
    for condition, result in ((True, -9.0), (False, 6.0)):
        np.testing.assert_array_equal(run(np.array(condition), np.full(2, 3, "float32")), np.full(2, result, "float32"))


def test_an_argument_of_unknown_shape_is_cast_where_its_function_is_inlined() -> None:
    module = rx.parse(
        textwrap.dedent("""
        @I.ir_module
        class Module:
            @R.function(private=True)
            def filled(p: R.Tensor(("k", 2), "float32")):
                k = T.int64()
                return R.add(p, R.ones(R.shape([k, 2]), "float32"))

            @R.function
            def main(x: R.Tensor(ndim=2, dtype="float32")):
                return Module.filled(x)
        """)
    )
    inlined = IRModule({"main": module["main"].inline_functions({"filled": module["filled"]})})
    well_formed(inlined)
    run = rx.build(inlined, target="numpy")["main"]
    np.testing.assert_array_equal(run(np.ones((3, 2), "float32")), np.full((3, 2), 2, "float32"))
    with pytest.raises(rx.RegraftError):
        run(np.ones((3, 4), "float32"))


def test_a_module_is_edited_in_place_and_its_clone_is_not() -> None:
    module = IRModule({"main": affine})
    kept = module.clone()
    module["other"] = Calls["twice"]
    module.update_func(module.get_global_var("main"), affine.with_attr("level", 3))
    assert module["main"].attrs["level"] == 3
    assert module["other"] is Calls["twice"]
    assert list(kept) == ["main"]
    assert kept["main"] is affine
    module.update(IRModule({"main": affine}))
    assert module["main"] is affine
    del module["other"]
    assert "other" not in module
    assert module.with_attrs({"a": 1, "b": 2}).without_attr("a").attrs == Attrs({"b": 2})


def test_functions_modules_and_bodies_are_true_and_tensors_have_no_truth() -> None:
    assert affine
    assert affine.body
    assert rx.GlobalVar("f")
    assert rx.ExternFunc("f")
    assert rx.ShapeExpr([])
    with pytest.raises(TypeError, match="no truth value"):
        bool(affine.params[0])


def test_a_program_goes_through_pickle_json_and_another_process() -> None:
    for module in (IRModule({"affine": affine}), Calls):
        for back in (pickle.loads(pickle.dumps(module)), rx.load_json(rx.save_json(module)), copy.deepcopy(module)):
            rx.assert_structural_equal(back, module)
            assert rx.structural_hash(back) == rx.structural_hash(module)
            assert check_well_formed(back)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(rx.structural_hash, (affine,)) == rx.structural_hash(affine)


def test_pieces_of_programs_go_through_json() -> None:
    n = SymVar("n")
    for piece in (TensorType((n, n % 3, rx.ir.dims.compare("<", n, 5)), None), affine.body.blocks[0], affine):
        rx.assert_structural_equal(rx.load_json(rx.save_json(piece)), piece, map_free_vars=True)
    with pytest.raises(ValueError, match="this JSON holds no program"):
        rx.load_json("{}")
    with pytest.raises(ValueError, match="damaged"):
        rx.load_json('{"format": "regraft program 1", "root": {"node": 3}, "nodes": []}')


_HELD = {
    "a field of another kind": (r'"op": \{"node": \d+\}', '"op": 5', "the op of a Call is 5"),
    "a node that comes later": (r'"body": \{"node": \d+\}', '"body": {"node": 9999}', "no node 9999 before"),
    "a node counted from the end": (r'"body": \{"node": \d+\}', '"body": {"node": -1}', "no node -1 before"),
    "a value of two forms": (r'"body": \{"node": (\d+)\}', r'"body": {"node": \1, "list": []}', "a value has one form"),
    "a rank of another shape": (r'"ndim": \d', '"ndim": 7', "has ndim"),
    "a dtype that there is not": (r'"dtype": "float32", "ndim"', '"dtype": "float33", "ndim"', "float33"),
    "an attribute without a name": (r'"items": \[\["\w+"', '"items": [[5', "5 is no name"),
    "bytes of another form": (r'"bytes": "', '"bytes": "?', "base64"),
    "a number of another form": (r'"float": "', '"float": "x', "hexadecimal"),
    "a size of fractions": (
        r'"dtype": "int64", "least": 0',
        '"dtype": "float32", "least": 0',
        "size n is of float",
    ),
}


@pytest.mark.parametrize("part", _HELD)
def test_damaged_json_is_refused(part: str) -> None:
    text = rx.save_json(rx.parse(
        """
@R.function
def main(x: R.Tensor(("n", 3), "float32")):
    y = R.add(x, R.const([1.5, 2.0, 3.0]))
    z = R.clip(y, 0.5, 4)
    w = R.sum(z, axis=1)
    return w
"""
    ))  # fmt: skip
    found, instead, message = _HELD[part]
    damaged, count = re.subn(found, instead, text)
    assert count
    with pytest.raises(rx.IRError, match=f"the JSON of this program is damaged: .*{message}"):
        rx.load_json(damaged)


def test_a_tensors_shape_reads_as_an_expression() -> None:
    n = SymVar("n")
    shape = Var("x", TensorType((n, 4))).ty.shape
    assert shape is not None
    assert shape.values == (n, 4)
    assert shape[0] is n
    assert shape == rx.ShapeExpr((n, 4))
    assert rx.structural_equal(shape, rx.ShapeExpr((n, 4)))
    assert not rx.structural_equal(shape, rx.ShapeExpr((n, 5)))
    assert TensorType(rx.ShapeExpr((n, 4)), "int8") == TensorType((n, 4), "int8")
    assert TensorType(Var("s", rx.ShapeType(ndim=2)), "int8") == TensorType(None, "int8", 2)


def test_a_tensor_type_is_float32_unless_it_says_otherwise() -> None:
    assert TensorType((2, 3)).dtype == "float32"
    assert TensorType((2, 3), None).dtype is None
    assert TensorType((2, 3), "").dtype is None


def test_an_integer_scalar_is_a_size() -> None:
    k = Var("k", rx.PrimType("int64"))
    x = Var("x", TensorType((k + 1, 3)))
    function = rx.Function([k, x], x)
    assert check_well_formed(function)
    assert str((k < 3).ty) == 'R.Prim("bool", value=k < 3)'
    assert rx.build(IRModule({"f": function}), target="numpy")["f"](4, np.ones((5, 3), "float32")).shape == (5, 3)


def test_copies_share_no_variable() -> None:
    again = rx.copy_with_new_vars(affine)
    rx.assert_structural_equal(again, affine)
    assert not set(again.params) & set(affine.params)
    assert not set(rx.analysis.bound_vars(again)) & set(rx.analysis.bound_vars(affine))


def test_errors_are_those_that_a_program_for_relax_expects() -> None:
    x = Var("x", TensorType((2, 3)))
    with pytest.raises(ValueError, match="matmul"):
        R.matmul(x, x)
    with pytest.raises(TypeError, match="matmul"):
        R.matmul(x, x)
    with pytest.raises(IndexError, match="out of range"):
        rx.TupleGetItem(rx.Tuple([x]), 1)
    undefined = rx.Function([x], Var("y", TensorType((2, 3))))
    assert not check_well_formed(undefined)
    with pytest.raises(ValueError, match="y is used before it is defined"):
        well_formed(undefined)


def test_a_scalar_keeps_its_dtype_where_its_size_is_bound() -> None:
    n = SymVar("n")
    x, y = rx.Var("x", TensorType((n,), "float32")), rx.Var("y", rx.PrimType("int32"))
    body = rx.SeqExpr([rx.BindingBlock([rx.VarBinding(y, rx.PrimValue(n, "int32"))])], y)
    bound = rx.Function([x], body).bind_symbolic_vars({"n": 3}).body.blocks[0].bindings[0].value
    assert isinstance(bound, rx.PrimValue)
    assert bound.value == 3
    assert bound.ty == rx.PrimType("int32", 3)

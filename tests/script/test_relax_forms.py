"""Forms that programs for Relax have: macros, recursion, returns in blocks, effects that close branches."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft import IRModule, ParseError
from regraft.analysis import well_formed
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.script import tir as T


def test_a_dataflow_block_may_end_with_the_return() -> None:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
            return y

    well_formed(main)
    assert main.body.body is main.body.blocks[0].bindings[0].var


def test_effects_may_close_both_branches() -> None:
    @R.function(pure=False)
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        if c:
            R.print(x, format="yes {}")
        else:
            R.print(x, format="no {}")
        return x

    well_formed(main)
    rx.assert_structural_equal(rx.parse(main.script()), main)


def test_a_local_function_may_call_itself() -> None:
    @R.function
    def main(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        @R.function
        def loop(i: R.Tensor((), "int32"), s: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            c = R.less(i, R.const(5, "int32"))
            if c:
                j = R.add(i, R.const(1, "int32"))
                t = R.add(s, x)
                r = loop(j, t)
            else:
                r = s
            return r

        g = loop(R.const(0, "int32"), x)
        return g

    well_formed(main)
    back = rx.parse(main.script())
    rx.assert_structural_equal(back, main)
    assert rx.structural_hash(back) == rx.structural_hash(main)
    module = IRModule({"main": main})
    lifted = rx.transform.LambdaLift()(module)
    well_formed(lifted)
    for program in (module, lifted):
        assert rx.build(program, target="numpy")["main"](np.array(3, "int32")) == 18


def test_a_macro_stands_for_its_statements() -> None:
    scale = 3.0

    @R.macro
    def scaled(a, b):
        c = R.add(a, b)
        return R.multiply(c, R.const(scale, "float32"))

    @R.macro(hygienic=False)
    def doubled():
        twice = R.add(x, x)
        return twice

    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            z = scaled(x, b=y)
            w = doubled()
            v = R.subtract(z, w)
            R.output(v)
        return v

    well_formed(main)
    x, y = np.ones((2, 3), "float32"), np.full((2, 3), 2, "float32")
    np.testing.assert_array_equal(rx.build(IRModule({"main": main}), target="numpy")["main"](x, y), (x + y) * 3 - x * 2)


def test_an_outside_function_takes_strings_and_may_give_anything() -> None:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32")):
        y = R.call_packed("relax_forms.tell", x, "name", 3)
        return y

    well_formed(main)
    rx.assert_structural_equal(rx.parse(main.script()), main)
    rx.register_func("relax_forms.tell", lambda x, name, number: (x, name, number), override=True)
    assert rx.build(IRModule({"main": main}), target="numpy")["main"](np.ones((2, 3), "float32"))[1:] == ("name", 3)


def test_a_scalar_parameter_is_a_size() -> None:
    @R.function
    def main(x: R.Tensor((3,), "float32"), k: R.Prim("int64")):
        y = R.full(R.shape([k, 2]), R.const(1.0, "float32"), dtype="float32")
        n = R.prim_value(k - 5)
        return y, n

    well_formed(main)
    y, n = rx.build(IRModule({"main": main}), target="numpy")["main"](np.ones(3, "float32"), 4)
    assert y.shape == (4, 2)
    assert n == -1
    rx.assert_structural_equal(rx.parse(main.script()), main)


def test_what_relax_refuses_is_refused() -> None:
    with pytest.raises(ParseError, match="private=True"):

        @R.function(private=True)
        def named(x: R.Tensor((2, 3), "float32")):
            R.func_attr({"global_symbol": "named"})
            return x

    with pytest.raises(ParseError, match="mentions the size m"):

        @R.function
        def unsized(x: R.Tensor((2, 3), "float32")):
            m = T.int64()
            y = R.zeros((m, 3), "float32")
            return y

    builder = rx.BlockBuilder()
    x = rx.Var("x", rx.TensorType((2, 3)))
    with builder.function("main", [x]):
        builder.emit_func_output(x)
        with pytest.raises(ValueError, match="emit_func_output is called once"):
            builder.emit_func_output(x)


def test_a_module_may_say_that_it_is_not_to_be_checked() -> None:
    @I.ir_module(check_well_formed=False)
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return x

    assert list(Module) == ["main"]


_PAIR = """
@I.ir_module
class Module:
    @R.function
    def pair(x: R.Tensor((2, 3), "float32")) -> {promised}:
        both = (x, x)
        return both
{caller}
"""


def test_a_result_of_any_tensor_may_be_a_tuple_whose_type_it_then_has() -> None:
    module = rx.parse(_PAIR.format(promised="R.Tensor", caller=""))
    well_formed(module)
    both = rx.TupleType([rx.TensorType((2, 3), "float32")] * 2)
    assert module["pair"].ret_ty == module.get_global_var("pair").ty.ret == both  # type: ignore[union-attr]
    rx.assert_structural_equal(rx.parse(module.script()), module)


@pytest.mark.parametrize("promised", ["R.Tensor(ndim=2)", "R.Shape", "R.Tuple(R.Tensor)"])
def test_another_result_than_the_declared_one_is_refused(promised: str) -> None:
    with pytest.raises(ParseError, match="'pair' promises to return"):
        rx.parse(_PAIR.format(promised=promised, caller=""))


def test_a_tuple_is_no_tensor_for_those_who_call_the_function() -> None:
    caller = """
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        both = Module.pair(x)
        return both
    """
    with pytest.raises(ParseError, match="'pair' promises to return"):
        rx.parse(_PAIR.format(promised="R.Tensor", caller=caller))


@pytest.mark.parametrize(
    "written",
    [
        "lambda n, c, h, w: (n, c // 4, h, w, c % 4)",
        "T.index_map(lambda n, c, h, w: (n, c // 4, h, w, c % 4))",
    ],
)
def test_a_text_may_give_a_layout_as_a_function_of_indices(written: str) -> None:
    read = rx.parse(
        f"""
@R.function
def main(x: R.Tensor((2, 8, 3, 5), "float32")):
    with R.dataflow():
        y = R.layout_transform(x, index_map={written}, pad_value=None)
        R.output(y)
    return y
"""
    )

    @R.function
    def main(x: R.Tensor((2, 8, 3, 5), "float32")):
        with R.dataflow():
            y = R.layout_transform(x, index_map=lambda n, c, h, w: (n, c // 4, h, w, c % 4))
            R.output(y)
        return y

    rx.assert_structural_equal(read, main)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("R.layout_transform(x, lambda n: n)", "gives n; expected each index"),
        ("R.layout_transform(x, lambda *n: n)", "a lambda in a text takes plain names"),
        ("R.layout_transform(x, lambda n: (m,))", "the name 'm' is not defined"),
        ("R.layout_transform(x, lambda n: (n,)) + R.add(x, n)", "'n' is not visible here: it is a name of a lambda"),
        ("(lambda f: f(f))(lambda f: f(f))", "is no function"),
        ("R.add(x, lambda n: n)", r"a lambda \(lambda n: n\) is not an expression"),
    ],
)
def test_a_function_of_indices_is_data(call: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        rx.parse(f'@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    y = {call}\n    return y\n')

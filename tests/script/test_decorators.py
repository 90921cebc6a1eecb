"""Programs written as decorated Python functions and classes."""

from __future__ import annotations

from typing import no_type_check

import numpy as np
import pytest

import regraft as rx
from regraft import ParseError, RegraftError, assert_structural_equal
from regraft.ir import DataflowVar, Function, IRModule, TensorType
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.script import tir as T
from tests.script.programs import attention, doubled_twice, gradient_adjoint, gradient_before

MODULE_SIZE = 7


def test_a_decorated_function_prints_with_every_type() -> None:
    assert doubled_twice.script() == (
        "# from regraft.script import relax as R\n"
        "\n"
        "@R.function\n"
        'def main(x: R.Tensor((16, 16), dtype="float32")) -> R.Tensor((16, 16), dtype="float32"):\n'
        "    with R.dataflow():\n"
        '        x2: R.Tensor((16, 16), dtype="float32") = R.add(x, x)\n'
        '        x4: R.Tensor((16, 16), dtype="float32") = R.add(x2, x2)\n'
        "        R.output(x4)\n"
        "    return x4"
    )


def test_the_attention_program_has_the_types_that_relax_infers() -> None:
    text = attention.script()
    for line in (
        'lv59: R.Tensor((16, 4096, 40), dtype="float32") = R.reshape(lv58, R.shape([16, 4096, 40]))',
        'lv62_transposed: R.Tensor((16, 40, 4096), dtype="float32") = R.permute_dims(lv62, axes=[0, 2, 1])',
        'lv68: R.Tensor((16, 4096, 4096), dtype="float32") = '
        'R.multiply(lv3_1, R.const(0.15811388194561005, "float32"))',
        'lv69: R.Tensor((16, 4096, 4096), dtype="float32") = R.nn.softmax(lv68, axis=-1)',
        'lv72: R.Tensor((2, 4096, 8, 40), dtype="float32") = R.permute_dims(lv71, axes=[0, 2, 1, 3])',
    ):
        assert f"        {line}\n" in text


def test_a_private_function_of_unknown_dtype_prints_as_main() -> None:
    @R.function(private=True)
    def before(
        x: R.Tensor((1024,)),
    ):
        with R.dataflow():
            y = R.add(x, x)
            out = R.add(R.const(1.0), y)
            R.output(out)
        return out

    assert before.is_private
    assert before.script() == (
        "# from regraft.script import relax as R\n"
        "\n"
        "@R.function(private=True)\n"
        "def main(x: R.Tensor((1024,))) -> R.Tensor((1024,)):\n"
        "    with R.dataflow():\n"
        "        y: R.Tensor((1024,)) = R.add(x, x)\n"
        '        out: R.Tensor((1024,)) = R.add(R.const(1.0, "float32"), y)\n'
        "        R.output(out)\n"
        "    return out"
    )


def test_the_gradient_modules_hold_two_functions_and_read_back() -> None:
    assert list(gradient_adjoint) == ["main_adjoint", "main"]
    for module in (gradient_before, gradient_adjoint):
        assert_structural_equal(rx.parse(module.script()), module)
    assert repr(gradient_adjoint["main_adjoint"].ret_ty) == (
        'R.Tuple(R.Tensor((), dtype="float32"), '
        'R.Tuple(R.Tensor((3, 3), dtype="float32"), R.Tensor((3, 3), dtype="float32")))'
    )


def test_void_is_an_unknown_out_dtype() -> None:
    assert "out_dtype=None" in gradient_adjoint.script()


def test_nested_operators_become_one_binding_each() -> None:
    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        z = x + y * x - R.sin(-y) / 2.0
        return z

    bindings = [binding for block in main.body.blocks for binding in block]
    assert [binding.value.op.name.removeprefix("relax.") for binding in bindings] == [
        "multiply",
        "add",
        "negative",
        "sin",
        "divide",
        "subtract",
    ]
    assert bindings[-1].var.name_hint == "z"


def test_variables_of_a_dataflow_block_are_its_own_unless_output() -> None:
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        with R.dataflow():
            y = R.exp(x)
            y = R.sin(y)
            z = R.cos(y)
            R.output(y)
        return y

    inner = main.body.blocks[0].bindings
    assert [type(binding.var) is DataflowVar for binding in inner] == [True, False, True]
    assert main.body.body is inner[1].var


def test_names_of_the_python_scope_may_be_used() -> None:
    width = 5
    weight = np.arange(10, dtype="float32").reshape(2, width)
    axes = [1, 0]

    def activation(value):
        return R.nn.relu(value) * 2.0

    @R.function
    def main(x: R.Tensor((3, 2), "float32")):
        y = R.matmul(x, R.const(weight))
        z = activation(y)
        t = R.permute_dims(z, axes=[a % 2 for a in axes])
        r = R.reshape(t, R.shape([width, MODULE_SIZE - 4]))
        s = R.concat([R.sin(r) if i else r for i in range(2)], axis=0)
        return s

    assert main.ret_ty == TensorType((10, 3), "float32")
    assert_structural_equal(rx.parse(main.script()), main)


def test_a_size_of_the_python_scope_may_be_used_in_a_type() -> None:
    for width in (2, 3):

        @R.function
        def main(x: R.Tensor((width, 4), "float32")):
            return R.exp(x)

        assert main.ret_ty == TensorType((width, 4), "float32")


def test_string_sizes_and_declared_sizes_are_one_variable() -> None:
    @R.function
    def main(x: R.Tensor(("n", "m * 2"), "float32"), y: R.Tensor(("m", 4), "float32")) -> R.Tensor(("n", "m*2")):
        n = T.int64()
        m = T.int64()
        z: R.Tensor((n, m * 2), "float32") = R.exp(x)
        w = R.reshape(z, R.shape([n * m, 2]))
        return z

    n, doubled = main.params[0].ty.shape
    m = main.params[1].ty.shape[0]
    assert doubled == m * 2
    assert main.ret_ty == TensorType((n, doubled), "float32")
    assert_structural_equal(rx.parse(main.script()), main)


def test_several_sizes_may_be_declared_at_once() -> None:
    @R.function
    def main(x: R.Tensor(ndim=2, dtype="float32")):
        n, m = T.int64(), T.int64()
        y = R.match_cast(x, R.Tensor((n, m), "float32"))
        return R.reshape(y, R.shape([n * m]))

    text = main.script()
    assert "n = T.int64()" in text
    assert "R.match_cast(x, R.Tensor((n, m)" in text
    assert_structural_equal(rx.parse(text), main)


def test_functions_of_a_module_call_each_other_in_any_order() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            cls = Module
            with R.dataflow():
                y = cls.helper(x)
                z = Module.helper(y)
                R.output(z)
            return z

        @R.function(private=True)
        def helper(x: R.Tensor(("n", 3), "float32")):
            return R.exp(x)

    assert isinstance(Module, IRModule)
    assert list(Module) == ["main", "helper"]
    assert Module["helper"].is_private
    call = Module["main"].body.blocks[0].bindings[0].value
    assert call.op is Module.get_global_var("helper")
    assert call.ty == TensorType((2, 3), "float32")
    assert_structural_equal(rx.parse(Module.script()), Module)


def test_a_function_may_call_itself_if_it_states_what_it_returns() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            cls = Module
            if c:  # noqa: SIM108
                y = cls.main(c, x)
            else:
                y = x
            return y

    assert_structural_equal(rx.parse(Module.script()), Module)


def test_a_function_that_calls_itself_without_a_stated_type_is_refused() -> None:
    with pytest.raises(ParseError, match=r"'main' has a return type that depends on itself.*write it"):

        @I.ir_module
        class Module:
            @R.function
            def main(x: R.Tensor((2,), "float32")):
                return cls.main(x)


def test_classes_of_one_name_in_one_file_are_told_apart() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return R.exp(x)

    first = Module

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return R.sin(x)

    assert "R.exp" in first.script()
    assert "R.sin" in Module.script()


def test_an_empty_class_is_an_empty_module() -> None:
    @I.ir_module
    class Module:
        pass

    assert len(Module) == 0
    assert len(rx.parse(Module.script())) == 0


def test_branches_bind_one_name() -> None:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            a = R.exp(x)
            y = R.sin(a)
        else:
            y = x
        return R.add(y, y)

    text = main.script()
    assert '        y_then: R.Tensor((2,), dtype="float32") = R.sin(a)\n' in text
    assert '        y: R.Tensor((2,), dtype="float32") = y_then\n' in text
    assert_structural_equal(rx.parse(text), main)


def test_every_binding_knows_its_line() -> None:
    (binding,) = [b for block in doubled_twice.body.blocks for b in block if b.var.name_hint == "x4"]
    (origin,) = binding.var.origins
    name, _, line = origin.name.rpartition(":")
    assert origin.kind == "source"
    assert name.endswith("programs.py")
    with open(name, encoding="utf-8") as file:
        assert file.read().split("\n")[int(line) - 1].strip() == "x4 = R.add(x2, x2)"


def test_an_operators_refusal_points_at_the_line_of_the_python_file() -> None:
    with pytest.raises(ParseError, match=r"relax\.add") as caught:

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((4, 5), "float32")):
            z = R.add(x, y)
            return z

    error = caught.value
    assert error.source == __file__
    assert error.source_line.strip() == "z = R.add(x, y)"
    assert error.column == error.source_line.index("R.add") + 1
    assert isinstance(error.__cause__, rx.OpTypeError)


def test_an_annotation_that_contradicts_the_value_names_both() -> None:
    with pytest.raises(ParseError, match=r"annotation is R\.Tensor\(\(2, 4\).*the value is R\.Tensor\(\(2, 3\)"):

        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            y: R.Tensor((2, 4), "float32") = R.exp(x)
            return y


def test_a_less_precise_annotation_is_kept_on_a_result_and_not_on_a_second_name() -> None:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        y: R.Tensor(ndim=2) = R.exp(x)
        z: R.Any = y
        return z

    types = [binding.var.ty for block in main.body.blocks for binding in block]
    assert [repr(ty) for ty in types] == ["R.Tensor(ndim=2)", "R.Tensor(ndim=2)"]


def test_a_variable_hidden_by_its_dataflow_block_says_so() -> None:
    with pytest.raises(ParseError, match=r"'y' is not visible here: .* missing in its R\.output"):

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                y = R.exp(x)
                z = R.exp(y)
                R.output(z)
            return y


def test_an_error_of_the_persons_own_helper_stays_itself() -> None:
    def helper(value):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return helper(x)


def test_a_program_without_source_text_says_where_to_put_it() -> None:
    scope = {"R": R}
    with pytest.raises(RegraftError, match=r"source text of function 'main' is not available.*regraft\.parse"):
        exec("@R.function\ndef main(x: R.Tensor((2,), 'float32')):\n    return x\n", scope)


def test_a_type_outside_of_a_program_has_sizes_of_its_own() -> None:
    first, second = R.Tensor(("n", "n")), R.Tensor(("n",))
    assert first.shape[0] is first.shape[1]
    assert first.shape[0] is not second.shape[0]


def test_a_function_of_the_standard_kind_is_a_function() -> None:
    assert isinstance(doubled_twice, Function)
    assert doubled_twice.name == "main"


def test_a_name_that_r_lacks_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"R\.permute_dim does not exist; did you mean R\.permute_dims"):
        getattr(R, "permute_dim")  # noqa: B009


def test_a_program_may_say_that_checkers_of_types_leave_it_alone() -> None:
    @R.function
    @no_type_check
    def main(x: R.Tensor((2,), "float32")):
        @R.function
        @no_type_check
        def inner(y: R.Tensor((2,), "float32")):
            return R.exp(y)

        return inner(x)

    text = "from typing import no_type_check\n" + main.script().replace("@R.function", "@R.function\n@no_type_check", 1)
    rx.assert_structural_equal(rx.parse(text), main)

"""Forms of the language that Relax takes are taken here, and those that it refuses are refused."""

from __future__ import annotations

import pytest

import regraft as rx
from regraft.script import ParseError, from_source

from .beside_tvm import read_back, theirs

pytestmark = pytest.mark.filterwarnings("ignore")

TAKEN = {
    "an outside function of the module": """
@I.ir_module
class Module:
    my_ext = R.ExternFunc("my_ext")

    @R.function
    def main(a: R.Tensor((10, 10), "float32")) -> R.Tensor((10, 10), "float32"):
        return a
""",
    "effects that close both branches": """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        if c:
            R.print(x, format="a {}")
        else:
            R.print(x, format="b {}")
        return x
""",
    "a string for an outside function": """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        z = R.call_packed("vm.builtin.copy", x, "abc", ty_args=R.Tensor((3,), "float32"))
        return z
""",
    "a tuple in a tuple for an outside function that writes": """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        w = R.call_dps_packed("extern_func", (x, (x, x)), R.Tensor((3, 4), "float32"))
        return w
""",
    "an outside function that writes a tensor of any dtype": """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4)):
        w = R.call_dps_packed("extern_func", (x,), R.Tensor((3, 4)))
        return w
""",
    "a local function that calls itself": """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        @R.function
        def loop(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            c = R.less(i, R.const(10, "int32"))
            if c:
                j = R.add(i, R.const(1, "int32"))
                r = loop(j)
            else:
                r = i
            return r

        g = loop(x)
        return g
""",
    "a return in the dataflow block": """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
            return y
""",
}
_HEAD = """# from tvm.script import ir as I
# from tvm.script import relax as R
# from tvm.script import tirx as T
"""
REFUSED = {
    "a value that is lost": """
@R.function
def main(x: R.Tensor((3,), "float32")):
    R.add(x, x)
    return x
""",
    "a private function with a public name": """
@R.function(private=True)
def main(x: R.Tensor((3,), "float32")):
    R.func_attr({"global_symbol": "f"})
    return x
""",
    "a size that nothing defines": """
@R.function
def main(x: R.Tensor((3,), "float32")):
    m = T.int64()
    y: R.Tensor((m,), "float32") = R.add(x, x)
    return y
""",
    "an effect in a pure function": """
@R.function
def main(x: R.Tensor((3,), "float32")):
    y = R.print(x, format="{}")
    return x
""",
    "no return": """
@R.function
def main(x: R.Tensor((3,), "float32")):
    y = R.add(x, x)
""",
    "a value of the dataflow block after it": """
@R.function
def main(x: R.Tensor((3,), "float32")):
    with R.dataflow():
        y = R.add(x, x)
        z = R.add(y, y)
        R.output(z)
    return y
""",
    "two lists of outputs": """
@R.function
def main(x: R.Tensor((3,), "float32")):
    with R.dataflow():
        y = R.add(x, x)
        R.output(y)
        R.output(y)
    return y
""",
    "a branch in a dataflow block": """
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
    with R.dataflow():
        if c:
            y = R.add(x, x)
        else:
            y = R.add(x, x)
        R.output(y)
    return y
""",
}


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_a_form_that_relax_takes_is_taken_and_means_the_same(text: str) -> None:
    here = from_source(text)
    rx.assert_structural_equal(here, read_back(theirs(text)))
    rx.assert_structural_equal(rx.parse(here.script()), here)


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_form_that_relax_refuses_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        from_source(_HEAD + text)
    with pytest.raises(Exception):  # noqa: B017, PT011 - TVM's own class for each of these is another one
        theirs(_HEAD + text)


def test_a_module_keeps_outside_functions_through_edits_and_passes() -> None:
    module = rx.IRModule({"ext": rx.ExternFunc("outside.twice")})
    module["other"] = rx.ExternFunc("outside.other")
    assert isinstance(module["ext"], rx.ExternFunc)
    assert module["other"].global_symbol == "outside.other"
    module.update(from_source(TAKEN["a return in the dataflow block"]))
    changed = rx.transform.Sequential([rx.transform.DeadCodeElimination(), rx.transform.CanonicalizeBindings()])(module)
    assert "ext" in changed
    assert 'other = R.ExternFunc("outside.other")' in changed.script()


def test_a_name_of_an_outside_function_is_called_when_the_program_runs() -> None:
    module = from_source("""
@I.ir_module
class Module:
    twice = R.ExternFunc("tests.relax.twice")

    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")) -> R.Object:
        y = cls.twice(x)
        return y
""")
    rx.register_func("tests.relax.twice", lambda x: x * 2, override=True)
    found = rx.build(module, target="numpy")["main"]([1.0, 2.0, 3.0])
    assert list(found) == [2.0, 4.0, 6.0]


def test_types_are_printed_where_values_do_not_say_them() -> None:
    function = from_source(TAKEN["a string for an outside function"])["main"]
    assert "z: R.Tensor" in function.script()
    assert "z = R.call_packed" in function.script(show_all_ty=False)
    assert "z = R.call_packed" in function.script(extra_config={"relax.show_all_ty": False})
    rx.assert_structural_equal(rx.parse(function.script(show_all_ty=False)), function)
    assert "\n  z" in function.script(indent_spaces=2)

"""Analyses and checks of form answer as Relax's do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, Final

import pytest

from regraft.analysis import BaseCheckResult

from .questions import HERE, THERE, answer, assert_same_answer

pytestmark = pytest.mark.filterwarnings("ignore")

_BASE: Final = """
def main(x: f32[4, 5], y: f32[5]) -> f32[4, 5]:
    with flow:
        lv0 = R.add(x, y)
        lv1 = R.multiply(lv0, lv0)
        gv0 = R.nn.relu(lv1)
        R.output(gv0)
    gv1 = R.exp(gv0)
    return gv1
"""
_SIZES: Final = """
def main(x: f32["m"], s: R.Shape(["k", "m"])) -> R.Object:
    m = T.int64()
    n = T.int64()
    y = R.match_cast(x, R.Tensor((n,), "float32"))
    z = R.reshape(y, R.shape([n, 1]))
    return z
"""
_WEIGHTS: Final = """
def main(x: f32["n"], w: f32["m"], v: f32["m"]) -> f32["m"]:
    R.func_attr({"num_input": 1})
    n = T.int64()
    m = T.int64()
    with flow:
        a = R.add(w, v)
        s = R.full(R.shape([n]), R.const(1.0, "float32"), dtype="float32")
        t = R.full(R.shape([m]), R.const(1.0, "float32"), dtype="float32")
        p = (a, t)
        f = p[0]
        R.output(a)
    return a
"""


def _names(variables: Iterable[Any]) -> list[str]:
    return sorted(variable.name for variable in variables)


_PLACES: Final[dict[str, Callable[[Any], Any]]] = {
    "function": lambda function: function,
    "body": lambda function: function.body,
    "value": lambda function: function.body.blocks[0].bindings[0].value,
}


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("question", ["free_vars", "bound_vars", "all_vars", "used_vars", "all_global_vars"])
def test_variables_are_those_of_relax(question: str, place: str) -> None:
    def asked(package: Any) -> Any:
        return _names(getattr(package.analysis, question)(_PLACES[place](package.read(_BASE)["main"])))

    assert_same_answer(asked)


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("question", ["free_symbolic_vars", "defined_symbolic_vars"])
def test_sizes_are_those_of_relax(question: str, place: str) -> None:
    def asked(package: Any) -> Any:
        return _names(getattr(package.analysis, question)(_PLACES[place](package.read(_SIZES)["main"])))

    assert_same_answer(asked)


ASKED: Final[dict[str, Callable[[Any], Any]]] = {
    "who uses what": lambda p: p.analysis.udchain(p.read(_BASE)["main"].body.blocks[0]),
    "bindings by name": lambda p: {
        name: [binding.var for binding in found]
        for name, found in p.analysis.name_to_binding(p.read(_BASE)["main"]).items()
    },
    "what variables are bound to": lambda p: {
        var.name: value.op.name for var, value in p.analysis.get_var2val(p.read(_BASE)["main"]).items()
    },
    "what is known before the inputs": lambda p: p.analysis.computable_at_compile_time(p.read(_WEIGHTS)["main"]),
    "nothing is known without weights": lambda p: p.analysis.computable_at_compile_time(p.read(_BASE)["main"]),
}


@pytest.mark.parametrize("title", ASKED)
def test_a_question_has_relaxs_answer(title: str) -> None:
    assert_same_answer(ASKED[title])


# --- effects, unused values, recursion

_EFFECTS: Final = {
    "a print": """
@R.function(pure=False)
def main(x: f32[3]) -> f32[3]:
    y = R.print(x, format="{}")
    return x
""",
    "a print in a function that is not called": """
@R.function(pure=False)
def main(x: f32[3]) -> f32[3]:
    @R.function(pure=False)
    def nested(y: f32[3]) -> f32[3]:
        q = R.print(y, format="{}")
        return y
    z = R.add(x, x)
    return z
""",
    "a print in a function that is called": """
@R.function(pure=False)
def main(x: f32[3]) -> f32[3]:
    @R.function(pure=False)
    def nested(y: f32[3]) -> f32[3]:
        q = R.print(y, format="{}")
        return y
    z = nested(x)
    return z
""",
    "none": _BASE,
}


@pytest.mark.parametrize("title", _EFFECTS)
def test_effects_are_found_where_relax_finds_them(title: str) -> None:
    def asked(package: Any) -> Any:
        function = package.read(_EFFECTS[title])["main"]
        return [package.analysis.contains_impure_call(part) for part in (function, function.body)]

    assert_same_answer(asked)


_UNUSED: Final = {
    "in a dataflow block": """
def main(x: f32[3]) -> f32[3]:
    with flow:
        a = x
        b = R.add(x, x)
        c = R.add(b, x)
        R.output(a)
    return a
""",
    "outside functions that write": """
def main(x: f32[3]) -> f32[3]:
    with flow:
        a = x
        b = R.call_dps_packed("f", (x,), R.Tensor((3,), dtype="float32"))
        c = R.call_dps_packed("g", (b,), R.Tensor((3,), dtype="float32"))
        R.output(a)
    return a
""",
    "a pure and an impure call": """
@R.function(pure=False)
def main(x: f32[3]) -> f32[3]:
    a = R.call_pure_packed("f", x, ty_args=R.Tensor((3,), dtype="float32"))
    b = R.call_packed("g", x, ty_args=R.Tensor((3,), dtype="float32"))
    c = R.exp(x)
    return x
""",
    "in branches": """
def main(c: b1[], x: f32[3]) -> f32[3]:
    if c:
        a = R.add(x, x)
        b = R.exp(x)
        r = b
    else:
        d = R.exp(x)
        r = x
    return r
""",
    "an output that nothing needs": """
def main(x: f32[3]) -> f32[3]:
    with flow:
        a = x
        b = R.add(x, x)
        R.output(a)
    z = R.add(a, a)
    with flow:
        u = R.exp(x)
        w = R.exp(z)
        R.output(w, u)
    return z
""",
}


@pytest.mark.parametrize("title", _UNUSED)
def test_unused_values_go_as_in_relax(title: str) -> None:
    assert_same_answer(lambda package: package.analysis.remove_all_unused(package.read(_UNUSED[title])["main"]))


def _calling(calls: dict[str, str]) -> str:
    """A module of functions that call those that are named beside them."""
    rows: list[str] = []
    for name, called in calls.items():
        rows.append(f"@R.function\ndef {name}(x: R.Object) -> R.Object:")
        rows.extend(
            f"    y{i}: R.Object = Module.{other}({f'y{i - 1}' if i else 'x'})" for i, other in enumerate(called)
        )
        rows.append(f"    return {f'y{len(called) - 1}' if called else 'x'}\n")
    return "\n".join(rows)


@pytest.mark.parametrize(
    "calls",
    [
        {"a": ""},
        {"a": "a"},
        {"a": "b", "b": "a"},
        {"a": "b", "b": "c", "c": "a", "d": "a"},
        {"a": "b", "b": "a", "c": "d", "d": "c"},
        {"a": "bc", "b": "a", "c": "a"},
        {"a": "b", "b": "cd", "c": "b", "d": "a"},
        {"a": "ab", "b": "ab"},
        {"a": "b", "b": "c", "c": "b"},
    ],
    ids=str,
)
def test_groups_of_recursive_functions_are_those_of_relax(calls: dict[str, str]) -> None:
    def asked(package: Any) -> Any:
        groups = package.analysis.detect_recursion(package.read(_calling(calls)))
        return sorted(sorted(var.name_hint for var in group) for group in groups)

    assert_same_answer(asked)


# --- types


def _types(package: Any) -> dict[str, Any]:
    rx = package.relax
    m, n = (package.T.Var(name, "int64") for name in "mn")
    tensor, shape, function = rx.TensorType, rx.ShapeType, rx.FuncType
    matrix = tensor([m, n], "float32")
    return {
        "object": rx.ObjectType(),
        "int32": package.PrimType("int32"),
        "int64": package.PrimType("int64"),
        "shape of 2": shape(ndim=2),
        "shape": shape(),
        "1, m": shape([1, m]),
        "1, 2": shape([1, 2]),
        "1, n": shape([1, n]),
        "tensor": tensor(dtype="float32"),
        "rank 2": tensor(ndim=2, dtype="float32"),
        "rank 3": tensor(ndim=3, dtype="int32"),
        "m by n": matrix,
        "2 by 2": tensor([2, 2], "float32"),
        "m by 2": tensor([m, 2], "float32"),
        "ints": tensor([m, 2], "int32"),
        "pair": rx.TupleType([matrix, rx.ObjectType()]),
        "other pair": rx.TupleType([tensor([m, 2], "float32"), shape([1, m])]),
        "wide pair": rx.TupleType([matrix, shape(ndim=2)]),
        "function": function([matrix], tensor([n, m], "float32")),
        "wide function": function([tensor(ndim=2, dtype="float32")], tensor(ndim=2, dtype="float32")),
    }


def test_how_two_types_relate_is_what_relax_says() -> None:
    def asked(package: Any) -> Any:
        types = _types(package)
        return {
            f"{a} of {b}": int(package.analysis.type_base_check(types[a], types[b]))
            for a, b in product(types, repeat=2)
        }

    assert_same_answer(asked)


def test_the_common_type_of_two_is_relaxs() -> None:
    def asked(package: Any) -> Any:
        types = _types(package)
        return {f"{a}, {b}": package.analysis.type_lca(types[a], types[b]) for a, b in product(types, repeat=2)}

    assert_same_answer(asked)


@pytest.mark.parametrize(
    "question",
    [
        "get_static_type",
        "erase_to_well_defined",
        "tir_vars_in_type",
        "definable_tir_vars_in_type",
        "collect_non_negative_expressions",
    ],
)
def test_a_question_about_a_type_has_relaxs_answer(question: str) -> None:
    def asked(package: Any) -> Any:
        return {name: getattr(package.analysis, question)(ty) for name, ty in _types(package).items()}

    assert_same_answer(asked)


def test_sizes_that_are_known_are_put_into_a_type_as_in_relax() -> None:
    def asked(package: Any) -> Any:
        rx, erase = package.relax, package.analysis.erase_to_well_defined
        m, n, k = (package.T.Var(name, "int64") for name in "mnk")
        ty = rx.TensorType([m, n + 1, k], "float32")
        function = rx.FuncType([ty], ty)
        return [
            erase(ty, {m: m}),
            erase(ty, {m: m, n: n, k: n + 2}),
            erase(rx.TupleType([ty, rx.ShapeType([m, n])]), {m: n, n: n}),
            erase(function, {n: n}),
        ]

    assert_same_answer(asked)


def test_the_type_of_a_call_is_derived_as_in_relax() -> None:
    def asked(package: Any) -> Any:
        rx = package.relax
        m, n = (package.T.Var(name, "int64") for name in "mn")
        function = rx.FuncType([rx.TensorType([m, n], "float32")], rx.TensorType([m * 2, n], "float32"))
        args = [rx.TensorType([10, 11], "float32"), rx.TensorType([n, m], "float32"), rx.TensorType(ndim=2)]
        calls = [rx.Call(rx.Var("f", function), [rx.Var("x", ty)]) for ty in args]
        return [package.analysis.derive_call_ret_type(function, call, package.BlockBuilder()) for call in calls]

    assert_same_answer(asked)


def test_a_function_of_any_matrix_holds_for_one_of_named_sizes() -> None:
    types = _types(HERE)
    grade = HERE.analysis.type_base_check(types["wide function"], types["function"])
    assert grade is BaseCheckResult.PASS


# --- form


def _function(package: Any, values: list[Callable[[Any, Any], Any]], *, flows: bool) -> Any:
    """A function of ``x`` that binds each of ``values``, made of ``x`` and what was bound before."""
    rx = package.relax
    x = _matrix(package, "x")
    bound: list[Any] = [x]
    bindings: list[Any] = []
    for index, value in enumerate(values):
        var, made = value(package, bound)
        bindings.append(rx.VarBinding(var or rx.Var(f"v{index}", x.ty), made))
        bound.append(bindings[-1].var)
    body = rx.SeqExpr([(rx.DataflowBlock if flows else rx.BindingBlock)(bindings)], bound[-1])
    if package is THERE:
        rx.expr._update_type(body, bound[-1].ty)  # TVM's own nodes have no types until they are normalized
    return rx.Function([x], body, rx.TensorType(ndim=2, dtype="float32"))


def _add(package: Any, one: Any, other: Any) -> Any:
    call = package.relax.Call(package.Op.get("relax.add"), [one, other])
    return call if package is HERE else package.BlockBuilder().normalize(call)


def _matrix(package: Any, name: str, kind: str = "Var") -> Any:
    return getattr(package.relax, kind)(name, package.relax.TensorType([2, 3], "float32"))


_ROWS: Final[dict[str, tuple[bool, list[Callable[[Any, Any], Any]]]]] = {
    "rows": (False, [lambda p, b: (None, _add(p, b[0], b[0])), lambda p, b: (None, _add(p, b[1], b[0]))]),
    "a variable that nothing binds": (False, [lambda p, b: (None, _add(p, b[0], _matrix(p, "free")))]),
    "a parameter that is bound again": (False, [lambda p, b: (b[0], _add(p, b[0], b[0]))]),
    "a variable of the block in a plain one": (
        False,
        [lambda p, b: (_matrix(p, "lv", "DataflowVar"), _add(p, b[0], b[0])), lambda p, b: (None, _add(p, b[1], b[1]))],
    ),
    "a local variable as the result": (
        True,
        [lambda p, b: (_matrix(p, "lv", "DataflowVar"), _add(p, b[0], b[0]))],
    ),
    "an operand that is a call": (
        False,
        [lambda p, b: (None, p.relax.Call(p.Op.get("relax.add"), [b[0], _add(p, b[0], b[0])]))],
    ),
}


@pytest.mark.parametrize("title", _ROWS)
def test_rows_are_well_formed_where_relax_finds_them_so(title: str) -> None:
    flows, values = _ROWS[title]

    def asked(package: Any) -> Any:
        module = package.ir.IRModule({"main": _function(package, values, flows=flows)})
        return package.analysis.check_well_formed(module)

    assert_same_answer(asked)


def test_a_variable_of_two_functions_is_ill_formed() -> None:
    def asked(package: Any) -> Any:
        shared, one, other = (_matrix(package, name) for name in "abc")
        builder = package.BlockBuilder()
        for name, second in (("f", one), ("g", other)):
            with builder.function(name, [shared, second]):
                builder.emit_func_output(builder.emit(package.op.add(shared, second)))
        return package.analysis.check_well_formed(builder.get())

    assert_same_answer(asked)


_TEXTS: Final = {
    "a function that calls another": """
def main(x: f32[4]) -> f32[4]:
    y = R.add(x, R.const(1.0, "float32"))
    return y

@R.function
def other(x: f32[4]) -> f32[4]:
    y = Module.main(x)
    return y
""".replace("def main", "@R.function\ndef main", 1),
    "a cast that defines a size": """
def main(x: R.Tensor) -> R.Tensor:
    n = T.int64()
    z = R.match_cast(R.shape_of(x), R.Shape([n, n]))
    return x
""",
    "a function inside": """
@R.function
def main(x: f32[4]) -> f32[4]:
    @R.function
    def inner(y: f32[4]) -> f32[4]:
        z = R.add(y, y)
        return z
    w = inner(x)
    return w
""",
    "effects under force_pure": """
@R.function
def main(x: f32[4]) -> f32[4]:
    R.func_attr({"relax.force_pure": True})
    y = R.print(x, format="{}")
    return x
""",
}


@pytest.mark.parametrize("title", _TEXTS)
def test_what_relax_finds_well_formed_is_well_formed(title: str) -> None:
    assert_same_answer(lambda package: package.analysis.check_well_formed(package.read(_TEXTS[title])))
    assert answer(lambda package: package.analysis.check_well_formed(package.read(_TEXTS[title])), THERE) is True

"""A text is data: whatever it says, reading it runs nothing, ends soon, and fails with one clear error."""

from __future__ import annotations

import time

import pytest

import regraft as rx
from regraft import ParseError

HEAD = "@R.function\ndef main(x: R.Tensor((2, 3), 'float32')):\n"


def refused(text: str | bytes) -> ParseError:
    begin = time.perf_counter()
    with pytest.raises(ParseError) as caught:
        rx.parse(text)
    assert time.perf_counter() - begin < 20
    assert "\n" in str(caught.value)
    return caught.value


def returning(expression: str) -> str:
    return f"{HEAD}    return {expression}\n"


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("R.add.__globals__", "can use attributes of R, I, T and cls only"),
        ("R.add(x, x).__class__", "can use attributes of R, I, T and cls only"),
        ("x.ty.__init__.__globals__", "can use attributes of R, I, T and cls only"),
        ("R.__builtins__", "R.__builtins__ does not exist"),
        ("R.builtins", "R.builtins does not exist"),
        ("R.register_name('add', 5)", "R.register_name does not exist"),
        ("R.nn.activation", "R.nn.activation does not exist"),
        ("T.builtins.eval('1')", "T.builtins does not exist"),
        ("__import__('os').getcwd()", "'__import__' is not defined"),
        ("eval('1')", "'eval' is not defined"),
        ("open('/etc/passwd')", "'open' is not defined"),
        ("__name__", "'__name__' is not defined"),
        ("[y for y in (x, x)]", "a comprehension"),
        ("{y: y for y in (x, x)}", "a comprehension"),
        ("(y for y in (x, x))", "a comprehension"),
        ("f'{x}'", "an f-string"),
        ("lambda y: y", "a lambda"),
        ("(y := x)", "an assignment inside an expression"),
        ("R.add(*(x, x))", "starred"),
        ("R.add(x, x, **{})", r"\*\*"),
        ("x if x else x", "a conditional expression"),
        ("x and x", "R.logical_and"),
        ("not x", "R.logical_not"),
        ("x == x", "R.equal"),
        ("x < x < x", "two values at a time"),
        ("1 < 2", "plain numbers"),
        ("...", "'...'"),
        ("b'bytes'", "bytes"),
        ("(await x)", "await"),
        ("x[1:2]", "a slice"),
        ("{1, 2}", "a set"),
        ("9**9**9", "not defined on sizes"),
        ("2**63 * 2**63", "not defined on sizes"),
        ("18446744073709551616", "beyond 64 bits"),
        ("4611686018427387904 * 4611686018427387904", "beyond 64 bits"),
        ("1 << 100000", "not defined on sizes"),
        ("'a' * 1000000000", "arithmetic on 'a'"),
        ("[0] * 1000000000", "arithmetic on"),
        ("1 // 0", "division by zero"),
        ("R.const('0x1', 'float32')", '"inf", "-inf", "nan"'),
        ("R.const([[1], [1, 2]], 'int32')", "cannot make a tensor"),
        ("R.add(x)", "TypeError"),
        ("R.add(x, R)", "is not an expression"),
        ("R.add", "is not a value of the language"),
        ("R.nope(x)", "R.nope does not exist"),
        ("x(x)", "no function"),
        ("cls.f(x)", "'cls' is not defined"),
        ("metadata['constants'][0]", "no metadata section"),
    ],
)
def test_what_is_no_part_of_the_language_is_refused_by_name(expression: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason) as caught:
        rx.parse(returning(expression))
    assert caught.value.line == 3
    assert caught.value.source_line == f"    return {expression}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import os\n" + returning("x"), "imports of R, I and T"),
        ("from os import path\n" + returning("x"), "cannot import"),
        ("from tvm import relax\n" + returning("x"), "cannot import"),
        ("print('hello')\n" + returning("x"), "may hold only one program"),
        ("@eval\n" + returning("x"), "'eval' is not defined"),
        ("@R.add\n" + returning("x"), r"only decorator of a function"),
        ("@R.function\nclass Module:\n    pass\n", "only decorator of a class"),
        ("@I.ir_module\nclass Module(object):\n    pass\n", "no base classes"),
        ("@I.ir_module\nclass Module:\n    x = 5\n", "contains only functions"),
        ("@I.ir_module\nclass Module:\n    def f(x):\n        return x\n", "not decorated with @R.function"),
        ("@R.function\ndef main(x: R.Tensor = 5):\n    return x\n", "no default value"),
        ("@R.function\ndef main(*x: R.Tensor):\n    return x\n", "parameters are plain names"),
        ("@R.function\ndef main(x):\n    return x\n", "needs a type"),
        ("@R.function\ndef main(x: R.Tensor, x: R.Tensor):\n    return x\n", "two parameters are named 'x'"),
        ("@R.function\ndef main(x: 5):\n    return x\n", "expected a type"),
        (HEAD + "    for i in x:\n        pass\n    return x\n", "'for' is not a statement"),
        (HEAD + "    del x\n    return x\n", "'delete' is not a statement"),
        (HEAD + "    global x\n    return x\n", "'global' is not a statement"),
        (HEAD + "    x.y = x\n    return x\n", "only a name"),
        (HEAD + "    import os\n    return x\n", "'import' is not a statement"),
        (HEAD + "    pass\n", "must end with a return"),
        ("", "the text holds no program"),
        ("metadata = open('x')\n" + returning("x"), "metadata is a dictionary"),
    ],
)
def test_statements_that_are_no_part_of_a_program_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        rx.parse(text)


def test_ten_megabytes_of_brackets_are_refused_at_once() -> None:
    assert "nested" in str(refused(returning("(" * 10_000_000)))
    assert "nested" in str(refused(returning("[" * 5_000_000 + "]" * 5_000_000)))


@pytest.mark.parametrize(
    "expression",
    [
        "x" + "[0]" * 100_000,
        "x" + " + x" * 100_000,
        "-" * 100_000 + "x",
        "x" + ".a" * 100_000,
        "x" + "()" * 100_000,
        "x" + "**x" * 100_000,
        "x" + "[0]" * 300,
        "x" + " + x" * 300,
    ],
    ids=lambda expression: expression[:8],
)
def test_chains_that_are_deep_without_brackets_are_refused(expression: str) -> None:
    assert "nested" in str(refused(returning(expression)))


def test_a_hundred_thousand_elifs_are_refused() -> None:
    branches = "    if x:\n        y = x\n" + "    elif x:\n        y = x\n" * 100_000
    refused(f"{HEAD}{branches}    else:\n        y = x\n    return y\n")


def test_a_thousand_elifs_are_refused_or_read_without_a_crash() -> None:
    head = "@R.function\ndef main(c: R.Tensor((), 'bool'), x: R.Tensor((2,), 'float32')):\n"
    branches = "    if c:\n        y = x\n" + "    elif c:\n        y = x\n" * 1000
    assert "nested" in str(refused(f"{head}{branches}    else:\n        y = x\n    return y\n"))


def test_sizes_that_would_explode_are_refused() -> None:
    names = [f"a{i}" for i in range(80)]
    shape = ", ".join(f'"{name}"' for name in names)
    product = " * ".join(f"({names[i]} + {names[i + 1]})" for i in range(0, 80, 2))
    text = f"@R.function\ndef main(x: R.Tensor(({shape})), y: R.Tensor(('{product}',))):\n    return x\n"
    assert "more than 256 terms" in str(refused(text))


def test_nul_bytes_and_text_that_is_not_utf8_point_at_their_place() -> None:
    error = refused(returning("x\0"))
    assert (error.line, error.column) == (3, 13)
    error = refused(returning("x").encode() + b"# \xff\n")
    assert (error.line, error.column) == (4, 3)
    assert "UTF-8" in str(error)
    refused(returning("'\ud800'"))


def test_a_line_of_ten_million_characters_is_quoted_in_part() -> None:
    error = refused(returning("nope" + " " * 10_000_000 + "x"))
    assert len(str(error)) < 1000
    error = refused(returning("'" + "a" * 10_000_000))
    assert len(str(error)) < 1000


def test_many_unfinished_strings_take_linear_time() -> None:
    refused(returning('"""\\' * 200_000))
    refused(returning("'" * 1_000_001))
    refused('"\\' * 1_000_000)


def test_a_number_of_a_million_digits_is_refused() -> None:
    refused(returning("9" * 1_000_000))


def test_damaged_constants_are_refused() -> None:
    def with_constant(entry: str) -> str:
        return returning("metadata['constants'][0]") + 'metadata = {"constants": [' + entry + "]}\n"

    assert "damaged" in str(refused(with_constant('("float32", [1], "!!!!")')))
    assert "takes 400 bytes" in str(refused(with_constant('("float32", [100], "AAAA")')))
    assert "takes" in str(refused(with_constant('("float32", [9223372036854775807, 4], "")')))
    assert "neither 0 nor 1" in str(refused(with_constant('("bool", [3], "AAEC")')))
    assert "file of weights" in str(refused(with_constant('("float32", [3], 64)')))
    assert "a constant is written" in str(refused(with_constant('("nope", [3], "AAEC")')))
    assert "a constant is written" in str(refused(with_constant('open("x")')))
    assert "list of ints" in str(refused(with_constant('("int8", [x], "AAEC")')))
    assert "there is no constant 0" in str(refused(with_constant("")))


def test_damaged_metadata_of_tvm_is_refused() -> None:
    for json_text in ("{", "[]", '{"nodes": []}', '{"nodes": [5], "root_index": 0}', "[" * 100_000):
        refused(f"metadata = tvm.ir.load_json('''{json_text}''')\n{returning('x')}")


def test_the_first_fault_is_pointed_at_by_line_and_column() -> None:
    text = (
        "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2, 3)), y: R.Tensor((4, 5))):\n"
        "        a = R.exp(x)\n        b = R.add(a, R.add(x, y))\n        return nope\n"
    )
    with pytest.raises(ParseError) as caught:
        rx.parse(text, "model.relax")
    error = caught.value
    assert (error.source, error.line, error.column) == ("model.relax", 6, 22)
    assert str(error).startswith("model.relax:6:22: relax.add: argument x2 is R.Tensor((4, 5)); expected a shape")
    assert str(error).endswith(f"\n    {error.source_line}\n    {' ' * 21}^")
    assert isinstance(error.__cause__, rx.OpTypeError)


def test_columns_count_characters_not_bytes() -> None:
    with pytest.raises(ParseError) as caught:
        rx.parse(returning('(R.str("éé"), nope)'))
    assert caught.value.column == len('    return (R.str("éé"), ') + 1

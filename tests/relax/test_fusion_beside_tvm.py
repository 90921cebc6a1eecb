"""FuseOpsByPattern and MergeCompositeFunctions make the functions that Relax's make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from .beside_tvm import PROGRAMS, Program, assert_alike, programs_of

pytestmark = pytest.mark.filterwarnings("ignore")


class _Words:
    """The pattern language of one package, with the patterns that are used again."""

    def __init__(self, package: Any) -> None:
        self.dpl = package.dpl
        self.transform = package.transform

    def any(self) -> Any:
        return self.dpl.wildcard()

    def op(self, name: str, *operands: Any) -> Any:
        return self.dpl.is_op(f"relax.{name}")(*operands)

    def product(self) -> Any:
        return self.op("matmul", self.any(), self.any())


def _biased_or_not(words: _Words) -> list[Any]:
    product = words.product()
    linear = product | words.op("add", product, words.any())
    return [("x.mm", words.op("nn.relu", linear) | linear)]


def _of_backends(*names: str) -> Callable[[_Words], list[Any]]:
    def patterns(words: _Words) -> list[Any]:
        relu, gelu, add = names
        return [
            (relu, words.op("nn.relu", words.any())),
            (gelu, words.op("nn.gelu", words.any())),
            (add, words.op("add", words.any(), words.any())),
        ]

    return patterns


def _checked(check: Callable[[Any], bool]) -> Callable[[_Words], list[Any]]:
    def patterns(words: _Words) -> list[Any]:
        product = words.product()
        relu = words.op("nn.relu", product)
        return [("x.mmr", relu, {"m": product, "r": relu}, check)]

    return patterns


def _used_once(context: Any) -> bool:
    variable = context.value_to_bound_var[context.annotated_expr["m"]]
    return len(context.var_usages[variable]) == 1 and len(context.matched_bindings) > 0


def _with_attributes(words: _Words) -> list[Any]:
    product = words.product()
    return [words.transform.FusionPattern("x.mm", product, {"m": product}, None, lambda _: {"note": "hi"})]


def _split(words: _Words) -> list[Any]:
    whole = words.op("split", words.any())
    fields = [words.dpl.is_tuple_get_item(whole, index) for index in (0, 1)]
    return [("x.split", words.op("add", *fields))]


def _diamond(words: _Words) -> list[Any]:
    top = words.op("exp", words.any())
    return [("x.d", words.op("add", words.op("nn.relu", top), words.op("nn.gelu", top)))]


PATTERNS: Final[dict[str, Callable[[_Words], list[Any]]]] = {
    "conv_relu": lambda w: [("dnnl.conv2d_relu", w.op("nn.relu", w.op("nn.conv2d", w.any(), w.any())))],
    "mm": lambda w: [("x.matmul", w.product())],
    "mm_relu_or": lambda w: [("x.mm", w.op("nn.relu", product := w.product()) | product)],
    "mm_or_relu": lambda w: [("x.mm", (product := w.product()) | w.op("nn.relu", product))],
    "mm_bias_or": _biased_or_not,
    "two": lambda w: [("x.mmr", w.op("nn.relu", w.product())), ("x.mm", w.product())],
    "unary": _of_backends("compiler_A.relu", "compiler_A.gelu", "compiler_A.add"),
    "unaryB": _of_backends("compiler_A.relu", "compiler_B.gelu", "compiler_A.add"),
    "const": lambda w: [("x.mul", w.op("multiply", w.any(), w.dpl.is_const()))],
    "mul": lambda w: [("x.mul", w.op("multiply", w.any(), w.any()))],
    "concat": lambda w: [("x.concat", w.op("concat", w.dpl.is_tuple([w.any(), w.any()])))],
    "split": _split,
    "parts": lambda w: [("x.split", w.op("split", w.any()))],
    "check_no": _checked(lambda context: context.annotated_expr["m"].op.name != "relax.matmul"),
    "check_users": _checked(_used_once),
    "fp_attrs": _with_attributes,
    "attention": lambda w: [("x.attn", w.op("nn.attention", w.any(), w.any(), w.any()))],
    "shapep": lambda w: [("x.reshape", w.op("reshape", w.any(), w.any()))],
    "act": lambda w: [
        (
            "x.conv_bias_relu",
            w.dpl.make_fused_bias_activation_pattern("relax.nn.conv2d", with_bias=True, activation="relax.nn.relu"),
        )
    ],
    "diamond": _diamond,
}

_ALL = [
    pytest.param(program, id=f"{path.stem}: {program.title}")
    for path in sorted((PROGRAMS / "fusion").glob("*.txt"))
    for program in programs_of(path)
]


@pytest.mark.parametrize("program", _ALL)
def test_a_program_is_fused_as_in_relax(program: Program) -> None:
    def change(package: Any, module: Any) -> Any:
        words = _Words(package)
        return program.run(package, module, **{name: patterns(words) for name, patterns in PATTERNS.items()})

    assert_alike(program.text, change)

"""Calls of operators drawn at random, typed here and by TVM.

`python -m tests.relax.operator_sweep 20000` prints how many calls of each operator are refused by one side only, or are
of another type here, with one example each. Operands have random ranks, sizes, dtypes and gaps in what is known.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import tvm
from tvm import relax as theirs
from tvm.script import from_source

import regraft as rx
from regraft.ir import RegraftError
from regraft.ir.types import is_subtype

_DTYPES: Final = ("float32", "float32", "float32", "float16", "int32", "int64", "bool")
_SIZES: Final = ("n", "m", "k", "a0", "b0", "c0", "d0", "h", "w", "o")
_HEADER: Final = "".join(f'{size} = TypeVar("{size}")\n' for size in _SIZES) + "\n@R.function(private=True)\n"
_OPERANDS: Final = "abcdefg"

_UNARY = """
abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf exp floor isfinite isinf isnan log
logical_not negative round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc nn.relu nn.gelu nn.silu
nn.selu nn.softplus nn.gelu_tanh nn.relu6 ones_like zeros_like flatten size nonzero shape_of nn.batch_flatten
nn.dropout
"""
UNARY: Final = tuple(_UNARY.split())
_BINARY = """
add subtract multiply divide floor_divide floor_mod mod power maximum minimum atan2 log_add_exp equal
not_equal less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or
bitwise_xor left_shift right_shift matmul outer collapse_sum_like
"""
BINARY: Final = tuple(_BINARY.split())
_REDUCED = """
sum mean max min prod std variance median
"""
REDUCED: Final = tuple(_REDUCED.split())
TEMPLATES: Final = (
    *(f"{name}({{a}})" for name in UNARY),
    *(f"{name}({{a}}, {{b}})" for name in BINARY),
    *(f"{name}({{a}}, axis={{axes}}, keepdims={{flag}})" for name in REDUCED),
    "argmax({a}, axis={axis}, keepdims={flag})",
    "argmin({a}, axis={axis}, keepdims={flag})",
    "cumsum({a}, axis={axis}, dtype={dtype}, exclusive={flag})",
    "cumprod({a}, axis={axis}, dtype={dtype}, exclusive={flag})",
    "astype({a}, {dtype_name})",
    "where({a}, {b}, {c})",
    "ewise_fma({a}, {b}, {c})",
    "clip({a}, 0, 4)",
    "full_like({a}, {c}, dtype={dtype})",
    "full(R.shape([2, 3]), {a}, dtype={dtype})",
    "broadcast_to({a}, (4, 3, 2))",
    "concat(({a}, {b}), axis={axis})",
    "stack(({a}, {b}), axis={axis})",
    "expand_dims({a}, {axes})",
    "squeeze({a}, {axes})",
    "permute_dims({a}, {axes})",
    "reshape({a}, (2, -1))",
    "reshape({a}, (0, -1))",
    "split({a}, 2, axis={small_axis})",
    "split({a}, [1, 2], axis={small_axis})",
    "repeat({a}, 2, axis={axis})",
    "tile({a}, (2, 3))",
    "flip({a}, axis={small_axis})",
    "take({a}, {b}, axis={axis})",
    "gather_elements({a}, {b}, axis={small_axis})",
    "gather_nd({a}, {b})",
    "scatter_elements({a}, {b}, {c}, axis={small_axis})",
    "scatter_nd({a}, {b}, {c})",
    "index_tensor({a}, ({b},))",
    "index_put({a}, ({b},), {c})",
    "strided_slice({a}, [{small_axis}], [0], [2])",
    "dynamic_strided_slice({a}, {b}, {c}, {b})",
    "sort({a}, axis={small_axis}, descending={flag})",
    "argsort({a}, axis={small_axis}, dtype='int32')",
    "topk({a}, 2, axis={small_axis}, ret_type={ret})",
    "topk({a}, 9, axis={small_axis}, ret_type={ret})",
    "bucketize({a}, {b}, out_int32={flag})",
    "one_hot({a}, rx.prim_value(1), rx.prim_value(0), 5, axis={small_axis})",
    "tril({a}, 1)",
    "triu({a}, 1)",
    "unique({a}, True, {flag}, {flag}, {axis})",
    "einsum(({a}, {b}), 'ij,jk->ik')",
    "linear({a}, {b}, {c})",
    "nn.softmax({a}, axis={small_axis})",
    "nn.log_softmax({a}, axis={small_axis})",
    "nn.leakyrelu({a}, 0.1)",
    "nn.prelu({a}, {b}, {small_axis})",
    "nn.layer_norm({a}, {b}, {b}, axes={axes})",
    "nn.rms_norm({a}, {b}, axes={axes})",
    "nn.pad({a}, (1, 1, 1, 1))",
    "nn.cross_entropy_with_logits({a}, {b})",
    "nn.nll_loss({a}, {b}, reduction={reduction})",
    "nn.max_pool2d({a}, (2, 2))",
    "nn.avg_pool2d({a}, (2, 2), ceil_mode={flag})",
    "nn.adaptive_avg_pool2d({a}, (2, 2))",
    "nn.conv1d({a}, {b})",
    "nn.conv2d({a}, {b}, padding=(1, 1))",
    "nn.attention({a}, {b}, {c})",
    "image.resize2d({a}, (4, 4))",
    "meshgrid(({a}, {b}))",
    "slice_scatter({a}, {b}, 0, 2, 1, axis={small_axis})",
    "reverse_sequence({a}, {b}, {small_axis}, 0)",
    "quantize({a}, {b}, {c}, {small_axis}, 'int8')",
    "dequantize({a}, {b}, {c}, {small_axis}, 'float32')",
    "tensor_to_shape({a})",
    "eye_like({a}, 0, {dtype})",
)


class Drawn(NamedTuple):
    """A call: the types of its operands as texts, and the call as Python over ``R``, ``rx`` and the operands."""

    types: tuple[str, ...]
    call: str

    @property
    def operator(self) -> str:
        return self.call.partition("(")[0]


def draw(rng: Random, template: str | None = None) -> Drawn:
    """A call of a random operator."""
    template = template or rng.choice(TEMPLATES)
    rank = rng.choice((0, 1, 2, 2, 3, 4, 4))
    base = [rng.choice(("1", "2", "3", "4", "n", "m")) for _ in range(rank)]
    dtype = rng.choice(_DTYPES)
    types = tuple(_type(rng, base, dtype, alike=index == 0 or rng.random() < 0.6) for index in range(3))
    axes = [rng.randint(-rank - 1, rank) for _ in range(rng.choice((1, 1, 2, rank)))]
    words = {
        "a": "a",
        "b": "b",
        "c": "c",
        "axis": rng.choice(("None", str(rng.randint(-rank - 1, rank)))),
        "small_axis": str(rng.choice((0, 0, -1, 1))),
        "axes": rng.choice(("None", str(axes), str(sorted(set(axes))))) if "dims" not in template else str(axes),
        "flag": str(rng.random() < 0.5),
        "dtype": rng.choice(("None", repr(rng.choice(_DTYPES)))),
        "dtype_name": repr(rng.choice(_DTYPES)),
        "ret": rng.choice(("'both'", "'values'", "'indices'")),
        "reduction": rng.choice(("'mean'", "'sum'", "'none'")),
    }
    return Drawn(types, template.format(**words))


def _type(rng: Random, base: list[str], dtype: str, *, alike: bool) -> str:
    dims = list(base) if alike else [rng.choice(("1", "2", "3", "n")) for _ in range(rng.choice((0, 1, 2, len(base))))]
    dtype = dtype if rng.random() < 0.75 else rng.choice(_DTYPES)
    known = rng.random()
    name = "" if known < 0.04 else f', dtype="{dtype}"'
    if known > 0.92:
        return f"R.Tensor(ndim={len(dims)}{name})"
    if known > 0.88:
        return f'R.Tensor(dtype="{dtype}")'
    return f"R.Tensor(({''.join(f'{size}, ' for size in dims)}){name})"


def _function(drawn: Drawn, more: str = "") -> str:
    params = ", ".join(f"{name}: {ty}" for name, ty in zip(_OPERANDS, drawn.types, strict=False))
    return f"{_HEADER}def f({params}{more}):\n    return a\n"


def type_there(drawn: Drawn) -> str | Exception:
    """The type that TVM gives the call, as text, or what it raises."""
    function: Any = from_source(_function(drawn), check_well_formed=False)
    names = {"rx": theirs, "relax": theirs, "np": np, "R": tvm.script.relax}
    names |= dict(zip(_OPERANDS, function.params, strict=False))
    try:
        call = eval(f"op.{drawn.call}", {"op": theirs.op, **names})
        builder = theirs.BlockBuilder()
        with builder.testing_scope(def_vars=[]):
            found = str(builder.normalize(call).ty)
    except Exception as error:  # its own classes have no common base
        return error
    return found.replace("T.Tuple", "R.Tuple")


def verdict(drawn: Drawn) -> str | None:
    """The difference between the two sides; None where the types agree or the one here says more."""
    there = type_there(drawn)
    text = _function(drawn, "" if isinstance(there, Exception) else f", z: {there}")
    try:
        function: Any = rx.script.from_source(text)
    except RegraftError as error:
        return f"unreadable: {there} ({error})"
    names = {"rx": rx, "relax": rx, "np": np, "R": rx.script.relax}
    names |= dict(zip(_OPERANDS, function.params[: len(drawn.types)], strict=False))
    try:
        here = eval(f"op.{drawn.call}", {"op": rx.op, **names}).ty
    except (RegraftError, TypeError, ValueError) as error:
        return None if isinstance(there, Exception) else f"refused here: {error}"
    if isinstance(there, Exception):
        return "taken here"
    expected = function.params[-1].ty
    return None if is_subtype(here, expected) is True else f"{here} here, {expected} there"


def sweep(count: int, seed: int = 0) -> dict[str, Counter[str]]:
    """The number of differences of each kind for each operator, after printing one example of each."""
    rng = Random(seed)
    found: dict[str, Counter[str]] = {}
    for index in range(count):
        drawn = draw(rng, TEMPLATES[index % len(TEMPLATES)])
        differs = verdict(drawn)
        kind = "same" if differs is None else differs.partition(":")[0] if " here, " not in differs else "other type"
        counts = found.setdefault(drawn.operator, Counter())
        if kind not in counts and kind not in ("same", "taken here"):
            sys.stdout.write(f"{drawn.call}  {drawn.types}\n    {differs}\n")
        counts[kind] += 1
    return found


if __name__ == "__main__":
    total: Counter[str] = Counter()
    for operator, counts in sorted(sweep(int(sys.argv[1])).items()):
        total.update(counts)
        if counts["refused here"] or counts["other type"] or counts["unreadable"]:
            sys.stdout.write(f"{operator}: {dict(counts)}\n")
    sys.stdout.write(f"in all: {dict(total)}\n")

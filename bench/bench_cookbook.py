"""All rules of docs/cookbook.md on models from PyTorch's exporter, compared with onnxscript's rules.

Both rewrite the same ONNX files: narrow models of full depth, in opset 14, in which gelu and the normalizations are
written out. Reading and writing are not counted. A further table counts the lines of code of the rules in both.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
import onnx_ir
import torch

import regraft as rx
from bench.models import MODELS, Model
from bench.pages import page
from bench.table import Table
from bench.timing import seconds_on
from regraft.rewrite import Event, RuleSet

NAMES = ("BERT base", "Llama 3.2 1B", "Stable Diffusion 1.5 UNet", "T5 base encoder")
RUNS = 3

FAMILIES: dict[str, tuple[str, ...]] = {
    "nothing": (
        "onnxscript.rewriter.rules.common._no_op",
        "onnxscript.rewriter.rules.common._basic_rules:CastIdentity,ExpandIdentity",
        "onnxscript.rewriter.rules.common._collapse_slices",
        "torch._inductor.fx_passes.post_grad:slice_noop,pow_noop,convert_element_type_noop",
    ),
    "arrangements": (
        "onnxscript.rewriter.rules.common._basic_rules:"
        "CastCast,TransposeIdentity,TransposeTranspose,UnsqueezeUnsqueeze,ReshapeReshape,SqueezeReshape,Flatten2Reshape",
    ),
    "limits": ("onnxscript.rewriter.rules.common._fuse_relus_clips",),
    "convolutions": (
        "onnxscript.rewriter.rules.common._remove_optional_bias",
        "onnxscript.rewriter.rules.common._fuse_conv_affine",
        "onnxscript.rewriter.rules.common._fuse_pad_into_conv",
    ),
    "by_hand": (
        "onnxscript.rewriter.rules.common._fuse_hardswish",
        "onnxscript.rewriter.ort_fusions.gelu",
        "onnxscript.rewriter.ort_fusions.erfgelu",
        "onnxscript.rewriter.rules.fusion._layer_norm",
        "onnxscript.rewriter.rules.fusion._rms_normalization",
    ),
    "products": ("torch._inductor.fx_passes.post_grad:is_valid_mm_plus_mm,mm_plus_mm",),
    "parts_and_numbers": (
        "torch._inductor.fx_passes.post_grad:is_valid_splitwithsizes_cat,splitwithsizes_cat_replace,"
        "pointless_cumsum_replacement,int_noop",
    ),
}
"""The source of the rules in each list of the page: a module, or classes and functions of it."""


def run() -> list[Table]:
    """Times and rewrites by model, and lines by family."""
    cookbook, blocks = page("cookbook.md", until="check_rule")
    every = [cookbook.by_hand, cookbook.nothing, cookbook.arrangements, cookbook.limits, cookbook.convolutions]
    rules = RuleSet(rule for group in (*every, cookbook.products, cookbook.parts_and_numbers) for rule in group)
    rows: list[tuple[str, int, float, int, float, int]] = []
    found: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        for name in NAMES:
            path = _exported(MODELS[name](), Path(folder) / f"{len(rows)}.onnx")
            ours, count, by_rule = _ours(path, rules)
            theirs, their_count = _onnxscript(path)
            found.update(by_rule)
            rows.append((name, len(onnx.load(path).graph.node), ours, count, theirs, their_count))
    columns = ("model", "nodes", "regraft, s", "rewrites", "onnxscript, s", "rewrites there")
    rewrites = tuple((rule, count) for rule, count in found.most_common())
    return [
        Table("All rules at once", columns, tuple(rows), "CPU time of rewriting alone."),
        Table("Rewrites by rule, over the four models", ("rule", "rewrites"), rewrites),
        Table(
            "Lines of code",
            ("list", "rules", "lines here", "lines there"),
            tuple(_lines(cookbook, blocks)),
            "Without imports, docstrings and comments. Of the products only the first is counted there: the others are "
            "passes of TVM, in C++.",
        ),
    ]


class _First(torch.nn.Module):
    """The first of a model's results; tokens are passed by name, as the text models of transformers require."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        if len(inputs) > 1:
            return self.model(*inputs)[0]
        return self.model(input_ids=inputs[0], attention_mask=torch.ones_like(inputs[0]))[0]


def _exported(model: Model, path: Path) -> Path:
    """The model as PyTorch's tracing exporter writes it."""
    with warnings.catch_warnings(), redirect_stderr(StringIO()), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {"opset_version": 14, "dynamo": False}
        torch.onnx.export(_First(model.module), model.args, str(path), **options)
    return path


def _ours(path: Path, rules: RuleSet) -> tuple[float, int, Counter[str]]:
    module = rx.from_onnx(path)
    done: list[str] = []

    def note(event: Event) -> None:
        if event.reason is None:
            done.append(event.rule)

    rules(module, listener=note)
    return seconds_on(rules, lambda: module, RUNS), len(done), Counter(done)


def _onnxscript(path: Path) -> tuple[float, int]:
    from onnxscript.rewriter import _DEFAULT_REWRITE_RULES, RewriteRuleSet

    rules = RewriteRuleSet(list(_DEFAULT_REWRITE_RULES))

    def fresh() -> Any:
        return onnx_ir.from_proto(onnx.shape_inference.infer_shapes(onnx.load(path)))

    count = rules.apply_to_model(fresh())
    return seconds_on(rules.apply_to_model, fresh, RUNS), count


# --- lines


def _lines(cookbook: Any, blocks: list[Any]) -> Iterator[tuple[str, int, int, int]]:
    for family, sources in FAMILIES.items():
        block = next(one for one in blocks if f"\n{family} = [" in one.code)
        there = sum(_lines_of(source) for source in sources)
        yield family.replace("_", " "), len(getattr(cookbook, family)), _code_lines(ast.parse(block.code).body), there


def _lines_of(source: str) -> int:
    name, _, parts = source.partition(":")
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    body = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    wanted = set(parts.split(","))
    kinds = (ast.ClassDef, ast.FunctionDef)
    return _code_lines([node for node in body if not parts or (isinstance(node, kinds) and node.name in wanted)])


def _code_lines(nodes: list[Any]) -> int:
    """The lines of code, without imports, docstrings and comments."""
    lines: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node):
            continue
        for inner in ast.walk(node):
            start, end = getattr(inner, "lineno", None), getattr(inner, "end_lineno", None)
            if start is not None and not _is_text(inner) and not isinstance(inner, ast.ClassDef | ast.FunctionDef):
                lines.update(range(start, (end or start) + 1))
            elif start is not None and isinstance(inner, ast.ClassDef | ast.FunctionDef):
                lines.update(range(start, inner.body[0].lineno))
    texts = {line for node in nodes for inner in ast.walk(node) if _is_text(inner) for line in _span(inner)}
    return len(lines - texts)


def _span(node: Any) -> range:
    return range(node.lineno, node.end_lineno + 1)


def _is_text(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)

"""The table of Relax's names: the ones that are the same here, that differ, and that are left out, with reasons.

`python -m tools.relax_names` prints the page ``docs/relax.md``. The names are read from TVM's packages and from this
one. Only the reasons why a name differs or is left out are written by hand.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final, NamedTuple

from regraft.left_out import COMPILER, IMPORTED, LEFT_OUT, LeftOut

NAMESPACES: Final = {
    "tvm.relax": "regraft",
    "tvm.relax.transform": "regraft.transform",
    "tvm.relax.analysis": "regraft.analysis",
    "tvm.relax.dpl": "regraft.dpl",
    "tvm.relax.training": "regraft.training",
    "tvm.relax.op": "regraft.op",
    "tvm.relax.op.nn": "regraft.op.nn",
    "tvm.relax.op.image": "regraft.op.image",
    "tvm.relax.op.grad": "regraft.op.grad",
    "tvm.relax.op.vision": "regraft.op.vision",
    "tvm.relax.op.memory": "regraft.op.memory",
    "tvm.relax.op.vm": "regraft.op.vm",
    "tvm.relax.op.ccl": "regraft.op.ccl",
    "tvm.relax.op.builtin": "regraft.op.builtin",
    "tvm.relax.expr": "regraft.expr",
    "tvm.relax.type": "regraft.type",
    "tvm.relax.expr_functor": "regraft.expr_functor",
    "tvm.relax.binding_rewrite": "regraft.binding_rewrite",
    "tvm.relax.utils": "regraft.utils",
    "tvm.ir.instrument": "regraft.instrument",
    "tvm.relax.backend": "regraft.backend",
    "tvm.relax.frontend": "regraft.frontend",
    "tvm.relax.frontend.torch": "regraft.frontend.torch",
    "tvm.relax.frontend.onnx": "regraft.frontend.onnx",
    "tvm.relax.frontend.nn": "regraft.frontend.nn",
    "tvm.relax.frontend.nn.modules": "regraft.frontend.nn.modules",
    "tvm.relax.frontend.nn.spec": "regraft.frontend.nn.spec",
    "tvm.script.relax": "regraft.script.relax",
}
"""Relax's namespaces, and the modules here that have their names."""

DIFFERS: Final[dict[str, str]] = {
    "tvm.relax.transform.LegalizeOps": "lowers by the functions that it is given; engines lower all other operators",
    "tvm.relax.op.ccl.allgather": "engines are one worker, and run it for one",
    "tvm.relax.op.ccl.scatter_from_worker0": "engines are one worker, and run it for one",
    "tvm.relax.Span": "a value that a node keeps; the parser gives none, and variables have origins instead",
    "tvm.relax.transform.RemoveUnusedParameters": (
        "goes on until nothing is unused; sizes become parameters in the order in which they are met"
    ),
    "tvm.relax.transform.InlinePrivateFunctions": "puts the sizes of the arguments for those of the body",
    "tvm.relax.analysis.all_vars": "sizes are no variables",
    "tvm.relax.analysis.bound_vars": "sizes are no variables",
    "tvm.relax.analysis.udchain": "sizes are no variables",
    "tvm.relax.analysis.post_order_visit": "does not go into types",
    "tvm.relax.analysis.type_base_check": "sizes that are never equal fail at once; parameters are contravariant",
    "tvm.relax.analysis.type_lca": "of a pure and an impure function is impure",
    "tvm.relax.analysis.erase_to_well_defined": "`var_map` has no effect: types mention no variables of the program",
    "tvm.relax.analysis.well_formed": "also checks return types, and that each branch binds variables of its own",
    "tvm.relax.dpl.PatternContext": "two patterns may stand for one operand",
    "tvm.relax.dpl.is_op": (
        "wrong numbers of operands and unknown attributes bring a warning where the pattern is made, and are refused "
        "in a `Rule`"
    ),
    "tvm.relax.dpl.rewrite_call": "in a branch, also sees what came before it",
    "tvm.relax.training.SetupTrainer": (
        "`optim_state` describes the first states, each with `numpy()`; batch norms stay whole"
    ),
    "tvm.relax.transform.ConvertLayout": "orders of axes, no blocked ones",
    "tvm.relax.transform.EliminateCommonSubexpr": "looks through names and leaves them; commuted operands are equal",
    "tvm.relax.transform.LowerRuntimeBuiltin": "leaves `to_vdevice` and `memory.view`; makes plain blocks itself",
    "tvm.relax.transform.LazySetOutput": "makes plain blocks of dataflow blocks, since handing on is an effect",
    "tvm.relax.transform.AdjustMatmulOrder": "counts whole chains; products that others use stay, and mixed dtypes",
    "tvm.relax.transform.CombineParallelMatmul": "also layout; combines any number of symbolic widths",
    "tvm.relax.transform.FoldBatchnormToConv2D": "leaves a batch norm in training; Relax folds it to other values",
    "tvm.relax.transform.RemoveUnusedOutputs": "and RemoveUnusedParameters go on until nothing is unused",
    "tvm.relax.transform.LazyTransformParams": "a weight that is a result and nothing else is handed on, too",
    "tvm.relax.transform.RunCodegen": "compilers are Python functions, added by `register_codegen`",
    "tvm.relax.transform.FoldConstant": "folds by the reference semantics, not by TensorIR; plain blocks, too",
    "tvm.relax.transform.Gradient": "covers every differentiable operator; see gradients among the differences above",
    "tvm.relax.transform.dataflowblock_pass": "outputs of a block are followed by their names",
    "tvm.relax.op.collapse_sum_like": "sizes that cannot be summed to the target's are refused",
    "tvm.relax.op.split": "a split into one part gives a tuple of it; Relax's gives the tensor",
    "tvm.relax.op.print": "returns the empty tuple",
    "tvm.relax.op.assert_op": "returns the empty tuple",
    "tvm.relax.PyExprMutator": "derives in Python; `@mutator` only checks that a class does",
    "tvm.relax.PyExprVisitor": "derives in Python; `@visitor` only checks that a class does",
    "tvm.relax.Call": "is typed when it is built",
    "tvm.relax.Expr": "has its type from the moment it is built",
    "tvm.relax.transform.DataflowBlockPass": "made by `dataflowblock_pass`",
    "tvm.relax.transform.FunctionPass": "made by `function_pass`",
    "tvm.relax.dpl.PatternMatchingRewriter": "made by `from_pattern`, `from_module` and `@R.rewriter`",
    "tvm.relax.build": "takes the engine's name: numpy, onnxruntime, torch, xla, openvino; `llvm` is numpy",
    "tvm.relax.frontend.nn.SourceModule": COMPILER,
    "tvm.relax.frontend.nn.ObjectModule": "names the functions of a file; engines link no native code",
    "tvm.relax.BasePyModule": "holds functions of the language, of Python and of the outside; no TensorIR",
    "tvm.relax.TensorType": "`shape` is a tuple of dims that reads as a ShapeExpr",
    "tvm.relax.VMExecutable": "the class of what `regraft.build` gives; only `build` makes one",
    "tvm.relax.ShapeExpr": "`values` is a tuple of dims: ints and symbolic sizes",
    "tvm.relax.FuncType": "opaque functions have a result type, not a function that derives it",
    "tvm.relax.VirtualMachine": (
        "runs what `regraft.build` gives; `set_instrument` looks on at calls on the reference engine only, since "
        "others run a program as a whole: `regraft bench --profile` says what each operator takes there"
    ),
    "tvm.relax.op.memory.alloc_storage": "tensors of one storage never share memory, and hold zeros",
    "tvm.relax.op.memory.view": "copies its bytes; the offset is known when the call is written",
    "tvm.relax.op.vision.all_class_non_max_suppression": '`output_format` is "onnx" only',
    "tvm.relax.expr_functor.PyExprMutator": "derives in Python; `@mutator` only checks that a class does",
    "tvm.relax.expr_functor.PyExprVisitor": "derives in Python; `@visitor` only checks that a class does",
    "tvm.relax.expr.Expr": "has its type from the moment it is built",
    "tvm.relax.type.TensorType": "`shape` is a tuple of dims that reads as a ShapeExpr",
    "tvm.relax.type.FuncType": "opaque functions have a result type, not a function that derives it",
    "tvm.relax.frontend.torch.from_exported_program": "where Relax's form means something else, ours stays",
    "tvm.relax.frontend.torch.relax_dynamo": "`pipeline` is a pass; graphs run on the engine `torch`; for inference",
    "tvm.relax.frontend.torch.from_fx": "the model is exported for such inputs; `default_image_layout` is NCHW",
    "tvm.relax.frontend.nn.Module": "`jit` runs on the engines of `regraft.build`",
    "tvm.relax.frontend.nn.Parameter": "`data` is a NumPy array",
    "tvm.script.relax.Callable": "opaque functions have a result type, not a function that derives it",
    "tvm.relax.training.Trainer": "takes and gives NumPy arrays",
}
"""Names that mean something else here, and the difference."""

_HEADER: Final = """\
# Coming from TVM Relax

A program for `tvm.relax` runs here after you change its imports:

| in a program for Relax | here |
|---|---|
| `from tvm import relax` | `import regraft as relax` |
| `from tvm.script import relax as R, ir as I, tirx as T` | `from regraft.script import relax as R, ir as I, tir as T` |
| `tvm.IRModule`, `tvm.ir.structural_equal` ... | `regraft.IRModule`, `regraft.structural_equal` ... |
| `tirx.Var("n", "int64")` | `T.Var("n", "int64")` |
| `tvm.relax.frontend.torch`, `tvm.relax.frontend.onnx` | `regraft.frontend.torch`, `regraft.frontend.onnx` |
| `from tvm.relax.frontend import nn` | `from regraft.frontend import nn` |
| `tvm.relax.expr_functor`, `tvm.relax.binding_rewrite` | `regraft.expr_functor`, `regraft.binding_rewrite` |
| `tvm.transform.PassContext`, `Sequential` ... | `regraft.transform.PassContext`, `Sequential` ... |
| `tvm.relax.expr`, `tvm.relax.type` | `regraft.expr`, `regraft.type` |
| `tvm.relax.backend.patterns` | `regraft.backend.patterns`; for `make_attention_rewrite_pattern` use `FuseAttention` |
| `tvm.relax.training.utils`, `tvm.relax.training.loss` ... | `regraft.training.utils`, `regraft.training.loss` ... |
| `tvm.ir.base`, `tvm.ir.module`, `tvm.relax.dpl.pattern` | `regraft`, `regraft.dpl` |
| `tvm.relax.utils`, `tvm.script.parser`, `tvm.script.ir_builder` | `regraft.utils`, `regraft.script.parser` ... |
| `tvm.ir.instrument`, `tvm.ir.transform` | `regraft.instrument`, `regraft.transform` |
| `tvm.runtime`, `tvm.target` | `regraft.runtime`, `regraft.target` |
| `tvm.cpu`, `tvm.device` | `regraft.cpu`, `regraft.device` |
| `tvm.compile`, `tvm.register_global_func` | `regraft.compile`, `regraft.register_global_func` |
| `tvm.error` | `regraft.error`, whose names are all `RegraftError` |
| `tvm.testing.assert_allclose`, `tvm.testing.utils` | `regraft.testing.assert_allclose`, `regraft.testing.utils` |

After `import regraft as tvm`, `tvm.relax` is `regraft` itself, and `tvm.tirx` is `regraft.script.tir`.
Relax's deeper paths are here, too: `from regraft.dpl.pattern import is_op`, `from regraft.ir.transform import
PassContext`, `from regraft.script import tirx as T`. Each gives the names of the module in the table.

Where Relax raises `ValueError` or `TypeError`, regraft raises the same. All of its errors are `regraft.RegraftError`.

## Deliberate differences

- **Types are exact.** For some calls Relax gives up the shape (`R.add` of `(2, 3)` and `(m, n)`). Here the type keeps
  every known size. The shape of a tensor is its sizes, never a variable that holds a shape.
- **Checks come early.** A wrong call fails where it is written, not when it is normalized. Calls that Relax types and
  never computes (`subtract` of two bools, `bitwise_and` of floats) fail when they are built.
- **Functions are compared as functions.** What takes any tensor may stand for what takes some, and not the other way
  round; the common type of a pure and an impure function is impure. Relax's `type_base_check` compares parameters as
  it does results, and its `type_lca` says pure.
- **Truth values beside numbers are numbers.** `R.add` of bool and float32 is float32 in either order, as the value is
  there. Logic on numbers gives 0 or 1 in their dtype. A scalar beside a tensor of rank 0 gives rank 0.
- **A false promise is refused.** A declared return type that the result can never have is an error when the program is
  read; but where a function that nothing calls declares `R.Tensor` and returns a tuple, it has the tuple's type.
  One size variable may stand in several functions; Relax's `well_formed` wants one of its own for each.
- **Programs never change.** Functions, blocks and expressions are immutable. A module's table may be edited in place.
  Its `functions` are those that it defines; functions of the outside, which it only names, are found by name. One
  function may stand under two names, which Relax's `well_formed` refuses.
- **`well_formed` gives True** where it raises nothing, so that `assert well_formed(module)` of older programs holds.
- **Texts mark nothing.** `script` takes `obj_to_underline` and the like, and leaves them out.
- **Values that differ between tools are fixed here.** The gradient of `relu` at 0 is 0, as in PyTorch.
  `CategoricalCrossEntropyLoss` with `reduction="mean"` divides by the number of samples. The softmax of
  `CrossEntropyLoss` is over the classes, axis 1; Relax's is over the last axis, which may be another one.
- **Calls that no machine computes are refused.** `sort`, `argsort` and `topk` of a scalar, windows of a pool that fit
  nowhere, a branch on a tensor that is no boolean scalar, a `view` of more bytes than there are, axes that an operand
  lacks (of `cumsum`, `sort`, `scatter_elements`, or where Relax does not know the shape). `softmax`, `attention` and
  `nll_loss` refuse integers, `matmul` operands of two dtypes. The adjoint in `grad.*_backward` has the shape of the
  result. `topk` of more elements than an axis has takes all; Relax gives that type, and reads past the end.
- **A `split` into one part is a tuple of one.** In Relax it has the type of a tensor. `meshgrid` follows `indexing`,
  which Relax takes and leaves unread.
- **Constants keep their dtype.** `const` of a float64 array is float64; Relax makes float32 of it. Numbers and lists
  are what they are in Relax.
- **Orders and forms of their own.** `detect_recursion` lists its groups in the order of the module; Relax's is that of
  a hash table. `from_fx` exports the traced model, so that an index is a slice or a `take` where Relax has one call
  for each node; an index from the end, `a[..., -1]`, is counted from the front. `AdjustMatmulOrder` multiplies in the
  cheaper order also where only `tir_var_upper_bound` tells which it is. At opt_level 0 `ConvertToDataflow`,
  `RemoveUnusedOutputs` and `ExpandTupleArguments` run whole; Relax skips the passes that they are made of.
- **Names are Python's where they hold nothing of the program.** A list of numbers, a size or an array of the scope
  around may be used, and a docstring may stand in a function. A size has no second name: `k = n * 2` is written out.
- **What is bound fits.** `bind_params` refuses an array of another shape or dtype than the parameter's.
- **Memory is the engine's.** `R.memory` and `R.vm` are typed, printed and run. Each tensor has memory of its own, and
  the end of a value's life changes nothing.
- **Importers give Relax's form where it computes what PyTorch does.** Ours stays for `selu` (Relax leaves its scale
  out), `celu` of another alpha than 1, nearest-neighbour resizing by other than whole factors, `batch_norm` of traced
  models in eval mode (Relax's trains), `std` and `var` of traced models (Relax's are without correction), indices of
  `max_pool2d` (Relax's are zeros), `one_hot` (Relax's checks the classes, so that the function is impure), indexing of
  traced models (Relax's keeps an axis that an integer takes away), `narrow` of traced models from another place than 0
  (Relax takes the length for the end), `add` and `sub` with `alpha` (Relax leaves it out), quotients of integers
  (Relax's are integers) and products of halves (Relax's are float32). Slices of several axes are one call for each
  axis, and a traced `numel` is a scalar. Keywords of functional pools, norms and transposed convolutions of traced
  models count (Relax leaves some out), and an integer times a fraction is a fraction (Relax cuts it off). Ours stays
  also for `grid_sample` (Relax takes the places in another order of axes), `interpolate` with `antialias` and
  `avg_pool2d` with `divisor_override` (Relax leaves both out), indices of two axes behind a whole one (Relax takes
  each with all of the other), and random numbers (Relax's are zeros).
- **Text is Relax's, but for numbers.** Programs are printed as Relax prints them. A float has as many digits as it
  needs, a short array stands where it is used (Relax leaves its numbers out without `show_meta=True`), an empty tuple
  that something reads keeps its name, and a scalar of another dtype than int64 says it: `T.int32(3)`. A type of
  tuples by itself is written as it is in a program, `R.Tuple(...)`, and patterns have texts of their own:
  `add(*, var(y))`.
- **Operators of an ONNX file stay whole** where `regraft` has them (`nn.softplus`, `nn.mish`, `clip`); Relax writes
  many of them out, some as TensorIR. Values are those of ONNX Runtime.
- **Sizes of an ONNX file are names.** A name such as `n + 1` is one size, and no sum: ONNX Runtime checks neither.
- **Sizes are no variables of the language.** `all_vars` and its like leave them out; `free_symbolic_vars` lists them.
  Visitors and mutators meet them in `visit_var_`, as there. A known size is an int, and the sizes of a shape have a
  `value`, too. Sizes are simplified as they are made, so that `2 * n` is `n * 2`: `a` and `b` are the operands of what
  is written. As text a number in a size is a number, `n + 1`, where Relax prints `n + T.int64(1)`.
- **Gradients are those of PyTorch at kinks**: of `relu` and `abs` at 0, and where both sides of a `maximum` are equal.
  `variance`, `cumsum`, `conv2d`, squares and a weight that a batch of products shares have forms that round less or
  run faster. `power` has no NaN where its base or exponent is 0, the adjoint of an operand of `where` has the shape of
  the operand, and the weights of `nll_loss` have a gradient. `Gradient` takes functions of several blocks, too. The
  adjoint of a tuple is one tuple, as there; `regraft.gradient.Gradient(..., fields_apart=True)` adds nothing to zeros.
- **Optimizers count in float64.** `Adam` keeps the powers of its betas so, since in float32 they lose digits.
- **Sizes are at least 0.** A size variable that is a scalar parameter may be negative. `arange(1, n)` has
  `T.max(n, 1) - 1` elements, since `n` may be 0; Relax says `n - 1`. A size of another dtype than int64 is allowed.
- **Some forms are wider.** A number beside a tensor is a constant (`x + 1`), `TupleGetItem` counts from the end, too,
  `concat` with `axis=None` flattens tensors of any rank, `reshape` takes one size, and the value of `full` may have an
  unknown rank. A `layout_transform` that only permutes axes is a `permute_dims`.
- **Optimizers describe their first states.** `optim_state` of a module that `SetupTrainer` made holds, for each state,
  dtype, sizes and the number that fills it (or all numbers), and no arrays: it is small, and can be printed and read.
- **Private functions of a rewriter become the module's**, as there; in a function on its own they are written out.
  Shapes, constants and attributes of its pattern are matched. A `match_cast` in the pattern says the type of a value.
  A replacement computes with the values as they are, without a `match_cast` to the types of its parameters. A result
  that is less precise than what it replaces is bound by a `match_cast` to that type; in Relax what follows becomes less
  precise. A dataflow block stays one.
- **Expressions have types from the start.** A mutator that changes nothing gives the same object. `post_order_visit`
  does not go into types.
- **Calls have attributes.** `attrs` of a call without attributes is empty, and never None.
  The type of a slice from or to a scalar parameter has no sizes.
- **`has_attr` compares what attributes mean.** A dtype matches its name, `[1, 1]` the padding `[1, 1, 1, 1]`, and axes
  that are left out the axes that they stand for. In Relax `{"out_dtype": "float32"}` never matches.
- **Rewriting terminates or says why.** Rules that undo each other end with an error that shows the loop.
- **Weights that a sum is made of stay one sum.** `ExpandMatmulOfSum` leaves `x @ (w + a @ b)` where all three are
  weights; Relax writes it as two products that every call computes. One concatenated transpose is turned, too.
- **What no rule matched stays as it was.** Where `rewrite_call` or a pass that is a rewrite changed something, Relax
  also merges equal values of the whole function and drops what nothing reads. Here that is the work of
  `EliminateCommonSubexpr` and `DeadCodeElimination`.

## Models as modules

`regraft.frontend.nn` is Relax's `frontend.nn`: layers with parameters, whose methods become functions. Export a module
for the inputs that you name, and the program is the one that Relax writes.

```python
import numpy as np
from regraft.frontend import nn
from regraft.frontend.nn import op, spec


class Perceptron(nn.Module):
    def __init__(self):
        self.hidden = nn.Linear(4, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, x: nn.Tensor):
        return self.out(op.silu(self.hidden(x)))


model = Perceptron()
inputs = {"forward": {"x": spec.Tensor(["n", 4], "float32")}}
program, parameters = model.export_tvm(inputs)
print([name for name, _ in parameters])  # ['hidden.weight', 'hidden.bias', 'out.weight', 'out.bias']

for parameter in model.parameters():
    parameter.data = np.zeros(parameter.shape, "float32")
compiled = model.jit(inputs, out_format="numpy")
print(compiled["forward"](np.ones((3, 4), "float32")).shape)  # (3, 2)
```

Two things are stricter. A specification that names an argument that the method lacks is refused. Modules of one class
share a subroutine only where their functions are structurally equal; Relax compares the types of the arguments alone.

## Names

`same`: the name has the same arguments as in Relax. `more`: it has these arguments and further ones. `differs`: the
last column describes the difference. `left out`: the name has no meaning here, and the last column gives the reason.
Such a name can be imported from `regraft.analysis` and `regraft.transform` all the same; a call gives the reason.
"""


class Row(NamedTuple):
    """One row: the name in Relax, its state here ("same", "differs" or "left out"), and a remark."""

    name: str
    state: str
    remark: str


def public_names(namespace: str) -> list[str]:
    """The public names in a module of TVM, without submodules and without objects of other packages."""
    module = importlib.import_module(namespace)
    found: list[str] = []
    for name in dir(module):
        value: Any = getattr(module, name)
        if name.startswith("_") or isinstance(value, ModuleType):
            continue
        if str(getattr(value, "__module__", "tvm")).startswith(("tvm.", "tvm_ffi")):
            found.append(name)
    return found


def _parameters(value: Any) -> list[str] | None:
    """The names of the parameters of ``value``, without ``self`` and ``span``. None if they are not known."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    return [name for name in signature.parameters if name not in ("self", "span")]


def row(namespace: str, name: str) -> Row:
    """The row of one name of Relax. Raises KeyError if the name is left out and has no reason."""
    full = f"{namespace}.{name}"
    here = importlib.import_module(NAMESPACES[namespace])
    if not hasattr(here, name) or isinstance(getattr(here, name), LeftOut):
        home = getattr(getattr(importlib.import_module(namespace), name), "__module__", namespace)
        reason = LEFT_OUT.get(name) or (IMPORTED if home != namespace else LEFT_OUT[name])
        return Row(full, "left out", reason)
    if full in DIFFERS:
        return Row(full, "differs", DIFFERS[full])
    theirs = _parameters(getattr(importlib.import_module(namespace), name))
    ours = _parameters(getattr(here, name))
    if theirs is None or ours is None:
        return Row(full, "same", "")
    missing = [parameter for parameter in theirs if parameter not in ours]
    own = [parameter for parameter in ours if parameter not in theirs]
    if missing and own:
        return Row(full, "same", f"positions; called {', '.join(own)} here, {', '.join(missing)} there")
    if missing:
        return Row(full, "same", f"without {', '.join(missing)}")
    return Row(full, "more" if own else "same", f"also {', '.join(own)}" if own else "")


def rows() -> Iterator[tuple[str, list[Row]]]:
    """The rows of each namespace."""
    for namespace in NAMESPACES:
        yield namespace, [row(namespace, name) for name in public_names(namespace)]


def table() -> str:
    """The whole page."""
    parts = [_HEADER]
    for namespace, found in rows():
        parts.append(f"\n### `{namespace}` is `{NAMESPACES[namespace]}`\n\n| name | here | remark |\n|---|---|---|\n")
        parts.extend(
            f"| `{name.removeprefix(namespace + '.')}` | {state} | {remark} |\n" for name, state, remark in found
        )
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(table())

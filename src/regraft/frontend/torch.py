"""`from_exported_program` and `from_fx` with Relax's arguments; `regraft.formats.torch` reads the models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from ..formats.torch import from_torch
from ..formats.torch.custom import Conversion, Converter
from ..ir.builder import NameSupply
from ..ir.expr import Expr, Tuple, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from ..ir.tensor_data import TensorData
from ..ir.types import TensorType, TupleType
from ..ir.visitor import iter_bindings


def _first_operand(node: torch.fx.Node, conversion: Conversion) -> Any:
    return conversion.retrieve_args(node)[0]


_CONVERTERS: Final[dict[str, Converter]] = {"aten.dropout.default": _first_operand}
"""The form that Relax's importers give operators that `from_torch` refuses: random dropout does nothing."""


def from_exported_program(
    exported_program: torch.export.ExportedProgram,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[str, Callable[..., Any]] | None = None,
    run_ep_decomposition: bool = True,
) -> IRModule:
    """An exported PyTorch program as a module with one function, ``main``, that returns a tuple, as Relax's does.

    Args:
        keep_params_as_input: whether the model's weights are parameters of ``main`` after its inputs. The attribute
            ``num_input`` then counts the inputs, and ``params`` holds the weights; see `detach_params`.
        unwrap_unit_return_tuple: whether a single result is returned as it is.
        no_bind_return_tuple: whether the results are returned as a tuple that no variable is bound to.
        custom_convert_map: conversions of operators by the names of their overloads, such as ``"relu.default"``, before
            those that are here: functions of a `torch.fx.Node` and a `regraft.formats.torch.custom.Conversion`.
        run_ep_decomposition: taken as in Relax; what has to be decomposed is, and nothing else.

    Dropout does nothing, as in Relax, also in a program that was exported for training. Raises what
    `regraft.from_torch` raises.
    """
    del run_ep_decomposition
    converters = {**_CONVERTERS, **(custom_convert_map or {})}
    module = from_torch(exported_program, keep_params_as_input=keep_params_as_input, converters=converters)
    function = module["main"].without_attr("torch_signature")  # Relax keeps no record of how PyTorch calls it
    function = _DtypesOfResults().mutate(function)
    single = not isinstance(function.body.body.ty, TupleType)
    if not (single and unwrap_unit_return_tuple):
        function = _returning_a_tuple(function, bound=not no_bind_return_tuple)
    if keep_params_as_input:
        tensors: dict[str, Any] = {**exported_program.state_dict, **exported_program.constants}
        names = [
            str(spec.target) for spec in exported_program.graph_signature.input_specs if spec.kind.name != "USER_INPUT"
        ]
        values = [TensorData(tensors[name].detach().cpu().numpy(), name) for name in names]
        function = function.with_attr("params", tuple(values))
    return module.with_function("main", function)


def from_fx(
    model: torch.fx.GraphModule,
    input_info: Sequence[tuple[Sequence[int], str]],
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[str, Callable[..., Any]] | None = None,
    default_image_layout: str = "NCHW",
) -> IRModule:
    """A traced PyTorch model as a module with one function, ``main``.

    ``input_info`` gives shape and dtype of each input, and the model is exported for such inputs. Its parameters are
    called ``inp_0``, ``inp_1`` ... . The other arguments are those of `from_exported_program`, but that a single result
    which the model returns as it is never becomes a tuple.
    """
    if default_image_layout != "NCHW":
        raise NotImplementedError(f"default_image_layout={default_image_layout!r}: PyTorch's images are NCHW")
    inputs = tuple(_example(shape, dtype) for shape, dtype in input_info)
    program = torch.export.export(model, inputs)
    results = next(node for node in model.graph.nodes if node.op == "output").args[0]
    module = from_exported_program(
        program,
        keep_params_as_input=keep_params_as_input,
        unwrap_unit_return_tuple=unwrap_unit_return_tuple or not isinstance(results, tuple | list),
        no_bind_return_tuple=no_bind_return_tuple,
        custom_convert_map=custom_convert_map,
    )
    function = module["main"]
    renamed = [
        Var(f"inp_{index}", param.ty, param.origins) for index, param in enumerate(function.params[: len(inputs)])
    ]
    bound = function.bind_params(dict(zip(function.params, renamed, strict=False)))
    params = [*renamed, *bound.params]
    attrs = {**bound.attrs, **({"num_input": len(inputs)} if keep_params_as_input else {})}
    return module.with_function("main", Function(params, bound.body, bound.ret_ty, bound.is_pure, attrs))


def _example(shape: Sequence[int], dtype: str) -> torch.Tensor:
    kind: torch.dtype = getattr(torch, dtype)
    return torch.zeros(tuple(shape), dtype=kind) if not kind.is_floating_point else torch.rand(tuple(shape)).to(kind)


def _returning_a_tuple(function: Function, *, bound: bool) -> Function:
    """``function`` returning a tuple: of its one result, or of its results, bound to a variable or as it stands."""
    result = function.body.body
    fields: Expr = result if isinstance(result.ty, TupleType) else Tuple([result])
    if not bound or isinstance(fields, Var):
        return function.with_body(SeqExpr(function.body.blocks, fields), fields.ty)
    *blocks, last = function.body.blocks or (BindingBlock([]),)
    bindings, fields = _without_names_for_results(last, fields)
    names = NameSupply(binding.var.name_hint for binding in iter_bindings(function))
    whole = Var(names.fresh("gv"), fields.ty)
    kind = DataflowBlock if isinstance(last, DataflowBlock) or not last.bindings else BindingBlock
    return function.with_body(SeqExpr([*blocks, kind([*bindings, VarBinding(whole, fields)])], whole), fields.ty)


class _DtypesOfResults(ExprMutator):
    """Writes out the dtype of products and convolutions, as Relax's importers do."""

    def visit_call_(self, call: Call) -> Expr:
        new = super().visit_call_(call)
        if not isinstance(new, Call) or not isinstance(new.ty, TensorType) or new.ty.dtype is None:
            return new
        if new.attrs.get("out_dtype", "") is not None:
            return new
        return Call(new.op, new.args, {**new.attrs, "out_dtype": new.ty.dtype}, new.ty_args)


def _without_names_for_results(block: BindingBlock, results: Expr) -> tuple[list[Binding], Expr]:
    """The bindings of a block and the results, without variables that only give a result another name."""
    named = {
        binding.var: binding.value
        for binding in block.bindings
        if isinstance(binding, VarBinding) and isinstance(binding.value, Var)
    }
    if not isinstance(results, Tuple):
        return list(block.bindings), results
    fields = [named.get(field, field) if isinstance(field, Var) else field for field in results.fields]
    return [binding for binding in block.bindings if binding.var not in named], Tuple(fields)


__all__ = ["from_exported_program", "from_fx"]

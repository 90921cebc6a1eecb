"""`from_exported_program` and `from_fx` with Relax's arguments; `regraft.formats.torch` reads the models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, cast

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from ..analysis import remove_all_unused
from ..formats.torch import from_torch
from ..formats.torch.complex_numbers import is_complex, is_complex_call
from ..formats.torch.custom import Conversion, Converter
from ..formats.torch.signature import part_names
from ..ir.attrs import Attrs
from ..ir.dims import Dim, SymVar
from ..ir.expr import Constant, Expr, Tuple, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, Op
from ..ir.program import Function, SeqExpr
from ..ir.tensor_data import TensorData
from ..ir.types import TensorType, TupleType
from .returned import returning_a_tuple
from .torch_forms import FORMS, CallForm, RelaxForm
from .traced_forms import FORMS_OF_TRACED, FORMS_OF_WHOLE_OPERATORS
from .traced_results import with_all_results


def from_exported_program(
    exported_program: torch.export.ExportedProgram,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[str, Callable[..., Any]] | None = None,
    run_ep_decomposition: bool = True,
) -> IRModule:
    """An exported PyTorch program as a module with one function, ``main``, which returns a tuple, as in Relax.

    Args:
        keep_params_as_input: True if the model's weights become parameters of ``main`` after its inputs. The attribute
            ``num_input`` then counts the inputs, and ``params`` holds the weights; see `detach_params`.
        unwrap_unit_return_tuple: True if a single result is returned without a tuple.
        no_bind_return_tuple: True if the tuple of results is returned without being bound to a variable.
        custom_convert_map: conversions by the names of operators' overloads, such as ``"relu.default"``, which precede
            the built-in ones: functions of a `torch.fx.Node` and a `regraft.formats.torch.custom.Conversion`.
        run_ep_decomposition: True if PyTorch decomposes operators into its core operators first.

    As in Relax, dropout does nothing, even in a program that was exported for training, and the new values of buffers
    that the model changes are not among the results. Raises the errors of `regraft.from_torch`.
    """
    if run_ep_decomposition:
        decompositions: dict[Any, Any] = cast(Any, torch.export).default_decompositions()
        decompositions.pop(torch.ops.aten.linspace.default, None)  # its parts compare integers with fractions
        exported_program = cast(Any, exported_program).run_decompositions(decompositions)
    return _module(
        exported_program,
        _converters_with_forms(custom_convert_map or {}, FORMS if run_ep_decomposition else FORMS_OF_WHOLE_OPERATORS),
        keep_params_as_input=keep_params_as_input,
        unwrap_unit_return_tuple=unwrap_unit_return_tuple,
        no_bind_return_tuple=no_bind_return_tuple,
    )


def from_fx(
    model: torch.fx.GraphModule,
    input_info: Sequence[tuple[Sequence[Dim], str | torch.dtype]],
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[str, Callable[..., Any]] | None = None,
    default_image_layout: str = "NCHW",
) -> IRModule:
    """A traced PyTorch model as a module with one function, ``main``.

    ``input_info`` holds the shape and dtype of each input, and the model is exported for such inputs; a size variable
    stands for any size. The parameters are called ``inp_0``, ``inp_1`` ... . A complex input becomes two real ones,
    ``inp_0_real`` and ``inp_0_imag``; so does a complex result. The other arguments are those of
    `from_exported_program`, except that a single result that the model returns without a tuple never becomes a tuple.
    """
    if default_image_layout != "NCHW":
        raise NotImplementedError(f"default_image_layout={default_image_layout!r}: PyTorch's images are NCHW")
    program = _exported(model, input_info)
    results = next(node for node in model.graph.nodes if node.op == "output").args[0]
    module = _module(
        program,
        _converters_with_forms(custom_convert_map or {}, FORMS_OF_TRACED),
        keep_params_as_input=keep_params_as_input,
        unwrap_unit_return_tuple=unwrap_unit_return_tuple or not isinstance(results, tuple | list),
        no_bind_return_tuple=no_bind_return_tuple,
        is_traced=True,
    )
    function = module["main"]
    names, shapes = _real_inputs(input_info)
    renamed = [Var(name, param.ty, param.origins) for name, param in zip(names, function.params, strict=False)]
    bound = function.bind_params(dict(zip(function.params, renamed, strict=False)))
    params = [*renamed, *bound.params]
    attrs = {**bound.attrs, **({"num_input": len(names)} if keep_params_as_input else {})}
    function = Function(params, bound.body, bound.ret_ty, bound.is_pure, attrs)
    return module.with_function("main", function.bind_symbolic_vars(_sizes_as_given(renamed, shapes)))


def _real_inputs(
    input_info: Sequence[tuple[Sequence[Dim], str | torch.dtype]],
) -> tuple[list[str], list[Sequence[Dim]]]:
    """The names and the shapes of the parameters for the inputs; a complex input has two."""
    names: list[str] = []
    shapes: list[Sequence[Dim]] = []
    for index, (shape, dtype) in enumerate(input_info):
        own = (f"inp_{index}_real", f"inp_{index}_imag") if _kind(dtype).is_complex else (f"inp_{index}",)
        names += own
        shapes += [shape] * len(own)
    return names, shapes


def _converters_with_forms(given: Mapping[str, Converter], table: Mapping[str, RelaxForm]) -> dict[str, Converter]:
    """The user's conversions, and the forms in ``table`` for all other operators."""
    theirs = {name.removeprefix("aten.") for name in given}
    forms = {
        name: _converter(form)
        for name, form in table.items()
        if name not in theirs and name.partition(".")[0] not in theirs
    }
    return {**forms, **given}


def _converter(form: RelaxForm) -> Converter:
    def convert(node: torch.fx.Node, conversion: Conversion) -> Any:
        if is_complex_call(node):
            return NotImplemented  # Relax has no complex numbers, nor forms for pairs of real ones
        named = {name: conversion.value(value) for name, value in node.kwargs.items()}
        return form(CallForm(node, conversion), *conversion.retrieve_args(node), **named)

    return convert


def _module(
    program: torch.export.ExportedProgram,
    converters: Mapping[str, Converter],
    *,
    keep_params_as_input: bool,
    unwrap_unit_return_tuple: bool,
    no_bind_return_tuple: bool,
    is_traced: bool = False,
) -> IRModule:
    module = from_torch(program, keep_params_as_input=keep_params_as_input, converters=converters)
    function = module["main"].without_attr("torch_signature")  # Relax does not record PyTorch's calling convention
    function = _DtypesOfResults().mutate(_returning_the_users_results(function, program))
    if is_traced or any(isinstance(spec.arg, ConstantArgument) for spec in program.graph_signature.output_specs):
        function = with_all_results(function, program, nested=is_traced)
    single = not isinstance(function.body.body.ty, TupleType)
    if not (single and unwrap_unit_return_tuple):
        function = returning_a_tuple(function, bound=not no_bind_return_tuple)
    if not is_traced:
        function = function.with_attrs(_bounds_of_sizes(program))
    if keep_params_as_input:
        function = _with_parameters(function, program, by_name=is_traced)
    return module.with_function("main", function)


def _returning_the_users_results(function: Function, program: torch.export.ExportedProgram) -> Function:
    """``function`` without the new values of tensors changed in place, which `from_torch` returns first."""
    results = function.body.body
    if not isinstance(results, Tuple):
        return function
    values = next(node for node in program.graph.nodes if node.op == "output").args[0]
    pairs = zip(program.graph_signature.output_specs, cast("Sequence[Any]", values), strict=True)
    users = [(spec, value) for spec, value in pairs if spec.kind is OutputKind.USER_OUTPUT]
    fields = [
        1 + is_complex(getattr(value, "meta", {}).get("val"))
        for spec, value in users
        if not isinstance(spec.arg, ConstantArgument)
    ]
    changed = len(results.fields) - sum(fields)
    if changed <= 0 or not users:
        return function
    kept = results.fields[changed:]
    result = kept[0] if len(kept) == 1 else Tuple(kept)
    return remove_all_unused(function.with_body(SeqExpr(function.body.blocks, result), result.ty))


def _with_parameters(function: Function, program: torch.export.ExportedProgram, *, by_name: bool) -> Function:
    """``function`` with the model's parameters as its attribute ``params``, and constants for all other tensors.

    Parameters are in the order in which the program takes them; with ``by_name``, they are sorted by name and named
    after their modules.
    """
    state = _real_state(program)
    params = function.params[len(function.params) - len(state) :]
    kept: list[TensorData] = []
    bound: dict[str | Var, Any] = {}
    named: dict[str, Var] = {}
    for (is_parameter, value), param in zip(state, params, strict=True):
        if not is_parameter:
            bound[param] = Constant(value)
            continue
        kept.append(value)
        if by_name:
            name = str(value.name)
            bound[param] = named[name] = Var(name, param.ty, param.origins)
    if by_name:
        kept.sort(key=lambda value: str(value.name))
    new = function.bind_params(bound).with_attr("params", tuple(kept))
    params = [*new.params, *[named[name] for name in sorted(named)]]
    return Function(params, new.body, new.ret_ty, new.is_pure, new.attrs)


def _real_state(program: torch.export.ExportedProgram) -> list[tuple[bool, TensorData]]:
    """The tensors of a model's state, two for a complex one, each with True if it is a parameter."""
    tensors: dict[str, Any] = {**program.state_dict, **program.constants}
    found: list[tuple[bool, TensorData]] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            continue
        name, tensor = str(spec.target), tensors[str(spec.target)].detach().cpu().resolve_conj()
        parts = (tensor,)
        if tensor.is_complex():
            parts = (tensor.real.contiguous(), tensor.imag.contiguous())
        names = part_names(name) if tensor.is_complex() else (name,)
        is_parameter = spec.kind is InputKind.PARAMETER
        found += [(is_parameter, TensorData(part.numpy(), own)) for own, part in zip(names, parts, strict=True)]
    return found


def _bounds_of_sizes(program: torch.export.ExportedProgram) -> dict[str, Attrs]:
    """The attributes with the lower and upper bounds of a program's symbolic sizes, by PyTorch's names for them."""
    ranges: Mapping[Any, Any] = cast(Any, program).range_constraints
    alone = {str(symbol): values for symbol, values in ranges.items() if symbol.is_Symbol}
    lower = {name: int(values.lower) for name, values in alone.items() if values.lower.is_Integer}
    upper = {name: int(values.upper) for name, values in alone.items() if values.upper.is_Integer}
    bounds = {"tir_var_lower_bound": lower, "tir_var_upper_bound": upper}
    return {name: Attrs(limits) for name, limits in bounds.items() if limits}


def _exported(
    model: torch.fx.GraphModule, input_info: Sequence[tuple[Sequence[Dim], str | torch.dtype]]
) -> torch.export.ExportedProgram:
    """``model`` exported for inputs of such shapes and dtypes; a size variable stands for any size."""
    names = {size for shape, _ in input_info for size in shape if isinstance(size, SymVar)}
    examples: dict[Dim, int] = {size: 5 + 2 * index for index, size in enumerate(sorted(names, key=str))}
    inputs = tuple(_example([examples.get(size, size) for size in shape], dtype) for shape, dtype in input_info)
    if not examples:
        return torch.export.export(model, inputs)
    dims = {size: torch.export.Dim(size.name) for size in names}
    axes = [
        {axis: dims[size] for axis, size in enumerate(shape) if isinstance(size, SymVar)} for shape, _ in input_info
    ]
    kinds = [parameter.kind for parameter in signature(model.forward).parameters.values()]
    shapes = (tuple(axes),) if Parameter.VAR_POSITIONAL in kinds else tuple(axes)
    return torch.export.export(model, inputs, dynamic_shapes=shapes)


def _example(shape: Sequence[Any], dtype: str | torch.dtype) -> torch.Tensor:
    kind = _kind(dtype)
    return torch.zeros(tuple(shape), dtype=kind) if not kind.is_floating_point else torch.rand(tuple(shape)).to(kind)


def _kind(dtype: str | torch.dtype) -> torch.dtype:
    return getattr(torch, str(dtype).removeprefix("torch."))


def _sizes_as_given(params: Sequence[Var], shapes: Sequence[Sequence[Dim]]) -> dict[str | SymVar, Any]:
    """The size variables of the parameters, each mapped to the variable given in ``shapes`` at the same place."""
    return {
        own: given
        for param, shape in zip(params, shapes, strict=True)
        for own, given in zip(cast(TensorType, param.ty).shape or (), shape, strict=True)
        if isinstance(own, SymVar) and own is not given
    }


class _DtypesOfResults(ExprMutator):
    """Adds an explicit dtype to convolutions, as Relax's importers do."""

    def visit_call_(self, call: Call) -> Expr:
        is_convolution = isinstance(call.op, Op) and call.op.name.startswith("relax.nn.conv")
        dtype = call.ty.dtype if isinstance(call.ty, TensorType) else None
        if not is_convolution or dtype is None or call.attrs.get("out_dtype", "") is not None:
            return call
        return Call(call.op, call.args, {**call.attrs, "out_dtype": dtype}, call.ty_args)


__all__ = ["from_exported_program", "from_fx"]

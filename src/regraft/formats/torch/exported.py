"""From a module to a graph without side effects.

The graph is taken as it was exported, with `linear`, attention and similar operators whole. It is made functional only
if there are in-place operators, regions (`no_grad`, autocast) or transforms of functions (`torch.vmap`).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

from ..errors import ConvertError
from ..quiet import quiet
from .autocast import with_parts_in_regions
from .dropout import has_dropout, hide_dropout, show_dropout
from .dynamic_sizes import reason_of_sizes
from .gradient_stops import detach_regions, has_regions
from .nodes import all_nodes, is_operator, is_transform
from .outside import is_outside
from .tangents import drop_zero_tangents, is_zeros
from .traced_constants import rebuilt, with_constants_outside

_REGIONS: Final = ("wrap_with_set_grad_enabled", "wrap_with_autocast")
_PART_OF_SUBCLASS: Final = "export.access_subclass_inner_tensor.default"
"""The operator that reads one plain tensor of a tensor that has several, such as torchao's quantized weights."""


def export(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> ExportedProgram:
    """``module`` exported for the example inputs; PyTorch's errors become `ConvertError`."""

    def exported() -> ExportedProgram:
        with torch.no_grad():
            return torch.export.export(module, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)

    try:
        with quiet():
            return exported()
    except Exception as error:
        reason = reason_of_sizes(str(error), exported) or _reason(error)
        raise ConvertError(f"torch.export cannot export {type(module).__name__}: {reason}") from error


_NO_FAKE_KERNEL: Final = (
    "the operator does not state the shape and dtype of its result; add a function that returns an empty tensor with "
    'these, under @torch.library.register_fake("namespace::name")'
)
_EAGERLY_QUANTIZED: Final = (
    "packed weights and quantized tensors, as eager quantization makes them, cannot be exported; quantize the model "
    "with PT2E or torchao instead"
)
_OF_BITSANDBYTES: Final = (
    "weights that bitsandbytes packed cannot be exported; give the layers weights of floats, as dequantize() of a "
    "transformers model does"
)
_DATA_DEPENDENT: Final = (
    "control flow depends on the values of tensors; write it with torch.cond or torch.where, or promise a bound with "
    "torch._check"
)
_HINTS: Final = {
    "UnsupportedOperatorException": _NO_FAKE_KERNEL,
    "no fake impl registered": _NO_FAKE_KERNEL,
    "GuardOnDataDependent": _DATA_DEPENDENT,
    "data-dependent": _DATA_DEPENDENT,
    ".numpy() is not supported": "it computes in NumPy, which is not traced; where that unpacks weights once, as in "
    "neural-compressor's layers, run the model before",
    "has no attribute 'CB'": _OF_BITSANDBYTES,
    "Params4bit": _OF_BITSANDBYTES,
    "PackedParams": _EAGERLY_QUANTIZED,
    "torch.classes.rnn": _EAGERLY_QUANTIZED,
    "quantized nyi": _EAGERLY_QUANTIZED,
}
_RAISED_AT: Final = re.compile(r'following call raised this error:\n\s*File "([^"]+)", line (\d+)')


def _reason(error: Exception) -> str:
    """The first line of PyTorch's message, the line of the model, and a hint, if one is known."""
    text = str(error).strip()
    first = text.splitlines()[0] if text else type(error).__name__
    place = _RAISED_AT.search(text)
    where = f", at {place[1]}:{place[2]}" if place else ""
    hint = next((hint for sign, hint in _HINTS.items() if sign in f"{type(error).__name__} {text}"), None)
    return f"{first}{where}{f' ({hint})' if hint else ''}"


def prepared(program: ExportedProgram) -> ExportedProgram:
    """``program`` without in-place operators, regions and transforms of functions."""
    if not isinstance(program, ExportedProgram):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConvertError(f"expected a torch.nn.Module or an ExportedProgram, not a {type(program).__name__}")
    program = with_constants_outside(program)
    if any(map(_has_effect, all_nodes(program.graph_module))) or any(map(_has_parts, program.state_dict.values())):
        try:
            keeping = _keeping_calls(program), _keeping_operators(program), _without_gradients_of_parts(program)
            with torch.no_grad(), quiet(), keeping[0], keeping[1], keeping[2]:
                functional = cast(Any, _ready(program)).run_decompositions({})
        except Exception as error:
            raise ConvertError(f"PyTorch cannot make the program functional: {_reason(error)}") from error
        show_dropout(functional.graph_module)
        if any(map(is_transform, program.graph.nodes)) and not any(map(is_zeros, program.graph.nodes)):
            drop_zero_tangents(functional.graph_module)
        return functional
    return program


@contextmanager
def _keeping_calls(program: ExportedProgram) -> Generator[None]:
    """A context in which PyTorch keeps all calls that change arguments.

    It makes them functional over tensors, not over memory.
    """
    from torch._export import config
    from torch.fx.node import _side_effectful_functions  # pyright: ignore[reportPrivateUsage]

    known = cast("set[Any]", _side_effectful_functions)
    called = {node.target for node in all_nodes(program.graph_module) if is_outside(node.target)}
    new = {target for target in called if cast(Any, target)._schema.is_mutable} - known
    known |= new
    try:
        with cast(Any, config).patch(enable_auto_functionalized_v2_for_export=False):
            yield
    finally:
        known -= new


def _has_parts(value: Any) -> bool:
    """True for a tensor made of others, which PyTorch takes apart when it makes a program functional."""
    return hasattr(value, "__tensor_flatten__")


@contextmanager
def _without_gradients_of_parts(program: ExportedProgram) -> Generator[None]:
    """A context in which weights that are made of several tensors require no gradients.

    PyTorch takes such a weight apart and requires gradients of its parts, but integer codes have none.
    """
    parts = [one for one in program.state_dict.values() if one.requires_grad and _has_parts(one)]
    for one in parts:
        one.requires_grad = False
    try:
        yield
    finally:
        for one in parts:
            one.requires_grad = True


@contextmanager
def _keeping_operators(program: ExportedProgram) -> Generator[None]:
    """A context in which PyTorch keeps operators whole that it would decompose for gradients, such as `hardshrink`."""
    key: Any = torch._C.DispatchKey.Autograd  # pyright: ignore[reportPrivateUsage]
    called: list[Any] = list({node.target for node in all_nodes(program.graph_module) if is_operator(node.target)})
    whole = [operator for operator in called if key in operator.py_kernels and not operator._can_decompose()]
    hidden = [operator.py_kernels.pop(key) for operator in whole]
    for operator in whole:
        operator._dispatch_cache.clear()
    try:
        yield
    finally:
        for operator, kernel in zip(whole, hidden, strict=True):
            operator.py_kernels[key] = kernel
            operator._dispatch_cache.clear()


def _ready(program: ExportedProgram) -> ExportedProgram:
    """``program`` in a form that PyTorch makes functional correctly.

    Constants are buffers, and each tensor occurs once. Operators that autocast would miss are decomposed, and dropout
    is hidden. Results of regions without gradients are detached, and each changed tensor gets a value of its own.
    PyTorch makes changes of buffers functional, under one name each, and nothing else. A tensor that is neither a
    parameter nor a buffer is a constant, but may be changed too. So may a buffer that the model also holds in another
    place, as in the caches of transformers.
    """
    constants = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.CONSTANT_TENSOR]
    module = with_parts_in_regions(program.graph_module)
    is_ready = not (constants or has_dropout(module) or has_regions(module) or _copied_again(module))
    if is_ready and module is program.graph_module:
        return program
    module = copy.deepcopy(module)
    for node, source in zip(module.graph.nodes, program.graph.nodes, strict=False):
        if source.op != "placeholder":
            break
        node.name = source.name  # a copy renames nodes with the names of Python keywords
    hide_dropout(module)
    detach_regions(module)
    for copy_of in _copied_again(module):
        with module.graph.inserting_before(copy_of):
            value = cast(torch.fx.Node, copy_of.args[1])
            own = module.graph.call_function(torch.ops.aten.clone.default, (value,))
            own.meta = value.meta.copy()
        copy_of.replace_input_with(value, own)
    nodes = {node.name: node for node in module.graph.nodes if node.op == "placeholder"}
    owners: dict[tuple[object, ...], InputSpec] = {}
    specs = list(program.graph_signature.input_specs)
    # Tensors with a name in the model come first, so that a constant that is the same tensor is removed.
    for spec in sorted(specs, key=lambda spec: spec.kind is InputKind.CONSTANT_TENSOR):
        if spec.kind not in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            continue
        owner = owners.setdefault(memory_of(state_tensor(program, spec)), spec)
        if spec.kind is InputKind.CONSTANT_TENSOR and owner is not spec:
            nodes[spec.arg.name].replace_all_uses_with(nodes[owner.arg.name])
            module.graph.erase_node(nodes[spec.arg.name])
            specs.remove(spec)
    module.recompile()
    as_buffers = [
        replace(spec, kind=InputKind.BUFFER, persistent=False) if spec.kind is InputKind.CONSTANT_TENSOR else spec
        for spec in specs
    ]
    signature = ExportGraphSignature(as_buffers, _named_results(program, module))
    return rebuilt(program, module, signature=signature)


def _named_results(program: ExportedProgram, module: torch.fx.GraphModule) -> list[OutputSpec]:
    """The results of ``program`` by their names in ``module``: another node, such as a `detach`, may give one."""
    found: list[OutputSpec] = []
    nodes = cast("Sequence[Any]", module.graph.output_node().args[0])
    for spec, node in zip(program.graph_signature.output_specs, nodes, strict=True):
        is_named = isinstance(node, torch.fx.Node) and isinstance(spec.arg, TensorArgument)
        found.append(replace(spec, arg=TensorArgument(node.name)) if is_named else spec)
    return found


def _copied_again(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The calls that copy a value to a tensor after an earlier call has copied the same value to another.

    PyTorch identifies the changed tensors by the names of their new values.
    """
    seen: set[object] = set()
    found: list[torch.fx.Node] = []
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.copy_.default and isinstance(node.args[1], torch.fx.Node):
            if node.args[1] in seen:
                found.append(node)
            seen.add(node.args[1])
    return found


def with_own_buffers(program: ExportedProgram) -> ExportedProgram:
    """``program``; if it writes in place, a version whose buffers no other program changes. Parameters stay shared."""
    signature = program.graph_signature
    if not signature.buffers_to_mutate and not any(map(_has_effect, all_nodes(program.graph_module))):
        return program
    learned = {str(spec.target) for spec in signature.input_specs if spec.kind is InputKind.PARAMETER}
    own = {name: tensor for name, tensor in program.state_dict.items() if name not in learned}
    own, constants = copy.deepcopy((own, dict(program.constants)))
    return rebuilt(program, program.graph_module, state={**program.state_dict, **own}, constants=constants)


def unreadable_output(spec: OutputSpec) -> ConvertError:
    """The error for an output of a kind that has no counterpart."""
    if spec.kind is OutputKind.PARAMETER_MUTATION:
        return ConvertError(
            f"the model changes its parameter {spec.target} while it runs, and gradients go to the changed value; if "
            "it does so in its first run only, run it once before the export, otherwise use a buffer"
        )
    return ConvertError(f"an output is a {spec.kind.name.lower()}, which has no counterpart")


def state_tensor(program: ExportedProgram, spec: InputSpec) -> torch.Tensor:
    """The tensor of the model's state for an input of the graph."""
    name = str(spec.target)
    kept = spec.kind is InputKind.PARAMETER or (spec.kind is InputKind.BUFFER and spec.persistent is not False)
    tensor = program.state_dict[name] if kept else program.constants.get(name, program.state_dict.get(name))
    if not isinstance(tensor, torch.Tensor):
        raise ConvertError(f"the exported program has no tensor for {name}")
    return tensor


def memory_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """A key that is equal for two names of the same tensor."""
    if not tensor.numel() or tensor.device.type == "meta" or tensor.layout is not torch.strided:
        return (id(tensor),)
    return (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())


def _has_effect(node: torch.fx.Node) -> bool:
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    if getattr(schema, "is_mutable", False) or is_transform(node):
        return True
    return getattr(node.target, "__name__", "") in _REGIONS or str(node.target) == _PART_OF_SUBCLASS


def argument_names(program: ExportedProgram) -> tuple[str, ...]:
    """The names of the arguments of the model's ``forward``, as far as they were exported."""
    entries = program.module_call_graph
    signature = entries[0].signature if entries else None
    return tuple(signature.forward_arg_names or ()) if signature is not None else ()

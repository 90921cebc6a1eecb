"""Tensors that PyTorch's tracer made of numbers in the model's code, as for ``y[:, 0] = 0``.

A tensor made in the body of a branch, a loop or a region is stored in the body's own module. PyTorch cannot make such
a body functional, so the tensor becomes an operand of the body. A tensor without axes is read as a number again.
"""

from __future__ import annotations

import copy
import re
from itertools import count
from typing import Any, Final, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, TensorArgument
from torch.fx import GraphModule, Node

from ...ir.expr import Constant, Expr
from ..errors import ConvertError
from .complex_numbers import ComplexPair

_NAME: Final = "constant_of_body"
_MADE: Final = re.compile(rf"(.*\.)?(lifted_tensor_|_tensor_constant|{_NAME}_)\d+(\.real|\.imag)?")
"""The names of such tensors, and of the parts of complex ones."""


def traced_number(value: Any) -> Any:
    """The number of which the tracer made a tensor of the model; ``value`` itself if it is no such tensor."""
    if isinstance(value, ComplexPair):
        real, imag = traced_number(value.real), traced_number(value.imag)
        return value if isinstance(real, Expr) or isinstance(imag, Expr) else complex(real, imag)
    if isinstance(value, Constant) and not value.data.shape and _MADE.fullmatch(value.data.name or ""):
        return value.data.numpy().item()
    return value


def with_constants_outside(program: ExportedProgram) -> ExportedProgram:
    """``program``, or a copy of it in which no body holds a constant. Cost: linear in the nodes."""
    bodies = [part for part in program.graph_module.modules() if isinstance(part, GraphModule)]
    constants = [(body, node) for body in bodies for node in _constants(body)]
    if not constants:
        return program
    for body, node in constants:
        if isinstance(_held(body, node), FakeTensor):
            raise ConvertError(
                f"{node.target}, which the body of a loop or branch reads, has no values: it belongs to the "
                "tracer; let the body take it as an operand"
            )
    module = copy.deepcopy(program.graph_module)
    for node, source in zip(module.graph.nodes, program.graph.nodes, strict=True):
        node.name = source.name  # a copy renames nodes with the names of Python keywords
    _give_bodies(module)
    specs: list[InputSpec] = []
    held = dict(program.constants)
    first = next(iter(module.graph.nodes))
    for node in _constants(module):
        with module.graph.inserting_before(first):
            given = _placeholder(module, node)
        name = _new_name({*program.state_dict, *held})
        held[name] = _taken(module, node, given)
        specs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(given.name), name))
    module.recompile()
    signature = program.graph_signature
    signature = ExportGraphSignature([*specs, *signature.input_specs], signature.output_specs)
    return rebuilt(program, module, signature=signature, constants=held)


def rebuilt(
    program: ExportedProgram,
    module: GraphModule,
    *,
    signature: ExportGraphSignature | None = None,
    state: dict[str, Any] | None = None,
    constants: dict[str, Any] | None = None,
) -> ExportedProgram:
    """``program`` with ``module`` as its graph, and with the other given parts."""
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=program.graph_signature if signature is None else signature,
        state_dict=program.state_dict if state is None else state,
        range_constraints=cast(Any, program).range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants if constants is None else constants,
        verifiers=program.verifiers,
    )


def _give_bodies(module: GraphModule) -> None:
    """Move the constants of bodies in ``module`` to ``module``, and pass them to each call of these bodies."""
    for call in list(module.graph.nodes):
        bodies = [body for operand in call.all_input_nodes if (body := _body(module, operand)) is not None]
        for body in bodies:
            _give_bodies(body)
            for node in _constants(body):
                given = [_last_placeholder(each, node) for each in bodies]
                name = _new_name(set(dict(module.named_buffers())))
                module.register_buffer(name, _taken(body, node, given[bodies.index(body)]), persistent=False)
                with module.graph.inserting_before(call):
                    operand = module.graph.get_attr(name)
                operand.meta = node.meta.copy()
                _append(call, operand)
        for body in bodies:
            body.recompile()


def _body(module: GraphModule, node: Node) -> GraphModule | None:
    """The body that ``node`` names; None for other nodes."""
    found = _held(module, node)
    return found if isinstance(found, GraphModule) else None


def _constants(module: GraphModule) -> list[Node]:
    """The nodes that name a tensor held by ``module``."""
    return [node for node in module.graph.nodes if isinstance(_held(module, node), torch.Tensor)]


def _held(module: GraphModule, node: Node) -> Any:
    return getattr(module, str(node.target), None) if node.op == "get_attr" else None


def _last_placeholder(body: GraphModule, like: Node) -> Node:
    """Add a last input to ``body``, for the value of ``like``."""
    inputs = [node for node in body.graph.nodes if node.op == "placeholder"]
    place = body.graph.inserting_after(inputs[-1]) if inputs else body.graph.inserting_before(None)
    with place:
        return _placeholder(body, like)


def _placeholder(module: GraphModule, like: Node) -> Node:
    made = module.graph.placeholder(f"c_{_NAME}")
    made.target = made.name  # the name of the argument must be the node's own
    made.meta = like.meta.copy()
    return made


def _taken(module: GraphModule, node: Node, instead: Node) -> torch.Tensor:
    """Remove the tensor that ``node`` names from ``module``; its readers read ``instead``. Returns the tensor."""
    name = str(node.target)
    tensor = getattr(module, name)
    readers = [each for each in module.graph.nodes if each.op == "get_attr" and each.target == node.target]
    for reader in readers:
        reader.replace_all_uses_with(instead)
        module.graph.erase_node(reader)
    delattr(module, name)
    return tensor


def _append(call: Node, operand: Node) -> None:
    """Make ``operand`` the last operand of ``call``, or of its list of captured values if it has one."""
    captured = call.args[-1]
    if isinstance(captured, list | tuple):
        call.args = (*call.args[:-1], type(captured)([*captured, operand]))
    else:
        call.args = (*call.args, operand)


def _new_name(taken: set[str]) -> str:
    return next(name for number in count() if (name := f"{_NAME}_{number}") not in taken)

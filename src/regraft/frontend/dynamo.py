"""Relax's backend for `torch.compile`, and the capture of the graphs that `torch.compile` splits a model into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from ..formats.torch.complex_numbers import is_complex
from ..ir.dims import Dim, SymVar
from ..ir.errors import IRError
from ..ir.module import IRModule
from ..run import build
from .torch_importers import from_fx


def relax_dynamo(
    pipeline: Callable[[IRModule], IRModule] | None = None,
) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    """A backend for ``torch.compile(model, backend=relax_dynamo())``.

    Each graph is read by `from_fx`, rewritten by ``pipeline``, a pass or a `Sequential`, and run by the engine
    ``torch``, so gradients and dynamic sizes work. As in Relax, the backend is for inference: dropout does nothing, and
    buffers that the model changes, such as the statistics of a batch norm in training, keep their values. ``pipeline``
    sees two real tensors for each complex one.

    Raises the errors of `from_fx` and `regraft.build` when a graph is first called.
    """

    def backend(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        graph, inputs = _without_sizes_as_inputs(graph_module, example_inputs)
        compiled: Callable[..., Any] | None = None
        kinds = _kinds_of_results(graph_module)

        def run(*args: Any) -> Any:
            nonlocal compiled
            if compiled is None:  # not while PyTorch traces the model: exporting is tracing, too
                module = from_fx(graph, inputs)
                compiled = build(module if pipeline is None else pipeline(module), target="torch")["main"]
            given = [part for arg in args if isinstance(arg, torch.Tensor) for part in _parts(arg)]
            return _with_complex_results(compiled(*given), kinds)

        return run

    return backend


def dynamo_capture_subgraphs(
    model: Callable[..., Any], *params: Any, keep_params_as_input: bool = False, **kwargs: Any
) -> IRModule:
    """The graphs that `torch.compile` makes from ``model(*params, **kwargs)``: ``subgraph_0``, ``subgraph_1`` ... .

    With ``keep_params_as_input``, weights that a graph holds are parameters; see `detach_params`. Weights that
    `torch.compile` passes to the graph are always inputs. Runs the model once, without gradients.
    """
    graphs: list[tuple[torch.fx.GraphModule, list[tuple[list[Dim], torch.dtype]]]] = []

    def capture(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(_without_sizes_as_inputs(graph_module, example_inputs))
        return graph_module.forward

    torch.compiler.reset()
    compiled = cast(Any, torch).compile(model, backend=capture)
    with torch.no_grad():
        compiled(*params, **kwargs)
    functions = [
        from_fx(graph, inputs, keep_params_as_input=keep_params_as_input, unwrap_unit_return_tuple=True)["main"]
        for graph, inputs in graphs
    ]
    names = [f"subgraph_{index}" for index in range(len(functions))]
    return IRModule({name: one.with_attr("global_symbol", name) for name, one in zip(names, functions, strict=True)})


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The real tensors that represent an input: two for a complex one."""
    return [torch.real(tensor), torch.imag(tensor)] if tensor.is_complex() else [tensor]


def _kinds_of_results(graph_module: torch.fx.GraphModule) -> list[bool]:
    """One bool for each result of a graph: True if it is complex."""
    output = next(node for node in graph_module.graph.nodes if node.op == "output")
    return [
        is_complex(node.meta.get("example_value")) for node in pytree.tree_leaves(output.args[0]) if node is not None
    ]


def _with_complex_results(results: Any, kinds: Sequence[bool]) -> Any:
    """The results of a program, with each pair that represents a complex tensor combined into one."""
    if not any(kinds):
        return results
    parts = iter(cast("Sequence[torch.Tensor]", results))
    return tuple([torch.complex(next(parts), next(parts)) if kind else next(parts) for kind in kinds])


def _shape(tensor: torch.Tensor) -> list[Dim]:
    """The sizes of an input. A size that changes between calls is a symbolic variable with PyTorch's name for it."""
    sizes = cast(Sequence[Any], tensor.shape)
    return [SymVar(str(size)) if str(size).isidentifier() else int(size) for size in sizes]


def _without_sizes_as_inputs(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> tuple[torch.fx.GraphModule, list[tuple[list[Dim], torch.dtype]]]:
    """The graph with only tensors as inputs, and the shape and dtype of each. Sizes are read from the tensors."""
    given = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    examples = [node.meta.get("example_value", value) for node, value in zip(given, example_inputs, strict=True)]
    changed = deepcopy(graph_module)
    inputs = [node for node in changed.graph.nodes if node.op == "placeholder"]
    tensors = [(node, value) for node, value in zip(inputs, examples, strict=True) if isinstance(value, torch.Tensor)]
    first = next(node for node in changed.graph.nodes if node.op != "placeholder")
    for node, value in zip(inputs, examples, strict=True):
        if isinstance(value, torch.Tensor):
            continue
        places = [
            (tensor, axis) for tensor, one in tensors for axis, size in enumerate(one.shape) if str(size) == str(value)
        ]
        if node.users and not places:
            raise IRError(f"the input {node.name} is the size {value}, which is the size of no tensor among the inputs")
        if node.users:
            with changed.graph.inserting_before(first):
                node.replace_all_uses_with(changed.graph.call_function(torch.ops.aten.sym_size.int, places[0]))
        changed.graph.erase_node(node)
    changed.recompile()
    return changed, [(_shape(value), value.dtype) for _, value in tensors]


__all__ = ["dynamo_capture_subgraphs", "relax_dynamo"]

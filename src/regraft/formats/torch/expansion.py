"""One operator as a graph of simpler ones, as PyTorch itself decomposes it.

Only this call is traced, on the fake tensors that the exported program has for its operands. So all other operators
stay as they are, and sizes keep their symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple, cast

import torch
from torch.utils import _pytree as pytree

from ..quiet import quiet
from .context import UnsupportedCallError
from .nodes import writes_in_place
from .own_decompositions import OWN_DECOMPOSITIONS
from .tensors import have_one_shape


class Expansion(NamedTuple):
    """A decomposed call: a graph, and the nodes of the program that its placeholders stand for."""

    graph: torch.fx.Graph
    operands: tuple[torch.fx.Node, ...]


def expansion(node: torch.fx.Node, *, composite: bool = False) -> Expansion | None:
    """The graph into which PyTorch decomposes the call of ``node``; None if it does not decompose it.

    With ``composite``, the decomposition of a composite operator when it runs. Raises `UnsupportedCallError` if PyTorch
    would fix a symbolic size.
    """
    rule = cast(Any, node.target) if composite else _rule(node.target)
    mode = _fake_mode(node)
    if rule is None or mode is None:
        return None
    flat, spec = pytree.tree_flatten((node.args, node.kwargs))
    operands = tuple([leaf for leaf in flat if isinstance(leaf, torch.fx.Node)])

    def run(*values: Any) -> Any:
        given = iter(values)
        leaves = [next(given) if isinstance(leaf, torch.fx.Node) else leaf for leaf in flat]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return rule(*args, **kwargs)

    with quiet(), mode, _fixing_nothing(mode.shape_env):
        try:
            graph = _traced(run, [operand.meta["val"] for operand in operands])
        except UnsupportedCallError:
            raise
        except Exception:  # PyTorch raises any error of its operators
            return None
    return Expansion(graph, operands)


def unchanged_operand(node: torch.fx.Node) -> Any:
    """The operand that ``node`` returns unchanged, such as ``x`` of ``x * 1``; None for any other node.

    PyTorch's decompositions compute with every argument, even if it has no effect.
    """
    name, args = str(node.target).removeprefix("aten.").partition(".")[0], node.args
    if node.kwargs or len(args) != _TWO or _NEUTRAL.get(name) != args[1] or isinstance(args[1], bool):
        return None
    old: Any = args[0].meta.get("val") if isinstance(args[0], torch.fx.Node) else None
    new: Any = node.meta.get("val")
    tensors = isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor)
    return args[0] if tensors and old.dtype == new.dtype and have_one_shape(old, new) else None


_TWO: Final = 2
_NEUTRAL: Final = {"mul": 1, "div": 1, "pow": 1}


def _traced(run: Callable[..., Any], values: Sequence[Any]) -> torch.fx.Graph:
    from torch.fx.experimental.proxy_tensor import make_fx

    def functional(program: Callable[..., Any]) -> torch.fx.GraphModule:
        traced = cast(Any, make_fx(cast(Any, torch.func).functionalize(program), tracing_mode="real"))(*values)
        traced.graph.eliminate_dead_code()
        return traced

    module = functional(run)
    if any(map(writes_in_place, module.graph.nodes)):
        # What an operator in C++ writes into a tensor of its own becomes a separate call in the first trace only.
        module = functional(module)
    for node in module.graph.nodes:
        if writes_in_place(node):
            _make_functional(node)
    return module.graph


def _is_view(node: torch.fx.Node) -> bool:
    """True if the result of ``node`` shares memory with its operand, so that a change of one changes the other."""
    schema = getattr(getattr(node, "target", None), "_schema", None)
    return schema is not None and not schema.is_mutable and any(found.alias_info for found in schema.returns)


def _make_functional(node: torch.fx.Node) -> None:
    """Replace an in-place operator, on a value that nothing else reads, by the operator that returns a new value."""
    changed = cast(Any, node.args[0])
    overload: Any = node.target
    packet = getattr(torch.ops.aten, overload.overloadpacket.__name__.removesuffix("_"))
    wanted = [str(argument.type) for argument in overload._schema.arguments]
    for name in packet.overloads():
        candidate = getattr(packet, name)
        schema = candidate._schema
        alike = not schema.is_mutable and [str(argument.type) for argument in schema.arguments] == wanted
        only_here = isinstance(changed, torch.fx.Node) and list(changed.users) == [node]
        if alike and only_here and changed.op != "placeholder" and not _is_view(changed):
            node.target = candidate
            return
    raise UnsupportedCallError(f"it needs {overload}, which changes its operand")


def _fake_mode(node: torch.fx.Node) -> Any:
    leaves = [leaf.meta.get("val") for leaf in node.all_input_nodes]
    for value in pytree.tree_leaves([node.meta.get("val"), *leaves]):
        mode = getattr(value, "fake_mode", None)
        if mode is not None:
            return mode
    return None


@contextmanager
def _fixing_nothing(sizes: Any) -> Generator[None]:
    """A context in which fixing a symbolic size as a number raises `UnsupportedCallError`, and no guard is kept."""
    if sizes is None:
        yield
        return
    evaluate = sizes.evaluate_sym_node

    def watched(symbol: Any, *args: Any, **kwargs: Any) -> Any:
        found = evaluate(symbol, *args, **kwargs)
        is_number = not isinstance(found, bool) and not getattr(found, "is_Boolean", False)
        if is_number and symbol.expr.free_symbols:
            raise UnsupportedCallError(f"PyTorch decomposes it for one size only, {symbol.expr} = {found}")
        return found

    sizes.evaluate_sym_node = watched
    try:
        with sizes.suppress_guards():
            yield
    finally:
        del sizes.evaluate_sym_node


@cache
def _tables() -> tuple[Mapping[Any, Callable[..., Any]], Mapping[Any, Callable[..., Any]]]:
    from torch._decomp import decomposition_table  # pyright: ignore[reportUnknownVariableType]
    from torch.export import default_decompositions

    return cast(Any, decomposition_table), cast(Any, default_decompositions())


def _rule(operator: Any) -> Callable[..., Any] | None:
    single, composite = _tables()
    rule = OWN_DECOMPOSITIONS.get(operator) or single.get(operator)
    if rule is None and operator in composite:
        return composite[operator]
    return rule or _rule_beside_tables(operator)


def _rule_beside_tables(operator: Any) -> Callable[..., Any] | None:
    """The decomposition of an operator that PyTorch's tables lack; None if there is none.

    It is PyTorch's function for an operator of PT2E, or the composite kernel of another operator.
    """
    if getattr(operator, "namespace", "aten") == _QUANTIZED:
        from torch.ao.quantization.fx import _decomposed

        name, _, overload = str(operator).removeprefix(f"{_QUANTIZED}.").partition(".")
        return getattr(_decomposed, name if overload == "default" else f"{name}_{overload}", None)
    if isinstance(operator, torch._ops.OpOverload) and operator.namespace != "prim":  # pyright: ignore[reportPrivateUsage]
        key = torch._C.DispatchKey.CompositeImplicitAutograd  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType, reportUnknownMemberType, reportAttributeAccessIssue]
        return cast(Any, operator).decompose if operator.has_kernel_for_dispatch_key(key) else None
    return None


_QUANTIZED: Final = "quantized_decomposed"

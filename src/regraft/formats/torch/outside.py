"""Operators of other libraries (`torch.library`), as calls of declared operators, or as foreign calls otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from keyword import iskeyword
from typing import Any, Final, NamedTuple, cast

import torch
from torch.utils import _pytree as pytree

from ...ir.dims import SymExpr
from ...ir.errors import OpTypeError
from ...ir.expr import Expr, Tuple
from ...ir.op import Call, Op
from ...ir.types import Type
from .context import UnsupportedCallError
from .tensors import default_device, dtype_name, torch_dtype

_PYTORCH: Final = frozenset({"aten", "prim", "prims", "quantized", "inductor", "higher_order", "profiler", "_c10d"})
"""The namespaces of PyTorch's own operators. One of these without a handler is unsupported."""


def is_outside(target: Any) -> bool:
    """True if a node's target is an operator that another library than PyTorch has registered."""
    return isinstance(target, torch._ops.OpOverload) and target.namespace not in _PYTORCH  # pyright: ignore[reportPrivateUsage]


def can_be_carried(target: Any) -> bool:
    """True if a node's target is an operator of PyTorch whose calls a program can carry unchanged."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":  # pyright: ignore[reportPrivateUsage]
        return False
    return not cast(Any, target)._schema.is_mutable


class MutatingCall(NamedTuple):
    """A call of an operator that changes some of its arguments, in PyTorch's functional form.

    It returns the operator's results, followed by the new values of the arguments that it changes.
    """

    target: Any
    arguments: Mapping[str, Any]


def mutating_call(node: torch.fx.Node) -> MutatingCall | None:
    """The call, in a node of a functional program, of an operator that changes arguments; None for other nodes."""
    higher: Any = torch.ops.higher_order
    if node.target is higher.auto_functionalized:
        return MutatingCall(node.args[0], node.kwargs)
    return _of_whole_tensors(node) if node.target is higher.auto_functionalized_v2 else None


def _of_whole_tensors(node: torch.fx.Node) -> MutatingCall | None:
    """The call of a node that states the memory of its arguments; None unless each has all of a memory of its own."""
    target: Any = node.args[0]
    bases = cast("Sequence[Any]", node.kwargs["_all_bases"])
    changed = _changed(target)
    own = [each.name for each in target._schema.arguments if each.name not in changed]
    places = [f"_{name}_base_index" for name in changed]
    if node.kwargs.keys() != {*own, *places, "_all_bases"}:
        return None
    if [node.kwargs[place] for place in places] != list(range(len(bases))):
        return None
    given = {name: node.kwargs[name] for name in own}
    return MutatingCall(target, {**given, **dict(zip(changed, bases, strict=True))})


def has_effect(node: torch.fx.Node) -> bool:
    """True if a call must not be moved, merged or removed."""
    return is_random(node) or mutating_call(node) is not None


def is_random(node: torch.fx.Node) -> bool:
    """True if a call draws random numbers. Dropout does, unless it is not in training or has probability 0."""
    target: Any = node.target
    if torch.Tag.nondeterministic_seeded not in getattr(target, "tags", ()):
        return False
    given = _arguments(target._schema, node.args, node.kwargs)
    switches = [given[name] for name in ("train", "training") if name in given]
    chances = [given[name] for name in ("p", "dropout", "dropout_p") if isinstance(given.get(name), int | float)]
    return False not in switches and 0 not in chances


def why_not_carried(node: torch.fx.Node) -> str:
    """The reason why a call can neither be read nor carried, with advice; empty if none is known."""
    if str(node.target).startswith("auto_functionalized"):
        return (
            f"{node.args[0]} changes its arguments, some of which are parts of tensors; give the program as "
            "torch.export made it, without run_decompositions"
        )
    if str(node.target).startswith("aten.quantize_per_"):
        return "it gives a quantized tensor of PyTorch; quantize the model with PT2E or torchao instead"
    return ""


def declared_for(target: Any) -> Op | None:
    """The declared operator that names ``target`` as its counterpart; None if there is none."""
    name = _qualified(target).partition(".")[0]
    return next((op for op in Op.all() if op.torch == name), None)


def outside_call(
    target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], types: Sequence[Type], *, pure: bool = True
) -> Call:
    """A call of ``target``, whose results have these ``types``.

    Raises `UnsupportedCallError` for arguments that a call cannot hold.
    """
    schema = target._schema
    operands: list[Any] = []
    attributes: dict[str, Any] = {}
    given = _arguments(schema, args, kwargs)
    is_own = target.namespace == "aten"
    for argument in schema.arguments:
        value = given[argument.name]
        if "Tensor" in str(argument.type):
            operands.append(_operand(value))
        elif not (is_own and isinstance(value, torch.device | torch.layout)):  # these are chosen at run time
            attributes[_attribute_name(argument.name)] = _attribute(argument.name, value)
    while operands and operands[-1] is None:
        operands.pop()
    op = declared_for(target)
    untold = [] if op is None else _untold(op, schema, given)
    if op is not None and not (untold and is_own):
        if untold:
            raise UnsupportedCallError(f"its declaration as {op.name} has no {untold[0]}, which the call gives")
        stated = {name: value for name, value in attributes.items() if name in op.attributes}
        try:
            return op(*operands, **stated)
        except OpTypeError as error:
            raise UnsupportedCallError(f"its declaration as {op.name} does not allow for this call: {error}") from error
    return Op.foreign(_qualified(target), "torch", pure=pure)(*operands, ty_args=types, **attributes)


def _untold(op: Op, schema: Any, given: Mapping[str, Any]) -> list[str]:
    """The arguments of a call that differ from their default and that the declaration lacks."""
    attributes = [argument for argument in schema.arguments if "Tensor" not in str(argument.type)]
    return [
        argument.name
        for argument in attributes
        if _attribute_name(argument.name) not in op.attributes
        and not isinstance(given[argument.name], torch.device | torch.layout)
        and given[argument.name] != argument.default_value
    ]


def _arguments(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, with defaults for those that it leaves out."""
    defaults = {argument.name: argument.default_value for argument in schema.arguments}
    return defaults | dict(zip(defaults, args, strict=False)) | dict(kwargs)


def _qualified(target: Any) -> str:
    """``"namespace::name"``, followed by the overload unless it is the default one."""
    name = str(target.name())
    return name.removesuffix(".default")


def _operand(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return Tuple([cast(Expr, item) for item in cast("Sequence[Any]", value)])
    if value is not None and not isinstance(value, Expr):
        raise UnsupportedCallError(f"{value!r} stands where a tensor is expected")
    return value


def _attribute_name(name: str) -> str:
    """The name of the attribute for an argument; it gets a ``_`` if it is a Python keyword."""
    return f"{name}_" if iskeyword(name) else name


def _attribute(name: str, value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str() | SymExpr():
            return value
        case list() | tuple():
            return tuple([_attribute(name, item) for item in cast("Sequence[Any]", value)])
        case torch.dtype():
            return dtype_name(value)
        case torch.device() | torch.layout() | torch.memory_format():
            raise UnsupportedCallError(f"its argument {name} is {value}, which an attribute cannot hold")
        case _:
            raise UnsupportedCallError(
                f"its argument {name} is a {type(value).__name__}, which an attribute cannot hold"
            )


def torch_operator(op: Op) -> Callable[..., Any] | None:
    """PyTorch's operator under the name in ``op``, as a function of operands and attributes; None if there is none."""
    if op.torch is None:
        return None
    namespace, _, rest = op.torch.partition("::")
    name, _, overload = rest.partition(".")
    try:
        found: Any = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except AttributeError:
        return None
    tensors = [argument.name for argument in found._schema.arguments if "Tensor" in str(argument.type)]
    dtypes = [argument.name for argument in found._schema.arguments if "ScalarType" in str(argument.real_type)]
    names = {_attribute_name(argument.name): argument.name for argument in found._schema.arguments}
    changed = [name for name in tensors if name in _changed(found)]
    is_placed = namespace == "aten" and not tensors and any(one.name == "device" for one in found._schema.arguments)

    def run(*operands: Any, **attributes: Any) -> Any:
        given = [*operands, *[None] * (len(tensors) - len(operands))]
        for name in dtypes:
            if isinstance(attributes.get(name), str):
                attributes[name] = torch_dtype(attributes[name])
        stated = {names.get(name, name): value for name, value in attributes.items()}
        if is_placed:
            stated["device"] = default_device()
        values = {name: _given(value) for name, value in zip(tensors, given, strict=True)}
        values |= {name: pytree.tree_map_only(torch.Tensor, torch.clone, values[name]) for name in changed}
        outcome = found(**values, **stated)
        if not (changed or op.is_foreign):
            return outcome
        leaves = pytree.tree_leaves([outcome, *[values[name] for name in changed]])
        results = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return results[0] if len(results) == 1 else tuple(results)

    return run


def _changed(target: Any) -> list[str]:
    """The names of the arguments that an operator changes."""
    arguments = target._schema.arguments
    return [each.name for each in arguments if each.alias_info is not None and each.alias_info.is_write]


def _given(operand: Any) -> Any:
    """An operand in PyTorch's form: None if it is left out, a list for several tensors."""
    if isinstance(operand, tuple):
        return list(cast("tuple[Any, ...]", operand)) or None
    return operand

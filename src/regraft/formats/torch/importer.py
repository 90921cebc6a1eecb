"""Reading an exported program: its inputs, its nodes in order, and its outputs become one function of the language."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from ... import op as R
from ...ir.builder import BlockBuilder
from ...ir.collection import collection_paused
from ...ir.dims import SymExpr
from ...ir.errors import OpTypeError
from ...ir.expr import Constant, Expr, PrimValue, Tuple, Var
from ...ir.module import IRModule
from ...ir.program import If, SeqExpr
from ...ir.tensor_data import TensorData
from ...ir.types import PrimType, TensorType, TupleType, is_subtype
from ..errors import ConvertError, UnsupportedOperatorError
from . import handlers as handlers
from .complex_numbers import (
    ComplexPair,
    WholeNumbers,
    for_each_part,
    handler_of,
    is_complex_call,
    paired,
    parts_of,
    stand_in,
)
from .context import Context, UnsupportedCallError, fields_of
from .custom import Conversion, Converter, converter_of
from .dynamic_sizes import dim_names
from .expansion import expansion, unchanged_operand
from .exported import argument_names, export, memory_of, prepared, state_tensor, unreadable_output
from .gradient_stops import detaching
from .loops import computed_with_tensors, is_loop, read_loop
from .nodes import (
    IGNORED,
    all_nodes,
    asserted,
    computing,
    has_tensor_for_number,
    is_branch,
    is_integer,
    is_of_sizes,
    is_size,
    narrowed,
    pairs_of_copy,
    writes_in_place,
)
from .origins import listed, origin_of, place_of
from .outside import can_be_carried, declared_for, has_effect, is_outside, mutating_call, outside_call, why_not_carried
from .signature import (
    ATTRIBUTE,
    COMPLEX,
    NUMBER,
    VALUE,
    CallingConvention,
    Leaf,
    SizeCheck,
    StateKind,
    constant_leaf,
    part_names,
    plain_spec,
    spec_text,
)
from .sizes import SizeTable
from .source_calls import Computed, SourceCall
from .tensors import dtype_name, to_numpy


def from_torch(
    source: ExportedProgram | torch.nn.Module,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    keep_params_as_input: bool = False,
    converters: Mapping[str, Converter] | None = None,
) -> IRModule:
    """A PyTorch model as a module whose function ``main`` computes the model's ``forward``.

    Args:
        source: an exported program, or a module. A module is exported here for the example inputs ``args`` and
            ``kwargs`` with `torch.export`'s ``dynamic_shapes``. Put it in eval mode first.
        keep_params_as_input: True to make the tensors of the model's state parameters of ``main`` after its inputs,
            rather than constants. The attribute ``num_input`` then is the number of inputs.
        converters: conversions of operators by name, ``"aten.relu.default"``, ``"relu.default"`` or ``"relu"``, which
            precede the built-in ones. They are functions of a `torch.fx.Node` and a
            `regraft.formats.torch.custom.Conversion` that return the result of the call, of PyTorch's shape and dtype.

    Operators stay as they were written: attention, normalizations and convolutions are one operator each, and `linear`
    is ``permute_dims``, ``matmul``, ``add``, as in Relax. Dynamic sizes are symbolic. Every variable knows the
    submodule that it came from (``origins``). Tensors of the state share the model's memory, and have its names as
    `TensorData.name`. Buffers that the model changes come first among the results. The attributes ``torch_...`` of
    ``main`` describe how the model was called; `regraft.to_torch` uses them to return the same model.
    An operator of PyTorch without counterpart becomes a call of a foreign operator, which only PyTorch can run.
    Raises `UnsupportedOperatorError`, which lists all operators that cannot be read, and `ConvertError` for anything
    else that cannot be read. Cost: linear in the nodes, about 0.1 ms each, besides the export.
    """
    if isinstance(source, torch.nn.Module):
        if args is None and kwargs is None:
            raise ConvertError("a module needs example inputs: from_torch(module, args, kwargs)")
        exported = export(source, args or (), kwargs, dynamic_shapes)
        names = dim_names(exported, dynamic_shapes, argument_names(exported))
    else:
        if args is not None or kwargs is not None or dynamic_shapes is not None:
            raise ConvertError("an exported program has its inputs and dynamic sizes already; give it alone")
        names, exported = {}, source
    return _Importer(exported, names, keep_params_as_input, converters or {}).module()


class _Importer:
    """The state of one conversion."""

    def __init__(
        self,
        program: ExportedProgram,
        names: Mapping[str, str],
        keep_params_as_input: bool,
        converters: Mapping[str, Converter],
    ) -> None:
        self._program: Final = prepared(program)
        writing = filter(writes_in_place, all_nodes(program.graph_module))
        self._fills: Final = tuple(dict.fromkeys(str(node.target) for node in writing))
        self._converters: Final = converters
        self.builder: Final = BlockBuilder()
        self._sizes: Final = SizeTable(names)
        self._context: Final = Context(self.builder, self._sizes)
        self._values: Final[dict[torch.fx.Node, Any]] = {}
        self._keep: Final = keep_params_as_input
        self._problems: Final[dict[str, list[str]]] = {}
        self._inputs: Final[list[Var]] = []
        self._state: Final[list[Var]] = []
        self._input_leaves: Final[list[Leaf]] = []
        self._tensors: Final[dict[str, StateKind]] = {}
        self._owners: Final[dict[tuple[object, ...], str]] = {}
        self._constants: Final[dict[str, Constant | ComplexPair]] = {}
        self._aliases: Final[dict[str, str]] = {}
        self._mutated: Final[list[str]] = []
        self._detached: Final[list[str]] = []
        self._written: Final[list[int]] = []
        self._checks: Final[list[SizeCheck]] = []
        self._output_leaves: Final[list[Leaf]] = []
        self._cuts: Final = detaching(self._program)
        self._within: SourceCall | None = None
        self._wholes: Final = WholeNumbers(self.builder)

    @collection_paused()
    def module(self) -> IRModule:
        """The module of the program."""
        self._placeholders()
        params = [*self._inputs, *self._state]
        effects = filter(has_effect, all_nodes(self._program.graph_module))
        impure = any(converter_of(node, self._converters) is None for node in effects)
        branches = impure or any(is_branch(node) or is_loop(node) for node in self._program.graph.nodes)
        attrs = {"num_input": len(self._inputs)} if self._keep else {}
        with self.builder.function("main", params, attrs, pure=not impure):
            # Branches and effects cannot be in dataflow blocks; `ConvertToDataflow` makes blocks around them later.
            with nullcontext() if branches else self.builder.dataflow():
                self._hide_changing()
                self._nodes(self._program.graph)
                self._raise_problems()
                results = self._outputs(self.builder.emit if branches else self.builder.emit_output)
            self.builder.emit_func_output(results[0] if len(results) == 1 else Tuple(results))
        module = self.builder.get()
        function = module["main"].with_attr(ATTRIBUTE, self._signature().text())
        return module.with_function("main", function)

    # --- problems

    def _note(self, node: torch.fx.Node, what: str) -> None:
        self._problems.setdefault(what, []).append(place_of(node))

    def _raise_problems(self) -> None:
        if self._problems:
            found = listed(self._problems)
            raise UnsupportedOperatorError(f"these operators of the model have no counterpart:\n{found}")

    # --- inputs

    def _placeholders(self) -> None:
        nodes = {node.name: node for node in self._program.graph.nodes if node.op == "placeholder"}
        for spec in self._program.graph_signature.input_specs:
            node = nodes[spec.arg.name]
            match spec.kind:
                case InputKind.USER_INPUT:
                    self._user_input(node, spec.arg)
                case InputKind.PARAMETER | InputKind.BUFFER | InputKind.CONSTANT_TENSOR:
                    self._state_input(node, spec)
                case _:
                    raise ConvertError(f"the input {node.name} is a {spec.kind.name.lower()}, which has no counterpart")

    def _user_input(self, node: torch.fx.Node, argument: Any) -> None:
        value = node.meta.get("val")
        origin = (origin_of(node),)
        if isinstance(value, torch.Tensor):
            if value.is_complex():
                self._input_leaves.append((COMPLEX, (len(self._inputs), len(self._inputs) + 1)))
                self._values[node] = self._complex_params(node, value, self._inputs)
                return
            variable = Var(node.name, self._sizes.stated_type(value), origin)
            self._values[node] = variable
        elif isinstance(value, torch.SymInt):
            size = self._sizes.dim(value)
            variable = Var(node.name, PrimType("int64", size), origin)
            self._values[node] = size
        else:
            constant = getattr(argument, "value", value)
            self._input_leaves.append(constant_leaf(constant, f"the input {node.name}"))
            self._values[node] = constant
            return
        self._input_leaves.append((VALUE, len(self._inputs)))
        self._inputs.append(variable)

    def _complex_params(self, node: torch.fx.Node, tensor: torch.Tensor, params: list[Var]) -> ComplexPair:
        """A complex tensor as two real tensors, appended to ``params``."""
        ty = self._sizes.stated_type(tensor)
        params += [Var(f"{node.name}_{side}", ty, (origin_of(node),)) for side in ("real", "imag")]
        return ComplexPair(*params[-2:])

    def _state_input(self, node: torch.fx.Node, spec: Any) -> None:
        tensor, kind = self._state_tensor(spec)
        name = str(spec.target)
        first = self._owners.setdefault(memory_of(tensor), name)
        if first != name and not self._keep:
            if kind != "constant":
                self._aliases[name] = first
            self._values[node] = self._constants[first]
            return
        if tensor.is_complex():
            self._values[node] = self._constants[name] = self._complex_state(node, tensor, name, kind)
            return
        self._tensors[name] = kind
        if self._keep:
            # Only the type is used, so that a model on the meta device, whose tensors have no numbers, can be read.
            variable = Var(node.name, TensorType(tuple(tensor.shape), dtype_name(tensor.dtype)), (origin_of(node),))
            self._state.append(variable)
            self._values[node] = variable
        else:
            self._values[node] = self._constants[name] = Constant(TensorData(to_numpy(tensor, name), name))

    def _hide_changing(self) -> None:
        """Mark buffers that the model changes with `no_grad`, because their values change later.

        No pass folds or compares a value behind this mark, and no gradient flows through it, as in PyTorch.
        """
        signature = self._program.graph_signature
        changing = set(signature.buffers_to_mutate.values())
        names = {spec.arg.name: spec.target for spec in signature.input_specs if spec.target in changing}
        for node, value in list(self._values.items()):
            if names.get(node.name) is not None and isinstance(value, Constant | ComplexPair):
                with self.builder.origin(origin_of(node)):
                    self._values[node] = for_each_part(
                        lambda part, name=node.name: self.builder.emit(R.grad.no_grad(part), name), value
                    )

    def _complex_state(self, node: torch.fx.Node, tensor: torch.Tensor, name: str, kind: StateKind) -> ComplexPair:
        """A complex tensor of the state as two real tensors with names of their own."""
        if self._keep:
            return self._complex_params(node, tensor, self._state)
        parts, labels = torch.view_as_real(tensor.detach().resolve_conj()), part_names(name)
        self._tensors.update(dict.fromkeys(labels, kind))
        sides = [to_numpy(parts[..., index].contiguous(), label) for index, label in enumerate(labels)]
        return ComplexPair(*[Constant(TensorData(side, label)) for side, label in zip(sides, labels, strict=True)])

    def _state_tensor(self, spec: Any) -> tuple[torch.Tensor, StateKind]:
        tensor = state_tensor(self._program, spec)
        if spec.kind is InputKind.PARAMETER:
            return tensor, "parameter" if tensor.requires_grad else "frozen"
        if spec.kind is InputKind.BUFFER:
            return tensor, "temporary" if spec.persistent is False else "buffer"
        return tensor, "constant"

    # --- nodes

    def _nodes(self, graph: torch.fx.Graph) -> None:
        for node in computing(graph):
            self._call(node)

    def _call(self, node: torch.fx.Node) -> None:
        if node.target is operator.getitem:
            source, index = node.args
            assert isinstance(source, torch.fx.Node)
            self._values[node] = self._values[source][index]
            return
        target = cast(object, node.target)
        if isinstance(target, type) and issubclass(cast("type[object]", target), tuple):
            self._values[node] = tuple([self.value(arg) for arg in node.args])
            return
        if is_branch(node) or is_loop(node):
            self._values[node] = self._control_flow(node)
            return
        name = str(node.target)
        if name in IGNORED:
            self._checks.extend(asserted(node, self._sizes))
            return
        try:
            computes = handler_of(node) is None and is_size(node)
            self._values[node] = self._number(node) if computes else self._read(node)
        except UnsupportedCallError as reason:
            if self._within is not None:
                raise
            carried = self._carried(node)
            if carried is not None:
                self._values[node] = carried
                return
            complex_numbers = " of complex numbers" if is_complex_call(node) else ""
            why = str(reason) or why_not_carried(node)
            self._note(node, f"{name}: {why}" if why else f"{name}{complex_numbers}")
            self._values[node] = stand_in(node.meta.get("val"), self._sizes)
        except (ConvertError, RecursionError):
            raise
        except Exception as error:
            carried = self._carried(node) if self._within is None and isinstance(error, OpTypeError) else None
            if carried is not None:
                self._values[node] = carried
                return
            raise ConvertError(f"{name} cannot be converted, at {place_of(node)}: {error}") from error

    def _read(self, node: torch.fx.Node) -> Any:
        """The result of the call of an operator. The variables that are made for it record the call."""
        if self._within is not None:
            same = unchanged_operand(node)
            return self._bound(node, self._result(node) if same is None else self.value(same))
        if mutating_call(node) is not None:  # PyTorch runs it in another form, so there is no call to record
            with self.builder.origin(origin_of(node)):
                return self._bound(node, self._outside(node))
        self._within = call = SourceCall(str(node.target), reads_copy=pairs_of_copy(node))
        emitted = self.builder.emitted()
        before = len(emitted)
        try:
            with self.builder.origin(origin_of(node, call)):
                value = self._bound(node, self._result(node))
        finally:
            self._within = None
        args, kwargs = self._remembered(node.args), {k: self._remembered(v) for k, v in node.kwargs.items()}
        if not has_tensor_for_number(node.target, args, kwargs):
            call.record(args, kwargs, emitted[before:], value)
        return value

    def _result(self, node: torch.fx.Node) -> Any:
        """The result of a call: by the handler of its operator, or else by PyTorch's decomposition."""
        given = converter_of(node, self._converters)
        if given is not None:
            found = given(node, Conversion(self._values, self.builder, self.value))
            if found is not NotImplemented:
                return found
        if node in self._cuts:
            return for_each_part(R.grad.no_grad, self.value(node.args[0]))
        handler = handler_of(node)
        if handler is not None:
            self._context.node = node
            kwargs = {name: self.value(value) for name, value in node.kwargs.items()}
            found = handler(self._context, *[self.value(arg) for arg in node.args], **kwargs)
            # A fraction computed from sizes is a number in PyTorch, whose width does not count.
            return narrowed(node, found) if any(map(is_of_sizes, node.all_input_nodes)) else found
        if is_outside(node.target) and declared_for(node.target) is not None:
            return self._outside(node)
        expanded = expansion(node)
        if expanded is None and is_outside(node.target):
            return self._outside(node)
        if expanded is None:
            # Without a reason: the message names the operator in the model, not a part that PyTorch made of it.
            raise UnsupportedCallError("")
        return self.inlined(expanded.graph, [self.value(operand) for operand in expanded.operands])

    def _outside(self, node: torch.fx.Node) -> Any:
        """A call of an operator of another library; the fields of its result are nested as in PyTorch."""
        leaves, nesting = pytree.tree_flatten(node.meta.get("val"))
        tensors = [leaf for leaf in leaves if leaf is not None]
        if not tensors or not all(isinstance(leaf, torch.Tensor) for leaf in tensors):
            raise UnsupportedCallError("it returns something other than tensors")
        types = [self._sizes.type_of(tensor) for tensor in tensors]
        target, given = mutating_call(node) or (node.target, node.kwargs)
        args = self._wholes.joined([self.value(arg) for arg in node.args if arg is not target])
        kwargs = {name: self._wholes.joined(self.value(value)) for name, value in given.items()}
        call = outside_call(target, args, kwargs, types, pure=not has_effect(node))
        if nesting.is_leaf():
            return self._wholes.parted(call)
        whole = self.builder.emit(call)
        fields = iter(fields_of(whole) if isinstance(whole.ty, TupleType) else [whole])
        return pytree.tree_unflatten(
            [None if leaf is None else self._wholes.parted(next(fields)) for leaf in leaves], nesting
        )

    def _carried(self, node: torch.fx.Node) -> Any:
        """The call of an ATen operator that has no counterpart, unchanged; None if it cannot be carried.

        It is for PyTorch; other engines report that they do not know it.
        """
        if not can_be_carried(node.target):
            return None
        try:
            with self.builder.origin(origin_of(node)):
                return self._bound(node, self._outside(node))
        except (UnsupportedCallError, ConvertError):
            return None

    def submodule(self, node: Any) -> torch.fx.GraphModule:
        """The graph module that a node names."""
        around = node.graph.owning_module or self._program.graph_module
        return cast(torch.fx.GraphModule, around.get_submodule(str(node.target)))

    def inlined(self, graph: torch.fx.Graph, operands: Sequence[Any]) -> Any:
        """The results of a graph for ``operands``."""
        nodes = list(graph.nodes)
        self._values.update(zip([node for node in nodes if node.op == "placeholder"], operands, strict=True))
        self._nodes(graph)
        result = self.value(next(node for node in nodes if node.op == "output").args[0])
        return tuple(cast("list[Any]", result)) if isinstance(result, list) else result

    def _control_flow(self, node: torch.fx.Node) -> Any:
        """A branch or a loop of PyTorch as a branch or a loop of the language."""
        try:
            with self.builder.origin(origin_of(node)):
                return self._bound(node, self._branch(node) if is_branch(node) else read_loop(self, node))
        except UnsupportedCallError as reason:
            self._note(node, f"{'torch.cond' if is_branch(node) else node.target}: {reason}")
            return stand_in(node.meta.get("val"), self._sizes)

    def _branch(self, node: torch.fx.Node) -> Any:
        """`torch.cond` as a branch, in which each side is a body of its own."""
        predicate, when_true, when_false, operands = node.args
        condition = self.value(predicate)
        if not isinstance(condition, Expr):
            raise UnsupportedCallError("its condition is about sizes")
        values = self.value(operands)
        sides = [self._side(node, cast(torch.fx.Node, side), values) for side in (when_true, when_false)]
        return paired(fields_of(self.builder.emit(If(condition, *sides), node.name)), node.meta["val"])

    def _side(self, node: torch.fx.Node, side: torch.fx.Node, operands: Sequence[Any]) -> SeqExpr:
        self.builder.begin_scope()
        results = self.inlined(self.submodule(side).graph, operands)
        return self.builder.end_scope(Tuple([part for value in results for _, part in parts_of("", value)]))

    def _number(self, node: torch.fx.Node) -> Any:
        """The result of a node that computes with sizes, or with integers that a loop carries."""
        if is_of_sizes(node):
            return None
        if self._is_carried(node):
            found = computed_with_tensors(node.target, [self.value(arg) for arg in node.args])
            return self.builder.emit(found, node.name)
        value = node.meta.get("val")
        try:
            return self._sizes.dim(value) if isinstance(value, torch.SymInt) else value
        except ConvertError as error:
            self._note(node, str(error))
            return None

    def _is_carried(self, node: torch.fx.Node) -> bool:
        """True if a number is computed from integers that a loop carries, which are tensors here."""
        return any(
            self._is_carried(operand) if is_of_sizes(operand) else isinstance(self._values.get(operand), Expr)
            for operand in node.all_input_nodes
        )

    def value(self, argument: Any) -> Any:
        """The value of an argument of a node."""
        if isinstance(argument, torch.fx.Node):
            value = self._values.get(argument)
            if value is None and is_of_sizes(argument):
                # Computed where it is used: most of these are for checks only, and each branch is a scope of its own.
                operands = [self.value(operand) for operand in argument.args]
                return self.builder.emit(computed_with_tensors(argument.target, operands), argument.name)
            return value
        if isinstance(argument, tuple | list):
            return [self.value(item) for item in cast("Sequence[Any]", argument)]
        return argument

    def _remembered(self, argument: Any) -> Any:
        """An argument in the form for recording its call: a fraction of sizes as Python computes it."""
        if isinstance(argument, tuple | list):
            return [self._remembered(item) for item in cast("Sequence[Any]", argument)]
        if not isinstance(argument, torch.fx.Node) or not is_of_sizes(argument) or self._is_carried(argument):
            return self.value(argument)
        return Computed(cast(Any, argument.target), tuple([self._remembered(each) for each in argument.args]))

    def _bound(self, node: torch.fx.Node, result: Any) -> Any:
        fakes: Any = node.meta.get("val")
        if isinstance(fakes, list | tuple):
            pairs = enumerate(zip(result, cast("Sequence[Any]", fakes), strict=False))
            return tuple(
                [None if one is None else self._checked(one, fake, f"{node.name}_{i}") for i, (one, fake) in pairs]
            )
        return self._checked(result, fakes, node.name)

    def _checked(self, value: Any, fake: Any, name: str) -> Any:
        """``value`` bound to a variable of the type that PyTorch states. Another type would be a handler's mistake."""
        if not isinstance(value, Expr | ComplexPair):
            return value
        stated = self._sizes.stated_type(fake) if isinstance(fake, torch.Tensor) else None
        if isinstance(value, ComplexPair):
            return ComplexPair(self._typed(value.real, stated, name), self._typed(value.imag, stated, f"{name}_imag"))
        return self._typed(value, stated, name)

    def _typed(self, value: Expr, stated: TensorType | None, name: str) -> Expr:
        variable = value if isinstance(value, Var | Constant) else self.builder.emit(value, name)
        verdict = stated is None or is_subtype(variable.ty, stated)
        if verdict is False:
            raise ConvertError(f"the result would be {variable.ty!r}, but PyTorch has {stated!r}")
        return variable if verdict or stated is None else self.builder.match_cast(variable, stated, name)

    # --- outputs

    def _outputs(self, emit: Callable[[Expr], Var]) -> list[Expr]:
        output = next(node for node in self._program.graph.nodes if node.op == "output")
        changed: list[Expr] = []
        written: list[Expr] = []
        results: list[Expr] = []
        for spec, argument in zip(self._program.graph_signature.output_specs, output.args[0], strict=True):
            value = self.value(argument)
            match spec.kind:
                case OutputKind.USER_OUTPUT if isinstance(value, ComplexPair):
                    self._output_leaves.append((COMPLEX, (len(results), len(results) + 1)))
                    results += [self._returned(emit, part) for part in (value.real, value.imag)]
                case OutputKind.USER_OUTPUT:
                    if not isinstance(value, Expr | SymExpr) and not (
                        isinstance(argument, torch.fx.Node) and isinstance(value, int)
                    ):
                        self._output_leaves.append(constant_leaf(value, "an output"))
                        continue
                    kind = NUMBER if isinstance(value, Expr) and is_integer(argument) else VALUE
                    self._output_leaves.append((kind, len(results)))
                    results.append(self._returned(emit, value) if isinstance(value, Expr) else PrimValue(value))
                case OutputKind.BUFFER_MUTATION:
                    for label, part in parts_of(str(spec.target), value):
                        self._mutated.append(label)
                        if argument.target is torch.ops.aten.detach.default:
                            self._detached.append(label)
                        changed.append(self._returned(emit, part))
                case OutputKind.USER_INPUT_MUTATION:
                    for place, part in self._written_parts(str(spec.target), value):
                        self._written.append(place)
                        written.append(self._returned(emit, part))
                case _:
                    raise unreadable_output(spec)
        return [*changed, *written, *results]

    def _written_parts(self, name: str, value: Any) -> list[tuple[int, Expr]]:
        """The indices, among the function's parameters, of an input that the model changes, and the new values."""
        node = next(node for node in self._program.graph.nodes if node.op == "placeholder" and node.name == name)
        given = self._values[node]
        olds, news = ((pair.real, pair.imag) if isinstance(pair, ComplexPair) else (pair,) for pair in (given, value))
        return [(self._inputs.index(cast(Var, old)), new) for old, new in zip(olds, news, strict=True)]

    def _returned(self, emit: Callable[[Expr], Var], value: Expr) -> Var:
        """A result under a new variable with the origins of ``value``."""
        with self.builder.origin(*(value.origins if isinstance(value, Var) else ())):
            return emit(value)

    def _signature(self) -> CallingConvention:
        spec = self._program.call_spec
        for name, tensor in self._program.state_dict.items():
            owner = self._owners.get(memory_of(tensor), name)
            if owner != name and name not in self._tensors:
                self._aliases[name] = owner
        out_spec, structures = plain_spec(spec.out_spec)
        return CallingConvention(
            in_spec=spec_text(spec.in_spec),
            out_spec=spec_text(out_spec),
            inputs=tuple(self._input_leaves),
            outputs=tuple(self._output_leaves),
            tensors=tuple(self._tensors.items()),
            aliases=tuple(self._aliases.items()),
            mutated=tuple(self._mutated),
            detached=tuple(self._detached),
            written=tuple(self._written),
            arguments=argument_names(self._program),
            checks=tuple(self._checks),
            structures=structures,
            complexes=tuple([name for name, value in self._constants.items() if isinstance(value, ComplexPair)]),
            sizes=tuple(self._sizes.limits(cast(Any, self._program).range_constraints)),
            fills=self._fills,
        )

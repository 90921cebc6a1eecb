"""From expressions of the language to values of an ONNX graph.

`Lowering` walks over a function's body and looks up the nodes of each call in `LOWERINGS`, the table by operator name
that `write` fills. A call that no row writes is decomposed into calls of other operators, which are then written.
Knows the language and `GraphWriter`; the operators themselves are in `write`.
A tensor becomes a value, a tuple a tuple of the values of its fields, a shape a vector of int64, and a scalar that is
not a tensor a tensor of rank 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import onnx_ir as ir

from ....ir.binding_values import body_of_call
from ....ir.builder import NameSupply, flatten
from ....ir.dims import Dim, SymExpr, SymVar, substitute
from ....ir.expr import Constant, Expr, ExternFunc, GlobalVar, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ....ir.module import IRModule
from ....ir.op import Call, OnnxName, Op
from ....ir.program import Binding, Function, If, MatchCast, SeqExpr
from ....ir.types import PrimType, ShapeType, TensorType, TupleType, Type
from ....ir.visitor import walk
from ....op.decompose import record
from ...errors import ConvertError
from ..source_nodes import SourceNode, Standing, StandingNodes
from .graph import GraphWriter, NoSuchOperatorError

_MOST_SIZE: Final = 2**63 - 1

Lowered: TypeAlias = "ir.Value | tuple[Lowered, ...]"
Lower: TypeAlias = "Callable[[Lowering, Call], Lowered | None]"

LOWERINGS: Final[dict[str, Lower]] = {}
"""The function that writes a call of an operator, by operator name. It returns None to decline a call.

Every primitive has a row. A composite has a row if its own node or another formula has fewer nodes or is faster or
more accurate than its decomposition. Without a row, or if the row declines, the decomposition is written.
"""

REASONS: Final[dict[str, str]] = {}
"""The reason for the row of each composite in `LOWERINGS`: its figures compared with its decomposition.

Times are those of ONNX Runtime 1.31 on one core, in float32.
"""


def lowers(*names: str, because: str | None = None, family: str = "relax") -> Callable[[Lower], Lower]:
    """Enter a function into `LOWERINGS` under operator names, given without their ``family``.

    ``because`` is the reason for the row of a composite, for `REASONS`.
    """

    def enter(function: Lower) -> Lower:
        for name in names:
            assert f"{family}.{name}" not in LOWERINGS, name
            LOWERINGS[f"{family}.{name}"] = function
            if because is not None:
                REASONS[f"{family}.{name}"] = because
        return function

    return enter


_others: list[Lower] = []


def lowers_others(function: Lower) -> Lower:
    """Use ``function`` for calls of operators without an entry in `LOWERINGS`."""
    _others[:] = [function]
    return function


def tensor_type(expr: Expr) -> TensorType:
    """The type of a tensor operand. Raises `ConvertError` if it is not known to be a tensor."""
    ty = expr.ty
    if not isinstance(ty, TensorType):
        raise ConvertError(f"{expr!r} is {ty!r}; ONNX needs to know that it is a tensor: add a match_cast")
    return ty


def known_dtype(ty: TensorType) -> str:
    """The dtype of ``ty``. ONNX needs it, so an unknown dtype raises `ConvertError`."""
    if ty.dtype is None:
        raise ConvertError(f"a tensor of {ty!r}: ONNX needs every dtype; state it with a match_cast")
    return ty.dtype


def known_rank(expr: Expr) -> int:
    """The rank of a tensor operand whose nodes depend on it. Raises `ConvertError` if it is not known."""
    rank = tensor_type(expr).ndim
    if rank < 0:
        raise ConvertError(
            f"{expr!r} is {expr.ty!r}, and how it is written in ONNX depends on its rank; state it with a match_cast"
        )
    return rank


def size_at(expr: Expr, axis: int) -> Dim | None:
    """The size of a tensor operand along ``axis``; None if the shape is unknown."""
    shape = tensor_type(expr).shape
    return None if shape is None else shape[axis]


def nothing(_name: OnnxName, _call: Call) -> bool:
    """False: a runtime with only the standard operators has no kernel for others."""
    return False


_OF_RUNTIMES: Final = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
"""Domains whose operators runtimes have, so that a file need not define them."""


def widely_had(name: OnnxName, _call: Call | None = None) -> bool:
    """True if common runtimes have the operator ``name``."""
    return name.domain in _OF_RUNTIMES


class OutsideOperators(NamedTuple):
    """The lowering of calls of operators outside the vocabulary.

    ``runtime_has`` says if a call of an operator that a declaration names can be run. Other calls become functions, or
    are spelled out in place without ``with_functions``. Calls of ``spelled_out`` are always spelled out.
    ``scans_capture`` says if the body of a `Scan` may read values from around it.
    """

    runtime_has: Callable[[OnnxName, Call], bool] = widely_had
    with_functions: bool = True
    scans_capture: bool = True
    spelled_out: Op | None = None


def _numbers(dims: Iterable[object]) -> int:
    """The number of integers in ``dims``."""
    return sum(isinstance(dim, int) for dim in dims)


class Lowering:
    """The state of writing one function: the graph so far, and the value of each variable."""

    def __init__(
        self,
        graph: GraphWriter,
        module: IRModule,
        *,
        is_from_onnx: bool = False,
        is_kept: Callable[[SourceNode], bool] = lambda _node: False,
        outside: OutsideOperators | None = None,
    ) -> None:
        """``is_kept`` says which nodes of the source model are written as they were read."""
        self.graph: Final = graph
        self.module: Final = module
        self.is_from_onnx: Final = is_from_onnx
        """True if the program was an ONNX model: what ONNX leaves open, such as the maximum of NaN, stays open."""
        self._is_kept: Final = is_kept
        self.definitions: Final[dict[Var, Expr]] = {}
        """The values that the variables of the bodies are bound to."""
        self.functions: Final[dict[Var, Function]] = {}
        """The functions that are defined inside the function, under each of their names."""
        self.values: Final[dict[Var, Lowered]] = {}
        self.reshapes: Final[dict[ir.Value, tuple[ir.Value, Sequence[Dim]]]] = {}
        """For each value that is a reshaped value: the original value and its shape."""
        self.outside: Final = outside or OutsideOperators()
        """The lowering of operators outside the vocabulary."""
        self._inlined: Final[dict[Function, str]] = {}
        self._shown_sizes: Final[dict[SymVar, Dim]] = {}
        self._size_names: Final = NameSupply()
        self._computed: Final[set[SymVar]] = set()
        """Sizes that nodes of their own compute and that are in no shape of a tensor."""

    # --- operands

    def value(self, expr: Expr) -> Lowered:
        """The value of a leaf."""
        match expr:
            case Var():
                found = self.values.get(expr)
                if found is None and expr in self.functions:
                    raise ConvertError(
                        f"{expr.name_hint} is a function: ONNX has none as a value; lift it into the module"
                    )
                if found is None:
                    raise ConvertError(f"the variable {expr.name_hint} is used before it is bound")
                return found
            case Constant():
                return self.graph.constant_data(expr.data, "constant")
            case Tuple():
                return tuple([self.value(field) for field in expr.fields])
            case ShapeExpr():
                return self.graph.shape(expr.values)
            case PrimValue():
                return self._scalar(expr)
            case TupleGetItem():
                fields = self.value(expr.tuple_value)
                assert isinstance(fields, tuple)
                return fields[expr.index]
            case _:
                raise ConvertError(f"ONNX has nothing for a {type(expr).__name__} as a value: {expr!r}")

    def _scalar(self, expr: PrimValue) -> ir.Value:
        if isinstance(expr.value, SymExpr):
            scalar = self.graph.scalar(self.graph.size(expr.value))
            is_truth = isinstance(expr.ty, PrimType) and expr.ty.dtype == "bool"
            return self.graph.cast(scalar, "bool") if is_truth else scalar
        assert isinstance(expr.ty, PrimType)
        return self.graph.constant(expr.value, expr.ty.dtype)

    def tensor(self, expr: Expr) -> ir.Value:
        """The value of a tensor operand, or of a shape or scalar (see the module docstring)."""
        found = self.value(expr)
        if isinstance(found, tuple):
            raise ConvertError(f"{expr!r} is a tuple where a tensor is expected")
        return found

    def tensors(self, exprs: Iterable[Expr]) -> list[ir.Value]:
        """The values of several tensor operands."""
        return [self.tensor(expr) for expr in exprs]

    def fields(self, expr: Expr) -> tuple[ir.Value, ...]:
        """The values of a tuple of tensors."""
        found = self.value(expr)
        assert isinstance(found, tuple)
        return tuple(flat(found))

    # --- values made on the way

    def bind(self, value: Lowered, ty: Type) -> Var:
        """A variable that stands for ``value``."""
        var = Var("lv", ty)
        self.values[var] = value
        return var

    def emit(self, call: Expr) -> Var:
        """A variable bound to an expression over leaves; its nodes are written now."""
        return self.bind(self.expression(call), call.ty)

    def match_cast(self, value: Expr, ty: Type) -> Var:
        """A variable of type ``ty`` that stands for ``value``, and from which new size variables are read."""
        lowered = self.value(value)
        self.define_sizes(ty, lowered)
        return self.bind(lowered, ty)

    def expression(self, expr: Expr) -> Lowered:
        """The value of an expression in A-normal form."""
        match expr:
            case Call():
                return self.call(expr)
            case If():
                return self._if(expr)
            case SeqExpr():
                return self.body(expr)
            case _:
                return self.value(expr)

    def call(self, call: Call) -> Lowered:
        """The value of a call over leaves. Raises `ConvertError` if ONNX has no form for it."""
        op = call.op
        if isinstance(op, Op):
            lower = LOWERINGS.get(op.name)
            if lower is None and op.is_open:
                lower = _others[0]
            written = None if lower is None else self._written(lower, call)
            return self._decomposed(op, call) if written is None else written
        if isinstance(op, GlobalVar):
            return self._inline(op.name_hint, self.module[op.name_hint], call.args)
        if isinstance(op, Var) and op in self.functions:
            return self._inline(op.name_hint, self.functions[op], call.args)
        name = f'outside function "{op.global_symbol}"' if isinstance(op, ExternFunc) else "function value"
        raise ConvertError(f'a call of the {name} cannot be written as ONNX; the engine for target="numpy" runs it')

    def _written(self, lower: Lower, call: Call) -> Lowered | None:
        """The value that ``lower`` writes; None if it declines or needs an operator that the opset does not have.

        Raises `NoSuchOperatorError` in the latter case if the operator of the call has no decomposition.
        """
        nodes = self.graph.nodes
        before = len(nodes)
        try:
            return lower(self, call)
        except NoSuchOperatorError:
            op = call.op
            if not isinstance(op, Op) or op.is_primitive or op.reference is None:
                raise
            del nodes[before:]
            return None

    def _decomposed(self, op: Op, call: Call) -> Lowered:
        if op.reference is None or (op.is_primitive and op.name not in LOWERINGS):
            raise ConvertError(f'{op.name} cannot be written as ONNX; the engine for target="numpy" runs it')
        return self.value(record(call, self))

    def _inline(self, name: str, function: Function, args: Sequence[Expr]) -> Lowered:
        if function in self._inlined:
            names = " -> ".join(self._inlined.values())
            raise ConvertError(f"{name} calls itself, by way of {names}; ONNX has no recursion")
        self._inlined[function] = name
        result = self.body(body_of_call(function, args))
        del self._inlined[function]
        return result

    # --- bodies

    def body(self, body: SeqExpr) -> Lowered:
        """Write the nodes of all bindings of a body, in order; returns the value of its result."""
        bindings = [binding for block in body.blocks for binding in block.bindings]
        self.definitions.update((binding.var, binding.value) for binding in bindings)
        standing = StandingNodes(bindings, body.body, self._is_kept, self.values.__contains__)
        for binding in bindings:
            node = standing.at.get(binding.var)
            if node is not None and not self._keep(node):
                for step in node.steps:
                    self._bind(step)
            elif binding.var not in standing.within:
                self._bind(binding)
        return self.value(flatten(body.body, self.emit, keep_root=False))

    def _bind(self, binding: Binding) -> None:
        """Write the nodes of a binding."""
        if binding.var in self.values:
            return
        function = self.functions.get(binding.value) if isinstance(binding.value, Var) else binding.value
        if isinstance(function, Function):
            self.functions[binding.var] = function
            return
        self.graph.hint = binding.var.name_hint
        self.graph.origins = binding.var.origins
        is_cast = isinstance(binding, MatchCast)
        value = self.expression(flatten(binding.value, self.emit, keep_root=not is_cast))
        self.values[binding.var] = value
        if is_cast:
            self.define_sizes(binding.ty, value)
        self._describe(value, binding.var.ty)
        self._name(value, binding.var.name_hint)

    def _keep(self, standing: Standing) -> bool:
        """Write a node as it was read.

        False if the sizes that it needs are no longer known, or if it is better written anew: a reshape after a reshape
        that was written for another node.
        """
        graph = self.graph
        if self._follows_written_reshape(standing):
            return False
        given = [operand for operand in standing.operands if operand is not None]
        if not all(graph.knows_size(size) for operand in given for size in _sizes_of(operand)):
            return False
        if not all(self._keep(before) for before in standing.first):
            return False
        shown = [var for var in standing.outputs if var is not None]
        graph.hint, graph.origins = shown[0].name_hint, shown[0].origins
        names_in, names_out = standing.source.names
        pairs = zip(standing.operands, names_in, strict=True)
        inputs = [None if operand is None else self._operand(operand, name) for operand, name in pairs]
        outputs: list[ir.Value] = []
        for var, name in zip(standing.outputs, names_out, strict=True):
            if var is None:
                outputs.append(ir.Value(name=graph.names.fresh(name) if name else ""))
                continue
            outputs.append(graph.value(tensor_type(var).dtype, name or var.name_hint))
            self.values[var] = outputs[-1]
        while outputs and not outputs[-1].name:
            outputs.pop()
        graph.given.update(value for value in outputs if value.name)
        graph.keep(standing.source.node, standing.source.opset, inputs, outputs, id(standing.source))
        self._note_reshape(standing, inputs[0] if inputs else None, outputs)
        for var in shown:
            self._show_sizes(var.ty, self.values[var])
            self.define_sizes(var.ty, self.values[var])
            self._describe(self.values[var], var.ty)
        for before in standing.first:  # another body that needs these writes its own
            for var in before.outputs:
                if var is not None:
                    del self.values[var]
        return True

    def _follows_written_reshape(self, standing: Standing) -> bool:
        operand = standing.operands[0] if standing.operands else None
        value = self.values.get(operand) if isinstance(operand, Var) and _is_reshape(standing) else None
        return isinstance(value, ir.Value) and value in self.reshapes and value.producer() not in self.graph.kept

    def _note_reshape(self, standing: Standing, source: ir.Value | None, outputs: Sequence[ir.Value]) -> None:
        """Record a kept reshape, so that a later reshape of its result starts from its operand."""
        operand = standing.operands[0] if standing.operands else None
        if not _is_reshape(standing) or operand is None or source is None or not isinstance(operand.ty, TensorType):
            return
        if operand.ty.shape is not None:
            self.reshapes[outputs[0]] = self.reshapes.get(source, (source, operand.ty.shape))

    def _operand(self, operand: Expr, name: str) -> ir.Value:
        """The value of an operand of a node that was read. A constant keeps the ``name`` that it had."""
        if isinstance(operand, Constant):
            return self.graph.constant_data(operand.data, name)
        return self.tensor(operand if isinstance(operand, Var) else self.emit(flatten(operand, self.emit)))

    def _describe(self, value: Lowered, ty: Type) -> None:
        if isinstance(value, tuple):
            if isinstance(ty, TupleType):
                for field, field_type in zip(value, ty.fields, strict=True):
                    self._describe(field, field_type)
        elif isinstance(ty, TensorType) and ty.shape is not None:
            if value.shape is None or (value.producer() is not None and _numbers(ty.shape) > _numbers(value.shape)):
                value.shape = self.shape(ty.shape)
            self.graph.define_whole_shape(ty.shape, value)

    def shape(self, dims: Sequence[Dim]) -> ir.Shape:
        """A shape for a value's type. Symbolic sizes are given by their text; sizes beyond int64 are left open.

        Different sizes of the same name get different names, since runtimes take sizes of one name to be equal.
        """
        return ir.Shape([self._shown(dim) for dim in dims])

    def _shown(self, dim: Dim) -> int | str | None:
        if isinstance(dim, int):
            return dim if dim <= _MOST_SIZE else None
        for size in dim.free_symvars:
            if size not in self._shown_sizes:
                name = self._size_names.fresh(size.name)
                self._shown_sizes[size] = size if name == size.name else SymVar(name, size.dtype, least=size.least)
        return str(substitute(dim, self._shown_sizes))

    def _name(self, value: Lowered, name: str) -> None:
        """Rename the value of a binding from the name of its node to the name of the variable."""
        for leaf in flat(value):
            if leaf.name is not None and leaf.name.startswith(f"{name}/"):
                leaf.name = self.graph.names.fresh(name)

    def _show_sizes(self, ty: Type, value: Lowered) -> None:
        """Let computed sizes that nothing has used so far be read off ``value``, the output of a kept node."""
        for dim, read in self._readings(ty, value):
            if isinstance(dim, SymVar) and dim in self._computed and not self.graph.has_size(dim):
                self.graph.define_size(dim, read)

    def define_sizes(self, ty: Type, value: Lowered) -> None:
        """Let the size variables that first occur in ``ty`` be read off ``value``."""
        if isinstance(ty, TensorType) and not isinstance(value, tuple):
            new = [dim for dim in ty.shape or () if isinstance(dim, SymVar) and not self.graph.knows_size(dim)]
            if new:
                self.graph.define_shape(ty.shape or (), value)
        for dim, read in self._readings(ty, value):
            if isinstance(dim, SymVar):
                if not self.graph.knows_size(dim):
                    self.graph.define_size(dim, read)
                    if not isinstance(ty, TensorType):
                        self._computed.add(dim)
            elif isinstance(dim, SymExpr):
                self._solve(dim, read)

    def _solve(self, dim: SymExpr, read: Callable[[], ir.Value]) -> None:
        """Define the only unknown variable of ``dim`` if it occurs once in the sum, alone or times a number."""
        unknown = [variable for variable in dim.free_symvars if not self.graph.knows_size(variable)]
        if len(unknown) != 1:
            return
        variable = unknown[0]
        factor = dim.coefficients.get((variable,))
        rest = None if factor is None else dim - factor * variable
        if factor is None or (isinstance(rest, SymExpr) and variable in rest.free_symvars):
            return
        graph = self.graph
        assert rest is not None

        def solved() -> ir.Value:
            distance = graph.op("Sub", read(), graph.size(rest))
            return graph.op("Div", distance, graph.integers([factor]))

        graph.define_size(variable, solved)

    def _readings(self, ty: Type, value: Lowered) -> Iterable[tuple[Dim, Callable[[], ir.Value]]]:
        graph = self.graph
        if isinstance(value, tuple):
            if isinstance(ty, TupleType):
                for field_type, field in zip(ty.fields, value, strict=True):
                    yield from self._readings(field_type, field)
            return
        match ty:
            case TensorType(shape=(dim,)):
                yield dim, lambda: graph.op("Shape", value)
            case TensorType(shape=tuple() as dims):
                for axis, dim in enumerate(dims):
                    yield dim, lambda axis=axis: graph.op("Shape", value, start=axis, end=axis + 1)
            case ShapeType(values=(dim,)):
                yield dim, lambda: value
            case ShapeType(values=tuple() as dims):
                for axis, dim in enumerate(dims):
                    yield dim, lambda axis=axis: graph.op("Gather", value, graph.integers([axis]), axis=0)
            case PrimType(value=SymExpr() as dim):
                yield dim, lambda: graph.op("Reshape", value, graph.integers([1]))
            case _:
                return

    def _if(self, branch: If) -> Lowered:
        graph = self.graph
        condition = self.tensor(branch.cond)
        if not isinstance(branch.cond.ty, TensorType) or branch.cond.ty.ndim != 0:
            condition = graph.scalar(condition)
        layouts: list[Lowered] = []

        def write(body: SeqExpr) -> list[ir.Value]:
            layouts.append(self.body(body))
            return flat(layouts[-1])

        results = graph.branch(condition, lambda: write(branch.true_branch), lambda: write(branch.false_branch))
        return like(layouts[0], iter(results))


def _sizes_of(operand: Expr) -> Iterable[SymVar]:
    """The size variables that an operand is computed from, if it is neither a variable nor a constant."""
    for node in walk(operand):
        dims = node.values if isinstance(node, ShapeExpr) else [node.value] if isinstance(node, PrimValue) else ()
        for dim in dims:
            if isinstance(dim, SymExpr):
                yield from dim.free_symvars


def flat(value: Lowered) -> list[ir.Value]:
    """The tensors of a value in order, with tuples flattened."""
    if not isinstance(value, tuple):
        return [value]
    return [leaf for field in value for leaf in flat(field)]


def like(layout: Lowered, leaves: Iterator[ir.Value]) -> Lowered:
    """The next of ``leaves``, nested like ``layout``."""
    if not isinstance(layout, tuple):
        return next(leaves)
    return tuple([like(field, leaves) for field in layout])


def _is_reshape(standing: Standing) -> bool:
    node = standing.source.node
    return node.op_type == "Reshape" and not node.domain

"""Reverse-mode differentiation of a function of a module, as a pass.

`Gradient` checks its arguments, copies the forward part, and joins both parts into a new function of the module.
`reverse` writes the backward part, and `simplify` simplifies it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..analysis import remove_all_unused
from ..ir.binding_values import with_outputs
from ..ir.builder import NameSupply, in_normal_form
from ..ir.dtypes import is_float
from ..ir.expr import Expr, Tuple, Var
from ..ir.module import IRModule
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, SeqExpr
from ..ir.types import TensorType, TupleType, Type
from ..op.adjoints import GradientError, is_differentiable
from ..op.settle import settled
from .checkpoint import without_markers
from .forward import ForwardCopy
from .loops import with_tapes
from .reverse import Path, ReversePass
from .simplify import simplify_gradient
from .without_rules import with_rules


class Gradient:
    """A pass that adds ``<func_name>_adjoint``: the function's result, and the gradients of one scalar of it.

    The new function is public, takes the same parameters, and returns ``(result, (gradient, ...))``; the original stays
    as it is. ``require_grads`` are the parameters to differentiate with respect to, one or several, as variables or by
    name, or variables that the function binds. None means all tensors and tuples of tensors among the parameters, with
    gradients in the parameters' order. A gradient has its parameter's type, also for tuples. It is zeros if the target
    does not depend on the parameter, and for integers, such as indices. ``target_index`` selects the target among
    several results; by default it is the first field of a tuple that is written out. It must be a floating scalar.

    The function may have dataflow blocks and plain ones. No gradient passes through integers, operators that stop it
    (``argmax``, comparisons, ``R.grad.no_grad`` ...), or parameters that are not required. Values between
    ``R.grad.start_checkpoint`` and ``R.grad.end_checkpoint`` are computed again instead of kept. The result is
    simplified by `simplify_gradient`, unless ``simplify`` is False. The adjoint of a tuple is one tuple, as in Relax;
    with ``fields_apart``, each field has its own, which saves additions of zeros.

    Needs well-formed input, guarantees well-formed output. Raises `GradientError` if the function, a parameter or the
    target does not exist or is not differentiable, if an operator between them has no rule, and for branches and calls
    of functions between them. A loop keeps the carried values of each step, and another loop goes back through the
    steps. Cost: linear in the bindings, with a few backward bindings for each forward one.
    """

    __slots__ = ("fields_apart", "func_name", "require_grads", "simplify", "target_index")

    def __init__(
        self,
        func_name: str,
        require_grads: Var | str | Sequence[Var | str] | None = None,
        target_index: int | None = None,
        *,
        simplify: bool = True,
        fields_apart: bool = False,
    ) -> None:
        self.func_name = func_name
        one = isinstance(require_grads, Var | str)
        self.require_grads = (require_grads,) if one else None if require_grads is None else tuple(require_grads)
        self.target_index = target_index
        self.simplify = simplify
        self.fields_apart = fields_apart

    @property
    def name(self) -> str:
        """The name of the pass, for reports."""
        return "Gradient"

    def __repr__(self) -> str:
        return f"Gradient({self.func_name!r})"

    def __call__(self, module: IRModule) -> IRModule:
        """``module`` with the adjoint of the function added."""
        name = self.func_name
        if not isinstance(module, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GradientError(
                f"Gradient of {name!r} is applied to a {type(module).__name__}; expected a module: "
                f"IRModule({{{name!r}: function}})"
            )
        if name not in module:
            raise GradientError(f"Gradient: the module has no function {name!r}; it has: {', '.join(module) or 'none'}")
        adjoint_name = f"{name}_adjoint"
        if adjoint_name in module:
            raise self._refused(f"the module has a function {adjoint_name!r} already; rename or remove it first")
        function = in_normal_form(settled(module[name]))
        required = self._required(function)
        target, path = self._target(function)
        differentiable = [param for param in required if is_differentiable(param.ty)]
        function = with_tapes(with_rules(function, differentiable, target), module)
        adjoint = _adjoint_function(function, required, target, path, fields_apart=self.fields_apart)
        if self.simplify:
            adjoint = simplify_gradient(adjoint)
        adjoint = remove_all_unused(adjoint)
        return module.with_function(adjoint_name, adjoint.with_attr("global_symbol", adjoint_name))

    def _refused(self, why: str) -> GradientError:
        return GradientError(f"Gradient of {self.func_name!r}: {why}")

    def _required(self, function: Function) -> tuple[Var, ...]:
        if self.require_grads is None:
            for param in function.params:
                if is_differentiable(param.ty) and not _all_differentiable(param.ty):
                    raise self._refused(
                        f"parameter {param.name_hint} is {param.ty!r}, floating in part only; "
                        "name the parameters to differentiate in require_grads, or split this one"
                    )
            return tuple(param for param in function.params if _holds_numbers(param.ty))
        by_name = {param.name_hint: param for param in function.params}
        bound = {*function.params, *[binding.var for block in function.body.blocks for binding in block]}
        found: dict[Var, None] = {}
        for wanted in self.require_grads:
            param = by_name.get(wanted) if isinstance(wanted, str) else wanted
            shown = wanted if isinstance(wanted, str) else wanted.name_hint
            if param is None or param not in bound:
                names = ", ".join(by_name) or "none"
                raise self._refused(f"require_grads has {shown}, no parameter; the parameters are: {names}")
            if param in found:
                raise self._refused(f"require_grads has {shown} twice; name each parameter once")
            if not _all_differentiable(param.ty):
                raise self._refused(
                    f"require_grads has {shown}, which is {param.ty!r}; "
                    "expected a tensor of floating dtype, or a tuple of them"
                )
            found[param] = None
        return tuple(found)

    def _target(self, function: Function) -> tuple[Expr, Path]:
        result = function.body.body
        several = isinstance(result.ty, TupleType)
        count = len(result.ty.fields) if isinstance(result.ty, TupleType) else 1
        if self.target_index is None and several and not isinstance(result, Tuple):
            raise self._refused(
                f"the function returns {_named(result)}, a tuple of {count} results; name the one to differentiate "
                "with target_index"
            )
        index = self.target_index or 0
        if not 0 <= index < count:
            results = f"{count} result{'s' * (count != 1)}"
            raise self._refused(f"target_index={index}; the function has {results}, counted from 0")
        path: Path = (index,) if several else ()
        target = result
        if isinstance(result, Tuple):
            target, path = result.fields[index], ()
        ty = result.ty.fields[index] if isinstance(result.ty, TupleType) else result.ty
        if not (isinstance(ty, TensorType) and ty.ndim == 0 and is_float(ty.dtype)):
            raise self._refused(
                f"the target, {_named(target)}, is {ty!r}; expected a floating scalar, such as "
                'R.Tensor((), "float32"): reduce it with R.sum or R.mean, or choose another result with target_index'
            )
        return target, path


def _named(result: Expr) -> str:
    return result.name_hint if isinstance(result, Var) else "result"


def _holds_numbers(ty: Type) -> bool:
    """True for tensors and tuples of tensors; the gradient of integers is zeros."""
    return _holds_for_all(lambda leaf: isinstance(leaf, TensorType), ty)


def _all_differentiable(ty: Type) -> bool:
    return _holds_for_all(is_differentiable, ty)


def _holds_for_all(holds: Callable[[Type], bool], ty: Type) -> bool:
    """True if ``holds`` is True for ``ty`` or, for a tuple type with fields, for each leaf."""
    if isinstance(ty, TupleType):
        return bool(ty.fields) and all(_holds_for_all(holds, field) for field in ty.fields)
    return holds(ty)


def _adjoint_function(
    function: Function, required: Sequence[Var], target: Expr, path: Path, *, fields_apart: bool
) -> Function:
    function, recomputed = without_markers(function)
    copy = ForwardCopy(function)
    names = NameSupply.beside(function)
    differentiable = [param for param in required if is_differentiable(param.ty)]
    backward = ReversePass(function, differentiable, copy.leaves, recomputed, names, fields_apart=fields_apart)
    backward.run(target, path)
    gradients = [
        backward.emit(backward.gradient_of(param), f"{param.name_hint}_adjoint_out", param.origins, is_output=True)
        for param in required
    ]
    result = Tuple([copy.result, Tuple(gradients)])
    # The backward part may need values of earlier dataflow blocks.
    body = with_outputs(SeqExpr(_joined(copy.blocks, backward.bindings), result))
    return Function(copy.params, body, None, function.is_pure, function.attrs)


def _joined(forward: Sequence[BindingBlock], backward: Sequence[Binding]) -> list[BindingBlock]:
    """The blocks of the new function; a single block if the forward part is a single dataflow block."""
    if len(forward) == 1 and isinstance(forward[0], DataflowBlock):
        return [DataflowBlock([*forward[0].bindings, *backward])]
    return [*forward, *([DataflowBlock(backward)] if backward else [])]

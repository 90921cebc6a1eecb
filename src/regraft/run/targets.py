"""The engines by name, and `build`.

An engine is a module with two functions: ``compile_module(module, **options) -> Executable``, and ``runs(op) -> bool``,
which needs only the operator's declaration and no framework. The module is imported on first use, and it imports its
framework when it compiles. So an unused framework is never loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final, Literal, cast, overload

from ..ir.errors import MissingDependencyError, OpTypeError
from ..ir.module import IRModule
from ..ir.op import Op
from ..ir.program import Function
from ..op.settle import settled
from .errors import BuildError
from .executable import Executable

if TYPE_CHECKING:
    from .xla_executable import XlaExecutable

DEFAULT_TARGET: Final = "onnxruntime"


@dataclass(frozen=True, slots=True)
class Target:
    """The module of an engine and the package that it needs; regraft's extra named ``extra`` installs that package."""

    module: str
    package: str | None = None
    extra: str | None = None


_targets: Final[dict[str, Target]] = {
    "onnxruntime": Target(f"{__package__}.onnxruntime_engine", package="onnxruntime"),
    "numpy": Target(f"{__package__}.numpy_engine"),
    "openvino": Target(f"{__package__}.openvino_engine", package="openvino", extra="openvino"),
    "torch": Target(f"{__package__}.torch_engine", package="torch", extra="torch"),
    "xla": Target(f"{__package__}.xla_engine", package="jax", extra="xla"),
}


_RELAX_OPTIONS: Final = ("tir_pipeline", "exec_mode", "system_lib")


def register_target(name: str, target: Target) -> None:
    """Make an engine known to `build`; raises `BuildError` if the name is taken."""
    if name in _targets:
        raise BuildError(f"there is a target {name!r} already")
    _targets[name] = target


def remove_target(name: str) -> None:
    """Remove an engine that `register_target` added."""
    _targets.pop(name, None)


def target_names() -> tuple[str, ...]:
    """The engines that `build` knows, installed or not."""
    return tuple(_targets)


def runs_on(target: str, op: Op) -> bool:
    """True if ``target``, a known one, runs calls of ``op``, as far as the operator's declaration says."""
    return import_module(_targets[target].module).runs(op)


pipeline_named: Callable[[str], Any]
"""Returns the registered pipeline with a name, None for the package's own; the top module sets it, as it knows the
passes.
"""


@overload
def build(
    module: IRModule | Function, target: Literal["xla"], params: Mapping[str, Any] | None = None, **options: Any
) -> XlaExecutable: ...
@overload
def build(
    module: IRModule | Function,
    target: object = DEFAULT_TARGET,
    params: Mapping[str, Any] | None = None,
    **options: Any,
) -> Executable: ...
def build(
    module: IRModule | Function,
    target: object = DEFAULT_TARGET,
    params: Mapping[str, Any] | None = None,
    **options: Any,
) -> Executable:
    """Compile ``module`` for ``target``.

    TVM's CPU targets (``"llvm"``, ``"c"``, or an object whose text is one of these) select the reference engine, which
    runs every program. None selects the default engine. ``params`` are values for parameters of ``main``.
    ``relax_pipeline``, a pass or the name of a registered pipeline, is applied to the program first; ``"default"`` and
    the package's other pipelines change nothing. Relax's options ``tir_pipeline``, ``exec_mode`` and ``system_lib`` are
    accepted and ignored.

    A function is built as a module of that function, under its name or ``main``. ``options`` are the engine's own.
    Cost: linear in the bindings. Raises `BuildError` for an unknown target or option and for a program that the target
    cannot run, and `MissingDependencyError` if the target's package is not installed.
    """
    if isinstance(module, Function):
        module = IRModule.from_expr(module)
    if not isinstance(module, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BuildError(f"build takes a module or a function, not a {type(module).__name__}")
    target = _engine_name(target)
    options = {name: value for name, value in options.items() if name not in _RELAX_OPTIONS}
    if params:
        module = module.with_function("main", module["main"].bind_params({**params}))
    change: Any = options.pop("relax_pipeline", None)
    if isinstance(change, str):
        change = pipeline_named(change)  # noqa: F821 - the top module sets it
    if callable(change):
        module = cast(IRModule, change(module))
    found = _targets.get(target)
    if found is None:
        raise BuildError(f"there is no target {target!r}; there are: {', '.join(_targets)}")
    if found.package is not None and find_spec(found.package) is None:
        how = f"pip install 'regraft[{found.extra}]'" if found.extra else f"pip install {found.package}"
        raise MissingDependencyError(f"target {target!r} needs the package {found.package}: {how}")
    compile_module = import_module(found.module).compile_module
    known = [p.name for p in signature(compile_module).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise BuildError(f"target {target!r} has no option {name!r}; it has: {', '.join(known) or 'none'}")
    try:
        module = settled(module)
    except OpTypeError as error:
        raise BuildError(f"this call has a type and no value: {error}") from error
    executable: Executable = compile_module(module, **options)
    executable.parameters = {
        name: tuple(param.name_hint for param in function.params) for name, function in module.items()
    }
    return executable


def _engine_name(target: object) -> str:
    if target is None:
        return DEFAULT_TARGET
    name = target if isinstance(target, str) else str(getattr(target, "kind", target))
    return "numpy" if name.split()[:1] in (["llvm"], ["c"]) else name

"""The checks of one test module on XLA, many calls in one program: compiling each alone would take most of the time.

`later` takes a check, `disagreements` runs all that were taken, and says which test each failure belongs to. A call is
a function of its own in the program that is compiled, so it is written and traced as it would be alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from regraft.engine import BuildError, build, runs_on
from regraft.ir import BlockBuilder, Call, Function, IRModule, Op, Tuple, Var

NEEDS_VALUES: Final = {
    "relax.dynamic_strided_slice",
    "relax.nonzero",
    "relax.unique",
    "relax.vision.all_class_non_max_suppression",
    "relax.vision.roi_align",
}
"""Operators whose result, or (by default) number of samples, has a size that depends on values."""

OPTIONS: Final = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
}
"""Compiling fast: these programs run once."""

_ENOUGH: Final = 6
"""Calls of each operator in a module that are computed; ``EVERY_CALL_ON_XLA=1`` (`make test-slow`) asks for all."""

_IN_ONE_PROGRAM: Final = 16
"""The time to compile grows faster than the number of calls, and each program costs some of its own."""


class _Check(NamedTuple):
    test: str
    call: Call
    values: Mapping[Var, Any]
    compare: Callable[[Any], None]


_waiting: Final[list[_Check]] = []


def later(call: Call, values: Mapping[Var, Any], compare: Callable[[Any], None]) -> None:
    """Have XLA compute ``call`` for ``values`` when the module ends; ``compare`` raises unless it likes the result.

    Only the first calls of each operator are computed.
    """
    if not os.environ.get("EVERY_CALL_ON_XLA") and sum(one.call.op is call.op for one in _waiting) >= _ENOUGH:
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    # Copies, since a test may go on to change its arrays.
    _waiting.append(_Check(test, call, {var: np.array(value) for var, value in values.items()}, compare))


def disagreements() -> list[str]:
    """Run what waits: for each check that fails its test, the call, and why."""
    checks = _waiting[:]
    _waiting.clear()
    alone = [check for check in checks if _name(check) in NEEDS_VALUES]
    together = [check for check in checks if _name(check) not in NEEDS_VALUES]
    groups = [together[i : i + _IN_ONE_PROGRAM] for i in range(0, len(together), _IN_ONE_PROGRAM)]
    return [*_found_alone(alone), *[why for group in groups for why in _found(group)]]


def _name(check: _Check) -> str:
    assert isinstance(check.call.op, Op)
    return check.call.op.name


def _found(checks: Sequence[_Check]) -> list[str]:
    builder = BlockBuilder()
    functions = [builder.add_func(Function(list(c.values), c.call), f"call{i}") for i, c in enumerate(checks)]
    params = [[Var(f"x{i}_{var.name_hint}", var.ty) for var in check.values] for i, check in enumerate(checks)]
    with builder.function("main", [var for own in params for var in own]):
        calls = [builder.emit(function(*own)) for function, own in zip(functions, params, strict=True)]
        builder.emit_func_output(Tuple(calls))
    try:
        results = _run(builder.get(), [value for check in checks for value in check.values.values()])
        for check, result in zip(checks, results, strict=True):
            check.compare(result)
    except Exception:
        return _found_alone(checks)
    return []


def _found_alone(checks: Iterable[_Check]) -> list[str]:
    found: list[str] = []
    for check in checks:
        try:
            module = IRModule.from_expr(Function(list(check.values), check.call))
            try:
                result = _run(module, list(check.values.values()))
            except BuildError:
                if _name(check) not in NEEDS_VALUES:
                    raise
                continue
            check.compare(result)
            assert runs_on("xla", check.call.op)
        except Exception as error:
            found.append(f"{check.test}: {check.call} on XLA: {type(error).__name__}: {error}")
    return found


def _run(module: IRModule, arguments: list[Any]) -> Any:
    return build(module, target="xla", compiler_options=OPTIONS)["main"](*arguments)

"""Programs over several devices: the options for it, and the command that shows a plan before anything runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from . import console
from .options import DimSizes, FunctionName, ModelPath, parse_sizes

if TYPE_CHECKING:
    from ..ir.module import IRModule
    from ..passes import ShardingPlan
    from ..run import Mesh

MeshSizes: TypeAlias = Annotated[
    str | None, typer.Option("--mesh", metavar="AXIS=SIZE,...", help="Devices in a grid: data=2,model=4. For xla.")
]
ShardRules: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--shard",
        metavar="RULE",
        help="megatron, data or fully, or 'GLOB=SPEC', as in '*embedding*=model,-'; may be repeated.",
    ),
]

_DEVICE_COUNT = "--xla_force_host_platform_device_count"


def shard(
    model: ModelPath,
    mesh: Annotated[str, typer.Option("--mesh", metavar="AXIS=SIZE,...", help="Devices in a grid: data=2,model=4.")],
    rules: ShardRules = None,
    plan: Annotated[
        bool, typer.Option("--plan/--no-plan", help="Compile it, without weights, and show memory and collectives.")
    ] = True,
    dim: DimSizes = None,
    function: FunctionName = None,
) -> None:
    """Show how a model would be placed on devices: how each weight is cut, and what each device holds and sends.

    Without --shard: megatron along an axis named model, and data along an axis named data.
    """
    sizes = parse_sizes(dim)
    from ..model import open_model

    opened = open_model(model, function=function)
    module, options, found = laid(opened.module, opened.name, mesh, rules)
    rows = [(name, _spec_text(spec)) for name, spec in found.items()]
    rows += [(f"input {name}", _spec_text(spec)) for name, spec in options["inputs"].items()]
    console.print_table(f"{model} over {options['mesh']}", ("tensor", "cut along"), rows or [("everything", "whole")])
    for reason in found.reasons:
        console.print_line(f"Left whole: {reason}")
    if plan:
        from .. import build

        executable: Any = build(module, target="xla", **options)
        console.print_line(str(executable.report(opened.name, sizes or None)))


def laid(
    module: IRModule, name: str, mesh_text: str | None, rules: Sequence[str] | None
) -> tuple[IRModule, dict[str, Any], ShardingPlan]:
    """The module to build, the options of ``build``, and the plan of the weights. Without a mesh, the options and the
    plan are empty.
    """
    from ..passes import DataParallel, FullySharded, Megatron, ShardingPlan, SplitProjections
    from ..run import BuildError, Mesh
    from ..run.mesh import parse_spec

    if mesh_text is None:
        if rules:
            raise BuildError("--shard needs devices to cut over: --mesh data=2,model=4")
        return module, {}, ShardingPlan()
    mesh = Mesh.parse(mesh_text)
    _simulate(mesh)
    usual = [rule for rule, axis in (("megatron", "model"), ("data", "data")) if axis in mesh]
    plan, own, inputs = ShardingPlan(), ShardingPlan(), ShardingPlan()
    for rule in rules or usual:
        if rule == "megatron":
            module = SplitProjections()(module)
            plan = plan | Megatron(mesh=mesh)(module)
        elif rule == "fully":
            plan = FullySharded(mesh=mesh)(module) | plan
        elif rule == "data":
            inputs = inputs | DataParallel(mesh=mesh, function=name)(module)
        elif "=" in rule:
            glob, _, spec = rule.rpartition("=")
            own[glob] = parse_spec(spec)
        else:
            raise BuildError(
                f"--shard {rule!r}: expected megatron, data, fully or 'GLOB=SPEC', as in '*embed*=model,-'"
            )
    plan = ShardingPlan({**own, **{key: spec for key, spec in plan.items() if key not in own}}, plan.reasons)
    plan.reasons += inputs.reasons
    return module, {"mesh": mesh, "shardings": plan, "inputs": dict(inputs)}, plan


def _simulate(mesh: Mesh) -> None:
    """Make JAX simulate as many CPUs as the mesh has devices, unless JAX is loaded or ``XLA_FLAGS`` sets their
    number.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "jax" not in sys.modules and _DEVICE_COUNT not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_DEVICE_COUNT}={mesh.devices}".strip()


def _spec_text(spec: Sequence[Any]) -> str:
    return ", ".join("-" if not entry else entry if isinstance(entry, str) else "+".join(entry) for entry in spec)

"""The torch engine: straight-line Python over PyTorch's tensors, with its own kernels for some operators.

It runs on any PyTorch device, and supports autograd. `python_source` writes the text of the program, and
`torch_kernels` has the kernels. Operators without a kernel run by their reference semantics, through
`array_api_compat`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..ir.collection import collection_paused
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.program import Function
from .arrays import Signature, check_donated
from .errors import BuildError, TypeCheckError
from .executable import EntryFunction, Executable
from .failures import located
from .function_writer import write_module
from .onnx_node import NodeEngine, carried_node, is_carried_node
from .packed import LOWERINGS, helpers
from .python_source import Dialect, PythonModule, kernel_texts
from .torch_meanings import with_meanings
from .torch_narrow import require_narrow_is_read_only, with_packed_numbers
from .torch_speed import AS_IT_IS, Speed, with_speed

if TYPE_CHECKING:
    import torch

serial: Final = itertools.count()


def runs(op: Op) -> bool:
    """True if this engine runs calls of ``op``."""
    return op.name in LOWERINGS or op.reference is not None or "torch" in op.kernels or is_carried_node(op)


def compile_module(
    module: IRModule,
    *,
    device: Any = None,
    verify_types: bool = False,
    compile: bool | str = False,  # noqa: A002 - PyTorch's name
    dtype: str | None = None,
    donate: Sequence[str] = (),
) -> Executable:
    """``module`` compiled for PyTorch.

    ``device`` is the device for constants, and arguments are moved there (``"cuda"``, a `torch.device`; None: the CPU
    for constants, and tensors stay where they are). ``verify_types`` checks the value of each binding against its type.
    ``compile`` uses `torch.compile`, with the backend of that name if it is a string; then the first run takes long.
    ``dtype`` is "bfloat16" or "float16", in which products are computed; results keep their dtypes. ``donate`` names
    parameters whose memory the results may reuse if the program is compiled; donated arguments must not be read again,
    and results have no gradient.

    Results are tensors; they carry gradients if arguments have ``requires_grad``. Constants share the module's memory
    on the CPU. Cost: linear in the bindings. Raises `BuildError` for a device or dtype that PyTorch lacks, and for a
    donated parameter that no function has.
    """
    check_donated(donate, module)
    speed = Speed(compile, dtype, frozenset(donate) if compile else frozenset()).checked()
    program, entries = compile_program(module, device=device, verify_types=verify_types, speed=speed)
    return Executable("torch", entries, program.source)


def compile_program(
    module: IRModule, *, device: Any = None, verify_types: bool = False, speed: Speed = AS_IT_IS
) -> tuple[PythonModule, dict[str, EntryFunction]]:
    """The program that `compile_module` runs, and the entry of each function."""
    import torch

    try:
        place = None if device is None else torch.device(device)
        if place is not None:
            torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise BuildError(f"PyTorch has no device {device!r}: {str(error).splitlines()[0]}") from None
    require_narrow_is_read_only(module)
    with collection_paused():
        module = with_packed_numbers(with_meanings(module))
        program = write_module(module, dialect(place), f"<regraft torch {next(serial)}>", verify_types=verify_types)
    return program, {name: _entry(program, name, function, place, speed) for name, function in module.items()}


def dialect(device: torch.device | None, *, goes_out: bool = False) -> Dialect:
    """The dialect of programs for PyTorch, with constants and new tensors on ``device``.

    ``goes_out`` selects the operators that PyTorch's own tools recognize, even if their results differ in the last
    digit.
    """
    import torch

    from ..formats.torch.outside import torch_operator
    from ..formats.torch.tensors import default_device, to_numpy, torch_dtype
    from . import torch_namespace as xp
    from .torch_arrays import as_constant, over_tensors, tensor_dtype
    from .torch_calls import choose, is_aten, write_extern
    from .torch_kernels import KERNELS, quantization
    from .torch_loops import loop

    def allocate(shape: tuple[int, ...], dtype: str) -> Any:
        return torch.empty(shape, dtype=torch_dtype(dtype), device=device)

    def constant(data: Any) -> Any:
        return as_constant(data, device)

    def compile_node(module: IRModule) -> EntryFunction:
        return compile_module(module, device=device)["main"]

    def numbers(value: Any) -> Any:
        return to_numpy(value, "what decides the meaning of a node")

    table = {**KERNELS, **quantization.GOING_OUT} if goes_out else KERNELS
    lowerings, kernels = kernel_texts("torch", table)
    tools = {
        **helpers(allocate, torch.clone, loop),
        **kernels,
        "aten_device": default_device,
        "choose": choose,
    }
    return Dialect(
        "torch",
        xp,
        constant,
        tensor_dtype,
        {**LOWERINGS, **lowerings},
        tools,
        traced=True,
        write_extern=write_extern,
        trusts=is_aten,
        outside=torch_operator,
        carried=partial(_carried, NodeEngine(compile_node, tensor_dtype, numbers)),
        bring_in=over_tensors,
    )


def _carried(engine: NodeEngine, call: Call) -> Callable[..., Any] | None:
    import torch

    found = carried_node(call, engine)
    # Its program is read at run time, which must not be traced.
    return found and torch.compiler.disable(found)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _entry(
    program: PythonModule, name: str, function: Function, device: torch.device | None, speed: Speed
) -> EntryFunction:
    from .torch_arrays import takes_tensors
    from .torch_donated import owning

    run = with_speed(program.namespace[program.functions[name]], speed, function, device)
    signature = Signature(name, function.params, takes_tensors(device))
    own = owning(function, speed.donated)

    def call(*arguments: Any) -> Any:
        values = signature.values(own(arguments))
        try:
            with nullcontext() if device is None else device:
                return run(*values)
        except TypeCheckError:
            raise
        except Exception as error:
            raise located(program, name, error) from error

    call.__name__ = call.__qualname__ = name
    return call

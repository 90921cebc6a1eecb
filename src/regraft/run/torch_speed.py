"""Ways to make a program faster on PyTorch: its compiler, and products in a narrower dtype.

Both wrap any function of tensors; its results keep the dtypes of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Final, NamedTuple

from ..ir.program import Function
from ..ir.types import TensorType, TupleType, Type
from .errors import BuildError

DTYPES: Final = ("bfloat16", "float16")


class Speed(NamedTuple):
    """The form in which a program runs: compiled or not (a string names the backend), the dtype of products, and the
    parameters whose memory the results of a compiled function may reuse.
    """

    compile: bool | str = False
    dtype: str | None = None
    donated: frozenset[str] = frozenset()

    def checked(self) -> Speed:
        """The object itself. Raises `BuildError` for a dtype or backend that PyTorch does not have."""
        import torch

        if self.dtype is not None and self.dtype not in DTYPES:
            raise BuildError(f"dtype={self.dtype!r}; expected one of {', '.join(DTYPES)}, or None for what it is")
        if isinstance(self.compile, str):
            known: list[str] = torch._dynamo.list_backends(None)  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]
            if self.compile not in known:
                raise BuildError(f"compile={self.compile!r}; PyTorch has the backends {', '.join(known)}")
        return self


AS_IT_IS: Final = Speed()
"""The default: no option is set."""


def with_speed(run: Callable[..., Any], speed: Speed, function: Function, device: Any) -> Callable[..., Any]:
    """``run``, which runs ``function``, with the options of ``speed``; ``run`` itself if there are none.

    In a narrower dtype products are rounded to it, and operators that are sensitive to rounding stay in float32, as
    PyTorch's autocast decides. Compilation happens in the first run for each combination of sizes.
    """
    import torch

    from .torch_donated import with_donated

    library: Any = torch
    made = with_donated(run, function, speed.donated)
    if speed.compile:
        backend = "inductor" if speed.compile is True else speed.compile
        made = _silent_at_first(library.compile(made, backend=backend, options={"guard_filter_fn": _of_arguments}))
    if speed.dtype is None:
        return made
    kind, narrow = "cpu" if device is None else device.type, getattr(torch, speed.dtype)

    def call(*values: Any) -> Any:
        with library.autocast(kind, dtype=narrow):
            found = made(*values)
        return _as_promised(found, function.ret_ty)

    return call


def _of_arguments(guards: Sequence[Any]) -> list[bool]:
    """One bool for each guard of a compiled function: True if it is about a call's arguments, and so is checked.

    The other guards are about names that the generated code reads: operators, constants, kernels. These names are never
    rebound, and there are hundreds of them, so checking them takes a tenth of a small training step.
    """
    return [not guard.is_global for guard in guards]


def _silent_at_first(run: Callable[..., Any]) -> Callable[..., Any]:
    """``run``, whose first call compiles it without output."""
    from ..formats.quiet import quiet

    guards = iter([quiet()])

    def call(*values: Any) -> Any:
        with next(guards, nullcontext()):
            return run(*values)

    return call


def _as_promised(value: Any, ty: Type) -> Any:
    from ..formats.torch.tensors import torch_dtype

    if isinstance(ty, TupleType):
        return tuple(_fields(value, ty))
    if isinstance(ty, TensorType) and ty.dtype is not None and hasattr(value, "to"):
        return value.to(torch_dtype(ty.dtype))
    return value


def _fields(values: Any, ty: TupleType) -> Iterator[Any]:
    for value, field in zip(values, ty.fields, strict=True):
        yield _as_promised(value, field)

"""Relax's deeper module paths. Each provides the names of the module that has them here.

`tvm.relax.dpl.pattern`, `.context` and `.rewrite` are one module here, `regraft.dpl`; `tvm.ir.transform` is
`regraft.transform`. A file that imports from these paths runs after replacing ``tvm.relax`` and ``tvm`` in them by
``regraft``. Nothing is imported before a name is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from .left_out import LEFT_OUT, LEFT_OUT_PATHS, LeftOut

if TYPE_CHECKING:
    from importlib.abc import Loader

_OPERATORS: Final = (
    "base binary create datatype index linear_algebra manipulate mask qdq sampling search set sorting statistical "
    "ternary unary"
)
_PASSES: Final = (
    "fold_batch_norm_to_conv2d_for_inference lazy_transform_params lower_gpu_ipc_alloc_storage "
    "optimize_layout_transform remove_redundant_reshape transform"
)

PATHS: Final[dict[str, str]] = {
    "regraft.analysis.analysis": "regraft.analysis",
    "regraft.analysis.estimate_memory_usage": "regraft.analysis",
    "regraft.attrs": "regraft",
    "regraft.base": "regraft",
    "regraft.base_py_module": "regraft",
    **{f"regraft.dpl.{name}": "regraft.dpl" for name in ("context", "pattern", "rewrite")},
    "regraft.frontend.common": "regraft.frontend",
    "regraft.frontend.onnx.onnx_frontend": "regraft.frontend.onnx",
    **{
        f"regraft.frontend.torch.{name}": "regraft.frontend.torch"
        for name in ("dynamo", "exported_program_translator", "fx_translator")
    },
    "regraft.function": "regraft",
    "regraft.global_info": "regraft",
    **{f"regraft.ir.{name}": "regraft.ir" for name in ("base", "function", "global_info")},
    "regraft.ir.instrument": "regraft.instrument",
    "regraft.ir.transform": "regraft.transform",
    **{f"regraft.op.{name}": "regraft.op" for name in _OPERATORS.split()},
    **{
        f"regraft.op.{name}.{name}": f"regraft.op.{name}"
        for name in ("builtin", "ccl", "grad", "image", "memory", "nn", "vm")
    },
    "regraft.module": "regraft",
    "regraft.op.memory.view": "regraft.op.memory",
    **{
        f"regraft.op.vision.{name}": "regraft.op.vision"
        for name in ("multibox_transform_loc", "nms", "roi_align", "roi_pool")
    },
    "regraft.pipeline": "regraft.passes.named_pipelines",
    "regraft.runtime.device": "regraft.runtime",
    "regraft.runtime.executable": "regraft",
    "regraft.runtime.vm": "regraft",
    **{f"regraft.script.builder{below}": "regraft.script.ir_builder.relax" for below in ("", ".ir")},
    "regraft.script.ir_builder.base": "regraft.script.ir_builder",
    "regraft.script.tirx": "regraft.script.tir",
    **{f"regraft.support{below}": "regraft.testing" for below in ("", ".utils")},
    **{f"regraft.testing.{name}": "regraft.testing" for name in ("attention", "matmul", "utils")},
    "regraft.tirx": "regraft.script.tir",
    **{f"regraft.transform.{name}": "regraft.transform" for name in _PASSES.split()},
    "regraft.vm_build": "regraft",
}
"""Each path, and the module that holds its names."""


class SecondPath(ModuleType):
    """A module with the names of another one, which is imported when a name is first used."""

    def __init__(self, name: str, home: str) -> None:
        super().__init__(name, f"The names of `{home}`.")
        self._home = home

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        below = sys.modules.get(f"{self.__name__}.{name}")
        return getattr(import_module(self._home), name) if below is None else below


class LeftOutPath(ModuleType):
    """A module of Relax that is left out. It returns a `LeftOut` for each name; calling one raises with the reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, f"Left out: {reason}.")
        self.__path__ = []
        self.reason = reason

    def __getattr__(self, name: str) -> LeftOut:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return LeftOut(name, self.reason)


class _BelowLeftOut:
    """Finds the modules below a left-out module.

    It has the methods of a finder and a loader, but not their base classes: importing these also imports modules for
    files and archives.
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """The module, if the one above it is left out."""
        above = sys.modules.get(fullname.rpartition(".")[0])
        return (
            ModuleSpec(fullname, cast("Loader", self), origin=above.reason) if isinstance(above, LeftOutPath) else None
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module, left out for the same reason."""
        return LeftOutPath(spec.name, str(spec.origin))

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has no code."""


def names_around(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose namesake in Relax also contains names that it imports for itself.

    For example, `tvm.relax.expr` contains `Span` and `Type`, and programs import them from there.
    """

    def find(name: str) -> Any:
        found = None if name.startswith("_") else getattr(import_module("regraft"), name, None)
        if found is None or isinstance(found, LeftOut):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return found

    return find


def make_second_paths() -> None:
    """Make all `PATHS`, and the left-out paths, importable."""
    for path in (*PATHS, *LEFT_OUT_PATHS):
        _second_path(path)
    sys.meta_path.append(_BelowLeftOut())


def attach_second_paths(parent: str) -> None:
    """Set the paths directly below the module ``parent`` as its attributes, unless it has such a name already."""
    module = sys.modules[parent]
    for path in (*PATHS, *LEFT_OUT_PATHS):
        above, _, name = path.rpartition(".")
        if above == parent and name not in vars(module) and name not in LEFT_OUT:
            setattr(module, name, _second_path(path))


def _second_path(path: str) -> ModuleType:
    made = LeftOutPath(path, LEFT_OUT_PATHS[path]) if path in LEFT_OUT_PATHS else SecondPath(path, PATHS[path])
    return sys.modules.setdefault(path, made)

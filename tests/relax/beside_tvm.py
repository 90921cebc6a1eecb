"""The same program text through this library and through TVM's Relax."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax as tvm_relax
from tvm.script import from_source

import regraft as rx
from regraft import IRModule


def ours(text: str) -> IRModule:
    """The module that this library reads from ``text``."""
    module = rx.parse(text)
    assert isinstance(module, IRModule)
    return module


def theirs(text: str) -> Any:
    """The module that TVM reads from ``text``."""
    return from_source(text)


def read_back(module: Any) -> IRModule:
    """A module of TVM as this library reads what TVM prints of it."""
    return ours(module.script(show_meta=True))


def both(text: str, name: str, *args: Any, **keywords: Any) -> tuple[IRModule, IRModule]:
    """What the pass ``name`` makes of ``text`` here and in TVM."""
    here = getattr(rx.transform, name)(*args, **keywords)(ours(text))
    there = getattr(tvm_relax.transform, name)(*args, **keywords)(theirs(text))
    assert isinstance(there, tvm.IRModule)
    return here, read_back(there)

"""Models in the forms that people have them in: files of four formats, and the objects of ONNX and PyTorch.

`open_model` reads any of them. The `Model` remembers its source, so that the original can be run and the result
returned in the same form. This module knows the converters; they load a framework when they need it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.op import Call, is_call_of
from ..ir.program import Function
from ..ir.types import TensorType, Type
from ..ir.visitor import iter_bindings, walk
from ..passes import BindSymbolicVars
from ..passes.torch_forms import TorchForms
from ..run import BuildError
from ..run.originals import RunOriginal, onnx_original, openvino_original, torch_original, without_overflow_here
from ..run.torch_out import ExampleCall
from ..script import load_script, save_script
from .errors import UsageError
from .files import check_name

ModelForm: TypeAlias = Literal["onnx", "torch", "relax", "openvino"]

SUFFIXES: Final[Mapping[str, ModelForm]] = {".onnx": "onnx", ".pt2": "torch", ".relax": "relax", ".xml": "openvino"}
"""The form of a model by the suffix of its file."""
_RELAX_WEIGHTS: Final = (".weights", ".safetensors")
"""The suffixes of the files with the weights of a ``.relax`` file."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model as a program, and its source.

    ``name`` is the name of the model's function. ``source`` is the path, or the object, that was opened. ``files`` are
    all files that the model is read from, now or later, including weights. ``loaded`` is the framework's object for a
    path, if that holds the weights in memory. ``is_changed`` says that sizes were fixed, so that the source is a
    different model.
    """

    module: IRModule
    name: str
    form: ModelForm
    source: Any
    files: tuple[Path, ...] = ()
    loaded: Any = None
    is_changed: bool = False

    @property
    def function(self) -> Function:
        """The model's function."""
        return self.module[self.name]

    @property
    def path(self) -> Path | None:
        """The file that was opened; None for an object in memory."""
        return self.source if isinstance(self.source, Path) else None

    @property
    def examples(self) -> ExampleCall | None:
        """The example call that a PyTorch program holds, if the program is this model."""
        program = self.source if self.loaded is None else self.loaded
        return getattr(program, "example_inputs", None) if self.form == "torch" and not self.is_changed else None


def form_of(path: Path) -> ModelForm:
    """The form that a path's suffix names; raises `UsageError` for an unknown suffix."""
    found = SUFFIXES.get(path.suffix.lower())
    if found is None:
        suffix = repr(path.suffix) if path.suffix else "no suffix"
        raise UsageError(f"{path} has {suffix}; a model's file ends in {', '.join(SUFFIXES)}")
    return found


def open_model(
    source: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    function: str | None = None,
    fixed: Mapping[str, int] | None = None,
    pure: Sequence[str] = (),
) -> Model:
    """Read a model.

    ``source`` is a path (of a file, or of a folder in transformers' form), an `onnx.ModelProto`, an `ExportedProgram`,
    a `torch.nn.Module` with example inputs, or a module or function of regraft.

    ``args``, ``kwargs`` and ``dynamic_shapes`` are for a `torch.nn.Module`, as `from_torch` takes them. ``function``
    chooses a function of a module with several. ``fixed`` replaces symbolic sizes by numbers, by name. ``pure`` lists
    domains or operators of an ONNX model that are not declared and have no effects. Raises `UsageError` for any other
    source, `ConvertError` and `ParseError` if it cannot be read, and `MissingDependencyError` if PyTorch is needed and
    not installed. Cost: linear; weights are not read.
    """
    sizes = fixed or {}
    # An object of a framework can exist only if the framework is loaded.
    onnx, torch = sys.modules.get("onnx"), sys.modules.get("torch")
    if isinstance(source, str | os.PathLike):
        opened = _from_file(Path(cast("str | os.PathLike[str]", source)), function, sizes, pure)
    elif isinstance(source, Function):
        opened = Model(with_sizes(IRModule({"main": source}), "main", sizes), "main", "relax", source)
    elif isinstance(source, IRModule):
        name = _chosen(source, function)
        opened = Model(with_sizes(source, name, sizes), name, "relax", source)
    elif onnx is not None and isinstance(source, onnx.ModelProto):
        from ..formats.onnx.read.reader import from_onnx

        opened = Model(from_onnx(source, dims=sizes, pure=pure, carry=True), "main", "onnx", source)
    elif torch is not None and isinstance(source, torch.nn.Module | torch.export.ExportedProgram):
        from ..formats.torch import from_torch

        module = from_torch(source, args, kwargs, dynamic_shapes=dynamic_shapes)
        opened = Model(with_sizes(module, "main", sizes), "main", "torch", source)
    else:
        raise UsageError(
            f"a model is a path, an onnx.ModelProto, an ExportedProgram, a torch.nn.Module or a module of regraft, not "
            f"a {type(source).__name__}"
        )
    return replace(opened, is_changed=True) if sizes else opened


def with_sizes(module: IRModule, name: str, sizes: Mapping[str, int]) -> IRModule:
    """``module`` with numbers for symbolic sizes of a function; raises `UsageError` for a name that is not one."""
    if not sizes:
        return module
    try:
        return BindSymbolicVars({**sizes}, name)(module)
    except RegraftError as error:
        raise UsageError(f"sizes cannot be set: {error}") from error


def _from_file(path: Path, function: str | None, sizes: Mapping[str, int], pure: Sequence[str]) -> Model:
    check_name(path)
    if path.is_dir():
        return _from_folder(path, sizes)
    if not path.suffix and not path.exists():
        raise UsageError(f"{path}: there is no such file or folder")
    form = form_of(path)
    if not path.exists():
        raise UsageError(f"{path}: there is no such file")
    beside = _files_beside(path)
    for file in (path, *beside):
        if file.exists() and not file.is_file():
            raise UsageError(f"{file} is a device, a pipe or a folder; give a file")
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path} cannot be read: no permission")
    if function not in (None, "main") and form != "relax":
        raise UsageError(f"{path} holds one function, main; --function is for .relax files")
    if form == "onnx":
        from ..formats.onnx.external_data import external_files
        from ..formats.onnx.read.reader import from_onnx

        module = from_onnx(path, dims=sizes, pure=pure, carry=True)
        return Model(module, "main", form, path, (path, *external_files(path)))
    if form == "openvino":
        from ..formats.openvino import from_openvino

        return Model(from_openvino(path, dims=sizes), "main", form, path, (path, *beside))
    if form == "torch":
        from ..formats.torch import from_torch, require_torch

        require_torch()
        from ..formats.torch.files import load_exported

        exported = load_exported(path)
        return Model(with_sizes(from_torch(exported), "main", sizes), "main", form, path, (path,), exported)
    program = load_script(path)
    module = program if isinstance(program, IRModule) else IRModule({program.name or "main": program})
    name = _chosen(module, function)
    return Model(with_sizes(module, name, sizes), name, form, path, (path, *beside))


def _files_beside(path: Path) -> list[Path]:
    """The files of weights whose names follow from the name of a model's file, whether they exist or not."""
    match form_of(path):
        case "openvino":
            return [path.with_suffix(".bin")]
        case "relax":
            return [path.with_name(path.name + suffix) for suffix in _RELAX_WEIGHTS]
        case _:
            return []


def _from_folder(path: Path, sizes: Mapping[str, int]) -> Model:
    """A transformers model from a folder in Hugging Face's form; raises `UsageError` for any other folder."""
    if not (path / "config.json").is_file():
        raise UsageError(f"{path} is a folder without a config.json; give the model's file in it")
    from ..formats.torch import from_torch, require_torch

    require_torch()
    from ..formats.torch.hugging_face import open_folder, weight_files

    source, inputs = open_folder(path)
    module = from_torch(source, (), inputs.values, dynamic_shapes=inputs.dynamic)
    return Model(with_sizes(module, "main", sizes), "main", "torch", source, weight_files(path))


def _chosen(module: IRModule, function: str | None) -> str:
    if function is not None:
        if function not in module:
            raise UsageError(f"there is no function {function!r}; there are: {', '.join(module) or 'none'}")
        return function
    public = [name for name, candidate in module.items() if not candidate.is_private]
    if "main" in module:
        return "main"
    if len(public) != 1:
        raise UsageError(f"which function? The model has {', '.join(module) or 'none'}: say which")
    return public[0]


# --- writing models


def in_versions(model: Model, opset: int | None, ir_version: int | None, output: Path | None) -> Model:
    """``model``, to be written in these versions of ONNX; raises `UsageError` if it is not written as ONNX."""
    if opset is None and ir_version is None:
        return model
    if (model.form if output is None else form_of(output)) != "onnx":
        raise UsageError("an opset or ir_version is for ONNX; give the output a name that ends in .onnx")
    if 0 in (opset, ir_version):
        raise UsageError("an opset and an ir_version are numbers above 0; leave them out for the lowest that do")
    from ..formats.onnx.write.model_facts import with_versions

    return replace(model, module=with_versions(model.module, opset, ir_version))


def write_model(
    module: IRModule, name: str, path: Path, *, safetensors: bool = False, examples: ExampleCall | None = None
) -> None:
    """Write a module to ``path``, in the format of its suffix. ``name`` is the name of the model's function.

    ``safetensors`` says that the weights beside a ``.relax`` file have that format. ``examples`` is the example call
    that a ``.pt2`` file holds.
    """
    form = form_of(path)
    if form == "onnx":
        from ..formats.onnx import to_onnx

        to_onnx(module, path, function=name)
    elif form == "torch":
        from ..run.torch_out import save_torch

        save_torch(torch_module(module, name, share_memory=True), path, examples=examples)
    elif form == "openvino":
        from ..run.openvino_engine import save_openvino

        save_openvino(module, name, path)
    else:
        save_script(module, path, safetensors=safetensors)


def torch_module(module: IRModule, name: str, *, share_memory: bool = False) -> Any:
    """A function of ``module`` as a PyTorch module, made by `to_torch`.

    The program is rewritten to PyTorch's forms (`TorchForms`), except values that become one of the source model's
    PyTorch operators again.
    """
    from ..formats.torch import require_torch

    require_torch()
    from ..run.torch_calls import sums_of_products, values_to_restore
    from ..run.torch_out import to_torch

    forms = TorchForms(values_to_restore(module), sums_of_products(module))
    return to_torch(forms(module), name, share_memory=share_memory)


def as_source(model: Model, module: IRModule) -> Any:
    """``module`` in the form in which ``model`` was given; for a file, the contents of the file."""
    if model.form == "onnx":
        from ..formats.onnx import to_onnx

        return to_onnx(module, function=model.name)
    if model.form == "openvino":
        from ..run.openvino_engine import to_openvino

        return to_openvino(module, model.name)
    if model.form == "torch":
        torch = sys.modules["torch"]
        result = torch_module(module, model.name)
        if isinstance(model.source, torch.nn.Module):
            return result
        from ..run.torch_export import export_torch

        return export_torch(result, model.examples)
    return module[model.name] if isinstance(model.source, Function) else module


def is_read_again(model: Model) -> bool:
    """True if the result of `as_source` can be opened by itself; a PyTorch module would need example inputs."""
    return model.form != "torch" or not isinstance(model.source, sys.modules["torch"].nn.Module)


def as_it_is(model: Model) -> Any:
    """The original model in the form in which it was given; for a file, the contents of the file."""
    if model.path is not None:
        return as_source(model, model.module)
    if model.form == "torch" and isinstance(model.source, sys.modules["torch"].export.ExportedProgram):
        from ..formats.torch.exported import with_own_buffers

        return with_own_buffers(model.source)
    return model.source


def write_as_it_is(model: Model, path: Path) -> None:
    """Write the original model; a file that has the format of ``path`` is copied unchanged.

    Weights in files of their own go beside ``path``. A model in another format, or in memory, or with fixed sizes, or
    a ``.relax`` file with weights beside it, is written as it was read.
    """
    own = model.path
    # The text of a program names its file of weights, so a copy under another name must be written again.
    has_weights = model.form == "relax" and any(one.exists() for one in model.files[1:])
    if own is None or form_of(own) != form_of(path) or model.is_changed or has_weights:
        write_model(model.module, model.name, path, examples=model.examples)
    elif model.form == "onnx" and any(one.resolve() != own.resolve() for one in model.files):
        from ..formats.onnx.external_data import copy_with_constants

        copy_with_constants(own, path)
    else:
        shutil.copyfile(own, path)
        if model.form == "openvino" and model.files[1].exists():
            shutil.copyfile(model.files[1], path.with_suffix(".bin"))


# --- running


def run_as_it_is(model: Model, threads: int | None = None) -> RunOriginal | None:
    """A run of the original model in its own framework. None for a program of ours, which has no other framework, or if
    the framework is not installed.

    None also for an ONNX model that takes or returns text or maps; its program is compared instead. The elements of a
    sequence are separate results.
    """
    if model.form == "onnx":
        if not _takes_tensors(model):
            return None
        _require_forms(model.function)
        return onnx_original(model.source, threads=threads, exact=True)
    if model.form == "torch":
        original = model.source if model.loaded is None else model.loaded
        if isinstance(original, Path):
            from ..formats.torch.files import load_exported

            original = load_exported(original)
        return torch_original(original, model.function)
    if model.form == "openvino" and find_spec("openvino") is not None:
        return openvino_original(model.source, threads=threads, exact=True)
    return None


def _require_forms(function: Function) -> None:
    """Raise `BuildError` for a call that ONNX Runtime opens on a CPU but does not compute."""
    from ..formats.onnx.write.kernels import takes_on_cpu

    for binding in iter_bindings(function):
        if isinstance(binding.value, Call) and not takes_on_cpu(binding.value):
            raise BuildError(f"ONNX Runtime has no kernel on CPUs for {binding.var.name_hint} = {binding.value}")


def run_exactly(model: Model) -> RunOriginal | None:
    """A run of the original model in its own framework, without roundings that the framework adds.

    These are overflows in sums of byte products on this processor, and a rounded left operand of products with
    block-quantized weights. None if the model has neither. Its results are the model's true values, and other forms of
    the model are compared with them.
    """
    if model.form != "onnx" or not _takes_tensors(model):
        return None
    run = without_overflow_here(model.source) if _has_signed_bytes(model.module) else None
    return run_as_it_is(model) if run is None and _has_blocks(model.function) else run


def _has_signed_bytes(module: IRModule) -> bool:
    """True if ``module`` contains signed bytes: without them no sum of products overflows (`unsigned_bytes`)."""
    return any(isinstance(value.ty, TensorType) and value.ty.dtype == "int8" for value in walk(module))


def _has_blocks(function: Function) -> bool:
    """True if ``function`` has weights that are dequantized with one scale per block."""
    values = (binding.value for binding in iter_bindings(function))
    scales = (value.args[1].ty for value in values if is_call_of(value, "relax.dequantize"))
    return any(isinstance(ty, TensorType) and ty.ndim > 1 for ty in scales)


def _takes_tensors(model: Model) -> bool:
    """False for an ONNX model with text or maps among its inputs or outputs."""
    from ..formats.onnx.carried import CARRIED, runs_on_tensors

    carried = model.module.attrs.get(CARRIED)
    return not isinstance(carried, str) or runs_on_tensors(carried)


# --- signatures


def output_types(function: Function) -> tuple[Type, ...]:
    """The types of a function's results: the fields of a tuple, or the one result."""
    fields = getattr(function.ret_ty, "fields", None)
    return (function.ret_ty,) if fields is None else tuple(fields)


def output_names(function: Function, count: int | None = None) -> tuple[str, ...]:
    """Names for a function's results: the names in the source model, else ``output`` and a number.

    ``count`` is the number of results, if tuples among them were flattened or some were left out.
    """
    from ..formats.onnx.write.model_facts import OUTPUT_NAMES, names_under

    count = len(output_types(function)) if count is None else count
    names = names_under(function, OUTPUT_NAMES)
    return names if len(names) == count else tuple(f"output{index}" for index in range(count))


def type_text(ty: Type) -> str:
    """A short text for a type: ``float32[batch, 77, 768]``."""
    if not isinstance(ty, TensorType):
        return repr(ty)
    dtype = ty.dtype or "unknown"
    if ty.shape is None:
        return f"{dtype}[{'...' if ty.ndim < 0 else ', '.join('?' * ty.ndim)}]"
    return f"{dtype}[{', '.join(map(str, ty.shape))}]"

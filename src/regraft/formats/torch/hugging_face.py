"""Models in folders of Hugging Face: ``config.json`` beside weights in safetensors, read with transformers.

The configuration names the class. Only classes of transformers itself are made, from files on this machine only, and
never from code or pickled weights in the folder. The model is exported with inputs that its configuration describes;
the batch and the length of a text are dynamic sizes.
"""

from __future__ import annotations

import copy
import inspect
import json
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import torch
from torch.export import Dim

from ...ir.errors import MissingDependencyError
from ..errors import ConvertError
from ..quiet import quiet
from .packed_weights import packed_method, unpacked_weights

CONFIG: Final = "config.json"

_TEXT: Final = ("input_ids", "decoder_input_ids")
_LENGTH: Final = 8
"""The length of the text in the example inputs. The exported length is dynamic."""
_SPEAKING: Final = ("torch", "torchao", "transformers")
_MOST_BATCH: Final = 4096


_OTHERS: Final = "mismatched_keys"
_MISSING: Final = "missing_keys"


class MissingWeightsWarning(UserWarning):
    """A model has weights that are not in its files."""


class Inputs(NamedTuple):
    """Arguments by name, and their dynamic axes."""

    values: dict[str, torch.Tensor]
    dynamic: dict[str, dict[int, Any]]


def weight_files(path: Path) -> tuple[Path, ...]:
    """The configuration and the weight files of a folder."""
    return (path / CONFIG, *sorted(path.glob("*.safetensors")))


def open_folder(path: Path) -> tuple[torch.nn.Module, Inputs]:
    """The model in a folder, and inputs for its export.

    Raises `MissingDependencyError` without transformers. Raises `ConvertError` for a folder whose configuration is
    damaged, whose class is not one of transformers, whose weights are not safetensors, or whose inputs cannot be
    derived from the configuration. Cost: that of loading.
    """
    model = load_folder(path)
    return model, inputs_of(model)


def load_folder(path: Path) -> Any:
    """The model in a folder, ready for export; raises the errors of `open_folder`."""
    if find_spec("transformers") is None:
        raise MissingDependencyError(f"{path} is a model of transformers: pip install transformers")
    config = _read_config(path)
    with quiet(*_SPEAKING):
        import_module("transformers")  # it sets up its own logs, which are silenced from here on
    with quiet(*_SPEAKING):
        model, name, found = _load(path, config)
    return _prepared(model, name, path, found)


def in_single_precision(model: Any, *, in_place: bool = False) -> tuple[Any, tuple[str, ...]]:
    """``model`` in float32 instead of half precision, and the half-precision dtypes of its weights and buffers.

    Returns the model itself if it has none, or if ``in_place``; otherwise a copy, which needs memory.
    """
    tensors = [*model.parameters(), *model.buffers()]
    kinds = dict.fromkeys(one.dtype for one in tensors if one.dtype in (torch.float16, torch.bfloat16))
    if not kinds:
        return model, ()
    return (model if in_place else copy.deepcopy(model)).float(), tuple(str(one).split(".")[1] for one in kinds)


def _first_of(texts: Sequence[str]) -> str:
    return texts[0] + (f", and {len(texts) - 1} more" if len(texts) > 1 else "")


def _read_config(path: Path) -> Mapping[str, Any]:
    if not (path / CONFIG).exists():
        raise ConvertError(f"{path} has no {CONFIG}, so it is no folder of transformers")
    try:
        found = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConvertError(f"{path / CONFIG} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise ConvertError(f"{path / CONFIG} is damaged: it holds no table of settings")
    return cast("Mapping[str, Any]", found)


def _load(path: Path, config: Mapping[str, Any]) -> tuple[Any, str, Mapping[str, Any]]:
    """The module, its class, and transformers' report on the weights."""
    import transformers

    names: Any = config.get("architectures")
    name = cast("Any", names[0]) if isinstance(names, list) and names else None
    if not isinstance(name, str) or not hasattr(transformers, name):
        what = "names no class" if name is None else f"names the class {name!r}, which transformers does not have"
        raise ConvertError(
            f'{path / CONFIG} {what} under "architectures"; export the model with torch.export and give the .pt2 file'
        )
    if not any(path.glob("*.safetensors")):
        raise ConvertError(f"{path} has no weights in safetensors; pickled weights can run code and are not read")
    kind: Any = getattr(transformers, name)
    given: dict[str, Any] = {"pretrained_model_name_or_path": path}
    is_packed = packed_method(config) is not None
    weights = unpacked_weights(path, config) if is_packed else None
    try:
        if is_packed:
            plain = kind.config_class.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            del plain.quantization_config
            given = {"pretrained_model_name_or_path": None, "config": plain, "state_dict": weights}
        with _without_progress_bars(transformers.utils.logging):
            model, found = kind.from_pretrained(
                **given,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except Exception as error:  # transformers raises errors of many kinds
        reason = str(error).strip().splitlines()
        raise ConvertError(f"{path}: transformers cannot load it: {reason[0] if reason else type(error)}") from error
    return model, name, found


def _prepared(model: Any, name: str, path: Path, found: Mapping[str, Any]) -> Any:
    """``model``, ready for export; ``found`` is transformers' report on its weights.

    Raises `ConvertError` for a weight of another shape, and warns of weights that are not in the files.
    """
    unfit = sorted(f"{weight} is {tuple(own)} and should be {tuple(said)}" for weight, own, said in found[_OTHERS])
    if unfit:
        problem = f"the weights are not those of a {name} by its {CONFIG}: {_first_of(unfit)}"
        raise ConvertError(f"{path}: {problem}")
    if found[_MISSING]:
        lacking = _first_of(sorted(found[_MISSING]))
        message = f"{path} lacks weights of a {name}, which were drawn at random: {lacking}"
        warnings.warn(message, MissingWeightsWarning, stacklevel=2)
    model.eval()
    # Submodules have configurations of their own; a cache among the results would not be a tensor.
    for part in model.modules():
        own: Any = getattr(part, "config", None)
        if hasattr(own, "use_cache"):
            own.use_cache = False
    return model


@contextmanager
def _without_progress_bars(settings: Any) -> Generator[None]:
    shown = settings.is_progress_bar_enabled()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            settings.enable_progress_bar()


def inputs_of(model: Any) -> Inputs:
    """Example inputs for exporting a model of transformers, derived from its configuration.

    Raises `ConvertError` if the configuration does not describe the inputs.
    """
    config = model.config
    main = str(model.main_input_name)
    takes = inspect.signature(model.forward).parameters
    batch = Dim("batch", max=_MOST_BATCH)
    values: dict[str, torch.Tensor] = {}
    dynamic: dict[str, dict[int, Any]] = {}
    if main in _TEXT:
        length = Dim("length", max=_longest(model))
        for name in (main, "attention_mask"):
            if name in takes:
                values[name] = torch.ones(2, _LENGTH, dtype=torch.int64)
                dynamic[name] = {0: batch, 1: length}
    else:
        values[main] = _signal(main, config)
        dynamic[main] = {0: batch}
    sight = getattr(config, "vision_config", None)
    if main in _TEXT and sight is not None and "pixel_values" in takes and not model.can_generate():
        # A model that compares texts and images needs them; one that generates text about images does not.
        values["pixel_values"] = _signal("pixel_values", sight)
        dynamic["pixel_values"] = {0: batch}
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
        values["decoder_input_ids"] = torch.ones(2, _LENGTH, dtype=torch.int64)
        dynamic["decoder_input_ids"] = {0: batch, 1: Dim("decoder_length", max=_longest(model))}
    return Inputs(values, dynamic)


def _longest(model: Any) -> int:
    """The most tokens for which the model has positions.

    If its table of positions has a row for padding, positions begin after this row (RoBERTa, MPNet and similar models).
    """
    tables = [part for name, part in model.named_modules() if name.endswith("position_embeddings")]
    first = max((part.padding_idx + 1 for part in tables if getattr(part, "padding_idx", None) is not None), default=0)
    for name in ("max_position_embeddings", "n_positions", "max_target_positions"):
        found = getattr(model.config.get_text_config(), name, None)
        if isinstance(found, int) and found > _LENGTH:
            return found - first
    return 1 << 20


def _signal(name: str, config: Any) -> torch.Tensor:
    """An image, or the features of a sound, of the size in the configuration."""
    size = getattr(config, "image_size", None)
    if name == "pixel_values" and size is not None:
        height, width = cast("Sequence[int]", size) if isinstance(size, list | tuple) else (size, size)
        return torch.zeros(2, int(getattr(config, "num_channels", 3)), int(height), int(width))
    if name == "pixel_values":
        return torch.zeros(2, int(getattr(config, "num_channels", 3)), 224, 224)
    if name == "input_features" and hasattr(config, "num_mel_bins"):
        return torch.zeros(2, int(config.num_mel_bins), 2 * int(getattr(config, "max_source_positions", 1500)))
    if name == "input_values":
        return torch.zeros(2, 16_000)
    raise ConvertError(
        f"the configuration does not say what the input {name!r} of {type(config).__name__} is like; "
        "export the model with torch.export and give the .pt2 file"
    )

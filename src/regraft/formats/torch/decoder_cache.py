"""The cache of a causal language model of transformers: keys, values, and states of fixed size.

A cache of transformers is an object with tensors somewhere in it: keys and values of attention, which grow, and states
of convolutions and recurrences (Mamba, linear attention), which do not. Its tensors are taken out and put back by their
paths, so that a model is a function of them, whatever the class of its cache.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, cast

import torch

from ..errors import ConvertError

Path: TypeAlias = tuple[str | int, ...]

_NAMES: Final = ("cache", "past_key_values", "cache_params")
"""The names of the argument and of the result field that hold the cache. transformers uses the first one since 5.24,
and used the others before."""
_ROWS: Final = ("keys", "values")


def cache_name(model: Any) -> str:
    """The argument of ``model`` that is its cache; raises `ConvertError` where it takes none."""
    known = inspect.signature(model.forward).parameters
    found = next((name for name in _NAMES if name in known), None)
    if found is None:
        raise ConvertError(f"{type(model).__name__} takes no cache ({', '.join(_NAMES)}), so it is no decoder here")
    return found


def filled_cache(model: Any, ids: torch.Tensor) -> Any:
    """The cache of ``model`` after ``ids``, with the keys and values of all of them; raises `ConvertError`."""
    name, reasons = cache_name(model), list[str]()
    makers: Sequence[Callable[[Any], Any]] = (_plain, _of_its_layers, _its_own)
    for made in makers:
        try:
            with torch.no_grad():
                found = model(input_ids=ids, use_cache=True, **{name: made(model)})
        except Exception as error:  # layers of another kind raise what they like where their state is missing
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        cache = getattr(found, name, None)
        if hasattr(found, "logits") and cache is not None and _is_whole(cache, ids.shape[1]):
            return cache
        reasons.append("its cache is not keys and values of all tokens, and states")
    raise ConvertError(
        f"{type(model).__name__} does not run with a cache that can be taken apart ({reasons[-1]}); "
        "run it with transformers"
    )


def _plain(_: Any) -> Any:
    from transformers.cache_utils import DynamicCache

    return DynamicCache()


def _its_own(_: Any) -> Any:
    return None


def _of_its_layers(model: Any) -> Any:
    """A cache of the kinds of layers that ``model`` has, which keeps what a window does not see, too."""
    from transformers import cache_utils as kinds

    whole: Mapping[str, Any] = {
        "DynamicSlidingWindowLayer": kinds.DynamicLayer,
        "LinearAttentionAndSlidingWindowAttentionLayer": getattr(kinds, "LinearAttentionAndFullAttentionLayer", None),
    }
    cache: Any = kinds.DynamicCache(config=model.config)
    for layer in cache.layers:
        layer.__class__ = whole.get(type(layer).__name__) or type(layer)
    return cache


def _is_whole(cache: Any, count: int) -> bool:
    paths = list(tensor_paths(cache))
    rows = [tensor_at(cache, path) for path in paths if grows(path)]
    return bool(paths) and all(tensor.ndim == 4 and tensor.shape[2] == count for tensor in rows)


def grows(path: Path) -> bool:
    """True for the path of keys or values, which hold a row for each token."""
    return path[-1] in _ROWS


def tensor_paths(holder: Any, before: Path = ()) -> Iterator[Path]:
    """The paths of the tensors of floating point in a cache, in its own order."""
    for key, value in _items(holder):
        path = (*before, key)
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() and value.numel():
                yield path
        else:
            yield from tensor_paths(value, path)


def _items(holder: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(holder, dict):
        yield from cast("dict[str | int, Any]", holder).items()
    elif isinstance(holder, list):
        yield from enumerate(cast("list[Any]", holder))
    elif type(holder).__module__.startswith("transformers.") and hasattr(holder, "__dict__"):
        yield from cast("dict[str, Any]", vars(holder)).items()


def tensor_at(cache: Any, path: Path) -> Any:
    """The tensor at ``path`` in ``cache``."""
    found = cache
    for key in path:
        found = dict(_items(found))[key]
    return found


def _put(cache: Any, path: Path, value: Any) -> None:
    holder, key = tensor_at(cache, path[:-1]), path[-1]
    if isinstance(holder, dict | list):
        cast(Any, holder)[key] = value
    else:
        setattr(holder, str(key), value)


def emptied(cache: Any, paths: Sequence[Path]) -> Any:
    """``cache`` without its tensors, as what `with_tensors` fills."""
    bare = copy.deepcopy(cache)
    for path in paths:
        _put(bare, path, None)
    return bare


def with_tensors(bare: Any, paths: Sequence[Path], tensors: Sequence[torch.Tensor]) -> Any:
    """A cache that has ``tensors`` at ``paths``."""
    made = copy.deepcopy(bare)
    for path, tensor in zip(paths, tensors, strict=True):
        _put(made, path, tensor)
    return made


@contextmanager
def growing_rotary(model: torch.nn.Module) -> Generator[None]:
    """Inside, rotary embedding that looks at the length of the text to set its frequencies does so by arithmetic.

    A program has no branch for it: the frequencies of a text of n tokens, where n is more than the model was trained
    on, are computed in each step, as transformers computes them while a text grows.
    """
    changed: list[Any] = []
    for module in model.modules():
        kind = getattr(module, "rope_type", None)
        if isinstance(kind, str) and "dynamic" in kind and hasattr(module, "inv_freq"):
            module.forward = _by_arithmetic(module)
            changed.append(module)
    try:
        yield
    finally:
        for module in changed:
            del module.forward


def new_frequencies_after(model: torch.nn.Module) -> int | None:
    """The length of a text beyond which ``model`` turns all of its tokens by other frequencies (LongRoPE), if any."""
    for module in model.modules():
        if getattr(module, "rope_type", None) == "longrope":
            return cast(int, cast(Any, module).config.rope_parameters["original_max_position_embeddings"])
    return None


class _Beside:
    """A module with some attributes in the place of its own."""

    def __init__(self, module: Any, **others: Any) -> None:
        self.__dict__.update(others, _module=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _by_arithmetic(module: Any) -> Callable[..., Any]:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    frequencies: Any = ROPE_INIT_FUNCTIONS[module.rope_type]
    forward: Any = inspect.unwrap(cast(Any, type(module)).forward)

    def turned(x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        length = position_ids.max() + 1
        inverse, scaling = frequencies(module.config, x.device, seq_len=length)
        return forward(_Beside(module, inv_freq=inverse, attention_scaling=scaling), x, position_ids)

    return turned

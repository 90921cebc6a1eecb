"""Text generation, token by token: a decoder with its cache is rewritten into a fast form and run with greedy choices.

A decoder is a model with two kinds of inputs: ids, and the keys, values and states kept from the text before. Its
results are logits, and the keys, values and states after the step. A model of transformers is converted to this form;
other files must have it already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from ..analysis.tensors import shape_of
from ..ir.binding_values import bind_sizes
from ..ir.dims import Dim, SymVar
from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..passes import CombineParallelMatmul, FoldConstant, PassError, Sequential, for_engine
from ..passes.decoders import OneText
from ..passes.quantize import QuantizeWeights
from ..run.onnxruntime_decoder import DecoderSession, Roles
from .chosen_passes import optimize_module
from .decoder_roles import roles_of
from .errors import UsageError
from .grouped_caches import with_known_heads, with_room
from .in_float32 import wholly_in_float32
from .models import open_model
from .progress import Progress, unseen

WEIGHTS: Final = {"float32": None, "int8-weights": 8, "int4-weights": 4}
"""The bits of stored weights, by the name of the precision."""
HALF: Final = "half_precision"
"""The attribute of a decoder that names its dtype before it was converted to float32."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder in the form in which it runs. ``copies`` says why each step copies its cache, None if it does not."""

    module: IRModule
    name: str
    copies: str | None = None

    @property
    def half(self) -> str | None:
        """The decoder's original dtype if that was half precision, else None; it runs in float32."""
        return self.module[self.name].attrs.get(HALF)

    def session(self, threads: int | None = None) -> DecoderSession:
        """A session of the decoder on ONNX Runtime; raises `BuildError`."""
        return DecoderSession(self.module, self.name, roles_of(self.module[self.name]), threads=threads)


def read_decoder(model: Any, texts: int = 1) -> IRModule:
    """A decoder as a program, read from a file, a folder or causal language model of transformers, or a module.

    ``texts`` is the number of texts that it reads together; each step reads equally many tokens of each.

    Half precision becomes float32, in which ONNX Runtime computes on a CPU and sessions keep their cache; the attribute
    `HALF` keeps the original dtype. Raises `UsageError`, and the errors of reading the format.
    """
    is_folder = isinstance(model, str | Path) and Path(model).is_dir()
    if is_folder or hasattr(model, "generate"):
        from ..formats.torch import require_torch

        require_torch()
        from ..formats.torch.decoder import decoder_from_torch
        from ..formats.torch.hugging_face import in_single_precision, load_folder

        whole, halves = in_single_precision(load_folder(Path(model)) if is_folder else model, in_place=is_folder)
        module = decoder_from_torch(whole, texts)
    else:
        module = model if isinstance(model, IRModule) else IRModule({"main": open_model(model).function})
        try:
            module, halves = wholly_in_float32(module)
        except RegraftError as error:
            raise UsageError(f"the decoder is in half precision and has no form in float32: {error}") from error
        module = _of_texts(with_known_heads(module), texts)
    return module.with_function("main", module["main"].with_attr(HALF, ", ".join(halves))) if halves else module


def _of_texts(module: IRModule, texts: int) -> IRModule:
    """``module``, a decoder read from a file, for ``texts`` texts; raises `UsageError` if its batch size is fixed."""
    function = module["main"]
    if texts == 1 or texts == (roles := roles_of(function)).texts:
        return module
    places = [roles.ids, *[place for place, _, _ in (*roles.caches, *roles.states)]]
    found = {shape_of(function.params[place])[0] for place in places}
    sizes: dict[SymVar, Dim] = {size: texts for size in found if isinstance(size, SymVar)}
    if len(sizes) < len(found):
        raise UsageError(
            f"the decoder reads {roles.texts} at a time, and {texts} prompts are given; export it with a dynamic "
            "batch, or give a folder of transformers"
        )
    return module.with_function("main", bind_sizes(function, sizes))


def fast_decoder(module: IRModule, *, longest: int, precision: str = "float32") -> Decoder:
    """``module``, a decoder from `read_decoder`, with room for ``longest`` tokens and weights in fewer bits.

    Raises `UsageError` for a precision other than float32, int8-weights and int4-weights. If the cache cannot be kept
    in place, each step copies it to let it grow, and ``copies`` says why. Cost: linear in program and weights.
    """
    if precision not in WEIGHTS:
        raise UsageError(f"a decoder's weights are kept in {', '.join(WEIGHTS)}, not in {precision!r}")
    roles = roles_of(module["main"])
    if roles.longest is not None:
        return Decoder(module, "main")
    bits = WEIGHTS[precision]
    after = [] if bits is None else [QuantizeWeights(bits, one_lookup=True)]
    packed = [CombineParallelMatmul(), FoldConstant(keep_named=True), *after]
    if roles.mask is not None and (roomy := with_room(module, longest)) is not None:
        return Decoder(Sequential(packed)(optimize_module(roomy).module), "main")
    done = optimize_module(_of_one_text(_with_one_length(module, roles), roles)).module
    reason: str | None = None
    try:
        if roles.caches:
            return Decoder(Sequential([for_engine("onnxruntime", longest), *after])(done), "main")
    except PassError as error:
        reason = str(error)
    return Decoder(Sequential(packed)(done), "main", reason)


def _with_one_length(module: IRModule, roles: Roles) -> IRModule:
    """``module`` with a single size for the lengths of all earlier keys and values, which a session keeps equal."""
    function = module["main"]
    shapes = [shape_of(function.params[place]) for place, _, _ in roles.caches]
    lengths = dict.fromkeys(shape[2] for shape in shapes if isinstance(shape[2], SymVar))
    first = next(iter(lengths), None)
    if first is None or len(lengths) == 1:
        return module
    return module.with_function("main", bind_sizes(function, {size: first for size in lengths if size is not first}))


def _of_one_text(module: IRModule, roles: Roles) -> IRModule:
    """``module`` without a mask and positions as inputs: a session runs one text, without padding."""
    if roles.mask is None and roles.positions is None:
        return module
    names = [param.name_hint for param in module["main"].params]
    mask, positions = (None if place is None else names[place] for place in (roles.mask, roles.positions))
    return OneText(names[roles.ids], names[roles.caches[0][0]], mask, positions)(module)


@dataclass(frozen=True, slots=True)
class Generated:
    """The tokens chosen after a prompt, and the seconds taken by the prompt and by each further step."""

    tokens: tuple[int, ...]
    prompt_seconds: float
    step_seconds: tuple[float, ...]

    @property
    def tokens_per_second(self) -> float:
        """The speed, from the median of the steps after the prompt; 0 if there were none."""
        return 1 / float(np.median(self.step_seconds)) if self.step_seconds else 0.0


def generate(session: DecoderSession, prompt: Sequence[int], count: int, said: Sequence[int] = ()) -> Generated:
    """``count`` tokens after ``prompt``; each is the token with the largest logit.

    ``said`` holds tokens that are fed after the prompt in place of the chosen ones, so that two models choose after the
    same text. Raises `UsageError` for an empty prompt and for ids that are not tokens of the model, and the errors of a
    step.
    """
    return generate_together(session, [prompt], count, [said])[0]


def generate_together(
    session: DecoderSession, prompts: Sequence[Sequence[int]], count: int, said: Sequence[Sequence[int]] = ()
) -> tuple[Generated, ...]:
    """``count`` tokens after each of ``prompts``, in steps that all texts share; the seconds are those of all texts.

    Prompts may differ in length. The first step reads as many tokens of each as the shortest prompt has. Each further
    step reads one token of each text, from its prompt or the token just chosen, so no text is padded. Other arguments
    and errors are those of `generate`.
    """
    _check_prompts(session.roles, prompts, said)
    given = [[*prompt, *after] for prompt, after in zip_longest(prompts, said, fillvalue=())]
    chosen: list[list[int]] = [[] for _ in prompts]
    read, last = min(map(len, prompts)), max(map(len, prompts))
    session.reset()
    started, seconds = perf_counter(), list[float]()
    logits = session.step_together([prompt[:read] for prompt in prompts])
    while True:
        for prompt, own, best in zip(prompts, chosen, logits[:, -1].argmax(axis=-1), strict=True):
            if len(prompt) <= read and len(own) < count:
                own.append(int(best))
        if read >= last:
            seconds.append(perf_counter() - started)
            started = perf_counter()
        if all(len(own) == count for own in chosen):
            break
        after = [text[read] if read < len(text) else own[-1] for text, own in zip(given, chosen, strict=True)]
        logits = session.step_together([[one] for one in after])
        read += 1
    return tuple(Generated(tuple(own), seconds[0], tuple(seconds[1:])) for own in chosen)


def _check_prompts(roles: Roles, prompts: Sequence[Sequence[int]], said: Sequence[Sequence[int]] = ()) -> None:
    """Raise `UsageError` if there are no prompts or empty ones, if their number differs from that in ``roles``, or if
    ids are not tokens of the model.
    """
    if not prompts or not all(prompts):
        raise UsageError("the prompt is empty; give at least one id")
    if any(np.ndim(one) for text in prompts for one in text):
        raise UsageError("a prompt is one text, and several are given; give them to generate_together")
    if len(prompts) != roles.texts:
        raise UsageError(f"the decoder reads {roles.texts} texts together, and {len(prompts)} prompts are given")
    known, ids = roles.vocabulary, [one for text in (*prompts, *said) for one in text]
    wrong = None if known is None else next((one for one in ids if not 0 <= one < known), None)
    if known is not None and wrong is not None:
        raise UsageError(f"{wrong} is no token of the model, whose ids go from 0 to {known - 1}")


def generate_texts(
    model: Any,
    prompts: Sequence[Sequence[int]],
    count: int = 32,
    *,
    precision: str = "float32",
    compare: bool = False,
    threads: int | None = None,
    progress: Progress = unseen,
) -> tuple[tuple[Generated, ...], tuple[Generated, ...] | None, Decoder]:
    """``count`` tokens after each prompt from a decoder in its fast form, the same in float32 if ``compare``, and the
    decoder.

    The float32 decoder chooses after the same text, so that each pair of choices can be compared. Raises the errors of
    `read_decoder`, `fast_decoder` and `generate_together`.
    """
    progress("reading", 0, 4)
    module = read_decoder(model, max(len(prompts), 1))
    _check_prompts(roles_of(module["main"]), prompts)
    longest = max(map(len, prompts)) + count
    progress("rewriting", 1, 4)
    decoder = fast_decoder(module, longest=longest, precision=precision)
    progress("generating", 2, 4)
    found = generate_together(decoder.session(threads), prompts, count)
    others: tuple[Generated, ...] | None = None
    if compare:
        progress("comparing", 3, 4)
        whole = fast_decoder(module, longest=longest)
        others = generate_together(whole.session(threads), prompts, count, [one.tokens for one in found])
    return found, others, decoder

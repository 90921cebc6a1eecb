"""Text token by token: a decoder of transformers with its cache in place and its weights in 8 bits, beside PyTorch.

The model is a Llama of four layers with random weights, built from its configuration, so that nothing is downloaded;
the tokens mean nothing, but their cost is real. Pass a folder of transformers to run your own model. If
onnxruntime-genai is installed, its builder converts the same folder, too.

    python examples/generate.py [FOLDER] [--tokens N]        (needs torch and transformers)
"""

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from regraft.model.decoding import fast_decoder, generate, read_decoder

PROMPT = [11, 42, 7, 99, 5, 23, 64, 8]


def llama() -> torch.nn.Module:
    """A small Llama with the same random weights each time."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=4000,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=512,
    )
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def by_pytorch(model: Any, count: int) -> tuple[list[int], float]:
    """The tokens that PyTorch chooses with its own cache, and their number per second."""
    ids, cache, chosen = torch.tensor([PROMPT]), None, list[int]()
    with torch.no_grad():
        for _ in range(count):
            if len(chosen) == 1:
                started = perf_counter()
            found = model(input_ids=ids, past_key_values=cache, use_cache=True)
            cache = found.past_key_values
            chosen.append(int(found.logits[0, -1].argmax()))
            ids = torch.tensor([chosen[-1:]])
    return chosen, (count - 1) / (perf_counter() - started)


def by_genai(folder: Path, count: int) -> float:
    """The tokens per second of ONNX Runtime GenAI, with a model in 4 bits that its builder wrote."""
    import onnxruntime_genai as genai

    model = genai.Model(str(folder))
    settings = genai.GeneratorParams(model)
    settings.set_search_options(max_length=len(PROMPT) + count, min_length=len(PROMPT) + count)
    generator = genai.Generator(model, settings)
    generator.append_tokens(PROMPT)
    generator.generate_next_token()
    started = perf_counter()
    for _ in range(count - 1):
        generator.generate_next_token()
    return (count - 1) / (perf_counter() - started)


def genai_folder(model: Any, folder: Path) -> Path:
    """The model as the builder of ONNX Runtime GenAI writes it."""
    from onnxruntime_genai.models.builder import create_model, parse_extra_options

    model.save_pretrained(folder / "model")
    words = {"a": 0}  # the builder copies a tokenizer, which nothing here asks
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(words, unk_token="a")))
    tokenizer.save_pretrained(folder / "model")
    target = folder / "genai"
    given = "", str(folder / "model"), str(target), "int4", "cpu", str(folder / "cache")
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        logging.disable()
        create_model(*given, **parse_extra_options(*given, []))
    return target


def main() -> None:
    """Run all of them, and compare their choices."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--tokens", type=int, default=24)
    given = parser.parse_args()
    count = given.tokens
    torch.set_num_threads(1)
    model = llama() if given.folder is None else transformers.AutoModelForCausalLM.from_pretrained(given.folder).eval()
    chosen, speed = by_pytorch(model, count)
    print(f"{'PyTorch, float32':26}{speed:8.1f} tokens a second")
    module = read_decoder(model)
    for precision in ("float32", "int8-weights", "int4-weights"):
        decoder = fast_decoder(module, longest=len(PROMPT) + count, precision=precision)
        found = generate(decoder.session(threads=1), PROMPT, count, said=chosen)
        same = sum(a == b for a, b in zip(found.tokens, chosen, strict=True))
        told = f"{found.tokens_per_second:8.1f} tokens a second, {same} of {count} choices are PyTorch's"
        print(f"{'regraft, ' + precision:26}{told}")
        if decoder.copies is not None:
            print(f"  its cache is copied in each step: {decoder.copies}")
    if find_spec("onnxruntime_genai") is not None:
        with tempfile.TemporaryDirectory() as text:
            beside(lambda: by_genai(genai_folder(model, Path(text)), count))


def beside(measured: Callable[[], float]) -> None:
    """Show the speed of ONNX Runtime GenAI, or the reason why there is none: its builder does not take all models."""
    try:
        print(f"{'ONNX Runtime GenAI, int4':26}{measured():8.1f} tokens a second")
    except Exception as error:
        print(f"ONNX Runtime GenAI: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()

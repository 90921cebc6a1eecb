"""One step of a decoder after a cache of 512 tokens, for ``python -m bench speed``: as exported, and in fewer bits.

The plain export has a cache of this length as inputs and results. Our cache has room for the longest text, and a step
writes into it. The file of ONNX Runtime's quantizer is the plain export with its weights in blocks.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.speed_variants import Ready, Variant

PAST: Final = 512
LONGEST: Final = 520
DECODERS: Final = ("Qwen2 0.5B one step",)


def qwen2() -> Any:
    """Qwen2 0.5B with random weights of a fixed seed."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=151936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
    )
    return AutoModelForCausalLM.from_config(config).eval()


def exported(model: Any, path: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """The plain export of one step, its inputs, and the logits of PyTorch."""
    import torch

    from regraft.formats.torch.decoder import step_of

    step, arguments = step_of(model, PAST)
    torch.manual_seed(1)
    given = [torch.randint(0, 1000, (1, 1)), *(torch.randn_like(one) for one in arguments[1:])]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(step, tuple(given), str(path), dynamo=True, verbose=False)
        logits = step(*given)[0].numpy()
    return [tensor.numpy() for tensor in given], logits


def ours(module: Any, precision: str) -> Callable[[Path, Sequence[np.ndarray]], Ready]:
    """This project's form of the decoder; the cache is filled once, and each run is the step after it."""

    def make(folder: Path, arrays: Sequence[np.ndarray]) -> Ready:
        from regraft import to_onnx
        from regraft.model.decoding import fast_decoder

        decoder = fast_decoder(module, longest=LONGEST, precision=precision)
        path = folder / f"decoder-{precision}.onnx"
        to_onnx(decoder.module, path)
        session = decoder.session(threads=1)
        ids, *cache = arrays
        rooms = [np.zeros((*one.shape[:2], LONGEST, one.shape[3]), np.float32) for one in cache]
        inputs = folder / f"decoder-{precision}.npz"
        np.savez(inputs, ids, *rooms, np.asarray(PAST + 1, np.int32))
        session.fill(cache, PAST)

        def run(_: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            session.length = PAST
            return [session.step([int(ids[0, 0])])[None]]

        return Ready(run, path, "onnxruntime", inputs=inputs)

    return make


def in_blocks(source: Path, bits: int) -> Callable[[Path, Sequence[np.ndarray]], Ready]:
    """The plain export after ONNX Runtime's quantizer."""

    def make(folder: Path, _: Sequence[np.ndarray]) -> Ready:
        import onnx
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        from bench.speed_variants import open_file

        quantizer = MatMulNBitsQuantizer(
            onnx.load(source), bits=bits, block_size=32, is_symmetric=True, accuracy_level=4
        )
        quantizer.process()
        path = folder / f"ort-{bits}.onnx"
        quantizer.model.save_model_to_file(str(path), use_external_data_format=True)
        return Ready(open_file(path, "onnxruntime", ""), path, "onnxruntime")

    return make


def by_genai(model: Any, precision: str) -> Callable[[Path, Sequence[np.ndarray]], Ready]:
    """The file that the builder of ONNX Runtime GenAI writes, with a cache that a step writes into."""

    def make(folder: Path, arrays: Sequence[np.ndarray]) -> Ready:
        source, output = folder / "transformers", folder / f"genai-{precision}"
        model.save_pretrained(source)
        options = ["-i", source, "-o", output, "-p", precision, "-e", "cpu", "-c", folder / "genai-cache"]
        program = [sys.executable, "-m", "onnxruntime_genai.models.builder", *map(str, options)]
        subprocess.run(program, capture_output=True, check=True)
        return _with_bound_cache(output / "model.onnx", folder, arrays)

    return make


def _with_bound_cache(path: Path, folder: Path, arrays: Sequence[np.ndarray]) -> Ready:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options)
    ids, *cache = arrays
    mask = np.ones((1, PAST + 1), np.int64)
    feeds = {"input_ids": ids, "attention_mask": mask}
    # Its inputs are all keys, then all values; ours a key and a value for each layer.
    for place, tensor in enumerate(cache):
        kind = "key" if place % 2 == 0 else "value"
        room = np.zeros((*tensor.shape[:2], LONGEST, tensor.shape[3]), np.float32)
        room[:, :, :PAST] = tensor
        feeds[f"past_key_values.{place // 2}.{kind}"] = room
    binding = session.io_binding()
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()}
    for port in session.get_inputs():
        binding.bind_ortvalue_input(port.name, values[port.name])
    for port in session.get_outputs():
        if port.name == "logits":
            binding.bind_output("logits", "cpu")
        else:
            binding.bind_ortvalue_output(port.name, values[port.name.replace("present", "past_key_values")])
    inputs = folder / "genai.npz"
    np.savez(inputs, *[feeds[port.name] for port in session.get_inputs()])

    def run(_: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        session.run_with_iobinding(binding)
        return [binding.get_outputs()[0].numpy()]

    return Ready(run, path, "onnxruntime", inputs=inputs)


def eager(model: Any) -> Callable[[Path, Sequence[np.ndarray]], Ready]:
    """PyTorch itself."""

    def make(_folder: Path, _arrays: Sequence[np.ndarray]) -> Ready:
        import torch

        from regraft.formats.torch.decoder import step_of

        step, _ = step_of(model, PAST)

        def run(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            with torch.no_grad():
                return [step(*map(torch.from_numpy, arrays))[0].numpy()]

        return Ready(run)

    return make


def variants(model: Any, source: Path, folder: Path, arrays: Sequence[np.ndarray]) -> list[Variant]:
    """All variants, the plain export first."""
    from bench.speed_variants import open_file
    from regraft.formats.torch.decoder import decoder_from_torch

    module = decoder_from_torch(model)
    made: list[tuple[str, bool, Callable[[Path, Sequence[np.ndarray]], Ready]]] = [
        (
            "ONNX Runtime, as exported",
            False,
            lambda *_: Ready(open_file(source, "onnxruntime", ""), source, "onnxruntime"),
        ),
        ("regraft, 4-bit weights", True, ours(module, "int4-weights")),
        ("ONNX Runtime GenAI builder, 4 bits", False, by_genai(model, "int4")),
        ("regraft, 8-bit weights", True, ours(module, "int8-weights")),
        ("ONNX Runtime MatMulNBits, 4 bits", False, in_blocks(source, 4)),
        ("ONNX Runtime MatMulNBits, 8 bits", False, in_blocks(source, 8)),
        ("regraft, float32", True, ours(module, "float32")),
        ("ONNX Runtime GenAI builder, float32", False, by_genai(model, "fp32")),
        ("PyTorch float32", False, eager(model)),
    ]
    return [Variant(name, own, lambda _, make=make: make(folder, arrays)) for name, own, make in made]

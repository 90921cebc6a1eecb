"""A folder as transformers writes it is a model: opened, optimized, verified, and refused where it could run code."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file

import regraft as rx
from regraft.formats.quiet import quiet
from regraft.formats.torch import hugging_face
from regraft.formats.torch.packed_weights import packed_method, unpacked_weights
from regraft.ir import MissingDependencyError
from regraft.ir.types import type_symvars
from regraft.model import UsageError, open_model

SMALL: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24
}  # fmt: skip
MODELS = {
    "text": lambda: transformers.BertForSequenceClassification(
        transformers.BertConfig(vocab_size=40, max_position_embeddings=32, **SMALL)
    ),
    "decoder": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=40, num_key_value_heads=1, max_position_embeddings=32, **SMALL)
    ),
    "encoder and decoder": lambda: transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=40, d_model=16, d_ff=24, num_layers=1, num_heads=2, d_kv=8)
    ),
    "image": lambda: transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=16, patch_size=8, **SMALL)
    ),
    "text and image": lambda: transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config={"vocab_size": 40, "max_position_embeddings": 32, "eos_token_id": 2, **SMALL},
            vision_config={"image_size": 16, "patch_size": 8, **SMALL},
            projection_dim=8,
        )
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    MODELS["text"]().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("kind", MODELS)
def test_a_folder_is_optimized_and_computes_what_the_model_computes(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    MODELS[kind]().save_pretrained(tmp_path / "model")
    rx.optimize(tmp_path / "model", output=tmp_path / "out.onnx", verify=True)
    assert (tmp_path / "out.onnx").is_file()


def test_batch_and_length_of_a_text_stay_dynamic_up_to_its_positions(folder: Path) -> None:
    params = open_model(folder).function.params
    assert {var.name for param in params for var in type_symvars(param.ty)} == {"batch", "length"}


@pytest.mark.parametrize(("kind", "most"), [("Bert", 32), ("Roberta", 30), ("MPNet", 30)])
def test_a_row_for_padding_is_no_position(kind: str, most: int) -> None:
    config = getattr(transformers, f"{kind}Config")(vocab_size=40, max_position_embeddings=32, **SMALL)
    inputs = hugging_face.inputs_of(getattr(transformers, f"{kind}Model")(config))
    assert inputs.dynamic["input_ids"][1].max == most


def test_a_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is a folder without a config\.json; give the model's file in it"):
        open_model(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", r"config\.json is damaged"),
        ("[1]", "it holds no table of settings"),
        ("{}", "names no class under"),
        ('{"architectures": ["os.system"]}', r"names the class 'os\.system', which transformers does not have"),
        ('{"architectures": [["BertModel"]]}', "names the class"),
    ],
)
def test_a_configuration_that_names_no_model_is_refused(folder: Path, config: str, message: str) -> None:
    (folder / "config.json").write_text(config, encoding="utf-8")
    with pytest.raises(rx.convert.ConvertError, match=message):
        open_model(folder)


def test_pickled_weights_are_not_read(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(rx.convert.ConvertError, match="no weights in safetensors; pickled weights can run code"):
        open_model(folder)


def test_damaged_weights_are_one_message(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(rx.convert.ConvertError, match="transformers cannot load it"):
        open_model(folder)


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_weights_of_another_shape_are_named(folder: Path) -> None:
    change_weights(folder, lambda weights: weights.update({"classifier.bias": torch.zeros(3)}))
    message = r"by its config.json: classifier.bias is \(3,\) and should be \(2,\)"
    with pytest.raises(rx.convert.ConvertError, match=message):
        open_model(folder)


def test_weights_that_are_missing_are_said_to_be_random(folder: Path) -> None:
    change_weights(folder, lambda weights: (weights.pop("classifier.bias"), weights.pop("classifier.weight")))
    message = "lacks weights of a BertForSequenceClassification, .* at random: classifier.bias, and 1 more"
    with pytest.warns(hugging_face.MissingWeightsWarning, match=message):
        open_model(folder)


def test_code_in_a_folder_is_not_run(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["auto_map"] = {"AutoModel": "evil.Model"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "evil.py").write_text("raise SystemExit('run')", encoding="utf-8")
    assert open_model(folder).function.params


def test_without_transformers_the_message_names_the_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hugging_face, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="pip install transformers"):
        open_model(folder)


def test_a_package_that_is_imported_as_a_folder_is_read_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with quiet("first_imported_here"):
        logging.getLogger("first_imported_here").warning("no kernel was found")
    assert not caplog.records
    logging.getLogger("first_imported_here").warning("something else")
    assert len(caplog.records) == 1


def _bits(codes: np.ndarray, order: Sequence[int] = range(8)) -> torch.Tensor:
    """Columns of codes of 4 bits, eight of them to an int32: the first of ``order`` in the lowest bits."""
    parts = [codes[:, place::8].astype(np.uint32) << np.uint32(4 * k) for k, place in enumerate(order)]
    return torch.from_numpy(np.bitwise_or.reduce(parts).astype(np.int32))


def _packed(method: str, inputs: int, outputs: int) -> tuple[dict[str, torch.Tensor], np.ndarray]:
    """A layer as GPTQ (rows in any order of groups) or AWQ packs it, and its weight (outputs, inputs)."""
    random = np.random.default_rng(inputs * outputs)
    group = random.permutation(np.repeat(np.arange(inputs // 8), 8)) if method == "gptq" else np.arange(inputs) // 8
    codes, zeros = (random.integers(1, 16, (rows, outputs)) for rows in (inputs, inputs // 8))
    scales = random.uniform(0.01, 0.1, zeros.shape).astype(np.float16)
    weight = ((codes - zeros[group]).astype(np.float32) * scales[group]).astype(np.float16).T
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    if method == "gptq":
        parts = {"qweight": _bits(codes.T).T.contiguous(), "qzeros": _bits(zeros - 1), "g_idx": torch.from_numpy(group)}
    else:
        parts = {"qweight": _bits(codes, order), "qzeros": _bits(zeros, order)}
    return {**parts, "scales": torch.from_numpy(scales)}, weight


@pytest.mark.parametrize(
    ("method", "settings"), [("gptq", {"group_size": 8, "desc_act": True}), ("awq", {"version": "gemm"})]
)
def test_weights_that_gptq_or_awq_packed_are_unpacked(method: str, settings: dict[str, Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = MODELS["decoder"]().half()
    stored, plain = dict[str, torch.Tensor](), dict(model.state_dict())
    for name, weight in model.state_dict().items():
        if name.endswith("proj.weight"):
            parts, unpacked = _packed(method, weight.shape[1], weight.shape[0])
            stored |= {name.removesuffix("weight") + part: tensor for part, tensor in parts.items()}
            plain[name] = torch.from_numpy(unpacked)
        else:
            stored[name] = weight
    model.config.quantization_config = {"quant_method": method, "bits": 4, **settings}
    model.config.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["LlamaForCausalLM"]}))
    save_file(stored, tmp_path / "model.safetensors", {"format": "pt"})
    found = hugging_face.load_folder(tmp_path)
    assert found.dtype == torch.float16
    for name, tensor in found.state_dict().items():
        torch.testing.assert_close(tensor, plain[name], rtol=0, atol=0, msg=name)


def _in_a_row(codes: np.ndarray, bits: int) -> torch.Tensor:
    """Rows of unsigned numbers of ``bits`` bits as one whole number each, in int32, as compressed-tensors does."""
    words = -(-codes.shape[1] * bits // 32)
    rows = [sum(int(code) << (place * bits) for place, code in enumerate(row)) for row in codes]
    return torch.from_numpy(np.array([list(row.to_bytes(words * 4, "little")) for row in rows], np.uint8)).view(
        torch.int32
    )


def _compressed(kind: str, rows: int, columns: int) -> tuple[dict[str, torch.Tensor], np.ndarray]:
    """A layer in a form of compressed-tensors, and its weight (rows, columns)."""
    random = np.random.default_rng(rows * columns)
    if kind == "float-quantized":
        weight = torch.from_numpy(random.standard_normal((rows, columns)).astype(np.float32)).to(torch.float8_e4m3fn)
        scale = random.uniform(0.01, 0.1, (rows, 1)).astype(np.float32)
        return {"weight": weight, "weight_scale": torch.from_numpy(scale)}, weight.float().numpy() * scale
    bits, size = {"int-quantized": (8, columns), "4": (4, 8), "3": (3, columns)}[kind]
    half, groups = 1 << (bits - 1), columns // size
    codes, zeros = (random.integers(-half, half, (rows, count)) for count in (columns, groups))
    scale = random.uniform(0.01, 0.1, (rows, groups)).astype(np.float32)
    weight = (codes - np.repeat(zeros, size, 1)).astype(np.float32) * np.repeat(scale, size, 1)
    parts = {"weight_scale": torch.from_numpy(scale), "input_scale": torch.ones(1)}
    if kind == "int-quantized":
        stored = {"weight": torch.from_numpy(codes.astype(np.int8)), "weight_zero_point": torch.from_numpy(zeros)}
        return {**parts, **stored}, weight
    packed = {"weight_packed": _in_a_row(codes + half, bits), "weight_zero_point": _in_a_row((zeros + half).T, bits).T}
    return {**parts, **packed, "weight_shape": torch.tensor([rows, columns])}, weight


@pytest.mark.parametrize("kind", ["4", "3", "int-quantized", "float-quantized"])
def test_weights_of_compressed_tensors_are_unpacked(kind: str, tmp_path: Path) -> None:
    stored, wanted = dict[str, torch.Tensor](), dict[str, np.ndarray]()
    for name, (rows, columns) in {"a.first": (12, 24), "b": (5, 40)}.items():
        parts, wanted[f"{name}.weight"] = _compressed(kind, rows, columns)
        stored |= {f"{name}.{part}": tensor.contiguous() for part, tensor in parts.items()}
    stored["norm.weight"] = torch.ones(3)
    save_file(stored, tmp_path / "model.safetensors")
    bits = int(kind) if kind.isdigit() else 8
    form = "pack-quantized" if kind.isdigit() else kind
    groups = {"group_0": {"weights": {"num_bits": bits}}}
    config = {"quantization_config": {"quant_method": "compressed-tensors", "format": form, "config_groups": groups}}
    assert packed_method(config) == "compressed-tensors"
    found = unpacked_weights(tmp_path, config)
    assert found.keys() == {*wanted, "norm.weight"}
    for name, weight in wanted.items():
        np.testing.assert_array_equal(found[name].numpy(), weight)
    with pytest.raises(rx.formats.ConvertError, match="in the form 'nvfp4-pack-quantized' are not read"):
        packed_method({"quantization_config": {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}})


def test_a_damaged_file_of_packed_weights_is_told_of(folder: Path) -> None:
    """It was said to be a defect of regraft."""
    config = json.loads((folder / "config.json").read_text())
    settings = {"quant_method": "awq", "bits": 4, "version": "gemm"}
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))
    (folder / "model.safetensors").write_bytes(b"x")
    with pytest.raises(rx.formats.ConvertError, match=r"model\.safetensors is damaged: "):
        open_model(folder)


def test_a_form_of_packed_weights_that_is_not_read_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    settings = {"quant_method": "awq", "bits": 4, "version": "gemv"}
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))
    with pytest.raises(rx.formats.ConvertError, match=r"awq packed in the form 'gemv' are not read.*'gemm' are"):
        open_model(folder)

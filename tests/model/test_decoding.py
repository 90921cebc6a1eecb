"""Text by a decoder, token by token: the choices of PyTorch, with the cache in place, and a reason for what cannot."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Sequence
from operator import eq
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import onnx
import torch
import transformers

import regraft as rx
from regraft.analysis.cost import constant_bytes
from regraft.convert import ConvertError
from regraft.formats.torch.decoder import step_of
from regraft.ir import BlockBuilder, IRModule, TensorType, Var
from regraft.model import UsageError
from regraft.model.decoding import (
    Decoder,
    fast_decoder,
    generate,
    generate_texts,
    generate_together,
    read_decoder,
    roles_of,
)
from regraft.passes.decoders import TOTAL
from regraft.run import ExecutionError
from regraft.transform import PassError, for_engine, op_counts
from tests.cli.harness import invoke

PROMPT, COUNT = [3, 17, 40, 8], 10
SIZES: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 96,
    "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1,
}  # fmt: skip
MODELS: dict[str, Any] = {
    "Llama, groups of heads": lambda: transformers.LlamaConfig(**SIZES, num_key_value_heads=2),
    "Mistral, a window": lambda: transformers.MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=4),
    "Gemma 2, capped scores and a window": lambda: transformers.Gemma2Config(
        **SIZES,
        num_key_value_heads=2,
        head_dim=16,
        attn_logit_softcapping=2.0,
        sliding_window=4,
        tie_word_embeddings=False,
    ),
    "GPT-OSS, a sink for each head and a window": lambda: transformers.GptOssConfig(
        **SIZES,
        num_key_value_heads=2,
        head_dim=16,
        sliding_window=4,
        num_local_experts=2,
        num_experts_per_tok=1,
        tie_word_embeddings=False,
    ),
    "XGLM, heads as the batch of products": lambda: transformers.XGLMConfig(
        vocab_size=64,
        d_model=64,
        ffn_dim=96,
        num_layers=1,
        attention_heads=4,
        max_position_embeddings=32,
        tie_word_embeddings=False,
        scale_embedding=False,
    ),
    "DeepSeek-V3, keys and values of one narrow row": lambda: transformers.DeepseekV3Config(
        **SIZES,
        num_key_value_heads=4,
        q_lora_rank=24,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=16,
        v_head_dim=24,
        first_k_dense_replace=1,
    ),
    "JetMoe, heads that are repeated one after the other, and experts": lambda: transformers.JetMoeConfig(
        vocab_size=64,
        hidden_size=64,
        num_hidden_layers=1,
        intermediate_size=96,
        num_key_value_heads=2,
        kv_channels=16,
        num_local_experts=4,
        num_experts_per_tok=2,
    ),
    "DiffLlama, keys that weight the values of two heads": lambda: transformers.DiffLlamaConfig(
        **SIZES, num_key_value_heads=4
    ),
    "GPT-2, places from a table": lambda: transformers.GPT2Config(
        vocab_size=64, n_embd=64, n_layer=1, n_head=4, n_positions=32
    ),
    "OPT, places counted from a mask of ones": lambda: transformers.OPTConfig(
        **{key: size for key, size in SIZES.items() if key != "intermediate_size"}, ffn_dim=96, word_embed_proj_dim=64
    ),
    "Bloom, slopes": lambda: transformers.BloomConfig(vocab_size=64, hidden_size=64, n_layer=1, n_head=4),
    "MPT, slopes of as many places as a table has": lambda: transformers.MptConfig(
        vocab_size=64, d_model=64, n_layers=1, n_heads=4, max_seq_len=32, expansion_ratio=2
    ),
    "GPT-J, pairs side by side": lambda: transformers.GPTJConfig(
        vocab_size=64, n_embd=64, n_layer=1, n_head=2, n_positions=32, rotary_dim=16
    ),
    "GPT-Neo, a window in a table": lambda: transformers.GPTNeoConfig(
        vocab_size=64,
        hidden_size=64,
        num_layers=1,
        num_heads=4,
        attention_types=[[["local"], 1]],
        window_size=4,
        max_position_embeddings=32,
    ),
}


def made(name: str) -> Any:
    torch.manual_seed(0)
    return with_varied_weights(transformers.AutoModelForCausalLM.from_config(MODELS[name]()).eval())


def with_varied_weights(model: Any) -> Any:
    """``model`` with weights by which choices are not all one token."""
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim > 1:
                weights.normal_(std=0.5)
    return model


STATES: dict[str, Any] = {
    "Mamba, without attention": lambda: transformers.MambaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=1, state_size=4, conv_kernel=3, time_step_rank=4
    ),
    "LFM2, a convolution and attention": lambda: transformers.Lfm2Config(
        **{**SIZES, "num_hidden_layers": 2}, num_key_value_heads=2, layer_types=["conv", "full_attention"]
    ),
    "MiniMax, linear attention before attention": lambda: transformers.MiniMaxConfig(
        **{**SIZES, "num_hidden_layers": 2},
        num_key_value_heads=2,
        head_dim=16,
        num_local_experts=2,
        layer_types=["linear_attention", "full_attention"],
        block_size=4,
    ),
    "RWKV, one list of states, of which one begins with a very low number": lambda: transformers.RwkvConfig(
        vocab_size=64, hidden_size=32, attention_hidden_size=32, num_hidden_layers=2
    ),
    "RecurrentGemma, states in attributes of modules beside a cache": lambda: transformers.RecurrentGemmaConfig(
        **{key: size for key, size in SIZES.items() if key not in ("num_hidden_layers", "max_position_embeddings")},
        num_hidden_layers=3,
        num_key_value_heads=1,
        lru_width=64,
        attention_window_size=8,
    ),
    "Lara, linear attention before attention with a window": lambda: transformers.LaraMiniConfig(
        **{**SIZES, "num_hidden_layers": 2},
        num_key_value_heads=2,
        head_dim=16,
        sliding_window=4,
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        num_experts=2,
        num_experts_per_tok=1,
        layer_types=["linear_attention", "sliding_attention"],
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_states_of_layers_are_kept_beside_keys_and_values(name: str) -> None:
    torch.manual_seed(0)
    model = with_varied_weights(transformers.AutoModelForCausalLM.from_config(STATES[name]()).eval())
    module, told = read_decoder(model), greedy(model)
    assert len(set(told)) > 2
    roles = roles_of(module["main"])
    assert len(roles.states) > 0
    assert roles.at_once == 1
    for precision, least in (("float32", COUNT), ("int8-weights", COUNT - 3)):
        decoder = fast_decoder(module, longest=len(PROMPT) + COUNT, precision=precision)
        session = decoder.session(threads=1)
        for _ in range(2):  # the second text begins anew
            assert sum(map(eq, generate(session, PROMPT, COUNT, said=told).tokens, told)) >= least
        assert decoder.copies is None
        assert session.roles.longest == (len(PROMPT) + COUNT if roles.caches else None)
        assert op_counts(decoder.module)["com.microsoft.GroupQueryAttention"] == len(roles.caches) // 2


class _Remembering(transformers.MambaForCausalLM):
    seen = 0

    def forward(self, input_ids: Any, cache_params: Any = None, use_cache: Any = None) -> Any:
        found: Any = super().forward(input_ids, cache_params=cache_params, use_cache=use_cache)
        self.seen += 1
        return transformers.utils.ModelOutput(logits=found.logits + self.seen, cache_params=found.cache_params)


class _Talking(transformers.MambaForCausalLM):
    logger = logging.getLogger("transformers.modeling_utils")

    def forward(self, input_ids: Any, cache_params: Any = None, use_cache: Any = None) -> Any:
        self.logger.error("install a kernel for the fast form")
        return super().forward(input_ids, cache_params=cache_params, use_cache=use_cache)


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


def test_what_transformers_says_of_its_own_kernels_is_not_passed_on() -> None:
    model, records = _Talking(STATES["Mamba, without attention"]()).eval(), _Records()
    _Talking.logger.addHandler(records)
    try:
        read_decoder(model)
        assert records.found == []
        model(torch.ones(1, 1, dtype=torch.int64))
        assert records.found == ["install a kernel for the fast form"]
    finally:
        _Talking.logger.removeHandler(records)


def test_a_model_that_keeps_its_state_somewhere_else_than_in_a_cache_is_refused() -> None:
    with pytest.raises(ConvertError, match="_Remembering keeps more of a text than its cache, or has a state that"):
        read_decoder(_Remembering(STATES["Mamba, without attention"]()).eval())


def test_a_model_whose_state_grows_with_the_text_is_refused() -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    parts = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4}
    experts = {"n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8, "first_k_dense_replace": 1}
    index = {"index_n_heads": 1, "index_head_dim": 8, "index_topk": 16, "n_group": 1, "topk_group": 1}
    config = transformers.GlmMoeDsaConfig(
        vocab_size=32, num_key_value_heads=2, bos_token_id=1, eos_token_id=2, **sizes, **parts, **experts, **index
    )
    with pytest.raises(ConvertError, match=r"GlmMoeDsaForCausalLM keeps .* or has a state that grows with the text"):
        read_decoder(transformers.AutoModelForCausalLM.from_config(config).eval())


def test_what_modules_hold_is_as_it_was_after_a_model_was_read() -> None:
    name = "RecurrentGemma, states in attributes of modules beside a cache"
    model = transformers.AutoModelForCausalLM.from_config(STATES[name]()).eval()
    step_of(model)
    recurrent = [module for module in model.modules() if hasattr(module, "conv1d_state")]
    assert len(recurrent) == 2
    assert all(module.conv1d_state is None and module.rg_lru.recurrent_states is None for module in recurrent)


def test_rwkv_begins_with_a_low_exponent_so_that_low_keys_are_no_sum_of_zeros() -> None:
    torch.manual_seed(0)
    model = with_varied_weights(
        transformers.RwkvForCausalLM(transformers.RwkvConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2)).eval()
    )
    with torch.no_grad():
        for block in model.rwkv.blocks:
            block.attention.time_first.fill_(-200.0)
    told = greedy(model)
    decoder = fast_decoder(read_decoder(model), longest=len(PROMPT) + COUNT)
    assert list(generate(decoder.session(threads=1), PROMPT, COUNT, said=told).tokens) == told


def test_a_model_without_an_argument_for_its_cache_is_refused() -> None:
    config = transformers.OpenAIGPTConfig(vocab_size=64, n_embd=32, n_layer=1, n_head=2, n_positions=16)
    with pytest.raises(ConvertError, match=r"takes no cache \(cache, past_key_values, cache_params, state\), so it"):
        read_decoder(transformers.AutoModelForCausalLM.from_config(config).eval())


def test_frequencies_that_follow_the_length_of_the_text_are_those_of_transformers_beyond_its_training() -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    sizes = {**SIZES, "max_position_embeddings": 8}
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**sizes, num_key_value_heads=2, rope_parameters=rope)
    model = with_varied_weights(transformers.AutoModelForCausalLM.from_config(config).eval())
    module = read_decoder(model)
    told, ids, cache = list[int](), torch.tensor([PROMPT]), None
    session = fast_decoder(module, longest=len(PROMPT) + COUNT).session(threads=1)
    for _ in range(COUNT):
        with torch.no_grad():
            found = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache, logits = found.past_key_values, found.logits[0].numpy()
        np.testing.assert_allclose(session.step(ids[0].tolist()), logits, rtol=0, atol=1e-4 * np.abs(logits).max())
        told.append(int(logits[-1].argmax()))
        ids = torch.tensor([told[-1:]])
    assert len(set(told)) > 2
    assert isinstance(model.model.rotary_emb.max_seq_len_cached, torch.Tensor), "the text is longer than 8 tokens"


def test_a_text_is_read_again_where_a_model_turns_long_texts_by_other_frequencies(tmp_path: Path) -> None:
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 8}
    rope |= {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    sizes = {**SIZES, "original_max_position_embeddings": 8}
    config = transformers.Phi3Config(**sizes, num_key_value_heads=2, rope_parameters=rope)
    torch.manual_seed(0)
    model = with_varied_weights(transformers.AutoModelForCausalLM.from_config(config).eval())
    module = read_decoder(model)
    rx.to_onnx(module, tmp_path / "growing.onnx")
    rx.to_onnx(fast_decoder(module, longest=len(PROMPT) + COUNT).module, tmp_path / "decoder.onnx")
    for source in (module, tmp_path / "growing.onnx", tmp_path / "decoder.onnx"):
        (found,), _, decoder = generate_texts(source, [PROMPT], COUNT, threads=1)
        assert list(found.tokens) == greedy(model)
        assert len(set(found.tokens)) > 2
        assert decoder.copies is None
        assert roles_of(decoder.module["main"]).read_again_after == 8


class _Masked(torch.nn.Module):
    """A step that also takes a mask of all tokens and the places of the new ones, as many files do."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, *past: torch.Tensor) -> Any:
        cache = transformers.cache_utils.DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        options: dict[str, Any] = {"attention_mask": mask, "position_ids": positions, "past_key_values": cache}
        found = self.model(input_ids=ids, use_cache=True, **options)
        return (found.logits, *[one for layer in found.past_key_values.layers for one in (layer.keys, layer.values)])


def _with_a_mask(model: Any) -> IRModule:
    from regraft.formats.torch.decoder import step_of

    _, (ids, *past) = step_of(model)
    before, count = past[0].shape[2], ids.shape[1]
    given = ids, torch.ones(1, before + count, dtype=torch.int64), torch.arange(before, before + count)[None]
    axis: Any = torch.export.Dim.DYNAMIC
    sizes = (*[{1: axis} for _ in given], tuple({2: axis} for _ in past))
    return rx.from_torch(torch.export.export(_Masked(model).eval(), (*given, *past), dynamic_shapes=sizes))


@pytest.fixture(scope="module")
def llama() -> tuple[Any, IRModule]:
    """A model, and the program that it is read as."""
    model = made("Llama, groups of heads")
    return model, read_decoder(model)


def greedy(model: Any, prompt: Sequence[int] = PROMPT) -> list[int]:
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(COUNT):
            ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize("name", MODELS)
def test_the_choices_are_those_of_pytorch_with_the_cache_in_place(name: str) -> None:
    model = made(name)
    (found,), _, decoder = generate_texts(model, [PROMPT], COUNT, threads=1)
    assert list(found.tokens) == greedy(model)
    assert len(set(found.tokens)) > 2
    assert decoder.copies is None
    assert op_counts(decoder.module)["com.microsoft.GroupQueryAttention"] == 1
    assert decoder.module["main"].params[-1].name_hint == TOTAL
    assert found.tokens_per_second > 0


@pytest.mark.parametrize("name", ["Mistral, a window", "GPT-2, places from a table"])
def test_a_mask_and_places_as_inputs_do_not_make_the_cache_grow_by_copies(name: str) -> None:
    model = made(name)
    module = _with_a_mask(model)
    roles = roles_of(module["main"])
    assert roles.mask is not None
    assert roles.positions is not None
    (found,), _, decoder = generate_texts(module, [PROMPT], COUNT, threads=1)
    assert list(found.tokens) == greedy(model)
    assert decoder.copies is None
    named = [param.name_hint for param in decoder.module["main"].params]
    assert not {"mask", "positions"} & set(named)
    counts = op_counts(decoder.module)
    assert counts["com.microsoft.GroupQueryAttention"] == 1
    assert "relax.concat" not in counts, "no cache is joined, and places are turned inside the operator"


def test_a_cache_that_stays_where_it_is_gives_what_one_that_grows_gives(llama: tuple[Any, IRModule]) -> None:
    _, module = llama
    growing = for_engine("onnxruntime")(module)
    ways = [Decoder(growing, "main"), fast_decoder(module, longest=len(PROMPT) + COUNT)]
    assert [roles_of(one.module["main"]).longest for one in ways] == [None, len(PROMPT) + COUNT]
    first, second = (generate(one.session(1), PROMPT, COUNT).tokens for one in ways)
    assert first == second


def test_steps_that_stay_bound_leave_what_they_were_given_and_gave_before(llama: tuple[Any, IRModule]) -> None:
    session = fast_decoder(llama[1], longest=12).session(threads=1)
    text = np.array([[3, 1, 4, 1, 5, 9, 2, 6]])
    whole = session.step_together(text)[0]
    session.reset()
    parts = [session.step_together(text[:, place : place + 1])[0] for place in range(8)]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=1e-5 * np.abs(whole).max())
    assert text.tolist() == [[3, 1, 4, 1, 5, 9, 2, 6]]


PROMPTS = [PROMPT, [9, 2, 33, 21, 60, 5, 11], [50, 7, 7, 3]]


@pytest.mark.parametrize(
    "name",
    ["Llama, groups of heads", "Gemma 2, capped scores and a window", "GPT-2, places from a table", "Bloom, slopes"],
)
def test_texts_of_different_lengths_are_read_together(name: str) -> None:
    model = made(name)
    texts, _, decoder = generate_texts(model, PROMPTS, COUNT, threads=1)
    assert [list(text.tokens) for text in texts] == [greedy(model, prompt) for prompt in PROMPTS]
    assert len({text.tokens for text in texts}) == 3
    assert decoder.copies is None
    assert len(texts[0].step_seconds) == COUNT - 1


def test_states_of_several_texts_are_kept() -> None:
    torch.manual_seed(0)
    config = STATES["LFM2, a convolution and attention"]()
    model = with_varied_weights(transformers.AutoModelForCausalLM.from_config(config).eval())
    texts, _, _ = generate_texts(model, PROMPTS, COUNT, threads=1)
    assert [list(text.tokens) for text in texts] == [greedy(model, prompt) for prompt in PROMPTS]


def test_a_file_with_an_open_batch_reads_texts_together(llama: tuple[Any, IRModule], tmp_path: Path) -> None:
    file = _as_genai_writes_it(llama[0], np.float32, tmp_path / "genai.onnx")
    ids = [part for prompt in PROMPTS for part in ("--prompt-ids", ",".join(map(str, prompt)))]
    result = invoke("generate", file, *ids, "--tokens", COUNT, "--compare", "--threads", 1)
    assert result.exit_code == 0, result.output
    *chosen, speed, compared = result.stdout.splitlines()
    assert chosen == [",".join(map(str, greedy(llama[0], prompt))) for prompt in PROMPTS]
    assert "tokens a second for each of 3 texts after a prompt of 7" in speed
    assert f"{3 * COUNT} of {3 * COUNT} choices are those of float32 after the same text" in compared


def test_a_folder_is_run_from_the_command_and_held_against_float32(tmp_path: Path) -> None:
    made("Llama, groups of heads").save_pretrained(tmp_path / "model")
    ids = ",".join(map(str, PROMPT))
    arguments = ("--prompt-ids", ids, "--tokens", 4, "--precision", "int8-weights", "--compare", "--threads", 1)
    result = invoke("generate", tmp_path / "model", *arguments)
    assert result.exit_code == 0, result.output
    chosen, speed, compared = result.stdout.splitlines()[:3]
    assert len(chosen.split(",")) == 4
    assert "tokens a second after a prompt of 4" in speed
    assert "of 4 choices are those of float32 after the same text" in compared


def test_a_file_of_a_decoder_whose_cache_grows_gets_one_that_stays(llama: tuple[Any, IRModule], tmp_path: Path) -> None:
    model, module = llama
    rx.to_onnx(module, tmp_path / "growing.onnx")
    (found,), _, decoder = generate_texts(tmp_path / "growing.onnx", [PROMPT], COUNT, threads=1)
    assert list(found.tokens) == greedy(model)
    assert decoder.copies is None


def _as_genai_writes_it(model: Any, dtype: Any, path: Path) -> Path:
    """A Llama of one layer by ONNX Runtime's own operators, as the builder of its GenAI writes them."""
    layer, heads, size = model.model.layers[0], 4, 16
    places = torch.arange(32)[None]
    cosine, sine = (one[0, :, : size // 2] for one in model.model.rotary_emb(torch.zeros(1, 32, size), places))
    attention, forward = layer.self_attn, layer.mlp
    products = {
        "qkv": torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]),
        "out": attention.o_proj.weight, "gate": forward.gate_proj.weight, "up": forward.up_proj.weight,
        "down": forward.down_proj.weight, "head": model.lm_head.weight,
    }  # fmt: skip
    weights = {name: one.T for name, one in products.items()} | {"words": model.model.embed_tokens.weight}
    weights |= {"norm0": layer.input_layernorm.weight, "norm1": layer.post_attention_layernorm.weight}
    weights |= {"norm2": model.model.norm.weight, "cosine": cosine, "sine": sine}
    arrays = {name: one.detach().numpy().astype(dtype) for name, one in weights.items()}
    arrays |= {"one": np.array([1], np.int64), "axis": np.array(1, np.int64)}
    node, kind = onnx.helper.make_node, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    own: dict[str, Any] = {"domain": "com.microsoft"}
    norm: dict[str, Any] = {"epsilon": model.config.rms_norm_eps}
    turned: dict[str, Any] = {"num_heads": heads, "kv_num_heads": 2, "scale": 0.25, "do_rotary": 1}
    given = ["rows", "", "", "past_key_values.0.key", "past_key_values.0.value", "ends", "total", "cosine", "sine"]
    nodes = [
        node("ReduceSum", ["attention_mask", "one"], ["counts"], keepdims=0),
        node("Sub", ["counts", "one"], ["last"]), node("Cast", ["last"], ["ends"], to=6),
        node("Shape", ["attention_mask"], ["shape"]), node("Gather", ["shape", "axis"], ["length"]),
        node("Cast", ["length"], ["total"], to=6), node("Gather", ["words", "input_ids"], ["x"]),
        node("SimplifiedLayerNormalization", ["x", "norm0"], ["normed"], **norm),
        node("MatMul", ["normed", "qkv"], ["rows"]),
        node("GroupQueryAttention", given, ["attended", "present.0.key", "present.0.value"], **own, **turned),
        node("MatMul", ["attended", "out"], ["after"]),
        node("SkipSimplifiedLayerNormalization", ["x", "after", "norm1"], ["second", "", "", "sum"], **own, **norm),
        node("MatMul", ["second", "gate"], ["g"]), node("Sigmoid", ["g"], ["s"]), node("Mul", ["g", "s"], ["silu"]),
        node("MatMul", ["second", "up"], ["u"]), node("Mul", ["silu", "u"], ["both"]),
        node("MatMul", ["both", "down"], ["d"]),
        node("SkipSimplifiedLayerNormalization", ["sum", "d", "norm2"], ["third"], **own, **norm),
        node("MatMul", ["third", "head"], ["logits"]),
    ]  # fmt: skip
    value, names = onnx.helper.make_tensor_value_info, ("key", "value")
    past, present = (["batch", 2, length, "kv_cache_dim"] for length in ("past_length", "total_length_after"))
    inputs = [value("input_ids", 7, ["batch", "length"]), value("attention_mask", 7, ["batch", "total_length_after"])]
    inputs += [value(f"past_key_values.0.{name}", kind, past) for name in names]
    outputs = [value("logits", kind, ["batch", "length", 64])]
    outputs += [value(f"present.0.{name}", kind, present) for name in names]
    held = [onnx.numpy_helper.from_array(np.ascontiguousarray(one), name) for name, one in arrays.items()]
    graph = onnx.helper.make_graph(nodes, "decoder", inputs, outputs, held)
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_file_with_the_attention_of_onnx_runtime_gets_room_for_its_cache(
    llama: tuple[Any, IRModule], dtype: Any, tmp_path: Path
) -> None:
    rounded = copy.deepcopy(llama[0])
    if dtype is np.float16:
        rounded = rounded.half().float()
    file = _as_genai_writes_it(rounded, dtype, tmp_path / "genai.onnx")
    for precision, least in (("float32", COUNT), ("int8-weights", COUNT - 3)):
        decoder = fast_decoder(read_decoder(file), longest=len(PROMPT) + COUNT, precision=precision)
        session = decoder.session(threads=1)
        told = greedy(rounded)
        assert sum(map(eq, generate(session, PROMPT, COUNT, said=told).tokens, told)) >= least
        assert session.roles.longest == len(PROMPT) + COUNT
        assert (decoder.half, decoder.copies) == (None if dtype is np.float32 else "float16", None)
        with pytest.raises(ExecutionError, match="there is room for 14 tokens, not for 15"):
            session.step([1] * 2)


def test_a_cache_whose_length_is_read_elsewhere_too_gets_no_room(llama: tuple[Any, IRModule], tmp_path: Path) -> None:
    model = onnx.load(_as_genai_writes_it(llama[0], np.float32, tmp_path / "genai.onnx"))
    nodes = model.graph.node
    at = next(place for place, node in enumerate(nodes) if list(node.output) == ["shape"])
    # The length of all is that of before and the new ids: told by the cache, no more by the mask.
    nodes[at].input[0] = "past_key_values.0.key"
    nodes[at].attribute.append(onnx.helper.make_attribute("start", 2))
    nodes[at].attribute.append(onnx.helper.make_attribute("end", 3))
    made = onnx.helper.make_node
    nodes.insert(at + 1, made("Shape", ["input_ids"], ["new"], start=1, end=2))
    nodes.insert(at + 2, made("Add", ["shape", "new"], ["all"]))
    gather = next(node for node in nodes if list(node.output) == ["length"])
    gather.op_type = "Squeeze"
    del gather.input[:]
    gather.input.extend(["all"])
    onnx.save(model, tmp_path / "other.onnx")
    (found,), _, decoder = generate_texts(tmp_path / "other.onnx", [PROMPT], COUNT, threads=1)
    assert list(found.tokens) == greedy(llama[0])
    assert decoder.copies is not None


def test_a_decoder_that_was_written_is_read_back_and_runs(llama: tuple[Any, IRModule], tmp_path: Path) -> None:
    model, module = llama
    decoder = fast_decoder(module, longest=len(PROMPT) + COUNT)
    rx.to_onnx(decoder.module, tmp_path / "decoder.onnx")
    (found,), _, again = generate_texts(tmp_path / "decoder.onnx", [PROMPT], COUNT, threads=1)
    assert list(found.tokens) == greedy(model)
    assert again.copies is None


def test_what_cannot_be_generated_is_said(llama: tuple[Any, IRModule], tmp_path: Path) -> None:
    _, module = llama
    with pytest.raises(UsageError, match="nowhere: there is no such file or folder"):
        read_decoder(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="weights are kept in float32, int8-weights, int4-weights, not in 'int3'"):
        fast_decoder(module, longest=8, precision="int3")
    with pytest.raises(UsageError, match="the prompt is empty"):
        generate(fast_decoder(module, longest=8).session(1), [], 3)
    several: Any = [[1, 2], [3, 4]]
    with pytest.raises(UsageError, match="a prompt is one text, and several are given; give them to generate_together"):
        generate(fast_decoder(module, longest=8).session(1), several, 3)
    with pytest.raises(
        UsageError, match="the decoder reads 1 at a time, and 2 prompts are given; export it with a dynamic ba"
    ):
        generate_texts(module, several, 3)
    with pytest.raises(UsageError, match="the decoder reads 1 texts together, and 2 prompts are given"):
        generate_together(fast_decoder(module, longest=8).session(1), several, 3)
    for none in ([], [[1, 2], []]):
        with pytest.raises(UsageError, match="the prompt is empty"):
            generate_texts(made("Llama, groups of heads"), none, 3)
    with pytest.raises(ExecutionError, match="there is room for 4 tokens, not for 5"):
        fast_decoder(module, longest=4).session(1).step([1, 2, 3, 4, 5])
    with pytest.raises(PassError, match="there are no rules for the engine 'abacus'"):
        for_engine("abacus")
    result = invoke("generate", tmp_path, "--prompt-ids", "one,two")
    assert result.exit_code == 2
    assert "are no ids; give whole numbers with commas between" in result.stderr


def test_an_id_beyond_the_vocabulary_is_named(llama: tuple[Any, IRModule]) -> None:
    with pytest.raises(UsageError, match="64 is no token of the model, whose ids go from 0 to 63"):
        generate_texts(llama[1], [[3, 64, -1]], 2)
    session = fast_decoder(llama[1], longest=20).session(threads=1)
    for prompt, said in (([3, 64], []), ([3], [64])):
        with pytest.raises(UsageError, match="64 is no token of the model, whose ids go from 0 to 63"):
            generate(session, prompt, 3, said=said)


def test_a_text_beyond_the_table_of_places_is_named_with_its_tokens() -> None:
    with pytest.raises(ExecutionError, match=r"tokens 0 to 32 of the text: .*beyond the end of its table of positions"):
        generate_texts(read_decoder(made("GPT-2, places from a table")), [[1] * 33], 2, threads=1)


def test_a_step_of_one_token_reads_a_prompt_token_by_token(llama: tuple[Any, IRModule]) -> None:
    model, module = llama
    one = module.with_function("main", module["main"].bind_symbolic_vars({"count": 1}))
    (found,), _, decoder = generate_texts(one, [PROMPT], COUNT, threads=1)
    assert list(found.tokens) == greedy(model)
    assert decoder.copies is None
    two = module.with_function("main", module["main"].bind_symbolic_vars({"count": 2}))
    with pytest.raises(ExecutionError, match="takes 2 tokens in each step, and 1 are given"):
        generate_texts(two, [PROMPT], COUNT, threads=1)


def test_a_cache_of_one_length_is_refused(llama: tuple[Any, IRModule]) -> None:
    fixed = llama[1].with_function("main", llama[1]["main"].bind_symbolic_vars({"past": 5}))
    with pytest.raises(
        UsageError, match="past_0 holds 5 tokens in every run; export the decoder with a dynamic cache length"
    ):
        generate_texts(fixed, [PROMPT], COUNT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_folder_in_half_precision_generates_in_float32(dtype: torch.dtype, tmp_path: Path) -> None:
    made("Llama, groups of heads").to(dtype).save_pretrained(tmp_path / "half")
    rounded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "half", dtype=torch.float32)
    result = invoke("generate", tmp_path / "half", "--prompt-ids", ",".join(map(str, PROMPT)), "--tokens", COUNT)
    chosen, _, precision = result.stdout.splitlines()
    assert chosen == ",".join(map(str, greedy(rounded.eval())))
    assert precision == f"The model is in {str(dtype).split('.')[1]}, and was run in float32"


def _exported(model: Any, path: Path) -> Path:
    from regraft.formats.torch.decoder import step_of

    step, arguments = step_of(model)
    axis: Any = torch.export.Dim.DYNAMIC
    rows = tuple({2: axis} for _ in arguments[1:])
    torch.export.save(torch.export.export(step, arguments, dynamic_shapes=({1: axis}, rows)), path)
    return path


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("Llama, groups of heads", torch.bfloat16),
        ("Gemma 2, capped scores and a window", torch.float16),
        ("Bloom, slopes", torch.float16),
    ],
)
def test_a_decoder_in_half_precision_generates_as_in_float32(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    half = made(name).to(dtype)
    told = greedy(copy.deepcopy(half).float())
    assert len(set(told)) > 2
    file = _exported(half, tmp_path / "half.pt2")
    rx.to_onnx(rx.from_torch(torch.export.load(file)), tmp_path / "half.onnx")
    for source in (half, file, tmp_path / "half.onnx"):
        (found,), _, decoder = generate_texts(source, [PROMPT], COUNT, threads=1)
        assert list(found.tokens) == told
        assert decoder.half == str(dtype).split(".")[1]
        assert decoder.copies is None
    assert {one.dtype for one in half.parameters()} == {dtype}, "the model that was given is as it was"


def test_states_in_half_precision_are_kept_in_float32() -> None:
    torch.manual_seed(0)
    config = STATES["LFM2, a convolution and attention"]()
    half = with_varied_weights(transformers.AutoModelForCausalLM.from_config(config).eval()).to(torch.bfloat16)
    (found,), _, decoder = generate_texts(half, [PROMPT], COUNT, threads=1)
    assert list(found.tokens) == greedy(half.float())
    assert decoder.half == "bfloat16"


def test_a_table_that_is_shared_stays_one_in_float32() -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=True)
    half = transformers.LlamaForCausalLM(config).eval().to(torch.bfloat16)
    from regraft.formats.torch.decoder import decoder_from_torch

    module = decoder_from_torch(half)
    assert constant_bytes(read_decoder(module)) < 2.05 * constant_bytes(module)


def test_a_model_without_a_cache_is_no_decoder(tmp_path: Path) -> None:
    builder = BlockBuilder()
    x = Var("x", TensorType((2, 3), "int64"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(rx.op.add(x, x)))
    rx.to_onnx(builder.get(), tmp_path / "plain.onnx")
    result = invoke("generate", tmp_path / "plain.onnx", "--prompt-ids", "1,2")
    assert result.exit_code == 2
    assert "has no input of keys and values of before" in result.stderr


def test_words_and_the_last_product_share_their_table_where_the_model_ties_them() -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=True)
    module = read_decoder(transformers.LlamaForCausalLM(config).eval())
    whole, few = (fast_decoder(module, longest=8, precision=one).module for one in ("float32", "int8-weights"))
    assert constant_bytes(whole) < constant_bytes(module) * 1.05
    assert constant_bytes(few) < constant_bytes(module) * 0.33

"""Architectures of language models: encoders, decoders, and both."""

from __future__ import annotations

from typing import Any, Final

from .model import VOCABULARY, Architecture, from_transformers, text, words

_SPECIAL: Final[dict[str, Any]] = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
_COMMON: Final[dict[str, Any]] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    **_SPECIAL,
}
_GROUPED: Final[dict[str, Any]] = {**_COMMON, "num_key_value_heads": 2, "head_dim": 8}
_EXPERTS: Final[dict[str, Any]] = {**_GROUPED, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_PAIR: Final[dict[str, Any]] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
    **_SPECIAL,
}
_T5: Final[dict[str, Any]] = {
    "vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
    "decoder_start_token_id": 0, "pad_token_id": 0,
}  # fmt: skip


def _pair_of_texts() -> dict[str, Any]:
    return {**text(), "decoder_input_ids": words(2, 5)}


def _ids() -> dict[str, Any]:
    return {"input_ids": words()}


def _encoder(name: str, model: str, /, **config: Any) -> Architecture:
    return Architecture(name, from_transformers(model, {**_COMMON, **config}, text))


def _decoder(name: str, model: str, /, **config: Any) -> Architecture:
    return Architecture(name, from_transformers(model, {**_GROUPED, **config}, text))


def _pair(name: str, model: str, /, **config: Any) -> Architecture:
    return Architecture(name, from_transformers(model, {**_PAIR, **config}, _pair_of_texts))


def _other(name: str, model: str, inputs: Any = text, /, **config: Any) -> Architecture:
    return Architecture(name, from_transformers(model, config, inputs))


ENCODERS: Final = (
    _encoder("BERT", "BertModel"),
    _encoder("RoBERTa", "RobertaModel"),
    _encoder("XLM-RoBERTa", "XLMRobertaModel"),
    _encoder("ALBERT", "AlbertModel", embedding_size=16),
    _encoder("ELECTRA", "ElectraModel", embedding_size=16),
    _encoder("DeBERTa", "DebertaModel", relative_attention=True, pos_att_type=["c2p", "p2c"], pooler_hidden_size=32),
    _encoder("DeBERTa-v2", "DebertaV2Model", relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm",
             share_att_key=True, pos_att_type=["c2p", "p2c"], pooler_hidden_size=32, conv_kernel_size=3),
    _encoder("MPNet", "MPNetModel"),
    _encoder("CamemBERT", "CamembertModel"),
    _encoder("ConvBERT", "ConvBertModel", embedding_size=16, conv_kernel_size=3),
    _encoder("FNet", "FNetModel"),
    _other("Funnel", "FunnelModel", text, vocab_size=VOCABULARY, block_sizes=[1, 1], d_model=32, n_head=4, d_head=8,
           d_inner=48),
    _encoder("LayoutLM", "LayoutLMModel"),
    _encoder("Longformer", "LongformerModel", attention_window=4),
    _encoder("MobileBERT", "MobileBertModel", embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16),
    _encoder("ModernBERT", "ModernBertModel", global_attn_every_n_layers=2, local_attention=4),
    _encoder("NomicBERT", "NomicBertModel"),
    _other("Nyströmformer", "NystromformerModel", _ids, **_COMMON, num_landmarks=4, segment_means_seq_len=8,
           conv_kernel_size=3),
    _encoder("RemBERT", "RemBertModel", input_embedding_size=16),
    _encoder("RoFormer", "RoFormerModel", embedding_size=16),
    _encoder("SqueezeBERT", "SqueezeBertModel", embedding_size=32, q_groups=2, k_groups=2, v_groups=2,
             post_attention_groups=1, intermediate_groups=2, output_groups=2),
    _encoder("YOSO", "YosoModel", use_expectation=True),
    _encoder("BigBird", "BigBirdModel", attention_type="original_full"),
    _encoder("ESM", "EsmModel", position_embedding_type="rotary", mask_token_id=4),
    Architecture("DistilBERT", from_transformers(
        "DistilBertModel",
        {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48,
         "max_position_embeddings": 64}, text)),
    Architecture("XLNet", from_transformers(
        "XLNetModel", {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}, text)),
    Architecture("XLM", from_transformers(
        "XLMModel", {"vocab_size": VOCABULARY, "emb_dim": 32, "n_layers": 2, "n_heads": 4,
                     "max_position_embeddings": 64}, text)),
    Architecture("Flaubert", from_transformers(
        "FlaubertModel", {"vocab_size": VOCABULARY, "emb_dim": 32, "n_layers": 2, "n_heads": 4,
                     "max_position_embeddings": 64}, text)),
    Architecture("Perceiver", from_transformers(
        "PerceiverForMaskedLM",
        {"vocab_size": VOCABULARY, "d_model": 32, "num_latents": 6, "d_latents": 24, "num_blocks": 1,
         "num_self_attends_per_block": 2, "num_self_attention_heads": 4, "num_cross_attention_heads": 4,
         "qk_channels": 16, "v_channels": 24, "max_position_embeddings": 8}, text)),
    Architecture("CANINE", from_transformers(
        "CanineModel", {**_COMMON, "downsampling_rate": 2, "upsampling_kernel_size": 2, "num_hash_functions": 2,
                        "num_hash_buckets": 32, "local_transformer_stride": 4}, text)),
)  # fmt: skip

DECODERS: Final = (
    Architecture("GPT-1", from_transformers(
        "OpenAIGPTModel", {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
        text)),
    Architecture("GPT-2", from_transformers(
        "GPT2LMHeadModel", {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64,
                            **_SPECIAL}, text)),
    Architecture("GPT-Neo", from_transformers(
        "GPTNeoModel", {**_COMMON, "num_layers": 2, "num_heads": 4, "window_size": 4,
                        "attention_types": [[["global", "local"], 1]]}, text)),
    Architecture("GPT-J", from_transformers(
        "GPTJModel", {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64,
                      "rotary_dim": 4, **_SPECIAL}, text)),
    Architecture("CodeGen", from_transformers(
        "CodeGenModel", {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64,
                         "rotary_dim": 4, **_SPECIAL}, text)),
    Architecture("GPT-BigCode", from_transformers(
        "GPTBigCodeModel", {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64,
                            **_SPECIAL}, text)),
    Architecture("BLOOM", from_transformers(
        "BloomModel", {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4, **_SPECIAL}, text)),
    Architecture("MPT", from_transformers(
        "MptModel", {"vocab_size": VOCABULARY, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}, text)),
    Architecture("OPT", from_transformers(
        "OPTModel", {**_COMMON, "ffn_dim": 48, "word_embed_proj_dim": 32}, text)),
    _decoder("GPT-NeoX", "GPTNeoXModel"),
    _other("Falcon", "FalconModel", text, **_COMMON, new_decoder_architecture=True, num_kv_heads=2),
    _other("Falcon (ALiBi)", "FalconModel", text, **_COMMON, alibi=True),
    _decoder("Llama", "LlamaForCausalLM"),
    _decoder("Llama 3 (scaled rotary)", "LlamaModel", rope_parameters={
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32}),
    _decoder("Mistral (sliding window)", "MistralModel", sliding_window=4),
    _decoder("Mixtral", "MixtralModel", num_local_experts=4, num_experts_per_tok=2),
    _decoder("Qwen2", "Qwen2Model"),
    _decoder("Qwen2-MoE", "Qwen2MoeModel", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
             shared_expert_intermediate_size=24),
    _decoder("Qwen3", "Qwen3Model"),
    _decoder("Qwen3-MoE", "Qwen3MoeModel", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24),
    _decoder("Gemma", "GemmaModel"),
    _decoder("Gemma 2", "Gemma2Model", sliding_window=4, query_pre_attn_scalar=8),
    _decoder("Gemma 3", "Gemma3TextModel", sliding_window=4, query_pre_attn_scalar=8),
    _decoder("Phi", "PhiModel", partial_rotary_factor=0.5),
    _decoder("Phi-3", "Phi3Model"),
    _decoder("StableLM", "StableLmModel"),
    _decoder("StarCoder2", "Starcoder2Model"),
    _decoder("OLMo", "OlmoModel"),
    _decoder("OLMo 2", "Olmo2Model"),
    _decoder("OLMoE", "OlmoeModel", num_experts=4, num_experts_per_tok=2),
    _decoder("Cohere", "CohereModel", use_qk_norm=True),
    _decoder("Cohere 2", "Cohere2Model", sliding_window=4),
    _decoder("Granite", "GraniteModel"),
    _decoder("GLM-4", "Glm4Model"),
    _decoder("Nemotron", "NemotronModel"),
    _decoder("Persimmon", "PersimmonModel"),
    _decoder("SmolLM3", "SmolLM3Model"),
    _decoder("DeepSeek-V2", "DeepseekV2Model", kv_lora_rank=16, q_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8,
             v_head_dim=8, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, first_k_dense_replace=1,
             n_group=1, topk_group=1, topk_method="greedy", num_key_value_heads=4),
    _decoder("DeepSeek-V3", "DeepseekV3Model", kv_lora_rank=16, q_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8,
             v_head_dim=8, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, first_k_dense_replace=1,
             n_group=2, topk_group=1, num_key_value_heads=4),
    _decoder("GPT-OSS", "GptOssModel", num_local_experts=4, num_experts_per_tok=2, sliding_window=4),
    _decoder("Mamba", "MambaModel", state_size=4, conv_kernel=3, time_step_rank=4),
    _decoder("Mamba 2", "Mamba2Model", state_size=4, conv_kernel=3, num_heads=4, head_dim=16, n_groups=2, chunk_size=4),
    _decoder("RWKV", "RwkvModel", attention_hidden_size=32, context_length=64),
    _decoder("Jamba", "JambaModel", attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, num_experts=2,
             use_mamba_kernels=False, mamba_d_state=4, mamba_dt_rank=4),
    _decoder("RecurrentGemma", "RecurrentGemmaModel", lru_width=32, attention_window_size=8, conv1d_width=3,
             num_hidden_layers=3),
    _decoder("XGLM", "XGLMModel", d_model=32, ffn_dim=48, num_layers=2, attention_heads=4),
    _decoder("CTRL", "CTRLModel", n_embd=32, n_layer=2, n_head=4, dff=48, n_positions=64),
)  # fmt: skip

PAIRS: Final = (
    _pair("BART", "BartModel"),
    _pair("mBART", "MBartModel"),
    _pair("Marian", "MarianModel"),
    _pair("Pegasus", "PegasusModel"),
    _pair("Blenderbot", "BlenderbotModel"),
    _pair("M2M-100", "M2M100Model"),
    _pair("PLBart", "PLBartModel"),
    _pair("LED", "LEDModel", attention_window=4, max_encoder_position_embeddings=64,
          max_decoder_position_embeddings=64),
    _other("ProphetNet", "ProphetNetModel", _pair_of_texts, vocab_size=VOCABULARY, hidden_size=32, num_encoder_layers=2,
           num_decoder_layers=2, num_encoder_attention_heads=4, num_decoder_attention_heads=4, encoder_ffn_dim=48,
           decoder_ffn_dim=48, max_position_embeddings=64, **_SPECIAL),
    Architecture("T5", from_transformers("T5Model", _T5, _pair_of_texts)),
    Architecture("mT5", from_transformers("MT5Model", {**_T5, "feed_forward_proj": "gated-gelu"}, _pair_of_texts)),
    Architecture("LongT5", from_transformers(
        "LongT5Model", {**_T5, "encoder_attention_type": "transient-global", "local_radius": 3, "global_block_size": 4},
        _pair_of_texts)),
    Architecture("Switch Transformers", from_transformers(
        "SwitchTransformersModel", {**_T5, "num_experts": 4, "expert_capacity": 8, "num_sparse_encoder_layers": 1,
                                    "num_sparse_decoder_layers": 1}, _pair_of_texts)),
)  # fmt: skip

LANGUAGE: Final = ENCODERS + DECODERS + PAIRS

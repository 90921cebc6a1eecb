"""Architectures of sound, of several kinds of input at once, and of series over time."""

from __future__ import annotations

from typing import Any, Final

import torch

from .model import VOCABULARY, Architecture, from_transformers, image, text, words

_LAYERS: Final[dict[str, Any]] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
}  # fmt: skip
_SPECIAL: Final[dict[str, Any]] = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
_TEXT: Final[dict[str, Any]] = {
    **_LAYERS, "vocab_size": VOCABULARY, "max_position_embeddings": 32, "projection_dim": 16, **_SPECIAL,
}  # fmt: skip
_VIEW: Final[dict[str, Any]] = {**_LAYERS, "image_size": 32, "patch_size": 8, "projection_dim": 16}
_TOWERS: Final[dict[str, Any]] = {"text_config": _TEXT, "vision_config": _VIEW, "projection_dim": 16}
_WAVES: Final[dict[str, Any]] = {
    **_LAYERS, "vocab_size": 20, "conv_dim": [16, 16, 16], "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 2],
    "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
_SPEECH: Final[dict[str, Any]] = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "decoder_start_token_id": 0, **_SPECIAL,
}  # fmt: skip


def _sound() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 400)}


def _mel(length: int = 40) -> dict[str, Any]:
    return {"input_features": torch.randn(1, 8, length)}


def _picture_and_text() -> dict[str, Any]:
    return {**text(), **image(batch=2)}


def _boxes(batch: int) -> torch.Tensor:
    """A box for each word: left, top, right, bottom."""
    return torch.cat([torch.randint(0, 15, (batch, 8, 2)), torch.randint(15, 30, (batch, 8, 2))], 2)


def _past(length: int = 12) -> dict[str, Any]:
    return {
        "past_values": torch.randn(2, length + 3),
        "past_time_features": torch.randn(2, length + 3, 2),
        "past_observed_mask": torch.ones(2, length + 3),
        "future_values": torch.randn(2, 4),
        "future_time_features": torch.randn(2, 4, 2),
    }


def _of(name: str, model: str, inputs: Any, /, **config: Any) -> Architecture:
    return Architecture(name, from_transformers(model, config, inputs))


SOUND: Final = (
    _of("wav2vec 2.0", "Wav2Vec2ForCTC", _sound, **_WAVES),
    _of("wav2vec 2.0 (layer norm)", "Wav2Vec2Model", _sound, **_WAVES, feat_extract_norm="layer",
        do_stable_layer_norm=True),
    _of("HuBERT", "HubertModel", _sound, **_WAVES),
    _of("WavLM", "WavLMModel", _sound, **_WAVES, num_buckets=8, max_bucket_distance=16),
    _of("UniSpeech", "UniSpeechModel", _sound, **_WAVES),
    _of("SEW", "SEWModel", _sound, **_WAVES, squeeze_factor=2),
    _of("Data2Vec-Audio", "Data2VecAudioModel", _sound, **{**_WAVES, "conv_pos_kernel_size": 5}),
    _of("wav2vec 2.0 Conformer", "Wav2Vec2ConformerModel", _sound, **_WAVES, conv_depthwise_kernel_size=5),
    _of("Whisper", "WhisperModel", lambda: {**_mel(), "decoder_input_ids": words(1, 5)}, **_SPEECH, num_mel_bins=8,
        max_source_positions=20, max_target_positions=16),
    _of("Speech2Text", "Speech2TextModel",
        lambda: {"input_features": torch.randn(1, 40, 8), "decoder_input_ids": words(1, 5)}, **_SPEECH,
        input_feat_per_channel=8, max_source_positions=64, max_target_positions=16, conv_channels=16),
    _of("Moonshine", "MoonshineModel", lambda: {"input_values": torch.randn(1, 2000), "decoder_input_ids": words(1, 5)},
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, encoder_num_hidden_layers=2,
        decoder_num_hidden_layers=2, encoder_num_attention_heads=4, decoder_num_attention_heads=4, **_SPECIAL),
    _of("Audio Spectrogram Transformer", "ASTModel", lambda: {"input_values": torch.randn(1, 32, 16)}, **_LAYERS,
        patch_size=4, frequency_stride=4, time_stride=4, max_length=32, num_mel_bins=16),
    _of("EnCodec", "EncodecModel", lambda: {"input_values": torch.randn(1, 1, 320)}, num_filters=4, hidden_size=16,
        codebook_size=16, codebook_dim=16, upsampling_ratios=[4, 2], num_lstm_layers=1, target_bandwidths=[1.5],
        sampling_rate=800),
    _of("DAC", "DacModel", lambda: {"input_values": torch.randn(1, 1, 64)}, encoder_hidden_size=8,
        downsampling_ratios=[2, 4],
        decoder_hidden_size=16, n_codebooks=2, codebook_size=16, codebook_dim=4, upsampling_ratios=[4, 2]),
    _of("UnivNet", "UnivNetModel", lambda: {"input_features": torch.randn(1, 8, 10),
                                           "noise_sequence": torch.randn(1, 8, 8)},
        model_in_channels=8, model_hidden_channels=8, num_mel_bins=10, kernel_predictor_hidden_channels=8,
        resblock_kernel_sizes=[3], resblock_stride_sizes=[4], resblock_dilation_sizes=[[1, 3]]),
    _of("VITS", "VitsModel", lambda: {"input_ids": words(1, 6)}, vocab_size=VOCABULARY, hidden_size=16,
        num_hidden_layers=1, num_attention_heads=2, ffn_dim=16, flow_size=8, spectrogram_bins=8,
        prior_encoder_num_flows=2, posterior_encoder_num_wavenet_layers=2, upsample_initial_channel=16,
        upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4], resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1,
        3]],
        depth_separable_num_layers=2, duration_predictor_num_flows=2, duration_predictor_filter_channels=16,
        prior_encoder_num_wavenet_layers=2),
    _of("SpeechT5 HiFi-GAN", "SpeechT5HifiGan", lambda: {"spectrogram": torch.randn(6, 8)}, model_in_dim=8,
        upsample_initial_channel=16, upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4], resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]]),
)  # fmt: skip

SEVERAL: Final = (
    _of("CLIP", "CLIPModel", _picture_and_text, **_TOWERS),
    _of("SigLIP", "SiglipModel", _picture_and_text, text_config=_TEXT, vision_config=_VIEW),
    _of("Chinese-CLIP", "ChineseCLIPModel", _picture_and_text, **_TOWERS),
    _of("AltCLIP", "AltCLIPModel", _picture_and_text, **{**_TOWERS, "text_config": {**_TEXT, "project_dim": 32}}),
    _of("X-CLIP", "XCLIPModel", lambda: {**text(1), "pixel_values": torch.randn(1, 2, 3, 32, 32)},
        text_config=_TEXT, projection_dim=16,
        vision_config={**_VIEW, "num_frames": 2, "mit_hidden_size": 16, "mit_num_hidden_layers": 1,
                       "mit_num_attention_heads": 4, "mit_intermediate_size": 48}),
    _of("GroupViT", "GroupViTModel", _picture_and_text, text_config=_TEXT, projection_dim=16,
        projection_intermediate_dim=16,
        vision_config={**_LAYERS, "image_size": 32, "patch_size": 8, "depths": [1, 1, 1], "num_group_tokens": [4, 2, 0],
                       "num_output_groups": [4, 2, 0]}),
    _of("CLIPSeg", "CLIPSegForImageSegmentation", lambda: {**image(), **text(1)}, **_TOWERS,
        extract_layers=[0, 1], reduce_dim=16, decoder_num_attention_heads=4, decoder_intermediate_size=24,
        conditional_layer=0),
    _of("OWL-ViT", "OwlViTForObjectDetection", lambda: {**image(), **text(1)}, text_config=_TEXT, vision_config=_VIEW,
        projection_dim=32),
    _of("BLIP", "BlipModel", _picture_and_text, text_config={**_TEXT, "encoder_hidden_size": 32}, vision_config=_VIEW,
        projection_dim=16),
    _of("FLAVA", "FlavaImageModel", lambda: image(), **_LAYERS, image_size=32, patch_size=8),
    _of("ViLT", "ViltModel", lambda: {**text(1), **image()}, **_LAYERS, vocab_size=VOCABULARY, image_size=32,
        patch_size=8, max_position_embeddings=32),
    _of("GIT", "GitModel", lambda: {**text(1), **image()}, **_TEXT, vision_config=_VIEW),
    _of("VisualBERT", "VisualBertModel", lambda: {**text(), "visual_embeds": torch.randn(2, 3, 12)}, **_TEXT,
        visual_embedding_dim=12),
    _of("LXMERT", "LxmertModel", lambda: {**text(), "visual_feats": torch.randn(2, 3, 12), "visual_pos": torch.rand(2,
        3, 4)},
        vocab_size=VOCABULARY, hidden_size=32, num_attention_heads=4, intermediate_size=48, l_layers=1, x_layers=1,
        r_layers=1, visual_feat_dim=12),
    _of("LayoutLMv3", "LayoutLMv3Model", lambda: {**text(1), **image(), "bbox": _boxes(1)},
        **_TEXT, input_size=32, patch_size=8, coordinate_size=4, shape_size=8),
    _of("LiLT", "LiltModel", lambda: {**text(), "bbox": _boxes(2)}, **{**_TEXT, "hidden_size": 48},
        channel_shrink_ratio=4),
    _of("TrOCR decoder", "TrOCRForCausalLM", text, vocab_size=VOCABULARY, d_model=32, decoder_layers=2,
        decoder_attention_heads=4, decoder_ffn_dim=48, max_position_embeddings=32, **_SPECIAL),
    _of("Segment Anything (picture encoder)", "SamVisionModel", lambda: image(64), hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, mlp_dim=48, image_size=64, patch_size=8, output_channels=16, window_size=3,
        global_attn_indexes=[1]),
)  # fmt: skip

_SERIES: Final[dict[str, Any]] = {
    "prediction_length": 4, "context_length": 12, "lags_sequence": [1, 2, 3], "num_time_features": 2, "d_model": 16,
    "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
}  # fmt: skip

SERIES: Final = (
    _of("Time Series Transformer", "TimeSeriesTransformerModel", _past, **_SERIES),
    _of("Informer", "InformerModel", _past, **_SERIES, attention_type="full", distil=False),
    _of("Autoformer", "AutoformerModel", _past, **_SERIES, label_length=4, moving_average=5),
    _of("PatchTST", "PatchTSTForPrediction", lambda: {"past_values": torch.randn(2, 24, 3)}, num_input_channels=3,
        context_length=24, patch_length=4, patch_stride=4, num_hidden_layers=2, d_model=16, num_attention_heads=4,
        ffn_dim=24, prediction_length=6, use_cls_token=True),
    _of("PatchTSMixer", "PatchTSMixerForPrediction", lambda: {"past_values": torch.randn(2, 24, 3)},
        num_input_channels=3, context_length=24, patch_length=4, patch_stride=4, num_layers=2, d_model=16,
        prediction_length=6),
    _of("TimesFM", "TimesFmModel", lambda: {"past_values": torch.randn(2, 64), "past_values_padding": torch.zeros(2,
        64),
                                            "freq": torch.zeros(2, 1, dtype=torch.int64)},
        patch_length=8, context_length=64, horizon_length=16, num_hidden_layers=2, hidden_size=32, intermediate_size=48,
        head_dim=8, num_attention_heads=4),
    _of("Decision Transformer", "DecisionTransformerModel",
        lambda: {"states": torch.randn(1, 5, 6), "actions": torch.randn(1, 5, 3), "rewards": torch.randn(1, 5, 1),
                 "returns_to_go": torch.randn(1, 5, 1), "timesteps": torch.arange(5)[None],
                 "attention_mask": torch.ones(1, 5, dtype=torch.int64)},
        state_dim=6, act_dim=3, hidden_size=32, max_ep_len=32, n_layer=2, n_head=4, n_positions=64, vocab_size=1),
)  # fmt: skip

OTHERS: Final = SOUND + SEVERAL + SERIES

"""Architectures that look at pictures: classification, detection, segmentation, depth."""

from __future__ import annotations

from typing import Any, Final

import torch

from .model import Architecture, from_transformers, image

_VIT: Final[dict[str, Any]] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
_DETECTOR: Final[dict[str, Any]] = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_queries": 5,
    "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None,
}  # fmt: skip
_RESNET: Final[dict[str, Any]] = {
    "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1],
}  # fmt: skip


def _vit(name: str, model: str, /, size: int = 32, **config: Any) -> Architecture:
    return Architecture(name, from_transformers(model, {**_VIT, **config}, lambda: image(size)))


def _net(name: str, model: str, /, size: int = 64, **config: Any) -> Architecture:
    return Architecture(name, from_transformers(model, config, lambda: image(size)))


def _backbone(*stages: str) -> Any:
    from transformers import ResNetConfig

    known = {name: value for name, value in _RESNET.items() if name != "model_type"}
    return ResNetConfig(**known, out_features=list(stages))


def _detector(name: str, model: str, /, *stages: str, **config: Any) -> Architecture:
    def whole() -> Any:
        import transformers

        kind: Any = getattr(transformers, model).config_class
        return kind(**_DETECTOR, backbone_config=_backbone(*stages), **config)

    return Architecture(name, from_transformers(model, whole, lambda: image(64)))


def _video() -> dict[str, Any]:
    return {"pixel_values": torch.randn(1, 4, 3, 32, 32)}


def _swinv2_sr() -> dict[str, Any]:
    return image(16)


VISION: Final = (
    _vit("ViT", "ViTForImageClassification"),
    _vit("DeiT", "DeiTForImageClassificationWithTeacher"),
    _vit("BEiT", "BeitForImageClassification", use_relative_position_bias=True, use_mask_token=True,
         num_hidden_layers=4, out_indices=[1, 2, 3, 4]),
    _vit("Data2Vec-Vision", "Data2VecVisionModel", use_shared_relative_position_bias=True,
         num_hidden_layers=4, out_indices=[1, 2, 3, 4]),
    _vit("DINOv2", "Dinov2Model", mlp_ratio=2),
    _vit("DINOv2 (other picture size)", "Dinov2Model", 48, mlp_ratio=2),
    _vit("DINOv2 with registers", "Dinov2WithRegistersModel", mlp_ratio=2, num_register_tokens=2),
    _vit("DINOv3", "DINOv3ViTModel", num_register_tokens=2),
    _vit("ViT-MSN", "ViTMSNModel"),
    _vit("YOLOS", "YolosForObjectDetection", image_size=[32, 32], num_detection_tokens=4),
    _vit("DPT", "DPTForDepthEstimation", num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8,
         8, 16, 16],
         fusion_hidden_size=16),
    Architecture("VideoMAE", from_transformers(
        "VideoMAEModel", {**_VIT, "num_frames": 4}, _video)),
    Architecture("TimeSformer", from_transformers("TimesformerModel", {**_VIT, "num_frames": 4}, _video)),
    Architecture("ViViT", from_transformers(
        "VivitModel", {**_VIT, "num_frames": 4, "tubelet_size": [2, 8, 8]}, _video)),
    _net("Swin", "SwinForImageClassification", image_size=64, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2,
         4], window_size=4),
    _net("Swin v2", "Swinv2Model", image_size=64, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
         window_size=4),
    Architecture("Swin2SR", from_transformers(
        "Swin2SRForImageSuperResolution", {"image_size": 16, "embed_dim": 16, "depths": [2], "num_heads": [2],
                                           "window_size": 4}, _swinv2_sr)),
    _net("ConvNeXt", "ConvNextForImageClassification", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1]),
    _net("ConvNeXt V2", "ConvNextV2ForImageClassification", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1]),
    _net("ResNet", "ResNetForImageClassification", embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1]),
    _net("BiT", "BitModel", embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], num_groups=4),
    _net("RegNet", "RegNetForImageClassification", embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2,
         1], groups_width=8),
    _net("MobileNetV1", "MobileNetV1Model", depth_multiplier=0.25, image_size=64),
    _net("MobileNetV2", "MobileNetV2ForSemanticSegmentation", depth_multiplier=0.25, image_size=64, min_depth=4),
    _net("EfficientNet", "EfficientNetModel", width_coefficient=0.25, depth_coefficient=0.5, image_size=64,
         hidden_dim=320),
    _net("MobileViT", "MobileViTForImageClassification", 64, image_size=64, hidden_sizes=[16, 24, 32],
         neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 48], num_attention_heads=4),
    _net("MobileViTV2", "MobileViTV2Model", 64, image_size=64, width_multiplier=0.5),
    _net("LeViT", "LevitForImageClassificationWithTeacher", 64, image_size=64, hidden_sizes=[16, 24, 32],
         num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8]),
    _net("PoolFormer", "PoolFormerForImageClassification", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    _net("PVT", "PvtModel", 64, image_size=64, hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 3, 4],
         depths=[1, 1, 1, 1]),
    _net("PVTv2", "PvtV2Model", 64, image_size=64, hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 3, 4],
         depths=[1, 1, 1, 1]),
    _net("CvT", "CvtModel", embed_dim=[8, 16, 24], num_heads=[1, 2, 3], depth=[1, 2, 3]),
    _net("FocalNet", "FocalNetModel", image_size=64, embed_dim=16, depths=[1, 1], focal_levels=[2, 2],
         focal_windows=[3, 3],
         hidden_sizes=[16, 32]),
    _net("Hiera", "HieraModel", 64, image_size=[64, 64], embed_dim=16, depths=[1, 1, 2, 1], num_heads=[1, 2, 4, 8]),
    _net("SwiftFormer", "SwiftFormerModel", image_size=64, depths=[1, 1, 1, 1], embed_dims=[8, 16, 24, 32]),
    _net("SegFormer", "SegformerForSemanticSegmentation", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
         num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16),
    _net("GLPN", "GLPNForDepthEstimation", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
         num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16),
    Architecture("ImageGPT", from_transformers(
        "ImageGPTModel", {"vocab_size": 17, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
        lambda: {"input_ids": torch.randint(0, 16, (2, 8))})),
    _detector("DETR", "DetrForObjectDetection", "stage4"),
    _detector("Conditional DETR", "ConditionalDetrForObjectDetection", "stage4"),
    _detector("Deformable DETR", "DeformableDetrForObjectDetection", "stage2", "stage3", "stage4",
              num_feature_levels=3),
    _detector("Table Transformer", "TableTransformerForObjectDetection", "stage4"),
)  # fmt: skip

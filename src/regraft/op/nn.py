"""Neural-network operators, reached as ``regraft.op.nn`` and, in scripts, as ``R.nn``."""

from __future__ import annotations

from .composite.activation import (
    gelu,
    gelu_tanh,
    leakyrelu,
    log_softmax,
    prelu,
    relu,
    relu6,
    selu,
    silu,
    softmax,
    softplus,
)
from .composite.activation_variants import elu, hardsigmoid, hardswish, mish
from .composite.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .composite.attention import attention, attention_bias, attention_var_len
from .composite.loss import cross_entropy_with_logits, nll_loss
from .composite.normalization import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from .composite.padding import pad
from .composite.pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from .composite.rearrangement import batch_flatten, pixel_shuffle
from .composite.recurrent import gru, lstm, rnn
from .composite.regularization import dropout
from .composite.unfolding import col2im, im2col
from .primitive.conv import conv1d, conv2d, conv3d
from .primitive.conv_transpose import conv1d_transpose, conv2d_transpose, conv3d_transpose

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "attention",
    "attention_bias",
    "attention_var_len",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_flatten",
    "batch_norm",
    "col2im",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "cross_entropy_with_logits",
    "dropout",
    "elu",
    "gelu",
    "gelu_tanh",
    "group_norm",
    "gru",
    "hardsigmoid",
    "hardswish",
    "im2col",
    "instance_norm",
    "layer_norm",
    "leakyrelu",
    "log_softmax",
    "lstm",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "nll_loss",
    "pad",
    "pixel_shuffle",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rnn",
    "selu",
    "silu",
    "softmax",
    "softplus",
]

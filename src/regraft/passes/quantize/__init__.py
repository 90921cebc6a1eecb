"""Programs in few bits: products and convolutions on bytes, weights in 8 or 4 bits.

Each pass is a few rules over one pattern of its layers (`layers`); `weights` computes the codes. None of the passes is
part of a level: values change by more than rounding, so users must ask for them.
"""

from .attention import OpenAttention, has_attention
from .blocks import QuantizeWeights
from .codes import Ranges, SeenRange
from .dynamic import QuantizeDynamic
from .layers import CONVOLUTIONS
from .recurrent import QuantizeRecurrent
from .smoothing import Magnitudes, SmoothOutliers, left_sides, with_magnitudes
from .static import Quantize, observed, with_ranges
from .weights import SIGNED_BYTES, WeightCodes
from .written_out import WriteOutQuantized, has_quantized_operators

__all__ = [
    "CONVOLUTIONS",
    "SIGNED_BYTES",
    "Magnitudes",
    "OpenAttention",
    "Quantize",
    "QuantizeDynamic",
    "QuantizeRecurrent",
    "QuantizeWeights",
    "Ranges",
    "SeenRange",
    "SmoothOutliers",
    "WeightCodes",
    "WriteOutQuantized",
    "has_attention",
    "has_quantized_operators",
    "left_sides",
    "observed",
    "with_magnitudes",
    "with_ranges",
]

"""Published architectures at small sizes, from their configurations with random weights; nothing is downloaded.

Each is one line of data: a class of transformers or diffusers, its configuration, and inputs.
`bench.bench_architectures` runs them. Needs torch, transformers and diffusers.
"""

from __future__ import annotations

from typing import Final

from .diffusion import DIFFUSION
from .language import LANGUAGE
from .model import Architecture, Example
from .others import OTHERS
from .vision import VISION

ARCHITECTURES: Final[dict[str, Architecture]] = {each.name: each for each in LANGUAGE + VISION + OTHERS + DIFFUSION}
"""All architectures, by the names that their authors gave them."""

__all__ = ["ARCHITECTURES", "DIFFUSION", "LANGUAGE", "OTHERS", "VISION", "Architecture", "Example"]

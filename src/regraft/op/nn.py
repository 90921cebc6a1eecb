"""Neural-network operators, reached as ``regraft.op.nn`` and, in scripts, as ``R.nn``."""

# ruff: noqa: F403 - a module says which of its names are public

from __future__ import annotations

from .composite import activation as _activation
from .composite import activation_variants as _activation_variants
from .composite import adaptive_pooling as _adaptive_pooling
from .composite import attention as _attention
from .composite import loss as _loss
from .composite import normalization as _normalization
from .composite import padding as _padding
from .composite import pooling as _pooling
from .composite import rearrangement as _rearrangement
from .composite import recurrent as _recurrent
from .composite import regularization as _regularization
from .composite import unfolding as _unfolding
from .composite.activation import *
from .composite.activation_variants import *
from .composite.adaptive_pooling import *
from .composite.attention import *
from .composite.loss import *
from .composite.normalization import *
from .composite.padding import *
from .composite.pooling import *
from .composite.rearrangement import *
from .composite.recurrent import *
from .composite.regularization import *
from .composite.unfolding import *
from .primitive import conv as _conv
from .primitive import conv_transpose as _conv_transpose
from .primitive.conv import *
from .primitive.conv_transpose import *

__all__: list[str] = []
__all__ += _activation.__all__
__all__ += _activation_variants.__all__
__all__ += _adaptive_pooling.__all__
__all__ += _attention.__all__
__all__ += _loss.__all__
__all__ += _normalization.__all__
__all__ += _padding.__all__
__all__ += _pooling.__all__
__all__ += _rearrangement.__all__
__all__ += _recurrent.__all__
__all__ += _regularization.__all__
__all__ += _unfolding.__all__
__all__ += _conv.__all__
__all__ += _conv_transpose.__all__

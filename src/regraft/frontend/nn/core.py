"""The names of Relax's ``frontend.nn.core``."""

from __future__ import annotations

from .module import Module as Module
from .module import ModuleDict as ModuleDict
from .module import ModuleList as ModuleList
from .module import ParameterDict as ParameterDict
from .module import ParameterList as ParameterList
from .values import Effect as Effect
from .values import Object as Object
from .values import Parameter as Parameter
from .values import Tensor as Tensor
from .values import get_default_dtype as get_default_dtype
from .values import set_default_dtype as set_default_dtype
from .values import wrap_nested as wrap_nested

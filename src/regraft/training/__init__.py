"""Training: losses and optimizers as programs, the pass that adds them to a model, and the trainer that runs them.

`SetupTrainer` turns a module that predicts into one that can be trained. `Trainer` runs it on any engine. Knows the
language, the vocabulary, the gradient and, through `build` only, the engines. Names follow ``relax.training``.
"""

from .append_loss import AppendLoss as AppendLoss
from .append_loss import append_loss as append_loss
from .errors import TrainingError as TrainingError
from .loss import CategoricalCrossEntropyLoss as CategoricalCrossEntropyLoss
from .loss import CrossEntropyLoss as CrossEntropyLoss
from .loss import L1Loss as L1Loss
from .loss import Loss as Loss
from .loss import MSELoss as MSELoss
from .loss import NLLLoss as NLLLoss
from .optimizer import SGD as SGD
from .optimizer import Adam as Adam
from .optimizer import AdamW as AdamW
from .optimizer import MomentumSGD as MomentumSGD
from .optimizer import Optimizer as Optimizer
from .setup_trainer import SetupTrainer as SetupTrainer
from .trainer import Trainer as Trainer

__all__: list[str] = sorted([name for name, value in globals().items() if callable(value)])  # pyright: ignore[reportUnsupportedDunderAll]

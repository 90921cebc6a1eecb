"""Training: losses and optimizers as programs, the pass that adds them to a model, and the trainer that runs them.

`SetupTrainer` turns a module that predicts into one that can be trained. `Trainer` runs it on any engine. Knows the
language, the vocabulary, the gradient and, through `build` only, the engines. Names follow ``relax.training``.
"""

from .append_loss import AppendLoss, append_loss
from .errors import TrainingError
from .loss import CategoricalCrossEntropyLoss, CrossEntropyLoss, L1Loss, Loss, MSELoss, NLLLoss
from .optimizer import SGD, Adam, AdamW, MomentumSGD, Optimizer
from .setup_trainer import SetupTrainer
from .trainer import Trainer

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "AppendLoss",
    "CategoricalCrossEntropyLoss",
    "CrossEntropyLoss",
    "L1Loss",
    "Loss",
    "MSELoss",
    "MomentumSGD",
    "NLLLoss",
    "Optimizer",
    "SetupTrainer",
    "Trainer",
    "TrainingError",
    "append_loss",
]

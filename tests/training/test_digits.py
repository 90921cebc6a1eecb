"""Small models learn real data: scikit-learn's handwritten digits."""

from __future__ import annotations

import numpy as np
import pytest

from regraft import training
from tests.training.models import LABELS, LOGITS, MODELS, batches, digits


@pytest.mark.parametrize("target", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("name", MODELS)
def test_a_small_model_reads_over_97_percent_of_digits_it_has_not_seen(name: str, target: str) -> None:
    images, labels, unseen, answers = digits()

    def trainer_with(rate: float) -> training.Trainer:
        setup = training.SetupTrainer(training.CrossEntropyLoss(), training.Adam(rate), [LOGITS, LABELS])
        return training.Trainer(setup(MODELS[name].module), target=target)

    trainer = trainer_with(0.005)
    trainer.xavier_uniform_init_params(seed=0)
    if name == "convolutional":
        trainer.load_params({"gamma": np.ones(8, "float32")})
        trainer.load_states({"variance": np.ones(8, "float32")})
    for epoch in range(10):
        trainer.train(batches(images, labels, 25, seed=epoch))
    slower = trainer_with(0.0005)
    slower.load_params(trainer.export_params())
    slower.load_states(trainer.export_states())
    for epoch in range(4):
        slower.train(batches(images, labels, 25, seed=epoch))
    trainer = slower
    accuracy = (np.argmax(trainer.predict(unseen), axis=1) == answers).mean()
    assert accuracy > 0.97, f"{name} on {target}: {accuracy:.4f}"

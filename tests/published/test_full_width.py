"""Models at their published width, read without holding a number of them."""

from __future__ import annotations

from collections import Counter

from bench import full_width
from bench.model_counts import COMBINE, PREPARE, groups, matmuls


def test_the_unet_of_stable_diffusion_15_at_full_width_keeps_all_its_savings() -> None:
    model = full_width.make("Stable Diffusion 1.5 UNet")
    assert full_width.weights(model.module) == 859_520_964
    before = PREPARE(model.program(weights=True))
    after = COMBINE(before)
    assert (matmuls(before), matmuls(after)) == (184, 100)
    assert groups(after) - groups(before) == Counter({3: 16, 22: 1, 32: 1})


def test_a_model_without_numbers_is_read_with_its_weights_as_parameters() -> None:
    program = full_width.program("MLP with 32 heads")
    main = program["main"]
    assert main.attrs["num_input"] == 1
    assert len(main.params) == 1 + 2 * (2 + 32)

"""Temperature scaling against an exhaustive search."""

import types

import numpy as np
import pytest

from zoo.data.windows import sliding_windows
from zoo.training.calibration import best_output_scale


@pytest.mark.parametrize(("sure", "best"), [(1.6, 0.62), (0.8, 1.25), (9.0, 0.5), (0.1, 1.5)])
def test_the_loss_is_the_lowest_of_all_factors(sure, best):
    """Tokens that follow a table of probabilities, and models that are too sure of it, or not."""
    generator = np.random.default_rng(0)
    table = generator.normal(size=(5, 5))
    tokens = [0]
    for _ in range(3000):
        powers = np.exp(table[tokens[-1]])
        tokens.append(generator.choice(5, p=powers / powers.sum()))
    tokens, logits = np.array(tokens, "int32"), (sure * table).astype("float32")

    class Core:
        context_length = 8

        def __call__(self, ids, training):
            return logits[ids.numpy()]

    model = types.SimpleNamespace(tokens=lambda text: tokens, core=Core())
    found = best_output_scale(model, "")
    inputs, labels, weights = sliding_windows(tokens, Core.context_length)

    def loss(factor):
        scaled = factor * sure * table[inputs]
        scaled -= np.log(np.exp(scaled).sum(-1, keepdims=True))
        told = np.take_along_axis(scaled, labels[..., None], axis=-1)[..., 0]
        return -(told * weights).sum()

    assert found == min(np.arange(50, 151) / 100, key=loss)
    assert found == pytest.approx(best, abs=0.05)

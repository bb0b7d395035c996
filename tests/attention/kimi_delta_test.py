"""KimiDeltaAttention against its equation in float64 NumPy, step by step.

`gated_delta_models_test.py` compares it with the model of transformers.
"""

import numpy as np
import pytest

from keras_attention import KimiDeltaAttention
from tests.attention import gated_delta_test, oracle
from tests.attention.gradients import gradients

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "options", [{}, {"use_bias": False, "kernel_size": None, "output_dim": 7, "epsilon": 0.01}]
)
def test_equals_its_equation(options):
    layer = gated_delta_test.make(KimiDeltaAttention, **options)
    gated_delta_test.check_equation(layer, activation=gated_delta_test.sigmoid)


def test_gradients_equal_finite_differences():
    layer = gated_delta_test.make(KimiDeltaAttention)
    x, visible = RNG.normal(size=(1, 4, 6)).astype("float32"), np.ones((1, 4), bool)

    def total(x):
        return gated_delta_test.equation(layer, x, x, visible, gated_delta_test.sigmoid)[0].sum()

    (found,) = gradients(lambda x: layer(x, x), x)
    (expected,) = oracle.numerical_gradients(total, x.astype("float64"))
    np.testing.assert_allclose(oracle.float64(found), expected, atol=1e-3, rtol=1e-3)


def test_each_channel_has_a_decay_of_its_own_and_each_head_a_rate():
    layer = gated_delta_test.make(KimiDeltaAttention)
    shapes = {each.path.split("/", 1)[1]: tuple(each.shape) for each in layer.weights}
    heads, size, key_dim, value_dim = 4, 6, 5, 3
    assert shapes["decay_bias"] == (heads * key_dim,)
    assert shapes["log_decay_rate"] == (heads,)
    assert shapes["decay_latent/kernel"] == shapes["output_gate_latent/kernel"] == (size, value_dim)
    assert shapes["decay/kernel"] == (value_dim, heads * key_dim)
    assert shapes["output_gate/bias"] == (heads * value_dim,)
    without = {"decay/bias", "decay_latent/bias", "output_gate_latent/bias"}
    assert not without & set(shapes)

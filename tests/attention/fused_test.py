"""The backend's kernel: its inputs, and rows that see nothing."""

import numpy as np
import tensorflow as tf
from keras import ops

from keras_attention import MultiHeadAttention


def test_no_row_that_sees_nothing_reaches_the_kernel(monkeypatch):
    """A kernel may return NaN for such a row and `0 * NaN` as its gradient."""

    def strict_kernel(query, key, value, mask, scale):
        scores = scale * ops.einsum("bqhd,bkhd->bhqk", query, key)
        powers = ops.where(mask, ops.exp(scores), 0.0)
        weights = powers / ops.sum(powers, axis=-1, keepdims=True)  # 0 / 0
        return ops.einsum("bhqk,bkhd->bqhd", weights, value)

    draws = np.random.default_rng(0)
    x = tf.constant(draws.normal(size=(3, 4, 8)), tf.float32)
    key_mask = np.array([[True] * 4, [False] * 4, [True, False, True, False]])
    layer = MultiHeadAttention(2, 4, implementation="fused")
    with tf.GradientTape() as tape:
        expected = layer(x, x, key_mask=key_mask)
        loss = tf.reduce_sum(expected**2)
    gradients = tape.gradient(loss, layer.trainable_variables)
    monkeypatch.setattr(ops, "dot_product_attention", strict_kernel)
    with tf.GradientTape() as tape:
        found = layer(x, x, key_mask=key_mask)
        loss = tf.reduce_sum(found**2)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for one, other in zip(tape.gradient(loss, layer.trainable_variables), gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)

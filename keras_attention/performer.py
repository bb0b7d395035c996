"""Performer: attention with random features, in time and memory linear in length."""

import math
from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention._checks import require_one_of, require_positive_integers
from keras_attention._products import matmul
from keras_attention.linear import LinearAttention

KERNELS = ("softmax", "relu")
FLOOR = 1e-3  # added to the features of the ReLU kernel, so that every key has some weight


@keras.saving.register_keras_serializable(package="keras_attention")
class PerformerAttention(LinearAttention):
    """Multi-head attention with positive orthogonal random features (FAVOR+).

    $$ head_i = \\frac{φ(q_i)^T \\sum_j φ(k_j) v_j^T}{φ(q_i)^T \\sum_j φ(k_j)}, \\quad
       φ_r(x) = \\exp(ω_r^T x' - |x'|^2 / 2), \\quad x' = x / d^{1/4} $$

    The expectation of `φ(q)ᵀφ(k) / m` over `ω` is `exp(qᵀk / √d)`: with more features, the layer
    comes closer to `MultiHeadAttention`. `kernel="relu"` has `φ_r(x) = max(0, ω_rᵀx') + 0.001` and
    is a different kernel, not an approximation of softmax. The `ω` are normally distributed,
    orthogonal in groups of `d`, and not trained.

    Time is `O(T · m · d)`, and memory is linear in the length `T`. This also holds with the causal
    mask, which is computed from pairs inside chunks of keys and running sums from chunk to chunk.
    Features are computed from float32 logarithms, each relative to its largest value over the keys,
    so that no sum overflows or vanishes. With `causal=True`, `room_for` and `step` decode step by
    step with a memory of constant size, as for `LinearAttention`.

    Paper: Choromanski et al. 2021, Rethinking Attention with Performers
    (https://arxiv.org/abs/2009.14794).

    Args:
        num_heads, key_dim, value_dim, output_dim: As for `MultiHeadAttention`.
        num_features: `m`, the number of features per head. Defaults to `d · log(d)`, rounded.
        kernel: `"softmax"` or `"relu"`.
        causal: Whether to always apply the causal mask.
        use_bias: As for `MultiHeadAttention`.
        seed: Integer seed of the features.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but `attention_mask` is not supported.

    Output shape:
        `(batch, query_length, output_dim)`; with `return_attention_scores` also the equivalent
        weights, float32 `(batch, num_heads, query_length, key_length)`. They are meant for
        inspection and take quadratic time and memory.

    Raises:
        ValueError: If the kernel is unknown, a size is not positive, or a mask is not supported.

    Example:

    >>> layer = PerformerAttention(num_heads=2, key_dim=4, num_features=64, causal=True)
    >>> x = np.ones((2, 50, 8))
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 50, 8), (2, 2, 50, 50))
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        output_dim: int | None = None,
        num_features: int | None = None,
        kernel: Any = "softmax",
        causal: bool = False,
        use_bias: bool | Collection[str] = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        sizes = {"value_dim": value_dim, "output_dim": output_dim}
        super().__init__(num_heads, key_dim, causal=causal, use_bias=use_bias, **sizes, **kwargs)
        require_one_of("PerformerAttention", KERNELS, kernel=kernel)
        if num_features is None:
            num_features = max(1, round(key_dim * math.log(key_dim)))
        require_positive_integers("PerformerAttention", num_features=num_features)
        self.num_features = num_features
        self.kernel = kernel
        self.seed = seed

    def build(self, query_shape, value_shape, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        self.features = self.add_weight(
            name="features",
            shape=(self.num_heads, self.num_features, self.key_dim),
            initializer=lambda shape, dtype=None: _orthogonal_rows(shape, self.seed),
            dtype="float32",
            autocast=False,
            trainable=False,
        )

    def redraw(self, seed=None):
        """Draws new random features, for example from time to time during training."""
        self.features.assign(_orthogonal_rows(self.features.shape, seed))

    def log_features(self, x):
        x = x / self.key_dim**0.25
        products = matmul(x, ops.swapaxes(self.features, 1, 2))
        if self.kernel == "relu":
            return ops.log(ops.relu(products) + FLOOR)
        return products - ops.sum(ops.square(x), axis=-1, keepdims=True) / 2

    def get_config(self):
        return {
            **super().get_config(),
            "num_features": self.num_features,
            "kernel": self.kernel,
            "seed": self.seed,
        }


def _orthogonal_rows(shape, seed):
    """Draws rows that are orthogonal in groups of `size` and have the norms of normal vectors.

    Args:
        shape: `(heads, rows, size)`.
        seed: Integer or `None`.
    """
    heads, rows, size = shape
    groups = -(-rows // size)
    drawn = keras.random.normal((2, heads, groups, size, size), dtype="float32", seed=seed)
    directions, triangle = ops.qr(drawn[0])
    # The signs make every rotation equally likely, whatever the backend's sign convention.
    signs = ops.sign(ops.diagonal(triangle, axis1=-2, axis2=-1))
    lengths = ops.sqrt(ops.sum(ops.square(drawn[1]), axis=-1, keepdims=True))
    drawn = directions * signs[..., None, :] * lengths
    return ops.reshape(drawn, (heads, groups * size, size))[:, :rows]

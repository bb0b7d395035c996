"""Scores that add projections of queries and keys."""

import math

import keras
from keras import ops

from keras_attention import activations
from keras_attention._checks import require_positive_integers_or_none
from keras_attention._initializers import for_each_head
from keras_attention._products import dot, matmul, transposed
from keras_attention.scores._vectors import unit
from keras_attention.scores.base import Score


@keras.saving.register_keras_serializable(package="keras_attention")
class Additive(Score):
    """Additive score, also called Bahdanau or concat score, with all of its weights.

    $$ score(q, k) = v^T \\tanh(W_q q + W_k k + b) $$

    Paper: Bahdanau et al. 2015, Neural Machine Translation by Jointly Learning to Align and
    Translate, appendix A.1.2 (https://arxiv.org/abs/1409.0473).

    Queries and keys may differ in size. Time `O(Tq · Tk · units)`. With the activation
    `"leaky_relu"`, it is the score of GATv2 (Brody et al. 2022, How Attentive are Graph Attention
    Networks?, https://arxiv.org/abs/2105.14491), where a mask tells which nodes are neighbors.

    Args:
        units: Size of the space in which queries and keys are added. `None` uses the key size.
        kernel_initializer: Initializer of `W_q`, `W_k` and `v`.
        normalized: Whether to replace `v` by `g v / ‖v‖` with a learned gain `g` (Salimans and
            Kingma 2016, https://arxiv.org/abs/1602.07868), which is initially `1 / √units`.
        activation: Takes the place of `tanh`: a name or a function.

    Raises:
        ValueError: If `units` is not a positive integer.

    Example:

    >>> score = Additive(units=16)
    >>> tuple(score(np.ones((2, 3, 8)), np.ones((2, 5, 4))).shape)
    (2, 3, 5)
    """

    uses_positions = False

    def __init__(
        self,
        units=None,
        kernel_initializer="glorot_uniform",
        normalized=False,
        activation="tanh",
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_positive_integers_or_none("the score Additive", units=units)
        self.units = units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.normalized = normalized
        self.activation = activations.get(activation)

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        units = self.pair_size = self.units or key_shape[-1]

        def kernel(name, *shape):
            initializer = for_each_head(self.kernel_initializer)
            return self.add_weight(name=name, shape=(*self.heads, *shape), initializer=initializer)

        self.query_kernel = kernel("query_kernel", query_shape[-1], units)
        self.key_kernel = kernel("key_kernel", key_shape[-1], units)
        self.direction = kernel("scale", 1, units)
        self.bias = self.add_weight(name="bias", shape=(*self.heads, 1, units), initializer="zeros")
        if self.normalized:
            self.gain = self.add_weight(
                name="gain",
                shape=(*self.heads, 1, 1),
                initializer=keras.initializers.Constant(1.0 / math.sqrt(units)),
            )

    @property
    def scale(self):
        """The vector `v`, normalized if `normalized=True`, `(*heads, 1, units)`."""
        return unit(self.direction) * self.gain if self.normalized else self.direction

    def prepare_query(self, query, positions):
        return matmul(query, ops.cast(self.query_kernel, query.dtype))

    def prepare_key(self, key, positions):
        projected = matmul(key, ops.cast(self.key_kernel, key.dtype))
        return projected + ops.cast(self.bias, key.dtype)

    @property
    def pairwise_weights(self):
        return [self.direction, self.gain] if self.normalized else [self.direction]

    def pairwise(self, query, key):
        pairs = ops.expand_dims(query, -2) + ops.expand_dims(key, -3)  # (..., Tq, Tk, units)
        scale = ops.squeeze(ops.cast(self.scale, pairs.dtype), axis=-2)  # (*heads, units)
        return dot(self.activation(pairs), scale)

    def get_config(self):
        initializer = keras.initializers.serialize(self.kernel_initializer)
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": initializer,
            "normalized": self.normalized,
            "activation": activations.serialize(self.activation),
        }


@keras.saving.register_keras_serializable(package="keras_attention")
class LinearAdditive(Score):
    """Additive score without the tanh: the sum of a term of the query and a term of the key.

    $$ score(q, k) = w_q^T q + w_k^T k $$

    Paper: Bahdanau et al. 2015, appendix A.1.2 (https://arxiv.org/abs/1409.0473), without the tanh.

    Queries and keys may differ in size. A softmax cancels the term of the query, so that all
    queries get the same weights; other normalizers keep it, and so does an activation. With
    `"leaky_relu"`, it is the score of graph attention networks (Veličković et al. 2018,
    https://arxiv.org/abs/1710.10903), where a mask tells which nodes are neighbors. Time
    `O(Tq · Tk)`.

    Args:
        kernel_initializer: Initializer of `w_q` and `w_k`.
        activation: Applied to the sum: a name, a function, or `None` for none.

    Example:

    >>> score = LinearAdditive(kernel_initializer="ones")
    >>> score(np.array([[[1.0, 2.0]]]), np.array([[[10.0], [20.0]]])).numpy().tolist()
    [[[13.0, 23.0]]]
    """

    pair_size = 1
    uses_positions = False

    def __init__(self, kernel_initializer="glorot_uniform", activation=None, **kwargs):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.activation = activations.get(activation)

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        for name, shape in {"query_kernel": query_shape, "key_kernel": key_shape}.items():
            initializer = for_each_head(self.kernel_initializer)
            shape = (*self.heads, shape[-1], 1)
            setattr(self, name, self.add_weight(name=name, shape=shape, initializer=initializer))

    def prepare_query(self, query, positions):
        return matmul(query, ops.cast(self.query_kernel, query.dtype))

    def prepare_key(self, key, positions):
        return matmul(key, ops.cast(self.key_kernel, key.dtype))

    @property
    def pairwise_weights(self):
        return []

    def pairwise(self, query, key):
        return self.activation(query + transposed(key))

    def get_config(self):
        initializer = keras.initializers.serialize(self.kernel_initializer)
        activation = activations.serialize(self.activation)
        return {
            **super().get_config(),
            "kernel_initializer": initializer,
            "activation": activation,
        }

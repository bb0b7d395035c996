"""Pooling by attention: a sequence becomes one vector, or a fixed number of them."""

from typing import Any

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import require_positive_integers_or_none
from keras_attention._layer import ChecksArguments, as_floats, require_sequence
from keras_attention._recompute import Recomputable
from keras_attention._registry import serialize
from keras_attention.attention import memory_attention


@keras.saving.register_keras_serializable(package="keras_attention")
class AttentionPooling(ChecksArguments, Recomputable):
    """Pools a sequence of vectors into one, or into a few, by the attention of learned queries.

    $$ y_i = attend(q_i, h), \\quad q_1, …, q_n \\text{ learned} $$

    The default is word attention, which weights the states of a recurrent layer in a text
    classifier:

    $$ α_t = softmax_t(v^⊤ \\tanh(W h_t + b)), \\quad y = \\sum_t α_t h_t $$

    where `b` contains the projection of the query. `MultiHeadAttention` gives the pooling of the
    Set Transformer, and of many Vision Transformers in place of a class token.

    Papers: Yang et al. 2016, Hierarchical Attention Networks, section 2.2
    (https://aclanthology.org/N16-1174); Lee et al. 2019, Set Transformer, section 3.2
    (https://arxiv.org/abs/1810.00825).

    Args:
        attention: An `Attention` or `MultiHeadAttention` layer, or the name of a score.
        num_queries: Number of learned queries, each of which gives one vector. By default there is
            one, whose axis is left out of the output.

    Call arguments:
        x: Tensor `(batch, length, size)`.
        mask: Boolean `(batch, length)`: `False` for padding; combined with Keras' implicit mask. A
            sequence of nothing but padding gives zeros, plus any bias of the output projection.
        return_attention_scores: Whether to also return the attention weights.
        training: Whether to apply dropout.

    Output shape:
        `(batch, output_size)`, or `(batch, num_queries, output_size)`; with
        `return_attention_scores` also the weights before dropout, float32 `(batch, length)` or
        `(batch, num_queries, length)`, with an axis of heads after the batch for multi-head
        attention.

    Raises:
        ValueError: If `attention` is neither a name nor such a layer, `num_queries` is not a
            positive integer, or `x` is not of rank 3.

    Example:

    A classifier of texts, which returns one vector for each:

    >>> model = keras.Sequential([
    ...     keras.layers.Embedding(1000, 16, mask_zero=True),
    ...     keras.layers.Bidirectional(keras.layers.GRU(8, return_sequences=True)),
    ...     AttentionPooling(),
    ...     keras.layers.Dense(2, activation="softmax"),
    ... ])
    >>> tuple(model(np.array([[5, 7, 9, 0], [3, 0, 0, 0]])).shape)
    (2, 2)
    >>> y, weights = AttentionPooling("additive", num_queries=3)(
    ...     np.ones((2, 5, 4)), return_attention_scores=True)
    >>> tuple(y.shape), tuple(weights.shape)
    ((2, 3, 4), (2, 3, 5))
    """

    def __init__(
        self, attention: Any = "additive", num_queries: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        require_positive_integers_or_none("AttentionPooling", num_queries=num_queries)
        self.supports_masking = True
        with keras.RematScope(mode=None):
            self.attention = memory_attention("AttentionPooling", attention, self.dtype_policy)
        self.num_queries = num_queries

    def build(self, x_shape):
        require_sequence(type(self).__name__, x_shape)
        batch, _, size = x_shape
        number = self.num_queries or 1
        self.query = self.add_weight(
            name="query",
            shape=(number, size),
            initializer=keras.initializers.TruncatedNormal(stddev=1.0),
        )
        if not self.attention.built:  # already built if loaded from a file or shared
            with keras.RematScope(mode=None):
                self.attention.build((batch, number, size), x_shape)

    def call(self, x, mask=None, return_attention_scores=False, training=None):
        query = ops.cast(ops.convert_to_tensor(self.query), self.compute_dtype)
        query = ops.broadcast_to(query, (shape_of(x)[0], *query.shape))
        found = self.attention(
            query,
            as_floats(x, self.compute_dtype),
            value_mask=mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        pooled, weights = found if return_attention_scores else (found, None)
        if self.num_queries is None:
            pooled = ops.squeeze(pooled, axis=1)
            weights = None if weights is None else ops.squeeze(weights, axis=-2)
        return (pooled, weights) if return_attention_scores else pooled

    def compute_mask(self, x, previous_mask=None):
        """Returns `None`: every vector of the output counts."""
        return

    def compute_output_shape(self, x_shape):
        """Returns the shape of the output, without that of the weights."""
        require_sequence(type(self).__name__, x_shape)
        query_shape = (x_shape[0], self.num_queries or 1, x_shape[2])
        batch, number, *sizes = self.attention.compute_output_shape(query_shape, x_shape)
        return (batch, *sizes) if self.num_queries is None else (batch, number, *sizes)

    def get_config(self):
        return {
            **super().get_config(),
            "attention": serialize(self.attention),
            "num_queries": self.num_queries,
        }

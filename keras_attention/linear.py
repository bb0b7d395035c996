"""Linear attention: a feature map of queries and keys gives time and memory linear in length."""

from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention import masks
from keras_attention._approximation import Approximation
from keras_attention._constant_memory import ConstantMemory
from keras_attention._memory import Memory, MemoryAttention
from keras_attention.compute import features


@keras.saving.register_keras_serializable(package="keras_attention")
class LinearAttention(ConstantMemory, MemoryAttention, Approximation):
    """Multi-head attention whose weights are dot products of positive features of query and key.

    $$ head_i = \\frac{φ(q_i)^T \\sum_j φ(k_j) v_j^T}{φ(q_i)^T \\sum_j φ(k_j)}, \\quad
       φ(x) = elu(x) + 1 $$

    The sums over the keys are the same for every query, so time and memory are linear in the
    length. This also holds with the causal mask, which is computed from pairs inside chunks of keys
    and running sums from chunk to chunk. The weights are positive and sum to 1, as after a softmax,
    but are less sharp.

    With `causal=True`, the layer is also a recurrent network that decodes step by step: `room_for`
    returns its empty memory, and `step` adds the next positions. The memory holds sums, so its size
    does not depend on the number of positions.

    For a custom feature map, override `log_features`. The feature map of `PerformerAttention`
    approximates softmax attention.

    Paper: Katharopoulos et al. 2020, Transformers are RNNs (https://arxiv.org/abs/2006.16236).

    Args:
        num_heads, key_dim, value_dim, output_dim: As for `MultiHeadAttention`.
        causal: Whether to always apply the causal mask.
        use_bias: As for `MultiHeadAttention`.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but `attention_mask` is not supported.

    Output shape:
        `(batch, query_length, output_dim)`; with `return_attention_scores` also the equivalent
        weights, float32 `(batch, num_heads, query_length, key_length)`. They are meant for
        inspection and take quadratic time and memory.

    Raises:
        ValueError: If a size is not positive, or a mask is not supported.

    Example:

    >>> layer = LinearAttention(num_heads=2, key_dim=4, causal=True)
    >>> x = np.ones((2, 50, 8))
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 50, 8), (2, 2, 50, 50))

    A prompt of 49 positions, and one step:

    >>> memory = layer.room_for(x)
    >>> _, _, memory = layer.step(x[:, :49], memory, start=0)
    >>> context, _, memory = layer.step(x[:, 49:], memory, start=49)
    >>> np.allclose(context, output[:, 49:], atol=1e-5)
    True
    """

    memory_class = features.Sums

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        output_dim: int | None = None,
        causal: bool = False,
        use_bias: bool | Collection[str] = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, use_bias, output_dim=output_dim, **kwargs)
        self.causal = causal

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._require_fitting_shapes(query_shape, value_shape, key_shape)
        self._build_projections(query_shape, value_shape, key_shape)

    def log_features(self, x):
        """Returns the logarithms of the features, so that their sums neither overflow nor vanish.

        Args:
            x: Queries or keys, float32 `(batch, heads, length, key_dim)`.

        Returns:
            Tensor `(batch, heads, length, num_features)`, float32.
        """
        return ops.where(x > 0, ops.log(1.0 + ops.relu(x)), x)  # tf2onnx has no log1p

    def _empty_memory(self, value):
        one = self.prepare(value[:, :1])
        return features.empty_sums(one.key, one.value)

    def _next(self, x, memory, start):
        new = self.prepare(x)
        query = self._queries(self._ready(x, new.mask))
        context, memory = features.attend_next(query, new.key, new.value, memory, new.mask)
        return self._merge(context), memory

    def _require_steps(self):
        if not self.causal:
            raise ValueError(
                f"{type(self).__name__} must be causal for steps, since its memory does not yet "
                "hold later positions. Received: causal=False. Make the layer with causal=True."
            )

    def _queries(self, query):
        """Returns the logarithms of the features of queries."""
        query = self._project(self.query_projection, query, self.key_dim)
        return self.log_features(ops.cast(query, "float32"))

    def _prepare(self, key, value, mask, start):
        key = self._project(self.key_projection, key, self.key_dim)
        value = self._project(self.value_projection, value, self.value_dim)
        return Memory(self.log_features(ops.cast(key, "float32")), value, mask)

    def _attend(self, query, memory, query_mask, mask, training, start, return_attention_scores):
        self._require_possible(attention_mask=None if isinstance(mask, masks.Causal) else mask)
        causal = self.causal or mask is not None
        if causal and start is not None:
            self._refuse("start", "its causal queries end where the keys end", "Omit it")
        query = self._queries(query)
        visible = memory.mask, query_mask, causal
        context = features.attend_by_features(query, memory.key, memory.value, *visible)
        weights = None
        if return_attention_scores:
            weights = features.weights(query, memory.key, *visible)
        return self._merge(context), weights

    def _require_possible(self, key=None, attention_mask=None, use_causal_mask=False):
        if attention_mask is not None:
            self._refuse(
                "attention_mask",
                "it never forms the pairs of queries and keys",
                "Hide keys from all queries with value_mask or key_mask, and later ones with "
                "causal=True",
            )

    def get_config(self):
        return {**super().get_config(), "causal": self.causal}

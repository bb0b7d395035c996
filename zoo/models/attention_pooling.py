"""The vector of a sequence, by the attention of a learned query."""

import keras
from keras import ops

from keras_attention import MultiHeadAttention


@keras.saving.register_keras_serializable(package="zoo")
class AttentionPooling(keras.layers.Layer):
    """Pools several vectors into one, by the attention of a learned query.

    Paper: Lee et al. 2019, Set Transformer, section 3.2 (https://arxiv.org/abs/1810.00825).

    Args:
        num_heads: Number of heads, which may attend to different vectors.

    Call arguments:
        x: `(batch, length, size)`.
        mask: Boolean `(batch, length)`, `False` for padding.
        return_attention_scores: Whether to also return the weights.

    Output shape:
        `(batch, size)`; with `return_attention_scores` a tuple, with weights `(batch, heads, 1,
        length)`.
    """

    def __init__(self, num_heads, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = num_heads

    def compute_mask(self, x, previous_mask=None):
        """Returns nothing: the output has no length axis."""

    def build(self, x_shape):
        size = x_shape[-1]
        self.query = self.add_weight(
            name="query", shape=(1, size), initializer=keras.initializers.TruncatedNormal(stddev=1)
        )
        self.attention = MultiHeadAttention(
            self.num_heads, size // self.num_heads, dtype=self.dtype_policy, name="attention"
        )
        self.attention.build((None, 1, size), x_shape)

    def call(self, x, mask=None, return_attention_scores=False, training=None):
        query = ops.cast(ops.convert_to_tensor(self.query), x.dtype)
        query = ops.broadcast_to(query, (ops.shape(x)[0], 1, x.shape[-1]))
        flags = {"return_attention_scores": return_attention_scores, "training": training}
        found = self.attention(query, x, value_mask=mask, **flags)
        return (found[0][:, 0], found[1]) if return_attention_scores else found[:, 0]

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads}

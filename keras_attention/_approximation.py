"""What the approximations of multi-head attention have in common."""

import keras

from keras_attention._heads import MultiHeadLayer


class Approximation(MultiHeadLayer):
    """Heads with a fixed score, mask, normalizer, …, which are options of `MultiHeadAttention`."""

    def compute_output_spec(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        use_causal_mask=False,
        training=None,
    ):
        # Stated here, because JAX cannot trace lengths that are cut into chunks or buckets.
        self._require_possible(key, attention_mask, use_causal_mask)
        shapes = query.shape, value.shape, value.shape if key is None else key.shape
        output = keras.KerasTensor(self.compute_output_shape(*shapes), dtype=self.compute_dtype)
        weights_shape = self._weights_shape(query.shape, value.shape)
        weights = keras.KerasTensor(weights_shape, dtype="float32")
        return (output, weights) if return_attention_scores else output

    def _weights_shape(self, query_shape, value_shape):
        """Returns the shape of the weights."""
        return (query_shape[0], self.num_heads, query_shape[1], value_shape[1])

    def _require_possible(self, key=None, attention_mask=None, use_causal_mask=False):
        """Raises a `ValueError` for call arguments that the mechanism does not support."""
        raise NotImplementedError

    def _refuse_pairs(self, attention_mask, use_causal_mask, reason):
        """Raises a `ValueError` for masks that hide keys from only some of the queries."""
        if use_causal_mask or attention_mask is not None:
            self._refuse(
                "use_causal_mask" if use_causal_mask else "attention_mask",
                reason,
                "Hide keys from all queries with value_mask or key_mask",
            )

    def _refuse(self, argument, reason, way_out):
        raise ValueError(
            f"{type(self).__name__} cannot honour `{argument}`: {reason}. {way_out}, or use "
            "MultiHeadAttention."
        )

"""Layers whose queries, keys and values are one sequence."""

from keras import ops

from keras_attention._approximation import Approximation
from keras_attention._backend import shape_of
from keras_attention._layer import both


class WithinOneSequence(Approximation):
    """Self-attention: query and value have one length, and a hidden position is hidden as both."""

    def _visible(self, query, value, query_mask=None, value_mask=None, key_mask=None):
        """Joins all padding masks, explicit and implicit: booleans `(batch or 1, length)`."""
        mask = self._padding(query, value, value, query_mask, value_mask, key_mask)
        return ops.ones((1, shape_of(query)[1]), "bool") if mask is None else mask

    def _padding(self, query, value, key, query_mask, value_mask, key_mask):
        """Joins all padding masks: booleans `(batch, length)`, or `None` if there are none."""
        visible = None
        for name, mask, tensor in [
            ("query_mask", query_mask, query),
            ("value_mask", value_mask, value),
            ("key_mask", key_mask, key),
        ]:
            visible = both(visible, self._padding_mask(name, mask, tensor))
        return visible

    def _require_fitting_shapes(self, query_shape, value_shape, key_shape):
        super()._require_fitting_shapes(query_shape, value_shape, key_shape)
        if None not in (query_shape[1], value_shape[1]) and query_shape[1] != value_shape[1]:
            raise ValueError(
                f"{type(self).__name__} attends within one sequence, so query and value must have "
                f"the same length. Received: query {tuple(query_shape)}, value "
                f"{tuple(value_shape)}. Pass the same tensor as query and value, or use "
                "MultiHeadAttention."
            )

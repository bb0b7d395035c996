"""What the approximations of multi-head attention have in common."""

import inspect

import keras

from keras_attention.multi_head import MultiHeadAttention


class Approximation(MultiHeadAttention):
    """What the approximations of multi-head attention have in common.

    They keep its projections and its call, and fix what it lets one choose: score, mask, ...
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim,
        output_dim,
        use_bias,
        kernel_initializer,
        seed,
        dropout=0.0,
        **kwargs,
    ):
        fixed = sorted(kwargs.keys() & inspect.signature(MultiHeadAttention).parameters.keys())
        if fixed:
            raise ValueError(
                f"{type(self).__name__} fixes what MultiHeadAttention lets one choose: it has no "
                f"argument {', '.join(fixed)}. Leave it out, or use MultiHeadAttention."
            )
        super().__init__(
            num_heads,
            key_dim,
            value_dim=value_dim,
            output_dim=output_dim,
            dropout=dropout,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            seed=seed,
            **kwargs,
        )

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
        # Said here, because JAX cannot follow lengths that are cut into chunks or buckets.
        key_shape = value.shape if key is None else key.shape
        self._require_fitting_shapes(query.shape, value.shape, key_shape)
        self._require_possible(key, attention_mask, use_causal_mask)
        batch, length, size = query.shape
        output_shape = batch, length, self.output_dim or size
        output = keras.KerasTensor(output_shape, dtype=self.compute_dtype)
        weights_shape = batch, self.num_heads, length, self._number_of_weights(value.shape[1])
        weights = keras.KerasTensor(weights_shape, dtype="float32")
        return (output, weights) if return_attention_scores else output

    def _number_of_weights(self, key_length):
        """Returns how many weights a query has."""
        return key_length

    def _require_possible(self, key=None, attention_mask=None, use_causal_mask=False):
        """Raises a `ValueError` for arguments of a call that the mechanism cannot honour."""
        raise NotImplementedError

    def extend(self, *args, **kwargs):
        raise ValueError(
            f"{type(self).__name__} has no memory that grows key by key. Prepare the memory of all "
            "keys, or use MultiHeadAttention for a cache."
        )

    def _refuse(self, argument, reason, way_out):
        raise ValueError(
            f"{type(self).__name__} cannot honour `{argument}`: {reason}. {way_out}, or use "
            "MultiHeadAttention."
        )

    def get_config(self):
        config = super().get_config()
        chosen = inspect.signature(type(self)).parameters.keys()
        of_every_layer = keras.layers.Layer.get_config(self).keys()
        return {name: config[name] for name in config if name in chosen or name in of_every_layer}
